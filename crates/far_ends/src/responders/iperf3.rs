//! Server of iperf3, for clients from 3.1 on: TCP and UDP, in either direction and in both at once, with up to 128
//! streams.
//!
//! ```text
//! client                                             here
//! cookie ────────────────────────────────────────▶   desk: the turn is free?   ── no: ACCESS_DENIED
//!            ◀──────────────────── PARAM_EXCHANGE
//! parameters (JSON) ─────────────────────────────▶   within the limits?        ── no: SERVER_ERROR, a number
//!            ◀──────────────────── CREATE_STREAMS
//! cookie on each stream, or 4 bytes of UDP ──────▶   streams, by the order of their connections
//!            ◀────────── TEST_START, TEST_RUNNING
//! data       ◀───────────────────────────────────▶   a thread for each stream; limits bind at each call
//! TEST_END ──────────────────────────────────────▶
//!            ◀────────────────── EXCHANGE_RESULTS
//! results (JSON) ────────────────────────────────▶
//!            ◀────────── results, DISPLAY_RESULTS
//! IPERF_DONE ────────────────────────────────────▶
//! ```
//! One test runs at a time, in the turn of a trial; other clients are turned away as iperf3's own server does. UDP is sent to
//! the address of the control connection alone, which TCP's handshake has proved.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use deadheat_base::descriptor::ready;
use deadheat_base::origins::{Admission, Shares};

use crate::iperf3::states::State;
use control::ControlLine;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::answering::{self, AnswerSocket};
use deadheat_datapath::datapath::destination::canonical;
use deadheat_datapath::transport::responder::{
    Answered, NoGrant, OpenResponder, Responder, ResponderHost, ResponderInfo, ResponderLoad,
};
use run::{StreamArrival, TestRun};

mod asked;
mod control;
mod course;
mod datagrams;
mod outcome;
mod run;
mod streams;
mod tally;
mod threads;

/// Server of iperf3.
pub(super) struct Iperf3Responder;

static INFO: ResponderInfo = ResponderInfo {
    id: "iperf3",
    clients: "iperf3 clients",
    summary: "Answer iperf3 clients",
    port: 5201,
    answers: &[
        Answered {
            over: "TCP",
            what: "takes and sends bytes, and counts them",
            load: ResponderLoad::Turn,
        },
        Answered {
            over: "UDP",
            what: "takes and sends datagrams, and counts loss and jitter",
            load: ResponderLoad::Turn,
        },
    ],
    key: None,
};

/// Length of a cookie: 36 characters and a NUL.
const COOKIE_LEN: usize = 37;

/// Number of connections that have not sent their cookie yet or wait for their turn, and their time for the cookie.
const PENDING: Shares = Shares { in_all: 64, of_one: 64 };
const COOKIE_TIME: Nanos = Nanos::from_secs(5);

/// Age from which a connection without its cookie makes room for one of another origin: clients send it at once.
const STALE: Nanos = Nanos::from_millis(100);

/// Time that a client waits while another one's test runs. That one may be over: its client is gone, and a busy host has
/// not let the test notice it yet.
const TURN_TIME: Nanos = Nanos::from_millis(200);

/// Time that a client waits for a turn that another one has and does not use, or that has just ended: such a turn ends within
/// five seconds.
const UNUSED_TIME: Nanos = Nanos::from_secs(7);

/// Time between two looks at whether it is over.
const GLANCE: Nanos = Nanos::from_millis(10);

/// Room for datagrams that have arrived.
const DATAGRAM_ROOM: usize = 4 << 20;

impl Responder for Iperf3Responder {
    fn info(&self) -> &'static ResponderInfo {
        &INFO
    }

    fn open(&self, at: SocketAddr, _key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>> {
        let (tcp, udp) = answering::both(at)?;
        udp.make_room(DATAGRAM_ROOM);
        let local = udp.local_addr().map_err(|e| Error::setup("read an address", e))?;
        Ok(Box::new(OpenIperf3 { tcp, udp, local }))
    }
}

/// Open server.
struct OpenIperf3 {
    tcp: TcpListener,
    udp: AnswerSocket,
    local: SocketAddr,
}

/// Cookie of a test.
type Cookie = [u8; COOKIE_LEN];

/// Test that runs, as those who connect see it.
struct RunningTest {
    cookie: Cookie,
    client: IpAddr,
    streams: Sender<StreamArrival>,
}

/// Connection that has not sent its whole cookie, or waits for the end of a test.
struct PendingConnection {
    stream: TcpStream,
    peer: SocketAddr,
    since: Nanos,
    /// Place among all connections, in their order.
    order: u64,
    cookie: Cookie,
    have: usize,
}

impl PendingConnection {
    /// Returns true if its whole cookie is there.
    fn is_named(&self) -> bool {
        self.have == COOKIE_LEN
    }

    /// Returns the time of the next look at it.
    fn due(&self, now: Nanos) -> Nanos {
        match self.is_named() {
            true => now + GLANCE,
            false if self.is_stale(now) => self.since + COOKIE_TIME,
            false => self.since + STALE,
        }
    }

    /// Returns true if it may make room for another.
    fn is_stale(&self, now: Nanos) -> bool {
        !self.is_named() && now - self.since >= STALE
    }
}

/// Environment of the tests of a server.
#[derive(Clone, Copy)]
struct Desk<'a> {
    udp: &'a AnswerSocket,
    here: SocketAddr,
    host: &'a dyn ResponderHost,
    stop: BorrowedFd<'a>,
    running: &'a Mutex<Option<RunningTest>>,
}

impl OpenResponder for OpenIperf3 {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn serve(&mut self, host: &dyn ResponderHost, stop: BorrowedFd<'_>) -> Result<()> {
        let running = Mutex::default();
        let desk = Desk { udp: &self.udp, here: self.local, host, stop, running: &running };
        let tcp = &self.tcp;
        std::thread::scope(|scope| {
            let (mut pending, mut order) = (Vec::new(), 0);
            while wait(tcp, stop, &pending)? {
                read_cookies(&mut pending, &mut |one, now| desk.judge(scope, one, now));
                accept(tcp, &mut pending, &mut order);
            }
            Ok(())
        })
    }
}

/// Waits for a connection, or for a cookie; returns false when the server stops.
fn wait(tcp: &TcpListener, stop: BorrowedFd<'_>, pending: &[PendingConnection]) -> Result<bool> {
    let now = Monotonic.now();
    let fds = [Some(stop), has_room(pending, now).then_some(tcp.as_fd())];
    let unnamed = pending.iter().filter(|one| !one.is_named());
    let fds = fds.into_iter().chain(unnamed.map(|one| Some(one.stream.as_fd())));
    let timeout = pending.iter().map(|one| one.due(now)).min().map(|due| due - now);
    let found = ready(fds.map(|fd| (fd, libc::POLLIN)), timeout);
    Ok(!found.map_err(|e| Error::setup("wait for iperf3 clients", e))?[0])
}

/// Returns true if a connection may be accepted: the streams of one test may be more than have room at a time, and wait.
fn has_room(pending: &[PendingConnection], now: Nanos) -> bool {
    pending.len() < PENDING.in_all || pending.iter().any(|one| one.is_stale(now))
}

fn accept(tcp: &TcpListener, pending: &mut Vec<PendingConnection>, order: &mut u64) {
    let since = Monotonic.now();
    while has_room(pending, since) {
        let Ok((stream, peer)) = tcp.accept() else { return };
        let (peer, cookie) = (canonical(peer), [0; COOKIE_LEN]);
        // The silent ones of an origin go first.
        pending.sort_by_key(|one| (one.is_named(), one.order));
        match PENDING.admit(peer.ip(), pending.iter().map(|one| one.peer.ip())) {
            Admission::Free => {}
            Admission::Replaces(at) => drop(pending.remove(at)),
            Admission::OwnShare | Admission::Full => continue,
        }
        if stream.set_nonblocking(true).is_ok() {
            pending.push(PendingConnection { stream, peer, since, order: *order, cookie, have: 0 });
            *order += 1;
        }
    }
}

/// Reads cookies, and hands each connection with a whole cookie to `judge`, which returns it if it is to wait.
fn read_cookies(
    pending: &mut Vec<PendingConnection>,
    judge: &mut dyn FnMut(PendingConnection, Nanos) -> Option<PendingConnection>,
) {
    let now = Monotonic.now();
    for mut one in std::mem::take(pending) {
        if one.is_named() {
            // One that has left wants no turn.
            if !matches!(one.stream.peek(&mut [0]), Ok(0)) {
                pending.extend(judge(one, now));
            }
            continue;
        }
        let stays = match (&one.stream).read(&mut one.cookie[one.have..]) {
            Ok(0) => false,
            Ok(len) => {
                one.have += len;
                true
            }
            Err(e) => matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        if one.is_named() {
            pending.extend(judge(one, now));
        } else if stays && now - one.since < COOKIE_TIME {
            pending.push(one);
        }
    }
}

impl<'a> Desk<'a> {
    /// Hands a connection to the test whose cookie it has, begins a test, or turns it away; returns it if it is to wait.
    fn judge<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        one: PendingConnection,
        now: Nanos,
    ) -> Option<PendingConnection>
    where
        'a: 'scope,
    {
        let mut running = self.lock();
        if let Some(test) = &*running {
            if test.cookie == one.cookie && test.client == one.peer.ip() {
                // The test may end just now; then the stream is closed.
                let _ = test.streams.send(StreamArrival { stream: one.stream, order: one.order });
                return None;
            }
            let why = self.host.knock(one.peer);
            return self.wait_or_deny(one, now, &why);
        }
        let grant = match self.host.begin(one.peer) {
            Ok(grant) => Ok(grant),
            Err(NoGrant::Refused(why)) => Err(why),
            Err(why) => return self.wait_or_deny(one, now, &why),
        };
        let PendingConnection { stream, peer, cookie, .. } = one;
        let (streams, arrivals) = channel();
        *running = Some(RunningTest { cookie, client: peer.ip(), streams });
        drop(running);
        self.host.greet(peer, "a test");
        let work = move || {
            let control = ControlLine::new(stream, self.stop);
            let test = TestRun {
                control,
                peer,
                here: self.here,
                host: self.host,
                udp: self.udp,
                arrivals,
            };
            let ran = catch_unwind(AssertUnwindSafe(|| test.run(grant)));
            if ran.is_err() {
                self.host.note(peer, "the test ended by a fault in deadheat; please report it");
            }
            *self.lock() = None;
        };
        let spawned =
            std::thread::Builder::new().name("iperf3 test".into()).spawn_scoped(scope, work);
        if let Err(e) = spawned {
            self.host.note(peer, &format!("no thread for it: {e}"));
            *self.lock() = None;
        }
        None
    }

    /// Returns a connection that waits for its turn, or turns it away.
    fn wait_or_deny(
        self,
        one: PendingConnection,
        now: Nanos,
        why: &NoGrant,
    ) -> Option<PendingConnection> {
        let patience = if *why == NoGrant::Soon { UNUSED_TIME } else { TURN_TIME };
        if now - one.since < patience {
            return Some(one);
        }
        self.host.note(one.peer, "turned away: another test or trial runs");
        deny(&one.stream);
        None
    }

    fn lock(&self) -> MutexGuard<'a, Option<RunningTest>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns a connection away, as iperf3's server does while a test runs.
fn deny(mut stream: &TcpStream) {
    // It may be gone, or take nothing; then it is closed without a word.
    let _ = stream.write(&State::ACCESS_DENIED.0.to_be_bytes());
    let _ = stream.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests;

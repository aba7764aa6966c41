//! Attempts to open connections over TCP, each of which stands for a message: the far kernel answers with SYN-ACK or RST
//! (RFC 9293, 3.5), and each connection that opened is reset at once. No raw socket is needed: connect(2) sends the SYN,
//! and its end is that of the round trip. What is lost the kernel repeats after a second (RFC 6298).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::SHORTEST_INTERVAL;
use crate::reflected::SentMessages;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source, WaitMode};
use deadheat_contract::measurements::ConnStats;
use deadheat_contract::workload::header::{FarStamps, Reflected, ReflectorClock};
use deadheat_datapath::datapath::epoll::Epoll;
use deadheat_datapath::datapath::origin;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::datapath::wait::{Interest, Waiter};
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::{
    Conn, ConnInfo, Dial, Effective, Progress, Readiness, effective_options, unstamped,
};

/// Attempts that may be open at once.
const MOST_OPEN: usize = 512;
/// Time after which an attempt is given up.
const GIVE_UP: Nanos = Nanos::from_secs(10);

/// Outcome of a look at an attempt.
#[derive(Debug)]
enum AttemptState {
    Pending,
    /// SYN-ACK, as a program listens at the port, or RST, as none does.
    Answered {
        accepts: bool,
    },
    /// The network returned an error, or the kernel gave up.
    Failed(io::Error),
}

/// Open attempt.
struct Attempt {
    socket: Socket,
    number: u32,
    since: Nanos,
    /// State at the end of connect(2), if it did not go on after it.
    at_once: Option<AttemptState>,
}

/// Attempts to one port of a host.
pub(super) struct AttemptConn {
    to: SocketAddr,
    header: HeaderTerms,
    epoll: Epoll,
    open: Vec<Option<Attempt>>,
    /// Place in `open` at which the search for a free one begins.
    next: usize,
    sent: SentMessages,
    message: Box<[u8]>,
    /// Places of answered attempts, by the last wait.
    ready: Vec<usize>,
    accepted: u64,
    refused: u64,
    stats: ConnStats,
}

/// Time of the last attempt of this process that waited for its turn, in nanoseconds.
static LAST: AtomicU64 = AtomicU64::new(0);

impl AttemptConn {
    /// Makes a first attempt, which has to be answered in time.
    ///
    /// # Errors
    /// [`Error::Blocked`] with the evidence if no answer came: the port is filtered; [`Error::Setup`] if this host could
    /// not send.
    pub(super) fn dial(to: SocketAddr, dial: &Dial<'_>) -> Result<AttemptConn> {
        AttemptConn::open(to, HeaderTerms::of(dial.knobs), dial.largest_message, dial.timeout)
    }

    fn open(
        to: SocketAddr,
        header: HeaderTerms,
        largest: usize,
        timeout: Nanos,
    ) -> Result<AttemptConn> {
        let failed = |source| Error::setup(format!("watch attempts to connect to {to}"), source);
        let mut conn = AttemptConn {
            to,
            header,
            epoll: Epoll::new().map_err(failed)?,
            open: (0..MOST_OPEN).map(|_| None).collect(),
            next: 0,
            sent: SentMessages::new(largest, 0),
            message: vec![0; largest].into_boxed_slice(),
            ready: Vec::with_capacity(MOST_OPEN),
            accepted: 0,
            refused: 0,
            stats: ConnStats::default(),
        };
        await_turn();
        let began = Monotonic.now();
        let attempt = conn.attempt(0)?;
        let state = attempt.end(&conn.epoll, began + timeout).map_err(failed)?;
        conn.stats.connect_ns = (Monotonic.now() - began).0;
        match state {
            AttemptState::Answered { accepts } => conn.count(accepts),
            AttemptState::Pending => return Err(filtered(to, timeout, None)),
            AttemptState::Failed(error) => {
                return Err(filtered(to, Monotonic.now() - began, Some(&error)));
            }
        }
        Ok(conn)
    }

    /// Begins an attempt.
    fn attempt(&mut self, number: u32) -> Result<Attempt> {
        let to = self.to;
        let failed = |source| Error::setup(format!("connect to {to} over TCP"), source);
        let socket = Socket::new(
            Domain::for_address(to),
            Type::STREAM.nonblocking().cloexec(),
            Some(Protocol::TCP),
        )
        .map_err(failed)?;
        origin::bind(&socket, to)?;
        self.header.set(&socket)?;
        // Closing resets the connection: neither end keeps it.
        socket.set_linger(Some(Duration::ZERO)).map_err(failed)?;
        self.stats.send_calls += 1;
        let at_once = match socket.connect(&to.into()) {
            Ok(()) => Some(AttemptState::Answered { accepts: true }),
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => None,
            Err(e) => Some(state_of(e)),
        };
        Ok(Attempt { socket, number, since: Monotonic.now(), at_once })
    }

    fn count(&mut self, accepts: bool) {
        let count = if accepts { &mut self.accepted } else { &mut self.refused };
        *count += 1;
    }

    /// Returns a free place; gives attempts up that nobody answered for long.
    fn free_place(&mut self, now: Nanos) -> Option<usize> {
        for _ in 0..MOST_OPEN {
            self.next = (self.next + 1) % MOST_OPEN;
            let place = &mut self.open[self.next];
            if place.as_ref().is_some_and(|attempt| now - attempt.since >= GIVE_UP) {
                *place = None;
            }
            if place.is_none() {
                return Some(self.next);
            }
        }
        None
    }
}

impl Attempt {
    /// Waits for the end of the attempt until `deadline`.
    fn end(mut self, epoll: &Epoll, deadline: Nanos) -> io::Result<AttemptState> {
        if let Some(state) = self.at_once.take() {
            return Ok(state);
        }
        epoll.add(self.socket.as_fd(), 0)?;
        epoll.change(self.socket.as_fd(), Interest::ReadWrite, 0)?;
        let waiter = Waiter::new(WaitMode::Hybrid);
        loop {
            waiter.wait(&Monotonic, Some(epoll.as_fd()), Some(deadline), Interest::Read)?;
            match self.state()? {
                AttemptState::Pending if Monotonic.now() < deadline => {}
                state => return Ok(state),
            }
        }
    }

    fn state(&mut self) -> io::Result<AttemptState> {
        if let Some(state) = self.at_once.take() {
            return Ok(state);
        }
        match self.socket.take_error()? {
            Some(error) => Ok(state_of(error)),
            // A peer's address is known once the handshake is over.
            None if self.socket.peer_addr().is_ok() => Ok(AttemptState::Answered { accepts: true }),
            None => Ok(AttemptState::Pending),
        }
    }
}

fn state_of(error: io::Error) -> AttemptState {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => AttemptState::Answered { accepts: false },
        _ => AttemptState::Failed(error),
    }
}

/// Waits until an attempt is no flood after the last one of this process.
fn await_turn() {
    let now = Monotonic.now();
    let turn = Nanos(LAST.load(Ordering::Relaxed)) + SHORTEST_INTERVAL;
    if turn > now {
        std::thread::sleep((turn - now).into());
    }
    LAST.store(Monotonic.now().0, Ordering::Relaxed);
}

/// Returns the error of a port that does not answer.
fn filtered(to: SocketAddr, waited: Nanos, error: Option<&io::Error>) -> Error {
    let seen = match error {
        Some(error) => format!("the network answered: {error}"),
        None => format!("neither SYN-ACK nor RST came back in {waited}"),
    };
    Error::blocked(format!(
        "tried to connect to {to} over TCP: {seen}; the port is filtered by a firewall, or the host is down; give another \
         port, as host://HOST:80"
    ))
}

impl Conn for AttemptConn {
    fn readiness(&self) -> Readiness<'_> {
        Readiness { fd: Some(self.epoll.as_fd()), room: Interest::Read, has_backlog: false }
    }

    /// Returns nothing: each attempt has a socket of its own.
    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn send(&mut self, _lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let Some(place) = self.free_place(Monotonic.now()) else { return Ok(Progress::Idle) };
        self.sent.keep(message);
        let attempt = self.attempt(self.sent.next()).map_err(io::Error::other)?;
        self.sent.sent();
        if let Some(AttemptState::Failed(_)) = attempt.at_once {
            self.stats.network_errors += 1;
            return Ok(Progress::Moved);
        }
        self.epoll.add(attempt.socket.as_fd(), place)?;
        self.epoll.change(attempt.socket.as_fd(), Interest::ReadWrite, place)?;
        self.open[place] = Some(attempt);
        Ok(Progress::Moved)
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.stats.receive_calls += 1;
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let waited = self.epoll.wait(patience, |place| ready.push(place));
        let mut progress = Progress::Idle;
        for place in &ready {
            let Some(mut attempt) = self.open[*place].take() else { continue };
            match attempt.state()? {
                AttemptState::Pending => self.open[*place] = Some(attempt),
                AttemptState::Failed(_) => self.stats.network_errors += 1,
                AttemptState::Answered { accepts } => {
                    self.count(accepts);
                    progress = Progress::Moved;
                    let reflected = Some(Reflected { count: None, clock: ReflectorClock::Unsaid });
                    let stamps = FarStamps { received_ns: 0, sent_ns: 0, reflected };
                    let len = self.sent.answer(attempt.number, stamps, &mut self.message);
                    inbox.message(Lane::default(), &self.message[..len.unwrap_or(0)]);
                }
            }
        }
        self.ready = ready;
        waited.map(|()| progress)
    }

    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Idle)
    }

    fn pump(&mut self, _source: &mut dyn Source) -> io::Result<Progress> {
        Err(no_bytes())
    }

    fn drain(&mut self, _patience: Patience, _sink: &mut dyn Sink) -> io::Result<Progress> {
        Err(no_bytes())
    }

    /// Does nothing: no connection stays open.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_drained(&self) -> bool {
        true
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        let answers = match (self.accepted, self.refused) {
            (_, 0) => "SYN-ACK",
            (0, _) => "RST",
            _ => "SYN-ACK and RST",
        };
        effective_options([("answered_by", answers.to_owned())])
    }

    fn info(&self) -> ConnInfo {
        ConnInfo::counted(self.stats.clone())
    }
}

fn no_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "attempts to connect carry no bytes")
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use deadheat_contract::workload::header::Header;

    /// Inbox that keeps the numbers of messages.
    #[derive(Default)]
    struct Numbers(Vec<u64>);

    impl Inbox for Numbers {
        fn message(&mut self, _lane: Lane, bytes: &[u8]) {
            let stamps = FarStamps::read(bytes).unwrap();
            assert_eq!(stamps.reflected.unwrap().clock, ReflectorClock::Unsaid);
            self.0.push(Header::read(bytes).unwrap().seq);
        }
    }

    fn open(to: SocketAddr, timeout_ms: u64) -> Result<AttemptConn> {
        AttemptConn::open(to, HeaderTerms::default(), 64, Nanos::from_millis(timeout_ms))
    }

    /// Sends messages, and returns the numbers of those that are answered.
    fn answered(conn: &mut AttemptConn, messages: u64) -> Vec<u64> {
        let mut numbers = Numbers::default();
        let mut message = [0; 64];
        for seq in 0..messages {
            Header { tag: 1, seq }.write(&mut message);
            assert_eq!(conn.send(Lane::default(), &message).unwrap(), Progress::Moved);
        }
        let deadline = Monotonic.now() + Nanos::from_secs(10);
        while (numbers.0.len() as u64) < messages && Monotonic.now() < deadline {
            conn.receive(Patience::Block, &mut numbers).unwrap();
        }
        numbers.0.sort_unstable();
        numbers.0
    }

    #[test]
    fn a_port_that_listens_and_one_that_does_not_both_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        for (answer, [accepted, refused]) in [("SYN-ACK", [21, 0]), ("RST", [0, 21])] {
            let mut conn = open(at, 10_000).unwrap();
            assert!(conn.info().stats.connect_ns > 0);
            let numbers = answered(&mut conn, 20);
            assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "{answer}");
            assert_eq!(conn.effective()["answered_by"], answer);
            assert_eq!([conn.accepted, conn.refused], [accepted, refused]);
            assert_eq!(conn.info().stats.network_errors, 0);
            if accepted > 0 {
                // Whatever was accepted is reset and not closed in order.
                let (mut first, _) = listener.accept().unwrap();
                let end = io::Read::read(&mut first, &mut [0; 1]).unwrap_err();
                assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
                drop(conn);
                rebind_nobody(&listener);
            }
        }
    }

    /// Makes the port refuse connections, although this test still holds it.
    fn rebind_nobody(listener: &TcpListener) {
        let socket = socket2::SockRef::from(listener);
        socket.shutdown(std::net::Shutdown::Both).unwrap();
    }

    #[test]
    fn a_port_that_answers_nothing_is_named_as_filtered() {
        // A full queue of connections drops further SYNs, as a firewall does.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.listen(0).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        let _queued = TcpStream::connect(at).unwrap();
        let Err(error @ Error::Blocked { .. }) = open(at, 200) else { panic!("it answered") };
        let said = error.to_string();
        assert!(said.contains("filtered") && said.contains("another port"), "{said}");
    }
}

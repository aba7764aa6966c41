//! Table of steps, for tests: every step of every far end that this crate is a client of, against a peer that is silent, has
//! no end, lies about a length, or sends garbage. Each ends with a reason, within its bytes and its time. Protocols without a
//! clock run in virtual time; the others have short deadlines, and of their real time only the least is asserted.

use std::net::SocketAddr;
use std::thread;

use socket2::{Domain, Socket, Type};

use crate::exchange::tests::{garbage, greeted};
use crate::{echo, https, iperf3, irtt, ndt7, quicperf, stamp};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::application::{Application, Streams};
use deadheat_datapath::transport::plain::Greeting;
use deadheat_datapath::transport::step::{STEP, STEP_BYTES};

/// Peer from a step on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerFault {
    Silent,
    /// Sends the same again and again.
    Endless,
    /// Announces more than arrives, or than anybody would send.
    LyingLength,
    Garbage,
}

/// Step of a protocol with a fault of the peer.
pub(crate) struct StepRow {
    pub(crate) protocol: &'static str,
    pub(crate) step: &'static str,
    pub(crate) fault: PeerFault,
    /// Runs it to its end.
    pub(crate) run: Box<dyn Fn() -> StepEnd>,
}

/// End of a step.
#[derive(Debug)]
pub(crate) struct StepEnd {
    pub(crate) why: String,
    pub(crate) took: Nanos,
    /// Bytes that the peer has sent in it.
    pub(crate) bytes: usize,
}

/// Least data that a peer sends at once where it has no end.
const PIECE: usize = 16 << 10;

/// Runs an application whose peer sends `again` for ever, in virtual time; `arrive` hands bytes over.
pub(crate) fn run_out<S: Streams>(
    application: &mut dyn Application,
    streams: &mut S,
    again: &[u8],
    mut arrive: impl FnMut(&mut S, &[u8]),
) -> StepEnd {
    let start = Nanos::from_secs(1_000);
    let (mut now, mut bytes) = (start, 0);
    let piece = again.repeat(if again.is_empty() { 0 } else { PIECE.div_ceil(again.len()) });
    loop {
        if !piece.is_empty() {
            arrive(streams, &piece);
            bytes += piece.len();
        }
        let read = application.read(streams, &mut |_| {});
        let read = read.and_then(|()| application.attend(streams));
        let is_due = application.next_deadline().is_some_and(|due| due <= now);
        let ended = read.and_then(|()| match is_due {
            true => application.on_deadline(now, streams),
            false => Ok(()),
        });
        if let Err(why) = ended {
            return StepEnd { why, took: now - start, bytes };
        }
        now += Nanos::from_millis(10);
        let is_over = now - start > Nanos::from_secs(60) || bytes > 64 << 20;
        assert!(!is_over, "no end after {} and {bytes} bytes", now - start);
    }
}

/// Rows of a question in datagrams, whose answer does not come.
fn greetings() -> Vec<StepRow> {
    type Make = fn() -> Box<Greeting<'static>>;
    let all: [(&str, Make); 3] =
        [("irtt", irtt::greeting), ("STAMP", stamp::greeting), ("echo over UDP", echo::greeting)];
    let row = |(protocol, make): (&'static str, Make), fault| StepRow {
        protocol,
        step: "the first answer",
        fault,
        run: Box::new(move || {
            let said: Vec<Vec<u8>> = match fault {
                PeerFault::Silent => Vec::new(),
                _ => garbage().collect(),
            };
            let began = Monotonic.now();
            let why = greeted(&*make(), Some(&said)).unwrap_err().to_string();
            let took = Monotonic.now() - began;
            assert!(took >= Nanos::from_millis(50), "{protocol}: given up after {took}");
            StepEnd { why, took: Nanos::ZERO, bytes: said.iter().map(Vec::len).sum() }
        }),
    };
    let faults = [PeerFault::Silent, PeerFault::Garbage];
    all.into_iter().flat_map(|one| faults.map(|fault| row(one, fault))).collect()
}

/// Returns both ends of a byte stream.
pub(crate) fn byte_stream() -> (Socket, Socket) {
    Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap()
}

/// Sends `bytes` to a client in pieces of one byte, with a pause after each, until it is gone.
pub(crate) fn drip(socket: Socket, bytes: Vec<u8>) {
    thread::spawn(move || {
        for byte in bytes.iter().cycle() {
            if socket.send_with_flags(&[*byte], libc::MSG_NOSIGNAL).is_err() {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(5));
        }
    });
}

/// Address that stands in errors.
pub(crate) fn nowhere() -> SocketAddr {
    ([192, 0, 2, 1], 5201).into()
}

#[test]
fn every_step_of_every_far_end_ends_within_its_bytes_and_its_time() {
    let rows: Vec<StepRow> = [https::steps(), quicperf::steps(), ndt7::steps(), iperf3::steps()]
        .into_iter()
        .flatten()
        .chain(greetings())
        .collect();
    let faults =
        [PeerFault::Silent, PeerFault::Endless, PeerFault::LyingLength, PeerFault::Garbage];
    for fault in faults {
        assert!(rows.iter().filter(|row| row.fault == fault).count() >= 6, "{fault:?}");
    }
    for StepRow { protocol, step, fault, run } in &rows {
        let what = format!("{protocol}, {step}, {fault:?}");
        let end = run();
        assert!(!end.why.is_empty(), "{what}");
        assert!(end.took <= STEP + Nanos::from_secs(2), "{what}: {end:?}");
        // Documents and frames may have begun before the bound, and a document has bounds of its own.
        assert!(end.bytes as u64 <= 5 * STEP_BYTES, "{what}: {end:?}");
        if *fault == PeerFault::Silent && end.took > Nanos::ZERO {
            let is_named = ["did not go on", "acknowledged nothing"];
            assert!(is_named.iter().any(|word| end.why.contains(word)), "{what}: {}", end.why);
        }
    }
}

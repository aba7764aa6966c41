//! Table of steps, for tests: every step of every far end that this crate is a client of, against a peer that is silent, has
//! no end, lies about a length, or sends garbage. Each ends with a reason, within its bytes and its time. Protocols without a
//! clock run in virtual time; the others have short deadlines, and of their real time only the least is asserted.

use std::net::SocketAddr;
use std::thread;

use socket2::{Domain, Socket, Type};

use deadheat_base::time::Nanos;
use deadheat_datapath::transport::application::{Application, Streams};

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
        let ended =
            read.and_then(|()| if is_due { application.on_deadline(now, streams) } else { Ok(()) });
        if let Err(why) = ended {
            return StepEnd { why, took: now - start, bytes };
        }
        now += Nanos::from_millis(10);
        let is_over = now - start > Nanos::from_secs(60) || bytes > 64 << 20;
        assert!(!is_over, "no end after {} and {bytes} bytes", now - start);
    }
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

mod tests;

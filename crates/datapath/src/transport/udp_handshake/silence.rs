//! Hellos that are sent until one is answered, and the record of silence.

use std::io;
use std::os::fd::AsFd;

use socket2::Socket;

use crate::datapath::datagram::{is_full, is_network_error};
use crate::transport::handover::readable;
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Returns the time at which the hello after `sent` others is due, from the start: 0, 50, 100, 200,
/// 400 ms, then every 400 ms.
pub(super) fn due(sent: u32) -> Nanos {
    Nanos::from_millis(match sent {
        0 => 0,
        1..=4 => 50 << (sent - 1),
        more => 400 * (u64::from(more) - 3),
    })
}

/// Record of a near end's attempts without an answer.
#[derive(Debug, Default)]
pub struct Silence {
    /// Hellos sent.
    pub sent: u32,
    /// Errors that the network returned.
    pub errors: u32,
    /// Last of these errors.
    pub last: Option<io::Error>,
    /// Time waited.
    pub waited: Nanos,
}

impl Silence {
    /// Returns the evidence, as the start of a sentence.
    pub fn describe(&self, what: &str, to: &str) -> String {
        let (sent, waited) = (self.sent, self.waited);
        let errors = match &self.last {
            Some(last) => format!("{} network errors, the last: {last}", self.errors),
            None => "no network error either".to_owned(),
        };
        format!("sent {sent} {what} to {to} over {waited}, no answer came back, {errors}")
    }
}

/// Reason why no answer arrived.
#[derive(Debug)]
pub enum HelloFailure {
    /// No answer arrived.
    Silent(Silence),
    /// This host could not send.
    Failed(io::Error),
}

/// Most datagrams that are read after the deadline.
const MOST_LATE: u32 = 256;

/// Sends a hello, at most `most` times, until it is answered or `timeout` passes. `hear` is the receiver: it reads one
/// datagram without waiting, and returns whether the datagram is the answer. An answer that waits at the socket when the
/// time is over counts: a busy host may have held up this end alone.
pub fn send_hello(
    socket: &Socket,
    most: u32,
    timeout: Nanos,
    mut say: impl FnMut() -> io::Result<()>,
    mut hear: impl FnMut() -> io::Result<bool>,
) -> Result<(), HelloFailure> {
    let start = Monotonic.now();
    let deadline = start + timeout;
    let (mut silence, mut late) = (Silence::default(), 0);
    loop {
        let now = Monotonic.now();
        let next = start + due(silence.sent);
        let spoke = if silence.sent < most && now >= next && now < deadline {
            silence.sent += 1;
            say()
        } else {
            let until = if silence.sent < most { next.min(deadline) } else { deadline };
            let there = readable(socket.as_fd(), until - now).map_err(HelloFailure::Failed)?;
            if now >= deadline && (!there || late == MOST_LATE) {
                silence.waited = now - start;
                return Err(HelloFailure::Silent(silence));
            }
            late += u32::from(now >= deadline);
            match if there { hear() } else { Ok(false) } {
                Ok(true) => return Ok(()),
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            }
        };
        match spoke {
            Err(error) if is_network_error(&error) => {
                silence.errors += 1;
                silence.last = Some(error);
            }
            Err(error) if !is_full(&error) => return Err(HelloFailure::Failed(error)),
            _ => {}
        }
    }
}

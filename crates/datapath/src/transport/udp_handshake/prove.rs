//! Proof of an address that a hello came from and that nothing else vouches for.

use std::os::fd::AsFd;

use socket2::Socket;

use super::{HandshakeDatagram, read};
use crate::datapath::datagram::{is_full, is_network_error};
use crate::transport::handover::readable;
use crate::transport::hello::{Challenge, Hello};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Longest time that a peer may take to prove its address. It repeats its hello, and is asked again.
const TO_PROVE: Nanos = Nanos::from_secs(2);

/// Asks the peer of a socket to prove that it receives there: once, and again for each hello that it repeats. Returns
/// whether it did by `deadline`, or within [`TO_PROVE`].
pub(super) fn proves(socket: &Socket, flow: u16, deadline: Nanos) -> Result<bool> {
    let asked = Challenge::fresh(flow)?;
    let deadline = deadline.min(Monotonic.now() + TO_PROVE);
    let failed = |source| Error::setup("ask a near end to prove its address", source);
    let ask = || match socket.send_with_flags(&asked.encode(), libc::MSG_DONTWAIT) {
        Err(error) if !is_full(&error) && !is_network_error(&error) => Err(failed(error)),
        _ => Ok(()),
    };
    ask()?;
    loop {
        let now = Monotonic.now();
        if now >= deadline {
            return Ok(false);
        }
        if !readable(socket.as_fd(), deadline - now).map_err(failed)? {
            continue;
        }
        match read(socket, 0) {
            Ok(HandshakeDatagram::Exactly(bytes)) if bytes == asked.answer() => return Ok(true),
            // Whatever else arrives, as long as a hello or longer, is repeated or answered by as much.
            Ok(HandshakeDatagram::Exactly(bytes)) if Hello::decode(&bytes).is_some() => ask()?,
            Ok(_) => {}
            Err(error) if is_full(&error) || is_network_error(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

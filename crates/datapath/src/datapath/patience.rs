//! Timeout of a receiving call, as flags and as `SO_RCVTIMEO`.

use std::io;

use socket2::Socket;

use deadheat_contract::contract::{GUARD, Patience};

/// Returns the flag for one call with this patience.
#[inline]
pub(super) fn flag(patience: Patience) -> libc::c_int {
    match patience {
        Patience::None => libc::MSG_DONTWAIT,
        Patience::Block | Patience::UntilNudged => 0,
    }
}

/// State of the receive timeout of a socket: whether receiving calls end after [`GUARD`]. It changes with the
/// patience, which is rare on one connection: a timer per call would cost 0.15 µs on each end of a round trip.
#[derive(Debug)]
pub(super) struct ReceiveGuard {
    armed: bool,
}

impl ReceiveGuard {
    /// Arms the timeout: calls end after [`GUARD`].
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub(super) fn arm(socket: &Socket) -> io::Result<ReceiveGuard> {
        socket.set_read_timeout(Some(GUARD.into()))?;
        Ok(ReceiveGuard { armed: true })
    }

    /// Sets the timeout to the patience asked for.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    #[inline]
    pub(super) fn suit(&mut self, socket: &Socket, patience: Patience) -> io::Result<()> {
        let arm = match patience {
            Patience::None => return Ok(()),
            Patience::Block => true,
            Patience::UntilNudged => false,
        };
        if arm == self.armed {
            return Ok(());
        }
        self.armed = arm;
        socket.set_read_timeout(arm.then(|| GUARD.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_follows_the_patience() {
        let (socket, _peer) =
            Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        let mut guard = ReceiveGuard::arm(&socket).unwrap();
        let timeout = || socket.read_timeout().unwrap();
        assert_eq!(timeout(), Some(GUARD.into()));
        guard.suit(&socket, Patience::UntilNudged).unwrap();
        assert_eq!(timeout(), None);
        guard.suit(&socket, Patience::None).unwrap();
        assert_eq!(timeout(), None);
        guard.suit(&socket, Patience::Block).unwrap();
        assert_eq!(timeout(), Some(GUARD.into()));
    }
}

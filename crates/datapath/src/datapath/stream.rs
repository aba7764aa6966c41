//! Connected socket with one system call per call, each counted.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use super::call;
use super::channel::{Calls, Channel, SystemCalls, done, interrupted};
use super::control::{self, Control, MessagePiece};
use super::patience::{ReceiveGuard, flag};
use super::policer::{StreamMeter, Way};
use super::stamps::{KeyUnit, Stamps};
use deadheat_contract::contract::{GUARD, Patience};

/// Connected socket that counts its system calls. It is in blocking mode, with [`GUARD`] as the longest time that a
/// call may sleep; [`Patience::None`] makes single calls return at once.
#[derive(Debug)]
pub struct CountedSocket {
    socket: Socket,
    guard: ReceiveGuard,
    calls: Calls,
    meter: StreamMeter,
    stamps: Option<Box<Stamps>>,
}

impl CountedSocket {
    /// Takes a connected socket over and sets how long its calls may sleep.
    ///
    /// # Errors
    /// The error of fcntl(2) or setsockopt(2).
    pub fn new(socket: Socket) -> io::Result<CountedSocket> {
        socket.set_nonblocking(false)?;
        let guard = ReceiveGuard::arm(&socket)?;
        socket.set_write_timeout(Some(GUARD.into()))?;
        let meter = StreamMeter::new(&socket);
        Ok(CountedSocket { socket, guard, calls: Calls::default(), meter, stamps: None })
    }

    /// Returns the socket, for options.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Enables kernel timestamps of the bytes that [`CountedSocket::send`] and [`CountedSocket::receive`] move from
    /// now on.
    ///
    /// # Errors
    /// As for [`Stamps::switch_on`].
    pub fn switch_stamps_on(&mut self, counts: KeyUnit) -> io::Result<()> {
        self.stamps = Some(Box::new(Stamps::switch_on(&self.socket, counts)?));
        Ok(())
    }

    /// Returns the stamps, where they are on.
    pub fn stamps(&mut self) -> Option<&mut Stamps> {
        self.stamps.as_deref_mut()
    }

    /// Returns the number of system calls that sent.
    pub fn send_calls(&self) -> u64 {
        self.calls.send
    }

    /// Returns the number of system calls that received.
    pub fn receive_calls(&self) -> u64 {
        self.calls.receive
    }

    /// Sends with one send(2). Returns the number of bytes sent, `None` if there was no room or a signal
    /// interrupted the call.
    ///
    /// # Errors
    /// Any other error of send(2). A lost peer is an error, never a signal.
    #[inline]
    pub fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        self.calls.send += 1;
        let flags = libc::MSG_NOSIGNAL | flag(patience);
        let CountedSocket { socket, meter, stamps, .. } = self;
        meter.around(Way::Sent, socket, || match stamps {
            Some(stamps) => done(stamps.send(bytes, flags)),
            None => done(call::send(socket.as_fd(), bytes, flags)),
        })
    }

    /// Sends several pieces with one sendmsg(2); otherwise as [`CountedSocket::send`].
    ///
    /// # Errors
    /// As for [`CountedSocket::send`].
    pub fn send_pieces(
        &mut self,
        pieces: &[IoSlice<'_>],
        patience: Patience,
    ) -> io::Result<Option<usize>> {
        self.calls.send += 1;
        let flags = libc::MSG_NOSIGNAL | flag(patience);
        let CountedSocket { socket, meter, .. } = self;
        meter.around(Way::Sent, socket, || done(call::sendmsg(socket.as_fd(), pieces, flags)))
    }

    /// Receives with one recv(2). Returns the number of bytes received, `None` if there were none or a signal
    /// interrupted the call. Zero means that the peer ended its direction (or, from a datagram socket, an empty
    /// datagram).
    ///
    /// # Errors
    /// Any other error of recv(2).
    #[inline]
    pub fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>> {
        self.recv(room, 0, patience)
    }

    /// Receives a datagram with one recv(2). Returns the length of the whole datagram even where it is larger than
    /// `room` (`MSG_TRUNC`), so that truncation cannot go unnoticed.
    ///
    /// # Errors
    /// As for [`CountedSocket::receive`].
    #[inline]
    pub fn receive_datagram(
        &mut self,
        room: &mut [u8],
        patience: Patience,
    ) -> io::Result<Option<usize>> {
        self.recv(room, libc::MSG_TRUNC, patience)
    }

    #[inline]
    fn recv(
        &mut self,
        room: &mut [u8],
        flags: libc::c_int,
        patience: Patience,
    ) -> io::Result<Option<usize>> {
        self.guard.suit(&self.socket, patience)?;
        self.calls.receive += 1;
        let flags = flags | flag(patience);
        let CountedSocket { socket, meter, stamps, .. } = self;
        meter.around(Way::Received, socket, || match stamps {
            Some(stamps) => done(stamps.recv(room, flags)),
            None => done(call::recv(socket.as_fd(), room, flags)),
        })
    }
}

impl CountedSocket {
    /// Sends a message with control messages beside it with one sendmsg(2); otherwise as [`CountedSocket::send`].
    ///
    /// # Errors
    /// As for [`CountedSocket::send`].
    #[inline]
    pub fn send_beside(
        &mut self,
        bytes: &[u8],
        control: &Control,
        patience: Patience,
    ) -> io::Result<Option<usize>> {
        self.calls.send += 1;
        let flags = libc::MSG_NOSIGNAL | flag(patience);
        let CountedSocket { socket, meter, .. } = self;
        meter.around(Way::Sent, socket, || {
            done(control::send(socket.as_fd(), bytes, control, flags))
        })
    }

    /// Receives with one recvmsg(2) that looks for a control message of a level and type; otherwise as
    /// [`CountedSocket::receive`].
    ///
    /// # Errors
    /// As for [`CountedSocket::receive`].
    #[inline]
    pub fn receive_beside<const N: usize>(
        &mut self,
        room: &mut [u8],
        kind: (libc::c_int, libc::c_int),
        patience: Patience,
    ) -> io::Result<Option<MessagePiece<N>>> {
        self.guard.suit(&self.socket, patience)?;
        self.calls.receive += 1;
        let CountedSocket { socket, meter, .. } = self;
        let mut arrived = None;
        meter.around(Way::Received, socket, || {
            let came = control::receive(socket.as_fd(), room, kind, flag(patience));
            done(came.map(|came| arrived.insert(came).len))
        })?;
        Ok(arrived)
    }
}

impl AsFd for CountedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Channel for CountedSocket {
    const IS_PIPE: bool = false;

    #[inline]
    fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        CountedSocket::send(self, bytes, patience)
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Option<usize>> {
        CountedSocket::receive(self, room, patience)
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.socket.shutdown(Shutdown::Write) {
            // The connection is gone, and this direction with it.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }

    fn inlet(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn calls(&self) -> Calls {
        self.calls
    }
}

impl SystemCalls for CountedSocket {
    #[inline]
    fn discard(&mut self, most: usize, patience: Patience) -> io::Result<Option<usize>> {
        self.guard.suit(&self.socket, patience)?;
        self.calls.receive += 1;
        let CountedSocket { socket, meter, .. } = self;
        meter.around(Way::Received, socket, || {
            done(call::discard(socket.as_fd(), most, flag(patience)))
        })
    }

    #[inline]
    fn push(
        &mut self,
        _len: usize,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        self.calls.send += 1;
        let CountedSocket { socket, meter, .. } = self;
        meter.around(Way::Sent, socket, || done(call(socket.as_fd())))
    }

    #[inline]
    fn pull(
        &mut self,
        patience: Patience,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        self.guard.suit(&self.socket, patience)?;
        if patience == Patience::None {
            // Not every call has a flag for "do not wait", and the socket sleeps as long as its timeout allows.
            self.calls.receive += 1;
            if !call::poll(self.socket.as_fd(), libc::POLLIN, 0).or_else(interrupted)? {
                return Ok(None);
            }
        }
        self.calls.receive += 1;
        let CountedSocket { socket, meter, .. } = self;
        meter.around(Way::Received, socket, || done(call(socket.as_fd())))
    }

    /// Returns zero: here completions count, not a size.
    fn holds(&self) -> usize {
        0
    }

    fn count(&mut self) -> &mut Calls {
        &mut self.calls
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    fn pair(kind: Type) -> (CountedSocket, CountedSocket) {
        let (a, b) = Socket::pair(Domain::UNIX, kind, None).unwrap();
        (CountedSocket::new(a).unwrap(), CountedSocket::new(b).unwrap())
    }

    #[test]
    fn bytes_cross_and_calls_are_counted() {
        let (mut a, mut b) = pair(Type::STREAM);
        let mut room = [0; 8];
        assert_eq!(b.receive(&mut room, Patience::None).unwrap(), None);
        assert_eq!(a.send(b"abc", Patience::None).unwrap(), Some(3));
        assert_eq!(b.receive(&mut room, Patience::Block).unwrap(), Some(3));
        assert_eq!(&room[..3], b"abc");
        assert_eq!((a.send_calls(), b.receive_calls()), (1, 2));
    }

    #[test]
    fn a_full_socket_is_none_and_a_gone_peer_is_an_error() {
        let (mut a, b) = pair(Type::STREAM);
        let bytes = [7; 65536];
        while a.send(&bytes, Patience::None).unwrap().is_some() {}
        drop(b);
        let error = a.send(&bytes, Patience::None).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
    }

    #[test]
    fn a_datagram_larger_than_the_room_tells_its_length() {
        let (mut a, mut b) = pair(Type::DGRAM);
        assert_eq!(a.send(&[1; 100], Patience::None).unwrap(), Some(100));
        let got = b.receive_datagram(&mut [0; 10], Patience::None).unwrap();
        assert_eq!(got, Some(100));
    }
}

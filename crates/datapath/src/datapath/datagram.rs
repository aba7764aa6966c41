//! Datagram sockets: one message a call, many messages a call (sendmmsg(2), recvmmsg(2)), and many messages a
//! buffer (`UDP_SEGMENT` and `UDP_GRO`, udp(7)), to a peer that is bound to the socket or addressed on each call.
//!
//! Facts these files rely on:
//! - `UDP_SEGMENT` (Linux 4.18, commit bec1f6f69736) cuts one buffer into datagrams of a given size, the last one
//!   possibly shorter; at most 64 of them before Linux 6.9, 128 since (commit 1382e3b6a350). Each must fit the path
//!   MTU (`EMSGSIZE`, before 6.14 `EINVAL`), and the device must compute checksums (`EIO`).
//! - `UDP_GRO` (Linux 5.0, commit e20cf8d3f1f7) delivers several datagrams of one size in one buffer, with that
//!   size in a control message; no control message means a single datagram.
//! - If the kernel has no room for a buffer, it counts one drop, however many datagrams the buffer holds
//!   (`__udp_enqueue_schedule_skb`), so a receiver with `UDP_GRO` has to scale that count.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{SockAddr, Socket};

use super::option::{drops, ip_header_bytes, set_int};
use super::patience::{ReceiveGuard, flag};
use super::stamps::{KeyUnit, Stamps};
use super::{call, policer};
use deadheat_contract::contract::{GUARD, Patience};

mod outgoing;
mod receive;
mod send;

pub use outgoing::{Outgoing, Transmit};
pub use receive::{ReceiveBatch, ReceiveEngine, Received};
pub use send::{MOST_SEGMENTED, MOST_SEGMENTS, Room, SendBatch, SendEngine};

/// Peer of a socket: bound to it, or addressed on each call.
#[derive(Debug, Clone)]
pub enum Peer {
    /// Bound: the socket is connected to the peer (connect(2)).
    Bound,
    /// Addressed: each call carries the peer's address (sendto(2), recvfrom(2), `msg_name`), and the kernel looks up
    /// the route anew.
    Addressed(SockAddr),
}

/// Binding of a socket to its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Connected to the peer.
    Connected,
    /// Unconnected: it takes datagrams from any sender, and each call carries an address.
    Loose,
}

/// Datagram socket that counts its system calls.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    peer: Peer,
    from: libc::sockaddr_storage,
    guard: ReceiveGuard,
    drops_before: Option<u32>,
    /// Bytes of the headers of each packet: the IP header, and 8 bytes of UDP header (RFC 768).
    headers: u64,
    send_calls: u64,
    receive_calls: u64,
    stamps: Option<Box<Stamps>>,
}

impl DatagramSocket {
    /// Takes over a connected socket. Blocking calls will return after [`GUARD`] at the latest.
    ///
    /// # Errors
    /// Fails if the socket refuses `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub fn new(socket: Socket) -> io::Result<DatagramSocket> {
        DatagramSocket::with_peer(socket, Peer::Bound)
    }

    /// Takes over a socket for datagrams to and from one peer.
    ///
    /// # Errors
    /// As for [`DatagramSocket::new`].
    pub fn with_peer(socket: Socket, peer: Peer) -> io::Result<DatagramSocket> {
        let guard = Some(Duration::from(GUARD));
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(guard)?;
        let guard = ReceiveGuard::arm(&socket)?;
        let drops_before = drops(socket.as_fd());
        let headers = ip_header_bytes(&socket) + 8;
        // SAFETY: an all-zero address is valid: it has no family.
        let from = unsafe { std::mem::zeroed() };
        Ok(DatagramSocket {
            socket,
            peer,
            from,
            guard,
            drops_before,
            headers,
            send_calls: 0,
            receive_calls: 0,
            stamps: None,
        })
    }

    /// Returns the socket, for its options.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the kernel's timestamps of the messages that [`DatagramSocket::send`] and
    /// [`DatagramSocket::receive`] move. The first call switches them on.
    ///
    /// # Errors
    /// As for [`Stamps::switch_on`].
    pub fn stamps(&mut self) -> io::Result<&mut Stamps> {
        if let Peer::Addressed(_) = self.peer {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "calls that carry an address are not stamped; connected=on is",
            ));
        }
        let stamps = match self.stamps.take() {
            Some(stamps) => stamps,
            None => Box::new(Stamps::switch_on(&self.socket, KeyUnit::Datagrams)?),
        };
        Ok(self.stamps.insert(stamps))
    }

    /// Sends one message with one send(2), without waiting.
    ///
    /// # Errors
    /// The error of send(2); see [`is_full`] and [`is_network_error`].
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.put(message, 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    }

    /// Sends `bytes` in one call; the kernel cuts them into this many `datagrams`.
    #[inline]
    fn put(&mut self, bytes: &[u8], datagrams: usize, flags: libc::c_int) -> io::Result<()> {
        self.send_calls += 1;
        let cost = self.cost(bytes.len(), datagrams);
        let call = || {
            if let Some(stamps) = &mut self.stamps {
                return stamps.send(bytes, flags);
            }
            match &self.peer {
                Peer::Bound => call::send(self.socket.as_fd(), bytes, flags),
                Peer::Addressed(to) => call::send_to(self.socket.as_fd(), bytes, flags, to),
            }
        };
        policer::send(call, |_| cost).map(|_| ())
    }

    /// Returns the bytes of this many packets with this many bytes of payload in all.
    #[inline]
    fn cost(&self, bytes: usize, datagrams: usize) -> u64 {
        bytes as u64 + datagrams as u64 * self.headers
    }

    /// Receives one message with one recv(2), cut off at the length of `into`; returns its length.
    ///
    /// # Errors
    /// The error of recv(2); `EAGAIN` where there is nothing to receive.
    #[inline]
    pub fn receive(&mut self, patience: Patience, into: &mut [u8]) -> io::Result<usize> {
        self.guard.suit(&self.socket, patience)?;
        self.receive_calls += 1;
        let (socket, flags) = (self.socket.as_fd(), flag(patience));
        let len = match (&mut self.stamps, &self.peer) {
            (Some(stamps), _) => stamps.recv(into, flags)?,
            (None, Peer::Bound) => call::recv(socket, into, flags)?,
            (None, Peer::Addressed(_)) => call::recv_from(socket, into, flags, &mut self.from)?,
        };
        policer::received(|| self.cost(len, 1))?;
        Ok(len)
    }

    /// Returns the number of drops by the kernel at arrival since this socket was taken over, mostly for lack of room
    /// (`SO_MEMINFO`, Linux 4.12). One buffer of coalesced datagrams counts once.
    pub fn drops(&self) -> Option<u64> {
        let now = drops(self.socket.as_fd())?;
        Some(u64::from(now.wrapping_sub(self.drops_before?)))
    }

    /// Returns the number of system calls that sent.
    pub fn send_calls(&self) -> u64 {
        self.send_calls
    }

    /// Returns the number of system calls that received, calls that found nothing included.
    pub fn receive_calls(&self) -> u64 {
        self.receive_calls
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Checks that this kernel can segment (`UDP_SEGMENT`). It probes the socket, and changes nothing.
///
/// # Errors
/// The error of setsockopt(2) where it cannot; `ENOPROTOOPT` before Linux 4.18.
pub fn probe_segmentation(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_segment(socket, 0)
}

/// Checks that this kernel can coalesce (`UDP_GRO`). It probes the socket, and changes nothing.
///
/// # Errors
/// The error of setsockopt(2) where it cannot; `ENOPROTOOPT` before Linux 5.0.
pub fn probe_coalescing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, 0)
}

fn set_segment(socket: BorrowedFd<'_>, size: usize) -> io::Result<()> {
    let size = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size)
}

/// Returns true if a failed call only means that there is no room, or nothing to receive, for now.
pub fn is_full(error: &io::Error) -> bool {
    // A comparison of EAGAIN with EWOULDBLOCK would never match: on Linux they are one number.
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR))
}

/// Returns true if the network refused: an ICMP error in answer to an earlier datagram (icmp(7)), no route, or a
/// packet filter on this host (`EPERM`).
pub fn is_network_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EPERM
        )
    )
}

/// Returns true if a device or path cannot take segmented buffers, though the kernel can.
pub fn is_segmentation_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}

/// Creates a header for one buffer: no address, no control.
fn header(iovec: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is valid.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = iovec;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// Calls `send`, and once more if the error that it returns is about an earlier datagram; counts such errors.
/// `None` if both calls fail in this way: a refusal that stays is from this host itself, and the message is lost
/// like any other.
///
/// # Errors
/// Any other error of `send`.
#[inline]
pub fn past_network_errors<T>(
    errors: &mut u64,
    mut send: impl FnMut() -> io::Result<T>,
) -> io::Result<Option<T>> {
    for _ in 0..2 {
        match send() {
            Err(error) if is_network_error(&error) => *errors += 1,
            other => return other.map(Some),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

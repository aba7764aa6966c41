//! Control messages beside data (cmsg(3)): encoded for sending, and decoded when receiving.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use deadheat_base::cmsg::{self, Message, Room};

use super::call;

/// Size of the buffer for the control messages of one call.
const ROOM: usize = 128;

/// Control messages that are encoded once, for any number of sends.
#[derive(Debug)]
pub struct Control {
    room: Room<ROOM>,
    len: usize,
}

impl Control {
    /// Encodes `messages`: level, type and data of each. All of them together take 128 bytes at most.
    pub fn new(messages: &[(libc::c_int, libc::c_int, &[u8])]) -> Control {
        let mut control = Control { room: Room::default(), len: 0 };
        for (level, kind, data) in messages {
            control.len = control.room.put(control.len, *level, *kind, data);
        }
        control
    }
}

/// Bytes that one call received, and a control message beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePiece<const N: usize> {
    /// Bytes received.
    pub len: usize,
    /// True if a message ends with these bytes (`MSG_EOR`).
    pub ends: bool,
    /// First bytes of the requested control message, if it arrived.
    pub beside: Option<[u8; N]>,
}

/// Sends one message with its control messages by sendmsg(2); returns the number of bytes sent.
///
/// # Errors
/// The error of sendmsg(2).
#[inline]
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    control: &Control,
    flags: libc::c_int,
) -> io::Result<usize> {
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut header = cmsg::header();
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    control.room.beside(&mut header, control.len);
    // SAFETY: `header` points to buffers that outlive the call.
    let sent =
        unsafe { libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives by recvmsg(2), and looks for a control message of `level` and `kind` with at least N bytes.
///
/// # Errors
/// The error of recvmsg(2).
#[inline]
pub(super) fn receive<const N: usize>(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    (level, kind): (libc::c_int, libc::c_int),
    flags: libc::c_int,
) -> io::Result<MessagePiece<N>> {
    let mut iov = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = Room::<ROOM>::default();
    let mut header = cmsg::header();
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    control.offer(&mut header);
    // SAFETY: `header` points to buffers that outlive the call, and nothing else reads them.
    let len = unsafe { call::recv_one(socket, &mut header, flags) }?;
    // SAFETY: the kernel filled in `control`.
    let beside = unsafe { cmsg::messages(&header) }
        .filter(|message| (message.level, message.kind) == (level, kind))
        .find_map(|message| message.read::<[u8; N]>());
    Ok(MessagePiece { len, ends: header.msg_flags & libc::MSG_EOR != 0, beside })
}

/// Returns the error that a message on the error queue carries (ip(7) `IP_RECVERR`, ipv6(7) `IPV6_RECVERR`).
pub(super) fn extended_error(message: &Message<'_>) -> Option<libc::sock_extended_err> {
    match (message.level, message.kind) {
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => message.read(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// The credentials of the sender, which any process may send of itself (unix(7)).
    #[test]
    fn what_goes_beside_a_message_comes_beside_it() {
        let (a, b) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        let kind = (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
        let found =
            |b: &Socket| receive::<4>(b.as_fd(), &mut [0; 10], kind, libc::MSG_DONTWAIT).unwrap();
        a.send(b"plain").unwrap();
        assert_eq!(found(&b), MessagePiece { len: 5, ends: false, beside: None });
        crate::datapath::option::set_int(b.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, 1)
            .unwrap();
        // SAFETY: these calls have no preconditions.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        let own = std::process::id().to_ne_bytes();
        let data = [own, uid.to_ne_bytes(), gid.to_ne_bytes()].concat();
        let control = Control::new(&[(kind.0, kind.1, &data)]);
        assert_eq!(send(a.as_fd(), b"more", &control, 0).unwrap(), 4);
        assert_eq!(found(&b), MessagePiece { len: 4, ends: false, beside: Some(own) });
    }
}

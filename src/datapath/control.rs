//! Control messages beside data (cmsg(3)): those that go with what is sent, and one that comes with what
//! arrives.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::call;

/// Size of the buffer for the control messages of one call.
const ROOM: usize = 128;

/// A control buffer with the alignment of `cmsghdr`.
#[derive(Debug)]
#[repr(align(8))]
struct Room([u8; ROOM]);

/// Control messages that were put together once, to go with any number of sends.
#[derive(Debug)]
pub struct Control {
    room: Room,
    len: usize,
}

impl Control {
    /// Encodes `messages`: level, type and data of each. All of them take 128 bytes at most.
    pub fn new(messages: &[(libc::c_int, libc::c_int, &[u8])]) -> Control {
        let mut control = Control { room: Room([0; ROOM]), len: 0 };
        for (level, kind, data) in messages {
            let bytes = data.len() as libc::c_uint;
            // SAFETY: CMSG_SPACE only computes.
            let space = unsafe { libc::CMSG_SPACE(bytes) } as usize;
            let place = &mut control.room.0[control.len..][..space];
            // SAFETY: `place` has room for a header and the data, and begins at a multiple of the alignment,
            // as the room does and every space is.
            unsafe {
                let cmsg = place.as_mut_ptr().cast::<libc::cmsghdr>();
                (*cmsg).cmsg_level = *level;
                (*cmsg).cmsg_type = *kind;
                (*cmsg).cmsg_len = libc::CMSG_LEN(bytes) as _; // size_t with glibc, socklen_t with musl
                std::ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(cmsg), data.len());
            }
            control.len += space;
        }
        control
    }
}

/// Bytes and control message of a receiving call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived<const N: usize> {
    /// Bytes received.
    pub len: usize,
    /// True if a message ends with them (`MSG_EOR`).
    pub ends: bool,
    /// First bytes of the control message that was looked for, where it came.
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
    // SAFETY: an all-zero msghdr is valid; its pointers are set to live buffers below.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    // The kernel only reads them.
    header.msg_control = control.room.0.as_ptr().cast_mut().cast();
    header.msg_controllen = control.len as _; // size_t with glibc, socklen_t with musl
    // SAFETY: `header` points to buffers that outlive the call.
    let sent =
        unsafe { libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives by recvmsg(2), looking for a control message of `level` and `kind` with at least N bytes.
///
/// # Errors
/// The error of recvmsg(2).
#[inline]
pub(super) fn receive<const N: usize>(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    (level, kind): (libc::c_int, libc::c_int),
    flags: libc::c_int,
) -> io::Result<Arrived<N>> {
    let mut iov = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = Room([0; ROOM]);
    // SAFETY: an all-zero msghdr is valid; its pointers are set to live buffers below.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = ROOM as _; // size_t with glibc, socklen_t with musl
    // SAFETY: `header` points to buffers that outlive the call, and nobody else reads them.
    let len = unsafe { call::recv_one(socket, &mut header, flags) }?;
    let mut beside = None;
    // SAFETY: the kernel filled in the control buffer that `header` describes; only bytes that a message
    // says to have are read.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(cmsg) = next.as_ref() {
            #[allow(clippy::unnecessary_cast, reason = "it has 32 bits with musl")]
            let held = (cmsg.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            if (cmsg.cmsg_level, cmsg.cmsg_type) == (level, kind) && held >= size_of::<[u8; N]>() {
                beside = Some(libc::CMSG_DATA(next).cast::<[u8; N]>().read_unaligned());
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    Ok(Arrived { len, ends: header.msg_flags & libc::MSG_EOR != 0, beside })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// The credentials of the sender, which any process may tell of itself (unix(7)).
    #[test]
    fn what_goes_beside_a_message_comes_beside_it() {
        let (a, b) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        let kind = (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
        let found =
            |b: &Socket| receive::<4>(b.as_fd(), &mut [0; 10], kind, libc::MSG_DONTWAIT).unwrap();
        a.send(b"plain").unwrap();
        assert_eq!(found(&b), Arrived { len: 5, ends: false, beside: None });
        crate::datapath::option::set_int(b.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, 1)
            .unwrap();
        // SAFETY: these calls have no preconditions.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        let own = std::process::id().to_ne_bytes();
        let data = [own, uid.to_ne_bytes(), gid.to_ne_bytes()].concat();
        let control = Control::new(&[(kind.0, kind.1, &data)]);
        assert_eq!(send(a.as_fd(), b"more", &control, 0).unwrap(), 4);
        assert_eq!(found(&b), Arrived { len: 4, ends: false, beside: Some(own) });
    }
}

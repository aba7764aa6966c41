//! The system calls of the message path, made directly. The C library's `send` and `recv` are
//! cancellation points (pthreads(7)): in a process with several threads each call pays for switching
//! cancellation on and off, which nobody here uses.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::SockAddr;

/// send(2); how many bytes went.
///
/// # Errors
/// What send(2) says.
#[inline]
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice; without an address sendto(2) is
    // send(2).
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags,
            std::ptr::null::<libc::sockaddr>(),
            0,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// recv(2); how many bytes came, or, with `MSG_TRUNC` from a datagram socket, how long the datagram
/// was.
///
/// # Errors
/// What recv(2) says.
#[inline]
pub(super) fn recv(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice that nobody else reads; without room
    // for an address recvfrom(2) is recv(2).
    let got = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            flags,
            std::ptr::null_mut::<libc::sockaddr>(),
            std::ptr::null_mut::<libc::socklen_t>(),
        )
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// sendto(2) with an address; how many bytes went.
///
/// # Errors
/// What sendto(2) says.
#[inline]
pub(super) fn send_to(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    flags: libc::c_int,
    to: &SockAddr,
) -> io::Result<usize> {
    // SAFETY: the pointers and lengths are those of a live slice and a live address.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags,
            to.as_ptr(),
            to.len(),
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// recvfrom(2), which writes the sender's address as well; how many bytes came.
///
/// # Errors
/// What recvfrom(2) says.
#[inline]
pub(super) fn recv_from(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    flags: libc::c_int,
    from: &mut libc::sockaddr_storage,
) -> io::Result<usize> {
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the pointers and lengths are those of live memory that nobody else reads.
    let got = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            flags,
            std::ptr::from_mut(from),
            std::ptr::from_mut(&mut len),
        )
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// sendmmsg(2); how many messages went.
///
/// # Errors
/// What sendmmsg(2) says where none went.
///
/// # Safety
/// Each header is valid for sending: what it points to is alive.
#[inline]
pub(super) unsafe fn send_many(
    socket: BorrowedFd<'_>,
    headers: &mut [libc::mmsghdr],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice of headers, valid by this function's
    // own condition.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            flags,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// recvmmsg(2) without a timeout; how many messages came.
///
/// # Errors
/// What recvmmsg(2) says where none came.
///
/// # Safety
/// Each header is valid for receiving: what it points to is alive, and nobody else reads it.
#[inline]
pub(super) unsafe fn recv_many(
    socket: BorrowedFd<'_>,
    headers: &mut [libc::mmsghdr],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice of headers, valid by this function's
    // own condition.
    let got = unsafe {
        libc::syscall(
            libc::SYS_recvmmsg,
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            flags,
            std::ptr::null_mut::<libc::timespec>(),
        )
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// recvmsg(2), into the message of `header`; how many bytes came.
///
/// # Errors
/// What recvmsg(2) says.
///
/// # Safety
/// As [`recv_many`].
#[inline]
pub(super) unsafe fn recv_one(
    socket: BorrowedFd<'_>,
    header: &mut libc::msghdr,
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the header is valid by this function's own condition.
    let got = unsafe {
        libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), std::ptr::from_mut(header), flags)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

//! The two system calls of the message path, made directly. The C library's `send` and `recv` are
//! cancellation points (pthreads(7)): in a process with several threads each call pays for switching
//! cancellation on and off, which nobody here uses.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

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

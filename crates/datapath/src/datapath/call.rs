//! The system calls of the data path, made directly. The C library's `send`, `recv`, `writev` and `splice` are
//! cancellation points (pthreads(7)): in a process with several threads each call pays for switching cancellation
//! on and off, which this code does not use.

use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::SockAddr;

use deadheat_contract::contract::FileAt;

/// Flag `RWF_NOWAIT` of preadv2(2), which not every C library names.
const RWF_NOWAIT: libc::c_int = 8;

#[inline]
fn moved(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Calls send(2); returns the number of bytes sent.
///
/// # Errors
/// The error of send(2).
#[inline]
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live slice; without an address sendto(2) is
    // send(2).
    moved(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags,
            std::ptr::null::<libc::sockaddr>(),
            0,
        )
    })
}

/// Calls recv(2); returns the number of bytes received, or, with `MSG_TRUNC` from a datagram socket, the length of
/// the datagram.
///
/// # Errors
/// The error of recv(2).
#[inline]
pub(super) fn recv(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live slice that nothing else reads; without room
    // for an address recvfrom(2) is recv(2).
    moved(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            flags,
            std::ptr::null_mut::<libc::sockaddr>(),
            std::ptr::null_mut::<libc::socklen_t>(),
        )
    })
}

/// Calls recv(2) with `MSG_TRUNC` and no buffer: up to `most` bytes of a TCP stream are taken from the queue and
/// not copied anywhere (tcp(7)). Any other socket returns `EFAULT`.
///
/// # Errors
/// The error of recv(2).
#[inline]
pub(super) fn discard(
    socket: BorrowedFd<'_>,
    most: usize,
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the buffer is a null pointer: a kernel that would write to it fails with EFAULT.
    moved(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            std::ptr::null_mut::<u8>(),
            most,
            flags | libc::MSG_TRUNC,
            std::ptr::null_mut::<libc::sockaddr>(),
            std::ptr::null_mut::<libc::socklen_t>(),
        )
    })
}

/// Calls write(2); returns the number of bytes written.
///
/// # Errors
/// The error of write(2).
#[inline]
pub(super) fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live slice.
    moved(unsafe { libc::syscall(libc::SYS_write, to.as_raw_fd(), bytes.as_ptr(), bytes.len()) })
}

/// Calls writev(2); returns the number of bytes written.
///
/// # Errors
/// The error of writev(2).
#[inline]
pub(super) fn writev(to: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: IoSlice has the layout of iovec, and each describes a live slice.
    moved(unsafe { libc::syscall(libc::SYS_writev, to.as_raw_fd(), pieces.as_ptr(), pieces.len()) })
}

/// Calls sendmsg(2) with several pieces; returns the number of bytes sent.
///
/// # Errors
/// The error of sendmsg(2).
#[inline]
pub(super) fn sendmsg(
    to: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: an all-zero msghdr is valid: no address, no pieces, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // The kernel only reads the pieces.
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _; // size_t with glibc, int with musl
    // SAFETY: IoSlice has the layout of iovec, and each describes a live slice.
    moved(unsafe { libc::syscall(libc::SYS_sendmsg, to.as_raw_fd(), &raw const header, flags) })
}

/// Calls read(2); returns the number of bytes read, zero at the end.
///
/// # Errors
/// The error of read(2).
#[inline]
pub(super) fn read(from: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live slice that nothing else reads.
    moved(unsafe { libc::syscall(libc::SYS_read, from.as_raw_fd(), room.as_mut_ptr(), room.len()) })
}

/// Calls read(2) without waiting, whatever the descriptor's mode (preadv2(2) with `RWF_NOWAIT`).
///
/// # Errors
/// The error of preadv2(2): `WouldBlock` where there is nothing to read, `EOPNOTSUPP` where the kernel does not
/// support this for such a descriptor (pipes: Linux 6.5).
#[inline]
pub(super) fn read_now(from: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    let piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: the one iovec describes a live slice that nothing else reads; the offset -1 means "the current
    // position", which a pipe does not have.
    moved(unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            from.as_raw_fd(),
            &raw const piece,
            1_usize,
            -1_i64,
            -1_i64,
            RWF_NOWAIT,
        )
    })
}

/// Calls pread(2); returns the number of bytes read, zero at the file's end.
///
/// # Errors
/// The error of pread(2).
#[inline]
pub(super) fn pread(from: FileAt<'_>, room: &mut [u8]) -> io::Result<usize> {
    let (file, offset) = (from.file.as_raw_fd(), from.offset.cast_signed());
    // SAFETY: the pointer and length describe a live slice that nothing else reads.
    moved(unsafe { libc::syscall(libc::SYS_pread64, file, room.as_mut_ptr(), room.len(), offset) })
}

/// Calls sendfile(2); returns the number of bytes sent, zero at the file's end.
///
/// # Errors
/// The error of sendfile(2).
#[inline]
pub(super) fn sendfile(to: BorrowedFd<'_>, from: FileAt<'_>, len: usize) -> io::Result<usize> {
    let mut offset = from.offset.cast_signed();
    // SAFETY: the kernel reads and writes the one offset, which outlives the call.
    moved(unsafe {
        libc::syscall(
            libc::SYS_sendfile,
            to.as_raw_fd(),
            from.file.as_raw_fd(),
            &raw mut offset,
            len,
        )
    })
}

/// End of a splice: a pipe or socket, or an offset in a file.
#[derive(Clone, Copy)]
pub(super) enum End<'a> {
    /// Pipe or socket, without an offset.
    Stream(BorrowedFd<'a>),
    /// File, with an offset.
    File(FileAt<'a>),
}

/// Calls splice(2), one side of which must be a pipe; returns the number of bytes moved, zero at the end of the
/// stream or file.
///
/// # Errors
/// The error of splice(2).
#[inline]
pub(super) fn splice(
    from: End<'_>,
    to: End<'_>,
    len: usize,
    flags: libc::c_uint,
) -> io::Result<usize> {
    let parts = |end: End<'_>| match end {
        End::Stream(fd) => (fd.as_raw_fd(), None),
        End::File(at) => (at.file.as_raw_fd(), Some(at.offset.cast_signed())),
    };
    let ((from, mut from_at), (to, mut to_at)) = (parts(from), parts(to));
    let place = |at: &mut Option<i64>| at.as_mut().map_or(std::ptr::null_mut(), |at| &raw mut *at);
    // SAFETY: the kernel reads and writes the two offsets, where there are any; they outlive the call.
    moved(unsafe {
        libc::syscall(
            libc::SYS_splice,
            from,
            place(&mut from_at),
            to,
            place(&mut to_at),
            len,
            flags | libc::SPLICE_F_MOVE,
        )
    })
}

/// Calls vmsplice(2) without `SPLICE_F_GIFT`: the pages of `bytes` go into a pipe, uncopied; returns the number of
/// bytes. The caller must leave the memory mapped and unchanged until the pipe has been read.
///
/// # Errors
/// The error of vmsplice(2); `WouldBlock` where the pipe is full.
#[inline]
pub(super) fn vmsplice(pipe: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let piece = IoSlice::new(bytes);
    // SAFETY: IoSlice has the layout of iovec and describes a live slice, which the kernel reads.
    moved(unsafe {
        libc::syscall(
            libc::SYS_vmsplice,
            pipe.as_raw_fd(),
            &raw const piece,
            1_usize,
            libc::SPLICE_F_NONBLOCK,
        )
    })
}

/// Sleeps until a descriptor is ready for one of `events`, has an error or is closed by its peer, at most `ms`
/// milliseconds (-1: without a limit, until a signal interrupts it). Returns true if it is ready.
///
/// # Errors
/// The error of poll(2), a signal included.
#[inline]
pub(super) fn poll(fd: BorrowedFd<'_>, events: libc::c_short, ms: libc::c_int) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: `entry` is one valid pollfd.
    let ready = unsafe { libc::poll(&raw mut entry, 1, ms) };
    moved(ready.into()).map(|ready| ready > 0)
}

/// Calls sendto(2) with an address; returns the number of bytes sent.
///
/// # Errors
/// The error of sendto(2).
#[inline]
pub(super) fn send_to(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    flags: libc::c_int,
    to: &SockAddr,
) -> io::Result<usize> {
    // SAFETY: the pointers and lengths describe a live slice and a live address.
    moved(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags,
            to.as_ptr(),
            to.len(),
        )
    })
}

/// Calls recvfrom(2), which writes the sender's address as well; returns the number of bytes received.
///
/// # Errors
/// The error of recvfrom(2).
#[inline]
pub(super) fn recv_from(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    flags: libc::c_int,
    from: &mut libc::sockaddr_storage,
) -> io::Result<usize> {
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the pointers and lengths describe live memory that nothing else reads.
    moved(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            flags,
            std::ptr::from_mut(from),
            std::ptr::from_mut(&mut len),
        )
    })
}

/// Calls sendmmsg(2); returns the number of messages sent.
///
/// # Errors
/// The error of sendmmsg(2) where it sent no message.
///
/// # Safety
/// Each header is valid for sending: the memory that it points to is alive.
#[inline]
pub(super) unsafe fn send_many(
    socket: BorrowedFd<'_>,
    headers: &mut [libc::mmsghdr],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live slice of headers, which the caller guarantees to be valid.
    moved(unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            flags,
        )
    })
}

/// Calls recvmmsg(2) without a timeout; returns the number of messages received.
///
/// # Errors
/// The error of recvmmsg(2) where it received no message.
///
/// # Safety
/// Each header is valid for receiving: the memory that it points to is alive, and nothing else reads it.
#[inline]
pub(super) unsafe fn recv_many(
    socket: BorrowedFd<'_>,
    headers: &mut [libc::mmsghdr],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live slice of headers, which the caller guarantees to be valid.
    moved(unsafe {
        libc::syscall(
            libc::SYS_recvmmsg,
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            flags,
            std::ptr::null_mut::<libc::timespec>(),
        )
    })
}

/// Calls recvmsg(2), into the message of `header`; returns the number of bytes received.
///
/// # Errors
/// The error of recvmsg(2).
///
/// # Safety
/// As for [`recv_many`].
#[inline]
pub(super) unsafe fn recv_one(
    socket: BorrowedFd<'_>,
    header: &mut libc::msghdr,
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the caller guarantees that the header is valid.
    moved(unsafe {
        libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), std::ptr::from_mut(header), flags)
    })
}

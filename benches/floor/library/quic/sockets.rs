//! The datapath of quinn's own sockets: one `UDP_SEGMENT` buffer a send, one `UDP_GRO` buffer a receive.

use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::floor::sys;

/// A control buffer with the alignment of `cmsghdr` and room for one number.
#[repr(align(8))]
struct Control([u8; 32]);

/// Receives datagrams that the kernel has put together: the bytes, and the size of each but the last; `None` if nothing
/// is there.
pub(super) fn receive_coalesced(
    socket: &UdpSocket,
    into: &mut [u8],
) -> io::Result<Option<(usize, usize)>> {
    let mut control = Control([0; 32]);
    let mut iovec = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: an all-zero header is valid and describes nothing.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to buffers of the lengths given that outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let len = match sys::check(got as i64) {
        Ok(len) => len,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(e) => return Err(e),
    };
    // SAFETY: the kernel filled in the control buffer; a message of this kind holds an int.
    let size = unsafe {
        let message = libc::CMSG_FIRSTHDR(&header);
        let is_size = !message.is_null()
            && ((*message).cmsg_level, (*message).cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
        is_size.then(|| libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned())
    };
    Ok(Some((len, size.map_or(len, |size| size as usize))))
}

/// Sends datagrams of `size` bytes each, but the last, in one call; whether there was room.
pub(super) fn send_segmented(
    socket: &UdpSocket,
    datagrams: &[u8],
    size: usize,
) -> io::Result<bool> {
    let mut control = Control([0; 32]);
    let mut iovec =
        libc::iovec { iov_base: datagrams.as_ptr().cast_mut().cast(), iov_len: datagrams.len() };
    // SAFETY: an all-zero header is valid and describes nothing.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    if datagrams.len() > size {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: both only compute; the buffer has room for one u16 and is aligned for cmsghdr.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(2) as _;
            let message = libc::CMSG_FIRSTHDR(&header);
            (*message).cmsg_level = libc::SOL_UDP;
            (*message).cmsg_type = libc::UDP_SEGMENT;
            (*message).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(message).cast::<u16>().write_unaligned(size as u16);
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points to buffers of the lengths given that outlive the call.
    match sys::check(unsafe { libc::sendmsg(socket.as_raw_fd(), &header, flags) } as i64) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

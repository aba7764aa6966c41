//! Control messages beside data (cmsg(3)): a buffer for them, writing one, and reading the kernel's.

use std::mem::size_of;

use libc::{c_int, msghdr};

/// Returns the size of a control message with `data` bytes of data (`CMSG_SPACE`).
pub const fn space(data: usize) -> usize {
    // SAFETY: CMSG_SPACE only computes.
    unsafe { libc::CMSG_SPACE(data as u32) as usize }
}

/// Returns a header without address, buffers and control messages.
pub fn header() -> msghdr {
    // SAFETY: an all-zero msghdr is valid.
    unsafe { std::mem::zeroed() }
}

/// Buffer for control messages, with their alignment.
#[derive(Debug, Clone)]
#[repr(align(8))]
pub struct Room<const N: usize>([u8; N]);

impl<const N: usize> Default for Room<N> {
    fn default() -> Room<N> {
        Room([0; N])
    }
}

impl<const N: usize> Room<N> {
    /// Gives the whole buffer to a receiving call.
    pub fn offer(&mut self, to: &mut msghdr) {
        to.msg_control = self.0.as_mut_ptr().cast();
        to.msg_controllen = N as _; // size_t with glibc, socklen_t with musl
    }

    /// Sets the first `len` bytes as the control messages of a sending call, which only reads them.
    pub fn beside(&self, header: &mut msghdr, len: usize) {
        header.msg_control = self.0.as_ptr().cast_mut().cast();
        header.msg_controllen = len.min(N) as _;
    }

    /// Writes a message after the first `at` bytes; returns the offset of the next one.
    ///
    /// # Panics
    /// Panics if the buffer is too small for it, or if `at` is not the end of a message.
    pub fn put(&mut self, at: usize, level: c_int, kind: c_int, data: &[u8]) -> usize {
        assert!(at.is_multiple_of(size_of::<usize>()), "a control message begins aligned");
        let place = &mut self.0[at..][..space(data.len())];
        // SAFETY: `place` has room for a header and the data, and is aligned, as the room and `at` are.
        unsafe {
            let cmsg = place.as_mut_ptr().cast::<libc::cmsghdr>();
            (*cmsg).cmsg_level = level;
            (*cmsg).cmsg_type = kind;
            (*cmsg).cmsg_len = libc::CMSG_LEN(data.len() as u32) as _;
            std::ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(cmsg), data.len());
        }
        at + place.len()
    }
}

/// A control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Protocol that it belongs to, such as `SOL_SOCKET`.
    pub level: c_int,
    /// Type within that protocol, such as `SCM_RIGHTS`.
    pub kind: c_int,
    /// Payload, without the header.
    pub data: &'a [u8],
}

/// Data for which any bytes are valid.
///
/// # Safety
/// Every pattern of bits is a value of the type.
pub unsafe trait Plain: Copy {}

// SAFETY: integers, and structures of nothing but integers.
unsafe impl Plain for c_int {}
// SAFETY: as above.
unsafe impl Plain for libc::in_pktinfo {}
// SAFETY: as above.
unsafe impl Plain for libc::in6_pktinfo {}
// SAFETY: as above.
unsafe impl Plain for libc::timespec {}
// SAFETY: as above.
unsafe impl Plain for libc::sock_extended_err {}
// SAFETY: as above.
unsafe impl<const N: usize> Plain for [u8; N] {}

impl Message<'_> {
    /// Returns the beginning of the data as a `T`; `None` if the data is shorter than that.
    pub fn read<T: Plain>(&self) -> Option<T> {
        let bytes = self.data.get(..size_of::<T>())?;
        // SAFETY: as many bytes as a T has, all of which are valid ones.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    /// Iterates over the data as values of `T`, without an incomplete last one.
    pub fn values<T: Plain>(&self) -> impl Iterator<Item = T> {
        let Message { level, kind, data } = *self;
        data.chunks_exact(size_of::<T>())
            .filter_map(move |data| Message { level, kind, data }.read())
    }
}

/// Iterates over the control messages of a receiving call.
///
/// # Safety
/// `header` has no control buffer, or a buffer that lives as long as the result and that the kernel has filled in.
pub unsafe fn messages<'a>(header: &'a msghdr) -> impl Iterator<Item = Message<'a>> {
    // SAFETY: the caller vouches for the buffer.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    std::iter::from_fn(move || {
        // SAFETY: a pointer that is not null is to a whole message in the buffer, which the kernel filled in; its
        // length counts its header.
        unsafe {
            let cmsg = next.as_ref()?;
            #[allow(clippy::unnecessary_cast, reason = "it has 32 bits with musl")]
            let len = (cmsg.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data: &'a [u8] = std::slice::from_raw_parts(libc::CMSG_DATA(next), len);
            next = libc::CMSG_NXTHDR(header, next);
            Some(Message { level: cmsg.cmsg_level, kind: cmsg.cmsg_type, data })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_read_in_order() {
        let mut room = Room::<64>::default();
        let first = room.put(0, libc::SOL_SOCKET, libc::SCM_RIGHTS, &7_i32.to_ne_bytes());
        let both = room.put(first, libc::SOL_IP, libc::IP_TOS, &[2, 0, 0, 0, 9]);
        let mut header = header();
        room.beside(&mut header, both);
        // SAFETY: the room was filled in as the kernel does.
        let read: Vec<Message<'_>> = unsafe { messages(&header) }.collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].level, read[0].kind), (libc::SOL_SOCKET, libc::SCM_RIGHTS));
        assert_eq!(read[0].read::<c_int>(), Some(7));
        assert!(read[0].read::<libc::timespec>().is_none(), "it is longer");
        assert_eq!((read[1].level, read[1].kind), (libc::SOL_IP, libc::IP_TOS));
        assert_eq!(read[1].values::<[u8; 2]>().collect::<Vec<_>>(), [[2, 0], [0, 0]]);
    }

    #[test]
    fn a_header_without_control_messages_has_none() {
        let header = header();
        // SAFETY: it has no control buffer.
        assert_eq!(unsafe { messages(&header) }.count(), 0);
    }
}

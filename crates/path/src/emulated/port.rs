//! Interface between the forwarder and the devices that frames come from and go to.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// Device of a host, on the network's side. A frame is a `struct virtio_net_hdr` of ten bytes and an IP packet, as
/// [`crate::segment`] reads it, for every kind of device below.
///
/// Shared, because one thread reads the frames that the host sends while another writes the frames that it
/// receives. No call blocks.
pub trait Port: Send + Sync {
    /// Returns the descriptor that becomes readable for poll(2) when there is a frame to read.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Reads one frame that the host sent into `room`, which has space for the longest one ([`LONGEST_FRAME`]), and
    /// returns its length; `None` if there is none now.
    ///
    /// # Errors
    /// The error of the system, where the device can no longer be used.
    fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>>;

    /// Hands one frame to the host, in pieces.
    ///
    /// # Errors
    /// The error of the system: `WouldBlock` or `ENOBUFS` where the device has no room, and the frame is lost.
    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()>;

    /// Returns the number of frames from the host's device that were lost before they could be read, since the device
    /// was made.
    fn drops(&self) -> u64;
}

/// Longest frame in bytes: the header, and the longest IPv4 or IPv6 packet with a length in it (RFC 8200, section 3:
/// the length of IPv6 does not count its own header).
pub const LONGEST_FRAME: usize = crate::segment::VNET + 40 + 65_535;

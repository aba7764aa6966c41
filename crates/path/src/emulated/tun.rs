//! TUN device as a port: packets that its host sends are read from `/dev/net/tun`, super-packets included
//! (linux/if_tun.h, Documentation/networking/tuntap.rst).
//!
//! TUNSETSNDBUF is not used: the host's receive side has no limit by default.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::port::Port;

/// Path of the file that makes TUN devices.
pub(super) const TUN_FILE: &str = "/dev/net/tun";

// linux/if_tun.h.
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// TUN device of a host, which ends with the host's namespace.
#[derive(Debug)]
pub(super) struct Tun {
    file: File,
}

impl Tun {
    /// Makes a device in the calling thread's network namespace.
    ///
    /// # Errors
    /// The error of open(2) or ioctl(2): `EACCES` or `ENOENT` where the user may not have any.
    pub(super) fn make(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(TUN_FILE)?;
        // SAFETY: an all-zero ifreq is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        set_offloads(&file)?;
        // Its namespace removes it, all devices at once: one by one, at the end of this process, each would take the
        // kernel some 10 ms.
        // SAFETY: TUNSETPERSIST takes an integer.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETPERSIST as _, 1 as libc::c_ulong) }
            < 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(Tun { file })
    }
}

/// Leaves the host's checksums and segmentation to the reader of its packets: for TCP, and for UDP where the kernel
/// can (Linux 6.2).
fn set_offloads(file: &File) -> io::Result<()> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    for offloads in [tcp | TUN_F_USO4 | TUN_F_USO6, tcp] {
        let word = libc::c_ulong::from(offloads);
        // SAFETY: TUNSETOFFLOAD takes an integer.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, word) } == 0 {
            return Ok(());
        }
    }
    Err(io::Error::last_os_error())
}

impl Port for Tun {
    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(room) {
            Ok(len) => Ok(Some(len)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        // SAFETY: an IoSlice has the layout of an iovec, and the slices outlive the call.
        let done = unsafe {
            let pieces_at = pieces.as_ptr().cast();
            libc::writev(self.file.as_raw_fd(), pieces_at, pieces.len() as libc::c_int)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the drops, which the host's device counts.
    fn drops(&self) -> u64 {
        0
    }
}

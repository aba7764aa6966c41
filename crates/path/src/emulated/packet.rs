//! Veth pair as a port, where TUN devices are not available: one end is the host's device, the other is read and
//! written with a packet socket (packet(7)) in a namespace between the hosts.
//!
//! Both ends are without ARP and neighbour discovery, so a host sends to its own hardware address, and receives at
//! that address. This module removes and adds the Ethernet header; the offsets in the virtio header count from its
//! start.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use socket2::{Domain, Socket, Type};

use super::netlink::Device;
use super::port::Port;
use crate::segment::VNET;

const ETHERNET: usize = 14;
/// Largest number of pieces that a frame is written in.
const PIECES: usize = 8;
/// Size requested for the socket's buffers, in bytes; a user without privileges gets the host's limit.
const BUFFER: libc::c_int = 64 << 20;

/// Offset of the checksum start in `struct virtio_net_hdr`.
const CSUM_START: usize = 6;
/// Offset of the header length in `struct virtio_net_hdr`.
const HDR_LEN: usize = 2;
const NEEDS_CSUM: u8 = 1;

/// Inner end of a veth pair.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    /// Hardware address of the host's end.
    host: [u8; 6],
    /// Number of packets that the socket counted as dropped; the kernel resets its counter when read.
    socket_drops: AtomicU64,
}

impl Wire {
    /// Opens the inner end, which is in the calling thread's network namespace; both ends are set up, and the
    /// host's end has this hardware address.
    ///
    /// # Errors
    /// The error of socket(2), setsockopt(2) or bind(2).
    pub(super) fn open(inner: &Device, host: [u8; 6]) -> io::Result<Wire> {
        // Protocol 0: nothing arrives before it is bound to the device.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            set(&socket, libc::SOL_SOCKET, forced, BUFFER)
                .or_else(|_| set(&socket, libc::SOL_SOCKET, plain, BUFFER))?;
        }
        // SAFETY: an all-zero sockaddr_ll is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = inner.index.cast_signed();
        // SAFETY: the pointer and length describe `address`.
        let done = unsafe {
            let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Wire { socket, host, socket_drops: AtomicU64::new(0) })
    }

    /// Returns the number of packets that the socket had no room for, since it was made.
    fn dropped_at_socket(&self) -> u64 {
        // struct tpacket_stats: packets, and drops; reading resets both.
        let mut stats = [0u32; 2];
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the pointers describe `stats` and `len`.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                stats.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let new = if done == 0 { u64::from(stats[1]) } else { 0 };
        self.socket_drops.fetch_add(new, Ordering::Relaxed) + new
    }
}

/// Socket option of linux/if_packet.h, since Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

fn set(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let (place, size) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: the pointer and length describe `value`.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, place, size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Port for Wire {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let mut ethernet = [0u8; ETHERNET];
        let Some((vnet, packet)) = room.split_at_mut_checked(VNET) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let pieces = [
            libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: VNET },
            libc::iovec { iov_base: ethernet.as_mut_ptr().cast(), iov_len: ETHERNET },
            libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() },
        ];
        loop {
            // SAFETY: the pieces describe live buffers that nothing else refers to.
            let got = unsafe { libc::readv(self.socket.as_raw_fd(), pieces.as_ptr(), 3) };
            let Ok(got) = usize::try_from(got) else {
                return match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
                    e => Err(e),
                };
            };
            let Some(len) = got.checked_sub(ETHERNET) else { continue };
            // Other packets than IP do not cross: only the two hosts' IP uses this link.
            if !matches!(u16::from_be_bytes([ethernet[12], ethernet[13]]), IPV4 | IPV6) {
                continue;
            }
            shift(vnet, |at| at.saturating_sub(ETHERNET as u16));
            return Ok(Some(len));
        }
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let empty = pieces.iter().take_while(|piece| piece.is_empty()).count();
        let pieces = &pieces[empty..];
        let first = pieces.first().map(|piece| &**piece).unwrap_or_default();
        let (Some((vnet, packet)), true) = (first.split_at_checked(VNET), pieces.len() <= PIECES)
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut header = [0u8; VNET + ETHERNET];
        header[..VNET].copy_from_slice(vnet);
        shift(&mut header[..VNET], |at| at.saturating_add(ETHERNET as u16));
        header[VNET..VNET + 6].copy_from_slice(&self.host);
        // The source is not the host's own address, which the host would not accept.
        header[VNET + 6..VNET + 12].copy_from_slice(&[self.host[0], 0, 0, 0, 0, 1]);
        let version = packet.first().or_else(|| pieces.get(1)?.first()).map_or(4, |byte| byte >> 4);
        let kind = if version == 6 { IPV6 } else { IPV4 };
        header[VNET + 12..].copy_from_slice(&kind.to_be_bytes());
        let empty = IoSlice::new(&[]);
        let mut all = [empty; PIECES + 1];
        all[0] = IoSlice::new(&header);
        all[1] = IoSlice::new(packet);
        all[2..=pieces.len()].copy_from_slice(&pieces[1..]);
        // SAFETY: an IoSlice has the layout of an iovec, and the slices outlive the call.
        let done = unsafe {
            let count = pieces.len() as libc::c_int + 1;
            libc::writev(self.socket.as_raw_fd(), all.as_ptr().cast(), count)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn drops(&self) -> u64 {
        self.dropped_at_socket()
    }
}

const IPV4: u16 = libc::ETH_P_IP as u16;
const IPV6: u16 = libc::ETH_P_IPV6 as u16;

/// Shifts the offsets in a virtio header.
fn shift(vnet: &mut [u8], to: impl Fn(u16) -> u16) {
    let partial = vnet[0] & NEEDS_CSUM != 0;
    for at in [Some(HDR_LEN), partial.then_some(CSUM_START)].into_iter().flatten() {
        let value = to(u16::from_ne_bytes([vnet[at], vnet[at + 1]]));
        vnet[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
}

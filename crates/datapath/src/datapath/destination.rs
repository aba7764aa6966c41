//! Destination address of a datagram, for a host that has several.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use deadheat_base::cmsg::{self, Room};
use socket2::{SockAddr, SockAddrStorage, Socket};

use crate::datapath::option::set_int;

/// Makes the kernel report to which address each datagram was sent (ip(7) `IP_PKTINFO`, RFC 3542).
pub fn announce_destination(socket: &Socket, at: SocketAddr) -> io::Result<()> {
    match at {
        SocketAddr::V4(_) => set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        SocketAddr::V6(_) => set_int(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Address that a datagram was sent to, and the interface that it arrived on.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    /// Address that it was sent to.
    pub ip: IpAddr,
    interface: u32,
}

impl Destination {
    /// Returns the number of the interface that it arrived on.
    pub fn interface(&self) -> u32 {
        self.interface
    }
}

/// Returns the socket address to answer from, so that the answer leaves from the address that the datagram was sent
/// to.
pub fn at_port(to: Destination, port: u16) -> SocketAddr {
    match to.ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, to.interface).into()
        }
        ip => SocketAddr::new(ip, port),
    }
}

/// Returns an IPv4 address as IPv4, even if an IPv6 socket received it as mapped (RFC 4291, section 2.5.5.2).
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // Keeps the scope of link-local addresses.
        IpAddr::V6(_) => address,
    }
}

/// Receives one datagram; returns its length, its source, and its destination.
pub fn receive_from(
    socket: impl AsFd,
    into: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>, Option<Destination>)> {
    receive_with(socket, into, |_| ()).map(|(len, from, to, ())| (len, from, to))
}

/// Does the same, and has `read` read the other control messages of the header.
pub(super) fn receive_with<T>(
    socket: impl AsFd,
    into: &mut [u8],
    read: impl FnOnce(&libc::msghdr) -> T,
) -> io::Result<(usize, Option<SocketAddr>, Option<Destination>, T)> {
    let mut iov = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Room::<256>::default();
    let mut from = SockAddrStorage::zeroed();
    let mut header = cmsg::header();
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = size_of::<SockAddrStorage>() as libc::socklen_t;
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    control.offer(&mut header);
    // SAFETY: `header` points to buffers that outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel wrote an address of `msg_namelen` bytes into `from`.
    let from = unsafe { SockAddr::new(from, header.msg_namelen) }.as_socket();
    Ok((got, from, destination(&header), read(&header)))
}

/// Returns the destination that a received `header` carries: an in_pktinfo (ip(7)) or in6_pktinfo (RFC 3542).
fn destination(header: &libc::msghdr) -> Option<Destination> {
    // SAFETY: the kernel filled in the control buffer that `header` describes, which belongs to the caller.
    unsafe { cmsg::messages(header) }.find_map(|message| match (message.level, message.kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let info = message.read::<libc::in_pktinfo>()?;
            Some(Destination {
                ip: IpAddr::V4(u32::from_be(info.ipi_addr.s_addr).into()),
                interface: u32::try_from(info.ipi_ifindex).unwrap_or(0),
            })
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let info = message.read::<libc::in6_pktinfo>()?;
            Some(Destination {
                ip: IpAddr::V6(info.ipi6_addr.s6_addr.into()),
                interface: info.ipi6_ifindex,
            })
        }
        _ => None,
    })
}

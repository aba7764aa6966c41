//! Destination address of a datagram, for a host that has several.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{SockAddr, SockAddrStorage, Socket};

use crate::datapath::option::set_int;

/// Makes the kernel say to which address each datagram was sent (ip(7) `IP_PKTINFO`, RFC 3542).
pub(crate) fn announce_destination(socket: &Socket, at: SocketAddr) -> io::Result<()> {
    match at {
        SocketAddr::V4(_) => set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        SocketAddr::V6(_) => set_int(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// The address a datagram was sent to, and the interface it came by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination {
    ip: IpAddr,
    interface: u32,
}

pub(crate) fn at_port(to: Destination, port: u16) -> SocketAddr {
    match to.ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, to.interface).into()
        }
        ip => SocketAddr::new(ip, port),
    }
}

#[repr(align(8))]
struct Control([u8; 128]);

/// Receives one datagram: its length, where it came from, and where it was sent to.
pub(crate) fn receive_from(
    socket: &Socket,
    into: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>, Option<Destination>)> {
    let mut iov = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Control([0; 128]);
    let mut from = SockAddrStorage::zeroed();
    // SAFETY: an all-zero msghdr is valid; its pointers are set to live buffers below.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = size_of::<SockAddrStorage>() as libc::socklen_t;
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: `header` points to buffers that outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel wrote an address of `msg_namelen` bytes into `from`.
    let from = unsafe { SockAddr::new(from, header.msg_namelen) }.as_socket();
    Ok((got, from, destination(&header)))
}

fn destination(header: &libc::msghdr) -> Option<Destination> {
    // SAFETY: the kernel filled in the control buffer that `header` describes; the messages carry
    // an in_pktinfo (ip(7)) or in6_pktinfo (RFC 3542) each.
    unsafe {
        let cmsg = libc::CMSG_FIRSTHDR(header);
        if cmsg.is_null() {
            return None;
        }
        match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info = libc::CMSG_DATA(cmsg).cast::<libc::in_pktinfo>().read_unaligned();
                Some(Destination {
                    ip: IpAddr::V4(u32::from_be(info.ipi_addr.s_addr).into()),
                    interface: u32::try_from(info.ipi_ifindex).unwrap_or(0),
                })
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info = libc::CMSG_DATA(cmsg).cast::<libc::in6_pktinfo>().read_unaligned();
                Some(Destination {
                    ip: IpAddr::V6(info.ipi6_addr.s6_addr.into()),
                    interface: info.ipi6_ifindex as u32,
                })
            }
            _ => None,
        }
    }
}

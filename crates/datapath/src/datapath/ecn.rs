//! Explicit congestion notification of datagrams (RFC 3168): the codepoint is set for outgoing datagrams and read from
//! arriving ones (ip(7), ipv6(7)).

use std::io;
use std::os::fd::AsFd;

use deadheat_base::cmsg;
use deadheat_base::ecn::Codepoint;
use socket2::Socket;

use super::ip_header::set_field;
use super::option::{is_ipv6, set_int};

/// Marks every datagram that a socket sends from now on; the rest of the field, the DSCP, is unchanged.
///
/// # Errors
/// The error of setsockopt(2).
pub(super) fn mark(socket: &Socket, codepoint: Codepoint) -> io::Result<()> {
    set_field(socket, |field| field & !0b11 | codepoint as u8)
}

/// Makes the kernel add the field of each datagram that arrives as a control message.
///
/// # Errors
/// The error of setsockopt(2).
pub(super) fn announce(socket: &Socket) -> io::Result<()> {
    let (level, name) = if is_ipv6(socket) {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)
    } else {
        (libc::IPPROTO_IP, libc::IP_RECVTOS)
    };
    set_int(socket.as_fd(), level, name, 1)
}

/// Returns the codepoint in a control message beside a datagram; `None` if the message is about something else. The
/// field of IPv4 has one byte, the field of IPv6 is an `int`.
pub(super) fn read(message: &cmsg::Message<'_>) -> Option<Codepoint> {
    match (message.level, message.kind) {
        (libc::IPPROTO_IP, libc::IP_TOS) => message.read::<[u8; 1]>().map(|[tos]| tos),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            message.read::<libc::c_int>().map(|class| class as u8)
        }
        _ => None,
    }
    .map(Codepoint::of)
}

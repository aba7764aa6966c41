//! Explicit congestion notification of datagrams (RFC 3168): the codepoint in the two low bits of IPv4's TOS field
//! and of IPv6's traffic class, set for outgoing datagrams and read from arriving ones (ip(7), ipv6(7)).

use std::io;
use std::os::fd::AsFd;

use deadheat_base::cmsg;
use socket2::Socket;

use super::ip_header::set_field;
use super::option::{is_ipv6, set_int};

/// Codepoint of a datagram (RFC 3168, section 5), as the two bits of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Codepoint {
    /// Not-ECT: a queue may only drop it.
    #[default]
    NotEct = 0b00,
    /// ECT(1): a queue may mark it; for experiments (RFC 8311).
    Ect1 = 0b01,
    /// ECT(0): a queue may mark it.
    Ect0 = 0b10,
    /// CE: a queue has marked it instead of dropping it.
    Ce = 0b11,
}

impl Codepoint {
    /// Returns the codepoint in a TOS field or a traffic class.
    pub fn of(field: u8) -> Codepoint {
        match field & 0b11 {
            0b00 => Codepoint::NotEct,
            0b01 => Codepoint::Ect1,
            0b10 => Codepoint::Ect0,
            _ => Codepoint::Ce,
        }
    }

    /// Returns true if a queue may mark the datagram instead of dropping it, or has already.
    pub fn is_capable(self) -> bool {
        self != Codepoint::NotEct
    }
}

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

//! Fields of the IP header, DSCP and TTL: on sockets of either IP version, and of packets that arrived.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use deadheat_base::cmsg::{self, Room};
use socket2::{SockRef, Socket};

use super::option::{get, set_int};
use deadheat_contract::dscp::Dscp;

const _: () = assert!(size_of::<libc::c_int>() == 4, "control messages of IP are 32-bit integers");

/// Level and name of an option.
type OptionName = (libc::c_int, libc::c_int);

/// Sets an option of IP on a socket of either family. One of IPv6 may have a peer of IPv4, with a mapped address, and
/// then has the options of both.
fn on_each(
    socket: &Socket,
    v4: OptionName,
    v6: OptionName,
    set: impl Fn(OptionName) -> io::Result<()>,
) -> io::Result<()> {
    if !is_of_v6(socket.as_fd()) {
        return set(v4);
    }
    let _ = set(v4);
    set(v6)
}

/// Changes the TOS byte, or the traffic class.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_field(socket: &Socket, change: impl Fn(u8) -> u8) -> io::Result<()> {
    let v4 = (libc::IPPROTO_IP, libc::IP_TOS);
    let v6 = (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
    on_each(socket, v4, v6, |(level, name)| {
        let now = read_int(socket.as_fd(), (level, name)).unwrap_or(0) as u8;
        set_int(socket.as_fd(), level, name, libc::c_int::from(change(now)))
    })
}

/// Sets the TTL, or the hop limit.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_hops(socket: &Socket, hops: u8) -> io::Result<()> {
    let v4 = (libc::IPPROTO_IP, libc::IP_TTL);
    let v6 = (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS);
    on_each(socket, v4, v6, |(level, name)| {
        set_int(socket.as_fd(), level, name, libc::c_int::from(hops))
    })
}

/// Returns the TOS byte, or the traffic class, of packets that a socket sends.
pub fn field(socket: BorrowedFd<'_>) -> Option<u8> {
    let v4 = (libc::IPPROTO_IP, libc::IP_TOS);
    let v6 = (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
    read_int(socket, if speaks_v6(socket) { v6 } else { v4 }).map(|value| value as u8)
}

/// Returns the TTL, or the hop limit, of packets that a socket sends.
pub fn hops(socket: BorrowedFd<'_>) -> Option<u8> {
    let v4 = (libc::IPPROTO_IP, libc::IP_TTL);
    let v6 = (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS);
    read_int(socket, if speaks_v6(socket) { v6 } else { v4 }).map(|value| value as u8)
}

fn is_of_v6(socket: BorrowedFd<'_>) -> bool {
    SockRef::from(&socket).local_addr().is_ok_and(|address| address.is_ipv6())
}

/// Returns true if packets of a socket have the header of IPv6: a socket of IPv6 may have a peer of IPv4.
fn speaks_v6(socket: BorrowedFd<'_>) -> bool {
    let peer = SockRef::from(&socket).peer_addr().ok().and_then(|peer| peer.as_socket());
    peer.map_or_else(|| is_of_v6(socket), |peer| peer.ip().to_canonical().is_ipv6())
}

fn read_int(socket: BorrowedFd<'_>, (level, name): OptionName) -> Option<u32> {
    let mut value = [0];
    get(socket, level, name, &mut value).map(|_| value[0])
}

/// Fields of the IP header of packets that arrived when a connection opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArrivedHeader {
    /// Codepoint; `None` if it is not known.
    pub dscp: Option<Dscp>,
    /// TTL or hop limit that was left; `None` if it is not known.
    pub ttl: Option<u8>,
}

impl ArrivedHeader {
    /// Makes the kernel report the fields of each datagram that arrives on a socket from now on, or no longer.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn announce(socket: &Socket, on: bool) -> io::Result<()> {
        let value = libc::c_int::from(on);
        let set = |(level, name)| set_int(socket.as_fd(), level, name, value);
        let [tos, ttl] = [
            [(libc::IPPROTO_IP, libc::IP_RECVTOS), (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)],
            [(libc::IPPROTO_IP, libc::IP_RECVTTL), (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT)],
        ];
        on_each(socket, tos[0], tos[1], set)?;
        on_each(socket, ttl[0], ttl[1], set)
    }

    /// Returns the fields in the control messages beside a datagram.
    ///
    /// # Safety
    /// As of [`cmsg::messages`].
    pub unsafe fn beside(header: &libc::msghdr) -> ArrivedHeader {
        let mut arrived = ArrivedHeader::default();
        // SAFETY: the caller vouches for the buffer.
        for message in unsafe { cmsg::messages(header) } {
            // Beside a datagram the TOS of IPv4 has one byte; all others are integers.
            let whole = message.read::<libc::c_int>().map(|value| value as u8);
            let value = whole.or_else(|| message.read::<[u8; 1]>().map(|[byte]| byte));
            match (message.level, message.kind) {
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    arrived.dscp = value.map(Dscp::of);
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    arrived.ttl = value;
                }
                _ => {}
            }
        }
        arrived
    }

    /// Returns the fields of the packet that completed the handshake of an accepted TCP connection, which the kernel
    /// remembers (`IP_PKTOPTIONS`, `IPV6_2292PKTOPTIONS`). A connection that was dialled has none.
    pub fn of_accepted(socket: BorrowedFd<'_>) -> ArrivedHeader {
        let (level, name, reports) = if speaks_v6(socket) {
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_2292PKTOPTIONS,
                [libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT],
            )
        } else {
            (libc::IPPROTO_IP, libc::IP_PKTOPTIONS, [libc::IP_RECVTOS, libc::IP_RECVTTL])
        };
        let switch = |on| reports.map(|report| set_int(socket, level, report, on));
        if switch(1).iter().any(Result::is_err) {
            return ArrivedHeader::default();
        }
        let mut room = Room::<128>::default();
        let mut header = cmsg::header();
        room.offer(&mut header);
        let mut len = header.msg_controllen as libc::socklen_t;
        // SAFETY: the pointer and length describe the room.
        let done = unsafe {
            libc::getsockopt(socket.as_raw_fd(), level, name, header.msg_control, &mut len)
        };
        let _ = switch(0);
        if done != 0 {
            return ArrivedHeader::default();
        }
        header.msg_controllen = len as _;
        // SAFETY: the kernel filled in the first `len` bytes of the room.
        unsafe { ArrivedHeader::beside(&header) }
    }

    /// Returns these fields, and the fields of `other` where they are not known.
    pub fn or(self, other: ArrivedHeader) -> ArrivedHeader {
        ArrivedHeader { dscp: self.dscp.or(other.dscp), ttl: self.ttl.or(other.ttl) }
    }
}

/// Receives one datagram of a connected socket without waiting; returns its length, and the fields of its header if the
/// kernel reports them.
///
/// # Errors
/// The error of recvmsg(2).
pub fn receive(
    socket: &Socket,
    into: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(usize, ArrivedHeader)> {
    let mut iov = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Room::<128>::default();
    let mut header = cmsg::header();
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    control.offer(&mut header);
    let flags = flags | libc::MSG_DONTWAIT;
    // SAFETY: `header` points to buffers that outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel filled in the control buffer.
    Ok((got, unsafe { ArrivedHeader::beside(&header) }))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

    use socket2::{Domain, Type};

    use super::*;

    fn set(socket: &Socket, dscp: u8, ttl: u8) {
        set_field(socket, |field| Dscp::of(dscp << 2).field(field)).unwrap();
        set_hops(socket, ttl).unwrap();
    }

    #[test]
    fn marking_for_ecn_leaves_the_codepoint() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let socket = Socket::from(UdpSocket::bind(at).unwrap());
            set(&socket, 46, 64);
            set_field(&socket, |field| field & !0b11 | 0b10).unwrap();
            assert_eq!(field(socket.as_fd()), Some(46 << 2 | 0b10));
            set(&socket, 10, 64);
            assert_eq!(field(socket.as_fd()), Some(10 << 2 | 0b10));
        }
    }

    #[test]
    fn an_accepted_stream_knows_what_arrived_even_with_a_mapped_address() {
        for (listen, to) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "::1"), ("[::]:0", "127.0.0.1")]
        {
            let listener = TcpListener::bind(listen).unwrap();
            let to = SocketAddr::new(to.parse().unwrap(), listener.local_addr().unwrap().port());
            let near = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
            set(&near, 18, 33);
            near.connect(&to.into()).unwrap();
            let far: TcpStream = listener.accept().unwrap().0;
            let arrived = ArrivedHeader::of_accepted(far.as_fd());
            let wanted = ArrivedHeader { dscp: Some(Dscp::of(18 << 2)), ttl: Some(33) };
            assert_eq!(arrived, wanted, "{listen} {to}");
        }
    }

    #[test]
    fn a_datagram_brings_its_fields_while_they_are_announced() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let far = UdpSocket::bind(at).unwrap();
            let near = Socket::from(UdpSocket::bind(at).unwrap());
            near.connect(&far.local_addr().unwrap().into()).unwrap();
            set(&near, 44, 7);
            let far = Socket::from(far);
            let wanted = ArrivedHeader { dscp: Some(Dscp::of(44 << 2)), ttl: Some(7) };
            for (on, found) in [(true, wanted), (false, ArrivedHeader::default())] {
                ArrivedHeader::announce(&far, on).unwrap();
                near.send(b"hello").unwrap();
                assert_eq!(receive(&far, &mut [0; 9], 0).unwrap(), (5, found));
            }
        }
    }
}

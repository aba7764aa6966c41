//! Sockets of a service that answers strangers: a UDP socket that answers each datagram from the address to which it was
//! sent, with the facts about it that the kernel knows; and a TCP listener.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use deadheat_base::cmsg::{self, Room};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::destination::{Destination, announce_destination, canonical, receive_with};
use super::option::set_int;
use deadheat_base::error::{Error, Result};

/// Number of connections that the kernel completes while the service is busy.
const BACKLOG: i32 = 128;

/// Bytes of IP and UDP headers.
const HEADERS_V4: u64 = 20 + 8;
const HEADERS_V6: u64 = 40 + 8;

/// UDP socket of a service.
#[derive(Debug)]
pub struct AnswerSocket {
    socket: UdpSocket,
    is_v6: bool,
}

/// Facts about a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    /// Length, or the length of the buffer if the datagram was longer.
    pub len: usize,
    /// Source, which may be forged.
    pub peer: SocketAddr,
    /// Address that it was sent to, if the kernel reports it.
    pub to: Option<Destination>,
    /// TTL or hop limit on arrival.
    pub ttl: Option<u8>,
    /// TOS byte or traffic class on arrival.
    pub field: Option<u8>,
    /// Time of arrival at the kernel, as time of day in nanoseconds since 1970.
    pub at_ns: Option<u64>,
}

impl Arrived {
    /// Returns the bytes of an IP packet that carries `len` bytes of UDP to or from this peer.
    pub fn packet(&self, len: usize) -> u64 {
        len as u64 + if self.peer.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
    }

    /// Returns true if an answer may leave: both addresses are of one host each.
    pub fn is_unicast(&self) -> bool {
        let is_of_one = |ip: IpAddr| match ip.to_canonical() {
            IpAddr::V4(ip) => !ip.is_broadcast() && !ip.is_multicast() && !ip.is_unspecified(),
            IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
        };
        is_of_one(self.peer.ip())
            && self.to.is_none_or(|to| is_of_one(to.ip))
            && self.peer.port() != 0
    }
}

impl AnswerSocket {
    /// Binds a socket, of both families at the unspecified address of IPv6.
    ///
    /// # Errors
    /// [`Error::Setup`] with the address and a remedy.
    pub fn bind(at: SocketAddr) -> Result<AnswerSocket> {
        let open = || {
            let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
            if at.is_ipv6() {
                socket.set_only_v6(false)?;
            }
            announce_destination(&socket, at)?;
            announce_fields(&socket, at);
            let fd = socket.as_fd();
            set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
            socket.bind(&at.into())?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|e| explain("UDP", at, e))?;
        Ok(AnswerSocket { socket: socket.into(), is_v6: at.is_ipv6() })
    }

    /// Returns its address.
    ///
    /// # Errors
    /// The error of getsockname(2).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Asks for room for `bytes` of datagrams that have arrived; the kernel grants no more than its settings allow.
    pub fn make_room(&self, bytes: usize) {
        // Less room loses datagrams earlier, which those who count them see.
        let _ = socket2::SockRef::from(&self.socket).set_recv_buffer_size(bytes);
    }

    /// Receives one datagram without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise the error of recvmsg(2).
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Arrived> {
        let (mut ttl, mut field, mut at_ns) = (None, None, None);
        let (len, from, to, ()) = receive_with(&self.socket, into, |header| {
            // SAFETY: the kernel filled in the control buffer.
            for message in unsafe { cmsg::messages(header) } {
                match (message.level, message.kind) {
                    (libc::IPPROTO_IP, libc::IP_TTL)
                    | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                        ttl = message.read::<libc::c_int>().map(|ttl| ttl as u8);
                    }
                    (libc::IPPROTO_IP, libc::IP_TOS) => field = message.data.first().copied(),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        field = message.read::<libc::c_int>().map(|field| field as u8);
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        at_ns = message.read::<libc::timespec>().and_then(nanos);
                    }
                    _ => {}
                }
            }
        })?;
        let no_source = || io::Error::new(io::ErrorKind::InvalidData, "no IP source address");
        let peer = canonical(from.ok_or_else(no_source)?);
        Ok(Arrived { len, peer, to, ttl, field, at_ns })
    }

    /// Sends an answer to the source of a datagram, from the address that the datagram was sent to, without waiting. `field`
    /// is its TOS byte or traffic class, if it has a particular one.
    ///
    /// # Errors
    /// The error of sendmsg(2).
    pub fn answer(&self, bytes: &[u8], arrived: &Arrived, field: Option<u8>) -> io::Result<()> {
        let mut iov =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let (mut control, mut len) = (Room::<96>::default(), 0);
        if let Some(to) = arrived.to {
            len = put_source(&mut control, self.is_v6, to);
        }
        if let Some(field) = field {
            let (level, kind) = if arrived.peer.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            len = control.put(len, level, kind, &libc::c_int::from(field).to_ne_bytes());
        }
        let peer = match arrived.peer {
            SocketAddr::V4(peer) if self.is_v6 => {
                SocketAddr::new(IpAddr::V6(peer.ip().to_ipv6_mapped()), peer.port())
            }
            peer => peer,
        };
        let peer = SockAddr::from(peer);
        let mut header = cmsg::header();
        header.msg_name = peer.as_ptr().cast_mut().cast();
        header.msg_namelen = peer.len();
        header.msg_iov = &mut iov;
        header.msg_iovlen = 1;
        if len > 0 {
            control.beside(&mut header, len);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `header` points to buffers and an address that outlive the call.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &header, flags) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for AnswerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a listener of TCP, and of multipath TCP (RFC 8684) where the kernel has it, of both families at the unspecified
/// address of IPv6; nonblocking.
///
/// # Errors
/// [`Error::Setup`] with the address and a remedy.
pub fn listen(at: SocketAddr) -> Result<TcpListener> {
    let open = || {
        let new = |protocol| Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol));
        let socket = new(Protocol::MPTCP).or_else(|_| new(Protocol::TCP))?;
        if at.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // A restart must not wait for the last run's connections to leave TIME-WAIT.
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    open().map_err(|e| explain("TCP", at, e))
}

/// Opens a listener, and a UDP socket at the same port.
///
/// # Errors
/// As [`listen`] and [`AnswerSocket::bind`].
pub fn both(at: SocketAddr) -> Result<(TcpListener, AnswerSocket)> {
    // The port that the system chose for TCP may be in use for UDP; the next choice is another.
    const CHOICES: usize = 16;
    let mut choices = 1;
    loop {
        let tcp = listen(at)?;
        let port = tcp.local_addr().map_err(|e| explain("TCP", at, e))?.port();
        match AnswerSocket::bind(SocketAddr::new(at.ip(), port)) {
            Err(_) if at.port() == 0 && choices < CHOICES => choices += 1,
            udp => return Ok((tcp, udp?)),
        }
    }
}

/// Makes the kernel report the fields of the IP header of each datagram. One of IPv6 may come from a peer of IPv4.
fn announce_fields(socket: &Socket, at: SocketAddr) {
    let v4 = [libc::IP_RECVTTL, libc::IP_RECVTOS].map(|name| (libc::IPPROTO_IP, name));
    let v6 =
        [libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVTCLASS].map(|name| (libc::IPPROTO_IPV6, name));
    let v6 = v6.into_iter().filter(|_| at.is_ipv6());
    for (level, name) in v4.into_iter().chain(v6) {
        // Without it the field is unknown, which answers show.
        let _ = set_int(socket.as_fd(), level, name, 1);
    }
}

/// Writes the source address of an answer; returns the offset behind it.
fn put_source(control: &mut Room<96>, is_v6: bool, to: Destination) -> usize {
    match to.ip.to_canonical() {
        IpAddr::V4(ip) if !is_v6 => {
            // in_pktinfo of ip(7): interface, source, and an address that is not read.
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&ip.octets());
            control.put(0, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
        }
        ip => {
            let v6 = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            // in6_pktinfo of RFC 3542: source, interface.
            let mut info = [0; 20];
            info[..16].copy_from_slice(&v6.octets());
            if v6.is_unicast_link_local() {
                info[16..].copy_from_slice(&to.interface().to_ne_bytes());
            }
            control.put(0, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
        }
    }
}

fn nanos(ts: libc::timespec) -> Option<u64> {
    let secs = u64::try_from(ts.tv_sec).ok()?;
    secs.checked_mul(1_000_000_000)?.checked_add(u64::try_from(ts.tv_nsec).ok()?)
}

fn explain(what: &str, at: SocketAddr, error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "another program serves there; end it, or choose another port",
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one"
        }
        _ => "",
    };
    Error::setup_advice(format!("bind {at}, {what}"), error, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::descriptor::readable;
    use deadheat_base::time::{Clock, Nanos, Realtime};

    #[test]
    fn an_answer_leaves_from_the_address_that_was_asked_and_knows_the_packet() {
        let far = AnswerSocket::bind("[::]:0".parse().unwrap()).unwrap();
        let port = far.local_addr().unwrap().port();
        for (from, to) in [("127.0.0.1:0", "127.0.0.2"), ("[::1]:0", "::1")] {
            let near = UdpSocket::bind(from).unwrap();
            let to = SocketAddr::new(to.parse().unwrap(), port);
            // A connected socket takes answers from this address alone.
            near.connect(to).unwrap();
            super::super::ip_header::set_hops(&Socket::from(near.try_clone().unwrap()), 7).unwrap();
            super::super::ip_header::set_field(&Socket::from(near.try_clone().unwrap()), |_| 0xb8)
                .unwrap();
            near.send(b"asked").unwrap();
            assert!(readable(far.as_fd(), Nanos::from_secs(5)).unwrap());
            let mut bytes = [0; 9];
            let arrived = far.receive(&mut bytes).unwrap();
            assert_eq!((arrived.len, arrived.peer), (5, near.local_addr().unwrap()));
            assert_eq!((arrived.ttl, arrived.field), (Some(7), Some(0xb8)), "{from}");
            assert!(arrived.is_unicast());
            let age = Realtime.now().0.abs_diff(arrived.at_ns.unwrap());
            assert!(age < 10_000_000_000, "{age}");
            far.answer(&bytes[..5], &arrived, Some(0x28)).unwrap();
            assert_eq!(near.recv(&mut bytes).unwrap(), 5);
        }
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let (tcp, _udp) = both("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = tcp.local_addr().unwrap();
        let said = AnswerSocket::bind(at).unwrap_err().to_string();
        assert!(said.contains(&at.to_string()) && said.contains("another port"), "{said}");
        assert!(listen(at).unwrap_err().to_string().contains("TCP"));
    }

    #[test]
    fn datagrams_to_and_from_many_hosts_get_no_answer() {
        let arrived = |peer: &str| Arrived {
            len: 1,
            peer: peer.parse().unwrap(),
            to: None,
            ttl: None,
            field: None,
            at_ns: None,
        };
        for peer in
            ["255.255.255.255:5000", "224.0.0.1:5000", "0.0.0.0:5", "[ff02::1]:5", "10.0.0.1:0"]
        {
            assert!(!arrived(peer).is_unicast(), "{peer}");
        }
        assert_eq!(arrived("10.0.0.1:5").packet(44), 72);
        assert_eq!(arrived("[::1]:5").packet(44), 92);
    }
}

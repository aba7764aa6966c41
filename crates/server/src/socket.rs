//! Port of the server: one TCP listener and one UDP socket, on every address of the host by default.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::config::Bind;
use deadheat_base::error::{Error, Result};
use deadheat_datapath::datapath::destination::{announce_destination, canonical, receive_from};
use deadheat_datapath::datapath::option::{self, FAST_OPEN_QUEUE};
use deadheat_datapath::transport::equal::CC;

/// Number of connections that the kernel completes while the server is busy with others.
const BACKLOG: i32 = 4_096;

/// Sockets of the port, bound.
pub(super) struct Sockets {
    /// TCP listener; nonblocking.
    pub(super) tcp: TcpListener,
    /// UDP socket; nonblocking, used only to receive.
    pub(super) udp: UdpSocket,
    /// Address of both.
    pub(super) local: SocketAddr,
}

impl Sockets {
    /// Binds TCP and UDP to the same port of the first address that this host has.
    pub(super) fn bind(bind: &Bind) -> Result<Sockets> {
        let addresses = bind.addresses();
        let (last, earlier) = match addresses.split_last() {
            Some((last, earlier)) => (*last, earlier),
            None => return Err(Error::usage("no address to bind")),
        };
        for address in earlier {
            match Sockets::at(*address) {
                Err(e) if lacks_family(&e) => {}
                done => return done.map_err(|e| explain(*address, e)),
            }
        }
        Sockets::at(last).map_err(|e| explain(last, e))
    }

    fn at(address: SocketAddr) -> io::Result<Sockets> {
        // The port that the system chose for TCP may be in use for UDP; the next choice is another.
        const CHOICES: usize = 16;
        let mut choices = 1;
        loop {
            let tcp = listener(address)?;
            let local = tcp.local_addr()?;
            match datagrams(with_port(address, local.port())) {
                Ok(udp) => return Ok(Sockets { tcp, udp, local }),
                Err(e)
                    if e.kind() == io::ErrorKind::AddrInUse
                        && address.port() == 0
                        && choices < CHOICES =>
                {
                    choices += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let open = |protocol| Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol));
    // A listener of multipath TCP (RFC 8684) accepts plain TCP as well; not every kernel has it.
    let socket = open(Protocol::MPTCP).or_else(|_| open(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for the last run's connections to leave TIME-WAIT.
    socket.set_reuse_address(true)?;
    // Data in a SYN (RFC 7413) is a hello. A host whose settings refuse it (`net.ipv4.tcp_fastopen`), or an older kernel
    // with a listener of multipath TCP, goes on without.
    let _ = option::set_words(
        socket.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_FASTOPEN,
        &[FAST_OPEN_QUEUE],
    );
    // Agents have no capability, and may choose only what `net.ipv4.tcp_allowed_congestion_control` names; what the listener
    // has is theirs too. A server without the right leaves the host's default, which the results name.
    let _ = socket.set_tcp_congestion(CC.as_bytes());
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Agents bind the same port beside it, each connected to one peer.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    announce_destination(&socket, address)?;
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Addresses and length of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram {
    /// Length of the datagram, or of the buffer if the datagram was longer.
    pub(super) len: usize,
    /// Source address, which may be forged.
    pub(super) peer: SocketAddr,
    /// Address of this host that it was sent to; absent if the kernel does not report it.
    pub(super) to: Option<IpAddr>,
}

/// Receives one datagram without waiting; a longer one than `buffer` is truncated.
///
/// # Errors
/// `WouldBlock` if there is none; otherwise the error of recvmsg(2).
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Datagram> {
    let (len, peer, to) = receive_from(socket, buffer)?;
    let Some(peer) = peer else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no IP source address"));
    };
    Ok(Datagram { len, peer: canonical(peer), to: to.map(|to| to.ip.to_canonical()) })
}

/// Returns `ip` at `port`, in the scope of `peer`: a link-local address is incomplete without it.
pub(super) fn beside(peer: SocketAddr, ip: IpAddr, port: u16) -> SocketAddr {
    let mut address = SocketAddr::new(ip, port);
    if let (SocketAddr::V6(peer), SocketAddr::V6(mine)) = (peer, &mut address)
        && mine.ip().is_unicast_link_local()
    {
        mine.set_scope_id(peer.scope_id());
    }
    address
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Returns true if the host has no IPv6, rather than no free port for one more server.
fn lacks_family(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::ENOPROTOOPT | libc::EPROTONOSUPPORT)
    )
}

fn explain(address: SocketAddr, error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "is another deadheat serving there? end it, or choose another port with --port"
        }
        io::ErrorKind::AddrNotAvailable => "--bind takes an address of this host; see `ip address`",
        io::ErrorKind::PermissionDenied => "ports below 1024 need root; choose a higher one",
        _ => "",
    };
    Error::setup_advice(format!("bind {address}, TCP and UDP"), error, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::time::Nanos;
    use deadheat_datapath::transport::handover::readable;

    /// Sends `bytes` to `to` at the sockets' port; returns what the server's socket receives.
    fn arrives(sockets: &Sockets, from: &str, to: &str, bytes: &[u8]) -> (SocketAddr, Datagram) {
        let near = UdpSocket::bind(from).unwrap();
        let to = SocketAddr::new(to.parse().unwrap(), sockets.local.port());
        near.send_to(bytes, to).unwrap();
        assert!(readable(sockets.udp.as_fd(), Nanos::from_secs(5)).unwrap());
        let got = receive(sockets.udp.as_fd(), &mut [0; 25]).unwrap();
        (near.local_addr().unwrap(), got)
    }

    #[test]
    fn both_families_arrive_with_the_address_they_were_sent_to() {
        let sockets = Sockets::bind(&Bind::Any(0)).unwrap();
        let (from, got) = arrives(&sockets, "127.0.0.1:0", "127.0.0.2", b"four");
        assert_eq!((got.len, got.peer), (4, from));
        assert_eq!(got.to, Some("127.0.0.2".parse().unwrap()));
        if sockets.local.is_ipv4() {
            println!("no IPv6 on this host: its half of the test is left out");
            return;
        }
        let (from, got) = arrives(&sockets, "[::1]:0", "::1", &[0; 99]);
        assert_eq!((got.len, got.peer), (25, from));
        assert_eq!(got.to, Some("::1".parse().unwrap()));
    }

    #[test]
    fn connections_begin_with_the_default_of_contenders_where_the_server_may_choose() {
        let own = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        if let Err(why) = own.set_tcp_congestion(CC.as_bytes()) {
            println!("skipped: this user may not choose {CC} ({why})");
            return;
        }
        let sockets = Sockets::bind(&Bind::At("127.0.0.1:0".parse().unwrap())).unwrap();
        let near = std::net::TcpStream::connect(sockets.local).unwrap();
        sockets.tcp.set_nonblocking(false).unwrap();
        let (far, _) = sockets.tcp.accept().unwrap();
        let chosen = socket2::SockRef::from(&far).tcp_congestion().unwrap();
        assert!(chosen.starts_with(CC.as_bytes()), "{chosen:?}");
        drop(near);
    }

    #[test]
    fn an_ipv4_socket_says_the_destination_too() {
        let sockets = Sockets::bind(&Bind::At("0.0.0.0:0".parse().unwrap())).unwrap();
        let (_, got) = arrives(&sockets, "127.0.0.1:0", "127.0.0.3", b"x");
        assert_eq!(got.to, Some("127.0.0.3".parse().unwrap()));
    }

    #[test]
    fn a_port_in_use_is_named_with_what_to_do() {
        let first = Sockets::bind(&Bind::At("127.0.0.1:0".parse().unwrap())).unwrap();
        let say = Sockets::bind(&Bind::At(first.local)).err().unwrap().to_string();
        assert!(say.contains(&first.local.to_string()), "{say}");
        assert!(say.contains("is another deadheat serving there?"), "{say}");
        let elsewhere = Bind::At("192.0.2.1:0".parse().unwrap());
        let say = Sockets::bind(&elsewhere).err().unwrap().to_string();
        assert!(say.contains("--bind takes an address of this host"), "{say}");
    }

    #[test]
    fn a_link_local_address_keeps_its_scope() {
        let peer: SocketAddr = "[fe80::2%7]:9".parse().unwrap();
        let mine = beside(peer, "fe80::1".parse().unwrap(), 5210);
        assert_eq!(mine, "[fe80::1%7]:5210".parse().unwrap());
    }
}

//! Ports of protocols other than TCP and UDP, which a server opens where its operator wants it. A connection there
//! presents its hello as everywhere, and is handed to its trial as everywhere.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use deadheat_base::descriptor::ready;
use socket2::{Domain, Socket, Type};

use super::hello::{self, Hello};
use super::udp_handshake::Variant;
use crate::datapath::destination::{announce_destination, at_port, canonical, receive_from};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Function that opens the port of a protocol at an address.
pub type PortOpener = fn(SocketAddr) -> Result<Box<dyn OwnPort>>;

/// Port of a protocol, open at a server.
pub trait OwnPort: Send {
    /// Waits for the next connection that presents a hello, until `stop` is readable; `None` once it is.
    ///
    /// # Errors
    /// The error of a system call.
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<PresentedConnection>>;
}

/// Connection that has presented a hello, which is not checked yet.
#[derive(Debug)]
pub enum PresentedConnection {
    /// Connected socket.
    Stream {
        /// Hello that was read from it.
        hello: Hello,
        /// Address of the near end.
        peer: SocketAddr,
        /// The socket.
        socket: OwnedFd,
    },
    /// Peer of a flow of datagrams.
    Datagrams {
        /// Hello that it sent.
        hello: Hello,
        /// Address of this host that it was sent to.
        local: SocketAddr,
        /// Address of the near end.
        peer: SocketAddr,
    },
}

/// Port of a protocol of datagrams. It only receives; each trial binds a socket of its own beside it.
#[derive(Debug)]
pub struct DatagramPort {
    socket: Socket,
    port: u16,
}

impl DatagramPort {
    /// Opens the port.
    ///
    /// # Errors
    /// The failed operation with its address.
    pub fn open(variant: Variant, at: SocketAddr) -> Result<DatagramPort> {
        let open = || {
            let domain = Domain::for_address(at);
            let socket = Socket::new(domain, Type::DGRAM, Some(variant.protocol))?;
            socket.set_reuse_address(true)?;
            if at.is_ipv6() {
                socket.set_only_v6(false)?;
            }
            announce_destination(&socket, at)?;
            socket.bind(&at.into())?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let failed = |e| Error::setup(format!("open the port {at} for {}", variant.label), e);
        Ok(DatagramPort { socket: open().map_err(failed)?, port: at.port() })
    }
}

impl OwnPort for DatagramPort {
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<PresentedConnection>> {
        loop {
            if wait_for(&[stop, self.socket.as_fd()], None)?[0] {
                return Ok(None);
            }
            let mut bytes = [0; hello::LEN + 1];
            // An error is about an earlier datagram, or there is none.
            let Ok((len, Some(peer), Some(to))) = receive_from(&self.socket, &mut bytes) else {
                continue;
            };
            if let Some(hello) = Hello::decode(&bytes[..len]) {
                let local = canonical(at_port(to, self.port));
                let peer = canonical(peer);
                return Ok(Some(PresentedConnection::Datagrams { hello, local, peer }));
            }
        }
    }
}

/// Waits until one of `fds` is readable (or closed), at most until `deadline`; returns for each whether it is. May return
/// early, with none readable.
///
/// # Errors
/// The error of poll(2).
pub fn wait_for(fds: &[BorrowedFd<'_>], deadline: Option<Nanos>) -> io::Result<Vec<bool>> {
    let left = deadline.map(|deadline| deadline - Monotonic.now());
    ready(fds.iter().map(|fd| (*fd, libc::POLLIN)), left)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use super::super::udp_handshake::UDP;
    use super::*;
    use crate::transport::hello::Token;

    #[test]
    fn hellos_are_presented_with_both_addresses_and_all_else_is_dropped() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut port = DatagramPort::open(UDP, free).unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = Hello { token: Token::from_bytes([3; 16]), flow: 9 };
        for datagram in [&b"noise"[..], &sent.encode_welcome(), &sent.encode()] {
            near.send_to(datagram, free).unwrap();
        }
        let (stop, pull) = UnixStream::pair().unwrap();
        let Some(PresentedConnection::Datagrams { hello, local, peer }) =
            port.next(stop.as_fd()).unwrap()
        else {
            panic!("no datagrams")
        };
        assert_eq!((hello, local, peer), (sent, free, near.local_addr().unwrap()));
        drop(pull);
        assert!(port.next(stop.as_fd()).unwrap().is_none());
    }
}

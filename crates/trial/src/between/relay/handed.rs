//! Relay at a server: its near ends come in at the server's port, which hands over those whose hello names the trial
//! and that come from the client's address. It forwards them to one far end, of the same trial on the same host, whose
//! address the server has from that far end itself: no client says where this relay leads.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use socket2::{Domain, Protocol, Socket, Type};

use super::{NearEnds, NearSocket, RECEIVE_BUFFER, Relay};
use crate::agent::confine::confine;
use crate::agent::session::send_message;
use crate::control::{ForwardPlan, FromAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::option::Buffer;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::handover::{HandOver, HandedConnection};
use deadheat_datapath::transport::hello::{Hello, Token};

/// Relays the connections of `door` until the link to the server has a message, or closes.
///
/// # Errors
/// [`Error::Setup`] if the kernel refuses to confine the process, or to poll; [`Error::Usage`] without a token.
pub(crate) fn run(plan: &ForwardPlan, door: HandOver, mut control: UnixStream) -> Result<()> {
    confine()?;
    let Some(token) = plan.token else {
        return Err(Error::usage("a relay at a server needs the token of its trial"));
    };
    send_message(&mut control, &FromAgent::Ready { endpoint: Address::Ip(plan.at) })?;
    Relay::new(plan.to).forward(&control, &mut Door { token, door })
}

/// Near ends that a server hands over. The server has read their hellos, which the far end gets anew.
pub(super) struct Door {
    pub(super) token: Token,
    pub(super) door: HandOver,
}

impl NearEnds for Door {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.door.as_fd()]
    }

    fn admit(&mut self, relay: &mut Relay) -> io::Result<()> {
        let hello = |flow| Hello { token: self.token, flow }.encode();
        match self.door.take(Nanos::ZERO)? {
            Some(HandedConnection::Stream { flow, socket }) => {
                relay.add_stream(TcpStream::from(socket), &hello(flow));
            }
            Some(HandedConnection::Datagrams { flow, local, peer, .. }) => {
                if let Ok(near) = near_socket(local, peer)
                    && let Ok(at) = relay.add_pair(NearSocket::Own(near))
                {
                    let _ = relay.pairs[at].far.send(&hello(flow), Patience::None);
                }
            }
            None => {}
        }
        Ok(())
    }
}

/// Returns a socket that is connected to a near end, at the server's port.
fn near_socket(local: SocketAddr, peer: SocketAddr) -> io::Result<CountedSocket> {
    let near = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    // The server has the same port, for hellos.
    near.set_reuse_address(true)?;
    near.bind(&local.into())?;
    let _ = Buffer::Receive.request(&near, Some(RECEIVE_BUFFER));
    near.connect(&peer.into())?;
    CountedSocket::new(near)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};
    use std::thread;

    use super::*;

    const TOKEN: Token = Token::from_bytes([7; 16]);

    /// A thread of a test must not be confined.
    fn relay(to: SocketAddr, door: HandOver) -> (UnixStream, thread::JoinHandle<()>) {
        let (race, control) = UnixStream::pair().unwrap();
        let mut door = Door { token: TOKEN, door };
        (race, thread::spawn(move || Relay::new(to).forward(&control, &mut door).unwrap()))
    }

    #[test]
    fn the_far_end_gets_the_hello_that_the_server_read_and_everything_after_it() {
        let (server, door) = HandOver::pair().unwrap();
        let far = TcpListener::bind("127.0.0.1:0").unwrap();
        let (race, running) = relay(far.local_addr().unwrap(), door);
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(port.local_addr().unwrap()).unwrap();
        server.give_stream(3, port.accept().unwrap().0.as_fd()).unwrap();
        near.write_all(b"and more").unwrap();
        let (mut far, _) = far.accept().unwrap();
        let mut got = [0; 32];
        far.read_exact(&mut got).unwrap();
        assert_eq!(got[..24], Hello { token: TOKEN, flow: 3 }.encode());
        assert_eq!(&got[24..], b"and more");
        far.write_all(b"hi").unwrap();
        near.read_exact(&mut got[..2]).unwrap();
        assert_eq!(&got[..2], b"hi");
        drop(race);
        running.join().unwrap();
    }

    #[test]
    fn datagrams_leave_from_the_port_of_the_server() {
        let (server, door) = HandOver::pair().unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (race, running) = relay(far.local_addr().unwrap(), door);
        let port = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        port.set_reuse_address(true).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        port.bind(&any.into()).unwrap();
        let local = port.local_addr().unwrap().as_socket().unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(local).unwrap();
        server.give_datagrams(1, local, near.local_addr().unwrap()).unwrap();
        let mut got = [0; 64];
        let (len, from) = far.recv_from(&mut got).unwrap();
        assert_eq!(got[..len], Hello { token: TOKEN, flow: 1 }.encode());
        near.send(b"ping").unwrap();
        assert_eq!(far.recv_from(&mut got).unwrap(), (4, from));
        far.send_to(b"pong!", from).unwrap();
        assert_eq!(near.recv(&mut got).unwrap(), 5);
        assert_eq!(&got[..5], b"pong!");
        drop(race);
        running.join().unwrap();
    }
}

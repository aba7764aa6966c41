//! Relay at a server: its near ends come in at the server's port, which hands over those whose hello names the trial
//! and that come from the client's address. It forwards them to one far end, of the same trial on the same host, whose
//! address the server has from that far end itself: no client says where a relay leads.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use socket2::{Domain, SockRef, Socket, Type};

use super::{LARGEST, MOST, RECEIVE_BUFFER, RelayedStream, TURN, poll_for, ready, turn_all};
use crate::datapath::option::Buffer;
use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::transport::Address;
use crate::transport::handover::{HandOver, HandedConnection};
use crate::transport::hello::{Hello, Token};
use crate::trial::agent::confine::confine;
use crate::trial::agent::session::send_message;
use crate::trial::control::{ForwardPlan, FromAgent};

/// Relays the connections of `door` until the link to the server has a message, or closes.
///
/// # Errors
/// [`Error::Setup`] if the kernel refuses to confine the process, or to poll; [`Error::Usage`] without a token.
pub(in crate::trial) fn run(
    plan: &ForwardPlan,
    door: HandOver,
    mut control: UnixStream,
) -> Result<()> {
    confine()?;
    let Some(token) = plan.token else {
        return Err(Error::usage("a relay at a server needs the token of its trial"));
    };
    send_message(&mut control, &FromAgent::Ready { endpoint: Address::Ip(plan.at) })?;
    let (streams, pairs, scratch) = (Vec::new(), Vec::new(), vec![0; LARGEST]);
    let mut relay = HandedRelay { to: plan.to, token, door, streams, pairs, scratch };
    relay.forward(&control).map_err(|e| Error::setup("wait for what is to be relayed", e))
}

struct HandedRelay {
    to: SocketAddr,
    token: Token,
    door: HandOver,
    streams: Vec<RelayedStream>,
    pairs: Vec<DatagramPair>,
    scratch: Vec<u8>,
}

/// Sockets of a near end that sends datagrams: to it, from the server's port, and to the far end.
struct DatagramPair {
    near: UdpSocket,
    far: UdpSocket,
}

impl HandedRelay {
    fn forward(&mut self, control: &UnixStream) -> io::Result<()> {
        let mut waiting = Vec::new();
        loop {
            waiting.clear();
            waiting.extend([
                poll_for(control.as_raw_fd(), libc::POLLIN),
                poll_for(self.door.as_fd().as_raw_fd(), libc::POLLIN),
            ]);
            let sockets = self.pairs.iter().flat_map(|pair| [&pair.near, &pair.far]);
            waiting.extend(sockets.map(|socket| poll_for(socket.as_raw_fd(), libc::POLLIN)));
            waiting.extend(self.streams.iter().flat_map(RelayedStream::waits_for));
            let Some(is_ready) = ready(&mut waiting)? else { continue };
            let (first, rest) = is_ready.split_at(2);
            if first[0] {
                return Ok(());
            }
            let (pairs, streams) = rest.split_at(2 * self.pairs.len());
            for (pair, ends) in self.pairs.iter().zip(pairs.chunks_exact(2)) {
                pair.turn(ends, &mut self.scratch);
            }
            turn_all(&mut self.streams, streams);
            if first[1] {
                self.take()?;
            }
        }
    }

    /// Takes a near end that was handed over. The server has read its hello, which the far end gets anew.
    fn take(&mut self) -> io::Result<()> {
        let Some(handed) = self.door.take(Nanos::ZERO)? else { return Ok(()) };
        if self.streams.len() + self.pairs.len() >= MOST {
            return Ok(());
        }
        let hello = |flow| Hello { token: self.token, flow }.encode();
        // A near end that cannot be relayed sees its connection end, or no answer.
        match handed {
            HandedConnection::Stream { flow, socket } => {
                if let Ok(mut stream) = RelayedStream::between(TcpStream::from(socket), self.to) {
                    stream.begin(&hello(flow));
                    self.streams.push(stream);
                }
            }
            HandedConnection::Datagrams { flow, local, peer } => {
                if let Ok(pair) = DatagramPair::between(local, peer, self.to) {
                    let _ = pair.far.send(&hello(flow));
                    self.pairs.push(pair);
                }
            }
        }
        Ok(())
    }
}

impl DatagramPair {
    fn between(local: SocketAddr, peer: SocketAddr, to: SocketAddr) -> io::Result<DatagramPair> {
        let near = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
        // The server has the same port, for hellos.
        near.set_reuse_address(true)?;
        near.bind(&local.into())?;
        near.connect(&peer.into())?;
        let far = UdpSocket::bind(SocketAddr::new(to.ip(), 0))?;
        far.connect(to)?;
        let near = UdpSocket::from(near);
        for socket in [&near, &far] {
            socket.set_nonblocking(true)?;
            let _ = Buffer::Receive.request(&SockRef::from(socket), Some(RECEIVE_BUFFER));
        }
        Ok(DatagramPair { near, far })
    }

    /// Forwards the datagrams of both ends that have some.
    fn turn(&self, ready: &[bool], scratch: &mut [u8]) {
        let ways = [(&self.near, &self.far), (&self.far, &self.near)];
        for ((from, to), _) in ways.into_iter().zip(ready).filter(|(_, ready)| **ready) {
            for _ in 0..TURN {
                // An error is the network's report about an earlier datagram.
                let Ok(len) = from.recv(scratch) else { break };
                // A datagram that does not fit is lost, as on any path.
                let _ = to.send(&scratch[..len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const TOKEN: Token = Token::from_bytes([7; 16]);

    /// A thread of a test must not be confined.
    fn relay(to: SocketAddr, door: HandOver) -> (UnixStream, thread::JoinHandle<()>) {
        let (race, control) = UnixStream::pair().unwrap();
        let (streams, pairs, scratch) = (Vec::new(), Vec::new(), vec![0; LARGEST]);
        let mut relay = HandedRelay { to, token: TOKEN, door, streams, pairs, scratch };
        (race, thread::spawn(move || relay.forward(&control).unwrap()))
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

//! Relay: a node between the near end and a far one. It forwards all that arrives at one port, over TCP or UDP, to the
//! far end's address, and the answers back, as a TURN relay (RFC 8656) or a proxy does.
//!
//! ```text
//! near end ── path ──► relay:port ── inside the host, or on to another ──► far end
//!                      one connection or socket for each near one
//! ```
//!
//! One thread, one system call for each datagram, sleeping while idle: an ordinary relay; its cost should show in
//! the figures. A connection that fails on one side is reset on the other.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use deadheat_base::descriptor::ready;
use socket2::{Domain, SockRef, Socket, Type};

use crate::agent::session::send_message;
use crate::control::{ForwardPlan, FromAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::option::{Buffer, reset_on_close};
use deadheat_datapath::datapath::policer;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::Address;

pub(crate) mod handed;
pub(crate) mod onward;

/// Buffer for one direction of a connection, in bytes.
const BUFFER: usize = 256 << 10;
/// Largest datagram.
const LARGEST: usize = 1 << 16;
/// Datagrams that are forwarded from one socket before the next socket's turn.
const TURN: usize = 64;
/// Receive buffer of each UDP socket.
const RECEIVE_BUFFER: Bytes = Bytes(4 << 20);
/// Most connections, and most UDP peers, at a time.
const MOST: usize = 1024;
/// Ports to try until one is free for both protocols.
const TRIES: usize = 16;

/// Relays until the link to the race has a message, or closes.
///
/// # Errors
/// [`Error::Setup`] if no port is free for both TCP and UDP, or if the kernel refuses to poll.
pub(crate) fn run(plan: &ForwardPlan, mut control: UnixStream) -> Result<()> {
    let mut port = RelayPort::open(plan.at)?;
    let endpoint = Address::Ip(port.at()?);
    send_message(&mut control, &FromAgent::Ready { endpoint })?;
    Relay::new(plan.to).forward(&control, &mut port)
}

/// Source of near ends.
trait NearEnds {
    /// Returns the descriptors that become readable when near ends arrive.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Opens a way to the far end for the near ends that have arrived. A near end that cannot be relayed sees its
    /// connection end, or no answer.
    fn admit(&mut self, relay: &mut Relay) -> io::Result<()>;
}

/// Connections and datagrams that are relayed to one far end.
struct Relay {
    to: SocketAddr,
    streams: Vec<RelayedStream>,
    pairs: Vec<DatagramPair>,
    scratch: Vec<u8>,
}

impl Relay {
    fn new(to: SocketAddr) -> Relay {
        Relay { to, streams: Vec::new(), pairs: Vec::new(), scratch: vec![0; LARGEST] }
    }

    /// Forwards for the near ends of `source` until `control` has a message, or closes.
    fn forward(&mut self, control: &UnixStream, source: &mut impl NearEnds) -> Result<()> {
        let turned = loop {
            match self.turn(control, source) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        turned.map_err(|e| Error::setup("wait for what is to be relayed", e))
    }

    /// Waits for an event and handles it; returns true if it is on `control`.
    fn turn(&mut self, control: &UnixStream, source: &mut impl NearEnds) -> io::Result<bool> {
        let first = {
            let doors = source.fds();
            let count = 1 + doors.len();
            let doors = [control.as_fd()].into_iter().chain(doors);
            let doors = doors.map(|fd| (Some(fd), libc::POLLIN));
            let pairs = self.pairs.iter().flat_map(DatagramPair::awaits);
            let streams = self.streams.iter().flat_map(RelayedStream::awaits);
            let mut all = ready(doors.chain(pairs).chain(streams), None)?;
            let rest = all.split_off(count);
            let (pairs, streams) = rest.split_at(2 * self.pairs.len());
            for (pair, ends) in self.pairs.iter_mut().zip(pairs.chunks_exact(2)) {
                pair.turn(ends, &mut self.scratch);
            }
            let mut ends = streams.chunks_exact(2);
            self.streams.retain_mut(|stream| {
                let is_ready = ends.next().is_none_or(|ends| ends.contains(&true));
                !is_ready || stream.turn()
            });
            all
        };
        if first[1..].contains(&true) {
            source.admit(self)?;
        }
        match policer::overrun() {
            Some(limit) => Err(io::Error::other(limit)),
            None => Ok(first[0]),
        }
    }

    /// Relays a connection of a near end; the far end gets `first` before what the near end sends.
    fn add_stream(&mut self, near: TcpStream, first: &[u8]) {
        if self.streams.len() < MOST
            && let Ok(stream) = RelayedStream::between(near, self.to, first)
        {
            self.streams.push(stream);
        }
    }

    /// Relays datagrams of a near end, over this socket, and returns the position of the pair. Of too many near ends the
    /// oldest is left.
    fn add_pair(&mut self, near: NearSocket) -> io::Result<usize> {
        let pair = DatagramPair { near, far: datagrams_to(self.to)? };
        if self.pairs.len() == MOST {
            self.pairs.remove(0);
        }
        self.pairs.push(pair);
        Ok(self.pairs.len() - 1)
    }
}

/// Port of the relay's own, for both protocols.
struct RelayPort {
    listener: TcpListener,
    /// Socket that near ends send to.
    datagrams: UdpSocket,
}

impl RelayPort {
    fn open(at: SocketAddr) -> Result<RelayPort> {
        let (listener, datagrams) =
            bind(at).map_err(|e| Error::setup(format!("relay at {at}"), e))?;
        Buffer::Receive.request(&SockRef::from(&datagrams), Some(RECEIVE_BUFFER))?;
        Ok(RelayPort { listener, datagrams })
    }

    fn at(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|e| Error::setup("find the relay's port", e))
    }
}

impl NearEnds for RelayPort {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.listener.as_fd(), self.datagrams.as_fd()]
    }

    fn admit(&mut self, relay: &mut Relay) -> io::Result<()> {
        while let Ok((near, _)) = self.listener.accept() {
            relay.add_stream(near, &[]);
        }
        for _ in 0..TURN {
            let Ok((len, from)) = self.datagrams.recv_from(&mut relay.scratch) else { break };
            let known = relay.pairs.iter().position(|pair| pair.near.is_of(from));
            let add = || relay.add_pair(NearSocket::Shared(self.datagrams.try_clone()?, from));
            let Ok(at) = known.map_or_else(add, Ok) else { continue };
            // A datagram that does not fit is lost, as on any path.
            let _ = relay.pairs[at].far.send(&relay.scratch[..len], Patience::None);
        }
        Ok(())
    }
}

/// Binds both protocols to one port.
pub(crate) fn bind(at: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = 0;
    loop {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        tries += 1;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(datagrams) => {
                datagrams.set_nonblocking(true)?;
                return Ok((listener, datagrams));
            }
            Err(error) if tries == TRIES || at.port() != 0 => return Err(error),
            Err(_) => {}
        }
    }
}

/// Datagrams of one near end.
struct DatagramPair {
    near: NearSocket,
    /// Socket that is connected to the far end.
    far: CountedSocket,
}

/// Socket to a near end.
enum NearSocket {
    /// Connected to this near end alone.
    Own(CountedSocket),
    /// Shared by all near ends, with the address of this one.
    Shared(UdpSocket, SocketAddr),
}

impl NearSocket {
    fn is_of(&self, near: SocketAddr) -> bool {
        matches!(self, NearSocket::Shared(_, address) if *address == near)
    }
}

impl DatagramPair {
    /// Returns both descriptors with the events to wait for; a shared socket is none of this pair.
    fn awaits(&self) -> [(Option<BorrowedFd<'_>>, libc::c_short); 2] {
        let near = match &self.near {
            NearSocket::Own(near) => Some(near.as_fd()),
            NearSocket::Shared(..) => None,
        };
        [(near, libc::POLLIN), (Some(self.far.as_fd()), libc::POLLIN)]
    }

    /// Forwards the datagrams of the ends that have some. An error is the network's report about an earlier datagram; a
    /// datagram that does not fit is lost, as on any path.
    fn turn(&mut self, ready: &[bool], scratch: &mut [u8]) {
        if let (true, NearSocket::Own(near)) = (ready[0], &mut self.near) {
            for _ in 0..TURN {
                let Ok(Some(len)) = near.receive(scratch, Patience::None) else { break };
                let _ = self.far.send(&scratch[..len], Patience::None);
            }
        }
        for _ in 0..TURN {
            if !ready[1] {
                return;
            }
            let Ok(Some(len)) = self.far.receive(scratch, Patience::None) else { break };
            match &mut self.near {
                NearSocket::Own(near) => drop(near.send(&scratch[..len], Patience::None)),
                NearSocket::Shared(near, to) => drop(near.send_to(&scratch[..len], *to)),
            }
        }
    }
}

/// Returns a socket for datagrams to the far end.
fn datagrams_to(far: SocketAddr) -> io::Result<CountedSocket> {
    let socket = Socket::new(Domain::for_address(far), Type::DGRAM, Some(socket2::Protocol::UDP))?;
    let _ = Buffer::Receive.request(&socket, Some(RECEIVE_BUFFER));
    socket.connect(&far.into())?;
    CountedSocket::new(socket)
}

/// Connection of a near end, with its connection to the far end.
struct RelayedStream {
    near: CountedSocket,
    far: CountedSocket,
    up: OneWay,
    down: OneWay,
}

/// Relayed connection in one direction.
struct OneWay {
    buffer: Vec<u8>,
    /// Bytes of the buffer that are still to be written.
    held: std::ops::Range<usize>,
    state: DirectionState,
}

/// State of a direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DirectionState {
    Open,
    /// The sender has closed; the rest of the buffer is still to be written.
    Ended,
    /// The receiver has got the close, too.
    Told,
}

impl RelayedStream {
    /// Connects to the far end, without waiting until it answers; it gets `first` before what the near end sends.
    fn between(near: TcpStream, to: SocketAddr, first: &[u8]) -> io::Result<RelayedStream> {
        let far = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        far.set_nonblocking(true)?;
        match far.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let counted = |end: Socket| {
            // Once the trial is over no byte of it may be retransmitted: the path is the next trial's.
            reset_on_close(end.as_fd())?;
            end.set_tcp_nodelay(true)?;
            CountedSocket::new(end)
        };
        let (near, far) = (counted(near.into())?, counted(far)?);
        let mut up = OneWay::new();
        up.buffer[..first.len()].copy_from_slice(first);
        up.held = 0..first.len();
        Ok(RelayedStream { near, far, up, down: OneWay::new() })
    }

    /// Returns both descriptors with the events to wait for.
    fn awaits(&self) -> [(Option<BorrowedFd<'_>>, libc::c_short); 2] {
        [
            awaits(&self.near, self.up.wants_to_read() | self.down.wants_to_write()),
            awaits(&self.far, self.down.wants_to_read() | self.up.wants_to_write()),
        ]
    }

    /// Moves all that can be moved; returns false once nothing will ever move again.
    fn turn(&mut self) -> bool {
        let moved = self.up.turn(&mut self.near, &mut self.far);
        let moved = moved.and_then(|()| self.down.turn(&mut self.far, &mut self.near));
        moved.is_ok()
            && (self.up.state != DirectionState::Told || self.down.state != DirectionState::Told)
    }
}

/// Returns a connection's descriptor with its events; without any it is not awaited at all, as poll(2) reports hang-ups
/// and errors unasked.
fn awaits(end: &CountedSocket, events: libc::c_short) -> (Option<BorrowedFd<'_>>, libc::c_short) {
    (Some(end.as_fd()).filter(|_| events != 0), events)
}

impl OneWay {
    fn new() -> OneWay {
        OneWay { buffer: vec![0; BUFFER], held: 0..0, state: DirectionState::Open }
    }

    fn wants_to_read(&self) -> libc::c_short {
        if self.state == DirectionState::Open && self.held.is_empty() { libc::POLLIN } else { 0 }
    }

    fn wants_to_write(&self) -> libc::c_short {
        if self.held.is_empty() { 0 } else { libc::POLLOUT }
    }

    /// Reads once and writes the buffered bytes, without waiting.
    fn turn(&mut self, from: &mut CountedSocket, to: &mut CountedSocket) -> io::Result<()> {
        if self.held.is_empty() && self.state == DirectionState::Open {
            match from.receive(&mut self.buffer, Patience::None)? {
                Some(0) => self.state = DirectionState::Ended,
                Some(len) => self.held = 0..len,
                None => {}
            }
        }
        if !self.held.is_empty()
            && let Some(len) = to.send(&self.buffer[self.held.clone()], Patience::None)?
        {
            self.held.start += len;
        }
        if self.held.is_empty() && self.state == DirectionState::Ended {
            to.socket().shutdown(Shutdown::Write)?;
            self.state = DirectionState::Told;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;

    use super::*;
    use crate::control;

    const HERE: &str = "127.0.0.1:0";

    /// Runs `test` with the address of a relay to `to`, and checks that the relay ends with its link.
    fn relayed(to: SocketAddr, test: impl FnOnce(SocketAddr)) {
        let (mut race, control) = UnixStream::pair().unwrap();
        let plan = ForwardPlan { at: HERE.parse().unwrap(), to, token: None };
        let relay = thread::spawn(move || run(&plan, control));
        let FromAgent::Ready { endpoint: Address::Ip(at) } = control::read(&mut race).unwrap()
        else {
            panic!("it is not ready");
        };
        test(at);
        drop(race);
        relay.join().unwrap().unwrap();
    }

    #[test]
    fn a_stream_is_passed_on_whole_and_so_is_the_end_of_each_direction() {
        let far = TcpListener::bind(HERE).unwrap();
        relayed(far.local_addr().unwrap(), |at| {
            let mut near = TcpStream::connect(at).unwrap();
            let (mut far, _) = far.accept().unwrap();
            // More than the relay and both sockets can buffer, so that it has to wait.
            let sent: Vec<u8> = (0..32 << 20).map(|at: u32| ((at * 7) >> 3) as u8).collect();
            let body = sent.clone();
            let sender = thread::spawn(move || {
                near.write_all(&body).unwrap();
                near.shutdown(Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                near.read_to_end(&mut answer).unwrap();
                answer
            });
            let mut received = Vec::new();
            far.read_to_end(&mut received).unwrap();
            assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
            far.write_all(b"all of it").unwrap();
            drop(far);
            assert_eq!(sender.join().unwrap(), b"all of it");
        });
    }

    #[test]
    fn a_connection_that_fails_on_one_side_is_reset_on_the_other() {
        let far = TcpListener::bind(HERE).unwrap();
        relayed(far.local_addr().unwrap(), |at| {
            let mut near = TcpStream::connect(at).unwrap();
            let (far, _) = far.accept().unwrap();
            reset_on_close(far.as_fd()).unwrap();
            drop(far);
            let error = near.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn datagrams_of_two_near_ends_stay_apart() {
        let far = UdpSocket::bind(HERE).unwrap();
        relayed(far.local_addr().unwrap(), |at| {
            let ends: [UdpSocket; 2] = std::array::from_fn(|_| {
                let near = UdpSocket::bind(HERE).unwrap();
                near.connect(at).unwrap();
                near
            });
            let mut buffer = [0; 16];
            for round in 0..3u8 {
                for (number, near) in ends.iter().enumerate() {
                    near.send(&[round, number as u8]).unwrap();
                    let (len, from) = far.recv_from(&mut buffer).unwrap();
                    assert_eq!(buffer[..len], [round, number as u8]);
                    far.send_to(&[number as u8, round, 9], from).unwrap();
                }
            }
            for (number, near) in ends.iter().enumerate() {
                for round in 0..3u8 {
                    let len = near.recv(&mut buffer).unwrap();
                    assert_eq!(buffer[..len], [number as u8, round, 9]);
                }
            }
        });
    }
}

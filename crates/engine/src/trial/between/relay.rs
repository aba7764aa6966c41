//! Relay: a node between the near end and a far one, at the far end's host. It forwards all that arrives at one port,
//! over TCP or UDP, to the far end's address, and the answers back, as a TURN relay (RFC 8656) or a proxy does.
//!
//! ```text
//! near end ── path ──► relay:port ── inside the host ──► far end
//!                      one connection or socket for each near one
//! ```
//!
//! One thread, one system call for each datagram, sleeping while idle: an ordinary relay; its cost should show in
//! the figures. A connection that fails on one side is reset on the other.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::SockRef;

use crate::datapath::option::{Buffer, reset_on_close};
use crate::error::{Error, Result};
use crate::transport::Address;
use crate::trial::agent::session::send_message;
use crate::trial::control::{ForwardPlan, FromAgent};
use crate::units::Bytes;

pub(in crate::trial) mod handed;

/// Buffer for one direction of a connection, in bytes.
const BUFFER: usize = 256 << 10;
/// Largest datagram.
const LARGEST: usize = 1 << 16;
/// Datagrams that are forwarded from one socket before the next socket's turn.
const TURN: usize = 64;
/// Receive buffer of each UDP socket.
const RECEIVE_BUFFER: Bytes = Bytes(4 << 20);
/// Most connections, and most UDP peers: a trial has at most as many flows.
const MOST: usize = 1024;
/// Ports to try until one is free for both protocols.
const TRIES: usize = 16;
/// Longest time to connect to the far end, which is on this host.
const CONNECT: Duration = Duration::from_secs(5);

/// Relays until the link to the race has a message, or closes.
///
/// # Errors
/// [`Error::Setup`] if no port is free for both TCP and UDP, or if the kernel refuses to poll.
pub(in crate::trial) fn run(plan: &ForwardPlan, mut control: UnixStream) -> Result<()> {
    let mut relay = Relay::new(plan)?;
    let endpoint = Address::Ip(relay.at()?);
    send_message(&mut control, &FromAgent::Ready { endpoint })?;
    relay.forward(&control).map_err(|e| Error::setup("wait for what is to be relayed", e))
}

struct Relay {
    to: SocketAddr,
    listener: TcpListener,
    /// Socket that near ends send to.
    datagrams: UdpSocket,
    streams: Vec<RelayedStream>,
    /// Near ends that sent datagrams, each with its own socket to the far end.
    peers: Vec<(SocketAddr, UdpSocket)>,
    scratch: Vec<u8>,
}

impl Relay {
    fn new(plan: &ForwardPlan) -> Result<Relay> {
        let (listener, datagrams) =
            bind(plan.at).map_err(|e| Error::setup(format!("relay at {}", plan.at), e))?;
        Buffer::Receive.request(&SockRef::from(&datagrams), Some(RECEIVE_BUFFER))?;
        Ok(Relay {
            to: plan.to,
            listener,
            datagrams,
            streams: Vec::new(),
            peers: Vec::new(),
            scratch: vec![0; LARGEST],
        })
    }

    fn at(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|e| Error::setup("find the relay's port", e))
    }

    fn forward(&mut self, control: &UnixStream) -> io::Result<()> {
        let mut waiting = Vec::new();
        loop {
            waiting.clear();
            waiting.extend([
                poll_for(control.as_raw_fd(), libc::POLLIN),
                poll_for(self.listener.as_raw_fd(), libc::POLLIN),
                poll_for(self.datagrams.as_raw_fd(), libc::POLLIN),
            ]);
            waiting.extend(
                self.peers.iter().map(|(_, peer)| poll_for(peer.as_raw_fd(), libc::POLLIN)),
            );
            waiting.extend(self.streams.iter().flat_map(RelayedStream::waits_for));
            let Some(is_ready) = ready(&mut waiting)? else { continue };
            let (first, rest) = is_ready.split_at(3);
            if first[0] {
                return Ok(());
            }
            let (peers, streams) = rest.split_at(self.peers.len());
            self.back(peers);
            turn_all(&mut self.streams, streams);
            if first[2] {
                self.on();
            }
            if first[1] {
                self.accept();
            }
        }
    }

    /// Accepts connections, and connects each to the far end.
    fn accept(&mut self) {
        while let Ok((near, _)) = self.listener.accept() {
            if self.streams.len() < MOST
                && let Ok(stream) = RelayedStream::between(near, self.to)
            {
                self.streams.push(stream);
            }
        }
    }

    /// Forwards datagrams of near ends.
    fn on(&mut self) {
        for _ in 0..TURN {
            let Ok((len, from)) = self.datagrams.recv_from(&mut self.scratch) else { return };
            if let Some(peer) = self.peer(from) {
                // A datagram that does not fit is lost, as on any path.
                let _ = self.peers[peer].1.send(&self.scratch[..len]);
            }
        }
    }

    /// Returns the position of a near end among the peers; a new one gets a socket.
    fn peer(&mut self, near: SocketAddr) -> Option<usize> {
        let known = self.peers.iter().position(|(address, _)| *address == near);
        if known.is_some() || self.peers.len() == MOST {
            return known;
        }
        let socket = UdpSocket::bind(SocketAddr::new(self.datagrams.local_addr().ok()?.ip(), 0));
        let socket = socket.ok()?;
        socket.set_nonblocking(true).ok()?;
        let _ = Buffer::Receive.request(&SockRef::from(&socket), Some(RECEIVE_BUFFER));
        socket.connect(self.to).ok()?;
        self.peers.push((near, socket));
        Some(self.peers.len() - 1)
    }

    /// Sends the far end's datagrams back, for the peers that have some.
    fn back(&mut self, ready: &[bool]) {
        let ready = self.peers.iter().zip(ready).filter(|(_, ready)| **ready);
        for ((near, socket), _) in ready {
            for _ in 0..TURN {
                // An error is the network's report about an earlier datagram.
                let Ok(len) = socket.recv(&mut self.scratch) else { break };
                let _ = self.datagrams.send_to(&self.scratch[..len], near);
            }
        }
    }
}

/// Binds both protocols to one port.
pub(in crate::trial) fn bind(at: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
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

/// Waits until any of `waiting` is ready; returns which are, `None` after a signal.
fn ready(waiting: &mut [libc::pollfd]) -> io::Result<Option<Vec<bool>>> {
    // SAFETY: `waiting` is a slice of valid pollfds.
    let ready = unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as libc::nfds_t, -1) };
    if ready >= 0 {
        return Ok(Some(waiting.iter().map(|fd| fd.revents != 0).collect()));
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(None) } else { Err(error) }
}

fn poll_for(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    // poll(2) reports hang-ups and errors whatever the events; it ignores a negative descriptor.
    libc::pollfd { fd: if events == 0 { -1 } else { fd }, events, revents: 0 }
}

/// Forwards over the streams with an end that is ready, and drops the streams that have ended.
fn turn_all(streams: &mut Vec<RelayedStream>, is_ready: &[bool]) {
    let mut ends = is_ready.chunks_exact(2);
    streams.retain_mut(|stream| {
        let is_ready = ends.next().is_none_or(|ends| ends.contains(&true));
        !is_ready || stream.turn()
    });
}

/// Connection of a near end, with its connection to the far end.
struct RelayedStream {
    near: TcpStream,
    far: TcpStream,
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
    fn between(near: TcpStream, to: SocketAddr) -> io::Result<RelayedStream> {
        // Once the trial is over no byte of it may be retransmitted: the path is the next trial's.
        reset_on_close(near.as_fd())?;
        let far = TcpStream::connect_timeout(&to, CONNECT)?;
        reset_on_close(far.as_fd())?;
        for end in [&near, &far] {
            end.set_nodelay(true)?;
            end.set_nonblocking(true)?;
        }
        Ok(RelayedStream { near, far, up: OneWay::new(), down: OneWay::new() })
    }

    /// Sends the far end these bytes first.
    fn begin(&mut self, first: &[u8]) {
        self.up.buffer[..first.len()].copy_from_slice(first);
        self.up.held = 0..first.len();
    }

    /// Returns the readiness of both connections that it waits for.
    fn waits_for(&self) -> [libc::pollfd; 2] {
        let of = |end: &TcpStream, reads: &OneWay, writes: &OneWay| {
            poll_for(end.as_raw_fd(), reads.wants_to_read() | writes.wants_to_write())
        };
        [of(&self.near, &self.up, &self.down), of(&self.far, &self.down, &self.up)]
    }

    /// Moves all that can be moved; returns false once nothing will ever move again.
    fn turn(&mut self) -> bool {
        let moved = self.up.turn(&self.near, &self.far);
        let moved = moved.and_then(|()| self.down.turn(&self.far, &self.near));
        moved.is_ok()
            && (self.up.state != DirectionState::Told || self.down.state != DirectionState::Told)
    }
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
    fn turn(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        if self.held.is_empty() && self.state == DirectionState::Open {
            match from.read(&mut self.buffer) {
                Ok(0) => self.state = DirectionState::Ended,
                Ok(len) => self.held = 0..len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if !self.held.is_empty() {
            match to.write(&self.buffer[self.held.clone()]) {
                Ok(len) => self.held.start += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if self.held.is_empty() && self.state == DirectionState::Ended {
            to.shutdown(Shutdown::Write)?;
            self.state = DirectionState::Told;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::trial::control;

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

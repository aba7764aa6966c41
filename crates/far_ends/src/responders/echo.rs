//! Echo port (RFC 862) over TCP and UDP: it sends back what it gets.
//!
//! Loops of two echo ports end as `loops.rs` says.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use deadheat_base::descriptor::ready;
use deadheat_base::origins::{Admission, Shares};

use super::loops::LoopGuard;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::answering::{self, AnswerSocket, Arrived};
use deadheat_datapath::datapath::destination::canonical;
use deadheat_datapath::transport::responder::{
    Answered, OpenResponder, Responder, ResponderHost, ResponderInfo, ResponderLoad,
};

/// Echo port.
pub(super) struct EchoResponder;

static INFO: ResponderInfo = ResponderInfo {
    id: "echo",
    clients: "echo clients",
    summary: "Answer echo clients (RFC 862)",
    port: 7,
    answers: &[
        Answered { over: "TCP", what: "each byte back", load: ResponderLoad::Beside },
        Answered { over: "UDP", what: "each datagram back", load: ResponderLoad::Beside },
    ],
    key: None,
};

/// Number of connections, in all and of one origin.
const CONNECTIONS: Shares = Shares { in_all: 64, of_one: 8 };

/// Silence after which a connection is closed.
const IDLE: Nanos = Nanos::from_secs(60);

/// Number of datagrams and of connections that are taken at once, so that a flood leaves time for others.
const AT_ONCE: usize = 64;

/// Bytes that one read of a connection takes.
const CHUNK: usize = 16 << 10;

/// Bytes of the headers of a segment, as far as they are known here: IP, TCP and its time stamps.
const SEGMENT_HEADERS: u64 = 40 + 20 + 12;

/// Most bytes of data in a segment of a path of 1,500 bytes.
const SEGMENT: u64 = 1_448;

/// Longest wait between two looks at times.
const LOOK: Nanos = Nanos::from_millis(250);

impl Responder for EchoResponder {
    fn info(&self) -> &'static ResponderInfo {
        &INFO
    }

    fn open(&self, at: SocketAddr, _key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>> {
        let (tcp, udp) = answering::both(at)?;
        let local = udp.local_addr().map_err(|e| Error::setup("read an address", e))?;
        let (loops, connections) = (LoopGuard::new(), Vec::new());
        Ok(Box::new(OpenEcho { tcp, udp, local, loops, connections }))
    }
}

/// Open echo port.
struct OpenEcho {
    tcp: TcpListener,
    udp: AnswerSocket,
    local: SocketAddr,
    loops: LoopGuard,
    connections: Vec<EchoConnection>,
}

/// Connection.
struct EchoConnection {
    stream: TcpStream,
    peer: SocketAddr,
    /// Bytes that are not sent back yet.
    left: Vec<u8>,
    /// Bytes of IP packets of these that are not charged yet: until then they do not go back.
    owed: u64,
    since: Nanos,
    last: Nanos,
    /// Time before which they are not charged.
    from: Nanos,
    is_ended: bool,
}

impl OpenResponder for OpenEcho {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn serve(&mut self, host: &dyn ResponderHost, stop: BorrowedFd<'_>) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let now = Monotonic.now();
            let fds = [
                Some((stop, libc::POLLIN)),
                Some((self.udp.as_fd(), libc::POLLIN)),
                Some((self.tcp.as_fd(), libc::POLLIN)),
            ];
            let connections = self.connections.iter().map(|one| one.awaits(now));
            let fds = fds.into_iter().chain(connections);
            let fds = fds.map(|fd| fd.map_or((None, 0), |(fd, events)| (Some(fd), events)));
            // An idle port has no timer that could disturb a measurement.
            let timeout = self.connections.iter().map(|one| one.until_look(now)).min();
            let is_ready =
                ready(fds, timeout).map_err(|e| Error::setup("wait for echo clients", e))?;
            if is_ready[0] {
                return Ok(());
            }
            let now = Monotonic.now();
            let longest = host.limits().duration;
            for (one, is_ready) in self.connections.iter_mut().zip(&is_ready[3..]) {
                one.step(*is_ready, host, now, &mut buffer);
            }
            self.connections
                .retain(|one| !one.is_ended && now - one.last < IDLE && now - one.since < longest);
            if is_ready[1] {
                self.datagrams(host, now, &mut buffer);
            }
            if is_ready[2] {
                self.accept(host, now);
            }
        }
    }
}

impl OpenEcho {
    fn datagrams(&mut self, host: &dyn ResponderHost, now: Nanos, buffer: &mut [u8]) {
        for _ in 0..AT_ONCE {
            match self.udp.receive(buffer) {
                Ok(arrived) if self.is_answered(&arrived, host, now) => {
                    // No room at the socket, or no way back: the datagram is lost, as datagrams are.
                    let _ = self.udp.answer(&buffer[..arrived.len], &arrived, None);
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // An answer of ICMP to an earlier datagram.
                Err(_) => {}
            }
        }
    }

    fn is_answered(&mut self, arrived: &Arrived, host: &dyn ResponderHost, now: Nanos) -> bool {
        let Some(is_new) = self.loops.judge(arrived, host, now) else { return false };
        if is_new {
            host.greet(arrived.peer, "datagrams");
        }
        host.beside(arrived.peer.ip(), [arrived.packet(arrived.len); 2]).is_ok()
    }

    fn accept(&mut self, host: &dyn ResponderHost, now: Nanos) {
        for _ in 0..AT_ONCE {
            let Ok((stream, peer)) = self.tcp.accept() else { return };
            let peer = canonical(peer);
            // The newest connections of an origin go first.
            let taken = self.connections.iter().rev().map(|one| one.peer.ip());
            match CONNECTIONS.admit(peer.ip(), taken) {
                Admission::Free => {}
                Admission::Replaces(back) => {
                    drop(self.connections.remove(self.connections.len() - 1 - back));
                }
                Admission::OwnShare | Admission::Full => continue,
            }
            if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                host.greet(peer, "a connection");
                self.connections.push(EchoConnection::new(stream, peer, now));
            }
        }
    }
}

impl EchoConnection {
    fn new(stream: TcpStream, peer: SocketAddr, now: Nanos) -> EchoConnection {
        let (since, last, from) = (now, now, now);
        let left = Vec::new();
        EchoConnection { stream, peer, left, owed: 0, since, last, from, is_ended: false }
    }

    /// Returns the descriptor with the event that it waits for, if it waits for one.
    fn awaits(&self, now: Nanos) -> Option<(BorrowedFd<'_>, libc::c_short)> {
        let events = match self.left.is_empty() {
            true => libc::POLLIN,
            false if self.owed > 0 && now < self.from => return None,
            false => libc::POLLOUT,
        };
        Some((self.stream.as_fd(), events))
    }

    /// Returns the time until its next look at times.
    fn until_look(&self, now: Nanos) -> Nanos {
        if self.owed > 0 { (self.from - now).min(LOOK) } else { LOOK }
    }

    fn step(&mut self, is_ready: bool, host: &dyn ResponderHost, now: Nanos, buffer: &mut [u8]) {
        if !is_ready {
            return;
        }
        if self.left.is_empty() {
            match (&self.stream).read(&mut buffer[..CHUNK]) {
                Ok(0) => return self.is_ended = true,
                Ok(len) => {
                    self.last = now;
                    self.left.extend_from_slice(&buffer[..len]);
                    // One read may take many segments.
                    let len = len as u64;
                    self.owed = len + len.div_ceil(SEGMENT) * SEGMENT_HEADERS;
                }
                Err(e) if is_passing(&e) => {}
                Err(_) => return self.is_ended = true,
            }
        }
        if self.owed > 0 {
            match host.beside(self.peer.ip(), [self.owed; 2]) {
                Ok(()) => self.owed = 0,
                Err(Some(wait)) => return self.from = now + wait,
                Err(None) => return self.is_ended = true,
            }
        }
        match (&self.stream).write(&self.left) {
            Ok(sent) => drop(self.left.drain(..sent)),
            Err(e) if is_passing(&e) => {}
            Err(_) => self.is_ended = true,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::Ordering;

    use super::super::testing::TestHost;
    use super::*;

    fn open() -> OpenEcho {
        let (tcp, udp) = answering::both("127.0.0.1:0".parse().unwrap()).unwrap();
        let local = udp.local_addr().unwrap();
        OpenEcho { tcp, udp, local, loops: LoopGuard::new(), connections: Vec::new() }
    }

    fn from(peer: &str) -> Arrived {
        let peer = peer.parse().unwrap();
        Arrived { len: 100, peer, to: None, ttl: None, field: None, at_ns: None }
    }

    #[test]
    fn datagrams_are_charged_as_ip_packets_both_ways_alike() {
        let (mut echo, host) = (open(), TestHost::new());
        assert!(echo.is_answered(&from("10.0.0.1:4000"), &host, Nanos(1)));
        assert_eq!(*host.charged.lock().unwrap(), [128, 128]);
        host.exchanges.store(0, Ordering::Relaxed);
        assert!(!echo.is_answered(&from("10.0.0.1:4000"), &host, Nanos(1)), "beyond the limits");
    }

    #[test]
    fn bytes_of_a_connection_go_back_once_they_are_charged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let (host, now) = (TestHost::new(), Nanos::from_secs(5));
        host.exchanges.store(0, Ordering::Relaxed);
        let mut echo = EchoConnection::new(stream, peer, now);
        near.write_all(&[7; 3_000]).unwrap();
        let mut buffer = vec![0; 1 << 16];
        echo.step(true, &host, now, &mut buffer);
        assert_eq!((echo.left.len(), echo.awaits(now).is_some()), (3_000, false));
        assert_eq!(*host.charged.lock().unwrap(), [0, 0]);
        host.exchanges.store(1, Ordering::Relaxed);
        let later = now + Nanos::from_secs(1);
        assert!(echo.awaits(later).is_some());
        echo.step(true, &host, later, &mut buffer);
        assert!(echo.left.is_empty());
        assert_eq!(*host.charged.lock().unwrap(), [3_000 + 3 * SEGMENT_HEADERS; 2]);
        near.read_exact(&mut [0; 3_000]).unwrap();
    }

    #[test]
    fn both_protocols_send_back_what_came_until_the_limit() {
        let mut echo = open();
        let (at, host) = (echo.local, TestHost::new());
        let (stop, stopped) = io::pipe().unwrap();
        std::thread::scope(|scope| {
            let host = &host;
            let served = scope.spawn(move || echo.serve(host, stop.as_fd()));
            let near = UdpSocket::bind("127.0.0.1:0").unwrap();
            near.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            for len in [0, 1, 1_400] {
                near.send_to(&vec![len as u8; len], at).unwrap();
                let mut back = [7; 2_000];
                assert_eq!(near.recv_from(&mut back).unwrap(), (len, at));
                assert!(back[..len].iter().all(|byte| *byte == len as u8));
            }
            let mut stream = TcpStream::connect(at).unwrap();
            let sent: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
            let mut back = vec![0; sent.len()];
            for (sent, back) in sent.chunks(10_000).zip(back.chunks_mut(10_000)) {
                stream.write_all(sent).unwrap();
                stream.read_exact(back).unwrap();
            }
            assert_eq!(sent, back);
            drop(stopped);
            served.join().unwrap().unwrap();
        });
        assert!(host.has_said("datagrams") && host.has_said("a connection"));
        let [sent, received] = *host.charged.lock().unwrap();
        assert_eq!(sent, received, "no byte more than came");
    }
}

//! The smallest programs around the libraries of protocols in user space: bulk one way for two seconds and, by QUIC, a
//! small message there and back, a process and a thread per end, sockets and waiting by plain calls, and nothing of deadheat.
//!
//! KCP, ENet and SCTP are driven as their users drive them, with a send(2) and a recv(2) for each datagram. QUIC has
//! `UDP_SEGMENT` and `UDP_GRO`, as quinn's own sockets have. Parameters are those that deadheat gives the same library.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::Cpus;
use super::span::{Span, rate};
use super::sys::{self, End};

mod enet;
mod kcp;
mod quic;
mod sctp;

pub(crate) use quic::Quic;
use quic::{Role, Secrets};

/// Time that the sender hands data over, in nanoseconds.
const TIME: u64 = 2_000_000_000;
/// Time without a datagram after which the receiver takes it that no more will come.
const SILENCE: Duration = Duration::from_millis(300);
/// Time in which the first datagram has to be there.
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of each socket buffer, as deadheat asks for.
const BUFFER: i32 = 4 << 20;
/// Bytes of a datagram in a packet of 1500 bytes over IPv4.
const DATAGRAM: usize = 1_500 - 20 - 8;
/// Bytes of a message.
const MESSAGE: usize = 1_400;
/// Messages that go there and back, and the bytes of one.
const TURNS: usize = 20_000;
const SMALL: [u8; 64] = [1; 64];
/// Datagrams that are taken before anything is sent again.
const TAKEN: usize = 64;

/// Library to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// The crate kcp.
    Kcp,
    /// The crate rusty_enet.
    Enet,
    /// The crate sctp-proto.
    Sctp,
    /// QUIC.
    Quic(Quic),
}

/// End of a connection.
trait Machine {
    /// Takes what arrived, and acts on its timers; whether anything arrived.
    fn take(&mut self) -> io::Result<bool>;

    /// Returns true once it takes data.
    fn is_open(&self) -> bool;

    /// Takes data while there is room; whether it took any.
    fn write(&mut self) -> io::Result<bool>;

    /// Sends what is to be sent.
    fn give(&mut self) -> io::Result<()>;

    /// Hands over data that arrived: how many bytes.
    fn read(&mut self) -> io::Result<u64>;

    /// Returns how long it may sleep unless something arrives; `None` for as long as it likes.
    fn due(&mut self) -> Option<Duration>;
}

/// End of a connection that sends small messages, too.
trait Talker: Machine {
    /// Writes as much as there is room for; how much.
    fn put(&mut self, piece: &[u8]) -> io::Result<usize>;

    /// Takes a message to be sent.
    fn say(&mut self, message: &[u8]) -> io::Result<()> {
        match self.put(message)? {
            taken if taken == message.len() => Ok(()),
            taken => Err(io::Error::other(format!("room for {taken} bytes alone"))),
        }
    }

    /// Takes such pieces while there is room; whether it took any.
    fn fill(&mut self, piece: &[u8]) -> io::Result<bool> {
        let mut wrote = false;
        while self.put(piece)? > 0 {
            wrote = true;
        }
        Ok(wrote)
    }
}

impl Quic {
    /// Measures a small message there and back, both ends awake; the median in nanoseconds.
    pub(crate) fn round_trip(self, cpus: Cpus) -> io::Result<f64> {
        let [near, far] = sockets()?;
        let secrets = Secrets::new().map_err(io::Error::other)?;
        let _far = End::fork(cpus.far, || echo(&mut *self.end(far, &secrets, Role::Far)?))?;
        let near = End::fork(cpus.near, || ask(&mut *self.end(near, &secrets, Role::Near)?))?;
        let [median] = near.figures()?;
        Ok(median as f64)
    }
}

/// Creates the sockets of both ends.
fn sockets() -> io::Result<[UdpSocket; 2]> {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    for socket in [&near, &far] {
        socket.set_nonblocking(true)?;
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            sys::set(socket, libc::SOL_SOCKET, forced, BUFFER)
                .or_else(|_| sys::set(socket, libc::SOL_SOCKET, plain, BUFFER))?;
        }
    }
    Ok([near, far])
}

impl Library {
    /// Measures it; bits per second at the receiver.
    pub(crate) fn run(self, cpus: Cpus) -> io::Result<f64> {
        let [near, far] = sockets()?;
        let secrets = Secrets::new().map_err(io::Error::other)?;
        let far = End::fork(cpus.far, || receive(&mut *self.far(&far, &secrets)?, &far))?;
        let near = End::fork(cpus.near, || send(&mut *self.near(&near, &secrets)?, &near))?;
        near.figures::<1>()?;
        rate(far.figures()?)
    }

    fn near(self, socket: &UdpSocket, secrets: &Secrets) -> io::Result<Box<dyn Machine>> {
        let (socket, peer) = (socket.try_clone()?, socket.peer_addr()?);
        Ok(match self {
            Library::Kcp => Box::new(kcp::Machine::new(socket)?),
            Library::Enet => Box::new(enet::Machine::new(socket, Some(peer))?),
            Library::Sctp => Box::new(sctp::Machine::new(socket, peer, Some(peer))?),
            Library::Quic(quic) => quic.end(socket, secrets, Role::Near)?,
        })
    }

    fn far(self, socket: &UdpSocket, secrets: &Secrets) -> io::Result<Box<dyn Machine>> {
        let (socket, peer) = (socket.try_clone()?, socket.peer_addr()?);
        Ok(match self {
            Library::Kcp => Box::new(kcp::Machine::new(socket)?),
            Library::Enet => Box::new(enet::Machine::new(socket, None)?),
            Library::Sctp => Box::new(sctp::Machine::new(socket, peer, None)?),
            Library::Quic(quic) => quic.end(socket, secrets, Role::Far)?,
        })
    }
}

fn send(machine: &mut dyn Machine, socket: &UdpSocket) -> io::Result<[u64; 1]> {
    let began = sys::now();
    let mut end = None;
    loop {
        let mut is_busy = machine.take()?;
        if machine.is_open() {
            let end = *end.get_or_insert_with(|| sys::now() + TIME);
            if sys::now() >= end {
                return Ok([0]);
            }
            is_busy |= machine.write()?;
        } else if sys::now() - began > PATIENCE.as_nanos() as u64 {
            return Err(io::Error::other("the handshake did not end"));
        }
        machine.give()?;
        if !is_busy {
            wait(socket, machine.due(), SILENCE)?;
        }
    }
}

/// Sends small messages, each once the one before has come back; the median time in nanoseconds.
fn ask(machine: &mut dyn Talker) -> io::Result<[u64; 1]> {
    let began = sys::now();
    while !machine.is_open() {
        turn(machine)?;
        if sys::now() - began > PATIENCE.as_nanos() as u64 {
            return Err(io::Error::other("the handshake did not end"));
        }
    }
    let mut times = vec![0; TURNS];
    for time in &mut times {
        let start = sys::now();
        machine.say(&SMALL)?;
        machine.give()?;
        let mut back = 0;
        while back < SMALL.len() as u64 {
            back += turn(machine)?;
        }
        *time = sys::now() - start;
    }
    times.sort_unstable();
    Ok([times[TURNS / 2]])
}

/// Sends back what arrives, until it is killed.
fn echo(machine: &mut dyn Talker) -> io::Result<[u64; 0]> {
    let mut owed = 0;
    loop {
        owed += turn(machine)?;
        if owed >= SMALL.len() as u64 {
            owed -= SMALL.len() as u64;
            machine.say(&SMALL)?;
            machine.give()?;
        }
    }
}

/// Takes what arrived and acts on timers, without sleeping; the bytes of data that came. Acknowledgements of a message wait
/// for the next one of this end.
fn turn(machine: &mut dyn Talker) -> io::Result<u64> {
    let is_due = machine.due().is_some_and(|due| due.is_zero());
    let arrived = machine.take()?;
    let bytes = if arrived { machine.read()? } else { 0 };
    if bytes == 0 && (arrived || is_due || !machine.is_open()) {
        machine.give()?;
    }
    Ok(bytes)
}

fn receive(machine: &mut dyn Machine, socket: &UdpSocket) -> io::Result<[u64; 2]> {
    let mut span = Span::default();
    let mut heard = sys::now();
    let mut patience = PATIENCE;
    loop {
        let is_busy = machine.take()?;
        let bytes = machine.read()?;
        machine.give()?;
        if is_busy {
            heard = sys::now();
        }
        if bytes > 0 {
            span.add(bytes, true);
            patience = SILENCE;
        }
        if sys::now() - heard > patience.as_nanos() as u64 {
            return Ok(span.figures());
        }
        if !is_busy {
            wait(socket, machine.due(), patience)?;
        }
    }
}

/// Waits until something arrived, or the earlier of two times has passed: ppoll(2).
fn wait(socket: &UdpSocket, due: Option<Duration>, most: Duration) -> io::Result<()> {
    let time = due.map_or(most, |due| due.min(most));
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    };
    let mut socket = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd and a timespec that live as long as the call, and no set of signals.
    sys::check(unsafe { libc::ppoll(&mut socket, 1, &time, std::ptr::null()) })?;
    Ok(())
}

/// Receives one datagram; `None` if none is there.
fn receive_one(socket: &UdpSocket, into: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.recv(into) {
        Ok(len) => Ok(Some(len)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Sends one datagram; one for which there is no room is lost, as any may be.
fn send_one(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
        _ => Ok(()),
    }
}

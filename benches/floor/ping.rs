//! Round trips: one message out, one back, the clock read before and after.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use super::sys::{self, Arena, End};
use super::{Cpus, Protocol, Wait};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ping {
    /// Over which socket.
    pub(crate) protocol: Protocol,
    /// Where.
    pub(crate) cpus: Cpus,
    /// How both ends wait.
    pub(crate) wait: Wait,
    /// Message size in bytes, at most 2048.
    pub(crate) size: usize,
    /// Round trips.
    pub(crate) count: usize,
}

/// Round-trip times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    /// The least.
    pub(crate) min: u64,
    /// The median.
    pub(crate) p50: u64,
    /// The 99th percentile.
    pub(crate) p99: u64,
    /// The 99.9th percentile.
    pub(crate) p999: u64,
}

impl Ping {
    /// 64 bytes, 20,000 times.
    pub(crate) fn new(protocol: Protocol, cpus: Cpus, wait: Wait) -> Ping {
        Ping { protocol, cpus, wait, size: 64, count: 20_000 }
    }

    /// Measures.
    pub(crate) fn run(self) -> io::Result<Rtt> {
        let flags = match self.wait {
            Wait::Busy => libc::MSG_DONTWAIT,
            Wait::Blocking => 0,
        };
        let loopback = "127.0.0.1:0";
        let (_far, near) = match self.protocol {
            Protocol::Tcp => {
                let listener = TcpListener::bind(loopback)?;
                let to = listener.local_addr()?;
                let far = End::fork(self.cpus.far, || answer_stream(&listener, flags))?;
                let near = End::fork(self.cpus.near, || {
                    let stream = TcpStream::connect(to)?;
                    stream.set_nodelay(true)?;
                    self.ask(&stream, flags)
                })?;
                (far, near)
            }
            Protocol::Udp => {
                let (a, b) = (UdpSocket::bind(loopback)?, UdpSocket::bind(loopback)?);
                b.connect(a.local_addr()?)?;
                let far = End::fork(self.cpus.far, || answer_datagrams(&a, flags))?;
                let near = End::fork(self.cpus.near, || self.ask(&b, flags))?;
                (far, near)
            }
        };
        let [min, p50, p99, p999] = near.figures()?;
        Ok(Rtt { min, p50, p99, p999 })
    }

    fn ask(self, socket: &impl AsRawFd, flags: i32) -> io::Result<[u64; 4]> {
        let mut buffer = Arena::new(4096)?;
        let mut times = vec![0; self.count];
        // Touched once, so that no page fault falls into a round trip.
        times.fill(1);
        for time in &mut times {
            let start = sys::now();
            sys::send(socket, &buffer[..self.size])?;
            receive(socket, &mut buffer[..2048], flags)?;
            *time = sys::now() - start;
        }
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 1000];
        Ok([times[0], at(500), at(990), at(999)])
    }
}

fn answer_stream(listener: &TcpListener, flags: i32) -> io::Result<[u64; 0]> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut buffer = Arena::new(4096)?;
    loop {
        match receive(&stream, &mut buffer[..2048], flags)? {
            0 => return Ok([]),
            n => sys::send(&stream, &buffer[..n])?,
        };
    }
}

/// Echoes until it is killed: a datagram socket never says that its peer has gone. Answers to the
/// sender's address each time, as a server of unknown clients must.
fn answer_datagrams(socket: &UdpSocket, flags: i32) -> io::Result<[u64; 0]> {
    let mut buffer = Arena::new(4096)?;
    // SAFETY: an all-zero sockaddr_in is a valid one to be overwritten.
    let mut from: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    loop {
        let mut len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: buffer, address and length are writable for the sizes given.
        let got = sys::check(unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                2048,
                flags,
                (&raw mut from).cast(),
                &mut len,
            ) as i64
        });
        let got = match got {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            got => got?,
        };
        // SAFETY: the buffer holds `got` bytes and `from` is an address of length `len`.
        sys::check(unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                buffer.as_ptr().cast(),
                got,
                0,
                (&raw const from).cast(),
                len,
            ) as i64
        })?;
    }
}

#[inline]
fn receive(socket: &impl AsRawFd, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    loop {
        match sys::receive(socket, buffer, flags) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            answer => return answer,
        }
    }
}

//! Bulk one way for two seconds; what counts is what the receiver had, over the receiver's span.

use std::io;
use std::mem::zeroed;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::Cpus;
use super::sys::{self, Arena, End};

const SECONDS: u64 = 2;
const DATAGRAM: usize = 1400;
const STREAM_WRITE: usize = 128 << 10;
/// The most that one UDP segmentation call takes, in whole datagrams.
const SUPER_DATAGRAM: usize = 65_507 / DATAGRAM * DATAGRAM;
/// Receive slots of one recvmmsg(2) call.
const SLOTS: usize = 64;
const SLOT: usize = 64 << 10;

/// How the bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// 128 KiB writes, 1 MiB reads.
    Tcp,
    /// One 1400-byte datagram a call, both ways.
    Udp,
    /// Segmentation offload at the sender, one datagram a call at the receiver.
    UdpGso,
    /// Segmentation offload, receive offload, and recvmmsg(2).
    UdpGsoGro,
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bulk<'a> {
    /// How.
    pub(crate) flow: Flow,
    /// Where.
    pub(crate) cpus: Cpus,
    /// TCP's congestion control; ignored by datagrams.
    pub(crate) congestion: &'a str,
}

impl Bulk<'_> {
    /// Measures; bits per second at the receiver.
    pub(crate) fn run(self) -> io::Result<f64> {
        let loopback = "127.0.0.1:0";
        let (far, near) = if self.flow == Flow::Tcp {
            let listener = TcpListener::bind(loopback)?;
            sys::ask_for_buffer(&listener)?;
            let to = listener.local_addr()?;
            (
                End::fork(self.cpus.far, || take_stream(&listener))?,
                End::fork(self.cpus.near, || self.give_stream(to))?,
            )
        } else {
            let (a, b) = (UdpSocket::bind(loopback)?, UdpSocket::bind(loopback)?);
            sys::ask_for_buffer(&a)?;
            b.connect(a.local_addr()?)?;
            (
                End::fork(self.cpus.far, || self.take_datagrams(&a))?,
                End::fork(self.cpus.near, || self.give_datagrams(&b))?,
            )
        };
        near.figures::<1>()?;
        let [bytes, span_ns] = far.figures()?;
        if span_ns == 0 {
            return Err(io::Error::other("the floor's receiver had nothing"));
        }
        Ok(bytes as f64 * 8e9 / span_ns as f64)
    }

    fn give_stream(self, to: SocketAddr) -> io::Result<[u64; 1]> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        sys::set_congestion(&stream, self.congestion)?;
        give(&stream, STREAM_WRITE)
    }

    fn give_datagrams(self, socket: &UdpSocket) -> io::Result<[u64; 1]> {
        match self.flow {
            Flow::UdpGso | Flow::UdpGsoGro => {
                let size = DATAGRAM as i32;
                sys::set(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, size)?;
                give(socket, SUPER_DATAGRAM)
            }
            Flow::Tcp | Flow::Udp => give(socket, DATAGRAM),
        }
    }

    fn take_datagrams(self, socket: &UdpSocket) -> io::Result<[u64; 2]> {
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        if self.flow == Flow::UdpGsoGro {
            sys::set(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)?;
            return take_batches(socket);
        }
        take(socket, SLOT)
    }
}

fn give(socket: &impl AsRawFd, size: usize) -> io::Result<[u64; 1]> {
    let mut buffer = Arena::new(SLOTS * SLOT)?;
    buffer.fill(1);
    let end = sys::now() + SECONDS * 1_000_000_000;
    let mut bytes = 0;
    while sys::now() < end {
        bytes += sys::send(socket, &buffer[..size])? as u64;
    }
    Ok([bytes])
}

fn take_stream(listener: &TcpListener) -> io::Result<[u64; 2]> {
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    take(&stream, 1 << 20)
}

/// Receives until the peer closes or is silent for a second: bytes and span.
fn take(socket: &impl AsRawFd, size: usize) -> io::Result<[u64; 2]> {
    let mut buffer = Arena::new(SLOTS * SLOT)?;
    let mut span = Span::default();
    let mut calls = 0_u64;
    loop {
        match sys::receive(socket, &mut buffer[..size], 0) {
            Ok(0) => return Ok(span.figures()),
            Ok(n) => span.add(n as u64, calls.is_multiple_of(16)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(span.figures()),
            Err(e) => return Err(e),
        }
        calls += 1;
    }
}

fn take_batches(socket: &UdpSocket) -> io::Result<[u64; 2]> {
    let mut buffer = Arena::new(SLOTS * SLOT)?;
    // SAFETY: all-zero iovecs and message headers are valid and describe nothing.
    let (mut iovecs, mut headers): ([libc::iovec; SLOTS], [libc::mmsghdr; SLOTS]) =
        unsafe { (zeroed(), zeroed()) };
    for (i, slot) in buffer.chunks_exact_mut(SLOT).enumerate() {
        iovecs[i].iov_base = slot.as_mut_ptr().cast();
        iovecs[i].iov_len = SLOT;
        headers[i].msg_hdr.msg_iov = &raw mut iovecs[i];
        headers[i].msg_hdr.msg_iovlen = 1;
    }
    let mut span = Span::default();
    loop {
        // SAFETY: each header points to its iovec, each iovec to its slot; all outlive the call.
        let got = sys::check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                SLOTS as u32,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        });
        match got {
            Ok(n) => {
                let bytes = headers[..n].iter().map(|h| u64::from(h.msg_len)).sum();
                span.add(bytes, true);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(span.figures()),
            Err(e) => return Err(e),
        }
    }
}

/// Bytes received and when, from the first receive to the last look at the clock; what came after
/// that look does not count.
#[derive(Default)]
struct Span {
    bytes: u64,
    start_ns: Option<u64>,
    seen_bytes: u64,
    seen_ns: u64,
}

impl Span {
    #[inline]
    fn add(&mut self, bytes: u64, look: bool) {
        self.bytes += bytes;
        if look {
            self.seen_ns = sys::now();
            self.seen_bytes = self.bytes;
            self.start_ns.get_or_insert(self.seen_ns);
        }
    }

    fn figures(&self) -> [u64; 2] {
        let start = self.start_ns.unwrap_or(self.seen_ns);
        [self.seen_bytes, self.seen_ns - start]
    }
}

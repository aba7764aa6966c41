//! UDP one way for two seconds with each way that Linux has to move datagrams; what counts is what
//! the receiver had, over the receiver's span.

use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::Cpus;
use super::span::{Span, rate};
use super::sys::{self, Arena, End};

const SECONDS: u64 = 2;
/// Messages of one sendmmsg(2) or recvmmsg(2) call.
const SLOTS: usize = 64;
const SLOT: usize = 64 << 10;
/// The most that one segmented send takes: 64 datagrams, in a packet below 64 KiB.
const SEGMENTED: usize = 65_536 - 1 - 14 - 40 - 8;
const SEGMENTS: usize = 64;
/// Segmented buffers of one sendmmsg(2) call.
const SUPERS: usize = 8;

/// How the sender hands datagrams over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// send(2), one each.
    Send,
    /// sendmmsg(2), 64 a call.
    Sendmmsg,
    /// `UDP_SEGMENT`, as many a call as it takes.
    Gso,
    /// sendmmsg(2) of such buffers, 8 a call.
    GsoSendmmsg,
}

/// How the receiver takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Get {
    /// recv(2), one each.
    Recv,
    /// recvmmsg(2), up to 64 a call.
    Recvmmsg,
    /// `UDP_GRO`, a buffer a call.
    Gro,
    /// recvmmsg(2) of such buffers.
    GroRecvmmsg,
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagrams {
    /// How they are sent.
    pub(crate) put: Put,
    /// How they are received.
    pub(crate) get: Get,
    /// Bytes in each.
    pub(crate) size: usize,
    /// Where.
    pub(crate) cpus: Cpus,
}

impl Datagrams {
    /// Measures; bits per second at the receiver.
    pub(crate) fn run(self) -> io::Result<f64> {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        sys::ask_for_buffer(&a)?;
        b.connect(a.local_addr()?)?;
        a.connect(b.local_addr()?)?;
        let far = End::fork(self.cpus.far, || self.get(&a))?;
        let near = End::fork(self.cpus.near, || self.put(&b))?;
        near.figures::<1>()?;
        rate(far.figures()?)
    }

    fn put(self, socket: &UdpSocket) -> io::Result<[u64; 1]> {
        let whole = (SEGMENTED / self.size).clamp(1, SEGMENTS) * self.size;
        let (each, many) = match self.put {
            Put::Send => (self.size, 1),
            Put::Sendmmsg => (self.size, SLOTS),
            Put::Gso => (whole, 1),
            Put::GsoSendmmsg => (whole, SUPERS),
        };
        if matches!(self.put, Put::Gso | Put::GsoSendmmsg) {
            sys::set(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, self.size as i32)?;
        }
        let mut buffer = Arena::new(each * many)?;
        buffer.fill(1);
        let mut batch = Batch::new(&mut buffer, each, many);
        let end = sys::now() + SECONDS * 1_000_000_000;
        let mut bytes = 0;
        while sys::now() < end {
            bytes += match many {
                1 => sys::send(socket, &buffer)? as u64,
                _ => batch.send(socket)? as u64 * each as u64,
            };
        }
        Ok([bytes])
    }

    fn get(self, socket: &UdpSocket) -> io::Result<[u64; 2]> {
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        if matches!(self.get, Get::Gro | Get::GroRecvmmsg) {
            sys::set(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)?;
        }
        let mut buffer = Arena::new(SLOTS * SLOT)?;
        let mut span = Span::default();
        let mut calls = 0_u64;
        let is_single = matches!(self.get, Get::Recv | Get::Gro);
        let mut batch = Batch::new(&mut buffer, SLOT, SLOTS);
        loop {
            let got = if is_single {
                sys::receive(socket, &mut buffer[..SLOT], 0).map(|n| n as u64)
            } else {
                batch.receive(socket)
            };
            match got {
                Ok(n) => span.add(n, !is_single || calls.is_multiple_of(16)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(span.figures()),
                Err(e) => return Err(e),
            }
            calls += 1;
        }
    }
}

/// Message headers that point into a buffer, one slot after the other.
struct Batch {
    _iovecs: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

impl Batch {
    /// The buffer must outlive the batch, and `each * many` bytes of it must exist.
    fn new(buffer: &mut [u8], each: usize, many: usize) -> Batch {
        let mut iovecs: Box<[libc::iovec]> = buffer
            .chunks_exact_mut(each)
            .take(many)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: each })
            .collect();
        let header = |iovec: &mut libc::iovec| {
            // SAFETY: an all-zero header is valid and describes nothing.
            let mut header: libc::mmsghdr = unsafe { zeroed() };
            header.msg_hdr.msg_iov = iovec;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let headers = iovecs.iter_mut().map(header).collect();
        Batch { _iovecs: iovecs, headers }
    }

    /// How many messages went.
    fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: each header points to its iovec, each iovec to its slot; all outlive the call.
        sys::check(unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                libc::MSG_NOSIGNAL,
            )
        })
    }

    /// How many bytes came.
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<u64> {
        // SAFETY: as above.
        let got = sys::check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        })?;
        Ok(self.headers[..got].iter().map(|header| u64::from(header.msg_len)).sum())
    }
}

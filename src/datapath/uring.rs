//! Sending and receiving through io_uring(7), to answer one question: would it help an application?
//! Compiled in with the feature `io-uring` only, and never the way headline figures are taken.
//!
//! What it can win is system calls: one io_uring_enter(2) hands over several sends, and one
//! multishot receive (Linux 6.0) brings buffer after buffer. Sends of a byte stream are linked, so
//! that they leave in order; with `MSG_WAITALL` each goes whole.
//!
//! Nothing under way outlives a call that lends memory: what is not done within [`GUARD`] is
//! cancelled, and what went is told. Memory for zero-copy sends lives as long as the process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::buffer::prefaulted;
use crate::contract::{GUARD, Patience};
use crate::figures::ZeroCopy;

/// Sends that one call into the kernel hands over at most.
pub const DEPTH: usize = 16;

/// Receive buffers; a power of two, as their ring asks for.
const BUFFERS: usize = 16;
/// The length of one: what a stream's call may bring, or the largest datagram.
const BUFFER: usize = 128 * 1024;
const GROUP: u16 = 0;

/// From io_uring.h: a zero-copy send is to say whether the kernel copied after all, and it did.
const REPORT_USAGE: u16 = 1 << 3;
const WAS_COPIED: i32 = i32::MIN;

/// Whether this host lets a process have io_uring.
///
/// # Errors
/// What io_uring_setup(2) says; often `EPERM` where `kernel.io_uring_disabled` or a container's
/// filter forbids it, or `ENOSYS`.
pub fn check() -> io::Result<()> {
    ring().map(drop)
}

fn ring() -> io::Result<IoUring> {
    let entries = 2 * DEPTH as u32;
    // Saves interrupts between the kernel's completion work and us; Linux 5.19.
    let cooperative = IoUring::builder().setup_coop_taskrun().build(entries);
    cooperative.or_else(|_| IoUring::new(entries))
}

/// How a send treats its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// The kernel copies it.
    Copied,
    /// The kernel sends from it where the device allows.
    Lent,
}

/// What the parts of one send are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Stretches of a byte stream, in order and each whole.
    Stream,
    /// Datagrams.
    Datagrams,
}

/// Sends.
pub struct Sender {
    ring: IoUring,
    parts: Parts,
    calls: u64,
    told: ZeroCopy,
}

/// What became of the parts of one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Parts that went whole.
    pub parts: usize,
    /// Bytes, those of a part that was cut short included.
    pub bytes: usize,
}

impl Sender {
    /// A sender of such parts.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(parts: Parts) -> io::Result<Sender> {
        Ok(Sender { ring: ring()?, parts, calls: 0, told: ZeroCopy::default() })
    }

    /// Calls into the kernel so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// What zero-copy sends came to so far.
    pub fn told(&self) -> ZeroCopy {
        self.told
    }

    /// Sends up to [`DEPTH`] parts on a connected socket, waiting for room at most [`GUARD`].
    ///
    /// # Errors
    /// What the first failed send says where nothing went.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<Sent> {
        self.hand_over(socket, parts, Memory::Copied)
    }

    /// The same without a copy where the device allows (`IORING_OP_SEND_ZC`, Linux 6.0). The
    /// memory is `'static`, since it may be read after the call.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn lend(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = &'static [u8]>,
    ) -> io::Result<Sent> {
        self.hand_over(socket, parts, Memory::Lent)
    }

    fn hand_over<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
        memory: Memory,
    ) -> io::Result<Sent> {
        let mut lens = [0_u32; DEPTH];
        let mut many = 0;
        let mut parts = parts.take(DEPTH).peekable();
        while let Some(part) = parts.next() {
            lens[many] = part.len() as u32;
            let linked = self.parts == Parts::Stream && parts.peek().is_some();
            let entry = self.entry(socket, part, memory, many as u64);
            let link = if linked { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
            // SAFETY: the part lives until this call returns, which waits for every entry or cancels
            // it; what is lent lives as long as the process.
            unsafe { self.ring.submission().push(&entry.flags(link)) }.map_err(io::Error::other)?;
            many += 1;
        }
        if many == 0 {
            return Ok(Sent::default());
        }
        let mut outcome = Sends::default();
        self.enter(many)?;
        self.collect(&lens, &mut outcome);
        if outcome.done < many {
            self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()).or_else(gone)?;
            while outcome.done < many {
                self.enter(1)?;
                self.collect(&lens, &mut outcome);
            }
        }
        match outcome.failed {
            Some(code) if outcome.sent.bytes == 0 && code != libc::ECANCELED => {
                Err(io::Error::from_raw_os_error(code))
            }
            _ => Ok(outcome.sent),
        }
    }

    fn entry(&self, socket: BorrowedFd<'_>, part: &[u8], memory: Memory, id: u64) -> squeue::Entry {
        let whole = if self.parts == Parts::Stream { libc::MSG_WAITALL } else { 0 };
        let flags = libc::MSG_NOSIGNAL | whole;
        let (fd, len) = (Fd(socket.as_raw_fd()), part.len() as u32);
        let entry = match memory {
            Memory::Copied => opcode::Send::new(fd, part.as_ptr(), len).flags(flags).build(),
            Memory::Lent => opcode::SendZc::new(fd, part.as_ptr(), len)
                .flags(flags)
                .zc_flags(REPORT_USAGE)
                .build(),
        };
        entry.user_data(id)
    }

    fn enter(&mut self, want: usize) -> io::Result<()> {
        self.calls += 1;
        enter(&self.ring, want)
    }

    fn collect(&mut self, lens: &[u32; DEPTH], outcome: &mut Sends) {
        for done in self.ring.completion() {
            if cqueue::notif(done.flags()) {
                self.told.completed += 1;
                self.told.copied += u64::from(done.result() & WAS_COPIED != 0);
                continue;
            }
            outcome.done += 1;
            match usize::try_from(done.result()) {
                Ok(bytes) => {
                    outcome.sent.bytes += bytes;
                    let whole = lens.get(done.user_data() as usize).copied().unwrap_or(0);
                    outcome.sent.parts += usize::from(bytes == whole as usize);
                }
                Err(_) => outcome.failed = outcome.failed.or(Some(-done.result())),
            }
        }
    }
}

/// Completions of one send so far.
#[derive(Default)]
struct Sends {
    done: usize,
    sent: Sent,
    failed: Option<i32>,
}

/// Nothing is left to cancel: it ended by itself meanwhile.
fn gone(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) }
}

/// Submits, and waits for so many completions, for a signal, or for [`GUARD`].
fn enter(ring: &IoUring, want: usize) -> io::Result<()> {
    let guard = Timespec::new().sec(GUARD.0 / 1_000_000_000).nsec((GUARD.0 % 1_000_000_000) as u32);
    let args = SubmitArgs::new().timespec(&guard);
    match ring.submitter().submit_with_args(want, &args) {
        Ok(_) => Ok(()),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Receives, with one request for as long as there are buffers.
pub struct Receiver {
    ring: IoUring,
    pool: Pool,
    armed: bool,
    /// Buffers that arrived and were not handed over: id, length.
    arrived: VecDeque<(u16, usize)>,
    ended: bool,
    failed: Option<i32>,
    calls: u64,
}

/// What one receive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many buffers.
    Some(usize),
    /// Nothing yet.
    Nothing,
    /// The peer ended its direction.
    Closed,
}

impl Receiver {
    /// A receiver with its own buffers.
    ///
    /// # Errors
    /// As [`check`]; `EINVAL` before Linux 5.19, which has no rings of buffers.
    pub fn new() -> io::Result<Receiver> {
        let ring = ring()?;
        let pool = Pool::new();
        // SAFETY: the entries are page-aligned, zeroed, and live until the ring is gone (see `drop`).
        unsafe {
            let (at, many) = (pool.entries() as u64, BUFFERS as u16);
            ring.submitter().register_buf_ring_with_flags(at, many, GROUP, 0)?;
        }
        Ok(Receiver {
            ring,
            pool,
            armed: false,
            arrived: VecDeque::with_capacity(BUFFERS),
            ended: false,
            failed: None,
            calls: 0,
        })
    }

    /// Calls into the kernel so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Receives on `socket`, always the same one, and hands over each buffer that came.
    ///
    /// # Errors
    /// What recv(2) would say.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        patience: Patience,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<Received> {
        self.collect();
        if self.arrived.is_empty() && !self.ended && self.failed.is_none() {
            if !self.armed {
                let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
                // SAFETY: the buffers it may use live until the ring is gone (see `drop`).
                unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
                self.armed = true;
            }
            self.calls += 1;
            enter(&self.ring, usize::from(patience != Patience::None))?;
            self.collect();
        }
        let many = self.arrived.len();
        while let Some((id, len)) = self.arrived.pop_front() {
            take(self.pool.buffer(id, len));
            self.pool.give_back(id);
        }
        match (many, self.failed, self.ended) {
            (1.., _, _) => Ok(Received::Some(many)),
            (0, Some(code), _) => {
                self.failed = None;
                Err(io::Error::from_raw_os_error(code))
            }
            (0, None, true) => Ok(Received::Closed),
            (0, None, false) => Ok(Received::Nothing),
        }
    }

    fn collect(&mut self) {
        for done in self.ring.completion() {
            self.armed &= cqueue::more(done.flags());
            match (done.result(), cqueue::buffer_select(done.flags())) {
                (len @ 1.., Some(id)) => self.arrived.push_back((id, len as usize)),
                (0, id) => {
                    self.ended = true;
                    id.into_iter().for_each(|id| self.pool.give_back(id));
                }
                // Every buffer is in use; it is armed again once some are back.
                (code, _) if code == -libc::ENOBUFS => {}
                (code, _) if code < 0 => self.failed = Some(-code),
                _ => {}
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The kernel may fill a buffer as long as the request stands. If it cannot be cancelled, the
        // memory is never freed.
        let cancel = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        if self.armed && cancel.or_else(gone).is_err() {
            self.pool.leak();
        }
    }
}

/// Receive buffers and the ring that gives them to the kernel (io_uring_register_buf_ring(3)).
struct Pool {
    bytes: Box<[u8]>,
    ring: Box<Entries>,
    tail: u16,
}

/// Sixteen bytes an entry; aligned to a page, as the kernel maps it.
#[repr(C, align(4096))]
struct Entries([BufRingEntry; BUFFERS]);

impl Pool {
    fn new() -> Pool {
        // SAFETY: an entry is plain integers, for which all-zero is valid.
        let ring: Box<Entries> = Box::new(unsafe { std::mem::zeroed() });
        let mut pool = Pool { bytes: prefaulted(BUFFERS * BUFFER), ring, tail: 0 };
        (0..BUFFERS as u16).for_each(|id| pool.give_back(id));
        pool
    }

    fn entries(&self) -> *const BufRingEntry {
        self.ring.0.as_ptr()
    }

    fn buffer(&self, id: u16, len: usize) -> &[u8] {
        &self.bytes[usize::from(id) % BUFFERS * BUFFER..][..len.min(BUFFER)]
    }

    fn give_back(&mut self, id: u16) {
        let start = usize::from(id) % BUFFERS * BUFFER;
        let address = self.bytes[start..].as_mut_ptr() as u64;
        let entry = &mut self.ring.0[usize::from(self.tail) % BUFFERS];
        entry.set_addr(address);
        entry.set_len(BUFFER as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry's unused field, is aligned, and is written by
        // nobody else; the kernel reads it after the entry.
        unsafe {
            let tail = BufRingEntry::tail(self.ring.0.as_ptr()).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    fn leak(&mut self) {
        Box::leak(std::mem::take(&mut self.bytes));
        // SAFETY: as in `new`.
        let empty: Box<Entries> = Box::new(unsafe { std::mem::zeroed() });
        Box::leak(std::mem::replace(&mut self.ring, empty));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    fn available() -> bool {
        match check() {
            Ok(()) => true,
            Err(why) => {
                println!("skipped: no io_uring here: {why}");
                false
            }
        }
    }

    fn streams() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn linked_sends_leave_in_order_and_whole() {
        if !available() {
            return;
        }
        for memory in [Memory::Copied, Memory::Lent] {
            let (near, mut far) = streams();
            let bytes: &'static [u8] = Box::leak(prefaulted(500_000));
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                far.read_to_end(&mut got).unwrap();
                got
            });
            let mut sender = Sender::new(Parts::Stream).unwrap();
            let mut at = 0;
            while at < bytes.len() {
                let parts = bytes[at..].chunks(7_001);
                at += sender.hand_over(near.as_fd(), parts, memory).unwrap().bytes;
            }
            near.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(reader.join().unwrap() == bytes, "{memory:?}");
            assert!(sender.calls() < 72 / 4, "{} calls for 72 parts", sender.calls());
        }
    }

    #[test]
    fn a_peer_that_reads_nothing_ends_a_send_in_time_and_what_went_is_told() {
        if !available() {
            return;
        }
        let (near, mut far) = streams();
        let bytes: &'static [u8] = Box::leak(prefaulted(16 << 20));
        let mut sender = Sender::new(Parts::Stream).unwrap();
        let sent = sender.send(near.as_fd(), bytes.chunks(1 << 20)).unwrap();
        assert!(sent.bytes > 0 && sent.bytes < bytes.len(), "{sent:?}");
        drop(near);
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        assert!(got == bytes[..sent.bytes], "{} of {}", got.len(), sent.bytes);
    }

    #[test]
    fn one_request_receives_a_whole_stream_and_its_end() {
        if !available() {
            return;
        }
        let (mut near, far) = streams();
        let bytes = prefaulted(3_000_000);
        let wanted = bytes.clone();
        let writer = std::thread::spawn(move || near.write_all(&bytes).unwrap());
        let mut receiver = Receiver::new().unwrap();
        let mut got = Vec::new();
        loop {
            let take = |bytes: &[u8]| got.extend_from_slice(bytes);
            if receiver.receive(far.as_fd(), Patience::Block, take).unwrap() == Received::Closed {
                break;
            }
        }
        writer.join().unwrap();
        assert!(got == *wanted);
    }

    #[test]
    fn datagrams_keep_their_boundaries() {
        if !available() {
            return;
        }
        let (a, b) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        let messages: Vec<Vec<u8>> = (1..=40_u8).map(|n| vec![n; usize::from(n) * 10]).collect();
        let mut sender = Sender::new(Parts::Datagrams).unwrap();
        let mut receiver = Receiver::new().unwrap();
        let (mut at, mut got) = (0, Vec::new());
        while got.len() < messages.len() {
            at += sender.send(a.as_fd(), messages[at..].iter().map(Vec::as_slice)).unwrap().parts;
            receiver.receive(b.as_fd(), Patience::Block, |m| got.push(m.to_vec())).unwrap();
        }
        assert_eq!(got, messages);
        let nothing = receiver.receive(b.as_fd(), Patience::None, |_| ()).unwrap();
        assert_eq!(nothing, Received::Nothing);
    }
}

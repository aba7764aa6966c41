//! Sending and receiving through io_uring(7), to answer one question: would it help an application? Headline
//! figures are never taken with it.
//!
//! Its possible gain is system calls: one io_uring_enter(2) submits several sends, and one multishot receive (Linux
//! 6.0) fills buffer after buffer. Sends are linked, so that they leave in order, and none leaves after one has
//! failed; with `MSG_WAITALL` each send of a byte stream is sent whole.
//!
//! Nothing under way outlives a call that lends memory: entries that are not complete within [`GUARD`] are
//! cancelled, and the caller learns how much was sent. Memory for zero-copy sends lives as long as the process.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::{fmt, io};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::buffer::prefaulted;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{GUARD, Patience};
use deadheat_contract::measurements::ZeroCopy;

mod outgoing;

pub(super) use outgoing::{CallSequence, RingStream};

/// Largest number of sends that one call into the kernel hands over.
pub const DEPTH: usize = 16;

/// Number of receive buffers, the most that one call can fill; a power of two, as their ring asks for.
pub const BUFFERS: usize = 16;
/// Length of one buffer: the most that a stream's call returns, or the largest datagram.
const BUFFER: usize = 128 * 1024;
const GROUP: u16 = 0;

/// Number of zero-copy sends with distinct keys; many more than a socket has room for.
const UNDER_WAY: usize = 256 * DEPTH;

/// Flags of io_uring.h: the request that a zero-copy send report whether the kernel copied after all, and the
/// report that it did.
const REPORT_USAGE: u16 = 1 << 3;
const WAS_COPIED: i32 = i32::MIN;

/// Longest wait for the last completions of zero-copy sends while none arrives.
const LAST: Nanos = Nanos::from_secs(1);

/// Checks that this host lets a process have io_uring, with all features that are used here.
///
/// # Errors
/// `Unsupported` with the error of io_uring_setup(2), and the reason where it is known: the setting
/// `kernel.io_uring_disabled`, the filter of a container, or a kernel before Linux 6.0.
pub fn check() -> io::Result<()> {
    ring().map(drop)
}

fn ring() -> io::Result<IoUring> {
    let entries = 2 * DEPTH as u32;
    // Saves interrupts between the kernel's completion work and us; Linux 5.19.
    let cooperative = IoUring::builder().setup_coop_taskrun().build(entries);
    let ring = cooperative.or_else(|_| IoUring::new(entries)).map_err(|e| withheld(&e))?;
    let mut known = Probe::new();
    // This operation is as old as multishot receives, which cannot be probed.
    let all = ring.submitter().register_probe(&mut known).is_ok()
        && known.is_supported(opcode::SendZc::CODE);
    let lacks =
        || unsupported("its io_uring has no multishot receive; Linux 6.0 brought it".into());
    if all { Ok(ring) } else { Err(lacks()) }
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Returns the error for a ring that the kernel refused, with the reason.
fn withheld(error: &io::Error) -> io::Error {
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let disabled = setting.as_deref().map_or("", str::trim);
    let why = match (error.raw_os_error(), disabled) {
        (Some(libc::EPERM), "1" | "2") => format!("kernel.io_uring_disabled is {disabled}"),
        (Some(libc::EPERM | libc::EACCES), _) => {
            "a filter, such as that of a container, forbids it".to_owned()
        }
        (Some(libc::ENOSYS), _) => {
            "this kernel is built without it, or a filter hides it".to_owned()
        }
        _ => "the kernel gives no ring".to_owned(),
    };
    unsupported(format!("io_uring_setup: {error}: {why}"))
}

/// Treatment of the memory of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Copied by the kernel.
    Copied,
    /// Lent: the kernel sends from it where the device allows.
    Lent,
}

/// Relation of the parts of one send, and of the buffers that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Stretches of a byte stream, in order and each whole.
    Stream,
    /// Datagrams.
    Datagrams,
}

/// Sender through io_uring.
pub struct RingSender {
    ring: IoUring,
    parts: Parts,
    calls: u64,
    tally: ZeroCopy,
    /// Number of sends so far; it is the key of the next one in the kernel's completions.
    next: u64,
    /// Number of zero-copy sends that left while the kernel may still read their memory.
    lent: u64,
    /// Number of such sends by their key modulo [`UNDER_WAY`].
    lent_at: Box<[u8]>,
    /// Error that ended the last send after parts of it had left; the next send returns it.
    failed: Option<i32>,
}

impl fmt::Debug for RingSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingSender").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// Outcome of the parts of one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendOutcome {
    /// Number of parts that were sent whole.
    pub parts: usize,
    /// Number of bytes that were sent, including the bytes of a part that was cut short.
    pub bytes: usize,
}

impl RingSender {
    /// Creates a sender of such parts.
    ///
    /// # Errors
    /// As for [`check`].
    pub fn new(parts: Parts) -> io::Result<RingSender> {
        let tally = ZeroCopy::default();
        let lent_at = vec![0; UNDER_WAY].into();
        Ok(RingSender {
            ring: ring()?,
            parts,
            calls: 0,
            tally,
            next: 0,
            lent: 0,
            lent_at,
            failed: None,
        })
    }

    /// Returns the number of calls into the kernel so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the outcome of zero-copy sends so far.
    pub fn outcome(&self) -> ZeroCopy {
        self.tally
    }

    /// Sends up to [`DEPTH`] parts on a connected socket, waiting for room at most [`GUARD`].
    ///
    /// # Errors
    /// The error of the first failed send; if parts were sent before it, the next call returns it.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<SendOutcome> {
        self.hand_over(socket, parts, Memory::Copied)
    }

    /// Sends as [`RingSender::send`] does, without a copy where the device allows (`IORING_OP_SEND_ZC`, Linux 6.0).
    /// The memory is `'static`, since the kernel may read it after the call.
    ///
    /// # Errors
    /// As for [`RingSender::send`].
    pub fn lend(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = &'static [u8]>,
    ) -> io::Result<SendOutcome> {
        self.hand_over(socket, parts, Memory::Lent)
    }

    fn hand_over<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
        memory: Memory,
    ) -> io::Result<SendOutcome> {
        if let Some(code) = self.failed.take() {
            return Err(io::Error::from_raw_os_error(code));
        }
        // Completions that are left from earlier sends are notices of zero-copy sends.
        let mut outcome = SendProgress::default();
        self.collect(&[0; DEPTH], &mut outcome);
        let mut lens = [0_u32; DEPTH];
        let mut many = 0;
        let mut parts = parts.take(DEPTH).peekable();
        while let Some(part) = parts.next() {
            lens[many] = part.len() as u32;
            let link = match parts.peek() {
                Some(_) => squeue::Flags::IO_LINK,
                None => squeue::Flags::empty(),
            };
            let entry = self.entry(socket, part, memory, self.next + many as u64).flags(link);
            // SAFETY: the part lives until this call returns, which waits for every entry or cancels it; lent
            // memory lives as long as the process.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
            many += 1;
        }
        if many == 0 {
            return Ok(SendOutcome::default());
        }
        // Advances by a whole turn, so that a key modulo the depth is the part's position in its turn.
        self.next += DEPTH as u64;
        self.complete(many, &lens, &mut outcome)?;
        let failed = outcome.failed.filter(|code| *code != libc::ECANCELED);
        match (outcome.sent.bytes, failed) {
            (0, Some(code)) => Err(io::Error::from_raw_os_error(code)),
            (_, failed) => {
                self.failed = failed;
                Ok(outcome.sent)
            }
        }
    }

    /// Submits, and waits until `many` entries are complete; cancels entries that are late, or pending when a
    /// signal interrupts the wait.
    fn complete(
        &mut self,
        many: usize,
        lens: &[u32; DEPTH],
        outcome: &mut SendProgress,
    ) -> io::Result<()> {
        let began = Monotonic.now();
        let mut is_ready = true;
        while outcome.done < many && is_ready {
            // Notices of zero-copy sends may end a wait, too.
            is_ready = self.enter(many - outcome.done)?;
            self.collect(lens, outcome);
            if outcome.done < many && Monotonic.now() - began >= GUARD {
                is_ready = false;
            }
        }
        if outcome.done < many {
            self.calls += 1;
            self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()).or_else(gone)?;
        }
        while outcome.done < many {
            self.enter(1)?;
            self.collect(lens, outcome);
        }
        Ok(())
    }

    /// Waits for all completions of zero-copy sends that the kernel will report.
    ///
    /// # Errors
    /// The error of io_uring_enter(2).
    pub fn finish(&mut self) -> io::Result<()> {
        let mut last = Monotonic.now();
        while self.lent > 0 && Monotonic.now() - last < LAST {
            let before = self.lent;
            self.enter(1)?;
            self.collect(&[0; DEPTH], &mut SendProgress::default());
            if self.lent < before {
                last = Monotonic.now();
            }
        }
        Ok(())
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

    fn enter(&mut self, want: usize) -> io::Result<bool> {
        self.calls += 1;
        enter(&self.ring, want)
    }

    fn collect(&mut self, lens: &[u32; DEPTH], outcome: &mut SendProgress) {
        for done in self.ring.completion() {
            let number = done.user_data() as usize;
            let lent_here = &mut self.lent_at[number % UNDER_WAY];
            if cqueue::notif(done.flags()) {
                // The notice of a cancelled send reports nothing.
                if *lent_here > 0 {
                    *lent_here -= 1;
                    self.lent -= 1;
                    self.tally.completed += 1;
                    self.tally.copied += u64::from(done.result() & WAS_COPIED != 0);
                }
                continue;
            }
            outcome.done += 1;
            if cqueue::more(done.flags()) && done.result() > 0 && *lent_here < u8::MAX {
                *lent_here += 1;
                self.lent += 1;
            }
            match usize::try_from(done.result()) {
                Ok(bytes) => {
                    outcome.sent.bytes += bytes;
                    let whole = lens[number % DEPTH];
                    outcome.sent.parts += usize::from(bytes == whole as usize);
                }
                Err(_) => outcome.failed = outcome.failed.or(Some(-done.result())),
            }
        }
    }
}

/// Completions of one send so far.
#[derive(Default)]
struct SendProgress {
    done: usize,
    sent: SendOutcome,
    failed: Option<i32>,
}

/// Ignores the error of a cancellation that found nothing: the entry ended by itself meanwhile.
fn gone(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) }
}

/// Submits, and waits for this many completions, for a signal, or for [`GUARD`]; returns true if there are as many.
fn enter(ring: &IoUring, want: usize) -> io::Result<bool> {
    let guard = Timespec::new().sec(GUARD.0 / 1_000_000_000).nsec((GUARD.0 % 1_000_000_000) as u32);
    let args = SubmitArgs::new().timespec(&guard);
    match ring.submitter().submit_with_args(want, &args) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Receiver with one multishot request, which lasts while there are buffers.
pub struct RingReceiver {
    ring: IoUring,
    pool: Pool,
    parts: Parts,
    armed: bool,
    /// Buffers that arrived and were not handed over: id, length.
    arrived: VecDeque<(u16, usize)>,
    ended: bool,
    failed: Option<i32>,
    calls: u64,
}

impl fmt::Debug for RingReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingReceiver").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// Result of one receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Number of buffers received.
    Some(usize),
    /// Nothing received yet.
    Nothing,
    /// Closed: the peer ended its direction.
    Closed,
}

impl RingReceiver {
    /// Creates a receiver with its own buffers.
    ///
    /// # Errors
    /// As for [`check`].
    pub fn new(parts: Parts) -> io::Result<RingReceiver> {
        let ring = ring()?;
        let pool = Pool::new();
        // SAFETY: the entries are page-aligned, zeroed, and live until the ring is gone (see `drop`).
        unsafe {
            let (at, many) = (pool.entries() as u64, BUFFERS as u16);
            ring.submitter().register_buf_ring_with_flags(at, many, GROUP, 0)?;
        }
        Ok(RingReceiver {
            ring,
            pool,
            parts,
            armed: false,
            arrived: VecDeque::with_capacity(BUFFERS),
            ended: false,
            failed: None,
            calls: 0,
        })
    }

    /// Returns the number of calls into the kernel so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Receives on `socket`, always the same one. [`RingReceiver::take`] hands the received buffers over.
    ///
    /// # Errors
    /// The error that recv(2) would give.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        patience: Patience,
    ) -> io::Result<ReceiveOutcome> {
        self.collect();
        if self.arrived.is_empty() && !self.ended && self.failed.is_none() {
            if !self.armed {
                let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
                // SAFETY: the buffers that it may use live until the ring is gone (see `drop`).
                unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
                self.armed = true;
            }
            self.calls += 1;
            enter(&self.ring, usize::from(patience != Patience::None))?;
            self.collect();
        }
        match (self.arrived.len(), self.failed, self.ended) {
            (many @ 1.., _, _) => Ok(ReceiveOutcome::Some(many)),
            (0, Some(code), _) => {
                self.failed = None;
                Err(io::Error::from_raw_os_error(code))
            }
            (0, None, true) => Ok(ReceiveOutcome::Closed),
            (0, None, false) => Ok(ReceiveOutcome::Nothing),
        }
    }

    /// Hands over each received buffer, in order, and returns it to the kernel.
    pub fn take(&mut self, mut take: impl FnMut(&[u8])) {
        while let Some((id, len)) = self.arrived.pop_front() {
            take(self.pool.buffer(id, len));
            self.pool.give_back(id);
        }
    }

    fn collect(&mut self) {
        for done in self.ring.completion() {
            self.armed &= cqueue::more(done.flags());
            match (done.result(), cqueue::buffer_select(done.flags())) {
                (len @ 1.., Some(id)) => self.arrived.push_back((id, len as usize)),
                (0, id) => {
                    self.ended |= self.parts == Parts::Stream;
                    id.into_iter().for_each(|id| self.pool.give_back(id));
                }
                // Every buffer is in use; the request is armed again once some are back.
                (code, _) if code == -libc::ENOBUFS => {}
                (code, _) if code < 0 => self.failed = Some(-code),
                _ => {}
            }
        }
    }
}

impl Drop for RingReceiver {
    fn drop(&mut self) {
        // The kernel may fill a buffer while the request exists. If it cannot be cancelled, the memory is never
        // freed.
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

/// Ring entries of sixteen bytes; aligned to a page, as the kernel maps them.
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
        // SAFETY: the tail lies in the first entry's unused field, is aligned, and has no other writer; the kernel
        // reads it after the entry.
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
            let mut sender = RingSender::new(Parts::Stream).unwrap();
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
        let mut sender = RingSender::new(Parts::Stream).unwrap();
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
        let mut receiver = RingReceiver::new(Parts::Stream).unwrap();
        let mut got = Vec::new();
        while receiver.receive(far.as_fd(), Patience::Block).unwrap() != ReceiveOutcome::Closed {
            receiver.take(|bytes| got.extend_from_slice(bytes));
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
        let mut sender = RingSender::new(Parts::Datagrams).unwrap();
        let mut receiver = RingReceiver::new(Parts::Datagrams).unwrap();
        let (mut at, mut got) = (0, Vec::new());
        while got.len() < messages.len() {
            at += sender.send(a.as_fd(), messages[at..].iter().map(Vec::as_slice)).unwrap().parts;
            receiver.receive(b.as_fd(), Patience::Block).unwrap();
            receiver.take(|message| got.push(message.to_vec()));
        }
        assert_eq!(got, messages);
        let nothing = receiver.receive(b.as_fd(), Patience::None).unwrap();
        assert_eq!(nothing, ReceiveOutcome::Nothing);
    }
}

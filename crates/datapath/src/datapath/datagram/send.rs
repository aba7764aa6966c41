//! Outgoing messages of one size, by one of several engines.

use std::io;
use std::os::fd::AsFd;

use socket2::SockAddr;

use super::{DatagramSocket, Peer, set_segment};
use crate::datapath::buffer::prefaulted;
use crate::datapath::{call, policer, uring};

/// Largest number of datagrams in one buffer that the kernel cuts; every kernel with `UDP_SEGMENT` takes as many.
pub const MOST_SEGMENTS: usize = 64;

/// Largest size in bytes of one buffer that the kernel cuts: a device's default `gso_max_size` of 65,536, which
/// counts all headers, less one (the kernel requires "below"), 14 for Ethernet, 40 for IPv6 and 8 for UDP. A longer
/// buffer is legal up to 65,507 bytes on IPv4, but is cut before the device rather than by it, which loses most of
/// the gain of segmentation.
pub const MOST_SEGMENTED: usize = 65_536 - 1 - 14 - 40 - 8;

/// Engine that sends: the system call, and whether the kernel or the application cuts messages into datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendEngine {
    /// Single datagram per send(2).
    Send,
    /// Many datagrams per sendmmsg(2), each with a header of its own.
    SendMmsg,
    /// Single buffer per send(2), which the kernel or the device cuts (`UDP_SEGMENT`).
    Gso,
    /// Many such buffers per sendmmsg(2).
    GsoSendMmsg,
    /// Many datagrams per io_uring_enter(2), linked.
    Uring,
}

impl SendEngine {
    /// All engines, as the values of knobs name them.
    pub const WORDS: &'static [&'static str; 5] =
        &["send", "sendmmsg", "gso", "gso+sendmmsg", "uring"];

    /// All engines, in the order of [`SendEngine::WORDS`].
    pub const ALL: &'static [SendEngine; 5] = &[
        SendEngine::Send,
        SendEngine::SendMmsg,
        SendEngine::Gso,
        SendEngine::GsoSendMmsg,
        SendEngine::Uring,
    ];

    /// Returns the engine with this name.
    pub fn named(word: &str) -> Option<SendEngine> {
        SendEngine::ALL.iter().copied().find(|engine| engine.word() == word)
    }

    /// Returns its name.
    pub fn word(self) -> &'static str {
        SendEngine::WORDS[self as usize]
    }

    /// Returns true if the kernel cuts.
    pub fn segments(self) -> bool {
        matches!(self, SendEngine::Gso | SendEngine::GsoSendMmsg)
    }

    /// Returns true if one call takes several buffers.
    pub fn batches(self) -> bool {
        if self.is_ring() {
            return true;
        }
        self.has_headers()
    }

    /// Returns true if each buffer has a header of its own.
    fn has_headers(self) -> bool {
        matches!(self, SendEngine::SendMmsg | SendEngine::GsoSendMmsg)
    }

    /// Returns true if it is io_uring.
    pub fn is_ring(self) -> bool {
        self == SendEngine::Uring
    }
}

/// Capacity of one sending call; an engine with a lower limit uses that.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Number of messages that the application hands over per call.
    pub messages: usize,
    /// Number of datagrams, or buffers to be cut, per sendmmsg(2).
    pub batch: usize,
}

/// Batch of outgoing messages of one size, sent with as many messages per call as the engine takes.
///
/// The memory is touched before the first send, and every slot keeps its content, so only the bytes that the caller
/// writes into a slot change.
pub struct SendBatch {
    bytes: Box<[u8]>,
    /// Headers, one for each buffer of a sendmmsg(2); empty where a call takes one buffer.
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    to: Option<Box<SockAddr>>,
    size: usize,
    /// Number of messages per buffer.
    per: usize,
    engine: SendEngine,
    first: usize,
    filled: usize,
    ring: Option<Box<uring::RingSender>>,
}

// SAFETY: the raw pointers in the headers point into boxes that this value owns and never reallocates.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Creates a batch for messages of `size` bytes (at least 1): as many as one call of `engine` takes within
    /// `room`, at least one.
    ///
    /// # Errors
    /// Fails if the socket refuses `UDP_SEGMENT`, or the host io_uring.
    pub fn new(
        socket: &DatagramSocket,
        size: usize,
        room: Room,
        engine: SendEngine,
    ) -> io::Result<SendBatch> {
        let asked = room.messages.max(1);
        let batch = room.batch.clamp(1, libc::UIO_MAXIOV as usize);
        let batch = if engine.is_ring() { batch.min(uring::DEPTH) } else { batch };
        let per = if engine.segments() {
            MOST_SEGMENTS.min(MOST_SEGMENTED / size).min(asked).max(1)
        } else {
            1
        };
        let buffers = if engine.batches() { (asked / per).min(batch) } else { 1 };
        if engine.segments() {
            set_segment(socket.as_fd(), size)?;
        }
        let to = match socket.peer() {
            Peer::Bound => None,
            Peer::Addressed(to) => Some(Box::new(to.clone())),
        };
        let bytes = prefaulted(size * per * buffers);
        let (headers, iovecs) = (Box::default(), Box::default());
        let (first, filled) = (0, 0);
        let ring = if engine.is_ring() {
            Some(Box::new(uring::RingSender::new(uring::Parts::Datagrams)?))
        } else {
            None
        };
        let mut new =
            SendBatch { bytes, headers, iovecs, to, size, per, engine, first, filled, ring };
        new.make_headers();
        Ok(new)
    }

    /// Makes a header for each buffer, where the engine needs them.
    fn make_headers(&mut self) {
        if !self.engine.has_headers() {
            return;
        }
        let buffers = self.bytes.chunks_exact_mut(self.size * self.per);
        self.iovecs = buffers
            .map(|bytes| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() })
            .collect();
        self.headers = self.iovecs.iter_mut().map(super::header).collect();
        if let Some(to) = &self.to {
            for header in &mut self.headers {
                header.msg_hdr.msg_name = to.as_ptr().cast_mut().cast();
                header.msg_hdr.msg_namelen = to.len();
            }
        }
    }

    /// Returns the message size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of messages per call.
    pub fn capacity(&self) -> usize {
        self.bytes.len() / self.size
    }

    /// Returns the number of datagrams, or buffers to be cut, per call.
    pub fn buffers(&self) -> usize {
        self.bytes.len() / (self.size * self.per)
    }

    /// Returns the number of messages that are filled in and not yet sent.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.filled - self.first
    }

    /// Lets `write` fill in the next messages, at most `most` or as many as fit; messages that still wait are
    /// discarded.
    #[inline]
    pub fn fill(&mut self, most: usize, write: impl FnMut(&mut [u8])) {
        self.first = 0;
        self.filled = most.min(self.capacity());
        self.bytes[..self.filled * self.size].chunks_exact_mut(self.size).for_each(write);
    }

    /// Sends the waiting messages, in one system call, and returns the number of messages that the kernel accepted.
    /// Waits for room, at most [`deadheat_contract::contract::GUARD`]. The other messages stay in the batch.
    ///
    /// # Errors
    /// The error of send(2) or sendmmsg(2) where no message was accepted; `EAGAIN` where there was no room.
    #[inline]
    pub fn send(&mut self, socket: &mut DatagramSocket) -> io::Result<usize> {
        let waiting = self.waiting();
        if waiting == 0 {
            return Ok(0);
        }
        if let Some(ring) = &mut self.ring {
            let slots = &self.bytes[self.first * self.size..self.filled * self.size];
            let before = ring.calls();
            let sent = ring.send(socket.as_fd(), slots.chunks_exact(self.size));
            socket.send_calls += ring.calls() - before;
            let sent = sent?.parts;
            self.first += sent;
            return if sent > 0 {
                Ok(sent)
            } else {
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            };
        }
        let sent = if self.engine.batches() {
            self.send_buffers(socket)?.min(waiting)
        } else {
            let slots = &self.bytes[self.first * self.size..self.filled * self.size];
            socket.put(slots, waiting, libc::MSG_NOSIGNAL)?;
            waiting
        };
        self.first += sent;
        Ok(sent)
    }

    /// Makes one sendmmsg(2); returns the number of messages in the buffers that it accepted.
    fn send_buffers(&mut self, socket: &mut DatagramSocket) -> io::Result<usize> {
        let (from, to) = (self.first / self.per, self.filled.div_ceil(self.per));
        // The last buffer may be filled in part.
        let last = (self.filled - (to - 1) * self.per) * self.size;
        let whole = std::mem::replace(&mut self.iovecs[to - 1].iov_len, last);
        socket.send_calls += 1;
        let (headers, waiting) = (&mut self.headers[from..to], self.filled - self.first);
        // SAFETY: the headers point to `self.iovecs`, these into `self.bytes`, and both into `self.to`,
        // all of which live.
        let call = || unsafe { call::send_many(socket.as_fd(), headers, libc::MSG_NOSIGNAL) };
        let sent = policer::send(call, |buffers| {
            let messages = (buffers * self.per).min(waiting);
            socket.cost(messages * self.size, messages)
        });
        self.iovecs[to - 1].iov_len = whole;
        Ok(sent? * self.per)
    }

    /// Discards the waiting messages, because the network refused them. Returns their number.
    pub fn discard(&mut self) -> usize {
        let waiting = self.waiting();
        self.first = self.filled;
        waiting
    }

    /// Makes the application cut from now on, by sendmmsg(2); waiting messages stay.
    ///
    /// # Errors
    /// Fails if the socket refuses to reset `UDP_SEGMENT`.
    pub fn stop_segmenting(&mut self, socket: &DatagramSocket) -> io::Result<()> {
        (self.engine, self.per) = (SendEngine::SendMmsg, 1);
        self.make_headers();
        set_segment(socket.as_fd(), 0)
    }
}

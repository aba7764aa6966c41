//! Arriving datagrams, by one of several engines.

use std::io;
use std::mem::size_of;
use std::os::fd::AsFd;

use deadheat_base::cmsg::{self, Room};

use super::{DatagramSocket, Peer, set_int};
use crate::datapath::buffer::prefaulted;
use crate::datapath::patience::flag;
use crate::datapath::{call, ecn, policer, uring};
use deadheat_base::ecn::Codepoint;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Patience;

/// Largest size in bytes of one datagram, or of several that the kernel coalesced: the largest IP packet.
const LARGEST: usize = 65_536;

/// Engine that receives: the system call, and whether the kernel coalesces arriving datagrams of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveEngine {
    /// Single datagram per recv(2).
    Recv,
    /// Many datagrams per recvmmsg(2).
    RecvMmsg,
    /// Single buffer per recvmsg(2), of several datagrams that the kernel coalesced (`UDP_GRO`).
    Gro,
    /// Many such buffers per recvmmsg(2).
    GroRecvMmsg,
    /// Multishot request of io_uring(7) that fills buffer after buffer with a datagram each.
    Uring,
}

impl ReceiveEngine {
    /// All engines, as the values of knobs name them.
    pub const WORDS: &'static [&'static str; 5] =
        &["recv", "recvmmsg", "gro", "gro+recvmmsg", "uring"];

    /// All engines, in the order of [`ReceiveEngine::WORDS`].
    pub const ALL: &'static [ReceiveEngine; 5] = &[
        ReceiveEngine::Recv,
        ReceiveEngine::RecvMmsg,
        ReceiveEngine::Gro,
        ReceiveEngine::GroRecvMmsg,
        ReceiveEngine::Uring,
    ];

    /// Returns the engine with this name.
    pub fn named(word: &str) -> Option<ReceiveEngine> {
        ReceiveEngine::ALL.iter().copied().find(|engine| engine.word() == word)
    }

    /// Returns its name.
    pub fn word(self) -> &'static str {
        ReceiveEngine::WORDS[self as usize]
    }

    /// Returns true if the kernel coalesces datagrams.
    pub fn coalesces(self) -> bool {
        matches!(self, ReceiveEngine::Gro | ReceiveEngine::GroRecvMmsg)
    }

    /// Returns true if it is io_uring.
    pub fn is_ring(self) -> bool {
        self == ReceiveEngine::Uring
    }

    /// Returns true if one call brings as many buffers as it has room for.
    pub fn batches(self) -> bool {
        matches!(self, ReceiveEngine::RecvMmsg | ReceiveEngine::GroRecvMmsg)
    }
}

/// Datagram that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// Time at which it was read, or arrived in virtual time.
    pub at: Nanos,
    /// Content.
    pub bytes: &'a [u8],
    /// ECN codepoint that it arrived with, where codepoints are read; otherwise [`Codepoint::NotEct`].
    pub ecn: Codepoint,
}

impl Received<'_> {
    /// Creates a datagram that is not marked as capable of ECN.
    pub fn plain(at: Nanos, bytes: &[u8]) -> Received<'_> {
        Received { at, bytes, ecn: Codepoint::NotEct }
    }
}

/// Buffers for one receiving call.
pub struct ReceiveBatch {
    bytes: Box<[u8]>,
    headers: Box<[libc::mmsghdr]>,
    _iovecs: Box<[libc::iovec]>,
    controls: Box<[ControlRoom]>,
    names: Box<[libc::sockaddr_storage]>,
    engine: ReceiveEngine,
    /// Bytes of room for the control messages of a buffer; 0 where none are requested.
    room: usize,
    /// True if the kernel gives the ECN codepoint of each buffer.
    has_codepoints: bool,
    slot: usize,
    arrived: usize,
    /// True once any buffer held several datagrams.
    coalesced: bool,
    /// Histogram of the number of datagrams per buffer since then; the last entry counts longer ones, too.
    seen: [u64; 129],
    ring: Option<Box<uring::RingReceiver>>,
}

// SAFETY: the raw pointers in the headers point into boxes this value owns and never reallocates.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Creates buffers for datagrams of at most `largest` bytes, `batch` of them (1 to 1024) where a call takes
    /// several. A longer datagram is cut off at one byte more than `largest`, so that its length shows it.
    /// Coalesced buffers are always whole.
    ///
    /// # Errors
    /// Fails if the socket refuses `UDP_GRO`, or the host io_uring.
    pub fn new(
        socket: &DatagramSocket,
        batch: usize,
        largest: usize,
        engine: ReceiveEngine,
    ) -> io::Result<ReceiveBatch> {
        let slots = if engine.batches() { batch.max(1) } else { 1 };
        let slot = if engine.coalesces() { LARGEST } else { (largest + 1).min(LARGEST) };
        if engine.coalesces() {
            set_int(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        }
        let mut bytes = prefaulted(slot * slots);
        let mut iovecs: Box<[libc::iovec]> = bytes
            .chunks_exact_mut(slot)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() })
            .collect();
        let mut headers: Box<[libc::mmsghdr]> = iovecs.iter_mut().map(super::header).collect();
        let room = if matches!(socket.peer(), Peer::Addressed(_)) { slots } else { 0 };
        // SAFETY: an all-zero address is valid: it has no family.
        let mut names: Box<[libc::sockaddr_storage]> =
            (0..room).map(|_| unsafe { std::mem::zeroed() }).collect();
        for (header, name) in headers.iter_mut().zip(names.iter_mut()) {
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = NAME;
        }
        let mut new = ReceiveBatch {
            bytes,
            headers,
            _iovecs: iovecs,
            controls: Box::default(),
            names,
            engine,
            room: 0,
            has_codepoints: false,
            slot,
            arrived: 0,
            coalesced: false,
            seen: [0; 129],
            ring: if engine.is_ring() {
                Some(Box::new(uring::RingReceiver::new(uring::Parts::Datagrams)?))
            } else {
                None
            },
        };
        if engine.coalesces() {
            new.make_room(CONTROL);
        }
        Ok(new)
    }

    /// Offers `bytes` of room for control messages with each buffer.
    fn make_room(&mut self, bytes: usize) {
        self.room = bytes;
        self.controls = vec![ControlRoom::default(); self.headers.len()].into();
        for (header, control) in self.headers.iter_mut().zip(self.controls.iter_mut()) {
            control.offer(&mut header.msg_hdr);
        }
        self.reset(self.headers.len());
    }

    /// Makes the kernel report the ECN codepoint of each datagram from now on, for [`ReceiveBatch::each_marked`].
    ///
    /// # Errors
    /// The error of setsockopt(2).
    ///
    /// # Panics
    /// Panics with [`ReceiveEngine::Uring`]: its requests have no room for it.
    pub fn read_codepoints(&mut self, socket: &DatagramSocket) -> io::Result<()> {
        assert!(self.ring.is_none(), "a request of io_uring has no room for control messages");
        ecn::announce(socket.socket())?;
        self.make_room(BOTH);
        self.has_codepoints = true;
        Ok(())
    }

    /// Returns the number of buffers per call.
    pub fn buffers(&self) -> usize {
        self.headers.len()
    }

    fn receive_by_ring(
        ring: &mut uring::RingReceiver,
        socket: &mut DatagramSocket,
        patience: Patience,
    ) -> io::Result<usize> {
        let before = ring.calls();
        let received = ring.receive(socket.as_fd(), patience);
        socket.receive_calls += ring.calls() - before;
        match received? {
            uring::ReceiveOutcome::Some(buffers) => Ok(buffers),
            uring::ReceiveOutcome::Nothing | uring::ReceiveOutcome::Closed => {
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
        }
    }

    /// Receives the datagrams that are queued, in one system call; returns the number of buffers filled.
    ///
    /// # Errors
    /// The error of recv(2), recvmsg(2) or recvmmsg(2); `EAGAIN` where there is nothing to receive.
    #[inline]
    pub fn receive(
        &mut self,
        socket: &mut DatagramSocket,
        patience: Patience,
    ) -> io::Result<usize> {
        if let Some(ring) = &mut self.ring {
            return ReceiveBatch::receive_by_ring(ring, socket, patience);
        }
        let before = std::mem::take(&mut self.arrived);
        self.arrived = match self.engine {
            ReceiveEngine::Recv if self.room == 0 => {
                let got = socket.receive(patience, &mut self.bytes)?;
                self.headers[0].msg_len = got as libc::c_uint;
                1
            }
            ReceiveEngine::Recv | ReceiveEngine::Gro => {
                self.reset(1);
                socket.guard.suit(&socket.socket, patience)?;
                socket.receive_calls += 1;
                let header = &mut self.headers[0];
                // SAFETY: the header is valid: it points to memory of `self`.
                let got =
                    unsafe { call::recv_one(socket.as_fd(), &mut header.msg_hdr, flag(patience)) };
                header.msg_len = got? as libc::c_uint;
                1
            }
            ReceiveEngine::RecvMmsg | ReceiveEngine::GroRecvMmsg => {
                self.reset(before);
                socket.guard.suit(&socket.socket, patience)?;
                socket.receive_calls += 1;
                let wait = match patience {
                    Patience::None => libc::MSG_DONTWAIT,
                    Patience::Block | Patience::UntilNudged => libc::MSG_WAITFORONE,
                };
                // SAFETY: the headers are valid: they point to memory of `self`.
                unsafe { call::recv_many(socket.as_fd(), &mut self.headers, wait)? }
            }
            // The ring has received above.
            ReceiveEngine::Uring => 0,
        };
        // A single receiving call of the socket counts by itself.
        if !(self.engine == ReceiveEngine::Recv && self.room == 0) {
            policer::received(|| self.cost(socket))?;
        }
        Ok(self.arrived)
    }

    /// Returns the bytes of the packets that the last call received.
    fn cost(&self, socket: &DatagramSocket) -> u64 {
        let each = self.headers[..self.arrived].iter().map(|header| {
            let len = header.msg_len as usize;
            let segment = segment_size(&header.msg_hdr).filter(|size| *size > 0);
            socket.cost(len, segment.map_or(1, |size| len.div_ceil(size)))
        });
        each.sum()
    }

    /// Resets the first `used` headers, which the kernel has written to.
    fn reset(&mut self, used: usize) {
        if !self.controls.is_empty() {
            for header in &mut self.headers[..used] {
                header.msg_hdr.msg_controllen = self.room as _;
            }
        }
        if !self.names.is_empty() {
            for header in &mut self.headers[..used] {
                header.msg_hdr.msg_namelen = NAME;
            }
        }
    }

    /// Hands over each datagram of the last `receive`, in order of arrival.
    pub fn each(&mut self, mut take: impl FnMut(&[u8])) {
        if let Some(ring) = &mut self.ring {
            ring.take(take);
            return;
        }
        self.each_marked(|bytes, _| take(bytes));
    }

    /// Hands over each datagram with the ECN codepoint that it arrived with, if [`ReceiveBatch::read_codepoints`]
    /// was called. All datagrams that the kernel coalesced have the same one (`inet_gro_receive`).
    #[inline]
    pub fn each_marked(&mut self, mut take: impl FnMut(&[u8], Codepoint)) {
        for at in 0..self.arrived {
            let header = &self.headers[at];
            let len = (header.msg_len as usize).min(self.slot);
            let segment = segment_size(&header.msg_hdr).filter(|size| (1..len).contains(size));
            self.note(segment.map_or(1, |size| len.div_ceil(size)));
            let ecn = if self.has_codepoints {
                codepoint(&self.headers[at].msg_hdr)
            } else {
                Codepoint::NotEct
            };
            let bytes = &self.bytes[at * self.slot..][..len];
            match segment {
                Some(size) => bytes.chunks(size).for_each(|bytes| take(bytes, ecn)),
                None => take(bytes, ecn),
            }
        }
    }

    /// Returns the number of datagrams that one drop stands for, as the kernel counts a dropped buffer once: the
    /// most frequent number of datagrams in a buffer or, where that is more, the mean number rounded up; never
    /// less than 1. Buffers with fewer are likelier to find room, so this errs on the side of drops here rather than
    /// losses on the path.
    pub fn datagrams_per_drop(&self) -> u64 {
        // Of several equally frequent numbers this finds the smallest.
        let usual = (1..self.seen.len()).rev().max_by_key(|n| self.seen[*n]).unwrap_or(1);
        let buffers: u64 = self.seen.iter().sum();
        let datagrams: u64 = (0..).zip(&self.seen).map(|(n, times)| n * times).sum();
        (usual as u64).max(datagrams.div_ceil(buffers.max(1)))
    }

    /// Counts the datagrams of a buffer. Datagrams that arrived before the kernel was asked to coalesce are first
    /// in the queue, one in each buffer; they show nothing about the buffers that are dropped later.
    #[inline]
    fn note(&mut self, datagrams: usize) {
        self.coalesced |= datagrams > 1;
        if self.coalesced {
            let last = self.seen.len() - 1;
            self.seen[datagrams.min(last)] += 1;
        }
    }
}

/// Size of one control message with an `int`.
const CONTROL: usize = cmsg::space(size_of::<libc::c_int>());

/// Size of both possible control messages: the size of segments, and the field with the codepoint.
const BOTH: usize = 2 * CONTROL;

/// Size of an address of any family.
const NAME: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

type ControlRoom = Room<BOTH>;

/// Returns the size in the `UDP_GRO` control message, if there is one.
fn segment_size(header: &libc::msghdr) -> Option<usize> {
    if header.msg_control.is_null() {
        return None;
    }
    // SAFETY: the kernel filled in the control buffer that `header` describes, which lives in the batch.
    let size = unsafe { cmsg::messages(header) }
        .find(|message| (message.level, message.kind) == (libc::SOL_UDP, libc::UDP_GRO))?
        .read::<libc::c_int>()?;
    usize::try_from(size).ok()
}

/// Returns the codepoint in the control messages; [`Codepoint::NotEct`] if none has it.
fn codepoint(header: &libc::msghdr) -> Codepoint {
    if header.msg_control.is_null() {
        return Codepoint::NotEct;
    }
    // SAFETY: the kernel filled in the control buffer that `header` describes, which lives in the batch.
    let mut found = unsafe { cmsg::messages(header) }.filter_map(|message| ecn::read(&message));
    found.next().unwrap_or_default()
}

//! Connected datagram sockets: one message a call, many messages a call (sendmmsg(2),
//! recvmmsg(2)), and many messages a buffer (`UDP_SEGMENT` and `UDP_GRO`, udp(7)).
//!
//! Facts this file relies on:
//! - `UDP_SEGMENT` (Linux 4.18, commit bec1f6f69736) cuts one buffer into datagrams of a given size,
//!   the last one possibly shorter; at most 64 of them before Linux 6.9, 128 since (commit
//!   1382e3b6a350). Each must fit the path MTU (`EMSGSIZE`, before 6.14 `EINVAL`), and the device
//!   must compute checksums (`EIO`).
//! - `UDP_GRO` (Linux 5.0, commit e20cf8d3f1f7) hands several datagrams of one size over in one
//!   buffer, with that size in a control message; no control message means a single datagram.
//! - The kernel counts a buffer it has no room for as one drop, however many datagrams it holds
//!   (`__udp_enqueue_schedule_skb`), so a receiver with `UDP_GRO` has to scale that count.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::Socket;

use super::buffer::prefaulted;
use super::call;
use super::option::{drops, set_int};
use super::patience::{ReceiveGuard, flag};
use super::stamps::{Counts, Stamps};
use crate::contract::{GUARD, Patience};

/// The most datagrams in one send with [`Segmentation::Kernel`]: what every kernel takes.
pub const MOST_SEGMENTS: usize = 64;

/// The most bytes in one send with [`Segmentation::Kernel`]: a device's default `gso_max_size` of
/// 65,536, which counts all headers, less one (the kernel asks for "below"), 14 for Ethernet, 40
/// for IPv6 and 8 for UDP. A longer buffer is legal up to 65,507 bytes on IPv4, but is cut up
/// before the device rather than by it, which costs most of what segmentation is for.
pub const MOST_SEGMENTED: usize = 65_536 - 1 - 14 - 40 - 8;

/// The most bytes one receive can bring: the largest IP packet.
const LARGEST: usize = 65_536;

/// A connected datagram socket that counts its system calls.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    guard: ReceiveGuard,
    drops_before: Option<u32>,
    send_calls: u64,
    receive_calls: u64,
    stamps: Option<Box<Stamps>>,
}

impl DatagramSocket {
    /// Takes over a connected socket. Blocking calls will return after [`GUARD`] at the latest.
    ///
    /// # Errors
    /// Where the socket refuses `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub fn new(socket: Socket) -> io::Result<DatagramSocket> {
        let guard = Some(Duration::from(GUARD));
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(guard)?;
        let guard = ReceiveGuard::arm(&socket)?;
        let drops_before = drops(socket.as_fd());
        let (send_calls, receive_calls, stamps) = (0, 0, None);
        Ok(DatagramSocket { socket, guard, drops_before, send_calls, receive_calls, stamps })
    }

    /// The socket, for its options.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Has the kernel stamp what [`DatagramSocket::send`] and [`DatagramSocket::receive`] move from
    /// here on.
    ///
    /// # Errors
    /// As [`Stamps::switch_on`].
    pub fn switch_stamps_on(&mut self) -> io::Result<()> {
        self.stamps = Some(Box::new(Stamps::switch_on(&self.socket, Counts::Datagrams)?));
        Ok(())
    }

    /// The stamps, where they are on.
    pub fn stamps(&mut self) -> Option<&mut Stamps> {
        self.stamps.as_deref_mut()
    }

    /// Sends one message with one send(2), without waiting.
    ///
    /// # Errors
    /// What send(2) says; see [`is_full`] and [`is_network_error`].
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_calls += 1;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if let Some(stamps) = &mut self.stamps {
            return stamps.send(message, flags).map(|_| ());
        }
        call::send(self.socket.as_fd(), message, flags).map(|_| ())
    }

    /// Receives one message with one recv(2), cut off at the length of `into`; its length.
    ///
    /// # Errors
    /// What recv(2) says; `EAGAIN` where nothing is there.
    #[inline]
    pub fn receive(&mut self, patience: Patience, into: &mut [u8]) -> io::Result<usize> {
        self.guard.suit(&self.socket, patience)?;
        self.receive_calls += 1;
        if let Some(stamps) = &mut self.stamps {
            return stamps.recv(into, flag(patience));
        }
        call::recv(self.socket.as_fd(), into, flag(patience))
    }

    /// How often the kernel dropped what arrived since this socket was taken over, mostly for lack
    /// of room (`SO_MEMINFO`, Linux 4.12). One buffer of coalesced datagrams counts once.
    pub fn drops(&self) -> Option<u64> {
        let now = drops(self.socket.as_fd())?;
        Some(u64::from(now.wrapping_sub(self.drops_before?)))
    }

    /// System calls that sent.
    pub fn send_calls(&self) -> u64 {
        self.send_calls
    }

    /// System calls that received, those that found nothing included.
    pub fn receive_calls(&self) -> u64 {
        self.receive_calls
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Who cuts a sequence of messages of one size into datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// The kernel or the device, from one buffer (`UDP_SEGMENT`).
    Kernel,
    /// The application, one message header each (sendmmsg).
    Application,
}

/// Messages of one size on their way out, sent as many a call as the socket takes.
///
/// The memory is touched before the first send, and every slot keeps its content, so only what the
/// caller writes into a slot changes.
pub struct SendBatch {
    bytes: Box<[u8]>,
    headers: Box<[libc::mmsghdr]>,
    _iovecs: Box<[libc::iovec]>,
    size: usize,
    segmentation: Segmentation,
    first: usize,
    filled: usize,
}

// SAFETY: the raw pointers in the headers point into boxes this value owns and never reallocates.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Room for `capacity` messages of `size` bytes (both at least 1), fewer where the kernel cuts
    /// and takes fewer at once.
    ///
    /// # Errors
    /// Where the socket refuses `UDP_SEGMENT`.
    pub fn new(
        socket: &DatagramSocket,
        size: usize,
        capacity: usize,
        segmentation: Segmentation,
    ) -> io::Result<SendBatch> {
        let most = match segmentation {
            Segmentation::Kernel => MOST_SEGMENTS.min(MOST_SEGMENTED / size),
            Segmentation::Application => libc::UIO_MAXIOV as usize,
        };
        let capacity = capacity.min(most).max(1);
        if segmentation == Segmentation::Kernel {
            set_segment(socket.as_fd(), size)?;
        }
        let mut bytes = prefaulted(size * capacity);
        let mut iovecs: Box<[libc::iovec]> = bytes
            .chunks_exact_mut(size)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: size })
            .collect();
        let headers = iovecs.iter_mut().map(header).collect();
        Ok(SendBatch { bytes, headers, _iovecs: iovecs, size, segmentation, first: 0, filled: 0 })
    }

    /// The message size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many messages fit.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// How many messages were pushed and not yet sent.
    pub fn waiting(&self) -> usize {
        self.filled - self.first
    }

    /// The slot of the next message; `None` where every slot waits to be sent.
    pub fn push(&mut self) -> Option<&mut [u8]> {
        if self.first == self.filled {
            (self.first, self.filled) = (0, 0);
        }
        let start = self.filled * self.size;
        let slot = self.bytes.get_mut(start..start + self.size)?;
        self.filled += 1;
        Some(slot)
    }

    /// Sends what waits, in one system call, and says how many messages it took. Waits for room, at
    /// most [`GUARD`]. What was not taken waits on.
    ///
    /// # Errors
    /// What send(2) or sendmmsg(2) says where no message was taken.
    pub fn send(&mut self, socket: &mut DatagramSocket) -> io::Result<usize> {
        let waiting = self.waiting();
        if waiting == 0 {
            return Ok(0);
        }
        socket.send_calls += 1;
        let sent = if self.segmentation == Segmentation::Kernel || waiting == 1 {
            let slots = &self.bytes[self.first * self.size..self.filled * self.size];
            let flags = libc::MSG_NOSIGNAL;
            socket.socket.send_with_flags(slots, flags)?;
            waiting
        } else {
            let headers = &mut self.headers[self.first..self.filled];
            // SAFETY: `headers` are valid, and their iovecs point into `self.bytes`.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    headers.len() as libc::c_uint,
                    libc::MSG_NOSIGNAL as _,
                )
            };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())?
        };
        self.first += sent;
        Ok(sent)
    }

    /// Gives up what waits: the network refused it. How many messages that were.
    pub fn discard(&mut self) -> usize {
        let waiting = self.waiting();
        self.first = self.filled;
        waiting
    }

    /// Has the application cut from now on; what waits is kept.
    ///
    /// # Errors
    /// Where the socket refuses to reset `UDP_SEGMENT`.
    pub fn stop_segmenting(&mut self, socket: &DatagramSocket) -> io::Result<()> {
        self.segmentation = Segmentation::Application;
        set_segment(socket.as_fd(), 0)
    }
}

/// Who puts arriving datagrams of one flow together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalescing {
    /// The kernel, several to a buffer (`UDP_GRO`).
    Kernel,
    /// Nobody: each datagram has its own buffer.
    None,
}

/// Buffers for as many datagrams as one recvmmsg(2) brings.
pub struct ReceiveBatch {
    bytes: Box<[u8]>,
    headers: Box<[libc::mmsghdr]>,
    _iovecs: Box<[libc::iovec]>,
    _controls: Box<[Control]>,
    slot: usize,
    arrived: usize,
    /// Whether any buffer held several datagrams yet.
    coalesced: bool,
    /// How many buffers held so many datagrams since then; the last entry counts longer ones, too.
    seen: [u64; 129],
}

// SAFETY: the raw pointers in the headers point into boxes this value owns and never reallocates.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// `slots` buffers (1 to 1024) for datagrams of at most `largest` bytes; longer ones are cut off
    /// one byte later, so that their length gives them away. Coalesced buffers are always whole.
    ///
    /// # Errors
    /// Where the socket refuses `UDP_GRO`.
    pub fn new(
        socket: &DatagramSocket,
        slots: usize,
        largest: usize,
        coalescing: Coalescing,
    ) -> io::Result<ReceiveBatch> {
        let slot = match coalescing {
            Coalescing::Kernel => LARGEST,
            Coalescing::None => (largest + 1).min(LARGEST),
        };
        if coalescing == Coalescing::Kernel {
            set_int(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        }
        let mut bytes = prefaulted(slot * slots);
        let mut iovecs: Box<[libc::iovec]> = bytes
            .chunks_exact_mut(slot)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() })
            .collect();
        let mut headers: Box<[libc::mmsghdr]> = iovecs.iter_mut().map(header).collect();
        let room = match coalescing {
            Coalescing::Kernel => slots,
            Coalescing::None => 0,
        };
        let mut controls: Box<[Control]> = vec![Control([0; CONTROL]); room].into();
        for (header, control) in headers.iter_mut().zip(controls.iter_mut()) {
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        Ok(ReceiveBatch {
            bytes,
            headers,
            _iovecs: iovecs,
            _controls: controls,
            slot,
            arrived: 0,
            coalesced: false,
            seen: [0; 129],
        })
    }

    /// Receives what is there, in one system call; how many buffers it filled.
    ///
    /// # Errors
    /// What recvmmsg(2) says; `EAGAIN` where nothing is there.
    pub fn receive(
        &mut self,
        socket: &mut DatagramSocket,
        patience: Patience,
    ) -> io::Result<usize> {
        for header in &mut self.headers[..self.arrived] {
            if !header.msg_hdr.msg_control.is_null() {
                header.msg_hdr.msg_controllen = CONTROL as _;
            }
        }
        self.arrived = 0;
        socket.guard.suit(&socket.socket, patience)?;
        socket.receive_calls += 1;
        let waiting = match patience {
            Patience::None => libc::MSG_DONTWAIT,
            Patience::Block | Patience::UntilNudged => libc::MSG_WAITFORONE,
        };
        // SAFETY: the headers are valid, and their iovecs and control buffers live in `self`.
        let got = unsafe {
            libc::recvmmsg(
                socket.socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                waiting as _,
                std::ptr::null_mut(),
            )
        };
        self.arrived = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        Ok(self.arrived)
    }

    /// Hands over each datagram of the last `receive`, in order of arrival.
    pub fn each(&mut self, mut take: impl FnMut(&[u8])) {
        for at in 0..self.arrived {
            let header = &self.headers[at];
            let len = (header.msg_len as usize).min(self.slot);
            let segment = segment_size(&header.msg_hdr).filter(|size| (1..len).contains(size));
            self.note(segment.map_or(1, |size| len.div_ceil(size)));
            let bytes = &self.bytes[at * self.slot..][..len];
            match segment {
                Some(size) => bytes.chunks(size).for_each(&mut take),
                None => take(bytes),
            }
        }
    }

    /// What one drop stands for, as the kernel counts a dropped buffer once: the usual number of
    /// datagrams in a buffer or, where that is more, their mean number rounded up; at least 1.
    /// Buffers with fewer are likelier to find room, so this errs on the side of drops here rather
    /// than losses on the path.
    pub fn datagrams_per_drop(&self) -> u64 {
        // Of several equally frequent numbers this finds the smallest.
        let usual = (1..self.seen.len()).rev().max_by_key(|n| self.seen[*n]).unwrap_or(1);
        let buffers: u64 = self.seen.iter().sum();
        let datagrams: u64 = (0..).zip(&self.seen).map(|(n, times)| n * times).sum();
        (usual as u64).max(datagrams.div_ceil(buffers.max(1)))
    }

    /// Datagrams that came before the kernel was told to coalesce wait one by one, first in the
    /// queue; they say nothing of the buffers that are dropped later.
    #[inline]
    fn note(&mut self, datagrams: usize) {
        self.coalesced |= datagrams > 1;
        if self.coalesced {
            let last = self.seen.len() - 1;
            self.seen[datagrams.min(last)] += 1;
        }
    }
}

/// The room for one control message with an `int`: `CMSG_SPACE(4)`.
// SAFETY: CMSG_SPACE only computes.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) } as usize;

/// A control buffer with the alignment of `cmsghdr`.
#[derive(Clone)]
#[repr(align(8))]
struct Control([u8; CONTROL]);

fn header(iovec: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is valid: no address, no buffers, no control.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = iovec;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// The size in the `UDP_GRO` control message, if there is one.
fn segment_size(header: &libc::msghdr) -> Option<usize> {
    if header.msg_control.is_null() {
        return None;
    }
    // SAFETY: the kernel filled in the control buffer that `header` describes, and a `UDP_GRO`
    // message carries one int (udp(7)).
    unsafe {
        let cmsg = libc::CMSG_FIRSTHDR(header);
        (!cmsg.is_null()
            && (*cmsg).cmsg_level == libc::SOL_UDP
            && (*cmsg).cmsg_type == libc::UDP_GRO)
            .then(|| libc::CMSG_DATA(cmsg).cast::<libc::c_int>().read_unaligned())
            .and_then(|size| usize::try_from(size).ok())
    }
}

/// Whether an offload is in use, and why not where it was asked for.
#[derive(Debug)]
pub struct Offload<T> {
    mode: T,
    why_not: Option<String>,
}

impl<T: Copy + PartialEq> Offload<T> {
    /// Keeps `asked`, or falls back to `without` where the probe fails.
    pub fn probe(asked: T, without: T, probe: impl FnOnce() -> io::Result<()>) -> Offload<T> {
        if asked == without {
            return Offload { mode: asked, why_not: None };
        }
        match probe() {
            Ok(()) => Offload { mode: asked, why_not: None },
            Err(error) => Offload::instead(without, error.to_string()),
        }
    }

    /// What is used instead of what was asked for, and why.
    pub fn instead(mode: T, why_not: String) -> Offload<T> {
        Offload { mode, why_not: Some(why_not) }
    }

    /// What is in use.
    pub fn mode(&self) -> T {
        self.mode
    }

    /// `on` where `with` is in use, otherwise `off`, with the reason where it was not chosen.
    pub fn tell(&self, with: T) -> String {
        match (&self.why_not, self.mode == with) {
            (Some(why), _) => format!("off ({why})"),
            (None, true) => "on".into(),
            (None, false) => "off".into(),
        }
    }
}

/// Whether this kernel can cut (`UDP_SEGMENT`); asks the socket, and changes nothing.
///
/// # Errors
/// What setsockopt(2) says where it cannot; `ENOPROTOOPT` before Linux 4.18.
pub fn probe_segmentation(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_segment(socket, 0)
}

/// Whether this kernel can coalesce (`UDP_GRO`); asks the socket, and changes nothing.
///
/// # Errors
/// What setsockopt(2) says where it cannot; `ENOPROTOOPT` before Linux 5.0.
pub fn probe_coalescing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, 0)
}

fn set_segment(socket: BorrowedFd<'_>, size: usize) -> io::Result<()> {
    let size = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size)
}

/// Whether a failed call only means that there is no room, or nothing there, for now.
pub fn is_full(error: &io::Error) -> bool {
    // The comparison of EAGAIN with EWOULDBLOCK would never match: on Linux they are one number.
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR))
}

/// Whether the network refused: an ICMP error that an earlier datagram brought back (icmp(7)), no
/// route, or a packet filter on this host (`EPERM`).
pub fn is_network_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EPERM
        )
    )
}

/// Whether a device or path cannot take segmented buffers, though the kernel can.
pub fn is_segmentation_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::super::option::{is_ipv6, path_mtu};
    use super::*;

    fn pair(address: &str) -> (DatagramSocket, DatagramSocket) {
        let a = UdpSocket::bind(address).unwrap();
        let b = UdpSocket::bind(address).unwrap();
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        (DatagramSocket::new(a.into()).unwrap(), DatagramSocket::new(b.into()).unwrap())
    }

    /// Writes `number` at both ends of a message, so that a cut in the wrong place shows.
    fn mark(slot: &mut [u8], number: u32) {
        let at = slot.len() - 4;
        slot[..4].copy_from_slice(&number.to_be_bytes());
        slot[at..].copy_from_slice(&number.to_be_bytes());
    }

    fn marked(message: &[u8]) -> u32 {
        let head = u32::from_be_bytes(message[..4].try_into().unwrap());
        assert_eq!(message[message.len() - 4..], head.to_be_bytes());
        head
    }

    /// Sends 100 messages in calls of 40 and returns their numbers and the calls it took.
    fn through(address: &str, cut: Segmentation, join: Coalescing) -> (Vec<u32>, u64, u64) {
        let (mut a, mut b) = pair(address);
        let mut out = SendBatch::new(&a, 1_000, 40, cut).unwrap();
        let mut into = ReceiveBatch::new(&b, 8, 1_000, join).unwrap();
        let mut got = Vec::new();
        let mut next = 0;
        while next < 100 {
            while next < 100
                && let Some(slot) = out.push()
            {
                mark(slot, next);
                next += 1;
            }
            while out.waiting() > 0 {
                out.send(&mut a).unwrap();
            }
            while got.len() < next as usize {
                into.receive(&mut b, Patience::Block).unwrap();
                into.each(|message| {
                    assert_eq!(message.len(), 1_000);
                    got.push(marked(message));
                });
            }
        }
        assert_eq!(b.drops(), Some(0));
        (got, a.send_calls(), b.receive_calls())
    }

    #[test]
    fn every_message_arrives_whole_however_it_is_cut_and_joined() {
        let want: Vec<u32> = (0..100).collect();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            for cut in [Segmentation::Kernel, Segmentation::Application] {
                for join in [Coalescing::Kernel, Coalescing::None] {
                    let (got, sends, receives) = through(address, cut, join);
                    assert_eq!(got, want, "{address} {cut:?} {join:?}");
                    assert_eq!(sends, 3);
                    if (cut, join) == (Segmentation::Kernel, Coalescing::Kernel) {
                        assert_eq!(receives, 3, "one buffer a call");
                    } else {
                        assert_eq!(receives, 5 + 5 + 3, "eight datagrams a call");
                    }
                }
            }
        }
    }

    #[test]
    fn a_batch_takes_no_more_than_the_kernel_does() {
        let (mut a, mut b) = pair("[::1]:0");
        for (size, most) in [(100, 64), (1_400, 46), (40_000, 1)] {
            let mut into = ReceiveBatch::new(&b, 2, size, Coalescing::Kernel).unwrap();
            let mut out = SendBatch::new(&a, size, 1_000, Segmentation::Kernel).unwrap();
            assert_eq!(out.capacity(), most);
            while let Some(slot) = out.push() {
                mark(slot, 7);
            }
            assert_eq!(out.send(&mut a).unwrap(), most);
            into.receive(&mut b, Patience::Block).unwrap();
            let mut n = 0;
            into.each(|message| n += usize::from(message.len() == size));
            assert_eq!(n, most);
            assert_eq!(into.datagrams_per_drop(), most as u64);
        }
    }

    #[test]
    fn a_batch_can_stop_segmenting_with_messages_waiting() {
        let (mut a, mut b) = pair("127.0.0.1:0");
        let mut out = SendBatch::new(&a, 100, 3, Segmentation::Kernel).unwrap();
        (0..3).for_each(|n| mark(out.push().unwrap(), n));
        assert!(out.push().is_none());
        out.stop_segmenting(&a).unwrap();
        assert_eq!(out.send(&mut a).unwrap(), 3);
        let mut buffer = [0; 200];
        for n in 0..3 {
            assert_eq!(b.receive(Patience::Block, &mut buffer).unwrap(), 100);
            assert_eq!(marked(&buffer[..100]), n);
        }
        let nothing = b.receive(Patience::None, &mut buffer).unwrap_err();
        assert!(is_full(&nothing));
    }

    #[test]
    fn what_the_buffer_has_no_room_for_is_counted() {
        let (mut a, mut b) = pair("127.0.0.1:0");
        b.socket().set_recv_buffer_size(16_384).unwrap();
        let sent: u64 = 200;
        for _ in 0..sent {
            a.send(&[1; 1_000]).unwrap();
        }
        let mut got = 0;
        let mut buffer = [0; 1_001];
        while b.receive(Patience::None, &mut buffer).is_ok() {
            got += 1;
        }
        assert!(got > 0 && got < sent);
        assert_eq!(b.drops(), Some(sent - got));
    }

    #[test]
    fn a_dropped_coalesced_buffer_counts_once_and_is_scaled() {
        let (mut a, mut b) = pair("127.0.0.1:0");
        b.socket().set_recv_buffer_size(100_000).unwrap();
        let mut into = ReceiveBatch::new(&b, 4, 1_000, Coalescing::Kernel).unwrap();
        assert_eq!(into.datagrams_per_drop(), 1);
        let mut out = SendBatch::new(&a, 1_000, 40, Segmentation::Kernel).unwrap();
        for _ in 0..20 {
            while out.push().is_some() {}
            assert_eq!(out.send(&mut a).unwrap(), 40);
        }
        let mut got = 0;
        while into.receive(&mut b, Patience::None).is_ok() {
            into.each(|_| got += 1);
        }
        assert!(got > 0 && got < 800);
        assert_eq!(into.datagrams_per_drop(), 40);
        assert_eq!(got + b.drops().unwrap() * into.datagrams_per_drop(), 800);
    }

    #[test]
    fn what_came_before_coalescing_does_not_count_towards_the_average() {
        let (mut a, mut b) = pair("[::1]:0");
        let mut out = SendBatch::new(&a, 100, 40, Segmentation::Kernel).unwrap();
        let mut send = |n| {
            (0..n).for_each(|_| out.push().unwrap().fill(1));
            assert_eq!(out.send(&mut a).unwrap(), n);
        };
        send(40);
        let mut into = ReceiveBatch::new(&b, 64, 100, Coalescing::Kernel).unwrap();
        [40, 40, 1].into_iter().for_each(&mut send);
        assert_eq!(into.receive(&mut b, Patience::Block).unwrap(), 40 + 3);
        let mut got = 0;
        into.each(|_| got += 1);
        assert_eq!((got, into.datagrams_per_drop()), (121, 40));
    }

    #[test]
    fn an_overlong_datagram_shows_by_its_length() {
        let (mut a, mut b) = pair("127.0.0.1:0");
        let mut into = ReceiveBatch::new(&b, 2, 64, Coalescing::None).unwrap();
        a.send(&[1; 500]).unwrap();
        assert_eq!(into.receive(&mut b, Patience::Block).unwrap(), 1);
        into.each(|message| assert_eq!(message.len(), 65));
    }

    #[test]
    fn a_closed_port_is_a_network_error() {
        let gone: SocketAddr = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        a.connect(gone).unwrap();
        let mut a = DatagramSocket::new(a.into()).unwrap();
        a.send(b"anyone?").unwrap();
        let error = a.send(b"anyone?").unwrap_err();
        assert!(is_network_error(&error) && !is_full(&error));
    }

    #[test]
    fn a_message_beyond_the_path_mtu_is_seen_beforehand() {
        let (a, b) = pair("127.0.0.1:0");
        // Loopback's 65,536, held to what an IPv4 packet can be.
        assert_eq!(path_mtu(a.socket()), Some(65_535));
        assert!(!is_ipv6(b.socket()));
        probe_segmentation(a.as_fd()).unwrap();
        probe_coalescing(a.as_fd()).unwrap();
    }
}

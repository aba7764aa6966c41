//! Outgoing datagrams of any lengths, in as few calls as the kernel allows: consecutive datagrams of one length
//! leave as one buffer, which the kernel cuts (`UDP_SEGMENT`), and several buffers leave in one sendmmsg(2).

use std::io;
use std::os::fd::AsFd;

use super::send::{MOST_SEGMENTED, MOST_SEGMENTS};
use super::{DatagramSocket, is_full, is_network_error, is_segmentation_refused};
use crate::datapath::{call, ecn, policer};
use deadheat_base::ecn::Codepoint;

/// Largest number of datagrams that wait at once.
const MOST_WAITING: usize = 64;

/// Datagrams that a protocol appended to a buffer, to leave together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Length of each in bytes; the last one may be shorter.
    pub segment: usize,
    /// ECN codepoint that they leave with.
    pub ecn: Codepoint,
}

impl Transmit {
    /// Creates datagrams of this length that are not marked as capable of ECN.
    #[inline]
    pub fn plain(segment: usize) -> Transmit {
        Transmit { segment, ecn: Codepoint::NotEct }
    }
}

/// Run of consecutive datagrams in [`Outgoing::bytes`] that leave in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    from: usize,
    to: usize,
    /// Length of each; the last one may be shorter.
    segment: usize,
    codepoint: Codepoint,
}

impl Run {
    fn len(&self) -> usize {
        self.to - self.from
    }

    fn datagrams(&self) -> usize {
        self.len().div_ceil(self.segment)
    }

    /// Returns true if `other`, which lies right behind it, may leave in the same buffer.
    fn takes(&self, other: &Run) -> bool {
        let is_whole = self.len().is_multiple_of(self.segment);
        let fits =
            other.segment == self.segment || (other.datagrams() == 1 && other.len() < self.segment);
        is_whole
            && fits
            && other.codepoint == self.codepoint
            && self.datagrams() + other.datagrams() <= MOST_SEGMENTS
            && self.len() + other.len() <= MOST_SEGMENTED
    }
}

/// Outgoing datagrams to the peer that a socket is connected to.
pub struct Outgoing {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    /// Number of runs that have left.
    sent: usize,
    datagrams: usize,
    /// Number of datagrams added so far, and their bytes.
    put: [u64; 2],
    /// Length of the datagrams that were added last.
    segment: Option<usize>,
    /// True if the kernel segments. Off for good once a device or path refused segments.
    segments: bool,
    /// ECN codepoint that the socket sets on outgoing datagrams.
    marks: Codepoint,
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    controls: Box<[ControlBuffer]>,
}

// SAFETY: the raw pointers in the headers are written anew before each call, to memory that this value
// owns.
unsafe impl Send for Outgoing {}

/// Size of one control message with a `u16`.
// SAFETY: CMSG_SPACE only computes.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;

/// Control buffer with the alignment of `cmsghdr`.
#[derive(Clone)]
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL]);

impl Outgoing {
    /// Creates an empty queue. `segments` says whether this kernel can segment ([`super::probe_segmentation`]).
    pub fn new(segments: bool) -> Outgoing {
        // SAFETY: an all-zero mmsghdr is valid.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Outgoing {
            bytes: Vec::with_capacity(MOST_SEGMENTED),
            runs: Vec::with_capacity(MOST_WAITING),
            sent: 0,
            datagrams: 0,
            put: [0; 2],
            segment: None,
            segments,
            marks: Codepoint::NotEct,
            headers: vec![header; MOST_WAITING].into(),
            iovecs: vec![iovec; MOST_WAITING].into(),
            controls: vec![ControlBuffer([0; CONTROL]); MOST_WAITING].into(),
        }
    }

    /// Returns true if nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of datagrams added so far, and their bytes.
    pub fn put(&self) -> [u64; 2] {
        self.put
    }

    /// Returns the length of the datagrams that were added last; `None` if there were none.
    pub fn datagram_len(&self) -> Option<usize> {
        self.segment
    }

    /// Returns true if the kernel segments.
    pub fn segments(&self) -> bool {
        self.segments
    }

    /// Lets `write` append datagrams, at most as many as its argument, until it has no more or there is no more
    /// room.
    #[inline]
    pub fn fill(&mut self, mut write: impl FnMut(usize, &mut Vec<u8>) -> Option<Transmit>) {
        loop {
            let (most, from) = (self.room(), self.bytes.len());
            if most == 0 {
                return;
            }
            let Some(transmit) = write(most, &mut self.bytes) else { return };
            self.note(from, transmit);
        }
    }

    /// Returns the number of datagrams that there is room for: as many of the last one's length as one buffer
    /// takes, so that a second buffer is not begun and left half empty.
    fn room(&self) -> usize {
        let waiting = MOST_WAITING - self.datagrams.min(MOST_WAITING);
        let Some(segment) = self.segment.filter(|_| self.segments) else { return waiting };
        waiting.min(MOST_SEGMENTED.saturating_sub(self.bytes.len()) / segment)
    }

    /// Adds the bytes written since offset `from` as datagrams.
    fn note(&mut self, from: usize, Transmit { segment, ecn: codepoint }: Transmit) {
        let segment = segment.max(1);
        self.segment = Some(segment);
        let bytes = self.bytes.len() - from;
        self.put[0] += bytes.div_ceil(segment) as u64;
        self.put[1] += bytes as u64;
        let per =
            if self.segments { MOST_SEGMENTS.min(MOST_SEGMENTED / segment).max(1) } else { 1 };
        let mut at = from;
        while at < self.bytes.len() {
            let to = self.bytes.len().min(at + per * segment);
            let run = Run { from: at, to, segment: segment.min(to - at), codepoint };
            self.datagrams += run.datagrams();
            match self.runs[self.sent..].last_mut() {
                Some(last) if self.segments && last.takes(&run) => last.to = to,
                _ => self.runs.push(run),
            }
            at = to;
        }
    }

    /// Sends the waiting datagrams, without waiting for room. A datagram that the network refuses twice is lost,
    /// like any other; `network_errors` counts the refusals.
    ///
    /// # Errors
    /// The error of send(2) or sendmmsg(2); `EAGAIN` where there is no room: the rest stays in the queue.
    #[inline]
    pub fn send(
        &mut self,
        socket: &mut DatagramSocket,
        network_errors: &mut u64,
    ) -> io::Result<()> {
        let mut refused = false;
        while self.sent < self.runs.len() {
            match self.send_some(socket) {
                Ok(runs) => {
                    self.sent += runs;
                    refused = false;
                }
                Err(error) if is_full(&error) => return Err(error),
                Err(error) if is_network_error(&error) => {
                    *network_errors += 1;
                    self.sent += usize::from(refused);
                    refused = !refused;
                }
                Err(error) if self.is_cut(&error) => self.stop_segmenting(),
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        (self.sent, self.datagrams) = (0, 0);
    }

    fn is_cut(&self, error: &io::Error) -> bool {
        let head = self.runs[self.sent];
        self.segments && head.datagrams() > 1 && is_segmentation_refused(error)
    }

    /// Makes one system call; returns the number of runs it took.
    #[inline]
    fn send_some(&mut self, socket: &mut DatagramSocket) -> io::Result<usize> {
        let waiting = &self.runs[self.sent..];
        if waiting[0].codepoint != self.marks {
            // A protocol changes the codepoint once or twice, if it finds that the path clears it.
            ecn::mark(socket.socket(), waiting[0].codepoint)?;
            self.marks = waiting[0].codepoint;
        }
        let other = waiting.iter().position(|run| run.codepoint != self.marks);
        let waiting = &waiting[..other.unwrap_or(waiting.len())];
        if let [run] = waiting
            && run.datagrams() == 1
        {
            return socket.send(&self.bytes[run.from..run.to]).map(|()| 1);
        }
        let count = waiting.len().min(self.headers.len());
        for (at, run) in waiting[..count].iter().enumerate() {
            let bytes = &self.bytes[run.from..run.to];
            self.iovecs[at] =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let header = &mut self.headers[at].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[at];
            header.msg_iovlen = 1;
            match run.datagrams() {
                1 => (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0),
                _ => say_segment(header, &mut self.controls[at], run.segment),
            }
        }
        socket.send_calls += 1;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let headers = &mut self.headers[..count];
        // SAFETY: the headers point to iovecs, control messages and bytes that `self` owns.
        let call = || unsafe { call::send_many(socket.as_fd(), headers, flags) };
        policer::send(call, |sent| {
            waiting[..*sent].iter().map(|run| socket.cost(run.len(), run.datagrams())).sum()
        })
    }

    /// Sends each datagram in a buffer of its own from now on.
    #[cold]
    fn stop_segmenting(&mut self) {
        self.segments = false;
        let waiting = self.runs.split_off(self.sent);
        for run in waiting {
            for from in (run.from..run.to).step_by(run.segment) {
                let to = run.to.min(from + run.segment);
                self.runs.push(Run { from, to, segment: to - from, ..run });
            }
        }
    }
}

/// Sets the segment size of the buffer of `header`, at which the kernel cuts it (udp(7), `UDP_SEGMENT`).
fn say_segment(header: &mut libc::msghdr, control: &mut ControlBuffer, segment: usize) {
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _; // size_t with glibc, socklen_t with musl
    // SAFETY: the control buffer has room for one u16 and is aligned for cmsghdr.
    unsafe {
        let cmsg = libc::CMSG_FIRSTHDR(header);
        (*cmsg).cmsg_level = libc::SOL_UDP;
        (*cmsg).cmsg_type = libc::UDP_SEGMENT;
        (*cmsg).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(cmsg).cast::<u16>().write_unaligned(segment as u16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::datagram::tests::pair;
    use deadheat_contract::contract::Patience;

    fn write(outgoing: &mut Outgoing, lengths: &[usize]) {
        let mut left = lengths.iter().zip(0u8..);
        outgoing.fill(|_, bytes| {
            let (len, mark) = left.next()?;
            bytes.resize(bytes.len() + len, mark);
            Some(Transmit::plain(*len))
        });
    }

    fn runs(outgoing: &Outgoing) -> Vec<usize> {
        outgoing.runs.iter().map(Run::datagrams).collect()
    }

    #[test]
    fn datagrams_of_one_length_leave_together_and_a_shorter_one_ends_them() {
        let mut outgoing = Outgoing::new(true);
        write(&mut outgoing, &[100, 100, 40, 100, 100, 200]);
        assert_eq!((runs(&outgoing), outgoing.put()), (vec![3, 2, 1], [6, 640]));
        let mut outgoing = Outgoing::new(false);
        write(&mut outgoing, &[100, 100, 40]);
        assert_eq!(runs(&outgoing), [1, 1, 1]);
        // One buffer takes as many as it can, the next one the rest.
        let mut outgoing = Outgoing::new(true);
        write(&mut outgoing, &[1_472; 64]);
        assert_eq!(runs(&outgoing), [44]);
        let mut outgoing = Outgoing::new(true);
        outgoing.fill(|most, bytes| {
            (most == MOST_WAITING).then(|| bytes.resize(30_000, 1))?;
            Some(Transmit::plain(9_000))
        });
        assert_eq!(runs(&outgoing), [4]);
    }

    #[test]
    fn what_leaves_arrives_with_its_boundaries_cut_by_the_kernel_or_not() {
        for segments in [true, false] {
            let (mut near, mut far) = pair("127.0.0.1:0");
            let mut outgoing = Outgoing::new(segments);
            let lengths = [300, 300, 300, 20, 500, 1];
            write(&mut outgoing, &lengths);
            let mut errors = 0;
            outgoing.send(&mut near, &mut errors).unwrap();
            assert!(outgoing.is_empty() && errors == 0);
            assert_eq!(near.send_calls(), 1);
            let mut into = [0; 1_000];
            for (len, mark) in lengths.iter().zip(0u8..) {
                assert_eq!(far.receive(Patience::None, &mut into).unwrap(), *len);
                assert!(into[..*len].iter().all(|byte| *byte == mark));
            }
        }
    }

    #[test]
    fn after_a_refusal_each_leaves_alone() {
        let (mut near, mut far) = pair("127.0.0.1:0");
        let mut outgoing = Outgoing::new(true);
        write(&mut outgoing, &[300, 300, 20]);
        outgoing.stop_segmenting();
        assert_eq!(runs(&outgoing), [1, 1, 1]);
        outgoing.send(&mut near, &mut 0).unwrap();
        let mut into = [0; 1_000];
        let lengths = [0; 3].map(|_| far.receive(Patience::None, &mut into).unwrap());
        assert_eq!(lengths, [300, 300, 20]);
        write(&mut outgoing, &[300, 300]);
        assert_eq!(runs(&outgoing), [1, 1]);
    }
}

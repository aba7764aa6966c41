//! Receiving half of an end: puts segments in order and acknowledges them cumulatively.

use super::segment::{ArqSegment, SegmentFlag};
use deadheat_datapath::transport::userspace::{InOrder, Ring};

pub(super) struct ArqReceiver {
    ring: Ring,
    /// Number of the first byte that is missing, and of the first byte that the user has not read.
    next: u64,
    read: u64,
    /// Ranges received after a gap: from and to, sorted, apart from each other.
    early: Vec<(u64, u64)>,
    /// Offset at which the stream ends, once that is known.
    end: Option<u64>,
    /// Acknowledgements that are due.
    owed: u32,
}

impl ArqReceiver {
    /// Creates a receiver with room for a window of `window` bytes.
    pub(super) fn new(window: usize) -> ArqReceiver {
        // Room for more gaps than a window ever has.
        let early = Vec::with_capacity(64);
        ArqReceiver { ring: Ring::new(window), next: 0, read: 0, early, end: None, owed: 0 }
    }

    pub(super) fn take(&mut self, segment: &ArqSegment<'_>) {
        if segment.is_empty() {
            return;
        }
        let end = segment.offset + segment.bytes.len() as u64;
        if segment.then == SegmentFlag::End {
            self.end = Some(end);
        }
        let in_order = segment.offset <= self.next && end >= self.next;
        let news = end > self.next || (segment.then == SegmentFlag::End && end == self.next);
        // Each segment that shows a gap or is a copy gets an acknowledgement of its own, because the sender counts
        // these (RFC 5681, 4.2); other segments may share one.
        self.owed = if in_order && news { self.owed.max(1) } else { self.owed.saturating_add(1) };
        let limit = self.read + self.ring.capacity();
        let from = segment.offset.max(self.next);
        let to = end.min(limit);
        if from >= to {
            return;
        }
        let skip = (from - segment.offset) as usize;
        self.ring.write(from, &segment.bytes[skip..skip + (to - from) as usize]);
        self.note(from, to);
    }

    /// Notes that the bytes between the two offsets have arrived.
    fn note(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from, to);
        self.early.retain(|&(other_from, other_to)| {
            let apart = other_to < from || other_from > to;
            if !apart {
                (from, to) = (from.min(other_from), to.max(other_to));
            }
            apart
        });
        if from <= self.next {
            self.next = to;
            return;
        }
        let at = self.early.partition_point(|(other, _)| *other < from);
        self.early.insert(at, (from, to));
    }

    /// Returns the first number that is missing; the end of the stream has one.
    pub(super) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.end == Some(self.next))
    }

    pub(super) fn owes_answer(&self) -> bool {
        self.owed > 0
    }

    /// Notes that one acknowledgement left without data.
    pub(super) fn answered_once(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }

    /// Notes that an acknowledgement left with data.
    pub(super) fn answered(&mut self) {
        self.owed = 0;
    }

    /// Returns true if all of the stream was read.
    pub(super) fn is_over(&self) -> bool {
        self.end == Some(self.read)
    }
}

impl InOrder for ArqReceiver {
    fn readable(&self) -> &[u8] {
        self.ring.piece(self.read, self.next - self.read)
    }

    fn consumed(&mut self, bytes: usize) {
        self.read += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, bytes: &[u8], then: SegmentFlag) -> ArqSegment<'_> {
        ArqSegment { offset, acknowledged: 0, then, bytes }
    }

    #[test]
    fn gaps_are_closed_in_any_order_and_each_early_segment_is_answered() {
        let stream: Vec<u8> = (0..100).collect();
        let mut receiver = ArqReceiver::new(100);
        for (at, owed) in [(20, 1), (60, 2), (40, 3), (20, 4)] {
            receiver.take(&segment(at as u64, &stream[at..at + 20], SegmentFlag::More));
            assert_eq!((receiver.acknowledged(), receiver.owed), (0, owed));
        }
        receiver.answered();
        receiver.take(&segment(0, &stream[..20], SegmentFlag::More));
        assert_eq!((receiver.acknowledged(), receiver.owed), (80, 1));
        receiver.take(&segment(70, &stream[70..], SegmentFlag::End));
        assert_eq!((receiver.acknowledged(), receiver.owed), (101, 1));
        assert_eq!(receiver.readable(), stream);
        receiver.consumed(100);
        assert!(receiver.is_over() && receiver.readable().is_empty());
    }

    #[test]
    fn what_does_not_fit_the_window_is_left_out() {
        let mut receiver = ArqReceiver::new(10);
        receiver.take(&segment(0, &[7; 30], SegmentFlag::More));
        assert_eq!(receiver.acknowledged(), 10);
        receiver.take(&segment(30, &[7; 30], SegmentFlag::More));
        assert_eq!((receiver.acknowledged(), receiver.early.len()), (10, 0));
    }
}

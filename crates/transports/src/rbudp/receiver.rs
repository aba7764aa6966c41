//! Receiving half of an end: stores datagrams in order, and answers each ask with a tally.

use std::collections::VecDeque;

use super::wire::{Census, DataDatagram, TALLY, Tally, write_tally};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::userspace::{InOrder, Ring};

/// Datagram after the first missing one.
#[derive(Debug, Clone, Copy, Default)]
struct DatagramSlot {
    offset: u64,
    len: u16,
    ends: bool,
    is_here: bool,
}

pub(super) struct RbudpReceiver {
    ring: Ring,
    /// Number of the first missing datagram, and the datagrams from it on.
    missing: u64,
    slots: VecDeque<DatagramSlot>,
    /// Most datagrams stored behind a gap.
    most: usize,
    /// Offset up to which all bytes have arrived, and up to which the user has read.
    in_order: u64,
    read: u64,
    /// Offset at which the stream ends, once all bytes before it have arrived.
    end: Option<u64>,
    arrivals: Arrivals,
    answer: Option<Answer>,
}

/// Arrivals of the latest round.
#[derive(Debug, Clone, Copy, Default)]
struct Arrivals {
    first: Nanos,
    census: Census,
}

impl Arrivals {
    fn note(&mut self, now: Nanos, data: &DataDatagram<'_>) {
        if data.round > self.census.round {
            self.first = now;
            self.census = Census { round: data.round, ..Census::default() };
        } else if data.round == self.census.round && now > self.first {
            self.census.later = self.census.later.saturating_add(1);
            self.census.bytes = self.census.bytes.saturating_add(data.bytes.len() as u64);
            self.census.span = now - self.first;
        }
    }
}

/// Unsent part of the answer to the latest ask.
#[derive(Debug, Clone, Copy)]
struct Answer {
    round: u64,
    /// Number at which its next part begins.
    from: u64,
    census: Census,
}

impl RbudpReceiver {
    /// Creates a receiver with room for `buffer` bytes and `most` datagrams behind a gap.
    pub(super) fn new(buffer: usize, most: usize) -> RbudpReceiver {
        RbudpReceiver {
            ring: Ring::new(buffer),
            missing: 0,
            slots: VecDeque::new(),
            most,
            in_order: 0,
            read: 0,
            end: None,
            arrivals: Arrivals::default(),
            answer: None,
        }
    }

    /// Handles a datagram with bytes of the stream.
    pub(super) fn take(&mut self, now: Nanos, data: &DataDatagram<'_>) {
        self.arrivals.note(now, data);
        self.store(data);
        if data.asks {
            self.on_ask(data.round);
        }
    }

    /// Handles an ask. A later ask makes the answers to earlier ones superfluous.
    pub(super) fn on_ask(&mut self, round: u64) {
        let census = self.arrivals.census;
        if self.answer.is_none_or(|answer| answer.round <= round) {
            self.answer = Some(Answer { round, from: 0, census });
        }
    }

    /// Stores a new datagram if there is room. Ignores a datagram that contradicts the stream before it; its sender
    /// waits in vain.
    fn store(&mut self, data: &DataDatagram<'_>) {
        let Some(ahead) = data.number.checked_sub(self.missing) else { return };
        let ends_at = data.offset + data.bytes.len() as u64;
        let has_room = ahead < self.most as u64 && ends_at <= self.read + self.ring.capacity();
        // Each datagram in between has a byte or more.
        let fits = match ahead {
            0 => data.offset == self.in_order,
            _ => data.offset >= self.in_order + ahead,
        };
        if self.end.is_some() || !has_room || !fits {
            return;
        }
        let ahead = ahead as usize;
        if self.slots.len() <= ahead {
            self.slots.resize(ahead + 1, DatagramSlot::default());
        }
        let slot = &mut self.slots[ahead];
        if slot.is_here {
            return;
        }
        let len = data.bytes.len() as u16;
        *slot = DatagramSlot { offset: data.offset, len, ends: data.ends, is_here: true };
        self.ring.write(data.offset, data.bytes);
        self.advance();
    }

    /// Advances over the datagrams that have arrived.
    fn advance(&mut self) {
        while let Some(slot) = self.slots.front_mut().filter(|slot| slot.is_here) {
            if slot.offset != self.in_order {
                // It contradicts the stream before it, which arrived later. The right one may still arrive.
                slot.is_here = false;
                return;
            }
            self.in_order += u64::from(slot.len);
            if slot.ends {
                self.end = Some(self.in_order);
            }
            self.missing += 1;
            self.slots.pop_front();
            if self.end.is_some() {
                self.slots.clear();
            }
        }
    }

    /// Appends the next part of a due answer, in at most `datagram` bytes; returns false if none is due.
    pub(super) fn transmit(&mut self, datagram: usize, room: &mut Vec<u8>) -> bool {
        let Some(answer) = &mut self.answer else { return false };
        let from = answer.from.max(self.missing);
        let skip = ((from - self.missing) as usize).min(self.slots.len());
        let left = self.slots.len() - skip;
        let bits = left.min(8 * datagram.saturating_sub(TALLY));
        let is_last = bits == left;
        let tally = Tally {
            round: answer.round,
            missing: self.missing,
            from,
            census: answer.census,
            is_last,
            bitmap: &[],
        };
        let here = self.slots.range(skip..skip + bits).map(|slot| slot.is_here);
        write_tally(&tally, here, room);
        answer.from = from + bits as u64;
        if is_last {
            self.answer = None;
        }
        true
    }

    /// Returns the number of datagrams stored behind a gap.
    #[cfg(test)]
    pub(super) fn stored(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if the whole stream was read.
    pub(super) fn is_over(&self) -> bool {
        self.end == Some(self.read)
    }
}

impl InOrder for RbudpReceiver {
    fn readable(&self) -> &[u8] {
        self.ring.piece(self.read, self.in_order - self.read)
    }

    fn consumed(&mut self, bytes: usize) {
        self.read += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{RbudpDatagram, read};
    use super::*;

    fn data(number: u64, offset: u64, bytes: &[u8]) -> DataDatagram<'_> {
        DataDatagram { round: 1, number, offset, ends: false, asks: false, bytes }
    }

    /// Returns the numbers behind the gap that an answer in datagrams of `len` bytes has, and its parts.
    fn answered(receiver: &mut RbudpReceiver, len: usize) -> (u64, Vec<u64>, usize) {
        let (mut missing, mut here, mut parts) = (0, Vec::new(), 0);
        let mut room = Vec::new();
        while receiver.transmit(len, &mut room) {
            assert!(room.len() <= len);
            let Some(RbudpDatagram::Tally(tally)) = read(&room) else { panic!("no tally") };
            here.extend(tally.bits().filter(|(_, is_here)| *is_here).map(|(number, _)| number));
            missing = tally.missing;
            parts += 1;
            room.clear();
        }
        (missing, here, parts)
    }

    #[test]
    fn bytes_come_in_order_and_an_ask_is_answered_once() {
        let stream: Vec<u8> = (0..100).collect();
        let mut receiver = RbudpReceiver::new(100, 100);
        for number in [0, 3, 1, 4, 3] {
            let at = 20 * number as usize;
            receiver.take(Nanos(1), &data(number, at as u64, &stream[at..at + 20]));
        }
        assert_eq!(receiver.readable(), &stream[..40]);
        assert!(!receiver.transmit(1_000, &mut Vec::new()));
        receiver.on_ask(1);
        assert_eq!(answered(&mut receiver, 1_000), (2, vec![3, 4], 1));
        receiver.take(Nanos(1), &DataDatagram { asks: true, ..data(2, 40, &stream[40..60]) });
        assert_eq!(answered(&mut receiver, 1_000), (5, vec![], 1));
        let end = DataDatagram { ends: true, ..data(5, 100, &[]) };
        receiver.take(Nanos(1), &end);
        assert_eq!(receiver.readable(), stream);
        receiver.consumed(100);
        assert!(receiver.is_over());
    }

    #[test]
    fn a_bitmap_that_is_too_long_goes_in_parts() {
        let mut receiver = RbudpReceiver::new(10_000, 10_000);
        for number in (1..2_000).step_by(2) {
            receiver.take(Nanos(1), &data(number, number, &[7]));
        }
        receiver.on_ask(1);
        let odd: Vec<u64> = (1..2_000).step_by(2).collect();
        // 2,000 bits in datagrams with room for 512.
        assert_eq!(answered(&mut receiver, TALLY + 64), (0, odd, 4));
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut receiver = RbudpReceiver::new(100, 8);
        for (number, offset, len) in [
            (8, 50, 1),              // more datagrams behind a gap than are kept
            (2, 90, 11),             // more bytes than there is room for
            (0, 1, 1),               // the first one not at the start
            (5, 4, 1),               // less than a byte for each in between
            (u64::MAX / 2, 1, 1),    // far off
            (1, (1 << 48) - 1, 100), // at the end of all offsets
        ] {
            receiver.take(Nanos(1), &data(number, offset, &vec![9; len]));
        }
        assert!(receiver.slots.is_empty() && receiver.readable().is_empty());
        // Two datagrams contradict each other: the one that continues the stream counts.
        receiver.take(Nanos(1), &data(1, 30, &[1; 10]));
        receiver.take(Nanos(1), &data(0, 0, &[0; 20]));
        assert_eq!(receiver.readable(), [0; 20]);
        receiver.take(Nanos(1), &data(1, 20, &[1; 10]));
        assert_eq!(receiver.readable().len(), 30);
        // Nothing follows the end.
        receiver.take(Nanos(1), &DataDatagram { ends: true, ..data(2, 30, &[2]) });
        receiver.take(Nanos(1), &data(3, 31, &[3]));
        assert_eq!(receiver.readable().len(), 31);
    }

    #[test]
    fn a_round_is_timed_from_its_first_moment_to_its_last() {
        let mut receiver = RbudpReceiver::new(10_000, 100);
        // Two at each of three moments, a microsecond apart; one of them of an earlier round.
        for number in 0..6 {
            let now = Nanos(1_000 + number / 2 * 1_000);
            receiver.take(now, &DataDatagram { round: 4, ..data(number, 10 * number, &[0; 10]) });
        }
        receiver.take(Nanos(9_000), &DataDatagram { round: 3, ..data(6, 60, &[0; 10]) });
        let census = Census { round: 4, later: 4, bytes: 40, span: Nanos(2_000) };
        assert_eq!(receiver.arrivals.census, census);
    }
}

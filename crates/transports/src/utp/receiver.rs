//! Receiving half of an end: puts packets in order, and reports arrivals.

use std::collections::VecDeque;

use super::MOST_PACKETS;
use super::wire::{Header, write, write_selective};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::userspace::InOrder;

/// Packet that arrived after a gap.
#[derive(Debug, PartialEq, Eq)]
enum EarlyPacket {
    Bytes(Vec<u8>),
    /// End of the stream.
    End,
}

#[derive(Default)]
pub(super) struct UtpReceiver {
    /// Most bytes stored.
    window: u64,
    /// Number of the first missing packet.
    next: u16,
    /// Packets in order that were not read whole, and the number of bytes read of the first.
    ready: VecDeque<Vec<u8>>,
    read: usize,
    ready_bytes: u64,
    /// Packets from the missing one on; empty without a gap.
    early: VecDeque<Option<EarlyPacket>>,
    early_bytes: u64,
    /// Memory of packets that were read, for reuse.
    spare: Vec<Vec<u8>>,
    is_over: bool,
    /// Room in the last acknowledgement.
    announced: u64,
    /// True if an acknowledgement or an update of the room is due.
    owes: bool,
    /// Time since which the peer should learn of more room.
    made_room: Option<Nanos>,
}

impl UtpReceiver {
    /// Creates a receiver with room for `window` bytes.
    pub(super) fn new(window: u64) -> UtpReceiver {
        UtpReceiver { window, announced: window, ..UtpReceiver::default() }
    }

    /// Notes the number of the peer's first packet.
    pub(super) fn begin(&mut self, first: u16) {
        self.next = first;
    }

    /// Handles a packet with bytes of the stream, or without any: its end.
    pub(super) fn take(&mut self, number: u16, bytes: &[u8]) {
        self.owes = true;
        let at = usize::from(number.wrapping_sub(self.next));
        if self.is_over || at >= MOST_PACKETS || matches!(self.early.get(at), Some(Some(_))) {
            return;
        }
        let len = bytes.len() as u64;
        // The packet that closes the gap needs room among the readable ones; otherwise the packets behind it would keep
        // it out.
        let kept = self.ready_bytes + if at == 0 { 0 } else { self.early_bytes };
        if kept + len > self.window && kept > 0 {
            return;
        }
        let packet = if bytes.is_empty() {
            EarlyPacket::End
        } else {
            let mut room = self.spare.pop().unwrap_or_default();
            room.extend_from_slice(bytes);
            EarlyPacket::Bytes(room)
        };
        if self.early.len() <= at {
            self.early.resize_with(at + 1, || None);
        }
        self.early[at] = Some(packet);
        self.early_bytes += len;
        while let Some(Some(_)) = self.early.front() {
            self.advance();
        }
    }

    /// Moves the packet that was missing to the readable ones.
    fn advance(&mut self) {
        let Some(Some(packet)) = self.early.pop_front() else { return };
        self.next = self.next.wrapping_add(1);
        match packet {
            EarlyPacket::Bytes(bytes) => {
                self.early_bytes -= bytes.len() as u64;
                self.ready_bytes += bytes.len() as u64;
                self.ready.push_back(bytes);
            }
            // Nothing follows the end.
            EarlyPacket::End => {
                self.is_over = true;
                self.early.clear();
                self.early_bytes = 0;
            }
        }
    }

    /// Returns the number of the last packet in order.
    pub(super) fn acknowledged(&self) -> u16 {
        self.next.wrapping_sub(1)
    }

    /// Returns the room for more bytes.
    pub(super) fn room(&self) -> u32 {
        let room = self.window.saturating_sub(self.ready_bytes + self.early_bytes);
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// Delivers readable bytes, as [`InOrder::hand_over`] does, and notes the time if that made room.
    pub(super) fn read(&mut self, now: Nanos, take: &mut dyn FnMut(&[u8]) -> usize) {
        self.hand_over(take);
        // Half of the window more than the peer knows of (RFC 9293, 3.8.6.2.2, on small windows).
        if !self.owes && u64::from(self.room()) >= self.announced + self.window / 2 {
            self.owes = true;
            self.made_room.get_or_insert(now);
        }
    }

    /// Returns the time since which the peer should learn of more room.
    pub(super) fn made_room(&self) -> Option<Nanos> {
        self.made_room
    }

    /// Notes that a due answer is about to leave.
    pub(super) fn on_deadline(&mut self, now: Nanos) {
        self.made_room = self.made_room.filter(|since| *since > now);
    }

    /// Appends an acknowledgement behind `header`; returns false if none is due.
    pub(super) fn transmit(&mut self, header: &Header, room: &mut Vec<u8>) -> bool {
        if !self.owes {
            return false;
        }
        if self.early.is_empty() {
            write(header, room);
        } else {
            write_selective(header, self.early.iter().skip(1).map(Option::is_some), room);
        }
        self.note_announced(header.window);
        true
    }

    /// Notes that packets of the other stream acknowledge all that arrived, unless there is a gap.
    pub(super) fn piggybacked(&mut self, window: u32) {
        if self.early.is_empty() {
            self.note_announced(window);
        }
    }

    fn note_announced(&mut self, window: u32) {
        self.announced = window.into();
        self.owes = false;
        self.made_room = None;
    }

    /// Returns true if the whole stream was read.
    pub(super) fn is_over(&self) -> bool {
        self.is_over && self.ready.is_empty()
    }
}

impl InOrder for UtpReceiver {
    fn readable(&self) -> &[u8] {
        self.ready.front().map_or(&[], |bytes| &bytes[self.read..])
    }

    fn consumed(&mut self, bytes: usize) {
        self.read += bytes;
        self.ready_bytes -= bytes as u64;
        if self.ready.front().is_some_and(|front| self.read >= front.len())
            && let Some(mut front) = self.ready.pop_front()
        {
            front.clear();
            self.spare.push(front);
            self.read = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{self, PacketKind};
    use super::*;

    fn receiver(window: u64, first: u16) -> UtpReceiver {
        let mut receiver = UtpReceiver::new(window);
        receiver.begin(first);
        receiver
    }

    /// Returns the due acknowledgement: the number in order, and the numbers behind the gap.
    fn answer(receiver: &mut UtpReceiver) -> Option<(u16, Vec<u16>)> {
        let header = Header {
            kind: PacketKind::State,
            connection: 1,
            timestamp: 0,
            difference: 0,
            window: receiver.room(),
            sequence: 0,
            acknowledged: receiver.acknowledged(),
        };
        let mut room = Vec::new();
        receiver.transmit(&header, &mut room).then(|| {
            let packet = wire::read(&room).unwrap();
            let selected = packet.selected().map(|d| packet.header.acknowledged.wrapping_add(d));
            (packet.header.acknowledged, selected.collect())
        })
    }

    fn all(receiver: &mut UtpReceiver) -> Vec<u8> {
        let mut all = Vec::new();
        receiver.read(Nanos(7), &mut |bytes| {
            // Piece by piece.
            let len = bytes.len().min(3);
            all.extend_from_slice(&bytes[..len]);
            len
        });
        all
    }

    #[test]
    fn packets_come_in_any_order_and_their_numbers_wrap() {
        let mut receiver = receiver(1_000, 65_534);
        assert_eq!(answer(&mut receiver), None);
        receiver.take(65_535, b"second");
        receiver.take(1, b"fourth");
        receiver.take(1, b"again!");
        assert_eq!(answer(&mut receiver), Some((65_533, vec![65_535, 1])));
        assert_eq!(receiver.room(), 1_000 - 12);
        receiver.take(65_534, b"first ");
        assert_eq!(answer(&mut receiver), Some((65_535, vec![1])));
        receiver.take(2, b"");
        receiver.take(0, b"third ");
        assert_eq!(answer(&mut receiver), Some((2, vec![])));
        assert!(!receiver.is_over());
        assert_eq!(all(&mut receiver), b"first secondthird fourth");
        assert!(receiver.is_over());
        // A copy is answered, since the first answer may be lost.
        assert_eq!(answer(&mut receiver), None);
        receiver.take(65_534, b"first ");
        assert_eq!(answer(&mut receiver), Some((2, vec![])));
    }

    #[test]
    fn what_there_is_no_room_for_is_left_out_and_does_not_lock_out_what_is_missing() {
        let mut receiver = receiver(20, 10);
        receiver.take(11, &[1; 12]);
        receiver.take(12, &[2; 12]);
        receiver.take(1_000, &[3; 4]);
        receiver.take(10 + MOST_PACKETS as u16, &[4; 1]);
        assert_eq!(answer(&mut receiver), Some((9, vec![11, 1_000])));
        receiver.take(10, &[0; 12]);
        assert_eq!((receiver.acknowledged(), receiver.room()), (11, 0));
        receiver.take(12, &[2; 12]);
        assert_eq!(answer(&mut receiver), Some((11, vec![1_000])));
        assert_eq!(all(&mut receiver).len(), 24);
        // New room is announced without a question.
        assert_eq!((receiver.room(), receiver.made_room()), (16, Some(Nanos(7))));
        assert_eq!(answer(&mut receiver), Some((11, vec![1_000])));
        assert_eq!((receiver.made_room(), answer(&mut receiver)), (None, None));
    }

    #[test]
    fn behind_the_end_there_is_nothing() {
        let mut receiver = receiver(100, 0);
        receiver.take(2, b"behind");
        receiver.take(1, b"");
        receiver.take(0, b"bytes");
        receiver.take(2, b"behind");
        assert_eq!(all(&mut receiver), b"bytes");
        assert!(receiver.is_over() && receiver.room() == 100);
        assert_eq!(answer(&mut receiver), Some((1, vec![])));
    }
}

//! Log of the packets of one direction, with their fates, in memory of bounded size.

use crate::impair::packet::{Cause, Changes, Departure, End};

/// Most bytes of a packet that are stored: its headers, and the beginning of its payload.
pub const SNAP: usize = 160;
/// Most packets in the logs of all directions of a path.
const MOST: usize = 1 << 19;

/// Packets in the order of their departures.
#[derive(Debug)]
pub struct PacketLog {
    packets: Vec<LoggedPacket>,
    bytes: Vec<u8>,
    most: usize,
    /// Packets for which there was no room in the log.
    pub(super) left_out: u64,
    /// Packets that never entered, because the emulator had no memory for them.
    pub(super) refused: u64,
    /// Packet from which on the delivered ones are not settled.
    unsettled: usize,
    /// Next sequence number after the highest delivered one.
    expected: u64,
}

/// Packet with its outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoggedPacket {
    pub(super) arrived: u64,
    pub(super) at: u64,
    pub(super) queued: u64,
    pub(super) outcome: Outcome,
    pub(super) is_copy: bool,
    /// Number of sequence numbers by which later packets have overtaken it; 0 if none has.
    pub(super) overtaken: u64,
    /// Length as an IP packet.
    pub(super) len: u32,
    from: usize,
    taken: usize,
}

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Delivered, with these changes.
    Delivered(Changes),
    /// Dropped by the model.
    Dropped(Cause),
    /// Dropped by the device behind the channel, outside the model.
    Refused,
}

impl PacketLog {
    pub(super) fn new(ways: usize) -> PacketLog {
        let most = MOST / ways.max(1);
        PacketLog {
            // Reserved, and not touched before it is used.
            packets: Vec::with_capacity(most),
            bytes: Vec::with_capacity(most * SNAP),
            most,
            left_out: 0,
            refused: 0,
            unsettled: 0,
            expected: 0,
        }
    }

    pub(super) fn note<H>(
        &mut self,
        departure: &Departure<H>,
        len: u32,
        head: impl FnOnce(&mut Vec<u8>),
    ) {
        let (mut overtaken, seq) = (0, departure.seq);
        let outcome = match departure.end {
            End::Dropped(cause) => Outcome::Dropped(cause),
            End::Delivered(changes) => {
                overtaken = self.expected.saturating_sub(seq);
                self.expected = self.expected.max(seq + 1);
                Outcome::Delivered(changes)
            }
        };
        if self.packets.len() >= self.most {
            self.left_out += 1;
            return;
        }
        let from = self.bytes.len();
        head(&mut self.bytes);
        self.bytes.truncate(from + SNAP);
        self.packets.push(LoggedPacket {
            arrived: departure.arrived.0,
            at: departure.at.0,
            queued: departure.queued.0,
            outcome,
            is_copy: departure.is_copy,
            overtaken,
            len,
            from,
            taken: self.bytes.len() - from,
        });
    }

    pub(super) fn settle(&mut self, outcome: Outcome) {
        let unsettled = std::mem::replace(&mut self.unsettled, self.packets.len());
        if matches!(outcome, Outcome::Delivered(_)) {
            return;
        }
        for packet in &mut self.packets[unsettled..] {
            if matches!(packet.outcome, Outcome::Delivered(_)) {
                packet.outcome = outcome;
            }
        }
    }

    /// Returns the packets.
    pub(super) fn packets(&self) -> &[LoggedPacket] {
        &self.packets
    }

    /// Returns the stored bytes of a packet.
    pub(super) fn bytes(&self, packet: &LoggedPacket) -> &[u8] {
        &self.bytes[packet.from..][..packet.taken]
    }
}

//! Headers of laminar's packets: which packets may be passed to the library, and which messages the peer has. The
//! library shows neither.

use std::collections::HashSet;

/// Bytes of the header of every packet (5), of a reliable packet's acknowledgement (8) and of an ordered packet's place
/// (3).
const STANDARD: usize = 5;
const ACKNOWLEDGED: usize = 8;
const ARRANGED: usize = 3;

/// Bytes of the headers of a reliable, ordered message.
pub(super) const HEADER: usize = STANDARD + ACKNOWLEDGED + ARRANGED;

/// Bytes in front of each message: its lane, and its length, which laminar does not transmit.
pub(super) const FRAMING: usize = 3;

/// Packets that may still be acknowledged: twice as many as end the connection.
const REMEMBERED: usize = 1_024;

/// Packets that an acknowledgement covers: the last one, and 32 before it.
const TOLD: u16 = 33;

/// Place of a message: its stream, and its number there.
pub(super) type MessagePlace = (u8, u16);

/// Headers of a packet that this program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers<'a> {
    /// Acknowledgement, of a reliable packet.
    pub(super) reliable: Option<Reliable>,
    /// Message behind them, framing included; empty in a packet that only acknowledges.
    pub(super) payload: &'a [u8],
}

/// Header of a reliable packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reliable {
    /// Number of the packet.
    pub(super) number: u16,
    /// Last packet that its sender has received, and a bit for each packet before that.
    pub(super) acknowledged: (u16, u32),
    /// Place of its message; `None` without order.
    pub(super) place: Option<MessagePlace>,
}

impl<'a> Headers<'a> {
    /// Reads the headers of a packet; `None` for packets that no end sends: fragments, sequenced messages, heartbeats,
    /// and truncated packets.
    pub(super) fn read(packet: &'a [u8]) -> Option<Headers<'a>> {
        let (standard, rest) = packet.split_at_checked(STANDARD)?;
        match standard.get(2..)? {
            // A whole packet, unreliable and unordered.
            [0, 0, 0] => Some(Headers { reliable: None, payload: rest }),
            // Reliable and unordered.
            [0, 1, 0] => {
                let (header, payload) = rest.split_at_checked(ACKNOWLEDGED)?;
                let reliable = Reliable::read(header, None)?;
                payload.is_empty().then_some(Headers { reliable: Some(reliable), payload })
            }
            // Reliable and ordered.
            [0, 1, 2] => {
                let (header, rest) = rest.split_at_checked(ACKNOWLEDGED)?;
                let (place, payload) = rest.split_at_checked(ARRANGED)?;
                let place = (place[2], u16::from_be_bytes([place[0], place[1]]));
                let reliable = Reliable::read(header, Some(place))?;
                (!payload.is_empty()).then_some(Headers { reliable: Some(reliable), payload })
            }
            _ => None,
        }
    }

    /// Returns the lane and the message behind the framing; `None` if the length does not match the packet's.
    pub(super) fn message(payload: &[u8]) -> Option<(u8, &[u8])> {
        let (framing, message) = payload.split_at_checked(FRAMING)?;
        let length = usize::from(u16::from_be_bytes([framing[1], framing[2]]));
        (length == message.len() && length > 0).then_some((framing[0], message))
    }
}

impl Reliable {
    fn read(header: &[u8], place: Option<MessagePlace>) -> Option<Reliable> {
        let header: [u8; ACKNOWLEDGED] = header.try_into().ok()?;
        let [n0, n1, a0, a1, bits @ ..] = header;
        Some(Reliable {
            number: u16::from_be_bytes([n0, n1]),
            acknowledged: (u16::from_be_bytes([a0, a1]), u32::from_be_bytes(bits)),
            place,
        })
    }
}

/// Packet that left: its number, and the place of its message if it has one.
type SentPacket = (u16, Option<MessagePlace>);

/// Messages under way.
pub(super) struct MessageLedger {
    /// Last packets that left, each at its number modulo their count.
    sent: Box<[Option<SentPacket>]>,
    /// Messages that the peer has not acknowledged.
    owed: HashSet<MessagePlace>,
    /// Packets with a message that left for the first time.
    pub(super) packets: u64,
    /// Packets with a retransmitted message.
    pub(super) resent: u64,
}

impl Default for MessageLedger {
    fn default() -> MessageLedger {
        let sent = vec![None; REMEMBERED].into_boxed_slice();
        MessageLedger { sent, owed: HashSet::new(), packets: 0, resent: 0 }
    }
}

impl MessageLedger {
    /// Notes a packet that leaves.
    pub(super) fn on_send(&mut self, packet: &[u8]) {
        let Some(headers) = Headers::read(packet) else { return };
        let Some(Reliable { number, place, .. }) = headers.reliable else {
            self.packets += 1;
            return;
        };
        self.sent[usize::from(number) % REMEMBERED] = Some((number, place));
        match place.map(|place| self.owed.insert(place)) {
            Some(true) => self.packets += 1,
            Some(false) => self.resent += 1,
            None => {}
        }
    }

    /// Notes the packets that the peer has.
    pub(super) fn acknowledged(&mut self, (last, before): (u16, u32)) {
        for back in 0..TOLD {
            if back > 0 && (before >> (back - 1)) & 1 == 0 {
                continue;
            }
            let number = last.wrapping_sub(back);
            let sent = &mut self.sent[usize::from(number) % REMEMBERED];
            if let Some((_, Some(place))) = sent.take_if(|(found, _)| *found == number) {
                self.owed.remove(&place);
            }
        }
    }

    /// Returns the number of messages that the peer has not acknowledged.
    pub(super) fn owed(&self) -> usize {
        self.owed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(number: u16, place: u16, message: &[u8]) -> Vec<u8> {
        let mut packet = vec![7, 7, 0, 1, 2];
        packet.extend(number.to_be_bytes());
        packet.extend([0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(place.to_be_bytes());
        packet.extend([3, 3]);
        packet.extend((message.len() as u16).to_be_bytes());
        packet.extend(message);
        packet
    }

    #[test]
    fn a_message_is_owed_until_one_of_its_packets_is_acknowledged() {
        let mut ledger = MessageLedger::default();
        for (number, place) in [(65_535, 0), (0, 1), (1, 0)] {
            ledger.on_send(&ordered(number, place, b"hello"));
        }
        assert_eq!((ledger.owed(), ledger.packets, ledger.resent), (2, 2, 1));
        // Neither the last one nor any before it.
        ledger.acknowledged((900, 0));
        assert_eq!(ledger.owed(), 2);
        // The first of its packets, which is two before this one.
        ledger.acknowledged((1, 0b10));
        assert_eq!(ledger.owed(), 1);
        ledger.acknowledged((0, 0));
        assert_eq!(ledger.owed(), 0);
    }

    #[test]
    fn what_was_cut_or_is_none_of_ours_is_not_read() {
        let whole = ordered(1, 2, b"hello");
        let message = |packet: &[u8]| {
            let headers = Headers::read(packet)?;
            Headers::message(headers.payload).map(|(lane, message)| (lane, message.to_vec()))
        };
        assert_eq!(message(&whole), Some((3, b"hello".to_vec())));
        for len in 0..whole.len() {
            assert_eq!(message(&whole[..len]), None, "{len}");
        }
        for (at, value) in [(2, 1), (2, 2), (3, 0), (4, 1)] {
            let mut other = whole.clone();
            other[at] = value;
            assert_eq!(Headers::read(&other).and_then(|headers| headers.reliable), None, "{at}");
        }
    }
}

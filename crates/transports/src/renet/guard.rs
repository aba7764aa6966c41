//! Filter for a peer's packets in front of the library, which trusts the slices of a message: a slice beyond the count
//! in the first of them makes it panic, and any count allocates memory. It ends the connection at a malformed packet,
//! and at a packet for which it lacks memory. So packets are parsed here first, and a refused packet counts as lost:
//! the peer sends it again.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{LARGEST, SLICE};
use deadheat_contract::contract::{Delivery, Ordering, Service};

/// Most numbers ahead of the delivered messages that are accepted.
const AHEAD: u64 = 16_384;

/// Kinds of packets, by their first byte.
const SMALL_RELIABLE: u8 = 0;
const SMALL_UNRELIABLE: u8 = 1;
const RELIABLE_SLICE: u8 = 2;
const ACKNOWLEDGEMENT: u8 = 4;

/// Content of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Messages, or a slice of one.
    Data,
    /// Packets that the peer has, by their numbers.
    Acknowledgement(Vec<RangeInclusive<u64>>),
}

/// Incomplete or waiting message: its slices, and the most memory that it takes.
#[derive(Debug, Clone, Copy)]
struct PartialMessage {
    slices: u64,
    bytes: usize,
}

/// Messages of a lane that are arriving.
#[derive(Debug)]
struct LaneReassembly {
    service: Service,
    /// Number of delivered messages.
    delivered: u64,
    /// Waiting messages by number.
    held: BTreeMap<u64, PartialMessage>,
}

/// Filter for the messages of all lanes.
#[derive(Debug)]
pub(super) struct Guard {
    lanes: Vec<LaneReassembly>,
    /// Most memory of messages that wait for others.
    most: usize,
    held: usize,
}

impl Guard {
    pub(super) fn new(lanes: &[Service], most: usize) -> Guard {
        let arriving = |service: &Service| LaneReassembly {
            service: *service,
            delivered: 0,
            held: BTreeMap::new(),
        };
        Guard { lanes: lanes.iter().map(arriving).collect(), most, held: 0 }
    }

    /// Returns the content of a peer's packet if the library may read it.
    pub(super) fn admit(&mut self, packet: &[u8]) -> Option<Content> {
        let mut reader = Reader(packet);
        let kind = reader.byte()?;
        let _number = reader.varint()?;
        let content = match kind {
            SMALL_RELIABLE => self.messages(&mut reader)?,
            SMALL_UNRELIABLE => self.unreliable(&mut reader)?,
            RELIABLE_SLICE => self.slice(&mut reader)?,
            ACKNOWLEDGEMENT => Content::Acknowledgement(ranges(&mut reader)?),
            _ => return None,
        };
        reader.0.is_empty().then_some(content)
    }

    /// Notes that the library has delivered a message of a lane.
    pub(super) fn delivered(&mut self, lane: usize) {
        let Some(arriving) = self.lanes.get_mut(lane) else { return };
        if let Some(held) = arriving.held.remove(&arriving.delivered) {
            self.held -= held.bytes;
        }
        arriving.delivered += 1;
    }

    fn messages(&mut self, reader: &mut Reader<'_>) -> Option<Content> {
        let lane = usize::from(reader.byte()?);
        let arriving = self.lanes.get(lane)?;
        if arriving.service.delivery != Delivery::Reliable {
            return None;
        }
        let mut new = Vec::new();
        let (mut is_next, mut bytes) = (false, 0);
        // The packet is parsed to its end before anything is noted.
        for _ in 0..reader.count()? {
            let message = reader.varint()?;
            let length = reader.bytes_with_length()?.len();
            if length == 0 || message >= arriving.delivered + AHEAD {
                return None;
            }
            is_next |= message == arriving.delivered;
            // Unordered messages are delivered at once.
            let waits = arriving.service.ordering == Ordering::Ordered
                && message >= arriving.delivered
                && !arriving.held.contains_key(&message);
            if waits {
                bytes += length;
                new.push((message, PartialMessage { slices: 0, bytes: length }));
            }
        }
        self.hold(lane, new, bytes, is_next, reader)?;
        Some(Content::Data)
    }

    fn slice(&mut self, reader: &mut Reader<'_>) -> Option<Content> {
        let lane = usize::from(reader.byte()?);
        let arriving = self.lanes.get(lane)?;
        let (message, index) = (reader.varint()?, reader.varint()?);
        let slices = reader.varint()?;
        let length = reader.bytes_with_length()?.len();
        let is_whole = if index + 1 == slices { length > 0 } else { length == SLICE };
        let makes_sense = arriving.service == Service::ORDERED
            && (2..=(LARGEST as u64).div_ceil(SLICE as u64)).contains(&slices)
            && index < slices
            && is_whole
            && length <= SLICE
            && message < arriving.delivered + AHEAD;
        if !makes_sense {
            return None;
        }
        let (mut new, mut bytes) = (Vec::new(), 0);
        match arriving.held.get(&message) {
            Some(held) if held.slices != slices => return None,
            None if message >= arriving.delivered => {
                bytes = slices as usize * SLICE;
                new.push((message, PartialMessage { slices, bytes }));
            }
            _ => {}
        }
        let is_next = message == arriving.delivered;
        self.hold(lane, new, bytes, is_next, reader)?;
        Some(Content::Data)
    }

    /// Notes waiting messages; `None` if they exceed the memory, or the packet is longer. The message that all others
    /// wait for is always accepted.
    fn hold(
        &mut self,
        lane: usize,
        new: Vec<(u64, PartialMessage)>,
        bytes: usize,
        is_next: bool,
        reader: &Reader<'_>,
    ) -> Option<()> {
        if !reader.0.is_empty() || (!is_next && self.held + bytes > self.most) {
            return None;
        }
        self.held += bytes;
        self.lanes.get_mut(lane)?.held.extend(new);
        Some(())
    }

    fn unreliable(&self, reader: &mut Reader<'_>) -> Option<Content> {
        let lane = self.lanes.get(usize::from(reader.byte()?))?;
        for _ in 0..reader.count()? {
            reader.bytes_with_length().filter(|message| !message.is_empty())?;
        }
        (lane.service.delivery == Delivery::BestEffort).then_some(Content::Data)
    }
}

/// Reads the numbers in an acknowledgement: the last one, the length of its range, and for each range before it the gap
/// and the length.
fn ranges(reader: &mut Reader<'_>) -> Option<Vec<RangeInclusive<u64>>> {
    let last = reader.varint()?;
    let mut start = last.checked_sub(reader.varint()?)?;
    let mut ranges = vec![start..=last];
    for _ in 0..reader.varint()? {
        let end = start.checked_sub(reader.varint()?)?.checked_sub(2)?;
        start = end.checked_sub(reader.varint()?)?;
        ranges.push(start..=end);
    }
    Some(ranges)
}

/// Returns the number of a packet that an end sends, and the delivery of its messages; `None` for an acknowledgement.
pub(super) fn sent(packet: &[u8]) -> Option<(u64, Delivery)> {
    let mut reader = Reader(packet);
    let delivery = match reader.byte()? {
        SMALL_RELIABLE | RELIABLE_SLICE => Delivery::Reliable,
        ACKNOWLEDGEMENT => return None,
        _ => Delivery::BestEffort,
    };
    Some((reader.varint()?, delivery))
}

/// Bytes that were not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Reads a number of messages, of which there is at least one.
    fn count(&mut self) -> Option<u16> {
        let count = self.take(2)?;
        Some(u16::from_be_bytes([count[0], count[1]])).filter(|count| *count > 0)
    }

    /// Reads an integer of 1, 2, 4 or 8 bytes (RFC 9000, 16).
    fn varint(&mut self) -> Option<u64> {
        let len = 1 << (self.0.first()? >> 6);
        let bytes = self.take(len)?;
        let value = bytes.iter().fold(0_u64, |value, byte| (value << 8) | u64::from(*byte));
        // The first two bits are the length.
        Some(value & (u64::MAX >> (66 - 8 * len)))
    }

    fn bytes_with_length(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANES: &[Service] = &[Service::ORDERED, Service::BEST_EFFORT, Service::UNORDERED];

    fn guard() -> Guard {
        Guard::new(LANES, 10_000)
    }

    fn small(lane: u8, messages: &[(u8, &[u8])]) -> Vec<u8> {
        let mut packet = vec![SMALL_RELIABLE, 5, lane, 0, messages.len() as u8];
        for (number, message) in messages {
            packet.extend([*number, message.len() as u8]);
            packet.extend_from_slice(message);
        }
        packet
    }

    fn slice(message: u8, index: u8, slices: u8, len: usize) -> Vec<u8> {
        let mut packet = vec![RELIABLE_SLICE, 9, 0, message, index, slices];
        packet.extend((0x4000 | len as u16).to_be_bytes());
        packet.extend(vec![7; len]);
        packet
    }

    const DATA: Option<Content> = Some(Content::Data);

    #[test]
    fn slices_that_would_make_the_library_panic_are_refused() {
        let mut guard = guard();
        assert_eq!(guard.admit(&slice(0, 1, 3, SLICE)), DATA);
        for (index, slices, len, what) in [
            (3, 3, SLICE, "beyond the last"),
            (3, 5, SLICE, "another number of slices than before"),
            (0, 0, SLICE, "none"),
            (0, 3, SLICE - 1, "not whole"),
            (2, 3, 0, "empty"),
        ] {
            assert_eq!(guard.admit(&slice(0, index, slices, len)), None, "{what}");
        }
        assert_eq!(guard.admit(&slice(0, 2, 3, 1)), DATA, "the last is shorter");
    }

    #[test]
    fn memory_is_bounded_and_what_all_wait_for_is_taken() {
        let mut guard = guard();
        assert_eq!(guard.admit(&slice(1, 0, 8, SLICE)), DATA);
        assert_eq!(guard.admit(&slice(2, 0, 8, SLICE)), None);
        assert_eq!(guard.admit(&slice(0, 0, 8, SLICE)), DATA);
        guard.delivered(0);
        guard.delivered(0);
        assert_eq!(guard.held, 0);
        assert_eq!(guard.admit(&slice(2, 0, 8, SLICE)), DATA);
    }

    #[test]
    fn what_was_cut_and_what_is_on_another_kind_of_lane_is_refused() {
        let whole = small(0, &[(0, b"hello"), (1, b"again")]);
        for len in 0..whole.len() {
            assert_eq!(guard().admit(&whole[..len]), None, "{len}");
        }
        assert_eq!(guard().admit(&whole), DATA);
        assert_eq!(guard().admit(&small(2, &[(0, b"hello")])), DATA);
        for (lane, messages) in
            [(1, &[(0, &b"x"[..])][..]), (3, &[(0, b"x")]), (0, &[]), (0, &[(0, b"")])]
        {
            assert_eq!(guard().admit(&small(lane, messages)), None, "{lane} {messages:?}");
        }
        let mut best_effort = vec![SMALL_UNRELIABLE, 5, 1, 0, 1, 1, 7];
        assert_eq!(guard().admit(&best_effort), Some(Content::Data));
        best_effort[2] = 0;
        assert_eq!(guard().admit(&best_effort), None);
    }

    #[test]
    fn an_acknowledgement_tells_its_ranges() {
        let told = |bytes: &[u8]| guard().admit(&[&[ACKNOWLEDGEMENT, 1], bytes].concat());
        let ranges =
            |ranges: &[RangeInclusive<u64>]| Some(Content::Acknowledgement(ranges.to_vec()));
        assert_eq!(told(&[20, 5, 0]), ranges(&[15..=20]));
        // The example of the library's documentation, smaller: 40 in a range of 5, a gap, and a range of 10.
        assert_eq!(told(&[40, 4, 1, 14, 9]), ranges(&[36..=40, 11..=20]));
        assert_eq!(told(&[4, 5, 0]), None);
        assert_eq!(told(&[20, 5, 1, 14, 0]), None);
        assert_eq!(told(&[20, 5, 1]), None);
    }
}

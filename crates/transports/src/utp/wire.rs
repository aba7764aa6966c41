//! Packet format of uTP (BEP 29, header version 1), integers big-endian.
//!
//! ```text
//! 0        1          2             4             8            12       16         18
//! +--------+----------+-------------+-------------+------------+--------+----------+---------+
//! | kind,  | first    | connection  | timestamp   | difference | window | sequence | acknow- |
//! | 1      | extension| id          | µs          | µs         | bytes  | number   | ledged  |
//! +--------+----------+-------------+-------------+------------+--------+----------+---------+
//! ```
//!
//! Extensions follow, each with the kind of the next one (0: none), its length in bytes, and its bytes; then the bytes
//! of the stream. The one known here is the selective acknowledgement: a bitmap, the lowest bit of a byte first,
//! beginning with the packet two after the acknowledged one.
//!
//! The format has neither length nor checksum: UDP (RFC 768) has both, which detect a truncated datagram.

/// Bytes of the header.
pub(super) const HEADER: usize = 20;

/// Most packets that a selective acknowledgement covers: its length takes a byte and is a multiple of four.
pub(super) const MOST_SELECTED: usize = 252 * 8;

/// Distance from the acknowledged packet to that of the first bit.
const FIRST_BIT: u16 = 2;

const VERSION: u8 = 1;
const SELECTIVE: u8 = 1;

/// Kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketKind {
    Data,
    /// Last packet of its direction.
    Fin,
    /// Acknowledgement only.
    State,
    Reset,
    Syn,
}

impl PacketKind {
    const ALL: [PacketKind; 5] =
        [PacketKind::Data, PacketKind::Fin, PacketKind::State, PacketKind::Reset, PacketKind::Syn];
}

/// Header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: PacketKind,
    pub(super) connection: u16,
    /// Time at which it leaves, by its sender's clock.
    pub(super) timestamp: u32,
    /// Delay of the last packet that arrived at its sender: the difference between two clocks that need not agree.
    pub(super) difference: u32,
    /// Free room of its sender.
    pub(super) window: u32,
    pub(super) sequence: u16,
    /// Number of the last packet that arrived in order.
    pub(super) acknowledged: u16,
}

/// Parsed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UtpPacket<'a> {
    pub(super) header: Header,
    bitmap: &'a [u8],
    pub(super) bytes: &'a [u8],
}

impl UtpPacket<'_> {
    /// Returns the packets that arrived behind a gap, by their distance from the acknowledged one.
    pub(super) fn selected(&self) -> impl Iterator<Item = u16> + '_ {
        let bits =
            self.bitmap.iter().flat_map(|byte| (0..8).map(move |bit| byte & (1 << bit) != 0));
        (FIRST_BIT..).zip(bits).filter_map(|(distance, is_here)| is_here.then_some(distance))
    }
}

/// Reads a datagram; `None` if it is not a packet of this protocol.
pub(super) fn read(datagram: &[u8]) -> Option<UtpPacket<'_>> {
    let (header, mut rest) = datagram.split_first_chunk::<HEADER>()?;
    let two = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let four = |at: usize| u32::from(two(at)) << 16 | u32::from(two(at + 2));
    let kind = *PacketKind::ALL.get(usize::from(header[0] >> 4))?;
    (header[0] & 0xf == VERSION).then_some(())?;
    let (mut extension, mut bitmap) = (header[1], &[][..]);
    while extension != 0 {
        let ([next, len], tail) = rest.split_first_chunk::<2>()?;
        let (body, tail) = tail.split_at_checked(usize::from(*len))?;
        if extension == SELECTIVE {
            (!body.is_empty() && body.len() % 4 == 0).then_some(())?;
            bitmap = body;
        }
        (extension, rest) = (*next, tail);
    }
    // Data has bytes, and no other kind has.
    ((kind == PacketKind::Data) != rest.is_empty()).then_some(())?;
    let header = Header {
        kind,
        connection: two(2),
        timestamp: four(4),
        difference: four(8),
        window: four(12),
        sequence: two(16),
        acknowledged: two(18),
    };
    Some(UtpPacket { header, bitmap, bytes: rest })
}

/// Appends a header without extensions; bytes of the stream may follow.
pub(super) fn write(header: &Header, room: &mut Vec<u8>) {
    write_with(header, 0, room);
}

fn write_with(header: &Header, extension: u8, room: &mut Vec<u8>) {
    room.extend_from_slice(&[(header.kind as u8) << 4 | VERSION, extension]);
    room.extend_from_slice(&header.connection.to_be_bytes());
    for field in [header.timestamp, header.difference, header.window] {
        room.extend_from_slice(&field.to_be_bytes());
    }
    room.extend_from_slice(&header.sequence.to_be_bytes());
    room.extend_from_slice(&header.acknowledged.to_be_bytes());
}

/// Appends a header with a selective acknowledgement. `here` has a flag for each packet from the second after the
/// acknowledged one on, true if it has arrived; flags without room are left out.
pub(super) fn write_selective(
    header: &Header,
    here: impl ExactSizeIterator<Item = bool>,
    room: &mut Vec<u8>,
) {
    write_with(header, SELECTIVE, room);
    let len = here.len().clamp(1, MOST_SELECTED).div_ceil(32) * 4;
    room.extend_from_slice(&[0, len as u8]);
    let from = room.len();
    room.resize(from + len, 0);
    for (at, _) in here.take(MOST_SELECTED).enumerate().filter(|(_, is_here)| *is_here) {
        room[from + at / 8] |= 1 << (at % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: Header = Header {
        kind: PacketKind::State,
        connection: 0x0102,
        timestamp: 0x0304_0506,
        difference: 0x0708_090a,
        window: 0x0b0c_0d0e,
        sequence: 0x0f10,
        acknowledged: 0x1112,
    };

    fn selective(here: &[bool]) -> Vec<u8> {
        let mut room = Vec::new();
        write_selective(&STATE, here.iter().copied(), &mut room);
        room
    }

    #[test]
    fn golden_bytes() {
        let mut room = Vec::new();
        write(&Header { kind: PacketKind::Syn, ..STATE }, &mut room);
        let tail = *b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12";
        assert_eq!((&room[..2], &room[2..]), (&b"\x41\0"[..], &tail[..]));
        // Packets 2, 4 and 11 after the acknowledged one.
        let mut here = [false; 10];
        (here[0], here[2], here[9]) = (true, true, true);
        let room = selective(&here);
        assert_eq!((&room[..2], &room[2..20]), (&b"\x21\x01"[..], &tail[..]));
        assert_eq!(room[20..], *b"\0\x04\x05\x02\0\0");
        let packet = read(&room).unwrap();
        assert_eq!(packet.selected().collect::<Vec<_>>(), [2, 4, 11]);
    }

    #[test]
    fn each_kind_reads_as_it_was_written() {
        for kind in PacketKind::ALL {
            let header = Header { kind, ..STATE };
            let mut room = Vec::new();
            write(&header, &mut room);
            let bytes = if kind == PacketKind::Data { &b"bytes"[..] } else { &[] };
            room.extend_from_slice(bytes);
            assert_eq!(read(&room), Some(UtpPacket { header, bitmap: &[], bytes }));
        }
    }

    #[test]
    fn a_bitmap_ends_with_what_its_length_can_say() {
        for (packets, len) in [(0, 4), (1, 4), (32, 4), (33, 8), (2_016, 252), (5_000, 252)] {
            let room = selective(&vec![true; packets]);
            assert_eq!((room.len(), room[21]), (HEADER + 2 + len, len as u8), "{packets}");
            let selected = read(&room).unwrap().selected().count();
            assert_eq!(selected, packets.min(MOST_SELECTED));
        }
    }

    #[test]
    fn unknown_extensions_are_skipped_and_what_makes_no_sense_is_none() {
        let whole = selective(&[true]);
        // An unknown extension of three bytes in front of the bitmap.
        let mut longer = whole.clone();
        longer[1] = 7;
        longer.splice(20..20, [1, 3, 9, 9, 9]);
        assert_eq!(read(&longer).unwrap().selected().collect::<Vec<_>>(), [2]);
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]), None, "{len} of {}", whole.len());
        }
        // Kinds and versions that do not exist, an extension without an end, bitmaps of no or of three bytes, and a
        // packet with bytes of a kind without.
        for (at, byte) in [(0, 0x51), (0, 0x22), (20, 1), (21, 0), (21, 3), (0, 0x01)] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            assert_eq!(read(&wrong), None, "{byte:#x} at {at}");
        }
        let mut bytes = whole.clone();
        bytes.push(0);
        assert_eq!(read(&bytes), None);
    }
}

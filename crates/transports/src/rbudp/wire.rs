//! Datagram formats. The first byte is the kind; integers are big-endian, and a round takes 48 bits.
//!
//! | datagram | at | bytes | field |
//! |---|---|---|---|
//! | data | 0 | 1 | 1 |
//! | | 1 | 1 | flags: 1, the stream ends behind these bytes; 2, the last one of its round, to be answered |
//! | | 2 | 6 | round in which it leaves |
//! | | 8 | 8 | number of the datagram, the same whenever it is sent again |
//! | | 16 | 6 | offset of its first byte in the stream |
//! | | 22 | 2 | number of bytes behind the header |
//! | ask | 0 | 1 | 2 |
//! | | 1 | 1 | 0 |
//! | | 2 | 6 | round that ends here, and needs an answer |
//! | tally | 0 | 1 | 3 |
//! | | 1 | 1 | flags: 1, nothing has arrived behind this bitmap |
//! | | 2 | 6 | round that it answers |
//! | | 8 | 8 | number of the first datagram that is missing |
//! | | 16 | 8 | number of the first bit's datagram |
//! | | 24 | 8 | round that the next three describe |
//! | | 32 | 4 | its datagrams that arrived after the first one |
//! | | 36 | 8 | bytes of the stream in these |
//! | | 44 | 8 | time from the first to the last of them, in nanoseconds |
//! | | 52 | 2 | number of bytes of the bitmap |
//! | | 54 | 2 | 0 |
//! | | 56 | | bitmap: a bit for each datagram, the highest of a byte first; 1, it has arrived |
//!
//! A datagram with another length than its fields give is ignored, so that a truncated one does not pass for whole.

use deadheat_base::time::Nanos;

/// Bytes in front of the stream's.
pub(super) const HEADER: usize = 24;

/// Bytes in front of a bitmap.
pub(super) const TALLY: usize = 56;

const DATA: u8 = 1;
const ASK: u8 = 2;
const ANSWER: u8 = 3;

const ENDS: u8 = 1;
const ASKS: u8 = 2;
const NOTHING_BEHIND: u8 = 1;

/// The largest number of a field of 48 bits.
const MOST_48: u64 = (1 << 48) - 1;

/// Datagram of either end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RbudpDatagram<'a> {
    Data(DataDatagram<'a>),
    /// End of the round with this number.
    Ask(u64),
    Tally(Tally<'a>),
}

/// Bytes of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataDatagram<'a> {
    pub(super) round: u64,
    pub(super) number: u64,
    pub(super) offset: u64,
    /// True if the stream ends after them.
    pub(super) ends: bool,
    /// True if they are the last of their round.
    pub(super) asks: bool,
    pub(super) bytes: &'a [u8],
}

/// Arrivals of one round, as the receiver saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Census {
    pub(super) round: u64,
    /// Datagrams that arrived after the first one. Several that arrive at one time count as one moment, as if the
    /// kernel delivers them together.
    pub(super) later: u32,
    /// Bytes of the stream in these.
    pub(super) bytes: u64,
    /// Time from the first to the last.
    pub(super) span: Nanos,
}

/// Answer to an ask, or part of one: the datagrams that have arrived, and the missing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally<'a> {
    pub(super) round: u64,
    /// Number of the first missing datagram.
    pub(super) missing: u64,
    /// Number of the first bit.
    pub(super) from: u64,
    pub(super) census: Census,
    /// True if nothing has arrived behind the bitmap.
    pub(super) is_last: bool,
    pub(super) bitmap: &'a [u8],
}

impl Tally<'_> {
    /// Returns the numbers that the bitmap covers, each with true if it has arrived.
    pub(super) fn bits(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let bits =
            self.bitmap.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit) != 0));
        (self.from..).zip(bits)
    }
}

/// Reads a datagram; `None` if it is not of this protocol.
pub(super) fn read(datagram: &[u8]) -> Option<RbudpDatagram<'_>> {
    let flags = *datagram.get(1)?;
    let round = u48(datagram, 2)?;
    match *datagram.first()? {
        DATA if flags & !(ENDS | ASKS) == 0 => {
            let (header, bytes) = datagram.split_at_checked(HEADER)?;
            let len = usize::from(u16::from_be_bytes([header[22], header[23]]));
            let (ends, asks) = (flags & ENDS != 0, flags & ASKS != 0);
            // Without bytes, the datagram must have the end of the stream.
            (len == bytes.len() && (len > 0 || ends)).then_some(())?;
            let (number, offset) = (number(header, 8)?, u48(header, 16)?);
            Some(RbudpDatagram::Data(DataDatagram { round, number, offset, ends, asks, bytes }))
        }
        ASK if flags == 0 && datagram.len() == 8 => Some(RbudpDatagram::Ask(round)),
        ANSWER if flags & !NOTHING_BEHIND == 0 => {
            let (header, bitmap) = datagram.split_at_checked(TALLY)?;
            let len = usize::from(u16::from_be_bytes([header[52], header[53]]));
            (len == bitmap.len()).then_some(())?;
            let census = Census {
                round: number(header, 24)?,
                later: u32::from_be_bytes(*header[32..].first_chunk()?),
                bytes: number(header, 36)?,
                span: Nanos(number(header, 44)?),
            };
            let (missing, from) = (number(header, 8)?, number(header, 16)?);
            let is_last = flags == NOTHING_BEHIND;
            Some(RbudpDatagram::Tally(Tally { round, missing, from, census, is_last, bitmap }))
        }
        _ => None,
    }
}

/// Reads a number at `at`. Half of all numbers are invalid, so that the sum of a number and a length does not overflow.
fn number(from: &[u8], at: usize) -> Option<u64> {
    let field = from.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*field)).filter(|number| *number <= u64::MAX / 2)
}

fn u48(from: &[u8], at: usize) -> Option<u64> {
    let field = from.get(at..)?.first_chunk::<6>()?;
    Some(field.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn put_u48(number: u64, room: &mut Vec<u8>) {
    room.extend_from_slice(&number.min(MOST_48).to_be_bytes()[2..]);
}

/// Appends the header of a datagram with `len` bytes of the stream; the bytes follow.
pub(super) fn write_data(data: &DataDatagram<'_>, len: usize, room: &mut Vec<u8>) {
    let flags = (if data.ends { ENDS } else { 0 }) | (if data.asks { ASKS } else { 0 });
    room.extend_from_slice(&[DATA, flags]);
    put_u48(data.round, room);
    room.extend_from_slice(&data.number.to_be_bytes());
    put_u48(data.offset, room);
    room.extend_from_slice(&(len as u16).to_be_bytes());
}

/// Appends the end of a round.
pub(super) fn write_ask(round: u64, room: &mut Vec<u8>) {
    room.extend_from_slice(&[ASK, 0]);
    put_u48(round, room);
}

/// Appends a tally; its bitmap has a bit for each number from `tally.from` on, set if it has arrived.
pub(super) fn write_tally(
    tally: &Tally<'_>,
    here: impl ExactSizeIterator<Item = bool>,
    room: &mut Vec<u8>,
) {
    let len = here.len().div_ceil(8);
    room.extend_from_slice(&[ANSWER, if tally.is_last { NOTHING_BEHIND } else { 0 }]);
    put_u48(tally.round, room);
    for number in [tally.missing, tally.from, tally.census.round] {
        room.extend_from_slice(&number.to_be_bytes());
    }
    room.extend_from_slice(&tally.census.later.to_be_bytes());
    room.extend_from_slice(&tally.census.bytes.to_be_bytes());
    room.extend_from_slice(&tally.census.span.0.to_be_bytes());
    room.extend_from_slice(&(len as u16).to_be_bytes());
    room.extend_from_slice(&[0; 2]);
    let from = room.len();
    room.resize(from + len, 0);
    for (at, _) in here.enumerate().filter(|(_, is_here)| *is_here) {
        room[from + at / 8] |= 0x80 >> (at % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Vec<u8> {
        let data =
            DataDatagram { round: 7, number: 9, offset: 300, ends: true, asks: false, bytes: &[] };
        let mut room = Vec::new();
        write_data(&data, 5, &mut room);
        room.extend_from_slice(b"bytes");
        room
    }

    fn tally() -> Vec<u8> {
        let census = Census { round: 6, later: 3, bytes: 4_000, span: Nanos(1_000) };
        let tally = Tally { round: 7, missing: 9, from: 9, census, is_last: true, bitmap: &[] };
        let mut room = Vec::new();
        write_tally(&tally, (0..10).map(|n| n % 3 == 1), &mut room);
        room
    }

    #[test]
    fn each_datagram_reads_as_it_was_written() {
        let room = data();
        let Some(RbudpDatagram::Data(read_back)) = read(&room) else { panic!("no data") };
        assert_eq!((read_back.round, read_back.number, read_back.offset), (7, 9, 300));
        assert_eq!((read_back.ends, read_back.asks, read_back.bytes), (true, false, &b"bytes"[..]));
        let room = tally();
        let Some(RbudpDatagram::Tally(read_back)) = read(&room) else { panic!("no tally") };
        assert_eq!((read_back.round, read_back.missing, read_back.from), (7, 9, 9));
        let census = Census { round: 6, later: 3, bytes: 4_000, span: Nanos(1_000) };
        assert_eq!((read_back.census, read_back.is_last), (census, true));
        let here: Vec<u64> = read_back.bits().filter(|(_, here)| *here).map(|(n, _)| n).collect();
        assert_eq!((here, read_back.bits().count()), (vec![10, 13, 16], 16));
        let mut room = Vec::new();
        write_ask(MOST_48, &mut room);
        assert_eq!(read(&room), Some(RbudpDatagram::Ask(MOST_48)));
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(data(), *b"\x01\x01\0\0\0\0\0\x07\0\0\0\0\0\0\0\x09\0\0\0\0\x01\x2c\0\x05bytes");
        let tally = tally();
        assert_eq!(tally.len(), TALLY + 2);
        assert_eq!(tally[TALLY..], [0b0100_1001, 0]);
    }

    #[test]
    fn what_was_cut_or_lengthened_is_none() {
        for whole in [data(), tally()] {
            for len in 0..whole.len() {
                assert_eq!(read(&whole[..len]), None, "{len} of {}", whole.len());
            }
            let mut longer = whole.clone();
            longer.push(0);
            assert_eq!(read(&longer), None);
        }
        // Numbers whose sum could overflow, unknown flags, and data without bytes.
        for (at, byte) in [(8, 0xff), (1, 0x10), (0, 9)] {
            let mut wrong = data();
            wrong[at] = byte;
            assert_eq!(read(&wrong), None, "{byte:#x} at {at}");
        }
        let mut empty = data()[..HEADER].to_vec();
        (empty[1], empty[23]) = (0, 0);
        assert_eq!(read(&empty), None);
    }
}

//! Segment format of the model, one segment per datagram: a header, then bytes of the stream.
//!
//! ```text
//! 0          8                16      17         20
//! +----------+----------------+-------+----------+-------
//! | offset   | acknowledged   | flags | zero     | bytes        integers big-endian
//! +----------+----------------+-------+----------+-------
//! ```
//! `offset` is the number of the first byte in the sender's stream, `acknowledged` the number of the first missing byte
//! of the other stream. Flag 1: the stream ends behind these bytes; the end takes one number, as in TCP.

/// Bytes of the header, as many as TCP's without options.
pub(super) const HEADER: usize = 20;

const LAST: u8 = 1;

/// Flag of a segment: the stream ends behind it, or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentFlag {
    More,
    End,
}

/// Segment of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArqSegment<'a> {
    pub(super) offset: u64,
    pub(super) acknowledged: u64,
    pub(super) then: SegmentFlag,
    pub(super) bytes: &'a [u8],
}

impl ArqSegment<'_> {
    /// Reads a datagram; `None` if it is not of this protocol.
    pub(super) fn read(datagram: &[u8]) -> Option<ArqSegment<'_>> {
        let (header, bytes) = datagram.split_first_chunk::<HEADER>()?;
        let number = |at: usize| {
            let field = header[at..].first_chunk::<8>()?;
            // Half of all numbers is the limit, so that the sum of an offset and a length does not overflow.
            Some(u64::from_be_bytes(*field)).filter(|number| *number <= u64::MAX / 2)
        };
        let then = match header[16] {
            0 => SegmentFlag::More,
            LAST => SegmentFlag::End,
            _ => return None,
        };
        Some(ArqSegment { offset: number(0)?, acknowledged: number(8)?, then, bytes })
    }

    /// Returns true if the segment takes no number of the stream.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.then == SegmentFlag::More
    }
}

/// Appends a header to `room`.
pub(super) fn write_header(offset: u64, acknowledged: u64, then: SegmentFlag, room: &mut Vec<u8>) {
    room.extend_from_slice(&offset.to_be_bytes());
    room.extend_from_slice(&acknowledged.to_be_bytes());
    room.extend_from_slice(&[if then == SegmentFlag::End { LAST } else { 0 }, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_reads_as_it_was_written_and_noise_is_none() {
        let mut room = Vec::new();
        write_header(7, 9, SegmentFlag::End, &mut room);
        room.extend_from_slice(b"bytes");
        let read = ArqSegment::read(&room).unwrap();
        assert_eq!(
            read,
            ArqSegment { offset: 7, acknowledged: 9, then: SegmentFlag::End, bytes: b"bytes" }
        );
        assert!(!read.is_empty());
        assert_eq!(ArqSegment::read(&room[..19]), None);
        room[16] = 2;
        assert_eq!(ArqSegment::read(&room), None);
        assert_eq!(ArqSegment::read(&[0xff; 40]), None);
    }
}

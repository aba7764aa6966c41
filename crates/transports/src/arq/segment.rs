//! Segment format of the model, one per datagram: a header, and bytes of the stream behind it.
//!
//! ```text
//! 0          8                16      17         20
//! +----------+----------------+-------+----------+-------
//! | offset   | acknowledged   | flags | zero     | bytes        integers big-endian
//! +----------+----------------+-------+----------+-------
//! ```
//! `offset` is that of the first byte in the stream of the sender, and `acknowledged` that of the
//! first byte that it misses of the other one. Flag 1: the stream ends behind these bytes; the end
//! takes one number, as in TCP.

/// Bytes of the header, as many as TCP's without options has.
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
    /// Reads a datagram; `None` if it is none of this protocol's.
    pub(super) fn read(datagram: &[u8]) -> Option<ArqSegment<'_>> {
        let (header, bytes) = datagram.split_first_chunk::<HEADER>()?;
        let number = |at: usize| {
            let field = header[at..].first_chunk::<8>()?;
            // Half of all numbers: no sum of an offset and a length overflows.
            Some(u64::from_be_bytes(*field)).filter(|number| *number <= u64::MAX / 2)
        };
        let then = match header[16] {
            0 => SegmentFlag::More,
            LAST => SegmentFlag::End,
            _ => return None,
        };
        Some(ArqSegment { offset: number(0)?, acknowledged: number(8)?, then, bytes })
    }

    /// Returns true if it takes no number of the stream.
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

//! Headers of the segments in a datagram of KCP.

use super::{HEADER, MOST_SEGMENTS};

/// Fields of a segment's header that this program reads.
pub(super) struct SegmentHeader {
    pub(super) command: u8,
    /// Number of segments of its message that follow.
    follow: u8,
    /// Time at which it left, by its sender's milliseconds; in an acknowledgement, that of the acknowledged segment.
    stamp: u32,
    pub(super) number: u32,
}

/// Returns the complete segments of a datagram.
pub(super) fn segments(datagram: &[u8]) -> impl Iterator<Item = SegmentHeader> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let (header, after) = rest.split_first_chunk::<{ HEADER as usize }>()?;
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        rest = after.get(word(20) as usize..).unwrap_or_default();
        Some(SegmentHeader {
            command: header[4],
            follow: header[5],
            stamp: word(8),
            number: word(12),
        })
    })
}

/// Command of an acknowledgement.
const ACK: u8 = 82;

/// Returns the round trips, in milliseconds, that the library measures from the acknowledgements of a datagram at
/// `now`: for a retransmitted segment from its last transmission.
pub(super) fn round_trips(datagram: &[u8], now: u32) -> impl Iterator<Item = u32> {
    let acks = segments(datagram).filter(|segment| segment.command == ACK);
    // Time stamps of the future, by the sign of the difference.
    acks.map(move |ack| now.wrapping_sub(ack.stamp)).filter(|took| *took < 1 << 31)
}

/// Changes reconstructed acknowledgements, which are late, so that the library measures no round trip from them: it
/// ignores time stamps of the future. kcp-go does not measure them either.
pub(super) fn unmeasured(datagram: &mut [u8], now: u32) {
    let mut rest = datagram;
    while let Some((header, after)) = rest.split_first_chunk_mut::<{ HEADER as usize }>() {
        if header[4] == ACK {
            header[8..12].copy_from_slice(&now.wrapping_add(1).to_le_bytes());
        }
        let length = u32::from_le_bytes([header[20], header[21], header[22], header[23]]) as usize;
        rest = after.get_mut(length..).unwrap_or_default();
    }
}

/// Returns true if no segment claims a longer message than the library can count, in eight bits.
pub(super) fn is_sound(datagram: &[u8]) -> bool {
    segments(datagram).all(|segment| u64::from(segment.follow) < MOST_SEGMENTS)
}

#[cfg(test)]
pub(super) mod testing {
    pub(in crate::kcp) fn segment(number: u32, follow: u8, bytes: &[u8]) -> Vec<u8> {
        let mut segment = vec![1, 0, 0, 0, 81, follow, 0, 1, 0, 0, 0, 0];
        segment.extend(number.to_le_bytes());
        segment.extend([0; 4]);
        segment.extend((bytes.len() as u32).to_le_bytes());
        segment.extend(bytes);
        segment
    }
}

#[cfg(test)]
mod tests {
    use super::testing::segment;
    use super::*;

    #[test]
    fn acknowledgements_that_were_made_up_for_are_from_the_future_and_data_is_as_it_was() {
        let data = segment(3, 0, b"data");
        let mut ack = segment(4, 0, b"");
        ack[4] = 82;
        let mut both = [&data[..], &ack, b"rest"].concat();
        unmeasured(&mut both, u32::MAX);
        ack[8..12].copy_from_slice(&[0; 4]);
        assert_eq!(both, [&data[..], &ack, b"rest"].concat());
        unmeasured(&mut both, 6);
        ack[8..12].copy_from_slice(&[7, 0, 0, 0]);
        assert_eq!(both, [&data[..], &ack, b"rest"].concat());
    }

    #[test]
    fn acknowledgements_measure_round_trips_across_the_clock_s_end() {
        let ack = |stamp: u32| {
            let mut ack = segment(4, 0, b"");
            ack[4] = 82;
            ack[8..12].copy_from_slice(&stamp.to_le_bytes());
            ack
        };
        let datagram = [segment(3, 0, b"data"), ack(u32::MAX - 9), ack(15), ack(7)].concat();
        assert_eq!(round_trips(&datagram, 10).collect::<Vec<_>>(), [20, 3]);
    }

    #[test]
    fn a_message_of_more_segments_than_there_are_is_refused() {
        assert!(is_sound(&segment(0, 126, b"data")));
        assert!(!is_sound(&segment(0, 127, b"data")));
        assert!(!is_sound(&[segment(0, 0, b"data"), segment(1, 255, b"")].concat()));
        assert!(is_sound(b"short"));
    }
}

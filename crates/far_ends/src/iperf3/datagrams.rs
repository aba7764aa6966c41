//! Datagrams of iperf3: seconds, microseconds and a number from 1, each 32 bits, big-endian, and then any bytes.

use crate::codec::Codec;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::workload::header::{Header, LEN, write_due};

/// Bytes of iperf3's header.
const OWN_LEN: usize = 12;

/// Shortest datagram: iperf3 refuses shorter ones.
pub(super) const LEAST_LEN: usize = 16;

/// Translation of messages with the header of our workloads to iperf3's, which takes its place, and back.
pub(super) struct Datagrams {
    tag: u32,
    /// Number of the last datagram that was sent.
    number: u32,
}

impl Datagrams {
    /// Creates the translation for messages with this tag.
    pub(super) fn new(tag: u32) -> Datagrams {
        Datagrams { tag, number: 0 }
    }

    fn write(number: u32, now: Nanos, packet: &mut [u8]) {
        let Some(own) = packet.get_mut(..OWN_LEN) else { return };
        let (secs, micros) = (now.0 / 1_000_000_000, now.0 % 1_000_000_000 / 1_000);
        own[..4].copy_from_slice(&(secs as u32).to_be_bytes());
        own[4..8].copy_from_slice(&(micros as u32).to_be_bytes());
        own[8..].copy_from_slice(&number.to_be_bytes());
    }
}

impl Codec for Datagrams {
    #[inline]
    fn encode(&mut self, message: &[u8], packet: &mut [u8]) -> usize {
        packet[..message.len()].copy_from_slice(message);
        Datagrams::write(self.number.wrapping_add(1), Monotonic.now(), packet);
        message.len()
    }

    fn has_room(&mut self) -> bool {
        true
    }

    #[inline]
    fn sent(&mut self) {
        self.number = self.number.wrapping_add(1);
    }

    #[inline]
    fn stamp(&mut self, message: &mut [u8]) {
        self.sent();
        Datagrams::write(self.number, Monotonic.now(), message);
    }

    /// Makes a message of a datagram of the server: its number counts from 0, and its time of sending, on the server's
    /// clock, is when it was due. Late answers to the first datagram carry nothing.
    #[inline]
    fn decode(&mut self, packet: &[u8], message: &mut [u8]) -> Option<usize> {
        let (own, _) = packet.split_first_chunk::<OWN_LEN>()?;
        let message = message.get_mut(..packet.len())?;
        let field = |at: usize| {
            let bytes = [own[at], own[at + 1], own[at + 2], own[at + 3]];
            u64::from(u32::from_be_bytes(bytes))
        };
        let seq = field(8).checked_sub(1)?;
        message[LEN..].copy_from_slice(&packet[LEN..]);
        Header { tag: self.tag, seq }.write(message);
        write_due(message, Nanos(field(0) * 1_000_000_000 + field(4) * 1_000));
        Some(packet.len())
    }

    /// Returns `None`: control ends the test.
    fn farewell(&mut self, _packet: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::workload::header::read_due;

    #[test]
    fn messages_become_numbered_datagrams_and_back() {
        let mut codec = Datagrams::new(7);
        let mut packet = [0; 200];
        let len = codec.encode(&[9; 40], &mut packet);
        assert_eq!((len, &packet[8..12], &packet[12..40]), (40, &[0, 0, 0, 1][..], &[9; 28][..]));
        // Without room it is encoded again, with the same number.
        codec.encode(&[9; 40], &mut packet);
        assert_eq!(packet[11], 1);
        codec.sent();
        codec.encode(&[9; 40], &mut packet);
        assert_eq!(packet[11], 2);
        codec.sent();
        codec.stamp(&mut packet[..40]);
        assert_eq!(packet[11], 3);
        packet[..8].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 6]);
        let mut message = [0; 200];
        assert_eq!(codec.decode(&packet[..40], &mut message), Some(40));
        assert_eq!(Header::read(&message), Some(Header { tag: 7, seq: 2 }));
        assert_eq!(read_due(&message), Some(Nanos(5_000_006_000)));
    }

    #[test]
    fn what_is_no_datagram_of_the_server_is_no_message() {
        let (mut codec, mut message) = (Datagrams::new(7), [0; 64]);
        for packet in [&[][..], &[1; 4], &[1; 11], &[0; 12], &[1; 65]] {
            assert_eq!(codec.decode(packet, &mut message), None, "{} bytes", packet.len());
        }
        assert_eq!(codec.decode(&[1; 12], &mut message), Some(12));
    }
}

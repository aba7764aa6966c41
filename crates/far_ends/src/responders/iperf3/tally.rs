//! Datagrams of a stream, counted by the numbers in their headers.

use deadheat_base::time::Nanos;

const SECOND: u64 = 1_000_000_000;

/// Bytes of the header: seconds, microseconds, and a number of 32 or 64 bits.
const NARROW_LEN: usize = 12;

const WIDE_LEN: usize = 16;

/// Datagrams of a stream, by their numbers (iperf3's `iperf_udp.c`).
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct DatagramTally {
    /// Largest number that arrived, or number that was sent.
    pub(super) packets: u64,
    /// Numbers that are missing; a late one makes up for one of them.
    pub(super) lost: u64,
    /// Spread of delays in seconds (RFC 1889, A.8).
    pub(super) jitter_s: f64,
    last_transit_s: Option<f64>,
    pub(super) omitted_packets: u64,
    pub(super) omitted_lost: u64,
}

impl DatagramTally {
    /// Leaves out all so far.
    pub(super) fn omit(&mut self) {
        (self.omitted_packets, self.omitted_lost) = (self.packets, self.lost);
        (self.jitter_s, self.last_transit_s) = (0.0, None);
    }

    /// Notes a datagram that arrived at `now`; garbage has no number.
    pub(super) fn note(&mut self, datagram: &[u8], is_wide: bool, now: Nanos) {
        let Some(header) = DatagramHeader::read(datagram, is_wide) else { return };
        if header.number > self.packets {
            self.lost += header.number - 1 - self.packets;
            self.packets = header.number;
        } else {
            self.lost = self.lost.saturating_sub(1);
        }
        let transit_s = now.signed_since(header.sent) as f64 / SECOND as f64;
        let last_s = self.last_transit_s.replace(transit_s).unwrap_or(transit_s);
        self.jitter_s += ((transit_s - last_s).abs() - self.jitter_s) / 16.0;
    }
}

/// Header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatagramHeader {
    pub(super) sent: Nanos,
    /// Number, from 1.
    pub(super) number: u64,
}

impl DatagramHeader {
    fn read(datagram: &[u8], is_wide: bool) -> Option<DatagramHeader> {
        let word = |at: usize| {
            datagram
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map(|word| u32::from_be_bytes(*word))
        };
        let number = if is_wide {
            u64::from(word(8)?) << 32 | u64::from(word(12)?)
        } else {
            u64::from(word(8)?)
        };
        let sent = Nanos(u64::from(word(0)?) * SECOND + u64::from(word(4)?) * 1_000);
        Some(DatagramHeader { sent, number })
    }

    pub(super) fn write(self, datagram: &mut [u8], is_wide: bool) {
        let (secs, micros) = (self.sent.0 / SECOND, self.sent.0 % SECOND / 1_000);
        datagram[..4].copy_from_slice(&(secs as u32).to_be_bytes());
        datagram[4..8].copy_from_slice(&(micros as u32).to_be_bytes());
        if is_wide {
            datagram[8..WIDE_LEN].copy_from_slice(&self.number.to_be_bytes());
        } else {
            datagram[8..NARROW_LEN].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u64, sent: Nanos, is_wide: bool) -> Vec<u8> {
        let mut bytes = vec![0; WIDE_LEN];
        DatagramHeader { sent, number }.write(&mut bytes, is_wide);
        bytes
    }

    #[test]
    fn gaps_are_losses_and_late_ones_make_up_for_them() {
        let mut tally = DatagramTally::default();
        for number in [1, 2, 5, 6, 4, 9] {
            tally.note(&datagram(number, Nanos(0), true), true, Nanos(0));
        }
        assert_eq!((tally.packets, tally.lost), (9, 3));
        tally.omit();
        tally.note(&datagram(11, Nanos(0), true), true, Nanos(0));
        assert_eq!((tally.packets, tally.lost), (11, 4));
        assert_eq!((tally.omitted_packets, tally.omitted_lost), (9, 3));
    }

    #[test]
    fn jitter_is_of_differences_whatever_the_clocks() {
        let mut tally = DatagramTally::default();
        let hours = Nanos::from_secs(36_000);
        // Delays of 10, 26 and 10 ms, by a clock that is hours ahead.
        for (number, sent, arrived) in [(1, 0, 10), (2, 20, 46), (3, 40, 50)] {
            let sent = Nanos::from_millis(sent) + hours;
            tally.note(&datagram(number, sent, false), false, Nanos::from_millis(arrived));
        }
        let wanted = 0.001 + (0.016 - 0.001) / 16.0;
        assert!((tally.jitter_s - wanted).abs() < 1e-9, "{}", tally.jitter_s);
    }

    #[test]
    fn short_datagrams_have_no_number() {
        let mut tally = DatagramTally::default();
        for len in 0..NARROW_LEN {
            tally.note(&vec![0xff; len], false, Nanos(1));
        }
        tally.note(&[0xff; NARROW_LEN], true, Nanos(1));
        assert_eq!(tally, DatagramTally::default());
        tally.note(&[0xff; WIDE_LEN], true, Nanos(1));
        assert_eq!(tally.packets, u64::MAX);
        tally.note(&[0; WIDE_LEN], true, Nanos(1));
        assert_eq!(tally.lost, u64::MAX - 2);
    }
}

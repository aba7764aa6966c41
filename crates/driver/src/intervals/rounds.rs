//! Meter of the bursts in which bulk data arrives, of a fixed size in memory and a few nanoseconds for each arrival.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::rounds::Rounds;

/// Shortest round trip that is looked at: on shorter ones the threads' own times to wake up are gaps, too.
const SHORTEST: Nanos = Nanos::from_millis(2);
/// Bytes that arrive at once, however slow the path: a record of TLS (RFC 8446, section 5.1), a frame of HTTP/2.
const UNIT: u128 = 16_384;
/// Bursts whose sizes are stored: the last ones.
const MOST: usize = 256;

/// Meter of bursts of one flow.
#[derive(Debug)]
pub struct RoundMeter {
    rtt: Nanos,
    first: Nanos,
    last: Nanos,
    /// Start of the burst.
    burst_began: Nanos,
    /// Bytes of the flow so far, and at the start of the burst.
    bytes: u64,
    burst_from: u64,
    silent: Nanos,
    sizes: Vec<u64>,
    /// Place of the next size.
    next: usize,
}

impl RoundMeter {
    /// Creates the meter of a flow over a connection with this least round trip; `None` on too short a one.
    pub(super) fn new(rtt: Nanos) -> Option<RoundMeter> {
        (rtt >= SHORTEST).then(|| {
            // Every page is written once, so that none is allocated later.
            let mut sizes = vec![0; MOST];
            sizes.clear();
            let [first, last, burst_began, silent] = [Nanos::ZERO; 4];
            RoundMeter {
                rtt,
                first,
                last,
                burst_began,
                bytes: 0,
                burst_from: 0,
                silent,
                sizes,
                next: 0,
            }
        })
    }

    /// Notes that the flow has received `bytes` in all by `now`.
    #[inline]
    pub fn arrived(&mut self, now: Nanos, bytes: u64) {
        if self.first == Nanos::ZERO {
            (self.first, self.burst_began) = (now, now);
        } else if self.is_silence(now) {
            self.silent += now - self.last;
            // What answers an acknowledgement of the first part arrives a round trip later at the earliest: whatever comes
            // before is of the same window. The sixteenth is for the spread of the round trip.
            if now - self.burst_began >= Nanos(self.rtt.0 / 16 * 15) {
                self.end_burst();
                self.burst_began = now;
            }
        }
        (self.last, self.bytes) = (now, bytes);
    }

    /// Returns true if nothing came for a quarter of the round trip, and for longer than the mean rate takes for two
    /// units in which bytes are handed on: a flow that the path's rate holds back has gaps of one.
    fn is_silence(&self, now: Nanos) -> bool {
        let (gap, span) = (now - self.last, now - self.first);
        let at_mean_rate = u128::from(gap.0) * u128::from(self.bytes);
        gap > Nanos(self.rtt.0 / 4) && at_mean_rate > 2 * UNIT * u128::from(span.0)
    }

    fn end_burst(&mut self) {
        let size = self.bytes - self.burst_from;
        match self.sizes.get_mut(self.next) {
            Some(oldest) => *oldest = size,
            None => self.sizes.push(size),
        }
        (self.next, self.burst_from) = ((self.next + 1) % MOST, self.bytes);
    }

    /// Returns the bursts so far; `None` without a burst that ended.
    pub(super) fn rounds(&self) -> Option<Rounds> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        let at = |tenth: usize| sizes.get((sizes.len() * tenth).div_ceil(10).max(1) - 1).copied();
        Some(Rounds {
            rtt_ns: self.rtt.0,
            n: sizes.len() as u64,
            p10_bytes: at(1)?,
            p50_bytes: at(5)?,
            p90_bytes: at(9)?,
            silent_ns: self.silent.0,
            span_ns: (self.last - self.first).0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn a_window_in_each_round_trip_is_a_burst_of_its_size_and_a_silence() {
        let mut meter = RoundMeter::new(MS(20)).unwrap();
        for round in 0..1_000u64 {
            for piece in 1..=4 {
                meter.arrived(MS(1_000 + 20 * round + piece), 64_000 * round + 16_000 * piece);
            }
        }
        let rounds = meter.rounds().unwrap();
        assert_eq!((rounds.n, rounds.rtt_ns), (256, 20_000_000));
        assert_eq!([rounds.p10_bytes, rounds.p50_bytes, rounds.p90_bytes], [64_000; 3]);
        assert_eq!((rounds.silent_ns, rounds.span_ns), (999 * 17_000_000, 19_983 * 1_000_000));
    }

    #[test]
    fn what_is_sent_in_parts_within_a_round_trip_is_one_burst() {
        // The 8 ms between two parts of 64 kB in 20 ms are the time of less than two records, but in the first round.
        for (apart, window, silent) in [(8, 64_000, 8 + 99 * 12), (14, 640_000, 1_400 + 99 * 6)] {
            let mut meter = RoundMeter::new(MS(20)).unwrap();
            for round in 0..100u64 {
                meter.arrived(MS(1_000 + 20 * round), window * round + window / 8 * 5);
                meter.arrived(MS(1_000 + 20 * round + apart), window * (round + 1));
            }
            let rounds = meter.rounds().unwrap();
            assert_eq!([rounds.p10_bytes, rounds.p50_bytes, rounds.p90_bytes], [window; 3]);
            assert_eq!(rounds.silent_ns, silent * 1_000_000, "{apart}");
        }
    }

    #[test]
    fn records_at_the_paths_rate_are_no_bursts() {
        // 25 Mbit/s: a record in each 5.2 ms, more than a quarter of the round trip.
        let mut meter = RoundMeter::new(MS(20)).unwrap();
        for record in 1..=1_000u64 {
            meter.arrived(Nanos(record * 5_243_000), 16_384 * record);
        }
        assert_eq!((meter.silent, meter.rounds()), (Nanos::ZERO, None));
    }

    #[test]
    fn data_that_never_stops_has_no_bursts_and_a_short_way_no_meter() {
        let mut meter = RoundMeter::new(MS(20)).unwrap();
        (0..1_000).for_each(|ms| meter.arrived(MS(1 + ms), 1_000 * (ms + 1)));
        assert_eq!(meter.rounds(), None);
        assert!(RoundMeter::new(MS(1)).is_none());
    }
}

//! Retransmission timer of RFC 6298, without a clock.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;

/// Timeout before the first measurement (RFC 6298, 2.1), and the longest one (2.5).
const FIRST_TIMEOUT: Nanos = Nanos::from_secs(1);
const LONGEST_TIMEOUT: Nanos = Nanos::from_secs(60);

/// Smoothed round-trip time and its variation (RFC 6298, 2.2 and 2.3), in nanoseconds.
#[derive(Debug, Default)]
pub struct RoundTrip {
    /// Smoothed round-trip time (RFC 6298) in nanoseconds; `None` before the first measurement.
    pub smoothed: Option<u64>,
    /// Variation of the round-trip time in nanoseconds.
    pub variation: u64,
}

impl RoundTrip {
    /// Returns the view of a sender that has sent this many packets for the first time, and this many again.
    pub fn view(&self, sent: u64, resent: u64) -> TcpView {
        TcpView {
            srtt_ns: self.smoothed,
            rttvar_ns: self.smoothed.map(|_| self.variation),
            retransmits: resent,
            data_segs_out: Some(sent + resent),
            ..TcpView::default()
        }
    }

    /// Takes a measurement into account.
    pub fn note(&mut self, took: Nanos) {
        let took = took.0;
        self.smoothed = Some(match self.smoothed {
            None => {
                self.variation = took / 2;
                took
            }
            Some(smoothed) => {
                self.variation = self.variation - self.variation / 4 + smoothed.abs_diff(took) / 4;
                smoothed - smoothed / 8 + took / 8
            }
        });
    }

    /// Returns the timeout, `least` or longer, after `backoff` timeouts in a row; each doubles it (5.5).
    pub fn timeout(&self, least: Nanos, backoff: u32) -> Nanos {
        let measured = |smoothed| Nanos(smoothed + 4 * self.variation);
        let base = self.smoothed.map_or(FIRST_TIMEOUT, measured).max(least);
        Nanos(base.0.saturating_mul(1 << backoff.min(16))).min(LONGEST_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn the_timeout_follows_what_was_measured_and_doubles_up_to_a_minute() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.timeout(MS(200), 0), MS(1_000));
        round_trip.note(MS(50));
        // The variation is half of the first measurement.
        assert_eq!(round_trip.timeout(MS(1), 0), MS(150));
        assert_eq!(round_trip.timeout(MS(200), 0), MS(200));
        assert_eq!(round_trip.timeout(MS(1), 3), MS(1_200));
        assert_eq!(round_trip.timeout(MS(1), 40), Nanos::from_secs(60));
        for _ in 0..100 {
            round_trip.note(MS(50));
        }
        assert_eq!(round_trip.timeout(MS(1), 0).0 / 1_000_000, 50);
    }
}

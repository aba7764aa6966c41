//! Pacing of datagrams where quinn's own is too coarse.

use std::time::Duration;

use deadheat_base::time::Nanos;

/// Rate of sending, in windows per round trip (RFC 9002, section 7.7).
const PACE: f64 = 1.25;
/// Time for which a late sender may make up.
const LATE: Nanos = Nanos::from_micros(500);

/// Pacer of an L4S connection. quinn sends ten packets at once, which an L4S queue of a millisecond marks on most links.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    next: Nanos,
    /// True while a datagram may wait for that time.
    holds: bool,
}

impl Pacer {
    /// Returns true if no datagram leaves yet.
    pub(super) fn holds(&mut self, now: Nanos) -> bool {
        self.holds = self.next > now;
        self.holds
    }

    /// Returns the time at which one may, if one may wait for it.
    pub(super) fn until(&self) -> Option<Nanos> {
        self.holds.then_some(self.next)
    }

    /// Notes a datagram that leaves now, of a connection with this window and round trip.
    pub(super) fn sent(&mut self, now: Nanos, bytes: usize, window: u64, rtt: Duration) {
        let gap = bytes as f64 * rtt.as_nanos() as f64 / (PACE * window.max(1) as f64);
        self.next = self.next.max(now - LATE) + Nanos(gap as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    #[test]
    fn datagrams_are_spread_over_the_round_trip_and_a_late_sender_makes_up_for_little() {
        let mut pacer = Pacer::default();
        let ms = Nanos::from_millis;
        let mut sent = |now: Nanos| {
            let leaves = !pacer.holds(now);
            if leaves {
                pacer.sent(now, 1_000, 20_000, RTT);
            }
            (leaves, pacer.until())
        };
        // 25 in 40 ms.
        let gap = Nanos::from_micros(1_600);
        assert_eq!(sent(ms(100)), (true, None));
        let next = ms(100) - LATE + gap;
        assert_eq!([sent(ms(101)), sent(next)], [(false, Some(next)), (true, None)]);
        assert_eq!(sent(ms(500)), (true, None));
        assert_eq!(sent(ms(501)), (false, Some(ms(500) - LATE + gap)));
    }
}

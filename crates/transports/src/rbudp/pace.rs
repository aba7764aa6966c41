//! The rate at which datagrams leave, and the search for it with `rate=probe`.
//!
//! `rate=probe` follows the receiver. The first datagrams leave back to back, as a train; the rate at which a train
//! leaves a path is the rate that the path allows (Dovrolis, Ramanathan and Moore, "What do packet dispersion
//! techniques measure?", INFOCOM 2001). From then on each round of 32 datagrams or more gives the rate at which its
//! datagrams arrived, though no faster than they were sent, like an estimate of the delivery rate
//! (draft-cheng-iccrg-delivery-rate-estimation). While rounds arrive about as fast as they were sent, the next leaves
//! twice as fast; from the first round on that does not, 9/8 times as fast as the fastest of the last ten arrived,
//! since BBR remembers a rate for ten rounds (draft-cardwell-iccrg-bbr-congestion-control-00, 4.1.1.3). So a full path
//! drops a ninth of the datagrams and stays full, a random loss of less than a ninth slows nothing down, and a higher
//! loss does, every ten rounds.

use super::wire::Census;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

/// Least number of datagrams of a round that gives a rate, and of the first train.
pub(super) const TRAIN: u64 = 32;

/// Longest train, if no train took any time.
const LONGEST_TRAIN: u64 = 4_096;

/// Lowest and highest rate.
pub(super) const LEAST: u64 = 64_000;
pub(super) const MOST: u64 = 1_000_000_000_000;

/// Number of rounds of which the fastest counts.
const REMEMBERED: usize = 10;

/// Time for which datagrams leave together, and the most bytes that do: a sixteenth of a socket's buffer.
const TICK: Nanos = Nanos::from_millis(1);
const BATCH: u64 = 256 << 10;

/// Longest delay of a tick that is compensated.
const LATE: Nanos = Nanos::from_millis(10);

/// Time that a round takes to send.
const ROUND: Nanos = Nanos::from_millis(100);

/// Origin of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateSource {
    Fixed(BitRate),
    Probe,
}

pub(super) struct Pace {
    origin: RateSource,
    /// Bits of IP packets per second; `None` while unknown.
    rate: Option<u64>,
    delivered: Option<u64>,
    /// Rates at which the last rounds arrived, and the index of the oldest.
    recent: [u64; REMEMBERED],
    oldest: usize,
    /// True while the rate doubles, as no round has arrived slower than it was sent; else it follows the rate of arrivals.
    is_rising: bool,
    /// Length of a train while the rate is unknown.
    train: u64,
    /// Time up to which departures have used the rate.
    paid_at: Nanos,
    /// Time before which nothing leaves.
    closed_until: Option<Nanos>,
    /// True if there was nothing to send: idle time is not compensated.
    is_idle: bool,
}

impl Pace {
    pub(super) fn new(origin: RateSource) -> Pace {
        let rate = match origin {
            RateSource::Fixed(rate) => Some(rate.0.clamp(LEAST, MOST)),
            RateSource::Probe => None,
        };
        Pace {
            origin,
            rate,
            delivered: None,
            recent: [0; REMEMBERED],
            oldest: 0,
            is_rising: true,
            train: TRAIN,
            paid_at: Nanos::ZERO,
            closed_until: None,
            is_idle: true,
        }
    }

    pub(super) fn origin(&self) -> RateSource {
        self.origin
    }

    /// Returns the rate in bits of IP packets per second; `None` while unknown.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Returns the rate at which the last measured round arrived.
    pub(super) fn delivered(&self) -> Option<u64> {
        self.delivered
    }

    /// Returns the most datagrams that may be under way without an answer; `None` for any number.
    pub(super) fn train(&self) -> Option<u64> {
        self.rate.is_none().then_some(self.train)
    }

    /// Returns the most bytes of IP packets in a round, if a packet has `packet`: a train while the rate is unknown.
    pub(super) fn round(&self, packet: u64) -> u64 {
        let (least, train) = (TRAIN * packet, self.train.saturating_mul(packet));
        self.rate.map_or(train, |rate| bytes_in(ROUND, rate)).max(least)
    }

    /// Returns true if a datagram may leave at `now`.
    pub(super) fn is_open(&mut self, now: Nanos) -> bool {
        let Some(rate) = self.rate else { return true };
        if self.closed_until.is_some_and(|at| now < at) {
            return false;
        }
        let tick = TICK.min(time_of(BATCH, rate));
        let is_full = self.paid_at >= now + tick;
        self.closed_until = is_full.then_some(self.paid_at);
        !is_full
    }

    /// Returns the time at which more may leave, if the rate is the limit.
    pub(super) fn opens_at(&self) -> Option<Nanos> {
        self.closed_until
    }

    /// Notes that the timer has fired. The caller asks for datagrams next.
    pub(super) fn on_timer(&mut self, now: Nanos) {
        self.closed_until = self.closed_until.filter(|at| now < *at);
    }

    /// Notes that a packet of `bytes` leaves at `now`.
    pub(super) fn spend(&mut self, now: Nanos, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let least = if self.is_idle { now } else { now - LATE };
        self.is_idle = false;
        self.paid_at = self.paid_at.max(least) + time_of(bytes, rate);
    }

    /// Notes that there is nothing to send.
    pub(super) fn rest(&mut self) {
        self.is_idle = true;
    }

    /// Learns from a round of `sent` datagrams, which left at `rate` and arrived as in `census`; `headers` is the
    /// number of bytes in front of the stream's.
    pub(super) fn learn(&mut self, sent: u64, rate: Option<u64>, census: &Census, headers: u64) {
        if sent < TRAIN {
            return;
        }
        let later = u64::from(census.later);
        let bytes = later.saturating_mul(headers).saturating_add(census.bytes);
        let bits = u128::from(bytes) * 8_000_000_000;
        let received = bits.checked_div(u128::from(census.span.0)).filter(|received| *received > 0);
        let Some(received) =
            received.map(|received| u64::try_from(received).unwrap_or(MOST).min(MOST))
        else {
            self.train = (2 * self.train).min(LONGEST_TRAIN);
            return;
        };
        let received = rate.map_or(received, |rate| received.min(rate));
        self.delivered = Some(received);
        if self.origin != RateSource::Probe {
            return;
        }
        if rate.is_some_and(|rate| received < rate - rate / 8) {
            self.is_rising = false;
        }
        self.recent[self.oldest] = received;
        self.oldest = (self.oldest + 1) % REMEMBERED;
        let fastest = self.recent.into_iter().max().unwrap_or(received);
        let next = match (self.is_rising, rate) {
            (true, Some(_)) => received.saturating_mul(2),
            // A train arrives at the rate of the path.
            (true, None) => received,
            (false, _) => fastest + fastest / 8,
        };
        self.rate = Some(next.clamp(LEAST, MOST));
    }
}

/// Returns the time that `bytes` take at `rate`, rounded up.
fn time_of(bytes: u64, rate: u64) -> Nanos {
    let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate));
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX / 4).min(u64::MAX / 4))
}

fn bytes_in(time: Nanos, rate: u64) -> u64 {
    u64::try_from(u128::from(time.0) * u128::from(rate) / 8_000_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1_500;

    /// Returns the bytes that have left by each of `times`, in nanoseconds, if there is always data to send.
    fn left(pace: &mut Pace, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut bytes = 0;
        let at = |ns| {
            while pace.is_open(Nanos(ns)) {
                pace.spend(Nanos(ns), PACKET);
                bytes += PACKET;
            }
            bytes
        };
        times.map(at).collect()
    }

    #[test]
    fn batches_leave_at_their_deadlines_and_keep_the_rate() {
        let mut pace = Pace::new(RateSource::Fixed(BitRate(120_000_000)));
        // 15,000 bytes a millisecond: ten packets, then nothing before the next.
        let start = 5_000_000_000;
        assert_eq!(left(&mut pace, [start, start + 500_000].into_iter()), [15_000, 15_000]);
        assert_eq!(pace.opens_at(), Some(Nanos(start + 1_000_000)));
        let ticks = (1..1_000).map(|ms| start + ms * 1_000_000);
        assert_eq!(left(&mut pace, ticks).last(), Some(&(999 * 15_000)));
        // Four ticks late: compensated. A second late: ten milliseconds of it are.
        assert_eq!(left(&mut pace, [start + 1_004_000_000].into_iter()), [5 * 15_000]);
        let burst = left(&mut pace, [start + 2_000_000_000].into_iter())[0];
        assert_eq!(burst, 11 * 15_000);
        // Idle for a second: nothing to compensate.
        pace.rest();
        assert_eq!(left(&mut pace, [start + 3_000_000_000].into_iter()), [15_000]);
    }

    #[test]
    fn a_fast_rate_leaves_in_batches_that_a_socket_has_room_for() {
        let mut pace = Pace::new(RateSource::Fixed(BitRate(100_000_000_000)));
        let batch = left(&mut pace, [1_000_000_000].into_iter())[0];
        assert!((BATCH..BATCH + 2 * PACKET).contains(&batch), "{batch}");
    }

    fn census(packets: u64, rate: u64) -> Census {
        let span = time_of(packets * PACKET, rate);
        Census { round: 1, later: packets as u32, bytes: packets * (PACKET - 52), span }
    }

    #[test]
    fn a_probe_takes_the_rate_of_its_first_train_doubles_and_then_follows() {
        let mut pace = Pace::new(RateSource::Probe);
        assert_eq!((pace.rate(), pace.train()), (None, Some(TRAIN)));
        // A handful of datagrams gives no rate, and a train that took no time only leads to a longer one.
        pace.learn(TRAIN - 1, None, &census(30, 10_000_000), 52);
        pace.learn(TRAIN, None, &Census::default(), 52);
        assert_eq!((pace.rate(), pace.train()), (None, Some(2 * TRAIN)));
        pace.learn(64, None, &census(60, 10_000_000), 52);
        assert_eq!((pace.rate(), pace.train()), (Some(10_000_000), None));
        // As fast as it was sent: twice that. No receiver can report more.
        pace.learn(64, Some(10_000_000), &census(60, 10_000_000), 52);
        assert_eq!(pace.rate(), Some(20_000_000));
        pace.learn(64, Some(20_000_000), &census(60, 90_000_000), 52);
        assert_eq!((pace.rate(), pace.delivered()), (Some(40_000_000), Some(20_000_000)));
        // Slower than it was sent: an eighth more than it arrived, from here on.
        pace.learn(64, Some(40_000_000), &census(60, 24_000_000), 52);
        assert_eq!(pace.rate(), Some(27_000_000));
        pace.learn(64, Some(27_000_000), &census(60, 27_000_000), 52);
        let rate = pace.rate().unwrap();
        assert!((30_374_000..=30_375_000).contains(&rate), "{rate}");
    }

    #[test]
    fn chance_losses_of_less_than_a_ninth_do_not_slow_a_probe_down() {
        // (9/8 of 0.95)^20 and of 0.9; and twice 0.9 in twenty rounds.
        for (loss, after) in [(5, 3.7..3.8), (10, 1.27..1.29), (20, 0.8..0.82)] {
            let mut pace = Pace::new(RateSource::Probe);
            (pace.rate, pace.is_rising) = (Some(100_000_000), false);
            for _ in 0..20 {
                let rate = pace.rate;
                pace.learn(100, rate, &census(100, rate.unwrap() * (100 - loss) / 100), 52);
            }
            let times = pace.rate().unwrap() as f64 / 1e8;
            assert!(after.contains(&times), "{loss} %: {times}");
        }
    }

    #[test]
    fn nonsense_of_a_peer_stays_within_bounds() {
        let mut pace = Pace::new(RateSource::Probe);
        let absurd = Census { round: 1, later: u32::MAX, bytes: u64::MAX / 2, span: Nanos(1) };
        pace.learn(100, None, &absurd, u64::MAX);
        assert_eq!(pace.rate(), Some(MOST));
        pace.learn(100, Some(MOST), &Census { bytes: 1, span: Nanos(u64::MAX / 2), ..absurd }, 0);
        assert_eq!(pace.delivered(), Some(MOST));
        let crawling = Census { later: 1, bytes: 1_000, span: Nanos::from_secs(1), round: 1 };
        for _ in 0..=REMEMBERED {
            pace.learn(100, Some(MOST), &crawling, 0);
        }
        assert_eq!(pace.rate(), Some(LEAST));
    }

    #[test]
    fn a_rate_that_was_given_stays() {
        let mut pace = Pace::new(RateSource::Fixed(BitRate(50_000_000)));
        pace.learn(100, Some(50_000_000), &census(90, 10_000_000), 52);
        assert_eq!((pace.rate(), pace.delivered()), (Some(50_000_000), Some(10_000_000)));
    }
}

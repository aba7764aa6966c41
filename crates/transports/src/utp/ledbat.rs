//! LEDBAT, the congestion controller of RFC 6817, without a clock: a window that grows while the queueing delay is
//! below a target, and shrinks while it is above. Names and formulas are from its section 2.4.2.

use deadheat_base::time::Nanos;

/// Growth of the window without a queue, in segments per round trip: 1 is the most that is allowed (2.5).
const GAIN: f64 = 1.0;

/// Segments by which the window may exceed the bytes under way (2.5).
const ALLOWED_INCREASE: f64 = 1.0;

/// Segments of the first window, and of the least window that acknowledgements leave (2.5).
const INIT_CWND: f64 = 2.0;
const MIN_CWND: f64 = 2.0;

/// Minutes for which the least delay is stored (2.5).
const BASE_HISTORY: usize = 10;

/// Delays of one round trip of which the least is the current one, fewer if fewer arrived (2.5).
const CURRENT_FILTER: usize = 4;

/// Length of an entry of the history.
const MINUTE: Nanos = Nanos::from_secs(60);

/// Delay before anything was measured.
const NONE: i64 = i64::MAX;

/// Delays in one direction, as the peer measured them, in microseconds.
///
/// A delay is the difference of two clocks that need not agree, modulo 2^32. Only differences of delays are meaningful,
/// so each is relative to the first; differences of up to 35 minutes are unambiguous.
#[derive(Debug)]
struct Delays {
    first: Option<u32>,
    /// Least delay of each of the last minutes that had any, the latest last.
    base: [i64; BASE_HISTORY],
    /// Number of the minute of the last entry.
    minute: Option<u64>,
    /// Latest delays with the times of their arrival, the latest last.
    current: [(Nanos, i64); CURRENT_FILTER],
}

impl Delays {
    fn new() -> Delays {
        let (base, current) = ([NONE; BASE_HISTORY], [(Nanos::ZERO, NONE); CURRENT_FILTER]);
        Delays { first: None, base, minute: None, current }
    }

    /// Adds a delay. Delays a round trip older, or more, are outdated.
    fn note(&mut self, now: Nanos, sample: u32, round_trip: Nanos) {
        let first = *self.first.get_or_insert(sample);
        let delay = i64::from(sample.wrapping_sub(first) as i32);
        let minute = now.0 / MINUTE.0;
        if self.minute != Some(minute) {
            self.minute = Some(minute);
            self.base.rotate_left(1);
            self.base[BASE_HISTORY - 1] = delay;
        }
        let latest = &mut self.base[BASE_HISTORY - 1];
        *latest = delay.min(*latest);
        self.current.rotate_left(1);
        self.current[CURRENT_FILTER - 1] = (now, delay);
        for (_, old) in self.current.iter_mut().filter(|(at, _)| now - *at > round_trip) {
            *old = NONE;
        }
    }

    /// Returns the excess of the current delay over the least one, in microseconds.
    fn queueing(&self) -> i64 {
        let current = self.current.iter().map(|(_, delay)| *delay).min().unwrap_or(NONE);
        let base = self.base.iter().copied().min().unwrap_or(NONE);
        current.saturating_sub(base).max(0)
    }
}

/// Measurements of an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckSample {
    /// Delay in one direction in microseconds, by two clocks.
    pub(super) delay: u32,
    /// Round trip, smoothed.
    pub(super) round_trip: Nanos,
}

/// Congestion controller.
#[derive(Debug)]
pub(super) struct Ledbat {
    /// Target of the queueing delay, in microseconds.
    target: f64,
    /// Largest number of bytes of a packet.
    segment: f64,
    /// Congestion window in bytes.
    window: f64,
    delays: Delays,
    /// Time of the last reaction to a loss.
    reacted: Option<Nanos>,
}

impl Ledbat {
    pub(super) fn new(target: Nanos, segment: u64) -> Ledbat {
        let segment = segment.max(1) as f64;
        let window = INIT_CWND * segment;
        let target = (target.0.max(1_000) / 1_000) as f64;
        Ledbat { target, segment, window, delays: Delays::new(), reacted: None }
    }

    /// Returns the congestion window in bytes.
    pub(super) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Handles an acknowledgement of `bytes`, before which `flight` bytes were sent and not acknowledged, with its
    /// measurements.
    pub(super) fn acknowledged(&mut self, now: Nanos, sample: AckSample, flight: u64, bytes: u64) {
        self.delays.note(now, sample.delay, sample.round_trip);
        let off_target = (self.target - self.delays.queueing() as f64) / self.target;
        let change = GAIN * off_target * bytes as f64 * self.segment / self.window;
        let allowed = flight as f64 + ALLOWED_INCREASE * self.segment;
        self.window = (self.window + change).min(allowed).max(MIN_CWND * self.segment);
    }

    /// Handles the loss of a packet that left at `left`: halves the window, once a round trip. Packets that left before
    /// the last reaction belong to the same loss. Returns true if it halved the window.
    pub(super) fn lost(&mut self, now: Nanos, left: Nanos) -> bool {
        if self.reacted.is_some_and(|reacted| left <= reacted) {
            return false;
        }
        self.reacted = Some(now);
        self.window = self.window.min((self.window / 2.0).max(MIN_CWND * self.segment));
        true
    }

    /// Handles a congestion timeout, within which nothing was acknowledged: the window becomes one segment.
    pub(super) fn timed_out(&mut self, now: Nanos) {
        self.reacted = Some(now);
        self.window = self.segment;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const SEGMENT: u64 = 1_000;

    const ROUND_TRIP: Nanos = Nanos::from_millis(50);

    /// A delay in microseconds.
    fn sample(delay: u32) -> AckSample {
        AckSample { delay, round_trip: ROUND_TRIP }
    }

    fn ledbat() -> Ledbat {
        Ledbat::new(MS(100), SEGMENT)
    }

    /// Acknowledges a window, segment by segment, each with this delay in milliseconds.
    fn round(ledbat: &mut Ledbat, now: Nanos, delay: u32) {
        let flight = ledbat.window();
        for _ in 0..flight / SEGMENT {
            ledbat.acknowledged(now, sample(delay * 1_000), flight, SEGMENT);
        }
    }

    #[test]
    fn without_a_queue_the_window_grows_by_a_segment_each_round_trip() {
        let mut ledbat = ledbat();
        assert_eq!(ledbat.window(), 2 * SEGMENT);
        // One acknowledgement: GAIN * 1 * bytes * MSS / cwnd.
        ledbat.acknowledged(MS(50), sample(7_000), 2_000, 1_000);
        assert_eq!(ledbat.window, 2_000.0 + 1_000.0 * 1_000.0 / 2_000.0);
        for n in 1..=100 {
            round(&mut ledbat, MS(50 * n), 7);
        }
        let segments = ledbat.window / 1_000.0;
        assert!((95.0..=102.5).contains(&segments), "{segments}");
    }

    #[test]
    fn at_half_of_the_target_it_grows_half_as_fast_at_the_target_not_and_above_it_shrinks() {
        for (delay, change) in [(0, 1.0), (50, 0.5), (100, 0.0), (150, -0.5), (300, -2.0)] {
            let mut ledbat = ledbat();
            ledbat.acknowledged(MS(1), sample(1_000), 0, 0);
            ledbat.window = 100_000.0;
            // As many samples as the filter has, without bytes.
            for _ in 0..CURRENT_FILTER {
                ledbat.acknowledged(MS(2), sample(1_000 + 1_000 * delay), 100_000, 0);
            }
            assert_eq!(ledbat.window, 100_000.0, "no bytes, no change");
            ledbat.acknowledged(MS(3), sample(1_000 + 1_000 * delay), 100_000, 1_000);
            // bytes_newly_acked * MSS / cwnd is 10 bytes.
            assert!((ledbat.window - 100_000.0 - 10.0 * change).abs() < 1e-9, "{delay} ms");
        }
    }

    #[test]
    fn the_current_delay_is_the_least_of_four() {
        let mut delays = Delays::new();
        for (sample, queueing) in
            [(10, 0), (90, 0), (80, 0), (70, 0), (60, 50), (85, 50), (95, 50), (95, 50), (95, 75)]
        {
            delays.note(MS(1), sample, ROUND_TRIP);
            assert_eq!(delays.queueing(), queueing, "after {sample}");
        }
    }

    #[test]
    fn what_came_more_than_a_round_trip_ago_is_not_current() {
        let mut delays = Delays::new();
        for (at, sample, queueing) in
            [(0, 10, 0), (30, 90, 0), (50, 80, 0), (51, 70, 60), (90, 95, 60), (102, 90, 80)]
        {
            delays.note(MS(1_000 + at), sample, ROUND_TRIP);
            assert_eq!(delays.queueing(), queueing, "after {at} ms");
        }
    }

    #[test]
    fn the_base_is_the_least_of_ten_minutes() {
        let mut delays = Delays::new();
        let queueing = |delays: &mut Delays, minute: u64, sample: u32| {
            delays.note(Nanos::from_secs(60 * minute), sample, ROUND_TRIP);
            delays.queueing()
        };
        assert_eq!(queueing(&mut delays, 3, 500), 0);
        // The route is longer from now on. For nine more minutes it counts as a queue.
        for minute in 4..=12 {
            assert_eq!(queueing(&mut delays, minute, 800), 300, "minute {minute}");
        }
        assert_eq!(queueing(&mut delays, 13, 800), 0);
        // A shorter one counts at once.
        assert_eq!(queueing(&mut delays, 14, 200), 0);
        assert_eq!(queueing(&mut delays, 15, 260), 60);
    }

    #[test]
    fn clocks_need_not_agree_and_may_wrap() {
        for first in [0, 5, u32::MAX - 20_000, 1 << 31] {
            let mut delays = Delays::new();
            delays.note(MS(1), first, ROUND_TRIP);
            for _ in 0..CURRENT_FILTER {
                delays.note(MS(2), first.wrapping_add(40_000), ROUND_TRIP);
            }
            assert_eq!(delays.queueing(), 40_000, "from {first}");
            delays.note(MS(3), first.wrapping_sub(10_000), ROUND_TRIP);
            for _ in 0..CURRENT_FILTER {
                delays.note(MS(4), first, ROUND_TRIP);
            }
            assert_eq!(delays.queueing(), 10_000, "from {first}");
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut ledbat = ledbat();
        for n in 0..1_000 {
            ledbat.acknowledged(MS(n), sample(0), 4_000, 1_000);
        }
        // flightsize + ALLOWED_INCREASE * MSS.
        assert_eq!(ledbat.window(), 5_000);
        ledbat.acknowledged(MS(1_000), sample(0), 100, 100);
        assert_eq!(ledbat.window(), 2_000);
    }

    #[test]
    fn losses_of_one_round_trip_halve_the_window_once() {
        let mut ledbat = ledbat();
        ledbat.window = 40_000.0;
        for (now, left, reaction, window) in [
            (100, 50, true, 20_000),
            (100, 60, false, 20_000),
            (120, 100, false, 20_000),
            (150, 101, true, 10_000),
            (200, 160, true, 5_000),
            (250, 210, true, 2_500),
            (300, 260, true, 2_000),
            (350, 310, true, 2_000),
        ] {
            assert_eq!((ledbat.lost(MS(now), MS(left)), ledbat.window()), (reaction, window));
        }
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_the_next_acknowledgement_two() {
        let mut ledbat = ledbat();
        ledbat.window = 40_000.0;
        ledbat.timed_out(MS(1_000));
        assert_eq!(ledbat.window(), SEGMENT);
        // A loss leaves the least window as it is, and does not raise it.
        assert!(ledbat.lost(MS(1_100), MS(1_050)));
        assert_eq!(ledbat.window(), SEGMENT);
        ledbat.acknowledged(MS(1_200), sample(0), SEGMENT, SEGMENT);
        assert_eq!(ledbat.window(), 2 * SEGMENT);
    }

    #[test]
    fn nonsense_of_a_peer_stays_within_bounds() {
        let mut ledbat = ledbat();
        let mut noise = 1_u32;
        for n in 0..10_000 {
            noise = noise.wrapping_mul(0x9e37_79b1).wrapping_add(n);
            ledbat.acknowledged(MS(u64::from(n)), sample(noise), 50_000, 50_000);
            assert!((2_000..=51_000).contains(&ledbat.window()), "{}", ledbat.window());
        }
    }
}

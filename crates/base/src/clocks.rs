//! Clocks of two hosts: a map between their monotonic clocks, and the state of one host's clocks.

use serde::{Deserialize, Serialize};

use crate::time::{Clock, Monotonic, Nanos, Realtime, read};

/// Map from one clock to another that runs at a slightly other rate: a straight line through a pair of equal times.
///
/// Times before the beginning of the other clock become its zero, so that nothing underflows, however far the clocks
/// are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockMap {
    /// A time on the first clock.
    pub from_ns: Nanos,
    /// The same time on the second clock.
    pub to_ns: Nanos,
    /// Rate at which the second clock gains on the first, in parts per million.
    pub gain_ppm: f64,
}

/// Largest difference between the rates of two clocks, in parts per million. Quartz is good to 100, and ntpd(8) steers
/// by at most 500 on each side.
pub const LARGEST_GAIN_PPM: f64 = 2_000.0;

impl ClockMap {
    /// Map of a clock to itself.
    pub const SAME: ClockMap = ClockMap { from_ns: Nanos::ZERO, to_ns: Nanos::ZERO, gain_ppm: 0.0 };

    /// Returns true if both rates are of clocks: a map from a peer may be anything.
    pub fn is_plausible(&self) -> bool {
        self.gain_ppm.abs() <= LARGEST_GAIN_PPM
    }

    /// Returns the time on the second clock when the first one shows `time`.
    #[inline]
    pub fn apply(&self, time: Nanos) -> Nanos {
        let past = time.signed_since(self.from_ns);
        let gained = (past as f64 * self.gain_ppm * 1e-6).round() as i64;
        let mapped = i128::from(self.to_ns.0) + i128::from(past) + i128::from(gained);
        Nanos(mapped.clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// Returns the map from the second clock to the first.
    #[must_use]
    pub fn inverse(&self) -> ClockMap {
        let gain_ppm = -self.gain_ppm / (1.0 + self.gain_ppm * 1e-6);
        ClockMap { from_ns: self.to_ns, to_ns: self.from_ns, gain_ppm }
    }

    /// Returns the map from this one's first clock to the second clock of `next`.
    #[must_use]
    pub fn then(&self, next: &ClockMap) -> ClockMap {
        let both = (1.0 + self.gain_ppm * 1e-6) * (1.0 + next.gain_ppm * 1e-6);
        let gain_ppm = (both - 1.0) * 1e6;
        ClockMap { from_ns: self.from_ns, to_ns: next.apply(self.to_ns), gain_ppm }
    }
}

/// State of a host's clocks at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostClock {
    /// Lead of the time of day (`CLOCK_REALTIME`) over the monotonic clock, in nanoseconds.
    pub realtime_ahead_ns: i64,
    /// Time for which the host was suspended since its start: the lead of `CLOCK_BOOTTIME` over the monotonic clock.
    pub suspended_ns: u64,
    /// Error of the two figures above: both clocks were read within this time.
    pub read_within_ns: u64,
    /// Largest error of the time of day, as the kernel knows it from a daemon that disciplines the clock (NTP or PTP,
    /// adjtimex(2)); absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_error_ns: Option<u64>,
}

/// Change of a host's clocks during a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockStep {
    /// The time of day was set, by this number of nanoseconds.
    Set(i64),
    /// The host was suspended.
    Suspended(Nanos),
}

/// Smallest step of the time of day that counts, beyond the error of the readings: leads of two readings on an idle
/// host differ by 0.1 µs.
const SMALLEST_STEP: u64 = 5_000;
/// Shortest suspension that counts.
const SHORTEST_SUSPENSION: u64 = 1_000_000;

impl HostClock {
    /// Reads the clocks of this host.
    pub fn read() -> HostClock {
        let sample = |_| {
            let (before, real) = (Monotonic.now(), Realtime.now());
            let (boot, after) = (read(libc::CLOCK_BOOTTIME), Monotonic.now());
            let within = after - before;
            let middle = Nanos(before.0 + within.0 / 2);
            let suspended = boot.map_or(0, |boot| boot.signed_since(middle).max(0) as u64);
            (within.0, real.signed_since(middle), suspended)
        };
        // The reading with the shortest interruption.
        let (read_within_ns, realtime_ahead_ns, suspended_ns) =
            (0..5).map(sample).min().unwrap_or_default();
        HostClock {
            realtime_ahead_ns,
            suspended_ns,
            read_within_ns,
            kernel_error_ns: kernel_error(),
        }
    }

    /// Returns the change of the clocks since an `earlier` reading, if there was one.
    pub fn changed_since(&self, earlier: &HostClock) -> Option<ClockStep> {
        let blur = self.read_within_ns.saturating_add(earlier.read_within_ns);
        let suspended = self.suspended_ns.saturating_sub(earlier.suspended_ns);
        if suspended > blur.saturating_add(SHORTEST_SUSPENSION) {
            return Some(ClockStep::Suspended(Nanos(suspended)));
        }
        let step = self.realtime_ahead_ns.saturating_sub(earlier.realtime_ahead_ns);
        (step.unsigned_abs() > blur.saturating_add(SMALLEST_STEP)).then_some(ClockStep::Set(step))
    }
}

/// Returns the largest error of the time of day (adjtimex(2)); `None` unless a daemon disciplines the clock.
fn kernel_error() -> Option<u64> {
    // SAFETY: an all-zero timex is valid, and asks to change nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a valid timex to read from and write to.
    let condition = unsafe { libc::adjtimex(&mut state) };
    let is_disciplined = condition >= 0
        && condition != libc::TIME_ERROR
        && state.status & (libc::STA_UNSYNC | libc::STA_CLOCKERR) == 0;
    let error_us = u64::try_from(state.maxerror).ok().filter(|_| is_disciplined)?;
    Some(error_us.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;
    const YEAR: u64 = 8_766 * HOUR;

    #[test]
    fn clocks_years_apart_map_both_ways_without_an_underflow() {
        for (from, to) in [(YEAR, HOUR), (HOUR, YEAR), (40 * YEAR, 1), (1, 40 * YEAR)] {
            let map = ClockMap { from_ns: Nanos(from), to_ns: Nanos(to), gain_ppm: 100.0 };
            let later = Nanos(from + HOUR);
            assert_eq!(map.apply(later), Nanos(to + HOUR + HOUR / 10_000), "{from} {to}");
            let back = map.inverse().apply(map.apply(later));
            assert!(back.signed_since(later).abs() <= 1, "{from} {to}: {back:?}");
        }
        let map = ClockMap { from_ns: Nanos(YEAR), to_ns: Nanos(5), gain_ppm: 0.0 };
        assert_eq!(map.apply(Nanos(HOUR)), Nanos::ZERO, "before the other clock began");
        let map = ClockMap { from_ns: Nanos(5), to_ns: Nanos(u64::MAX), gain_ppm: 1e300 };
        assert_eq!(map.apply(Nanos(HOUR)), Nanos(u64::MAX));
        assert!(!map.is_plausible() && !ClockMap { gain_ppm: f64::NAN, ..map }.is_plausible());
    }

    #[test]
    fn two_maps_in_a_row_are_one() {
        let skew = ClockMap { from_ns: Nanos(HOUR), to_ns: Nanos(YEAR), gain_ppm: 100.0 };
        let later = Nanos(HOUR + 60_000_000_000);
        let undone = skew.then(&skew.inverse()).apply(later);
        assert!(undone.signed_since(later).abs() <= 1, "{undone:?}");
        let twice = skew.then(&ClockMap { gain_ppm: -50.0, ..ClockMap::SAME });
        let stepwise = ClockMap { gain_ppm: -50.0, ..ClockMap::SAME }.apply(skew.apply(later));
        assert!(twice.apply(later).signed_since(stepwise).abs() <= 1);
    }

    #[test]
    fn a_step_and_a_suspension_are_seen_and_slow_readings_are_not() {
        let before = HostClock { realtime_ahead_ns: 77, ..HostClock::default() };
        let set = HostClock { realtime_ahead_ns: 77 - 10_000, ..before };
        assert_eq!(set.changed_since(&before), Some(ClockStep::Set(-10_000)));
        let blurred = HostClock { read_within_ns: 8_000, ..set };
        assert_eq!(blurred.changed_since(&before), None);
        let slept = HostClock { suspended_ns: 2_000_000_000, ..before };
        assert_eq!(slept.changed_since(&before), Some(ClockStep::Suspended(Nanos::from_secs(2))));
        assert_eq!(HostClock::read().changed_since(&HostClock::read()), None);
    }
}

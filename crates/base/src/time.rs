//! Points and spans of time in integer nanoseconds, and clocks to read them from.
//!
//! Code that reasons about time takes it as an argument; only the driver and `cli` own a [`Clock`].

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Nanoseconds: a point on a monotonic clock, or a span between two.
///
/// 64 bits last 584 years. Subtraction saturates at zero, because a span is never negative;
/// use [`Nanos::signed_since`] where order is not known.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero time.
    pub const ZERO: Nanos = Nanos(0);

    /// Returns a span in microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// Returns a span in milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// Returns a span in seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// Returns the span in seconds, for display and rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns `self - earlier` in nanoseconds, negative if `earlier` is later.
    pub fn signed_since(self, earlier: Nanos) -> i64 {
        self.0.wrapping_sub(earlier.0) as i64
    }

    /// Returns the point `span` later, at most the end of time.
    pub const fn saturating_add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, span: Nanos) -> Nanos {
        self.saturating_add(span)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl fmt::Display for Nanos {
    /// Writes three significant digits in a suitable unit: `12.3 µs`, `1.00 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// A source of monotonic time.
pub trait Clock {
    /// Returns the present, on a clock that never steps back.
    fn now(&self) -> Nanos;

    /// Waits for `span`, or a little longer. Virtual time advances by itself.
    fn pass(&self, span: Nanos) {
        std::thread::sleep(span.into());
    }
}

/// Returns a time of day in milliseconds since the Unix epoch; 0 before it.
pub fn epoch_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Reads a clock of the kernel (clock_gettime(2)); `None` if there is no clock with this number.
#[inline]
pub fn read(clock: libc::clockid_t) -> Option<Nanos> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec to write to; the call fails for an unknown clock.
    let known = unsafe { libc::clock_gettime(clock, &mut ts) == 0 };
    known.then_some(Nanos(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64))
}

/// `CLOCK_MONOTONIC`, the clock of real trials. One read costs about 20 ns through the vDSO.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Nanos {
        read(libc::CLOCK_MONOTONIC).unwrap_or_default()
    }
}

/// `CLOCK_REALTIME`, in nanoseconds since 1970: the clock of the kernel's packet stamps. It may be stepped, so spans on
/// it are valid only if [`Realtime::ahead_of_monotonic`] is unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Realtime;

impl Realtime {
    /// Returns the lead of this clock over [`Monotonic`], in nanoseconds, to about 0.1 µs. Both run at the same rate,
    /// so this changes only when the time of day is set.
    pub fn ahead_of_monotonic() -> i64 {
        let sample = |_| {
            let (before, real, after) = (Monotonic.now(), Realtime.now(), Monotonic.now());
            let middle = Nanos(before.0 + (after - before).0 / 2);
            (after - before, real.signed_since(middle))
        };
        // The reading with the shortest interruption.
        (0..5).map(sample).min().map_or(0, |(_, ahead)| ahead)
    }

    /// Returns the time of this clock at `at` of [`Monotonic`]. A thread that is stopped between two readings, as one
    /// is on a busy host, does not move it.
    pub fn when(at: Nanos) -> Nanos {
        Nanos(at.0.saturating_add_signed(Realtime::ahead_of_monotonic()))
    }
}

impl Clock for Realtime {
    #[inline]
    fn now(&self) -> Nanos {
        read(libc::CLOCK_REALTIME).unwrap_or_default()
    }
}

/// Virtual time, which moves only by [`Manual::advance_to`]. Clones share the same present.
#[derive(Debug, Clone, Default)]
pub struct Manual(Arc<AtomicU64>);

impl Manual {
    /// Moves the present forward to `to`; a clock never steps back.
    pub fn advance_to(&self, to: Nanos) {
        self.0.fetch_max(to.0, Ordering::Relaxed);
    }
}

impl Clock for Manual {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }

    fn pass(&self, span: Nanos) {
        self.advance_to(self.now() + span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_keeps_three_digits() {
        let shown = [0, 999, 1_234, 12_345, 123_456, 1_000_000, 2_500_000_000]
            .map(|ns| Nanos(ns).to_string());
        assert_eq!(shown, ["0 ns", "999 ns", "1.23 µs", "12.3 µs", "123 µs", "1.00 ms", "2.50 s"]);
    }

    #[test]
    fn spans_saturate_and_signed_spans_do_not() {
        assert_eq!(Nanos(3) - Nanos(5), Nanos::ZERO);
        assert_eq!(Nanos(3).signed_since(Nanos(5)), -2);
    }

    #[test]
    fn the_two_clocks_run_side_by_side() {
        let ahead = Realtime::ahead_of_monotonic();
        let again = Realtime.now().signed_since(Monotonic.now());
        // Between the two readings lies what a loaded machine lets pass.
        assert!((again - ahead).abs() < 1_000_000_000, "{ahead} and {again}");
    }

    #[test]
    fn virtual_time_never_steps_back() {
        let clock = Manual::default();
        let same = clock.clone();
        clock.advance_to(Nanos(7));
        clock.advance_to(Nanos(5));
        assert_eq!(same.now(), Nanos(7));
    }
}

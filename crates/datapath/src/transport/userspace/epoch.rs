//! Clock of libraries that take [`Instant`]s, beside ours.

use std::time::{Duration, Instant};

use deadheat_base::time::Nanos;

/// Moment on both clocks, from the first use on. Only distances from it are converted, so virtual time stays
/// virtual.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epoch(Option<(Nanos, Instant)>);

impl Epoch {
    /// Creates an epoch in which `now` is the library's `instant`.
    pub fn at(now: Nanos, instant: Instant) -> Epoch {
        Epoch(Some((now, instant)))
    }

    /// Returns `now` on the library's clock.
    pub fn instant(&mut self, now: Nanos) -> Instant {
        let (began, instant) = *self.0.get_or_insert_with(|| (now, Instant::now()));
        instant + Duration::from(now - began)
    }

    /// Returns `instant` on our clock; `None` before the first use.
    pub fn nanos(&self, instant: Instant) -> Option<Nanos> {
        let (began, epoch) = self.0?;
        let since = instant.saturating_duration_since(epoch).as_nanos();
        Some(began + Nanos(u64::try_from(since).unwrap_or(u64::MAX)))
    }
}

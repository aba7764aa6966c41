//! Comparison of two hosts' clocks at one time, and what it says of a line through several.

use deadheat_base::clocks::HostClock;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::ClockSource;
use deadheat_contract::measurements::clock::{ClockLine, Echo};

/// Largest difference of the two clocks' rates that is no step: NTP may slew either clock by 500 ppm.
const MOST_DRIFT_PPM: f64 = 1_000.0;

/// Comparison of both hosts' clocks at one time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClockReading {
    pub(super) echoes: Vec<Echo>,
    /// States of the clocks of both hosts.
    pub(super) near: HostClock,
    pub(super) far: HostClock,
}

impl ClockReading {
    pub(super) fn fastest(&self) -> Option<&Echo> {
        self.echoes.iter().min_by_key(|echo| echo.round_trip())
    }

    /// Returns far minus near by the times of day, in nanoseconds, and its bound, if daemons discipline both clocks.
    fn by_kernels(&self) -> Option<(i64, u64)> {
        let errors = self.near.kernel_error_ns?.saturating_add(self.far.kernel_error_ns?);
        let blur = self.near.read_within_ns.saturating_add(self.far.read_within_ns);
        let offset = self.near.realtime_ahead_ns.saturating_sub(self.far.realtime_ahead_ns);
        Some((offset, errors.saturating_add(blur)))
    }
}

/// Returns the bound on the error of the line by one comparison, and its source.
pub(super) fn bound(line: &ClockLine, reading: &ClockReading) -> (u64, ClockSource) {
    let echoes = reading.echoes.iter().map(|echo| line.error_by(echo)).min().unwrap_or(u64::MAX);
    let at = reading.fastest().map_or(line.at, |echo| Nanos(echo.near_received));
    let kernels = reading.by_kernels().map(|(offset, bound)| {
        offset.saturating_sub(line.offset_at(at)).unsigned_abs().saturating_add(bound)
    });
    match kernels.filter(|kernels| *kernels < echoes) {
        Some(kernels) => (kernels, ClockSource::Kernel),
        None => (echoes, ClockSource::Echoes),
    }
}

/// Moves a line into the bound of the kernels, if theirs is tighter than that of the echoes, and does not contradict it.
pub(super) fn within_kernels(line: ClockLine, reading: &ClockReading) -> ClockLine {
    let by_echoes = reading.echoes.iter().map(|echo| line.error_by(echo)).min();
    let (Some((offset, bound)), Some(by_echoes)) = (reading.by_kernels(), by_echoes) else {
        return line;
    };
    let off = line.offset_ns.saturating_sub(offset);
    if bound >= by_echoes || off.unsigned_abs() > bound.saturating_add(by_echoes) {
        return line;
    }
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    ClockLine { offset_ns: offset.saturating_add(off.clamp(-bound, bound)), ..line }
}

/// Returns the reason why a trial is invalid if the comparisons before and after it cannot be of two steady clocks.
pub(super) fn contradiction(
    line: &ClockLine,
    far: &str,
    first: &Echo,
    last: &Echo,
) -> Option<String> {
    let off = |echo: &Echo| echo.offset().saturating_sub(line.offset_at(Nanos(echo.near_sent)));
    let moved = off(last).saturating_sub(off(first)).unsigned_abs();
    let between = last.near_received.saturating_sub(first.near_sent);
    let drift = (between as f64 * MOST_DRIFT_PPM * 1e-6) as u64;
    let bounds = first.round_trip().div_ceil(2).saturating_add(last.round_trip().div_ceil(2));
    (moved > bounds.saturating_add(drift)).then(|| {
        format!(
            "the clocks of this host and {far} moved apart by {} during the trial, and echoes before and after it are good \
             to {}",
            Nanos(moved),
            Nanos(bounds)
        )
    })
}

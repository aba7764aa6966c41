//! Clocks of the two ends: what a figure needs of them, and the far clock against the near one, estimated from echoes
//! that carry the far end's two stamps.
//!
//! With t1 near send, t2 far receive, t3 far send, t4 near receive, the offset is
//! ((t2 - t1) + (t3 - t4)) / 2 (RFC 5905, section 8), wrong by at most half the round trip without
//! the far end's time, (t4 - t1) - (t3 - t2): the path's asymmetry cannot be seen from its ends.
//! The echo with the least round trip therefore decides. Drift is the median of the slopes between
//! the best echoes of stretches of time (Theil–Sen), given only where its error is below 5 ppm.
//!
//! A clock that is steered needs a line at once, and a good guess of the drift before it can be proved: least squares
//! over the best echoes, each with the error that its queueing allows, and with a prior for the rates of quartz.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use deadheat_base::clocks::ClockMap;
use deadheat_base::time::Nanos;
use deadheat_base::unset::is_unset;

/// Clock that a figure needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockNeed {
    /// None: its times are of one end, or it is no time.
    #[default]
    None,
    /// Relative: times of both ends are compared, and the offset between their clocks cancels. Their drift within a
    /// trial does not.
    Relative,
    /// Offset: times of both ends are compared, and the offset between their clocks is part of the figure.
    Offset,
}

/// Source of the best bound on the far clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// Echoes: half of the least round trip.
    #[default]
    Echoes,
    /// Kernel: the errors of both times of day, as their kernels know them from a daemon (adjtimex(2)).
    Kernel,
}

/// Estimate of the far clock against the near clock, for one trial.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockEstimate {
    /// Far minus near, in nanoseconds, at the middle of the trial.
    pub offset_ns: i64,
    /// Bound on its error: half the round trip of its echo, which had the smallest round trip, and its distance from
    /// that echo's offset; or the kernels' bound, if that is tighter.
    pub error_bound_ns: u64,
    /// Rate at which the far clock gains on the near one, in parts per million; absent until it is known.
    #[serialize_always]
    pub drift_ppm: Option<f64>,
    /// Echoes used.
    pub n: u64,
    /// Round trip of the fastest echo, in nanoseconds; absent in results of versions that did not record it.
    pub round_trip_ns: Option<u64>,
    /// Source of the bound.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub source: ClockSource,
    /// True if a clock of either host was set during the trial, or a host was suspended.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub stepped: bool,
    /// Number of far hosts whose clocks were compared, if they are several: this is the one with the greatest bound, and
    /// `stepped` is of any.
    pub hosts: Option<u64>,
}

/// Four times of one echo, in nanoseconds on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Time of sending, on the near clock.
    pub near_sent: u64,
    /// Time of arrival at the far end, on the far clock.
    pub far_received: u64,
    /// Time of the answer, on the far clock.
    pub far_sent: u64,
    /// Time of the answer's arrival, on the near clock.
    pub near_received: u64,
}

impl Echo {
    /// Returns far minus near, in nanoseconds, if both ways take the same time.
    pub fn offset(&self) -> i64 {
        let out = self.far_received.wrapping_sub(self.near_sent) as i64;
        let back = self.far_sent.wrapping_sub(self.near_received) as i64;
        // Each may be near the end of the range where clocks are far apart; halve before adding.
        out / 2 + back / 2 + (out % 2 + back % 2) / 2
    }

    /// Returns the round trip without the far end's time, in nanoseconds.
    pub fn round_trip(&self) -> u64 {
        let total = self.near_received.saturating_sub(self.near_sent);
        total.saturating_sub(self.far_sent.saturating_sub(self.far_received))
    }

    /// Returns the middle of the echo on the near clock.
    fn middle(&self) -> u64 {
        self.near_sent + self.near_received.saturating_sub(self.near_sent) / 2
    }
}

/// Straight line for the far clock over the near one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockLine {
    /// A time on the near clock.
    pub at: Nanos,
    /// Far minus near at that time, in nanoseconds.
    pub offset_ns: i64,
    /// Rate at which the far clock gains, in parts per million.
    pub drift_ppm: f64,
    /// Standard error of the rate.
    pub drift_error_ppm: f64,
}

impl ClockLine {
    /// Returns far minus near at a time on the near clock, in nanoseconds.
    pub fn offset_at(&self, near: Nanos) -> i64 {
        let past = near.signed_since(self.at) as f64;
        self.offset_ns.saturating_add((past * self.drift_ppm * 1e-6).round() as i64)
    }

    /// Returns the largest error of the line at the time of this echo, as the echo proves.
    pub fn error_by(&self, echo: &Echo) -> u64 {
        let off = echo.offset().saturating_sub(self.offset_at(Nanos(echo.middle())));
        off.unsigned_abs().saturating_add(echo.round_trip().div_ceil(2))
    }

    /// Returns the rate if its error is small enough to be reported.
    pub fn known_drift(&self) -> Option<f64> {
        (self.drift_error_ppm <= DRIFT_ERROR_PPM).then_some(self.drift_ppm)
    }

    /// Returns the map from the far clock to the near one.
    pub fn to_near(&self) -> ClockMap {
        let far = Nanos(self.at.0.saturating_add_signed(self.offset_ns));
        ClockMap { from_ns: self.at, to_ns: far, gain_ppm: self.drift_ppm }.inverse()
    }
}

#[derive(Debug, Clone, Copy)]
struct BestEcho {
    at: u64,
    offset: i64,
    round_trip: u64,
}

/// Best echoes of at most 64 stretches of time, however long they go on.
#[derive(Debug, Clone)]
pub struct ClockTrack {
    stretches: Vec<Option<BestEcho>>,
    stretch_ns: u64,
    start: Option<u64>,
    n: u64,
}

const STRETCHES: usize = 64;
/// Largest error of a drift that is reported.
const DRIFT_ERROR_PPM: f64 = 5.0;
/// Standard deviation of the difference of two clocks' rates, before anything is known: quartz, and its discipline.
const PRIOR_PPM: f64 = 50.0;
/// Error of an echo without any queueing: scheduling at both ends.
const ECHO_ERROR_NS: f64 = 10_000.0;
/// Change of the drift, as the error that an echo gains with its age: 0.05 ppm.
const WANDER: f64 = 5e-8;

impl Default for ClockTrack {
    fn default() -> ClockTrack {
        ClockTrack::new()
    }
}

impl ClockTrack {
    /// Creates a track without echoes.
    pub fn new() -> ClockTrack {
        ClockTrack { stretches: vec![None; STRETCHES], stretch_ns: 10_000_000, start: None, n: 0 }
    }

    /// Adds an echo. Allocates nothing.
    pub fn note(&mut self, echo: &Echo) {
        self.n += 1;
        let start = *self.start.get_or_insert(echo.near_sent);
        let at = echo.middle().saturating_sub(start);
        while at / self.stretch_ns >= STRETCHES as u64 {
            self.widen();
        }
        let best = BestEcho { at, offset: echo.offset(), round_trip: echo.round_trip() };
        let place = &mut self.stretches[(at / self.stretch_ns) as usize];
        if place.is_none_or(|old| best.round_trip < old.round_trip) {
            *place = Some(best);
        }
    }

    /// Returns the estimate; `None` if no echo carried stamps.
    pub fn estimate(&self) -> Option<ClockEstimate> {
        let kept: Vec<BestEcho> = self.stretches.iter().flatten().copied().collect();
        let best = kept.iter().min_by_key(|best| best.round_trip)?;
        let drift_ppm = drift(&kept, best.round_trip);
        let middle = kept.last().map_or(0, |last| last.at) / 2;
        let since = middle as f64 - best.at as f64;
        let carried = drift_ppm.map_or(0.0, |ppm| ppm * 1e-6 * since);
        Some(ClockEstimate {
            offset_ns: best.offset.saturating_add(carried.round() as i64),
            error_bound_ns: best.round_trip.div_ceil(2),
            drift_ppm,
            n: self.n,
            round_trip_ns: Some(best.round_trip),
            ..ClockEstimate::default()
        })
    }

    /// Returns the best echo of each stretch, in order of time, with the far end's time taken out.
    pub fn echoes(&self) -> Vec<Echo> {
        let start = self.start.unwrap_or_default();
        let echo = |best: &BestEcho| {
            let middle = start.saturating_add(best.at);
            let near_sent = middle.saturating_sub(best.round_trip / 2);
            let far = middle.saturating_add_signed(best.offset);
            let near_received = near_sent.saturating_add(best.round_trip);
            Echo { near_sent, far_received: far, far_sent: far, near_received }
        };
        self.stretches.iter().flatten().map(echo).collect()
    }

    /// Returns the line through the best echoes, which is best at the time of the newest; `None` without echoes.
    pub fn line(&self) -> Option<ClockLine> {
        let kept = || self.stretches.iter().flatten();
        let best = kept().min_by_key(|best| best.round_trip)?;
        let newest = kept().last()?.at;
        let point = |echo: &BestEcho| {
            let queued = (echo.round_trip - best.round_trip) as f64 / 2.0;
            let error = ECHO_ERROR_NS + queued + (newest - echo.at) as f64 * WANDER;
            let since = echo.at as f64 - newest as f64;
            (since, echo.offset.saturating_sub(best.offset) as f64, error.powi(-2))
        };
        let sum =
            |of: &dyn Fn((f64, f64, f64)) -> f64| kept().map(|echo| of(point(echo))).sum::<f64>();
        let weight = sum(&|(_, _, weight)| weight);
        let middle = sum(&|(since, _, weight)| weight * since) / weight;
        let mean = sum(&|(_, offset, weight)| weight * offset) / weight;
        let spread = sum(&|(since, _, weight)| weight * (since - middle).powi(2));
        let slopes = sum(&|(since, offset, weight)| weight * (since - middle) * (offset - mean));
        let known = spread + (PRIOR_PPM * 1e-6).powi(-2);
        let slope = slopes / known;
        let offset = mean - slope * middle;
        Some(ClockLine {
            at: Nanos(self.start?.saturating_add(newest)),
            offset_ns: best.offset.saturating_add(offset.round() as i64),
            drift_ppm: slope * 1e6,
            drift_error_ppm: known.sqrt().recip() * 1e6,
        })
    }

    /// Halves the resolution: merges each stretch with its neighbour.
    fn widen(&mut self) {
        for i in 0..STRETCHES {
            let pair = [2 * i, 2 * i + 1].map(|j| self.stretches.get(j).copied().flatten());
            self.stretches[i] = pair.into_iter().flatten().min_by_key(|best| best.round_trip);
        }
        self.stretch_ns = self.stretch_ns.saturating_mul(2);
    }
}

fn drift(kept: &[BestEcho], least_round_trip: u64) -> Option<f64> {
    let span = kept.last()?.at - kept.first()?.at;
    let error_ppm = 2.0 * least_round_trip as f64 / span as f64 * 1e6;
    if kept.len() < 8 || error_ppm > DRIFT_ERROR_PPM {
        return None;
    }
    let mut slopes: Vec<f64> = Vec::new();
    for (i, a) in kept.iter().enumerate() {
        for b in &kept[i + 1..] {
            slopes.push((b.offset - a.offset) as f64 / (b.at - a.at) as f64 * 1e6);
        }
    }
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Echoes over a path of `up` and `down` nanoseconds to a clock that is `offset` ahead and
    /// gains `ppm`, one each millisecond for `seconds`; every tenth is fast, the rest queue.
    fn estimate(up: u64, down: u64, offset: u64, ppm: f64, seconds: u64) -> ClockEstimate {
        let mut clock = ClockTrack::new();
        let far = |near: u64| offset + near + (near as f64 * ppm * 1e-6) as u64;
        for i in 0..seconds * 1000 {
            let queue = if i % 10 == 0 { 0 } else { 1_000 * (i % 7 + 1) };
            let near_sent = i * 1_000_000;
            let arrived = near_sent + up + queue;
            let near_received = arrived + 500 + down;
            clock.note(&Echo {
                near_sent,
                far_received: far(arrived),
                far_sent: far(arrived + 500),
                near_received,
            });
        }
        clock.estimate().unwrap()
    }

    #[test]
    fn a_symmetric_path_gives_the_offset_exactly() {
        let got = estimate(5_000, 5_000, 7_000_000_000, 0.0, 1);
        assert_eq!(got.offset_ns, 7_000_000_000);
        assert_eq!(got.error_bound_ns, 5_000);
        assert_eq!(got.drift_ppm, None, "one second is too short for drift");
    }

    #[test]
    fn an_asymmetric_path_errs_within_the_bound() {
        let got = estimate(9_000, 1_000, 1_000_000, 0.0, 1);
        let error = (got.offset_ns - 1_000_000).unsigned_abs();
        assert_eq!(error, 4_000);
        assert!(error <= got.error_bound_ns);
    }

    #[test]
    fn drift_is_found_on_long_trials() {
        let got = estimate(5_000, 5_000, 0, 20.0, 100);
        assert!((got.drift_ppm.unwrap() - 20.0).abs() < 0.1, "{got:?}");
        // At the middle of 100 s, 20 ppm have made 1 ms.
        assert!((got.offset_ns - 1_000_000).abs() < 20_000, "{got:?}");
    }

    #[test]
    fn the_best_echoes_have_the_offset_and_the_round_trip_that_was_measured() {
        let mut clock = ClockTrack::new();
        let echo = |near_sent: u64| Echo {
            near_sent,
            far_received: near_sent + 40 + 1_000_000,
            far_sent: near_sent + 60 + 1_000_000,
            near_received: near_sent + 101,
        };
        [5, 20_000_000, 20_000_500].into_iter().for_each(|at| clock.note(&echo(at)));
        let kept = clock.echoes();
        assert_eq!(kept.len(), 2);
        for (kept, at) in kept.iter().zip([5, 20_000_000]) {
            assert_eq!(kept.round_trip(), echo(at).round_trip());
            assert!(kept.offset().abs_diff(echo(at).offset()) <= 1, "{kept:?}");
            assert!(kept.near_sent.abs_diff(at) <= 20, "{kept:?}");
        }
    }

    #[test]
    fn nothing_is_said_without_echoes() {
        assert_eq!(ClockTrack::new().estimate(), None);
        assert_eq!(ClockTrack::new().line(), None);
    }

    /// Returns the line after `trials` batches of ten echoes, one batch each second, with queueing of up to
    /// `jitter` nanoseconds on the way up, and the last batch. The far clock is `ahead` and gains `ppm`.
    fn steered(
        [up, down, jitter]: [u64; 3],
        ahead: i64,
        ppm: f64,
        trials: u64,
        seed: u64,
    ) -> (ClockLine, Vec<Echo>) {
        let mut random = deadheat_base::rng::SplitMix64::new(seed);
        let far = |near: u64| near.saturating_add_signed(ahead + (near as f64 * ppm * 1e-6) as i64);
        let (mut track, mut batch) = (ClockTrack::new(), Vec::new());
        for trial in 0..trials {
            batch.clear();
            for echo in 0..10 {
                let near_sent = 1_000_000_000_000 + trial * 1_000_000_000 + echo * 1_000_000;
                // Skewed: the square of a uniform share.
                let queue = |random: &mut deadheat_base::rng::SplitMix64| {
                    let share = random.unit();
                    (share * share * jitter as f64) as u64
                };
                let arrived = near_sent + up + queue(&mut random);
                let left = arrived + 30_000 + queue(&mut random) / 10;
                let near_received = left + down + queue(&mut random) / 5;
                batch.push(Echo {
                    near_sent,
                    far_received: far(arrived),
                    far_sent: far(left),
                    near_received,
                });
            }
            batch.iter().for_each(|echo| track.note(echo));
        }
        (track.line().unwrap(), batch)
    }

    #[test]
    fn a_line_errs_within_its_bound_in_100_of_100_with_skewed_and_asymmetric_jitter() {
        const HOURS: i64 = 5 * 3_600_000_000_000;
        for seed in 0..100 {
            let asymmetric = [20_000_000, 5_000_000, 4_000_000];
            for (ways, ahead, ppm) in [
                (asymmetric, HOURS, 100.0),
                (asymmetric, -400_000_000_000, -100.0),
                ([0; 3], 0, 100.0),
            ] {
                let (line, batch) = steered(ways, ahead, ppm, 8, seed);
                let now = batch[9].near_received;
                let truth = ahead as f64 + now as f64 * ppm * 1e-6;
                let error = (line.offset_at(Nanos(now)) as f64 - truth).abs();
                let bound = batch.iter().map(|echo| line.error_by(echo)).min().unwrap();
                assert!(error <= bound as f64 + 10.0, "{seed}: {error} of {bound}");
                let most = (ways[0] + ways[1]) / 2 + ways[2] + 1_000;
                assert!(bound <= most, "{seed}: {bound}");
                let far = (now as f64 + truth) as u64;
                let mapped = line.to_near().apply(Nanos(far)).signed_since(Nanos(now)) as f64;
                assert!((mapped.abs() - error).abs() < 1_000.0, "{seed}: {mapped} and {error}");
            }
        }
    }

    #[test]
    fn drift_is_steered_within_a_few_trials_on_a_short_path_and_not_invented_on_a_long_one() {
        let (line, _) = steered([40_000, 40_000, 20_000], 0, 100.0, 10, 1);
        assert!((line.drift_ppm - 100.0).abs() < 3.0, "{line:?}");
        assert!((line.offset_at(line.at) - (line.at.0 / 10_000) as i64).abs() < 20_000, "{line:?}");
        let (line, _) = steered([20_000_000, 5_000_000, 40_000_000], 0, 0.0, 2, 1);
        assert!(line.drift_ppm.abs() < PRIOR_PPM && line.known_drift().is_none(), "{line:?}");
    }
}

//! Offset of the far clock from the near clock, estimated from echoes that carry the far end's two stamps.
//!
//! With t1 near send, t2 far receive, t3 far send, t4 near receive, the offset is
//! ((t2 - t1) + (t3 - t4)) / 2 (RFC 5905, section 8), wrong by at most half the round trip without
//! the far end's time, (t4 - t1) - (t3 - t2): the path's asymmetry cannot be seen from its ends.
//! The echo with the least round trip therefore decides. Drift is the median of the slopes between
//! the best echoes of stretches of time (Theil–Sen), given only where its error is below 5 ppm.

use crate::measurements::ClockEstimate;

/// Four times of one echo, in nanoseconds on two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Echo {
    pub(super) near_sent: u64,
    pub(super) far_received: u64,
    pub(super) far_sent: u64,
    pub(super) near_received: u64,
}

impl Echo {
    fn offset(&self) -> i64 {
        let out = self.far_received.wrapping_sub(self.near_sent) as i64;
        let back = self.far_sent.wrapping_sub(self.near_received) as i64;
        // Each may be near the end of the range where clocks are far apart; halve before adding.
        out / 2 + back / 2 + (out % 2 + back % 2) / 2
    }

    fn round_trip(&self) -> u64 {
        let total = self.near_received.saturating_sub(self.near_sent);
        total.saturating_sub(self.far_sent.saturating_sub(self.far_received))
    }
}

#[derive(Debug, Clone, Copy)]
struct Best {
    at: u64,
    offset: i64,
    round_trip: u64,
}

/// Keeps the best echo of each of at most 64 stretches of time, however long the trial.
#[derive(Debug)]
pub(super) struct ClockOffset {
    stretches: Vec<Option<Best>>,
    stretch_ns: u64,
    start: Option<u64>,
    n: u64,
}

const STRETCHES: usize = 64;
const DRIFT_ERROR_PPM: f64 = 5.0;

impl ClockOffset {
    pub(super) fn new() -> ClockOffset {
        ClockOffset { stretches: vec![None; STRETCHES], stretch_ns: 10_000_000, start: None, n: 0 }
    }

    /// Adds an echo. Allocates nothing.
    pub(super) fn note(&mut self, echo: &Echo) {
        self.n += 1;
        let start = *self.start.get_or_insert(echo.near_sent);
        let at = echo.near_sent.saturating_sub(start);
        while at / self.stretch_ns >= STRETCHES as u64 {
            self.widen();
        }
        let best = Best { at, offset: echo.offset(), round_trip: echo.round_trip() };
        let place = &mut self.stretches[(at / self.stretch_ns) as usize];
        if place.is_none_or(|old| best.round_trip < old.round_trip) {
            *place = Some(best);
        }
    }

    /// Returns the estimate; `None` if no echo carried stamps.
    pub(super) fn estimate(&self) -> Option<ClockEstimate> {
        let kept: Vec<Best> = self.stretches.iter().flatten().copied().collect();
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

fn drift(kept: &[Best], least_round_trip: u64) -> Option<f64> {
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
        let mut clock = ClockOffset::new();
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
        assert_eq!(got.drift_ppm, Some(0.0).filter(|_| false), "one second is too short for drift");
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
    fn nothing_is_said_without_echoes() {
        assert_eq!(ClockOffset::new().estimate(), None);
    }
}

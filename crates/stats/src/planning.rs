//! Blocks, scatter and resolution: each follows from the other two.
//!
//! The resolution of a race is the difference that it finds with a chance of 80 %: the true ratio from
//! which on the interval leaves out 1. By the normal formula for the signed-rank test it is
//! `(t_level + t_power) s / √(n 3/π)` in logarithms, with Student's t for the few blocks from which the
//! scatter `s` is known.

use super::signed_rank::{self, Walsh};
use super::verdict::Slack;
use super::{Estimate, normal, serial, student};

/// Largest number of blocks that is advised; where more are needed, the estimate lies on the margin, or nearly.
pub const REASONABLE_BLOCKS: u64 = 100_000;

/// Chance that a difference of the resolution is found, and that the blocks asked for decide.
pub const POWER: f64 = 0.8;

/// Efficiency of the signed-rank test against the t-test on normal data: 3/π (Hodges & Lehmann 1956).
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// Degrees of freedom from which on Student's t is taken for the normal distribution.
const MANY: f64 = 1_000.0;

/// Two-sided error of the interval whose width tells the scatter: three blocks have one.
const SCATTER_ERROR: f64 = 0.25;

/// Returns the standard deviation of independent normal log-ratios that would leave the centre as uncertain as these
/// do, serial dependence included. `None` with fewer than three.
///
/// It is read from the width of an interval (Lehmann 1963, Ann. Math. Statist. 34), which is the same
/// wherever the values lie: it does not see who leads. Outliers count as little as in the estimate.
pub fn scatter(log_ratios: &[f64]) -> Option<f64> {
    scatter_of(&Walsh::of(log_ratios)?, serial::inflation(log_ratios))
}

/// Returns the [`scatter`] of sorted averages and a known inflation.
pub(super) fn scatter_of(walsh: &Walsh, inflation: f64) -> Option<f64> {
    let interval = walsh.interval(1.0 - SCATTER_ERROR)?;
    let n = walsh.count() as f64;
    let quantile = quantile(walsh.tail(SCATTER_ERROR / 2.0)?, n);
    Some(0.5 * (interval.high - interval.low) * inflation * (n * EFFICIENCY).sqrt() / quantile)
}

/// Returns the difference, as a fraction, that `blocks` blocks of this scatter find with 80 % power at a two-sided
/// `level` for one claim. `None` with fewer blocks than that level takes.
pub fn resolution(scatter: f64, blocks: usize, level: f64) -> Option<f64> {
    distance(scatter, blocks as u64, level, 1.0 - POWER).map(f64::exp_m1)
}

/// Returns the fewest blocks of this scatter that find a difference of `resolution` (a fraction) with 80 % power at a
/// two-sided `level`; never fewer than the exact test takes. `u64::MAX` where no number would do.
pub fn blocks_for(scatter: f64, resolution: f64, level: f64) -> u64 {
    needed(scatter, resolution.ln_1p(), level, 1.0 - POWER)
}

/// Returns the fewest blocks whose [`distance`] is at most `distance`.
pub(super) fn needed(scatter: f64, wanted: f64, level: f64, beta: f64) -> u64 {
    let Some(fewest) = signed_rank::fewest(level).filter(|_| wanted > 0.0 && !scatter.is_nan())
    else {
        return u64::MAX;
    };
    let z = normal::upper_quantile(level / 2.0) + normal::upper_quantile(beta);
    // What a float is too large for ends at u64::MAX.
    let mut blocks = (((z * scatter / wanted).powi(2) / EFFICIENCY) as u64).max(fewest as u64);
    // Few blocks take a few more, because they know the scatter less well.
    while blocks < u64::MAX && distance(scatter, blocks, level, beta).is_none_or(|d| d > wanted) {
        blocks += 1;
    }
    blocks
}

/// Knowledge of a claim that is not decided. Logarithms throughout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Estimate so far.
    pub point: f64,
    /// Scatter of a block.
    pub scatter: f64,
    /// Number of blocks behind both.
    pub done: u64,
    /// Interval that a difference is shown by; absent with too few blocks for one.
    pub wide: Option<Estimate>,
    /// Interval that a tie is shown by.
    pub narrow: Option<Estimate>,
    /// Amount by which both are widened for lateness of the generator; more blocks do not change it.
    pub slack: Slack,
}

/// Chance to decide that is planned for, so that promises come true in four races of five: the scatter, too, is an estimate.
const PLANNED: f64 = 0.85;

/// Returns the fewest blocks in all that are likely to decide the claim: `ahead` beyond `limit` on either side, or a dead heat
/// within. `u64::MAX` where no number would do.
///
/// The truth is not the estimate. Given the blocks so far and nothing else it lies about the estimate as the estimate lay
/// about it; so the estimate after n blocks in all will lie about the present one with a variance of
/// `s² (1/done − 1/n)` (predictive power: Spiegelhalter, Freedman & Blackburn 1986, Control. Clin. Trials 7). The chance
/// that the truth is the estimate and nothing else (conditional power) promises too much near the margin. Intervals are taken
/// as they are now and shrink by `√(done/n)`.
pub(super) fn deciding(known: &Known, limit: f64, level: f64) -> u64 {
    let doubt = known.doubt();
    let does = |blocks: u64| known.chance(blocks, limit, level, doubt) >= PLANNED;
    let mut most = known.done + 1;
    while !does(most) {
        if most > 4 * REASONABLE_BLOCKS {
            return u64::MAX;
        }
        most *= 2;
    }
    let mut least = (most / 2).max(known.done);
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        if does(middle) { most = middle } else { least = middle }
    }
    most
}

impl Known {
    /// Returns the standard error of the estimate.
    pub(super) fn error(&self) -> f64 {
        self.after(1.0 / self.done as f64)
    }

    fn after(&self, variance: f64) -> f64 {
        self.scatter * (variance / EFFICIENCY).sqrt()
    }

    /// Returns the lengths of an interval's arms after so many blocks.
    fn arms(&self, interval: Option<Estimate>, blocks: f64, level: f64) -> (f64, f64) {
        let (below, above) = match interval {
            Some(now) => {
                let shrinks = (self.done as f64 / blocks).sqrt();
                let arm = |length: f64, slack: f64| (length - slack).max(0.0) * shrinks;
                (
                    arm(now.point - now.low, self.slack.below),
                    arm(now.high - now.point, self.slack.above),
                )
            }
            None => {
                let half = self.after(1.0 / blocks) * quantile(level / 2.0, blocks);
                (half, half)
            }
        };
        (below + self.slack.below, above + self.slack.above)
    }

    /// Returns the factor by which the scatter may be larger than it seems: from few blocks it is known little, which
    /// Student's t has in it.
    fn doubt(&self) -> f64 {
        quantile(1.0 - PLANNED, self.done as f64) / normal::upper_quantile(1.0 - PLANNED)
    }

    /// Returns the chance that so many blocks in all decide the claim, by the [`doubt`](Known::doubt) in the scatter.
    fn chance(&self, blocks: u64, limit: f64, level: f64, doubt: f64) -> f64 {
        let (done, n) = (self.done as f64, blocks as f64);
        let spread = self.after(1.0 / done - 1.0 / n) * doubt;
        let above = |x: f64| match spread > 0.0 {
            true => normal::upper_tail((x - self.point) / spread),
            false => f64::from(u8::from(self.point > x)),
        };
        let below = |x: f64| match spread > 0.0 {
            true => 1.0 - above(x),
            false => f64::from(u8::from(self.point < x)),
        };
        let (ahead, tie) = (self.arms(self.wide, n, level), self.arms(self.narrow, n, 2.0 * level));
        let (top, bottom) = (limit - tie.1, tie.0 - limit);
        let within = if bottom < top { 1.0 - above(top) - below(bottom) } else { 0.0 };
        above(limit.max(ahead.0)) + below(-limit.max(ahead.1)) + within.max(0.0)
    }
}

/// Returns the distance from a limit, as a logarithm, at which `blocks` blocks tell the truth from the limit at a
/// two-sided `level`, but for a chance of `beta`.
pub(super) fn distance(scatter: f64, blocks: u64, level: f64, beta: f64) -> Option<f64> {
    let fewest = signed_rank::fewest(level)?;
    let n = blocks as f64;
    let sum = quantile(level / 2.0, n) + quantile(beta, n);
    (blocks >= fewest as u64 && scatter.is_finite())
        .then(|| sum * scatter / (n * EFFICIENCY).sqrt())
}

/// Returns Student's t for `n` values, or its limit.
fn quantile(tail: f64, n: f64) -> f64 {
    let freedom = n - 1.0;
    if freedom > MANY {
        normal::upper_quantile(tail)
    } else {
        student::upper_quantile(tail, freedom as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// The normal formula: (1.960 + 0.842)² (0.1 / ln 1.05)² π/3 = 34.5 blocks, and two for Student's t.
    #[test]
    fn blocks_and_resolution_are_each_others_inverse() {
        assert_eq!(blocks_for(0.1, 0.05, 0.05), 37);
        for scatter in [0.01, 0.05, 0.2, 0.5] {
            for wanted in [0.005, 0.02, 0.1, 0.5] {
                let blocks = blocks_for(scatter, wanted, 0.05);
                let found = resolution(scatter, blocks as usize, 0.05).unwrap();
                assert!(found <= wanted, "{scatter} {wanted}: {found} with {blocks}");
                let fewer = resolution(scatter, blocks as usize - 1, 0.05);
                assert!(fewer.is_none_or(|found| found > wanted), "{scatter} {wanted}: {blocks}");
            }
        }
    }

    #[test]
    fn never_fewer_than_the_test_takes_and_never_for_nothing() {
        assert_eq!(blocks_for(0.0, 0.05, 0.05), 6);
        assert_eq!(blocks_for(1e-9, 0.05, 0.01), 8);
        assert_eq!(blocks_for(0.1, 0.0, 0.05), u64::MAX);
        assert_eq!(blocks_for(0.1, 0.05, 0.0), u64::MAX);
        assert_eq!(blocks_for(f64::NAN, 0.05, 0.05), u64::MAX);
        assert_eq!(blocks_for(f64::INFINITY, 0.05, 0.05), u64::MAX);
        assert!(blocks_for(0.1, 1e-4, 0.05) > 7_000_000);
        assert_eq!(resolution(0.1, 5, 0.05), None);
        assert_eq!(resolution(0.0, 6, 0.05), Some(0.0));
    }

    /// Means over many samples of sd 0.1: from three values on within 15 %, and soon within 5 %.
    #[test]
    fn scatter_is_about_the_standard_deviation_of_normal_values() {
        for n in [3, 4, 5, 6, 8, 12, 30, 61] {
            let mut rng = SplitMix64::new(n);
            let once = |rng: &mut SplitMix64| {
                let values: Vec<f64> = (0..n).map(|_| 7.0 + 0.1 * rng.normal()).collect();
                scatter(&values).unwrap() / serial::inflation(&values)
            };
            let mean = (0..300).map(|_| once(&mut rng)).sum::<f64>() / 300.0;
            println!("scatter of {n} values of sd 0.1: {mean:.4}");
            assert!((0.085..0.115).contains(&mean), "{n}: {mean}");
        }
        assert_eq!(scatter(&[1.0, 2.0]), None);
        assert_eq!(scatter(&[f64::NAN; 9]), None);
        assert_eq!(scatter(&[2.0; 9]), Some(0.0));
    }

    /// Blind: neither the place nor the sign of the values counts.
    #[test]
    fn scatter_does_not_see_who_leads() {
        let values = [0.1, -0.2, 0.3, 0.05, -0.1, 0.15, 0.0, 0.2, -0.25, 0.12];
        let near = |a: &[f64]| (scatter(a).unwrap() - scatter(&values).unwrap()).abs() < 1e-12;
        assert!(near(&values.map(|v| v + 3.0)) && near(&values.map(|v| -v)));
    }

    /// The promise of a resolution: found with 80 % power, less a little where the exact test of few
    /// blocks has to stay below its level.
    #[test]
    fn what_is_resolved_is_found_four_times_in_five() {
        for n in [8, 16, 60] {
            let truth = distance(0.1, n, 0.05, 1.0 - POWER).unwrap();
            let mut rng = SplitMix64::new(n);
            let found = (0..2_000).filter(|_| {
                let values: Vec<f64> = (0..n).map(|_| truth + 0.1 * rng.normal()).collect();
                signed_rank::interval(&values, 0.95).unwrap().excludes(0.0)
            });
            let share = found.count() as f64 / 2_000.0;
            println!("found with {n} blocks: {share}");
            assert!((share - POWER).abs() < 0.06, "{n}: {share}");
        }
    }
}

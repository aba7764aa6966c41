//! Blocks, scatter and resolution: each follows from the other two.
//!
//! The resolution of a race is the smallest difference that it finds with a probability of 80 %: the true ratio at
//! which the interval excludes 1. By the normal formula for the signed-rank test it is `(t_level + t_power) s / √(n
//! 3/π)` in logarithms, with Student's t because the scatter `s` is known from few blocks.

use super::estimate::Slack;
use super::signed_rank::{self, Walsh};
use super::{Estimate, normal, serial, student};

/// Largest number of blocks to advise; if more are needed, the estimate lies on the margin, or near it.
pub const REASONABLE_BLOCKS: u64 = 100_000;

/// Probability that a difference of the resolution is found, and that the advised blocks decide.
pub const POWER: f64 = 0.8;

/// Efficiency of the signed-rank test against the t-test on normal data: 3/π (Hodges & Lehmann 1956).
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// Degrees of freedom from which Student's t is treated as the normal distribution.
const MANY: f64 = 1_000.0;

/// Two-sided error of the interval from which the scatter is estimated: three blocks have one.
const SCATTER_ERROR: f64 = 0.25;

/// Returns the standard deviation of independent normal log-ratios with the same uncertainty of the centre as these,
/// with serial dependence. `None` with fewer than three.
///
/// It follows from the width of an interval (Lehmann 1963, Ann. Math. Statist. 34), which does not depend on the
/// location of the values, and so not on which contender leads. Outliers have as little weight as in the estimate.
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
/// `level` for one claim. `None` with too few blocks for that level.
pub fn resolution(scatter: f64, blocks: usize, level: f64) -> Option<f64> {
    distance(scatter, blocks as u64, level, 1.0 - POWER).map(f64::exp_m1)
}

/// Returns the minimum number of blocks of this scatter that find a difference of `resolution` (a fraction) with 80 %
/// power at a two-sided `level`; never fewer than the exact test needs. `u64::MAX` if no number is enough.
pub fn blocks_for(scatter: f64, resolution: f64, level: f64) -> u64 {
    needed(scatter, resolution.ln_1p(), level, 1.0 - POWER)
}

/// Returns the minimum number of blocks with a [`distance`] of at most `wanted`.
pub(super) fn needed(scatter: f64, wanted: f64, level: f64, beta: f64) -> u64 {
    let Some(fewest) = signed_rank::fewest(level).filter(|_| wanted > 0.0 && !scatter.is_nan())
    else {
        return u64::MAX;
    };
    let z = normal::upper_quantile(level / 2.0) + normal::upper_quantile(beta);
    // A float beyond the range becomes u64::MAX.
    let mut blocks = (((z * scatter / wanted).powi(2) / EFFICIENCY) as u64).max(fewest as u64);
    // A small number needs a few more blocks, because the scatter is less certain.
    while blocks < u64::MAX && distance(scatter, blocks, level, beta).is_none_or(|d| d > wanted) {
        blocks += 1;
    }
    blocks
}

/// Data of an undecided claim. All values are logarithms.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenClaim {
    /// Estimate so far.
    pub point: f64,
    /// Scatter of a block.
    pub scatter: f64,
    /// Number of blocks behind both.
    pub done: u64,
    /// Distance that a lead is to be shown to exceed: 0 for a direction, or the margin.
    pub beyond: f64,
    /// Interval that can show a difference; absent with too few blocks.
    pub wide: Option<Estimate>,
    /// Interval that can show a tie.
    pub narrow: Option<Estimate>,
    /// Amount by which both intervals are widened for lateness of the generator; it does not depend on the number of
    /// blocks.
    pub slack: Slack,
}

/// Planned probability of a decision, so that predictions hold in four races of five: the scatter is an estimate, too.
const PLANNED: f64 = 0.85;

/// Returns the minimum total number of blocks that are likely to decide the claim: a lead with an estimate beyond `limit`
/// on either side, or a dead heat within. `u64::MAX` if no number is enough.
///
/// The true value is not the estimate. Given only the blocks so far, its distribution about the estimate is the
/// estimate's distribution about it; so the estimate after n blocks in total is distributed about the present one with
/// a variance of `s² (1/done − 1/n)` (predictive power: Spiegelhalter, Freedman & Blackburn 1986, Control. Clin. Trials
/// 7). To assume that the true value equals the estimate (conditional power) is too optimistic near the margin.
/// Intervals have their present width, reduced by `√(done/n)`.
pub(super) fn deciding(known: &OpenClaim, limit: f64, level: f64) -> u64 {
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

impl OpenClaim {
    /// Returns the standard error of the estimate.
    pub(super) fn error(&self) -> f64 {
        self.after(1.0 / self.done as f64)
    }

    fn after(&self, variance: f64) -> f64 {
        self.scatter * (variance / EFFICIENCY).sqrt()
    }

    /// Returns the distances of an interval's ends from its point after `blocks` blocks.
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

    /// Returns the factor by which the scatter may be larger than its estimate: from few blocks it is uncertain, as in
    /// Student's t.
    fn doubt(&self) -> f64 {
        quantile(1.0 - PLANNED, self.done as f64) / normal::upper_quantile(1.0 - PLANNED)
    }

    /// Returns the probability that a total of `blocks` blocks decides the claim, with the [`doubt`](OpenClaim::doubt)
    /// about the scatter.
    fn chance(&self, blocks: u64, limit: f64, level: f64, doubt: f64) -> f64 {
        let (done, n) = (self.done as f64, blocks as f64);
        let spread = self.after(1.0 / done - 1.0 / n) * doubt;
        let above = |x: f64| {
            if spread > 0.0 {
                normal::upper_tail((x - self.point) / spread)
            } else {
                f64::from(u8::from(self.point > x))
            }
        };
        let below = |x: f64| {
            if spread > 0.0 { 1.0 - above(x) } else { f64::from(u8::from(self.point < x)) }
        };
        let (lead, tie) = (self.arms(self.wide, n, level), self.arms(self.narrow, n, 2.0 * level));
        let (top, bottom) = (limit - tie.1, tie.0 - limit);
        let within = if bottom < top { 1.0 - above(top) - below(bottom) } else { 0.0 };
        let (up, down) = (limit.max(self.beyond + lead.0), limit.max(self.beyond + lead.1));
        above(up) + below(-down) + within.max(0.0)
    }
}

/// Returns the distance from a limit, as a logarithm, at which `blocks` blocks distinguish the true value from the
/// limit at a two-sided `level`, except with probability `beta`.
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

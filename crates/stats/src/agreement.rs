//! Agreement of other figures with a ruling by ranks.
//!
//! The signed-rank test is exact where log-ratios scatter symmetrically, as between identical contenders. Unlike noise
//! is not symmetric: if one contender has a tail and the other has none, the centre of the ranks, the mean and the
//! median are three different figures, and a significant rank statistic says nothing of the other two. So a ruling
//! holds only if it holds for each of them (intersection-union test: Berger 1982, Technometrics 24), which needs no
//! share of the error, because each test alone keeps the level:
//!
//! * the *blocks*: more than half of them are on the side of the lead;
//! * the *mean* of the log-ratios: the ratio of the geometric means;
//! * the *medians* of the two contenders, each over its own trials, as a table shows them. Where blocks do the same to
//!   both, such as a host that drifts, these say little, and the median of the log-ratios takes their place.
//!
//! A figure holds if it is *in line* with the Hodges–Lehmann estimate, or if it shows the ruling *on its own*. In line is
//! a figure that lies not much further than chance towards the other side: less than [`MEAN_IN_LINE`] or
//! [`MEDIANS_IN_LINE`] standard errors, estimated as if the noise were symmetric about the estimate. Symmetric noise
//! passes in most blocks without any loss of power, and skewed noise is found before the ranks decide, since ranks
//! need two or three standard errors.
//!
//! On its own the mean is tested by Student's t, corrected for skewness by the transformation of Hall (1992, J. R. Stat.
//! Soc. B 54), with one more value as far on the other side as the furthest of the sample, for a tail of which so
//! few blocks show only a part. The medians are tested by signs ([`medians`]).

use std::fmt;

use super::{Estimate, normal, quantile};

/// Distance of a mean that is in line, in standard errors.
const MEAN_IN_LINE: f64 = 0.5;

/// Distance of medians that are in line, in standard errors.
const MEDIANS_IN_LINE: f64 = 0.25;

/// Distances of both figures that are in line with a dead heat, in standard errors.
const TIE_IN_LINE: f64 = 2.0;

/// Smallest distance of an estimate from either end of its interval, as a share of the interval.
const OFF_EDGE: f64 = 0.01;

/// Largest width of an interval, as a share of the estimate, that rounding may have made.
const ROUNDING: f64 = 1e-9;

/// Figure that does not agree with a ruling by ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disagreement {
    /// Edge: the estimate lies on an end of its interval, or outside.
    Edge,
    /// Blocks: no more than half of them are on the side of the lead.
    Blocks,
    /// Mean: the mean of the log-ratios may lie on the other side.
    Mean,
    /// Medians: the two contenders' medians may be in the other order.
    Medians,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Disagreement::Edge => "the estimate lies on the edge of its interval",
            Disagreement::Blocks => "half of the blocks say otherwise",
            Disagreement::Mean => "the means may say otherwise",
            Disagreement::Medians => "the medians may say otherwise",
        })
    }
}

/// Sample of a claim, with the estimate and the interval of its ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    /// Log-ratios or differences.
    pub values: &'a [f64],
    /// Logarithms or figures of each contender in the same blocks; `None` if only their ratios are known.
    pub columns: Option<(&'a [f64], &'a [f64])>,
    /// Interval of the ranks around their estimate, not widened.
    pub interval: Estimate,
    /// Factor by which serial dependence widens an interval.
    pub inflation: f64,
}

/// Returns the distance in standard errors that shows a figure at the one-sided `level`: at one planned look, or at all
/// blocks together.
pub(super) fn reach(level: f64, is_any_time: bool) -> f64 {
    if !is_any_time {
        normal::upper_quantile(level.clamp(1e-300, 0.5))
    } else {
        // The least evidence of 1 / level: no bet on the mean of a normal sample has more in hindsight.
        (-2.0 * level.ln()).max(0.0).sqrt()
    }
}

impl Sample<'_> {
    /// Returns the first figure that does not show a lead on the side of the estimate.
    pub(super) fn against_lead(&self, reach: f64) -> Option<Disagreement> {
        let (values, centre) = (self.values, self.interval.point);
        let side = centre.signum();
        let on_its_side = values.iter().filter(|value| side * **value > 0.0).count();
        if self.is_on_edge() {
            Some(Disagreement::Edge)
        } else if 2 * on_its_side <= values.len() {
            Some(Disagreement::Blocks)
        } else if side * sum(values, 0.0) <= 0.0 || !self.mean_shows(0.0, side, MEAN_IN_LINE, reach)
        {
            Some(Disagreement::Mean)
        } else if !self.medians_show(0.0, side, MEDIANS_IN_LINE, reach) {
            Some(Disagreement::Medians)
        } else {
            None
        }
    }

    /// Returns the first figure that does not show a tie within `limit` on both sides.
    pub(super) fn against_tie(&self, limit: f64, reach: f64) -> Option<Disagreement> {
        let edges = [(-limit, 1.0), (limit, -1.0)];
        if edges.iter().any(|(edge, side)| !self.mean_shows(*edge, *side, TIE_IN_LINE, reach)) {
            return Some(Disagreement::Mean);
        }
        edges
            .iter()
            .any(|(edge, side)| !self.medians_show(*edge, *side, TIE_IN_LINE, reach))
            .then_some(Disagreement::Medians)
    }

    /// Returns true if the estimate lies on an end of its interval. An interval without a width has no ends.
    fn is_on_edge(&self) -> bool {
        let Estimate { point, low, high, .. } = self.interval;
        let least = OFF_EDGE * (high - low);
        let has_width = high - low > ROUNDING * point.abs();
        has_width && (point - low < least || high - point < least)
    }

    /// Returns true if the mean lies on this side of `shift`: in line with the estimate, or on its own.
    fn mean_shows(&self, shift: f64, side: f64, in_line: f64, reach: f64) -> bool {
        let centre = self.interval.point;
        let squares: f64 = self.values.iter().map(|value| (value - centre).powi(2)).sum();
        let ahead = side * sum(self.values, centre);
        ahead >= -in_line * squares.sqrt()
            || skewed_t(self.values, (shift, centre), side) > reach * self.inflation
    }

    /// Returns true if the difference of medians lies on this side of `shift`: in line with the estimate, or on its own.
    fn medians_show(&self, shift: f64, side: f64, in_line: f64, reach: f64) -> bool {
        let Some((a, b)) = self.columns.filter(|(a, b)| a.len() == b.len()) else { return true };
        let is_common = have_blocks_in_common(a, b);
        let beyond = |shift: f64| {
            if is_common { side * signs(self.values, shift) } else { side * medians(a, b, shift) }
        };
        let own = beyond(shift);
        // No sign test finds more than all trials on one side.
        let least = (reach * self.inflation).min((a.len() as f64).sqrt() - 1e-9);
        own > 0.0 && (own > least || beyond(self.interval.point) >= -in_line)
    }
}

/// Returns the sum of the distances above `shift`.
fn sum(values: &[f64], shift: f64) -> f64 {
    values.iter().map(|value| value - shift).sum()
}

/// Returns the distance of the mean from `shift` towards `side`, in standard errors, corrected for a skewness towards the
/// other side (Hall 1992), with one more value as far from `centre` on the other side as the furthest.
fn skewed_t(values: &[f64], (shift, centre): (f64, f64), side: f64) -> f64 {
    let towards = |value: f64| side * (value - shift);
    let worst = values.iter().map(|value| side * (value - centre)).fold(0.0, f64::min);
    let more = towards(centre) + worst;
    let n = values.len() as f64 + 1.0;
    let each = || values.iter().map(|value| towards(*value)).chain([more]);
    let mean = each().sum::<f64>() / n;
    let moment = |power: i32| each().map(|value| (value - mean).powi(power)).sum::<f64>() / n;
    let variance = moment(2);
    if variance <= 0.0 {
        return if mean > 0.0 { f64::INFINITY } else { 0.0 };
    }
    let skewness = (moment(3) / variance.powf(1.5)).min(0.0);
    let t = mean / (variance * n / (n - 1.0)).sqrt();
    let corrected =
        t + skewness * t * t / 3.0 + skewness * skewness * t.powi(3) / 27.0 + skewness / (6.0 * n);
    n.sqrt() * corrected
}

/// Returns true if what a block does to one contender it does to the other: both are above their medians in more blocks
/// than two standard errors of chance explain.
fn have_blocks_in_common(a: &[f64], b: &[f64]) -> bool {
    let n = a.len() as f64;
    let centres = quantile::median(a).zip(quantile::median(b));
    centres.is_some_and(|(of_a, of_b)| {
        let pairs = a.iter().zip(b);
        let alike = pairs.filter(|(a, b)| (**a > of_a) == (**b > of_b)).count() as f64;
        2.0 * alike - n > 2.0 * n.sqrt()
    })
}

/// Returns the distance of the median of these values from `shift`, in standard errors, by their signs.
fn signs(values: &[f64], shift: f64) -> f64 {
    let above = values.iter().filter(|value| **value > shift).count() as f64;
    let below = values.iter().filter(|value| **value < shift).count() as f64;
    (above - below) / (values.len().max(1) as f64).sqrt()
}

/// Returns the distance of the median of `a` from the median of `b + shift`, in standard errors, with its sign.
///
/// If both medians are `m`, the shares of `a` and of `b + shift` above `m` are halves, up to chance, with a correlation
/// that the pairs show. The result is the distance of both shares from halves in their joint distribution, at the `m`
/// at which it is smallest: no density is estimated, and what a block does to both contenders counts for neither.
fn medians(a: &[f64], b: &[f64], shift: f64) -> f64 {
    let n = a.len() as f64;
    let own = a.iter().enumerate().map(|(pair, value)| (*value, pair, 0));
    let other = b.iter().enumerate().map(|(pair, value)| (value + shift, pair, 1));
    let mut sorted: Vec<(f64, usize, usize)> = own.chain(other).collect();
    sorted.sort_unstable_by(|one, two| one.0.total_cmp(&two.0));
    let mut is_above = vec![[true; 2]; a.len()];
    let (mut above, mut both) = ([n, n], n);
    let mut nearest = (f64::INFINITY, 0.0);
    for equal in sorted.chunk_by(|one, two| one.0 == two.0) {
        for (_, pair, column) in equal {
            both -= if is_above[*pair] == [true; 2] { 1.0 } else { 0.0 };
            is_above[*pair][*column] = false;
            above[*column] -= 1.0;
        }
        let [x, y] = above.map(|above| (2.0 * above - n) / n.sqrt());
        let r = (4.0 * (both * n - above[0] * above[1]) / (n * n)).clamp(-0.9, 0.9);
        let squared = (x * x - 2.0 * r * x * y + y * y) / (1.0 - r * r);
        if squared < nearest.0 {
            nearest = (squared, x - y);
        }
    }
    let (squared, apart) = nearest;
    if apart == 0.0 { 0.0 } else { squared.max(0.0).sqrt() * apart.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;
    use crate::signed_rank;

    fn series(n: usize, mut next: impl FnMut(&mut SplitMix64) -> f64) -> Vec<f64> {
        let mut rng = SplitMix64::new(n as u64);
        (0..n).map(|_| next(&mut rng)).collect()
    }

    fn against(a: &[f64], b: &[f64]) -> Option<Disagreement> {
        let values: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        let interval = signed_rank::interval(&values, 0.95).unwrap();
        assert!(interval.excludes(0.0), "{interval:?}");
        let sample = Sample { values: &values, columns: Some((a, b)), interval, inflation: 1.0 };
        sample.against_lead(reach(0.05, false))
    }

    #[test]
    fn like_noise_agrees_with_itself() {
        let b = series(60, |rng| 0.1 * rng.normal());
        let a = series(61, |rng| 0.1 + 0.1 * rng.normal());
        assert_eq!(against(&a[..60], &b), None);
    }

    /// One contender has a tail: most blocks say that it is ahead, and the mean that it is not.
    #[test]
    fn a_tail_is_no_winner_by_the_blocks_without_it() {
        let tail =
            |rng: &mut SplitMix64| if rng.below(9) == 0 { 0.8 } else { -0.1 } + 0.01 * rng.normal();
        let a = series(80, tail);
        let b = series(81, |rng| 0.01 * rng.normal());
        assert_eq!(against(&a, &b[..80]), Some(Disagreement::Mean));
    }

    /// Two tails in opposite directions about equal medians: ranks and means differ, and what a table shows does not.
    #[test]
    fn a_skew_is_no_winner_over_equal_medians() {
        let a = series(200, |rng| -(1.0 - rng.unit()).ln() - 2f64.ln());
        let b = series(201, |rng| (1.0 - rng.unit()).ln() + 2f64.ln());
        assert_eq!(against(&a, &b[..200]), Some(Disagreement::Medians));
    }

    #[test]
    fn an_estimate_on_the_edge_of_its_interval_is_none() {
        let values = [[1.0; 30].as_slice(), &[0.5; 20], &[0.2; 10]].concat();
        let at = |point| Estimate { point, low: 0.3, high: 1.0, confidence: 0.95 };
        let sample =
            |point| Sample { values: &values, columns: None, interval: at(point), inflation: 1.0 };
        assert_eq!(sample(1.0).against_lead(2.0), Some(Disagreement::Edge));
        assert_eq!(sample(0.3).against_lead(2.0), Some(Disagreement::Edge));
        assert_eq!(sample(0.75).against_lead(2.0), None);
        let exact = Estimate { point: 1.0, low: 1.0, high: 1.0, confidence: 0.95 };
        assert_eq!(Sample { interval: exact, ..sample(1.0) }.against_lead(2.0), None);
    }

    /// By hand: all of one above all of the other. Nearest is the median of one, with five of nine above it and none
    /// of the other.
    #[test]
    fn medians_are_apart_by_their_signs() {
        let (low, high): (Vec<f64>, Vec<f64>) =
            (0..9).map(|i| (f64::from(i), f64::from(i + 10))).unzip();
        let apart = (9.0 + 1.0 / 9.0f64).sqrt();
        assert!((medians(&high, &low, 0.0) - apart).abs() < 1e-9);
        assert!((medians(&low, &high, 0.0) + apart).abs() < 1e-9);
        assert!(medians(&high, &low, 10.0).abs() < 0.5);
        assert_eq!(medians(&[], &[], 0.0), 0.0);
    }

    #[test]
    fn what_blocks_do_to_both_is_in_no_distance() {
        let level = series(100, |rng| rng.normal());
        let noise = series(101, |rng| 0.01 * rng.normal());
        let a: Vec<f64> =
            level.iter().zip(&noise).map(|(level, noise)| level + noise + 0.3).collect();
        let apart = medians(&a, &level, 0.0);
        let alone = medians(&a, &level.iter().rev().copied().collect::<Vec<f64>>(), 0.0);
        assert!(apart > 1.2 * alone, "{apart} {alone}");
    }
}

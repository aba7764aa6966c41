//! Estimate: a number with its interval.

use serde::{Deserialize, Serialize};

/// Point estimate with a confidence interval, in the unit of the estimated quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Best single value.
    pub point: f64,
    /// Lower end of the interval, included.
    pub low: f64,
    /// Upper end of the interval, included.
    pub high: f64,
    /// Two-sided level of the interval, in `[0, 1)`. The coverage is at least this, because the underlying exact tests
    /// are discrete.
    pub confidence: f64,
}

impl Estimate {
    /// Maps the estimate to another scale. `f` must not decrease, or the ends would swap.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Estimate {
        Estimate {
            point: f(self.point),
            low: f(self.low),
            high: f(self.high),
            confidence: self.confidence,
        }
    }

    /// Returns true if `value` lies outside the interval.
    pub fn excludes(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }

    /// Returns true if the whole interval lies strictly between `low` and `high`.
    pub fn within(&self, low: f64, high: f64) -> bool {
        self.low > low && self.high < high
    }

    /// Widens the interval: both ends are `factor` times as far from the point.
    pub fn widened(self, factor: f64) -> Estimate {
        let low = self.point - factor * (self.point - self.low);
        let high = self.point + factor * (self.high - self.point);
        Estimate { low, high, ..self }
    }
}

/// Returns the largest `c` with `P(T < c) <= tail`: the number of the smallest pairwise averages (or differences)
/// outside a two-sided interval with `tail` on each side, plus one.
///
/// `distribution[t]` is `P(T = t)`. `None` if even `P(T = 0)` is more than `tail`: for so few samples no interval of
/// that level exists.
pub(super) fn order_rank(distribution: &[f64], tail: f64) -> Option<usize> {
    // `1 - confidence` carries rounding; a p-value that equals the level on paper must count.
    let tail = tail * (1.0 + 1e-9);
    let mut sum = 0.0;
    let rank = distribution
        .iter()
        .take_while(|p| {
            sum += **p;
            sum <= tail
        })
        .count();
    (rank > 0).then_some(rank)
}

/// Sorts `values` in ascending order; `None` if there are none or one is not finite.
pub(super) fn sorted_finite(mut values: Vec<f64>) -> Option<Vec<f64>> {
    if values.is_empty() || !values.iter().all(|v| v.is_finite()) {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    Some(values)
}

/// Bounds on the error of every log-ratio from lateness of the generator: the largest distances of the true value from
/// the measured one, at least 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slack {
    /// Bound below: the true value may be lower by this.
    pub below: f64,
    /// Bound above: the true value may be higher by this.
    pub above: f64,
}

impl Slack {
    /// Returns the bounds with an error of up to `either` on both sides.
    #[must_use]
    pub fn plus(self, either: f64) -> Slack {
        Slack { below: self.below.max(0.0) + either, above: self.above.max(0.0) + either }
    }

    pub(super) fn widen(self, interval: Estimate) -> Estimate {
        let (low, high) = (interval.low - self.below.max(0.0), interval.high + self.above.max(0.0));
        Estimate { low, high, ..interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_part_of_the_interval() {
        let e = Estimate { point: 1.0, low: 0.5, high: 2.0, confidence: 0.95 };
        assert!(!e.excludes(0.5) && !e.excludes(2.0) && e.excludes(2.1));
        assert!(e.within(0.4, 2.1) && !e.within(0.5, 2.1));
    }

    #[test]
    fn order_rank_counts_the_tail() {
        assert_eq!(order_rank(&[0.25, 0.25, 0.25, 0.25], 0.5), Some(2));
        assert_eq!(order_rank(&[0.25, 0.25, 0.25, 0.25], 0.2), None);
    }
}

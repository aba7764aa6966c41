//! Regimes: two clusters of trials, which a single figure would hide.
//!
//! A transport with threads that are sometimes placed well and sometimes badly has two latencies and no typical one.
//! This module detects that for a report. It does not affect verdicts: their rank tests also hold their level with
//! regimes.

use super::estimate::sorted_finite;
use super::quantile::median_sorted;
use serde::{Deserialize, Serialize};

/// Regime: one of two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// Median of the cluster, in the unit of the values.
    pub centre: f64,
    /// Share of all values, in (0, 1).
    pub share: f64,
    /// Number of values.
    pub count: usize,
}

/// Minimum number of values to distinguish regimes from noise.
const FEWEST: usize = 6;

/// Smallest ratio of the centres that is reported.
const SMALLEST_RATIO: f64 = 1.15;

/// Smallest count of a cluster; smaller ones are outliers.
const SMALLEST_COUNT: usize = 2;
const SMALLEST_SHARE: f64 = 0.1;

/// Smallest value of Ashman's D. Two given normal components are separate at 2 (Ashman, Bird & Zepf 1994, Astron. J.
/// 108); the best split of one cluster already has more, hence the stricter bound.
const SMALLEST_D: f64 = 5.0;

/// Largest share of the variance within the clusters: this times the number of values, at most [`MOST_WITHIN`].
///
/// The best split explains much of the variance of any small sample: of six values from one Pareto distribution, at
/// least 98 % in one sample of 60. The bound is the 98.5 % quantile, or stricter, over single clusters: the worst of
/// normal, log-normal, uniform, Student t (2 and 3 degrees) and Pareto (exponents 1.5 and 2), for 6 to 40 values.
const WITHIN_PER_VALUE: f64 = 0.003;
const MOST_WITHIN: f64 = 0.12;

/// Returns the two regimes of positive `values`, the lower first. `None` for a single cluster, too few values, or a
/// value that is not positive and finite.
///
/// The split is the best of all in two groups by squared distance of logarithms: two-means,
/// which in one dimension needs only the `n - 1` cuts of the sorted values (Fisher 1958, JASA 53).
pub fn regimes(values: &[f64]) -> Option<[Regime; 2]> {
    if values.len() < FEWEST || values.iter().any(|v| *v <= 0.0) {
        return None;
    }
    let sorted = sorted_finite(values.to_vec())?;
    let logs: Vec<f64> = sorted.iter().map(|v| v.ln()).collect();
    let cut = best_cut(&logs);
    let smallest = SMALLEST_COUNT.max((SMALLEST_SHARE * sorted.len() as f64).ceil() as usize);
    if cut.min(sorted.len() - cut) < smallest || !apart(&logs, cut) {
        return None;
    }
    let (low, high) = sorted.split_at(cut);
    let regime = |part: &[f64]| {
        let share = part.len() as f64 / sorted.len() as f64;
        Some(Regime { centre: median_sorted(part)?, share, count: part.len() })
    };
    let (low, high) = (regime(low)?, regime(high)?);
    (high.centre / low.centre >= SMALLEST_RATIO).then_some([low, high])
}

/// Returns the number of values in the lower group of the best split.
fn best_cut(logs: &[f64]) -> usize {
    let (below, above) = (squares(logs.iter()), squares(logs.iter().rev()));
    let within = |cut: usize| below[cut - 1] + above[logs.len() - cut - 1];
    (1..logs.len()).min_by(|a, b| within(*a).total_cmp(&within(*b))).unwrap_or(1)
}

/// Returns the sum of squared distances from their mean of the first, the first two, the first three … values
/// (Welford 1962, Technometrics 4).
fn squares<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let (mut mean, mut sum) = (0.0, 0.0);
    let mut add = |(before, value): (usize, &f64)| {
        let distance = value - mean;
        mean += distance / (before + 1) as f64;
        sum += distance * (value - mean);
        sum
    };
    values.enumerate().map(&mut add).collect()
}

/// Returns true if the two groups are further apart than the best split of a single cluster would be.
fn apart(logs: &[f64], cut: usize) -> bool {
    let (low, high) = (Spread::of(&logs[..cut]), Spread::of(&logs[cut..]));
    let allowed = (WITHIN_PER_VALUE * logs.len() as f64).min(MOST_WITHIN);
    let explained = low.squares + high.squares <= allowed * Spread::of(logs).squares;
    // D = √2 |difference| / √(sum of variances), without the division by a variance of zero.
    let distance = 2.0f64.sqrt() * (high.mean - low.mean);
    explained
        && distance > 0.0
        && distance >= SMALLEST_D * (low.variance() + high.variance()).sqrt()
}

struct Spread {
    count: f64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        Spread { count, mean, squares: values.iter().map(|v| (v - mean).powi(2)).sum() }
    }

    fn variance(&self) -> f64 {
        self.squares / (self.count - 1.0).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    const SIZES: [usize; 8] = [6, 7, 8, 10, 12, 16, 24, 40];

    fn found(rounds: u32, seed: u64, n: usize, draw: impl Fn(&mut SplitMix64) -> f64) -> f64 {
        let mut rng = SplitMix64::new(seed);
        let hits = (0..rounds)
            .filter(|_| {
                let values: Vec<f64> = (0..n).map(|_| draw(&mut rng).max(1e-3)).collect();
                regimes(&values).is_some()
            })
            .count();
        hits as f64 / f64::from(rounds)
    }

    fn student(rng: &mut SplitMix64, degrees: u32) -> f64 {
        let squares: f64 = (0..degrees).map(|_| rng.normal().powi(2)).sum();
        rng.normal() / (squares / f64::from(degrees)).sqrt()
    }

    fn pareto(rng: &mut SplitMix64, exponent: f64) -> f64 {
        (1.0 - rng.unit()).powf(-1.0 / exponent)
    }

    #[test]
    fn one_cluster_is_not_two() {
        type Draw = fn(&mut SplitMix64) -> f64;
        let noises: [(&str, Draw); 10] = [
            ("normal, 5 %", |rng| 1.0 + 0.05 * rng.normal()),
            ("normal, 25 %", |rng| 1.0 + 0.25 * rng.normal()),
            ("log-normal", |rng| (0.5 * rng.normal()).exp()),
            ("uniform", |rng| 1.0 + 2.0 * rng.unit()),
            ("Student t3, 10 %", |rng| 1.0 + 0.1 * student(rng, 3)),
            ("Student t3 of logarithms", |rng| (0.3 * student(rng, 3)).exp()),
            ("Student t2 of logarithms", |rng| (0.3 * student(rng, 2)).exp()),
            ("Pareto 1.5", |rng| pareto(rng, 1.5)),
            ("Pareto 2.5", |rng| pareto(rng, 2.5)),
            ("base and Pareto 1.5", |rng| 1.0 + 0.1 * pareto(rng, 1.5)),
        ];
        for (seed, (name, draw)) in noises.into_iter().enumerate() {
            for n in SIZES {
                let rate = found(4_000, seed as u64, n, draw);
                assert!(rate <= 0.02, "{name}, {n} values: {rate}");
            }
        }
    }

    /// Five times slower in 30 % of trials: found whenever both regimes are there twice.
    #[test]
    fn two_placements_are_found() {
        let draw = |rng: &mut SplitMix64| {
            let slow = if rng.unit() < 0.3 { 5.0 } else { 1.0 };
            slow * (0.05 * rng.normal()).exp()
        };
        // P(2 <= binomial(n, 0.3) <= n - 2), less some room for chance.
        for (n, rate) in [(6, 0.54), (8, 0.71), (12, 0.89), (24, 0.98), (40, 0.98)] {
            let got = found(2_000, 77, n, draw);
            assert!(got >= rate, "{n} values: {got}");
        }
    }

    #[test]
    fn names_both() {
        let values = [10.0, 50.0, 10.1, 10.3, 51.0, 9.9, 10.2, 49.0];
        let [fast, slow] = regimes(&values).unwrap();
        assert_eq!((fast.count, fast.centre, fast.share), (5, 10.1, 0.625));
        assert_eq!((slow.count, slow.centre, slow.share), (3, 50.0, 0.375));
        assert!(regimes(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]).is_some());
    }

    /// One pass from either end finds the cut that summing both groups at every cut finds.
    #[test]
    fn the_best_cut_is_that_of_trying_all() {
        let mut rng = SplitMix64::new(4);
        for n in [2, 3, 9, 40, 200] {
            let mut logs: Vec<f64> = (0..n).map(|_| 30.0 + rng.normal()).collect();
            logs.sort_unstable_by(f64::total_cmp);
            let parts = |cut: usize| [Spread::of(&logs[..cut]), Spread::of(&logs[cut..])];
            let within = |cut: &usize| parts(*cut).iter().map(|part| part.squares).sum::<f64>();
            let all = (1..logs.len()).min_by(|a, b| within(a).total_cmp(&within(b)));
            assert_eq!(Some(best_cut(&logs)), all, "{n}");
        }
    }

    #[test]
    fn nothing_to_name() {
        assert_eq!(regimes(&[1.0, 1.0, 5.0, 5.0, 5.0]), None);
        assert_eq!(regimes(&[7.0; 12]), None);
        // One outlier is not a regime, nor are clusters 5 % apart.
        assert_eq!(regimes(&[1.0, 1.01, 1.02, 1.0, 1.01, 1.02, 1.0, 40.0]), None);
        assert_eq!(regimes(&[1.0, 1.001, 1.0, 1.001, 1.05, 1.051, 1.05, 1.051]), None);
        assert_eq!(regimes(&[0.0, 1.0, 1.0, 5.0, 5.0, 5.0]), None);
        assert_eq!(regimes(&[-1.0, 1.0, 1.0, 5.0, 5.0, 5.0]), None);
        assert_eq!(regimes(&[f64::NAN, 1.0, 1.0, 5.0, 5.0, 5.0]), None);
    }
}

//! Independent samples: two saved races, whose blocks are not pairs.
//!
//! Mann & Whitney (1947, Ann. Math. Statist. 18) on one figure per trial, with the shift estimate
//! of Hodges & Lehmann (1963): the median of all differences `a_i - b_j`. On logarithms the shift
//! is a log-ratio.

use super::Estimate;
use super::estimate::{order_rank, sorted_finite};
use super::normal;
use super::quantile::median_sorted;

/// Up to this product of the sample sizes (40 by 40) the null distribution is exact.
const EXACT_UP_TO: usize = 1_600;

/// Median of all differences `a_i - b_j`, in the unit of the samples.
pub fn hodges_lehmann_shift(a: &[f64], b: &[f64]) -> Option<f64> {
    median_sorted(&differences(a, b)?)
}

/// The shift of `a` against `b` with its interval at `confidence` (two-sided, in (0, 1)).
///
/// `None` where no interval from so few values has that confidence: three against three allow
/// 90 % at most, four against four 97.1 %.
pub fn interval(a: &[f64], b: &[f64], confidence: f64) -> Option<Estimate> {
    let tail = 0.5 * (1.0 - confidence);
    if !(tail > 0.0 && tail < 0.5) {
        return None;
    }
    let differences = differences(a, b)?;
    let rank = if differences.len() <= EXACT_UP_TO {
        order_rank(&null_distribution(a.len(), b.len()), tail)?
    } else {
        normal_rank(a.len(), b.len(), tail)?
    };
    Estimate::from_order(&differences, rank, confidence)
}

/// Two-sided p-value of "both samples come from one distribution".
///
/// Exact for small samples without ties; otherwise the normal approximation with the variance
/// corrected for ties and with continuity correction.
pub fn p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences = differences(a, b)?;
    let above = differences.iter().filter(|d| **d > 0.0).count() as f64;
    let level = differences.iter().filter(|d| **d == 0.0).count() as f64;
    let u = above + 0.5 * level;
    let larger = u.max(differences.len() as f64 - u);
    let pooled = sorted_finite([a, b].concat())?;
    let tied = pooled.windows(2).any(|pair| pair[0] == pair[1]);
    if differences.len() <= EXACT_UP_TO && !tied {
        let distribution = null_distribution(a.len(), b.len());
        let tail: f64 = distribution[..=differences.len() - larger as usize].iter().sum();
        return Some((2.0 * tail).min(1.0));
    }
    let deviation = tied_deviation(a.len(), b.len(), &pooled);
    if deviation == 0.0 {
        return Some(1.0);
    }
    let excess = larger - 0.5 * differences.len() as f64 - 0.5;
    Some((2.0 * normal::upper_tail(excess / deviation)).min(1.0))
}

/// `P(U = u)` for `u` in `0..=n m`, where `U` counts the pairs that the first sample wins.
///
/// The largest of all values is one of the first sample's with probability `i / (i + j)` and
/// then wins against all `j`; else it belongs to the second and wins nothing.
fn null_distribution(n: usize, m: usize) -> Vec<f64> {
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        for j in 1..=m {
            let share = i as f64 / (i + j) as f64;
            let mut next = vec![0.0; i * j + 1];
            for (u, p) in row[j].iter().enumerate() {
                next[u + j] += share * p;
            }
            for (u, p) in row[j - 1].iter().enumerate() {
                next[u] += (1.0 - share) * p;
            }
            row[j] = next;
        }
    }
    row.pop().unwrap_or_default()
}

/// Standard deviation of `U` under the null hypothesis, given the ties (Lehmann 1975, §1.4).
fn tied_deviation(n: usize, m: usize, pooled: &[f64]) -> f64 {
    let (n, m, all) = (n as f64, m as f64, pooled.len() as f64);
    let ties: f64 =
        pooled.chunk_by(|a, b| a == b).map(|group| group.len() as f64).map(|t| t * t * t - t).sum();
    (n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)))).max(0.0).sqrt()
}

fn normal_rank(n: usize, m: usize, tail: f64) -> Option<usize> {
    let (n, m) = (n as f64, m as f64);
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let rank = (0.5 * n * m + 0.5 - normal::upper_quantile(tail) * deviation + 1e-9).floor();
    (rank >= 1.0).then_some(rank as usize)
}

fn differences(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    sorted_finite(a.iter().flat_map(|x| b.iter().map(move |y| x - y)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_is_that_of_counting() {
        // C(4, 2) = 6 orders of two and two: U is 0, 1, 2 (twice), 3, 4.
        let expected = [1.0, 1.0, 2.0, 1.0, 1.0].map(|count| count / 6.0);
        for (got, want) in null_distribution(2, 2).iter().zip(expected) {
            assert!((got - want).abs() < 1e-15);
        }
        let sum: f64 = null_distribution(17, 23).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn complete_separation() {
        let (a, b) = ([5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]);
        assert!((p_value(&a, &b).unwrap() - 2.0 / 70.0).abs() < 1e-15);
        assert_eq!(hodges_lehmann_shift(&a, &b), Some(4.0));
        let e = interval(&a, &b, 0.95).unwrap();
        assert_eq!((e.low, e.high), (1.0, 7.0));
        assert_eq!(interval(&a[..3], &b[..3], 0.95), None);
    }

    #[test]
    fn edges() {
        assert_eq!(p_value(&[], &[1.0]), None);
        assert_eq!(p_value(&[1.0; 5], &[1.0; 5]), Some(1.0));
        assert_eq!(p_value(&[f64::NAN], &[1.0]), None);
        assert_eq!(interval(&[1.0], &[2.0], 2.0), None);
    }
}

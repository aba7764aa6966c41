//! Percentiles, the median and the median absolute deviation.

use super::estimate::sorted_finite;

/// Definition of [`quantile_sorted`]; printed beside every percentile, because nine definitions are in use and they
/// differ most in the tail.
pub const DEFINITION: &str = "nearest rank (Hyndman-Fan type 1): the smallest sample with at least a share q of all samples at or below it";

/// Number of samples that must lie beyond a percentile before it may be printed.
const SAMPLES_BEYOND: u64 = 10;

/// Returns the `q` quantile of samples in ascending order, by [`DEFINITION`] (Hyndman & Fan 1996, Am. Stat. 50(4)):
/// always a measured value.
///
/// `None` for an empty sample or `q` outside `[0, 1]`.
pub fn quantile_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = nearest_rank(sorted.len() as u64, q)?;
    sorted.get(rank as usize - 1).copied()
}

/// Returns true if the `q` quantile of `n` samples may be printed: at least ten samples lie beyond it, on the side
/// away from the median. Thus 20 samples for p50, 1,000 for p99, 10,000 for p99.9.
pub fn printable(n: u64, q: f64) -> bool {
    printable_rank(n, q).is_some()
}

/// Returns the [`nearest_rank`] of a quantile that is [`printable`].
pub fn printable_rank(n: u64, q: f64) -> Option<u64> {
    nearest_rank(n, q).filter(|rank| {
        let beyond = if q < 0.5 { rank - 1 } else { n - rank };
        beyond >= SAMPLES_BEYOND
    })
}

/// Returns the middle value, or the mean of the middle two. `None` if empty or not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    median_sorted(&sorted_finite(values.to_vec())?)
}

/// Returns the ranks of `n` sorted values that enclose the median of their distribution, as indices from 0, except with
/// a probability of at most `error` (the inverted sign test; David & Nagaraja, "Order Statistics", 7.1). `None` with
/// too few values: 5 % needs six.
pub fn median_ranks(n: usize, error: f64) -> Option<(usize, usize)> {
    let tail = error / 2.0 * (1.0 + 1e-9);
    // Binomial(n, 1/2) probabilities by their logarithms: 2^-n alone underflows for long races.
    let mut log_p = n as f64 * 0.5f64.ln();
    let (mut below, mut rank) = (log_p.exp(), 0);
    while below <= tail && rank < n / 2 {
        log_p += ((n - rank) as f64 / (rank + 1) as f64).ln();
        below += log_p.exp();
        rank += 1;
    }
    Some((rank.checked_sub(1)?, n - rank))
}

/// Returns the median absolute deviation from the median, in the unit of the values and not rescaled: times
/// [`MAD_TO_SD`] it estimates the standard deviation of normal data, robust to outliers.
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let distances: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    median(&distances)
}

/// Factor `1 / Φ⁻¹(3/4)` from a median absolute deviation to a standard deviation.
pub const MAD_TO_SD: f64 = 1.482_602_218_505_602;

pub(super) fn median_sorted(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    // Halved before they are added: the sum of two finite values may not be finite.
    Some(0.5 * sorted.get(half.checked_sub(1)?)? + 0.5 * upper)
}

/// Returns the nearest rank `max(1, ⌈q n⌉)` of the `q` quantile of `n` samples, from 1.
///
/// `None` for an empty sample or `q` outside `[0, 1]`.
pub fn nearest_rank(n: u64, q: f64) -> Option<u64> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    // 0.07 × 100 is 7.000000000000001 in f64; without the allowance the rank would be 8.
    let exact = q * n as f64;
    let rank = (exact - 1e-12 * exact.max(1.0)).ceil() as u64;
    Some(rank.clamp(1, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_is_a_measured_value() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        for percent in 1..=100 {
            let q = f64::from(percent) / 100.0;
            assert_eq!(quantile_sorted(&sorted, q), Some(f64::from(percent)));
        }
        assert_eq!(quantile_sorted(&sorted, 0.0), Some(1.0));
        assert_eq!(quantile_sorted(&sorted, 0.501), Some(51.0));
        assert_eq!(quantile_sorted::<f64>(&[], 0.5), None);
        assert_eq!(quantile_sorted(&sorted, 1.01), None);
        assert_eq!(quantile_sorted(&sorted, f64::NAN), None);
    }

    #[test]
    fn ten_samples_beyond() {
        for (n, q) in [(20, 0.5), (100, 0.9), (1_000, 0.99), (10_000, 0.999), (110, 0.1)] {
            assert!(printable(n, q), "{n} {q}");
            assert!(!printable(n - 10, q), "{n} {q}");
        }
        assert!(!printable(999, 0.99) && !printable(0, 0.5) && !printable(1_000_000, 1.0));
    }

    #[test]
    fn median_and_mad() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    }
}

//! Exact comparison of two shares: the test of Fisher (1935, *The Design of Experiments*), two-sided by the
//! probability of the table, as R's `fisher.test` does it.

/// Returns the p-value of "both have the same share", for `a` successes of `of_a` and `b` of `of_b`.
///
/// All tables with the same margins that are at most as probable as the observed one count. 1 if one has no trials, or
/// if none or all succeeded.
pub fn fisher(a: u64, of_a: u64, b: u64, of_b: u64) -> f64 {
    let successes = a.saturating_add(b);
    let (least, most) = (successes.saturating_sub(of_b), successes.min(of_a));
    if a > of_a || b > of_b || least == most {
        return 1.0;
    }
    let log_weight = |k: u64| log_choose(of_a, k) + log_choose(of_b, successes - k);
    let seen = log_weight(a);
    let all: f64 = (least..=most).map(|k| (log_weight(k) - seen).exp()).sum();
    let as_rare: f64 = (least..=most)
        .map(|k| log_weight(k) - seen)
        // At most as probable as the observed table, up to rounding.
        .filter(|log| *log <= 1e-7)
        .map(f64::exp)
        .sum();
    (as_rare / all).min(1.0)
}

fn log_choose(n: u64, k: u64) -> f64 {
    (1..=k.min(n - k)).map(|i| ((n - k.min(n - k) + i) as f64 / i as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: `fisher.test(matrix(c(3, 1, 1, 3), 2))$p.value` is 0.4857 (the lady tasting tea),
    /// `fisher.test(matrix(c(48, 6, 198, 200), 2))$p.value` is 5.5e-08.
    #[test]
    fn as_in_r() {
        assert!((fisher(3, 4, 1, 4) - 34.0 / 70.0).abs() < 1e-12);
        let p = fisher(48, 246, 6, 206);
        assert!(p > 1e-9 && p < 1e-7, "{p}");
    }

    #[test]
    fn nothing_to_compare_is_no_difference() {
        for p in [fisher(0, 0, 3, 9), fisher(0, 5, 0, 9), fisher(5, 5, 9, 9), fisher(6, 5, 0, 9)] {
            assert_eq!(p, 1.0);
        }
        assert_eq!(fisher(2, 10, 2, 10), 1.0);
    }
}

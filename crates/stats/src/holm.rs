//! Several claims at one level: Holm (1979), "A simple sequentially rejective multiple test
//! procedure", Scand. J. Statist. 6.
//!
//! The probability of even one false rejection stays at `alpha` however the claims depend on each
//! other, which those of a race do: they share contenders and blocks.

/// Returns true for each hypothesis that is rejected at family-wise level `alpha`, in the order given.
pub fn holm(p: &[f64], alpha: f64) -> Vec<bool> {
    p.iter().zip(levels(p, alpha)).map(|(p, level)| *p <= level).collect()
}

/// Returns p-values to compare with the family's level directly: `max over j <= i of (m - j + 1) p_(j)`, at most 1,
/// in the order given.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut result = vec![1.0; p.len()];
    let mut highest: f64 = 0.0;
    for (step, index) in ascending(p).into_iter().enumerate() {
        highest = highest.max(p[index] * (p.len() - step) as f64);
        result[index] = if highest < 1.0 { highest } else { 1.0 };
    }
    result
}

/// Returns the level that each hypothesis was held to: `alpha / m` for the smallest p-value, `alpha / (m - 1)` for
/// the next and so on; from the first that fails, that step's level for all the rest, so that `p <= level` is the
/// rejection itself.
pub fn levels(p: &[f64], alpha: f64) -> Vec<f64> {
    let mut result = vec![alpha; p.len()];
    let mut failed_at = None;
    for (step, index) in ascending(p).into_iter().enumerate() {
        let level = failed_at.unwrap_or(alpha / (p.len() - step) as f64);
        result[index] = level;
        // A NaN compares as not rejected.
        if failed_at.is_none()
            && !matches!(p[index].partial_cmp(&level), Some(order) if order.is_le())
        {
            failed_at = Some(level);
        }
    }
    result
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` is `0.03 0.06 0.06 0.02`.
    #[test]
    fn as_in_r() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (got, want) in adjusted(&p).iter().zip(expected) {
            assert!((got - want).abs() < 1e-15);
        }
        assert_eq!(holm(&p, 0.05), [true, false, false, true]);
    }

    #[test]
    fn nothing_is_rejected_after_the_first_failure() {
        assert_eq!(holm(&[0.03, 0.04], 0.05), [false, false]);
        assert_eq!(levels(&[0.03, 0.04], 0.05), [0.025, 0.025]);
        assert_eq!(holm(&[0.02, 0.04], 0.05), [true, true]);
        assert_eq!(levels(&[0.04, 0.02], 0.05), [0.05, 0.025]);
    }

    #[test]
    fn edges() {
        assert!(holm(&[], 0.05).is_empty() && adjusted(&[]).is_empty());
        assert_eq!(holm(&[f64::NAN, 0.001], 0.05), [false, true]);
        assert_eq!(adjusted(&[f64::NAN, 0.9]), [1.0, 1.0]);
    }
}

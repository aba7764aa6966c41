//! The standard normal distribution, for samples too large for exact tables and for planning.

use std::f64::consts::PI;

/// Returns `P(Z > x)`, accurate to about 1e-15 near the centre and relatively in the tail.
///
/// Centre: the series of Marsaglia (2004, J. Stat. Softw. 11(4)). Tail: Laplace's continued fraction for Mills' ratio,
/// because `0.5 - series` would cancel there.
pub(super) fn upper_tail(x: f64) -> f64 {
    if x < 0.0 {
        return 1.0 - upper_tail(-x);
    }
    let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    if x < 3.0 {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..=120).rev().fold(x, |rest, k| x + f64::from(k) / rest);
        density / fraction
    }
}

/// Returns the `z` with `P(Z > z) = tail`, for `tail` in (0, 1).
///
/// Bisection: slower than a rational approximation, but exact to the last digits and without a
/// table of constants. It is called a few times per verdict.
pub(super) fn upper_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (-38.0, 38.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if upper_tail(middle) > tail { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Abramowitz & Stegun, table 26.1, and mpmath for the far tail.
        assert!((upper_tail(0.0) - 0.5).abs() < 1e-16);
        assert!((upper_tail(1.959_963_984_540_054) - 0.025).abs() < 1e-15);
        assert!((upper_tail(6.0) / 9.865_876_450_376_98e-10 - 1.0).abs() < 1e-12);
        assert!((upper_tail(2.999_999_999) - upper_tail(3.000_000_001)).abs() < 1e-11);
    }

    #[test]
    fn quantile_inverts_the_tail() {
        for tail in [1e-9, 0.001, 0.025, 0.5, 0.9, 0.999] {
            assert!((upper_tail(upper_quantile(tail)) / tail - 1.0).abs() < 1e-9, "{tail}");
        }
        assert!((upper_quantile(0.025) - 1.959_963_984_540_054).abs() < 1e-12);
    }
}

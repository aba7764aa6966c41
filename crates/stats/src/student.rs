//! Student's t distribution, for intervals from few blocks.

use std::f64::consts::PI;

/// Returns `P(T > t)` with `freedom` degrees of freedom, by the finite series of Abramowitz & Stegun, 26.7.3 and
/// 26.7.4.
fn upper_tail(t: f64, freedom: u64) -> f64 {
    let theta = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let even = freedom.is_multiple_of(2);
    // 1 + cos²/2 + 1·3/(2·4) cos⁴ … for even, cos + 2/3 cos³ … for odd degrees.
    let mut term = if even { 1.0 } else { cos };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut k = if even { 2 } else { 3 };
    while k < freedom {
        term *= cos * cos * (k - 1) as f64 / k as f64;
        sum += term;
        k += 2;
    }
    let inside = if even { sin * sum } else { 2.0 / PI * (theta + sin * sum) };
    0.5 * (1.0 - inside)
}

/// Returns the `t` with `P(T > t) = tail`, for `tail` in (0, 0.5) and at least one degree of freedom.
///
/// Newton's method from 0: the tail is convex there, so each step goes up and none too far, until rounding ends it.
pub(super) fn upper_quantile(tail: f64, freedom: u64) -> f64 {
    let freedom = freedom.max(1);
    let (n, scale) = (freedom as f64, scale(freedom));
    let mut t = 0.0;
    for _ in 0..100 {
        let density = scale * (1.0 + t * t / n).powf(-0.5 * (n + 1.0));
        let next = t + (upper_tail(t, freedom) - tail) / density;
        if next <= t {
            break;
        }
        t = next;
    }
    t
}

/// Returns the density at 0: `Γ((n + 1)/2) / (√(nπ) Γ(n/2))`, from that of two degrees of freedom less.
fn scale(freedom: u64) -> f64 {
    let (mut n, mut scale) =
        if freedom % 2 == 1 { (1.0, 1.0 / PI) } else { (2.0, 0.5 / 2f64.sqrt()) };
    while n < freedom as f64 {
        scale *= (n + 1.0) / (n * (n + 2.0)).sqrt();
        n += 2.0;
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SciPy 1.17.1: `scipy.stats.t.ppf(0.975, freedom)` and `t.ppf(0.995, 4)`.
    #[test]
    fn as_in_scipy() {
        let expected = [
            (1, 12.706_204_736_174_69),
            (2, 4.302_652_729_749_462),
            (5, 2.570_581_835_636_314_6),
            (6, 2.446_911_851_144_978_6),
            (11, 2.200_985_160_091_639),
            (30, 2.042_272_456_301_237_8),
            (199, 1.971_956_544_251_753_3),
        ];
        for (freedom, want) in expected {
            let got = upper_quantile(0.025, freedom);
            assert!((got / want - 1.0).abs() < 1e-9, "{freedom}: {got} instead of {want}");
        }
        assert!((upper_quantile(0.005, 4) / 4.604_094_871_349_993 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn it_is_the_inverse_of_the_tail_far_out_too() {
        for freedom in [1, 2, 3, 8, 40, 1_000] {
            for tail in [0.499, 0.3, 0.05, 1e-3, 1e-6] {
                let back = upper_tail(upper_quantile(tail, freedom), freedom);
                assert!((back / tail - 1.0).abs() < 1e-8, "{freedom}, {tail}: {back}");
            }
        }
    }
}

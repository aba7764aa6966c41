//! Distributions by inverse transform from one draw, in arithmetic that IEEE 754 fixes at every step (sum, product,
//! quotient, square root), so that a seed means the same on every machine. The mathematical functions of the
//! platform are not used: their last digits differ.

use super::draw::unit;
use crate::network::{Jitter, Shape};

/// Returns the offset of a delay in nanoseconds.
pub(super) fn offset(jitter: &Jitter, draw: u64) -> i64 {
    let scale = jitter.scale.0.min(i64::MAX as u64 / 4);
    match &jitter.shape {
        Shape::Uniform => {
            let steps = u128::from(2 * scale + 1);
            ((u128::from(draw) * steps) >> 64) as i64 - scale as i64
        }
        Shape::Normal => scaled(scale, normal(unit(draw))),
        Shape::Pareto => scaled(scale, pareto(unit(draw))),
        Shape::Table(offsets) => {
            let at = (u128::from(draw) * offsets.len() as u128) >> 64;
            offsets.get(at as usize).map_or(0, |offset| scaled(scale, *offset))
        }
    }
}

fn scaled(scale: u64, units: f64) -> i64 {
    (scale as f64 * units).round() as i64
}

/// Returns an exponentially distributed number with mean 1, for `u` in (0, 1).
pub(super) fn exponential(u: f64) -> f64 {
    -ln(u)
}

/// Draws from a Pareto distribution with the exponent 3, moved and scaled to mean 0 and standard deviation 1: with
/// the least value 1 the mean is 3/2 and the variance 3/4.
fn pareto(u: f64) -> f64 {
    (1.0 / cube_root(u) - 1.5) / 0.75_f64.sqrt()
}

/// Returns the natural logarithm of a positive normal number, to about 2e-16 of it or absolutely: `x = m 2^e` with
/// `m` around 1, and `ln m = 2 artanh((m - 1) / (m + 1))` as its series.
fn ln(x: f64) -> f64 {
    const TERMS: u32 = 12;
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7FF) as i32 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = (0..TERMS).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Returns the cube root of a positive normal number by Newton's method, from a third of its exponent.
fn cube_root(x: f64) -> f64 {
    // A third of the bits is a third of the exponent, except for the bias: within 6 %.
    let guess = f64::from_bits(x.to_bits() / 3 + (1023_u64 << 52) / 3 * 2);
    (0..4).fold(guess, |y, _| y - (y - x / (y * y)) / 3.0)
}

/// Returns the standard normal quantile of `u` in (0, 1), to about 1e-16 of it: algorithm AS 241 (Wichura 1988, Appl.
/// Statist. 37(3)), PPND16.
pub(super) fn normal(u: f64) -> f64 {
    let q = u - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.425 * 0.425 - q * q;
        return q * polynomial(&CENTRE.0, r) / polynomial(&CENTRE.1, r);
    }
    let tail = if q < 0.0 { u } else { 1.0 - u };
    let r = (-ln(tail)).sqrt();
    let x = if r <= 5.0 {
        polynomial(&MIDDLE.0, r - 1.6) / polynomial(&MIDDLE.1, r - 1.6)
    } else {
        polynomial(&FAR.0, r - 5.0) / polynomial(&FAR.1, r - 5.0)
    };
    if q < 0.0 { -x } else { x }
}

/// Evaluates a polynomial; coefficients from the constant one up.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Numerator and denominator for the centre.
#[allow(clippy::excessive_precision, reason = "as published, to be compared")]
const CENTRE: ([f64; 8], [f64; 8]) = (
    [
        3.387_132_872_796_366_608,
        1.331_416_678_917_843_774_5e2,
        1.971_590_950_306_551_442_7e3,
        1.373_169_376_550_946_112_5e4,
        4.592_195_393_154_987_145_7e4,
        6.726_577_092_700_870_085_3e4,
        3.343_057_558_358_812_810_5e4,
        2.509_080_928_730_122_672_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091_125_2e1,
        6.871_870_074_920_579_083e2,
        5.394_196_021_424_751_107_7e3,
        2.121_379_430_158_659_586_7e4,
        3.930_789_580_009_271_061e4,
        2.872_908_573_572_194_267_4e4,
        5.226_495_278_852_854_561e3,
    ],
);

/// Numerator and denominator for tails down to about 1e-11.
#[allow(clippy::excessive_precision, reason = "as published, to be compared")]
const MIDDLE: ([f64; 8], [f64; 8]) = (
    [
        1.423_437_110_749_683_577_34,
        4.630_337_846_156_545_295_9,
        5.769_497_221_460_691_405_5,
        3.647_848_324_763_204_605_04,
        1.270_458_252_452_368_382_58,
        2.417_807_251_774_506_117_7e-1,
        2.272_384_498_926_918_458_33e-2,
        7.745_450_142_783_414_076_4e-4,
    ],
    [
        1.0,
        2.053_191_626_637_758_821_87,
        1.676_384_830_183_803_849_4,
        6.897_673_349_851_000_045_5e-1,
        1.481_039_764_274_800_745_9e-1,
        1.519_866_656_361_645_719_66e-2,
        5.475_938_084_995_344_946e-4,
        1.050_750_071_644_416_843_24e-9,
    ],
);

/// Numerator and denominator for tails beyond.
#[allow(clippy::excessive_precision, reason = "as published, to be compared")]
const FAR: ([f64; 8], [f64; 8]) = (
    [
        6.657_904_643_501_103_777_2,
        5.463_784_911_164_114_369_9,
        1.784_826_539_917_291_335_8,
        2.965_605_718_285_048_912_3e-1,
        2.653_218_952_657_612_309_3e-2,
        1.242_660_947_388_078_438_6e-3,
        2.711_555_568_743_487_578_15e-5,
        2.010_334_399_292_288_132_65e-7,
    ],
    [
        1.0,
        5.998_322_065_558_879_376_9e-1,
        1.369_298_809_227_358_053_1e-1,
        1.487_536_129_085_061_485_25e-2,
        7.868_691_311_456_132_591e-4,
        1.846_318_317_510_054_681_8e-5,
        1.421_511_758_316_445_888_7e-7,
        2.044_263_103_389_939_785_64e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's `statistics.NormalDist().inv_cdf`, which is AS 241 too.
    #[test]
    fn normal_quantiles_are_known() {
        for (u, x) in [
            (0.5, 0.0),
            (0.3, -0.524_400_512_708_040_7),
            (0.9, 1.281_551_565_544_600_8),
            (1e-3, -3.090_232_306_167_813),
            (1e-12, -7.034_483_825_301_132),
            (1.110_223_024_625_156_5e-16, -8.209_536_151_601_386),
        ] {
            assert!((normal(u) - x).abs() <= 4e-15 * f64::abs(x), "{u}: {}", normal(u));
        }
    }

    #[test]
    fn logarithms_and_roots_are_those_of_the_platform() {
        for i in 1..10_000 {
            let u = unit(u64::MAX / 10_000 * i);
            assert!((ln(u) - u.ln()).abs() <= 1e-15 * u.ln().abs().max(0.1), "{u}");
            assert!((cube_root(u) / u.cbrt() - 1.0).abs() < 1e-15, "{u}");
        }
        let least = unit(0);
        assert!((ln(least) / least.ln() - 1.0).abs() < 1e-15);
        assert!((cube_root(least) / least.cbrt() - 1.0).abs() < 1e-15);
        assert!((cube_root(8e9) - 2_000.0).abs() < 1e-11);
    }

    #[test]
    fn wide_scales_do_not_overflow() {
        use crate::network::Order;
        use deadheat_base::time::Nanos;
        for shape in [Shape::Uniform, Shape::Normal, Shape::Pareto, Shape::Table([].into())] {
            let jitter = Jitter { scale: Nanos(u64::MAX), shape, order: Order::Free };
            let low = offset(&jitter, 0).min(offset(&jitter, u64::MAX));
            assert!(low <= 0, "{low}");
        }
    }
}

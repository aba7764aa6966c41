//! Numbers as people read them: three significant digits, the unit beside them.

use deadheat_base::figures;
pub use deadheat_base::figures::list;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Unit;
use deadheat_result::outcome::{Ratio, Verdict};

/// Placeholder for a missing figure.
pub const NOTHING: &str = figures::NOTHING;

/// Formats a figure with its unit: `12.3 µs`, `72.3 Gbit/s`, `0.125 %`.
pub fn figure(value: f64, unit: Unit) -> String {
    Scale::of([value], unit).with_unit(value)
}

/// Formats a figure that is only known to be greater than `value`: `> 3.00 s`.
pub fn beyond(value: f64, unit: Unit) -> String {
    format!("> {}", figure(value, unit))
}

/// Formats a fraction as percent: `5 %`, `0.125 %`. Whole percents carry no digits after the point.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let whole = percent.round();
    if (percent - whole).abs() < 1e-9 && whole.abs() < 1e15 {
        return format!("{whole:.0} %");
    }
    format!("{} %", in_percent(share))
}

/// Formats a fraction in percent with three significant digits, and more if these would read 100.
fn in_percent(share: f64) -> String {
    match significant(share * 100.0).as_str() {
        "100" => figures::in_percent(share),
        shown => shown.to_owned(),
    }
}

/// Formats the confidence of an interval, a fraction: `95 %`, `99.2 %`.
pub fn level(confidence: f64) -> String {
    let percent = confidence * 100.0;
    let rounded = (percent * 10.0).round() / 10.0;
    // 99.96 % must not be shown as certainty.
    if rounded >= 100.0 && confidence < 1.0 {
        return "> 99.9 %".into();
    }
    if rounded.fract() == 0.0 { format!("{rounded:.0} %") } else { format!("{rounded:.1} %") }
}

/// Formats a margin as a fraction: `±5 %`.
pub fn margin(margin: f64) -> String {
    format!("±{}", percent(margin))
}

/// Formats the margin of a verdict, a fraction or a time: `±5 %`, `±2.00 ms`.
pub fn verdict_margin(verdict: &Verdict) -> String {
    verdict.difference.map_or_else(
        || margin(verdict.margin),
        |difference| format!("±{}", Nanos(difference.margin.round() as u64)),
    )
}

/// Formats a bound of two hosts' clocks: `±0.41 ms`.
pub fn clock_bound(bound_ns: u64) -> String {
    format!("±{}", Nanos(bound_ns))
}

/// Formats a ratio with its interval: `1.006` and `[1.002, 1.011]`.
pub fn ratio(ratio: &Ratio) -> (String, String) {
    (times(ratio.point), interval(&times(ratio.low), &times(ratio.high)))
}

/// Formats a ratio. Near 1 the distance from 1 counts, so it has three digits after the point.
fn times(ratio: f64) -> String {
    if (0.1..2.0).contains(&ratio) { format!("{ratio:.3}") } else { significant(ratio) }
}

/// Formats an interval: `[9.11, 9.32]`.
pub fn interval(low: &str, high: &str) -> String {
    format!("[{low}, {high}]")
}

/// Returns the difference of one value from another, given their `ratio`: `24.2 % lower`, `3.10 times`,
/// `the same`.
pub fn change(ratio: f64) -> String {
    if !ratio.is_finite() || ratio <= 0.0 {
        return NOTHING.into();
    }
    if ratio >= 2.0 {
        return format!("{} times", significant(ratio));
    }
    let change = ratio - 1.0;
    if change.abs() < 5e-6 {
        return "the same".into();
    }
    let way = if change > 0.0 { "higher" } else { "lower" };
    format!("{} {way}", percent_of(change.abs()))
}

/// Formats percent of a measured share: three digits, at most two after the point.
fn percent_of(share: f64) -> String {
    if share < 0.1 { figures::percent(share) } else { format!("{} %", in_percent(share)) }
}

/// Formats a count with its noun: `1 trial`, `24 trials`.
pub fn count(n: u64, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        _ => format!("{n} {noun}s"),
    }
}

/// Formats a time in whole seconds or the two units that fit: `45 s`, `9 min 58 s`, `6 d 23 h`.
pub fn span(left: Nanos) -> String {
    let seconds = left.0.div_ceil(1_000_000_000);
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{minutes} min {} s", seconds % 60),
        7_200..172_800 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Capitalises the first letter of `text`, as at the start of a sentence.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns `is` or `are`.
pub fn is_are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// Formats a number with three significant digits; digits before the point are never cut.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    // The exponent is taken after rounding: 9.996 is 10.0, not 10.00.
    let exponent = format!("{value:.2e}")
        .rsplit_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .unwrap_or(0);
    if !(-6..15).contains(&exponent) {
        return format!("{value:.2e}");
    }
    let digits = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{value:.digits$}")
}

/// A unit with its prefix, shared by a column so that its figures can be compared at a glance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    factor: f64,
    unit: &'static str,
}

const NANOS: &[Scale] = &[scale(1.0, "ns"), scale(1e3, "µs"), scale(1e6, "ms"), scale(1e9, "s")];

const BIT_RATES: &[Scale] = &[
    scale(1.0, "bit/s"),
    scale(1e3, "kbit/s"),
    scale(1e6, "Mbit/s"),
    scale(1e9, "Gbit/s"),
    scale(1e12, "Tbit/s"),
];

const SHARES: &[Scale] = &[scale(0.01, "%")];

const COUNTS: &[Scale] = &[scale(1.0, "")];

const fn scale(factor: f64, unit: &'static str) -> Scale {
    Scale { factor, unit }
}

impl Scale {
    /// Returns the prefix in which the middle (geometrically) of `values` has one to three digits before
    /// the point.
    pub fn of(values: impl IntoIterator<Item = f64>, unit: Unit) -> Scale {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().map(f64::abs) {
            if value > 0.0 && value.is_finite() {
                least = least.min(value);
                most = most.max(value);
            }
        }
        let middle = if most > 0.0 { least.sqrt() * most.sqrt() } else { 0.0 };
        let steps = match unit {
            Unit::Nanos => NANOS,
            Unit::BitRate => BIT_RATES,
            Unit::Share => SHARES,
            Unit::Count => COUNTS,
        };
        // 999.5 of a unit would be shown as 1000 of it.
        let fits = |step: &&Scale| middle >= 0.9995 * step.factor;
        *steps.iter().rev().find(fits).unwrap_or(&steps[0])
    }

    /// Formats a value in the unit, with as many digits as it has.
    pub fn plain(&self, value: f64) -> String {
        (value / self.factor).to_string()
    }

    /// Returns the unit for a heading: `µs`.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Formats the number alone: `12.3`.
    pub fn number(&self, value: f64) -> String {
        if self.unit == SHARES[0].unit {
            return in_percent(value);
        }
        significant(value / self.factor)
    }

    /// Returns `value` as a multiple of the unit.
    pub fn times(&self, value: f64) -> f64 {
        value / self.factor
    }

    /// Formats the number and the unit: `12.3 µs`.
    pub fn with_unit(&self, value: f64) -> String {
        if !value.is_finite() {
            return NOTHING.into();
        }
        format!("{} {}", self.number(value), self.unit).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_at_a_glance() {
        let shown = [0, 1, 119, 598, 7_199, 7_200, 86_400, 604_800, 604_799]
            .map(|seconds| span(Nanos::from_secs(seconds)));
        assert_eq!(shown[..5], ["0 s", "1 s", "119 s", "9 min 58 s", "119 min 59 s"]);
        assert_eq!(shown[5..], ["2 h 0 min", "24 h 0 min", "7 d 0 h", "6 d 23 h"]);
        assert_eq!(span(Nanos(1)), "1 s");
    }

    #[test]
    fn three_digits_and_the_unit_that_fits() {
        let nanos = [0.0, 12.34, 999.6, 12_345.0, 2.5e9, 7.2e12].map(|v| figure(v, Unit::Nanos));
        assert_eq!(nanos, ["0 ns", "12.3 ns", "1.00 µs", "12.3 µs", "2.50 s", "7200 s"]);
        assert_eq!(figure(72_345_000_000.0, Unit::BitRate), "72.3 Gbit/s");
        assert_eq!(figure(0.000_512, Unit::Share), "0.0512 %");
        assert_eq!(beyond(3e9, Unit::Nanos), "> 3.00 s");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(figure(value, Unit::Nanos), NOTHING);
            assert_eq!(significant(value), NOTHING);
            assert_eq!(change(value), NOTHING);
        }
        assert_eq!(significant(1e300), "1.00e300");
        assert_eq!(significant(-0.001_234), "-0.00123");
    }

    #[test]
    fn a_column_shares_its_unit() {
        let scale = Scale::of([950.0, 9_300.0, 52_100.0], Unit::Nanos);
        assert_eq!(scale.unit(), "µs");
        assert_eq!(scale.number(950.0), "0.950");
        assert_eq!(scale.number(52_100.0), "52.1");
        assert_eq!(Scale::of([], Unit::BitRate).unit(), "bit/s");
    }

    #[test]
    fn percents_ratios_and_levels() {
        assert_eq!(percent(0.05), "5 %");
        assert_eq!(percent(0.0123), "1.23 %");
        assert_eq!(margin(0.05), "±5 %");
        // 932 of 5,566,476 messages arrived.
        let nearly_all = 1.0 - 932.0 / 5_566_476.0;
        assert_eq!([percent(nearly_all), figure(nearly_all, Unit::Share)], ["99.98 %"; 2]);
        assert_eq!(
            [change(1.0 - nearly_all), figure(1.0, Unit::Share)],
            ["99.98 % lower", "100 %"]
        );
        assert_eq!(level(0.95), "95 %");
        assert_eq!(level(0.991_7), "99.2 %");
        assert_eq!(level(0.999_96), "> 99.9 %");
        assert_eq!(change(0.758), "24.2 % lower");
        assert_eq!(change(1.031), "3.1 % higher");
        assert_eq!(change(19.04), "19.0 times");
        assert_eq!(change(1.0), "the same");
        let near = Ratio { point: 1.006, low: 0.9984, high: 12.34 };
        assert_eq!(ratio(&near), ("1.006".into(), "[0.998, 12.3]".into()));
    }

    #[test]
    fn a_count_has_its_noun() {
        assert_eq!(count(1, "block"), "1 block");
        assert_eq!(count(2, "block"), "2 blocks");
    }
}

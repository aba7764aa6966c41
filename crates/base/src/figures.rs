//! Measured shares, ratios and their intervals, times to wait and lists in words: one form for each, for sentences,
//! tables and warnings.
//!
//! No figure is rounded to a bound that it does not reach: only 0 is shown as `0 %`, and only all as `100 %`.

use crate::time::Nanos;

/// Placeholder for a figure that is not a number.
pub const NOTHING: &str = "–";

/// Difference from a bound, in percent, below which it is due to rounding.
const NOISE: f64 = 1e-9;

/// Smallest ratio that is written in times: `+900 %` is harder to read than `10 times`.
pub const IN_TIMES: f64 = 10.0;

/// Formats a share in percent: `5 %`, `3.4 %`, `41 %`, `0.008 %`, `99.98 %`.
pub fn percent(share: f64) -> String {
    let number = in_percent(share);
    if number == NOTHING { number } else { format!("{number} %") }
}

/// Formats a share as [`percent`] does, without the unit.
pub fn in_percent(share: f64) -> String {
    let value = 100.0 * share;
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let size = value.abs();
    if size < NOISE {
        return "0".to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{}", unbounded(size, usize::from(size < 9.95)))
}

/// Formats percent, more than 0, with `digits` digits after the point, or as many more as distinguish it from 0 and
/// 100.
fn unbounded(size: f64, digits: usize) -> String {
    let shown = |digits: usize| format!("{size:.digits$}");
    // Number of digits up to the first significant one of the distance from the bound.
    let of = |distance: f64| (-distance.log10().floor()).max(0.0) as usize;
    let text = match shown(digits).parse::<f64>() {
        Ok(0.0) => shown(of(size)),
        Ok(100.0) if size < 100.0 - NOISE => shown(of(100.0 - size)),
        _ => shown(digits),
    };
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Formats an interval of shares: `17 to 23 %`.
pub fn percent_range(low: f64, high: f64) -> String {
    format!("{} to {}", in_percent(low), percent(high))
}

/// Formats a ratio as a change, with its sign: `−3 %`, `+6 %`, `1,157 times`.
pub fn change(ratio: f64) -> String {
    if ratio >= IN_TIMES {
        return format!("{} times", times(ratio));
    }
    match signed(ratio) {
        none if none == NOTHING => none,
        size => format!("{size} %"),
    }
}

/// Formats an interval of changes, given as ratios: `−7 to +4.1 %`, `0.93 to 1,157 times`.
pub fn change_range(low: f64, high: f64) -> String {
    if high >= IN_TIMES {
        return format!("{} to {} times", times(low), times(high));
    }
    format!("{} to {}", signed(low), change(high))
}

/// Formats a ratio as a change in percent, without the unit: `−3`, `+0.6`, `0`.
fn signed(ratio: f64) -> String {
    let change = ratio - 1.0;
    match in_percent(change.abs()) {
        none if none == "0" || none == NOTHING => none,
        size if change < 0.0 => format!("−{size}"),
        size => format!("+{size}"),
    }
}

/// Formats a ratio with two significant digits, or all whole ones: `0.99`, `3.4`, `28`, `1,157`, `0.00087`.
pub fn times(ratio: f64) -> String {
    if !ratio.is_finite() {
        return NOTHING.to_owned();
    }
    let digits = match ratio {
        r if r > 0.0 && r < 0.095 => (1.0 - r.log10().floor()) as usize,
        r if r < 2.0 => 2,
        r if r < 10.0 => 1,
        _ => 0,
    };
    grouped(&format!("{ratio:.digits$}"))
}

/// Formats a resolution, the smallest difference that a race finds: `±4.5 %`, `a factor of 7.8`.
pub fn resolution(fraction: f64) -> String {
    if fraction >= 1.0 {
        return format!("a factor of {}", times(1.0 + fraction));
    }
    format!("±{}", percent(fraction))
}

/// Formats a time to wait in one unit, rounded up: `40 s`, `4 min`, `2 h`, `9 days`.
pub fn wait(span: Nanos) -> String {
    let seconds = span.as_secs_f64();
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 90.0 * 60.0 => (s / 60.0, "min"),
        s if s < 48.0 * 3_600.0 => (s / 3_600.0, "h"),
        s => (s / 86_400.0, "days"),
    };
    format!("{} {unit}", value.ceil().max(1.0))
}

/// Joins a list in a sentence: `tcp, udp and icmp`.
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [start @ .., last] => {
            let start: Vec<&str> = start.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", start.join(", "), last.as_ref())
        }
    }
}

/// Writes commas between the thousands of a whole number; a number with a point is unchanged.
pub fn grouped(number: &str) -> String {
    if number.len() <= 3 || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return number.to_owned();
    }
    let mut text = String::with_capacity(number.len() + number.len() / 3);
    for (at, digit) in number.chars().enumerate() {
        if at > 0 && (number.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_as_many_digits_as_it_deserves() {
        let shown = [0.05, 0.034, 0.2345, 0.0996, 1.5, -0.02].map(percent);
        assert_eq!(shown, ["5 %", "3.4 %", "23 %", "10 %", "150 %", "−2 %"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(percent), [NOTHING; 2]);
    }

    #[test]
    fn only_nothing_is_0_and_only_all_is_100_percent() {
        assert_eq!([0.0, 1.0, 1e-17, 1.0 - 1e-16].map(percent), ["0 %", "100 %", "0 %", "100 %"]);
        // 932 of 5,566,476 messages arrived.
        assert_eq!(percent(1.0 - 932.0 / 5_566_476.0), "99.98 %");
        assert_eq!([0.996, 0.99996, -0.99996].map(percent), ["99.6 %", "99.996 %", "−99.996 %"]);
        assert_eq!([0.000_08, 0.000_4, -0.000_4].map(percent), ["0.008 %", "0.04 %", "−0.04 %"]);
        assert_eq!(percent_range(1.000_08 - 1.0, 0.4), "0.008 to 40 %");
    }

    #[test]
    fn a_change_keeps_its_sign_and_becomes_times_where_it_is_large() {
        assert_eq!(change_range(0.93, 1.041), "−7 to +4.1 %");
        assert_eq!(change_range(1.0, 1.0), "0 to 0 %");
        assert_eq!(change_range(0.93, 1_157.03), "0.93 to 1,157 times");
        assert_eq!(change_range(0.000_865, 1.041), "−99.91 to +4.1 %");
        assert_eq!([0.97, 1.06, 1_157.03].map(change), ["−3 %", "+6 %", "1,157 times"]);
        let shown = [0.99, 3.4, 28.4, 0.000_865, 1_234_567.0].map(times);
        assert_eq!(shown, ["0.99", "3.4", "28", "0.00086", "1,234,567"]);
    }

    #[test]
    fn a_time_to_wait_is_never_said_too_short() {
        let shown =
            [0, 40, 89, 229, 5_399, 7_200, 172_800].map(|seconds| wait(Nanos::from_secs(seconds)));
        assert_eq!(shown, ["1 s", "40 s", "89 s", "4 min", "90 min", "2 h", "2 days"]);
        assert_eq!(wait(Nanos(1)), "1 s");
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["tcp"]), "tcp");
        assert_eq!(list(&["tcp", "udp", "icmp"]), "tcp, udp and icmp");
    }

    #[test]
    fn a_resolution_beyond_all_percent_is_a_factor() {
        assert_eq!([0.045, 0.6, 6.76].map(resolution), ["±4.5 %", "±60 %", "a factor of 7.8"]);
    }
}

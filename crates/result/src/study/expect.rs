//! Claimed range of a figure, or of a ratio of two: parsing of a test's `expect`.

use super::outcome::{AnswerKind, EstimateInterval};
use deadheat_base::error::{Error, Result};
use deadheat_base::units::{self, Bare};
use deadheat_contract::measurements::Unit;

/// Claimed range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExpectedRange {
    /// Below this value.
    Below(f64),
    /// Above this value.
    Above(f64),
    /// From the first value to the second.
    Between(f64, f64),
    /// From the first value to the second; more is more than the claim.
    OrMore(f64, f64),
    /// From the first value to the second; less is more than the claim.
    OrLess(f64, f64),
    /// Within the race's margin around 1.
    WithinMargin,
}

const MARGIN: &str = "within the margin";

/// Valid forms.
const FORMS: &str = "`below X`, `above X`, `X..Y`, `X..Y or more`, `X..Y or less`";

impl ExpectedRange {
    /// Parses `below X`, `above X`, `X..Y`, `X..Y or more`, `X..Y or less` or `within the margin`, each X with the
    /// unit of a metric, or without one for a ratio.
    ///
    /// # Errors
    /// [`Error::Usage`] with the problem and a remedy.
    pub fn parse(typed: &str, unit: Option<Unit>) -> Result<ExpectedRange> {
        let wrong = |why: String| Error::usage(format!("expect `{typed}`: {why}"));
        let number = |text: &str| {
            let text = text.trim();
            let read = unit.map_or_else(|| ratio(text), |unit| figure(text, unit));
            read.map_err(|error| wrong(error.to_string()))
        };
        let text = typed.trim();
        if text == MARGIN {
            return match unit {
                None => Ok(ExpectedRange::WithinMargin),
                Some(_) => Err(wrong(
                    "a margin is about a ratio; name what it is set `against`, or give a range"
                        .into(),
                )),
            };
        }
        if let Some(limit) = text.strip_prefix("below ") {
            return Ok(ExpectedRange::Below(number(limit)?));
        }
        if let Some(limit) = text.strip_prefix("above ") {
            return Ok(ExpectedRange::Above(number(limit)?));
        }
        let (range, form): (&str, fn(f64, f64) -> ExpectedRange) =
            match (text.strip_suffix(" or more"), text.strip_suffix(" or less")) {
                (Some(range), _) => (range, ExpectedRange::OrMore),
                (None, Some(range)) => (range, ExpectedRange::OrLess),
                (None, None) => (text, ExpectedRange::Between),
            };
        let Some((low, high)) = range.split_once("..") else {
            let margin = if unit.is_none() { format!(" or `{MARGIN}`") } else { String::new() };
            return Err(wrong(format!("none of {FORMS}{margin}")));
        };
        match (number(low)?, number(high)?) {
            (low, high) if low < high => Ok(form(low, high)),
            _ => Err(wrong("a range goes from the lower to the higher figure".into())),
        }
    }

    /// Returns the answer: all, part or none of the interval is in the claimed range, or all of it exceeds the
    /// claim. A missing end of the interval may be anywhere.
    pub fn answer(&self, seen: &EstimateInterval, margin: f64) -> AnswerKind {
        let is = |end: Option<f64>, at: &dyn Fn(f64) -> bool| end.is_some_and(at);
        let (yes, no) = match *self {
            ExpectedRange::Below(limit) => {
                (is(seen.high, &|high| high < limit), is(seen.low, &|low| low >= limit))
            }
            ExpectedRange::Above(limit) => {
                (is(seen.low, &|low| low > limit), is(seen.high, &|high| high <= limit))
            }
            ExpectedRange::Between(from, to) => (
                is(seen.low, &|low| low >= from) && is(seen.high, &|high| high <= to),
                is(seen.high, &|high| high < from) || is(seen.low, &|low| low > to),
            ),
            ExpectedRange::OrMore(from, to) => {
                if is(seen.low, &|low| low > to) {
                    return AnswerKind::More;
                }
                (is(seen.low, &|low| low >= from), is(seen.high, &|high| high < from))
            }
            ExpectedRange::OrLess(from, to) => {
                if is(seen.high, &|high| high < from) {
                    return AnswerKind::More;
                }
                (is(seen.high, &|high| high <= to), is(seen.low, &|low| low > to))
            }
            ExpectedRange::WithinMargin => {
                let limits = ExpectedRange::Between(1.0 / (1.0 + margin), 1.0 + margin);
                return limits.answer(seen, margin);
            }
        };
        match (yes, no) {
            (true, _) => AnswerKind::Yes,
            (false, true) => AnswerKind::No,
            (false, false) => AnswerKind::Open,
        }
    }
}

/// Parses a figure in the unit of its metric: nanoseconds from `310us`, bits per second from `20mbit` or
/// `0.634MB/s`, a share from `20.93%`.
///
/// # Errors
/// [`Error::Usage`] with the problem and a remedy.
pub fn figure(typed: &str, unit: Unit) -> Result<f64> {
    match unit {
        Unit::Nanos => Ok(units::parse_span(typed)?.0 as f64),
        Unit::Share => units::parse_share(typed),
        Unit::Count => ratio(typed),
        Unit::BitRate => match typed.strip_suffix("/s") {
            Some(bytes) if bytes.ends_with('B') => {
                Ok(units::parse_bytes(bytes, Bare::Refused)?.0 as f64 * 8.0)
            }
            Some(bits) => Ok(units::parse_rate(&bits.to_lowercase())?.0 as f64),
            None => Ok(units::parse_rate(typed)?.0 as f64),
        },
    }
}

fn ratio(typed: &str) -> Result<f64> {
    let read: Option<f64> = typed.parse().ok();
    read.filter(|ratio| ratio.is_finite() && *ratio > 0.0).ok_or_else(|| {
        Error::usage(format!("`{typed}` is no ratio; write a number above 0, such as 0.95"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_in_its_unit() {
        let ratio = |typed: &str| ExpectedRange::parse(typed, None).unwrap();
        assert_eq!(ratio("below 0.95"), ExpectedRange::Below(0.95));
        assert_eq!(ratio("above 2"), ExpectedRange::Above(2.0));
        assert_eq!(ratio("0.9..1.1"), ExpectedRange::Between(0.9, 1.1));
        assert_eq!(ratio("1.2..1.5 or more"), ExpectedRange::OrMore(1.2, 1.5));
        assert_eq!(ratio("0.6..0.8 or less"), ExpectedRange::OrLess(0.6, 0.8));
        assert_eq!(ratio("within the margin"), ExpectedRange::WithinMargin);
        let of = |typed: &str, unit| ExpectedRange::parse(typed, Some(unit)).unwrap();
        assert_eq!(of("0us..40us", Unit::Nanos), ExpectedRange::Between(0.0, 40_000.0));
        assert_eq!(of("below 1%", Unit::Share), ExpectedRange::Below(0.01));
        assert_eq!(of("above 0.634MB/s", Unit::BitRate), ExpectedRange::Above(5_072_000.0));
        assert_eq!(of("above 20mbit", Unit::BitRate), ExpectedRange::Above(20e6));
        assert_eq!(figure("72.3Gbit/s", Unit::BitRate).unwrap(), 72.3e9);
    }

    #[test]
    fn what_cannot_be_meant_is_named_with_what_can() {
        let cases: &[(&str, Option<Unit>, &str)] = &[
            (
                "faster",
                None,
                "none of `below X`, `above X`, `X..Y`, `X..Y or more`, `X..Y or less` or `within",
            ),
            ("faster", Some(Unit::Nanos), "none of `below X`, `above X`, `X..Y`"),
            ("below", None, "none of"),
            ("below 5%", None, "no ratio"),
            ("below 0", None, "above 0"),
            ("above NaN", None, "no ratio"),
            ("above inf", None, "no ratio"),
            ("below 40", Some(Unit::Nanos), "has no unit"),
            ("below 40KB/s", Some(Unit::BitRate), "did you mean `kB`"),
            ("below 3", Some(Unit::Share), "percent sign"),
            ("1.1..0.9", None, "from the lower"),
            ("1..1", None, "from the lower"),
            ("0.9..", None, "no ratio"),
            ("1.5 or more", None, "none of"),
            ("within the margin", Some(Unit::Share), "against"),
        ];
        for (typed, unit, wanted) in cases {
            let said = ExpectedRange::parse(typed, *unit).unwrap_err().to_string();
            assert!(said.starts_with(&format!("expect `{typed}`: ")), "{said}");
            assert!(said.contains(wanted), "{typed}: {said}");
        }
    }

    #[test]
    fn the_whole_interval_answers() {
        let seen = |low, high| EstimateInterval { point: 1.0, low, high };
        let say = |typed: &str, low: f64, high: f64| {
            ExpectedRange::parse(typed, None).unwrap().answer(&seen(Some(low), Some(high)), 0.05)
        };
        assert_eq!(say("below 0.95", 0.90, 0.94), AnswerKind::Yes);
        assert_eq!(say("below 0.95", 0.90, 0.95), AnswerKind::Open);
        assert_eq!(say("below 0.95", 0.95, 0.99), AnswerKind::No);
        assert_eq!(say("above 2", 2.01, 3.0), AnswerKind::Yes);
        assert_eq!(say("above 2", 1.9, 3.0), AnswerKind::Open);
        assert_eq!(say("above 2", 1.9, 2.0), AnswerKind::No);
        assert_eq!(say("0.9..1.1", 0.9, 1.1), AnswerKind::Yes);
        assert_eq!(say("0.9..1.1", 0.8, 1.0), AnswerKind::Open);
        assert_eq!(say("0.9..1.1", 1.11, 1.2), AnswerKind::No);
        assert_eq!(say("1.2..1.5 or more", 1.51, 1.6), AnswerKind::More);
        assert_eq!(say("1.2..1.5 or more", 1.2, 9.0), AnswerKind::Yes);
        assert_eq!(say("1.2..1.5 or more", 1.1, 9.0), AnswerKind::Open);
        assert_eq!(say("1.2..1.5 or more", 0.5, 1.19), AnswerKind::No);
        assert_eq!(say("0.6..0.8 or less", 0.4, 0.59), AnswerKind::More);
        assert_eq!(say("0.6..0.8 or less", 0.4, 0.8), AnswerKind::Yes);
        assert_eq!(say("0.6..0.8 or less", 0.4, 0.9), AnswerKind::Open);
        assert_eq!(say("0.6..0.8 or less", 0.81, 0.9), AnswerKind::No);
        assert_eq!(say("within the margin", 0.96, 1.05), AnswerKind::Yes);
        assert_eq!(say("within the margin", 0.95, 1.0), AnswerKind::Open);
        assert_eq!(say("within the margin", 1.06, 1.2), AnswerKind::No);
    }

    #[test]
    fn an_end_that_is_not_known_may_be_anywhere() {
        let answer = |typed: &str, low, high| {
            let seen = EstimateInterval { point: 1.0, low, high };
            ExpectedRange::parse(typed, None).unwrap().answer(&seen, 0.05)
        };
        assert_eq!(answer("below 9", None, None), AnswerKind::Open);
        assert_eq!(answer("below 2", Some(3.0), None), AnswerKind::No);
        assert_eq!(answer("below 9", Some(3.0), None), AnswerKind::Open);
        assert_eq!(answer("above 2", Some(3.0), None), AnswerKind::Yes);
        assert_eq!(answer("1..9", Some(3.0), None), AnswerKind::Open);
    }
}

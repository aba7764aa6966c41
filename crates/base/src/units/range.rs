//! A range of rates in geometric steps, `1mbit..100mbit/8`, written out as single rates.

use super::{BitRate, OfferedRate, PacketRate, parse_count, parse_offered};
use crate::error::{Error, Result};

/// Largest number of rates in one range.
const MOST_STEPS: u64 = 64;

const BITS: &[(&str, u64)] =
    &[("tbit", 1_000_000_000_000), ("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000)];
const PACKETS: &[(&str, u64)] = &[("Mpps", 1_000_000), ("kpps", 1000)];

/// Returns true if `typed` is a range and not a single rate.
pub fn is_range(typed: &str) -> bool {
    typed.contains("..")
}

/// Returns the rates of `LOW..HIGH/STEPS` as typed: the two ends as given, and between them equal ratios, rounded to
/// three digits.
///
/// # Errors
/// [`Error::Usage`] with the mistake and a correction.
pub fn expand(typed: &str) -> Result<Vec<String>> {
    let form = || {
        Error::usage(format!(
            "range `{typed}` is not of the form LOW..HIGH/STEPS, such as 1mbit..100mbit/8 or 1kpps..50kpps/6"
        ))
    };
    let (low, rest) = typed.split_once("..").ok_or_else(form)?;
    let (high, steps) = rest.split_once('/').ok_or_else(form)?;
    if low.is_empty() || high.is_empty() || steps.is_empty() {
        return Err(form());
    }
    let steps = parse_count(steps).map_err(|e| Error::usage(format!("range `{typed}`: {e}")))?;
    if !(2..=MOST_STEPS).contains(&steps) {
        return Err(Error::usage(format!(
            "range `{typed}` has {steps} steps; give 2 to {MOST_STEPS}, the ends included"
        )));
    }
    let (from, to, unit) = ends(typed, low, high)?;
    let ratio = to as f64 / from as f64;
    let rate = |step: u64| from as f64 * ratio.powf(step as f64 / (steps - 1) as f64);
    let mut rates = vec![from];
    rates.extend((1..steps - 1).map(|step| three_digits(rate(step))));
    rates.push(to);
    if !rates.is_sorted_by(|a, b| a < b) {
        return Err(Error::usage(format!(
            "range `{typed}` has steps too small to be told apart; take fewer, or a wider range"
        )));
    }
    let between = rates[1..rates.len() - 1].iter().map(|rate| unit.write(*rate));
    Ok([low.to_owned()].into_iter().chain(between).chain([high.to_owned()]).collect())
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Bits,
    Packets,
}

impl Unit {
    /// Writes the rate in the largest unit in which it is at least 1.
    fn write(self, rate: u64) -> String {
        let (units, smallest) = match self {
            Unit::Bits => (BITS, "bit"),
            Unit::Packets => (PACKETS, "pps"),
        };
        let (name, size) =
            units.iter().copied().find(|(_, size)| rate >= *size).unwrap_or((smallest, 1));
        format!("{}{name}", rate as f64 / size as f64)
    }
}

fn ends(typed: &str, low: &str, high: &str) -> Result<(u64, u64, Unit)> {
    let parse = |end| parse_offered(end).map_err(|e| Error::usage(format!("range `{typed}`: {e}")));
    let (from, to, unit) = match (parse(low)?, parse(high)?) {
        (OfferedRate::Bits(BitRate(from)), OfferedRate::Bits(BitRate(to))) => {
            (from, to, Unit::Bits)
        }
        (OfferedRate::Packets(PacketRate(from)), OfferedRate::Packets(PacketRate(to))) => {
            (from, to, Unit::Packets)
        }
        (OfferedRate::Max, _) | (_, OfferedRate::Max) => {
            return Err(Error::usage(format!(
                "range `{typed}`: max is no number to count steps to; race rate=max by itself"
            )));
        }
        _ => {
            return Err(Error::usage(format!(
                "range `{typed}` goes from bits to packets per second; give both ends in one unit"
            )));
        }
    };
    if from == 0 || from >= to {
        return Err(Error::usage(format!(
            "range `{typed}` does not rise from above 0; write the smaller rate first"
        )));
    }
    Ok((from, to, unit))
}

/// Rounds to the nearest whole number with three significant digits.
fn three_digits(rate: f64) -> u64 {
    let step = 10f64.powf((rate.log10().floor() - 2.0).max(0.0));
    ((rate / step).round() * step) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_geometric_and_the_ends_as_typed() {
        assert_eq!(
            expand("1mbit..100mbit/8").unwrap(),
            [
                "1mbit", "1.93mbit", "3.73mbit", "7.2mbit", "13.9mbit", "26.8mbit", "51.8mbit",
                "100mbit"
            ]
        );
        assert_eq!(expand("500pps..50kpps/3").unwrap(), ["500pps", "5kpps", "50kpps"]);
        assert_eq!(
            expand("800kbit..12.5gbit/4").unwrap(),
            ["800kbit", "20mbit", "500mbit", "12.5gbit"]
        );
        assert_eq!(expand("1000kbit..2mbit/2").unwrap(), ["1000kbit", "2mbit"]);
        assert_eq!(expand("1pps..100pps/3").unwrap(), ["1pps", "10pps", "100pps"]);
    }

    #[test]
    fn what_is_written_can_be_read_and_rises() {
        for typed in ["1bit..9tbit/64", "3pps..7Mpps/50", "999kbit..1001mbit/7"] {
            let rates: Vec<u64> = expand(typed)
                .unwrap()
                .iter()
                .map(|rate| match parse_offered(rate).unwrap() {
                    OfferedRate::Bits(rate) => rate.0,
                    OfferedRate::Packets(rate) => rate.0,
                    OfferedRate::Max => panic!("{rate}"),
                })
                .collect();
            assert!(rates.is_sorted_by(|a, b| a < b), "{typed}: {rates:?}");
        }
    }

    #[test]
    fn every_mistake_is_named() {
        let say = |typed: &str| expand(typed).unwrap_err().to_string();
        assert!(say("1mbit..100mbit").contains("LOW..HIGH/STEPS"));
        assert!(say("1mbit/8").contains("LOW..HIGH/STEPS"));
        assert!(say("..1mbit/8").contains("LOW..HIGH/STEPS"));
        assert!(say("1mbit../8").contains("LOW..HIGH/STEPS"));
        assert!(say("1mbit..2mbit/").contains("LOW..HIGH/STEPS"));
        assert!(say("1mbit..100mbit/1").contains("give 2 to 64"));
        assert!(say("1mbit..100mbit/65").contains("give 2 to 64"));
        assert!(say("1mbit..100mbit/x").contains("not a whole number"));
        assert!(say("1mbit..2Mbit/3").contains("did you mean `mbit`?"));
        assert!(say("2mbit..1mbit/3").contains("smaller rate first"));
        assert!(say("0bit..1mbit/3").contains("smaller rate first"));
        assert!(say("1mbit..max/3").contains("max is no number"));
        assert!(say("1mbit..1kpps/3").contains("both ends in one unit"));
        assert!(say("1pps..4pps/9").contains("too small to be told apart"));
    }

    #[test]
    fn a_range_is_told_from_a_rate() {
        assert!(is_range("1mbit..2mbit/3") && !is_range("1.5mbit") && !is_range("max"));
    }
}

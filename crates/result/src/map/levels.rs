//! Levels of a key of a path: a range with a number of steps, `1ms..300ms/12`, or a list, `1ms|5ms|20ms`.

use crate::outcome::Factor;
use deadheat_base::error::{Error, Result};
use deadheat_base::units::{Bare, parse_bytes, parse_count, parse_rate, parse_share, parse_span};

/// Maximum number of levels of a key that a picture can show.
pub const MOST_LEVELS: usize = 64;

/// Minimum ratio of the ends of a range for steps of equal ratio.
pub const GEOMETRIC_FROM: f64 = 10.0;

/// Parses `KEY=A..B/N` or `KEY=A|B|…`.
///
/// # Errors
/// [`Error::Usage`] with the problem and a remedy.
pub fn parse(typed: &str) -> Result<Factor> {
    let wrong = |what: String| Error::usage(format!("--over {typed}: {what}"));
    let (name, levels) = typed
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| wrong("it takes KEY=A..B/N, such as 'delay=1ms..300ms/12'".into()))?;
    let levels: Vec<String> = match levels {
        list if list.contains('|') => list.split('|').map(str::to_owned).collect(),
        range if range.contains("..") => steps(range).map_err(wrong)?,
        only => {
            return Err(wrong(format!(
                "one level; put {name}={only} into --path, or give a range such as '{name}=A..B/N'"
            )));
        }
    };
    if levels.len() > MOST_LEVELS {
        return Err(wrong(format!("{} levels; at most {MOST_LEVELS}", levels.len())));
    }
    if let Some(twice) = (1..levels.len()).find(|at| levels[..*at].contains(&levels[*at])) {
        return Err(wrong(format!("the level {} is there twice", levels[twice])));
    }
    Ok(Factor { name: name.to_owned(), levels })
}

/// Units of one quantity, the smallest first, and their sizes in it.
type Units = &'static [(&'static str, f64)];

/// Parser of one quantity, as in the path's grammar, and its units.
type Quantity = (fn(&str) -> Result<f64>, Units);

/// Quantities of which a range is possible.
const QUANTITIES: [Quantity; 5] = [
    (parse_share, &[("%", 0.01)]),
    (
        |typed| parse_span(typed).map(|span| span.0 as f64),
        &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
    ),
    (
        |typed| parse_rate(typed).map(|rate| rate.0 as f64),
        &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)],
    ),
    (|typed| parse_count(typed).map(|count| count as f64), &[("", 1.0)]),
    (
        |typed| parse_bytes(typed, Bare::Refused).map(|size| size.0 as f64),
        &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)],
    ),
];

/// Returns the levels of `A..B/N`: the ends as typed, and between them steps of equal ratio if A is above 0 and B
/// is at least ten times A, equal steps otherwise, rounded to three digits.
fn steps(typed: &str) -> Result<Vec<String>, String> {
    let form = || "a range is of the form A..B/N, such as 1ms..300ms/12 or 0..10%/10".to_owned();
    let (low, rest) = typed.split_once("..").ok_or_else(form)?;
    let (high, count) = rest.rsplit_once('/').ok_or_else(form)?;
    if low.is_empty() || high.is_empty() {
        return Err(form());
    }
    let count = parse_count(count).map_err(|e| e.to_string())?;
    if !(2..=MOST_LEVELS as u64).contains(&count) {
        return Err(format!("{count} points; give 2 to {MOST_LEVELS}, the ends included"));
    }
    let low = &with_unit(low, high);
    let (from, to, units) = ends(low, high)?;
    if from >= to {
        return Err(format!(
            "the range does not rise from {low} to {high}; write the smaller first"
        ));
    }
    let level = |step: u64| {
        let share = step as f64 / (count - 1) as f64;
        let is_geometric = from > 0.0 && to / from >= GEOMETRIC_FROM;
        let value =
            if is_geometric { from * (to / from).powf(share) } else { from + (to - from) * share };
        written(value, units)
    };
    let between = (1..count - 1).map(level);
    let levels: Vec<String> =
        [low.clone()].into_iter().chain(between).chain([high.to_owned()]).collect();
    let mut distinct = levels.clone();
    distinct.dedup();
    if distinct.len() < levels.len() {
        return Err("its steps are too small to be told apart; take fewer, or a wider range".into());
    }
    Ok(levels)
}

/// Returns the low end, with the unit of the high end if it has none.
fn with_unit(low: &str, high: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    if low.chars().all(is_number) {
        format!("{low}{}", high.trim_start_matches(is_number))
    } else {
        low.to_owned()
    }
}

fn ends(low: &str, high: &str) -> Result<(f64, f64, Units), String> {
    let both = |(parse, units): &Quantity| Some((parse(low).ok()?, parse(high).ok()?, *units));
    QUANTITIES.iter().find_map(both).ok_or_else(|| {
        format!(
            "{low} and {high} are no two durations, shares, rates, sizes or counts; such as 1ms..300ms/12 \
             or 0..10%/10"
        )
    })
}

/// Formats a value in the largest unit that gives at least 1, with three significant digits. The quantity's own
/// unit has no fractions.
fn written(value: f64, units: Units) -> String {
    let rounded = |value: f64| format!("{value:.2e}").parse::<f64>().unwrap_or(value);
    let value = rounded(value);
    let fits = units.iter().rev().find(|(_, size)| value >= *size);
    let (unit, size) = fits.or(units.first()).copied().unwrap_or(("", 1.0));
    let number = rounded(value / size);
    format!("{}{unit}", if size == 1.0 { number.round() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(typed: &str) -> Vec<String> {
        parse(typed).unwrap().levels
    }

    #[test]
    fn wide_ranges_have_equal_ratios_and_others_equal_steps() {
        let delays =
            "1ms 1.68ms 2.82ms 4.74ms 7.96ms 13.4ms 22.4ms 37.7ms 63.3ms 106ms 179ms 300ms";
        assert_eq!(levels("delay=1ms..300ms/12").join(" "), delays);
        let losses = "0% 1.11% 2.22% 3.33% 4.44% 5.56% 6.67% 7.78% 8.89% 10%";
        assert_eq!(levels("loss=0..10%/10").join(" "), losses);
        assert_eq!(levels("loss=0.1%..10%/3"), ["0.1%", "1%", "10%"]);
        assert_eq!(levels("loss=1%..9%/3"), ["1%", "5%", "9%"]);
        assert_eq!(levels("rate=500kbit..50mbit/3"), ["500kbit", "5mbit", "50mbit"]);
        assert_eq!(levels("queue=10kB..20kB/3"), ["10kB", "15kB", "20kB"]);
        assert_eq!(levels("reorder-depth=1..10/4"), ["1", "2", "5", "10"]);
        assert_eq!(levels("delay=100us..1s/5"), ["100us", "1ms", "10ms", "100ms", "1s"]);
        assert_eq!(levels("up.delay=999us..1001us/3"), ["999us", "1ms", "1001us"]);
    }

    #[test]
    fn a_list_stays_as_it_is() {
        let factor = parse("aqm=droptail|codel").unwrap();
        assert_eq!((factor.name.as_str(), factor.levels.len()), ("aqm", 2));
        assert_eq!(levels("trace=../a.txt|../b.txt"), ["../a.txt", "../b.txt"]);
    }

    #[test]
    fn every_mistake_is_named() {
        let say = |typed: &str| {
            let error = parse(typed).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{typed}");
            error.to_string()
        };
        assert!(say("delay").contains("KEY=A..B/N"));
        assert!(say("=1ms|2ms").contains("KEY=A..B/N"));
        assert!(say("delay=5ms").contains("put delay=5ms into --path"));
        assert!(say("delay=1ms..5ms").contains("of the form A..B/N"));
        assert!(say("delay=..5ms/3").contains("of the form A..B/N"));
        assert!(say("delay=1ms..5ms/0").contains("give 2 to 64"));
        assert!(say("delay=1ms..5ms/1").contains("give 2 to 64"));
        assert!(say("delay=1ms..5ms/65").contains("give 2 to 64"));
        assert!(say("delay=1ms..5ms/x").contains("not a whole number"));
        assert!(say("delay=5ms..1ms/3").contains("write the smaller first"));
        assert!(say("delay=5ms..5ms/3").contains("write the smaller first"));
        assert!(say("delay=1ms..5%/3").contains("no two durations"));
        assert!(say("loss=0..101%/3").contains("no two durations"));
        assert!(say("reorder-depth=1..3/9").contains("too small to be told apart"));
        assert!(say("delay=1ms|1ms").contains("is there twice"));
        let many: Vec<String> = (0..65).map(|n| format!("{n}ms")).collect();
        assert!(say(&format!("delay={}", many.join("|"))).contains("65 levels; at most 64"));
    }
}

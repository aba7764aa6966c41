//! Lines of summaries, by patterns.
//!
//! A pattern is words: `*` stands for any word, `…` for any number of words, `finished…` for a word that begins so, `50%` for
//! `50.00%`, too. In a word,
//! `<name>` stands for a number with its unit, `<name:ms>` for a number in this unit, and `<name+>` for a number whose unit
//! is the next word.

use super::super::FigureNames;
use super::super::rates::bits_of;
use super::super::text::{duration, time_unit};
use super::super::unit::Scale;

/// Maximum length of a line with figures, in bytes.
const LONGEST: usize = 1_000;

/// Number found in a line: the name of its figure, its text, and that of its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FoundNumber<'a> {
    pub name: &'static str,
    pub text: &'a str,
    /// The next word, if the unit stands there.
    pub unit: &'a str,
}

/// Returns the numbers of a line; `None` if it does not fit the pattern.
pub(super) fn fitted<'a>(line: &'a str, pattern: &'static str) -> Option<Vec<FoundNumber<'a>>> {
    let pattern: Vec<&'static str> = pattern.split_whitespace().collect();
    // Such lines are short, and a pattern is tried at each of their words.
    if line.len() > LONGEST {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut found = Vec::new();
    fit(&pattern, &words, &mut found).then_some(found)
}

fn fit<'a>(pattern: &[&'static str], words: &[&'a str], found: &mut Vec<FoundNumber<'a>>) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return words.is_empty() };
    if *first == "…" {
        let before = found.len();
        return (0..=words.len()).any(|skipped| {
            found.truncate(before);
            fit(rest, &words[skipped..], found)
        });
    }
    let Some((word, mut after)) = words.split_first() else { return false };
    if let Some((before, name, behind)) = placeholder(first) {
        let inner = word.strip_prefix(before).and_then(|word| word.strip_suffix(behind));
        let Some(text) = inner else { return false };
        let mut unit = "";
        if name.ends_with('+') {
            let Some((next, rest)) = after.split_first() else { return false };
            (unit, after) = (next, rest);
        }
        found.push(FoundNumber { name, text, unit });
        return fit(rest, after, found);
    }
    let fits = match first.strip_suffix('…') {
        Some(start) => word.starts_with(start),
        None => {
            *first == "*"
                || first == word
                || percent(first).is_some_and(|own| percent(word) == Some(own))
        }
    };
    fits && fit(rest, after, found)
}

/// Returns the number of a percentage: `50%` is `50.000%`.
fn percent(word: &str) -> Option<f64> {
    word.strip_suffix('%')?.parse().ok()
}

/// Returns the text before a placeholder, its name, and the text behind it.
fn placeholder(word: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let (before, rest) = word.split_once('<')?;
    let (name, behind) = rest.split_once('>')?;
    Some((before, name, behind))
}

/// Returns the names in a pattern.
pub(super) fn names(pattern: &'static str) -> Vec<&'static str> {
    pattern.split_whitespace().filter_map(placeholder).map(|(_, name, _)| name).collect()
}

/// Returns a name without its unit and its mark.
pub(super) fn bare(name: &'static str) -> &'static str {
    name.split(':').next().unwrap_or_default().trim_end_matches('+')
}

/// Returns the unit that a name fixes; empty if none.
pub(super) fn fixed_unit(name: &'static str) -> &'static str {
    name.split_once(':').map_or("", |(_, unit)| unit)
}

/// Returns the names of the figures in the columns of a line of titles; `None` if it has fewer than two of them.
pub(super) fn columns(line: &str, titles: FigureNames) -> Option<Vec<&'static str>> {
    let place = |(title, name): &(&'static str, &'static str)| {
        let starts = line.match_indices(title).map(|(at, _)| at);
        // `99% percentile` is also the end of another title.
        let mut starts = starts.filter(|at| *at == 0 || line[..*at].ends_with(char::is_whitespace));
        Some((starts.next()?, *name))
    };
    let mut found: Vec<(usize, &'static str)> = titles.iter().filter_map(place).collect();
    found.sort_unstable();
    (found.len() > 1).then(|| found.into_iter().map(|(_, name)| name).collect())
}

/// Kind of a figure's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberKind {
    /// Nanoseconds.
    Time,
    /// Bits in a second.
    BitRate,
    /// A plain number.
    Count,
}

/// Returns the number of a text, in the unit of its kind. Its unit is fixed, or the next word, or behind the number.
pub(super) fn number(found: FoundNumber<'_>, kind: NumberKind) -> Option<f64> {
    let (value, behind) = leading(found.text)?;
    let fixed = fixed_unit(found.name);
    let printed = if found.unit.is_empty() { behind } else { found.unit };
    let printed = printed
        .trim_end_matches([',', ';', ')', '|', '.'])
        .trim_start_matches('[')
        .trim_end_matches(']');
    match kind {
        NumberKind::Count if fixed == "%" => Some(value / 100.0),
        NumberKind::Count => Some(value * multiple(printed).unwrap_or(1.0)),
        NumberKind::BitRate if !fixed.is_empty() => {
            Some(value * bits(fixed)? * multiple(printed).unwrap_or(1.0))
        }
        NumberKind::BitRate => Some(value * bits(printed)?),
        NumberKind::Time if !fixed.is_empty() => Some(value * time_unit(fixed)?.factor),
        NumberKind::Time if found.unit.is_empty() => {
            duration(&found.text[..found.text.len() - behind.len() + printed.len()])
        }
        NumberKind::Time => Some(value * time_unit(printed)?.factor),
    }
}

/// Returns the number at the beginning of a text, and the text behind it.
pub(in super::super) fn leading(text: &str) -> Option<(f64, &str)> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    let ends = [
        text.find(|c| !is_part(c)).unwrap_or(text.len()),
        text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()),
    ];
    ends.into_iter().find_map(|end| {
        let value: f64 = text[..end].parse().ok()?;
        value.is_finite().then_some((value, &text[end..]))
    })
}

/// Returns the factor of a letter behind a count or a rate.
fn multiple(letter: &str) -> Option<f64> {
    Some(match letter {
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    })
}

/// Returns the bits in a second of a unit whose prefixes are decimal unless they are `Ki`, `Mi` and `Gi`.
fn bits(unit: &str) -> Option<f64> {
    let unit = unit.replace("/sec", "/s").replace("KB/s", "kB/s");
    Scale::named(&unit).map(|scale| scale.factor).or_else(|| bits_of(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, pattern: &'static str, kind: NumberKind) -> Vec<Option<f64>> {
        let found = fitted(line, pattern).unwrap_or_default();
        found.into_iter().map(|one| number(one, kind)).collect()
    }

    #[test]
    fn numbers_are_found_with_their_units() {
        use NumberKind::{BitRate, Count, Time};
        for (line, pattern, kind, want) in [
            ("finished in 600.04s, 14 req/s", "finished in <took>, …", Time, 600.04e9),
            ("  Average:\t0.45 secs", "Average: <request_mean+>", Time, 0.45e9),
            ("a avg=1m2.5s b", "… avg=<request_mean> *", Time, 62.5e9),
            ("x 12ms238us", "x <rtt_mean>", Time, 12_238_000.0),
            ("in 10.16s (100.78 MiB/s)", "in * (<goodput+>", BitRate, 100.78 * 8.0 * 1_048_576.0),
            ("bw  =  1.17 GB/sec", "bw = <goodput+>", BitRate, 9.36e9),
            ("bw  =  1 KB/sec", "bw = <goodput+>", BitRate, 8e3),
            ("= 1.17 Gb/sec", "= <goodput+>", BitRate, 1.17e9),
            ("[SUM] 4.99G", "[SUM] <sent:bit/s>", BitRate, 4.99e9),
            ("capacity: 879.882 Mbps", "capacity: <goodput+>", BitRate, 879.882e6),
            ("reqs....: 45 6.5/s", "reqs.… <asked> *", Count, 45.0),
            ("338.18k", "<transactions>", Count, 338_180.0),
            ("x{phase=\"rtt\"} 1.5e-05", "x{phase=\"rtt\"} <rtt_mean:s>", Time, 15_000.0),
            ("avg -4.07", "avg <goodput:Gbit/s>", BitRate, -4.07e9),
        ] {
            let got = read(line, pattern, kind);
            assert!(
                matches!(got[..], [Some(got)] if (got - want).abs() < want.abs() * 1e-9),
                "{line}: {got:?}"
            );
        }
        assert_eq!(fitted("a b", "a"), None);
        assert_eq!(fitted("a", "a <x+>"), None);
        assert_eq!(read("x y", "x <took>", Time), [None]);
        assert_eq!(read("x 5furlongs", "x <took>", Time), [None]);
    }

    #[test]
    fn columns_are_those_below_their_titles() {
        const TITLES: &[(&str, &str)] =
            &[("#bytes", "arm"), ("99% percentile[usec]", "b"), ("99.9% percentile[usec]", "c")];
        let line = " #bytes   99% percentile[usec]   99.9% percentile[usec] ";
        assert_eq!(columns(line, TITLES).unwrap(), ["arm", "b", "c"]);
        assert_eq!(columns(" #bytes ", TITLES), None);
    }
}

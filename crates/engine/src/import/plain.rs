//! Plain numbers, one a line: an option gives the unit, or each number has its own.

use super::foreign::ForeignFile;
use super::gather::{MetricNaming, SampleBuffer, blank};
use super::unit::{self, Scale};
use super::{Arm, FileContent, FormatReader, ImportedTrial, NumberMeaning, ReaderContext};
use crate::measurements::{ClockNeed, Metric, Role, Unit};

/// Maximum number of trials in one file: each is stored with all its fields.
pub(super) const MOST_TRIALS: usize = 100_000;

/// The format.
pub(super) struct Plain;

/// Name of the format, which needs a unit.
pub(super) const ID: &str = "plain";

impl FormatReader for Plain {
    fn id(&self) -> &'static str {
        ID
    }

    fn summary(&self) -> &'static str {
        "numbers, one a line; # begins a comment"
    }

    fn sniff(&self, head: &str) -> bool {
        let first = head.lines().map(content).find(|line| !line.is_empty());
        first.is_some_and(|line| split(line).is_some())
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let (values, scale) = numbers(file, means.scale)?;
        let missing = match means.each {
            NumberMeaning::Sample => {
                "Lost samples are not in the file: if any were, its figures flatter."
            }
            NumberMeaning::Trial => {
                "Trials that failed are not in the file: if any did, its figures flatter."
            }
        };
        let mut unknown = vec![missing.to_owned()];
        let arm = match means.each {
            NumberMeaning::Sample => samples(values, &scale, means)?,
            NumberMeaning::Trial => trials(values, &scale, &mut unknown)?,
        };
        let trial = match means.each {
            NumberMeaning::Sample => {
                "the file: each number is a sample of it (--each trial if each is one)"
            }
            NumberMeaning::Trial => "a number",
        };
        Ok(FileContent {
            unit: scale.name.to_owned(),
            trial: trial.to_owned(),
            arms: vec![arm],
            unknown,
            ..FileContent::default()
        })
    }
}

/// Returns the name of the quantity with this unit: in metrics, and for display.
fn names(scale: &Scale) -> (&'static str, &'static str) {
    match scale.unit {
        Unit::BitRate => ("rate", "rate"),
        Unit::Nanos | Unit::Share | Unit::Count => ("time", "time"),
    }
}

fn samples(
    values: SampleBuffer,
    scale: &Scale,
    means: &mut ReaderContext<'_>,
) -> Result<Arm, String> {
    let (stem, label) = names(scale);
    let naming = MetricNaming {
        unit: scale.unit,
        better: scale.better(),
        ..MetricNaming::time(stem, label)
    };
    let trial = values.trial(&naming, means)?;
    Ok(Arm { metrics: naming.metrics(Role::Claim), trials: vec![trial], ..Arm::default() })
}

fn trials(values: SampleBuffer, scale: &Scale, unknown: &mut Vec<String>) -> Result<Arm, String> {
    let (stem, label) = names(scale);
    let end = if scale.unit == Unit::Nanos { "ns" } else { "bps" };
    let metric = Metric {
        name: format!("{stem}_{end}"),
        label: label.to_owned(),
        unit: scale.unit,
        better: scale.better(),
        role: Role::Claim,
        clock: ClockNeed::None,
    };
    let values = values.into_vec();
    if values.len() > MOST_TRIALS {
        return Err(format!(
            "{} trials; {MOST_TRIALS} are the most (if the numbers are samples of one trial, say \
             --each sample)",
            values.len()
        ));
    }
    let trial = |value: &u64| {
        let mut record = blank();
        record.metrics.insert(metric.name.clone(), *value as f64);
        ImportedTrial::complete(record)
    };
    let trials = values.iter().map(trial).collect();
    let mut looked_at = SampleBuffer::default();
    for value in values {
        looked_at.push(value)?;
    }
    unknown.extend(looked_at.sum().doubts(scale.unit));
    Ok(Arm { metrics: vec![metric], trials, ..Arm::default() })
}

fn numbers(file: &mut ForeignFile, given: Option<Scale>) -> Result<(SampleBuffer, Scale), String> {
    let mut values = SampleBuffer::default();
    let mut common: Option<Scale> = None;
    let mut number = 0;
    while let Some(line) = file.next_line()? {
        number += 1;
        let line = content(line);
        if line.is_empty() {
            continue;
        }
        let (value, scale) =
            number_of(line, given).map_err(|what| format!("line {number}: {what}"))?;
        match common {
            None => common = Some(scale),
            Some(common) if common.unit == scale.unit => {}
            Some(common) => {
                return Err(format!(
                    "line {number}: {} after {}; a time and a rate cannot be put together",
                    scale.name, common.name
                ));
            }
        }
        values.push(value)?;
    }
    let common = common.ok_or("there is no number in it, only comments and blank lines")?;
    Ok((values, common))
}

/// Returns a line without its comment and surrounding space.
fn content(line: &str) -> &str {
    line.split_once('#').map_or(line, |(before, _)| before).trim()
}

/// Parses the number of a line, and its unit.
fn number_of(line: &str, given: Option<Scale>) -> Result<(u64, Scale), String> {
    let quoted = || format!("`{}`", line.chars().take(40).collect::<String>());
    let (value, behind) = split(line).ok_or_else(|| {
        let mut words = line.split([',', ';', '\t', ' ']).filter(|word| !word.is_empty());
        if words.clone().count() > 1 && words.all(|word| word.parse::<f64>().is_ok()) {
            format!(
                "{} has more than one number, or a comma as decimal point; one number a line, with a \
                 point (of a table: cut -d, -f2)",
                quoted()
            )
        } else {
            format!("{} is not a number", quoted())
        }
    })?;
    let scale = match (behind, given) {
        ("", None) => {
            return Err(format!(
                "{} has no unit; say --unit with one of {}",
                quoted(),
                unit::list()
            ));
        }
        ("", Some(given)) => given,
        (name, _) => Scale::named(name).ok_or_else(|| {
            format!("{} has the unit `{name}`, which is none of {}", quoted(), unit::list())
        })?,
    };
    let value = scale.whole(value).map_err(|why| format!("{}: {why}", quoted()))?;
    Ok((value, scale))
}

/// Splits a line into its number and the text after it.
fn split(line: &str) -> Option<(f64, &str)> {
    if let Ok(value) = line.parse::<f64>() {
        return Some((value, ""));
    }
    let end = line.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c)))?;
    let behind = line[end..].trim_start();
    // The rest must be a unit: letters only.
    let is_unit = behind.chars().all(|c| c.is_alphabetic() || c == '/');
    is_unit.then_some(())?;
    Some((line[..end].parse().ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units() {
        let ms = Scale::named("ms");
        let read = |line| number_of(line, ms).map(|(value, _)| value);
        assert_eq!(read("12.3"), Ok(12_300_000));
        assert_eq!(read("12.3 us"), Ok(12_300));
        assert_eq!(read("1e3ns"), Ok(1_000));
        assert_eq!(number_of("1.5 Gbit/s", None).map(|(value, _)| value), Ok(1_500_000_000));
        for (line, want) in [
            ("abc", "`abc` is not a number"),
            ("1,5", "comma as decimal point"),
            ("1 2 3", "more than one number"),
            ("12 furlongs", "the unit `furlongs`"),
            ("-3", "negative"),
            ("NaN", "not a number"),
            ("inf", "too large"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(want), "{line}: {said}");
        }
        assert!(number_of("3", None).unwrap_err().contains("no unit; say --unit"));
    }

    #[test]
    fn only_numbers_look_like_numbers() {
        for good in ["# made by me\n\n12\n", "\r\n1.5 ms\r\n", "inf\n"] {
            assert!(Plain.sniff(good), "{good:?}");
        }
        for bad in ["hello", "{\"a\": 1}", "PING host", "", "# nothing\n"] {
            assert!(!Plain.sniff(bad), "{bad:?}");
        }
    }
}

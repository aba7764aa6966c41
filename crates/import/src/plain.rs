//! Plain numbers, one a line, or one column of a table: an option gives the unit, or the table's heading, or each
//! number has its own.

use super::foreign_file::ForeignFile;
use super::rates::metric;
use super::samples::{MetricNaming, SampleBuffer, loss_metric};
use super::{FileContent, Format, ImportedTrial, NONE, NumberMeaning, ReaderContext};
use deadheat_contract::measurements::{Role, Unit};

mod column;
mod table;

use table::{Numbers, TableLayout};

/// Maximum number of trials in one file: each is stored with all its fields.
pub(super) const MOST_TRIALS: usize = 100_000;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "plain",
    summary: "numbers, one a line, or a CSV of times and values; # begins a comment",
    sniff: |head| TableLayout::of(head).is_some(),
    read: Some(read),
    ..NONE
};

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let layout = if context.columns.any() {
        TableLayout::with_columns(file.head(), &context.columns)?
    } else {
        TableLayout::of(file.head()).unwrap_or_default()
    };
    let numbers = Numbers::read(file, &layout, context.scale)?;
    let mut content = FileContent {
        began: numbers.began(),
        unit: numbers.scale.name.to_owned(),
        ..FileContent::default()
    };
    let lost = numbers.values.iter().filter(|value| value.is_none()).count();
    let (trial, lacks) = match context.each {
        NumberMeaning::Sample => {
            if lost > 0 && numbers.scale.unit != Unit::Nanos {
                content
                    .doubts
                    .push(format!("{lost} of its numbers are missing, and in no figure."));
            }
            content.add("", samples(&numbers, lost, context)?);
            (
                "the file: each number is a sample of it (--each trial if each is one)",
                "lost samples",
            )
        }
        NumberMeaning::Trial => {
            trials(&numbers, &mut content)?;
            (if context.columns.any() { "a row" } else { "a number" }, "trials that failed")
        }
    };
    content.trial = trial.to_owned();
    content.unknown.extend((lost == 0).then(|| lacks.to_owned()));
    Ok(content)
}

/// Returns the name of the quantity with this unit, in metrics as for display.
fn name(unit: Unit) -> &'static str {
    if unit == Unit::BitRate { "rate" } else { "time" }
}

/// Returns the trial that all numbers are samples of, and `lost` of them are missing.
fn samples(
    numbers: &Numbers,
    lost: usize,
    context: &mut ReaderContext<'_>,
) -> Result<ImportedTrial, String> {
    let unit = numbers.scale.unit;
    let name = name(unit);
    let mut values = SampleBuffer::default();
    let first = numbers.at_s.first().copied().unwrap_or(0.0);
    for (index, value) in numbers.values.iter().enumerate() {
        let at = numbers.at_s.get(index).map(|at| ((at - first).max(0.0) * 1e9) as u64);
        // A rate that is missing is not a low one.
        if value.is_some() || unit == Unit::Nanos {
            values.put(*value, at)?;
        }
    }
    let mut trial =
        values.trial(&MetricNaming { unit, ..MetricNaming::time(name, name) }, context)?;
    if lost > 0 && unit == Unit::Nanos {
        trial.add(loss_metric(), lost as f64 / numbers.values.len() as f64);
    }
    Ok(trial)
}

/// Adds a trial for each number, to the contender that its row names, if it names one.
fn trials(numbers: &Numbers, content: &mut FileContent) -> Result<(), String> {
    let unit = numbers.scale.unit;
    let name = name(unit);
    let end = if unit == Unit::Nanos { "ns" } else { "bps" };
    let metric = metric(&format!("{name}_{end}"), name, unit, Role::Claim);
    if numbers.values.len() > MOST_TRIALS {
        return Err(format!(
            "{} trials; {MOST_TRIALS} are the most (if the numbers are samples of one trial, say \
             --each sample)",
            numbers.values.len()
        ));
    }
    let mut all = SampleBuffer::default();
    for (at, value) in numbers.values.iter().enumerate() {
        let mut trial = match value {
            None => ImportedTrial::failed("there is a mark in place of its number"),
            Some(_) => ImportedTrial::complete(),
        };
        if let Some(value) = value {
            trial.record.metrics.insert(metric.name.clone(), *value as f64);
            all.push(*value)?;
        }
        trial.record.started_ms = numbers.started_ms(at);
        trial.row = Some((at as u64, numbers.blocks.get(at).cloned()));
        let arm = content.arm(numbers.contenders.get(at).map_or("", String::as_str));
        if arm.trials.is_empty() {
            arm.metrics.push(metric.clone());
        }
        arm.trials.push(trial);
    }
    content.doubts.extend(all.sum().doubts(unit));
    Ok(())
}

//! Plain numbers, one a line, or one column of a table: an option gives the unit, or the table's heading, or each
//! number has its own.

use super::foreign::ForeignFile;
use super::gather::{MetricNaming, SampleBuffer, blank, loss_metric};
use super::unit::Scale;
use super::{Arm, FileContent, FormatReader, ImportedTrial, NumberMeaning, ReaderContext};
use crate::measurements::{ClockNeed, Metric, Role, Unit};

mod column;
mod table;

use table::{Numbers, TableLayout};

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
        "numbers, one a line, or a CSV of times and values; # begins a comment"
    }

    fn sniff(&self, head: &str) -> bool {
        TableLayout::of(head).is_some()
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let layout = match means.columns.any() {
            true => TableLayout::with_columns(file.head(), &means.columns)?,
            false => TableLayout::of(file.head()).unwrap_or_default(),
        };
        let numbers = Numbers::read(file, &layout, means.scale)?;
        let (began, scale) = (numbers.began(), numbers.scale);
        let lost = numbers.values.iter().filter(|value| value.is_none()).count();
        let mut doubts = Vec::new();
        if lost > 0 && scale.unit != Unit::Nanos && means.each == NumberMeaning::Sample {
            doubts.push(format!("{lost} of its numbers are missing, and in no figure."));
        }
        let (arms, trial, unknown) = match means.each {
            NumberMeaning::Sample => (
                vec![samples(&numbers, means)?],
                "the file: each number is a sample of it (--each trial if each is one)",
                (lost == 0).then_some("lost samples"),
            ),
            NumberMeaning::Trial => (
                by_contender(trials(&numbers, &mut doubts)?, &numbers.contenders),
                if means.columns.any() { "a row" } else { "a number" },
                (lost == 0).then_some("trials that failed"),
            ),
        };
        Ok(FileContent {
            began,
            unit: scale.name.to_owned(),
            trial: trial.to_owned(),
            arms,
            unknown: unknown.into_iter().map(str::to_owned).collect(),
            doubts,
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

fn samples(numbers: &Numbers, means: &mut ReaderContext<'_>) -> Result<Arm, String> {
    let scale = &numbers.scale;
    let (stem, label) = names(scale);
    let naming = MetricNaming {
        unit: scale.unit,
        better: scale.better(),
        ..MetricNaming::time(stem, label)
    };
    let mut metrics = naming.metrics(Role::Claim);
    let mut values = SampleBuffer::default();
    let first = numbers.at_s.first().copied().unwrap_or(0.0);
    for (index, value) in numbers.values.iter().enumerate() {
        let at = numbers.at_s.get(index).map(|at| ((at - first).max(0.0) * 1e9) as u64);
        match (value, at) {
            (Some(value), Some(at)) => values.push_at(*value, at)?,
            (Some(value), None) => values.push(*value)?,
            // A rate that is missing is not a low one.
            (None, _) if scale.unit != Unit::Nanos => {}
            (None, Some(at)) => values.lost_at(at)?,
            (None, None) => values.lost()?,
        }
    }
    let lost = numbers.values.iter().filter(|value| value.is_none()).count();
    let mut trial = values.trial(&naming, means)?;
    if lost > 0 && scale.unit == Unit::Nanos {
        let share = lost as f64 / numbers.values.len() as f64;
        trial.record.metrics.insert(loss_metric().name, share);
        metrics.push(loss_metric());
    }
    Ok(Arm { metrics, trials: vec![trial], ..Arm::default() })
}

fn trials(numbers: &Numbers, doubts: &mut Vec<String>) -> Result<Arm, String> {
    let scale = &numbers.scale;
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
    let values = &numbers.values;
    if values.len() > MOST_TRIALS {
        return Err(format!(
            "{} trials; {MOST_TRIALS} are the most (if the numbers are samples of one trial, say \
             --each sample)",
            values.len()
        ));
    }
    let trial = |(at, value): (usize, &Option<u64>)| {
        let mut trial = match value {
            None => ImportedTrial::failed("there is a mark in place of its number"),
            Some(value) => {
                let mut record = blank();
                record.metrics.insert(metric.name.clone(), *value as f64);
                ImportedTrial::complete(record)
            }
        };
        trial.record.started_ms = numbers.started_ms(at);
        trial.row = Some((at as u64, numbers.blocks.get(at).cloned()));
        trial
    };
    let trials = values.iter().enumerate().map(trial).collect();
    let mut looked_at = SampleBuffer::default();
    for value in values.iter().flatten() {
        looked_at.push(*value)?;
    }
    doubts.extend(looked_at.sum().doubts(scale.unit));
    Ok(Arm { metrics: vec![metric], trials, ..Arm::default() })
}

/// Deals the trials of a table to the contenders that its rows name, in the order of their first rows.
fn by_contender(all: Arm, names: &[String]) -> Vec<Arm> {
    if names.is_empty() {
        return vec![all];
    }
    let mut arms: Vec<Arm> = Vec::new();
    for (trial, name) in all.trials.into_iter().zip(names) {
        match arms.iter_mut().find(|arm| arm.name == *name) {
            Some(arm) => arm.trials.push(trial),
            None => arms.push(Arm {
                name: name.clone(),
                metrics: all.metrics.clone(),
                trials: vec![trial],
                ..Arm::default()
            }),
        }
    }
    arms
}

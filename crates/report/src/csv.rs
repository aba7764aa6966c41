//! Tidy data: a row for each observation, which is one metric of one trial. Excluded trials and the
//! control have rows, too, and are marked; a metric that a trial could not know has an empty value.
//!
//! Fields are quoted as RFC 4180 says (§2.5 to 2.7); lines end in a line feed alone, as other
//! text on this system does.

use std::fmt::Write;

use super::names::label;
use super::text::field;
use super::{Report, ReportInput, Style};
use deadheat_base::error::Result;
use deadheat_contract::measurements::{ClockNeed, Metric, Unit};
use deadheat_result::outcome::{Outcome, Trial};

const COLUMNS: &str = "block,order,contender,control,valid,metric,value,unit,censored,clock_bound_ns,trusted,why_not_trusted";

/// Format of tidy CSV.
pub(super) struct Csv;

impl Report for Csv {
    fn id(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "one row for each trial and metric, for R, pandas and spreadsheets"
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        let outcome = shown.outcome;
        let mut text = format!("{COLUMNS}\n");
        let (trusted, why) = (outcome.trusted(), outcome.why_not_trusted().unwrap_or_default());
        let why = field(why);
        for trial in &outcome.trials {
            let name = label(outcome, trial.contender);
            for (metric, unit) in metrics(outcome, trial) {
                let value = trial.record.metrics.get(metric);
                let value = value.map_or_else(String::new, f64::to_string);
                let censored = trial.record.censored.iter().any(|name| name == metric);
                let bound = clock_bound(outcome, trial, metric);
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{},{},{},{},{},{},{value},{unit},{censored},{bound},{trusted},{why}",
                    trial.block,
                    trial.order,
                    field(&name),
                    trial.control,
                    trial.record.valid,
                    field(metric),
                );
            }
        }
        Ok(text.into_bytes())
    }
}

/// Returns how far the two hosts' clocks may put this figure off, in nanoseconds; empty if they do not enter it.
fn clock_bound(outcome: &Outcome, trial: &Trial, name: &str) -> String {
    let is_offset = |metric: &&Metric| metric.name == name && metric.clock == ClockNeed::Offset;
    let metric = outcome.metrics.iter().find(is_offset);
    let clock = metric.and(trial.record.clock.as_ref());
    clock.map_or_else(String::new, |clock| clock.error_bound_ns.to_string())
}

/// Returns the race's metrics in their order, then the other metrics of the trial.
fn metrics<'a>(
    outcome: &'a Outcome,
    trial: &'a Trial,
) -> impl Iterator<Item = (&'a str, &'static str)> {
    let declared = outcome.metrics.iter().map(|metric| {
        let unit = match metric.unit {
            Unit::Nanos => "ns",
            Unit::BitRate => "bit/s",
            Unit::Share | Unit::Count => "1",
        };
        (metric.name.as_str(), unit)
    });
    let is_declared = |name: &str| outcome.metrics.iter().any(|metric| metric.name == name);
    let others = trial.record.metrics.keys();
    let others = others.filter(move |name| !is_declared(name)).map(|name| (name.as_str(), ""));
    declared.chain(others)
}

//! Resolution of an answer: the difference that the race would have found, the difference of identical contenders,
//! and a margin that was widened.

use super::document::{Line, Tone};
use super::words;
use deadheat_base::figures;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Metric, Role, Unit};
use deadheat_result::analysis::time_differences;
use deadheat_result::outcome::{Outcome, Verdict};

/// Number of blocks from which a resolution is found as often as it says.
const KNOWN_FROM: u64 = 40;

/// Returns a line for each claimed metric with verdicts, and a line on a margin that was widened.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let claims: Vec<&Metric> = outcome
        .metrics
        .iter()
        .filter(|metric| metric.role == Role::Claim)
        .filter(|metric| outcome.verdicts.iter().any(|verdict| verdict.metric == metric.name))
        .collect();
    let mut lines = widened(outcome);
    for metric in &claims {
        let name = if claims.len() > 1 { format!("{}: ", metric.label) } else { String::new() };
        let text = of_metric(outcome, metric);
        lines.extend(text.map(|text| Line::new(format!("{name}{text}"), Tone::Aside)));
        lines.extend(of_clocks(outcome, metric));
    }
    lines
}

/// Returns `margin widened: 41 %`, by the rule of old files.
fn widened(outcome: &Outcome) -> Vec<Line> {
    if !outcome.margin_widened() {
        return Vec::new();
    }
    let text = format!(
        "margin widened: {}. Until 2026-11 deadheat widened the margin with the noise; a smaller one was asked for.",
        figures::percent(outcome.plan.margin)
    );
    vec![Line::new(text, Tone::Open)]
}

/// Returns `resolution ±4.5 %: identical copies of tcp differed by 0.6 % (−3 to +6 %)`.
fn of_metric(outcome: &Outcome, metric: &Metric) -> Option<String> {
    let own = outcome.verdicts.iter().filter(|verdict| verdict.metric == metric.name);
    let found = in_time(own.clone()).or_else(|| range(own.clone()));
    let mut summaries = outcome.summary.iter().filter(|summary| summary.metric == metric.name);
    let has_regimes = summaries.any(|summary| summary.regimes.is_some());
    let is_rough = has_regimes || own.clone().any(|verdict| verdict.blocks < KNOWN_FROM);
    let resolution = found.map(|found| {
        if is_rough { found.replacen("resolution ", "resolution about ", 1) } else { found }
    });
    let copies = copies(outcome, metric);
    Some(match (resolution, copies) {
        (Some(range), Some(copies)) => format!("{range}: {copies}"),
        (Some(range), None) => {
            format!("{range}: the race finds a greater difference 4 times in 5")
        }
        (None, Some(copies)) if !outcome.verdicts.is_empty() => copies,
        (None, _) => return None,
    })
}

/// Returns `resolution ±0.90 ms`, the greatest of verdicts on differences in time.
fn in_time<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Option<String> {
    let all = verdicts.filter_map(|verdict| verdict.difference?.resolution);
    let most = all.reduce(f64::max)?;
    Some(format!("resolution ±{}", Nanos(most.round() as u64)))
}

/// Returns `±12.5 ms of it are the clocks'` for a metric with the offset between two hosts' clocks in it.
fn of_clocks(outcome: &Outcome, metric: &Metric) -> Option<Line> {
    let bounds = outcome.summary.iter().filter(|summary| summary.metric == metric.name);
    let bound = words::clock_bound(bounds.filter_map(|summary| summary.clock_bound_ns).max()?);
    let enters = match metric.unit {
        Unit::Nanos => format!("of which {bound} is the clocks'"),
        Unit::Share | Unit::Count | Unit::BitRate => {
            format!("and both hosts' clocks enter it, which are known to {bound}")
        }
    };
    let of = if time_differences::has_clocks_apart(outcome, metric) {
        "of a contender's own far host"
    } else {
        "the same for all contenders of a block"
    };
    let text = format!("{}: {enters}, {of}", metric.label);
    Some(Line::new(text, Tone::Aside))
}

fn range<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Option<String> {
    let all: Vec<f64> = verdicts.filter_map(|verdict| verdict.resolution).collect();
    let least = all.iter().copied().reduce(f64::min)?;
    let most = all.iter().copied().reduce(f64::max)?;
    let (least, most) = (figures::resolution(least), figures::resolution(most));
    Some(if least == most {
        format!("resolution {most}")
    } else {
        format!("resolution {} to {most}", least.trim_end_matches(" %"))
    })
}

/// Returns `identical copies of tcp differed by 0.6 % (−3 to +6 %)`.
fn copies(outcome: &Outcome, metric: &Metric) -> Option<String> {
    let control = outcome.control.as_ref()?;
    let verdict = control.verdicts.iter().find(|verdict| verdict.metric == metric.name)?;
    let name = super::names::label(outcome, control.contender);
    Some(verdict.ratio?.of_copies(&name))
}

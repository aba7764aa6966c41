//! Evidence behind the answer: verdicts pair by pair, the control, differences in conditions, excluded
//! trials, and the conditions.

use std::collections::BTreeMap;

use super::document::{Block, Cell, Column, Line, Point, Section, Table, Tone};
use super::names::label;
use super::path::least_rtt;
use super::standing::tone;
use super::totals::{Total, TrialSet, blocks_done};
use super::words::{self, Scale};
use super::{factors, imported, libraries};
use deadheat_base::figures;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Metric;
use deadheat_records::host::HostFacts;
use deadheat_records::quiet::HostQuiet;
use deadheat_result::analysis::exclusions::by_reason;
use deadheat_result::outcome::{Effect, Outcome, Ratio, Status, TimeDifference, Trial, Verdict};
use deadheat_stats as stats;

/// Returns the verdicts, a line for each claim.
pub(super) fn verdicts(outcome: &Outcome) -> Option<Section> {
    let table = verdict_table(outcome, &outcome.verdicts, |verdict| {
        factors::pair(outcome, verdict.a, verdict.b).unwrap_or_else(|| {
            format!("{} / {}", label(outcome, verdict.a), label(outcome, verdict.b))
        })
    });
    Section::new("Verdicts", vec![Block::Table(table)])
}

/// Returns the verdicts on all trials that ran, if one contender lost more of them to its gates.
pub(super) fn unfiltered(outcome: &Outcome) -> Option<Section> {
    let table = verdict_table(outcome, &outcome.unfiltered, |verdict| {
        format!("{} / {}", label(outcome, verdict.a), label(outcome, verdict.b))
    });
    Section::new("Verdicts with all trials, excluded ones too", vec![Block::Table(table)])
}

/// Returns the verdicts of the contender against its hidden copy.
pub(super) fn control(outcome: &Outcome) -> Option<Section> {
    let control = outcome.control.as_ref()?;
    let (lead, tone) =
        if control.trusted { ("As expected", Tone::Good) } else { ("Not trusted", Tone::Bad) };
    let name = label(outcome, control.contender);
    let text = format!("{lead}: {}", control.note);
    let table = verdict_table(outcome, &control.verdicts, |_| format!("{name} / its copy"));
    Section::new(
        "Control",
        vec![Block::Sentences(vec![Line::new(text, tone)]), Block::Table(table)],
    )
}

fn verdict_table(
    outcome: &Outcome,
    verdicts: &[Verdict],
    pair: impl Fn(&Verdict) -> String,
) -> Table {
    let column = |heading: &str, cell: &dyn Fn(&Verdict) -> Cell| {
        Column::new(heading, verdicts.iter().map(cell).collect())
    };
    let mut columns = vec![column("pair", &|verdict| Cell::text(pair(verdict)))];
    // A single metric is named in the heading of the ratio; several metrics need a column.
    let mut metrics: Vec<&str> = verdicts.iter().map(|v| v.metric.as_str()).collect();
    metrics.dedup();
    let ratio_heading = match metrics.as_slice() {
        [only] => format!("{}, ratio", metric_label(outcome, only)),
        _ => {
            columns.push(column("metric", &|verdict| {
                Cell::text(metric_label(outcome, &verdict.metric))
            }));
            "ratio".to_owned()
        }
    };
    columns.push(column("verdict", &|verdict| {
        let mut text = factors::short(outcome, verdict);
        if is_small_but_measurable(verdict) {
            text.push_str(" (measurable)");
        }
        Cell::text(text).tone(tone(verdict.outcome))
    }));
    columns.push(column(&ratio_heading, &|verdict| {
        verdict.ratio.as_ref().map_or_else(Cell::default, |ratio| {
            let (point, interval) = words::ratio(ratio);
            Cell::number(point, interval)
        })
    }));
    columns.push(column("difference", &|verdict| effect(outcome, verdict)));
    columns.push(column("resolution", &|verdict| Cell::text(resolution(verdict))));
    let margins = column("margin", &|v| Cell::text(words::verdict_margin(v)));
    let levels = column("level", &|v| Cell::text(words::level(v.confidence)));
    let mut legend = "Ratio: first over second".to_owned();
    legend.push_str(&match shared(&levels) {
        None => ", with its interval at the level shown.".to_owned(),
        Some(none) if none == words::level(0.0) => "; too few blocks for an interval.".to_owned(),
        Some(level) => format!(", with its {level} interval."),
    });
    match shared(&margins) {
        Some(margin) => {
            let widened = if outcome.margin_widened() { ", widened with the noise" } else { "" };
            legend.push_str(&format!(" Margin: {margin}{widened}."));
        }
        None => columns.push(margins),
    }
    if shared(&levels).is_none() {
        columns.push(levels);
    }
    columns.push(column("blocks", &|verdict| {
        let more = verdict.more_blocks.map_or_else(String::new, |more| format!(" + about {more}"));
        Cell::text(format!("{}{more}", verdict.blocks))
    }));
    if verdicts.iter().any(is_small_but_measurable) {
        legend.push_str(" Measurable: the interval leaves out 1, yet lies within the margin.");
    }
    if verdicts.iter().any(|verdict| verdict.more_blocks.is_some()) {
        legend.push_str(" “+ about”: blocks that are missing for a decision.");
    }
    legend.push_str(&on_differences(verdicts));
    if verdicts.iter().any(|verdict| !resolution(verdict).is_empty()) {
        legend.push_str(
            " Resolution: the difference that these blocks would have found 4 times in 5.",
        );
    }
    columns.retain(Column::has_content);
    Table { columns, legend }
}

/// Formats the resolution of a verdict, a fraction or a time: `±4.5 %`, `±0.90 ms`; empty if it has none.
fn resolution(verdict: &Verdict) -> String {
    let in_time = verdict.difference.and_then(|difference| difference.resolution);
    let in_time = in_time.map(|ns| format!("±{}", Nanos(ns.round() as u64)));
    in_time.or(verdict.resolution.map(figures::resolution)).unwrap_or_default()
}

/// Returns the part of a legend on verdicts about differences, for figures with two hosts' clocks in them.
fn on_differences(verdicts: &[Verdict]) -> String {
    let bounds = verdicts.iter().filter_map(|verdict| verdict.difference?.clock_bound);
    bounds.max().map_or_else(String::new, |bound| {
        format!(
            " On differences: the offset of both hosts' clocks, {}, is the same for both and cancels.",
            words::clock_bound(bound)
        )
    })
}

/// Returns the difference of the first and the second in the metric's unit, with its interval.
fn effect(outcome: &Outcome, verdict: &Verdict) -> Cell {
    let metric = metric(outcome, &verdict.metric);
    let judged = verdict.difference.map(|TimeDifference { point, low, high, .. }| Effect {
        point,
        low,
        high,
    });
    let Some((effect, metric)) = judged.or(verdict.effect).zip(metric) else {
        return Cell::default();
    };
    let scale = Scale::of([effect.point], metric.unit);
    let [point, low, high] =
        [effect.point, effect.low, effect.high].map(|value| scale.number(value));
    Cell::text(format!("{point} {} {}", scale.unit(), words::interval(&low, &high)))
}

/// Returns the text of all cells of a column, if they are the same.
fn shared(column: &Column) -> Option<&str> {
    let first = column.cells.first()?;
    let same = column.cells.iter().all(|cell| cell == first);
    same.then_some(first.rest.as_str())
}

/// Returns true for a dead heat with an interval that excludes 1: a difference exists, and it is below the
/// margin.
fn is_small_but_measurable(verdict: &Verdict) -> bool {
    let excludes_one = |ratio: &Ratio| ratio.low > 1.0 || ratio.high < 1.0;
    verdict.outcome == stats::Outcome::DeadHeat && verdict.ratio.as_ref().is_some_and(excludes_one)
}

fn metric_label(outcome: &Outcome, name: &str) -> String {
    metric(outcome, name).map_or_else(|| name.to_owned(), |metric| metric.label.clone())
}

fn metric<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a Metric> {
    outcome.metrics.iter().find(|metric| metric.name == name)
}

/// Returns the contenders with trials in two clusters, which one figure would hide.
pub(super) fn regimes(outcome: &Outcome) -> Option<Section> {
    let points = outcome.summary.iter().filter_map(|summary| {
        let [first, second] = summary.regimes.as_ref()?;
        let metric = metric(outcome, &summary.metric)?;
        let cluster = |regime: &stats::Regime| {
            format!(
                "{} around {}",
                words::count(regime.count as u64, "trial"),
                words::figure(regime.centre, metric.unit)
            )
        };
        Some(Point {
            lead: format!(
                "{}, {}: {}, {}.",
                label(outcome, summary.contender),
                metric.label,
                cluster(first),
                cluster(second)
            ),
            values: Vec::new(),
            detail: "The median stands for neither; what differs between these trials?".into(),
        })
    });
    Section::new("Two regimes", vec![Block::Points(points.collect())])
}

/// Returns the counts of lost, dropped, duplicated and late messages, each on its own; and accounts that
/// do not close. Trials of the hidden copy and excluded trials have lines of their own.
pub(super) fn accounts(outcome: &Outcome) -> Option<Section> {
    let mut facts = Vec::new();
    for contender in &outcome.contenders {
        for whose in TrialSet::ALL {
            for way in ["up", "down", "round_trip"] {
                let total = Total::of(outcome, contender.id, whose, way);
                if let Some(parts) = total.as_ref().and_then(not_as_sent) {
                    let way = way.replace("round_trip", "there and back");
                    facts.push((format!("{}, {way}", whose.describe(&contender.label)), parts));
                }
            }
        }
    }
    Section::new("Not delivered as sent", vec![Block::Facts(facts)])
}

/// Returns the counts of one total in words; `None` if everything arrived as it was sent.
fn not_as_sent(total: &Total) -> Option<String> {
    let mut parts: Vec<String> = [
        (total.lost_on_path, "lost on the path"),
        (total.dropped_at_receiver, "dropped at the receiver's socket"),
        (total.duplicates, "duplicated"),
        (total.late, "late"),
        (total.reordered, "out of order"),
        (total.corrupted, "damaged"),
    ]
    .into_iter()
    .filter(|(amount, _)| *amount > 0)
    .map(|(amount, what)| format!("{} {what}", total.show(amount)))
    .collect();
    if let (Some(share), [first, ..]) = (total.lost_share(), &mut parts[..]) {
        first.insert_str(0, &format!("{share} of {} lost: ", total.show(total.sent)));
    }
    if total.open_trials > 0 {
        parts.push(format!(
            "the account of {} does not close ({})",
            words::count(total.open_trials, "trial"),
            total.open_because.join("; ")
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the differences in conditions between contenders.
pub(super) fn differences(outcome: &Outcome) -> Option<Section> {
    let points = outcome.differences.iter().map(|difference| Point {
        lead: difference.what.clone(),
        values: by_value(&difference.values),
        detail: difference.matters.clone(),
    });
    Section::new("Not equal", vec![Block::Points(points.collect())])
}

/// Groups contenders of the same value on one line.
fn by_value(values: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for (label, value) in values {
        match groups.iter_mut().find(|(_, v)| v == value) {
            Some((labels, _)) => labels.push(label),
            None => groups.push((vec![label], value)),
        }
    }
    let line = |(labels, value): (Vec<&str>, &str)| (labels.join(", "), value.to_owned());
    groups.into_iter().map(line).collect()
}

/// Returns the warnings to read before believing the result.
pub(super) fn warnings(outcome: &Outcome) -> Option<Section> {
    let points = outcome.warnings.iter().map(|warning| Point {
        lead: warning.message.clone(),
        values: Vec::new(),
        detail: warning.advice.clone(),
    });
    Section::new("Warnings", vec![Block::Points(points.collect())])
}

/// Returns the excluded trials, counted by reason and contender. Reasons that differ only in their numbers
/// count as one.
pub(super) fn excluded(outcome: &Outcome) -> Option<Section> {
    let reasons = by_reason(outcome.trials.iter());
    let facts = reasons.iter().map(|trials| {
        let first = trials.first().map_or("", |(_, why)| *why);
        let is_one = trials.iter().all(|(_, why)| *why == first);
        let why = if is_one { first.to_owned() } else { format!("{first}; others likewise") };
        (by_contender(outcome, trials), why)
    });
    Section::new("Excluded trials", vec![Block::Facts(facts.collect())])
}

/// Counts trials by contender: `12 trials of udp, 3 of tcp, 1 of its copy`.
fn by_contender(outcome: &Outcome, trials: &[(&Trial, &str)]) -> String {
    let mut counts: Vec<(usize, bool, u64)> = Vec::new();
    for (trial, _) in trials {
        let whose = (trial.contender, trial.control);
        match counts.iter_mut().find(|(id, control, _)| (*id, *control) == whose) {
            Some((_, _, count)) => *count += 1,
            None => counts.push((whose.0, whose.1, 1)),
        }
    }
    counts.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
    let mut parts = Vec::new();
    for (id, control, count) in counts {
        let trials =
            if parts.is_empty() { words::count(count, "trial") } else { count.to_string() };
        let copy = if control { "the copy of " } else { "" };
        parts.push(format!("{trials} of {copy}{}", label(outcome, id)));
    }
    parts.join(", ")
}

/// Returns the contenders that dropped out, or never ran, with the evidence.
pub(super) fn out(outcome: &Outcome) -> Option<Section> {
    let facts = outcome.contenders.iter().filter_map(|contender| {
        let (word, why) = contender.out()?;
        Some((contender.label.clone(), format!("{word}: {why}")))
    });
    Section::new("Took no part", vec![Block::Facts(facts.collect())])
}

/// Returns all conditions but the transports.
pub(super) fn conditions(outcome: &Outcome) -> Option<Section> {
    let mut facts = match &outcome.imported {
        Some(_) => imported::conditions(outcome),
        None => measured(outcome),
    };
    for contender in &outcome.contenders {
        let row = contender.cell.as_ref().map(|cell| outcome.contender(cell.contender));
        let name = row.unwrap_or_else(|| contender.label.clone());
        let by = libraries::implementation(contender);
        // What a label stands for.
        let ran = match (&contender.unlabelled, &contender.commands) {
            // Its specification is the path of a file, and perhaps of programs.
            (Some(own), Some(_)) => format!("{own} · {by}"),
            (Some(_), None) => format!("{} · {by}", contender.spec),
            (None, _) => by,
        };
        let fact = (name, ran);
        // A contender that never ran has no implementation; under several conditions it is listed once.
        if !contender.implementation.is_empty() && !facts.contains(&fact) {
            facts.push(fact);
        }
    }
    facts.extend(outcome.labels.clone());
    facts.retain(|(_, value)| !value.is_empty());
    Section::new("Conditions", vec![Block::Facts(facts)])
}

/// Returns the conditions of a measured race: the request, the plan, and the hosts.
fn measured(outcome: &Outcome) -> Vec<(String, String)> {
    let plan = &outcome.plan;
    let mut facts = vec![
        ("workload", workload(outcome)),
        ("path", path(outcome)),
        ("varied", factors::varied(outcome)),
        ("placement", placement(outcome)),
        ("margin", because(&words::margin(plan.margin), &plan.margin_reason)),
        ("blocks", blocks(outcome)),
        ("seed", outcome.seed.to_string()),
        ("started", outcome.started.clone()),
        ("host", host(&outcome.host)),
    ];
    if let Some(peer) = &outcome.peer_host {
        facts.push(("far host", host(peer)));
    }
    if let Some(said) = outcome.probe.as_ref().and_then(HostQuiet::sentence) {
        facts.push(("host between blocks", said));
    }
    facts.push(("quantiles", plan.quantile_definition.clone()));
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the workload as each trial ran it, and the reason for it.
fn workload(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let run = plan.workload.as_ref().unwrap_or(&outcome.asked.workload);
    because(run, plan.workload_reason.as_deref().unwrap_or_default())
}

fn path(outcome: &Outcome) -> String {
    let path = &outcome.path;
    let mut text = path.spec.clone();
    if path.kind.name() != path.spec {
        text.push_str(&format!(", {}", path.kind));
    }
    if path.address != path.spec && !path.address.is_empty() {
        text.push_str(&format!(", {}", path.address));
    }
    if let Some(least) = least_rtt(outcome) {
        text.push_str(&format!(", {least}"));
    }
    text
}

/// Returns the placement of the ends; nothing if it was varied.
fn placement(outcome: &Outcome) -> String {
    let cells = || outcome.contenders.iter().filter_map(|contender| contender.cell.as_ref());
    if cells().any(|cell| cell.placement.is_some()) {
        return String::new();
    }
    because(&outcome.plan.placement, &outcome.plan.placement_reason)
}

fn because(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

fn blocks(outcome: &Outcome) -> String {
    let how = match outcome.status {
        Status::Running => "not finished",
        Status::Decided => "every claim is decided",
        Status::Budget => "the budget is spent",
        Status::Interrupted => "stopped by hand",
        Status::Failed => "it could not go on",
    };
    let plan = &outcome.plan;
    let again = plan.replans.iter().map(|replan| {
        format!(
            "; after {} blocks their scatter changed the number from {} to {}",
            replan.after, replan.from, replan.to
        )
    });
    let again: String = again.collect();
    format!("{} of at most {}{again}; {how}", blocks_done(outcome), plan.blocks_max)
}

/// Describes a host in one line.
pub(super) fn host(host: &HostFacts) -> String {
    let mut parts = vec![
        host.hostname.clone(),
        format!("{} {}", host.kernel, host.arch).trim().to_owned(),
        host.cpu_model.clone(),
    ];
    if !host.cpus.is_empty() {
        parts.push(words::count(host.cpus.len() as u64, "CPU"));
    }
    parts.extend(host.virtualisation.clone());
    parts.extend(host.governor.iter().map(|name| format!("governor {name}")));
    parts.extend(host.clock_source.iter().map(|name| format!("clock {name}")));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

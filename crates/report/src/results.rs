//! The table of figures: one row for each contender, best first, each figure with its interval.

use super::document::{Block, Cell, Column, Section, Table, Tone};
use super::names::{entrant, label};
use super::standing::{Standing, best_first};
use super::totals::{Cost, Total, TrialSet, Work};
use super::words::{self, Scale};
use super::{names, spark};
use deadheat_contract::measurements::{Metric, Role, Unit};
use deadheat_result::analysis::no_figures;
use deadheat_result::analysis::spread::{self, valid_trials};
use deadheat_result::imported::ImportOrigin;
use deadheat_result::outcome::{Entrant, Outcome, Summary, Trial};

/// Maximum number of bars of a contender; each bar then stands for several blocks.
const MOST_BARS: usize = 16;

/// Minimum number of bars of a contender.
const FEWEST_BARS: usize = 4;

/// Returns the section with the table.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let rows = rows(outcome);
    let mut columns = vec![names(outcome, &rows)];
    let mut has_places = false;
    for metric in &outcome.metrics {
        let figures = figures(outcome, metric, &rows);
        if !figures.has_content() {
            continue;
        }
        if let Some(standing) = Standing::of(outcome, metric) {
            columns.push(places(&standing, &rows));
            has_places = true;
        }
        columns.push(figures);
    }
    columns.extend(["up", "down", "round_trip"].map(|way| delivered(outcome, way, &rows)));
    columns.extend([Work::Message, Work::Gigabyte].map(|work| cpu(outcome, work, &rows)));
    columns.extend([Work::Message, Work::Gigabyte].map(|work| waiting(outcome, work, &rows)));
    columns.push(calls(outcome, &rows));
    columns.push(trials(outcome, &rows));
    let bars = bars(outcome, &rows);
    let has_bars = bars.has_content();
    columns.push(bars);
    columns.retain(Column::has_content);
    let table = Table { columns, legend: legend(outcome, has_places, has_bars) };
    Section::new("Results", vec![Block::Table(table)])
}

/// Returns contenders best first. In a race over conditions, where the best would have the best
/// conditions: the possible ones, contender after contender.
pub(super) fn rows(outcome: &Outcome) -> Vec<usize> {
    if let (Some(metric), false) = (outcome.metrics.first(), names::vary(outcome)) {
        return best_first(outcome, metric);
    }
    let possible = outcome.contenders.iter().filter(|contender| contender.infeasible().is_none());
    let mut rows: Vec<&Entrant> = possible.collect();
    rows.sort_by_key(|contender| contender.cell.as_ref().map(|cell| cell.contender));
    rows.into_iter().map(|contender| contender.id).collect()
}

fn legend(outcome: &Outcome, has_places: bool, has_bars: bool) -> String {
    if outcome.summary.is_empty() {
        return String::new();
    }
    let mut legend = format!(
        "Median of the trials, with its {} interval.",
        words::level(outcome.asked.confidence)
    );
    if has_places {
        legend.push_str(" Places: = is shared in a dead heat, 1–2 is still open.");
        if names::vary(outcome) {
            legend.push_str(" They are among contenders under the same conditions.");
        }
    }
    if has_bars {
        legend.push(' ');
        legend.push_str(spark::LEGEND);
    }
    legend
}

/// Draws the first claimed figure of each contender's trials, block after block, as bars.
fn bars(outcome: &Outcome, rows: &[usize]) -> Column {
    if !outcome.imported.as_ref().is_none_or(ImportOrigin::is_of_page) {
        // The order of trials is unknown; sorted figures would look like a trend.
        return Column::default();
    }
    let mut claims = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    let Some(metric) = claims.next() else { return Column::default() };
    let cell = |id: &usize| {
        let figures = spread::figures(outcome, *id, &metric.name);
        // Fewer bars go up and down by chance, and the table has nearly all of the figures.
        if figures.len() < FEWEST_BARS {
            return Cell::default();
        }
        Cell::text(spark::line(&figures, MOST_BARS))
    };
    Column::new(format!("{}, block by block", metric.label), rows.iter().map(cell).collect())
}

pub(super) fn names(outcome: &Outcome, rows: &[usize]) -> Column {
    let cell = |id: &usize| {
        let blocked = entrant(outcome, *id).is_some_and(|contender| contender.out().is_some());
        Cell::text(label(outcome, *id)).tone(if blocked { Tone::Aside } else { Tone::Plain })
    };
    Column::new("contender", rows.iter().map(cell).collect())
}

pub(super) fn places(standing: &Standing<'_>, rows: &[usize]) -> Column {
    let cell = |id: &usize| {
        let place = standing.place(*id).unwrap_or_default();
        let tone = match place.as_str() {
            "1" => Tone::Good,
            tie if tie.ends_with('=') => Tone::Tie,
            open if open.contains('–') => Tone::Open,
            _ => Tone::Plain,
        };
        Cell::text(place).tone(tone)
    };
    Column::new("place", rows.iter().map(cell).collect())
}

fn figures(outcome: &Outcome, metric: &Metric, rows: &[usize]) -> Column {
    let summary = |id: usize| {
        outcome
            .summary
            .iter()
            .find(|summary| summary.contender == id && summary.metric == metric.name)
    };
    let shown: Vec<Option<&Summary>> = rows.iter().map(|id| summary(*id)).collect();
    if shown.iter().all(Option::is_none) {
        return Column::default();
    }
    let known = shown.iter().flatten();
    let exact = known.filter(|summary| !Bound::of(outcome, summary).holds(summary.estimate));
    let scale = Scale::of(exact.map(|summary| summary.estimate), metric.unit);
    let cell = |(id, summary): (&usize, &Option<&Summary>)| {
        let Some(summary) = summary else {
            let is_first = outcome.metrics.first() == Some(metric);
            let is_out = entrant(outcome, *id).is_some_and(|one| one.out().is_some());
            let why = if is_out && !is_first { "" } else { absent(outcome, *id) };
            return Cell::text(why).tone(Tone::Aside);
        };
        figure(outcome, metric, summary, &scale)
    };
    let cells = rows.iter().zip(&shown).map(cell).collect();
    let unit = scale.unit();
    Column::new(format!("{}, {unit}", metric.label), cells)
}

/// Returns the words in place of a figure that a contender lacks.
pub(super) fn absent(outcome: &Outcome, id: usize) -> &'static str {
    let Some(entrant) = entrant(outcome, id) else { return words::NOTHING };
    let ran = outcome.trials.iter().any(|trial| trial.contender == id && !trial.control);
    match entrant.out() {
        Some((word, _)) => word,
        None if ran && no_figures::why_silent(outcome, entrant).is_some() => "no valid trial",
        None if no_figures::why_unanswered(outcome, entrant).is_some() => "all lost",
        None => words::NOTHING,
    }
}

/// Formats a figure with its interval.
pub(super) fn figure(outcome: &Outcome, metric: &Metric, summary: &Summary, scale: &Scale) -> Cell {
    let bound = Bound::of(outcome, summary);
    let show = |value: f64| {
        if bound.holds(value) { words::beyond(value, metric.unit) } else { scale.number(value) }
    };
    let interval = match (summary.low, summary.high) {
        (Some(low), Some(high)) => words::interval(&show(low), &show(high)),
        _ => String::new(),
    };
    let clocks = match summary.clock_bound_ns.filter(|_| metric.unit == Unit::Nanos) {
        Some(bound) => format!(" clocks {}", words::clock_bound(bound)),
        None => String::new(),
    };
    let interval = format!("{interval}{clocks}").trim_start().to_owned();
    Cell::number(show(summary.estimate), interval)
}

/// Value from which on a summary is only a lower bound: its trials were censored at the timeout.
pub(super) struct Bound {
    censored_at: f64,
    greatest_seen: f64,
}

impl Bound {
    pub(super) fn of(outcome: &Outcome, summary: &Summary) -> Bound {
        let mut bound = Bound { censored_at: f64::INFINITY, greatest_seen: f64::NEG_INFINITY };
        if !summary.censored {
            bound.greatest_seen = f64::INFINITY;
            return bound;
        }
        for trial in valid_trials(outcome, summary.contender) {
            let Some(value) = trial.record.metrics.get(&summary.metric) else {
                continue;
            };
            if trial.record.censored.contains(&summary.metric) {
                bound.censored_at = bound.censored_at.min(*value);
            } else {
                bound.greatest_seen = bound.greatest_seen.max(*value);
            }
        }
        bound
    }

    /// Returns true if `value` is a lower bound of the true value. A median between a censored and an uncensored
    /// trial is greater than all that was observed, and is a bound too.
    pub(super) fn holds(&self, value: f64) -> bool {
        value >= self.censored_at || value > self.greatest_seen
    }
}

/// Returns the share of the sent data that was delivered, over all valid trials of a contender.
fn delivered(outcome: &Outcome, way: &str, rows: &[usize]) -> Column {
    let cell = |id: &usize| {
        let Some(total) =
            Total::of(outcome, *id, TrialSet::Own, way).filter(|total| total.sent > 0)
        else {
            return Cell::default();
        };
        let lost = total.sent.saturating_sub(total.delivered);
        let amounts = format!("{}/{}", total.show(total.delivered), total.show(total.sent));
        if lost == 0 {
            return Cell::text(amounts);
        }
        let share = lost as f64 / total.sent as f64;
        let share = words::figure(share, Unit::Share);
        Cell::text(format!("{amounts} ({share})")).tone(Tone::Open)
    };
    let heading = match way {
        "round_trip" => "answered/sent (lost)".to_owned(),
        way => format!("{way}: delivered/sent (lost)"),
    };
    Column::new(heading, rows.iter().map(cell).collect())
}

/// Returns the CPU time of both ends for each message, or for each GB of a byte stream. Times that cannot
/// be compared are in two columns.
fn cpu(outcome: &Outcome, work: Work, rows: &[usize]) -> Column {
    by_end("CPU", outcome, work, rows, |cost| Some((cost.near_ns, cost.far_ns)))
}

/// Returns the CPU time that both ends spent waiting, if it is notable for any.
fn waiting(outcome: &Outcome, work: Work, rows: &[usize]) -> Column {
    let mut costs = rows.iter().filter_map(|id| Cost::of(outcome, *id));
    if !costs.any(|cost| cost.waited_notably()) {
        return Column::default();
    }
    by_end("waiting", outcome, work, rows, |cost| cost.waiting_ns)
}

/// CPU time of the near end in nanoseconds, and of the far end if that is no kernel.
type Times = (f64, Option<f64>);

/// Returns the time of the near and the far end for each message or each GB.
fn by_end(
    what: &str,
    outcome: &Outcome,
    work: Work,
    rows: &[usize],
    of: fn(&Cost) -> Option<Times>,
) -> Column {
    let cost = |id: &usize| Cost::of(outcome, *id).filter(|cost| cost.work == work);
    let times: Vec<Option<Times>> = rows.iter().map(|id| cost(id).as_ref().and_then(of)).collect();
    let scale = Scale::of(times.iter().flatten().map(|(near, _)| *near), Unit::Nanos);
    let cell = |times: &Option<Times>| {
        times.map_or_else(Cell::default, |(near, far)| {
            let far = far.map_or_else(|| "kernel".into(), |far| scale.number(far));
            Cell::number(scale.number(near), format!("+ {far}"))
        })
    };
    let per = match work {
        Work::Message => "message",
        Work::Gigabyte => "GB",
    };
    let heading = format!("{what} {}/{per}, near + far", scale.unit());
    Column::new(heading, times.iter().map(cell).collect())
}

/// Returns the system calls of both ends for each MB, including calls that wait.
fn calls(outcome: &Outcome, rows: &[usize]) -> Column {
    if outcome.imported.is_some() {
        // Imported results have no counts of calls.
        return Column::default();
    }
    let show = |per_gb: f64| words::significant(per_gb / 1e3);
    let cell = |id: &usize| {
        let cost = Cost::of(outcome, *id).filter(|cost| cost.work == Work::Gigabyte);
        cost.and_then(|cost| cost.calls).map_or_else(Cell::default, |(near, far)| {
            let far = far.map_or_else(|| "kernel".into(), show);
            Cell::number(show(near), format!("+ {far}"))
        })
    };
    Column::new("calls/MB, near + far", rows.iter().map(cell).collect())
}

fn trials(outcome: &Outcome, rows: &[usize]) -> Column {
    let cell = |id: &usize| {
        let own = |trial: &&Trial| trial.contender == *id && !trial.control;
        let all = outcome.trials.iter().filter(own).count();
        let valid = valid_trials(outcome, *id).count();
        match all {
            0 => Cell::default(),
            _ if valid == all => Cell::text(all.to_string()),
            _ => Cell::text(format!("{valid} of {all}")).tone(Tone::Open),
        }
    };
    Column::new("valid trials", rows.iter().map(cell).collect())
}

//! Table of the claimed figures: a row for each contender, its figure, and a strip of its trials.

use crate::boxes::BoxAxis;
use crate::document::{Cell, Column, Table, Tone};
use crate::names::{entrant, label};
use crate::results::{self, Bound};
use crate::standing::Standing;
use crate::words::Scale;
use crate::{contests, factors, names, spark};
use deadheat_contract::measurements::{Metric, Role};
use deadheat_result::analysis::spread::{self, FiveNumbers};
use deadheat_result::analysis::translated::translated;
use deadheat_result::outcome::{Outcome, Summary};

/// Number of bars of a strip, on a terminal of 70 columns or more and on a narrower one.
const BARS: (usize, usize) = (24, 14);
const NARROW: usize = 70;

/// Minimum number of contenders in claims from which on their places are shown.
const MANY: usize = 4;

/// Returns a table for each claimed metric, in a race over conditions with a row for each combination.
pub(super) fn tables(outcome: &Outcome, width: usize) -> Vec<Table> {
    if let Some(pairs) = contests::brief(outcome) {
        return vec![pairs];
    }
    if names::vary(outcome) {
        return factors::combined_tables(outcome).into_iter().map(without_intervals).collect();
    }
    let bars = if width >= NARROW { BARS.0 } else { BARS.1 };
    claims(outcome).filter_map(|metric| table(outcome, metric, Strips::Of(bars))).collect()
}

/// Returns the tables with intervals in place of strips, for a form that has drawings.
pub(crate) fn claimed(outcome: &Outcome) -> Vec<Table> {
    if let Some(pairs) = contests::table(outcome).filter(|_| contests::is_matrix(outcome)) {
        return vec![pairs];
    }
    if names::vary(outcome) {
        return factors::combined_tables(outcome);
    }
    claims(outcome).filter_map(|metric| table(outcome, metric, Strips::None)).collect()
}

/// Strips of trials: drawn, in so many bars, or not.
#[derive(Debug, Clone, Copy)]
enum Strips {
    Of(usize),
    None,
}

fn claims(outcome: &Outcome) -> impl Iterator<Item = &Metric> {
    outcome.metrics.iter().filter(|metric| metric.role == Role::Claim)
}

fn without_intervals(mut table: Table) -> Table {
    for cell in table.columns.iter_mut().flat_map(|column| &mut column.cells) {
        if !cell.number.is_empty() {
            cell.rest.clear();
        }
    }
    table.legend = table.legend.split(", with its").next().unwrap_or_default().to_owned();
    table
}

fn table(outcome: &Outcome, metric: &Metric, strips: Strips) -> Option<Table> {
    let rows = results::rows(outcome);
    let summary =
        |id: &usize| outcome.summary.iter().find(|s| s.contender == *id && s.metric == metric.name);
    let shown: Vec<Option<&Summary>> = rows.iter().map(summary).collect();
    if shown.iter().all(Option::is_none) {
        return None;
    }
    let of = |id: &usize| entrant(outcome, *id);
    let names = rows.iter().map(|id| Cell::text(label(outcome, *id)));
    let mut columns = vec![Column::new(metric.label.as_str(), names.collect())];
    let competing = outcome.contenders.iter().filter(|one| one.is_racing() && !one.floor).count();
    if let Some(standing) = Standing::of(outcome, metric).filter(|_| competing >= MANY) {
        columns.push(results::places(&standing, &rows));
    }
    let exact = shown.iter().flatten().filter(|s| !Bound::of(outcome, s).holds(s.estimate));
    let scale = Scale::of(exact.map(|summary| summary.estimate), metric.unit);
    let figure = |(id, summary): (&usize, &Option<&Summary>)| match summary {
        Some(summary) => {
            let cell = results::figure(outcome, metric, summary, &scale);
            let rest = if matches!(strips, Strips::None) { cell.rest } else { String::new() };
            Cell { rest, ..cell }
        }
        None => Cell::text(results::absent(outcome, *id)).tone(Tone::Aside),
    };
    let figures = rows.iter().zip(&shown).map(figure).collect();
    columns.push(Column::new(scale.unit(), figures));
    if let Strips::Of(bars) = strips {
        columns.extend(strip(outcome, metric, &rows, bars));
    }
    let note = |id: &usize| {
        let is_floor = of(id).is_some_and(|one| one.floor && one.out().is_none());
        let text = match (is_floor, translated(outcome)) {
            (false, _) => "",
            (true, None) => "floor: answered by the kernel",
            (true, Some(_)) => "no floor: perhaps a router answers",
        };
        Cell::text(text).tone(Tone::Aside)
    };
    columns.push(Column::new("", rows.iter().map(note).collect()));
    columns.retain(Column::has_content);
    Some(Table { columns, legend: String::new() })
}

/// Returns a strip of each contender's trials. All strips share one scale, which spans the contenders that take part in
/// claims.
fn strip(outcome: &Outcome, metric: &Metric, rows: &[usize], bars: usize) -> Option<Column> {
    let figures = |id: &usize| spread::figures(outcome, *id, &metric.name);
    let five = |id: &usize| spread::five_numbers(&mut figures(id));
    let takes_part = |id: &&usize| entrant(outcome, **id).is_some_and(|one| !one.floor);
    let mut spans: Vec<FiveNumbers> = rows.iter().filter(takes_part).filter_map(five).collect();
    if spans.is_empty() {
        spans = rows.iter().filter_map(five).collect();
    }
    let least = spans.iter().map(|five| five.low).fold(f64::INFINITY, f64::min);
    let greatest = spans.iter().map(|five| five.high).fold(f64::NEG_INFINITY, f64::max);
    if spans.iter().all(|five| five.n < 2) || least >= greatest {
        return None;
    }
    let axis = BoxAxis::new(least, greatest);
    let cell = |id: &usize| {
        let values = figures(id);
        let inside = values.iter().filter(|value| (least..=greatest).contains(*value));
        let at: Vec<usize> = inside.map(|value| axis.column(*value, bars)).collect();
        if at.is_empty() && !values.is_empty() {
            // All figures are beyond one end, as for a floor far below the others.
            let is_below = values.iter().all(|value| *value < least);
            let mark = if is_below { "‹".to_owned() } else { format!("{:>bars$}", "›") };
            return Cell::text(mark).tone(Tone::Aside);
        }
        Cell::text(spark::strip(&at, bars))
    };
    let scale = Scale::of([least, greatest], metric.unit);
    let heading = format!("trials, {} to {}", scale.number(least), scale.with_unit(greatest));
    Some(Column::new(heading, rows.iter().map(cell).collect()))
}

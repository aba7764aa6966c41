//! Theory beside the measurement: predictions of closed forms, and their distance from the figures.

use super::document::{Block, Cell, Column, Section, Table, Tone};
use super::names::label;
use super::words;
use deadheat_base::figures;
use deadheat_contract::measurements::Unit;
use deadheat_result::analysis::theory::{PredictedFigure, beside};
use deadheat_result::outcome::Outcome;

/// Returns a row for each closed form that is known under the conditions of the race.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let all = beside(outcome);
    let metric =
        |one: &PredictedFigure| outcome.metrics.iter().find(|m| m.name == one.prediction.metric);
    let figure = |one: &PredictedFigure, value: f64| {
        words::figure(value, metric(one).map_or(Unit::Count, |metric| metric.unit))
    };
    let column = |heading: &str, cell: &dyn Fn(&PredictedFigure) -> Cell| {
        Column::new(heading, all.iter().map(cell).collect())
    };
    let columns = vec![
        column("contender", &|one| Cell::text(label(outcome, one.contender))),
        column("figure", &|one| {
            Cell::text(metric(one).map_or(one.prediction.metric, |m| m.label.as_str()).to_owned())
        }),
        column("theory", &|one| Cell::text(figure(one, one.prediction.value))),
        column("measured", &|one| {
            Cell::number(figure(one, one.mean), format!("± {}", figure(one, one.error)))
        }),
        column("over theory", &|one| Cell::text(figures::change(one.ratio()))),
        column("holds", &holds),
        column("closed form", &|one| {
            Cell::text(format!("{} ({})", one.prediction.form, one.prediction.source))
        }),
    ];
    let legend = "Measured: mean over trials with its standard error. p: independent loss of each packet. A form holds in \
                  its range within the tolerance given."
        .to_owned();
    Section::new("Theory beside it", vec![Block::Table(Table { columns, legend })])
}

fn holds(one: &PredictedFigure) -> Cell {
    let tolerance = words::percent(one.prediction.tolerance);
    match &one.prediction.outside {
        Some(why) => Cell::text(format!("outside its range: {why}")),
        None if one.differs() => Cell::text(format!("no, not within {tolerance}")).tone(Tone::Bad),
        None => Cell::text(format!("within {tolerance}")),
    }
}

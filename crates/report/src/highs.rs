//! Highs and lows of a race that went on for hours or days.

use super::document::{Block, Cell, Column, Line, Section, Table, Tone};
use super::names::label;
use super::words;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Unit;
use deadheat_result::analysis::highs::{Extremes, Gap, Highs, Spell, TimedFigure, highs};
use deadheat_result::date;
use deadheat_result::outcome::Outcome;

/// Returns each contender's best and worst trial, and its medians by the hour of the day and by the day.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let seen = highs(outcome)?;
    let mut blocks = vec![Block::Table(extremes(outcome, &seen))];
    blocks.extend(seen.pause.map(|gap| {
        let text = format!("Nothing ran {}.", from_to(gap));
        Block::Sentences(vec![Line::new(text, Tone::Open)])
    }));
    let hour = |number: u64| format!("{number:02}:00–{:02}:00", number + 1);
    if !seen.hours.is_empty() {
        blocks.push(Block::Table(spells(outcome, &seen, &seen.hours, "Hour (UTC)", hour)));
    }
    if !seen.days.is_empty() {
        blocks.push(Block::Table(spells(outcome, &seen, &seen.days, "Day (UTC)", date::day)));
    }
    Section::new("Highs and lows", blocks)
}

fn extremes(outcome: &Outcome, seen: &Highs<'_>) -> Table {
    let unit = seen.metric.unit;
    let column = |heading: &str, cell: &dyn Fn(&Extremes) -> Cell| {
        Column::new(heading, seen.extremes.iter().map(cell).collect())
    };
    let or_none = |text: Option<String>| text.map_or_else(Cell::default, Cell::text);
    let mut columns = vec![
        column("Contender", &|one| Cell::text(label(outcome, one.contender))),
        column("Best trial", &|one| Cell::text(moment(one.best, unit))),
        column("Worst trial", &|one| Cell::text(moment(one.worst, unit))),
        column("Most lost", &|one| or_none(one.most_lost.map(|at| moment(at, Unit::Share)))),
        column("Nothing came through", &|one| or_none(one.outage.map(from_to))),
    ];
    columns.retain(Column::has_content);
    let legend = format!(
        "By {}, a trial each, times in UTC. The worst of many trials is always bad. More important: how often it is bad, and whether the other contenders were bad at the same time.",
        seen.metric.label
    );
    Table { columns, legend }
}

fn spells(
    outcome: &Outcome,
    seen: &Highs<'_>,
    spells: &[Spell],
    heading: &str,
    name: impl Fn(u64) -> String,
) -> Table {
    let unit = seen.metric.unit;
    let names = spells.iter().map(|spell| Cell::text(name(spell.number))).collect();
    let mut columns = vec![Column::new(heading, names)];
    for (at, one) in seen.extremes.iter().enumerate() {
        let median = |spell: &Spell| match spell.medians.get(at).copied().flatten() {
            Some(median) => Cell::text(words::figure(median, unit)),
            None => Cell::default(),
        };
        let cells = spells.iter().map(median).collect();
        columns.push(Column::new(label(outcome, one.contender), cells));
    }
    let trials = spells.iter().map(|spell| Cell::text(spell.trials.to_string())).collect();
    columns.push(Column::new("Trials", trials));
    Table { columns, legend: format!("Medians of {} over trials.", seen.metric.label) }
}

fn moment(moment: TimedFigure, unit: Unit) -> String {
    format!("{} ({})", words::figure(moment.value, unit), date::minute(moment.at_ms))
}

/// Formats a gap: `for 5 h 3 min, from 2026-01-01 09:05 to 2026-01-01 14:08`.
fn from_to(gap: Gap) -> String {
    let length = words::span(Nanos::from_millis(gap.ms()));
    format!("for {length}, from {} to {}", date::minute(gap.from_ms), date::minute(gap.to_ms))
}

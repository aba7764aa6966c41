//! Rising load: the highest offered load at which the delivered load still follows it.

use std::collections::BTreeMap;

use super::document::{Block, Cell, Column, Line, Section, Table, Tone};
use super::words::{self, Scale};
use deadheat_contract::measurements::Unit;
use deadheat_result::outcome::{KneeAt, KneePlace, Outcome, Sweep};

/// Returns lines such as
/// `udp: the delivered load follows the offered load up to 4.98 Mbit/s (4.90 to 5.05 Mbit/s).`
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let line = |sweep: &Sweep| {
        let bps = |at: &KneeAt| words::figure(at.bps, Unit::BitRate);
        let (name, at) = (name(outcome, sweep), bps(&sweep.knee));
        let text = match sweep.knee.place {
            KneePlace::At => {
                let end = |at: &KneeAt| format!("{}{}", beyond(at), bps(at));
                let interval = sweep.low.as_ref().zip(sweep.high.as_ref());
                let interval = interval.map_or_else(String::new, |(low, high)| {
                    format!(" ({} to {})", end(low), end(high))
                });
                format!("{name}: the delivered load follows the offered load up to {at}{interval}.")
            }
            KneePlace::Below => format!("{name}: even {at}, the lowest load, is too much."),
            KneePlace::Above => format!("{name}: even {at}, the highest load, gets through."),
        };
        Line::new(text, Tone::Plain)
    };
    outcome.sweeps.iter().map(line).collect()
}

/// Returns the table of knees.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let knees = outcome.sweeps.iter().map(|sweep| sweep.knee.bps);
    let scale = Scale::of(knees, Unit::BitRate);
    let show = |at: &KneeAt| format!("{}{}", beyond(at), scale.number(at.bps));
    let knee = |sweep: &Sweep| {
        let interval = match (&sweep.low, &sweep.high) {
            (Some(low), Some(high)) => words::interval(&show(low), &show(high)),
            _ => String::new(),
        };
        Cell::number(show(&sweep.knee), interval)
    };
    let column = |heading: String, cell: &dyn Fn(&Sweep) -> Cell| {
        Column::new(heading, outcome.sweeps.iter().map(cell).collect())
    };
    let columns = vec![
        column("contender".into(), &|sweep| Cell::text(name(outcome, sweep))),
        column(format!("knee, {}", scale.unit()), &knee),
        column("blocks".into(), &|sweep| Cell::text(sweep.blocks.to_string())),
    ];
    let legend = format!(
        "Knee: the offered load up to which the delivered load follows it; median over blocks with \
         its {} interval. < and >: below the lowest load, above the highest.",
        words::level(outcome.asked.confidence)
    );
    Section::new("Under rising load", vec![Block::Table(Table { columns, legend })])
}

fn beyond(at: &KneeAt) -> &'static str {
    match at.place {
        KneePlace::Below => "< ",
        KneePlace::At => "",
        KneePlace::Above => "> ",
    }
}

fn name(outcome: &Outcome, sweep: &Sweep) -> String {
    named(outcome, sweep.contender, &sweep.conditions)
}

/// Returns `udp`, or `udp · size=1400` if other conditions were varied, too.
pub(super) fn named(
    outcome: &Outcome,
    contender: usize,
    conditions: &BTreeMap<String, String>,
) -> String {
    let conditions: Vec<String> =
        conditions.iter().map(|(name, level)| format!("{name}={level}")).collect();
    let contender = outcome.contender(contender);
    if conditions.is_empty() {
        contender
    } else {
        format!("{contender} · {}", conditions.join(", "))
    }
}

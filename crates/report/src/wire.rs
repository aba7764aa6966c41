//! Packets on the wire, as the emulator counted them: trains, gaps and acknowledgements (`race --wire`).

use super::document::{Block, Cell, Column, Section, Table};
use super::names::label;
use super::path::way_name;
use super::words;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::path::{Distribution, LinkFigures, WireEnd};
use deadheat_contract::measurements::{Quantile, Unit};
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::Outcome;

/// Row: contender and direction, packets there, and acknowledgements for each.
struct WireRow<'a> {
    name: String,
    entrance: &'a WireEnd,
    exit: &'a WireEnd,
    acknowledgements: Option<f64>,
}

/// Returns a table of the last valid trial of each contender, as an example and not an average.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let mut rows = Vec::new();
    for entrant in &outcome.contenders {
        let Some(trial) = valid_trials(outcome, entrant.id).last() else { continue };
        let links = trial.record.path.as_ref().map_or(&[][..], |path| &path.links);
        for (at, link) in links.iter().enumerate() {
            for direction in [Direction::Up, Direction::Down] {
                let way = way_name(outcome, (at, direction));
                let name = format!("{}, {way}", label(outcome, entrant.id));
                rows.extend(row(link, direction, name));
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    let column = |heading: &str, cell: &dyn Fn(&WireRow<'_>) -> Cell| {
        Column::new(heading, rows.iter().map(cell).collect())
    };
    let columns = vec![
        column("way", &|row| Cell::text(row.name.clone())),
        column("packets", &|row| Cell::number(row.entrance.packets.to_string(), "")),
        column("in trains of 5 at most", &|row| short(row.entrance)),
        column("at the exit", &|row| short(row.exit)),
        column("gap (p50)", &|row| time(row.entrance.gaps_ns.p50)),
        column("pacing error (p50)", &|row| time(row.entrance.pacing_error_ns.p50)),
        column("pacing error (p99)", &|row| time(row.entrance.pacing_error_ns.p99)),
        column("longest train", &|row| longest(&row.entrance.train_packets)),
        column("packets back for each", &|row| {
            row.acknowledgements.map_or_else(Cell::default, |n| Cell::number(format!("{n:.2}"), ""))
        }),
    ];
    let legend = "The last valid trial of each. A train: packets of a flow with gaps of at most 100 µs. Pacing error: a gap \
                  against the gap of an even flow at the rate of the 31 packets before. Packets back: TCP's bare \
                  acknowledgements, or else all packets of the other direction.";
    Section::new("On the wire", vec![Block::Table(Table { columns, legend: legend.to_owned() })])
}

fn row(link: &LinkFigures, direction: Direction, name: String) -> Option<WireRow<'_>> {
    let (own, other) = match direction {
        Direction::Up => (&link.up, &link.down),
        Direction::Down => (&link.down, &link.up),
    };
    let (own, other) = (own.wire.as_ref()?, other.wire.as_ref()?);
    let back = if other.ack_packets > 0 { other.ack_packets } else { other.data_packets };
    // A direction of acknowledgements alone has none of its own.
    let acknowledgements =
        (own.data_packets > own.ack_packets).then(|| back as f64 / own.data_packets as f64);
    let (entrance, exit) = (&own.entrance, &own.exit);
    (entrance.packets > 0).then_some(WireRow { name, entrance, exit, acknowledgements })
}

fn short(end: &WireEnd) -> Cell {
    match end.packets {
        0 => Cell::default(),
        n => Cell::number(format!("{:.1}", 100.0 * end.in_short_trains as f64 / n as f64), "%"),
    }
}

fn time(quantile: Option<Quantile>) -> Cell {
    let text = |ns: Quantile| words::figure(ns.at_least_ns() as f64, Unit::Nanos);
    Cell::text(quantile.map_or_else(String::new, text))
}

fn longest(trains: &Distribution) -> Cell {
    trains.max.map_or_else(Cell::default, |n| Cell::number(n.to_string(), ""))
}

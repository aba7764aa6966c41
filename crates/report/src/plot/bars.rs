//! Bars: round trips in their parts, CPU time of both ends, the ladder of goodput.

use std::collections::BTreeSet;

use super::axis::{Axis, Quantity};
use super::canvas::{Panel, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::rows::{Row, Rows, RowsAxis};
use super::{drawn, figure_text, numbers, order, palette};
use crate::explain::name;
use crate::figure::Figure;
use crate::names::label;
use crate::totals::{Cost, Work};
use crate::{names, words};
use deadheat_contract::measurements::{Role, Unit};
use deadheat_records::parts::{Part, RoundTrip};
use deadheat_result::outcome::{Outcome, Summary};

const BAND: f64 = 22.0;
const HALF: f64 = 9.0;

/// Minimum number of contenders in a ladder.
const FEWEST_RUNGS: usize = 3;

/// Bar of one contender in pieces, each with its ink and its words.
pub(super) struct Bar {
    pub(super) row: Row,
    pub(super) pieces: Vec<(f64, Ink, String)>,
}

/// Draws bars of pieces, beginning at 0, under a key of parts.
pub(super) fn stacked(
    size: Size,
    key: &[(usize, &str)],
    bars: &[Bar],
    (x, quantity): (Axis, Quantity),
) -> String {
    let key = LineKey::parts(size, key.iter().copied());
    let rows: Vec<Row> = bars.iter().map(|bar| bar.row.clone()).collect();
    let above = if key.height > 0.0 { key.height + 4.0 } else { 0.0 };
    let rows = Rows::under(size, above, &rows, BAND, RowsAxis { x, quantity, foot: "" });
    key.draw(rows.canvas());
    let panel = rows.panel();
    for (at, bar) in bars.iter().enumerate() {
        let (y, mut from) = (rows.y(at), 0.0);
        for (length, ink, words) in &bar.pieces {
            let to = from + length;
            piece(&panel, (from, to), y, *ink, words);
            from = to;
        }
    }
    rows.finish()
}

fn piece(panel: &Panel<'_>, (from, to): (f64, f64), y: f64, ink: Ink, words: &str) {
    let (left, right) = (panel.at(from, y).0, panel.at(to, y).0);
    if right > left {
        panel.rectangle((from, y - HALF), (to, y + HALF), ink, words);
    }
}

/// Draws round trips in their parts, if a second pass was run.
pub(super) fn split(outcome: &Outcome) -> Option<Figure> {
    let contenders = &outcome.explain.as_ref()?.contenders;
    let trips: Vec<(usize, &RoundTrip)> = contenders
        .iter()
        .filter_map(|found| Some((found.contender, found.round_trip.as_ref()?)))
        .collect();
    let x = Axis::from_zero(trips.iter().map(|(_, trip)| sum(trip)))?;
    let present: BTreeSet<Part> =
        trips.iter().flat_map(|(_, trip)| trip.parts.iter().map(|time| time.part)).collect();
    let number = |part: Part| present.iter().position(|other| *other == part).unwrap_or(0);
    let bar = |(id, trip): &(usize, &RoundTrip)| {
        let label = label(outcome, *id);
        let piece = |time: &deadheat_records::parts::PartTime| {
            let figure = words::figure(time.ns, Unit::Nanos);
            let words = format!("{label}, {}: {figure}", name(time.part));
            (positive(time.ns), Ink::Part(number(time.part)), words)
        };
        Bar {
            row: Row {
                number: Some(palette::number(outcome, *id)),
                note: words::figure(trip.total_ns, Unit::Nanos),
                label: label.clone(),
                heading: None,
            },
            pieces: trip.parts.iter().map(piece).collect(),
        }
    };
    let bars: Vec<Bar> = trips.iter().map(bar).collect();
    let rows = trips.iter().flat_map(|(id, trip)| {
        let rest = ("not in the parts", trip.residual_ns);
        let parts = trip.parts.iter().map(|time| (name(time.part), time.ns)).chain([rest]);
        parts.map(|(name, ns)| {
            vec![label(outcome, *id), name.to_owned(), words::figure(ns, Unit::Nanos)]
        })
    });
    let key: Vec<(usize, &str)> = present.iter().map(|part| (number(*part), name(*part))).collect();
    Some(drawn(
        "split".into(),
        "Where a round trip's time goes".into(),
        "The parts of a round trip around the median one, in the order in which time passes, from \
         an instrumented pass of its own."
            .into(),
        numbers(&["contender", "part", "time"], rows.collect()),
        |size| stacked(size, &key, &bars, (x, Quantity::Of(Unit::Nanos))),
    ))
}

fn sum(trip: &RoundTrip) -> f64 {
    trip.parts.iter().map(|time| positive(time.ns)).sum()
}

/// Returns a length that a bar can have.
fn positive(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}

/// Draws CPU time of both ends for each message or GB.
pub(super) fn cpu(outcome: &Outcome) -> Option<Figure> {
    let (ids, left_out) = order(outcome);
    let all: Vec<(usize, Cost)> =
        ids.into_iter().filter_map(|id| Some((id, Cost::of(outcome, id)?))).collect();
    let work = all.first()?.1.work;
    let costs: Vec<(usize, Cost)> = all.into_iter().filter(|(_, cost)| cost.work == work).collect();
    let per = match work {
        Work::Message => "message",
        Work::Gigabyte => "GB",
    };
    let x = Axis::from_zero(
        costs.iter().map(|(_, cost)| positive(cost.near_ns) + positive(cost.far_ns.unwrap_or(0.0))),
    )?;
    let bar = |(id, cost): &(usize, Cost)| {
        let (label, number) = (label(outcome, *id), palette::number(outcome, *id));
        let near = words::figure(cost.near_ns, Unit::Nanos);
        let mut pieces =
            vec![(positive(cost.near_ns), Ink::Bar(number), format!("{label}, near end: {near}"))];
        let far = cost.far_ns.map(|far| {
            let text = words::figure(far, Unit::Nanos);
            pieces.push((positive(far), Ink::BarTwo(number), format!("{label}, far end: {text}")));
            text
        });
        let note = format!("{near} + {}", far.unwrap_or_else(|| "kernel".into()));
        Bar { row: Row { label, number: Some(number), note, heading: None }, pieces }
    };
    let bars: Vec<Bar> = costs.iter().map(bar).collect();
    let rows = costs.iter().map(|(id, cost)| {
        let far = figure_text(cost.far_ns, Unit::Nanos);
        vec![label(outcome, *id), words::figure(cost.near_ns, Unit::Nanos), far]
    });
    Some(drawn(
        "cpu".into(),
        format!("CPU time per {per}"),
        format!(
            "CPU time of the near end (full colour) and of the far end (pale) for each {per}, over \
             all valid trials. What a kernel does as a peer nobody can attribute.{left_out}"
        ),
        numbers(&["contender", "near end", "far end"], rows.collect()),
        |size| stacked(size, &[], &bars, (x, Quantity::Of(Unit::Nanos))),
    ))
}

/// Draws goodput, the greatest first, with intervals.
pub(super) fn ladder(outcome: &Outcome) -> Option<Figure> {
    let is_rate = |m: &&deadheat_contract::measurements::Metric| {
        m.unit == Unit::BitRate && m.role == Role::Claim
    };
    let metric = outcome.metrics.iter().find(is_rate)?;
    let mut rungs: Vec<&Summary> = outcome
        .summary
        .iter()
        .filter(|s| s.metric == metric.name && s.estimate.is_finite())
        .collect();
    if rungs.len() < FEWEST_RUNGS || names::vary(outcome) {
        return None;
    }
    rungs.sort_by(|a, b| b.estimate.total_cmp(&a.estimate));
    rungs.truncate(super::MOST_ROWS);
    let ends = rungs.iter().flat_map(|rung| [Some(rung.estimate), rung.high].into_iter().flatten());
    let x = Axis::from_zero(ends)?;
    let figure = |value: f64| words::figure(value, Unit::BitRate);
    let rows = rungs.iter().map(|rung| {
        let name = label(outcome, rung.contender);
        vec![
            name,
            figure(rung.estimate),
            figure_text(rung.low, Unit::BitRate),
            figure_text(rung.high, Unit::BitRate),
        ]
    });
    Some(drawn(
        "ladder".into(),
        format!("{}, the greatest first", metric.label),
        format!(
            "Medians over trials, with their {} intervals.",
            words::level(outcome.asked.confidence)
        ),
        numbers(&["contender", "median", "low", "high"], rows.collect()),
        |size| rungs_of(outcome, &rungs, x, size),
    ))
}

fn rungs_of(outcome: &Outcome, rungs: &[&Summary], x: Axis, size: Size) -> String {
    let row = |rung: &&Summary| Row {
        label: label(outcome, rung.contender),
        number: Some(palette::number(outcome, rung.contender)),
        note: words::figure(rung.estimate, Unit::BitRate),
        heading: None,
    };
    let rows: Vec<Row> = rungs.iter().map(row).collect();
    let axis = RowsAxis { x, quantity: Quantity::Of(Unit::BitRate), foot: "" };
    let rows = Rows::new(size, &rows, BAND, axis);
    let panel = rows.panel();
    for (at, rung) in rungs.iter().enumerate() {
        let (y, number) = (rows.y(at), palette::number(outcome, rung.contender));
        let interval = match (rung.low, rung.high) {
            (Some(low), Some(high)) => format!(
                " ({} to {})",
                words::figure(low, Unit::BitRate),
                words::figure(high, Unit::BitRate)
            ),
            _ => String::new(),
        };
        let estimate = words::figure(rung.estimate, Unit::BitRate);
        let words = format!("{}: {estimate}{interval}", label(outcome, rung.contender));
        piece(&panel, (0.0, rung.estimate), y, Ink::Bar(number), &words);
        if let (Some(low), Some(high)) = (rung.low, rung.high) {
            panel.interval((low, high), y, Ink::Interval);
        }
    }
    rows.finish()
}

//! Flows of a load over time, within the typical trial of each contender: congestion windows and round trips, with what
//! was sent again among the numbers.

use super::axis::{Axis, Quantity};
use super::canvas::Size;
use super::facets::Facets;
use super::ink::Ink;
use super::{drawn, left_out, numbers, order, palette};
use crate::figure::Figure;
use crate::names::label;
use crate::words;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::series::{Series, TcpColumns};
use deadheat_result::analysis::spread;
use deadheat_result::outcome::{Outcome, Trial};

const HEIGHT: f64 = 92.0;
const MOST_PANELS: usize = 8;
/// Maximum number of flows that are drawn in a panel.
const MOST_FLOWS: usize = 8;
const KILOBYTE: f64 = 1e3;

/// Figure of the flows of a load.
struct LoadFigure {
    id: &'static str,
    title: &'static str,
    what: &'static str,
    unit: Quantity,
    column: fn(&TcpColumns) -> &[Option<u64>],
    /// Number of a column's units in one of the figure's.
    scale: f64,
}

const FIGURES: [LoadFigure; 2] = [
    LoadFigure {
        id: "load-window",
        title: "Congestion windows of the load, kB",
        what: "congestion window",
        unit: Quantity::Number,
        column: |tcp| &tcp.cwnd_bytes,
        scale: KILOBYTE,
    },
    LoadFigure {
        id: "load-rtt",
        title: "Round trips of the load",
        what: "smoothed round trip",
        unit: Quantity::Of(Unit::Nanos),
        column: |tcp| &tcp.srtt_ns,
        scale: 1.0,
    },
];

/// Load of a contender's typical trial: the lines of its senders.
struct LoadLines {
    number: usize,
    label: String,
    block: u64,
    /// Lines by flow: nanoseconds after the load's start, and a value.
    flows: Vec<Vec<(f64, f64)>>,
}

/// Draws the figures, if a load's senders have such columns.
pub(super) fn figures(outcome: &Outcome) -> Vec<Figure> {
    FIGURES.iter().filter_map(|own| figure(outcome, own)).collect()
}

fn figure(outcome: &Outcome, own: &LoadFigure) -> Option<Figure> {
    let metric = outcome.metrics.first()?;
    let (ids, _) = order(outcome);
    let typical = |id: usize| {
        let trial =
            spread::typical(outcome, id, &metric.name, |trial| !lines(trial, own).is_empty())?;
        Some((id, trial))
    };
    let trials: Vec<(usize, &Trial)> = ids.into_iter().filter_map(typical).collect();
    let all = trials.len();
    let shown = &trials[..all.min(MOST_PANELS)];
    let panels: Vec<LoadLines> = shown
        .iter()
        .map(|(id, trial)| LoadLines {
            number: palette::number(outcome, *id),
            label: label(outcome, *id),
            block: trial.block,
            flows: lines(trial, own),
        })
        .collect();
    let points = || panels.iter().flat_map(|panel| &panel.flows).flatten();
    let end = points().map(|(at, _)| *at).fold(0.0, f64::max);
    let y = Axis::from_zero(points().map(|(_, value)| *value))?;
    if end <= 0.0 {
        return None;
    }
    let rows = shown.iter().flat_map(|(id, trial)| rows(&label(outcome, *id), trial));
    Some(drawn(
        own.id.into(),
        own.title.into(),
        format!(
            "The {} of each flow of the load that sent, from its own start, in the typical trial of each contender, whose \
             {} is nearest to the median.{}",
            own.what,
            metric.label,
            left_out(all, MOST_PANELS)
        ),
        numbers(
            &["contender", "flow", "time from start", "window, kB", "round trip", "sent again"],
            rows.collect(),
        ),
        |size| draw(&panels, (Axis::exact(0.0, end), y), own, size),
    ))
}

/// Returns the series of the load's senders, with the end that each is at.
fn senders(trial: &Trial) -> impl Iterator<Item = (&'static str, usize, &Series, &TcpColumns)> {
    let record = &trial.record;
    let ends = [("near", &record.load_intervals), ("far", &record.load_far_intervals)];
    let flows = ends.into_iter().flat_map(|(end, flows)| {
        flows.iter().enumerate().map(move |(flow, series)| (end, flow, series))
    });
    flows.filter_map(|(end, flow, series)| Some((end, flow, series, series.tcp.as_ref()?)))
}

fn lines(trial: &Trial, own: &LoadFigure) -> Vec<Vec<(f64, f64)>> {
    let line = |(_, _, series, tcp): (_, _, &Series, &TcpColumns)| {
        let points = series.at_ns.iter().zip((own.column)(tcp));
        let line: Vec<(f64, f64)> = points
            .filter_map(|(at, value)| Some((*at as f64, (*value)? as f64 / own.scale)))
            .collect();
        (line.len() > 1).then_some(line)
    };
    senders(trial).filter_map(line).take(MOST_FLOWS).collect()
}

fn rows(label: &str, trial: &Trial) -> Vec<Vec<String>> {
    let row = |(end, flow, series, tcp): (&str, usize, &Series, &TcpColumns), at: usize| {
        let of = |column: &[Option<u64>]| column.get(at).copied().flatten();
        let text = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let window = of(&tcp.cwnd_bytes).map(|bytes| words::significant(bytes as f64 / KILOBYTE));
        let time = |ns: u64| words::figure(ns as f64, Unit::Nanos);
        vec![
            label.to_owned(),
            format!("{end} {flow}"),
            time(series.at_ns[at]),
            window.unwrap_or_default(),
            of(&tcp.srtt_ns).map_or_else(String::new, time),
            text(of(&tcp.retransmits)),
        ]
    };
    let all = senders(trial).take(MOST_FLOWS);
    all.flat_map(|own| (0..own.2.at_ns.len()).map(move |at| row(own, at))).collect()
}

fn draw(panels: &[LoadLines], (x, y): (Axis, Axis), own: &LoadFigure, size: Size) -> String {
    let facets = Facets::new(size, panels.len(), HEIGHT);
    for (at, lines) in panels.iter().enumerate() {
        let number = lines.number;
        facets.title(at, &lines.label, Some(number), &format!("block {}", lines.block));
        let panel = facets.canvas.panel(facets.frame(at), x, y);
        panel.ticks_left(own.unit);
        panel.ticks_below(Quantity::Of(Unit::Nanos));
        for (flow, line) in lines.flows.iter().enumerate() {
            let ink = if flow == 0 { Ink::Solid(number) } else { Ink::Faint(number) };
            panel.line(line, ink, &format!("{}, flow {flow}: {}", lines.label, own.what));
        }
    }
    facets.canvas.finish()
}

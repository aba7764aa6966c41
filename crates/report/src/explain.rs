//! Breakdown of time: round trips as bars of parts, bulk data by call, packet and CPU.

use std::collections::BTreeSet;

use super::document::{Block, Cell, Column, Line, Point, Section, Table, Tone};
use super::names::label;
use super::why;
use super::words;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Unit;
use deadheat_records::parts::{Part, RoundTrip};
use deadheat_result::explained::{BulkTransfer, Calls, Explanation, Explanations, UserspaceEnd};
use deadheat_result::outcome::Outcome;

/// Number of letters in the bar of the longest round trip.
const WIDEST_BAR: f64 = 48.0;

/// Returns the section, if a second pass was run.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let explained = outcome.explain.as_ref()?;
    let trips = round_trips(explained);
    let blocks = vec![
        Block::Sentences(largest(outcome, &trips)),
        Block::Facts(bars(outcome, &trips)),
        Block::Table(parts(outcome, explained, &trips)),
        Block::Sentences(limits(outcome, explained)),
        Block::Table(moving(outcome, explained)),
        Block::Table(userspace(outcome, explained)),
        Block::Points(missing(outcome, explained)),
    ];
    Section::new("Where the time goes", blocks)
}

/// Returns a sentence for each contender on where most of the time goes, and on the bottleneck of bulk
/// data.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let Some(explained) = outcome.explain.as_ref() else { return Vec::new() };
    let trips = round_trips(explained);
    let mut lines = largest(outcome, &trips);
    lines.extend(limits(outcome, explained));
    lines
}

fn round_trips(explained: &Explanations) -> Vec<(&Explanation, &RoundTrip)> {
    let all = explained.contenders.iter();
    all.filter_map(|contender| Some((contender, contender.round_trip.as_ref()?))).collect()
}

/// Returns the name of a part.
pub(super) fn name(part: Part) -> &'static str {
    match part {
        Part::NearCall => "near sending call",
        Part::NearStack => "near queue to driver",
        Part::ThereUnsplit => "there, call to application",
        Part::There => "path there",
        Part::FarWake => "far receive and wake-up",
        Part::FarApplication => "far application",
        Part::FarCall => "far sending call",
        Part::FarStack => "far queue to driver",
        Part::Back => "path back",
        Part::BothWays => "path, both ways",
        Part::FarKernel => "path and far kernel",
        Part::BackUnsplit => "back, call to application",
        Part::BothUnsplit => "both ways, call to application",
        Part::NearWake => "near receive and wake-up",
    }
}

fn letter(part: Part) -> char {
    match part {
        Part::NearCall => 'A',
        Part::NearStack => 'B',
        Part::ThereUnsplit => 'T',
        Part::There => 'C',
        Part::FarWake => 'D',
        Part::FarApplication => 'E',
        Part::FarCall => 'F',
        Part::FarStack => 'G',
        Part::Back => 'H',
        Part::BothWays => 'P',
        Part::FarKernel => 'K',
        Part::BackUnsplit => 'U',
        Part::BothUnsplit => 'V',
        Part::NearWake => 'I',
    }
}

fn nanos(ns: f64) -> String {
    words::figure(ns, Unit::Nanos)
}

/// Formats a share as whole percent.
fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0} %", 100.0 * part / whole) } else { String::new() }
}

/// Returns the largest part of each round trip, in a sentence.
fn largest(outcome: &Outcome, trips: &[(&Explanation, &RoundTrip)]) -> Vec<Line> {
    let sentence = |(contender, trip): &(&Explanation, &RoundTrip)| {
        let largest = trip.parts.iter().max_by(|a, b| a.ns.total_cmp(&b.ns))?;
        let text = format!(
            "{}: {} there and back; the largest part is {}, {} ({}).",
            label(outcome, contender.contender),
            nanos(trip.total_ns),
            name(largest.part),
            nanos(largest.ns),
            share(largest.ns, trip.total_ns)
        );
        Some(Line::new(text, Tone::Plain))
    };
    trips.iter().filter_map(sentence).collect()
}

/// Returns a bar for each contender, all to one scale.
fn bars(outcome: &Outcome, trips: &[(&Explanation, &RoundTrip)]) -> Vec<(String, String)> {
    let longest = trips.iter().map(|(_, trip)| trip.total_ns).fold(0.0, f64::max);
    if !longest.is_finite() || longest <= 0.0 {
        return Vec::new();
    }
    let bar = |(contender, trip): &(&Explanation, &RoundTrip)| {
        let (mut bar, mut passed, mut drawn) = (String::new(), 0.0, 0);
        for part in &trip.parts {
            passed += part.ns.max(0.0);
            // The end of each part is rounded, so that the bar is as long as the whole.
            let until = (passed / longest * WIDEST_BAR).min(WIDEST_BAR).round() as usize;
            bar.extend(std::iter::repeat_n(letter(part.part), until.saturating_sub(drawn)));
            drawn = until.max(drawn);
        }
        (label(outcome, contender.contender), format!("{bar} {}", nanos(trip.total_ns)))
    };
    trips.iter().map(bar).collect()
}

/// Returns the parts side by side, and below them their sum.
fn parts(
    outcome: &Outcome,
    explained: &Explanations,
    trips: &[(&Explanation, &RoundTrip)],
) -> Table {
    let present: BTreeSet<Part> =
        trips.iter().flat_map(|(_, trip)| trip.parts.iter().map(|part| part.part)).collect();
    if present.is_empty() {
        return Table::default();
    }
    let mut names: Vec<Cell> = present
        .iter()
        .map(|part| Cell::text(format!("{} {}", letter(*part), name(*part))))
        .collect();
    names.extend(
        ["median round trip", "not in the parts", "median without stamps", "round trips"]
            .map(Cell::text),
    );
    let mut columns = vec![Column::new("part", names)];
    for (contender, trip) in trips {
        let cell = |part: &Part| {
            let found = trip.parts.iter().find(|time| time.part == *part);
            found.map_or_else(Cell::default, |time| {
                Cell::number(micros(time.ns), share(time.ns, trip.total_ns))
            })
        };
        let mut cells: Vec<Cell> = present.iter().map(cell).collect();
        cells.push(Cell::number(micros(trip.total_ns), "100 %"));
        cells.push(Cell::number(micros(trip.residual_ns), ""));
        cells.push(trip.bare_ns.map_or_else(Cell::default, |ns| Cell::number(micros(ns), "")));
        cells.push(Cell::text(trip.messages.to_string()));
        columns.push(Column::new(format!("{}, µs", label(outcome, contender.contender)), cells));
    }
    Table { columns, legend: legend(outcome, explained) }
}

/// Formats microseconds to a hundredth: parts are compared with each other, and add up.
fn micros(ns: f64) -> String {
    // Not "-0.00".
    let hundredths = (ns / 10.0).round() + 0.0;
    format!("{:.2}", hundredths / 100.0)
}

/// Returns the legend of the parts, with the cost of the instruments.
fn legend(outcome: &Outcome, explained: &Explanations) -> String {
    let mut legend =
        "Means over the round trips around the median one, from a pass of its own with \
                      kernel timestamps; none of its figures is in the results above."
            .to_owned();
    let is_time =
        outcome.metrics.iter().any(|m| m.name == explained.metric && m.unit == Unit::Nanos);
    let effects: Vec<String> = explained
        .contenders
        .iter()
        .filter(|_| is_time)
        .filter_map(|contender| {
            let (with, without) = (contender.instrumented?, contender.headline?);
            let way = if with < without { "faster" } else { "slower" };
            let label = label(outcome, contender.contender);
            Some(format!("{label} {} {way}", nanos((with - without).abs())))
        })
        .collect();
    if !effects.is_empty() {
        legend.push_str(&format!(" The pass was, against the race: {}.", words::list(&effects)));
    }
    legend
}

/// Returns the bottleneck of each transfer.
fn limits(outcome: &Outcome, explained: &Explanations) -> Vec<Line> {
    each_moving(explained)
        .map(|(contender, moving)| {
            let name = direction_label(outcome, contender, moving);
            // A result of before the causes has a sentence.
            let held = moving.why.clone().unwrap_or_else(|| why::of_transfer(&moving.causes));
            Line::new(format!("{name}: {held}"), Tone::Plain)
        })
        .collect()
}

fn each_moving(explained: &Explanations) -> impl Iterator<Item = (&Explanation, &BulkTransfer)> {
    explained
        .contenders
        .iter()
        .flat_map(|contender| contender.moving.iter().map(move |moving| (contender, moving)))
}

/// Returns the label, with the direction if there are two.
fn direction_label(outcome: &Outcome, contender: &Explanation, moving: &BulkTransfer) -> String {
    let label = label(outcome, contender.contender);
    match (contender.moving.len(), moving.direction) {
        (1, _) => label,
        (_, Direction::Up) => format!("{label}, up"),
        (_, Direction::Down) => format!("{label}, down"),
    }
}

/// Returns calls, packets and CPU of bulk data.
fn moving(outcome: &Outcome, explained: &Explanations) -> Table {
    let all: Vec<(&Explanation, &BulkTransfer)> = each_moving(explained).collect();
    if all.is_empty() {
        return Table::default();
    }
    let column = |heading: &str, cell: &dyn Fn(&BulkTransfer) -> Cell| {
        Column::new(heading, all.iter().map(|(_, moving)| cell(moving)).collect())
    };
    let calls = |calls: &Calls| {
        let each = format!(
            "of {} B, {} ({} running)",
            calls.bytes as u64,
            nanos(calls.ns),
            nanos(calls.ran_ns)
        );
        Cell::number(words::significant(calls.per_mb), each)
    };
    let per_byte =
        |calls: &Calls| Cell::text(format!("{} ns", words::significant(calls.ns_per_byte)));
    let cpu = |end: &deadheat_result::explained::BulkEnd| {
        let of = if end.cpus == 1 { "its CPU" } else { "all CPUs" };
        Cell::text(format!(
            "ran {}, {} per GB; {of} {} busy, {} interrupts",
            share(end.ran_share, 1.0),
            nanos(end.thread_ns_per_gb),
            share(end.busy_share, 1.0),
            share(end.interrupts_share, 1.0)
        ))
    };
    let names = all
        .iter()
        .map(|(contender, moving)| Cell::text(direction_label(outcome, contender, moving)));
    let columns = vec![
        Column::new("contender", names.collect()),
        column("goodput", &|m| Cell::text(words::figure(m.goodput_bps, Unit::BitRate))),
        column("packets per MB", &|m| {
            Cell::text(m.packets_per_mb.map_or_else(|| words::NOTHING.into(), words::significant))
        }),
        column("sending calls per MB", &|m| calls(&m.sending)),
        column("per byte sent", &|m| per_byte(&m.sending)),
        column("receiving calls per MB", &|m| calls(&m.receiving)),
        column("per byte received", &|m| per_byte(&m.receiving)),
        column("sender's CPU", &|m| cpu(&m.sender)),
        column("receiver's CPU", &|m| cpu(&m.receiver)),
    ];
    let legend = "From a pass of its own that times each call, waits inside included; none of its \
                  figures is in the results above."
        .to_owned();
    Table { columns, legend }
}

/// Returns the time in protocols in user space.
fn userspace(outcome: &Outcome, explained: &Explanations) -> Table {
    let mut ends: Vec<(String, &'static str, UserspaceEnd)> = Vec::new();
    for contender in &explained.contenders {
        let Some(userspace) = contender.userspace else { continue };
        let per = if contender.moving.is_empty() { "message" } else { "MB" };
        let name = label(outcome, contender.contender);
        ends.push((format!("{name}, near"), per, userspace.near));
        ends.extend(userspace.far.map(|far| (format!("{name}, far"), per, far)));
    }
    if ends.is_empty() {
        return Table::default();
    }
    let column = |heading: &str, cell: &dyn Fn(&UserspaceEnd) -> String| {
        Column::new(heading, ends.iter().map(|(_, _, end)| Cell::text(cell(end))).collect())
    };
    let known = |figure: Option<f64>, show: &dyn Fn(f64) -> String| {
        figure.map_or_else(|| words::NOTHING.into(), show)
    };
    let columns = vec![
        Column::new("end", ends.iter().map(|(name, ..)| Cell::text(name.clone())).collect()),
        Column::new("per", ends.iter().map(|(_, per, _)| Cell::text(*per)).collect()),
        column("protocol", &|end| nanos(end.protocol_ns)),
        column("encryption", &|end| known(end.encryption_ns, &nanos)),
        column("allocation", &|end| known(end.allocation_ns, &nanos)),
        column("allocations", &|end| known(end.allocations, &words::significant)),
        column("of the CPU time", &|end| share(end.thread_share, 1.0)),
    ];
    let legend = "Time in the protocol's own calls, in user space, for each message that an end sent or each MB \
                  delivered: of a round trip, a message there and one back. What timing costs is taken out."
        .to_owned();
    Table { columns, legend }
}

/// Returns the information that could not be obtained.
fn missing(outcome: &Outcome, explained: &Explanations) -> Vec<Point> {
    explained
        .contenders
        .iter()
        .flat_map(|contender| {
            let name = label(outcome, contender.contender);
            contender.missing.iter().map(move |what| Point {
                lead: format!("{name}: {what}"),
                values: Vec::new(),
                detail: String::new(),
            })
        })
        .collect()
}

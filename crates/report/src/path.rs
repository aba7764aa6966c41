//! Configuration and behaviour of an emulated path: its own account, compared with the request.

use super::document::{Block, Cell, Column, Line, Section, Table, Tone};
use super::words;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Unit;
use deadheat_path::network;
use deadheat_records::path::{BuiltLink, BuiltPath, BuiltWay};
use deadheat_result::outcome::Outcome;
use deadheat_result::path_way::PathWay;

/// Returns the section on its construction, and on each direction of each link.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let built = outcome.path.built.as_ref()?;
    Section::new(
        "The path",
        vec![
            Block::Facts(facts(built)),
            Block::Table(table(outcome, built)),
            Block::Sentences(failed(outcome)),
        ],
    )
}

/// Returns the least round trip, in a few words, for the line that names the path.
pub(super) fn least_rtt(outcome: &Outcome) -> Option<String> {
    let least = outcome.path.built.as_ref()?.rtt_least_ns.filter(|ns| *ns > 0)?;
    Some(format!("RTT at least {}", Nanos(least)))
}

fn facts(built: &BuiltPath) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for (at, link) in built.links.iter().enumerate() {
        let name = match built.link_name(at) {
            name if name.is_empty() => "link".to_owned(),
            name => name,
        };
        let addresses = [&link.near, &link.far].map(|addresses| {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            texts.join(", ")
        });
        let mut text = link.words.clone();
        if addresses.iter().all(|text| !text.is_empty()) {
            let [first, second] = link.hosts();
            text.push_str(&format!(" ({first} {}; {second} {})", addresses[0], addresses[1]));
        }
        facts.push((name.clone(), text));
        if let Some(cards) = cards(link) {
            facts.push((format!("{name}, network cards"), cards));
        }
        for (way, own) in [(Direction::Up, &link.up), (Direction::Down, &link.down)] {
            if let Some(trace) = &own.trace {
                let length = Nanos(trace.length_ns);
                let text = format!("{}, {length}, SHA-256 {}", trace.file, trace.sha256);
                facts.push((format!("{} follows", built.way_name(at, way)), text));
            }
        }
    }
    let roles = built.roles.iter().map(|(role, hosts)| format!("{role} {}", hosts.join(", ")));
    let roles: Vec<String> = roles.collect();
    facts.extend((!roles.is_empty()).then(|| ("roles".to_owned(), roles.join("; "))));
    facts.push(("built with".into(), because(&built.backend, &built.why)));
    let seed = built.seed.map_or("of each block".to_owned(), |seed| seed.to_string());
    facts.push((
        "mode".into(),
        format!("{}, wait {}, MTU {} B, seed {seed}", built.grouping, built.wait, built.mtu),
    ));
    facts
}

/// Returns the rates of a link's network cards; `None` if no host has one.
fn cards(link: &BuiltLink) -> Option<String> {
    match (link.up.nic_bps.map(BitRate), link.down.nic_bps.map(BitRate)) {
        (None, None) => None,
        (near, far) if near == far => Some(near.unwrap_or_default().to_string()),
        (near, far) => {
            let text = |rate: Option<BitRate>| rate.map_or("none".into(), |rate| rate.to_string());
            let [first, second] = link.hosts();
            Some(format!("{first} {}, {second} {}", text(near), text(far)))
        }
    }
}

fn because(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

/// Accessor for a count of a direction.
type Count = fn(&PathWay) -> u64;

/// Direction of a link, with its configuration.
type Row<'a> = (&'a PathWay, Option<&'a BuiltWay>);

fn table(outcome: &Outcome, built: &BuiltPath) -> Table {
    let rows: Vec<Row<'_>> = outcome
        .path_ways
        .iter()
        .map(|way| {
            let link = built.links.get(way.link);
            let asked = link.map(|link| match way.direction {
                Direction::Up => &link.up,
                Direction::Down => &link.down,
            });
            (way, asked)
        })
        .collect();
    let Some((first, _)) = rows.first() else { return Table::default() };
    let column = |heading: &str, cell: &dyn Fn(&Row<'_>) -> Cell| {
        Column::new(heading, rows.iter().map(cell).collect())
    };
    let mut columns = vec![
        column("way", &|(way, _)| Cell::text(way_name(outcome, (way.link, way.direction)))),
        column("packets", &|(way, _)| Cell::number(way.packets.to_string(), "")),
        column("loss asked", &|(_, asked)| {
            asked.and_then(|asked| asked.loss_share).map_or_else(Cell::default, share)
        }),
        column("had", &|(way, _)| had(way)),
        column("expected", &|(way, _)| expected(way)),
    ];
    let counts: [(&str, Count); 7] = [
        ("blocked", |way| way.blocked),
        ("lost while down", |way| way.down),
        ("queue drops", |way| way.queue_drops),
        ("marked", |way| way.marked),
        ("duplicated", |way| way.duplicated),
        ("damaged", |way| way.corrupted),
        ("reordered", |way| way.reordered),
    ];
    // A column for impairments that no direction had is left out; full queues belong to every rate.
    for (heading, count) in counts {
        columns.push(column(heading, &|(way, asked)| {
            let queues = heading == "queue drops" && is_limited(asked);
            match count(way) {
                0 if !queues => Cell::default(),
                n => Cell::number(n.to_string(), ""),
            }
        }));
    }
    columns.extend(times(&rows));
    columns.retain(Column::has_content);
    let limits = built.lateness_limits;
    let legend = format!(
        "Sums over {}; times are medians over them. Expected: where the share lost lies in 99 of 100 \
         cases, the draws that trials of one seed share counted once. Rate: while packets waited for it. \
         Late: from when a packet was due to when it was handed over; a trial counts with at most {} \
         (p50) and {} (p99).",
        words::count(first.trials, "valid trial"),
        Nanos(limits.p50_ns),
        Nanos(limits.p99_ns)
    );
    Table { columns, legend }
}

/// Names a direction of a link, as [`network::way_name`] does.
pub(super) fn way_name(outcome: &Outcome, (link, direction): (usize, Direction)) -> String {
    let built = outcome.path.built.as_ref();
    let own = built.and_then(|built| built.links.get(link));
    let hosts = own.filter(|link| link.names_hosts()).map(BuiltLink::hosts);
    let paths = outcome.trials.iter().filter_map(|trial| trial.record.path.as_ref());
    let links = paths.map(|path| path.links.len()).max().unwrap_or_default();
    network::way_name(hosts, (link, links.max(link + 1)), direction)
}

fn is_limited(asked: &Option<&BuiltWay>) -> bool {
    asked.is_some_and(|asked| asked.rate_bps.is_some() || asked.trace.is_some())
}

fn times(rows: &[Row<'_>]) -> Vec<Column> {
    let figures = |heading: &str, unit: Unit, of: &dyn Fn(&Row<'_>) -> Option<f64>| {
        let cells = rows.iter().map(|row| {
            of(row).map_or_else(Cell::default, |value| Cell::text(words::figure(value, unit)))
        });
        Column::new(heading, cells.collect())
    };
    vec![
        figures("rate asked", Unit::BitRate, &|(_, asked)| {
            asked.and_then(|asked| asked.rate_bps).map(|bps| bps as f64)
        }),
        figures("rate", Unit::BitRate, &|(way, _)| way.rate_bps),
        figures("queued p50", Unit::Nanos, &|(way, _)| way.queued_p50_ns),
        figures("queued p99", Unit::Nanos, &|(way, _)| way.queued_p99_ns),
        figures("late p50", Unit::Nanos, &|(way, _)| way.late_p50_ns),
        figures("late p99", Unit::Nanos, &|(way, _)| way.late_p99_ns),
    ]
}

fn share(share: f64) -> Cell {
    Cell::text(words::percent(share))
}

fn had(way: &PathWay) -> Cell {
    match way.packets.saturating_sub(way.blocked) {
        0 => Cell::default(),
        packets => share(way.lost as f64 / packets as f64),
    }
}

fn expected(way: &PathWay) -> Cell {
    match (way.loss_low, way.loss_high) {
        (Some(low), Some(high)) if high > 0.0 => {
            Cell::text(words::interval(&words::percent(low), &words::percent(high)))
        }
        _ => Cell::default(),
    }
}

/// Reports the number of trials that failed because of the path itself.
fn failed(outcome: &Outcome) -> Vec<Line> {
    let failed = outcome.trials.iter().filter(|trial| trial.record.path_invalid.is_some()).count();
    if failed == 0 {
        return Vec::new();
    }
    let text = format!(
        "The path failed its gate in {}, which {} excluded.",
        words::count(failed as u64, "trial"),
        words::is_are(failed)
    );
    vec![Line::new(text, Tone::Open)]
}

//! History of a race that was run repeatedly: a series for each contender and metric, and its changes of
//! level.
//!
//! Races are the same where the same was asked: contenders, workload, path, placement and conditions.
//! Each race gives one figure for each series, its estimate; how trials scatter within a race says nothing
//! of how races scatter, so changes are sought among the estimates ([`stats::changes`](mod@changes)). What else
//! changed at that place is listed beside each change: it may be the reason.

use serde::Serialize;

use super::compare;
use crate::measurements::{Better, Metric, Role};
use crate::result::outcome::{Outcome, Ratio, Status, Warning};
use crate::stats::changes::{self, changes};

/// Significance level: the probability, for each series, that a change is seen where there is none.
pub const ALPHA: f64 = 0.05;

/// Seed of the shuffles, so that the same files always give the same result.
const SEED: u64 = 0x6869_7374_6f72_7931;

/// Race of a folder, as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The file, as people find it.
    pub file: String,
    race: Outcome,
}

impl Entry {
    /// Creates an entry of a race without its trials: a history needs its estimates only.
    pub fn new(file: impl Into<String>, race: Outcome) -> Entry {
        let race = Outcome { trials: Vec::new(), explain: None, ..race };
        Entry { file: file.into(), race }
    }
}

/// A file that is not part of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The file.
    pub file: String,
    /// Reason why the file is left out.
    pub why: String,
}

/// History of all races of a folder, sorted by what they race and by time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// The format of this history: 1.
    pub format: u32,
    /// Probability, for each series, that a change is seen where there is none.
    pub alpha: f64,
    /// Races of the same kind, in the order in which kinds first ran.
    pub groups: Vec<Group>,
    /// Files that could not be read, and races that are there twice.
    pub left_out: Vec<LeftOut>,
}

/// Group of races of the same kind over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The contenders as typed, by name.
    pub contenders: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The path.
    pub path: String,
    /// Kind of path: `loopback`, `emulated`, `simulated` or `remote`.
    pub kind: String,
    /// The placement asked for, if one was.
    pub placement: Option<String>,
    /// The conditions that were varied, as `name=a|b`.
    pub vary: Vec<String>,
    /// The near hosts, by name; more than one make changes hard to read.
    pub hosts: Vec<String>,
    /// Races in order of time.
    pub races: Vec<Run>,
    /// Series of the group.
    pub series: Vec<Series>,
    /// Changes of level, in order of time.
    pub changes: Vec<Change>,
}

/// Race of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// File of the race.
    pub file: String,
    /// Start time of the race.
    pub started: String,
    /// True if it is trusted.
    pub trusted: bool,
    /// True if it ran to its end.
    pub finished: bool,
}

/// Series of one contender under one metric over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The contender's label.
    pub contender: String,
    /// The metric.
    pub metric: Metric,
    /// Figures, one for each race that has one.
    pub points: Vec<Point>,
}

/// The figure of one race.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The index of the race.
    pub race: usize,
    /// The estimate.
    pub estimate: f64,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// True if any trial behind it is censored.
    pub censored: bool,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Index of the series.
    pub series: usize,
    /// Index of the last race on the old level.
    pub before: usize,
    /// Index of the first race on the new level.
    pub after: usize,
    /// The old level: the median of its estimates.
    pub from: f64,
    /// The new level.
    pub to: f64,
    /// Ratio of new to old with its interval at 95 %; absent if either level has too few races for one,
    /// or if a figure is not positive.
    pub ratio: Option<Ratio>,
    /// Direction of the change, better or worse.
    pub way: ChangeDirection,
    /// True if the change is larger than the margin of the races, so that it matters.
    pub beyond_margin: bool,
    /// p-value: the probability that chance makes a series look so.
    pub p: f64,
    /// Other differences between the two races.
    pub differs: Vec<Warning>,
}

/// Direction of a change of level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDirection {
    /// Change for the better.
    Better,
    /// Change for the worse.
    Worse,
}

/// Returns the history of `entries`: of each claimed metric, or of the one called `metric`.
pub fn history(entries: Vec<Entry>, left_out: Vec<LeftOut>, metric: Option<&str>) -> History {
    let mut history = History { format: 1, alpha: ALPHA, groups: Vec::new(), left_out };
    let mut kinds: Vec<(Kind, Vec<Entry>)> = Vec::new();
    for entry in in_order(entries, &mut history.left_out) {
        let kind = Kind::of(&entry.race);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, entries)) => entries.push(entry),
            None => kinds.push((kind, vec![entry])),
        }
    }
    history.groups =
        kinds.into_iter().map(|(kind, entries)| kind.group(&entries, metric)).collect();
    history
}

/// Entries by time, each race once: a race may be in a folder packed and unpacked.
fn in_order(mut entries: Vec<Entry>, left_out: &mut Vec<LeftOut>) -> Vec<Entry> {
    entries.sort_by(|a, b| (&a.race.started, &a.file).cmp(&(&b.race.started, &b.file)));
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries {
        let same_start =
            kept.iter().rev().take_while(|other| other.race.started == entry.race.started);
        match same_start.into_iter().find(|other| other.race == entry.race) {
            Some(twin) => {
                let why = format!("the same race as {}", twin.file);
                left_out.push(LeftOut { file: entry.file, why });
            }
            None => kept.push(entry),
        }
    }
    kept
}

/// Properties that make races the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    contenders: Vec<String>,
    workload: String,
    path: String,
    kind: String,
    placement: Option<String>,
    vary: Vec<String>,
}

impl Kind {
    fn of(race: &Outcome) -> Kind {
        let asked = &race.asked;
        let vary = asked.vary.iter();
        // In which order they were typed decides who is copied as the control, and no figure.
        let mut contenders = asked.contenders.clone();
        contenders.sort();
        Kind {
            contenders,
            workload: asked.workload.clone(),
            path: race.path.spec.clone(),
            kind: race.path.kind.clone(),
            placement: asked.placement.clone(),
            vary: vary.map(|f| format!("{}={}", f.name, f.levels.join("|"))).collect(),
        }
    }

    fn group(self, entries: &[Entry], metric: Option<&str>) -> Group {
        let series = all_series(entries, metric);
        let mut changes: Vec<Change> = series
            .iter()
            .enumerate()
            .flat_map(|(index, series)| changes_of(index, series, entries))
            .collect();
        changes.sort_by_key(|change| (change.after, change.series));
        let Kind { contenders, workload, path, kind, placement, vary } = self;
        let hosts = hosts(entries);
        let races = entries.iter().map(Run::of).collect();
        Group { contenders, workload, path, kind, placement, vary, hosts, races, series, changes }
    }
}

impl Run {
    fn of(entry: &Entry) -> Run {
        let race = &entry.race;
        Run {
            file: entry.file.clone(),
            started: race.started.clone(),
            trusted: race.trusted(),
            finished: !matches!(race.status, Status::Running | Status::Failed),
        }
    }
}

/// Returns the names of the near hosts, each once, in order of time.
fn hosts(entries: &[Entry]) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for entry in entries {
        let host = &entry.race.host.hostname;
        if !hosts.contains(host) {
            hosts.push(host.clone());
        }
    }
    hosts
}

/// Returns a series for each contender and metric of any of the races, metric after metric.
fn all_series(entries: &[Entry], metric: Option<&str>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let is_wanted = |known: &&Metric| match metric {
        Some(name) => known.name == name,
        None => known.role == Role::Claim,
    };
    for (index, entry) in entries.iter().enumerate() {
        for metric in entry.race.metrics.iter().filter(is_wanted) {
            for summary in entry.race.summary.iter().filter(|s| s.metric == metric.name) {
                let named = entry.race.contenders.iter().find(|c| c.id == summary.contender);
                let Some(contender) = named.filter(|_| summary.estimate.is_finite()) else {
                    continue;
                };
                let point = Point {
                    race: index,
                    estimate: summary.estimate,
                    low: summary.low,
                    high: summary.high,
                    censored: summary.censored,
                };
                add(&mut all, &contender.label, metric, point);
            }
        }
    }
    all
}

fn add(all: &mut Vec<Series>, contender: &str, metric: &Metric, point: Point) {
    let is_it = |series: &&mut Series| {
        series.contender == contender
            && series.metric.name == metric.name
            && series.metric.unit == metric.unit
    };
    match all.iter_mut().find(is_it) {
        Some(series) => series.points.push(point),
        None => all.push(Series {
            contender: contender.to_owned(),
            metric: metric.clone(),
            points: vec![point],
        }),
    }
}

fn changes_of(index: usize, series: &Series, entries: &[Entry]) -> Vec<Change> {
    let points = &series.points;
    let has_ratios = points.iter().all(|point| point.estimate > 0.0);
    let scale = |value: f64| if has_ratios { value.ln() } else { value };
    let back = |value: f64| if has_ratios { value.exp() } else { value };
    let values: Vec<f64> = points.iter().map(|point| scale(point.estimate)).collect();
    let told = |found: changes::Change| {
        let [before, after] = [found.at - 1, found.at].map(|at| points[at].race);
        let (old, new) = (&entries[before].race, &entries[after].race);
        let (from, to) = (back(found.from), back(found.to));
        let is_lower = to < from;
        let is_better = is_lower == (series.metric.better == Better::Lower);
        let margin = old.plan.margin.max(new.plan.margin).max(0.0);
        let shift = found.shift.filter(|_| has_ratios).map(|logs| logs.map(f64::exp));
        Change {
            series: index,
            before,
            after,
            from,
            to,
            ratio: shift.map(|r| Ratio { point: r.point, low: r.low, high: r.high }),
            way: if is_better { ChangeDirection::Better } else { ChangeDirection::Worse },
            beyond_margin: !has_ratios || (found.to - found.from).abs() > margin.ln_1p(),
            p: found.p,
            differs: compare::warnings(old, new),
        }
    };
    changes(&values, ALPHA, SEED).into_iter().map(told).collect()
}

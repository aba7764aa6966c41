//! History of a race that was run repeatedly: a series for each contender and metric, and its changes of
//! level.
//!
//! Races belong together if they are of one kind ([`RaceKind`]): the same contenders with their settings, workload,
//! path, IP version, placement and conditions. Each race gives one figure for each series, its estimate. The
//! scatter of trials within a race does not show the scatter between races, so changes are searched among the
//! estimates ([`stats::changes`](mod@changes)), with a false alarm rate that all series of a kind share. Other
//! differences at the same place are listed beside each change: they may be the reason.

use serde::Serialize;

use super::conditions;
use super::kind::RaceKind;
use super::no_figures::{SilentContender, silent};
use crate::outcome::{Outcome, Ratio, Status, Warning};
use deadheat_contract::measurements::{Better, Metric, Role};
use deadheat_path::PathKind;
use deadheat_stats::changes::{self, Detector, Steady};

/// Default number of races, over all series of a kind together, with one false change: a year of nightly races.
pub const FALSE_ALARM_IN: u64 = 365;

/// Multiples of the margin for which the detection delay is given.
const SIZES: [f64; 3] = [1.0, 2.0, 4.0];

/// Race of a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// File name for display.
    pub file: String,
    race: Outcome,
    /// Contenders that ran without a valid trial.
    silent: Vec<SilentContender>,
}

impl HistoryEntry {
    /// Creates an entry of a race without its trials: a history needs only its estimates.
    pub fn new(file: impl Into<String>, race: Outcome) -> HistoryEntry {
        let silent = silent(&race);
        let race = Outcome { trials: Vec::new(), explain: None, ..race };
        HistoryEntry { file: file.into(), race, silent }
    }
}

/// A file that is not part of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// The file.
    pub file: String,
    /// Reason why it is left out.
    pub why: String,
}

/// History of all races of a folder, grouped by kind and sorted by time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// The format of this history: 2.
    pub format: u32,
    /// Mean number of races between false changes, over all series of a kind together.
    pub false_alarm_in: u64,
    /// Races by kind, in the order in which the kinds first ran.
    pub groups: Vec<RaceGroup>,
    /// Files that could not be read, and duplicate races.
    pub left_out: Vec<SkippedFile>,
}

/// Group of races of the same kind over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RaceGroup {
    /// The contenders as typed, by name.
    pub contenders: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The path.
    pub path: String,
    /// Kind of path: `loopback`, `emulated`, `simulated` or `remote`.
    pub kind: PathKind,
    /// IP version; absent if not known.
    pub family: Option<u8>,
    /// Requested placement, if any.
    pub placement: Option<String>,
    /// Varied conditions, as `name=a|b`.
    pub vary: Vec<String>,
    /// Names of the near hosts; more than one makes changes hard to interpret.
    pub hosts: Vec<String>,
    /// Names of the far hosts; empty if both ends are on one host.
    pub far_hosts: Vec<String>,
    /// Minimum number of races of a series in which a change can be found.
    pub fewest: u64,
    /// Races, sorted by time.
    pub races: Vec<HistoryRun>,
    /// Series of the group.
    pub series: Vec<MetricSeries>,
    /// Changes of level, sorted by time.
    pub changes: Vec<LevelShift>,
}

/// Race of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryRun {
    /// File of the race.
    pub file: String,
    /// Start time of the race.
    pub started: String,
    /// True if the race is trusted.
    pub trusted: bool,
    /// True if the race ran to its end.
    pub finished: bool,
    /// Contenders that ran without a valid trial, so that no series has a figure of theirs from this race.
    pub silent: Vec<SilentContender>,
}

/// Series of one contender under one metric over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricSeries {
    /// The contender's label.
    pub contender: String,
    /// The metric.
    pub metric: Metric,
    /// Figures, one for each race that has one.
    pub points: Vec<HistoryPoint>,
    /// Detection delays for changes of several sizes from now on; empty if the scatter is not known.
    pub delays: Vec<DetectionDelay>,
}

/// Detection delay of a change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DetectionDelay {
    /// Size of the change, as a fraction.
    pub change: f64,
    /// Typical number of races on the new level until it is found; absent if it is rarely found.
    pub races: Option<u64>,
}

/// The figure of one race.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HistoryPoint {
    /// Index of the race.
    pub race: usize,
    /// The estimate.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// True if any trial behind the estimate is censored.
    pub censored: bool,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelShift {
    /// Index of the series.
    pub series: usize,
    /// Index of the last race on the old level.
    pub before: usize,
    /// Index of the first race on the new level.
    pub after: usize,
    /// Index of the race at which it was found.
    pub found: usize,
    /// Old level: the median of its estimates.
    pub from: f64,
    /// New level, likewise.
    pub to: f64,
    /// Ratio of new to old with its interval at 95 %; absent if either level has too few races for one,
    /// or if a figure is not positive.
    pub ratio: Option<Ratio>,
    /// Direction of the change, better or worse.
    pub way: ChangeDirection,
    /// True if the change is larger than the margin of the races, so that it matters.
    pub beyond_margin: bool,
    /// p-value of this place alone, when it was found.
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

/// Returns the history of `entries`: of each claimed metric, or of the metric named `metric`. On average, all
/// series of a kind together show at most one false change in `false_alarm_in` races.
pub fn history(
    entries: Vec<HistoryEntry>,
    left_out: Vec<SkippedFile>,
    metric: Option<&str>,
    false_alarm_in: u64,
) -> History {
    let mut history = History { format: 2, false_alarm_in, groups: Vec::new(), left_out };
    let mut kinds: Vec<(RaceKind, Vec<HistoryEntry>)> = Vec::new();
    for entry in in_order(entries, &mut history.left_out) {
        let kind = RaceKind::of(&entry.race);
        match kinds.iter_mut().find(|(known, _)| known.difference(&kind).is_none()) {
            Some((_, entries)) => entries.push(entry),
            None => kinds.push((kind, vec![entry])),
        }
    }
    let groups = kinds.into_iter();
    history.groups =
        groups.map(|(kind, entries)| group(kind, &entries, metric, false_alarm_in)).collect();
    history
}

/// Sorts entries by time and removes duplicates: a folder may have a race both compressed and not.
fn in_order(mut entries: Vec<HistoryEntry>, left_out: &mut Vec<SkippedFile>) -> Vec<HistoryEntry> {
    entries.sort_by(|a, b| (&a.race.started, &a.file).cmp(&(&b.race.started, &b.file)));
    let mut unique: Vec<HistoryEntry> = Vec::with_capacity(entries.len());
    for entry in entries {
        let same_start =
            unique.iter().rev().take_while(|other| other.race.started == entry.race.started);
        match same_start.into_iter().find(|other| other.race == entry.race) {
            Some(twin) => {
                let why = format!("the same race as {}", twin.file);
                left_out.push(SkippedFile { file: entry.file, why });
            }
            None => unique.push(entry),
        }
    }
    unique
}

fn group(
    kind: RaceKind,
    entries: &[HistoryEntry],
    metric: Option<&str>,
    false_alarm_in: u64,
) -> RaceGroup {
    let mut series = all_series(entries, metric);
    // The series of a kind share the false alarm rate.
    let detector = Detector::one_in(false_alarm_in as f64 * series.len().max(1) as f64);
    let mut changes: Vec<LevelShift> = Vec::new();
    for (index, one) in series.iter_mut().enumerate() {
        let found = changes_of(index, one, entries, &detector);
        one.delays = delays(one, found.last(), entries, &detector);
        changes.extend(found);
    }
    changes.sort_by_key(|change| (change.after, change.series));
    let RaceKind { contenders, workload, path, path_kind, family, placement, vary, .. } = kind;
    let far = |race: &Outcome| race.peer_host.as_ref().map(|host| host.hostname.clone());
    RaceGroup {
        contenders,
        workload,
        path,
        kind: path_kind,
        family,
        placement,
        vary,
        hosts: each(entries, |race| Some(race.host.hostname.clone())),
        far_hosts: each(entries, far),
        fewest: detector.fewest() as u64,
        races: entries.iter().map(HistoryRun::of).collect(),
        series,
        changes,
    }
}

impl HistoryRun {
    fn of(entry: &HistoryEntry) -> HistoryRun {
        let race = &entry.race;
        HistoryRun {
            file: entry.file.clone(),
            started: race.started.clone(),
            trusted: race.trusted(),
            finished: !matches!(race.status, Status::Running | Status::Failed),
            silent: entry.silent.clone(),
        }
    }
}

/// Returns the distinct names in the races, in order of time.
fn each(entries: &[HistoryEntry], name: impl Fn(&Outcome) -> Option<String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in entries.iter().filter_map(|entry| name(&entry.race)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns a series for each contender and metric of all races, grouped by metric.
fn all_series(entries: &[HistoryEntry], metric: Option<&str>) -> Vec<MetricSeries> {
    let mut all: Vec<MetricSeries> = Vec::new();
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
                let point = HistoryPoint {
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

fn add(all: &mut Vec<MetricSeries>, contender: &str, metric: &Metric, point: HistoryPoint) {
    let is_it = |series: &&mut MetricSeries| {
        series.contender == contender
            && series.metric.name == metric.name
            && series.metric.unit == metric.unit
    };
    match all.iter_mut().find(is_it) {
        Some(series) => series.points.push(point),
        None => all.push(MetricSeries {
            contender: contender.to_owned(),
            metric: metric.clone(),
            points: vec![point],
            delays: Vec::new(),
        }),
    }
}

impl MetricSeries {
    /// Returns true if every figure has a logarithm, so that changes are ratios.
    fn has_ratios(&self) -> bool {
        self.points.iter().all(|point| point.estimate > 0.0)
    }

    /// Returns the values in which changes are searched.
    fn values(&self) -> Vec<f64> {
        let has_ratios = self.has_ratios();
        let scale = |value: f64| if has_ratios { value.ln() } else { value };
        self.points.iter().map(|point| scale(point.estimate)).collect()
    }
}

fn changes_of(
    index: usize,
    series: &MetricSeries,
    entries: &[HistoryEntry],
    detector: &Detector,
) -> Vec<LevelShift> {
    let points = &series.points;
    let has_ratios = series.has_ratios();
    let back = |value: f64| if has_ratios { value.exp() } else { value };
    let level_shift = |found: changes::Change| {
        let [before, after, seen] = [found.at - 1, found.at, found.found].map(|at| points[at].race);
        let (old, new) = (&entries[before].race, &entries[after].race);
        let (from, to) = (back(found.from), back(found.to));
        let is_lower = to < from;
        let is_better = is_lower == (series.metric.better == Better::Lower);
        let margin = old.plan.margin.max(new.plan.margin).max(0.0);
        let shift = found.shift.filter(|_| has_ratios).map(|logs| logs.map(f64::exp));
        LevelShift {
            series: index,
            before,
            after,
            found: seen,
            from,
            to,
            ratio: shift.map(|r| Ratio { point: r.point, low: r.low, high: r.high }),
            way: if is_better { ChangeDirection::Better } else { ChangeDirection::Worse },
            beyond_margin: !has_ratios || (found.to - found.from).abs() > margin.ln_1p(),
            p: found.p,
            differs: conditions::warnings(&[old], &[new]),
        }
    };
    detector.changes(&series.values()).into_iter().map(level_shift).collect()
}

/// Returns the delays until changes from the last level would be found.
fn delays(
    series: &MetricSeries,
    last: Option<&LevelShift>,
    entries: &[HistoryEntry],
    detector: &Detector,
) -> Vec<DetectionDelay> {
    let since = last.map_or(0, |change| change.after);
    let from = series.points.iter().position(|point| point.race >= since).unwrap_or(0);
    let steady = Steady::of(&series.values(), from).filter(|_| series.has_ratios());
    let newest = series.points.last().map(|point| entries[point.race].race.plan.margin);
    let (Some(steady), Some(margin)) = (steady, newest.filter(|margin| *margin > 0.0)) else {
        return Vec::new();
    };
    let delay = |size: f64| {
        let change = size * margin;
        let races = detector.delay(&steady, change.ln_1p());
        DetectionDelay { change, races: races.map(|races| races as u64) }
    };
    SIZES.map(delay).to_vec()
}

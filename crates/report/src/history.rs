//! History of a race as a document: what changed and when, then every figure.

use super::document::{Block, Cell, Column, Document, Line, Point, Section, Table, Tone};
use super::words::{self, Scale};
use super::{Style, markdown, spark, terminal};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::figures;
use deadheat_result::analysis::history::{
    ChangeDirection, DetectionDelay, History, HistoryRun, LevelShift, MetricSeries, RaceGroup,
    SkippedFile,
};
use deadheat_result::layout;
use deadheat_result::outcome::Warning;

/// The formats of a history; the first is the default.
pub const FORMATS: &[&str] = &["terminal", "markdown", "json"];

/// Maximum number of races that a table shows; those before are in the sparklines, and in JSON.
const MOST_ROWS: usize = 30;

/// Maximum number of races of a kind of which it is said why they have no figures of some contenders.
const MOST_SILENT: usize = 3;

/// Maximum number of files that are named as left out.
const MOST_LEFT_OUT: usize = 20;

/// Width of a sparkline, in columns.
const SPARK_WIDTH: usize = 24;

/// Renders `history` of the races in `folder`, in the form called `format`; with a newline at its end.
///
/// # Errors
/// [`Error::Usage`] for a format that a history does not have.
pub fn render(history: &History, folder: &str, format: &str, style: &Style) -> Result<String> {
    match format {
        "terminal" => Ok(terminal::render(&document(history, folder), style)),
        "markdown" => Ok(markdown::render(&document(history, folder))),
        "json" => {
            let text = layout::text(history);
            text.map(|text| text + "\n").map_err(|e| Error::data("history", e.to_string()))
        }
        other => Err(unknown("format", other, FORMATS)),
    }
}

fn document(history: &History, folder: &str) -> Document {
    let races = history.groups.iter().map(|group| group.races.len()).sum::<usize>();
    let mut sections: Vec<Option<Section>> = vec![Section::new("", summary(history))];
    sections.extend(history.groups.iter().map(group));
    sections.push(Section::new("Left out", vec![Block::Facts(left_out(&history.left_out))]));
    Document {
        title: format!("History of {}", words::count(races as u64, "race")),
        subtitle: folder.to_owned(),
        sections: sections.into_iter().flatten().collect(),
    }
}

/// Returns the answer: every change that matters, or that there is none.
fn summary(history: &History) -> Vec<Block> {
    let mut lines: Vec<Line> = Vec::new();
    for group in &history.groups {
        let mattering = group.changes.iter().filter(|change| change.beyond_margin);
        lines.extend(mattering.map(|change| {
            let tone = if change.way == ChangeDirection::Worse { Tone::Bad } else { Tone::Good };
            Line::new(say(group, change), tone)
        }));
    }
    if lines.is_empty() {
        let longest = history.groups.iter().max_by_key(|group| group.races.len());
        let text = match longest {
            None => "There is no race to tell of.".to_owned(),
            Some(group) if (group.races.len() as u64) < group.fewest => format!(
                "No race was run often enough to tell a change of its level: that takes {} races. Several before and \
                 after a change are compared with deadheat compare OLD OLD OLD NEW.",
                group.fewest
            ),
            Some(_) if history.groups.iter().all(|group| group.series.is_empty()) => {
                "No race has a figure, so nothing can be said of a change.".to_owned()
            }
            Some(_) => "No change of level beyond the margin.".to_owned(),
        };
        lines.push(Line::new(text, Tone::Tie));
    }
    if !history.groups.is_empty() {
        let races = words::count(history.false_alarm_in, "race");
        let text = format!(
            "Where nothing changes, a false change is reported once in {races} of a kind or more rarely (--false-alarm-in)."
        );
        lines.push(Line::new(text, Tone::Aside));
    }
    vec![Block::Sentences(lines)]
}

fn say(group: &RaceGroup, change: &LevelShift) -> String {
    let Some(series) = group.series.get(change.series) else {
        return String::new();
    };
    let unit = series.metric.unit;
    let [before, after] = [change.before, change.after].map(|race| started(group, race));
    let way = if change.way == ChangeDirection::Worse { "worse" } else { "better" };
    let by = match &change.ratio {
        Some(ratio) => {
            let (point, interval) = words::ratio(ratio);
            format!("{}, ratio {point} {interval}", words::change(ratio.point))
        }
        None => words::change(change.to / change.from),
    };
    format!(
        "{} {}: {way} from {after} on (before: {before}), {} to {}, {by}; found with the race of {}.",
        series.contender,
        series.metric.label,
        words::figure(change.from, unit),
        words::figure(change.to, unit),
        started(group, change.found),
    )
}

fn started(group: &RaceGroup, race: usize) -> String {
    group.races.get(race).map_or_else(|| words::NOTHING.to_owned(), |run| run.started.clone())
}

/// Returns the section on one kind of race.
fn group(group: &RaceGroup) -> Option<Section> {
    let mut heading =
        format!("{} · {} over {}", words::list(&group.contenders), group.workload, group.path);
    let family = group.family.map(|family| format!("IPv{family}"));
    for extra in family.iter().chain(&group.placement).chain(&group.vary) {
        heading.push_str(&format!(" · {extra}"));
    }
    let mut blocks = vec![Block::Sentences(remarks(group)), Block::Table(overview(group))];
    blocks.extend(tables(group));
    blocks.push(Block::Points(differences(group)));
    Section::new(&heading, blocks)
}

/// Returns remarks to read before the figures of a group's races.
fn remarks(group: &RaceGroup) -> Vec<Line> {
    let mut lines = Vec::new();
    for (hosts, to) in [(&group.hosts, "on"), (&group.far_hosts, "to")] {
        if hosts.len() > 1 {
            let hosts = words::list(hosts);
            let text =
                format!("The races ran {to} different hosts, {hosts}: a change may be that alone.");
            lines.push(Line::new(text, Tone::Open));
        }
    }
    let minor = group.changes.iter().filter(|change| !change.beyond_margin);
    lines.extend(minor.map(|change| {
        Line::new(format!("Smaller than the margin: {}", say(group, change)), Tone::Aside)
    }));
    lines.extend(silent(group));
    lines
}

/// Returns a sentence on each of the last races in which contenders ran without a valid trial, and one on the others.
fn silent(group: &RaceGroup) -> Vec<Line> {
    let runs: Vec<&HistoryRun> = group.races.iter().filter(|run| !run.silent.is_empty()).collect();
    let (earlier, last) = runs.split_at(runs.len().saturating_sub(MOST_SILENT));
    let more = (!earlier.is_empty()).then(|| {
        let races = words::count(earlier.len() as u64, "earlier race");
        format!("{races} lack figures of some contenders; --format json has the reasons.")
    });
    let sentence = |run: &&HistoryRun| {
        let parts = run.silent.iter();
        let parts: Vec<String> = parts
            .map(|silent| format!("no figures of {}: {}", silent.contender, silent.why))
            .collect();
        format!("The race of {} has {}.", run.started, parts.join("; "))
    };
    let lines = more.into_iter().chain(last.iter().map(sentence));
    lines.map(|text| Line::new(text, Tone::Open)).collect()
}

/// Returns a row for each series, with its course at a glance.
fn overview(group: &RaceGroup) -> Table {
    let column = |heading: &str, cell: &dyn Fn(&MetricSeries) -> Cell| {
        Column::new(heading, group.series.iter().map(cell).collect())
    };
    let at = |series: &MetricSeries,
              at: Option<&deadheat_result::analysis::history::HistoryPoint>| {
        at.map_or_else(Cell::default, |point| {
            Cell::text(
                shown(point.estimate, point.censored, &scale(&[series]))
                    + " "
                    + scale(&[series]).unit(),
            )
        })
    };
    let mut columns = vec![
        column("contender", &|series| Cell::text(series.contender.clone())),
        column("metric", &|series| Cell::text(series.metric.label.clone())),
        column("races", &|series| Cell::text(series.points.len().to_string())),
        column("over time", &|series| {
            let values: Vec<f64> = series.points.iter().map(|point| point.estimate).collect();
            Cell::text(spark::line(&values, SPARK_WIDTH))
        }),
        column("first", &|series| at(series, series.points.first())),
        column("last", &|series| at(series, series.points.last())),
        column("races until a change is found", &|series| Cell::text(delays(series))),
    ];
    columns.retain(Column::has_content);
    let is_known = group.series.iter().any(|series| !series.delays.is_empty());
    let delays =
        if is_known { " Races until a change is found: on the new level, as a rule." } else { "" };
    Table { columns, legend: format!("{}{delays}", spark::LEGEND) }
}

/// Returns after how many races changes of several sizes are found.
fn delays(series: &MetricSeries) -> String {
    let delay = |delay: &DetectionDelay| {
        let races = delay.races.map_or_else(|| "too many".to_owned(), |races| races.to_string());
        format!("of {}: {races}", figures::percent(delay.change))
    };
    series.delays.iter().map(delay).collect::<Vec<_>>().join(", ")
}

fn scale(series: &[&MetricSeries]) -> Scale {
    let unit = series
        .first()
        .map_or(deadheat_contract::measurements::Unit::Share, |series| series.metric.unit);
    let points = series.iter().flat_map(|series| &series.points);
    Scale::of(points.map(|point| point.estimate), unit)
}

fn shown(value: f64, censored: bool, scale: &Scale) -> String {
    let number = scale.number(value);
    if censored { format!("{number} (>)") } else { number }
}

/// Returns a table for each metric: a row for each race, a column for each contender.
fn tables(group: &RaceGroup) -> Vec<Block> {
    let mut metrics: Vec<&str> = Vec::new();
    for series in &group.series {
        if !metrics.contains(&series.metric.name.as_str()) {
            metrics.push(&series.metric.name);
        }
    }
    let of = |name: &str| group.series.iter().filter(|s| s.metric.name == name).collect::<Vec<_>>();
    metrics.iter().map(|name| Block::Table(table(group, &of(name)))).collect()
}

fn table(group: &RaceGroup, series: &[&MetricSeries]) -> Table {
    let skipped = group.races.len().saturating_sub(MOST_ROWS);
    let races = skipped..group.races.len();
    let scale = scale(series);
    let label = series.first().map_or("", |series| &series.metric.label);
    let mut columns = vec![Column::new(
        format!("{label}, {}", scale.unit()),
        races.clone().map(|race| Cell::text(started(group, race))).collect(),
    )];
    for one in series {
        let cell = |race: usize| {
            let Some(point) = one.points.iter().find(|point| point.race == race) else {
                return Cell::text(words::NOTHING);
            };
            let interval = match (point.low, point.high) {
                (Some(low), Some(high)) => words::interval(&scale.number(low), &scale.number(high)),
                _ => String::new(),
            };
            let censored = if point.censored { " (>)" } else { "" };
            Cell::number(scale.number(point.estimate), interval + censored)
        };
        columns.push(Column::new(one.contender.clone(), races.clone().map(cell).collect()));
    }
    let doubts = races.map(|race| doubt(group, race)).collect();
    columns.push(Column::new("", doubts));
    columns.retain(Column::has_content);
    Table { columns, legend: legend(series, skipped) }
}

/// Returns the reason to doubt a race.
fn doubt(group: &RaceGroup, race: usize) -> Cell {
    let text = match group.races.get(race) {
        Some(run) if !run.trusted => "not trusted",
        Some(run) if !run.finished => "not finished",
        _ => "",
    };
    Cell::text(text).tone(Tone::Open)
}

fn legend(series: &[&MetricSeries], skipped: usize) -> String {
    let mut legend = String::new();
    if skipped > 0 {
        let races = words::count(skipped as u64, "earlier race");
        legend.push_str(&format!("{races} not shown; --format json has all. "));
    }
    legend.push_str("Estimate of each race with its interval.");
    if series.iter().any(|series| series.points.iter().any(|point| point.censored)) {
        legend.push_str(" (>): some trials are censored at the timeout.");
    }
    legend
}

/// Returns the other differences between the races around each change.
fn differences(group: &RaceGroup) -> Vec<Point> {
    let mut points = Vec::new();
    for change in &group.changes {
        let [before, after] = [change.before, change.after].map(|race| started(group, race));
        let values = change.differs.iter();
        let values: Vec<(String, String)> =
            values.map(|Warning { code, message, .. }| (code.clone(), message.clone())).collect();
        let point = Point {
            detail: if values.is_empty() {
                "Nothing that the results record differs between the two.".to_owned()
            } else {
                String::new()
            },
            lead: format!("Between {before} and {after}"),
            values,
        };
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

fn left_out(files: &[SkippedFile]) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = files
        .iter()
        .take(MOST_LEFT_OUT)
        .map(|file| (file.file.clone(), file.why.clone()))
        .collect();
    if files.len() > MOST_LEFT_OUT {
        let more = words::count((files.len() - MOST_LEFT_OUT) as u64, "more file");
        facts.push((more, "--format json names them".to_owned()));
    }
    facts
}

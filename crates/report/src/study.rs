//! Report on a study that was run, as a document: claims first, published figures beside measured ones,
//! and the result of each race.

use std::collections::BTreeMap;

use super::document::{Block, Cell, Column, Document, Line, Point, Section, Table, Tone};
use super::words::{self, Scale};
use super::{Style, markdown, terminal};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_contract::measurements::{Metric, MetricName, Unit};
use deadheat_result::layout;
use deadheat_result::outcome::{Outcome, Ratio};
use deadheat_result::study::model::{Claim, Source, Variant};
use deadheat_result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, PublishedComparison, RaceRun, Ruling, StudyRun,
    TestAnswer,
};
use deadheat_result::study::sentence::short;

/// Maximum number of verdicts of one race; more are in its own report.
const MOST_VERDICTS: usize = 8;

/// Default margin of a race.
pub(super) const USUAL_MARGIN: f64 = 0.05;

/// A form in which a study that was run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Terminal,
    /// Markdown for issues and wikis.
    Markdown,
    /// JSON for programs: `study.json` itself.
    Json,
}

impl Form {
    /// Returns the form called `name`.
    ///
    /// # Errors
    /// [`Error::Usage`] for another name, with all names.
    pub fn find(name: &str) -> Result<Form> {
        match super::format_name(name) {
            "terminal" => Ok(Form::Terminal),
            "markdown" => Ok(Form::Markdown),
            "json" => Ok(Form::Json),
            _ => Err(unknown("format", name, &["terminal", "markdown", "json"])),
        }
    }
}

/// Renders a study that was run in `form`, with the results of its races by id; text has a newline at its
/// end.
///
/// # Errors
/// [`Error::Data`] if it cannot be written in this form.
pub fn render(
    run: &StudyRun,
    results: &BTreeMap<String, Outcome>,
    form: Form,
    style: &Style,
) -> Result<String> {
    let results = results.iter().map(|(id, outcome)| (id.as_str(), outcome)).collect();
    match form {
        Form::Terminal => Ok(terminal::render(&document(run, &results), style)),
        Form::Markdown => Ok(markdown::render(&document(run, &results))),
        Form::Json => layout::text(run)
            .map(|text| text + "\n")
            .map_err(|e| Error::data("study", format!("cannot be written as JSON: {e}"))),
    }
}

/// Returns a ruling in a word or two.
pub fn ruling_word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Holds => "holds",
        Ruling::Exceeds => "exceeds the claim",
        Ruling::DoesNotHold => "does not hold",
        Ruling::MostlyContradicted => "mostly contradicted",
        Ruling::Depends => "depends",
        Ruling::Open => "open",
    }
}

/// Returns the unit of a metric, from its name; time if the name has no unit.
pub(super) fn unit(metric: &str) -> Unit {
    MetricName::parse(metric).suffix.unit().unwrap_or(Unit::Nanos)
}

/// Returns the answer of a test in one to three words.
pub(super) fn answer_word(answer: AnswerKind) -> &'static str {
    match answer {
        AnswerKind::Yes => "yes",
        AnswerKind::More => "yes, and more",
        AnswerKind::No => "no",
        AnswerKind::Open => "open",
        AnswerKind::LeftOut => "left out",
    }
}

/// Returns a race's fidelity to the published experiment, in words.
pub fn variant_word(variant: Variant) -> &'static str {
    match variant {
        Variant::AsPublished => "as published",
        Variant::DoneRight => "done right",
        Variant::Beyond => "beyond what was published",
    }
}

/// Rulings in the order in which they are counted, all of them.
pub(super) const RULINGS: [Ruling; 6] = [
    Ruling::Holds,
    Ruling::Exceeds,
    Ruling::DoesNotHold,
    Ruling::MostlyContradicted,
    Ruling::Depends,
    Ruling::Open,
];

/// Returns the number of claims of studies by ruling: `3 claims: 2 hold, 1 depends`.
pub fn tally(runs: &[StudyRun]) -> String {
    let claims: usize = runs.iter().map(|run| run.rulings.len()).sum();
    if claims == 0 {
        return "No claims to judge".into();
    }
    let mut parts = Vec::new();
    for ruling in RULINGS {
        let (one, several) = match ruling {
            Ruling::Holds => ("holds", "hold"),
            Ruling::Exceeds => ("is exceeded", "are exceeded"),
            Ruling::DoesNotHold => ("does not hold", "do not hold"),
            Ruling::MostlyContradicted => ("is mostly contradicted", "are mostly contradicted"),
            Ruling::Depends => ("depends", "depend"),
            Ruling::Open => ("is open", "are open"),
        };
        match how_many(runs, ruling) {
            0 => {}
            1 => parts.push(format!("1 {one}")),
            n => parts.push(format!("{n} {several}")),
        }
    }
    format!("{}: {}", words::count(claims as u64, "claim"), parts.join(", "))
}

/// Returns the number of claims of studies with this ruling.
pub(super) fn how_many(runs: &[StudyRun], ruling: Ruling) -> usize {
    runs.iter().flat_map(|run| &run.rulings).filter(|found| found.ruling == ruling).count()
}

/// Results of a study's races, by id.
pub(super) type Results<'a> = BTreeMap<&'a str, &'a Outcome>;

fn document(run: &StudyRun, results: &Results<'_>) -> Document {
    let sections = [
        Section::new("", vec![Block::Sentences(answer(run))]),
        Section::new("Claims", vec![Block::Points(claims(run))]),
        Section::new("Published beside measured", beside(run, results)),
        Section::new("Races", vec![Block::Points(races(run, results))]),
        Section::new("Source", vec![Block::Facts(source(run.study.source.as_ref()))]),
    ];
    Document {
        title: run.study.title.clone(),
        subtitle: format!(
            "deadheat {} · study {}, {} · {} on {}",
            run.deadheat.version,
            run.name,
            run.thoroughness(),
            run.started,
            run.host
        ),
        sections: sections.into_iter().flatten().collect(),
    }
}

fn answer(run: &StudyRun) -> Vec<Line> {
    let mut lines = vec![Line::new(run.study.question.clone(), Tone::Aside)];
    lines.push(Line::new(format!("{}.", tally(std::slice::from_ref(run))), Tone::Plain));
    lines.extend(doubts(run));
    lines.extend(history(run).map(|text| Line::new(text, Tone::Aside)));
    lines
}

/// Returns the sentences on races that did not run, and on races that are not trusted.
pub(super) fn doubts(run: &StudyRun) -> Vec<Line> {
    let mut lines = Vec::new();
    let without = run.races.iter().filter(|race| race.file.is_none()).count();
    if without > 0 {
        let all = words::count(run.races.len() as u64, "race");
        let text = format!("{without} of {all} did not run; see Races for why.");
        lines.push(Line::new(text, Tone::Open));
    }
    let doubtful = doubtful(run);
    if !doubtful.is_empty() {
        let is = words::is_are(doubtful.len());
        let text = format!("{} {is} not trusted, and settles no claim.", words::list(&doubtful));
        let text = if doubtful.len() > 1 { text.replace("settles", "settle") } else { text };
        lines.push(Line::new(text, Tone::Bad));
    }
    lines
}

/// Returns the races that ran and are not trusted.
pub(super) fn doubtful(run: &StudyRun) -> Vec<&str> {
    run.races.iter().filter(is_doubtful).map(|race| race.id.as_str()).collect()
}

/// Returns the figure of a test's answer with its interval; `None` without a measurement.
pub(super) fn shown(answer: &TestAnswer) -> Option<String> {
    short(answer, unit(&answer.test.metric))
}

pub(super) fn is_doubtful(race: &&RaceRun) -> bool {
    race.file.is_some() && !race.trusted
}

pub(super) fn claims(run: &StudyRun) -> Vec<Point> {
    let pairs = run.study.claims.iter().zip(&run.rulings);
    let point = |(claim, ruling): (&Claim, &ClaimRuling)| Point {
        lead: format!("{}: {}", ruling_word(ruling.ruling).to_uppercase(), credited(claim)),
        values: Vec::new(),
        detail: ruling.note.clone(),
    };
    pairs.map(point).collect()
}

/// Returns each claim in a row: its text, its ruling, the condition that it depends on, and the figure
/// that decides.
pub(super) fn claims_table(run: &StudyRun) -> Table {
    let pairs: Vec<(&Claim, &ClaimRuling)> = run.study.claims.iter().zip(&run.rulings).collect();
    let column = |heading: &str, cell: &dyn Fn(&Claim, &ClaimRuling) -> String| {
        let cells = pairs.iter().map(|(claim, ruling)| Cell::text(cell(claim, ruling)));
        Column::new(heading, cells.collect())
    };
    let mut numbers = (1..=pairs.len()).map(|n| Cell::text(n.to_string()));
    let columns = vec![
        Column::new("", numbers.by_ref().collect()),
        column("claim", &|claim, _| credited(claim)),
        column("ruling", &|_, ruling| ruling_word(ruling.ruling).into()),
        column("depends on", &depends_on),
        column("figure", &|_, ruling| figure(run, ruling)),
    ];
    Table { columns, legend: String::new() }
}

fn credited(claim: &Claim) -> String {
    let by = claim.by.as_ref().map_or_else(String::new, |by| format!(" ({by})"));
    format!("{}{by}", claim.says)
}

/// Returns the condition that a ruling depends on, if tests disagree.
fn depends_on(claim: &Claim, ruling: &ClaimRuling) -> String {
    let any = |wanted: &[AnswerKind]| ruling.answers.iter().any(|one| wanted.contains(&one.answer));
    let differs = any(&[AnswerKind::Yes, AnswerKind::More]) && any(&[AnswerKind::No]);
    let on = claim.depends_on.clone().filter(|_| differs);
    on.unwrap_or_else(|| words::NOTHING.into())
}

/// Returns the answers of a ruling, with answers of races that repeat a published flaw last.
pub(super) fn flawless_first<'a>(run: &StudyRun, ruling: &'a ClaimRuling) -> Vec<&'a TestAnswer> {
    let is_flawed = |answer: &&TestAnswer| {
        let plan = run.study.races.iter().find(|plan| plan.id == answer.test.race);
        plan.is_some_and(|plan| plan.variant == Variant::AsPublished)
    };
    let mut answers: Vec<&TestAnswer> = ruling.answers.iter().collect();
    answers.sort_by_key(is_flawed);
    answers
}

/// Returns the figure that decides: of the first test in favour of the claim, and of the first against it.
fn figure(run: &StudyRun, ruling: &ClaimRuling) -> String {
    let answers = flawless_first(run, ruling);
    let first = |wanted: &[AnswerKind]| {
        let found = answers.iter().find(|one| wanted.contains(&one.answer) && one.seen.is_some());
        found.and_then(|one| shown(one))
    };
    let yes = match ruling.ruling {
        Ruling::Exceeds => first(&[AnswerKind::More]),
        _ => first(&[AnswerKind::Yes, AnswerKind::More]),
    };
    let no = first(&[AnswerKind::No]);
    match (ruling.ruling, yes, no) {
        (Ruling::Open, ..) => first(&[AnswerKind::Open]).unwrap_or_else(|| words::NOTHING.into()),
        (_, Some(yes), Some(no)) => format!("true: {yes}; false: {no}"),
        (_, Some(only), None) | (_, None, Some(only)) => only,
        (_, None, None) => words::NOTHING.into(),
    }
}

/// Returns the number of redesigns and runs of a study, as far as they were counted.
pub(super) fn history(run: &StudyRun) -> Option<String> {
    let history = run.study.history.as_ref()?;
    let times = |n: u64| match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    let mut text = format!(
        "Designed anew {}; run {} on all machines together, as far as the repository tells. Only the \
         last run on each machine is kept.",
        times(history.designed_anew),
        times(history.runs)
    );
    if !history.note.is_empty() {
        text.push(' ');
        text.push_str(history.note.trim());
    }
    Some(text)
}

/// Returns a metric of a race by the workload that the study gives it.
pub(crate) fn planned_metric(run: &StudyRun, race: &str, name: &str) -> Option<Metric> {
    let plan = run.study.races.iter().find(|plan| plan.id == race)?;
    let task = deadheat_contract::workload::parse(&plan.workload).ok()?;
    task.info().metrics.iter().find(|metric| metric.name == name).cloned()
}

/// Returns a table of published beside measured figures for each race and metric.
pub(super) fn beside(run: &StudyRun, results: &Results<'_>) -> Vec<Block> {
    let metric = |race: &str, name: &str| -> Option<Metric> {
        let found =
            results.get(race).and_then(|outcome| outcome.metrics.iter().find(|m| m.name == name));
        found.cloned().or_else(|| planned_metric(run, race, name))
    };
    let mut of: Vec<(&str, &str)> = Vec::new();
    for PublishedComparison { published, .. } in &run.beside {
        let pair = (published.race.as_str(), published.metric.as_str());
        if !of.contains(&pair) {
            of.push(pair);
        }
    }
    let last = of.last().copied();
    of.into_iter()
        .map(|(race, name)| {
            let is_alike = |one: &&PublishedComparison| {
                (one.published.race.as_str(), one.published.metric.as_str()) == (race, name)
            };
            let rows: Vec<&PublishedComparison> = run.beside.iter().filter(is_alike).collect();
            let legend = if last == Some((race, name)) { LEGEND } else { "" };
            let columns = beside_columns(&rows, race, metric(race, name).as_ref());
            Block::Table(Table { columns, legend: legend.into() })
        })
        .collect()
}

const LEGEND: &str = "Machines differ, so compare ratios and order: each ratio is to the first row above 0, the \
                      measured one block by block with its interval at 95 %. Order: 1 is best.";

fn beside_columns(
    rows: &[&PublishedComparison],
    race: &str,
    metric: Option<&Metric>,
) -> Vec<Column> {
    let figures = rows.iter().flat_map(|row| [Some(row.value), row.measured.map(|m| m.point)]);
    let scale = metric.map(|metric| Scale::of(figures.flatten(), metric.unit));
    let number =
        |value: f64| scale.map_or_else(|| words::significant(value), |scale| scale.number(value));
    let unit = scale.map_or_else(String::new, |scale| format!(", {}", scale.unit()));
    let label = metric.map_or_else(
        || rows.first().map_or("", |row| row.published.metric.as_str()),
        |metric| &metric.label,
    );
    let column = |heading: String, cell: &dyn Fn(&PublishedComparison) -> Cell| {
        Column::new(heading, rows.iter().map(|row| cell(row)).collect())
    };
    let mut columns = vec![
        column(format!("{race}: {label}"), &|row| Cell::text(row.published.cell.text())),
        column(format!("published{unit}"), &|row| {
            let stddev = row.published.stddev.as_ref();
            Cell::number(number(row.value), stddev.map_or(String::new(), |sd| format!("± {sd}")))
        }),
        column(format!("here{unit}"), &|row| measured(row.measured, &number)),
        column("published ratio".into(), &|row| Cell::number(times(row.published_ratio), "")),
        column("ratio here".into(), &|row| measured(row.measured_ratio, &times)),
        column("order published".into(), &|row| Cell::text(row.published_rank.to_string())),
        column("order here".into(), &|row| {
            let rank = row.measured_rank.map(|rank| rank.to_string());
            let same = row.measured_rank == Some(row.published_rank);
            let tone = if same { Tone::Plain } else { Tone::Open };
            Cell::text(rank.unwrap_or_else(|| words::NOTHING.into())).tone(tone)
        }),
        column("note".into(), &|row| Cell::text(row.published.note.clone())),
    ];
    columns.retain(Column::has_content);
    columns
}

fn times(ratio: f64) -> String {
    words::ratio(&Ratio { point: ratio, low: ratio, high: ratio }).0
}

fn measured(seen: Option<EstimateInterval>, number: &dyn Fn(f64) -> String) -> Cell {
    let Some(seen) = seen else { return Cell::text(words::NOTHING) };
    let interval = match (seen.low, seen.high) {
        (Some(low), Some(high)) if low == high => String::new(),
        (Some(low), Some(high)) => words::interval(&number(low), &number(high)),
        (Some(low), None) => format!("[at least {}]", number(low)),
        (None, Some(high)) => format!("[at most {}]", number(high)),
        (None, None) => String::new(),
    };
    Cell::number(number(seen.point), interval)
}

fn races(run: &StudyRun, results: &Results<'_>) -> Vec<Point> {
    let pairs = run.study.races.iter().zip(&run.races);
    pairs
        .map(|(plan, race)| {
            let mut values = Vec::new();
            let mut say = |name: &str, value: String| values.push((name.to_owned(), value));
            if let Some(outcome) = results.get(race.id.as_str()) {
                for verdict in outcome.verdicts.iter().take(MOST_VERDICTS) {
                    say("verdict", verdict.note.clone());
                }
                match outcome.verdicts.len().saturating_sub(MOST_VERDICTS) {
                    0 => {}
                    more => say("verdicts", format!("{more} more in its own report")),
                }
                if !race.trusted {
                    say("not trusted", outcome.why_not_trusted().unwrap_or_default().to_owned());
                }
            }
            for flaw in &plan.flaws {
                let name = if plan.variant == Variant::AsPublished { "flaw" } else { "put right" };
                say(name, flaw.clone());
            }
            if let Some(why) = &race.why_not {
                say("not to its end", why.clone());
            }
            if let Some(file) = &race.file {
                say("result", file.clone());
            }
            let lead = format!("{} ({}): {}", race.id, variant_word(plan.variant), plan.about);
            Point { lead, values, detail: String::new() }
        })
        .collect()
}

fn source(source: Option<&Source>) -> Vec<(String, String)> {
    let Some(source) = source else { return Vec::new() };
    let mut facts = vec![
        ("author".to_owned(), source.author.clone()),
        ("title".to_owned(), format!("{} ({})", source.title, source.year)),
        ("at".to_owned(), source.at.clone()),
    ];
    if !source.host.is_empty() {
        facts.push(("measured on".to_owned(), source.host.clone()));
    }
    facts
}

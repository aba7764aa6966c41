//! Comparison of saved races as a document: changes, non-changes, and other differences.

use super::document::{Block, Cell, Column, Document, Line, Point, Section, Table, Tone};
use super::words::{self, Scale};
use super::{Style, markdown, terminal};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::figures;
use deadheat_base::foreign::visible;
use deadheat_contract::measurements::Role;
use deadheat_result::analysis::compare::{Change, Comparison, ComparisonRow, RatioBasis};
use deadheat_result::analysis::conditions::is_other_question;
use deadheat_result::analysis::gate::Judgement;
use deadheat_result::analysis::lost_shares;
use deadheat_result::analysis::no_figures::{AbsentFigures, ComparedSide, SilentContender};
use deadheat_result::layout;
use deadheat_result::outcome::Outcome;

/// The formats of a comparison; the first is the default.
pub const FORMATS: &[&str] = &["terminal", "markdown", "json"];

/// Maximum number of reasons for which a contender has no figures that are given in full.
const MOST_REASONS: usize = 3;

/// Kinds of change to report, the worst first, with the heading and the tone of each.
const REPORTED: [(Change, &str, Tone); 4] = [
    (Change::ChangedWorse, "Worse", Tone::Bad),
    (Change::ChangedBetter, "Better", Tone::Good),
    (Change::Same, "The same within the margin", Tone::Tie),
    (Change::Undecided, "Undecided", Tone::Open),
];

/// Renders `comparison` in the form called `format`, with a newline at its end.
///
/// # Errors
/// [`Error::Usage`] for a format that a comparison does not have.
pub fn render(comparison: &Comparison, format: &str, style: &Style) -> Result<String> {
    match format {
        "terminal" => Ok(terminal::render(&document(comparison), style)),
        "markdown" => Ok(markdown::render(&document(comparison))),
        "json" => {
            let text = layout::text(comparison);
            text.map(|text| text + "\n").map_err(|e| Error::data("comparison", e.to_string()))
        }
        other => Err(unknown("format", other, FORMATS)),
    }
}

fn document(comparison: &Comparison) -> Document {
    let side = |starts: &[String]| match starts {
        [] => words::NOTHING.to_owned(),
        [only] => only.clone(),
        [first, .., last] => format!("{} runs, {first} to {last}", starts.len()),
    };
    let races = match (&comparison.old[..], &comparison.new[..]) {
        ([_], [_]) => "two races".to_owned(),
        (old, new) => format!("{} old and {} new races", old.len(), new.len()),
    };
    let sections = [
        Section::new("", vec![Block::Sentences(answer(comparison))]),
        Section::new("Changes", tables(comparison, Role::Claim)),
        Section::new("Described, not claimed", tables(comparison, Role::Descriptive)),
        Section::new("Not in both", vec![Block::Facts(alone(comparison))]),
        Section::new("Warnings", vec![Block::Points(warnings(comparison))]),
    ];
    Document {
        title: format!("What changed between {races}"),
        subtitle: format!("{} → {}", side(&comparison.old), side(&comparison.new)),
        sections: sections.into_iter().flatten().collect(),
    }
}

fn answer(comparison: &Comparison) -> Vec<Line> {
    let questions = comparison.warnings.iter().filter(|warning| is_other_question(warning));
    let mut lines: Vec<Line> = questions
        .map(|warning| {
            Line::new(format!("No runs of the same thing: {}", warning.message), Tone::Bad)
        })
        .collect();
    let is_of_two = comparison.is_of_two_runs();
    let claimed = lines.len();
    for (change, heading, tone) in REPORTED {
        let rows = comparison.rows.iter().filter(|row| row.change == Some(change));
        let rows: Vec<String> = rows.map(|row| say(row, change)).collect();
        if !rows.is_empty() {
            let of_two = if is_of_two { ", between these two runs" } else { "" };
            lines.push(Line::new(format!("{heading}{of_two}: {}.", rows.join("; ")), tone));
        }
    }
    let gaps = gaps(comparison);
    let lost = losses(comparison).map(|text| Line::new(words::capital(&text) + ".", Tone::Open));
    if lines.len() == claimed {
        let text = if gaps.is_empty() {
            "Old and new races have no claim in common; nothing can be said."
        } else {
            "No contender has figures in both old and new races; nothing can be said."
        };
        lines.push(Line::new(text, Tone::Open));
    }
    lines.extend(lost);
    lines.extend(gaps.iter().map(|text| Line::new(words::capital(text) + ".", Tone::Open)));
    if is_of_two {
        let doubt = "Two runs of the same race differ, too; how much is not known here, and it may be all of this: \
                     give more runs of the old one (deadheat compare OLD OLD OLD NEW).";
        lines.push(Line::new(doubt, Tone::Open));
    }
    lines.extend(reach(comparison).map(|text| Line::new(words::capital(&text) + ".", Tone::Aside)));
    let drift = "Old and new ran at different times: drift of the machine counts as change. \
                 Contenders of one race do not have this problem.";
    lines.push(Line::new(drift, Tone::Aside));
    lines
}

/// Returns a sentence on each contender that lacks claimed figures in any of the races, with the reason.
fn gaps(comparison: &Comparison) -> Vec<String> {
    let mut groups: Vec<Vec<&AbsentFigures>> = Vec::new();
    for absent in &comparison.absent {
        let is_alike = |group: &&mut Vec<&AbsentFigures>| {
            let mut known = group.iter();
            known.any(|one| (&one.contender, &one.metrics) == (&absent.contender, &absent.metrics))
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(absent),
            None => groups.push(vec![absent]),
        }
    }
    groups.iter().filter_map(|group| gap(comparison, group)).collect()
}

/// Returns the sentence on figures that a contender lacks in some races.
fn gap(comparison: &Comparison, absent: &[&AbsentFigures]) -> Option<String> {
    let AbsentFigures { contender, metrics, .. } = *absent.first()?;
    let has_row = comparison.rows.iter().any(|row| {
        row.contender == *contender && metrics.iter().any(|metric| metric.name == row.metric.name)
    });
    let mut alike: Vec<Vec<&AbsentFigures>> = Vec::new();
    for one in absent.iter().copied() {
        match alike.iter_mut().find(|group| (group[0].side, &group[0].why) == (one.side, &one.why))
        {
            Some(group) => group.push(one),
            None => alike.push(vec![one]),
        }
    }
    let others = alike.split_off(alike.len().min(MOST_REASONS)).into_iter().flatten().count();
    let mut reasons: Vec<String> = alike.iter().map(|group| reason(comparison, group)).collect();
    if others > 0 {
        reasons
            .push(format!("and in {} for such reasons", words::count(others as u64, "other race")));
    }
    let labels: Vec<&str> = metrics.iter().map(|metric| metric.label.as_str()).collect();
    let what = format!("{contender} {}", words::list(&labels));
    let reasons = reasons.join("; ");
    Some(if has_row {
        format!("some runs have no figure of {what}: {reasons}")
    } else {
        format!("not compared: {what}, since {reasons}")
    })
}

/// Returns the reason that some races of one side share, with the races.
fn reason(comparison: &Comparison, alike: &[&AbsentFigures]) -> String {
    let Some(first) = alike.first() else { return String::new() };
    let (side, all) = match first.side {
        ComparedSide::Old => ("old", comparison.old.len()),
        ComparedSide::New => ("new", comparison.new.len()),
    };
    let place = match (alike.len(), all) {
        (1, 1) => format!("in the {side} race"),
        (1, _) => format!("in the {side} race of {}", first.started),
        (some, all) if some == all => format!("in all {all} {side} races"),
        (some, all) => format!("in {some} of {all} {side} races"),
    };
    format!("{place} {}", first.why)
}

/// Returns the lost shares of contenders that lost more or less than before, or whose figures leave the losses out:
/// `lost: udp 0.5 %, before nothing`.
fn losses(comparison: &Comparison) -> Option<String> {
    let mut named: Vec<&str> = Vec::new();
    let mut lost = Vec::new();
    for row in &comparison.rows {
        let is_any = row.lost.iter().flatten().any(|share| *share > 0.0);
        let is_known = row.lost[0] == row.lost[1] && !lost_shares::leaves_out_lost(&row.metric);
        if !is_any || is_known || named.contains(&row.contender.as_str()) {
            continue;
        }
        named.push(&row.contender);
        let [old, new] = row.lost.map(|share| match share {
            None => "not counted".to_owned(),
            Some(share) if share > 0.0 => figures::percent(share),
            Some(_) => "nothing".to_owned(),
        });
        lost.push(format!("{} {new}, before {old}", row.contender));
    }
    (!lost.is_empty()).then(|| format!("lost: {}", lost.join("; ")))
}

fn say(row: &ComparisonRow, change: Change) -> String {
    let what = format!("{} {}", row.contender, row.metric.label);
    let changed = matches!(change, Change::ChangedBetter | Change::ChangedWorse);
    match &row.ratio {
        Some(ratio) if changed => format!("{what} {}", words::change(ratio.point)),
        _ => what,
    }
}

/// Returns a sentence on the changes that these runs would find, and on smaller changes that more runs would find.
fn reach(comparison: &Comparison) -> Option<String> {
    let rows: Vec<&ComparisonRow> =
        comparison.rows.iter().filter(|row| row.found.is_some()).collect();
    let most = rows.iter().map(|row| row.runs[0]).max()?;
    let found = rows.iter().filter_map(|row| {
        let between = row.between_runs.map(figures::percent)?;
        let what = format!("{} {}", row.contender, row.metric.label);
        Some(format!("{what} {} (runs differ by {between})", figures::percent(row.found?)))
    });
    let found: Vec<String> = found.collect();
    let more = rows.iter().filter_map(|row| row.with_more).max_by_key(|more| more.runs);
    let more = more.map_or_else(String::new, |more| {
        format!("; with {} old runs, changes beyond {}", more.runs, figures::percent(more.found))
    });
    let which = if comparison.looks > 1 { "this gate" } else { "this comparison" };
    let runs = words::count(most, "old run");
    Some(format!("{runs}: {which} can tell changes beyond: {}{more}", found.join(", ")))
}

/// Returns a sentence on the changes that a gate against this baseline finds, before a race is run for it: the last run is
/// taken for the new one.
pub fn foreseen(baseline: &[&Outcome]) -> Option<String> {
    let comparison = Judgement::of(baseline, baseline.last().map(std::slice::from_ref)?).comparison;
    let reach = reach(&comparison)?;
    Some(format!("{reach}. Two builds in one race (--gate first) tell smaller ones"))
}

/// Returns a gate's sentences on races against the baseline called `baseline`, the worst first.
pub fn judged(judgement: &Judgement, baseline: &str) -> Vec<String> {
    let comparison = &judgement.comparison;
    let questions = comparison.warnings.iter().filter(|warning| is_other_question(warning));
    let mut lines: Vec<String> = questions
        .map(|warning| format!("no runs of the same thing: {}", warning.message))
        .collect();
    for row in judgement.rows(Change::ChangedWorse) {
        let what = say(row, Change::ChangedWorse);
        let interval = row.ratio.as_ref().map_or_else(String::new, |ratio| {
            let (point, interval) = words::ratio(ratio);
            format!(", ratio {point} {interval}")
        });
        let margin = words::margin(row.margin);
        lines.push(format!(
            "worse than {baseline}: {what}{interval}, beyond the margin of {margin}"
        ));
    }
    for silent in &judgement.silent {
        let SilentContender { contender, why } = silent;
        lines.push(format!(
            "worse than {baseline}: {contender} has no figures at all any more: {why}"
        ));
    }
    if judgement.is_doubtful() {
        lines.push(format!("no judgement: no contender has figures here and in {baseline}"));
    } else if !judgement.is_worse() {
        lines.push(format!("nothing is worse than {baseline} beyond the margin"));
    }
    for (change, word) in [
        (Change::ChangedBetter, "better"),
        (Change::Same, "the same within the margin"),
        (
            Change::Undecided,
            "undecided, which is not worse; more blocks or more runs of the baseline would tell",
        ),
    ] {
        let rows: Vec<String> = judgement.rows(change).map(|row| say(row, change)).collect();
        if !rows.is_empty() {
            lines.push(format!("{word}: {}", rows.join("; ")));
        }
    }
    lines.extend(losses(comparison));
    lines.extend(gaps(comparison));
    lines.extend(reach(comparison));
    lines.extend(promise(comparison));
    if !comparison.only_old.is_empty() {
        lines.push(format!("only in the baseline: {}", comparison.only_old.join(", ")));
    }
    if !comparison.only_new.is_empty() {
        lines.push(format!("not in the baseline: {}", comparison.only_new.join(", ")));
    }
    let others = comparison.warnings.iter().filter(|warning| !is_other_question(warning));
    lines.extend(others.map(|warning| warning.message.clone()));
    lines.iter().map(|line| visible(line)).collect()
}

/// Returns a sentence on the rate of false alarms that a gate guarantees.
fn promise(comparison: &Comparison) -> Option<String> {
    let has_runs = comparison.rows.iter().any(|row| row.basis == RatioBasis::Runs);
    (has_runs && comparison.looks > 1).then(|| {
        format!(
            "where nothing changes, at most {} of gates raise an alarm within {} runs",
            figures::percent(comparison.error),
            comparison.looks
        )
    })
}

/// Returns the sentences of a gate as a section of a Markdown report, with a newline at its end.
pub fn gate_in_markdown(lines: Vec<String>) -> String {
    let lines = lines.into_iter();
    let lines = lines.map(|line| Line::new(words::capital(&line) + ".", Tone::Plain)).collect();
    let document = Document {
        title: "Gate".into(),
        subtitle: String::new(),
        sections: Section::new("", vec![Block::Sentences(lines)]).into_iter().collect(),
    };
    format!("\n{}", markdown::render(&document))
}

/// Returns a table for each metric, so that its figures share a unit.
fn tables(comparison: &Comparison, role: Role) -> Vec<Block> {
    let mut names: Vec<&str> = Vec::new();
    for row in comparison.rows.iter().filter(|row| row.metric.role == role) {
        if !names.contains(&row.metric.name.as_str()) {
            names.push(&row.metric.name);
        }
    }
    let last = names.last().copied();
    let table = |name: &str| {
        let rows = comparison.rows.iter();
        let rows: Vec<&ComparisonRow> = rows.filter(|row| row.metric.name == name).collect();
        let legend = if last == Some(name) { legend(comparison, role) } else { String::new() };
        Block::Table(Table { columns: table_columns(&rows), legend })
    };
    names.iter().map(|name| table(name)).collect()
}

fn legend(comparison: &Comparison, role: Role) -> String {
    let mut text = "Ratio: new over old, with its interval at the level shown.".to_owned();
    let mut rows = comparison.rows.iter().filter(|row| row.metric.role == role);
    if let (Role::Claim, Some(row)) = (role, comparison.rows.first()) {
        // One margin for all rows: the largest of all races.
        text.push_str(&format!(" Margin: {}.", words::margin(row.margin)));
    }
    if comparison.rows.iter().any(|row| row.runs.iter().any(|runs| *runs > 1)) {
        text.push_str(" Figures of several runs are their geometric mean.");
    }
    if rows.any(|row| row.censored) {
        text.push_str(" (>): some trials are censored at the timeout, so the ratio is not exact.");
    }
    text
}

fn table_columns(rows: &[&ComparisonRow]) -> Vec<Column> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let metric = &first.metric;
    let estimates = rows.iter().flat_map(|row| row.estimates.iter().flatten().copied());
    let scale = Scale::of(estimates, metric.unit);
    let column = |heading: &str, cell: &dyn Fn(&ComparisonRow) -> Cell| {
        Column::new(heading, rows.iter().map(|row| cell(row)).collect())
    };
    let estimate = |row: &ComparisonRow, which: usize| match row.estimates[which] {
        Some(value) => Cell::number(scale.number(value), if row.censored { "(>)" } else { "" }),
        None => Cell::text(words::NOTHING),
    };
    let mut columns = vec![
        column(&metric.label, &|row| Cell::text(row.contender.clone())),
        column(&format!("old, {}", scale.unit()), &|row| estimate(row, 0)),
        column(&format!("new, {}", scale.unit()), &|row| estimate(row, 1)),
        column("ratio", &|row| match &row.ratio {
            Some(ratio) => {
                let (point, interval) = words::ratio(ratio);
                Cell::number(point, interval)
            }
            None => Cell::text("none: too few trials, or zeros"),
        }),
        column("level", &|row| Cell::text(words::level(row.confidence))),
        column("change", &|row| change_cell(row.change)),
        column("runs", &|row| {
            let [old, new] = row.runs;
            Cell::text(if old + new > 2 { format!("{old}, {new}") } else { String::new() })
        }),
        column("trials", &|row| {
            let [old, new] = row.trials;
            Cell::text(format!("{old}, {new}"))
        }),
    ];
    columns.retain(Column::has_content);
    columns
}

fn change_cell(change: Option<Change>) -> Cell {
    match change {
        Some(Change::ChangedBetter) => Cell::text("better").tone(Tone::Good),
        Some(Change::ChangedWorse) => Cell::text("worse").tone(Tone::Bad),
        Some(Change::Same) => Cell::text("same").tone(Tone::Tie),
        Some(Change::Undecided) => Cell::text("undecided").tone(Tone::Open),
        None => Cell::default(),
    }
}

fn alone(comparison: &Comparison) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for (name, labels) in
        [("only in the old", &comparison.only_old), ("only in the new", &comparison.only_new)]
    {
        if !labels.is_empty() {
            facts.push((name.to_owned(), labels.join(", ")));
        }
    }
    facts
}

fn warnings(comparison: &Comparison) -> Vec<Point> {
    let point = |warning: &deadheat_result::outcome::Warning| Point {
        lead: warning.message.clone(),
        values: Vec::new(),
        detail: warning.advice.clone(),
    };
    comparison.warnings.iter().map(point).collect()
}

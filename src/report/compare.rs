//! Comparison of two races as a document: changes, non-changes, and other differences.

use super::document::{Block, Cell, Column, Document, Line, Point, Section, Table, Tone};
use super::words::{self, Scale};
use super::{Style, terminal};
use crate::analysis::compare::{Change, Comparison, Row};
use crate::foreign::visible;
use crate::measurements::Role;
use crate::race::gate::Judgement;

/// Renders `comparison` as text for a terminal, with a newline at its end.
pub fn render(comparison: &Comparison, style: &Style) -> String {
    terminal::render(&document(comparison), style)
}

fn document(comparison: &Comparison) -> Document {
    let [old, new] = &comparison.started;
    let sections = [
        Section::new("", vec![Block::Sentences(answer(comparison))]),
        Section::new("Changes", tables(comparison, Role::Claim)),
        Section::new("Described, not claimed", tables(comparison, Role::Descriptive)),
        Section::new("Not in both", vec![Block::Facts(alone(comparison))]),
        Section::new("Warnings", vec![Block::Points(warnings(comparison))]),
    ];
    Document {
        title: "What changed between two races".into(),
        subtitle: format!("{old} → {new}"),
        sections: sections.into_iter().flatten().collect(),
    }
}

fn answer(comparison: &Comparison) -> Vec<Line> {
    let with = |change: Change| -> Vec<String> {
        let rows = comparison.rows.iter().filter(|row| row.change == Some(change));
        rows.map(|row| say(row, change)).collect()
    };
    let mut lines = Vec::new();
    for (change, before, tone) in [
        (Change::ChangedWorse, "Worse: ", Tone::Bad),
        (Change::ChangedBetter, "Better: ", Tone::Good),
        (Change::Same, "The same within the margin: ", Tone::Tie),
        (Change::Undecided, "Undecided: ", Tone::Open),
    ] {
        let rows = with(change);
        if !rows.is_empty() {
            lines.push(Line::new(format!("{before}{}.", rows.join("; ")), tone));
        }
    }
    if lines.is_empty() {
        let text = "The two races have no claim in common; nothing can be said.";
        lines.push(Line::new(text, Tone::Open));
    }
    let drift = "The two ran at different times: drift of the machine counts as change. \
                 Contenders of one race do not have this problem.";
    lines.push(Line::new(drift, Tone::Aside));
    lines
}

fn say(row: &Row, change: Change) -> String {
    let what = format!("{} {}", row.contender, row.metric.label);
    let changed = matches!(change, Change::ChangedBetter | Change::ChangedWorse);
    match &row.ratio {
        Some(ratio) if changed => format!("{what} {}", words::change(ratio.point)),
        _ => what,
    }
}

/// Returns a gate's sentences on a race against the baseline called `baseline`, the worst first.
pub fn judged(judgement: &Judgement, baseline: &str) -> Vec<String> {
    let baseline = visible(baseline);
    let mut lines = Vec::new();
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
    for label in &judgement.silent {
        lines.push(format!("worse than {baseline}: {label} has no figures at all any more"));
    }
    if lines.is_empty() {
        lines.push(format!("nothing is worse than {baseline} beyond the margin"));
    }
    for (change, word) in [
        (Change::ChangedBetter, "better"),
        (Change::Same, "the same within the margin"),
        (Change::Undecided, "undecided, which is not worse; more blocks would tell"),
    ] {
        let rows: Vec<String> = judgement.rows(change).map(|row| say(row, change)).collect();
        if !rows.is_empty() {
            lines.push(format!("{word}: {}", rows.join("; ")));
        }
    }
    let comparison = &judgement.comparison;
    if !comparison.only_old.is_empty() {
        lines.push(format!("only in the baseline: {}", comparison.only_old.join(", ")));
    }
    if !comparison.only_new.is_empty() {
        lines.push(format!("not in the baseline: {}", comparison.only_new.join(", ")));
    }
    lines.extend(comparison.warnings.iter().map(|warning| warning.message.clone()));
    lines.iter().map(|line| visible(line)).collect()
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
        let rows: Vec<&Row> = rows.filter(|row| row.metric.name == name).collect();
        let legend = if last == Some(name) { legend(comparison, role) } else { String::new() };
        Block::Table(Table { columns: table_columns(&rows), legend })
    };
    names.iter().map(|name| table(name)).collect()
}

fn legend(comparison: &Comparison, role: Role) -> String {
    let mut text = "Ratio: new over old, with its interval at the level shown.".to_owned();
    let mut rows = comparison.rows.iter().filter(|row| row.metric.role == role);
    if let (Role::Claim, Some(row)) = (role, comparison.rows.first()) {
        // One for all rows: the larger of the two races'.
        text.push_str(&format!(" Margin: {}.", words::margin(row.margin)));
    }
    if rows.any(|row| row.censored) {
        text.push_str(" (>): some trials are censored at the timeout, so the ratio is not exact.");
    }
    text
}

fn table_columns(rows: &[&Row]) -> Vec<Column> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let metric = &first.metric;
    let estimates = rows.iter().flat_map(|row| row.estimates.iter().flatten().copied());
    let scale = Scale::of(estimates, metric.unit);
    let column = |heading: &str, cell: &dyn Fn(&Row) -> Cell| {
        Column::new(heading, rows.iter().map(|row| cell(row)).collect())
    };
    let estimate = |row: &Row, which: usize| match row.estimates[which] {
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
        column("trials", &|row| {
            let [old, new] = row.trials;
            Cell::text(format!("{old}, {new}"))
        }),
    ];
    columns.retain(Column::says_something);
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
    let point = |warning: &crate::result::outcome::Warning| Point {
        lead: warning.message.clone(),
        values: Vec::new(),
        detail: warning.advice.clone(),
    };
    comparison.warnings.iter().map(point).collect()
}

//! Results of several studies, claim by claim, as one document.

use std::collections::BTreeSet;
use std::slice;

use super::document::{Block, Cell, Column, Document, Line, Point, Section, Table, Tone};
use super::study::{
    Form, RULINGS, claims, claims_table, history, how_many, is_doubtful, ruling_word, tally,
};
use super::{Style, markdown, terminal, words};
use deadheat_base::error::{Error, Result};
use deadheat_result::study::outcome::{ClaimRuling, StudyRun};

/// Renders the results of studies in `form`, in their order; text has a newline at its end.
///
/// # Errors
/// [`Error::Usage`] for JSON, which has one study.
pub fn render(runs: &[StudyRun], form: Form, style: &Style) -> Result<String> {
    match form {
        Form::Terminal => Ok(terminal::render(&document(runs, form), style)),
        Form::Markdown => Ok(markdown::render(&document(runs, form))),
        Form::Json => Err(Error::usage(
            "--format json is of one study; name the directory of that one, or its study.json",
        )),
    }
}

fn document(runs: &[StudyRun], form: Form) -> Document {
    let top = vec![
        Block::Sentences(vec![Line::new(format!("{}.", tally(runs)), Tone::Plain)]),
        Block::Table(table(runs)),
    ];
    let studies = runs.iter().map(|run| Section::new(&run.study.title, section(run, form)));
    Document {
        title: title(runs),
        subtitle: subtitle(runs),
        sections: std::iter::once(Section::new("", top)).chain(studies).flatten().collect(),
    }
}

pub(super) fn title(runs: &[StudyRun]) -> String {
    format!("The claims of {}", how_many_studies(runs))
}

pub(super) fn how_many_studies(runs: &[StudyRun]) -> String {
    match runs.len() {
        1 => "1 study".to_owned(),
        n => format!("{n} studies"),
    }
}

/// Returns hosts and dates: `on quiet, 2026-01-01 to 2026-01-02`.
pub(super) fn subtitle(runs: &[StudyRun]) -> String {
    let hosts: BTreeSet<&str> = runs.iter().map(|run| run.host.as_str()).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let days: BTreeSet<&str> = runs.iter().map(day).collect();
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!(", {first} to {last}"),
        (Some(only), _) => format!(", {only}"),
        (None, _) => String::new(),
    };
    format!("on {}{days}", words::list(&hosts))
}

fn day(run: &StudyRun) -> &str {
    run.started.get(..10).unwrap_or(&run.started)
}

/// Counts the claims of each study by ruling.
pub(super) fn table(runs: &[StudyRun]) -> Table {
    let column = |heading: &str, cell: &dyn Fn(&StudyRun) -> String| {
        Column::new(heading, runs.iter().map(|run| Cell::text(cell(run))).collect())
    };
    let of = |run: &StudyRun, ruling| match how_many(slice::from_ref(run), ruling) {
        0 => words::NOTHING.into(),
        n => n.to_string(),
    };
    let mut columns = vec![
        column("study", &|run| run.name.clone()),
        column("claims", &|run| run.rulings.len().to_string()),
    ];
    columns.extend(RULINGS.map(|ruling| column(ruling_word(ruling), &|run| of(run, ruling))));
    Table { columns, legend: String::new() }
}

/// Returns the sentences on races that did not run or are not trusted, and on the history of a study.
pub(super) fn remarks(run: &StudyRun) -> Vec<Line> {
    let mut lines = Vec::new();
    for race in &run.races {
        if let Some(why) = race.why_not.as_ref().filter(|_| race.file.is_none()) {
            lines.push(Line::new(format!("{} did not run: {why}", race.id), Tone::Open));
        }
        if is_doubtful(&race) {
            let text = format!("{} is not trusted, and settles no claim.", race.id);
            lines.push(Line::new(text, Tone::Bad));
        }
    }
    lines.extend(history(run).map(|text| Line::new(text, Tone::Aside)));
    lines
}

fn section(run: &StudyRun, form: Form) -> Vec<Block> {
    let how = format!("{}, {}, {}.", run.name, run.thoroughness(), day(run));
    let mut lines =
        vec![Line::new(run.study.question.clone(), Tone::Plain), Line::new(how, Tone::Aside)];
    lines.extend(remarks(run));
    let mut blocks = vec![Block::Sentences(lines)];
    if form == Form::Terminal {
        blocks.push(Block::Points(claims(run)));
        return blocks;
    }
    // A terminal has no room for sentences side by side; a page has, and lists the source of each row below.
    let point = |(at, said): (usize, &ClaimRuling)| Point {
        lead: format!("({}) {}", at + 1, said.note),
        values: Vec::new(),
        detail: String::new(),
    };
    blocks.push(Block::Table(claims_table(run)));
    blocks.push(Block::Points(run.rulings.iter().enumerate().map(point).collect()));
    blocks
}

//! Report on an imported result: its source files, five numbers of each contender, and information that is lost.

use super::document::{Block, Cell, Column, Point, Section, Table};
use super::names::label;
use super::words::{self, Scale};
use deadheat_result::imported::{ImportOrigin, ImportedFile, Spread, SpreadOver};
use deadheat_result::outcome::Outcome;

/// Returns the line under the title, for a result that was imported.
pub(super) fn subtitle(outcome: &Outcome) -> Option<String> {
    let imported = outcome.imported.as_ref()?;
    if imported.is_of_page() {
        return Some("measured by a page in a browser".to_owned());
    }
    let files = words::count(imported.files.len() as u64, "file");
    Some(format!("imported from {files} · measured by others"))
}

/// Returns five numbers of each contender, in a unit that all of one measure share.
pub(super) fn five_numbers(outcome: &Outcome) -> Option<Section> {
    let spreads = &outcome.imported.as_ref()?.spreads;
    let shown: Vec<NumberFormat> =
        spreads.iter().map(|own| NumberFormat::of(spreads, own)).collect();
    let rows = || spreads.iter().zip(&shown);
    let column = |heading: &str, cell: &dyn Fn(&Spread, &NumberFormat) -> Cell| {
        Column::new(heading, rows().map(|(own, shown)| cell(own, shown)).collect())
    };
    let number = |heading: &str, of: fn(&Spread) -> Option<f64>| {
        column(heading, &|own, shown| match of(own) {
            Some(_) if own.n == 0 => Cell::text(words::NOTHING),
            Some(value) => Cell::number(shown.number(value), ""),
            None => Cell::text(words::NOTHING),
        })
    };
    let columns = vec![
        column("contender", &|own, _| Cell::text(label(outcome, own.contender))),
        column("measure", &|own, shown| {
            Cell::text(format!("{}, {}", own.what, shown.scale.unit()))
        }),
        number("min", |own| Some(own.min)),
        number("Q1", |own| own.q1),
        number("median", |own| own.median),
        number("Q3", |own| own.q3),
        number("max", |own| Some(own.max)),
        column("of", &|own, _| Cell::text(counted(own))),
    ];
    let mut legend = format!("Quantiles: {}.", outcome.plan.quantile_definition);
    if spreads.iter().any(|own| own.over == SpreadOver::Samples) {
        legend.push_str(
            " Quartiles of samples need ten samples beyond them; those lost are left out.",
        );
    }
    Section::new("Five numbers", vec![Block::Table(Table { columns, legend })])
}

/// Format for the numbers of one measure, so that they can be compared at a glance: in one unit, and with
/// all their digits if there are few.
struct NumberFormat {
    scale: Scale,
    has_all_digits: bool,
}

/// Maximum length of a number that is shown with all its digits: 1234.567.
const LONGEST: usize = 8;

impl NumberFormat {
    fn of(spreads: &[Spread], own: &Spread) -> NumberFormat {
        let alike = |other: &&Spread| (&other.what, other.unit) == (&own.what, own.unit);
        let five =
            |other: &Spread| [Some(other.min), other.q1, other.median, other.q3, Some(other.max)];
        let values: Vec<f64> = spreads.iter().filter(alike).flat_map(five).flatten().collect();
        let scale = Scale::of(values.iter().copied(), own.unit);
        let is_short = |value: &f64| scale.plain(*value).len() <= LONGEST;
        let has_all_digits = values.iter().all(is_short);
        NumberFormat { scale, has_all_digits }
    }

    fn number(&self, value: f64) -> String {
        if self.has_all_digits { self.scale.plain(value) } else { self.scale.number(value) }
    }
}

fn counted(own: &Spread) -> String {
    let noun = match own.over {
        SpreadOver::Trials => "trial",
        SpreadOver::Samples => "sample",
    };
    let lost = if own.lost > 0 { format!(", {} lost", own.lost) } else { String::new() };
    format!("{}{lost}", words::count(own.n, noun))
}

/// Returns the files, each with the information that it lacks.
pub(super) fn files(outcome: &Outcome) -> Option<Section> {
    let imported = outcome.imported.as_ref()?;
    let points = imported.files.iter().map(|file| Point {
        lead: file.name.clone(),
        values: facts(outcome, file),
        detail: remarks(file),
    });
    let heading = if imported.is_of_page() {
        "The page and the limits of a browser"
    } else {
        "Imported files and their gaps"
    };
    Section::new(heading, vec![Block::Points(points.collect())])
}

/// Returns the oddities of a file, and the information that it lacks.
fn remarks(file: &ImportedFile) -> String {
    let mut remarks = file.doubts.clone();
    // Results of before there were doubts have sentences for both.
    let (sentences, phrases): (Vec<&String>, Vec<&String>) =
        file.unknown.iter().partition(|own| own.ends_with('.'));
    remarks.extend(sentences.into_iter().cloned());
    if !phrases.is_empty() {
        let phrases: Vec<&str> = phrases.into_iter().map(String::as_str).collect();
        remarks.push(format!("Not known from it: {}.", phrases.join("; ")));
    }
    remarks.join(" ")
}

/// Maximum number of oddities that are shown before all else.
const MOST_DOUBTS: usize = 4;

/// Returns the sentences to read before believing the result: oddities of files, and the information that they lack.
pub(super) fn notes(outcome: &Outcome) -> Vec<String> {
    let Some(imported) = &outcome.imported else { return Vec::new() };
    let alone = imported.files.len() == 1;
    let doubts = imported.files.iter().flat_map(|file| {
        file.doubts
            .iter()
            .map(move |doubt| if alone { doubt.clone() } else { format!("{}: {doubt}", file.name) })
    });
    let mut notes: Vec<String> = doubts.collect();
    let more = notes.len().saturating_sub(MOST_DOUBTS);
    notes.truncate(MOST_DOUBTS);
    if more > 0 {
        notes.push(format!("{} more in --details.", words::count(more as u64, "remark")));
    }
    notes.extend(Some(imported.lacks.clone()).filter(|lacks| !lacks.is_empty()));
    notes
}

fn facts(outcome: &Outcome, file: &ImportedFile) -> Vec<(String, String)> {
    let labels: Vec<String> = file.contenders.iter().map(|id| label(outcome, *id)).collect();
    let read_as = match &file.program {
        Some(program) => format!("{}, written by {program}", file.format),
        None => file.format.clone(),
    };
    let trials = format!("{}; one is {}", file.trials, file.trial);
    let facts = [
        ("contender", words::list(&labels)),
        ("format", read_as),
        ("unit", file.unit.clone()),
        ("trials", trials),
        ("SHA-256", file.sha256.clone()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Returns the conditions, of which few are known.
pub(super) fn conditions(outcome: &Outcome) -> Vec<(String, String)> {
    let plan = &outcome.plan;
    let margin = format!("{}: {}", words::margin(plan.margin), plan.margin_reason);
    let facts = [
        ("measured", measured(outcome)),
        ("margin", margin),
        ("confidence", words::level(outcome.asked.confidence)),
        ("quantiles", plan.quantile_definition.clone()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn measured(outcome: &Outcome) -> String {
    let is_dated = outcome.imported.as_ref().is_some_and(ImportOrigin::is_dated);
    if is_dated { outcome.started.clone() } else { "when and where is not in the files".to_owned() }
}

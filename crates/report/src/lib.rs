//! Reports, made only from a saved [`Outcome`] and the raw samples beside it: one file
//! per format, in [`ALL`].
//!
//! A report computes no statistic. It counts trials, adds up messages and CPU time, and puts the decisions of
//! the race into words.
//!
//! | file | content |
//! |---|---|
//! | `brief/` | the first screen: the answer, the figures that were claimed, and whether to trust them |
//! | `content.rs` | content of a full report, in order: the one list of sections for people |
//! | `opening/` | the first screen of a page: the same sentences, and a figure |
//! | `answer.rs` `standing.rs` | the verdicts in a few sentences; places in which a tie shows as a tie |
//! | `names.rs` | names of a race and of its contenders |
//! | `absence.rs` | contenders without figures, with the reasons |
//! | `libraries.rs` | on what the implementations of one protocol agree, and on what they do not |
//! | `resolution.rs` | the difference that a race would have found, and the difference of its control |
//! | `results.rs` | the table of figures |
//! | `scatter.rs` `boxes.rs` | box plots in text, over trials |
//! | `network.rs` | a network of hosts: a tree, ways, links |
//! | `over_time.rs` | course of trials over time, in bars and as CSV |
//! | `totals.rs` | sums of messages, bytes and CPU time |
//! | `needs.rs` | bytes on the wire, memory and allocations |
//! | `evidence.rs` | control, differences, excluded trials, conditions |
//! | `theory.rs` | closed forms beside the measurement |
//! | `why.rs` | causes of the verdicts, and of each contender |
//! | `explain.rs` | breakdown of time, from the second pass |
//! | `imported.rs` | the files that a result was imported from, and five numbers of each |
//! | `document.rs` | headings, tables and lists, independent of their form |
//! | `words.rs` | numbers with their units |
//! | `text.rs` | wrapping and alignment |
//! | `screen.rs` `terminal.rs` `markdown.rs` | what a terminal shows; a document as text |
//! | `comment.rs` `against.rs` | a comment on a pull request; the second contender against the first, in sentences |
//! | `browser.rs` | the answer of a race that a page ran, for that page |
//! | `json.rs` `csv.rs` | the result for programs |
//! | `html/` | a page for a browser |
//! | `hlog.rs` | the raw samples as histograms, for the tools of HdrHistogram |
//! | `figure.rs` `plot/` | drawings with the numbers behind them, for pages |
//! | `history.rs` | the same race over time, in the same document form |
//! | `spark.rs` | a series, or a distribution, as a line of bars |
//! | `map/` | a map as letters, borders and a table |
//! | `compare.rs` | two races, in the same document form |
//! | `advise.rs` | advice on an application, likewise |
//! | `line.rs` | a surveyed line, likewise |
//! | `study.rs` `studies.rs` | a study that was run, and the results of several, likewise |

use std::path::Path;

use deadheat_base::error::{Result, unknown};
use deadheat_contract::handed_in::{HandedIn, unique};
use deadheat_result::outcome::Outcome;

#[cfg(test)]
use deadheat_everything as _;

mod absence;
pub mod advise;
pub mod against;
mod answer;
mod arrived;
mod boxes;
mod brief;
pub mod browser;
mod commands;
pub mod comment;
pub mod compare;
mod content;
mod contests;
mod csv;
mod document;
mod evidence;
mod explain;
mod factors;
mod far_end;
pub mod figure;
mod highs;
pub mod history;
mod hlog;
pub mod html;
mod imported;
mod json;
mod libraries;
pub mod line;
pub mod map;
pub mod markdown;
mod names;
mod needs;
pub mod network;
mod opening;
mod outages;
pub mod over_time;
mod path;
pub mod plot;
mod resolution;
mod results;
mod scatter;
mod screen;
pub mod spark;
mod standing;
pub mod studies;
pub mod study;
mod sweeps;
mod terminal;
mod text;
mod theory;
mod totals;
mod way;
mod why;
mod wire;
pub mod words;

pub use brief::place;
pub use text::{columns, wrap};

/// Formats in the order in which lists show them. The first is the default.
pub const ALL: &[&dyn Report] = &[
    &screen::Terminal,
    &json::Json,
    &csv::Csv,
    &markdown::Markdown,
    &comment::Comment,
    &html::Html,
    &hlog::HistogramLog,
];

/// Formats that the program has beside these.
static ADDED: HandedIn<dyn Report> = HandedIn::new();

/// Adds formats of the program.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] if there is a format of that name already, or on a second call in this process.
pub fn add(formats: Vec<&'static dyn Report>) -> Result<()> {
    unique("format", ids().chain(formats.iter().map(|format| format.id())))?;
    ADDED.fill(formats)
}

/// Iterates over all formats; formats that the program added are last.
fn all() -> impl Iterator<Item = &'static dyn Report> {
    ALL.iter().chain(ADDED.iter()).copied()
}

/// Other names of formats.
const ALIASES: &[(&str, &str)] = &[("hdr", "hlog"), ("md", "markdown"), ("text", "terminal")];

/// A form in which a result is shown.
pub trait Report: Sync {
    /// Returns the name after `--format`.
    fn id(&self) -> &'static str;

    /// Returns a description in one line, for lists.
    fn summary(&self) -> &'static str;

    /// Returns the use of raw samples.
    fn samples(&self) -> Samples {
        Samples::Unused
    }

    /// Renders the result in this form; text has a newline at its end.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Data`] if the result cannot be written in this form.
    fn render(&self, shown: &ReportInput<'_>, style: &Style) -> Result<Vec<u8>>;
}

/// Use that a format makes of raw samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// Samples are not used.
    Unused,
    /// Samples are optional: the report shows more with them.
    Used,
    /// Samples are required: the report has no content without them.
    Needed,
}

/// Input of a report.
#[derive(Debug, Clone, Copy)]
pub struct ReportInput<'a> {
    /// The result.
    pub outcome: &'a Outcome,
    /// The file of raw samples that belongs to the result, if there is one.
    pub samples: Option<&'a Path>,
}

impl<'a> From<&'a Outcome> for ReportInput<'a> {
    /// Creates the input without samples.
    fn from(outcome: &'a Outcome) -> ReportInput<'a> {
        ReportInput { outcome, samples: None }
    }
}

/// Style of text for people. Formats for programs ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Use of escape sequences for colour.
    pub colour: Colour,
    /// The width of a line in columns; long sentences are wrapped to it.
    pub width: usize,
    /// Level of detail.
    pub detail: Detail,
}

impl Default for Style {
    /// Returns the style for a pipe: no colour, 80 columns; the answer alone.
    fn default() -> Style {
        Style { colour: Colour::Never, width: 80, detail: Detail::Brief }
    }
}

/// Level of detail of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The answer, on one screen.
    Brief,
    /// Full report: also the conditions of the race, and the evidence.
    Full,
}

/// Use of colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// SGR escape sequences (ECMA-48 §8.3.117).
    Always,
    /// Plain text.
    Never,
}

/// Returns the format called `name`.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] for any other name, with a list of all names.
pub fn find(name: &str) -> Result<&'static dyn Report> {
    let name = format_name(name);
    if let Some(report) = all().find(|report| report.id() == name) {
        return Ok(report);
    }
    let ids: Vec<&str> = ids().collect();
    Err(unknown("format", name, &ids))
}

/// Returns the name of the format that a person calls `typed`: `markdown` for `md`.
pub fn format_name(typed: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == typed).map_or(typed, |(_, id)| id)
}

/// Returns the other names of a format.
pub fn aliases_of(format: &str) -> impl Iterator<Item = &'static str> {
    ALIASES.iter().filter(move |(_, id)| *id == format).map(|(alias, _)| *alias)
}

/// Returns the names of all formats, in order.
pub fn ids() -> impl Iterator<Item = &'static str> {
    all().map(|report| report.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_found_by_its_name() {
        for report in ALL {
            assert_eq!(find(report.id()).unwrap().id(), report.id());
            assert!(!report.summary().is_empty());
        }
    }

    #[test]
    fn other_names_are_answered_with_what_there_is() {
        let say = |name: &str| find(name).err().unwrap().to_string();
        assert_eq!(find("hdr").unwrap().id(), "hlog");
        assert_eq!(
            say("jsn"),
            "unknown format `jsn`; did you mean `json`? (valid: terminal, json, csv, markdown, comment, html, hlog)"
        );
    }
}

//! Reports, made from a saved [`Outcome`] and from nothing else: one file per format, in [`ALL`].
//!
//! A report computes no statistic. It counts trials, adds up messages and CPU time, and puts into
//! words what the race has decided.
//!
//! | file | what it holds |
//! |---|---|
//! | `content.rs` | what a report says, in order: the one list of sections that people read |
//! | `answer.rs` | the verdicts in a few sentences, and places in which a tie shows as a tie |
//! | `results.rs` | the table of figures |
//! | `over_time.rs` | how trials went, in bars and as CSV |
//! | `totals.rs` | sums of messages, bytes and CPU time |
//! | `evidence.rs` | control, differences, excluded trials, conditions |
//! | `explain.rs` | where the time goes, from the second pass |
//! | `document.rs` | headings, tables and lists, before anyone knows how they will look |
//! | `words.rs` | numbers with their units |
//! | `text.rs` | wrapping, alignment, and control characters made visible |
//! | `terminal.rs` `markdown.rs` | a document as text |
//! | `json.rs` `csv.rs` | the result for programs |
//! | `compare.rs` | two races, in the same document form |

use crate::error::{Error, Result, unknown};
use crate::race::outcome::Outcome;

mod answer;
mod arrived;
pub mod compare;
mod content;
mod csv;
mod document;
mod evidence;
mod explain;
mod factors;
mod json;
mod markdown;
pub mod over_time;
mod path;
mod results;
mod sweeps;
mod terminal;
mod text;
mod totals;
pub mod words;

pub use text::{visible, wrap};

/// Every format, in the order in which lists show them. The first is the default.
pub const ALL: &[&dyn Report] = &[&terminal::Terminal, &json::Json, &csv::Csv, &markdown::Markdown];

/// Formats that the command line knows by name and this version does not write.
const PLANNED: &[&str] = &["html", "hdr"];

/// A form in which a result is shown.
pub trait Report: Sync {
    /// The name after `--format`.
    fn id(&self) -> &'static str;

    /// One line for lists.
    fn summary(&self) -> &'static str;

    /// The result in this form, with a newline at its end.
    ///
    /// # Errors
    /// [`Error::Data`] where the result cannot be written in this form.
    fn render(&self, outcome: &Outcome, style: &Style) -> Result<String>;
}

/// How text for people looks. Formats for programs ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour may be written.
    pub colour: Colour,
    /// The width of a line in columns; long sentences are wrapped to it.
    pub width: usize,
}

impl Default for Style {
    /// As for a pipe: no colour, 80 columns.
    fn default() -> Style {
        Style { colour: Colour::Never, width: 80 }
    }
}

/// Whether colour is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// SGR escape sequences (ECMA-48 §8.3.117).
    Always,
    /// Plain text.
    Never,
}

/// The format called `name`.
///
/// # Errors
/// [`Error::Usage`] for a format that this version does not write and for a name that means nothing;
/// both list what there is.
pub fn find(name: &str) -> Result<&'static dyn Report> {
    if let Some(report) = ALL.iter().find(|report| report.id() == name) {
        return Ok(*report);
    }
    let ids: Vec<&str> = ALL.iter().map(|report| report.id()).collect();
    if PLANNED.contains(&name) {
        return Err(Error::usage(format!(
            "format `{name}` is not in this version; {} are",
            ids.join(", ")
        )));
    }
    Err(unknown("format", name, &ids))
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
        assert_eq!(
            say("html"),
            "format `html` is not in this version; terminal, json, csv, markdown are"
        );
        assert!(say("hdr").contains("not in this version"));
        assert_eq!(
            say("jsn"),
            "unknown format `jsn`; did you mean `json`? (valid: terminal, json, csv, markdown)"
        );
    }
}

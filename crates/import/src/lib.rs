//! Import of measurements by other tools, with the same statistics and reports: their files become an
//! [`Outcome`](crate::result::outcome::Outcome), which lists the information that they lack.
//!
//! | file | content |
//! |---|---|
//! | [`request`] | the request: files, labels, unit; and the steps from it to a result |
//! | `sources` | files of folders, patterns, archives and standard input |
//! | `foreign`, `unpack` | file of unknown content, read with checks: packings, encodings, lines, limits |
//! | `loose_json` | JSON with the faults that programs make |
//! | [`mod@unit`] | units of numbers from other tools |
//! | `gather` | samples of one trial, summarised and stored; five numbers |
//! | `text`, `stamp` | numbers with their keys and units in text of any language; times in front of lines |
//! | `echo`, `rates` | trials and metrics that several formats share |
//! | `assemble` | contenders, trials and verdicts from the files read |
//! | [`browser`] | races that a page in a browser runs: their plan, and their result |
//! | `stalls` | intervals of a transfer in which nothing moved |
//! | `summaries` | programs whose figures stand behind names: which stands where is data |
//! | [`unread`] | formats that are known and not read, with what would work instead |
//! | `twice`, `notes` | the same run twice; sentences about oddities and unknowns |
//! | `paired` | blocks of runs, from their order or from a column |
//! | the others | one format each, in [`ALL`] |

use std::path::PathBuf;
use std::time::SystemTime;

use crate::error::{Result, unknown};
use crate::measurements::{Metric, Unit};
use crate::result::imported::SpreadOver;
use crate::trial::Record;

use crate as import;
use deadheat_base::{error, time, units};
use deadheat_contract::measurements;
use deadheat_path as path;
use deadheat_result::{self as result, analysis};
use deadheat_stats as stats;

#[cfg(test)]
use deadheat_everything as _;

/// Records that a reader fills.
mod trial {
    pub(crate) use deadheat_records::trial::{PathFacts, Record};
    pub(crate) mod agent {
        pub(crate) use deadheat_records::samples;
    }
}

mod assemble;
pub mod browser;
mod curl;
mod echo;
mod flent;
mod foreign;
mod fping;
mod gather;
mod hyperfine;
mod iperf2;
mod iperf3;
mod irtt;
mod loose_json;
mod mahimahi;
mod mtr;
mod netperf;
mod notes;
mod paired;
mod ping;
mod plain;
mod probes;
mod rates;
pub mod request;
mod routers;
mod sockperf;
mod sources;
mod stalls;
mod stamp;
mod summaries;
mod text;
mod twice;
pub use crate::measurements::scale as unit;
mod unpack;
pub mod unread;
mod wget;

use foreign::ForeignFile;
pub use paired::RowColumns;
pub use request::{Import, NumberMeaning};
use unit::Scale;
use unread::UnreadFormat;

/// Formats with a reader of their own, in the order in which they are tried. The least strict is last.
pub const ALL: &[&dyn FormatReader] = &[
    &iperf3::Iperf3,
    &irtt::Irtt,
    &flent::Flent,
    &hyperfine::Hyperfine,
    &mtr::Mtr,
    &probes::Atlas,
    &probes::Globalping,
    &routers::Routers,
    &mahimahi::Mahimahi,
    &curl::Curl,
    &sockperf::Sockperf,
    &iperf2::Iperf2,
    &netperf::Netperf,
    &fping::Fping,
    &wget::Wget,
    &ping::Ping,
    &plain::Plain,
];

/// Returns all formats, in the order in which they are tried: the signs of summaries are the strictest.
pub fn all() -> impl Iterator<Item = &'static dyn FormatReader> {
    let summaries = summaries::all().map(|format| format as &dyn FormatReader);
    summaries.chain(ALL.iter().copied())
}

/// Returns the formats of summaries, with the metrics that their files give and the information that they lack, for the
/// documentation.
pub fn described() -> impl Iterator<Item = (&'static dyn FormatReader, String, String)> {
    summaries::all().map(|format| (format as &dyn FormatReader, format.becomes(), format.lacks()))
}

/// Format of files that another tool writes.
pub trait FormatReader: Sync {
    /// Returns the name after `--as`.
    fn id(&self) -> &'static str;

    /// Returns a description in one line, for lists.
    fn summary(&self) -> &'static str;

    /// Returns true if a file with this beginning is in the format; `head` has at most 64 KiB.
    fn sniff(&self, head: &str) -> bool;

    /// Reads a file.
    ///
    /// # Errors
    /// A sentence, without the file's name, with the problem, its place and a remedy.
    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String>;
}

/// Settings and resources for a reader.
pub struct ReaderContext<'a> {
    /// Unit of numbers without one.
    pub(crate) scale: Option<Scale>,
    /// Meaning of a number without context.
    pub(crate) each: NumberMeaning,
    /// Columns of a table that name the block and the contender of each row.
    pub(crate) columns: RowColumns,
    /// Source of files for samples, one per trial; absent if samples are not stored.
    pub(crate) keep: Option<&'a mut dyn FnMut() -> PathBuf>,
}

impl ReaderContext<'_> {
    /// Returns a new file for the samples of a trial.
    fn part(&mut self) -> Option<PathBuf> {
        self.keep.as_mut().map(|next| next())
    }
}

/// Content of a file.
#[derive(Default)]
pub struct FileContent {
    /// Program that wrote the file, with its version.
    pub(crate) program: Option<String>,
    /// Time of the measurement.
    pub(crate) began: Option<SystemTime>,
    /// Unit of its numbers.
    pub(crate) unit: String,
    /// Description of one trial.
    pub(crate) trial: String,
    /// Arms that the file compares; usually one.
    pub(crate) arms: Vec<Arm>,
    /// Information that the file lacks: noun phrases without a full stop (`losses after the last answer`), which
    /// become one sentence over all files.
    pub(crate) unknown: Vec<String>,
    /// Oddities of the file as a whole: sentences, such as words around its content, quoted ([`words_around`]).
    pub(crate) doubts: Vec<String>,
}

/// Arm: one subject of measurement, with one trial or more.
#[derive(Default)]
pub struct Arm {
    /// Name of the arm, if a file has several.
    pub(crate) name: String,
    /// Implementation that was measured, as far as known from the file.
    pub(crate) implementation: String,
    /// The metrics of its trials.
    pub(crate) metrics: Vec<Metric>,
    /// Trials of the arm.
    pub(crate) trials: Vec<ImportedTrial>,
}

/// Trial read from a file: complete, unfinished, or failed. A figure that is not known is absent from its record.
#[derive(Default)]
pub struct ImportedTrial {
    /// Figures of the trial; `started_ms` is its start, if known.
    pub(crate) record: Record,
    /// Five-number summary of its samples, for each quantity sampled.
    pub(crate) spreads: Vec<FiveNumberSummary>,
    /// File with its samples.
    pub(crate) samples_file: Option<PathBuf>,
    /// Identity of the run, if the program gave it a unique one: a cookie, a UUID. Of several trials
    /// with one identity, one counts.
    pub(crate) identity: Option<String>,
    /// Position in its file, and block, where a row of a table names them.
    pub(crate) row: Option<(u64, Option<String>)>,
    /// Oddities of the trial: sentences, such as impossible figures.
    pub(crate) doubts: Vec<String>,
}

impl ImportedTrial {
    /// Creates a trial that ran to its end.
    pub(crate) fn complete(record: Record) -> ImportedTrial {
        let record = Record { valid: true, why_invalid: None, ..record };
        ImportedTrial { record, ..ImportedTrial::default() }
    }

    /// Creates a trial that ended before its time, with the figures and intervals that it has. They are shown, and
    /// enter no verdict.
    pub(crate) fn unfinished(record: Record, why: &str) -> ImportedTrial {
        let why_invalid = Some(format!("unfinished: {}", deadheat_base::foreign::short(why)));
        let record = Record { valid: false, why_invalid, ..record };
        ImportedTrial { record, ..ImportedTrial::default() }
    }

    /// Creates a trial without figures: the program failed, with these words.
    pub(crate) fn failed(words: &str) -> ImportedTrial {
        let record =
            Record::without_figures(format!("failed: {}", deadheat_base::foreign::short(words)));
        ImportedTrial { record, ..ImportedTrial::default() }
    }

    /// Notes an impossible figure, which the caller leaves out of the record: `232600 of 129475 datagrams lost`.
    pub(crate) fn impossible(&mut self, figure: &str) {
        self.doubts.push(format!("Impossible, and in no figure: {figure}."));
    }
}

/// Returns the doubt about words that a program wrote around the content of a file.
pub(crate) fn words_around(words: &str) -> String {
    format!(
        "There are words around the content: `{}`.",
        deadheat_base::foreign::short(words.trim())
    )
}

/// Five-number summary, not yet assigned to a contender.
#[derive(Debug, Clone, PartialEq)]
pub struct FiveNumberSummary {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) over: SpreadOver,
    pub(crate) n: u64,
    pub(crate) lost: u64,
    pub(crate) min: f64,
    pub(crate) q1: Option<f64>,
    pub(crate) median: Option<f64>,
    pub(crate) q3: Option<f64>,
    pub(crate) max: f64,
}

/// Returns the format with this name.
///
/// # Errors
/// [`crate::error::Error::Usage`] for an unknown name, with the list of all.
pub fn find(name: &str) -> Result<&'static dyn FormatReader> {
    let named = all().find(|reader| reader.id() == name);
    named.ok_or_else(|| unknown("format to import", name, &ids()))
}

fn ids() -> Vec<&'static str> {
    let own = ALL.iter().map(|reader| reader.id());
    own.chain(summaries::all().map(FormatReader::id)).collect()
}

/// Returns the format of a file with this beginning.
///
/// # Errors
/// The format that is known and not read, or none.
fn sniff(head: &str) -> Result<&'static dyn FormatReader, Option<&'static UnreadFormat>> {
    // The signs of summaries are the strictest, and those of plain numbers the least strict.
    let found = all().find(|reader| reader.sniff(head));
    let is_summary =
        |reader: &&dyn FormatReader| summaries::all().any(|format| format.id() == reader.id());
    match unread::recognised(head) {
        Some(known) if !found.is_some_and(|own| is_summary(&own)) => Err(Some(known)),
        _ => found.ok_or(None),
    }
}

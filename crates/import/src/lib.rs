//! Import of measurements by other tools, with the same statistics and reports: their files become an
//! [`Outcome`](deadheat_result::outcome::Outcome), which lists the information that they lack.
//!
//! | file | content |
//! |---|---|
//! | [`request`] | the request: files, labels, unit; and the steps from it to a result |
//! | `sources` | files of folders, patterns, archives and standard input |
//! | `foreign_file`, `packings` | file of unknown content, read with checks: packings, encodings, lines, limits |
//! | `loose_json` | JSON with the faults that programs make |
//! | [`mod@unit`] | units of numbers from other tools |
//! | `samples` | samples of one trial, summarised and stored; five numbers |
//! | `text`, `stamp` | numbers with their keys and units in text of any language; times in front of lines |
//! | `echo`, `rates` | runs of round trips, and metrics, that several formats share |
//! | `collection` | contenders, trials and verdicts from the files read |
//! | [`browser`] | races that a page in a browser runs: their plan, and their result |
//! | `capture` | connections in captures of packets |
//! | `stalls` | intervals of a transfer in which nothing moved |
//! | `summaries` | programs whose figures stand behind names: which stands where is data |
//! | [`unread`] | formats that are known and not read, with their remedies |
//! | `duplicates`, `notes` | the same run twice; sentences about oddities and unknowns |
//! | `pairs` | blocks of runs, from their order or from a column |
//! | the others | one format each, in [`ALL`] |

use std::path::PathBuf;
use std::time::SystemTime;

use deadheat_base::error::{Result, unknown};
use deadheat_contract::measurements::{Metric, Role, Unit};
use deadheat_records::trial::Record;
use deadheat_result::imported::Spread;

#[cfg(test)]
use deadheat_everything as _;

pub mod browser;
mod capture;
mod collection;
mod curl;
mod duplicates;
mod echo;
mod flent;
mod foreign_file;
mod fping;
mod hyperfine;
mod iperf2;
mod iperf3;
mod irtt;
mod loose_json;
mod mahimahi;
mod mtr;
mod netperf;
mod notes;
mod packings;
mod pairs;
mod ping;
mod plain;
mod probes;
mod rates;
pub mod request;
mod routers;
mod samples;
mod sockperf;
mod sources;
mod stalls;
mod stamp;
mod summaries;
mod text;
pub mod unread;
mod wget;

pub use deadheat_contract::measurements::scale as unit;
use foreign_file::ForeignFile;
pub use pairs::RowColumns;
pub use request::{Import, NumberMeaning};
use summaries::readings::Repeats;
use unit::Scale;
use unread::UnreadFormat;

/// Formats with a reader of their own, in the order in which they are tried. The least strict is last.
pub const ALL: &[&Format] = &[
    &iperf3::FORMAT,
    &irtt::FORMAT,
    &flent::FORMAT,
    &hyperfine::FORMAT,
    &mtr::FORMAT,
    &probes::ATLAS,
    &probes::GLOBALPING,
    &routers::FORMAT,
    &mahimahi::FORMAT,
    &curl::FORMAT,
    &sockperf::FORMAT,
    &iperf2::FORMAT,
    &netperf::FORMAT,
    &fping::FORMAT,
    &wget::FORMAT,
    &ping::FORMAT,
    &capture::FORMAT,
    &plain::FORMAT,
];

/// Returns all formats, in the order in which they are tried: the signs of summaries are the strictest.
pub fn all() -> impl Iterator<Item = &'static Format> {
    summaries::all().chain(ALL.iter().copied())
}

/// Returns the formats of summaries, with the metrics that their files give and the information that they lack, for the
/// documentation.
pub fn described() -> impl Iterator<Item = (&'static Format, String, String)> {
    summaries::all().map(|format| (format, format.becomes(), format.lacks()))
}

/// Function that reads a file, or refuses it in a sentence, without the file's name, with the problem, its place and a
/// remedy.
type ReadFile = fn(&mut ForeignFile, &mut ReaderContext<'_>) -> Result<FileContent, String>;

/// Names of figures by their place: paths, titles or labels.
type FigureNames = &'static [(&'static str, &'static str)];

/// Format of files that another tool writes: its signs, the facts that its files share, and either its reader or the
/// places of its figures (see `summaries`).
pub struct Format {
    id: &'static str,
    summary: &'static str,
    /// Signs of such a file: all texts of one of these lists are in its beginning.
    signs: &'static [&'static [&'static str]],
    /// Returns true if a file with this beginning, of at most 64 KiB, has the structure of the format.
    sniff: fn(&str) -> bool,
    read: Option<ReadFile>,
    /// Program that writes such files, unless a file names it with its version.
    program: &'static str,
    /// Implementation that is measured, unless a file names it.
    implementation: &'static str,
    /// Unit of the numbers.
    unit: &'static str,
    /// Description of one trial.
    trial: &'static str,
    /// Information that all its files lack.
    unknown: &'static [&'static str],
    /// Peculiarities of its figures: sentences.
    says: &'static [&'static str],
    /// Refusal of a file without a trial.
    nothing: &'static str,
    /// Paths to figures in JSON. `*` in a path stands for all members, `!x` for all but `x`, `x?` for `x` or, where there is
    /// none, for nothing; of several paths of one figure the first that is there counts.
    json: FigureNames,
    /// Patterns of lines (see [`summaries::line`]).
    lines: &'static [&'static str],
    /// Titles of the columns of a table; the name is empty for a column that is not read.
    columns: FigureNames,
    /// Labels in front of one value or more with their units, each of a contender. The words of the line before the first
    /// label, if as many, name them.
    labels: FigureNames,
    repeats: Repeats,
}

/// Format without anything, from which the others differ.
const NONE: Format = Format {
    id: "",
    summary: "",
    signs: &[],
    sniff: |_| false,
    read: None,
    program: "",
    implementation: "",
    unit: "",
    trial: "",
    unknown: &[],
    says: &[],
    nothing: "",
    json: &[],
    lines: &[],
    columns: &[],
    labels: &[],
    repeats: Repeats::Next,
};

impl Format {
    /// Returns the name after `--as`.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// Returns a description in one line, for lists.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// Returns true if a file with this beginning is in the format; `head` has at most 64 KiB.
    fn is_of(&self, head: &str) -> bool {
        let has_all = |signs: &&[&str]| signs.iter().all(|sign| head.contains(sign));
        self.signs.iter().any(has_all) || (self.sniff)(head)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A sentence, without the file's name, with the problem, its place and a remedy.
    fn read(
        &self,
        file: &mut ForeignFile,
        context: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut content = match self.read {
            Some(read) => read(file, context)?,
            None => summaries::read(self, file)?,
        };
        if content.arms.is_empty() && !self.nothing.is_empty() {
            return Err(self.nothing.to_owned());
        }
        let or = |own: String, usual: &str| if own.is_empty() { usual.to_owned() } else { own };
        content.program = or(content.program, self.program);
        content.unit = or(content.unit, self.unit);
        content.trial = or(content.trial, self.trial);
        let own = std::mem::take(&mut content.unknown);
        self.unknown.iter().for_each(|phrase| content.lacks(phrase));
        own.iter().for_each(|phrase| content.lacks(phrase));
        content.doubts.splice(0..0, self.says.iter().map(|one| (*one).to_owned()));
        for arm in &mut content.arms {
            let implementation = std::mem::take(&mut arm.implementation);
            arm.implementation = or(implementation, self.implementation);
        }
        Ok(content)
    }

    /// Returns the content of a text, for tests of readers.
    #[cfg(test)]
    fn content(&self, text: &str) -> Result<FileContent, String> {
        self.read(&mut ForeignFile::of_text("x", text), &mut ReaderContext::default())
    }
}

/// Settings and resources for a reader.
#[derive(Default)]
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

/// Content of a file. The [`Format`] fills in the texts that a reader leaves empty.
#[derive(Default)]
pub struct FileContent {
    /// Program that wrote the file, with its version; empty if it is not known.
    pub(crate) program: String,
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

impl FileContent {
    /// Adds a trial to the arm with this name, which is empty in a file of one arm, with its metrics and the information
    /// that it lacks.
    pub(crate) fn add(&mut self, arm: &str, mut trial: ImportedTrial) {
        trial.unknown.drain(..).for_each(|phrase| self.lacks(phrase));
        let arm = self.arm(arm);
        for metric in trial.metrics.drain(..) {
            match arm.metrics.iter_mut().find(|known| known.name == metric.name) {
                Some(known) if metric.role == Role::Claim => known.role = Role::Claim,
                Some(_) => {}
                None => arm.metrics.push(metric),
            }
        }
        arm.trials.push(trial);
    }

    /// Returns the arm with this name, a new one if there is none.
    pub(crate) fn arm(&mut self, name: &str) -> &mut Arm {
        let at = self.arms.iter().position(|arm| arm.name == name).unwrap_or_else(|| {
            self.arms.push(Arm { name: name.to_owned(), ..Arm::default() });
            self.arms.len() - 1
        });
        &mut self.arms[at]
    }

    /// Notes information that the file lacks, once.
    pub(crate) fn lacks(&mut self, phrase: &str) {
        if !self.unknown.iter().any(|known| known == phrase) {
            self.unknown.push(phrase.to_owned());
        }
    }

    /// Takes the name of an arm away that is alone: it has the name of its file.
    pub(crate) fn unnamed_alone(mut self) -> FileContent {
        if let [only] = &mut self.arms[..] {
            only.name.clear();
        }
        self
    }
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
    /// Metrics of its figures, until it is added to an arm.
    pub(crate) metrics: Vec<Metric>,
    /// Five-number summary of its samples, for each quantity sampled; the contender is not known yet.
    pub(crate) spreads: Vec<Spread>,
    /// File with its samples.
    pub(crate) samples_file: Option<PathBuf>,
    /// Identity of the run, if the program gave it a unique one: a cookie, a UUID. Of several trials
    /// with one identity, one counts.
    pub(crate) identity: Option<String>,
    /// Position in its file, and block, where a row of a table names them.
    pub(crate) row: Option<(u64, Option<String>)>,
    /// Information that it lacks, until it is added to an arm.
    pub(crate) unknown: Vec<&'static str>,
    /// Oddities of the trial: sentences, such as impossible figures.
    pub(crate) doubts: Vec<String>,
}

impl ImportedTrial {
    /// Creates a trial that ran to its end, without figures so far.
    pub(crate) fn complete() -> ImportedTrial {
        let record = Record { valid: true, ..Record::default() };
        ImportedTrial { record, ..ImportedTrial::default() }
    }

    /// Creates a trial without figures: the program failed, with these words.
    pub(crate) fn failed(words: &str) -> ImportedTrial {
        let record =
            Record::without_figures(format!("failed: {}", deadheat_base::foreign::short(words)));
        ImportedTrial { record, ..ImportedTrial::default() }
    }

    /// Marks the trial as unfinished: it ended before its time. Its figures and intervals are shown, and enter no verdict.
    pub(crate) fn unfinished(mut self, why: &str) -> ImportedTrial {
        self.record.valid = false;
        self.record.why_invalid =
            Some(format!("unfinished: {}", deadheat_base::foreign::short(why)));
        self
    }

    /// Adds a figure, if it is a number that a measurement can have. Bits in a second are whole.
    pub(crate) fn add(&mut self, metric: Metric, value: f64) {
        let value = if metric.unit == Unit::BitRate { value.round() } else { value };
        if value.is_finite() && value >= 0.0 {
            self.record.metrics.insert(metric.name.clone(), value);
            self.metrics.push(metric);
        }
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

/// Returns the format with this name.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] for an unknown name, with the list of all.
pub fn find(name: &str) -> Result<&'static Format> {
    let named = all().find(|format| format.id == name);
    named.ok_or_else(|| unknown("format to import", name, &ids()))
}

fn ids() -> Vec<&'static str> {
    ALL.iter().copied().chain(summaries::all()).map(Format::id).collect()
}

/// Returns the format of a file with this beginning.
///
/// # Errors
/// The format that is known and not read, or none.
fn sniff(head: &str) -> Result<&'static Format, Option<&'static UnreadFormat>> {
    // Summaries have the strictest signs, and plain numbers the least strict.
    let found = all().find(|format| format.is_of(head));
    match unread::recognised(head) {
        Some(known) if found.is_none_or(|own| own.read.is_some()) => Err(Some(known)),
        _ => found.ok_or(None),
    }
}

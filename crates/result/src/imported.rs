//! Import section of a result: the files from which it was imported, and the information that they lack.

use serde::{Deserialize, Serialize};

use deadheat_base::unset::is_unset;
use deadheat_contract::measurements::Unit;

/// Kind of path of an imported result: the path between the ends is not known.
pub const KIND: &str = "imported";

/// Origin of an imported result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportOrigin {
    /// Source of the start time: a file, or else the time of the import.
    pub dated: DateSource,
    /// The files, in the order given.
    pub files: Vec<ImportedFile>,
    /// Five-number summaries, one for each contender and each quantity measured.
    pub spreads: Vec<Spread>,
    /// Pairing of the runs in blocks; absent if they were compared as independent samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing: Option<ImportPairing>,
    /// Basis of the verdicts, or the reason why there are none.
    pub basis: String,
    /// Sentence on the information that no file has; empty in results of before there was one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacks: String,
}

impl ImportOrigin {
    /// Returns true if any file gives its time of measurement.
    pub fn is_dated(&self) -> bool {
        self.dated == DateSource::ByFiles
    }

    /// Returns true if a page in a browser ran the race, by the plan of a server.
    pub fn is_of_page(&self) -> bool {
        self.pairing.as_ref().is_some_and(|pairing| pairing.by == PairedBy::Plan)
    }
}

/// Pairing of imported runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportPairing {
    /// Source of the blocks.
    pub by: PairedBy,
    /// Number of blocks with runs of two contenders or more.
    pub blocks: u64,
    /// Number of blocks that lack a contender.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub incomplete: u64,
    /// Id of the contender that ran first in every block; absent if that is not known, or if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
}

/// Source of the blocks of imported runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairedBy {
    /// Order of the files.
    OrderOfFiles,
    /// Order of the rows of one file.
    OrderOfRows,
    /// Column that names the block of each row.
    Column,
    /// Plan of the server that a page in a browser ran, with a hidden copy of the first contender in each block.
    Plan,
}

/// Source of a result's start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateSource {
    /// Earliest time that any of its files gives.
    ByFiles,
    /// Clock at the time of the import.
    ByImport,
}

/// A file that was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// Name without its folder.
    pub name: String,
    /// SHA-256 of its bytes as stored, in hexadecimal.
    pub sha256: String,
    /// Format of the file: `plain`, `irtt`.
    pub format: String,
    /// Program that wrote it, with the version; absent if the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Unit of its numbers, from the user or from its format.
    pub unit: String,
    /// Description of one trial, in a few words.
    pub trial: String,
    /// Ids of the contenders made from it.
    pub contenders: Vec<usize>,
    /// Number of trials made from it, over all its contenders.
    pub trials: u64,
    /// Information that the file lacks, a phrase each; in results of before there were doubts, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Oddities of the file and its runs, a sentence each: words around its content, impossible figures, runs that
    /// failed or are in it twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// Five-number summary (Tukey 1977): order statistics, all of them measured values.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The contender's id.
    pub contender: usize,
    /// Quantity measured: `RTT`, `time`.
    pub what: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Kind of the values.
    pub over: SpreadOver,
    /// Number of values, without lost ones.
    pub n: u64,
    /// Number of lost values, if the sample records them.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub lost: u64,
    /// Minimum.
    pub min: f64,
    /// First quartile; absent if fewer than ten samples are below it.
    pub q1: Option<f64>,
    /// Median; absent likewise.
    pub median: Option<f64>,
    /// Third quartile; absent if fewer than ten samples are above it.
    pub q3: Option<f64>,
    /// Maximum.
    pub max: f64,
}

/// Kind of values that a spread is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpreadOver {
    /// Figures of trials, one per trial.
    Trials,
    /// Samples of trials; they give no interval.
    Samples,
}

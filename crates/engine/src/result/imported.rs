//! Import section of a result: the files that it was imported from, and what they no longer tell.

use serde::{Deserialize, Serialize};

use crate::measurements::Unit;
use deadheat_base::unset::is_unset;

/// Kind of path of an imported result: the path between the ends is unknown here.
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
    /// Basis of the verdicts, or the reason why there are none.
    pub basis: String,
}

impl ImportOrigin {
    /// Returns true if any file gives its time of measurement.
    pub fn is_dated(&self) -> bool {
        self.dated == DateSource::ByFiles
    }
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
    /// Format it was read as: `plain`, `irtt`.
    pub format: String,
    /// Program that wrote it, with the version; absent if the file does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The unit of its numbers, as given or as its format has it.
    pub unit: String,
    /// Description of one trial, in a few words.
    pub trial: String,
    /// Ids of the contenders made from it.
    pub contenders: Vec<usize>,
    /// Number of trials made from it, over all its contenders.
    pub trials: u64,
    /// Information that the file no longer holds, and points to mind; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// The five numbers of Tukey (1977): order statistics, all of them measured values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The contender's id.
    pub contender: usize,
    /// Quantity measured: `RTT`, `time`.
    pub what: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Kind of values that the spread is over.
    pub over: SpreadOver,
    /// Number of values; lost ones are not among them.
    pub n: u64,
    /// Number of lost values, in a sample that knows.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub lost: u64,
    /// Minimum.
    pub min: f64,
    /// The first quartile; absent where fewer than ten samples lie beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q1: Option<f64>,
    /// The median; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The third quartile; absent where fewer than ten samples lie beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q3: Option<f64>,
    /// Maximum.
    pub max: f64,
}

/// Kind of values that a spread is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpreadOver {
    /// Figures of trials, one for each.
    Trials,
    /// The samples of trials: no interval follows from them.
    Samples,
}

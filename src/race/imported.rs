//! What a result says of the files that it was imported from, and of what they no longer tell.

use serde::{Deserialize, Serialize};

use crate::figures::Unit;

/// The kind of path of a result that was imported: nobody here knows what lay between the ends.
pub const KIND: &str = "imported";

/// Where an imported result comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Whether the time at which the result began is told by a file; otherwise it is that of the import.
    pub dated: Dated,
    /// The files, in the order given.
    pub files: Vec<ImportedFile>,
    /// Five numbers for each contender and each thing measured.
    pub spreads: Vec<Spread>,
    /// Why there is no verdict, where there is none; otherwise what the verdicts rest on.
    pub basis: String,
}

impl Imported {
    /// Whether any file says when it was measured.
    pub fn is_dated(&self) -> bool {
        self.dated == Dated::ByFiles
    }
}

/// Where the time comes from at which a result began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dated {
    /// From the earliest of its files that tells one.
    ByFiles,
    /// From the clock at the time of the import.
    ByImport,
}

/// A file that was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// Its name, without its folder.
    pub name: String,
    /// SHA-256 of its bytes as they lay there, in hexadecimal.
    pub sha256: String,
    /// What it was read as: `plain`, `irtt`.
    pub format: String,
    /// Who wrote it, with the version, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The unit of its numbers, as given or as its format has it.
    pub unit: String,
    /// What one trial is, in a few words.
    pub trial: String,
    /// The ids of the contenders it became.
    pub contenders: Vec<usize>,
    /// Trials it became, of all its contenders.
    pub trials: u64,
    /// What can no longer be known from it, and what to mind; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// The five numbers of Tukey (1977): order statistics, all of them measured values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The contender's id.
    pub contender: usize,
    /// What was measured: `RTT`, `time`.
    pub what: String,
    /// Its unit.
    pub unit: Unit,
    /// What was counted.
    pub over: Over,
    /// How many; lost ones are not among them.
    pub n: u64,
    /// How many were lost, in a sample that knows.
    #[serde(default, skip_serializing_if = "super::outcome::is_zero")]
    pub lost: u64,
    /// The least.
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
    /// The greatest.
    pub max: f64,
}

/// What a spread is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// One figure per trial.
    Trials,
    /// The samples of trials: no interval follows from them.
    Samples,
}

//! Advice as it is saved: format 1 of `advise.json`, beside the results of its races. Reports are made from this
//! alone.

use serde::{Deserialize, Serialize};

use super::app::App;
use super::axis::Axis;
use super::search::{Lead, SearchFinding, SearchStep};
use crate::measurements::Metric;
use crate::result::outcome::Program;

/// File format that this version writes.
pub const FORMAT: u32 = 1;

/// The file's name.
pub const FILE: &str = "advise.json";

/// Advice on an application, with what it stands on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// File format: 1.
    pub advice_format: u32,
    /// Program that wrote the file.
    pub deadheat: Program,
    /// Name of the application: that of its file.
    pub name: String,
    /// The application.
    pub app: App,
    /// The path, as typed.
    pub path: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Time that the races were given, in nanoseconds; absent on a simulated path, where they end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<u64>,
    /// Time that they took, in nanoseconds.
    #[serde(default)]
    pub took_ns: u64,
    /// Contenders that do not fit, and why.
    pub excluded: Vec<ExcludedContender>,
    /// Traffic, the most important first, and the work that stood for it.
    pub traffic: Vec<RacedTraffic>,
    /// Races in the order run.
    pub races: Vec<AdviceRace>,
    /// Places of the contenders that carry all traffic and have a verdict.
    pub places: Vec<RankedContender>,
    /// Verdicts of races on the path about means, where the claimed figure is a quantile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<VerdictEvidence>,
    /// Verdicts by which one that cannot carry all traffic is ahead of the first place in one of them.
    pub alone: Vec<VerdictEvidence>,
    /// Findings of the search for crossovers between the two best contenders.
    pub crossovers: Vec<Crossover>,
    /// Axes that were not searched, or not to their end, and why.
    pub not_searched: Vec<String>,
    /// Gaps: races not run or not decided, and what would help.
    pub notes: Vec<String>,
}

/// Contender that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcludedContender {
    /// Contender, as typed.
    pub contender: String,
    /// Traffic that it cannot carry; absent if it does not fit the application at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// Reason.
    pub why: String,
}

/// Traffic as it was raced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RacedTraffic {
    /// Its name.
    pub name: String,
    /// Workload that stands for it.
    pub workload: String,
    /// Figure that counts.
    pub metric: Metric,
    /// Greatest value of it that the application can use, in nanoseconds; absent if it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
    /// Contenders that fit.
    pub contenders: Vec<String>,
}

/// Race of the advice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdviceRace {
    /// Traffic.
    pub traffic: String,
    /// Workload, with the length of its trials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// Purpose.
    pub purpose: Purpose,
    /// Path, as typed.
    pub path: String,
    /// Contenders.
    pub contenders: Vec<String>,
    /// True if it ran in virtual time.
    pub is_virtual: bool,
    /// File of its result, beside this one; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// True if its result can be trusted.
    pub trusted: bool,
    /// Reason why it did not run, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// Purpose of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Comparison in virtual time of everything that runs there.
    Screening,
    /// Comparison on the path.
    Comparison,
    /// Comparison on the path of the mean alone, in trials that are too short for the claimed quantile.
    Confirmation,
    /// Step of the search for a crossover.
    Search,
}

/// Contender with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedContender {
    /// Contender, as typed, or two of them: `udp + tcp for shots`.
    pub contender: String,
    /// Contender that carries each traffic, in the order of the application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carries: Vec<String>,
    /// Place: one more than those in better places.
    pub place: usize,
    /// Its figure in the most important traffic that it was raced in.
    pub figure: Option<ContenderFigure>,
    /// Verdict on the contender listed first and it; where there is none, one by which another is ahead of it.
    pub against: Option<VerdictEvidence>,
}

/// Figure of a contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContenderFigure {
    /// Traffic.
    pub traffic: String,
    /// Metric.
    pub metric: Metric,
    /// Median over trials.
    pub estimate: f64,
    /// Lower end of its interval; absent with too few trials.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Greatest value that the application can use, if it says one.
    pub limit_ns: Option<u64>,
    /// File of the race.
    pub file: String,
    /// True if it is of virtual time.
    pub is_virtual: bool,
}

/// Verdict behind a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictEvidence {
    /// Traffic.
    pub traffic: String,
    /// First contender of the verdict.
    pub first: String,
    /// Second.
    pub second: String,
    /// Verdict.
    pub lead: Lead,
    /// The verdict in a sentence, as its race put it.
    pub note: String,
    /// File of the race.
    pub file: String,
    /// True if it is of virtual time.
    pub is_virtual: bool,
}

/// Finding of a search along an axis in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// Axis.
    pub axis: Axis,
    /// First contender.
    pub first: String,
    /// Second.
    pub second: String,
    /// Value of the path as given.
    pub base: f64,
    /// Verdict there.
    pub lead: Lead,
    /// File of the race that gave it.
    pub file: String,
    /// End of the search.
    pub end: f64,
    /// Finding.
    pub found: SearchFinding,
    /// Values within it that decided nothing.
    pub open: Vec<f64>,
    /// Steps, as they were made.
    pub steps: Vec<SearchStep>,
    /// True if they were made in virtual time.
    pub is_virtual: bool,
}

//! Saved advice: format 1 of `advise.json`, beside the results of its races. Reports are made from this alone.

use serde::{Deserialize, Serialize};

use super::app::App;
use super::axis::Axis;
use super::search::{Lead, SearchFinding, SearchStep};
use crate::causes::Finding;
use crate::outcome::Program;
use deadheat_contract::measurements::Metric;

/// File format that this version writes.
pub const FORMAT: u32 = 1;

/// Name of the file.
pub const FILE: &str = "advise.json";

/// Advice on an application, with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// File format: 1.
    pub advice_format: u32,
    /// Program that wrote the file.
    pub deadheat: Program,
    /// Name of the application: its file name without the extension.
    pub name: String,
    /// The application.
    pub app: App,
    /// The path, as typed.
    pub path: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Time limit of the races, in nanoseconds; absent on a simulated path, where they end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<u64>,
    /// Duration of the races, in nanoseconds.
    #[serde(default)]
    pub took_ns: u64,
    /// Contenders that do not fit, with the reasons.
    pub excluded: Vec<ExcludedContender>,
    /// Traffic, the most important first, with the work that represented it.
    pub traffic: Vec<RacedTraffic>,
    /// Races in the order run.
    pub races: Vec<AdviceRace>,
    /// Places of the contenders that carry all traffic and have a verdict.
    pub places: Vec<RankedContender>,
    /// Verdicts of races on the path about means, for a claimed figure that is a quantile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<VerdictEvidence>,
    /// Verdicts by which a contender that cannot carry all traffic is ahead of the first place in one traffic.
    pub alone: Vec<VerdictEvidence>,
    /// Findings of the search for crossovers between the two best contenders.
    pub crossovers: Vec<Crossover>,
    /// Axes without a complete search, with the reasons.
    pub not_searched: Vec<String>,
    /// Gaps: races that were not run or not decided, with remedies.
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

/// Traffic as raced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RacedTraffic {
    /// Name of the traffic.
    pub name: String,
    /// Workload that represents it.
    pub workload: String,
    /// Claimed figure.
    pub metric: Metric,
    /// Maximum value that the application can use, in nanoseconds; absent if the file gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
    /// Contenders that fit.
    pub contenders: Vec<String>,
}

/// Race of the advice.
#[serde_with::skip_serializing_none]
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
    pub file: Option<String>,
    /// True if its result can be trusted.
    pub trusted: bool,
    /// Reason why it did not run, or is not complete.
    pub why_not: Option<String>,
}

/// Purpose of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Comparison in virtual time of all contenders that run there.
    Screening,
    /// Comparison on the path.
    Comparison,
    /// Comparison of the mean alone on the path, in trials that are too short for the claimed quantile.
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
    /// Rank, from 1; equal ranks are followed by a gap.
    pub place: usize,
    /// True if a part of it goes over UDP, which some networks block; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_udp: Option<bool>,
    /// Its figure in the most important traffic for which it has one.
    pub figure: Option<ContenderFigure>,
    /// Verdict on the first listed contender and this one; if there is none, a verdict by which another one is
    /// ahead.
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
    /// Maximum value that the application can use, if its file gives one.
    pub limit_ns: Option<u64>,
    /// Bytes on the wire for each byte that was delivered, the median over trials; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_ratio: Option<f64>,
    /// CPU time of both ends for each message that was delivered, the median over trials, in nanoseconds; absent in
    /// virtual time and where messages are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<f64>,
    /// File of the race.
    pub file: String,
    /// True if it is from virtual time.
    pub is_virtual: bool,
}

/// Verdict behind a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictEvidence {
    /// Traffic.
    pub traffic: String,
    /// First contender of the verdict.
    pub first: String,
    /// Second contender.
    pub second: String,
    /// Verdict.
    pub lead: Lead,
    /// The verdict in the sentence of its race.
    pub note: String,
    /// Cause that makes the difference; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Finding>,
    /// File of the race.
    pub file: String,
    /// True if it is from virtual time.
    pub is_virtual: bool,
}

/// Finding of a search along an axis in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// Axis.
    pub axis: Axis,
    /// First contender.
    pub first: String,
    /// Second contender.
    pub second: String,
    /// Value of the given path.
    pub base: f64,
    /// Verdict at that value.
    pub lead: Lead,
    /// File of the race with that verdict.
    pub file: String,
    /// End of the search.
    pub end: f64,
    /// Finding.
    pub found: SearchFinding,
    /// Values within the finding without a decision.
    pub open: Vec<f64>,
    /// Steps, in order.
    pub steps: Vec<SearchStep>,
    /// True if they ran in virtual time.
    pub is_virtual: bool,
}

//! Result of a race, as it is saved: format 1, described by `docs/result.schema.json`, which a test compares with
//! this file. Reports are made from this alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::imported::ImportOrigin;
use crate::causes::ContenderCauses;
use crate::contest::Contest;
use crate::explained::Explanations;
use crate::far_hosts::FarHosts;
pub use crate::knee::{KneeAt, KneePlace, Sweep};
use crate::path_way::PathWay;
use deadheat_base::time::Nanos;
use deadheat_base::unset::is_unset;
use deadheat_contract::label::LabelledText;
use deadheat_contract::measurements::{Effective, Metric};
use deadheat_records::commands::ProgramFile;
use deadheat_records::host::HostFacts;
use deadheat_records::placement::Placement;
use deadheat_records::quiet::HostQuiet;
use deadheat_records::trial::{PathFacts, Record};

/// File format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// Race with all of its results.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// File format: 1.
    pub format: u32,
    /// Program that wrote the file.
    pub deadheat: Program,
    /// Title of the race.
    pub title: Option<String>,
    /// Labels given with `--label`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Seed of order and impairments.
    pub seed: u64,
    /// Request as typed; enough to run the race again.
    pub asked: RecordedRequest,
    /// Plan fixed before the first block.
    pub plan: RecordedPlan,
    /// Facts about this host.
    pub host: HostFacts,
    /// Facts about the far host; absent if it is this one.
    pub peer_host: Option<HostFacts>,
    /// Results of probing the near host between blocks; absent in virtual time, and in results older than the
    /// probes.
    pub probe: Option<HostQuiet>,
    /// Facts about the path.
    pub path: PathFacts,
    /// Compared metrics, claims first.
    pub metrics: Vec<Metric>,
    /// Conditions that were varied; absent if none were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
    /// Contenders; in a race over conditions, its cells. The hidden control is not among them.
    pub contenders: Vec<Entrant>,
    /// All trials, in the order run.
    pub trials: Vec<Trial>,
    /// Absences of the far end, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absences: Vec<Absence>,
    /// Estimates, one for each contender and metric.
    pub summary: Vec<Summary>,
    /// Behaviour of an emulated path over all valid trials, by link and direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_ways: Vec<PathWay>,
    /// Shares of variation that each factor accounts for, in a race over conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<VarianceShare>,
    /// Knee of each contender, if an offered rate was varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<Sweep>,
    /// Shares of contenders with a load beside them, and harm, one for each contender or cell that has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contests: Vec<Contest>,
    /// Verdicts, one for each claim.
    pub verdicts: Vec<Verdict>,
    /// Verdicts on the same claims from all trials with figures, if gates took more trials from one contender than
    /// from another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfiltered: Vec<Verdict>,
    /// Causes of the contenders' figures, as far as their trials prove some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ContenderCauses>,
    /// Comparison of the first contender with its hidden copy.
    pub control: Option<Control>,
    /// Differences in conditions between contenders.
    pub differences: Vec<Difference>,
    /// Warnings to read before believing the result.
    pub warnings: Vec<Warning>,
    /// True if the race is trusted, as [`Outcome::trusted`] has it; the exit code says the same. Readers compute it
    /// anew, also of files of before it was saved.
    #[serde(default)]
    pub trusted: bool,
    /// Reasons why it is not trusted; absent if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why_not_trusted: Vec<String>,
    /// Breakdown of where the time goes, from a second, instrumented pass; absent if none was asked for.
    pub explain: Option<Explanations>,
    /// Origin of an imported result; absent if deadheat measured it.
    pub imported: Option<ImportOrigin>,
    /// Status: running, or the reason for the end.
    pub status: Status,
}

/// Absence of the far end: its host, its server or the line to it was down.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Start, in milliseconds since the Unix epoch: the time since which nothing came from the far end, as far as the
    /// near end knows, or else the start of the trial in which it was lost.
    pub from_ms: u64,
    /// End: the time at which it could be reached again.
    pub to_ms: u64,
    /// Block in which it was lost, from 0; absent before the first block and after the last.
    pub block: Option<u64>,
    /// Evidence.
    pub why: String,
}

impl Absence {
    /// Returns its length.
    pub fn length(&self) -> Nanos {
        Nanos::from_millis(self.to_ms.saturating_sub(self.from_ms))
    }
}

/// Program and its version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// Version of deadheat.
    pub version: String,
}

/// Request of the user, as typed, with defaults filled in.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// Contenders in the order typed.
    pub contenders: Vec<String>,
    /// The workload.
    pub workload: String,
    /// Path as typed: `loopback`, or an emulated one; absent with `to`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Remote host and port, or several; absent if none.
    pub to: Option<FarHosts>,
    /// Requested address family, `4` or `6`; absent if none.
    pub family: Option<u8>,
    /// Requested local address of the near end; absent if none.
    pub source: Option<String>,
    /// Requested interface of the near end; absent if none.
    pub device: Option<String>,
    /// Maximum number of blocks; absent if not given.
    pub blocks: Option<u64>,
    /// Maximum duration, in nanoseconds; absent if unlimited.
    pub budget_ns: Option<u64>,
    /// Minimum time from the start of one block to the start of the next, in nanoseconds; absent if not
    /// given.
    pub every_ns: Option<u64>,
    /// True if all blocks were to run, whatever they decide; absent if not.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub all_blocks: bool,
    /// True if the race was to end as soon as every claim was known; absent if not.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub first: bool,
    /// Margin as a fraction; absent if not given.
    pub margin: Option<f64>,
    /// Margin as a time, for figures that are times; absent if not given.
    pub margin_ns: Option<u64>,
    /// Requested resolution, as a fraction; absent if not given.
    pub resolve: Option<f64>,
    /// True if claims include contenders that the far kernel answers.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub claims_all: bool,
    /// True if options that were not typed stayed at each implementation's own default; absent if they were made
    /// equal.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub as_deployed: bool,
    /// Confidence as a fraction.
    pub confidence: f64,
    /// Number of races of its gate, which share one error (`--gate first --gate-races`); absent without such a gate, and in
    /// files of older versions.
    pub gate_races: Option<u64>,
    /// Placement; absent if not given.
    pub placement: Option<String>,
    /// Requested state of idle CPUs, `awake` or `host`; absent if not given.
    pub idle: Option<String>,
    /// Conditions to vary, with their levels; absent if none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Factor>,
    /// Time between two points of each trial's series, in nanoseconds; absent if not given.
    pub interval_ns: Option<u64>,
    /// True if an instrumented pass was requested; absent if not.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub explain: bool,
}

/// Plan, fixed before the first block, so that no result could change it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordedPlan {
    /// Margin, as a fraction.
    pub margin: f64,
    /// Reason for the margin.
    pub margin_reason: String,
    /// The placement.
    pub placement: String,
    /// Reason for the placement.
    pub placement_reason: String,
    /// State of idle CPUs: `awake` if they were kept out of sleep states, `host` if the host decided; absent if
    /// there were none, and in files of older versions.
    pub idle: Option<String>,
    /// Reason for this state; absent in files of older versions.
    pub idle_reason: Option<String>,
    /// Maximum number of blocks.
    pub blocks_max: u64,
    /// Interim looks: the number of blocks and the error level of each.
    pub looks: Vec<deadheat_stats::Look>,
    /// Error level shared by rulings after any block, in addition to the looks; absent if such rulings are not
    /// allowed.
    #[serde(default, skip_serializing_if = "is_no_level")]
    pub any_time: f64,
    /// Number of verdicts.
    pub claims: u64,
    /// Workload of each trial, if the plan chose the length of trials.
    pub workload: Option<String>,
    /// Reason for the length of trials.
    pub workload_reason: Option<String>,
    /// Re-estimates of the number of blocks during the race, from the scatter alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replans: Vec<Replan>,
    /// Definition of quantiles.
    pub quantile_definition: String,
}

/// Returns true for a level of 0, which is not serialized.
fn is_no_level(level: &f64) -> bool {
    *level == 0.0
}

/// New estimate of the number of blocks, made half-way without regard to the leader.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Replan {
    /// Number of completed blocks at that time.
    pub after: u64,
    /// Maximum number of blocks before.
    pub from: u64,
    /// Maximum number of blocks after.
    pub to: u64,
    /// Scatter that the estimate is based on: the standard deviation of the log-ratios of a block.
    pub scatter: f64,
}

/// Contender of the race.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Entrant {
    /// Index of the contender, from 0.
    pub id: usize,
    /// Specification as run: as typed, plus the terms of the race and the window for its path.
    pub spec: String,
    /// Name that is unique in this race: as the user labelled it, or else `udp`, `udp #2`.
    pub label: String,
    /// Label that it would have if the user had given none; absent if so. Races are compared by it.
    pub unlabelled: Option<String>,
    /// Id of the transport.
    pub transport: String,
    /// Colour of the transport, `#rrggbb`.
    pub colour: String,
    /// Implementation of the transport, as read back in its trials: `tcp/linux-6.18/cubic`.
    pub implementation: String,
    /// Protocol, if the program has other implementations of it, too: `QUIC`.
    pub protocol: Option<String>,
    /// Requested knobs, defaults included.
    pub asked: BTreeMap<String, String>,
    /// Options as read back at the near end.
    pub effective: Effective,
    /// Options as read back at the far end.
    #[serde(default, skip_serializing_if = "Effective::is_empty")]
    pub far_effective: Effective,
    /// True if it is a reference row, which the far kernel answers and which takes no part in claims.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub floor: bool,
    /// Evidence that its packets do not arrive, for which it dropped out; absent if they do.
    pub blocked: Option<String>,
    /// Limit of the far end's operator that stopped its trials, for which it dropped out; absent if none did.
    pub limited: Option<String>,
    /// Evidence that it offered more than the path carries, for which it was stopped; absent if it did not.
    pub overload: Option<String>,
    /// Evidence that its endpoints failed twice in a row, for which it dropped out; absent if they did not.
    pub failed: Option<String>,
    /// Reason why it cannot carry this work, so that it never ran; absent if it can.
    pub not_applicable: Option<String>,
    /// Facts of its commands, if it is a pair of them; absent before its first trial.
    pub commands: Option<Box<EntrantCommands>>,
    /// Cell of the contender, in a race over conditions.
    pub cell: Option<Cell>,
}

/// Facts of the commands of a contender.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntrantCommands {
    /// Programs, and the files that their arguments name, with their digests.
    pub files: Vec<ProgramFile>,
    /// Time of a transfer of one byte, which is the time that its client takes to start, to connect and to end: the median of
    /// a few before the first block, in turns with the other pairs. Absent if the work is none of bytes.
    pub start_ns: Option<u64>,
    /// The least and the greatest of these times, in nanoseconds; absent likewise, and in files of older versions.
    pub start_range_ns: Option<[u64; 2]>,
}

/// Contender under one combination of conditions.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// Index of the level of each of `factors`.
    pub levels: Vec<usize>,
    /// Workload under these conditions.
    pub workload: String,
    /// Placement, if it is varied.
    pub placement: Option<Placement>,
    /// Reason why the cell cannot run here; absent if it can.
    pub infeasible: Option<String>,
    /// Cells that it competes with, by id, in a matrix: the cell of its load beside itself as a load, if those are two.
    /// Absent where it competes with the cells under the same levels.
    pub rivals: Option<Vec<usize>>,
}

/// Varied condition, with its levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Name of the condition: a key of the workload, a knob, or `placement`.
    pub name: String,
    /// Levels, as typed.
    pub levels: Vec<String>,
}

/// Trial of the race.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Block of the trial, from 0.
    pub block: u64,
    /// Position in the block, from 0; repeats of invalid trials come last.
    pub order: u64,
    /// Id of the contender; the control carries the id of the contender it copies.
    pub contender: usize,
    /// True if it is the hidden copy.
    #[serde(skip_serializing_if = "is_unset")]
    pub control: bool,
    /// Figures of the trial.
    #[serde(flatten)]
    pub record: Record,
}

/// Estimate of one metric for one contender, over its valid trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Id of the contender.
    pub contender: usize,
    /// Name of the metric.
    pub metric: String,
    /// Median over trials.
    pub estimate: f64,
    /// Lower end of its interval (order statistics); absent with too few trials.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Number of trials behind the estimate.
    pub trials: u64,
    /// True if any of these trials is censored at the timeout.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub censored: bool,
    /// Two regimes, if the trials fall into two clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regimes: Option<[deadheat_stats::Regime; 2]>,
    /// Bound on the part of the estimate that is of two hosts' clocks, in nanoseconds; absent if they are not in it. It
    /// stands beside the interval, never inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bound_ns: Option<u64>,
}

/// Share of the variance of one metric's logarithm that one source accounts for. The shares of a metric add up to
/// 1.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VarianceShare {
    /// Name of the metric.
    pub metric: String,
    /// Kind of the source.
    pub kind: ShareKind,
    /// Name of the source: of a factor, `transport`, `interactions`.
    pub factor: String,
    /// Share, less the expected noise in it.
    pub share: f64,
    /// Lower end of its interval; absent with too few blocks, and for the blocks themselves.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Share including the noise.
    pub raw: f64,
    /// Number of trials behind the share.
    pub trials: u64,
    /// Number of valid trials without a logarithm, because their figure is not above 0.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub left_out: u64,
    /// Number of blocks behind the share.
    pub blocks: u64,
    /// Ratios between levels; only for factors and contenders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelRatio>,
}

/// Source of variation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// Condition that was varied.
    Factor,
    /// The contenders.
    Contenders,
    /// Interactions: all factors and the contenders together, beyond their separate effects.
    Interactions,
    /// Changes from block to block.
    Blocks,
    /// Noise: trials under the same conditions in the same block.
    Noise,
}

/// Ratio of one level of a factor to another, all else equal.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelRatio {
    /// Level in the numerator.
    pub level: String,
    /// Level in the denominator.
    pub against: String,
    /// Ratio of the figures (Hodges–Lehmann).
    pub ratio: f64,
    /// Lower end of its interval; absent with too few blocks.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Number of blocks that have both levels.
    pub blocks: u64,
}

/// Verdict on two contenders under one metric.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Name of the metric.
    pub metric: String,
    /// Id of the first contender.
    pub a: usize,
    /// Id of the second contender.
    pub b: usize,
    /// Outcome of the comparison.
    pub outcome: deadheat_stats::Outcome,
    /// Id of the contender ahead.
    pub ahead: Option<usize>,
    /// Ratio of a to b; none for a verdict on differences whose clock bound reaches the margin.
    #[serialize_always]
    pub ratio: Option<Ratio>,
    /// Difference a − b in time that the verdict is about, if it is not about the ratio.
    pub difference: Option<TimeDifference>,
    /// Margin, as a fraction.
    pub margin: f64,
    /// Confidence level of the ratio's interval.
    pub confidence: f64,
    /// Number of blocks behind the verdict.
    pub blocks: u64,
    /// Number of blocks after which it was first known; absent while it is undecided, and in files of older versions.
    pub known_since: Option<u64>,
    /// Approximate number of further blocks needed, for `undecided` or to tell whether a lead exceeds the margin. Absent
    /// if no number would suffice.
    pub more_blocks: Option<u64>,
    /// Approximate time for these blocks on this machine, in nanoseconds.
    pub more_ns: Option<u64>,
    /// Id of the better contender if the interval excludes equality, regardless of the margin.
    pub direction: Option<usize>,
    /// Resolution: the difference that these blocks would have found with 80 % power, as a fraction. Absent with
    /// too few blocks, and in files of older versions.
    pub resolution: Option<f64>,
    /// Difference a − b, in the metric's unit, at the ratio's confidence level.
    pub effect: Option<Effect>,
    /// The verdict in a sentence.
    pub note: String,
}

/// Ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Estimate (Hodges–Lehmann).
    pub point: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ratio {
    /// Returns the ratio of b to a.
    pub fn inverse(self) -> Ratio {
        Ratio { point: 1.0 / self.point, low: 1.0 / self.high, high: 1.0 / self.low }
    }
}

/// Difference in time with its interval, in nanoseconds.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeDifference {
    /// Estimate (Hodges–Lehmann).
    pub point: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Margin.
    pub margin: f64,
    /// Difference that these blocks would have found with 80 % power; absent with too few blocks.
    pub resolution: Option<f64>,
    /// Bound on the clocks' part in each contender's figure, which cancels in the difference; absent on one clock.
    pub clock_bound: Option<u64>,
}

/// Difference with its interval, in the unit of its metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Estimate (Hodges–Lehmann).
    pub point: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Hidden A/A comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Copied contender.
    pub contender: usize,
    /// Verdicts, one for each claimed metric; `a` and `b` are the same id.
    pub verdicts: Vec<Verdict>,
    /// True if the race can be trusted.
    pub trusted: bool,
    /// Result in a sentence.
    pub note: String,
}

/// Difference in conditions between contenders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the difference: `framing`, `congestion control`, `far end`, `encryption`.
    pub what: String,
    /// Value by contender label.
    pub values: BTreeMap<String, String>,
    /// Reason why it matters, in a sentence.
    pub matters: String,
}

/// Warning to read before believing the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable identifier: `two_regimes`, `gate_failed`.
    pub code: String,
    /// Observation behind the warning.
    pub message: String,
    /// Advice on what to do.
    pub advice: String,
}

impl Warning {
    /// Creates a warning.
    pub fn new(code: &str, message: impl Into<String>, advice: impl Into<String>) -> Warning {
        Warning { code: code.to_owned(), message: message.into(), advice: advice.into() }
    }
}

/// Status of a race: running, or the reason for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Running: blocks are still to come, or the process was killed.
    #[default]
    Running,
    /// Decided: every claim has its verdict.
    Decided,
    /// The budget of time or blocks is spent.
    Budget,
    /// Interrupted by the user.
    Interrupted,
    /// Failed: the race could not continue.
    Failed,
}

impl Outcome {
    /// Returns true if the margin was widened by noise, as until 2026-11. Such a margin answers another question
    /// than the user's.
    pub fn margin_widened(&self) -> bool {
        self.asked.margin.is_none() && self.plan.margin > DEFAULT_MARGIN
    }

    /// Returns the contender at `row` of the request, by the label that it was given, or else as typed; the second and
    /// later copies of a specification get a number. Unlike a label of the result it has no conditions.
    pub fn contender(&self, row: usize) -> String {
        let asked = &self.asked.contenders;
        let Some(typed) = asked.get(row) else { return format!("contender {row}") };
        if let Ok(LabelledText { label: Some(label), .. }) = LabelledText::parse(typed) {
            return label;
        }
        match asked[..row].iter().filter(|other| *other == typed).count() {
            0 => typed.clone(),
            before => format!("{typed} #{}", before + 1),
        }
    }

    /// Returns the reason why a failed race could not continue.
    pub fn why_failed(&self) -> Option<&str> {
        if self.status != Status::Failed {
            return None;
        }
        let ends =
            |warning: &&Warning| warning.code.ends_with("_failed") && warning.code != GATE_FAILED;
        let why = self.warnings.iter().find(ends);
        Some(why.map_or("it could not go on", |warning| &warning.message))
    }
}

/// Code of the warning that some trials failed their gate, which ends no race.
pub const GATE_FAILED: &str = "gate_failed";

/// Code of the warning that a race ended because nearly all of its trials failed their gate.
pub const RACE_FAILED: &str = "race_failed";

/// Code of the warning that too many trials failed their gate.
pub const UNTRUSTED_GATE: &str = "gate_failed_too_often";

/// Code of the warning that a verdict depends on the trials that gates excluded.
pub const UNTRUSTED_EXCLUSIONS: &str = "exclusions_decide";

/// Code of the warning that a contender stays in a state of its own over several blocks.
pub const UNTRUSTED_STATE: &str = "own_state";

/// Default margin: a smaller difference is hardly a reason to change transports.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// Returns the number of complete blocks in `outcome`; incomplete ones are never saved.
pub fn blocks_done(outcome: &Outcome) -> u64 {
    let last = outcome.trials.iter().map(|trial| trial.block).max();
    last.map_or(0, |last| last.saturating_add(1))
}

//! The result of a race, as it is saved: format 1. `docs/result.schema.json` describes it and a test
//! holds the two together. Reports are made from this and from nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::explain::Explained;
use super::imported::Imported;
use super::path_ways::PathWay;
use crate::figures::Metric;
use crate::transport::Effective;
use crate::trial::host::HostFacts;
use crate::trial::placement::Placement;
use crate::trial::quiet::HostQuiet;
use crate::trial::{PathFacts, Record};

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// A race and all that came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The file format: 1.
    pub format: u32,
    /// The program that wrote it.
    pub deadheat: Program,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Labels given with `--label`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// The seed of order and impairments.
    pub seed: u64,
    /// What was asked; enough to run it again.
    pub asked: Asked,
    /// What was fixed before the first block.
    pub plan: Fixed,
    /// This host.
    pub host: HostFacts,
    /// The far host, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_host: Option<HostFacts>,
    /// What a probe of the near host found between blocks; absent in virtual time, and in results of before
    /// there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<HostQuiet>,
    /// The path.
    pub path: PathFacts,
    /// The metrics compared, claims first.
    pub metrics: Vec<Metric>,
    /// The conditions that were varied; absent where none were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
    /// The contenders, in a race over conditions each cell of it; the hidden control is not among
    /// them.
    pub contenders: Vec<Entrant>,
    /// Every trial, in the order run.
    pub trials: Vec<Trial>,
    /// One figure per contender and metric.
    pub summary: Vec<Summary>,
    /// What an emulated path did over all valid trials, by link and direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_ways: Vec<PathWay>,
    /// What each factor accounts for, in a race over conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// Where each contender has its knee, where an offered rate was varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<Sweep>,
    /// One verdict per claim.
    pub verdicts: Vec<Verdict>,
    /// The same claims on all trials that ran, where one contender lost more of them to gates than
    /// another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfiltered: Vec<Verdict>,
    /// The first contender against its hidden copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// What was not equal between contenders.
    pub differences: Vec<Difference>,
    /// What to know before believing it.
    pub warnings: Vec<Warning>,
    /// Where the time goes, from a second, instrumented pass; absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explained>,
    /// The files it was imported from; absent where deadheat measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// How it ended.
    pub status: Status,
}

/// A program and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
}

/// What the user asked for, as typed, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Contenders in order.
    pub contenders: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The path as typed: `loopback`, or what is emulated; absent with `to`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The remote host and port, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `4` or `6` where an address family was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<u8>,
    /// Blocks at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Time at most, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<u64>,
    /// The least time from the start of one block to that of the next, in nanoseconds, where one was
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ns: Option<u64>,
    /// The margin as a fraction, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// The resolution asked for, as a fraction, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<f64>,
    /// Whether contenders that the far kernel answers take part in claims, where that was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claims_all: bool,
    /// The confidence as a fraction.
    pub confidence: f64,
    /// The placement, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// `awake` or `host`: what idle CPUs were to do, where that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// What to vary, where anything was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Factor>,
    /// The time between two points of each trial's series, in nanoseconds, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// Whether an instrumented pass was to follow; absent where not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
}

/// What was fixed before the first block, so that no result could move it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fixed {
    /// The margin, as a fraction.
    pub margin: f64,
    /// Why it is that.
    pub margin_reason: String,
    /// The placement.
    pub placement: String,
    /// Why it is that.
    pub placement_reason: String,
    /// `awake` where idle CPUs were kept out of sleep states, `host` where they slept as the host lets
    /// them; absent where there were none, and in files of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// Blocks at most.
    pub blocks_max: u64,
    /// The looks: after how many blocks, at which error level.
    pub looks: Vec<crate::stats::Look>,
    /// Verdicts to give.
    pub claims: u64,
    /// The workload as each trial ran it, where the length of a trial was left to the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Why its trials are as long as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_reason: Option<String>,
    /// The number of blocks as it was estimated anew on the way, from the scatter alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replans: Vec<Replan>,
    /// How quantiles are defined.
    pub quantile_definition: String,
}

/// A new number of blocks, found half-way without a look at who leads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Replan {
    /// After how many blocks.
    pub after: u64,
    /// Blocks at most before.
    pub from: u64,
    /// Blocks at most since.
    pub to: u64,
    /// The scatter that it was estimated from: the standard deviation of the log-ratios of a block.
    pub scatter: f64,
}

/// One contender of the race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// Its index, from 0.
    pub id: usize,
    /// As typed.
    pub spec: String,
    /// A name that is unique in this race: `udp`, `udp #2`.
    pub label: String,
    /// The transport's id.
    pub transport: String,
    /// The transport's colour, `#rrggbb`.
    pub colour: String,
    /// Who implements it, as its trials found: `tcp/linux-6.18/cubic`.
    pub implementation: String,
    /// Knobs as asked, defaults included.
    pub asked: BTreeMap<String, String>,
    /// Options as read back, near end.
    pub effective: Effective,
    /// Options as read back, far end.
    #[serde(default, skip_serializing_if = "Effective::is_empty")]
    pub far_effective: Effective,
    /// Whether it is a reference row that takes no part in claims: the far kernel answers it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub floor: bool,
    /// Why it dropped out, with the evidence, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Why it cannot carry this work, if it cannot; then it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<String>,
    /// Which cell it is, in a race over conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
}

/// One contender under one combination of conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// The index of the level of each of `factors`.
    pub levels: Vec<usize>,
    /// The workload under these conditions.
    pub workload: String,
    /// The placement, where it is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Why it cannot run here, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<String>,
}

/// A condition that is varied, and over what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// A key of the workload, a knob, or `placement`.
    pub name: String,
    /// Its levels, as typed.
    pub levels: Vec<String>,
}

impl Entrant {
    /// Whether it runs: its packets get through, and its conditions are possible here.
    pub fn is_racing(&self) -> bool {
        self.out().is_none() && self.infeasible().is_none()
    }

    /// Why it is out of the race under any conditions, as a word and in full.
    pub fn out(&self) -> Option<(&'static str, &str)> {
        let blocked = self.blocked.as_deref().map(|evidence| ("blocked", evidence));
        blocked.or(self.not_applicable.as_deref().map(|why| ("not applicable", why)))
    }

    /// Whether a claim is made about it and another: both compete, under the same conditions.
    pub fn competes_with(&self, other: &Entrant) -> bool {
        !self.floor && !other.floor && self.meets(other)
    }

    /// Why its conditions are not possible here, if they are not.
    pub fn infeasible(&self) -> Option<&str> {
        self.cell.as_ref()?.infeasible.as_deref()
    }

    /// Whether it ran under the same conditions as another, so that the two can be compared.
    pub fn meets(&self, other: &Entrant) -> bool {
        match (&self.cell, &other.cell) {
            (Some(cell), Some(other)) => cell.levels == other.levels,
            (cell, other) => cell.is_none() && other.is_none(),
        }
    }
}

/// One trial of the race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its block, from 0.
    pub block: u64,
    /// Its place in the block, from 0; repeats of invalid trials come last.
    pub order: u64,
    /// The contender's id; the control carries the id of the contender it copies.
    pub contender: usize,
    /// Whether it is the hidden copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// Its figures.
    #[serde(flatten)]
    pub record: Record,
}

/// One contender's figure for one metric, over its valid trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The contender's id.
    pub contender: usize,
    /// The metric's name.
    pub metric: String,
    /// The median over trials.
    pub estimate: f64,
    /// The lower end of its interval (order statistics); absent with too few trials.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// Trials it stands on.
    pub trials: u64,
    /// Whether any of them is censored at the timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub censored: bool,
    /// Two regimes, where the trials fall into two clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regimes: Option<[crate::stats::Regime; 2]>,
}

/// What share of one metric's variation, of its logarithm, something accounts for. Those of a
/// metric add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The metric's name.
    pub metric: String,
    /// What kind of thing it is.
    pub kind: ShareKind,
    /// What it is: the name of a factor, `transport`, `interactions`.
    pub factor: String,
    /// The share, without the noise that is expected in it.
    pub share: f64,
    /// The lower end of its interval; absent with too few blocks, and for the blocks themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The share with the noise in it.
    pub raw: f64,
    /// Trials it stands on.
    pub trials: u64,
    /// Valid trials that had no figure above 0, which alone has a logarithm.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Blocks it stands on.
    pub blocks: u64,
    /// How the levels compare; only for factors and contenders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelRatio>,
}

/// What accounts for a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// A condition that was varied.
    Factor,
    /// The contenders.
    Contenders,
    /// All factors and the contenders together, beyond what each does on its own.
    Interactions,
    /// What changed from block to block.
    Blocks,
    /// Noise: trials under the same conditions in the same block.
    Noise,
}

/// One level of a factor against another, all else equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelRatio {
    /// The level.
    pub level: String,
    /// The one that it is compared with.
    pub against: String,
    /// The ratio of the figures (Hodges–Lehmann).
    pub ratio: f64,
    /// The lower end of its interval; absent with too few blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Blocks in which both were there.
    pub blocks: u64,
}

/// One contender under rising load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// The level of each other factor, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// Up to which offered load what is delivered follows it.
    pub knee: KneeAt,
    /// The lower end of its interval; absent with too few blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<KneeAt>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<KneeAt>,
    /// Blocks it stands on.
    pub blocks: u64,
}

/// A load, and on which side of it the knee is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KneeAt {
    /// On which side.
    pub place: KneePlace,
    /// The load, in application bits per second.
    pub bps: f64,
}

/// On which side of a load the knee is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneePlace {
    /// Below it, the lowest load.
    Below,
    /// At it.
    At,
    /// Above it, the highest load.
    Above,
}

pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What can be said of two contenders under one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The metric's name.
    pub metric: String,
    /// A contender's id.
    pub a: usize,
    /// Another's.
    pub b: usize,
    /// The verdict.
    pub outcome: crate::stats::Outcome,
    /// The id of the one ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// a over b.
    pub ratio: Option<Ratio>,
    /// The margin, as a fraction.
    pub margin: f64,
    /// The level of the ratio's interval.
    pub confidence: f64,
    /// Blocks it stands on.
    pub blocks: u64,
    /// About how many more it would take; only for `undecided`. Absent there: no number would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_blocks: Option<u64>,
    /// About how much longer that takes on this machine, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_ns: Option<u64>,
    /// The id of the better one where the interval leaves out equality, whatever the margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<usize>,
    /// The difference that these blocks would have found with 80 % power, as a fraction. Absent with
    /// too few blocks, and in files of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// a less b, in the metric's unit, at the level of the ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The verdict in a sentence.
    pub note: String,
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate (Hodges–Lehmann).
    pub point: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Ratio {
    /// b over a.
    pub fn inverse(self) -> Ratio {
        Ratio { point: 1.0 / self.point, low: 1.0 / self.high, high: 1.0 / self.low }
    }
}

/// A difference with its interval, in the unit of its metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The estimate (Hodges–Lehmann).
    pub point: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The hidden A/A comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The contender that was copied.
    pub contender: usize,
    /// One verdict per claimed metric; `a` and `b` are the same id.
    pub verdicts: Vec<Verdict>,
    /// Whether the race can be trusted.
    pub trusted: bool,
    /// That in a sentence.
    pub note: String,
}

/// Something that was not equal between contenders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What: `framing`, `congestion control`, `far end`, `encryption`.
    pub what: String,
    /// Its value by contender label.
    pub values: BTreeMap<String, String>,
    /// Why it matters, in a sentence.
    pub matters: String,
}

/// Something to know before believing the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable word for it: `two_regimes`, `gate_failed`.
    pub code: String,
    /// What was seen.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// How a race ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Blocks are still to come, or the process was killed.
    Running,
    /// Every claim is decided.
    Decided,
    /// The budget of time or blocks is spent.
    Budget,
    /// The user stopped it.
    Interrupted,
    /// It could not go on.
    Failed,
}

impl Outcome {
    /// Whether the margin grew with the noise, as the rule was until 2026-11: it asks another
    /// question than its user did.
    pub fn margin_widened(&self) -> bool {
        self.asked.margin.is_none() && self.plan.margin > super::plan::DEFAULT_MARGIN
    }

    /// The contender at `row` of those asked for, as typed, with a number from the second of the
    /// same on. Unlike a label it names no conditions.
    pub fn contender(&self, row: usize) -> String {
        let asked = &self.asked.contenders;
        let Some(typed) = asked.get(row) else { return format!("contender {row}") };
        match asked[..row].iter().filter(|other| *other == typed).count() {
            0 => typed.clone(),
            before => format!("{typed} #{}", before + 1),
        }
    }

    /// Whether the race ran and its control and gates let it be trusted.
    pub fn trusted(&self) -> bool {
        self.control.as_ref().is_none_or(|control| control.trusted)
            && !self.warnings.iter().any(|warning| {
                [UNTRUSTED_GATE, UNTRUSTED_EXCLUSIONS].contains(&warning.code.as_str())
            })
    }

    /// Why a race that failed could not go on.
    pub fn why_failed(&self) -> Option<&str> {
        if self.status != Status::Failed {
            return None;
        }
        let why = self.warnings.iter().find(|warning| warning.code.ends_with("_failed"));
        Some(why.map_or("it could not go on", |warning| &warning.message))
    }
}

/// The code of the warning that too many trials failed their gate.
pub const UNTRUSTED_GATE: &str = "gate_failed_too_often";

/// The code of the warning that a verdict hangs on the trials that gates excluded.
pub const UNTRUSTED_EXCLUSIONS: &str = "exclusions_decide";

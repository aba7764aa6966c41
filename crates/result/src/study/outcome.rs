//! Results of a study: format 1 of `study.json`, beside the results of its races.

use serde::{Deserialize, Serialize};

use super::model::{PublishedFigure, RaceCell, Study, Test};
use crate::outcome::Program;

/// File format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// Complete or partial run of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyRun {
    /// File format: 1.
    pub study_format: u32,
    /// Program that wrote the file.
    pub deadheat: Program,
    /// Name of the study: its file name without the extension.
    pub name: String,
    /// The whole study as requested.
    pub study: Study,
    /// Setting of the run.
    pub setting: Setting,
    /// Ids of races that ran in full in a quick run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<String>,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// The host's name.
    pub host: String,
    /// State of each race, in the order of the study.
    pub races: Vec<RaceRun>,
    /// Published figures beside measured ones.
    pub beside: Vec<PublishedComparison>,
    /// Ruling on each claim, in the order of the study.
    pub rulings: Vec<ClaimRuling>,
}

impl StudyRun {
    /// Returns the setting in words: `quick setting (in full: by-placement)`.
    pub fn thoroughness(&self) -> String {
        let word = self.setting.word();
        match &self.full[..] {
            [] => format!("{word} setting"),
            full => format!("{word} setting (in full: {})", full.join(", ")),
        }
    }
}

/// Setting at which a study is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Every race as the study defines it.
    Full,
    /// Every race with its replacements for a quick look.
    Quick,
}

impl Setting {
    /// Returns `full` or `quick`.
    pub fn word(self) -> &'static str {
        match self {
            Setting::Full => "full",
            Setting::Quick => "quick",
        }
    }
}

/// State of one race of a study.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaceRun {
    /// Id of the race in the study.
    pub id: String,
    /// File of its result, beside the study's; absent if the race did not run.
    pub file: Option<String>,
    /// Reason why the race did not run, or did not complete.
    pub why_not: Option<String>,
    /// True if the race is trusted.
    pub trusted: bool,
}

/// Published figure beside the measured one. Machines differ, so compare the ratios to the first figure
/// of the same race and metric that is above 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedComparison {
    /// Published figure.
    pub published: PublishedFigure,
    /// Published value, in the metric's unit.
    pub value: f64,
    /// Measured value: the median over trials; absent if there is none.
    pub measured: Option<EstimateInterval>,
    /// Ratio of the published value to the first published figure of this race and metric that is above
    /// 0; 1 if none is.
    pub published_ratio: f64,
    /// Ratio of the measured values, likewise, block by block.
    pub measured_ratio: Option<EstimateInterval>,
    /// Rank among the published figures of this race and metric, from 1, the best first.
    pub published_rank: u64,
    /// Rank among the measured figures.
    pub measured_rank: Option<u64>,
}

/// Estimate with its interval; ends are absent with too few blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EstimateInterval {
    /// The estimate.
    pub point: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// Ruling on a claim, with the answers behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRuling {
    /// Id of the claim in the study.
    pub id: String,
    /// Ruling on the claim.
    pub ruling: Ruling,
    /// Answers of its tests, in their order.
    pub answers: Vec<TestAnswer>,
    /// The ruling in a sentence, with the numbers.
    pub note: String,
}

/// Ruling on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// All of its tests answer yes.
    Holds,
    /// All of its tests answer yes, at least half of them with more than the claim says.
    Exceeds,
    /// All of its tests answer no.
    DoesNotHold,
    /// More than half of its tests answer no, but not all.
    MostlyContradicted,
    /// Some of its tests answer yes, and at most half answer no.
    Depends,
    /// The measurements do not settle the claim.
    Open,
}

/// Answer to a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestAnswer {
    /// The test.
    pub test: Test,
    /// Answer to the test.
    pub answer: AnswerKind,
    /// Figure or ratio; absent if there is no measurement.
    pub seen: Option<EstimateInterval>,
    /// Number of blocks behind the figure or ratio.
    pub blocks: u64,
    /// Confidence level of the interval: with all comparisons of the study on that race it holds jointly
    /// at 95 %. Absent where too few trials have an interval; for agreement their range stands in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// Answer to a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// The whole interval is in the claimed range.
    Yes,
    /// The whole interval is beyond the claimed range, in the direction of the claim.
    More,
    /// No part of the interval is in the claimed range.
    No,
    /// Part of the interval is in the range, there is no interval, or the race is not trusted.
    Open,
    /// The setting omits the test's condition, or is too short for it, so the test does not count.
    LeftOut,
}

impl RaceCell {
    /// Returns the contender followed by its levels: `udp (size=64)`.
    pub fn text(&self) -> String {
        if self.levels.is_empty() {
            return self.contender.clone();
        }
        let levels: Vec<String> =
            self.levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
        format!("{} ({})", self.contender, levels.join(", "))
    }
}

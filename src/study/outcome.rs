//! What came of a study: format 1 of `study.json`, beside the results of its races.

use serde::{Deserialize, Serialize};

use super::model::{Cell, Published, Study, Test};
use crate::race::outcome::Program;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// A study that was run, wholly or in part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyRun {
    /// The file format: 1.
    pub study_format: u32,
    /// The program that wrote it.
    pub deadheat: Program,
    /// The study's name: its file's, without the ending.
    pub name: String,
    /// What was asked, all of it.
    pub study: Study,
    /// At which setting.
    pub setting: Setting,
    /// Races that ran in full although the others were quick.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<String>,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// The host's name.
    pub host: String,
    /// What became of each race, in the order of the study.
    pub races: Vec<RaceRun>,
    /// Published figures beside measured ones.
    pub beside: Vec<Beside>,
    /// What can be said of each claim, in the order of the study.
    pub rulings: Vec<ClaimRuling>,
}

impl StudyRun {
    /// How thoroughly it is run, in words: `quick setting (in full: by-placement)`.
    pub fn thoroughness(&self) -> String {
        let word = self.setting.word();
        match &self.full[..] {
            [] => format!("{word} setting"),
            full => format!("{word} setting (in full: {})", full.join(", ")),
        }
    }
}

/// How thoroughly a study is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// As the study says.
    Full,
    /// With what its races replace for a quick look.
    Quick,
}

/// One race of a study that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaceRun {
    /// Its id in the study.
    pub id: String,
    /// The file of its result, beside the study's; absent where it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Why it did not run, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Whether it can be trusted.
    pub trusted: bool,
}

/// A published figure beside what was measured. Machines differ, so the ratios to the first figure
/// of the same race and metric that is above 0 are what compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// What was published.
    pub published: Published,
    /// That, in the metric's unit.
    pub value: f64,
    /// Measured here: the median over trials; absent where there is none.
    pub measured: Option<Interval>,
    /// Published, over the first published figure of this race and metric that is above 0; 1 where
    /// none is.
    pub published_ratio: f64,
    /// Measured, likewise, block by block.
    pub measured_ratio: Option<Interval>,
    /// Its place among the published figures of this race and metric, from 1, the best first.
    pub published_rank: u64,
    /// Its place among those measured.
    pub measured_rank: Option<u64>,
}

/// An estimate with its interval; ends are absent with too few blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub point: f64,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// What can be said of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRuling {
    /// Its id in the study.
    pub id: String,
    /// What can be said.
    pub ruling: Ruling,
    /// What each of its tests answered, in their order.
    pub answers: Vec<TestAnswer>,
    /// That in a sentence, with the numbers.
    pub note: String,
}

/// What can be said of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// All of its tests answer yes.
    Holds,
    /// All of them answer yes, at least half of them with more than the claim says.
    Exceeds,
    /// All of them answer no.
    DoesNotHold,
    /// More than half of them answer no, and not all.
    MostlyContradicted,
    /// Some answer yes and others no, at most half.
    Depends,
    /// What was measured does not tell.
    Open,
}

/// What a test answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestAnswer {
    /// The test.
    pub test: Test,
    /// Its answer.
    pub answer: Answer,
    /// The figure or ratio; absent where nothing was measured.
    pub seen: Option<Interval>,
    /// Blocks it stands on.
    pub blocks: u64,
    /// The level of the interval: with those of all comparisons of the study on that race it holds at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The whole interval is where it should be.
    Yes,
    /// All of it is beyond where it should be, in the direction that the claim says.
    More,
    /// None of it is.
    No,
    /// It is partly, there is none, or the race is not trusted.
    Open,
    /// The setting leaves its condition out, or is too short for it, so it has no say.
    LeftOut,
}

impl Cell {
    /// The contender, and the levels behind it: `udp (size=64)`.
    pub fn text(&self) -> String {
        if self.levels.is_empty() {
            return self.contender.clone();
        }
        let levels: Vec<String> =
            self.levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
        format!("{} ({})", self.contender, levels.join(", "))
    }
}

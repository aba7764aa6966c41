//! Plain data of a study file, `studies/NAME.toml`. Unknown keys are refused. `docs/studies.md` explains each key
//! with an example.

use deadheat_base::unset::is_unset;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Study: the races of one question, figures that others published about it, and claims to judge.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Title in one line.
    pub title: String,
    /// Question in one sentence that ends in a question mark.
    pub question: String,
    /// Description of the experiment, its flaws, and their remedies: paragraphs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Source of the published figures; absent if nothing was published.
    pub source: Option<Source>,
    /// Number of redesigns and runs; absent if they were not counted.
    pub history: Option<AttemptHistory>,
    /// Quantity on the horizontal axis of a drawing of its published figures; absent without one.
    pub over: Option<String>,
    /// Races to run, in this order.
    #[serde(rename = "race")]
    pub races: Vec<RacePlan>,
    /// Published figures to compare with the measured ones.
    #[serde(default, rename = "published", skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedFigure>,
    /// Claims to judge.
    #[serde(default, rename = "claim", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Author's name.
    pub author: String,
    /// Title of the publication.
    pub title: String,
    /// Year of publication.
    pub year: u16,
    /// Address without its scheme, or the name of a journal.
    pub at: String,
    /// Host on which the published figures were measured, according to the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// Number of redesigns and runs of a study, as far as its repository shows. With enough attempts, chance alone
/// gives a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptHistory {
    /// Number of versions of its races or claims after the first.
    pub designed_anew: u64,
    /// Number of runs on all machines, including the published ones.
    pub runs: u64,
    /// Remarks on these counts, such as claims that were restated after figures were known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Fidelity of a race to the published experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// The experiment as published, including its flaws.
    AsPublished,
    /// The experiment with its flaws removed.
    DoneRight,
    /// Experiment that the authors suggested, or that is needed to settle a claim.
    Beyond,
}

/// Race of a study, in the terms of `deadheat race`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RacePlan {
    /// Name that is unique in its study and fit for a file name: lower case, digits and dashes.
    pub id: String,
    /// Fidelity to the published experiment.
    pub variant: Variant,
    /// Purpose of the race, in one sentence.
    pub about: String,
    /// Flaws of the race (as published), or the corrections made to it (done right), one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<String>,
    /// The contenders.
    pub contenders: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The path; loopback if absent.
    pub path: Option<String>,
    /// The placement; chosen as in any race if absent.
    pub placement: Option<String>,
    /// Conditions to vary, with their levels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
    /// Maximum number of blocks.
    pub blocks: Option<u64>,
    /// Maximum duration: `5m`.
    pub budget: Option<String>,
    /// The margin: `5%`.
    pub margin: Option<String>,
    /// Minimum time from the start of one block to the start of the next: `10m`.
    pub every: Option<String>,
    /// True if all blocks run, whatever they decide.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub all_blocks: bool,
    /// True if options that are not typed stay at each implementation's own default.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub as_deployed: bool,
    /// True if an instrumented pass follows.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub explain: bool,
    /// Values that the quick setting replaces.
    #[serde(default, skip_serializing_if = "QuickSetting::is_empty")]
    pub quick: QuickSetting,
}

/// Values of a race that the quick setting of a study replaces.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuickSetting {
    /// The workload.
    pub workload: Option<String>,
    /// The path.
    pub path: Option<String>,
    /// Maximum number of blocks.
    pub blocks: Option<u64>,
    /// Maximum duration.
    pub budget: Option<String>,
    /// Minimum time from the start of one block to the start of the next.
    pub every: Option<String>,
    /// Replaced levels of conditions; other conditions retain theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
}

impl QuickSetting {
    fn is_empty(&self) -> bool {
        *self == QuickSetting::default()
    }
}

/// Cell of a race: a contender under one level of each varied condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaceCell {
    /// Contender, as typed in its race.
    pub contender: String,
    /// Level of each condition that the race varies, as typed.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, String>,
}

/// Published figure.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// Race with the same quantity.
    pub race: String,
    /// Metric for the same quantity: `rtt_p50_ns`.
    pub metric: String,
    /// Cell of the figure.
    pub cell: RaceCell,
    /// Figure with the metric's kind of unit: `310us`, `0.634MB/s`, `20.93%`.
    pub value: String,
    /// Standard deviation of the figure; absent if none was published.
    pub stddev: Option<String>,
    /// Least and greatest figure of its trials: `1.7mbit..2.06mbit`; absent if they were not published.
    pub range: Option<String>,
    /// Place of the figure on the horizontal axis of the study's drawing; absent if it is not drawn.
    pub at: Option<f64>,
    /// Name of its line there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// Remarks on the figure: `the mean`, `one run`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Claim to judge.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name that is unique in its study: lower case, digits and dashes.
    pub id: String,
    /// The claim, in our own words, as a sentence.
    pub says: String,
    /// Author of the claim; absent if it is the study's source.
    pub by: Option<String>,
    /// Condition that decides the claim if the tests disagree: `the call size`.
    pub depends_on: Option<String>,
    /// Reason why no measurement of this study can settle the claim; it then has no tests.
    pub open_because: Option<String>,
    /// Published figures that the measured ones must agree with; the claim then has no tests of its own.
    pub agree: Option<ClaimedAgreement>,
    /// Tests that answer yes if the claim holds. At least one, unless it is open for a reason or is about agreement.
    #[serde(default, rename = "test", skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<Test>,
}

/// Agreement of measured figures with published ones, as a claim.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedAgreement {
    /// Part of a published figure that a measured one may differ by: `10%`. Where its trials range further, all of
    /// their range agrees.
    pub within: String,
    /// Least number of figures that agree.
    pub at_least: Option<u64>,
    /// Least share of the pairs of figures that are in the published order: `95%`. Pairs that agree with each other
    /// as published do not count.
    pub in_order: Option<String>,
    /// Races whose published figures count; all if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub races: Vec<String>,
}

/// Property of a metric under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestSubject {
    /// Value of the metric.
    #[default]
    Level,
    /// Scatter from block to block, relative to the metric's value; always compares two cells.
    Spread,
}

impl TestSubject {
    fn is_level(&self) -> bool {
        *self == TestSubject::Level
    }
}

/// Setting needed for a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeededSetting {
    /// Any setting.
    #[default]
    Any,
    /// Full setting: the question depends on its length.
    Full,
}

impl NeededSetting {
    fn is_any(&self) -> bool {
        *self == NeededSetting::Any
    }
}

/// Test of a claim: is a figure, or the ratio of two, in the claimed range? An interval over blocks gives the
/// answer: `yes` if all of it is in the range, `no` if none of it is.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The race.
    pub race: String,
    /// The metric.
    pub metric: String,
    /// Property of the metric under test.
    #[serde(default, skip_serializing_if = "TestSubject::is_level")]
    pub look: TestSubject,
    /// Setting needed to answer the test.
    #[serde(default, skip_serializing_if = "NeededSetting::is_any")]
    pub needs: NeededSetting,
    /// Packets that the path must have lost or blocked in at least half of the trials under test, or their fault hit
    /// nothing and the test is open. Absent: 1 where the path names such a fault, else 0.
    pub if_lost: Option<u64>,
    /// Circumstances of the test, for the sentence: `on one core`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub given: String,
    /// Cell under test.
    pub of: RaceCell,
    /// Cell to compare with; the test is then about the ratio `of` over `against`, block by block.
    pub against: Option<RaceCell>,
    /// Claimed range: `below 0.95`, `above 2`, `0.9..1.1`, `1.2..1.5 or more` (a claim of a size, which
    /// can be exceeded), or `within the margin` (around 1, with the race's margin). A figure without
    /// `against` takes the metric's unit: `below 1%`, `0..40us`.
    pub expect: String,
}

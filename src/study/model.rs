//! What a study file holds, as plain data: `studies/NAME.toml` in the form below. Unknown keys are
//! refused. `docs/studies.md` explains each key with an example.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Races of one question, what others published about it, and what was claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// One line.
    pub title: String,
    /// The question, in a sentence that ends in a question mark.
    pub question: String,
    /// What the experiment was, what is wrong with it, and what is done about it: paragraphs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Where the published figures come from; absent where nothing was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// How often it was designed anew and run; absent where nobody kept count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// What is measured, in this order.
    #[serde(rename = "race")]
    pub races: Vec<RacePlan>,
    /// Figures to set beside the measured ones.
    #[serde(default, rename = "published", skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// What was claimed, to be judged.
    #[serde(default, rename = "claim", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Who wrote it.
    pub author: String,
    /// Its title.
    pub title: String,
    /// When, as a year.
    pub year: u16,
    /// Where it can be found: an address without its scheme, or a journal.
    pub at: String,
    /// On what it was measured, as far as it says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// How often a study was designed anew and run, as far as its repository tells: whoever tries often
/// enough finds something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Versions of its races or claims after the first.
    pub designed_anew: u64,
    /// Runs on all machines, those that are kept among them.
    pub runs: u64,
    /// What must be known of that: which claims were restated after figures were seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// How true a race is to what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// As it was published, flaws and all.
    AsPublished,
    /// With its flaws removed.
    DoneRight,
    /// What its authors wished for, or what it takes to settle a claim.
    Beyond,
}

/// One race of a study, in the words of `deadheat race`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RacePlan {
    /// A name that is unique in its study, fit for a file name: lower case, digits and dashes.
    pub id: String,
    /// How true it is to what was published.
    pub variant: Variant,
    /// What it shows, in a sentence.
    pub about: String,
    /// What is wrong with it (as published), or what was put right (done right), a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<String>,
    /// The contenders.
    pub contenders: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The path; loopback where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The placement; chosen as in any race where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Conditions to vary, with their levels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
    /// Blocks at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Time at most: `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// The margin: `5%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<String>,
    /// The time from the start of one block to that of the next, at least: `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Whether an instrumented pass follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// What the quick setting replaces.
    #[serde(default, skip_serializing_if = "Quick::is_empty")]
    pub quick: Quick,
}

/// What the quick setting of a study replaces in a race.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// The workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Blocks at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Time at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// The time from block to block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The levels of conditions; those of others stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
}

impl Quick {
    fn is_empty(&self) -> bool {
        *self == Quick::default()
    }
}

/// Which contender of which race, under which levels of what was varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The contender, as typed in its race.
    pub contender: String,
    /// The level of each condition that its race varies, as typed.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, String>,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The race that measures the same.
    pub race: String,
    /// The metric that is the same: `rtt_p50_ns`.
    pub metric: String,
    /// What it is a figure of.
    pub cell: Cell,
    /// The figure with its unit, as in the metric's: `310us`, `0.634MB/s`, `20.93%`.
    pub value: String,
    /// Its standard deviation, where one was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<String>,
    /// What must be known of it: `the mean`, `one run`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Something that was claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// A name that is unique in its study: lower case, digits and dashes.
    pub id: String,
    /// The claim, in our own words, as a sentence.
    pub says: String,
    /// Who claims it; absent where it is the study's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What it comes down to where the tests do not agree: `the call size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<String>,
    /// Why no measurement of this study can settle it; then it has no tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_because: Option<String>,
    /// What holds where the claim does. At least one, unless it is open for a reason.
    #[serde(default, rename = "test", skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<Test>,
}

/// What of a metric a test looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// How large it is.
    #[default]
    Level,
    /// How much it scatters from block to block, relative to itself; always one against another.
    Spread,
}

impl Look {
    fn is_level(&self) -> bool {
        *self == Look::Level
    }
}

/// What it takes to answer a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Any setting.
    #[default]
    Any,
    /// The full setting: what is asked is about its length.
    Full,
}

impl Needs {
    fn is_any(&self) -> bool {
        *self == Needs::Any
    }
}

/// A question to the measurements that has one answer: is a figure, or the ratio of two, where the
/// claim says? Answered by an interval over blocks: `yes` where all of it is, `no` where none is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The race.
    pub race: String,
    /// The metric.
    pub metric: String,
    /// What of the metric is looked at.
    #[serde(default, skip_serializing_if = "Look::is_level")]
    pub look: Look,
    /// What it takes to answer it.
    #[serde(default, skip_serializing_if = "Needs::is_any")]
    pub needs: Needs,
    /// Under which circumstances this test asks, for the sentence: `on one core`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub given: String,
    /// What is looked at.
    pub of: Cell,
    /// What it is set against: the test is then of the ratio `of` over `against`, block by block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Cell>,
    /// Where it should be: `below 0.95`, `above 2`, `0.9..1.1`, `1.2..1.5 or more` (a claim of a size,
    /// which can be exceeded), or `within the margin` (of 1, as that race has it). A figure without `against` takes the metric's unit: `below 1%`, `0..40us`.
    pub expect: String,
}

//! Contenders beside a load at one bottleneck, as they are saved.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Contender beside a load at one bottleneck: its share of it, and the harm to it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// Contender, or its cell, by id.
    pub contender: usize,
    /// Load beside it, as it would be typed on its own.
    pub load: String,
    /// Flows of the contender over the flows of both, 0 to 1; absent without `share`.
    pub fair_share: Option<f64>,
    /// Share of the contender in the goodput of both while both send, 0 to 1; absent for work that is no bulk data.
    pub share: Option<Portion>,
    /// Median over trials of the share of each flow in the goodput of all, the contender's flows before the load's; empty
    /// without `share`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_shares: Vec<f64>,
    /// Ruling on that share: `dead_heat` where it is fair within the margin, `ahead` where it is not. Absent for the pairs
    /// of a matrix, on which `verdicts` rule, and without `share`.
    pub outcome: Option<deadheat_stats::Outcome>,
    /// Harm to each claimed figure, in a race that has the contender without a load, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harms: Vec<Harm>,
    /// Median over trials of the median time of packets in the queue of the busiest link and direction, in nanoseconds.
    pub queued_ns: Option<f64>,
    /// Share of the packets that this queue dropped.
    pub dropped_share: Option<f64>,
    /// Share of the packets that this queue marked; absent without marks.
    pub marked_share: Option<f64>,
    /// Number of blocks.
    pub blocks: u64,
}

/// Harm to a figure: the part that a load takes of it. It is (alone − beside) / alone where higher is better, and
/// (beside − alone) / beside where lower is better (Ware et al., HotNets 2019); below 0 where the load improves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Harm {
    /// Name of the figure.
    pub metric: String,
    /// Harm, with its interval at the race's confidence.
    #[serde(flatten)]
    pub portion: Portion,
}

/// Part of a whole, with its interval.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// Estimate, from the Hodges–Lehmann estimate over blocks.
    pub point: f64,
    /// Lower end of the interval; absent with too few blocks.
    pub low: Option<f64>,
    /// Upper end of the interval; absent with too few blocks.
    pub high: Option<f64>,
}

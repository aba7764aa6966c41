//! Knees of contenders under rising load, as they are saved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Knee of one contender under rising load.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// Level of each other factor, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// Knee: the highest offered load up to which delivery follows it.
    pub knee: KneeAt,
    /// Lower end of its interval; absent with too few blocks.
    pub low: Option<KneeAt>,
    /// Upper end of its interval.
    pub high: Option<KneeAt>,
    /// Number of blocks behind the knee.
    pub blocks: u64,
}

/// Position of the knee relative to a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KneeAt {
    /// Side of the load.
    pub place: KneePlace,
    /// Load, in application bits per second.
    pub bps: f64,
}

/// Side of a load on which the knee is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneePlace {
    /// Below the lowest load.
    Below,
    /// At the load.
    At,
    /// Above the highest load.
    Above,
}

#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | question |
//! |---|---|
//! | [`sequential`] | after which blocks are the looks, and how much error does each look spend? |
//! | [`verdict`] | given the log-ratios so far, is it `ahead`, `dead_heat` or `undecided`? |
//! | `agreement` | does a ruling by ranks also hold for the mean and for the medians? |
//! | [`eprocess`] | which rulings are valid after any block, with any number of looks? |
//! | [`planning`] | which difference does a number of blocks find, and how many blocks find a difference? |
//! | [`mod@components`] | how long should a trial be? |
//! | [`serial`] | how much wider is an interval because neighbouring blocks are alike? |
//! | [`fn@persistence`] | does a contender stay in a state of its own for several blocks? |
//! | [`signed_rank`] | paired blocks: estimate, interval and p-value |
//! | [`mann_whitney`] | two saved races: the same three for independent samples |
//! | [`runs`] | several runs of an old and a new version: is the change larger than the differences between runs? |
//! | [`mod@changes`] | a race run again and again: where does its level change? |
//! | [`mod@regimes`] | do the trials fall into two clusters that one figure would hide? |
//! | [`variance`] | of several factors varied at once, how much does each account for? |
//! | [`spread`] | does one scatter more from block to block than another? |
//! | [`mod@knee`] | up to which load does the delivered load follow the offered load? |
//! | [`fn@aligned_ranks`] | does the place in a block make a difference? |
//! | [`quantile`] | percentiles, their definition, and when one may be printed |
//! | [`fn@pooled_quantile`] | a percentile of all trials together, too rare for a single trial |
//!
//! The replicate is the block, never the packet: everything here works on one figure per trial or one log-ratio per
//! block. Ranks are used throughout because trials have outliers that must not be deleted; with fresh processes in
//! random order, identical contenders are exchangeable within a block, so the signed-rank test is exact for them
//! whatever the noise looks like.
//!
//! Everything is pure: no I/O, no clock, no global state. A sample that is too small, empty or
//! not finite gives `None`, never a panic and never a NaN.

use serde::{Deserialize, Serialize};

mod agreement;
mod aligned_ranks;
pub mod changes;
pub mod components;
pub mod eprocess;
mod estimate;
mod exact;
mod factorial;
pub mod knee;
pub mod mann_whitney;
mod normal;
mod persistence;
pub mod planning;
mod pooled_quantile;
pub mod quantile;
pub mod regimes;
pub mod rng;
pub mod runs;
mod selection;
pub mod sequential;
pub mod serial;
pub mod signed_rank;
pub mod spread;
mod student;
pub mod variance;
pub mod verdict;

pub use agreement::Disagreement;
pub use aligned_ranks::aligned_ranks;
pub use components::{Components, best_length, components};
pub use estimate::{Estimate, Slack};
pub use exact::fisher;
pub use factorial::Observation;
pub use knee::{Knee, knee};
pub use persistence::{Persistence, persistence};
pub use planning::{REASONABLE_BLOCKS, blocks_for, resolution, scatter};
pub use pooled_quantile::pooled_quantile;
pub use regimes::{Regime, regimes};
pub use sequential::{Look, Plan};
pub use signed_rank::Tail;
pub use verdict::{Claim, Missing, Outcome, Ruling, Scale, Winner, rule, rule_any_time};

/// Direction of better figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Lower is better, as for latency.
    Lower,
    /// Higher is better, as for goodput.
    Higher,
}

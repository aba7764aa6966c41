//! Statements of a far end on each message that it sent back, summed up: its times, and its counts.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Distribution;
use super::clock::Echo;

/// Sums of the far end's statements on the messages that it sent back.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FarView {
    /// Delays from when a message was due until the far end had it.
    pub up: Option<DelaySums>,
    /// Delays from when the far end sent an answer until it was here.
    pub down: Option<DelaySums>,
    /// Round trips without the time that the far end took.
    pub on_path: Option<DelaySums>,
    /// Messages by the way on which they were lost; absent if the far end does not count, or its counts leave it open.
    pub split: Option<LossSplit>,
    /// Fastest echoes of stretches of the trial, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub echoes: Vec<Echo>,
    /// Largest error of its time of day by its own estimate, in microseconds; absent without one.
    pub clock_error_us: Option<u32>,
    /// True if a far end of others sent messages back without their content, which was made anew here.
    #[serde(default, skip_serializing_if = "deadheat_base::unset::is_unset")]
    pub is_remade: bool,
}

/// Delays from one clock to another one: nanoseconds, with the unknown offset between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DelaySums {
    /// Shortest delay.
    pub least_ns: i64,
    /// Delays above it.
    pub above: Distribution,
}

impl DelaySums {
    /// Returns the median, after `offset_ns` is taken away; `None` with too few delays. None is negative: clocks that are
    /// a little apart make a short delay 0.
    pub fn median_ns(&self, offset_ns: i64) -> Option<f64> {
        let above = self.above.p50?.at_least_ns();
        let median = self.least_ns.saturating_add_unsigned(above).saturating_sub(offset_ns);
        Some(median.max(0) as f64)
    }
}

/// Messages that arrived at the far end, by its own counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LossSplit {
    /// Messages that arrived there, each once.
    pub arrived: u64,
    /// Copies of them that arrived there.
    pub duplicates: u64,
}

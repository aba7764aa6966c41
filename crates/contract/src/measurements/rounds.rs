//! Bytes by round trip at a receiver: the data that a sender gave out before it waited.

use serde::{Deserialize, Serialize};

/// Bursts of bulk data at a receiver. A burst ends with the first silence of a quarter of the round trip that is a round
/// trip after its first byte. A sender that may have so many bytes under way, and no more, sends one burst of this size
/// in each round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rounds {
    /// Least round trip by the connection's own count, in nanoseconds.
    pub rtt_ns: u64,
    /// Number of bursts behind the three quantiles: the last ones of the flow.
    pub n: u64,
    /// 10th percentile of the bytes in a burst.
    pub p10_bytes: u64,
    /// Median of them.
    pub p50_bytes: u64,
    /// 90th percentile of them.
    pub p90_bytes: u64,
    /// Time of the silences, in nanoseconds.
    pub silent_ns: u64,
    /// Time from the first to the last arrival, in nanoseconds.
    pub span_ns: u64,
}

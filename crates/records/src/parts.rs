//! Parts of a round trip with their times, as an explained race has them.

use serde::{Deserialize, Serialize};

/// Part of a round trip; variants are in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Near end's sending call, until the packet is scheduled: into the kernel, socket, protocol.
    NearCall,
    /// Near queueing discipline: from scheduling until the driver has the packet.
    NearStack,
    /// Whole way there, without stamps: from the near application's call until the far application has it.
    ThereUnsplit,
    /// Path from the near driver to the far one.
    There,
    /// Far receive path, from the driver until the application has the message: protocol, socket, wake-up.
    FarWake,
    /// Far application, its thinking time included.
    FarApplication,
    /// Far end's sending call, until the packet is scheduled.
    FarCall,
    /// Far queueing discipline: from scheduling until the driver has the packet.
    FarStack,
    /// Path from the far driver to the near one.
    Back,
    /// Path there and back together, if the ends have two clocks.
    BothWays,
    /// Path there, the far kernel's answer, and the path back.
    FarKernel,
    /// Whole way back, without stamps: from the far application's call until the near application has it.
    BackUnsplit,
    /// Whole way there and back, from call to application, without stamps and without a common clock.
    BothUnsplit,
    /// Near receive path, from the driver until the application has the answer.
    NearWake,
}

/// Relation of the clocks of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clocks {
    /// Same clock: one kernel runs both ends.
    Same,
    /// Separate clocks, of two hosts.
    Apart,
}

/// Parts of a round trip, with their times.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Number of round trips that it is based on.
    pub messages: u64,
    /// Number of rows that lacked a moment.
    pub incomplete: u64,
    /// Median time from the near application's call until it has the answer.
    pub total_ns: f64,
    /// Parts in order.
    pub parts: Vec<PartTime>,
    /// Median less the sum of the parts.
    pub residual_ns: f64,
    /// Median of the unstamped messages; absent if all messages are alike.
    pub bare_ns: Option<f64>,
    /// Median time from leaving the near host to the kernel's acknowledgement (TCP).
    pub acknowledged_ns: Option<f64>,
    /// Median length of the near end's sending call. It may return after the answer has arrived.
    pub near_sending_ns: Option<f64>,
    /// Median length of the far end's sending call.
    pub far_sending_ns: Option<f64>,
}

/// Time of one part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartTime {
    /// Part that is timed.
    pub part: Part,
    /// Mean over the round trips around the median one, in nanoseconds.
    pub ns: f64,
    /// 10th percentile over all round trips, in nanoseconds.
    pub low_ns: f64,
    /// 90th percentile over all round trips, in nanoseconds.
    pub high_ns: f64,
}

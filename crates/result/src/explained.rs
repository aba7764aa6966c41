//! Explanation of a race, as it is saved: the parts of each contender's time, from its instrumented pass.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::causes::Finding;
use deadheat_contract::contract::Direction;
use deadheat_records::parts::{Clocks, RoundTrip};

/// Result of the instrumented pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanations {
    /// Metric by which the probe effect is measured: the race's first.
    pub metric: String,
    /// Number of trials of each contender.
    pub rounds: u64,
    /// Breakdowns by contender, in the race's order.
    pub contenders: Vec<Explanation>,
}

/// Breakdown of one contender's time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The contender's id.
    pub contender: usize,
    /// Number of trials behind the breakdown.
    pub trials: u64,
    /// Value of the metric in the race, without instruments.
    pub headline: Option<f64>,
    /// Median of the metric in this pass.
    pub instrumented: Option<f64>,
    /// The parts of a round trip.
    pub round_trip: Option<RoundTrip>,
    /// Clocks of the two ends, one or two; absent unless the far end recorded times.
    pub clocks: Option<Clocks>,
    /// Bulk data, by direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moving: Vec<BulkTransfer>,
    /// Time in a protocol in user space; absent if the kernel runs the protocol.
    pub userspace: Option<Userspace>,
    /// Information that could not be obtained, with the reasons, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Time in a protocol in user space, by end: medians over the trials.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Userspace {
    /// The near end.
    pub near: UserspaceEnd,
    /// The far end; absent if it recorded no times.
    pub far: Option<UserspaceEnd>,
}

/// Time of one end in a protocol in user space, for each message that this end sent, or for each MB (1,000,000
/// bytes) of bulk data delivered. The cost of timing itself is subtracted.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UserspaceEnd {
    /// Time in the protocol's calls, without encryption and allocation.
    pub protocol_ns: f64,
    /// Time in encryption and decryption; absent without any.
    pub encryption_ns: Option<f64>,
    /// Time in the allocator on behalf of the protocol; absent if it was not timed.
    pub allocation_ns: Option<f64>,
    /// Number of allocations by the protocol.
    pub allocations: Option<f64>,
    /// Share of the threads' CPU time in all three.
    pub thread_share: f64,
}

/// Bulk data in one direction: the trial with the median goodput.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BulkTransfer {
    /// Direction of the data.
    pub direction: Direction,
    /// Bytes delivered to the receiver.
    pub delivered_bytes: u64,
    /// Goodput at the receiver, in bits per second, over the receiver's own span.
    pub goodput_bps: f64,
    /// The sender's calls.
    pub sending: Calls,
    /// The receiver's calls.
    pub receiving: Calls,
    /// Number of packets for each MB (1,000,000 bytes) sent: TCP's segments with data, or datagrams;
    /// absent if neither exists.
    pub packets_per_mb: Option<f64>,
    /// The sender's CPU.
    pub sender: BulkEnd,
    /// The receiver's CPU.
    pub receiver: BulkEnd,
    /// Causes that held it back, the largest first; none if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Finding>,
    /// Bottleneck in one sentence, as versions before the causes wrote it.
    pub why: Option<String>,
}

/// The system calls of one end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Number of calls for each MB (1,000,000 bytes).
    pub per_mb: f64,
    /// Mean number of bytes that a call moved.
    pub bytes: f64,
    /// Mean duration of a call, in nanoseconds, including waits inside.
    pub ns: f64,
    /// Part of this time in which the thread ran.
    pub ran_ns: f64,
    /// Time for each byte, including waits inside.
    pub ns_per_byte: f64,
}

/// The CPU of one end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BulkEnd {
    /// Share of the transfer's time in which its threads ran.
    pub ran_share: f64,
    /// CPU time of its threads for each GB, in nanoseconds.
    pub thread_ns_per_gb: f64,
    /// Number of CPUs in the two shares below: one if the end is pinned to one.
    pub cpus: u64,
    /// Share of the trial in which these CPUs were busy with any work.
    pub busy_share: f64,
    /// Share of the trial that they spent in interrupts and soft interrupts, in which packets are received.
    pub interrupts_share: f64,
}

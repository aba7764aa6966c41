//! A single direction of one link of an emulated path over a race, as it is saved.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use deadheat_base::unset::is_unset;
use deadheat_contract::contract::Direction;

/// Totals of one direction of one link over all valid trials, the control's included.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathWay {
    /// Index of the link, from 0.
    pub link: usize,
    /// Direction of the link.
    pub direction: Direction,
    /// Number of trials behind the totals.
    pub trials: u64,
    /// Number of packets that arrived; each segment of a super-packet counts.
    pub packets: u64,
    /// Number of packets that a firewall dropped because of their protocol.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub blocked: u64,
    /// Number of packets lost because the link was down.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub down: u64,
    /// Number of packets dropped by the loss model.
    pub lost: u64,
    /// Number of packets dropped because the queue was full, or to keep it short.
    pub queue_drops: u64,
    /// Number of packets marked instead of dropped (ECN).
    #[serde(default, skip_serializing_if = "is_unset")]
    pub marked: u64,
    /// Number of duplicates.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub duplicated: u64,
    /// Number of packets with a flipped bit.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub corrupted: u64,
    /// Number of packets that left after a later packet (RFC 4737).
    #[serde(default, skip_serializing_if = "is_unset")]
    pub reordered: u64,
    /// Smallest share of lost packets to expect from the model, 0 to 1, at 99 %; absent if the model gives none for
    /// a number of packets. Trials that share a seed have the same random draws, so they count as one sample.
    pub loss_low: Option<f64>,
    /// Largest share of lost packets to expect from the model, likewise.
    pub loss_high: Option<f64>,
    /// Rate in bits per second at which packets left while others waited; absent if none waited.
    pub rate_bps: Option<f64>,
    /// Median over trials of the median time in the queue, in nanoseconds.
    pub queued_p50_ns: Option<f64>,
    /// Median over trials of the 99th percentile of the time in the queue, in nanoseconds.
    pub queued_p99_ns: Option<f64>,
    /// Median over trials of the median lateness of releases, in nanoseconds.
    pub late_p50_ns: Option<f64>,
    /// Median over trials of the 99th percentile of the lateness of releases, in nanoseconds.
    pub late_p99_ns: Option<f64>,
}

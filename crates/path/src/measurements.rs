//! Figures of an emulated or simulated path over one trial, by its own account.

use deadheat_base::ends::Direction;
use deadheat_base::unset::is_unset;
use serde::{Deserialize, Serialize};

pub use deadheat_base::distribution::{Distribution, Quantile};

/// Figures of a path over one trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathFigures {
    /// Figures by link.
    pub links: Vec<LinkFigures>,
}

/// Packets of a trial in a capture (`--pcap`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Captured {
    /// Number of packets written.
    pub packets: u64,
    /// Number of packets without room in the log of the trial or in the file.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub left_out: u64,
    /// Error of the write, which left the file as it was; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Figures of both directions of a link.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkFigures {
    /// Figures from near to far.
    pub up: DirectionFigures,
    /// Figures from far to near.
    pub down: DirectionFigures,
}

impl LinkFigures {
    /// Returns the figures of one direction.
    pub fn toward(&self, direction: Direction) -> &DirectionFigures {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// Figures of one direction of a link. A packet is a packet on the link: each segment of a super-packet counts on
/// its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DirectionFigures {
    /// Outcomes that the model decided.
    pub fates: PacketOutcomes,
    /// Lateness of each release, from the logical time of its departure to the moment at which it was handed to the
    /// device; absent in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ns: Option<Distribution>,
    /// Queueing time of packets that left the queue, from arrival to departure; absent if there is no rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ns: Option<Distribution>,
    /// Time in the queue over the trial; absent if no packet waited for a millisecond, and where the kernel decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_course: Option<QueueCourse>,
    /// Queueing time of L4S packets among these; absent if none left the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l4s_queued_ns: Option<Distribution>,
    /// Packets that the loss model dropped, as ranges of their numbers from 1, as `drop=` takes them: `5-6/40`.
    /// Absent if there were none or more than 256 runs, and where the kernel decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<String>,
    /// Trains, gaps and acknowledgements (`--wire`); absent if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Box<WireFigures>>,
    /// Packets that were lost in devices and rings, outside the model. Anything but 0 makes a trial
    /// invalid.
    #[serde(default)]
    pub device_drops: u64,
    /// Writes to the outgoing device; `fates.delivered` divided by this is the mean number of packets in one.
    #[serde(default)]
    pub writes: u64,
}

/// Time in the queue over a trial, in intervals of one length from the start of the trial's path on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueCourse {
    /// Start of the trial's path in nanoseconds since 1970, by this host's clock; absent in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Length of an interval, in nanoseconds.
    pub every_ns: u64,
    /// Longest time in the queue of the packets that left it in each interval, in steps of 10 µs; 0 without a packet.
    pub longest_ns: Vec<u64>,
}

/// Packets on the wire in one direction of a link.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WireFigures {
    /// Number of packets that entered, without bare acknowledgements.
    pub data_packets: u64,
    /// Number of TCP segments that entered and only acknowledge. Other protocols do not show it.
    pub ack_packets: u64,
    /// Packets at the entrance: as their host sent them.
    pub entrance: WireEnd,
    /// Packets at the exit: as they arrive at the other host.
    pub exit: WireEnd,
}

/// Packets at one end of a direction. Gaps and trains are within a flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WireEnd {
    /// Number of packets of up to 64 flows.
    pub packets: u64,
    /// Times between two packets.
    pub gaps_ns: Distribution,
    /// Lengths of trains in packets. A train is a run of packets with gaps of at most 100 µs ("QUIC Steps", CoNEXT 2025).
    pub train_packets: Distribution,
    /// Number of packets in trains of at most 5.
    pub in_short_trains: u64,
    /// Absolute differences between gaps and the gaps of an even flow, which has the rate of the 31 packets before.
    pub pacing_error_ns: Distribution,
}

/// Outcomes of the packets of one direction. `arrived + duplicated = delivered + blocked + lost + full + early + down +
/// waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PacketOutcomes {
    /// Number of packets that entered.
    pub arrived: u64,
    /// Bytes that entered, as IP packets.
    pub arrived_bytes: u64,
    /// Number of packets that left, copies included.
    pub delivered: u64,
    /// Bytes that left.
    pub delivered_bytes: u64,
    /// Number of packets that a firewall or a NAT dropped.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub blocked: u64,
    /// Number of packets that the loss model dropped.
    pub lost: u64,
    /// Number of runs of consecutive packets that the loss model dropped.
    #[serde(default)]
    pub bursts: u64,
    /// Number of packets that found the queue full.
    #[serde(default)]
    pub full: u64,
    /// Number of packets that the queue dropped to stay short.
    #[serde(default)]
    pub early: u64,
    /// Number of packets that were lost because the link was down.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub down: u64,
    /// Number of packets that were marked instead of dropped.
    #[serde(default)]
    pub marked: u64,
    /// Outcomes of L4S packets at the queue, which are among those above.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub l4s: L4sOutcomes,
    /// Number of copies made.
    #[serde(default)]
    pub duplicated: u64,
    /// Number of packets with a flipped bit.
    #[serde(default)]
    pub corrupted: u64,
    /// Number of packets that left after a packet that had entered later (RFC 4737, type-P-reordered).
    #[serde(default)]
    pub reordered: u64,
    /// Number of packets still under way at the end.
    #[serde(default)]
    pub waiting: u64,
    /// Busy time: time during which packets waited for the rate, in nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
    /// Bytes that left during that time, link-layer overhead included.
    #[serde(default)]
    pub busy_bytes: u64,
    /// Hash of all draws at the entrance (losses, copies, flipped bits, reordering, offsets of delays), in order:
    /// the same for the same seed and the same packets. Decisions of a queue depend on the arrival times of
    /// packets, and are not in it.
    #[serde(default)]
    pub digest: u64,
}

impl PacketOutcomes {
    /// Returns the outcomes where a firewall or a NAT behind the link dropped `packets` of the delivered packets, with
    /// `bytes` bytes as IP packets.
    pub fn blocked_behind(mut self, (packets, bytes): (u64, u64)) -> PacketOutcomes {
        self.delivered -= packets;
        self.delivered_bytes -= bytes;
        self.blocked += packets;
        self
    }
}

/// Outcomes of packets that arrived at a queue with ECT(1) or CE (RFC 9331), which DualPI2 puts into its L queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct L4sOutcomes {
    /// Number of packets that arrived at the queue.
    pub arrived: u64,
    /// Number of packets that found the queue full.
    pub full: u64,
    /// Number of packets that the queue dropped to stay short.
    pub early: u64,
    /// Number of packets that were marked.
    pub marked: u64,
}

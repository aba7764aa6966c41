//! Findings of a check, as its JSON has them.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_path::network::Backend;
use deadheat_stats::quantile::quantile_sorted;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCheck {
    /// Path as typed.
    pub path: String,
    /// Backend that carries the packets.
    pub backend: Backend,
    /// Reason for that choice.
    pub why: String,
    /// Checks by link and direction; only up if both directions have the same specification.
    pub ways: Vec<WayCheck>,
    /// Directions of links that were not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<UncheckedWay>,
    /// Errors of the delays of all directions whose delay is judged.
    pub delay_errors: DelayErrors,
    /// Capacity of the first link without a rate; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Duration of the check, in nanoseconds.
    pub took_ns: Nanos,
}

/// Judgement of a figure against the path's specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitVerdict {
    /// Within its limits.
    Within,
    /// Outside its limits.
    Outside,
    /// Not decided by the specification: jitter, traces, outages, damage.
    Open,
}

impl LimitVerdict {
    pub(super) fn of(within: bool) -> LimitVerdict {
        if within { LimitVerdict::Within } else { LimitVerdict::Outside }
    }
}

/// Direction of a link that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncheckedWay {
    /// Name of the direction, as of [`deadheat_path::Network::way_name`].
    pub way: String,
    /// Reason, and the change with which it can be checked.
    pub why: String,
}

/// Check of one direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayCheck {
    /// Name of the direction, as of [`deadheat_path::Network::way_name`].
    pub way: String,
    /// Direction of its link that was checked.
    pub direction: Direction,
    /// Delay of packets.
    pub delay: DelayCheck,
    /// Rate at which packets pass; absent if it is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateCheck>,
    /// Loss of packets.
    pub loss: LossCheck,
}

/// Errors of the one-way delay of 100-byte datagrams at 1 kHz or at half of the path's rate: time from the sending
/// kernel's stamp to the receiving kernel's, less the specified delay, in signed nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DelayErrors {
    /// Packets with both stamps, without the first tenth of each direction.
    pub n: u64,
    /// Least error; absent, like the following ones, if no packet had both stamps.
    pub min_ns: Option<i64>,
    /// Median error.
    pub p50_ns: Option<i64>,
    /// 90th percentile of the error.
    pub p90_ns: Option<i64>,
    /// 99th percentile of the error; absent with fewer than 1000 packets.
    pub p99_ns: Option<i64>,
    /// Greatest error.
    pub max_ns: Option<i64>,
}

/// Delay of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelayCheck {
    /// Specified delay: the path's delay plus the serialisation time of such a packet.
    pub expected_ns: Nanos,
    /// Differences from it.
    #[serde(flatten)]
    pub errors: DelayErrors,
    /// Limit of the median's distance from 0.
    pub limit_p50_ns: u64,
    /// Limit of the 99th percentile's distance from 0.
    pub limit_p99_ns: u64,
    /// Judgement of both limits.
    pub judged: LimitVerdict,
}

/// Rate of datagrams of the path's MTU, from the receiving kernel's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateCheck {
    /// Specified rate, in bits per second.
    pub expected_bps: u64,
    /// Offered rate, in bits per second.
    pub offered_bps: f64,
    /// Received rate in bits per second, link-layer overhead included; absent if fewer than two packets arrived.
    pub achieved_bps: Option<f64>,
    /// Difference between received and specified rate, as a share of the specified rate.
    pub error: Option<f64>,
    /// Limit of that error.
    pub limit: f64,
    /// Judgement of the error.
    pub judged: LimitVerdict,
}

/// Losses on the path among many small datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossCheck {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the loss model dropped.
    pub lost: u64,
    /// Datagrams that arrived at a full socket; not counted as lost.
    pub dropped_at_receiver: u64,
    /// Datagrams that the queue dropped because this host sent some of them late and so together; not counted as lost.
    pub dropped_by_queue: u64,
    /// Packets lost according to the path's own account.
    pub by_own_account: u64,
    /// Datagrams that the path lost outside its model: in devices and rings.
    pub device_drops: u64,
    /// Mean number of consecutive packets lost together, according to the path's own account; absent if it does not
    /// count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_burst: Option<f64>,
    /// Expected mean in the long run; absent if the model does not specify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_burst: Option<f64>,
    /// Specified share of lost packets; absent if there is none.
    pub expected_share: Option<f64>,
    /// Least and greatest number of losses, with a confidence of 99 %.
    pub expected: Option<[u64; 2]>,
    /// Judgement: within the limits, and in agreement with the path's own account.
    pub judged: LimitVerdict,
}

/// Capacity of a link, from its first host to its second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// Name of the direction, as of [`deadheat_path::Network::way_name`].
    pub way: String,
    /// Rate of a byte stream, in bits of application data per second.
    pub stream_bps: Option<f64>,
    /// Packets that the path handled during that stream, both directions, per second.
    pub decisions_per_s: Option<f64>,
    /// Rate of a byte stream with the devices' offloads off, so that no packet is larger than the MTU, in bits per
    /// second.
    pub plain_stream_bps: Option<f64>,
    /// Datagrams of 64 bytes, one per call, received per second.
    pub datagrams_per_s: Option<f64>,
    /// The same over the loopback interface, measured just before.
    pub loopback_datagrams_per_s: Option<f64>,
}

impl PathCheck {
    /// Returns true if no judged figure is outside its limits.
    pub fn is_fine(&self) -> bool {
        self.ways.iter().all(|way| {
            let rate = way.rate.map_or(LimitVerdict::Open, |rate| rate.judged);
            [way.delay.judged, rate, way.loss.judged].iter().all(|j| *j != LimitVerdict::Outside)
        })
    }
}

impl DelayErrors {
    /// Returns the errors of packets, given sorted.
    pub(super) fn of(sorted: &[i64]) -> DelayErrors {
        let rank =
            |q: f64, least: usize| quantile_sorted(sorted, q).filter(|_| sorted.len() >= least);
        DelayErrors {
            n: sorted.len() as u64,
            min_ns: sorted.first().copied(),
            p50_ns: rank(0.5, 20),
            p90_ns: rank(0.9, 100),
            p99_ns: rank(0.99, 1_000),
            max_ns: sorted.last().copied(),
        }
    }
}

//! Facts of a built emulated path, as results carry them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::contract::WaitMode;
use crate::path::gate::{self, LatenessLimits};
use crate::path::network::{Impairments, Link, Network, Rate};
use crate::time::Nanos;
use crate::units::BitRate;

/// Description of a built path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltPath {
    /// Backend that carries it: `tun`, `packet`, `netem`.
    pub backend: String,
    /// Reason for that choice.
    pub why: String,
    /// Grouping of close departures: `strict` or `aggregate`.
    pub grouping: String,
    /// Mode in which its threads wait for the time of a release: `hybrid` or `spin`.
    pub wait: String,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    /// The seed of its impairments, where the path has its own; otherwise each block's seed is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The least time there and back that the model allows, in nanoseconds; absent if jitter may
    /// take any part of the delay away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_least_ns: Option<u64>,
    /// Limits of the lateness of its releases in a trial that counts.
    pub lateness_limits: LatenessLimits,
    /// Links of the path.
    pub links: Vec<BuiltLink>,
}

/// Link of a built path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltLink {
    /// Effect on packets, in the words of a path.
    pub words: String,
    /// The near host's addresses.
    pub near: Vec<IpAddr>,
    /// The far host's.
    pub far: Vec<IpAddr>,
    /// Direction from near to far.
    pub up: BuiltWay,
    /// Direction from far to near.
    pub down: BuiltWay,
}

/// Direction of a link, with the limits it is held to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BuiltWay {
    /// The share of packets that the loss model takes in the long run, 0 to 1; absent if it has
    /// none, as with a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_share: Option<f64>,
    /// The rate, in bits per second; absent if nothing limits it, or a trace does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// The rate of the sending host's network card, in bits per second; absent if it has none, and in
    /// results from before there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_bps: Option<u64>,
    /// File that records what it can carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceFile>,
}

/// A file that a link follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFile {
    /// Name of the file, as typed.
    pub file: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Time after which it starts again, in nanoseconds.
    pub length_ns: u64,
}

/// Parameters by which a network was built, for [`BuiltPath::of`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct How {
    /// Backend, as in [`BuiltPath`].
    pub backend: String,
    /// Reason, as in [`BuiltPath`].
    pub why: String,
    /// Grouping, as in [`BuiltPath`].
    pub grouping: String,
    /// Mode of waiting, as in [`BuiltPath`].
    pub wait: String,
    /// The addresses of near and far by link.
    pub addresses: Vec<[Vec<IpAddr>; 2]>,
    /// The rates of the network cards of near and far by link.
    pub nics: Vec<[Option<BitRate>; 2]>,
}

impl BuiltPath {
    /// Returns the facts of `network`, built like this.
    pub fn of(network: &Network, how: How) -> BuiltPath {
        let mut addresses = how.addresses.into_iter();
        let mut nics = how.nics.into_iter();
        let links = network.links.iter().map(|link| {
            let [near, far] = addresses.next().unwrap_or_default();
            let [up, down] = nics.next().unwrap_or_default();
            BuiltLink {
                words: words(network, link),
                near,
                far,
                up: BuiltWay::of(&link.up, up),
                down: BuiltWay::of(&link.down, down),
            }
        });
        BuiltPath {
            links: links.collect(),
            backend: how.backend,
            why: how.why,
            grouping: how.grouping,
            wait: how.wait,
            mtu: network.mtu,
            seed: network.seed,
            rtt_least_ns: gate::least_rtt(network).map(|Nanos(ns)| ns),
            lateness_limits: LatenessLimits::of(network),
        }
    }
}

/// Describes one link alone in the words of a path.
fn words(network: &Network, link: &Link) -> String {
    let alone = Network {
        links: vec![link.clone()],
        seed: None,
        backend: None,
        wait: WaitMode::Hybrid,
        grouping: None,
        mtu: network.mtu,
    };
    alone.to_string()
}

impl BuiltWay {
    fn of(way: &Impairments, nic: Option<BitRate>) -> BuiltWay {
        let (rate_bps, trace) = match &way.rate {
            Rate::Unlimited => (None, None),
            Rate::Fixed(rate) => (Some(rate.0), None),
            Rate::Trace(trace) => (
                None,
                Some(TraceFile {
                    file: trace.file.clone(),
                    sha256: trace.sha256.clone(),
                    length_ns: trace.length.0,
                }),
            ),
        };
        let nic_bps = nic.map(|BitRate(bps)| bps);
        BuiltWay { loss_share: gate::asked_loss(way), rate_bps, nic_bps, trace }
    }
}

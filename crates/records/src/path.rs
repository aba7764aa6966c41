//! Facts of a built emulated path, in the form of results.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::connect::ConnectAttempt;
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_path::gate::{self, LatenessLimits};
use deadheat_path::network::{self, FAR, Impairments, Link, NEAR, Network, Rate};

/// Way to a far end behind a server, as control took it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachFacts {
    /// Address of this host, as this host sees it.
    pub own_address: IpAddr,
    /// Address of this host, as the server sees it; absent if an older server did not report it.
    pub seen_as: Option<IpAddr>,
    /// Attempts to connect, in their order.
    pub attempts: Vec<ConnectAttempt>,
}

impl ReachFacts {
    /// Returns the address of this host as the server sees it, if that is another one: a NAT is on the way.
    pub fn translated(&self) -> Option<IpAddr> {
        let canonical = |ip: IpAddr| ip.to_canonical();
        self.seen_as.map(canonical).filter(|seen| *seen != canonical(self.own_address))
    }
}

/// Description of a built path.
#[skip_serializing_none]
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
    /// Largest IP packet that passes every link, in bytes.
    pub mtu: u16,
    /// Seed of its impairments, if the path has its own; otherwise each block's seed is used.
    pub seed: Option<u64>,
    /// Least round-trip time that the model allows, in nanoseconds; absent if jitter may remove any part of the delay.
    pub rtt_least_ns: Option<u64>,
    /// Limits of the lateness of its releases in a trial that counts.
    pub lateness_limits: LatenessLimits,
    /// Links of the path.
    pub links: Vec<BuiltLink>,
    /// Names of the hosts of each role: `near`, `far`, `relay`, `receivers`, `load`, `people`; empty where no link names its
    /// hosts, and in results from before there were any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Vec<String>>,
}

/// Link of a built path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltLink {
    /// Its impairments, in the words of a path.
    pub words: String,
    /// Addresses of its first host: the near one, where there are two.
    pub near: Vec<IpAddr>,
    /// Addresses of its second host.
    pub far: Vec<IpAddr>,
    /// Direction from the first host to the second.
    pub up: BuiltWay,
    /// Direction from the second host to the first.
    pub down: BuiltWay,
}

impl BuiltLink {
    /// Returns true if its words name its hosts.
    pub fn names_hosts(&self) -> bool {
        self.hosts() != [NEAR, FAR]
    }

    /// Returns the names of its first and its second host.
    pub fn hosts(&self) -> [&str; 2] {
        let front = self.words.split([':', ',', '=']).next().unwrap_or_default();
        front.split_once("--").map_or([NEAR, FAR], |(first, second)| [first, second])
    }
}

/// Direction of a link, with its limits.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BuiltWay {
    /// Share of packets that the loss model drops in the long run, 0 to 1; absent if it has none, as with a list.
    pub loss_share: Option<f64>,
    /// Rate, in bits per second; absent if it is not limited, or if a trace limits it.
    pub rate_bps: Option<u64>,
    /// Rate of the sending host's network card, in bits per second; absent if it has none, and in results from before
    /// there were any.
    pub nic_bps: Option<u64>,
    /// Trace file with its capacity over time.
    pub trace: Option<TraceFile>,
}

/// File that a link follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFile {
    /// Name of the file, as typed.
    pub file: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Time after which it starts again, in nanoseconds.
    pub length_ns: u64,
}

/// Parameters with which a network was built, for [`BuiltPath::of`].
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
    /// Addresses of the first and the second host by link.
    pub addresses: Vec<[Vec<IpAddr>; 2]>,
    /// Rates of the network cards of the first and the second host by link.
    pub nics: Vec<[Option<BitRate>; 2]>,
}

impl BuiltPath {
    /// Returns a link's name, as [`Network::link_name`] does.
    pub fn link_name(&self, link: usize) -> String {
        let hosts: BTreeSet<&str> = self.links.iter().flat_map(BuiltLink::hosts).collect();
        match self.links.get(link) {
            Some(own) if hosts.len() > 2 => own.hosts().join("--"),
            _ if self.links.len() > 1 => format!("link {}", link + 1),
            _ => String::new(),
        }
    }

    /// Returns the name of a direction of a link, as [`Network::way_name`] does.
    pub fn way_name(&self, link: usize, direction: Direction) -> String {
        let own = self.links.get(link).filter(|link| link.names_hosts());
        network::way_name(own.map(BuiltLink::hosts), (link, self.links.len()), direction)
    }

    /// Returns the facts of `network`, built with these parameters.
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
        let named =
            |hosts: Vec<usize>| hosts.into_iter().map(|host| network.hosts[host].clone()).collect();
        let roles = network.roles().into_iter().filter(|_| network.names_hosts());
        BuiltPath {
            roles: roles.map(|(role, hosts)| (role.to_owned(), named(hosts))).collect(),
            links: links.collect(),
            backend: how.backend,
            why: how.why,
            grouping: how.grouping,
            wait: how.wait,
            mtu: network.mtu(),
            seed: network.seed,
            rtt_least_ns: gate::least_rtt(network).map(|Nanos(ns)| ns),
            lateness_limits: LatenessLimits::of(network),
        }
    }
}

/// Describes one link alone in the words of a path, with the names of its hosts if they have some.
fn words(network: &Network, link: &Link) -> String {
    let hosts = link.ends.map(|host| network.hosts[host].clone()).to_vec();
    let link = Link { ends: [0, 1], ..link.clone() };
    Network { hosts, ..Network::between_two(vec![link]) }.to_string()
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

//! Emulated path that the race builds itself, from the view of its trials: where agents are started, the properties
//! that they get, its seed in each trial, and the check of its account.

use std::net::{IpAddr, SocketAddr};

use super::model_time::{drain, outage, transit};
use crate::control;
use crate::lead::link::Link;
use crate::process::{self, AgentProcess};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::path::{Captured, PathFigures};
use deadheat_contract::workload::{NodeHost, TaskInfo};
use deadheat_path::emulator::Emulator;
use deadheat_path::network::Network;
use deadheat_path::observe::Observation;
use deadheat_path::{Family, PathKind, SenderCpus, gate, routes};
use deadheat_records::path::{BuiltPath, How};
use deadheat_records::trial::{PathFacts, Record};

/// Time for which a near end tries to connect, besides the time that the path takes. Only the model can block a
/// connection here, so patience costs nothing: a lost SYN is retransmitted after 1, 3, 7 and 15 s (RFC 6298;
/// tcp_syn_retries in ip-sysctl.rst), and a loss of one in five, there or back, must not look like a firewall.
const DIAL: Nanos = Nanos::from_secs(30);

/// Round trips that opening a connection may take: lost and retransmitted, slowly.
const DIAL_ROUND_TRIPS: u64 = 20;

/// Hosts of an emulated network at which the nodes of a group run, by index.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeHosts {
    /// Host of the near node.
    pub(crate) near: usize,
    /// Hosts of the far nodes, which are dealt over them in order.
    pub(crate) far: Vec<usize>,
    /// Host of the relays in front of the far nodes; the far nodes' own if there is none.
    pub(crate) relay: Option<usize>,
    /// Hosts of the people of a session, in order; empty if they have none of their own.
    pub(crate) people: Vec<usize>,
}

impl NodeHosts {
    /// Returns the hosts of the nodes of a trial's work.
    pub(crate) fn of_work(network: &Network) -> NodeHosts {
        let Network { near, relay, .. } = *network;
        let (far, people) = (network.far_hosts().to_vec(), network.people.clone());
        NodeHosts { near, far, relay, people }
    }

    /// Returns the hosts of the nodes of a load beside it.
    pub(crate) fn of_load(network: &Network) -> NodeHosts {
        let Network { near, far, relay, load, .. } = *network;
        let [near, far] = load.unwrap_or([near, far]);
        NodeHosts { near, far: vec![far], relay, people: Vec::new() }
    }

    /// Returns the host of a node of one side. If people have no hosts of their own, the first is at the near one and the
    /// others are at the far one; a far node is at the one with position `dealt`.
    pub(crate) fn of(
        &self,
        info: &TaskInfo,
        (side, node): (Side, u16),
        dealt: Option<usize>,
    ) -> usize {
        let NodeHosts { near, far, people, .. } = self;
        let host = info.people.as_ref().and_then(|all| all.host(side, node));
        let at_far = match host {
            Some(NodeHost::Person(person)) if usize::from(person) < people.len() => {
                return people[usize::from(person)];
            }
            Some(NodeHost::Person(0)) => None,
            Some(NodeHost::Person(_) | NodeHost::Server) => Some(0),
            None => dealt.filter(|_| side == Side::Far),
        };
        at_far.and_then(|at| far.get(at)).copied().unwrap_or(*near)
    }
}

/// Emulated path that is up.
#[derive(Debug)]
pub struct EmulatedPath {
    spec: String,
    network: Network,
    family: Family,
    emulator: Emulator,
}

impl EmulatedPath {
    /// Builds the path that `network` describes; `typed` is its text.
    ///
    /// # Errors Fails if this host cannot; names the missing part.
    pub fn start(typed: &str, network: Network, family: Family) -> Result<EmulatedPath> {
        let emulator = Emulator::start_for(typed, SenderCpus::Others)?;
        let path = EmulatedPath { spec: typed.to_owned(), network, family, emulator };
        path.address(path.network.far)?;
        Ok(path)
    }

    /// Returns the hosts at which the nodes of a trial's work run.
    pub(crate) fn hosts(&self) -> NodeHosts {
        NodeHosts::of_work(&self.network)
    }

    /// Returns the hosts at which the nodes of a load beside it run.
    pub(crate) fn load_hosts(&self) -> NodeHosts {
        NodeHosts::of_load(&self.network)
    }

    /// Returns the address of the host with this index on its first link.
    ///
    /// # Errors
    /// Fails if the path carries no packets of the requested family.
    pub(crate) fn address(&self, host: usize) -> Result<IpAddr> {
        let ends = [self.network.near, host];
        let reaches = |at: &IpAddr, is_native: bool| {
            let dialled = routes::dialled(&self.network, ends, *at);
            dialled.is_some_and(|dialled| {
                self.family.has(&SocketAddr::new(dialled, 0)) && (dialled == *at) == is_native
            })
        };
        let mut all = self.emulator.built().of_host(host);
        let mapped = self.emulator.built().of_host(host).find(|at| reaches(at, false));
        all.find(|at| reaches(at, true)).or(mapped).ok_or_else(|| {
            Error::unsupported(
                format!("path {}", self.spec),
                "its ends do not reach each other with the IP version asked for (IPv6 needs an MTU of 1280 bytes)",
            )
        })
    }

    /// Returns the endpoint that a host dials to reach another at an endpoint of its own, which differs where a NAT64 is on
    /// the way.
    pub(crate) fn dialled(&self, from: usize, at: SocketAddr) -> SocketAddr {
        let hosts = 0..self.network.hosts.len();
        let mut owners =
            hosts.filter(|host| self.emulator.built().of_host(*host).any(|own| own == at.ip()));
        let dialled =
            owners.next().and_then(|to| routes::dialled(&self.network, [from, to], at.ip()));
        SocketAddr::new(dialled.unwrap_or(at.ip()), at.port())
    }

    /// Returns the largest IP packet that passes, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.network.mtu().into()
    }

    /// Creates a link to an agent on the host with this index.
    ///
    /// # Errors
    /// Fails if the agent cannot be started there.
    pub(crate) fn agent(&self, who: &str, host: usize) -> Result<Link> {
        Link::to_process_on(who, &self.emulator.entry(host)?)
    }

    /// Starts a keeper of a command on the host with this index.
    ///
    /// # Errors
    /// Fails if the keeper cannot be started there.
    pub(crate) fn keeper(&self, host: usize) -> Result<AgentProcess> {
        process::keeper(Some(&self.emulator.entry(host)?))
    }

    /// Empties the path and restarts it with a seed: its own, or the trial's, which is the same for every contender of
    /// a block.
    ///
    /// # Errors
    /// Fails if the emulator is gone.
    pub(crate) fn begin(&mut self, seed: u64) -> Result<()> {
        self.emulator.begin(seed)
    }

    /// Returns the path's account since its last start.
    ///
    /// # Errors
    /// Fails if the emulator is gone.
    pub(crate) fn end(&mut self) -> Result<PathFigures> {
        self.emulator.end()
    }

    /// Observes the packets from the next start on.
    ///
    /// # Errors
    /// Fails if the kernel moves the packets, or if the emulator is gone.
    pub(crate) fn observe(&self, observation: Observation) -> Result<()> {
        self.emulator.observe(observation)
    }

    /// Appends the packets since the last start to the capture.
    ///
    /// # Errors
    /// Fails if the emulator is gone.
    pub(crate) fn capture(&self) -> Result<Option<Captured>> {
        self.emulator.capture()
    }

    /// Adds the path's account to the record of a trial, and checks it against the model.
    pub(crate) fn judge(&self, figures: PathFigures, record: &mut Record) {
        record.path_invalid = gate::why_invalid(&self.network, &figures);
        record.path = Some(figures);
        if record.why_invalid.is_none() {
            record.why_invalid.clone_from(&record.path_invalid);
        }
        record.valid = record.why_invalid.is_none();
    }

    /// Returns the properties of the path that both ends of a trial need.
    pub(crate) fn terms(&self) -> control::PathTerms {
        let round_trip = Nanos(2 * transit(&self.network).0);
        let dial_ns =
            DIAL + outage(&self.network) + Nanos(DIAL_ROUND_TRIPS.saturating_mul(round_trip.0));
        control::PathTerms { transit_ns: transit(&self.network), dial_ns }
    }

    /// Returns the time that a trial may take beyond one on an ideal path before it counts as hung: until the sent data
    /// has left, and has arrived.
    pub(crate) fn extra_time(&self) -> Nanos {
        let round_trips = Nanos(DIAL_ROUND_TRIPS.saturating_mul(transit(&self.network).0));
        drain(&self.network) + outage(&self.network) + round_trips
    }

    /// Returns the path in words and numbers.
    pub(crate) fn facts(&self) -> PathFacts {
        let built = self.emulator.built();
        let how = How {
            backend: built.backend.name().to_owned(),
            why: built.why.clone(),
            grouping: built.grouping.name().to_owned(),
            wait: self.network.wait.name().to_owned(),
            nics: built.nics.clone(),
            addresses: built.links.iter().map(|link| link.addresses.clone()).collect(),
        };
        PathFacts {
            spec: self.spec.clone(),
            kind: PathKind::Emulated,
            address: self
                .address(self.network.far)
                .map_or_else(|_| String::new(), |far| far.to_string()),
            built: Some(Box::new(BuiltPath::of(&self.network, how))),
            reached: None,
            far_end: None,
        }
    }
}

//! Network of hosts, as plain data: links with their impairments in each direction, two hosts in the smallest.
//! [`super::grammar`] makes it from text, [`super::impair`] carries it out, [`super::routes`] finds the ways in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::block::Block;
use super::down::DownTimes;
use super::nat::Middlebox;
use super::trace::{Content, Trace};
use crate::Family;
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

/// Name of the near host where a path names no hosts.
pub const NEAR: &str = "near";
/// Name of the far host where a path names no hosts.
pub const FAR: &str = "far";

/// Name of the role of the host where a relay runs.
pub const RELAY: &str = "relay";
/// Name of the role of the hosts of several far ends.
pub const RECEIVERS: &str = "receivers";
/// Name of the role of the two hosts between which a load runs.
pub const LOAD: &str = "load";
/// Name of the role of the hosts of a session.
pub const PEOPLE: &str = "people";

/// Network of hosts, two of which a trial runs between.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// Names of the hosts, in the order in which the links name them; `near` and `far` where no link names any.
    pub hosts: Vec<String>,
    /// Index of the host that opens connections.
    pub near: usize,
    /// Index of the host where servers listen.
    pub far: usize,
    /// Index of the host where a relay runs; the far one if none was given.
    pub relay: Option<usize>,
    /// Indices of the hosts of the far ends, where a work has several; empty for the far host.
    pub receivers: Vec<usize>,
    /// Indices of the near and the far host of a load; the work's near and far one if none were given.
    pub load: Option<[usize; 2]>,
    /// Indices of the hosts of a session, in order.
    pub people: Vec<usize>,
    /// Links in the order typed; at least one.
    pub links: Vec<Link>,
    /// Seed of all impairments; the block's seed if none was given.
    pub seed: Option<u64>,
    /// Requested backend; the best of this host if none was given.
    pub backend: Option<Backend>,
    /// Wait mode of the threads until the time of a release.
    pub wait: ReleaseWait,
    /// Grouping of close departures; chosen by rate if none was given.
    pub grouping: Option<Grouping>,
    /// Routes as written: indices of the hosts from the first to the last, which packets to the last take.
    pub routes: Vec<Vec<usize>>,
    /// Time from a change of a link, down or back, to new routes; `None` where routes stay.
    pub reroute: Option<Nanos>,
}

/// Largest IP packet of a link for which nothing else was asked, in bytes.
pub const USUAL_MTU: u16 = 1_500;

/// Least MTU that IPv6 requires of a link (RFC 8200, section 5).
pub const LEAST_IPV6_MTU: u16 = 1_280;

/// Link between two hosts, with one device at each.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Indices of its hosts; `up` is from the first to the second.
    pub ends: [usize; 2],
    /// Impairments from the first host to the second: from near to far, where there are no others.
    pub up: Impairments,
    /// Impairments from the second host to the first.
    pub down: Impairments,
    /// NAT or stateful firewall of the first host: in front of `up`, and behind `down`.
    pub middlebox: Option<Middlebox>,
    /// Version of IP that it carries: its hosts have no other addresses on it.
    pub family: Family,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
}

impl Default for Link {
    /// Returns a link without impairments between the hosts of a path that names none.
    fn default() -> Link {
        let (up, down) = (Impairments::default(), Impairments::default());
        Link { ends: [0, 1], up, down, middlebox: None, family: Family::Any, mtu: USUAL_MTU }
    }
}

impl Link {
    /// Returns true if its first host is a NAT.
    pub fn translates(&self) -> bool {
        self.middlebox.is_some_and(|middlebox| middlebox.mapping.is_some())
    }

    /// Returns true if its first host makes IPv4 of IPv6.
    pub fn is_nat64(&self) -> bool {
        self.middlebox.is_some_and(|middlebox| middlebox.is_nat64)
    }

    /// Returns true if it carries packets of a version of IP.
    pub fn carries(&self, version: Family) -> bool {
        [Family::Any, version].contains(&self.family)
    }

    /// Impairments in one direction.
    pub fn toward(&self, direction: Direction) -> &Impairments {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

impl Network {
    /// Creates a network of links between a near and a far host, with the usual settings.
    pub fn between_two(links: Vec<Link>) -> Network {
        Network {
            hosts: vec![NEAR.to_owned(), FAR.to_owned()],
            far: 1,
            links,
            ..Network::default()
        }
    }

    /// Returns true if hosts other than the near and the far one are part of it.
    pub fn has_others(&self) -> bool {
        self.hosts.len() > 2
    }

    /// Returns true if one of its hosts makes IPv4 of IPv6.
    pub fn has_nat64(&self) -> bool {
        self.links.iter().any(Link::is_nat64)
    }

    /// Returns true if its links name their hosts.
    pub fn names_hosts(&self) -> bool {
        self.hosts != [NEAR, FAR]
    }

    /// Returns each role that hosts have: its name, and the indices of the hosts.
    pub fn roles(&self) -> Vec<(&'static str, Vec<usize>)> {
        let all = [
            (NEAR, vec![self.near]),
            (FAR, vec![self.far]),
            (RELAY, self.relay.into_iter().collect()),
            (RECEIVERS, self.receivers.clone()),
            (LOAD, self.load.into_iter().flatten().collect()),
            (PEOPLE, self.people.clone()),
        ];
        all.into_iter().filter(|(_, hosts)| !hosts.is_empty()).collect()
    }

    /// Returns the near and the far host where none are named: the first and the last host of a session, the first
    /// receiver, otherwise the first and the last host that a link names.
    pub fn usual_ends(&self) -> [usize; 2] {
        let near = self.people.first().copied().unwrap_or_default();
        let far = self.receivers.first().or(self.people.last()).copied();
        [near, far.unwrap_or(self.hosts.len().saturating_sub(1))]
    }

    /// Returns the indices of the hosts of the far ends, in order.
    pub fn far_hosts(&self) -> &[usize] {
        if self.receivers.is_empty() { std::slice::from_ref(&self.far) } else { &self.receivers }
    }

    /// Returns the journeys of packets between hosts that send to each other, by their roles: the hosts at which a packet
    /// begins and ends, and the relay in between where there is one, in both directions.
    pub fn journeys(&self) -> Vec<Vec<usize>> {
        let mut pairs: Vec<[usize; 2]> = vec![[self.near, self.far]];
        pairs.extend(self.receivers.iter().map(|host| [self.near, *host]));
        pairs.extend(self.load);
        for (at, host) in self.people.iter().enumerate() {
            pairs.extend(self.people[..at].iter().map(|other| [*other, *host]));
        }
        let both = pairs.into_iter().flat_map(|[a, b]| [[a, b], [b, a]]);
        let relayed = |[a, b]: [usize; 2]| self.relay.map(|relay| vec![a, relay, b]);
        both.flat_map(|pair| [Some(pair.to_vec()), relayed(pair)]).flatten().collect()
    }

    /// Returns true if a host passes on packets for others: it has several links, and no role.
    pub fn forwards(&self, host: usize) -> bool {
        let ends = [self.near, self.far].into_iter().chain(self.relay);
        let ends = ends.chain(self.load.into_iter().flatten());
        let mut ends = ends.chain(self.receivers.iter().chain(&self.people).copied());
        ends.all(|end| end != host) && self.links_of(host).nth(1).is_some()
    }

    /// Returns the indices of a host's links.
    pub fn links_of(&self, host: usize) -> impl Iterator<Item = usize> {
        let links = self.links.iter().enumerate();
        links.filter(move |(_, link)| link.ends.contains(&host)).map(|(at, _)| at)
    }

    /// Returns a link's name: `hamburg--vancouver` where hosts are named, else `link 2` of several, and nothing for the
    /// only one.
    pub fn link_name(&self, link: usize) -> String {
        match self.links.get(link).map(|link| link.ends) {
            Some([a, b]) if self.has_others() => format!("{}--{}", self.hosts[a], self.hosts[b]),
            _ if self.links.len() > 1 => format!("link {}", link + 1),
            _ => String::new(),
        }
    }

    /// Returns the largest IP packet that passes every link, in bytes.
    pub fn mtu(&self) -> u16 {
        self.links.iter().map(|link| link.mtu).min().unwrap_or(USUAL_MTU)
    }

    /// Returns the name of a direction of a link, as [`way_name`] does.
    pub fn way_name(&self, link: usize, direction: Direction) -> String {
        let own = self.links.get(link).filter(|_| self.names_hosts());
        let hosts = own.map(|link| link.ends.map(|host| self.hosts[host].as_str()));
        way_name(hosts, (link, self.links.len()), direction)
    }

    /// Returns true if the fate or the delay of a packet depends on the seed.
    pub fn draws(&self) -> bool {
        self.links.iter().any(|link| link.up.draws() || link.down.draws())
    }
}

/// Returns the name of a direction of a link: `home to isp` by the names of its first and second host, else by its number,
/// from 0, of so many links `up on link 2`, and `up` for the only one.
pub fn way_name(
    hosts: Option<[&str; 2]>,
    (link, links): (usize, usize),
    direction: Direction,
) -> String {
    match (hosts, direction) {
        (Some([first, second]), Direction::Up) => format!("{first} to {second}"),
        (Some([first, second]), Direction::Down) => format!("{second} to {first}"),
        (None, direction) if links > 1 => format!("{direction} on link {}", link + 1),
        (None, direction) => direction.to_string(),
    }
}

/// Means by which a network is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Two TUN devices; this program decides about segments one by one.
    Tun,
    /// Two pairs of veth devices; this program reads and writes their inner ends with packet sockets.
    Packet,
    /// The kernel's netem, on a host between the two.
    Netem,
}

impl Backend {
    /// Returns the word for it in a path and in results.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Tun => "tun",
            Backend::Packet => "packet",
            Backend::Netem => "netem",
        }
    }

    /// Returns a description of its devices, for people.
    pub fn devices(self) -> &'static str {
        match self {
            Backend::Tun => "TUN devices",
            Backend::Packet => "veth pairs and packet sockets",
            Backend::Netem => "netem",
        }
    }
}

/// Way in which the threads of a path wait for a packet, and for the time of its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseWait {
    /// Sleeps, and polls around each packet and each release, on a CPU of its own.
    #[default]
    Hybrid,
    /// Polls all the time.
    Spin,
    /// Sleeps all the time, on any CPU: a release is late by a wake-up, and many paths share few CPUs.
    Sleep,
}

impl ReleaseWait {
    /// Returns the word for it in a path and in results.
    pub fn name(self) -> &'static str {
        match self {
            ReleaseWait::Hybrid => "hybrid",
            ReleaseWait::Spin => "spin",
            ReleaseWait::Sleep => "sleep",
        }
    }
}

/// Grouping of packets that leave close to each other, when they are written to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Strict: only packets that leave at the very same time go together.
    Strict,
    /// Aggregate: neighbours of one super-packet that leave within [`AGGREGATE`] of each other go together, at the
    /// time of the last of them, as from a network card that moderates its interrupts.
    Aggregate,
}

impl Grouping {
    /// Returns the word for it in a path and in results.
    pub fn name(self) -> &'static str {
        match self {
            Grouping::Strict => "strict",
            Grouping::Aggregate => "aggregate",
        }
    }
}

/// Time span over which [`Grouping::Aggregate`] joins departures.
pub const AGGREGATE: Nanos = Nanos::from_micros(15);

/// Impairments of one direction of a link, in the order in which they act on packets: the sender's network card, a
/// firewall, loss, duplication and corruption, the queue and the rate, then delay, jitter and reordering.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impairments {
    /// Network card of the host that sends in this direction.
    pub nic: Nic,
    /// Protocols that a firewall blocks.
    pub block: Vec<Block>,
    /// Times at which the direction is down.
    pub down: DownTimes,
    /// Loss model.
    pub loss: Loss,
    /// Unit of a loss decision.
    pub loss_per: LossPer,
    /// Share of packets that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Share of packets with one flipped bit, 0 to 1.
    pub corrupt: f64,
    /// Rate at which packets leave.
    pub rate: Rate,
    /// Bytes that the link layer adds to each packet, as the rate counts them.
    pub overhead: u32,
    /// Queue before the rate, and its drop policy.
    pub queue: Queue,
    /// Delay of the direction.
    pub delay: Nanos,
    /// Variation of the delay.
    pub jitter: Option<Jitter>,
    /// Reordering: packets that are held back and overtaken.
    pub reorder: Option<Reorder>,
}

impl Impairments {
    /// Returns the rate of the sender's network card; `None` where it has none.
    pub fn nic_rate(&self) -> Option<BitRate> {
        let of_link = self.rate.highest().unwrap_or_default();
        match self.nic {
            // A card as fast as the link would leave the link's own queue empty.
            Nic::Usual => Some(USUAL_NIC.max(BitRate(of_link.0.saturating_mul(2)))),
            Nic::Rate(rate) => Some(rate),
            Nic::None => None,
        }
    }

    /// Returns true if the fate or the delay of a packet depends on the seed.
    fn draws(&self) -> bool {
        let at_random = match self.loss {
            Loss::None | Loss::List(_) | Loss::Every(_) => false,
            Loss::Bernoulli(_) | Loss::GilbertElliott(_) | Loss::Outages(_) => true,
        };
        let shares = self.duplicate > 0.0 || self.corrupt > 0.0;
        let early = matches!(
            self.queue.discipline,
            Discipline::Pie { .. } | Discipline::Red | Discipline::DualPi2 { .. }
        );
        at_random || shares || early || self.jitter.is_some() || self.reorder.is_some()
    }
}

/// Least rate of a network card that the path does not mention.
pub const USUAL_NIC: BitRate = BitRate(10_000_000_000);

/// Network card of a host: the rate at which packets leave the host. It loses nothing; packets that wait for it
/// count against the send buffer of their socket, so that a full buffer holds the sender back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nic {
    /// A card of [`USUAL_NIC`], or of twice the link's rate where that is more.
    #[default]
    Usual,
    /// A card of this rate.
    Rate(BitRate),
    /// None: a host sends as fast as its CPU can.
    None,
}

/// Loss model, which decides which packets are lost before the queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Independent loss of each packet with this probability, 0 to 1.
    Bernoulli(f64),
    /// Two-state Markov chain that takes a step with each packet (Gilbert 1960; Elliott 1963).
    GilbertElliott(GilbertElliott),
    /// Two states that take turns in time, independent of the senders: the same for every contender.
    Outages(Outages),
    /// Exactly these packets, numbered from 1 in order of arrival on this link and direction.
    List(Arc<[u64]>),
    /// Each packet whose number is a multiple of this, at least 2, numbered as in a list.
    Every(u64),
}

/// Unit of one decision of the loss model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossPer {
    /// Packet on the link.
    #[default]
    Packet,
    /// Super-packet: all that a host sends at once. With segmentation offload that is up to 64 KiB of packets: the
    /// mistake of an emulator that does not look inside, for studies of it.
    Super,
}

/// Parameters of the chain, probabilities from 0 to 1, in netem's order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability of a change from good to bad, per packet.
    pub p: f64,
    /// Probability of a change from bad to good, per packet.
    pub r: f64,
    /// Probability of loss in the bad state (`1-h`).
    pub bad: f64,
    /// Probability of loss in the good state (`1-k`).
    pub good: f64,
}

/// Good and bad times of exponentially distributed lengths; everything is lost in a bad one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outages {
    /// Mean length of a good time.
    pub good: Nanos,
    /// Mean length of a bad time.
    pub bad: Nanos,
}

/// Rate at which packets leave the queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rate {
    /// No limit: packets leave at once.
    #[default]
    Unlimited,
    /// Constant rate in bits per second; packets leave one after another.
    Fixed(BitRate),
    /// Recorded rate; it repeats after its end.
    Trace(Arc<Trace>),
}

impl Rate {
    /// Returns the rate in bits per second, that of a trace on average; `None` where there is no limit.
    pub fn mean(&self) -> Option<f64> {
        match self {
            Rate::Unlimited => None,
            Rate::Fixed(rate) => Some(rate.0 as f64),
            Rate::Trace(trace) => Some(trace.capacity() / trace.length.as_secs_f64()),
        }
    }

    /// Returns the highest rate at which packets leave one after another; `None` where they do not.
    pub fn highest(&self) -> Option<BitRate> {
        match self {
            Rate::Unlimited => None,
            Rate::Fixed(rate) => Some(*rate),
            Rate::Trace(trace) => match &trace.content {
                Content::Steps(steps) => steps.iter().map(|step| step.rate).max(),
                // All packets of one opportunity leave at one time.
                Content::Opportunities { .. } => None,
            },
        }
    }
}

/// Queue before the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Capacity.
    pub limit: Limit,
    /// Queue discipline: drops before the queue is full.
    pub discipline: Discipline,
    /// ECN (RFC 3168): marks instead of early drops for packets that allow it.
    pub ecn: Ecn,
}

impl Default for Queue {
    fn default() -> Queue {
        let limit = Limit::Time(Nanos::from_millis(100));
        Queue { limit, discipline: Discipline::DropTail, ecn: Ecn::Ignored }
    }
}

/// ECN behaviour of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Drops, and never marks.
    #[default]
    Ignored,
    /// Marks packets that allow it.
    Marks,
}

/// Capacity of a queue, without the packet that is leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of IP packets and link-layer overhead.
    Bytes(u64),
    /// Packets.
    Packets(u64),
    /// Time: as many bytes as leave in it at the rate at the moment of arrival; always room for ten packets of 1500
    /// bytes.
    Time(Nanos),
}

/// Queue discipline: the treatment of packets before the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Tail drop: packets that find the queue full are dropped, and no others.
    DropTail,
    /// Controlled delay (RFC 8289).
    Codel {
        /// Acceptable standing delay.
        target: Nanos,
        /// Time for which packets must have waited longer than the target.
        interval: Nanos,
    },
    /// Fair queueing with controlled delay for each flow (RFC 8290).
    FqCodel {
        /// Target as for `Codel`.
        target: Nanos,
        /// Interval as for `Codel`.
        interval: Nanos,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// Target delay.
        target: Nanos,
    },
    /// Random early detection (Floyd & Jacobson 1993), with thresholds of a twelfth and a quarter of the limit.
    Red,
    /// Dual queue for L4S and other packets with coupled control (RFC 9332). It marks all packets that allow it.
    DualPi2 {
        /// Target delay of the classic queue.
        target: Nanos,
    },
}

/// Jitter: a packet takes the delay plus an offset drawn for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Jitter {
    /// Scale: half the range if uniform, the standard deviation otherwise.
    pub scale: Nanos,
    /// Shape of the distribution.
    pub shape: Shape,
    /// Order of packets: kept, or free to change.
    pub order: Order,
}

/// Distribution of the offset, always with mean 0. A delay below zero counts as zero.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Uniform between minus and plus the scale.
    Uniform,
    /// Normal.
    Normal,
    /// Pareto with the exponent 3: a long tail of late packets.
    Pareto,
    /// Draws from a table of offsets in units of the scale, sorted.
    Table(Arc<[f64]>),
}

/// Order of packets under jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Kept: a packet leaves no earlier than the packets before it.
    Kept,
    /// Free: each packet leaves when its own delay is over.
    Free,
}

/// Reordering: packets that are held back until others have passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Share of packets that are held back, 0 to 1.
    pub share: f64,
    /// Number of later packets that pass a held one (RFC 4737's extent), at least 1.
    pub depth: u32,
    /// Longest time that a packet is held, even if fewer have passed.
    pub patience: Nanos,
}

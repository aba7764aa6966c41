//! What lies between two hosts, as plain data: links, and what each does to packets in each
//! direction. Made from words by [`super::grammar`], carried out by [`super::impair`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::trace::{Content, Trace};
use crate::ends::Direction;
use crate::time::Nanos;
use crate::units::BitRate;
use crate::waiting::WaitMode;

/// The network between the near and the far host.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Its links, one after another as typed; at least one.
    pub links: Vec<Link>,
    /// The seed of all its impairments; the block's where none was given.
    pub seed: Option<u64>,
    /// How it is to be built; the best that this host has where none was given.
    pub backend: Option<Backend>,
    /// How its threads wait for the time of a release.
    pub wait: WaitMode,
    /// How close departures are joined; chosen by rate where none was given.
    pub grouping: Option<Grouping>,
    /// The largest IP packet of each link, in bytes.
    pub mtu: u16,
}

/// One link: a device at each host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Link {
    /// From near to far.
    pub up: Impairments,
    /// From far to near.
    pub down: Impairments,
}

impl Link {
    /// What happens one way.
    pub fn toward(&self, direction: Direction) -> &Impairments {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// What builds a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Two TUN devices, segments decided one by one in this program.
    Tun,
    /// Two veth pairs whose far ends this program reads and writes with packet sockets.
    Packet,
    /// The kernel's netem, on a host between the two.
    Netem,
}

impl Backend {
    /// The word for it in a path and in results.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Tun => "tun",
            Backend::Packet => "packet",
            Backend::Netem => "netem",
        }
    }

    /// What it is made of, for people.
    pub fn devices(self) -> &'static str {
        match self {
            Backend::Tun => "TUN devices",
            Backend::Packet => "veth pairs and packet sockets",
            Backend::Netem => "netem",
        }
    }
}

/// How packets that leave close to each other are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Only what leaves at the very same time goes together.
    Strict,
    /// Neighbours of one super-packet that leave within [`AGGREGATE`] of each other go together, at
    /// the time of the last of them, as from a network card that moderates its interrupts.
    Aggregate,
}

impl Grouping {
    /// The word for it in a path and in results.
    pub fn name(self) -> &'static str {
        match self {
            Grouping::Strict => "strict",
            Grouping::Aggregate => "aggregate",
        }
    }
}

/// The span over which [`Grouping::Aggregate`] joins departures.
pub const AGGREGATE: Nanos = Nanos::from_micros(15);

/// What one direction of a link does to packets, in the order in which it does it: the sender's
/// network card, loss and the other accidents, the queue and the rate, then delay, jitter and
/// reordering.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impairments {
    /// The network card of the host that sends this way.
    pub nic: Nic,
    /// Which packets are lost.
    pub loss: Loss,
    /// What a loss decides on.
    pub loss_per: LossPer,
    /// The share of packets that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// The share of packets of which one bit is flipped, 0 to 1.
    pub corrupt: f64,
    /// How fast packets leave.
    pub rate: Rate,
    /// Bytes that the link layer adds to each packet, in what the rate counts.
    pub overhead: u32,
    /// What waits for the rate, and what is dropped then.
    pub queue: Queue,
    /// Time on the way.
    pub delay: Nanos,
    /// How it varies.
    pub jitter: Option<Jitter>,
    /// Packets that are overtaken.
    pub reorder: Option<Reorder>,
}

impl Impairments {
    /// The rate of the sender's network card; `None` where it has none.
    pub fn nic_rate(&self) -> Option<BitRate> {
        let of_link = self.rate.highest().unwrap_or_default();
        match self.nic {
            // A card as fast as the link would leave the link's own queue empty.
            Nic::Usual => Some(USUAL_NIC.max(BitRate(of_link.0.saturating_mul(2)))),
            Nic::Rate(rate) => Some(rate),
            Nic::None => None,
        }
    }
}

/// The least rate of a network card of which nothing was said.
pub const USUAL_NIC: BitRate = BitRate(10_000_000_000);

/// The network card of a host: how fast packets leave the host. It loses nothing; what waits for it
/// counts against the send buffer of the socket it is from, so that a full buffer holds the sender
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nic {
    /// One of [`USUAL_NIC`], or of twice the link's rate where that is more.
    #[default]
    Usual,
    /// One of this rate.
    Rate(BitRate),
    /// None: a host sends as fast as its CPU can.
    None,
}

/// Which packets are lost before the queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability, 0 to 1, on its own.
    Bernoulli(f64),
    /// As a two-state Markov chain says, which takes a step with each packet (Gilbert 1960; Elliott
    /// 1963).
    GilbertElliott(GilbertElliott),
    /// As two states say that take turns in time, whoever sends: the same for every contender.
    Outages(Outages),
    /// Just these, numbered from 1 in order of arrival on this link and direction.
    List(Arc<[u64]>),
}

/// What one decision of the loss model is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossPer {
    /// A packet as the link carries it.
    #[default]
    Packet,
    /// All that a host hands over at once. With segmentation offload that is up to 64 KiB of packets: the
    /// mistake of an emulator that does not look inside, for studies of it.
    Super,
}

/// The chain's parameters, probabilities from 0 to 1, in netem's order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// From good to bad, per packet.
    pub p: f64,
    /// From bad to good, per packet.
    pub r: f64,
    /// Loss in the bad state (`1-h`).
    pub bad: f64,
    /// Loss in the good state (`1-k`).
    pub good: f64,
}

/// Good and bad times of exponentially distributed lengths; everything is lost in a bad one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outages {
    /// The mean length of a good time.
    pub good: Nanos,
    /// The mean length of a bad one.
    pub bad: Nanos,
}

/// How fast packets leave the queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rate {
    /// At once.
    #[default]
    Unlimited,
    /// One after another at this many bits per second.
    Fixed(BitRate),
    /// As recorded; starts again at its end.
    Trace(Arc<Trace>),
}

impl Rate {
    /// The highest rate at which packets leave one after another; `None` where they do not.
    pub fn highest(&self) -> Option<BitRate> {
        match self {
            Rate::Unlimited => None,
            Rate::Fixed(rate) => Some(*rate),
            Rate::Trace(trace) => match &trace.content {
                Content::Steps(steps) => steps.iter().map(|step| step.rate).max(),
                // What leaves at one opportunity leaves at one time.
                Content::Opportunities { .. } => None,
            },
        }
    }
}

/// The queue before the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// How much it holds.
    pub limit: Limit,
    /// What keeps it short.
    pub discipline: Discipline,
    /// Whether a packet that says so (ECN, RFC 3168) is marked where it would be dropped early.
    pub ecn: Ecn,
}

impl Default for Queue {
    fn default() -> Queue {
        let limit = Limit::Time(Nanos::from_millis(100));
        Queue { limit, discipline: Discipline::DropTail, ecn: Ecn::Ignored }
    }
}

/// Whether a queue marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// It drops.
    #[default]
    Ignored,
    /// It marks packets that allow it.
    Marks,
}

/// How much a queue holds, the packet that is leaving not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of IP packets and link-layer overhead.
    Bytes(u64),
    /// Packets.
    Packets(u64),
    /// As many bytes as leave in this time at the rate, at the moment of arrival; always room for ten
    /// packets of 1500 bytes.
    Time(Nanos),
}

/// What a queue does before it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Nothing: what finds it full is dropped.
    DropTail,
    /// Controlled delay (RFC 8289).
    Codel {
        /// How long packets may wait for good.
        target: Nanos,
        /// Over which time they must have waited longer.
        interval: Nanos,
    },
    /// Fair queueing with controlled delay for each flow (RFC 8290).
    FqCodel {
        /// As of `Codel`.
        target: Nanos,
        /// As of `Codel`.
        interval: Nanos,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// The delay it steers to.
        target: Nanos,
    },
}

/// How the delay varies: a packet takes the delay plus an offset drawn for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Jitter {
    /// The scale: half the range if uniform, the standard deviation otherwise.
    pub scale: Nanos,
    /// The shape.
    pub shape: Shape,
    /// Whether a packet may overtake those before it.
    pub order: Order,
}

/// The distribution of the offset; its mean is 0 in all of them. A delay below zero counts as zero.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Between minus and plus the scale.
    Uniform,
    /// Normal.
    Normal,
    /// Pareto with the exponent 3: a long tail of late packets.
    Pareto,
    /// Drawn from a table of offsets in units of the scale, sorted.
    Table(Arc<[f64]>),
}

/// Whether packets keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A packet leaves no earlier than those before it.
    Kept,
    /// Each leaves when its own delay is over.
    Free,
}

/// Packets that are held back until others have passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// The share of packets, 0 to 1.
    pub share: f64,
    /// How many later packets pass one (RFC 4737's extent), at least 1.
    pub depth: u32,
    /// After this time it goes, whether or not so many have passed.
    pub patience: Nanos,
}

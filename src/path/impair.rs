//! What becomes of each packet on one direction of a link: a pure function of the model, the seed
//! and the packets' arrivals. No clock, no socket: time is an argument, in nanoseconds since the
//! channel began.
//!
//! Randomness is counter-based: each draw is a hash of seed, link, direction, model and packet
//! number ([`draw`]), so that no model's draws depend on another's, and the same sequence of packets
//! meets the same fates. What changes with time (outages, traces) is fixed by the seed before the
//! first packet, and the same for whoever sends.

use std::collections::VecDeque;

use super::network::Impairments;
use crate::contract::Direction;
use crate::figures::path::Fates;
use crate::time::Nanos;

/// One direction of one link, from the arrival of packets to their departures. `H` is what its owner
/// calls a packet by.
#[derive(Debug)]
pub struct Channel<H> {
    model: Impairments,
    under_way: VecDeque<(Nanos, H, u32)>,
    fates: Fates,
}

/// What decides every draw of a channel, besides its model and the number of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The seed of the path.
    pub seed: u64,
    /// Which link, from 0.
    pub link: u16,
    /// Which way.
    pub direction: Direction,
}

impl<H: Copy> Channel<H> {
    /// A channel at its time 0, empty.
    pub fn new(model: &Impairments, _place: Place) -> Channel<H> {
        Channel { model: model.clone(), under_way: VecDeque::new(), fates: Fates::default() }
    }

    /// A packet arrives at `now`, which is no earlier than any time that an earlier call was given.
    /// Answers how many departures it will have: 1, or 2 if it is duplicated. Everything that departs
    /// until `now` must have been taken with [`Channel::depart`].
    pub fn arrive(&mut self, now: Nanos, packet: &Packet, handle: H) -> u32 {
        self.fates.arrived += 1;
        self.fates.arrived_bytes += u64::from(packet.bytes);
        self.under_way.push_back((now + self.model.delay, handle, packet.bytes));
        1
    }

    /// When [`Channel::depart`] next has something, if nothing more arrives; `None` while it is empty.
    pub fn next(&self) -> Option<Nanos> {
        self.under_way.front().map(|(at, ..)| *at)
    }

    /// The next departure, lost packets included, of those until `now`, in the order of their times.
    pub fn depart(&mut self, now: Nanos) -> Option<Departure<H>> {
        let (at, handle, bytes) = self.under_way.pop_front_if(|(at, ..)| *at <= now)?;
        self.fates.delivered += 1;
        self.fates.delivered_bytes += u64::from(bytes);
        Some(Departure { at, handle, end: End::Delivered(Changes::default()) })
    }

    /// What became of the packets so far.
    pub fn fates(&self) -> Fates {
        Fates { waiting: self.under_way.len() as u64, ..self.fates }
    }
}

/// What a channel has to know of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Its length as an IP packet, in bytes.
    pub bytes: u32,
    /// Which flow it belongs to: a hash of addresses, protocol and ports.
    pub flow: u64,
    /// Whether its sender understands congestion marks (RFC 3168).
    pub capable: Capable,
}

/// Whether a packet may be marked instead of dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capable {
    /// Not-ECT.
    No,
    /// ECT(0), ECT(1) or CE already.
    Yes,
}

/// Something that happened to a packet, at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<H> {
    /// When.
    pub at: Nanos,
    /// Which packet, as its owner named it.
    pub handle: H,
    /// What.
    pub end: End,
}

/// How a packet's, or a copy's, time in the channel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It comes out at the other side.
    Delivered(Changes),
    /// It is gone.
    Dropped(Cause),
}

/// What is changed in a packet that is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Its congestion mark is set (CE).
    pub marked: bool,
    /// This bit of it is flipped, counted from the first of its IP packet.
    pub flipped: Option<u32>,
}

/// Why a packet is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The loss model took it.
    Lost,
    /// The queue was full.
    Full,
    /// The queue dropped it early, to stay short.
    Early,
}

//! Simulation of hosts and the network between them, in virtual time: handles one event after the other until all ends are
//! done.
//!
//! Events at the same time are handled in this order: packets leave the links, in their order and up before down; timers of protocols
//! fire; flows take their turns, near ends first; control reports that a node will send no more; and the interfaces accept
//! outgoing packets.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::end::{SimulatedEnd, Stops};
use super::flight::{Cutter, Flights, PacketRef};
use super::header::Endpoint;
use super::wires::{Landed, Wires};
use crate::lead::load::OVER_TOO_SOON;
use deadheat_base::error::{Error, Result};
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::path::{Captured, PathFigures};
use deadheat_contract::measurements::series::Point;
use deadheat_contract::workload::load::Stint;
use deadheat_datapath::datapath::datagram::Received;
use deadheat_datapath::transport::userspace::UDP_HEADER;
use deadheat_path::network::Network;
use deadheat_path::observe::pcapng::{self, Section};
use deadheat_path::observe::{Capture, Observation};

/// Number of events at one time that proves that a protocol does not let time pass: every packet takes an interface
/// some time.
const STANDSTILL: u64 = 1_000_000;
/// Longest time for the set-up of all connections. A protocol that doubles its timeouts takes half of it in one wait.
const UNTIL_CONNECTED: Nanos = Nanos::from_secs(60);
/// First port that a socket may have: the first dynamic port (RFC 6335, section 6).
const FIRST_PORT: u16 = 49_152;
/// Number of events between two looks at the stop flag.
const LOOK_EVERY: u64 = 1 << 12;

/// Simulated world of hosts. Ends are numbered by flow: the near end of a flow, then its far end.
pub(super) struct World {
    clock: Manual,
    start: Nanos,
    wires: Wires,
    flights: Flights,
    cutter: Cutter,
    hosts: Vec<SimulatedHost>,
    /// Longest time for the set-up of the connections of work or load.
    until_connected: Nanos,
    ends: Vec<SimulatedEnd>,
    /// Own and other endpoint of each end's connection.
    sockets: Vec<[Endpoint; 2]>,
    /// Places of each flow's near and far end.
    places: Vec<Places>,
    /// Flows of the work; the others are load beside it.
    work: Range<usize>,
    /// Steps of work and load still to come, with their times; the earliest is first.
    agenda: VecDeque<(Nanos, AgendaStep)>,
    /// True for each end of the work that knows, from control, what the other end has sent.
    knows_sent: Vec<bool>,
    /// Numbers of near and far ends that had sent all they will when control last reported.
    sent: [usize; 2],
    stop: Arc<AtomicBool>,
}

/// Host with ends, and the interface by which its packets leave: its rate bounds a sender without congestion control on a
/// path without a rate.
#[derive(Debug)]
struct SimulatedHost {
    /// Index in the network.
    at: usize,
    /// Numbers of the ends that run here.
    ends: Vec<usize>,
    /// Time from which the interface accepts another packet.
    free_at: Nanos,
    /// Position of the end that transmits next.
    turn: usize,
}

/// Hosts of a flow's near and far end, by index in the network, and the numbers of their nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) hosts: [usize; 2],
    pub(super) nodes: [u16; 2],
}

/// Ends of the flows of a work or a load, near and far, with their places by flow.
pub(super) struct SimulatedFlows {
    pub(super) ends: [Vec<SimulatedEnd>; 2],
    pub(super) places: Vec<Places>,
}

/// Role of flows: measured work, or load beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Measured,
    Load,
}

/// Step of work or load as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgendaStep {
    Begin(Role),
    /// The load falls silent.
    EndLoad,
}

/// Time of a load beside the work.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoadSchedule {
    /// Time for which it runs before the work begins, unless it has a stint.
    pub(super) lead: Nanos,
    /// Part of the work's time during which it runs.
    pub(super) stint: Option<Stint>,
}

impl LoadSchedule {
    /// Returns the steps from `now` on, in their order. Of two at one time the step of the role that is first comes first.
    fn agenda(self, now: Nanos, roles: [Role; 2]) -> VecDeque<(Nanos, AgendaStep)> {
        let begin = |role| match (role, self.stint) {
            (Role::Measured, None) => now + self.lead,
            (Role::Load, Some(stint)) => now + stint.from,
            _ => now,
        };
        let mut steps: Vec<_> =
            roles.into_iter().map(|role| (begin(role), AgendaStep::Begin(role))).collect();
        steps.extend(self.stint.map(|stint| (now + stint.end(), AgendaStep::EndLoad)));
        steps.sort_by_key(|(at, _)| *at);
        steps.into()
    }
}

/// Callback for the points of a flow's series.
pub(super) type OnPoint<'a> = &'a mut dyn FnMut(Side, u16, Point);

impl World {
    /// Creates a world with `wires` between the hosts, starting now. Links that are down may hold up the set-up of
    /// connections for `outage`.
    pub(super) fn new(clock: Manual, wires: Wires, cutter: Cutter, outage: Nanos) -> World {
        World {
            start: clock.now(),
            clock,
            wires,
            flights: Flights::default(),
            cutter,
            hosts: Vec::new(),
            until_connected: UNTIL_CONNECTED + outage,
            ends: Vec::new(),
            sockets: Vec::new(),
            places: Vec::new(),
            work: 0..0,
            agenda: VecDeque::new(),
            knows_sent: Vec::new(),
            sent: [0; 2],
            stop: Arc::default(),
        }
    }

    /// Breaks off once `flag` is set.
    pub(super) fn stop_on(mut self, flag: Arc<AtomicBool>) -> World {
        self.stop = flag;
        self
    }

    /// Adds flows at their hosts, and handles events until they are connected. Work and load connect one after the other, as
    /// in real trials: each has its first round trips over a path without the other one.
    ///
    /// # Errors
    /// Fails with the error of a flow; if the connections are not set up after [`UNTIL_CONNECTED`].
    pub(super) fn connect(&mut self, role: Role, flows: SimulatedFlows) -> Result<()> {
        self.settle(role, flows)?;
        let deadline = self.clock.now() + self.until_connected;
        let is_connected = self.advance(deadline, &mut |_, _, _| {}, World::are_set_up)?;
        if is_connected { Ok(()) } else { Err(unconnected(self.until_connected)) }
    }

    /// Runs all flows of the work to their ends, and then stops the load; `beside` says when the load runs. If both begin at
    /// the same time, the role that connected first begins first.
    ///
    /// # Errors
    /// Fails with the error of a flow; if the flows are not done after `longest`.
    pub(super) fn run(
        &mut self,
        beside: LoadSchedule,
        longest: Nanos,
        on_point: OnPoint<'_>,
    ) -> Result<()> {
        let now = self.clock.now();
        let roles = if self.work.start == 0 {
            [Role::Measured, Role::Load]
        } else {
            [Role::Load, Role::Measured]
        };
        self.agenda = beside.agenda(now, roles);
        let work_is_over =
            |world: &mut World| Ok(world.of(Role::Measured).all(|end| end.is_over()));
        if !self.advance(now + longest + beside.lead, on_point, work_is_over)? {
            return Err(unfinished());
        }
        if !self.agenda.is_empty() {
            return Err(Error::peer("trial", OVER_TOO_SOON));
        }
        let now = self.clock.now();
        self.of(Role::Load).filter(|end| !end.is_over()).for_each(|end| end.stop(now));
        Ok(())
    }

    /// Handles one event after the other until `is_done`; returns false if that does not come until `deadline`.
    fn advance(
        &mut self,
        deadline: Nanos,
        on_point: OnPoint<'_>,
        is_done: fn(&mut World) -> Result<bool>,
    ) -> Result<bool> {
        let (mut now, mut here, mut steps) = (self.clock.now(), 0, 0u64);
        loop {
            self.step(now, on_point)?;
            while let Some((_, step)) = self.agenda.front().copied().filter(|(at, _)| *at <= now) {
                self.agenda.pop_front();
                self.take(step, now);
                self.step(now, on_point)?;
            }
            if is_done(self)? {
                return Ok(true);
            }
            let Some(next) = self.next(now).filter(|at| *at <= deadline) else { return Ok(false) };
            here = if next > now { 0 } else { here + 1 };
            if here > STANDSTILL {
                return Err(Error::peer(
                    "simulation",
                    format!(
                        "it stands still at {now}: a protocol wants to act again and again, and nothing comes of it"
                    ),
                ));
            }
            steps += 1;
            if steps.is_multiple_of(LOOK_EVERY) && self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            now = now.max(next);
            self.clock.advance_to(now);
        }
    }

    /// Puts the ends of new flows at their hosts.
    fn settle(&mut self, role: Role, flows: SimulatedFlows) -> Result<()> {
        let first = self.flows();
        self.places.extend(flows.places);
        let new = first..self.flows();
        let [near, far] = flows.ends;
        self.ends.extend(near.into_iter().zip(far).flat_map(|(near, far)| [near, far]));
        self.knows_sent.resize(self.ends.len(), false);
        for side in [Side::Near, Side::Far] {
            for flow in new.clone() {
                let (at, end) = (self.places[flow].hosts[side as usize], end_of(side, flow));
                match self.hosts.iter_mut().find(|host| host.at == at) {
                    Some(host) => host.ends.push(end),
                    None => {
                        let (ends, free_at) = (vec![end], Nanos::ZERO);
                        self.hosts.push(SimulatedHost { at, ends, free_at, turn: 0 });
                    }
                }
            }
        }
        for flow in new.clone() {
            let dialled = self.dial(flow, 0)?;
            self.sockets.extend(dialled);
        }
        if role == Role::Measured {
            self.work = new;
        }
        Ok(())
    }

    /// Opens the sockets of a flow's connection with this number: own and other endpoint, at both ends.
    fn dial(&mut self, flow: usize, connection: u16) -> Result<[[Endpoint; 2]; 2]> {
        let port = |number: u64| FIRST_PORT + (number % u64::from(u16::MAX - FIRST_PORT)) as u16;
        let number = hash(flow);
        let ports = [port(number.wrapping_add(connection.into())), port(number)];
        let ends = self.wires.join(self.places[flow].hosts, ports)?;
        let [near, far] = ends;
        let seen = self.wires.greet(self.clock.now() - self.start, ends);
        Ok([[near, far], [far, seen]])
    }

    fn take(&mut self, step: AgendaStep, now: Nanos) {
        match step {
            AgendaStep::Begin(role) => self.of(role).for_each(|end| end.begin(now)),
            AgendaStep::EndLoad => self.of(Role::Load).for_each(|end| end.fall_silent(now)),
        }
    }

    /// Returns the ends, at both hosts, of the work or of the load.
    fn of(&mut self, role: Role) -> impl Iterator<Item = &mut SimulatedEnd> {
        let work = self.work.clone();
        let belongs = move |at: usize| work.contains(&flow_of(at)) == (role == Role::Measured);
        self.ends.iter_mut().enumerate().filter(move |(at, _)| belongs(*at)).map(|(_, end)| end)
    }

    /// Returns true if all connections are set up: flows begin together, as when control starts them.
    fn are_set_up(&mut self) -> Result<bool> {
        let mut all = true;
        for end in &mut self.ends {
            all &= end.has_opened()?;
        }
        Ok(all)
    }

    /// Handles all events of this time.
    fn step(&mut self, now: Nanos, on_point: OnPoint<'_>) -> Result<()> {
        self.arrivals(now);
        for end in &mut self.ends {
            end.wake_if_called(now);
            end.fire(now)?;
        }
        let all = 0..self.flows();
        let turns = [Side::Near, Side::Far].into_iter();
        for (side, flow) in turns.flat_map(|side| all.clone().map(move |flow| (side, flow))) {
            let at = end_of(side, flow);
            if !self.ends[at].is_due(now) {
                continue;
            }
            self.ends[at].visit(&self.clock)?;
            if self.ends[at].asks_for_next() {
                // The far end's machine exists before the first datagram of the near one.
                let both = [Side::Near, Side::Far].map(|side| end_of(side, flow));
                for end in both {
                    self.ends[end].go_on(now)?;
                }
                let sockets = self.dial(flow, self.ends[both[0]].connection())?;
                both.into_iter().zip(sockets).for_each(|(end, own)| self.sockets[end] = own);
            }
            let of_work = self.work.contains(&flow).then(|| flow - self.work.start);
            for point in self.ends[at].points() {
                if let Some(flow) = of_work {
                    on_point(side, flow as u16, point);
                }
            }
        }
        self.announce_sent(now, Side::Near);
        self.announce_sent(now, Side::Far);
        (0..self.hosts.len()).for_each(|host| self.transmit(now, host));
        Ok(())
    }

    /// Returns the time of the next event.
    fn next(&self, now: Nanos) -> Option<Nanos> {
        let wires = self.wires.next().map(|at| self.start + at).into_iter();
        let ends = self.ends.iter().filter_map(SimulatedEnd::next);
        let may_transmit = |end: &usize| self.ends[*end].may_transmit();
        let interfaces = self.hosts.iter().filter(|host| host.ends.iter().any(may_transmit));
        let interfaces = interfaces.map(|host| host.free_at.max(now));
        wires.chain(ends).chain(interfaces).chain(self.agenda.front().map(|(at, _)| *at)).min()
    }

    fn flows(&self) -> usize {
        self.places.len()
    }

    /// Handles the arrivals at the hosts until now.
    fn arrivals(&mut self, now: Nanos) {
        while let Some(Landed { part, is_sound }) =
            self.wires.land(now - self.start, &mut self.flights)
        {
            let (to, _) = self.flights.receiver(part);
            let [own, other] = self.sockets[to];
            // A socket is connected: it takes nothing from elsewhere.
            let is_meant = is_sound && part.is_between([other, own]);
            if is_meant && self.flights.arrive(part) {
                let ((to, connection), strand, ecn, bytes) = self.flights.datagram(part);
                // A datagram of an earlier connection has no receiver any more.
                if self.ends[to].connection() == connection {
                    self.ends[to].arrive(strand, Received { at: now, bytes, ecn });
                }
            }
            self.flights.departed(part);
        }
    }

    /// Reports to nodes of the other side what this side's ends of their flows have sent, once all nodes of these have sent
    /// all they will.
    fn announce_sent(&mut self, now: Nanos, side: Side) {
        let (work, me) = (self.work.clone(), side as usize);
        let sent = |world: &World, flow: usize| world.ends[end_of(side, flow)].sent();
        let ends = work.clone().filter(|flow| sent(self, *flow).is_some()).count();
        if std::mem::replace(&mut self.sent[me], ends) == ends {
            return;
        }
        let node = |flow: usize, side: Side| self.places[flow].nodes[side as usize];
        let has_sent =
            |of: u16| work.clone().all(|flow| node(flow, side) != of || sent(self, flow).is_some());
        let knows = |of: u16| {
            let mut flows = work.clone().filter(|flow| node(*flow, side.other()) == of);
            flows.all(|flow| has_sent(node(flow, side)))
        };
        let told: Vec<usize> =
            work.clone().filter(|flow| knows(node(*flow, side.other()))).collect();
        for flow in told {
            let other = end_of(side.other(), flow);
            if let Some(sent) = sent(self, flow).filter(|_| !self.knows_sent[other]) {
                self.knows_sent[other] = true;
                self.ends[other].on_peer_finished(now, sent);
            }
        }
    }

    /// Makes the interface of a host accept the packets it can, its ends in turns.
    fn transmit(&mut self, now: Nanos, at: usize) {
        let (count, mut idle) = (self.hosts[at].ends.len(), 0);
        while self.hosts[at].free_at <= now && idle < count {
            let host = &mut self.hosts[at];
            let from = host.ends[host.turn];
            host.turn = (host.turn + 1) % count;
            let to = end_of(side_of(from).other(), flow_of(from));
            let to = (to, self.ends[to].connection());
            let end = &mut self.ends[from];
            let launched = self
                .flights
                .launch(to, |room| if end.may_transmit() { end.transmit(now, room) } else { None });
            match launched {
                Some(slot) => {
                    idle = 0;
                    self.hosts[at].free_at = now + self.leave(now, slot, from);
                }
                None => idle += 1,
            }
        }
    }

    /// Sends a datagram from its end, packet after packet, and returns the time that this takes the interface.
    fn leave(&mut self, now: Nanos, slot: u32, from: usize) -> Nanos {
        let to = side_of(from).other();
        let bytes = self.flights.len(slot) + u64::from(UDP_HEADER);
        let fragments = (self.cutter.parts(bytes), self.cutter.room());
        self.flights.cut(slot, fragments, hash(flow_of(from)));
        let (since, ends) = (now - self.start, self.sockets[from]);
        let mut carried = 0;
        for (part, len) in self.cutter.packets(bytes).enumerate() {
            // The departures that the previous packet caused have to be handled first.
            self.arrivals(now);
            let part = PacketRef::new(slot, part as u16, len as u32, to, ends);
            self.wires.send(since, part, &mut self.flights);
            carried += len;
        }
        self.flights.gone(slot);
        let nic = self.wires.nic(since, ends, to).0;
        let takes = (u128::from(carried) * 8_000_000_000).div_ceil(u128::from(nic.max(1)));
        Nanos(u64::try_from(takes).unwrap_or(u64::MAX))
    }

    /// Returns the figures of the path.
    pub(super) fn figures(&self) -> PathFigures {
        self.wires.figures()
    }

    /// Appends the packets to the capture, if they are captured.
    pub(super) fn capture(
        &mut self,
        network: &Network,
        observation: Option<Observation>,
    ) -> Option<Captured> {
        let Capture { file, title } = observation?.capture?;
        let ways = self.wires.take_logs(network);
        Some(pcapng::append(&file, &Section { title: &title, began_ns: 0, ways }))
    }

    /// Returns the ends of both hosts as they stopped, first of the work, then of the load; and the time that the trial
    /// took.
    pub(super) fn stops(self) -> ([Vec<Stops>; 2], [Vec<Stops>; 2], Nanos) {
        let took = self.clock.now() - self.start;
        let work = self.work;
        let (mut own, mut load) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for (at, end) in self.ends.into_iter().enumerate() {
            let of = if work.contains(&flow_of(at)) { &mut own } else { &mut load };
            of[side_of(at) as usize].extend(end.stops());
        }
        (own, load, took)
    }
}

/// Returns the number of a flow's end on one side.
fn end_of(side: Side, flow: usize) -> usize {
    2 * flow + side as usize
}

/// Returns the flow of an end.
fn flow_of(end: usize) -> usize {
    end / 2
}

/// Returns the side of an end.
fn side_of(end: usize) -> Side {
    if end.is_multiple_of(2) { Side::Near } else { Side::Far }
}

/// Returns the hash by which queues tell a flow apart.
fn hash(flow: usize) -> u64 {
    SplitMix64::new(flow as u64).next_u64()
}

fn unfinished() -> Error {
    Error::peer("trial", "it did not end in time; one end hangs")
}

/// Returns the error of connections that were not set up in time, the loss of packets included.
fn unconnected(after: Nanos) -> Error {
    Error::peer("trial", format!("it was not connected after {after}"))
}

//! Simulation of hosts and the network between them, in virtual time: handles one event after the other until all ends are
//! done.
//!
//! Events at the same time are handled in this order: packets leave the links, in their order and up before down; timers of protocols
//! fire; flows take their turns, near ends first; control reports that a node will send no more; and the interfaces, those
//! of near ends first, accept outgoing packets.

use std::collections::VecDeque;
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

/// Simulated world of hosts. Ends are numbered: the near ends by flow, then the far ends.
pub(super) struct World {
    clock: Manual,
    start: Nanos,
    wires: Wires,
    flights: Flights,
    cutter: Cutter,
    hosts: Vec<SimulatedHost>,
    /// Longest time for the set-up of all connections.
    until_connected: Nanos,
    ends: Vec<SimulatedEnd>,
    /// Own and other endpoint of each end's connection.
    sockets: Vec<[Endpoint; 2]>,
    /// Places of each flow's near and far end.
    places: Vec<Places>,
    /// Number of flows of the work, which are first; the others are load beside it.
    work: usize,
    /// Steps of work and load still to come once everything is connected, with their times; the earliest is first.
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
#[derive(Default)]
pub(super) struct SimulatedFlows {
    pub(super) ends: [Vec<SimulatedEnd>; 2],
    pub(super) places: Vec<Places>,
}

/// Role of flows: measured work, or load beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
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
    /// Returns the steps from `now` on, in their order.
    fn agenda(self, now: Nanos) -> VecDeque<(Nanos, AgendaStep)> {
        let (work, load) = (AgendaStep::Begin(Role::Measured), AgendaStep::Begin(Role::Load));
        match self.stint {
            None => [(now, load), (now + self.lead, work)].into(),
            Some(stint) => {
                let end = (now + stint.end(), AgendaStep::EndLoad);
                [(now, work), (now + stint.from, load), end].into()
            }
        }
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
            work: 0,
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

    /// Runs all flows of the work to their ends, and then stops the load; `beside` says when the load runs.
    ///
    /// # Errors
    /// Fails with the error of a flow; if the connections are not set up after [`UNTIL_CONNECTED`], or the flows not done
    /// `longest` after that.
    pub(super) fn run(
        &mut self,
        work: SimulatedFlows,
        load: SimulatedFlows,
        beside: LoadSchedule,
        longest: Nanos,
        on_point: OnPoint<'_>,
    ) -> Result<()> {
        self.settle(work, load)?;
        let mut deadline = self.start + self.until_connected;
        let (mut now, mut here, mut steps) = (self.clock.now(), 0, 0u64);
        let mut is_set_up = false;
        loop {
            self.step(now, on_point)?;
            if !is_set_up && self.are_set_up()? {
                is_set_up = true;
                deadline = now + longest + beside.lead;
                self.agenda = beside.agenda(now);
            }
            while let Some((_, step)) = self.agenda.front().copied().filter(|(at, _)| *at <= now) {
                self.agenda.pop_front();
                self.take(step, now);
                self.step(now, on_point)?;
            }
            if is_set_up && self.of(Role::Measured).all(|end| end.is_over()) {
                if !self.agenda.is_empty() {
                    return Err(Error::peer("trial", OVER_TOO_SOON));
                }
                self.of(Role::Load).filter(|end| !end.is_over()).for_each(|end| end.stop(now));
                return Ok(());
            }
            let next = self.next(now).filter(|at| *at <= deadline);
            let next = next.ok_or_else(|| {
                if is_set_up { unfinished() } else { unconnected(self.until_connected) }
            })?;
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

    /// Puts the ends at their hosts.
    fn settle(&mut self, work: SimulatedFlows, load: SimulatedFlows) -> Result<()> {
        self.work = work.places.len();
        self.places = work.places.into_iter().chain(load.places).collect();
        let sides = work.ends.into_iter().zip(load.ends);
        self.ends = sides.flat_map(|(work, load)| work.into_iter().chain(load)).collect();
        self.knows_sent = vec![false; self.ends.len()];
        for side in [Side::Near, Side::Far] {
            for (flow, places) in self.places.iter().enumerate() {
                let (at, end) = (places.hosts[side as usize], self.end(side, flow));
                match self.hosts.iter_mut().find(|host| host.at == at) {
                    Some(host) => host.ends.push(end),
                    None => {
                        let (ends, free_at) = (vec![end], Nanos::ZERO);
                        self.hosts.push(SimulatedHost { at, ends, free_at, turn: 0 });
                    }
                }
            }
        }
        let dialled: Result<Vec<_>> = (0..self.flows()).map(|flow| self.dial(flow, 0)).collect();
        let dialled = dialled?;
        self.sockets =
            [0, 1].into_iter().flat_map(|side| dialled.iter().map(move |of| of[side])).collect();
        Ok(())
    }

    /// Opens the sockets of a flow's connection with this number: own and other endpoint, at both ends.
    fn dial(&mut self, flow: usize, connection: u16) -> Result<[[Endpoint; 2]; 2]> {
        let port = |number: u64| FIRST_PORT + (number % u64::from(u16::MAX - FIRST_PORT)) as u16;
        let number = of_flow(flow);
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
        let (flows, work) = (self.flows().max(1), self.work);
        let belongs = move |at: usize| (at % flows < work) == (role == Role::Measured);
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
        let flows = self.flows();
        for at in 0..self.ends.len() {
            if self.ends[at].is_due(now) {
                self.ends[at].visit(&self.clock)?;
                if self.ends[at].asks_for_next() {
                    // The far end's machine exists before the first datagram of the near one.
                    let flow = at % flows;
                    for end in [flow, flow + flows] {
                        self.ends[end].go_on(now)?;
                    }
                    let sockets = self.dial(flow, self.ends[flow].connection())?;
                    (self.sockets[flow], self.sockets[flow + flows]) = (sockets[0], sockets[1]);
                }
                let (side, flow) =
                    if at < flows { (Side::Near, at) } else { (Side::Far, at - flows) };
                let is_work = flow < self.work;
                for point in self.ends[at].points().filter(|_| is_work) {
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

    /// Returns the number of a flow's end on one side.
    fn end(&self, side: Side, flow: usize) -> usize {
        flow + side as usize * self.flows()
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
        let (work, me) = (self.work, side as usize);
        let own = self.end(side, 0);
        let sent = |world: &World, flow: usize| world.ends[own + flow].sent();
        let ends = (0..work).filter(|flow| sent(self, *flow).is_some()).count();
        if std::mem::replace(&mut self.sent[me], ends) == ends {
            return;
        }
        let node = |flow: usize, side: Side| self.places[flow].nodes[side as usize];
        let has_sent =
            |of: u16| (0..work).all(|flow| node(flow, side) != of || sent(self, flow).is_some());
        let knows = |of: u16| {
            let mut flows = (0..work).filter(|flow| node(*flow, side.other()) == of);
            flows.all(|flow| has_sent(node(flow, side)))
        };
        let told: Vec<usize> = (0..work).filter(|flow| knows(node(*flow, side.other()))).collect();
        for flow in told {
            let other = self.end(side.other(), flow);
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
            let flows = self.flows();
            let to = (from + flows) % (2 * flows);
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
        let flows = self.flows();
        let to = if from < flows { Side::Far } else { Side::Near };
        let bytes = self.flights.len(slot) + u64::from(UDP_HEADER);
        let fragments = (self.cutter.parts(bytes), self.cutter.room());
        self.flights.cut(slot, fragments, of_flow(from % flows));
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
        let (flows, work) = (self.flows(), self.work);
        let mut near: Vec<Stops> = self.ends.into_iter().filter_map(SimulatedEnd::stops).collect();
        let mut far = near.split_off(flows.min(near.len()));
        let load = [&mut near, &mut far].map(|host| host.split_off(work.min(host.len())));
        ([near, far], load, took)
    }
}

/// Returns the hash by which queues tell a flow apart.
fn of_flow(flow: usize) -> u64 {
    SplitMix64::new(flow as u64).next_u64()
}

fn unfinished() -> Error {
    Error::peer("trial", "it did not end in time; one end hangs")
}

/// Returns the error of connections that were not set up in time, the loss of packets included.
fn unconnected(after: Nanos) -> Error {
    Error::peer("trial", format!("it was not connected after {after}"))
}

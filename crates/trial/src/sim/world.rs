//! Simulation of two hosts and the network between them, in virtual time: handles one event after the other until both
//! ends are done.
//!
//! Events at the same time are handled in this order: packets leave the links, in their order and up before down; timers of protocols
//! fire; flows take their turns, near host first; control reports that a host will send no more; and the interfaces,
//! near before far, accept outgoing packets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::end::{SimulatedEnd, Stops};
use super::flight::{Cutter, Flights, PacketRef};
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
/// Number of events between two looks at the stop flag.
const LOOK_EVERY: u64 = 1 << 12;

/// Simulated world of two hosts. Ends are numbered: the near host's by flow, then the far host's.
pub(super) struct World {
    clock: Manual,
    start: Nanos,
    wires: Wires,
    flights: Flights,
    cutter: Cutter,
    interfaces: [Interface; 2],
    /// Longest time for the set-up of all connections.
    until_connected: Nanos,
    ends: Vec<SimulatedEnd>,
    /// Number of flows of the work, which are first; the others are load beside it.
    work: usize,
    /// Steps of work and load still to come once everything is connected, with their times; the earliest is first.
    agenda: VecDeque<(Nanos, AgendaStep)>,
    /// True for each host whose flows have sent all they will, once control has reported it to the other host.
    announced: [bool; 2],
    stop: Arc<AtomicBool>,
}

/// Interface by which one host's packets leave: its rate bounds a sender without congestion control on a path without a
/// rate.
#[derive(Debug, Clone, Copy, Default)]
struct Interface {
    /// Time from which it accepts another packet.
    free_at: Nanos,
    /// Flow that transmits next.
    turn: usize,
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
    /// Creates a world with `wires` between the two hosts, starting now. Links that are down may hold up the set-up of
    /// connections for `outage`.
    pub(super) fn new(clock: Manual, wires: Wires, cutter: Cutter, outage: Nanos) -> World {
        World {
            start: clock.now(),
            clock,
            wires,
            flights: Flights::default(),
            cutter,
            interfaces: [Interface::default(); 2],
            until_connected: UNTIL_CONNECTED + outage,
            ends: Vec::new(),
            work: 0,
            agenda: VecDeque::new(),
            announced: [false; 2],
            stop: Arc::default(),
        }
    }

    /// Breaks off once `flag` is set.
    pub(super) fn stop_on(mut self, flag: Arc<AtomicBool>) -> World {
        self.stop = flag;
        self
    }

    /// Runs all flows of the work to their ends, and then stops the load. `work` and `load` have the near and the far
    /// ends of each; `beside` says when the load runs.
    ///
    /// # Errors
    /// Fails with the error of a flow; if the connections are not set up after [`UNTIL_CONNECTED`], or the flows not done
    /// `longest` after that.
    pub(super) fn run(
        &mut self,
        work: [Vec<SimulatedEnd>; 2],
        load: [Vec<SimulatedEnd>; 2],
        beside: LoadSchedule,
        longest: Nanos,
        on_point: OnPoint<'_>,
    ) -> Result<()> {
        self.work = work[0].len();
        let hosts = work.into_iter().zip(load);
        self.ends = hosts.flat_map(|(work, load)| work.into_iter().chain(load)).collect();
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
            end.fire(now)?;
        }
        let flows = self.flows();
        for at in 0..self.ends.len() {
            if self.ends[at].is_due(now) {
                self.ends[at].visit(&self.clock)?;
                if self.ends[at].asks_for_next() {
                    // The far end's machine exists before the first datagram of the near one.
                    for end in [at, at % flows + flows] {
                        self.ends[end].go_on(now)?;
                    }
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
        self.transmit(now, Side::Near);
        self.transmit(now, Side::Far);
        Ok(())
    }

    /// Returns the time of the next event.
    fn next(&self, now: Nanos) -> Option<Nanos> {
        let wires = self.wires.next().map(|at| self.start + at).into_iter();
        let ends = self.ends.iter().filter_map(SimulatedEnd::next);
        let flows = self.flows();
        let interfaces = self.interfaces.iter().zip([&self.ends[..flows], &self.ends[flows..]]);
        let interfaces = interfaces
            .filter(|(_, ends)| ends.iter().any(SimulatedEnd::may_transmit))
            .map(|(interface, _)| interface.free_at.max(now));
        wires.chain(ends).chain(interfaces).chain(self.agenda.front().map(|(at, _)| *at)).min()
    }

    fn flows(&self) -> usize {
        self.ends.len() / 2
    }

    /// Handles the arrivals at the two hosts until now.
    fn arrivals(&mut self, now: Nanos) {
        while let Some(Landed { part, is_sound }) =
            self.wires.land(now - self.start, &mut self.flights)
        {
            if is_sound && self.flights.arrive(part) {
                let ((to, connection), strand, ecn, bytes) = self.flights.datagram(part);
                // A datagram of an earlier connection has no receiver any more.
                if self.ends[to].connection() == connection {
                    self.ends[to].arrive(strand, Received { at: now, bytes, ecn });
                }
            }
            self.flights.departed(part);
        }
    }

    /// Reports to the other host that this host has sent all it will, once that is so.
    fn announce_sent(&mut self, now: Nanos, side: Side) {
        let (me, flows) = (host(side), self.flows());
        let (near, far) = self.ends.split_at_mut(flows);
        let (near, far) = (&mut near[..self.work], &mut far[..self.work]);
        let (mine, others) = if side == Side::Near { (near, far) } else { (far, near) };
        if self.announced[me] || mine.iter().any(|end| end.sent().is_none()) {
            return;
        }
        self.announced[me] = true;
        for (sent, other) in mine.iter().filter_map(SimulatedEnd::sent).zip(others) {
            other.on_peer_finished(now, sent);
        }
    }

    /// Makes the interface of a host accept the packets it can, its flows in turns.
    fn transmit(&mut self, now: Nanos, side: Side) {
        let (me, flows) = (host(side), self.flows());
        let mut idle = 0;
        while self.interfaces[me].free_at <= now && idle < flows {
            let flow = self.interfaces[me].turn;
            self.interfaces[me].turn = (flow + 1) % flows;
            let (from, to) = (me * flows + flow, (1 - me) * flows + flow);
            let to = (to, self.ends[to].connection());
            let end = &mut self.ends[from];
            let launched = self
                .flights
                .launch(to, |room| if end.may_transmit() { end.transmit(now, room) } else { None });
            match launched {
                Some(slot) => {
                    idle = 0;
                    self.leave(now, side, slot, flow);
                }
                None => idle += 1,
            }
        }
    }

    /// Sends a datagram from its host, packet after packet.
    fn leave(&mut self, now: Nanos, side: Side, slot: u32, flow: usize) {
        let flow = SplitMix64::new(flow as u64).next_u64();
        let bytes = self.flights.len(slot) + u64::from(UDP_HEADER);
        self.flights.cut(slot, self.cutter.parts(bytes), flow);
        let since = now - self.start;
        let mut carried = 0;
        for (part, len) in self.cutter.packets(bytes).enumerate() {
            // The departures that the previous packet caused have to be handled first.
            self.arrivals(now);
            let part = PacketRef::new(slot, part as u16, len as u32, side.other());
            self.wires.send(since, side, part, &mut self.flights);
            carried += len;
        }
        self.flights.gone(slot);
        let nic = self.wires.nic(since, side).0;
        let takes = (u128::from(carried) * 8_000_000_000).div_ceil(u128::from(nic.max(1)));
        self.interfaces[host(side)].free_at = now + Nanos(u64::try_from(takes).unwrap_or(u64::MAX));
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

fn host(side: Side) -> usize {
    match side {
        Side::Near => 0,
        Side::Far => 1,
    }
}

fn unfinished() -> Error {
    Error::peer("trial", "it did not end in time; one end hangs")
}

/// Returns the error of connections that were not set up in time, the loss of packets included.
fn unconnected(after: Nanos) -> Error {
    Error::peer("trial", format!("it was not connected after {after}"))
}

//! End of one flow: the same flow as in a real trial, but with waits that end in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::BEGIN;
use crate::agent::driver::{Flow, Signal, Turns, Watch, failed};
use deadheat_base::ecn::Codepoint;
use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_contract::contract::{Action, GUARD, Patience};
use deadheat_contract::measurements::series::{Point, Series};
use deadheat_contract::measurements::{ConnStats, Tally};
use deadheat_contract::workload::{EndpointReport, FlowEvent};
use deadheat_datapath::datapath::datagram::Received;
use deadheat_datapath::transport::several::JoinedConn;
use deadheat_datapath::transport::userspace::OverPath;
use deadheat_datapath::transport::{Conn, Effective, Progress};

/// Longest wait of a flow with a message that does not fit, as in a real trial.
const ROOM_GUARD: Nanos = Nanos::from_millis(1);

/// Connection on the simulated path: of one protocol, or of several that share its lanes.
pub(super) type SimulatedConn = JoinedConn<OverPath>;

/// Function that makes the connections of a flow from their numbers, from 0.
pub(super) type Next = Box<dyn FnMut(u16) -> Result<SimulatedConn>>;

pub(super) struct SimulatedEnd {
    flow: Flow<SimulatedConn>,
    next_connection: Next,
    /// Number of connections before this one.
    connection: u16,
    phase: Phase,
    turns: Option<Turns>,
    signal: Signal,
    reports: FlowWatch,
    /// Time at which the flow takes its next turn by itself, and time of the protocol's next timer.
    wake: Option<Nanos>,
    deadline: Option<Nanos>,
    /// Flag that other ends of its node set to wake it, if they hand on messages to each other.
    called: Option<Arc<AtomicBool>>,
    /// Event that wakes it: space to send, or arrivals.
    waits_for: WaitsFor,
    /// True if the protocol may have something to transmit.
    may_transmit: bool,
    /// Strand that transmits next.
    turn: usize,
    /// True if it neither sends nor receives any more.
    silent: bool,
    /// True once the peer's close was seen; it is reported once.
    saw_close: bool,
    stopped: Option<Stops>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    Arrivals,
    Room,
}

/// Progress of an end with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The flow takes turns.
    Runs,
    /// The half has asked for the next connection.
    Asks,
    /// The handshake of the next connection is in progress.
    Opens,
}

/// Results of an end.
pub(super) struct Stops {
    pub(super) report: EndpointReport,
    pub(super) series: Series,
    pub(super) stats: ConnStats,
    pub(super) effective: Effective,
}

/// Reports of a flow.
#[derive(Default)]
struct FlowWatch {
    sent: Option<Tally>,
    points: Vec<Point>,
}

impl Watch for FlowWatch {
    fn sent_all(&mut self, sent: Tally) {
        self.sent = Some(sent);
    }

    fn sampled(&mut self, point: &Point) {
        self.points.push(*point);
    }
}

impl SimulatedEnd {
    /// Creates a flow during the set-up of its connection.
    pub(super) fn new(
        flow: Flow<SimulatedConn>,
        next_connection: Next,
        called: Option<Arc<AtomicBool>>,
    ) -> SimulatedEnd {
        let deadline = flow.conn.next_deadline();
        SimulatedEnd {
            flow,
            next_connection,
            connection: 0,
            phase: Phase::Runs,
            turns: None,
            signal: Signal::default(),
            reports: FlowWatch::default(),
            wake: None,
            deadline,
            called,
            waits_for: WaitsFor::Arrivals,
            may_transmit: true,
            turn: 0,
            silent: false,
            saw_close: false,
            stopped: None,
        }
    }

    /// Returns true if its connection is set up.
    pub(super) fn has_opened(&mut self) -> Result<bool> {
        let mut all = true;
        for conn in self.flow.conn.conns() {
            all &= conn.has_opened().map_err(|e| failed("set up a connection", e))?;
        }
        Ok(all)
    }

    /// Returns the number of the connection that is open or being opened, from 0.
    pub(super) fn connection(&self) -> u16 {
        self.connection
    }

    /// Returns true if its half has asked for the next connection.
    pub(super) fn asks_for_next(&self) -> bool {
        self.phase == Phase::Asks
    }

    /// Closes the connection, and begins the next.
    pub(super) fn go_on(&mut self, now: Nanos) -> Result<()> {
        self.connection += 1;
        let next = (self.next_connection)(self.connection)?;
        self.flow.leave_for(Box::new(next));
        self.deadline = self.flow.conn.next_deadline();
        (self.phase, self.may_transmit, self.saw_close) = (Phase::Opens, true, false);
        self.wake_up(now);
        Ok(())
    }

    /// Begins the flow.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.turns = Some(self.flow.begin(now));
        self.wake = Some(now);
    }

    pub(super) fn is_over(&self) -> bool {
        self.stopped.is_some()
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        !self.is_over() && self.wake.is_some_and(|at| at <= now)
    }

    /// Makes the flow take a turn now if another end of its node has called it.
    pub(super) fn wake_if_called(&mut self, now: Nanos) {
        if self.called.as_ref().is_some_and(|flag| flag.swap(false, Ordering::Relaxed)) {
            self.wake_up(now);
        }
    }

    /// Returns the time at which it next acts by itself: no time at all if it was called.
    pub(super) fn next(&self) -> Option<Nanos> {
        if !self.is_over() && self.called.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
        {
            return Some(Nanos::ZERO);
        }
        let wake = self.wake.filter(|_| !self.is_over());
        [wake, self.deadline].into_iter().flatten().min()
    }

    pub(super) fn sent(&self) -> Option<Tally> {
        self.reports.sent
    }

    /// Returns the points taken since the last call.
    pub(super) fn points(&mut self) -> std::vec::Drain<'_, Point> {
        self.reports.points.drain(..)
    }

    /// Handles a datagram that arrived for one of the connection's strands.
    pub(super) fn arrive(&mut self, strand: u8, datagram: Received<'_>) {
        if self.silent {
            return;
        }
        if let Some(conn) = self.flow.conn.conns().nth(strand.into()) {
            conn.handle(datagram);
        }
        self.deadline = self.flow.conn.next_deadline();
        self.may_transmit = true;
        self.wake_up(datagram.at);
    }

    /// Makes the flow, once it has begun, take a turn now.
    fn wake_up(&mut self, now: Nanos) {
        if self.turns.is_some() {
            self.wake = Some(now);
        }
    }

    /// Informs the flow that the other end has sent all it will, as control reports.
    pub(super) fn on_peer_finished(&mut self, now: Nanos, sent: Tally) {
        self.signal.peer_finished(sent);
        self.wake = Some(now);
    }

    /// Runs the protocol's timer if it is due.
    pub(super) fn fire(&mut self, now: Nanos) -> Result<()> {
        if self.deadline.is_none_or(|at| at > now) {
            return Ok(());
        }
        self.may_transmit = true;
        self.wake_up(now);
        self.flow.conn.on_deadline(now).map_err(|e| failed("keep the connection up", e))?;
        self.deadline = self.flow.conn.next_deadline();
        Ok(())
    }

    pub(super) fn may_transmit(&self) -> bool {
        self.may_transmit
    }

    /// Writes the next outgoing datagram into `room`; returns its strand, and its codepoint. Strands take turns.
    pub(super) fn transmit(&mut self, now: Nanos, room: &mut Vec<u8>) -> Option<(u8, Codepoint)> {
        let strands = self.flow.conn.conns().count();
        let in_turn = (0..strands).map(|more| (self.turn + more) % strands);
        let found = in_turn.into_iter().find_map(|at| {
            let conn = self.flow.conn.conns().nth(at)?;
            conn.transmit(room).map(|transmit| (at, transmit.ecn))
        });
        self.turn = found.map_or(0, |(at, _)| at + 1);
        self.deadline = self.flow.conn.next_deadline();
        self.may_transmit = found.is_some();
        let has_room = self.may_transmit && self.waits_for == WaitsFor::Room;
        // A protocol may notice the end of its handshake only when it is polled for a datagram.
        if has_room || self.phase == Phase::Opens {
            self.wake = Some(now);
        }
        found.map(|(at, codepoint)| (at as u8, codepoint))
    }

    /// Runs turns of the flow until it waits for something.
    pub(super) fn visit(&mut self, clock: &Manual) -> Result<()> {
        if self.phase == Phase::Opens {
            if !self.has_opened()? {
                self.wake = None;
                return Ok(());
            }
            self.phase = Phase::Runs;
            self.flow.goes_on(clock);
        }
        let Some(mut turns) = self.turns.take() else { return Ok(()) };
        turns.now = clock.now();
        self.may_transmit = true;
        loop {
            let action = self.flow.turn(&mut turns, clock, &self.signal, &mut self.reports)?;
            let goes_on =
                |action: &Action| *action != Action::Done || !turns.may_part(&*self.flow.conn);
            let Some(action) = action.filter(goes_on) else {
                self.stop(clock.now());
                return Ok(());
            };
            let wait = self.act(action, &turns, clock)?;
            turns.after(action, clock);
            if let Wait::Until(wake, waits_for) = wait {
                (self.wake, self.waits_for) = (wake, waits_for);
                self.deadline = self.flow.conn.next_deadline();
                self.turns = Some(turns);
                return Ok(());
            }
        }
    }

    /// Performs an action of the endpoint; returns the event to wait for if the action moved nothing.
    fn act(&mut self, action: Action, turns: &Turns, clock: &Manual) -> Result<Wait> {
        let now = clock.now();
        match action {
            Action::Send { lane, len } => {
                let sent = self.flow.conn.send(lane, &turns.out[..len]);
                match sent.map_err(|e| failed("send", e))? {
                    Progress::Moved => self.flow.half.on_sent(now),
                    Progress::Closed => self.flow.half.on_event(now, FlowEvent::Closed),
                    Progress::Idle => {
                        let others = self.flow.half.on_no_room(now);
                        // A time in the past must not stop the clock.
                        let others = others.map(|at| at.max(now + Nanos(1)));
                        let at = others.map_or(now + ROOM_GUARD, |at| at.min(now + ROOM_GUARD));
                        let guard = Wait::until(at, WaitsFor::Room);
                        return self.receive(clock, guard);
                    }
                }
                Ok(Wait::No)
            }
            Action::Wait(until) => {
                // A time in the past must not stop the clock.
                let wake = until.map(|until| until.max(now + Nanos(1)));
                self.receive(clock, Wait::Until(wake, WaitsFor::Arrivals))
            }
            Action::Pump => Ok(match self.flow.pump()? {
                Progress::Moved => Wait::No,
                _ => Wait::until(now + GUARD, WaitsFor::Room),
            }),
            Action::Drain => {
                let progress = self.flow.drain(Patience::None, clock)?;
                Ok(self.after_receiving(progress, Wait::until(now + GUARD, WaitsFor::Arrivals)))
            }
            // Acknowledgements are still expected.
            Action::Done => Ok(Wait::until(now + GUARD, WaitsFor::Arrivals)),
            Action::Open => {
                self.phase = Phase::Asks;
                Ok(Wait::Until(None, WaitsFor::Arrivals))
            }
            Action::Fail => Ok(Wait::No),
        }
    }

    fn receive(&mut self, clock: &Manual, idle: Wait) -> Result<Wait> {
        let progress = self.flow.receive_once(Patience::None, clock)?;
        Ok(self.after_receiving(progress, idle))
    }

    fn after_receiving(&mut self, progress: Progress, idle: Wait) -> Wait {
        match progress {
            Progress::Moved => Wait::No,
            Progress::Closed if !std::mem::replace(&mut self.saw_close, true) => Wait::No,
            Progress::Closed | Progress::Idle => idle,
        }
    }

    /// Ends the flow now, whatever the endpoint still wants.
    pub(super) fn stop(&mut self, now: Nanos) {
        self.flow.end(now, &mut self.reports);
        let report = self.flow.half.report(now);
        self.reports.sent.get_or_insert(report.sent);
        let sampler = &self.flow.sampler;
        let began_ns = sampler.is_dense().then(|| (sampler.started() - BEGIN).0);
        self.stopped = Some(Stops {
            report,
            series: Series { began_ns, ..sampler.series() },
            stats: self.flow.stats(),
            effective: self.flow.conn.effective(),
        });
    }

    /// Ends the flow now, and its connection with it: unsent data is dropped.
    pub(super) fn fall_silent(&mut self, now: Nanos) {
        self.stop(now);
        (self.silent, self.may_transmit, self.deadline) = (true, false, None);
    }

    /// Returns its results, once it is over.
    pub(super) fn stops(self) -> Option<Stops> {
        self.stopped
    }
}

/// Event that a flow waits for.
enum Wait {
    No,
    Until(Option<Nanos>, WaitsFor),
}

impl Wait {
    fn until(at: Nanos, waits_for: WaitsFor) -> Wait {
        Wait::Until(Some(at), waits_for)
    }
}

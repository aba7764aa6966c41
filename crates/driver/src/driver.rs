//! Driver: the only I/O loop of a trial. It asks one endpoint of a workload for the next action, and performs it on one
//! connection. One thread per flow; nothing is allocated in the loop.

use std::io;
use std::sync::Arc;

use crate::intervals::Sampler;
use crate::notes::probed::Probe;
use deadheat_base::bell::Bell;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Action, GUARD, Inbox, Lane, Patience, WaitMode};
use deadheat_contract::measurements::series::Point;
use deadheat_contract::measurements::{ConnStats, Tally};
use deadheat_contract::workload::{Endpoint, FlowEvent};
use deadheat_datapath::datapath::policer::{self, Overrun};
use deadheat_datapath::datapath::wait::{Interest, Plan, Waiter, WakeReason, plan};
use deadheat_datapath::transport::{Conn, ConnInfo, Progress, Readiness};

pub use further::Further;
pub use signal::Signal;
use waiting::TurnUse;
pub use waiting::WaitingTime;

mod bulk;
mod ending;
mod further;
mod signal;
mod waiting;

/// Observer of a flow, called from the flow's own thread: it must be quick, and allocate nothing.
pub trait Watch {
    /// Notes that the endpoint has sent all it will, with the counts of that. Called at most once in a trial.
    fn sent_all(&mut self, sent: Tally);

    /// Notes that a point of the flow's series was taken.
    fn sampled(&mut self, _point: &Point) {}
}

/// Flow at one end.
pub struct Flow<C: Conn + ?Sized = dyn Conn> {
    /// Connection in use.
    pub conn: Box<C>,
    /// Connections after the first.
    pub further: Further<C>,
    /// True once the peer has ended the connection.
    pub is_closed: bool,
    /// Counters of the connections before this one.
    pub past: Option<ConnStats>,
    /// This end's half of the workload.
    pub half: Box<dyn Endpoint>,
    /// Mode of waiting.
    pub wait: WaitMode,
    /// Sampler of the flow's state from time to time.
    pub sampler: Sampler,
    /// Largest message, in bytes.
    pub largest_message: usize,
    /// System calls made to wait, so far.
    pub wait_calls: u64,
    /// CPU time spent on vain looks at socket and clock, so far.
    pub waiting: WaitingTime,
    /// Probe with the notes of the connection, in an instrumented trial.
    pub probe: Option<Probe>,
    /// True if it announces at its end that it has sent all: when a peer of others has acknowledged everything. A peer of
    /// ours waits for the rest, and gets the announcement once the endpoint has handed over everything.
    pub announces_at_end: bool,
    /// Bell that wakes it when another endpoint has something for its own.
    pub bell: Option<Arc<Bell>>,
}

/// Number of times that a spinning end looks at the socket before it looks at the clock again, if nothing is due for
/// long.
const LOOKS: u32 = 64;
/// Time until the next due event above which [`LOOKS`] looks at the socket (0.3 µs each) are made.
const FAR_OFF: Nanos = Nanos::from_micros(200);
/// Time before a due event in which no sample is taken, because taking one lasts up to about 10 µs.
const CLEAR: Nanos = Nanos::from_micros(100);

/// State of a flow's loop between one turn and the next.
pub struct Turns {
    /// Buffer of the next message to send.
    pub out: Vec<u8>,
    /// Time of the turn.
    pub now: Nanos,
    stale: bool,
    announced: bool,
    /// Time at which the endpoint was done, or at which the peer last acknowledged more after that.
    done_since: Option<Nanos>,
    /// Bytes that the peer had acknowledged then, if a kernel counts them.
    acknowledged: Option<u64>,
}

impl Turns {
    /// Notes that `action` was performed, and reads the clock again unless it was a send.
    #[inline(always)]
    pub fn after(&mut self, action: Action, clock: &impl Clock) {
        // After a send the next action is mostly a wait, for which the time before the send is good enough; a further
        // message reads the clock again.
        self.stale = matches!(action, Action::Send { .. });
        if !self.stale {
            self.now = clock.now();
        }
    }
}

impl Flow {
    /// Runs the flow to its end by the clock of this host. The code of the loop is in this crate then, not in the caller's.
    ///
    /// # Errors
    /// As [`Flow::run`].
    pub fn run_here(&mut self, signal: &Signal, watch: &mut dyn Watch) -> Result<()> {
        self.run(&Monotonic, signal, watch)
    }
}

impl<C: Conn + ?Sized> Flow<C> {
    /// Creates a flow on one connection, with no probe.
    pub fn new(
        conn: Box<C>,
        half: Box<dyn Endpoint>,
        wait: WaitMode,
        sampler: Sampler,
        largest_message: usize,
    ) -> Flow<C> {
        Flow {
            conn,
            further: Further::None,
            is_closed: false,
            past: None,
            half,
            wait,
            sampler,
            largest_message,
            wait_calls: 0,
            waiting: WaitingTime::default(),
            probe: None,
            announces_at_end: false,
            bell: None,
        }
    }

    /// Runs the flow to its end. `watch` gets the counts of the data sent as soon as this endpoint will send no more.
    ///
    /// # Errors
    /// Fails if the connection fails, or if a limit of this process is passed.
    pub fn run(
        &mut self,
        clock: &impl Clock,
        signal: &Signal,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let waiter = Waiter::new(self.wait).woken_by(self.bell.take());
        let mut turns = self.begin(clock.now());
        let done = self.steps(&mut turns, clock, signal, &waiter, watch);
        self.wait_calls += waiter.calls();
        self.end(clock.now(), watch);
        done
    }

    /// Begins the flow now.
    pub fn begin(&mut self, now: Nanos) -> Turns {
        self.sampler.start(now);
        self.measure_rounds();
        if self.sampler.is_shared() {
            let counters = self.counters(now);
            self.sampler.keep(counters);
        }
        Turns {
            out: vec![0; self.largest_message],
            now,
            stale: false,
            announced: false,
            done_since: None,
            acknowledged: None,
        }
    }

    /// Ends the flow now.
    pub fn end(&mut self, now: Nanos, watch: &mut dyn Watch) {
        let last = self.look(now);
        self.sampler.finish(last);
        watch.sampled(&last);
    }

    fn steps(
        &mut self,
        turns: &mut Turns,
        clock: &impl Clock,
        signal: &Signal,
        waiter: &Waiter,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        while let Some(action) = self.turn(turns, clock, signal, watch)? {
            let now = turns.now;
            let spent = match action {
                Action::Send { lane, len } => {
                    self.send(now, lane, &turns.out[..len], clock, waiter)?;
                    // The message may have carried the protocol packets that were due.
                    self.keep_up(now)?;
                    TurnUse::Well
                }
                Action::Wait(until) => self.wait(now, until, clock, waiter)?,
                Action::Open => {
                    self.open(clock)?;
                    TurnUse::Well
                }
                Action::Pump => {
                    self.keep_up(now)?;
                    if self.pump()? == Progress::Idle {
                        self.await_room(None, clock, waiter)?;
                    }
                    TurnUse::Well
                }
                Action::Drain => {
                    self.keep_up(now)?;
                    match (self.wait_and_drain(clock, waiter)?, self.wait) {
                        (progress, WaitMode::Spin) => TurnUse::looking(progress),
                        // The thread slept in the call.
                        (_, WaitMode::Hybrid) => TurnUse::Well,
                    }
                }
                Action::Done if turns.may_part(&*self.conn) => return Ok(()),
                Action::Done => {
                    self.keep_up(now)?;
                    self.send_the_rest(turns.done_for(), clock, waiter)?;
                    TurnUse::Well
                }
                Action::Fail => return Ok(()),
            };
            // After a send, `now` is older than the send.
            let is_alone = !turns.stale;
            turns.after(action, clock);
            if let Some(overrun) = policer::overrun() {
                return Err(limited(overrun));
            }
            self.waiting.add(spent, is_alone.then(|| turns.now - now));
        }
        Ok(())
    }

    /// Handles control signals, polls the endpoint, and samples the flow if that is due. Returns the next action, for
    /// the time in `turns`, or `None` once the flow was stopped.
    ///
    /// # Errors
    /// Fails if the endpoint or the connection fails.
    #[inline(always)]
    pub fn turn(
        &mut self,
        turns: &mut Turns,
        clock: &impl Clock,
        signal: &Signal,
        watch: &mut dyn Watch,
    ) -> Result<Option<Action>> {
        if signal.has_news() {
            if signal.is_stopped() {
                self.stop_draining(clock);
                return Ok(None);
            }
            if let Some(sent) = signal.take_peer_sent() {
                self.half.on_event(clock.now(), FlowEvent::PeerFinished { sent });
            }
            self.take_what_came_in(clock)?;
        }
        if turns.done_since.is_some() {
            return Ok(Some(Action::Done));
        }
        let mut action = self.half.poll(turns.now, &mut turns.out);
        if turns.stale && matches!(action, Action::Send { .. }) {
            turns.now = clock.now();
            action = self.half.poll(turns.now, &mut turns.out);
        }
        if action == Action::Fail {
            return Err(self.half.failure().unwrap_or_else(no_reason));
        }
        let may_have_sent_all = !matches!(action, Action::Send { .. } | Action::Pump);
        if !turns.announced && may_have_sent_all && self.half.has_sent_all() {
            turns.announced = true;
            self.finish_sending()?;
            if !self.announces_at_end {
                watch.sent_all(self.half.standing(turns.now).sent);
            }
        }
        if turns.now >= self.sampler.due() && self.may_sample(turns.now, action) {
            let is_shared = self.sampler.is_shared();
            let point = if is_shared { self.counters(turns.now) } else { self.look(turns.now) };
            self.sampler.keep(point);
            if !is_shared {
                watch.sampled(&point);
            }
            turns.now = clock.now();
        }
        Ok(Some(action))
    }

    /// Returns true if a sample now delays nothing that is being timed, or has been due for long enough.
    #[cold]
    fn may_sample(&mut self, now: Nanos, action: Action) -> bool {
        let is_free = match action {
            Action::Send { .. } => false,
            Action::Wait(until) => until.is_none_or(|until| until - now > CLEAR),
            Action::Open | Action::Pump | Action::Drain | Action::Done | Action::Fail => true,
        };
        let free = is_free && self.half.standing(now).awaited == 0;
        free || now - self.sampler.due() >= self.sampler.patience()
    }

    /// Takes a point of the flow's series: its state at `now`, and the events since the last point.
    #[cold]
    fn look(&mut self, now: Nanos) -> Point {
        let ConnInfo { stats, view: tcp } = self.info();
        // TCP drops no datagrams, and a protocol in user space retransmits those that were dropped.
        let socket_drops = if tcp.is_none() { stats.socket_drops } else { None };
        Point { socket_drops, tcp, ..self.counters(now) }
    }

    /// Returns the endpoint's part of a point, without a system call.
    fn counters(&mut self, now: Nanos) -> Point {
        let standing = self.half.standing(now);
        let recent = self.half.take_recent();
        Point {
            at_ns: self.sampler.since_start(now).0,
            sent_bytes: standing.sent.bytes,
            sent_messages: standing.sent.messages,
            received_bytes: standing.received.bytes,
            received_messages: standing.received.messages,
            lost_messages: standing.lost,
            missing: recent.missing,
            jitter_ns: standing.jitter_ns,
            rtt: recent.round_trips,
            delay: recent.delays,
            ..Point::default()
        }
    }

    fn send(
        &mut self,
        now: Nanos,
        lane: Lane,
        message: &[u8],
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<()> {
        match self.conn.send(lane, message).map_err(|e| failed("send", e))? {
            Progress::Moved => self.half.on_sent(now),
            // The socket buffer is full: receive the data that has arrived meanwhile, so that two full ends do not wait
            // for each other, and try again.
            Progress::Idle => {
                let others = self.half.on_no_room(now);
                self.await_room(others, clock, waiter)?;
                self.receive(Patience::None, clock)?;
            }
            Progress::Closed => self.half.on_event(now, FlowEvent::Closed),
        }
        Ok(())
    }

    fn wait(
        &mut self,
        now: Nanos,
        until: Option<Nanos>,
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<TurnUse> {
        if self.is_closed && matches!(self.further, Further::Accept(_)) {
            let latest = now + GUARD;
            let until = until.map_or(latest, |until| until.min(latest));
            waiter.wait(clock, None, Some(until), Interest::Read).map_err(|e| failed("wait", e))?;
            return Ok(TurnUse::Watching);
        }
        if self.conn.readiness().has_backlog {
            self.conn.flush().map_err(|e| failed("send", e))?;
        }
        if self.keep_up(now)? {
            // Data that the protocol has buffered makes no descriptor readable.
            self.receive(Patience::None, clock)?;
            return Ok(TurnUse::Well);
        }
        let until = [until, self.conn.next_deadline(), self.sampler.wakes()];
        let until = until.into_iter().flatten().min();
        let plan = plan(now, until, self.wait);
        let has_backlog = self.conn.readiness().has_backlog;
        match plan {
            // Nothing is due for long: one receiving call both waits and receives.
            Plan::Sleep(to) if to - now >= GUARD && !has_backlog && !waiter.has_bell() => {
                self.receive_once(Patience::UntilNudged, clock)?;
                return Ok(TurnUse::Well);
            }
            Plan::Poll if until.is_none_or(|until| until - now > FAR_OFF) => {
                for vain in 0..LOOKS {
                    if self.receive_once(Patience::None, clock)? != Progress::Idle {
                        return Ok(TurnUse::Found(vain));
                    }
                }
                return Ok(TurnUse::Vain(LOOKS));
            }
            Plan::Sleep(_) | Plan::Poll | Plan::ClockOnly | Plan::Due => {}
        }
        let interest = if has_backlog { Interest::ReadWrite } else { Interest::Read };
        let fd = self.conn.readiness().fd;
        let woke = waiter.wait(clock, fd, until, interest).map_err(|e| failed("wait", e))?;
        let spent = match woke {
            WakeReason::Readable | WakeReason::Near => {
                TurnUse::looking(self.receive_once(Patience::None, clock)?)
            }
            WakeReason::Due => TurnUse::Watching,
            WakeReason::Writable | WakeReason::Interrupted => TurnUse::Well,
        };
        // A thread that slept before the look used no CPU time until it was woken.
        Ok(if matches!(plan, Plan::Sleep(_)) { TurnUse::Well } else { spent })
    }

    /// Runs the connection's timers if its deadline has passed. Returns true if it had.
    #[inline]
    fn keep_up(&mut self, now: Nanos) -> Result<bool> {
        let is_due = self.conn.next_deadline().is_some_and(|due| due <= now);
        if is_due {
            self.conn.on_deadline(now).map_err(|e| failed("keep the connection up", e))?;
        }
        Ok(is_due)
    }

    /// Waits until there is space to send, an arrival may make some, the connection's own deadline passes, or messages
    /// of other lanes are due.
    fn await_room(
        &mut self,
        others: Option<Nanos>,
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<()> {
        let Readiness { fd, room, .. } = self.conn.readiness();
        // Not every full socket reports when it has space again; arrivals are always reported.
        let longest = if room == Interest::Read { GUARD } else { Nanos::from_millis(1) };
        let latest = clock.now() + longest;
        let until = [self.conn.next_deadline(), others, self.sampler.wakes()];
        let until = until.into_iter().flatten().fold(latest, Nanos::min);
        waiter
            .wait(clock, fd, Some(until), room)
            .map_err(|e| failed("wait for room to send", e))?;
        Ok(())
    }

    fn receive(&mut self, patience: Patience, clock: &impl Clock) -> Result<()> {
        self.receive_once(patience, clock).map(|_| ())
    }

    /// Receives arrived data, and passes it to the endpoint.
    ///
    /// # Errors
    /// Fails if the connection fails.
    #[inline]
    pub fn receive_once(&mut self, patience: Patience, clock: &impl Clock) -> Result<Progress> {
        let mut inbox = StampedInbox { half: &mut *self.half, clock };
        let progress = match self.conn.receive(patience, &mut inbox) {
            // The dialling end closes a connection at will; the next one arrives then.
            Err(_) if matches!(self.further, Further::Accept(_)) => Progress::Closed,
            progress => progress.map_err(|e| failed("receive", e))?,
        };
        if progress == Progress::Closed {
            self.is_closed = true;
            self.half.on_event(clock.now(), FlowEvent::Closed);
        }
        Ok(progress)
    }
}

/// Inbox that passes each message to the endpoint, with its time of arrival.
struct StampedInbox<'a, C> {
    half: &'a mut dyn Endpoint,
    clock: &'a C,
}

impl<C: Clock> Inbox for StampedInbox<'_, C> {
    #[inline]
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        self.half.on_message(self.clock.now(), lane, bytes);
    }
}

/// Returns the error for a limit that was passed. It concerns this contender only; the race can go on with the others.
pub fn limited(overrun: Overrun) -> Error {
    match overrun {
        Overrun::Blast(_) => Error::limited(format!("it is stopped: {overrun}")),
        Overrun::Rate(_) | Overrun::Sum(_) => Error::limited(format!(
            "the server's limits end it: {overrun}; its operator can raise it"
        )),
    }
}

/// Returns the error of the operation `op` on the connection under test: [`Error::Disconnected`], or [`Error::Broken`] if
/// this host refused the call or the bytes that arrived make no sense, since the connection may still be there.
pub fn failed(op: &str, source: io::Error) -> Error {
    const REFUSED: &[i32] =
        &[libc::EMSGSIZE, libc::EINVAL, libc::ENOMEM, libc::ENOBUFS, libc::EPERM, libc::EACCES];
    let op = format!("{op} over the connection under test");
    let is_refused = source.raw_os_error().is_some_and(|number| REFUSED.contains(&number));
    if is_refused || source.kind() == io::ErrorKind::InvalidData {
        return Error::broken(op, source.to_string());
    }
    Error::disconnected(format!("{op}: {source}"))
}

fn no_reason() -> Error {
    Error::setup("go on", io::Error::other("this workload gives no reason (a defect)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::time::Manual;
    use deadheat_contract::workload::{EndpointReport, RecentTimes, Standing};
    use deadheat_datapath::transport::mem;

    const MS: u64 = 1_000_000;

    /// Half in virtual time: each poll is a millisecond after the last, and returns the action that `asks` gives for
    /// that millisecond, until the script is over.
    struct Script<F> {
        clock: Manual,
        asks: F,
        awaited: fn(u64) -> u64,
        ends_ms: u64,
        stands: Standing,
    }

    impl<F: FnMut(u64) -> Action + Send> Endpoint for Script<F> {
        fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
            self.clock.advance_to(now + Nanos(MS));
            let ms = now.0 / MS;
            self.stands.awaited = (self.awaited)(ms);
            if ms >= self.ends_ms { Action::Done } else { (self.asks)(ms) }
        }
        fn on_sent(&mut self, _now: Nanos) {
            self.stands.sent.bytes += 10;
        }
        fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}
        fn on_event(&mut self, _now: Nanos, _event: FlowEvent) {}

        fn has_sent_all(&self) -> bool {
            false
        }
        fn standing(&mut self, _now: Nanos) -> Standing {
            self.stands
        }
        fn take_recent(&mut self) -> RecentTimes {
            let mut recent = RecentTimes::default();
            recent.round_trips.add(7);
            recent
        }

        fn report(&mut self, _now: Nanos) -> EndpointReport {
            EndpointReport::default()
        }
    }

    #[derive(Default)]
    struct PointTimes(Vec<u64>);

    impl Watch for PointTimes {
        fn sent_all(&mut self, _sent: Tally) {}
        fn sampled(&mut self, point: &Point) {
            self.0.push(point.at_ns / MS);
        }
    }

    fn flow(
        clock: &Manual,
        ends_ms: u64,
        asks: impl FnMut(u64) -> Action + Send + 'static,
        awaited: fn(u64) -> u64,
    ) -> Flow {
        let (conn, _far) = mem::pair(clock, mem::losing(0, 0), mem::losing(0, 0));
        let stands = Standing::default();
        let half = Box::new(Script { clock: clock.clone(), asks, awaited, ends_ms, stands });
        let sampler = Sampler::new(Nanos::from_millis(100), 1);
        Flow::new(Box::new(conn), half, WaitMode::Spin, sampler, 10)
    }

    /// Returns the times in milliseconds at which points were taken of a flow that runs for `ends_ms`.
    fn run(
        ends_ms: u64,
        asks: impl FnMut(u64) -> Action + Send + 'static,
        awaited: fn(u64) -> u64,
    ) -> Vec<u64> {
        let clock = Manual::default();
        let mut flow = flow(&clock, ends_ms, asks, awaited);
        let mut points = PointTimes::default();
        flow.run(&clock, &Signal::default(), &mut points).unwrap();
        let series = flow.sampler.series();
        let kept: Vec<u64> = series.at_ns.iter().map(|ns| ns / MS).collect();
        assert_eq!(points.0, kept);
        assert!(series.rtt_n.iter().all(|n| *n == 1));
        kept
    }

    fn idle(_ms: u64) -> Action {
        Action::Wait(None)
    }

    #[test]
    fn a_point_is_taken_at_each_interval_and_at_the_end() {
        assert_eq!(run(350, idle, |_| 0), [100, 200, 300, 351]);
        assert_eq!(run(20, idle, |_| 0), [21]);
    }

    #[test]
    fn a_look_waits_for_an_answer_that_is_being_timed_but_not_for_long() {
        let once = |ms| u64::from((95..105).contains(&ms));
        assert_eq!(run(250, idle, once), [105, 200, 251]);
        assert_eq!(run(250, idle, |_| 1), [110, 210, 251]);
    }

    #[test]
    fn a_message_that_is_due_goes_first() {
        let sends = |ms| {
            if (99..107).contains(&ms) { Action::Send { lane: Lane(0), len: 1 } } else { idle(ms) }
        };
        let at = run(150, sends, |_| 0);
        assert!((107..110).contains(&at[0]), "{at:?}");
        let now = Nanos::from_millis(100);
        let mut flow = flow(&Manual::default(), 1, idle, |_| 0);
        flow.sampler.start(Nanos::ZERO);
        for (left, may) in [(50, false), (500, true)] {
            let action = Action::Wait(Some(now + Nanos::from_micros(left)));
            assert_eq!(flow.may_sample(now, action), may, "{left}");
        }
    }
}

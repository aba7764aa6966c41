//! Running trial at one end: a thread for each flow, and the main thread, which reads control and passes messages
//! between flows and control.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use deadheat_base::panics::contained;

use crate::control::{self, AgentPlan, AgentReport, FromAgent, ToAgent};
use crate::explain::{Before, FlowNotes, Pass};
use deadheat_base::error::{Error, Result};
use deadheat_base::process::spawn;
use deadheat_base::time::{Clock, Monotonic, Nanos, Realtime};
use deadheat_contract::contract::{GUARD, WaitMode};
use deadheat_contract::measurements::series::{Point, Series};
use deadheat_contract::measurements::{Allocations, ConnStats, Tally};
use deadheat_contract::workload::EndpointReport;
use deadheat_datapath::datapath::cpu::pin;
use deadheat_datapath::transport::{Conn, Effective, Listener};
use deadheat_host::allocations::AllocationReading;

use super::driver::{Flow, Signal, Watch};
use super::effective::{self, by_flow};
use super::intervals::Sampler;
use super::kernel_sampler::{self, AskedFlow, share};
use super::parting::Parting;
use super::stuck::{self, StuckWatch};
use crate::meters::Meters;

/// Time to listen for the next connection before listening again.
const NEXT_CONNECTION: Nanos = Nanos::from_secs(3600);

/// Time between two nudges of a thread that has not noticed its next connection.
const WAKE: Duration = Duration::from_micros(100);

/// Time between two nudges of a thread that sleeps in a receiving call.
const NUDGE: Duration = Duration::from_millis(5);

/// Event for the agent's main thread.
enum Event {
    /// Message from control, or the end of control.
    Control(io::Result<ToAgent>),
    /// The flow's half will send no more.
    SentAll { flow: usize, sent: Tally },
    /// The flow has left a point of its series.
    Sampled { flow: usize },
    /// The listener failed, so no further connection can arrive.
    Shut(Error),
    /// The flow's thread has ended.
    Ended { flow: usize, end: Result<Box<FlowEnd>> },
}

/// Results of a flow that has ended. The connection stays open until the report is sent, so that the end of one flow
/// disturbs no other.
struct FlowEnd {
    report: EndpointReport,
    series: Series,
    stats: ConnStats,
    effective: Effective,
    wait_calls: u64,
    waiting: Nanos,
    allocations: Option<Allocations>,
    notes: Option<FlowNotes>,
    conn: Box<dyn Conn>,
}

/// Slot in which a flow's thread leaves its newest point for the agent's main thread.
type Slot = Mutex<Option<Point>>;

/// Sender of a flow's events to the agent's main thread.
#[derive(Clone)]
struct EventSender {
    flow: usize,
    events: SyncSender<Event>,
    /// Slot for points, if they are asked for while the trial runs.
    slot: Option<Arc<Slot>>,
}

impl Watch for EventSender {
    fn sent_all(&mut self, sent: Tally) {
        let _ = self.events.send(Event::SentAll { flow: self.flow, sent });
    }

    /// Leaves the point for the main thread. If the main thread has not taken the earlier events, the point is dropped:
    /// its counters are included in the next one.
    fn sampled(&mut self, point: &Point) {
        let Some(slot) = &self.slot else { return };
        if let Ok(mut slot) = slot.lock() {
            *slot = Some(match &*slot {
                Some(unread) => point.after(unread),
                None => *point,
            });
        }
        let _ = self.events.try_send(Event::Sampled { flow: self.flow });
    }
}

/// Running trial at this end.
pub(super) struct Session {
    /// True if any flow sleeps in receiving calls and so needs nudges.
    sleeps: bool,
    control: UnixStream,
    events: Receiver<Event>,
    signals: Vec<Arc<Signal>>,
    /// Newest points by flow that have not been passed on; empty if the plan does not ask for them.
    points: Vec<Arc<Slot>>,
    threads: Arc<Vec<JoinHandle<()>>>,
    sent: Vec<Option<Tally>>,
    ended: Vec<Option<FlowEnd>>,
    parting: Parting,
    meters: Meters,
    before: Option<Before>,
    stuck: StuckWatch,
}

impl Session {
    /// Starts a thread per flow, waits for the start message, and releases all threads at once.
    ///
    /// Only these threads are pinned to the plan's CPU: nothing else in this process may take it from them.
    pub(super) fn start(
        mut control: UnixStream,
        flows: Vec<Flow>,
        plan: &AgentPlan,
        parting: Parting,
        entrance: Option<Entrance>,
    ) -> Result<Session> {
        take_nudges();
        let n = flows.len();
        let sleeps = flows.iter().any(|flow| flow.wait == WaitMode::Hybrid);
        // Bounded, so that sending allocates nothing; with space for all events that can occur at once.
        let (events_in, events) = sync_channel(4 * n + 4);
        let go = Arc::new(Barrier::new(n + 1));
        let called_off = Arc::new(AtomicBool::new(false));
        let signals: Vec<Arc<Signal>> = (0..n).map(|_| Arc::default()).collect();
        let watched = if plan.live { n } else { 0 };
        let points: Vec<Arc<Slot>> = (0..watched).map(|_| Arc::default()).collect();
        let mut threads = Vec::with_capacity(n);
        let cpu = plan.cpu;
        let mut asked = Vec::new();
        for (index, mut flow) in flows.into_iter().enumerate() {
            let signal = Arc::clone(&signals[index]);
            let (go, called_off) = (Arc::clone(&go), Arc::clone(&called_off));
            let slot = points.get(index).map(Arc::clone);
            let events = EventSender { flow: index, events: events_in.clone(), slot };
            asked.extend(share(&mut flow).map(|shared| AskedFlow::new(shared, events.clone())));
            let contender = plan.contender.clone();
            let run = move || {
                let pinned = cpu.map_or(Ok(()), pin);
                go.wait();
                if !called_off.load(Ordering::Acquire) {
                    run_flow(&contender, flow, pinned, &signal, events);
                }
            };
            // Threads that wait at the barrier end with this process.
            threads.push(spawn(&format!("flow {index}"), run)?);
        }
        let word = control::read(&mut control);
        called_off.store(!matches!(word, Ok(ToAgent::Start)), Ordering::Release);
        let meters = Meters::read();
        let before = (plan.pass == Pass::Explain).then(|| Before::read(plan.cpu));
        go.wait();
        match word.map_err(control_failed)? {
            ToAgent::Start => {}
            _ => return Err(Error::peer("control", "a connected agent is told to start")),
        }
        kernel_sampler::start(asked)?;
        let threads = Arc::new(threads);
        if let Some(entrance) = entrance {
            entrance.open(&signals, &threads, events_in.clone())?;
        }
        listen_to_control(&control, events_in)?;
        let (sent, ended) = (vec![None; n], (0..n).map(|_| None).collect());
        Ok(Session {
            sleeps,
            control,
            events,
            signals,
            points,
            threads,
            sent,
            ended,
            parting,
            meters,
            before,
            stuck: StuckWatch::new(&plan.contender, n),
        })
    }

    /// Leads the flows to their end.
    pub(super) fn finish(mut self) -> Result<(AgentReport, Parting)> {
        let mut announced = false;
        while self.ended.iter().any(Option::is_none) {
            match self.events.recv_timeout(self.patience()) {
                Ok(event) => self.on_event(event)?,
                Err(RecvTimeoutError::Timeout) if self.sleeps => self.nudge(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::peer("agent", "its threads are gone"));
                }
            }
            self.look_at_flows()?;
            if !announced && self.sent.iter().all(Option::is_some) {
                announced = true;
                let sent = self.sent.iter().flatten().copied().collect();
                send_message(&mut self.control, &FromAgent::Finished { sent })?;
            }
        }
        Ok(self.report())
    }

    /// Checks whether a flow's thread is stuck, if a check is due.
    fn look_at_flows(&mut self) -> Result<()> {
        let flows = self.threads.iter().zip(&self.signals).zip(&self.ended).enumerate();
        let running = flows.filter(|(_, (_, end))| end.is_none());
        self.stuck.look(running.map(|(flow, ((thread, signal), _))| (flow, thread, &**signal)))
    }

    /// Returns the time to wait for an event before the flows are nudged, or checked. A spinning thread reads its
    /// signal by itself, and a wake-up here would take its CPU.
    fn patience(&self) -> Duration {
        match self.sleeps {
            false => stuck::LOOK.into(),
            true if self.unread().next().is_some() => NUDGE,
            true => GUARD.into(),
        }
    }

    /// Returns the threads of flows that have not read their signal.
    fn unread(&self) -> impl Iterator<Item = &JoinHandle<()>> {
        let flows = self.threads.iter().zip(&self.signals).zip(&self.ended);
        let unread = flows.filter(|((_, signal), end)| end.is_none() && signal.is_unread());
        unread.map(|((thread, _), _)| thread)
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::SentAll { flow, sent } => self.sent[flow] = Some(sent),
            Event::Sampled { flow } => {
                let slot = self.points.get(flow).and_then(|slot| slot.lock().ok());
                if let Some(point) = slot.and_then(|mut slot| slot.take()) {
                    let word = FromAgent::Interval { flow: flow as u16, point: Box::new(point) };
                    send_message(&mut self.control, &word)?;
                }
            }
            Event::Shut(error) => return Err(error),
            Event::Ended { flow, end } => {
                let end = end?;
                self.sent[flow].get_or_insert(end.report.sent);
                self.ended[flow] = Some(*end);
            }
            Event::Control(Ok(ToAgent::PeerFinished { sent })) => {
                for (signal, sent) in self.signals.iter().zip(sent) {
                    signal.peer_finished(sent);
                }
                self.nudge();
            }
            Event::Control(Ok(ToAgent::Stop)) => {
                self.parting.stopped = true;
                self.signals.iter().for_each(|signal| signal.stop());
                self.nudge();
            }
            Event::Control(Ok(ToAgent::CallOff)) => return Err(Error::Interrupted),
            Event::Control(Ok(_)) => {
                return Err(Error::peer(
                    "control",
                    "a running agent is only told that its peer has finished, or to stop",
                ));
            }
            Event::Control(Err(error)) => return Err(control_failed(error)),
        }
        Ok(())
    }

    /// Wakes threads that have not read their signal, which may sleep in a call. A thread that is just about to sleep
    /// misses the wake-up and is nudged again. A thread that has read it is left alone: a call that is interrupted every
    /// few milliseconds may never get what it waits for, as a send by the kernel's TLS that waits for memory.
    fn nudge(&self) {
        self.unread().for_each(wake);
    }

    /// Returns this end's report, and its connections, which are still open.
    fn report(mut self) -> (AgentReport, Parting) {
        let mut report = self.meters.report();
        let mut notes = Vec::new();
        let (mut waiting, mut calls) = (Nanos::ZERO, 0);
        let (mut effective, mut allocations) = (Vec::new(), None);
        for end in self.ended.into_iter().flatten() {
            calls += end.stats.send_calls + end.stats.receive_calls + end.wait_calls;
            waiting += end.waiting;
            allocations = allocations.into_iter().chain(end.allocations).reduce(Allocations::plus);
            effective.push(end.effective);
            report.halves.push(end.report);
            report.series.push(end.series);
            report.conns.push(end.stats);
            notes.extend(end.notes);
            self.parting.conns.push(end.conn);
        }
        // Looks are timed by the clock, which also counts time in which another program had the CPU.
        report.cost.waiting_ns = Some(waiting.0.min(report.cost.cpu_ns));
        report.cost.allocations = allocations;
        report.cost.syscalls = Some(calls);
        (report.effective, report.effective_by_flow) = by_flow(effective);
        report.notes = self.before.map(|before| Box::new(before.conclude(notes)));
        (report, self.parting)
    }
}

/// Wakes a thread that sleeps in a receiving call.
fn wake(thread: &JoinHandle<()>) {
    // SAFETY: the thread has not been joined, so its handle is valid.
    unsafe { libc::pthread_kill(thread.as_pthread_t() as _, libc::SIGUSR1) };
}

/// Sender of further connections to one flow.
pub(super) type WayIn = Sender<Box<dyn Conn>>;

/// Listener for connections that arrive while the trial runs, and the flows that they belong to.
pub(super) struct Entrance {
    pub(super) listener: Box<dyn Listener>,
    /// Senders to the flows; empty if connections only need the listener to stay open.
    pub(super) incoming: Vec<WayIn>,
    /// Function from a connection's number to the position of its flow among this end's flows.
    pub(super) place: Box<dyn Fn(u16) -> usize + Send>,
}

impl Entrance {
    /// Accepts connections in a thread of its own, which ends with the process, and hands each to its flow's thread.
    fn open(
        mut self,
        signals: &[Arc<Signal>],
        threads: &Arc<Vec<JoinHandle<()>>>,
        events: SyncSender<Event>,
    ) -> Result<()> {
        let (signals, threads) = (signals.to_vec(), Arc::clone(threads));
        let run = move || {
            while !self.incoming.is_empty() {
                let (flow, conn) = match self.listener.accept(NEXT_CONNECTION) {
                    Ok(accepted) => accepted,
                    // No connection arrived, and none has to.
                    Err(Error::Blocked { .. }) => continue,
                    Err(error) => {
                        let _ = events.send(Event::Shut(error));
                        return;
                    }
                };
                let flow = (self.place)(flow);
                let Some(incoming) = self.incoming.get(flow) else { continue };
                if incoming.send(conn).is_err() {
                    continue;
                }
                signals[flow].poke();
                while signals[flow].is_unread() && !threads[flow].is_finished() {
                    wake(&threads[flow]);
                    thread::sleep(WAKE);
                }
            }
            // The flows still need the listener.
            thread::park();
        };
        spawn("entrance", run).map(drop)
    }
}

/// Runs a flow of a contender to its end, and reports the end to the main thread.
fn run_flow(
    contender: &str,
    flow: Flow,
    pinned: Result<()>,
    signal: &Signal,
    mut events: EventSender,
) {
    let end = contained(contender, || {
        pinned?;
        to_its_end(flow, signal, &mut events).map(Box::new)
    });
    let _ = events.events.send(Event::Ended { flow: events.flow, end });
}

/// Runs a flow. Its half, and the samples file with it, is closed before its end is reported.
fn to_its_end(mut flow: Flow, signal: &Signal, events: &mut EventSender) -> Result<FlowEnd> {
    let before = AllocationReading::now();
    flow.run_here(signal, events)?;
    let allocations = before.map(AllocationReading::since);
    Ok(FlowEnd {
        stats: flow.stats(),
        report: flow.half.report(Monotonic.now()),
        series: Series { began_ns: began(&flow.sampler), ..flow.sampler.series() },
        effective: effective::of(&*flow.conn),
        wait_calls: flow.wait_calls,
        waiting: flow.waiting.total(),
        allocations,
        notes: flow.probe.map(|probe| probe.conclude(&mut *flow.conn)),
        conn: flow.conn,
    })
}

/// Returns the start of a dense series in nanoseconds since 1970; `None` of any other.
fn began(sampler: &Sampler) -> Option<u64> {
    sampler.is_dense().then(|| Realtime::when(sampler.started()).0)
}

fn listen_to_control(control: &UnixStream, events: SyncSender<Event>) -> Result<()> {
    let mut reader = control.try_clone().map_err(control_failed)?;
    spawn("control", move || {
        loop {
            let word = control::read(&mut reader);
            let last = word.is_err();
            if events.send(Event::Control(word)).is_err() || last {
                return;
            }
        }
    })?;
    Ok(())
}

pub(crate) fn send_message(control: &mut UnixStream, word: &FromAgent) -> Result<()> {
    control::write(control, word).map_err(control_failed)
}

pub(crate) fn control_failed(source: io::Error) -> Error {
    Error::setup("talk to the process that started this agent", source)
}

/// Lets `SIGUSR1` interrupt system calls and do nothing else.
fn take_nudges() {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is valid, without SA_RESTART, so that calls are interrupted; the
    // handler does nothing, which is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}

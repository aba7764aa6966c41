//! A trial: one contender, one workload, one path, once. A trial runs in two fresh processes of
//! this binary, the agents; this module starts them, drives them and brings their figures together.
//!
//! [`Runner`] is the seam to `race`: the real one is [`lead::agents::Agents`], the fake is [`sim::fake::Fake`].

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::contract::{AsksLanes, Congestion, Guarantees, LaneSet, Service};
use crate::error::{Error, Result};
use crate::measurements::path::PathFigures;
use crate::measurements::series::Series;
use crate::measurements::{
    ClockEstimate, ConnStats, Cost, Distribution, Fallback, HostCounters, Ledger, Marks, Metrics,
    Outage, PacedFlow, Packets, Throttled, Verified, WarmUp, Wire,
};
use crate::path::PathKind;
use crate::time::Nanos;
use crate::transport::commands::CommandPair;
use crate::transport::far_end::FarEndFacts;
use crate::transport::{Contender, Effective, several};
use crate::workload::{self, EndpointReport, LanesApart, SharedTask, Task};
use deadheat_base::unset::is_unset;

pub mod agent;
pub mod between;
pub mod control;
pub mod explain;
pub mod lead;
mod meters;
pub mod path;
pub mod process;
pub mod sim;

use crate::host::facts::HostFacts;
use crate::host::idle::{ClaimKind, Idle};
use crate::host::placement::{Load, Placement};
use crate::host::quiet::{Disturbance, ProbePoint, SettlingOutcome};
use between::commands::{CommandReport, ProgramFile};
use explain::{EndNotes, Pass};
pub use lead::pairing::Pairing;
pub use path::emulated::EmulatedPath;
use path::facts::{BuiltPath, ReachFacts};
use path::probed::ProbedPath;

/// View of a task for transports that share out its lanes.
struct Lanes<'a> {
    task: &'a dyn Task,
    node: Option<u16>,
}

impl AsksLanes for Lanes<'_> {
    fn lane_names(&self) -> Vec<String> {
        self.task.info().lane_names.clone()
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.task.lanes(promised)
    }

    fn node(&self) -> Option<u16> {
        self.node
    }
}

/// Fits a contender to `task`: a contender of several transports shares out the task's lanes.
///
/// # Errors
/// [`crate::error::Error::Usage`] if the lanes cannot be shared out; the message names the choices.
pub fn suited(contender: Contender, task: &dyn Task) -> Result<Contender> {
    suited_at(contender, task, None)
}

/// Fits a contender to `task` as [`suited`] does, at the far node with this number, or at the near one.
fn suited_at(mut contender: Contender, task: &dyn Task, node: Option<u16>) -> Result<Contender> {
    if let Some(made) = contender.transport.suit(&Lanes { task, node })? {
        contender.transport = made;
    }
    Ok(contender)
}

/// Returns the work of a trial of `contender`, which is [`suited`] to it: where its parts are at several far hosts, each
/// far node gets the lanes of the parts at its host.
pub fn dealt(contender: &Contender, task: SharedTask) -> SharedTask {
    let parts = contender.transport.parts();
    let hosts = several::hosts(parts);
    if hosts.len() < 2 {
        return task;
    }
    let lanes = hosts.iter().map(|host| {
        let own = parts.iter().filter(|part| part.host.as_deref() == *host);
        LaneSet::of(own.flat_map(|part| part.numbers.iter().copied()))
    });
    let lanes = lanes.collect();
    LanesApart::new(task, lanes).into()
}

/// Returns the reason why `contender`, which is [`suited`] to it, cannot carry `task`, as a sentence;
/// `None` if it can.
pub fn misfit(contender: &Contender, task: &dyn Task) -> Option<String> {
    let info = contender.transport.info();
    if let Some(commands) = &contender.commands {
        let work = &task.info().programs;
        return work.misfit(info.peer).or_else(|| commands.pair.misfit(work));
    }
    if contender.via.is_turn() && !contender.transport.info().is_over_udp {
        return Some(format!(
            "TURN relays UDP, and {} is not over UDP; via=relay relays TCP, too",
            info.label
        ));
    }
    let parts = contender.transport.parts();
    if parts.is_empty() {
        return workload::misfit(task, &contender.promised(), info.peer);
    }
    if let Some(why) = LanesApart::misfit(task.info())
        && several::hosts(parts).len() > 1
    {
        return Some(format!("its parts are at several far hosts, and {why}"));
    }
    let largest = task.info().largest_message as u64;
    parts.iter().find_map(|part| {
        let info = part.contender.transport.info();
        let promised = part.contender.promised();
        let of_lanes = || promised.misfit(&part.lanes, largest);
        let why = task.misfit(&promised, info.peer).or_else(of_lanes)?;
        // A part without lanes of its own may have to carry all of them.
        let lane = if part.numbers.is_empty() { "" } else { "lane " };
        Some(format!("{lane}{}: {why}", part.title()))
    })
}

/// Returns true if `contender` sends as much of `task` as its host can, whatever the path carries.
pub fn floods(contender: &Contender, task: &dyn Task) -> bool {
    task.info().fills_path && contender.promised().congestion == Congestion::Uncontrolled
}

/// Order to run one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Contender and work, with the load beside it.
    pub pairing: Pairing,
    /// Placement of the two ends on CPUs.
    pub placement: Placement,
    /// Seed of the trial; equal for every contender of a block.
    pub seed: u64,
    /// File for raw samples, if they are kept.
    pub samples: Option<PathBuf>,
    /// Time between two points of the trial's series.
    pub interval: Nanos,
    /// Purpose of the trial: for its figures, or to be explained.
    pub pass: Pass,
}

impl Order {
    /// Returns the contender as typed: `tcp:cc=bbr`.
    pub fn contender(&self) -> String {
        self.pairing.contender.spec.to_string()
    }

    /// Returns the work as typed, with all defaults: `ping:size=64`.
    pub fn workload(&self) -> String {
        self.pairing.task.to_string()
    }
}

/// Observations of both ends of an instrumented trial, besides its figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observations {
    /// Notes of the near end.
    pub near: EndNotes,
    /// Notes of the far end; absent if the kernel answers, or if the server is too old to take notes.
    pub far: Option<EndNotes>,
    /// Counters of the connections of the near end, by flow, and of the far end.
    pub conns: [Vec<ConnStats>; 2],
    /// Reports of the endpoints of both ends.
    pub halves: [Vec<EndpointReport>; 2],
}

/// Outcome of a trial.
#[derive(Debug)]
pub enum TrialOutcome {
    /// Completed, with its record.
    Ran(Box<Record>),
    /// Control works, but the contender's packets do not get through; the evidence.
    Blocked(String),
    /// The contender went beyond a limit of the far end's operator; which, and the option that raises it.
    Limited(String),
    /// The contender's endpoints broke down or did not end; the evidence.
    Broke(String),
    /// Lost with the connection to the far end, which no longer answers control; the evidence.
    Lost(String),
    /// Failed for a reason that no contender is to blame for: the operation and the reason.
    Failed(Error),
}

/// Outcome of an attempt to connect to the far end again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconnection {
    /// Back: trials can go on.
    Back,
    /// Away: it does not answer yet; the evidence.
    Away(String),
}

/// Runs trials. This trait separates planning a race from carrying it out.
pub trait Runner {
    /// Runs one trial to its end.
    fn run(&mut self, order: &Order) -> TrialOutcome;

    /// Chooses the placement of the ends: the requested one if this machine allows it, otherwise a placement that
    /// follows from the machine's facts. Returns it with the reason.
    ///
    /// # Errors Fails if the requested placement is not possible; the message names the possible ones.
    fn placement(&mut self, asked: Option<Placement>, load: Load) -> Result<(Placement, String)>;

    /// Sets the behaviour of idle CPUs from now on: the requested one with its reason, or the best for the claims if
    /// this machine permits it. Returns it with its reason; `None` if there are no CPUs to set.
    ///
    /// # Errors
    /// Fails if the CPUs must stay awake and cannot be kept awake.
    fn idle(
        &mut self,
        _asked: Option<(Idle, &'static str)>,
        _claimed: ClaimKind,
    ) -> Result<Option<(Idle, String)>> {
        Ok(None)
    }

    /// Returns the facts of both hosts: near, and far where it is another.
    ///
    /// # Errors
    /// Fails if the far host does not answer.
    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)>;

    /// Waits a moment for the far end to take a connection, after a trial was lost with the one to it. Returns the time
    /// since the packet that it answered, or else the evidence that it is still away.
    fn knock(&mut self) -> std::result::Result<Nanos, String> {
        Ok(Nanos::ZERO)
    }

    /// Returns the time since which nothing came from the far end in the trial that was just lost, in milliseconds since
    /// the Unix epoch; `None` if it is not known.
    fn silent_ms(&mut self) -> Option<u64> {
        None
    }

    /// Tries once to connect to the far end again, after a trial was lost with the connection to it.
    ///
    /// # Errors
    /// Fails if the far end answers and no race can go on with it; [`Error::Interrupted`] on Ctrl-C.
    fn reconnect(&mut self) -> Result<Reconnection> {
        Ok(Reconnection::Back)
    }

    /// Returns the changes at the far end since the last call, in words: another version, another host.
    fn changes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the round trip to the far end, as the connection to it showed; `None` where that is no measure of the path.
    fn round_trip(&self) -> Option<Nanos> {
        None
    }

    /// Returns the path in words and numbers.
    fn path(&self) -> PathFacts;

    /// Waits until this host is calm, at most 10 s, and passes the cause of each wait to `_on_wait`; `None` if there is no
    /// host to wait for.
    fn settle(&mut self, _on_wait: &mut dyn FnMut(&Disturbance)) -> Option<SettlingOutcome> {
        None
    }

    /// Takes one short measurement of this host, without any contender; `None` if there is nothing to measure.
    fn probe(&mut self) -> Option<ProbePoint> {
        None
    }

    /// Returns the files that the server command of a pair runs at a server, which says the same of the pair as the file here;
    /// `None` if it runs on this machine.
    ///
    /// # Errors
    /// [`Error::Limited`] if the server's operator does not allow it; [`Error::Peer`] with what its file says otherwise.
    fn far_files(&mut self, _pair: &Arc<CommandPair>) -> Result<Option<Vec<ProgramFile>>> {
        Ok(None)
    }

    /// Returns the observations of both ends in the last trial, if that trial was run to be explained.
    fn noted(&mut self) -> Option<Observations> {
        None
    }
}

/// The path of a race.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFacts {
    /// Path as typed: `loopback`, an emulated path, or the host after `--to`.
    pub spec: String,
    /// Kind of the path.
    pub kind: PathKind,
    /// Address of the far end; empty if it has none.
    pub address: String,
    /// Emulated path that was built for the race, if any.
    pub built: Option<Box<BuiltPath>>,
    /// Way to a far end behind a server; absent for all others, and in results from before it was recorded.
    pub reached: Option<Box<ReachFacts>>,
    /// Far end, if it is one of others: what it counts, and what cannot be known from it.
    pub far_end: Option<Box<FarEndFacts>>,
}

/// Figures and circumstances of a trial that ran.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// True if the trial passed its gate.
    pub valid: bool,
    /// Reason why it is invalid.
    pub why_invalid: Option<String>,
    /// Time at which the far end was lost, in milliseconds since the Unix epoch, if the trial's block was lost with
    /// it; the block then ran anew, and this trial is in no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ms: Option<u64>,
    /// Transport with its implementation: `tcp/linux-6.18/cubic`.
    pub implementation: String,
    /// Figures by which contenders are compared.
    pub metrics: Metrics,
    /// Metrics censored at the timeout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub censored: Vec<String>,
    /// Round-trip times from the intended send time.
    pub rtt_ns: Option<Distribution>,
    /// Distribution of the generator's lateness.
    pub send_lateness_ns: Option<Distribution>,
    /// Largest effect of that lateness on the claimed figure: the logarithm of the ratio by which it was made worse. 0
    /// if nothing was late; absent if there is no schedule, or if the figure is censored.
    pub late_effect: Option<f64>,
    /// Claimed figure of consecutive parts of the trial, if the parts are known; not in the file.
    #[serde(skip)]
    pub segments: Vec<f64>,
    /// Messages that warmed the trial up; they are in no other figure.
    pub warmup: Option<WarmUp>,
    /// Outcome of the schedule of each paced flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paced: Vec<PacedFlow>,
    /// Far clock in relation to the near one.
    pub clock: Option<ClockEstimate>,
    /// Ledger of the messages: the fate of each.
    pub ledger: Ledger,
    /// Result of checking the content, if it is kept, checked, or read from a file.
    pub verified: Option<Verified>,
    /// Cost of the trial at the near end.
    pub cost: Cost,
    /// Cost of the trial at the far end; absent if the kernel answers.
    pub far_cost: Option<Cost>,
    /// Options of the near end as read back from its first flow.
    pub effective: Effective,
    /// Options of the far end as read back from its first flow.
    #[serde(default, skip_serializing_if = "Effective::is_empty")]
    pub far_effective: Effective,
    /// Options of each flow of the near end; absent if all flows have the same as the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effective_by_flow: Vec<Effective>,
    /// Options of each flow of the far end; absent likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_effective_by_flow: Vec<Effective>,
    /// Longest connection set-up of the flows, in nanoseconds.
    pub connect_ns: u64,
    /// Segments that the transport retransmitted, both ends; absent if unknown.
    pub retransmits: Option<u64>,
    /// Datagrams restored by forward error correction, both ends; absent if there is none.
    pub recovered: Option<u64>,
    /// ECN codepoints of the datagrams that arrived at both ends; absent if the ends do not read them.
    pub marks: Option<Marks>,
    /// Packets that both ends sent, counted at the IP layer; absent if one of the ends cannot count them.
    pub wire: Option<Wire>,
    /// Errors that the network reported back (ICMP unreachable and the like), both ends.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub network_errors: u64,
    /// Fallback to the second of two transports; absent if the contender has no second one, or did not fall back.
    pub fallback: Option<Fallback>,
    /// Application bytes that arrived, both directions together; absent in results of versions that did not record it.
    pub delivered_bytes: Option<u64>,
    /// Packets per message, if each message travels as a datagram and the path MTU is known.
    pub packets: Option<Packets>,
    /// Paths to the far hosts as probes last found them; absent without far hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_mtu: Vec<ProbedPath>,
    /// Counters of the near end's network code over the trial; absent if the kernel exposes none.
    pub counters: Option<HostCounters>,
    /// Counters of the far end's network code; on one machine it reads the near end's counters once more.
    pub far_counters: Option<HostCounters>,
    /// Throttling of the near end's control group by a CPU quota over the trial; absent if it was not throttled.
    pub throttled: Option<Throttled>,
    /// Throttling at the far end; on one machine it is the same group, read once more.
    pub far_throttled: Option<Throttled>,
    /// Figures of the path from its own account; absent if this program did not build the path.
    pub path: Option<PathFigures>,
    /// Reason why the path failed its gate, if it did. It is also the reason in `why_invalid`, unless the ends had one
    /// of their own.
    pub path_invalid: Option<String>,
    /// Outages: spans in which nothing arrived, in order of time; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Series of the near end, by flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Series>,
    /// Series of the far end, by flow; absent if the kernel answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_intervals: Vec<Series>,
    /// Series of the load beside the work at its near end, by flow, counted from the load's own start; absent if there was
    /// no load. Results of before the far end had a list of its own have both ends' here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_intervals: Vec<Series>,
    /// Series of the load at its far end, by flow, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_far_intervals: Vec<Series>,
    /// Command that did the near end's work, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Box<CommandReport>>,
    /// Command that did the far end's work, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_command: Option<Box<CommandReport>>,
    /// Share of CPU time that the hypervisor took from the near host during the trial; absent if unknown.
    pub steal_share: Option<f64>,
    /// Load average (1 minute) of the near host at the start; absent if unknown.
    pub load: Option<f64>,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Duration from start to report, in nanoseconds.
    pub took_ns: u64,
    /// Part of it in which the trial waited for its turn, as the far end served others, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub turn_wait_ns: u64,
}

impl Record {
    /// Iterates over the series of the load beside the work, of both its ends.
    pub fn load_series(&self) -> impl Iterator<Item = &Series> {
        self.load_intervals.iter().chain(&self.load_far_intervals)
    }

    /// Returns true if the trial ran to its end, so that it has figures or accounts, even if it is invalid.
    pub fn ran(&self) -> bool {
        self.lost_ms.is_none()
            && (!self.metrics.is_empty() || self.ledger.accounts().next().is_some())
    }

    /// Sets the trial's start, in milliseconds since the Unix epoch, and shifts outages to count from it: ends report
    /// them from the start of their flows, which is `after` the trial's start.
    pub(crate) fn start_at(&mut self, started_ms: u64, after: Nanos) {
        self.started_ms = started_ms;
        for outage in &mut self.outages {
            outage.from_ns = outage.from_ns.saturating_add(after.0);
        }
    }

    /// Notes the clocks of both hosts, with the reason why the trial is invalid if one was not steady. An estimate of the
    /// work itself is of the clock that it was given, and stays where it is the better one.
    pub(crate) fn on_clock(&mut self, estimate: Option<ClockEstimate>, why: Option<String>) {
        if let Some(mut estimate) = estimate {
            if let Some(own) = &self.clock
                && own.error_bound_ns < estimate.error_bound_ns
            {
                estimate.offset_ns = estimate.offset_ns.saturating_add(own.offset_ns);
                estimate.error_bound_ns = own.error_bound_ns;
                estimate.round_trip_ns = own.round_trip_ns;
                estimate.source = own.source;
            }
            estimate.n += self.clock.as_ref().map_or(0, |own| own.n);
            self.clock = Some(estimate);
        }
        self.why_invalid = self.why_invalid.take().or(why);
        self.valid = self.why_invalid.is_none();
    }

    /// Creates the record of a trial without figures; `why` is the reason.
    pub fn without_figures(why: String) -> Record {
        Record { why_invalid: Some(why), ..Record::default() }
    }
}

impl From<Error> for TrialOutcome {
    fn from(error: Error) -> TrialOutcome {
        match error {
            Error::Blocked { evidence } => TrialOutcome::Blocked(evidence),
            Error::Limited { what } => TrialOutcome::Limited(what),
            error @ Error::Broken { .. } => TrialOutcome::Broke(error.to_string()),
            error => TrialOutcome::Failed(error),
        }
    }
}

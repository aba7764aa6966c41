//! A trial: one contender, one workload, one path, once. A trial runs in two fresh processes of
//! this binary, the agents; this module starts them, drives them and brings their figures together.
//!
//! [`Runner`] is the seam to `race`: the real one is [`lead::agents::Agents`], the fake is [`sim::fake::Fake`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::contract::{AsksLanes, Guarantees, Service};
use crate::error::{Error, Result};
use crate::measurements::path::PathFigures;
use crate::measurements::series::Series;
use crate::measurements::{
    ClockEstimate, ConnStats, Cost, Distribution, Fallback, HostCounters, Ledger, Marks, Metrics,
    Outage, PacedFlow, Packets, Throttled, Verified, WarmUp, Wire,
};
use crate::path::PathKind;
use crate::time::Nanos;
use crate::transport::{Contender, Effective};
use crate::workload::{self, EndpointReport, Task};
use deadheat_base::unset::is_unset;

pub mod agent;
pub mod between;
pub mod control;
pub mod explain;
pub mod lead;
pub mod path;
pub mod process;
pub mod sim;

use crate::host::facts::HostFacts;
use crate::host::idle::{Claimed, Idle};
use crate::host::placement::{Load, Placement};
use crate::host::quiet::{Disturbance, ProbePoint, Settled};
use explain::{EndNotes, Pass};
pub use lead::pairing::Pairing;
pub use path::emulated::EmulatedPath;
use path::facts::BuiltPath;

/// A task as transports see it that share out its lanes.
struct Lanes<'a>(&'a dyn Task);

impl AsksLanes for Lanes<'_> {
    fn lane_names(&self) -> Vec<String> {
        self.0.info().lane_names.clone()
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.0.lanes(promised)
    }
}

/// Makes a contender for `task`: one that consists of several shares out the task's lanes.
///
/// # Errors
/// [`crate::error::Error::Usage`] where that cannot be done, with what could.
pub fn suited(mut contender: Contender, task: &dyn Task) -> Result<Contender> {
    if let Some(made) = contender.transport.suit(&Lanes(task))? {
        contender.transport = made;
    }
    Ok(contender)
}

/// Returns the reason why `contender`, which is [`suited`] to it, cannot carry `task`, as a sentence;
/// `None` if it can.
pub fn misfit(contender: &Contender, task: &dyn Task) -> Option<String> {
    let info = contender.transport.info();
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

/// A trial to run.
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
    /// The time between two points of the trial's series.
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
pub struct Noted {
    /// The near end.
    pub near: EndNotes,
    /// The far end; absent if that is the kernel, or a server too old to take notes.
    pub far: Option<EndNotes>,
    /// Counters of the connections of the near end, by flow, and of the far end.
    pub conns: [Vec<ConnStats>; 2],
    /// Reports of their endpoints.
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
    /// Failed for a reason that no contender is to blame for: the operation and the reason.
    Failed(Error),
}

/// Runs trials. The seam between planning a race and doing it.
pub trait Runner {
    /// Runs one trial to its end.
    fn run(&mut self, order: &Order) -> TrialOutcome;

    /// Chooses the placement of the ends: as asked if that is possible here, or what this machine's
    /// facts speak for; with the reason.
    ///
    /// # Errors
    /// Fails if the placement asked for is not possible, saying what is.
    fn placement(&mut self, asked: Option<Placement>, load: Load) -> Result<(Placement, String)>;

    /// Sets the behaviour of idle CPUs from now on: as asked, with the reason for that, or as serves the claims where this
    /// machine permits it. Returns it with its reason; `None` if there are no CPUs.
    ///
    /// # Errors
    /// Fails if they are asked to stay awake and cannot be kept so.
    fn idle(
        &mut self,
        _asked: Option<(Idle, &'static str)>,
        _claimed: Claimed,
    ) -> Result<Option<(Idle, String)>> {
        Ok(None)
    }

    /// Returns the facts of both hosts: near, and far where it is another.
    ///
    /// # Errors
    /// Fails if the far host cannot be asked.
    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)>;

    /// Returns the path in words and numbers.
    fn path(&self) -> PathFacts;

    /// Waits until this host is calm, at most 10 s, and tells what it waits for; absent if there is no
    /// host to wait for.
    fn settle(&mut self, _tell: &mut dyn FnMut(&Disturbance)) -> Option<Settled> {
        None
    }

    /// Takes one short measurement of this host, in which no contender has a part; absent if there
    /// is nothing to measure.
    fn probe(&mut self) -> Option<ProbePoint> {
        None
    }

    /// Observations of the ends of the last trial, if it was run to be explained.
    fn noted(&mut self) -> Option<Noted> {
        None
    }
}

/// The path of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFacts {
    /// Path as typed: `loopback`, what is emulated, or the host after `--to`.
    pub spec: String,
    /// Kind of the path.
    pub kind: PathKind,
    /// The far end's address; empty if it has none.
    pub address: String,
    /// Emulated path that was built for it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<Box<BuiltPath>>,
}

/// The figures and circumstances of a trial that ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// True if it passed its gate.
    pub valid: bool,
    /// Reason why it is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_invalid: Option<String>,
    /// The transport with its implementation: `tcp/linux-6.18/cubic`.
    pub implementation: String,
    /// The figures that contenders are compared by.
    pub metrics: Metrics,
    /// Metrics censored at the timeout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub censored: Vec<String>,
    /// Round-trip times from the intended send time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Distribution>,
    /// Distribution of the generator's lateness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_lateness_ns: Option<Distribution>,
    /// Effect of that lateness on the claimed figure at most: the logarithm of the ratio by which
    /// it was made worse. 0 if nothing was late; absent if there is no schedule, or the
    /// figure is censored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_effect: Option<f64>,
    /// The claimed figure of consecutive parts of the trial, where they are known; not in the file.
    #[serde(skip)]
    pub segments: Vec<f64>,
    /// The messages that warmed it up, which are in no other figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmUp>,
    /// Outcome of the schedule of each paced flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paced: Vec<PacedFlow>,
    /// The far clock against the near one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockEstimate>,
    /// Ledger of the messages: the fate of each.
    pub ledger: Ledger,
    /// Result of checking the content, if it is kept, checked, or read from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// Cost to the near end.
    pub cost: Cost,
    /// Cost to the far end; absent if that is the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_cost: Option<Cost>,
    /// The near end's options as read back from its first flow.
    pub effective: Effective,
    /// The far end's options as read back from its first flow.
    #[serde(default, skip_serializing_if = "Effective::is_empty")]
    pub far_effective: Effective,
    /// Options by flow of the near end that differ from those of the first; absent if all flows are
    /// alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effective_by_flow: Vec<Effective>,
    /// Options in force by flow, at the far end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_effective_by_flow: Vec<Effective>,
    /// Longest connection set-up of its flows, in nanoseconds.
    pub connect_ns: u64,
    /// Segments sent again by the transport, both ends; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Datagrams that forward error correction made up for, both ends; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<u64>,
    /// ECN codepoints of the datagrams that arrived at both ends; absent where nobody looks at them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    /// Packets that both ends sent, as IP has them; absent where one of them does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// Errors that the network reported back (ICMP unreachable and the like), both ends.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub network_errors: u64,
    /// Fall back on the second of two transports; absent if the contender is none of two, or did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Application bytes that arrived, both ways together; absent in results of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_bytes: Option<u64>,
    /// The packets that messages made, where each travels as a datagram and the path MTU is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// Counters of the near end's network code over the trial; absent if the kernel shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<HostCounters>,
    /// Counters of the far end's network code; on one machine it counts the same things once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_counters: Option<HostCounters>,
    /// Throttling of the near end's control group by a CPU quota over the trial; absent if there
    /// was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// Throttling at the far end; on one machine it is the same group, and counted once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_throttled: Option<Throttled>,
    /// Figures of the path, by its own account; absent if we did not build it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathFigures>,
    /// Reason why the path failed its gate, if it did: the reason of `why_invalid`, unless the ends
    /// had one of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_invalid: Option<String>,
    /// Outages: stretches in which nothing came, in order of time; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// The near end over time, by flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Series>,
    /// The far end over time, by flow; absent if that is the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_intervals: Vec<Series>,
    /// The load beside the work over time, by flow and end, after **its** start; absent if there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_intervals: Vec<Series>,
    /// Share of CPU time that the hypervisor took from the near host during the trial.
    pub steal_share: f64,
    /// The near host's load average (1 minute) at the start.
    pub load: f64,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Duration from start to report, in nanoseconds.
    pub took_ns: u64,
}

impl Record {
    /// Returns true if the trial ran to its end, so that it has figures or accounts, whether it counts or not.
    pub fn ran(&self) -> bool {
        !self.metrics.is_empty() || self.ledger.accounts().next().is_some()
    }

    /// Sets the trial's start, in milliseconds since the Unix epoch, and moves outages to be from it on: ends tell them
    /// from the start of their flows on, which started `after` that.
    pub(crate) fn start_at(&mut self, started_ms: u64, after: Nanos) {
        self.started_ms = started_ms;
        for outage in &mut self.outages {
            outage.from_ns = outage.from_ns.saturating_add(after.0);
        }
    }

    /// Creates the record of a trial that has no figures, and why.
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

//! A trial: one contender, one workload, one path, once. A trial runs in two fresh processes of
//! this binary, the agents; this module starts them, drives them and brings their figures together.
//!
//! [`Runner`] is the seam to `race`: the real one is [`lead::agents::Agents`], the fake is [`sim::fake::Fake`].

use deadheat_records::trial::{PathFacts, Record};
use std::path::PathBuf;
use std::sync::Arc;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{AsksLanes, Congestion, Guarantees, LaneSet, Service};
use deadheat_contract::measurements::ConnStats;
use deadheat_contract::workload::{self, EndpointReport, LanesApart, SharedTask, Task};
use deadheat_datapath::transport::commands::CommandPair;
use deadheat_datapath::transport::via::Via;
use deadheat_datapath::transport::{Contender, several};

#[cfg(test)]
use deadheat_everything as _;

pub mod agent;
pub mod between;
pub mod control;
pub mod explain;
pub mod lead;
mod meters;
pub mod observers;
pub mod path;
pub mod process;
pub mod sim;

use deadheat_host::idle::ClaimKind;
use deadheat_host::placement::Load;
use deadheat_records::commands::ProgramFile;
use deadheat_records::host::HostFacts;
use deadheat_records::idle::Idle;
use deadheat_records::placement::Placement;
use deadheat_records::quiet::{Disturbance, ProbePoint, SettlingOutcome};
use explain::{EndNotes, Pass};
pub use lead::pairing::Pairing;
pub use path::emulated::EmulatedPath;

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
/// [`deadheat_base::error::Error::Usage`] if the lanes cannot be shared out; the message names the choices.
pub fn suited(contender: Contender, task: &dyn Task) -> Result<Contender> {
    suited_at(contender, task, None)
}

/// Fits a contender to `task` as [`suited`] does, at the far node with this number, or at the near one.
fn suited_at(mut contender: Contender, task: &dyn Task, node: Option<u16>) -> Result<Contender> {
    let suited = contender.transport.several().map(|all| all.suit(&Lanes { task, node }));
    if let Some(made) = suited.transpose()? {
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
    if task.info().people.is_some()
        && (contender.via != Via::Direct || contender.external.is_some())
    {
        let why = "several ends dial, and what is between two ends is started for one of them";
        return Some(why.to_owned());
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
    /// The contender lost its connection after the start; the evidence.
    Disconnected(String),
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

    /// Returns the facts of both hosts: near, and far where it is another.
    ///
    /// # Errors
    /// Fails if the far host does not answer.
    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)>;

    /// Returns the path in words and numbers.
    fn path(&self) -> PathFacts;

    /// Returns the observations of both ends in the last trial, if that trial was run to be explained.
    fn noted(&mut self) -> Option<Observations> {
        None
    }

    /// Returns this host; `None` if trials run on no host.
    fn own_host(&mut self) -> Option<&mut dyn OwnHost> {
        None
    }

    /// Returns the link to a far end; `None` if there is none that could be lost.
    fn far_link(&mut self) -> Option<&mut dyn FarLink> {
        None
    }
}

/// Host on which trials run.
pub trait OwnHost {
    /// Sets the behaviour of idle CPUs from now on: the requested one with its reason, or the best for the claims if
    /// this machine permits it. Returns it with its reason.
    ///
    /// # Errors
    /// Fails if the CPUs must stay awake and cannot be kept awake.
    fn idle(
        &mut self,
        asked: Option<(Idle, &'static str)>,
        claimed: ClaimKind,
    ) -> Result<(Idle, String)>;

    /// Waits until this host is calm, at most 10 s, and passes the cause of each wait to `on_wait`; `None` if the
    /// placement of the ends is not known yet.
    fn settle(&mut self, on_wait: &mut dyn FnMut(&Disturbance)) -> Option<SettlingOutcome>;

    /// Takes one short measurement of this host, without any contender; `None` if there is nothing to measure.
    fn probe(&mut self) -> Option<ProbePoint>;
}

/// Link to a far end, which may be lost during a race.
pub trait FarLink {
    /// Waits a moment for the far end to take a connection, after a trial was lost with the one to it. Returns the time
    /// since the packet that it answered, or else the evidence that it is still away.
    fn knock(&mut self) -> std::result::Result<Nanos, String>;

    /// Returns the time since which nothing came from the far end in the trial that was just lost, in milliseconds since
    /// the Unix epoch; `None` if it is not known.
    fn silent_ms(&mut self) -> Option<u64>;

    /// Tries once to connect to the far end again, after a trial was lost with the connection to it.
    ///
    /// # Errors
    /// Fails if the far end answers and no race can go on with it; [`Error::Interrupted`] on Ctrl-C.
    fn reconnect(&mut self) -> Result<Reconnection>;

    /// Returns the changes at the far end since the last call, in words: another version, another host.
    fn changes(&mut self) -> Vec<String>;

    /// Returns the round trip to the far end, as the connection to it showed; `None` where that is no measure of the path.
    fn round_trip(&self) -> Option<Nanos>;

    /// Returns the files that the server command of a pair runs at a server, which says the same of the pair as the file here;
    /// `None` if it runs on this machine.
    ///
    /// # Errors
    /// [`Error::Limited`] if the server's operator does not allow it; [`Error::Peer`] with what its file says otherwise.
    fn far_files(&mut self, pair: &Arc<CommandPair>) -> Result<Option<Vec<ProgramFile>>>;
}

impl From<Error> for TrialOutcome {
    fn from(error: Error) -> TrialOutcome {
        match error {
            Error::Blocked { evidence } => TrialOutcome::Blocked(evidence),
            Error::Limited { what } => TrialOutcome::Limited(what),
            error @ Error::Broken { .. } => TrialOutcome::Broke(error.to_string()),
            Error::Disconnected { what } => TrialOutcome::Disconnected(what),
            error => TrialOutcome::Failed(error),
        }
    }
}

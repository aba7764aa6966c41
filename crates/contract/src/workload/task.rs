//! Work of one trial: the facts known before it runs, and its few methods.

use crate::contract::{Direction, Guarantees, PeerFacts, Service, Side};
use crate::measurements::{Metric, Role};
use deadheat_base::spec::Spec;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

use super::load::{Load, Observed};
use super::people::People;
use super::programs::ProgramWork;
use super::setting::set;
use super::theory::{Conditions, Prediction};
use super::{Endpoint, Lengths, Measurements, Part, Reports};

/// Workload with its settings: the work of one trial. It has no default method, so that a task that wraps another one
/// cannot forget any.
pub trait Task: Send + Sync {
    /// Returns the facts.
    fn info(&self) -> &TaskInfo;

    /// Returns the services of the lanes of each connection with these guarantees, first to last. A message without a
    /// lane takes the first.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service>;

    /// Returns the reason why a transport cannot carry this work, as a sentence; `None` if it can. [`misfit`] checks
    /// lanes and the length of messages.
    fn misfit(&self, promised: &Guarantees, peer: PeerFacts) -> Option<String>;

    /// Returns predictions by closed forms for its figures on such a path, as means over trials; empty if no form is
    /// known.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction>;

    /// Creates one endpoint of one flow.
    fn half(&self, part: Part) -> Box<dyn Endpoint>;

    /// Computes the trial's figures from the reports of both ends.
    fn conclude(&self, reports: &Reports<'_>) -> Measurements;
}

/// Facts of a task, known before it runs. A task that wraps another one copies its facts and edits them.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// Description in a few words: `64-byte ping, 1000/s`.
    pub headline: String,
    /// Settings as in JSON results, with defaults.
    pub spec: Spec,
    /// Metrics by which contenders are compared.
    pub metrics: Vec<Metric>,
    /// Shortest length of a trial; `None` if the settings give one.
    pub lengths: Option<Lengths>,
    /// Names of the lanes, first to last, on a connection with enough lanes; empty if a single lane is used.
    pub lane_names: Vec<String>,
    /// Names of the figures of each lane, first to last, if each figure is of one lane, so that lanes may go to several far
    /// ends; empty otherwise.
    pub figures_by_lane: Vec<Vec<&'static str>>,
    /// Connections, one entry each: the direction of bulk data, or `None` for both.
    pub flows: Vec<Option<Direction>>,
    /// Number of far nodes, each a receiver of its own: flow `f` goes to the node `f` modulo their number.
    pub receivers: u16,
    /// Nodes and flows of a work among people; `None` for a work with one near node.
    pub people: Option<People>,
    /// True if all receivers get the same data, so that one connection may serve them all.
    pub sends_all_the_same: bool,
    /// The largest message in bytes.
    pub largest_message: usize,
    /// Longest duration of a trial, including the wait for the last answer; then the trial is given up.
    pub longest: Nanos,
    /// Planned duration of the work, if the workload sets it and not the path.
    pub planned: Option<Nanos>,
    /// Part of `planned` before the figures begin; 0 if there is none, or if no time sets it.
    pub warmup: Nanos,
    /// Time after which a sample counts as lost.
    pub timeout: Nanos,
    /// Load that shares the path with it, if there is one.
    pub load: Option<Load>,
    /// Way to observe it over time, for figures of parts of a trial; `None` if there is none.
    pub observed: Option<Observed>,
    /// Name of the times in [`RecentTimes::delays`](super::RecentTimes::delays), unless `observed` has one.
    pub times: &'static str,
    /// Warning that it offers more than the path carries, which may be intended; `None` if it does not, or the path's
    /// rate is unknown.
    pub overload: Option<String>,
    /// Largest number of connections that each flow opens, one after the other; 1 if it keeps its first.
    pub connections: u16,
    /// Maximum number of application bytes in one direction; `None` for as many as fit into the time.
    pub most_bytes: Option<u64>,
    /// Files that it reads and writes, with their ends.
    pub files: Vec<NamedFile>,
    /// Memory of each end during a trial, beyond its buffers.
    pub memory: EndMemory,
    /// True if the schedule is exact to the microsecond, so that waiting may spin.
    pub is_paced: bool,
    /// True if it sends as much as its transport takes, for as long as it lasts: nothing but a congestion control keeps
    /// it from flooding a path.
    pub fills_path: bool,
    /// Function that reads the number of a message, which is the same in both directions; `None` if its messages have
    /// no numbers.
    pub numbering: Option<Numbering>,
    /// Part of it that programs of others can do.
    pub programs: ProgramWork,
}

impl TaskInfo {
    /// Returns the metric for verdicts: the first with the role of a claim.
    pub fn claim(&self) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.role == Role::Claim)
    }

    /// Returns the rate of data that it offers in one direction; `None` if it is not on a schedule.
    pub fn offered(&self) -> Option<BitRate> {
        let planned = self.planned.filter(|planned| self.is_paced && *planned > Nanos::ZERO)?;
        Some(BitRate((self.most_bytes? as f64 * 8e9 / planned.0 as f64) as u64))
    }

    /// Returns the number of nodes that dial.
    pub fn dialling_nodes(&self) -> u16 {
        self.people.as_ref().map_or(1, |people| people.near.len() as u16)
    }

    /// Returns the flows of a node, out of `nodes` on its side, in order.
    pub fn flows_of(&self, side: Side, node: u16, nodes: u16) -> Vec<u16> {
        match &self.people {
            Some(people) => people.flows_of(side, node),
            None => (node..self.flows.len() as u16).step_by(nodes.max(1).into()).collect(),
        }
    }

    /// Returns the number of the far node of a flow, out of `nodes`.
    pub fn far_node(&self, flow: u16, nodes: u16) -> u16 {
        let named = self.people.as_ref().and_then(|people| people.node(Side::Far, flow));
        named.unwrap_or(flow % nodes.max(1))
    }

    /// Returns true if connections are opened while it runs.
    pub fn reconnects(&self) -> bool {
        self.connections > 1
    }

    /// Returns the name of the times in [`RecentTimes::delays`](super::RecentTimes::delays).
    pub fn delay_label(&self) -> &'static str {
        match self.observed {
            Some(Observed::Items(items)) => items.names[1],
            _ => self.times,
        }
    }

    /// Returns the settings of the same work with this number of bytes.
    pub fn spec_of_bytes(&self, bytes: u64) -> Spec {
        let mut spec = self.spec.clone();
        set(&mut spec, BYTES, bytes.to_string());
        spec
    }

    /// Returns the settings for the end `side`: with [`ELSEWHERE`] for the other end's files, and with the number of
    /// bytes to send if a file of `source_bytes` is read.
    pub fn spec_for(&self, side: Side, source_bytes: Option<u64>) -> Spec {
        let mut spec = self.spec.clone();
        let elsewhere = self.files.iter().filter(|file| file.side != side);
        for file in elsewhere {
            set(&mut spec, file.key, ELSEWHERE.to_owned());
        }
        if let Some(whole) = source_bytes {
            let bytes = self.most_bytes.map_or(whole, |most| most.min(whole));
            set(&mut spec, BYTES, bytes.to_string());
        }
        spec
    }
}

/// Facts of a work with one receiver, without lanes, files, a load or a schedule. Headline, settings, metrics,
/// connections, largest message and longest duration are for the workload to set.
impl Default for TaskInfo {
    fn default() -> TaskInfo {
        TaskInfo {
            headline: String::new(),
            spec: Spec { name: String::new(), options: Vec::new() },
            metrics: Vec::new(),
            lengths: None,
            lane_names: Vec::new(),
            figures_by_lane: Vec::new(),
            flows: Vec::new(),
            receivers: 1,
            people: None,
            sends_all_the_same: false,
            largest_message: 0,
            longest: Nanos::ZERO,
            planned: None,
            warmup: Nanos::ZERO,
            timeout: Nanos::ZERO,
            load: None,
            observed: None,
            times: "delay",
            overload: None,
            connections: 1,
            most_bytes: None,
            files: Vec::new(),
            memory: EndMemory::default(),
            is_paced: false,
            fills_path: false,
            numbering: None,
            programs: ProgramWork::None,
        }
    }
}

/// Key of the number of bytes to send, in every workload that reads a file.
const BYTES: &str = "bytes";

/// Function that reads the number of a message; `None` if it has none.
pub type Numbering = fn(&[u8]) -> Option<u64>;

/// Memory of each end, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndMemory {
    /// At the near end.
    pub near: u64,
    /// At the far end.
    pub far: u64,
}

impl EndMemory {
    /// Creates the memory of a work with the same amount at both ends.
    pub fn both(bytes: u64) -> EndMemory {
        EndMemory { near: bytes, far: bytes }
    }

    /// Creates the memory of a work that needs it at one end.
    pub fn at(side: Side, bytes: u64) -> EndMemory {
        match side {
            Side::Near => EndMemory { near: bytes, far: 0 },
            Side::Far => EndMemory { near: 0, far: bytes },
        }
    }

    /// Returns the sum of both, at each end.
    #[must_use]
    pub fn plus(self, other: EndMemory) -> EndMemory {
        EndMemory {
            near: self.near.saturating_add(other.near),
            far: self.far.saturating_add(other.far),
        }
    }

    /// Returns the memory of one end.
    pub fn of(self, side: Side) -> u64 {
        match side {
            Side::Near => self.near,
            Side::Far => self.far,
        }
    }
}

/// Placeholder for the path of the other end's file, which this end does not learn.
pub const ELSEWHERE: &str = "-";

/// A file that a workload names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The end that reads or writes it.
    pub side: Side,
    /// Purpose of the file.
    pub purpose: Purpose,
    /// Key of the workload that names it.
    pub key: &'static str,
    /// Its path as typed, or [`ELSEWHERE`].
    pub path: String,
}

/// Purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Source of the content to send.
    Read,
    /// Destination of the received content.
    Write,
}

/// Returns the reason why a transport cannot carry `task`, as a sentence; `None` if it can.
pub fn misfit(task: &dyn Task, promised: &Guarantees, peer: PeerFacts) -> Option<String> {
    let info = task.info();
    if peer.is_group && !info.sends_all_the_same {
        let why = "it sends the same to a group of receivers, and this is work between two ends";
        return Some(why.to_owned());
    }
    if peer.is_command || matches!(info.programs, ProgramWork::Figures(_)) {
        return info.programs.misfit(peer);
    }
    task.misfit(promised, peer)
        .or_else(|| promised.misfit(&task.lanes(promised), info.largest_message as u64))
}

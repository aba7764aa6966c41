//! Work of one trial: the facts that are known before it runs, and the few things that it does.

use crate::contract::{Direction, Guarantees, PeerKind, Service, Side};
use crate::measurements::{Metric, Role};
use crate::spec::Spec;
use crate::time::Nanos;

use super::load::{Load, Observed};
use super::setting::set;
use super::theory::{Conditions, Prediction};
use super::{Endpoint, Lengths, Measurements, Part, Reports};

/// Workload with its settings: the work of one trial. It has no default method, so that a task that wraps another one
/// cannot forget any.
pub trait Task: Send + Sync {
    /// Returns the facts.
    fn info(&self) -> &TaskInfo;

    /// Returns the services of the lanes of each connection with these guarantees, first to last. A message for which no
    /// lane is given takes the first.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service>;

    /// Returns the reason why a transport cannot carry this work, as a sentence; `None` if it can. Lanes
    /// and the length of messages are [`misfit`]'s to check.
    fn misfit(&self, promised: &Guarantees, peer: PeerKind) -> Option<String>;

    /// Returns the values that closed forms give for its figures on such a path, as means over trials; none where no
    /// form is known.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction>;

    /// Creates one endpoint of one flow.
    fn half(&self, part: Part) -> Box<dyn Endpoint>;

    /// Makes the trial's figures of the reports of both ends.
    fn conclude(&self, reports: &Reports<'_>) -> Measurements;
}

/// Facts of a task, known before it runs. A task that wraps another one copies its facts and edits them.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// The work in a few words: `64-byte ping, 1000/s`.
    pub headline: String,
    /// The settings as JSON results show them, defaults included.
    pub spec: Spec,
    /// The figures that contenders are compared by.
    pub metrics: Vec<Metric>,
    /// The length that a trial has to have; `None` if the settings fix it.
    pub lengths: Option<Lengths>,
    /// Names of the lanes, first to last, where a connection has as many as the work would use; empty if a single lane is
    /// used.
    pub lane_names: Vec<String>,
    /// The connections it needs, one entry each: the direction of bulk data, or `None` for both.
    pub flows: Vec<Option<Direction>>,
    /// Number of far nodes, each a receiver of its own: flow `f` goes to the node `f` modulo their number.
    pub receivers: u16,
    /// True if all receivers are to get the same, so that one connection may serve them all.
    pub sends_all_the_same: bool,
    /// The largest message in bytes.
    pub largest_message: usize,
    /// Longest time that a trial lasts, waiting for the last answer included. After this it is given up.
    pub longest: Nanos,
    /// Planned duration of the work, if the workload sets it and not the path.
    pub planned: Option<Nanos>,
    /// Time after which a sample counts as lost.
    pub timeout: Nanos,
    /// The load that shares the path with it, if one was asked for.
    pub load: Option<Load>,
    /// Way to observe it over time, for figures of parts of a trial; `None` if there is none.
    pub observed: Option<Observed>,
    /// Sentence where it offers more than the path carries, as it may on purpose; `None` if it does not, or the path's
    /// rate is unknown.
    pub overload: Option<String>,
    /// True if connections are opened while it runs, one after the other.
    pub reconnects: bool,
    /// Maximum of application bytes that one direction may carry; `None` for as many as fit in the time.
    pub most_bytes: Option<u64>,
    /// The files that it reads and writes, with their ends.
    pub files: Vec<NamedFile>,
    /// Memory that each end takes during a trial, beyond its buffers.
    pub memory: EndMemory,
    /// True if the schedule must be kept to the microsecond, so that waiting may spin.
    pub is_paced: bool,
    /// Function that reads the number of a message, which is the same on the way there and back; `None` if
    /// its messages have none.
    pub numbering: Option<Numbering>,
}

impl TaskInfo {
    /// Returns the figure that verdicts are given for: the first that is claimed.
    pub fn claim(&self) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.role == Role::Claim)
    }

    /// Returns the settings for the end `side`: with [`ELSEWHERE`] for the other end's files, and with the bytes that go
    /// over the path where a file of `source_bytes` is read.
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

/// Work of one receiver, without lanes, files, a load or a schedule. Its own are headline, settings, figures, connections, largest
/// message and longest time.
impl Default for TaskInfo {
    fn default() -> TaskInfo {
        TaskInfo {
            headline: String::new(),
            spec: Spec { name: String::new(), options: Vec::new() },
            metrics: Vec::new(),
            lengths: None,
            lane_names: Vec::new(),
            flows: Vec::new(),
            receivers: 1,
            sends_all_the_same: false,
            largest_message: 0,
            longest: Nanos::ZERO,
            planned: None,
            timeout: Nanos::ZERO,
            load: None,
            observed: None,
            overload: None,
            reconnects: false,
            most_bytes: None,
            files: Vec::new(),
            memory: EndMemory::default(),
            is_paced: false,
            numbering: None,
        }
    }
}

/// Key of the bytes that go over the path, for every workload that reads a file.
const BYTES: &str = "bytes";

/// Function that reads the number of a message, which may be anything.
pub type Numbering = fn(&[u8]) -> Option<u64>;

/// Memory that each end takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndMemory {
    /// At the near end.
    pub near: u64,
    /// At the far end.
    pub far: u64,
}

impl EndMemory {
    /// Creates the memory of a work that takes the same at both ends.
    pub fn both(bytes: u64) -> EndMemory {
        EndMemory { near: bytes, far: bytes }
    }

    /// Creates the memory of a work that takes it at one end.
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

    /// Returns that of one end.
    pub fn of(self, side: Side) -> u64 {
        match side {
            Side::Near => self.near,
            Side::Far => self.far,
        }
    }
}

/// Placeholder for the path of a file that is the other end's: no end learns more of it.
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
    /// File whose content is sent.
    Read,
    /// File that keeps the data that arrives.
    Write,
}

/// Returns the reason why a transport cannot carry `task`, as a sentence; `None` if it can.
pub fn misfit(task: &dyn Task, promised: &Guarantees, peer: PeerKind) -> Option<String> {
    let info = task.info();
    if peer == PeerKind::Group && !info.sends_all_the_same {
        let why = "it sends the same to a group of receivers, and this is work between two ends";
        return Some(why.to_owned());
    }
    task.misfit(promised, peer)
        .or_else(|| promised.misfit(&task.lanes(promised), info.largest_message as u64))
}

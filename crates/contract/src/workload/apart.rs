//! Work whose lanes go to several far ends: a flow for each far end carries the lanes that go there, and each receiver
//! has the figures of its own lanes.
//!
//! ```text
//! events, state    lane events ──► flow 0 ──► far end 0
//!                  lane state  ──► flow 1 ──► far end 1
//! ```

use crate::contract::{Guarantees, LaneSet, PeerFacts, Service};

use super::load::stint_of;
use super::theory::{Conditions, Prediction};
use super::{EndMemory, Part, Reports, SharedTask, Task, TaskInfo};
use crate::workload::{Endpoint, Measurements};

/// Work with the lanes of each far end. Its messages and their times are the same as on one connection.
pub struct LanesApart {
    info: TaskInfo,
    task: SharedTask,
    /// Lanes of each far end, in order.
    lanes: Vec<LaneSet>,
}

impl LanesApart {
    /// Deals the lanes of a work with one flow over far ends, each of which gets these lanes.
    pub fn new(task: SharedTask, lanes: Vec<LaneSet>) -> LanesApart {
        let work = task.info();
        let ends = lanes.len() as u64;
        let times = |bytes: u64| bytes.saturating_mul(ends);
        let info = TaskInfo {
            flows: work
                .flows
                .iter()
                .cycle()
                .take(work.flows.len() * lanes.len())
                .copied()
                .collect(),
            receivers: lanes.len() as u16,
            // Any far end may get nearly all of it.
            most_bytes: work.most_bytes.map(times),
            memory: EndMemory { near: times(work.memory.near), far: times(work.memory.far) },
            observed: None,
            ..work.clone()
        };
        LanesApart { info, task, lanes }
    }

    /// Returns the reason why lanes of a work cannot go to several far ends, as a sentence; `None` if they can.
    pub fn misfit(work: &TaskInfo) -> Option<&'static str> {
        let has_phases = stint_of(&work.spec.to_string()).is_some();
        match () {
            () if work.figures_by_lane.is_empty() => {
                Some("its figures are of all lanes together, so they go to one far end")
            }
            () if work.receivers > 1 || work.flows.len() > 1 => {
                Some("each receiver gets all lanes; leave out receivers")
            }
            () if has_phases => Some("phases are of one far end; leave out load-from"),
            () => None,
        }
    }
}

impl Task for LanesApart {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.task.lanes(promised)
    }

    fn misfit(&self, promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        self.task.misfit(promised, peer)
    }

    /// Returns nothing: the forms are for one path.
    fn theory(&self, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let carried = self.lanes.get(usize::from(part.flow)).copied().unwrap_or(LaneSet::ALL);
        self.task.half(Part { carried, flow: 0, ..part })
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        self.task.conclude(reports)
    }
}

//! Reports of both ends of a group, before they become the record of a trial.

use super::credible::TrialFacts;
use crate::Observations;
use crate::control::AgentReport;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Guarantees;
use deadheat_contract::measurements::Cost;
use deadheat_contract::workload::{Clocks, Reports, Task};

/// Reports of both ends of a group.
pub(crate) struct BothReports {
    pub(crate) near: AgentReport,
    /// Joined report of the far nodes; absent if the kernel answers, or if the report is not credible.
    pub(crate) far: Option<AgentReport>,
    /// Time from the start message to the last far node's report.
    pub(crate) took: Nanos,
    /// Relation of the clocks of both ends.
    pub(crate) clocks: Clocks,
    /// Reason why the far end's report was dropped, as words about it: it is not credible.
    pub(crate) doubt: Option<String>,
    /// Cost of the commands that carried an external contender, by side.
    pub(crate) carriers: [Cost; 2],
}

impl BothReports {
    /// Returns the notes of both ends, if they were asked to take any.
    pub(super) fn noted(&self) -> Option<Observations> {
        let far = self.far.as_ref();
        Some(Observations {
            near: *self.near.notes.clone()?,
            far: far.and_then(|far| far.notes.as_deref().cloned()),
            conns: [self.near.conns.clone(), far.map_or_else(Vec::new, |far| far.conns.clone())],
            halves: [self.near.halves.clone(), far.map_or_else(Vec::new, |far| far.halves.clone())],
        })
    }

    /// Returns the reports in the form that a workload sums up.
    pub(crate) fn of<'a>(&'a self, guarantees: &'a Guarantees) -> Reports<'a> {
        let far = self.far.as_ref();
        Reports {
            near: &self.near.halves,
            far: far.map_or(&[], |far| &far.halves),
            near_conns: &self.near.conns,
            far_conns: far.map_or(&[], |far| &far.conns),
            guarantees,
            clocks: self.clocks,
        }
    }

    /// Drops the far end's report if it is not credible, so that none of its numbers becomes a figure.
    pub(crate) fn checked(mut self, task: &dyn Task) -> BothReports {
        let known = TrialFacts { near: &self.near, task, took: self.took };
        self.doubt = self.far.as_ref().and_then(|far| known.check(far).err());
        if self.doubt.is_some() {
            self.far = None;
        }
        self
    }
}

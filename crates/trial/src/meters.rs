//! Meters of this host, read when a trial begins and again when it ends; the report has the difference. Our ends and the
//! keepers of commands have the same ones.

use deadheat_contract::measurements::{Cost, HostCounters};

use crate::control::AgentReport;
use deadheat_host::cgroup::Quotas;
use deadheat_host::counters;
use deadheat_host::usage::{CpuTimes, ProcessCost, load_average};

/// Readings of all meters.
pub(super) struct Meters {
    counters: Option<HostCounters>,
    quotas: Quotas,
    cpu: Option<CpuTimes>,
    load: Option<f64>,
    /// Cost of this process, read last, so that it excludes reading the others.
    cost: ProcessCost,
}

impl Meters {
    /// Reads all meters now.
    pub(super) fn read() -> Meters {
        Meters {
            counters: counters::read(),
            quotas: Quotas::read(),
            cpu: CpuTimes::read(),
            load: load_average(),
            cost: ProcessCost::read(),
        }
    }

    /// Returns the difference since then, in a report that holds nothing else yet.
    pub(super) fn report(&self) -> AgentReport {
        self.report_with(ProcessCost::read().with_memory().since(&self.cost))
    }

    /// Returns such a report with a cost that another meter has counted: that of a command, and not of its keeper.
    pub(super) fn report_with(&self, cost: Cost) -> AgentReport {
        let steal = CpuTimes::read().zip(self.cpu).map(|(now, then)| now.steal_share_since(&then));
        AgentReport {
            cost,
            steal_share: steal,
            load: self.load,
            throttled: Quotas::read().since(&self.quotas),
            counters: counters::since(self.counters.as_ref()),
            ..AgentReport::default()
        }
    }
}

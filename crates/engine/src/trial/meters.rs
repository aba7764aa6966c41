//! Meters of this host, read when a trial begins and again when it ends; the report has the difference.

use crate::measurements::HostCounters;

use crate::host::cgroup::Quotas;
use crate::host::counters;
use crate::host::usage::{CpuTimes, ProcessCost, load_average};
use crate::trial::control::AgentReport;

/// Readings of all meters.
pub(super) struct Meters {
    counters: Option<HostCounters>,
    quotas: Quotas,
    cpu: CpuTimes,
    load: f64,
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
            load: load_average().unwrap_or_default(),
            cost: ProcessCost::read(),
        }
    }

    /// Returns the difference since then, in a report that holds nothing else yet.
    pub(super) fn report(&self) -> AgentReport {
        AgentReport {
            cost: ProcessCost::read().with_memory().since(&self.cost),
            steal_share: CpuTimes::read().steal_share_since(&self.cpu),
            load: self.load,
            throttled: Quotas::read().since(&self.quotas),
            counters: counters::since(self.counters.as_ref()),
            ..AgentReport::default()
        }
    }
}

//! Meters of this host, read when a trial begins; the difference is taken when it ends.

use crate::measurements::HostCounters;

use crate::host::cgroup::Quotas;
use crate::host::counters;
use crate::host::usage::{CpuTimes, ProcessCost, load_average};
use crate::trial::control::AgentReport;

/// Readings of all of them.
pub(super) struct Meters {
    counters: Option<HostCounters>,
    quotas: Quotas,
    cpu: CpuTimes,
    load: f64,
    /// Read last, so that reading the others is not in it.
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

    /// Returns the difference since then, in a report that says nothing else yet.
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

//! Warnings about the hosts, in words.

use super::translated::TranslatedAddress;
use deadheat_base::figures::percent;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Throttled;

/// Notice about the hosts that a race ran on.
#[derive(Debug, Clone, PartialEq)]
pub enum HostNotice {
    /// CPU time that the hypervisor took away (steal).
    Steal {
        /// Number of affected trials.
        trials: usize,
        /// Largest share of one trial.
        most: f64,
    },
    /// The scheduler places the ends.
    Placement,
    /// Quota that limits the race's processes.
    Quota {
        /// Number of CPUs that they may use on average.
        cpus: f64,
    },
    /// Throttling of one end's processes by a quota.
    Throttled {
        /// Affected end, in words.
        whom: &'static str,
        /// Number of affected trials.
        trials: usize,
        /// Number and total duration of throttlings, in all of these trials.
        throttled: Throttled,
    },
    /// Other programs were busy at the start of the race.
    Busy {
        /// Share of the CPUs that they used.
        share: f64,
        /// Time that the race waited for them to finish.
        waited: Nanos,
    },
    /// The host was unsteady between blocks.
    Noisy {
        /// Scatter of a local echo from one block to the next, as a share.
        scatter: f64,
    },
    /// A contender is answered by the kernel of an unknown host, so it is no floor.
    FloorElsewhere {
        /// The contender's label.
        label: String,
        /// Addresses of the far end, as dialled and as seen by the server.
        translated: TranslatedAddress,
    },
}

impl HostNotice {
    /// Returns the stable identifier of the notice.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            HostNotice::Steal { .. } => "steal",
            HostNotice::Placement => "host_placement",
            HostNotice::Quota { .. } => "cpu_quota",
            HostNotice::Throttled { .. } => "cpu_throttled",
            HostNotice::Busy { .. } => "busy_host",
            HostNotice::Noisy { .. } => "noisy_host",
            HostNotice::FloorElsewhere { .. } => "floor_elsewhere",
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            HostNotice::Steal { trials, most } => format!(
                "the hypervisor took CPU time from {trials} trials, up to {} of one",
                percent(*most)
            ),
            HostNotice::Placement => {
                "the host's scheduler placed the two ends, perhaps differently in each trial".into()
            }
            HostNotice::Quota { cpus } => format!(
                "a quota lets this race use {cpus:.2} CPUs on the average (cgroup, cpu.max); a program that needs more is stopped for the rest of each period"
            ),
            HostNotice::Throttled { whom, trials, throttled } => format!(
                "a CPU quota held {whom} back {throttled}, in {trials} {}; messages under way waited for it",
                if *trials == 1 { "trial" } else { "trials" }
            ),
            HostNotice::Busy { share, waited } => format!(
                "other programs used {} of this host's CPUs before the first block, and still did \
                 after {:.0} s of waiting",
                percent(*share),
                waited.0 as f64 / 1e9
            ),
            HostNotice::Noisy { scatter } => format!(
                "this host is unsteady: an echo between blocks, with no contender in it, varied by {} \
                 from one block to the next",
                percent(*scatter)
            ),
            HostNotice::FloorElsewhere {
                label,
                translated: TranslatedAddress { dialled, reached },
            } => {
                format!(
                    "{label} is no floor here: the race dials {dialled}, and the server is reached at {reached}, so a \
                 port-forward or another translation of addresses lies between, and a router may answer echo requests \
                 instead of the server"
                )
            }
        }
    }

    pub(crate) fn advice(&self) -> &'static str {
        match self {
            HostNotice::Steal { .. } => "race on a host of its own, or at a quieter time",
            HostNotice::Placement => {
                "use --placement same-core, cross-core or busy to hold it equal"
            }
            HostNotice::Quota { .. } => "run it without the quota (CPUQuota=, --cpus)",
            HostNotice::Throttled { .. } => {
                "run it without the quota (CPUQuota=, --cpus), or with a workload that needs less CPU time"
            }
            HostNotice::Busy { .. } => "stop them and race again",
            HostNotice::Noisy { .. } => {
                "stop other programs, or raise --budget: more blocks make up for noise"
            }
            HostNotice::FloorElsewhere { .. } => {
                "leave it out, or race to the server's own address from a host that can reach it"
            }
        }
    }
}

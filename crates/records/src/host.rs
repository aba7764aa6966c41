//! Facts of a host that decide how far a figure can be carried to another.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Facts of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Name of the host.
    pub hostname: String,
    /// Kernel name and release: `Linux 6.18.44`.
    pub kernel: String,
    /// Machine architecture: `x86_64`.
    pub arch: String,
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs that this process may run on.
    pub cpus: Vec<usize>,
    /// Hardware threads per core.
    pub threads_per_core: Option<u32>,
    /// Frequency governor; absent if the host has none.
    pub governor: Option<String>,
    /// Driver of the kernel for idle CPUs (cpuidle); absent if unknown.
    pub idle_driver: Option<String>,
    /// Hypervisor or container, as far as a guest can detect it; absent on bare metal.
    pub virtualisation: Option<String>,
    /// Kernel clock source.
    pub clock_source: Option<String>,
    /// CPU vulnerabilities that are mitigated, by name; mitigations cost system calls time.
    pub mitigations: BTreeMap<String, String>,
    /// Sysctls that affect the result, by name.
    pub sysctls: BTreeMap<String, String>,
    /// Default congestion control.
    pub congestion_control: Option<String>,
    /// Available congestion controls.
    pub congestion_controls: Vec<String>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Average CPU time that this process may use, in thousandths of a CPU, if its cgroup sets a quota (cpu.max,
    /// cpu.cfs_quota_us).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota_milli: Option<u64>,
    /// Address of this host, as this host sees it, that the race used when it asked for these facts; absent if this
    /// host is not a far end behind a server, and in results from before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<IpAddr>,
    /// Address of the race's host, as this host sees it; absent where `reached_at` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_as: Option<IpAddr>,
    /// Version of deadheat on this host.
    pub deadheat: String,
}

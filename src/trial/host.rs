//! What a host is: the facts that decide how far a figure can be carried elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The facts of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name.
    pub hostname: String,
    /// Kernel name and release: `Linux 6.18.44`.
    pub kernel: String,
    /// Machine architecture: `x86_64`.
    pub arch: String,
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs this process may run on.
    pub cpus: Vec<usize>,
    /// Hardware threads per core.
    pub threads_per_core: Option<u32>,
    /// Frequency governor; absent where the host has none.
    pub governor: Option<String>,
    /// `idle` driver of the kernel (cpuidle); absent where unknown.
    pub idle_driver: Option<String>,
    /// Hypervisor or container, as far as the guest can tell; absent on bare metal.
    pub virtualisation: Option<String>,
    /// Kernel clock source.
    pub clock_source: Option<String>,
    /// CPU vulnerabilities that are mitigated, by name; mitigations cost system calls time.
    pub mitigations: BTreeMap<String, String>,
    /// Sysctls that bear on the result, by name.
    pub sysctls: BTreeMap<String, String>,
    /// Default congestion control.
    pub congestion_control: Option<String>,
    /// Congestion controls that can be chosen.
    pub congestion_controls: Vec<String>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Version of deadheat there.
    pub deadheat: String,
}

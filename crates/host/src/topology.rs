//! CPUs that this process may use: their cores, and how quiet they are.

use deadheat_datapath::datapath::cpu::{MASK_WORDS, allowed_cpus};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

/// CPU as the scheduler counts them: a hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Number of the CPU.
    pub id: usize,
    /// Physical core, named by its lowest CPU number.
    pub core: usize,
    /// Package (socket).
    pub package: i64,
    /// Speed relative to the machine's fastest CPU, 1024; also 1024 if the kernel does not show it.
    pub capacity: u32,
    /// Device interrupts that it has handled since boot.
    pub interrupts: u64,
}

/// CPUs that this process may use, by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// CPUs, at least one.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Returns this process's CPUs as read at the first call, so that every trial of a process gets the same answer
    /// although interrupts go on.
    pub fn here() -> &'static Topology {
        static HERE: OnceLock<Topology> = OnceLock::new();
        HERE.get_or_init(Topology::read)
    }

    fn read() -> Topology {
        let interrupts = fs::read_to_string("/proc/interrupts")
            .map(|text| device_interrupts(&text))
            .unwrap_or_default();
        let cpus = allowed_cpus().into_iter().map(|id| Cpu {
            id,
            core: siblings(id).first().copied().unwrap_or(id),
            package: number(id, "topology/physical_package_id").unwrap_or(0),
            capacity: number(id, "cpu_capacity").unwrap_or(1024),
            interrupts: interrupts.get(&id).copied().unwrap_or(0),
        });
        Topology { cpus: cpus.collect() }
    }

    /// Returns the CPU numbers.
    pub fn ids(&self) -> Vec<usize> {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Returns the number of physical cores.
    pub fn cores(&self) -> usize {
        let mut cores: Vec<usize> = self.cpus.iter().map(|cpu| cpu.core).collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len()
    }

    /// Returns the CPUs, the best to measure on first: fast before slow, then few device interrupts before many, then
    /// high numbers before low, because unpinned work tends to run on CPU 0.
    pub fn by_quiet(&self) -> Vec<Cpu> {
        let mut cpus = self.cpus.clone();
        cpus.sort_by_key(|cpu| (Reverse(cpu.capacity), cpu.interrupts, Reverse(cpu.id)));
        cpus
    }
}

/// Returns the hardware threads of `cpu`'s core, itself included; empty if the kernel does not show them.
pub(crate) fn siblings(cpu: usize) -> Vec<usize> {
    ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|name| read(cpu, &format!("topology/{name}")))
        .map(|text| cpu_list(&text))
        .unwrap_or_default()
}

fn number<T: std::str::FromStr>(cpu: usize, file: &str) -> Option<T> {
    read(cpu, file)?.trim().parse().ok()
}

fn read(cpu: usize, file: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok()
}

/// Parses a kernel CPU list such as `0-3,8`; invalid parts are left out.
fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<usize>(), high.parse::<usize>()) {
            cpus.extend(low..=high.min(low.saturating_add(64 * MASK_WORDS)));
        }
    }
    cpus
}

/// Sums up `/proc/interrupts` by CPU: the numbered rows, which are devices. The named rows belong to the machine itself
/// (timers, rescheduling) and follow the load.
fn device_interrupts(text: &str) -> BTreeMap<usize, u64> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<usize> =
        head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let mut sums: BTreeMap<usize, u64> = cpus.iter().map(|cpu| (*cpu, 0)).collect();
    for line in lines {
        let Some((name, counts)) = line.split_once(':') else {
            continue;
        };
        if name.trim().parse::<u32>().is_err() {
            continue;
        }
        for (cpu, count) in cpus.iter().zip(counts.split_whitespace()) {
            let sum = sums.entry(*cpu).or_default();
            *sum = sum.saturating_add(count.parse().unwrap_or(0));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list("5"), [5]);
        assert_eq!(cpu_list(""), [0usize; 0]);
        assert_eq!(cpu_list("x,2-1,7"), [7]);
    }

    #[test]
    fn only_devices_count_as_interrupts() {
        let text = "            CPU0       CPU2       \n \
             24:          1          5  IO-APIC   5-edge      ACPI:Ged\n \
             41:       1074          0  PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx\n\
             LOC:      50574      56350   Local timer interrupts\n\
             ERR:          0\n";
        assert_eq!(device_interrupts(text), BTreeMap::from([(0, 1075), (2, 5)]));
        assert_eq!(device_interrupts("nonsense"), BTreeMap::new());
    }

    #[test]
    fn this_process_has_a_cpu_and_each_cpu_a_core() {
        let here = Topology::here();
        assert!(!here.cpus.is_empty());
        assert!((1..=here.cpus.len()).contains(&here.cores()));
    }

    #[test]
    fn fast_comes_before_quiet_and_quiet_before_high() {
        let cpu = |id, capacity, interrupts| Cpu { id, core: id, package: 0, capacity, interrupts };
        let topology = Topology {
            cpus: vec![cpu(0, 1024, 9), cpu(1, 1024, 3), cpu(2, 1024, 3), cpu(3, 512, 0)],
        };
        let order: Vec<usize> = topology.by_quiet().iter().map(|cpu| cpu.id).collect();
        assert_eq!(order, [2, 1, 0, 3]);
    }
}

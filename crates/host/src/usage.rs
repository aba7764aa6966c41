//! Cost of a span of time to this process, and CPU time that the hypervisor took during it.

use std::fs;

use deadheat_contract::measurements::Cost;

/// CPU time since boot, of the machine or of some of its CPUs, in jiffies (proc_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// Total, idle time included, over all CPUs.
    pub total: u64,
    /// Time in which a CPU had nothing to run.
    pub idle: u64,
    /// Time that the hypervisor gave to other guests while a CPU here had something to run.
    pub steal: u64,
}

impl CpuTimes {
    /// Returns the current reading; `None` if the kernel shows none.
    pub fn read() -> Option<CpuTimes> {
        cpu_times(&fs::read_to_string("/proc/stat").ok()?, "cpu")
    }

    /// Returns the current reading of some CPUs together. CPUs that the kernel does not show count as zero.
    pub fn read_of(cpus: &[usize]) -> CpuTimes {
        fs::read_to_string("/proc/stat").map(|text| times_of(&text, cpus)).unwrap_or_default()
    }

    /// Returns the share of CPU time stolen since an `earlier` reading, from 0 to 1. The clock ticks at 100 Hz, so a
    /// share below `1 / (CPUs × seconds × 100)` reads as zero.
    pub fn steal_share_since(&self, earlier: &CpuTimes) -> f64 {
        self.share_since(earlier, |times| times.steal)
    }

    /// Returns the share of CPU time that was not idle since an `earlier` reading, from 0 to 1.
    pub fn busy_share_since(&self, earlier: &CpuTimes) -> f64 {
        let busy =
            |times: &CpuTimes| times.total.saturating_sub(times.idle.saturating_add(times.steal));
        self.share_since(earlier, busy)
    }

    /// Returns the CPU time since an `earlier` reading that was neither idle nor stolen, and all of it, in jiffies.
    pub fn busy_since(&self, earlier: &CpuTimes) -> (u64, u64) {
        let not_busy = |times: &CpuTimes| times.idle.saturating_add(times.steal);
        let total = self.total.saturating_sub(earlier.total);
        (total.saturating_sub(not_busy(self).saturating_sub(not_busy(earlier))), total)
    }

    fn share_since(&self, earlier: &CpuTimes, part: impl Fn(&CpuTimes) -> u64) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        if total == 0 {
            return 0.0;
        }
        (part(self).saturating_sub(part(earlier)) as f64 / total as f64).min(1.0)
    }
}

fn times_of(text: &str, cpus: &[usize]) -> CpuTimes {
    let each = cpus.iter().filter_map(|cpu| cpu_times(text, &format!("cpu{cpu}")));
    each.fold(CpuTimes::default(), |sum, times| CpuTimes {
        total: sum.total.saturating_add(times.total),
        idle: sum.idle.saturating_add(times.idle),
        steal: sum.steal.saturating_add(times.steal),
    })
}

/// Parses the line that begins with the word `name`.
fn cpu_times(text: &str, name: &str) -> Option<CpuTimes> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    let fields: Vec<u64> =
        line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time after that is part of user.
    let counted = fields.get(..8)?;
    Some(CpuTimes {
        total: counted.iter().fold(0, |sum, field| sum.saturating_add(*field)),
        idle: counted[3].saturating_add(counted[4]),
        steal: counted[7],
    })
}

/// Returns the load average over one minute (proc_loadavg(5)); `None` if the kernel shows none.
pub fn load_average() -> Option<f64> {
    one_minute(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn one_minute(text: &str) -> Option<f64> {
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    load.is_finite().then_some(load)
}

/// Cost of this process so far, all threads (getrusage(2), `RUSAGE_SELF`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessCost {
    user_ns: u64,
    system_ns: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    peak_memory_bytes: Option<u64>,
}

/// Returns the peak memory of this process so far, in bytes: `VmHWM` of proc_pid_status(5). The value of getrusage(2)
/// may be that of the process that started this one.
fn peak_memory() -> Option<u64> {
    peak(&fs::read_to_string("/proc/self/status").ok()?)
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

impl ProcessCost {
    /// Returns the current reading.
    pub fn read() -> ProcessCost {
        // SAFETY: rusage is plain integers, for which all-zero is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid rusage to write to. The call fails on bad arguments only.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        ProcessCost {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            peak_memory_bytes: None,
        }
    }

    /// Also reads the peak memory, which takes longer.
    #[must_use]
    pub fn with_memory(self) -> ProcessCost {
        ProcessCost { peak_memory_bytes: peak_memory(), ..self }
    }

    /// Returns the cost since an `earlier` reading. The caller adds system calls, waiting and allocations, which the
    /// kernel does not count.
    pub fn since(&self, earlier: &ProcessCost) -> Cost {
        let user_ns = self.user_ns.saturating_sub(earlier.user_ns);
        let system_ns = self.system_ns.saturating_sub(earlier.system_ns);
        let switches = |now: u64, then: u64| now.saturating_sub(then);
        Cost {
            cpu_ns: user_ns.saturating_add(system_ns),
            user_ns,
            system_ns,
            waiting_ns: None,
            syscalls: None,
            voluntary_switches: switches(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: switches(self.involuntary_switches, earlier.involuntary_switches),
            peak_memory_bytes: self.peak_memory_bytes,
            allocations: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_memory_is_read_from_the_kernel_s_words() {
        assert_eq!(peak("Name:\tx\nVmHWM:\t    5120 kB\nVmRSS:\t 7 kB\n"), Some(5 << 20));
        assert_eq!(peak("VmHWM:\t5120\n"), None);
        let cost = ProcessCost::read().with_memory().since(&ProcessCost::default());
        assert!(cost.peak_memory_bytes > Some(1 << 20), "{cost:?}");
    }

    #[test]
    fn steal_is_a_share_of_all_time_without_guests_twice() {
        let then = cpu_times("cpu  100 0 50 800 10 0 7 33 60 0\ncpu0 1 2 3\n", "cpu").unwrap();
        assert_eq!((then.total, then.steal), (1000, 33));
        let now = cpu_times("cpu  150 0 50 840 10 0 7 43 99 0\n", "cpu").unwrap();
        assert_eq!(now.steal_share_since(&then), 0.1);
        assert_eq!(then.steal_share_since(&then), 0.0);
        assert_eq!(then.steal_share_since(&now), 0.0);
    }

    #[test]
    fn others_are_told_on_the_cpus_that_are_asked_about() {
        let stat = |busy: u64, idle: u64, elsewhere: u64| {
            let rest = format!("cpu10 9 9 9 9 9 9 9 9 0 0\ncpu2 {elsewhere} 0 0 0 0 0 0 0 0 0\n");
            format!(
                "cpu  7 7 7 7 7 7 7 7 0 0\ncpu0 {busy} 5 5 {idle} 5 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\n{rest}"
            )
        };
        let (then, now) = (stat(10, 100, 0), stat(30, 160, 500));
        let busy = |cpus: &[usize]| times_of(&now, cpus).busy_share_since(&times_of(&then, cpus));
        assert_eq!(busy(&[0]), 0.25);
        assert_eq!(busy(&[0, 1]), 0.25, "the second stood still");
        assert_eq!(busy(&[2]), 1.0);
        assert_eq!(busy(&[]), 0.0);
        assert_eq!(busy(&[77]), 0.0);
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        assert_eq!(cpu_times("cpu0 1 2 3 4 5 6 7 8\n", "cpu"), None);
        assert_eq!(cpu_times("cpu 1 2 3\n", "cpu"), None);
        assert_eq!(one_minute("0.03 0.35 0.22 1/99 123\n"), Some(0.03));
        assert_eq!(one_minute(""), None);
        assert_eq!(one_minute("NaN"), None);
    }

    #[test]
    fn cost_only_grows_and_is_the_sum_of_its_parts() {
        let earlier = ProcessCost::read();
        let mut sum = 0u64;
        while ProcessCost::read().since(&earlier).cpu_ns == 0 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let cost = ProcessCost::read().since(&earlier);
        assert!(cost.cpu_ns > 0);
        assert_eq!(cost.cpu_ns, cost.user_ns + cost.system_ns);
        assert_eq!(earlier.since(&ProcessCost::read()).cpu_ns, 0);
    }
}

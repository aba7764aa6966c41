//! Facts about a host that decide how far a figure can be carried to another.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::path::Path;

use super::cgroup;
use super::topology::siblings;
use deadheat_base::figures::list;
use deadheat_datapath::datapath::cpu::allowed_cpus;
use deadheat_records::host::HostFacts;

/// Sysctls that affect the measurements of deadheat, and so are in each result.
pub const SYSCTLS: &str = "net.core.rmem_default net.core.rmem_max net.core.wmem_default net.core.wmem_max \
    net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_mem net.ipv4.udp_mem net.ipv4.udp_rmem_min \
    net.ipv4.tcp_autocorking net.ipv4.tcp_early_retrans net.ipv4.tcp_ecn net.ipv4.tcp_fastopen \
    net.ipv4.tcp_limit_output_bytes net.ipv4.tcp_min_tso_segs net.ipv4.tcp_moderate_rcvbuf \
    net.ipv4.tcp_mtu_probing net.ipv4.tcp_no_metrics_save net.ipv4.tcp_notsent_lowat \
    net.ipv4.tcp_recovery net.ipv4.tcp_sack net.ipv4.tcp_slow_start_after_idle \
    net.ipv4.tcp_timestamps net.ipv4.tcp_window_scaling net.core.busy_poll net.core.busy_read \
    net.core.default_qdisc net.core.dev_weight net.core.netdev_budget \
    net.core.netdev_max_backlog net.core.rps_sock_flow_entries net.ipv4.ping_group_range \
    kernel.sched_autogroup_enabled kernel.sched_cfs_bandwidth_slice_us \
    kernel.sched_rt_runtime_us kernel.numa_balancing kernel.timer_migration";

/// Gathers the facts of this host. Facts that the kernel does not show are absent; nothing here fails.
pub fn gather() -> HostFacts {
    let cpus = allowed_cpus();
    let name = uname();
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let threads = cpus.first().map(|cpu| siblings(*cpu).len() as u32);
    HostFacts {
        hostname: name.host,
        kernel: name.kernel,
        arch: name.arch,
        cpu_model: cpu_model(&cpuinfo).unwrap_or_else(|| "unknown".to_owned()),
        threads_per_core: threads.filter(|threads| *threads > 0),
        governor: governor(&cpus),
        idle_driver: line("/sys/devices/system/cpu/cpuidle/current_driver")
            .filter(|driver| driver != "none"),
        virtualisation: virtualisation(&Hints::gather(&cpuinfo)),
        clock_source: line(&format!("{CLOCKS}/current_clocksource")),
        mitigations: mitigations(&vulnerabilities()),
        sysctls: sysctls(),
        congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        congestion_controls: text("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .map(|names| names.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        memory_bytes: memory().unwrap_or(0),
        cpu_quota_milli: cgroup::cpu_quota_milli(),
        reached_at: None,
        seen_as: None,
        deadheat: env!("CARGO_PKG_VERSION").to_owned(),
        cpus,
    }
}

const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";

fn text(path: &str) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a file's first line without surrounding space; `None` if that is empty.
fn line(path: &str) -> Option<String> {
    let text = text(path)?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

struct Uname {
    host: String,
    kernel: String,
    arch: String,
}

fn uname() -> Uname {
    // SAFETY: utsname is arrays of bytes, for which all-zero is a valid value.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid utsname to write to. The call fails on a bad pointer only.
    unsafe { libc::uname(&mut name) };
    let field = |field: &[libc::c_char]| {
        // SAFETY: the kernel ends each field with a NUL, and unwritten fields are all NUL.
        let field = unsafe { CStr::from_ptr(field.as_ptr()) };
        field.to_string_lossy().into_owned()
    };
    Uname {
        host: field(&name.nodename),
        kernel: format!("{} {}", field(&name.sysname), field(&name.release)),
        arch: field(&name.machine),
    }
}

/// Returns the CPU's name in `/proc/cpuinfo`, under the key of the architecture; on ARM, which has no name there, the
/// codes of implementer and part.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            (name.trim() == key && !value.is_empty()).then(|| value.to_owned())
        })
    };
    let named = ["model name", "Model", "cpu model", "uarch", "cpu", "Hardware"]
        .iter()
        .find_map(|key| value(key));
    named.or_else(|| {
        let (implementer, part) = (value("CPU implementer")?, value("CPU part")?);
        Some(format!("ARM implementer {implementer} part {part}"))
    })
}

/// Returns the frequency governors in use on `cpus`, each once; `None` if the host has none.
fn governor(cpus: &[usize]) -> Option<String> {
    let mut names: Vec<String> = cpus
        .iter()
        .filter_map(|cpu| {
            line(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
        })
        .collect();
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| list(&names))
}

/// Signs of a hypervisor or a container.
#[derive(Debug, Default)]
struct Hints {
    /// True if the CPU declares itself a guest's.
    hypervisor_flag: bool,
    /// Maker and model in the firmware's tables.
    firmware: Option<String>,
    /// Available clock sources; some belong to a hypervisor.
    clocks: String,
    /// `/sys/hypervisor/type`.
    hypervisor: Option<String>,
    /// Traces of a container: marker files, control group names.
    container: Option<String>,
}

impl Hints {
    fn gather(cpuinfo: &str) -> Hints {
        let dmi = |name: &str| line(&format!("/sys/class/dmi/id/{name}"));
        let firmware: Vec<String> =
            [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
        Hints {
            hypervisor_flag: has_hypervisor_flag(cpuinfo),
            firmware: (!firmware.is_empty()).then(|| firmware.join(" ")),
            clocks: text(&format!("{CLOCKS}/available_clocksource")).unwrap_or_default(),
            hypervisor: line("/sys/hypervisor/type"),
            container: container(),
        }
    }
}

fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .filter_map(|line| line.strip_prefix("flags"))
        .any(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn container() -> Option<String> {
    if let Some(name) = line("/run/systemd/container") {
        return Some(name);
    }
    let marked = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")]
        .iter()
        .find(|(file, _)| Path::new(file).exists());
    if let Some((_, name)) = marked {
        return Some((*name).to_owned());
    }
    container_in_cgroup(&text("/proc/1/cgroup")?)
}

fn container_in_cgroup(cgroup: &str) -> Option<String> {
    ["kubepods", "docker", "containerd", "libpod", "lxc"]
        .iter()
        .find(|name| cgroup.contains(**name))
        .map(|name| match *name {
            "kubepods" => "kubernetes".to_owned(),
            name => name.to_owned(),
        })
}

/// Words of makers and hypervisors in firmware tables, with their meaning.
const MAKERS: &[(&str, &str)] = &[
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("Amazon EC2", "Amazon EC2"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Microsoft Corporation Virtual Machine", "Hyper-V"),
    ("Xen", "Xen"),
    ("Parallels", "Parallels"),
    ("OpenStack", "OpenStack"),
    ("DigitalOcean", "DigitalOcean"),
    ("Hetzner", "Hetzner"),
    ("Alibaba Cloud", "Alibaba Cloud"),
];

/// Returns the names of the hypervisor and the container; `None` on bare metal, as far as a guest can detect it.
///
/// A maker's name alone does not prove a guest: EC2 also rents out whole machines. It only identifies the hypervisor.
fn virtualisation(hints: &Hints) -> Option<String> {
    let by_firmware = hints.firmware.as_deref().and_then(|firmware| {
        let maker = MAKERS.iter().find(|(word, _)| firmware.contains(word))?;
        Some(maker.1)
    });
    let by_clock = [("kvm-clock", "KVM"), ("hyperv", "Hyper-V"), ("xen", "Xen")]
        .iter()
        .find(|(clock, _)| hints.clocks.contains(clock))
        .map(|(_, name)| *name);
    let by_kernel = hints.hypervisor.as_deref().map(|_| "Xen");
    // Without the flag, which only x86 has, a hypervisor's own clock or interface is proof too.
    let is_guest = hints.hypervisor_flag || by_clock.is_some() || by_kernel.is_some();
    let emulated = matches!(by_firmware, Some("QEMU" | "KVM" | "VirtualBox" | "VMware"));
    let machine = (is_guest || emulated).then(|| {
        let mut names: Vec<&str> =
            [by_clock.or(by_kernel), by_firmware].into_iter().flatten().collect();
        names.dedup();
        if names.is_empty() {
            "virtual machine".to_owned()
        } else {
            format!("virtual machine ({})", names.join(", "))
        }
    });
    let container = hints.container.as_ref().map(|name| format!("container ({name})"));
    let both: Vec<String> = [machine, container].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(", "))
}

fn vulnerabilities() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let state = line(entry.path().to_str()?)?;
            Some((entry.file_name().into_string().ok()?, state))
        })
        .collect()
}

/// Returns the mitigated vulnerabilities, with their mitigations.
fn mitigations(vulnerabilities: &[(String, String)]) -> BTreeMap<String, String> {
    vulnerabilities
        .iter()
        .filter_map(|(name, state)| {
            let how = state.strip_prefix("Mitigation:")?.trim();
            Some((name.clone(), how.to_owned()))
        })
        .collect()
}

fn sysctls() -> BTreeMap<String, String> {
    SYSCTLS
        .split_whitespace()
        .filter_map(|name| {
            let value = line(&format!("/proc/sys/{}", name.replace('.', "/")))?;
            Some((name.to_owned(), one_space(&value)))
        })
        .collect()
}

fn one_space(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the size of this host's memory in bytes, if it is known.
pub fn memory() -> Option<u64> {
    text("/proc/meminfo").and_then(|text| memory_bytes(&text))
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_names_of_several_architectures() {
        let x86 = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n";
        assert_eq!(cpu_model(x86).unwrap(), "AMD EPYC");
        let arm =
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).unwrap(), "ARM implementer 0x41 part 0xd0c");
        let power = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n";
        assert_eq!(cpu_model(power).unwrap(), "POWER9, altivec supported");
        assert_eq!(cpu_model("model name\t:\n"), None);
    }

    #[test]
    fn guests_are_told_from_machines() {
        assert!(has_hypervisor_flag("flags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!has_hypervisor_flag("flags\t\t: fpu hypervisors\nbugs\t: hypervisor\n"));
        let say = |hints: Hints| virtualisation(&hints);
        assert_eq!(say(Hints::default()), None);
        let flag = || Hints { hypervisor_flag: true, ..Hints::default() };
        assert_eq!(say(flag()).unwrap(), "virtual machine");
        let nitro = Hints {
            firmware: Some("Amazon EC2 c7i.large".into()),
            clocks: "kvm-clock tsc acpi_pm".into(),
            ..flag()
        };
        assert_eq!(say(nitro).unwrap(), "virtual machine (KVM, Amazon EC2)");
        let metal = Hints {
            firmware: Some("Amazon EC2 c7i.metal-24xl".into()),
            clocks: "tsc hpet acpi_pm".into(),
            ..Hints::default()
        };
        assert_eq!(say(metal), None);
        let arm_guest = Hints {
            firmware: Some("QEMU QEMU Virtual Machine".into()),
            container: Some("docker".into()),
            ..Hints::default()
        };
        assert_eq!(say(arm_guest).unwrap(), "virtual machine (QEMU), container (docker)");
    }

    #[test]
    fn containers_show_in_control_groups() {
        let name = |text| container_in_cgroup(text);
        assert_eq!(name("0::/\n"), None);
        assert_eq!(name("4:memory:/docker/3f1a\n").unwrap(), "docker");
        assert_eq!(name("0::/kubepods.slice/cri-containerd-1.scope\n").unwrap(), "kubernetes");
    }

    #[test]
    fn only_mitigations_are_kept() {
        let state = |name: &str, state: &str| (name.to_owned(), state.to_owned());
        let kept = mitigations(&[
            state("meltdown", "Not affected"),
            state("spec_store_bypass", "Vulnerable"),
            state("spectre_v2", "Mitigation: Retpolines; STIBP: disabled"),
        ]);
        assert_eq!(
            kept,
            BTreeMap::from([("spectre_v2".into(), "Retpolines; STIBP: disabled".into())])
        );
    }

    #[test]
    fn numbers_and_lists_are_plain_text() {
        assert_eq!(
            memory_bytes("MemTotal:       24642560 kB\nMemFree: 1 kB\n"),
            Some(25_233_981_440)
        );
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
        assert_eq!(memory_bytes("MemTotal: many kB\n"), None);
        assert_eq!(one_space("4096\t131072\t6291456"), "4096 131072 6291456");
    }

    #[test]
    fn this_host_has_a_name_a_kernel_and_a_cpu() {
        let facts = gather();
        assert!(facts.kernel.starts_with("Linux "));
        assert!(!facts.arch.is_empty() && !facts.cpus.is_empty());
        assert!(facts.sysctls.keys().all(|name| SYSCTLS.contains(name.as_str())));
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
    }

    #[test]
    fn sysctls_are_listed_once() {
        let all: Vec<&str> = SYSCTLS.split_whitespace().collect();
        let mut names = all.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}

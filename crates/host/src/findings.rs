//! Findings that prevent good figures on a machine: observation, its effect, and advice.

use super::doctor::{Doctor, Finding};
use deadheat_base::error::Result;
use deadheat_base::figures::percent;
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_datapath::datapath::wait::SPIN_WINDOW;
use deadheat_records::placement::Placement;

/// Default margin of races.
const DEFAULT_MARGIN: f64 = 0.05;

/// Ratio above which the medians of two runs belong to different regimes.
const REGIMES_APART: f64 = 1.5;

/// Share of stolen CPU time above which a result is in doubt.
const MUCH_STEAL: f64 = 0.01;

/// 1-minute load average above which other work must be expected to disturb.
const MUCH_LOAD: f64 = 0.5;

/// Buffer for the bandwidth-delay product of 1 Gbit/s at 32 ms, and for bursts of UDP bulk data, in bytes.
const ENOUGH_BUFFER: u64 = 4 << 20;

/// Time of a clock read above which it is a system call or a trip to the hypervisor instead of the vDSO, in
/// nanoseconds.
const SLOW_CLOCK_NS: f64 = 150.0;

/// Examines this machine: about five seconds, on loopback only. Other work on it during that time affects every figure, on
/// purpose: it would in a race, too.
///
/// # Errors
/// Fails if not even an echo on one CPU works; names the operation.
pub fn examine() -> Result<Doctor> {
    let doctor = Doctor::measure()?;
    Ok(Doctor { findings: of(&doctor), ..doctor })
}

/// Returns the findings of an examination, the most harmful first.
pub fn of(doctor: &Doctor) -> Vec<Finding> {
    let checks: &[fn(&Doctor) -> Option<Finding>] = &[
        steal,
        load,
        noise,
        regimes,
        late_sends,
        late_timers,
        slow_clock,
        one_cpu,
        one_core,
        wake_ups,
        governor,
        default_congestion_control,
        closed_ping,
        small_buffers,
    ];
    checks.iter().filter_map(|check| check(doctor)).collect()
}

fn finding(code: &str, message: String, advice: &str) -> Option<Finding> {
    Some(Finding { code: code.to_owned(), message, advice: advice.to_owned() })
}

fn steal(doctor: &Doctor) -> Option<Finding> {
    let stolen = doctor.steal_share.filter(|share| *share >= MUCH_STEAL)?;
    finding(
        "steal",
        format!(
            "the hypervisor took {} of the CPU time; this adds to the slowest round trips of any contender",
            percent(stolen)
        ),
        "use a dedicated instance, or race at another time",
    )
}

fn load(doctor: &Doctor) -> Option<Finding> {
    let load = doctor.load.filter(|load| *load >= MUCH_LOAD)?;
    finding(
        "load",
        format!("load average {load:.2} before the examination; other work shares the CPUs"),
        "stop it, or keep it off the CPUs that the race uses (taskset, cpuset)",
    )
}

fn noise(doctor: &Doctor) -> Option<Finding> {
    let noise = doctor.noise.filter(|noise| noise.half_width > DEFAULT_MARGIN / 2.0)?;
    finding(
        "noise",
        format!(
            "identical runs differ by {}; the first blocks of a race cannot show a tie within {}",
            percent(noise.half_width),
            percent(DEFAULT_MARGIN)
        ),
        "see the other findings; more blocks narrow it with their square root",
    )
}

fn regimes(doctor: &Doctor) -> Option<Finding> {
    let noise = doctor.noise.filter(|noise| noise.worst_ratio > REGIMES_APART)?;
    finding(
        "regimes",
        format!(
            "identical runs had medians up to {:.1} times apart: runs fall into regimes",
            noise.worst_ratio
        ),
        "fix the CPUs with --placement, and keep other work off them",
    )
}

fn late_sends(doctor: &Doctor) -> Option<Finding> {
    let tenth = Nanos::from_micros(100);
    let p99 = doctor.sends.p99_ns.filter(|p99| *p99 > tenth.0)?;
    // On a loaded machine a sender that never sleeps is the first to be preempted, so `busy` is advised only if it was
    // measured to help.
    let busy = doctor.busy_sends.and_then(|busy| busy.p99_ns);
    let advice = match busy {
        Some(busy) if busy <= tenth.0 => "use --placement busy, which is on time here",
        _ => "use longer intervals, or quiet the machine",
    };
    finding(
        "late_sends",
        format!(
            "1 % of messages at 1 kHz are sent {} late or more, which high percentiles of their round \
             trips contain",
            Nanos(p99)
        ),
        advice,
    )
}

fn late_timers(doctor: &Doctor) -> Option<Finding> {
    let fine = doctor.timers.fine;
    if fine.p50_ns <= SPIN_WINDOW.0 {
        return None;
    }
    finding(
        "late_timers",
        format!(
            "timers fire {} late at the median, beyond the {} for which a waiting sender spins",
            Nanos(fine.p50_ns),
            SPIN_WINDOW
        ),
        "--placement busy never sleeps; on bare metal forbid deep idle states (cpuidle)",
    )
}

fn slow_clock(doctor: &Doctor) -> Option<Finding> {
    if doctor.clock.read_ns <= SLOW_CLOCK_NS {
        return None;
    }
    finding(
        "slow_clock",
        format!(
            "one clock read takes {:.0} ns (clock source {}); every time stamp pays it",
            doctor.clock.read_ns,
            doctor.host.clock_source.as_deref().unwrap_or("unknown")
        ),
        "use a clock source that the vDSO reads (tsc, kvm-clock, arch_sys_counter)",
    )
}

fn one_cpu(doctor: &Doctor) -> Option<Finding> {
    if doctor.host.cpus.len() > 1 {
        return None;
    }
    finding(
        "one_cpu",
        "this process may use only one CPU; both ends take turns, so bulk shows CPU cost more \
         than network"
            .to_owned(),
        "give it a second CPU (taskset, cpuset, docker --cpuset-cpus), or race to another host",
    )
}

fn one_core(doctor: &Doctor) -> Option<Finding> {
    if doctor.host.cpus.len() < 2 || doctor.cores > 1 {
        return None;
    }
    finding(
        "one_core",
        "all CPUs here are hardware threads of one core; two busy ends slow each other down"
            .to_owned(),
        "use a machine with two cores, or race to another host",
    )
}

/// Finds wake-ups that cost more than the rest of the round trip, and so hide the differences between contenders.
fn wake_ups(doctor: &Doctor) -> Option<Finding> {
    let floor = |placement| doctor.floors.iter().find(move |f| f.echo.placement == placement);
    let busy = floor(Placement::Busy)?.echo.p50_ns;
    let cost = floor(Placement::CrossCore)?.wake_up_ns.filter(|cost| *cost > busy)?;
    finding(
        "wake_ups",
        format!(
            "to wake another CPU costs {}, more than a whole round trip of {} between two that \
             are awake; across cores it hides the differences between transports",
            Nanos(cost),
            Nanos(busy)
        ),
        "compare within one placement only; --placement busy shows the transports alone",
    )
}

fn governor(doctor: &Doctor) -> Option<Finding> {
    match doctor.host.governor.as_deref() {
        Some("performance") => None,
        Some(name) => finding(
            "governor",
            format!("frequency governor {name}: the CPUs' speed follows the load"),
            "cpupower frequency-set -g performance",
        ),
        None => finding(
            "no_governor",
            "no frequency governor is visible; whether the CPUs' speed is steady is unknown"
                .to_owned(),
            "nothing to set here; trust the A/A control of each race",
        ),
    }
}

fn default_congestion_control(doctor: &Doctor) -> Option<Finding> {
    let default = doctor.host.congestion_control.as_deref()?;
    if default == "cubic" {
        return None;
    }
    finding(
        "congestion_control",
        format!(
            "TCP's congestion control is {default} by default here; on a fast local path that \
             can halve what TCP moves, and other tools compare it unnoticed"
        ),
        "contenders use cubic unless another is asked for; tcp:cc=host races this host's default",
    )
}

fn closed_ping(doctor: &Doctor) -> Option<Finding> {
    let range = doctor.host.sysctls.get("net.ipv4.ping_group_range")?;
    let bounds: Vec<i64> =
        range.split_whitespace().filter_map(|bound| bound.parse().ok()).collect();
    let [low, high] = bounds[..] else { return None };
    if low <= high || doctor.raw_icmp {
        return None;
    }
    finding(
        "closed_ping",
        format!(
            "ping_group_range is {range}: no group may open a ping socket, and this program no raw one; icmp needs \
             either"
        ),
        "sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"",
    )
}

fn small_buffers(doctor: &Doctor) -> Option<Finding> {
    let most = doctor.host.sysctls.get("net.core.rmem_max")?.parse().ok()?;
    if most >= ENOUGH_BUFFER {
        return None;
    }
    finding(
        "small_buffers",
        format!(
            "net.core.rmem_max is {}: bursts beyond it are dropped at the receiver, which hits \
             UDP and all that is built on it, and not TCP",
            Bytes(most)
        ),
        "sysctl -w net.core.rmem_max=16777216",
    )
}

#[cfg(test)]
mod tests {
    use super::super::doctor::healthy;
    use super::*;

    fn codes(spoil: impl FnOnce(&mut Doctor)) -> Vec<String> {
        let mut doctor = healthy();
        spoil(&mut doctor);
        of(&doctor).into_iter().map(|finding| finding.code).collect()
    }

    /// Machine on which even wake-ups are cheap.
    fn best(doctor: &mut Doctor) {
        doctor.noise.as_mut().unwrap().half_width = 0.01;
        doctor.floors[1].wake_up_ns = Some(1_000);
    }

    #[test]
    fn a_good_machine_has_none() {
        assert_eq!(codes(best), [""; 0]);
        assert_eq!(codes(|_| ()), ["noise", "wake_ups"]);
    }

    #[test]
    fn each_fault_has_its_finding() {
        type Spoil = fn(&mut Doctor);
        let cases: &[(&str, Spoil)] = &[
            ("steal", |d| d.steal_share = Some(0.03)),
            ("load", |d| d.load = Some(1.5)),
            ("regimes", |d| d.noise.as_mut().unwrap().worst_ratio = 5.0),
            ("late_sends", |d| d.sends.p99_ns = Some(200_000)),
            ("late_timers", |d| d.timers.fine.p50_ns = 90_000),
            ("slow_clock", |d| d.clock.read_ns = 900.0),
            ("one_cpu", |d| (d.host.cpus, d.cores) = (vec![3], 1)),
            ("one_core", |d| d.cores = 1),
            ("governor", |d| d.host.governor = Some("powersave".into())),
            ("no_governor", |d| d.host.governor = None),
            ("congestion_control", |d| {
                d.host.congestion_control = Some("bbr".into());
            }),
            ("closed_ping", |d| set(d, "net.ipv4.ping_group_range", "1 0")),
            ("small_buffers", |d| set(d, "net.core.rmem_max", "212992")),
        ];
        for (code, spoil) in cases {
            let found = codes(|doctor| {
                best(doctor);
                spoil(doctor);
            });
            assert_eq!(found, [*code]);
        }
    }

    #[test]
    fn a_program_with_raw_sockets_needs_no_ping_socket() {
        let found = codes(|doctor| {
            best(doctor);
            doctor.raw_icmp = true;
            set(doctor, "net.ipv4.ping_group_range", "1 0");
        });
        assert_eq!(found, [""; 0]);
    }

    fn set(doctor: &mut Doctor, name: &str, value: &str) {
        doctor.host.sysctls.insert(name.into(), value.into());
    }

    #[test]
    fn busy_waiting_is_advised_only_where_it_helps() {
        let advice = |busy_p99| {
            let mut doctor = healthy();
            doctor.sends.p99_ns = Some(200_000);
            doctor.busy_sends.as_mut().unwrap().p99_ns = Some(busy_p99);
            late_sends(&doctor).unwrap().advice
        };
        assert!(advice(200).contains("--placement busy"));
        assert!(!advice(16_000_000).contains("--placement busy"));
    }

    #[test]
    fn what_the_host_does_not_show_is_no_fault() {
        let found = codes(|doctor| {
            best(doctor);
            doctor.host.sysctls.clear();
            doctor.host.congestion_control = None;
            doctor.noise = None;
            doctor.load = None;
            doctor.floors.clear();
        });
        assert_eq!(found, [""; 0]);
    }
}

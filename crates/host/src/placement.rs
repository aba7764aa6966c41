//! Placement of the two ends of a trial on CPUs. On one machine it affects a round trip more than any protocol does, so
//! it is the same for every contender, and printed.

use deadheat_records::placement::Placement;

use super::topology::{Cpu, Topology};
use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::WaitMode;

/// Relation of the machines of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Single machine, over loopback.
    OneMachine,
    /// Single machine with two emulated hosts; the path's threads also need CPU time.
    ThroughEmulator,
    /// Two machines: the far end is behind a server.
    TwoMachines,
}

/// Demand of a workload on the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Messages on a schedule: the time to wake up matters.
    Paced,
    /// Bulk data at full speed: the time to compute matters.
    Bulk,
}

/// Placement on real CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuAssignment {
    /// CPU of the near end; absent for any.
    pub near: Option<usize>,
    /// CPU of the far end; absent for any, or if the far host decides.
    pub far: Option<usize>,
    /// Mode in which both ends wait.
    pub wait: WaitMode,
}

/// Turns the placement into CPU numbers.
///
/// The first choice is the quietest CPU (see [`Topology::by_quiet`]), because each device interrupt during a trial
/// is noise in one contender only. The second is the quietest on another core, in the same package if possible.
///
/// With [`Ends::TwoMachines`] only the near end is placed. Pinned to one CPU, it cannot alternate between the CPU
/// of the network card's interrupts and another that is a wake-up away, which would show as two regimes some 20 µs
/// apart. The far end is placed by its host: its CPUs are not known here, and others may use them.
///
/// # Errors
/// [`Error::Unsupported`] if there are not enough CPUs, [`Error::Usage`] if the placement names a CPU that this
/// process may not use or makes no sense; each with a remedy.
pub fn assign(placement: Placement, ends: Ends, topology: &Topology) -> Result<CpuAssignment> {
    let quiet = candidates(ends, topology);
    let first = quiet.first().map(|cpu| cpu.id);
    let wait = placement.wait();
    let (near, far) = match (placement, ends) {
        (Placement::Host, _) => (None, None),
        (Placement::Virtual, _) => {
            return Err(Error::usage(
                "placement virtual: that is what simulated races have, and a real end needs a CPU; \
                 use same-core, cross-core, busy, host or CPUs as A,B",
            ));
        }
        (Placement::Cpus(near, far), Ends::OneMachine | Ends::ThroughEmulator) => {
            (Some(allowed(placement, near, topology)?), Some(allowed(placement, far, topology)?))
        }
        (Placement::Cpus(near, far), Ends::TwoMachines) => {
            (Some(allowed(placement, near, topology)?), Some(far))
        }
        (Placement::SameCore, Ends::OneMachine | Ends::ThroughEmulator) => (first, first),
        (Placement::SameCore, Ends::TwoMachines) => {
            return Err(Error::usage(
                "placement same-core: the ends are on two machines; use cross-core, busy or host",
            ));
        }
        (Placement::CrossCore | Placement::Busy, Ends::TwoMachines) => (first, None),
        (Placement::CrossCore | Placement::Busy, Ends::OneMachine | Ends::ThroughEmulator) => {
            let (near, far) = two_cores(placement, &quiet)?;
            (Some(near), Some(far))
        }
    };
    Ok(CpuAssignment { near, far, wait })
}

fn allowed(placement: Placement, cpu: usize, topology: &Topology) -> Result<usize> {
    let ids = topology.ids();
    if ids.contains(&cpu) {
        return Ok(cpu);
    }
    Err(Error::usage(format!(
        "placement {placement}: this process may not use CPU {cpu} (valid: {})",
        listed(&ids)
    )))
}

fn two_cores(placement: Placement, quiet: &[Cpu]) -> Result<(usize, usize)> {
    let other = |near: &Cpu| {
        let elsewhere = |cpu: &&Cpu| cpu.core != near.core;
        let beside = |cpu: &&Cpu| elsewhere(cpu) && cpu.package == near.package;
        let near_by = quiet.iter().find(beside);
        near_by.or_else(|| quiet.iter().find(elsewhere))
    };
    if let Some(pair) = quiet.first().and_then(|near| other(near).map(|far| (near.id, far.id))) {
        return Ok(pair);
    }
    let lacks = match quiet {
        [one, two, ..] => format!(
            "CPUs {} and {} are hardware threads of one core; --placement {},{} takes them \
             all the same",
            one.id, two.id, one.id, two.id
        ),
        _ => "this process may use only one CPU; --placement same-core works, or give it \
              a second CPU (taskset, cpuset, docker --cpuset-cpus)"
            .to_owned(),
    };
    Err(Error::unsupported(format!("placement {placement}"), lacks))
}

/// Returns the CPUs for the ends, the best first. With an emulator, these are the CPUs that its threads leave free, if
/// they are on two cores or more; otherwise all CPUs, the free ones first.
fn candidates(ends: Ends, topology: &Topology) -> Vec<Cpu> {
    let mut quiet = topology.by_quiet();
    if ends == Ends::ThroughEmulator {
        let path = deadheat_path::emulated::forward::cpus(&topology.ids());
        quiet.sort_by_key(|cpu| path.contains(&cpu.id));
        if free_cores(topology) > 1 {
            quiet.retain(|cpu| !path.contains(&cpu.id));
        }
    }
    quiet
}

/// Returns the number of cores on which an emulated path has no thread of its own.
fn free_cores(topology: &Topology) -> usize {
    let path = deadheat_path::emulated::forward::cpus(&topology.ids());
    let free = topology.cpus.iter().filter(|cpu| !path.contains(&cpu.id)).copied();
    Topology { cpus: free.collect() }.cores()
}

/// Returns the default placement of a race, with the reason.
///
/// It follows from the available CPUs and the kind of work. It does not depend on a contender or a measurement: which
/// transport is ahead depends on the placement, so a placement that depended on a minute's noise would let that noise
/// decide the race.
/// - On one machine each end has a core of its own, as two programs that talk to each other mostly have. Two hardware
///   threads of one core slow each other down and are no substitute.
/// - If there is only one core, round trips use one CPU, on which the ends take turns. Bulk data uses two threads of it
///   if it has two: otherwise sender and receiver would never work at once, and the transport that needs less CPU time
///   would look like the faster network.
/// - Round trips through an emulated path need a core for each end that the path's own threads leave free, because
///   those threads spin before each release; if there are not as many, both ends share one CPU. Bulk data still uses two
///   cores, as the ends do not take turns.
/// - Two machines: `cross-core`, which two machines are by nature; it pins the near end to one CPU.
pub fn choose(topology: &Topology, ends: Ends, load: Load) -> (Placement, String) {
    let (placement, why) = match (ends, load, topology.by_quiet().as_slice()) {
        (Ends::TwoMachines, ..) => (
            Placement::CrossCore,
            "two machines: the near end keeps to one CPU, the far host places its own",
        ),
        (_, _, [] | [_]) => (Placement::SameCore, "one core: this process may use only one CPU"),
        (Ends::ThroughEmulator, Load::Paced, _) if free_cores(topology) < 2 => (
            Placement::SameCore,
            "one core: both ends on one CPU, so that the path's own threads have another",
        ),
        (_, Load::Paced, _) if topology.cores() < 2 => {
            (Placement::SameCore, "one core: the CPUs here are its hardware threads")
        }
        (_, Load::Bulk, [near, far, ..]) if topology.cores() < 2 => (
            Placement::Cpus(near.id, far.id),
            "one core: each end on a hardware thread of it, so that both work at once",
        ),
        _ => (Placement::CrossCore, "two cores: each end on one of its own"),
    };
    (placement, why.to_owned())
}

/// Returns CPU numbers as a list in words.
pub fn listed(cpus: &[usize]) -> String {
    let texts: Vec<String> = cpus.iter().map(usize::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs given as (core, package), all equally fast; interrupts fall with the number.
    fn topology(cpus: &[(usize, i64)]) -> Topology {
        let cpu = |(id, (core, package)): (usize, &(usize, i64))| Cpu {
            id,
            core: *core,
            package: *package,
            capacity: 1024,
            interrupts: 100 - id as u64,
        };
        Topology { cpus: cpus.iter().enumerate().map(cpu).collect() }
    }

    fn on_one_machine(placement: &str, cpus: &[(usize, i64)]) -> Result<CpuAssignment> {
        assign(Placement::parse(placement)?, Ends::OneMachine, &topology(cpus))
    }

    const TWO_CORES: &[(usize, i64)] = &[(0, 0), (1, 0)];
    const ONE_CORE: &[(usize, i64)] = &[(0, 0), (0, 0)];

    fn placed(near: usize, far: usize, wait: WaitMode) -> CpuAssignment {
        CpuAssignment { near: Some(near), far: Some(far), wait }
    }

    #[test]
    fn each_placement_gets_its_cpus() {
        let assign = |placement| on_one_machine(placement, TWO_CORES).unwrap();
        assert_eq!(assign("same-core"), placed(1, 1, WaitMode::Hybrid));
        assert_eq!(assign("cross-core"), placed(1, 0, WaitMode::Hybrid));
        assert_eq!(assign("busy"), placed(1, 0, WaitMode::Spin));
        assert_eq!(assign("0,1"), placed(0, 1, WaitMode::Hybrid));
        assert_eq!(assign("1,1"), placed(1, 1, WaitMode::Hybrid));
        let free = CpuAssignment { near: None, far: None, wait: WaitMode::Hybrid };
        assert_eq!(assign("host"), free);
    }

    #[test]
    fn two_cores_are_two_physical_cores_of_one_package() {
        // Threads 0/2 and 1/3 share cores 0 and 1 in package 0; CPU 4 is another package.
        let cpus = [(0, 0), (1, 0), (0, 0), (1, 0), (4, 1)];
        let mut topology = topology(&cpus);
        topology.cpus[4].interrupts = 98; // quiet, but less so than CPU 3
        let assigned = assign(Placement::CrossCore, Ends::OneMachine, &topology).unwrap();
        assert_eq!(assigned, placed(3, 2, WaitMode::Hybrid));
        topology.cpus[4].interrupts = 0; // the quietest, and alone in its package
        let assigned = assign(Placement::CrossCore, Ends::OneMachine, &topology).unwrap();
        assert_eq!(assigned, placed(4, 3, WaitMode::Hybrid));
    }

    #[test]
    fn too_few_cpus_are_named_with_a_remedy() {
        let say = |placement, cpus| on_one_machine(placement, cpus).unwrap_err().to_string();
        let one = say("cross-core", &[(0, 0)]);
        assert!(one.contains("placement cross-core: this process may use only one CPU"));
        assert!(one.contains("--placement same-core"));
        let threads = say("busy", ONE_CORE);
        assert!(threads.contains("CPUs 1 and 0 are hardware threads of one core"));
        assert!(threads.contains("--placement 1,0"));
        let outside = on_one_machine("0,7", TWO_CORES).unwrap_err();
        assert!(outside.to_string().contains("this process may not use CPU 7"));
        assert!(outside.to_string().contains("(valid: 0, 1)"));
        assert_eq!(outside.exit_code(), 2);
    }

    #[test]
    fn on_two_machines_only_the_near_end_is_placed() {
        let assign = |placement: &str| {
            assign(Placement::parse(placement).unwrap(), Ends::TwoMachines, &topology(&[(0, 0)]))
        };
        let near = |wait| CpuAssignment { near: Some(0), far: None, wait };
        assert_eq!(assign("cross-core").unwrap(), near(WaitMode::Hybrid));
        assert_eq!(assign("busy").unwrap(), near(WaitMode::Spin));
        assert_eq!(assign("0,31").unwrap(), placed(0, 31, WaitMode::Hybrid));
        assert_eq!(assign("same-core").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn each_end_has_a_core_of_its_own_wherever_there_are_two() {
        use Placement::{Cpus, CrossCore, SameCore};
        let pick = |cpus, load| choose(&topology(cpus), Ends::OneMachine, load).0;
        let two_packages: &[(usize, i64)] = &[(0, 0), (1, 1)];
        let two_threaded: &[(usize, i64)] = &[(0, 0), (1, 0), (0, 0), (1, 0)];
        for cpus in [TWO_CORES, two_packages, two_threaded] {
            assert_eq!(pick(cpus, Load::Paced), CrossCore);
            assert_eq!(pick(cpus, Load::Bulk), CrossCore);
        }
        assert_eq!(pick(&[(0, 0)], Load::Paced), SameCore);
        assert_eq!(pick(&[(0, 0)], Load::Bulk), SameCore);
        // One core with two hardware threads.
        assert_eq!(pick(ONE_CORE, Load::Paced), SameCore);
        assert_eq!(pick(ONE_CORE, Load::Bulk), Cpus(1, 0));
        let why = |cpus| choose(&topology(cpus), Ends::OneMachine, Load::Paced).1;
        assert_eq!(why(TWO_CORES), "two cores: each end on one of its own");
        assert_eq!(why(ONE_CORE), "one core: the CPUs here are its hardware threads");
    }

    #[test]
    fn ends_and_an_emulated_path_keep_out_of_each_others_way() {
        use Ends::ThroughEmulator;
        let pick = |cpus, load| {
            let topology = topology(cpus);
            let placement = choose(&topology, ThroughEmulator, load).0;
            (placement, assign(placement, ThroughEmulator, &topology).unwrap())
        };
        // The path has CPU 0, and both ends the other.
        let one = (Placement::SameCore, placed(1, 1, WaitMode::Hybrid));
        assert_eq!(pick(TWO_CORES, Load::Paced), one);
        let two = (Placement::CrossCore, placed(1, 0, WaitMode::Hybrid));
        assert_eq!(pick(TWO_CORES, Load::Bulk), two);
        let alone = (Placement::SameCore, placed(0, 0, WaitMode::Hybrid));
        assert_eq!(pick(&[(0, 0)], Load::Bulk), alone);
        // It has 0 and 1; it leaves two cores, though in two packages, or one.
        let free = (Placement::CrossCore, placed(3, 2, WaitMode::Hybrid));
        let four: &[(usize, i64)] = &[(0, 0), (1, 1), (2, 0), (3, 1)];
        assert_eq!(pick(four, Load::Paced), free);
        assert_eq!(pick(four, Load::Bulk), free);
        let threads: &[(usize, i64)] = &[(0, 0), (0, 0), (2, 0), (2, 0)];
        let one = (Placement::SameCore, placed(3, 3, WaitMode::Hybrid));
        assert_eq!(pick(threads, Load::Paced), one);
    }

    #[test]
    fn the_far_host_places_its_own_end() {
        for load in [Load::Paced, Load::Bulk] {
            let (placement, why) = choose(&topology(&[(0, 0)]), Ends::TwoMachines, load);
            assert_eq!(placement, Placement::CrossCore);
            assert!(why.starts_with("two machines"));
        }
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        for text in ["same-core", "cross-core", "busy", "host", "0,1"] {
            assert_eq!(Placement::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let say = |text: &str| Placement::parse(text).unwrap_err().to_string();
        assert!(say("samecore").contains("did you mean `same-core`?"));
        assert!(say("0,x").contains("`x` is not a CPU number"));
    }
}

//! Examination of this machine: the differences that it can resolve, and the obstacles.

use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use super::noise::{self, Noise};
use super::placement::{Ends, Load, choose};
use super::probe::{self, Echo};
use super::timing::{self, ClockFacts, Lateness, SAMPLES, Sleeper};
use super::topology::Topology;
use super::usage::{CpuTimes, load_average};
use deadheat_base::error::Result;
use deadheat_base::figures::percent;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_records::host::HostFacts;
use deadheat_records::placement::Placement;

/// Result of an examination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doctor {
    /// Facts about the host.
    pub host: HostFacts,
    /// Physical cores among the CPUs that this process may use.
    pub cores: u64,
    /// Cost and resolution of the clock.
    pub clock: ClockFacts,
    /// Lateness of timers.
    pub timers: Timers,
    /// Lateness of sends at 1 kHz, with the default waiting of trials.
    pub sends: Lateness,
    /// Lateness of sends with two CPUs that never sleep; absent if there is only one.
    pub busy_sends: Option<Lateness>,
    /// UDP echo without pauses, by placement; without placements that this host cannot do.
    pub floors: Vec<Floor>,
    /// Placement that a race of paced work would get.
    pub placement: Placement,
    /// Reason for that placement.
    pub placement_reason: String,
    /// Difference between identical runs under that placement; absent if it could not be measured.
    pub noise: Option<Noise>,
    /// Share of CPU time that the hypervisor took during the examination.
    pub steal_share: Option<f64>,
    /// Load average over one minute, before the examination.
    pub load: Option<f64>,
    /// True if this program may open raw ICMP sockets, for which it needs no ping socket.
    #[serde(default)]
    pub raw_icmp: bool,
    /// Duration of the examination, in nanoseconds.
    pub took_ns: Nanos,
    /// Findings that prevent good figures, with advice.
    pub findings: Vec<Finding>,
}

/// Lateness of timers, by method of sleeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timers {
    /// Lateness of [`Sleeper::Plain`].
    pub plain: Lateness,
    /// Lateness of [`Sleeper::Fine`].
    pub fine: Lateness,
    /// Lateness of [`Sleeper::Hybrid`].
    pub hybrid: Lateness,
}

/// Floor of a placement: the least round trip.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Round trips.
    #[serde(flatten)]
    pub echo: Echo,
    /// Cost of waking one end: half of the difference between the median and that of `busy`, in nanoseconds. Absent for
    /// `busy` itself and if it could not be measured.
    pub wake_up_ns: Option<u64>,
}

/// Returns true if this program may open raw ICMP sockets (raw(7)).
fn may_open_raw_icmp() -> bool {
    let open = |domain, protocol| Socket::new(domain, Type::RAW, Some(protocol)).is_ok();
    open(Domain::IPV4, Protocol::ICMPV4) || open(Domain::IPV6, Protocol::ICMPV6)
}

impl Doctor {
    /// Measures this machine, as [`super::findings::examine`] says; no findings yet.
    pub(super) fn measure() -> Result<Doctor> {
        let topology = Topology::here();
        let start = Monotonic.now();
        let before = CpuTimes::read();
        let load = load_average();
        let timers = Timers::measure(topology)?;
        let floors = measure_floors(topology)?;
        let (placement, placement_reason) = choose(topology, Ends::OneMachine, Load::Paced);
        let every = Nanos::from_millis(1);
        Ok(Doctor {
            host: super::facts::gather(),
            cores: topology.cores() as u64,
            clock: ClockFacts::measure(),
            timers,
            sends: timing::sends(placement, every, SAMPLES, topology)?,
            busy_sends: timing::sends(Placement::Busy, every, SAMPLES, topology).ok(),
            floors,
            placement,
            placement_reason,
            noise: noise::measure(placement, topology)?,
            steal_share: CpuTimes::read()
                .zip(before)
                .map(|(now, before)| now.steal_share_since(&before)),
            load,
            raw_icmp: may_open_raw_icmp(),
            took_ns: Monotonic.now() - start,
            findings: Vec::new(),
        })
    }

    /// Describes in a sentence the differences that this machine can resolve.
    pub fn sentence(&self) -> String {
        let found = self.noise.and_then(|noise| Some((noise.placement, noise.resolution?)));
        let resolves = match found {
            Some((placement, found)) => format!(
                "this machine can tell apart round trips that differ by about {} with {} blocks ({placement})",
                percent(found.difference),
                found.blocks,
            ),
            None => "no echo came back, so what this machine can tell apart is unknown".to_owned(),
        };
        let tail = match self.sends.p99_ns {
            Some(p99) => format!(", {} (p99)", Nanos(p99)),
            None => String::new(),
        };
        format!("{resolves}; messages are sent {} late (p50){tail}", Nanos(self.sends.p50_ns))
    }
}

impl Timers {
    fn measure(topology: &Topology) -> Result<Timers> {
        let cpu = topology.by_quiet().first().map(|cpu| cpu.id);
        let sleeps = |sleeper| timing::sleeps(sleeper, probe::PAUSE, SAMPLES, cpu);
        Ok(Timers {
            plain: sleeps(Sleeper::Plain)?,
            fine: sleeps(Sleeper::Fine)?,
            hybrid: sleeps(Sleeper::Hybrid)?,
        })
    }
}

/// Measures the floor of each placement that this host can do. One CPU must work; the others may not exist.
fn measure_floors(topology: &Topology) -> Result<Vec<Floor>> {
    let mut echoes = vec![probe::floor(Placement::SameCore, topology)?];
    let others = [Placement::CrossCore, Placement::Busy];
    echoes.extend(others.iter().filter_map(|placement| probe::floor(*placement, topology).ok()));
    Ok(with_wake_ups(&echoes))
}

fn with_wake_ups(echoes: &[Echo]) -> Vec<Floor> {
    let is_busy = |echo: &&Echo| echo.placement == Placement::Busy;
    let busy = echoes.iter().find(is_busy).map(|echo| echo.p50_ns);
    let floor = |echo: &Echo| Floor {
        echo: *echo,
        wake_up_ns: busy
            .filter(|_| echo.placement != Placement::Busy)
            .map(|busy| echo.p50_ns.saturating_sub(busy) / 2),
    };
    echoes.iter().map(floor).collect()
}

/// Creates an examination without any fault, which tests then change.
#[cfg(any(test, feature = "testing"))]
pub fn healthy() -> Doctor {
    let lateness = |p50_ns, p99_ns| Lateness { n: 1000, p50_ns, p99_ns: Some(p99_ns) };
    let echo = |placement, p50_ns: u64| Echo {
        placement,
        n: 2000,
        unanswered: 0,
        p10_ns: p50_ns - p50_ns / 20,
        p50_ns,
        p90_ns: p50_ns + p50_ns / 20,
    };
    Doctor {
        host: HostFacts {
            hostname: "calm".into(),
            kernel: "Linux 6.18.0".into(),
            arch: "x86_64".into(),
            cpu_model: "Example 9000".into(),
            cpus: vec![0, 1],
            threads_per_core: Some(1),
            governor: Some("performance".into()),
            clock_source: Some("tsc".into()),
            congestion_control: Some("cubic".into()),
            congestion_controls: vec!["reno".into(), "cubic".into()],
            sysctls: [
                ("net.ipv4.ping_group_range", "0 2147483647"),
                ("net.core.rmem_max", "16777216"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            memory_bytes: 8 << 30,
            deadheat: "0.1.0".into(),
            ..HostFacts::default()
        },
        cores: 2,
        clock: ClockFacts { read_ns: 21.0, step_ns: 10 },
        timers: Timers {
            plain: lateness(55_000, 60_000),
            fine: lateness(4_000, 9_000),
            hybrid: lateness(40, 90),
        },
        sends: lateness(100, 3_200),
        busy_sends: Some(lateness(60, 200)),
        floors: with_wake_ups(&[
            echo(Placement::SameCore, 9_200),
            echo(Placement::CrossCore, 51_000),
            echo(Placement::Busy, 5_000),
        ]),
        placement: Placement::CrossCore,
        placement_reason: "two cores: each end on one of its own".into(),
        noise: Some(Noise {
            placement: Placement::SameCore,
            pairs: 12,
            half_width: 0.0415,
            resolution: Some(noise::RaceResolution { blocks: 100, difference: 0.015 }),
            worst_ratio: 1.06,
        }),
        steal_share: Some(0.0),
        load: Some(0.02),
        raw_icmp: false,
        took_ns: Nanos::from_secs(5),
        findings: Vec::new(),
    }
}

/// Finding that prevents good figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable identifier: `steal`, `one_cpu`.
    pub code: String,
    /// Observation, and its effect.
    pub message: String,
    /// Advice for the user.
    pub advice: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_can_be_told_apart() {
        let mut doctor = healthy();
        assert_eq!(
            doctor.sentence(),
            "this machine can tell apart round trips that differ by about 1.5 % with 100 blocks \
             (same-core); messages are sent 100 ns late (p50), 3.20 µs (p99)"
        );
        doctor.noise = None;
        doctor.sends.p99_ns = None;
        assert_eq!(
            doctor.sentence(),
            "no echo came back, so what this machine can tell apart is unknown; messages are \
             sent 100 ns late (p50)"
        );
    }

    #[test]
    fn a_wake_up_is_half_of_what_sleeping_adds() {
        let wake_ups: Vec<Option<u64>> = healthy().floors.iter().map(|f| f.wake_up_ns).collect();
        assert_eq!(wake_ups, [Some(2_100), Some(23_000), None]);
        let alone = [healthy().floors[0].echo];
        assert_eq!(with_wake_ups(&alone)[0].wake_up_ns, None);
    }

    #[test]
    fn an_examination_survives_json() {
        let doctor = healthy();
        let json = serde_json::to_string(&doctor).unwrap();
        assert_eq!(serde_json::from_str::<Doctor>(&json).unwrap(), doctor);
        assert!(json.contains(r#""placement":"cross-core","n":2000"#));
    }
}

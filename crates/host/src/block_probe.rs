//! Echo between two bare threads of this process, for a short time, on the CPUs of the ends of trials.
//!
//! It uses a socket pair, so no protocol and no contender affects it. About 40 round trips, some 3 ms in all, with new
//! threads: a thread that waited from block to block would be one more on the CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::placement::{CpuAssignment, Ends, assign};
use super::probe::{EchoRun, EchoSockets, Rhythm};
use super::process_tree::{TreeTimes, ticks_per_second};
use super::settling::{SettlingHost, Shares};
use super::topology::Topology;
use super::usage::{CpuTimes, ProcessCost};
use crate::probe::EchoPlan;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::WaitMode;
use deadheat_records::placement::Placement;
use deadheat_records::quiet::ProbePoint;
use deadheat_stats::quantile::quantile_sorted;

/// Time for which CPU use is measured in one piece while the host settles.
pub(crate) const WINDOW: Nanos = Nanos::from_millis(250);

/// Environment variable by which a test build does not wait for a calm host: its tests keep the host busy.
const TEST_UNSETTLED: &str = "DEADHEAT_TEST_UNSETTLED";

/// Counted echoes of one measurement, and uncounted ones before them.
const COUNT: usize = 40;
const WARMUP: usize = 10;

/// Probe that measures the host between blocks.
pub struct HostProbe {
    course: EchoPlan,
    /// CPUs on which other programs disturb: all CPUs of this process, except the CPUs of an emulated path, where
    /// threads may spin.
    cpus: Vec<usize>,
    /// CPUs of the ends among them.
    own: Vec<usize>,
    /// CPU times at the last point.
    times: CpuTimes,
    /// Readings at the last point that tell what other programs use; absent if they are not to be told apart from our own.
    others: Option<OthersMeter>,
    stop: Arc<AtomicBool>,
}

impl HostProbe {
    /// Creates a probe on the CPUs where `placement` puts the ends of trials, or next to the near end if the far one is
    /// on another host. `stop` ends a wait for the host to settle.
    pub fn new(
        placement: Placement,
        ends: Ends,
        topology: &Topology,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let here = if ends == Ends::TwoMachines { Ends::OneMachine } else { ends };
        let anywhere = CpuAssignment { near: None, far: None, wait: WaitMode::Hybrid };
        let at = assign(placement, here, topology).unwrap_or(anywhere);
        let mut cpus = topology.ids();
        if ends == Ends::ThroughEmulator {
            let path = deadheat_path::emulated::forward::cpus(&cpus);
            // On a single CPU the path's use cannot be separated from that of other programs.
            cpus.retain(|cpu| !path.is_empty() && !path.contains(cpu));
        }
        let own =
            [at.near, at.far].into_iter().flatten().filter(|cpu| cpus.contains(cpu)).collect();
        let course = EchoPlan {
            at,
            over: EchoSockets::Pair,
            rhythm: Rhythm::BackToBack,
            warmup: WARMUP,
            count: COUNT,
        };
        let times = CpuTimes::read_of(&cpus);
        HostProbe { course, times, others: None, cpus, own, stop }
    }

    /// Also measures the share of other programs. A server on this machine, which is no process of this race, would count as one.
    pub fn with_others(self) -> HostProbe {
        let cpus = if self.own.is_empty() { Topology::here().ids() } else { self.own.clone() };
        HostProbe { others: (!is_test()).then(|| OthersMeter::read(cpus)), ..self }
    }

    /// Takes one measurement; `None` if no echo was answered.
    pub fn measure(&mut self) -> Option<ProbePoint> {
        let run = self.course.run().ok()?;
        let times = CpuTimes::read_of(&self.cpus);
        let steal_share = times.steal_share_since(&self.times);
        self.times = times;
        let others_share = self.others.as_mut().and_then(OthersMeter::next);
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis();
        point(&run, u64::try_from(at_ms).ok()?, steal_share, others_share)
    }
}

fn point(
    run: &EchoRun,
    at_ms: u64,
    steal_share: f64,
    others_share: Option<f64>,
) -> Option<ProbePoint> {
    let at = |q| quantile_sorted(&run.rtt_ns, q);
    Some(ProbePoint { at_ms, p50_ns: at(0.5)?, high_ns: at(0.9)?, steal_share, others_share })
}

/// Returns true in a test that keeps the host busy itself.
fn is_test() -> bool {
    cfg!(debug_assertions) && std::env::var_os(TEST_UNSETTLED).is_some()
}

/// Meter of the CPU time that other programs use: the time of the CPUs, less that of this process and of all below it, which are
/// both ends, commands and the path. Of some of the CPUs it may read too little, as ours may have run on others.
struct OthersMeter {
    cpus: Vec<usize>,
    times: CpuTimes,
    own: [u64; 2],
}

impl OthersMeter {
    fn read(cpus: Vec<usize>) -> OthersMeter {
        OthersMeter { times: CpuTimes::read_of(&cpus), own: own_cpu_ns(), cpus }
    }

    /// Returns the share since the last reading, and reads again; `None` if no time has passed.
    fn next(&mut self) -> Option<f64> {
        let now = OthersMeter::read(self.cpus.clone());
        let before = std::mem::replace(self, now);
        let own: u64 =
            self.own.iter().zip(before.own).map(|(now, then)| now.saturating_sub(then)).sum();
        others(self.times.busy_since(&before.times), own, 1_000_000_000 / ticks_per_second())
    }
}

/// Returns the share of other programs in the CPU time `(busy, total)`, in jiffies.
fn others((busy, total): (u64, u64), own_ns: u64, jiffy_ns: u64) -> Option<f64> {
    let total_ns = total.checked_mul(jiffy_ns).filter(|total| *total > 0)?;
    let others = busy.saturating_mul(jiffy_ns).saturating_sub(own_ns);
    Some((others as f64 / total_ns as f64).min(1.0))
}

/// Returns the CPU time of this process, and of all below it, in nanoseconds.
fn own_cpu_ns() -> [u64; 2] {
    let here = ProcessCost::read().since(&ProcessCost::default());
    let below = TreeTimes::read().since(&TreeTimes::default());
    [here.cpu_ns, below.cpu_ns]
}

impl SettlingHost for HostProbe {
    fn now(&self) -> Nanos {
        Monotonic.now()
    }

    fn echo(&mut self) -> Option<u64> {
        self.measure().map(|point| point.p50_ns)
    }

    /// Sleeps for `WINDOW` and returns the larger of two shares: of all CPUs, and of the ends' CPUs, because one
    /// program on one of many CPUs disturbs if it is an end's.
    fn sit_still(&mut self) -> Shares {
        let read = |cpus: &[usize]| CpuTimes::read_of(cpus);
        let before = [read(&self.cpus), read(&self.own)];
        std::thread::sleep(Duration::from(WINDOW));
        let after = [read(&self.cpus), read(&self.own)];
        let most = |share: fn(&CpuTimes, &CpuTimes) -> f64| {
            before.iter().zip(&after).map(|(then, now)| share(now, then)).fold(0.0, f64::max)
        };
        Shares { busy: most(CpuTimes::busy_share_since), steal: most(CpuTimes::steal_share_since) }
    }

    fn stopped(&self) -> bool {
        is_test() || self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_needs_no_network_and_knows_its_time() {
        let topology = Topology::here();
        for (placement, ends) in [
            (Placement::SameCore, Ends::OneMachine),
            (Placement::Host, Ends::TwoMachines),
            (Placement::SameCore, Ends::ThroughEmulator),
        ] {
            let mut probe = HostProbe::new(placement, ends, topology, Arc::default());
            let point = probe.measure().unwrap();
            assert!(0 < point.p50_ns && point.p50_ns <= point.high_ns);
            assert!((0.0..=1.0).contains(&point.steal_share));
            assert!(point.at_ms > 1_700_000_000_000);
        }
    }

    #[test]
    fn what_is_not_of_ours_is_of_others_and_no_time_is_unknown() {
        let jiffy = 10_000_000;
        assert_eq!(others((80, 100), 300_000_000, jiffy), Some(0.5));
        assert_eq!(others((20, 100), 900_000_000, jiffy), Some(0.0), "ours ran on other CPUs, too");
        assert_eq!(others((0, 0), 5, jiffy), None);
        let mut meter = OthersMeter::read(Topology::here().ids());
        std::thread::sleep(Duration::from_millis(50));
        let share = meter.next().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn no_answers_are_no_point() {
        assert_eq!(point(&EchoRun::default(), 1, 0.0, None), None);
        let run = EchoRun { rtt_ns: (1..=40).collect(), ..EchoRun::default() };
        let expected = ProbePoint {
            at_ms: 1,
            p50_ns: 20,
            high_ns: 36,
            steal_share: 0.25,
            others_share: Some(0.5),
        };
        assert_eq!(point(&run, 1, 0.25, Some(0.5)), Some(expected));
    }
}

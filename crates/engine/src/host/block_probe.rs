//! Echo between two bare threads of this process, for a short time, on the CPUs of the ends of trials.
//!
//! It uses a socket pair, so no protocol and no contender affects it. About 40 round trips, some 3 ms in all, with new
//! threads: a thread that waited from block to block would be one more on the CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::placement::{CpuAssignment, Ends, Placement};
use super::probe::{EchoRun, EchoSockets, Rhythm};
use super::quiet::{ProbePoint, SettlingHost, Shares};
use super::topology::Topology;
use super::usage::CpuTimes;
use crate::contract::WaitMode;
use crate::host::probe::EchoPlan;
use crate::stats::quantile::quantile_sorted;
use crate::time::{Clock, Monotonic, Nanos};

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
        let at = placement.assign(here, topology).unwrap_or(anywhere);
        let mut cpus = topology.ids();
        if ends == Ends::ThroughEmulator {
            let path = crate::path::emulated::forward::cpus(&cpus);
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
        HostProbe { course, times: CpuTimes::read_of(&cpus), cpus, own, stop }
    }

    /// Takes one measurement; `None` if no echo was answered.
    pub fn measure(&mut self) -> Option<ProbePoint> {
        let run = self.course.run().ok()?;
        let times = CpuTimes::read_of(&self.cpus);
        let steal_share = times.steal_share_since(&self.times);
        self.times = times;
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis();
        point(&run, u64::try_from(at_ms).ok()?, steal_share)
    }
}

fn point(run: &EchoRun, at_ms: u64, steal_share: f64) -> Option<ProbePoint> {
    let at = |q| quantile_sorted(&run.rtt_ns, q);
    Some(ProbePoint { at_ms, p50_ns: at(0.5)?, high_ns: at(0.9)?, steal_share })
}

impl SettlingHost for HostProbe {
    fn now(&self) -> Nanos {
        Monotonic.now()
    }

    fn echo(&mut self) -> Option<u64> {
        self.measure().map(|point| point.p50_ns)
    }

    /// Sleeps for [`WINDOW`] and returns the larger of two shares: of all CPUs, and of the ends' CPUs, because one
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
        let is_test = cfg!(debug_assertions) && std::env::var_os(TEST_UNSETTLED).is_some();
        is_test || self.stop.load(Ordering::Relaxed)
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
    fn no_answers_are_no_point() {
        assert_eq!(point(&EchoRun::default(), 1, 0.0), None);
        let run = EchoRun { rtt_ns: (1..=40).collect(), ..EchoRun::default() };
        let expected = ProbePoint { at_ms: 1, p50_ns: 20, high_ns: 36, steal_share: 0.25 };
        assert_eq!(point(&run, 1, 0.25), Some(expected));
    }
}

//! Timekeeping of this machine: clock, timers, scheduled sends.

use std::time::Duration;
use std::{io, thread};

use serde::{Deserialize, Serialize};

use super::placement::{Ends, assign};
use super::probe::{EchoSockets, Rhythm};
use super::topology::Topology;
use crate::probe::EchoPlan;
use deadheat_base::error::{Error, Result};
use deadheat_base::process::spawn;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::WaitMode;
use deadheat_datapath::datapath::cpu::pin;
use deadheat_datapath::datapath::wait::{Interest, Waiter, WakeReason, set_timer_slack};
use deadheat_records::placement::Placement;
use deadheat_stats::quantile::quantile_sorted;

/// Samples of each timing: the least that give a 99th percentile, which needs ten beyond it.
pub const SAMPLES: usize = 1000;

/// Lateness of an event after its due time, in nanoseconds, over many events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Number of events.
    pub n: u64,
    /// Median lateness.
    pub p50_ns: u64,
    /// 99th percentile; absent if fewer than ten samples are beyond it.
    pub p99_ns: Option<u64>,
}

impl Lateness {
    /// Sums up `sorted` samples; `None` if there are none.
    fn of(sorted: &[u64]) -> Option<Lateness> {
        Some(Lateness {
            n: sorted.len() as u64,
            p50_ns: quantile_sorted(sorted, 0.5)?,
            p99_ns: quantile_sorted(sorted, 0.99).filter(|_| sorted.len() >= SAMPLES),
        })
    }
}

/// Method of sleeping until a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleeper {
    /// Sleep in the kernel with the default timer slack of 50 µs.
    Plain,
    /// Sleep in the kernel with a slack of 1 ns: the lateness that the spin window of a hybrid wait must cover.
    Fine,
    /// Hybrid wait of trials: in the kernel up to the spin window, then watching the clock.
    Hybrid,
}

/// Sleeps `count` times until `span` after the last sleep's end, on `cpu`, and returns the lateness of the wake-ups.
///
/// # Errors
/// Fails if the CPU cannot be pinned to.
pub fn sleeps(sleeper: Sleeper, span: Nanos, count: usize, cpu: Option<usize>) -> Result<Lateness> {
    // A thread of its own, because pinning and timer slack stay with the thread.
    let late = spawn("sleeper", move || -> Result<Vec<u64>> {
        cpu.map_or(Ok(()), pin)?;
        let mut late: Vec<u64> = match sleeper {
            Sleeper::Plain => {
                set_timer_slack(Nanos::from_micros(50));
                (0..count).map(|_| kernel_sleep(span)).collect()
            }
            Sleeper::Fine => {
                set_timer_slack(Nanos(1));
                (0..count).map(|_| kernel_sleep(span)).collect()
            }
            Sleeper::Hybrid => {
                let waiter = Waiter::new(WaitMode::Hybrid);
                (0..count).map(|_| hybrid_sleep(&waiter, span)).collect()
            }
        };
        late.sort_unstable();
        Ok(late)
    })?;
    let late = late.join().map_err(|_| failed("a thread died"))??;
    Lateness::of(&late).ok_or_else(|| failed("no samples"))
}

fn kernel_sleep(span: Nanos) -> u64 {
    let due = Monotonic.now() + span;
    thread::sleep(Duration::from(span));
    (Monotonic.now() - due).0
}

fn hybrid_sleep(waiter: &Waiter, span: Nanos) -> u64 {
    let due = Monotonic.now() + span;
    while !matches!(
        waiter.wait(&Monotonic, None, Some(due), Interest::Read),
        Ok(WakeReason::Due) | Err(_)
    ) {}
    (Monotonic.now() - due).0
}

/// Sends echoes on a schedule, as a trial does, and returns the lateness of the sends.
///
/// # Errors
/// Fails if the host cannot do the placement, or loopback does not work.
pub fn sends(
    placement: Placement,
    every: Nanos,
    count: usize,
    topology: &Topology,
) -> Result<Lateness> {
    let course = EchoPlan {
        at: assign(placement, Ends::OneMachine, topology)?,
        over: EchoSockets::Loopback,
        rhythm: Rhythm::Every(every),
        warmup: 0,
        count,
    };
    Lateness::of(&course.run()?.lateness_ns).ok_or_else(|| failed("no samples"))
}

/// Cost of reading the clock, and its resolution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Mean time of one read, in nanoseconds.
    pub read_ns: f64,
    /// Least difference between two reads that differ, in nanoseconds.
    pub step_ns: u64,
}

impl ClockFacts {
    /// Reads `CLOCK_MONOTONIC` ten thousand times.
    pub fn measure() -> ClockFacts {
        const READS: u64 = 10_000;
        let start = Monotonic.now();
        let mut last = start;
        let mut step = u64::MAX;
        for _ in 0..READS {
            let now = Monotonic.now();
            if now > last {
                step = step.min((now - last).0);
            }
            last = now;
        }
        ClockFacts {
            read_ns: (last - start).0 as f64 / READS as f64,
            step_ns: if step == u64::MAX { 0 } else { step },
        }
    }
}

fn failed(what: &str) -> Error {
    Error::setup("measure timers", io::Error::other(what.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let samples: Vec<u64> = (1..=SAMPLES as u64).collect();
        let all = Lateness::of(&samples).unwrap();
        assert_eq!((all.n, all.p50_ns, all.p99_ns), (1000, 500, Some(990)));
        assert_eq!(Lateness::of(&samples[1..]).unwrap().p99_ns, None);
        assert_eq!(Lateness::of(&[]), None);
    }

    #[test]
    fn each_sleeper_reports_each_sleep() {
        for sleeper in [Sleeper::Plain, Sleeper::Fine, Sleeper::Hybrid] {
            let late = sleeps(sleeper, Nanos::from_micros(200), 5, None).unwrap();
            assert_eq!((late.n, late.p99_ns), (5, None));
        }
    }

    #[test]
    fn each_scheduled_send_is_reported() {
        let late = sends(Placement::SameCore, Nanos::from_millis(1), 5, Topology::here());
        assert_eq!(late.unwrap().n, 5);
    }

    #[test]
    fn the_clock_moves() {
        let clock = ClockFacts::measure();
        assert!(clock.read_ns > 0.0);
        assert!(clock.step_ns > 0);
    }
}

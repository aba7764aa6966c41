//! Wake-up time of a sleeping thread. When a sleeping thread reads a frame, the frame has waited in its device for
//! this time, and no device reports when it arrived: the wake-up time is the only estimate of its arrival.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::wait::{Sleeper, go_first};
use serde::{Deserialize, Serialize};

use deadheat_base::bell::Bell;
use deadheat_base::cpu::{allowed_cpus, pin};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Number of wake-ups that are measured.
const ROUNDS: usize = 64;

/// Sleep before each wake-up, so that its CPU is as idle as between packets.
const PAUSE: Duration = Duration::from_micros(700);

/// Longest wake-up time that is compensated; anything more is a busy machine.
const MOST: Nanos = Nanos::from_micros(50);

/// Measures the least time from the moment at which a sender wakes a thread on `cpu` to the thread's next instruction, of 64
/// times from another CPU and, if senders may run there, of 64 from its own, which takes less. Zero where there is no other
/// CPU. The least and not the median, so that the corrected arrival of a packet is never before its true arrival.
pub(super) fn least_wake_up(cpu: usize, senders: SenderCpus) -> Nanos {
    let other = allowed_cpus().into_iter().find(|other| *other != cpu);
    let own = Some(cpu).filter(|_| senders == SenderCpus::Any);
    let of = |from: Option<usize>| from.map(|from| measure(cpu, from).unwrap_or(Nanos::ZERO));
    [of(other), of(own).filter(|_| other.is_some())]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(Nanos::ZERO)
}

/// Measures wake-ups of a thread on `cpu` from the CPU `other`; `None` where a thread cannot be started or pinned.
fn measure(cpu: usize, other: usize) -> Option<Nanos> {
    let bell = Arc::new(Bell::new().ok()?);
    let rung = Arc::new(AtomicU64::new(0));
    let (woken, times) = mpsc::channel();
    let sleeper = {
        let (bell, rung) = (Arc::clone(&bell), Arc::clone(&rung));
        move || {
            go_first();
            pin(cpu).ok()?;
            let mut sleeper = Sleeper::new(&bell, &[]).ok()?;
            for _ in 0..ROUNDS {
                while rung.load(Ordering::Acquire) == 0 {
                    sleeper.sleep(&bell, Nanos::from_secs(1)).ok()?;
                }
                let now = Monotonic.now();
                let at = Nanos(rung.swap(0, Ordering::AcqRel));
                woken.send(now - at).ok()?;
            }
            Some(())
        }
    };
    let ringer = move || {
        pin(other).ok()?;
        let mut least = MOST;
        for _ in 0..ROUNDS {
            std::thread::sleep(PAUSE);
            rung.store(Monotonic.now().0, Ordering::Release);
            bell.ring();
            least = least.min(times.recv().ok()?);
        }
        Some(least)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new;
        let ringing = thread().spawn_scoped(scope, ringer).ok()?;
        // Without a sleeper the ringer receives nothing, and ends.
        let _sleeping = thread().spawn_scoped(scope, sleeper).ok()?;
        ringing.join().ok().flatten()
    })
}

/// CPUs on which the programs of the hosts run. A thread that moves packets is woken up sooner by a program on its own CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderCpus {
    /// CPUs without a thread that moves packets.
    Others,
    /// All CPUs.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_takes_some_time_but_is_never_made_up_for_without_bounds() {
        let cpus = allowed_cpus();
        for senders in [SenderCpus::Others, SenderCpus::Any] {
            let least = least_wake_up(cpus[0], senders);
            assert!(least <= MOST);
            assert_eq!(least == Nanos::ZERO, cpus.len() == 1);
            assert_eq!(least_wake_up(1 << 40, senders), Nanos::ZERO, "no such CPU");
        }
    }
}

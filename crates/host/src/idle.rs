//! Idle CPUs and priorities while trials run: whether idle CPUs may sleep, and whether the ends run before other
//! programs.
//!
//! A program that waits for a message leaves its CPU idle, and the kernel puts an idle CPU to sleep. The time to wake
//! it up belongs to the machine and not to a transport, and on a virtual machine it may alternate between two levels
//! from trial to trial: 60 µs while the hypervisor still polls for the CPU, 300 µs once it does not. A race with claims
//! about times therefore asks the kernel for a wake-up latency of 0 µs, as cyclictest of rt-tests does for its
//! measurements: PM quality of service, `/dev/cpu_dma_latency` (Documentation/power/pm_qos_interface.rst). The request
//! ends with the file descriptor, however this process ends. It is the same for all contenders, is in the result, and
//! requires root.
//!
//! It harms bulk data over loopback. A receiver that wakes up at once takes each segment by itself, 70 kB per call,
//! while a later one finds 119 kB; and goodput, about 35 Gbit/s with the host's own setting, falls to 14 in many
//! trials: in ours, and in iperf3's. So races that are about rates alone leave loopback's CPUs to the host
//! ([`choose`]).
//!
//! Other programs belong to the machine as well: a compiler at nice 10 on both CPUs of a small machine made sends late
//! by more than a round trip, and each race ended in its pilot. With both ends at nice -20 the same race decides. So
//! both ends of a local trial run at nice -20, unless the user asks for the host's own setting (sched(7)).

use std::fs::{File, OpenOptions};
use std::io::Write;

use super::placement::Ends;
use deadheat_base::error::{Error, Result};
use deadheat_records::idle::Idle;

/// Kind of quantity that the claims of a race are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimKind {
    /// Rates only.
    Rates,
    /// Times, or other quantities that the time to wake up affects.
    Times,
}

/// Chooses the setting that serves such claims between such ends; also returns the reason.
pub fn choose(claimed: ClaimKind, ends: Ends) -> (Idle, &'static str) {
    match (ends, claimed) {
        (Ends::TwoMachines, _) => (Idle::Host, "the far host's CPUs are its own affair"),
        (Ends::ThroughEmulator, _) => {
            (Idle::Awake, "the threads of the emulated path have to wake up in time")
        }
        (Ends::OneMachine, ClaimKind::Times) => {
            (Idle::Awake, "the time that a CPU takes to wake up is no transport's")
        }
        (Ends::OneMachine, ClaimKind::Rates) => {
            (Idle::Host, "a receiver of bulk data that wakes up for each segment gets less")
        }
    }
}

const DEVICE: &str = "/dev/cpu_dma_latency";

/// Guard that keeps CPUs awake as long as it lives.
#[derive(Debug)]
pub struct Awake {
    _held: File,
}

impl Awake {
    /// Asks the kernel for CPUs that wake up at once.
    ///
    /// # Errors
    /// Fails if the device is missing, or this user may not open it.
    pub fn hold() -> Result<Awake> {
        let ask = || {
            let mut file = OpenOptions::new().write(true).open(DEVICE)?;
            // A latency in microseconds, as a 32-bit integer in the byte order of this machine.
            file.write_all(&0i32.to_ne_bytes())?;
            Ok(file)
        };
        ask().map(|file| Awake { _held: file }).map_err(|error| {
            let advice = "run as root, or leave the CPUs as they are with --idle host";
            Error::setup_advice(format!("keep CPUs awake through {DEVICE}"), error, advice)
        })
    }
}

/// Raises the priority of this process, and of all threads that it starts later, above other programs. Does nothing
/// without the permission for it.
pub fn go_first() {
    // SAFETY: takes integers and touches no memory of ours; 0 is the calling process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST_URGENT) };
}

/// Most favourable nice level (setpriority(2)).
const MOST_URGENT: libc::c_int = -20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_data_over_loopback_is_left_to_the_host_and_all_else_here_is_kept_awake() {
        let of = |claimed, ends| choose(claimed, ends).0;
        assert_eq!(of(ClaimKind::Rates, Ends::OneMachine), Idle::Host);
        assert_eq!(of(ClaimKind::Times, Ends::OneMachine), Idle::Awake);
        for claimed in [ClaimKind::Rates, ClaimKind::Times] {
            assert_eq!(of(claimed, Ends::ThroughEmulator), Idle::Awake);
            assert_eq!(of(claimed, Ends::TwoMachines), Idle::Host);
        }
    }
}

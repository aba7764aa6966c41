//! Idle CPUs and other programs: whether the first may sleep, and the others go first, while trials run.
//!
//! A program that waits for a message leaves its CPU idle, and the kernel puts an idle CPU to sleep. How
//! long it takes to wake up is the machine's affair and not a transport's, and on a virtual machine it may
//! jump between two levels with every trial: 60 µs while the hypervisor still polls for the CPU, 300 µs once
//! it does not. A race therefore asks the kernel for a wake-up latency of 0 µs, as cyclictest of rt-tests
//! does for its measurements: PM quality of service, `/dev/cpu_dma_latency`
//! (Documentation/power/pm_qos_interface.rst). The request ends with the file descriptor, however this
//! process ends. It is the same for all contenders, is named in the result, and takes root.
//!
//! Other programs are the machine's affair as well: a compiler at nice 10 on both CPUs of a small machine
//! made sends late by more than a round trip, and each race ended in its pilot. With both ends at nice -20 the
//! same race decides. So both ends of a local trial run there wherever CPUs are kept awake (sched(7)).

use std::fs::{File, OpenOptions};
use std::io::Write;

use crate::error::{Error, Result, unknown};

/// Behaviour of idle CPUs while trials run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Idle CPUs wait in the kernel's idle loop, and wake up at once.
    Awake,
    /// Idle CPUs sleep as this host lets them.
    Host,
}

const NAMES: &[&str] = &["awake", "host"];

impl Idle {
    /// Reads `awake` or `host`.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is wrong and what would be right.
    pub fn parse(typed: &str) -> Result<Idle> {
        match typed {
            "awake" => Ok(Idle::Awake),
            "host" => Ok(Idle::Host),
            _ => Err(unknown("idle", typed, NAMES)),
        }
    }

    /// Returns its name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Idle::Awake => "awake",
            Idle::Host => "host",
        }
    }
}

const DEVICE: &str = "/dev/cpu_dma_latency";

/// CPUs that stay awake as long as this lives.
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

/// Makes this process, all of whose threads start later, go before other programs. Nothing happens
/// where it may not.
pub(crate) fn go_first() {
    // SAFETY: takes integers and touches no memory of ours; 0 is the calling process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST_URGENT) };
}

/// The nice level that is served first (setpriority(2)).
const MOST_URGENT: libc::c_int = -20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for idle in [Idle::Awake, Idle::Host] {
            assert_eq!(Idle::parse(idle.name()).unwrap(), idle);
        }
        let said = Idle::parse("awoke").unwrap_err().to_string();
        assert!(said.contains("awake"), "{said}");
    }
}

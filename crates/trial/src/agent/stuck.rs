//! Watch over the threads of flows: a thread that no longer returns from a call of its transport is stuck, for example
//! in a library that spins.

use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use super::driver::Signal;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{self, Clock, Monotonic, Nanos};

/// Time between two checks. A check takes microseconds of a CPU.
pub(super) const LOOK: Nanos = Nanos::from_secs(2);

/// CPU time within one turn of a flow after which its thread counts as stuck. System calls take milliseconds at most.
const MOST: Nanos = Nanos::from_secs(5);

/// Watch over the flows of an end.
pub(super) struct StuckWatch {
    contender: String,
    looked: Nanos,
    /// CPU time of each flow's thread at its last poke.
    poked: Vec<Nanos>,
}

impl StuckWatch {
    /// Starts a watch over `flows` flows.
    pub(super) fn new(contender: &str, flows: usize) -> StuckWatch {
        let contender = contender.to_owned();
        StuckWatch { contender, looked: Monotonic.now(), poked: vec![Nanos::ZERO; flows] }
    }

    /// Checks each running flow, if a check is due.
    ///
    /// # Errors
    /// [`Error::Broken`] with the contender's name if a thread is stuck.
    pub(super) fn look<'a>(
        &mut self,
        running: impl Iterator<Item = (usize, &'a JoinHandle<()>, &'a Signal)>,
    ) -> Result<()> {
        let now = Monotonic.now();
        if now - self.looked < LOOK {
            return Ok(());
        }
        self.looked = now;
        for (flow, thread, signal) in running {
            let Some(used) = cpu_time(thread) else { continue };
            let Some(poked) = self.poked.get_mut(flow) else { continue };
            // A flow reads its signal in each turn, so a poke that was read proves a turn.
            if !signal.is_unread() {
                signal.poke();
                *poked = used;
            } else if used - *poked >= MOST {
                let what =
                    format!("a call has taken {} of CPU time and does not return", used - *poked);
                return Err(Error::broken(&self.contender, what));
            }
        }
        Ok(())
    }
}

/// Returns the CPU time that a thread has used (pthread_getcpuclockid(3)); `None` once it has ended.
fn cpu_time(thread: &JoinHandle<()>) -> Option<Nanos> {
    if thread.is_finished() {
        return None;
    }
    let mut clock = 0;
    // SAFETY: the thread has not been joined, so its handle is valid; `clock` is a variable of this function.
    let is_known =
        unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t() as _, &mut clock) == 0 };
    is_known.then(|| time::read(clock)).flatten()
}

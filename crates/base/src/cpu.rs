//! CPUs that a thread may run on, and pinning of a thread to a CPU.

use std::io;

use crate::error::{Error, Result};

/// Returns the CPUs that the calling thread may run on (sched_getaffinity(2)); all of them if the call fails.
pub fn allowed_cpus() -> Vec<usize> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: `mask` is writable for the length given, and the kernel writes no more than that.
    let done = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if done != 0 {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get());
        return (0..count).collect();
    }
    (0..64 * MASK_WORDS).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect()
}

/// Number of words of a CPU mask: 8192 CPUs, the maximum of Linux, while `cpu_set_t` ends at 1024.
pub const MASK_WORDS: usize = 128;

/// Pins the calling thread, and the threads and processes that it starts later, to `cpu` (sched_setaffinity(2)).
///
/// # Errors
/// [`Error::Setup`] if the CPU does not exist or is not allowed.
pub fn pin(cpu: usize) -> Result<()> {
    let op = || format!("pin to CPU {cpu}");
    let mut mask = [0u64; MASK_WORDS];
    let Some(word) = mask.get_mut(cpu / 64) else {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(Error::setup(op(), source));
    };
    *word = 1 << (cpu % 64);
    // SAFETY: `mask` is readable for the length given; process 0 is the calling thread.
    let done = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    if done == 0 {
        return Ok(());
    }
    Err(Error::setup_advice(
        op(),
        io::Error::last_os_error(),
        "the CPU is offline or outside this process's cpuset; --placement host pins nothing",
    ))
}

/// Lets the process `id`, which has one thread, run on `cpus` alone; threads and processes that it starts later inherit
/// them (sched_setaffinity(2)).
///
/// # Errors
/// [`Error::Setup`] if the process is gone, or if none of the CPUs is allowed.
pub fn hold(id: u32, cpus: &[usize]) -> Result<()> {
    let mut mask = [0u64; MASK_WORDS];
    for cpu in cpus {
        if let Some(word) = mask.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    let id = i32::try_from(id).unwrap_or(i32::MAX);
    // SAFETY: `mask` is readable for the length given; the call takes it and a number.
    let done = unsafe { libc::sched_setaffinity(id, size_of_val(&mask), mask.as_ptr().cast()) };
    match done {
        0 => Ok(()),
        _ => Err(Error::setup(
            format!("hold a process on CPUs {cpus:?}"),
            io::Error::last_os_error(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_there_and_nowhere_else() {
        let last = *allowed_cpus().last().unwrap();
        let seen = std::thread::spawn(move || {
            pin(last).unwrap();
            allowed_cpus()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert!(pin(1 << 40).unwrap_err().to_string().contains("pin to CPU"));
    }
}

//! Signals that wait until the process takes them (sigwaitinfo(2)), so that it can wait for children and signals
//! alike.

use std::io;
use std::time::Duration;

/// Signals that are taken: the end of a child, and signals that users send to a command.
const TAKEN: &[libc::c_int] = &[
    libc::SIGCHLD,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Signal that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenSignal {
    /// End of some child.
    Child,
    /// Signal to pass on: a process sent it with kill(2), or the terminal is gone.
    Sent(libc::c_int),
    /// Signal of a key, which the whole foreground process group receives, the command included.
    FromTerminal,
    /// No signal within the time.
    Nothing,
}

fn set() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid to write to; the calls take the set and integers.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in TAKEN {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks the signals from now on, in this thread and its later threads, for [`take`].
pub(super) fn hold() {
    let set = set();
    // SAFETY: the set is live; SIGCHLD's default is no handler, so that children stay until they are reaped,
    // whatever the parent process had chosen.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Unblocks the signals again; may be called between fork and exec.
pub(super) fn let_through() -> io::Result<()> {
    let set = set();
    // SAFETY: the set is live.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
    Ok(())
}

/// Waits for one of them, for ever or for this time.
pub(super) fn take(timeout: Option<Duration>) -> TakenSignal {
    let set = set();
    // SAFETY: an all-zero siginfo is valid to write to.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let span = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let span = span.as_ref().map_or(std::ptr::null(), |span| span as *const _);
    // SAFETY: the pointers are to live values, or null for no time limit.
    match unsafe { libc::sigtimedwait(&raw const set, &raw mut info, span) } {
        libc::SIGCHLD => TakenSignal::Child,
        // Positive codes are the kernel's own (sigaction(2)).
        signal @ 1.. if info.si_code <= 0 || signal == libc::SIGHUP => TakenSignal::Sent(signal),
        1.. => TakenSignal::FromTerminal,
        _ => TakenSignal::Nothing,
    }
}

/// Sends a signal; a process that has ended needs none.
pub(super) fn send(process: i32, signal: libc::c_int) {
    // SAFETY: the call takes integers.
    unsafe { libc::kill(process, signal) };
}

/// Reaps a child that has ended, and returns its status as a shell reports it: its exit code, or 128 and the number
/// of the signal that ended it.
pub(super) fn reap() -> Option<(i32, u8)> {
    let mut status = 0;
    // SAFETY: `status` is a live integer to write to.
    let child = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    let code = if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    };
    (child > 0).then_some((child, code as u8))
}

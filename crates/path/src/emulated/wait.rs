//! Sleep, wake-up and scheduling of the forwarder's threads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use deadheat_base::time::Nanos;
use deadheat_base::waiting::set_timer_slack;

/// Bell that wakes a thread that sleeps in poll(2) (eventfd(2)).
#[derive(Debug)]
pub(super) struct Bell(File);

impl Bell {
    /// Creates a silent bell.
    ///
    /// # Errors
    /// The error of eventfd(2).
    pub(super) fn new() -> io::Result<Bell> {
        // SAFETY: takes two integers and touches no memory of ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and has no other owner.
        Ok(Bell(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Wakes the sleeper, now or as soon as it would sleep.
    pub(super) fn ring(&self) {
        // It fails only where the bell has been rung 2^64 times, and rings then, too.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    fn silence(&self) {
        // It fails only where the bell is silent.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

/// File descriptors that a thread sleeps on: its bell, and the ports that it reads.
pub(super) struct Sleeper(Vec<libc::pollfd>);

/// Reason for the end of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// Event at a port: a frame, or an error that only a read shows.
    Port,
    /// Other reason: the bell rang, a signal arrived, or the time is up.
    Other,
}

impl Sleeper {
    /// Creates a sleeper that `bell` and frames of `ports` wake; it does not keep the ports open.
    pub(super) fn new<'a>(bell: &Bell, ports: impl IntoIterator<Item = BorrowedFd<'a>>) -> Sleeper {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let ports = ports.into_iter().map(|fd| fd.as_raw_fd());
        Sleeper(std::iter::once(bell.0.as_raw_fd()).chain(ports).map(entry).collect())
    }

    /// Sleeps, at most for `span`.
    ///
    /// # Errors
    /// The error of ppoll(2), save for a signal.
    pub(super) fn sleep(&mut self, bell: &Bell, span: Nanos) -> io::Result<WakeReason> {
        let timeout = libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as _,
            tv_nsec: (span.0 % 1_000_000_000) as _,
        };
        let (entries, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: the pointer and length describe a live vector of pollfd, `timeout` is a valid timespec, and a
        // null signal mask leaves the mask as it is.
        let ready = unsafe { libc::ppoll(entries, count, &timeout, std::ptr::null()) };
        if ready < 0 {
            return match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(WakeReason::Other),
                error => Err(error),
            };
        }
        if self.0[0].revents != 0 {
            bell.silence();
        }
        let port = ready > 0 && self.0[1..].iter().any(|entry| entry.revents != 0);
        Ok(if port { WakeReason::Port } else { WakeReason::Other })
    }

    /// Returns true if a port had a frame at the end of the last sleep.
    pub(super) fn has_frame(&self, port: usize) -> bool {
        self.0.get(port + 1).is_some_and(|entry| entry.revents & libc::POLLIN != 0)
    }

    /// Returns true if a port reported an error or its end at the last sleep.
    pub(super) fn has_failed(&self, port: usize) -> bool {
        let failure = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        self.0.get(port + 1).is_some_and(|entry| entry.revents & failure != 0)
    }
}

/// Sets the scheduling of a forwarder's thread: the least timer slack, high priority, and short turns, so that it
/// also runs before the ends of a trial, which may be at the same nice level (since Linux 6.12; before, a turn has
/// the same length for all). A refusal shows in the lateness of its releases.
pub(super) fn go_first() {
    set_timer_slack(Nanos(1));
    // SAFETY: an all-zero sched_attr is valid; the call reads `size` bytes of it, and 0 is the calling thread.
    // setpriority takes integers.
    unsafe {
        let mut asked: libc::sched_attr = std::mem::zeroed();
        asked.size = size_of::<libc::sched_attr>() as u32;
        asked.sched_policy = libc::SCHED_OTHER as u32;
        asked.sched_nice = -20;
        asked.sched_runtime = TURN.0;
        if libc::syscall(libc::SYS_sched_setattr, 0, &asked, 0) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        }
    }
}

/// Shortest turn that the kernel grants (sched(7): 0.1 ms).
const TURN: Nanos = Nanos::from_micros(100);

//! Sleep, wake-up and scheduling of the forwarder's threads.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::network::ReleaseWait;
use deadheat_base::bell::Bell;
use deadheat_base::time::Nanos;
use deadheat_base::waiting::{self, GUARD, Plan, WaitMode, set_timer_slack};

/// Largest number of ports that a thread reads in turns. From there on a read that finds nothing, of each of them, takes
/// longer than a look at which have frames.
const FEW: usize = 4;

/// File descriptors that a thread sleeps on: its bell, and the ports that it reads.
pub(super) struct Sleeper {
    /// Bell, and the ports or the watch over them.
    entries: Vec<libc::pollfd>,
    /// Watch over more ports than a few.
    watch: Option<Watch>,
    /// Events at each port.
    events: Vec<u32>,
}

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
    ///
    /// # Errors
    /// The error of epoll_create1(2) or epoll_ctl(2).
    pub(super) fn new(bell: &Bell, ports: &[BorrowedFd<'_>]) -> io::Result<Sleeper> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let watch = if ports.len() > FEW { Some(Watch::new(ports)?) } else { None };
        let watched = match &watch {
            Some(watch) => vec![watch.epoll.as_raw_fd()],
            None => ports.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        let entries = std::iter::once(bell.as_raw_fd()).chain(watched).map(entry).collect();
        Ok(Sleeper { entries, watch, events: vec![0; ports.len()] })
    }

    /// Notes which ports have frames now, where they are more than a few.
    ///
    /// # Errors
    /// The error of epoll_wait(2).
    pub(super) fn look(&mut self) -> io::Result<()> {
        match &mut self.watch {
            Some(watch) => watch.look(&mut self.events),
            None => Ok(()),
        }
    }

    /// Returns true if a port had a frame at the last look, and if only a read shows it.
    pub(super) fn may_have_frame(&self, port: usize) -> bool {
        self.watch.is_none() || self.has_frame(port)
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
        let (entries, count) = (self.entries.as_mut_ptr(), self.entries.len() as libc::nfds_t);
        // SAFETY: the pointer and length describe a live vector of pollfd, `timeout` is a valid timespec, and a
        // null signal mask leaves the mask as it is.
        let ready = unsafe { libc::ppoll(entries, count, &timeout, std::ptr::null()) };
        if ready < 0 {
            return match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(WakeReason::Other),
                error => Err(error),
            };
        }
        if self.entries[0].revents != 0 {
            bell.silence();
        }
        match &mut self.watch {
            Some(watch) => watch.look(&mut self.events)?,
            None => {
                let entries = self.entries[1..].iter();
                let found = entries.map(|entry| u32::from(entry.revents.cast_unsigned()));
                self.events.iter_mut().zip(found).for_each(|(events, found)| *events = found);
            }
        }
        let port = ready > 0 && self.events.iter().any(|events| *events != 0);
        Ok(if port { WakeReason::Port } else { WakeReason::Other })
    }

    /// Returns true if a port had a frame at the end of the last sleep.
    pub(super) fn has_frame(&self, port: usize) -> bool {
        self.events.get(port).is_some_and(|events| events & libc::EPOLLIN as u32 != 0)
    }

    /// Returns true if a port reported an error or its end at the last sleep.
    pub(super) fn has_failed(&self, port: usize) -> bool {
        // The same bits as of poll(2), whose POLLNVAL no open port has.
        let failure = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        self.events.get(port).is_some_and(|events| events & failure != 0)
    }
}

/// Watch over many ports (epoll(7)), which takes no time for ports without events.
struct Watch {
    epoll: OwnedFd,
    found: Vec<libc::epoll_event>,
    /// Number of ports with events at the last look.
    had: usize,
}

impl Watch {
    fn new(ports: &[BorrowedFd<'_>]) -> io::Result<Watch> {
        // SAFETY: takes an integer and touches no memory of ours.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        for (at, port) in ports.iter().enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: at as u64 };
            // SAFETY: the pointer is to a live event.
            let done = unsafe {
                libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, port.as_raw_fd(), &raw mut event)
            };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let none = libc::epoll_event { events: 0, u64: 0 };
        Ok(Watch { epoll, found: vec![none; ports.len()], had: 0 })
    }

    /// Notes the events at each port now.
    fn look(&mut self, events: &mut [u32]) -> io::Result<()> {
        let port = |event: &libc::epoll_event| event.u64 as usize;
        self.found[..self.had].iter().for_each(|event| events[port(event)] = 0);
        let (fd, found) = (self.epoll.as_raw_fd(), self.found.as_mut_ptr());
        // SAFETY: the pointer and length describe a live vector of events.
        let had = unsafe { libc::epoll_wait(fd, found, self.found.len() as libc::c_int, 0) };
        self.had = usize::try_from(had).unwrap_or(0);
        self.found[..self.had].iter().for_each(|event| events[port(event)] = event.events);
        match io::Error::last_os_error() {
            error if had < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Decides how a forwarder's thread waits at `now` for the release at `due`, if there is one.
pub(super) fn plan(now: Nanos, due: Option<Nanos>, wait: ReleaseWait) -> Plan {
    let guard = now + GUARD;
    match wait {
        ReleaseWait::Hybrid => waiting::plan(now, due, WaitMode::Hybrid),
        ReleaseWait::Spin => waiting::plan(now, due, WaitMode::Spin),
        ReleaseWait::Sleep if due.is_some_and(|due| due <= now) => Plan::Due,
        ReleaseWait::Sleep => Plan::Sleep(due.map_or(guard, |due| due.min(guard))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_never_polls_and_wakes_when_it_is_due() {
        let due = Nanos::from_millis(5);
        for now in [Nanos::ZERO, Nanos::from_micros(4_950), due - Nanos(1)] {
            assert_eq!(plan(now, Some(due), ReleaseWait::Sleep), Plan::Sleep(due));
        }
        assert_eq!(plan(due, Some(due), ReleaseWait::Sleep), Plan::Due);
        assert_eq!(plan(due, None, ReleaseWait::Sleep), Plan::Sleep(due + GUARD));
        let near = due - Nanos::from_micros(10);
        assert_eq!(plan(near, Some(due), ReleaseWait::Hybrid), Plan::Poll);
    }
}

//! Waiting for a message or for a point in time, whichever is first.
//!
//! [`plan`] is the policy, a pure function; [`Waiter`] is the mechanism.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use deadheat_base::bell::Bell;
use deadheat_base::time::{Clock, Nanos};
use deadheat_contract::contract::WaitMode;

pub use deadheat_base::waiting::{
    CLOCK_ONLY, LONG_SLEEP, NAP, Plan, SPIN_WINDOW, plan, set_timer_slack,
};

/// Events to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Data to receive.
    Read,
    /// Data to receive, or room for a backlog.
    ReadWrite,
}

/// Reason for the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// Readable: there is something to receive, an error or the peer's end included. With [`Interest::ReadWrite`]
    /// there may be room to send, too.
    Readable,
    /// Writable: there is room to send and nothing to receive.
    Writable,
    /// Near: the state of the socket is unknown, and it is time to poll it without blocking, then wait again. The
    /// due time is near, the mode is to spin, or [`GUARD`](deadheat_contract::contract::GUARD) has passed.
    Near,
    /// Due: the due time has passed.
    Due,
    /// Interrupted by a signal, or by the bell that another thread rang.
    Interrupted,
}

/// Waiter for the thread that made it; allocates nothing.
///
/// It cannot move to another thread, because timer slack is a property of the thread.
#[derive(Debug)]
pub struct Waiter {
    mode: WaitMode,
    calls: Cell<u64>,
    /// Bell by which other threads end a sleep.
    bell: Option<Arc<Bell>>,
    this_thread: PhantomData<*const ()>,
}

impl Waiter {
    /// Creates a waiter for the calling thread, and sets its timer slack to 1 ns, the least possible
    /// (PR_SET_TIMERSLACK(2const)). If the kernel refuses, 50 µs remain, which the lateness of the sends shows.
    pub fn new(mode: WaitMode) -> Waiter {
        set_timer_slack(Nanos(1));
        Waiter { mode, calls: Cell::new(0), bell: None, this_thread: PhantomData }
    }

    /// Ends every sleep once `bell` has been rung, and silences it then.
    #[must_use]
    pub fn woken_by(self, bell: Option<Arc<Bell>>) -> Waiter {
        Waiter { bell, ..self }
    }

    /// Returns true if other threads may end a sleep.
    pub fn has_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// Returns the number of system calls made so far.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Waits until `fd` is ready or until the time `until`. Without `fd` it waits for time alone.
    ///
    /// `clock` must be real time: the waiter reads it all through the last stretch before `until`. In virtual time
    /// use [`plan`].
    ///
    /// # Errors
    /// The error of ppoll(2), save for a signal, which is [`WakeReason::Interrupted`].
    pub fn wait(
        &self,
        clock: &impl Clock,
        fd: Option<BorrowedFd<'_>>,
        until: Option<Nanos>,
        interest: Interest,
    ) -> io::Result<WakeReason> {
        let now = clock.now();
        match (plan(now, until, self.mode), until) {
            (Plan::Sleep(to), _) => self.sleep(fd, to - now, interest),
            (Plan::Poll, _) => {
                self.give_way();
                Ok(WakeReason::Near)
            }
            (Plan::ClockOnly, Some(due)) => {
                // No `spin_loop` hint: hypervisors take a run of them for a lock and switch away.
                while clock.now() < due {}
                Ok(WakeReason::Due)
            }
            (Plan::ClockOnly | Plan::Due, _) => Ok(WakeReason::Due),
        }
    }

    /// Yields the CPU to the other end where both share it and the messages arrive so fast that this end never
    /// sleeps: without it an echo at 50 µs intervals on one CPU takes milliseconds. Costs about 0.2 µs if no other
    /// thread wants the CPU. A spinning end has a CPU of its own.
    fn give_way(&self) {
        if self.mode == WaitMode::Hybrid {
            std::thread::yield_now();
            self.count();
        }
    }

    fn sleep(
        &self,
        fd: Option<BorrowedFd<'_>>,
        span: Nanos,
        interest: Interest,
    ) -> io::Result<WakeReason> {
        // poll(2) ignores negative descriptors.
        let number = |fd: Option<i32>| fd.unwrap_or(-1);
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::ReadWrite => libc::POLLIN | libc::POLLOUT,
        };
        let bell = self.bell.as_ref().map(|bell| bell.as_raw_fd());
        let mut entries = [
            libc::pollfd { fd: number(fd.map(|fd| fd.as_raw_fd())), events, revents: 0 },
            libc::pollfd { fd: number(bell), events: libc::POLLIN, revents: 0 },
        ];
        let timeout = libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as _,
            tv_nsec: (span.0 % 1_000_000_000) as _,
        };
        self.count();
        // Without a bell the kernel looks at one entry.
        let count = 1 + libc::nfds_t::from(bell.is_some());
        // SAFETY: `entries` has `count` valid pollfds or more, `timeout` is a valid timespec, and a null signal mask
        // leaves the mask as it is; all outlive the call.
        let ready = unsafe { libc::ppoll(entries.as_mut_ptr(), count, &timeout, std::ptr::null()) };
        if let Some(bell) = self.bell.as_ref().filter(|_| entries[1].revents != 0) {
            bell.silence();
            self.count();
        }
        match (ready, entries[0].revents) {
            (0, _) => Ok(WakeReason::Near),
            (1.., 0) => Ok(WakeReason::Interrupted),
            (1.., libc::POLLOUT) => Ok(WakeReason::Writable),
            (1.., _) => Ok(WakeReason::Readable),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(WakeReason::Interrupted),
                e => Err(e),
            },
        }
    }

    fn count(&self) {
        self.calls.set(self.calls.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use deadheat_base::time::Monotonic;

    #[test]
    fn a_wait_ends_at_the_due_time_and_not_before() {
        for mode in [WaitMode::Hybrid, WaitMode::Spin] {
            let waiter = Waiter::new(mode);
            let due = Monotonic.now() + Nanos::from_micros(300);
            while waiter.wait(&Monotonic, None, Some(due), Interest::Read).unwrap()
                != WakeReason::Due
            {}
            assert!(Monotonic.now() >= due);
            assert_eq!(waiter.calls() == 0, mode == WaitMode::Spin);
        }
    }

    #[test]
    fn a_ring_ends_one_sleep() {
        let bell = Arc::new(Bell::new().unwrap());
        bell.ring();
        let waiter = Waiter::new(WaitMode::Hybrid).woken_by(Some(bell));
        assert!(waiter.has_bell());
        let wait = || waiter.sleep(None, Nanos::from_millis(1), Interest::Read).unwrap();
        assert_eq!((wait(), wait()), (WakeReason::Interrupted, WakeReason::Near));
    }

    #[test]
    fn a_message_or_room_ends_a_sleep() {
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        let b = UdpSocket::bind("127.0.0.1:0").unwrap();
        let waiter = Waiter::new(WaitMode::Hybrid);
        let wait = |interest| {
            let until = Monotonic.now() + Nanos::from_secs(60);
            waiter.wait(&Monotonic, Some(b.as_fd()), Some(until), interest)
        };
        assert_eq!(wait(Interest::ReadWrite).unwrap(), WakeReason::Writable);
        a.send_to(b"x", b.local_addr().unwrap()).unwrap();
        assert_eq!(wait(Interest::Read).unwrap(), WakeReason::Readable);
        assert_eq!(wait(Interest::ReadWrite).unwrap(), WakeReason::Readable);
    }
}

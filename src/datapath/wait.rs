//! Waiting for a message or for a point in time, whichever is first.
//!
//! No sleep ends on time: in a 2-vCPU KVM guest a timer with the least slack fires 22 to 27 µs late
//! at the median, with the default slack 73 to 78 µs. So a paced sender sleeps only until
//! [`SPIN_WINDOW`] before its next send, then looks at socket and clock in turn, and for the last
//! [`CLOCK_ONLY`] at the clock alone, because a receiving call that finds a message takes about that
//! long and would make the send late. That leaves a median lateness of 0.05 µs.
//!
//! And the longer a CPU has been idle, the later it wakes: a guest on an otherwise quiet host was
//! 28 µs late after 1 ms of sleep, 65 after 5, 120 after 25 and 170 after 50. So a sleep longer than
//! [`LONG_SLEEP`] ends [`NAP`] early, and a second, short one follows: 38 to 45 µs late at the median
//! whatever the first was, for one more system call.
//!
//! [`plan`] is the policy, a pure function; [`Waiter`] is the mechanism.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::contract::{GUARD, WaitMode};
use crate::time::{Clock, Nanos};

/// How long before a due time a hybrid wait stops to sleep.
///
/// The 99th percentile of the lateness of a 1 ns slack timer, 59 µs in a KVM guest that has to
/// leave HLT to wake up, the worst common case; on bare metal it is a few µs. `deadheat doctor`
/// measures it: where the kernel wakes later than this, sends are late, and a trial's gate says so.
pub const SPIN_WINDOW: Nanos = Nanos::from_micros(60);

/// A sleep longer than this is one in two parts.
pub const LONG_SLEEP: Nanos = Nanos::from_micros(1_500);

/// How long before a due time the first part of a long sleep ends: later than it is late, and so
/// shortly that the CPU is still awake for the second.
pub const NAP: Nanos = Nanos::from_micros(400);

/// How long before a due time even the socket is left alone: a receiving call that finds a
/// datagram takes 1 to 2 µs.
pub const CLOCK_ONLY: Nanos = Nanos::from_micros(2);

/// What to do at a moment on the way to a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Sleep in the kernel until a message comes, at most until this time.
    Sleep(Nanos),
    /// Look at the socket without blocking, then at the clock again.
    Poll,
    /// Look at nothing but the clock.
    ClockOnly,
    /// The time has come.
    Due,
}

/// Decides how to wait at `now` for `due`; `None` is for a message only. A sleep never lasts
/// longer than [`GUARD`], and one that is longer than [`LONG_SLEEP`] ends early, to be followed by
/// another.
pub fn plan(now: Nanos, due: Option<Nanos>, mode: WaitMode) -> Plan {
    let left = match due {
        Some(due) if due <= now => return Plan::Due,
        Some(due) if due - now <= CLOCK_ONLY => return Plan::ClockOnly,
        Some(due) => Some(due - now),
        None => None,
    };
    match (mode, left) {
        (WaitMode::Spin, _) => Plan::Poll,
        (WaitMode::Hybrid, Some(left)) if left <= SPIN_WINDOW => Plan::Poll,
        (WaitMode::Hybrid, Some(left)) => {
            let early = if left > LONG_SLEEP { NAP } else { SPIN_WINDOW };
            Plan::Sleep(now + (left - early).min(GUARD))
        }
        (WaitMode::Hybrid, None) => Plan::Sleep(now + GUARD),
    }
}

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something to receive.
    Read,
    /// Something to receive, or room for a backlog.
    ReadWrite,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woke {
    /// There is something to receive, an error or the peer's end included. With
    /// [`Interest::ReadWrite`] there may be room to send, too.
    Readable,
    /// There is room to send and nothing to receive.
    Writable,
    /// Nothing is known of the socket, and it is time to look: poll it without blocking, then
    /// wait again. The due time is near, the mode is to spin, or [`GUARD`] has passed.
    Near,
    /// The due time has come.
    Due,
    /// A signal came.
    Interrupted,
}

/// Waits on the thread that made it, and allocates nothing.
///
/// It does not leave its thread, because timer slack is a thread's property.
#[derive(Debug)]
pub struct Waiter {
    mode: WaitMode,
    calls: Cell<u64>,
    this_thread: PhantomData<*const ()>,
}

impl Waiter {
    /// A waiter for the calling thread, whose timer slack it sets to 1 ns, the least there is
    /// (PR_SET_TIMERSLACK(2const)). A kernel that refuses leaves 50 µs, which the lateness of the
    /// sends shows.
    pub fn new(mode: WaitMode) -> Waiter {
        set_timer_slack(Nanos(1));
        Waiter { mode, calls: Cell::new(0), this_thread: PhantomData }
    }

    /// System calls made so far.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Waits until `fd` is ready or `until` has come. Without `fd` it waits for time alone.
    ///
    /// `clock` must be real time: the last stretch before `until` is spent reading it. In virtual
    /// time use [`plan`].
    ///
    /// # Errors
    /// What ppoll(2) says, save for a signal, which is [`Woke::Interrupted`].
    pub fn wait(
        &self,
        clock: &impl Clock,
        fd: Option<BorrowedFd<'_>>,
        until: Option<Nanos>,
        interest: Interest,
    ) -> io::Result<Woke> {
        let now = clock.now();
        match (plan(now, until, self.mode), until) {
            (Plan::Sleep(to), _) => self.sleep(fd, to - now, interest),
            (Plan::Poll, _) => {
                self.give_way();
                Ok(Woke::Near)
            }
            (Plan::ClockOnly, Some(due)) => {
                // No `spin_loop` hint: hypervisors take a run of them for a lock and switch away.
                while clock.now() < due {}
                Ok(Woke::Due)
            }
            (Plan::ClockOnly | Plan::Due, _) => Ok(Woke::Due),
        }
    }

    /// Lets the other end run where both share a CPU and the messages come so fast that this end
    /// never sleeps: without it an echo at 50 µs intervals on one CPU takes milliseconds. Costs
    /// about 0.2 µs where nobody else wants the CPU. A spinning end has a CPU of its own.
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
    ) -> io::Result<Woke> {
        let mut entry = libc::pollfd {
            fd: fd.map_or(-1, |fd| fd.as_raw_fd()), // poll(2) ignores negative descriptors
            events: match interest {
                Interest::Read => libc::POLLIN,
                Interest::ReadWrite => libc::POLLIN | libc::POLLOUT,
            },
            revents: 0,
        };
        let timeout = libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as _,
            tv_nsec: (span.0 % 1_000_000_000) as _,
        };
        self.count();
        // SAFETY: `entry` is one valid pollfd, `timeout` a valid timespec, and a null signal mask
        // leaves the mask as it is; all outlive the call.
        let ready = unsafe { libc::ppoll(&mut entry, 1, &timeout, std::ptr::null()) };
        match ready {
            0 => Ok(Woke::Near),
            1.. if entry.revents == libc::POLLOUT => Ok(Woke::Writable),
            1.. => Ok(Woke::Readable),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(Woke::Interrupted),
                e => Err(e),
            },
        }
    }

    fn count(&self) {
        self.calls.set(self.calls.get() + 1);
    }
}

/// Sets the calling thread's timer slack; zero is its default again.
pub(crate) fn set_timer_slack(slack: Nanos) {
    // SAFETY: this prctl takes an integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::time::{Manual, Monotonic};

    #[test]
    fn a_hybrid_wait_sleeps_then_polls_then_watches_the_clock() {
        let clock = Manual::default();
        let due = Nanos::from_micros(1_000);
        let mut seen = Vec::new();
        loop {
            let plan = plan(clock.now(), Some(due), WaitMode::Hybrid);
            if seen.last() != Some(&plan) {
                seen.push(plan);
            }
            match plan {
                Plan::Sleep(to) => clock.advance_to(to),
                Plan::Poll | Plan::ClockOnly => clock.advance_to(clock.now() + Nanos(500)),
                Plan::Due => break,
            }
        }
        assert_eq!(clock.now(), due);
        assert_eq!(seen, [Plan::Sleep(due - SPIN_WINDOW), Plan::Poll, Plan::ClockOnly, Plan::Due]);
    }

    #[test]
    fn the_edges_belong_to_the_nearer_plan() {
        let due = Nanos::from_millis(5);
        let at = |now| plan(now, Some(due), WaitMode::Hybrid);
        assert_eq!(at(Nanos::ZERO), Plan::Sleep(due - NAP));
        assert_eq!(at(due - LONG_SLEEP - Nanos(1)), Plan::Sleep(due - NAP));
        assert_eq!(at(due - LONG_SLEEP), Plan::Sleep(due - SPIN_WINDOW));
        assert_eq!(at(due - NAP), Plan::Sleep(due - SPIN_WINDOW));
        assert_eq!(at(due - SPIN_WINDOW - Nanos(1)), Plan::Sleep(due - SPIN_WINDOW));
        assert_eq!(at(due - SPIN_WINDOW), Plan::Poll);
        assert_eq!(at(due - CLOCK_ONLY - Nanos(1)), Plan::Poll);
        assert_eq!(at(due - CLOCK_ONLY), Plan::ClockOnly);
        assert_eq!(at(due - Nanos(1)), Plan::ClockOnly);
        assert_eq!(at(due), Plan::Due);
        assert_eq!(at(due + Nanos(1)), Plan::Due);
    }

    #[test]
    fn a_spinning_wait_never_sleeps() {
        let due = Nanos::from_secs(10);
        for now in [Nanos::ZERO, due - SPIN_WINDOW, due - CLOCK_ONLY - Nanos(1)] {
            assert_eq!(plan(now, Some(due), WaitMode::Spin), Plan::Poll);
        }
        assert_eq!(plan(Nanos::ZERO, None, WaitMode::Spin), Plan::Poll);
        assert_eq!(plan(due - Nanos(9), Some(due), WaitMode::Spin), Plan::ClockOnly);
    }

    #[test]
    fn no_sleep_outlasts_the_guard() {
        let now = Nanos::from_secs(1);
        let sleep = Plan::Sleep(now + GUARD);
        assert_eq!(plan(now, None, WaitMode::Hybrid), sleep);
        let far_off = Some(Nanos(u64::MAX));
        assert_eq!(plan(now, far_off, WaitMode::Hybrid), sleep);
    }

    #[test]
    fn a_wait_ends_at_the_due_time_and_not_before() {
        for mode in [WaitMode::Hybrid, WaitMode::Spin] {
            let waiter = Waiter::new(mode);
            let due = Monotonic.now() + Nanos::from_micros(300);
            while waiter.wait(&Monotonic, None, Some(due), Interest::Read).unwrap() != Woke::Due {}
            assert!(Monotonic.now() >= due);
            assert_eq!(waiter.calls() == 0, mode == WaitMode::Spin);
        }
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
        assert_eq!(wait(Interest::ReadWrite).unwrap(), Woke::Writable);
        a.send_to(b"x", b.local_addr().unwrap()).unwrap();
        assert_eq!(wait(Interest::Read).unwrap(), Woke::Readable);
        assert_eq!(wait(Interest::ReadWrite).unwrap(), Woke::Readable);
    }
}

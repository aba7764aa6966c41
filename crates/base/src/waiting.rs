//! Exact waiting of a thread for a point in time.
//!
//! No sleep ends on time: in a 2-vCPU KVM guest a timer with the least slack fires 22 to 27 µs late at the median, with
//! the default slack 73 to 78 µs. So a paced sender sleeps only until [`SPIN_WINDOW`] before its next send, then polls
//! socket and clock in turn, and for the last [`CLOCK_ONLY`] the clock alone, because a receiving call with a message
//! takes about that long and would delay the send. The median lateness is then 0.05 µs.
//!
//! The longer a CPU has been idle, the later it wakes: a guest on an otherwise idle host was 28 µs late after 1 ms of
//! sleep, 65 after 5, 120 after 25 and 170 after 50. So a sleep longer than [`LONG_SLEEP`] ends [`NAP`] early, and a
//! second, short one follows: 38 to 45 µs late at the median, independent of the first, for one more system call.
//!
//! [`plan`] implements this policy as a pure function.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// Mode of waiting for the next message or deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// Sleeps in the kernel, and spins only for the last stretch before a send is due.
    Hybrid,
    /// Never sleeps: polls the socket and the clock.
    Spin,
}

impl WaitMode {
    /// Returns its name in a path and in results.
    pub fn name(self) -> &'static str {
        match self {
            WaitMode::Hybrid => "hybrid",
            WaitMode::Spin => "spin",
        }
    }
}

/// Longest sleep of a blocking call, after which the driver checks for other work.
pub const GUARD: Nanos = Nanos::from_millis(100);

/// Time before a due time at which a hybrid wait stops to sleep.
///
/// The 99th percentile of the lateness of a 1 ns slack timer, 59 µs in a KVM guest that has to leave HLT to wake up,
/// the worst common case; on bare metal it is a few µs. `deadheat doctor` measures it: if the kernel wakes later than
/// this, sends are late, and a trial's gate reports that.
pub const SPIN_WINDOW: Nanos = Nanos::from_micros(60);

/// Longest single sleep; a longer one is split in two.
pub const LONG_SLEEP: Nanos = Nanos::from_micros(1_500);

/// Time before a due time at which the first part of a long sleep ends: longer than the lateness of the first part, and
/// short enough for a fast wake-up from the second.
pub const NAP: Nanos = Nanos::from_micros(400);

/// Time before a due time in which not even the socket is polled: a receiving call with a datagram takes 1 to 2 µs.
pub const CLOCK_ONLY: Nanos = Nanos::from_micros(2);

/// Action before a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Sleep in the kernel until a message arrives, at most until this time.
    Sleep(Nanos),
    /// Poll the socket without blocking, then the clock.
    Poll,
    /// Poll only the clock.
    ClockOnly,
    /// Due: the time has come.
    Due,
}

/// Decides how to wait at `now` for `due`; without `due`, for a message only. A sleep never lasts longer than
/// [`GUARD`]; a sleep longer than [`LONG_SLEEP`] ends early, and another one follows.
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

/// Sleeps until `due` of `CLOCK_MONOTONIC`, or until a signal arrives (clock_nanosleep(2)).
pub fn sleep_until(due: Nanos) {
    let to = libc::timespec {
        tv_sec: (due.0 / 1_000_000_000) as _,
        tv_nsec: (due.0 % 1_000_000_000) as _,
    };
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: `to` is a valid timespec that outlives the call; nothing is written for an absolute time.
    unsafe { libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &to, std::ptr::null_mut()) };
}

/// Sets the calling thread's timer slack; zero is its default again.
pub fn set_timer_slack(slack: Nanos) {
    // SAFETY: this prctl takes an integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Clock, Manual};

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
}

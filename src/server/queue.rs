//! Turns: a few trials run at once, the others wait in the order in which they came.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::log::origin;
use crate::time::{Clock, Monotonic, Nanos};

/// Queue of the trials that run and wait.
pub(super) struct Queue {
    turns: u32,
    room: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: u32,
    /// Times until which turns that were given back stay empty.
    resting: Vec<Nanos>,
    next: u64,
    line: VecDeque<Waiter>,
}

struct Waiter {
    id: u64,
    origin: IpAddr,
    wake: UnixStream,
}

/// Place in the queue; given up when dropped. Its descriptor is readable when the place may have changed.
pub(super) struct Ticket {
    queue: Arc<Queue>,
    id: u64,
    woken: UnixStream,
}

/// Right to run one trial; given back when dropped.
pub(super) struct Turn {
    queue: Arc<Queue>,
    rest: Nanos,
}

/// Place of a ticket in the queue.
pub(super) enum Place {
    /// Now: its turn has come.
    Now(Turn),
    /// Next, and may run from this time on.
    At(Nanos),
    /// Behind so many trials, running ones included.
    Behind(u32),
    /// Pushed out: its place went to an origin that has fewer trials waiting.
    PushedOut,
}

impl Queue {
    /// Creates a queue with `turns` trials at once (at least one), and `room` for those that wait.
    pub(super) fn new(turns: u32, room: usize) -> Arc<Queue> {
        Arc::new(Queue { turns: turns.max(1), room, state: Mutex::default() })
    }

    /// Joins the queue, or says why not. Where it is full, the last trial of the origin that has most of them waiting
    /// makes room for one of an origin that has at least two fewer.
    pub(super) fn enter(self: &Arc<Queue>, peer: IpAddr) -> Result<Ticket, String> {
        let origin = origin(peer);
        let (woken, wake) = UnixStream::pair()
            .and_then(|(a, b)| {
                a.set_nonblocking(true)?;
                b.set_nonblocking(true)?;
                Ok((a, b))
            })
            .map_err(|e| format!("no descriptors left to wait with: {e}"))?;
        let mut state = self.lock();
        let is_free = state.line.is_empty() && state.running < self.turns;
        if state.line.len() >= self.room && !is_free && !state.push_out(origin) {
            return Err(format!(
                "{} trials are waiting for their turn already; try again later",
                state.line.len()
            ));
        }
        let id = state.next;
        state.next += 1;
        state.line.push_back(Waiter { id, origin, wake });
        Ok(Ticket { queue: Arc::clone(self), id, woken })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the time at which a turn is free for the first in line; `None` where all are taken.
    fn free_at(&mut self, turns: u32, now: Nanos) -> Option<Nanos> {
        self.resting.retain(|until| *until > now);
        let free = turns.checked_sub(self.running).filter(|free| *free > 0)? as usize;
        match self.resting.len().checked_sub(free) {
            None => Some(now),
            Some(_) => self.resting.iter().min().copied(),
        }
    }

    /// Removes the last place of the origin with most, if that is fair to both; returns true if there is room now.
    fn push_out(&mut self, newcomer: IpAddr) -> bool {
        let mut crowd: HashMap<IpAddr, usize> = HashMap::new();
        for waiter in &self.line {
            *crowd.entry(waiter.origin).or_default() += 1;
        }
        let own = crowd.get(&newcomer).copied().unwrap_or(0);
        let most = crowd.values().copied().max().unwrap_or(0);
        let has_most = |waiter: &Waiter| crowd.get(&waiter.origin) == Some(&most);
        match self.line.iter().rposition(has_most) {
            Some(last) if most >= own + 2 => {
                let gone = self.line.remove(last);
                // It finds its place gone as soon as it looks.
                gone.iter().for_each(|gone| drop((&gone.wake).write(&[1])));
                true
            }
            _ => false,
        }
    }

    fn wake_all(&self) {
        for waiter in &self.line {
            // Full means that it has been woken often enough.
            let _ = (&waiter.wake).write(&[1]);
        }
    }
}

impl Ticket {
    /// Returns the place of this ticket at `now`; takes the turn if it has come.
    pub(super) fn place(&self, now: Nanos) -> Place {
        let mut drained = [0; 64];
        while matches!((&self.woken).read(&mut drained), Ok(n) if n > 0) {}
        let mut state = self.queue.lock();
        let before = state.line.iter().position(|waiter| waiter.id == self.id);
        if before == Some(0)
            && let Some(at) = state.free_at(self.queue.turns, now)
        {
            if at > now {
                return Place::At(at);
            }
            state.line.pop_front();
            state.running += 1;
            state.wake_all();
            return Place::Now(Turn { queue: Arc::clone(&self.queue), rest: Nanos::ZERO });
        }
        let Some(before) = before else { return Place::PushedOut };
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        Place::Behind(before.saturating_add(state.running))
    }
}

impl AsFd for Ticket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        let before = state.line.len();
        state.line.retain(|waiter| waiter.id != self.id);
        if state.line.len() < before {
            state.wake_all();
        }
    }
}

impl Turn {
    /// Sets a rest: the next trial in this place begins no sooner than `rest` after this one's end.
    pub(super) fn rest(&mut self, rest: Nanos) {
        self.rest = rest;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.running -= 1;
        if self.rest > Nanos::ZERO {
            state.resting.push(Monotonic.now() + self.rest);
        }
        state.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::handover::readable;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn behind(ticket: &Ticket) -> Option<u32> {
        match ticket.place(Monotonic.now()) {
            Place::Now(_) => None,
            Place::At(at) => panic!("resting until {at}"),
            Place::Behind(n) => Some(n),
            Place::PushedOut => panic!("pushed out"),
        }
    }

    fn turn(ticket: &Ticket) -> Turn {
        match ticket.place(Monotonic.now()) {
            Place::Now(turn) => turn,
            Place::At(at) => panic!("resting until {at}"),
            Place::Behind(n) => panic!("{n} ahead"),
            Place::PushedOut => panic!("pushed out"),
        }
    }

    #[test]
    fn turns_go_round_in_the_order_of_arrival_and_each_change_wakes() {
        let queue = Queue::new(1, 16);
        let [a, b, c] = [(); 3].map(|()| queue.enter(ip(1)).ok().unwrap());
        let first = turn(&a);
        assert_eq!((behind(&b), behind(&c)), (Some(1), Some(2)));
        assert!(!readable(c.as_fd(), Nanos::ZERO).unwrap());
        drop(first);
        assert!(readable(b.as_fd(), Nanos::ZERO).unwrap());
        assert_eq!(behind(&c), Some(1), "b is first, though nothing runs");
        let second = turn(&b);
        drop(second);
        assert_eq!(behind(&c), None);
    }

    #[test]
    fn who_leaves_the_line_lets_the_others_move_up() {
        let queue = Queue::new(1, 16);
        let [a, b, c] = [(); 3].map(|()| queue.enter(ip(1)).ok().unwrap());
        let _running = turn(&a);
        assert_eq!(behind(&c), Some(2));
        drop(b);
        assert!(readable(c.as_fd(), Nanos::ZERO).unwrap());
        assert_eq!(behind(&c), Some(1));
    }

    #[test]
    fn two_turns_run_two() {
        let queue = Queue::new(2, 16);
        let [a, b, c] = [(); 3].map(|()| queue.enter(ip(1)).ok().unwrap());
        let _first = turn(&a);
        let _second = turn(&b);
        assert_eq!(behind(&c), Some(2));
    }

    #[test]
    fn a_full_line_is_refused_and_a_free_turn_is_not() {
        let queue = Queue::new(1, 0);
        let running = turn(&queue.enter(ip(1)).ok().unwrap());
        let why = queue.enter(ip(1)).err().unwrap();
        assert!(why.contains("waiting for their turn already"), "{why}");
        drop(running);
        assert!(queue.enter(ip(1)).is_ok());
    }

    #[test]
    fn a_turn_rests_before_the_next_one() {
        let queue = Queue::new(1, 16);
        let [a, b] = [(); 2].map(|()| queue.enter(ip(1)).ok().unwrap());
        let mut first = turn(&a);
        first.rest(Nanos::from_secs(1_000));
        drop(first);
        let now = Monotonic.now();
        let Place::At(at) = b.place(now) else { panic!("not told when") };
        assert!(at > now && at <= now + Nanos::from_secs(1_000));
        assert!(matches!(b.place(at), Place::Now(_)));
    }

    /// Three origins fill the line; a fourth gets the last place of the one with most.
    #[test]
    fn a_full_line_has_a_share_for_each_origin() {
        let queue = Queue::new(1, 4);
        let _running = turn(&queue.enter(ip(9)).ok().unwrap());
        let [a, b, c, d] = [1, 1, 1, 2].map(|last| queue.enter(ip(last)).ok().unwrap());
        assert!(queue.enter(ip(1)).is_err(), "an origin makes no room for itself");
        let e = queue.enter(ip(3)).ok().unwrap();
        assert!(readable(c.as_fd(), Nanos::ZERO).unwrap());
        assert!(matches!(c.place(Monotonic.now()), Place::PushedOut));
        assert_eq!([&a, &b, &d, &e].map(behind), [1, 2, 3, 4].map(Some));
        assert!(queue.enter(ip(2)).is_err(), "one more would only change who is crowded out");
        assert!(queue.enter(ip(4)).is_ok(), "10.0.0.1 still has two");
    }
}

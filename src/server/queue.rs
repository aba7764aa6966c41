//! Turns: a few trials run at once, the others wait in the order in which they came.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who runs and who waits.
pub(super) struct Queue {
    turns: u32,
    room: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: u32,
    next: u64,
    line: VecDeque<Waiter>,
}

struct Waiter {
    id: u64,
    wake: UnixStream,
}

/// A place in the line; given up when dropped. Its descriptor is readable when the place may have
/// changed.
pub(super) struct Ticket {
    queue: Arc<Queue>,
    id: u64,
    woken: UnixStream,
}

/// The right to run one trial; given back when dropped.
pub(super) struct Turn(Arc<Queue>);

/// Where a ticket stands.
pub(super) enum Place {
    /// Its turn has come.
    Now(Turn),
    /// So many trials, running ones included, come first.
    Behind(u32),
}

impl Queue {
    /// `turns` trials at once (at least one), and `room` for those that wait.
    pub(super) fn new(turns: u32, room: usize) -> Arc<Queue> {
        Arc::new(Queue { turns: turns.max(1), room, state: Mutex::default() })
    }

    /// Joins the line, or says why not.
    pub(super) fn enter(self: &Arc<Queue>) -> Result<Ticket, String> {
        let (woken, wake) = UnixStream::pair()
            .and_then(|(a, b)| {
                a.set_nonblocking(true)?;
                b.set_nonblocking(true)?;
                Ok((a, b))
            })
            .map_err(|e| format!("no descriptors left to wait with: {e}"))?;
        let mut state = self.lock();
        let is_free = state.line.is_empty() && state.running < self.turns;
        if state.line.len() >= self.room && !is_free {
            return Err(format!(
                "{} trials are waiting for their turn already; try again later",
                state.line.len()
            ));
        }
        let id = state.next;
        state.next += 1;
        state.line.push_back(Waiter { id, wake });
        Ok(Ticket { queue: Arc::clone(self), id, woken })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_all(&self) {
        for waiter in &self.line {
            // Full means that it has been woken often enough.
            let _ = (&waiter.wake).write(&[1]);
        }
    }
}

impl Ticket {
    /// Where this ticket stands now; takes the turn if it has come.
    pub(super) fn place(&self) -> Place {
        let mut drained = [0; 64];
        while matches!((&self.woken).read(&mut drained), Ok(n) if n > 0) {}
        let mut state = self.queue.lock();
        let before = state.line.iter().position(|waiter| waiter.id == self.id);
        if before == Some(0) && state.running < self.queue.turns {
            state.line.pop_front();
            state.running += 1;
            state.wake_all();
            return Place::Now(Turn(Arc::clone(&self.queue)));
        }
        let before = u32::try_from(before.unwrap_or(0)).unwrap_or(u32::MAX);
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

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        state.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use crate::transport::door::readable;

    fn behind(ticket: &Ticket) -> Option<u32> {
        match ticket.place() {
            Place::Now(_) => None,
            Place::Behind(n) => Some(n),
        }
    }

    fn turn(ticket: &Ticket) -> Turn {
        match ticket.place() {
            Place::Now(turn) => turn,
            Place::Behind(n) => panic!("{n} ahead"),
        }
    }

    #[test]
    fn turns_go_round_in_the_order_of_arrival_and_each_change_wakes() {
        let queue = Queue::new(1, 16);
        let [a, b, c] = [(); 3].map(|()| queue.enter().ok().unwrap());
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
        let [a, b, c] = [(); 3].map(|()| queue.enter().ok().unwrap());
        let _running = turn(&a);
        assert_eq!(behind(&c), Some(2));
        drop(b);
        assert!(readable(c.as_fd(), Nanos::ZERO).unwrap());
        assert_eq!(behind(&c), Some(1));
    }

    #[test]
    fn two_turns_run_two() {
        let queue = Queue::new(2, 16);
        let [a, b, c] = [(); 3].map(|()| queue.enter().ok().unwrap());
        let _first = turn(&a);
        let _second = turn(&b);
        assert_eq!(behind(&c), Some(2));
    }

    #[test]
    fn a_full_line_is_refused_and_a_free_turn_is_not() {
        let queue = Queue::new(1, 0);
        let running = turn(&queue.enter().ok().unwrap());
        let why = queue.enter().err().unwrap();
        assert!(why.contains("waiting for their turn already"), "{why}");
        drop(running);
        assert!(queue.enter().is_ok());
    }
}

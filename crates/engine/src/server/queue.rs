//! Queue of trials: a few run at once, the others wait. The order is fair by origin, as in start-time fair queueing
//! (Goyal, Vin, Cheng, SIGCOMM 1996): it follows from the time for which an origin's trials held a turn, and not from
//! the number of its waiting trials. Trials of one origin keep the order of their arrival.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::log::origin;
use crate::time::{Clock, Monotonic, Nanos};

/// Queue of running and waiting trials.
pub(super) struct Queue {
    turns: u32,
    room: usize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    running: u32,
    /// Numbers of the places that running trials have.
    taken: BTreeSet<u32>,
    /// Virtual time: the start tag of the last assigned turn.
    clock: Nanos,
    /// Finish tag of each origin's last turn, if it is later than the clock.
    finished: HashMap<IpAddr, Nanos>,
    /// Number of turns that each origin has now.
    held: HashMap<IpAddr, u32>,
    /// Times until which returned turns stay empty.
    resting: Vec<Nanos>,
    next: u64,
    /// Waiting trials, in the order of their arrival.
    line: Vec<Waiter>,
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

/// Right to run one trial; returned when dropped.
pub(super) struct Turn {
    queue: Arc<Queue>,
    /// Number of its place among the trials that run at once, from 0.
    place: u32,
    origin: IpAddr,
    /// Start tag.
    tag: Nanos,
    since: Nanos,
    rest: Nanos,
    wasted: bool,
}

/// Largest number of origins with a time of their own. Above it the origin with the least time is dropped.
const MOST_ORIGINS: usize = 65_536;

/// Assumed length of a turn while it is unknown.
const TURN: Nanos = Nanos::from_secs(1);

/// Time that is charged for a turn in which no trial began, beside the time that it took: an origin that wastes turns
/// waits behind origins that use theirs.
const WASTE: Nanos = Nanos::from_secs(60);

/// Place of a ticket in the queue.
pub(super) enum QueuePlace {
    /// Now: the turn is granted.
    Now(Turn),
    /// Next, and may run from this time on.
    At(Nanos),
    /// Behind this many trials, running ones included.
    Behind(u32),
    /// Pushed out: its place went to an origin with fewer waiting trials.
    PushedOut,
}

impl Queue {
    /// Creates a queue with `turns` trials at once (at least one), and `room` waiting ones.
    pub(super) fn new(turns: u32, room: usize) -> Arc<Queue> {
        Arc::new(Queue { turns: turns.max(1), room, state: Mutex::default() })
    }

    /// Joins the queue; the error is the reason why not. If it is full, the last trial of the origin with most waiting
    /// trials is replaced by one of an origin that has at least two fewer.
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
        state.line.push(Waiter { id, origin, wake });
        Ok(Ticket { queue: Arc::clone(self), id, woken })
    }

    /// Returns true if a trial of another origin than `peer` waits.
    pub(super) fn is_waited_for(&self, peer: IpAddr) -> bool {
        let own = origin(peer);
        self.lock().line.iter().any(|waiter| waiter.origin != own)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Returns the start tag of the next turn of an origin.
    fn tag(&self, origin: IpAddr) -> Nanos {
        let finished = self.finished.get(&origin).copied().unwrap_or_default().max(self.clock);
        // A turn that has not ended is assumed to last as long as any other.
        let held = self.held.get(&origin).copied().unwrap_or(0);
        finished + Nanos(TURN.0.saturating_mul(held.into()))
    }

    /// Returns the positions in `line` in the expected order of turns: each earlier turn is assumed to last as long as
    /// any other.
    fn order(&self) -> Vec<usize> {
        let mut tags: HashMap<IpAddr, Nanos> = HashMap::new();
        let mut left: Vec<usize> = (0..self.line.len()).collect();
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let tag = |at: &usize| {
                let origin = self.line[*at].origin;
                tags.get(&origin).copied().unwrap_or_else(|| self.tag(origin))
            };
            // Of several equal ones this finds the first, which arrived first.
            let next = (0..left.len()).min_by_key(|at| tag(&left[*at])).unwrap_or(0);
            let place = left.remove(next);
            let after = tag(&place) + TURN;
            tags.insert(self.line[place].origin, after);
            order.push(place);
        }
        order
    }

    /// Adds the time of a turn to its origin's time, and drops times that the clock has passed.
    fn account(&mut self, turn: &Turn, now: Nanos) {
        let waste = if turn.wasted { WASTE } else { Nanos::ZERO };
        let finish = turn.tag + (now - turn.since) + waste;
        let own = self.finished.entry(turn.origin).or_default();
        *own = finish.max(*own);
        let clock = self.clock;
        self.finished.retain(|_, finish| *finish > clock);
        if self.finished.len() > MOST_ORIGINS
            && let Some(least) = self.finished.iter().min_by_key(|(_, finish)| **finish)
        {
            let least = *least.0;
            self.finished.remove(&least);
        }
        if self.line.is_empty() && self.running == 0 {
            // No trial waits, so all origins had what they asked for, and their times no longer count.
            self.finished.clear();
        }
    }

    /// Returns the number of turns that are free now.
    fn free(&mut self, turns: u32, now: Nanos) -> usize {
        self.resting.retain(|until| *until > now);
        (turns.saturating_sub(self.running) as usize).saturating_sub(self.resting.len())
    }

    /// Returns the time at which a turn has rested; `None` if all are taken.
    fn rested_at(&self, turns: u32) -> Option<Nanos> {
        self.resting.iter().min().copied().filter(|_| self.running < turns)
    }

    /// Removes the last place of the origin with most, if that is fair to both; returns true if there is space now.
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
                // It sees that its place is gone at its next look; a full pipe means that it has been woken often
                // enough.
                let _ = (&gone.wake).write(&[1]);
                true
            }
            _ => false,
        }
    }

    fn wake_all(&self) {
        for waiter in &self.line {
            // A full pipe means that it has been woken often enough.
            let _ = (&waiter.wake).write(&[1]);
        }
    }
}

impl Ticket {
    /// Returns the place of this ticket at `now`; takes the turn if it has come.
    pub(super) fn place(&self, now: Nanos) -> QueuePlace {
        let mut drained = [0; 64];
        while matches!((&self.woken).read(&mut drained), Ok(n) if n > 0) {}
        let mut state = self.queue.lock();
        let order = state.order();
        let before = order.iter().position(|at| state.line[*at].id == self.id);
        let Some(before) = before else { return QueuePlace::PushedOut };
        // It takes its turn at once if turns are free for all before it, too, though these have not looked yet.
        if before < state.free(self.queue.turns, now) {
            let origin = state.line.remove(order[before]).origin;
            state.running += 1;
            let tag = state.tag(origin);
            if before == 0 {
                state.clock = tag;
            }
            *state.held.entry(origin).or_default() += 1;
            state.wake_all();
            let place = (0..).find(|place| !state.taken.contains(place)).unwrap_or(0);
            state.taken.insert(place);
            let (queue, rest) = (Arc::clone(&self.queue), Nanos::ZERO);
            let turn = Turn { queue, place, origin, tag, since: now, rest, wasted: false };
            return QueuePlace::Now(turn);
        }
        if before == 0
            && let Some(at) = state.rested_at(self.queue.turns)
        {
            return QueuePlace::At(at);
        }
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        QueuePlace::Behind(before.saturating_add(state.running))
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
    /// Returns the number of its place among the trials that run at once, from 0. No other running trial has it.
    pub(super) fn place(&self) -> u32 {
        self.place
    }

    /// Sets a rest: the next trial in this place begins at least `rest` after this one's end.
    pub(super) fn rest(&mut self, rest: Nanos) {
        self.rest = rest;
    }

    /// Marks that no trial began in it.
    pub(super) fn waste(&mut self) {
        self.wasted = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (mut state, now) = (self.queue.lock(), Monotonic.now());
        state.running -= 1;
        state.taken.remove(&self.place);
        if let Some(held) = state.held.get_mut(&self.origin) {
            *held -= 1;
        }
        state.held.retain(|_, held| *held > 0);
        state.account(self, now);
        if self.rest > Nanos::ZERO {
            state.resting.push(now + self.rest);
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
            QueuePlace::Now(_) => None,
            QueuePlace::At(at) => panic!("resting until {at}"),
            QueuePlace::Behind(n) => Some(n),
            QueuePlace::PushedOut => panic!("pushed out"),
        }
    }

    fn turn(ticket: &Ticket) -> Turn {
        match ticket.place(Monotonic.now()) {
            QueuePlace::Now(turn) => turn,
            QueuePlace::At(at) => panic!("resting until {at}"),
            QueuePlace::Behind(n) => panic!("{n} ahead"),
            QueuePlace::PushedOut => panic!("pushed out"),
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
    fn a_trial_need_not_wait_until_those_before_it_have_taken_their_free_turns() {
        let queue = Queue::new(2, 16);
        let [a, b, c] = [(); 3].map(|()| queue.enter(ip(1)).ok().unwrap());
        let _second = turn(&b);
        assert_eq!(behind(&c), Some(2), "the free turn is a's");
        let _first = turn(&a);
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
        let QueuePlace::At(at) = b.place(now) else { panic!("not told when") };
        assert!(at > now && at <= now + Nanos::from_secs(1_000));
        assert!(matches!(b.place(at), QueuePlace::Now(_)));
    }

    /// Three origins fill the line; a fourth gets the last place of the origin with most.
    #[test]
    fn a_full_line_has_a_share_for_each_origin() {
        let queue = Queue::new(1, 4);
        let _running = turn(&queue.enter(ip(9)).ok().unwrap());
        let [a, b, c, d] = [1, 1, 1, 2].map(|last| queue.enter(ip(last)).ok().unwrap());
        assert!(queue.enter(ip(1)).is_err(), "an origin makes no room for itself");
        let e = queue.enter(ip(3)).ok().unwrap();
        assert!(readable(c.as_fd(), Nanos::ZERO).unwrap());
        assert!(matches!(c.place(Monotonic.now()), QueuePlace::PushedOut));
        assert_eq!([&a, &b, &d, &e].map(behind), [1, 4, 2, 3].map(Some), "each origin in turn");
        assert!(queue.enter(ip(2)).is_err(), "one more would only change who is crowded out");
        assert!(queue.enter(ip(4)).is_ok(), "10.0.0.1 still has two");
    }

    /// Eight openers of one origin that never begin, and a client that arrives after all of them.
    #[test]
    fn a_crowd_of_one_origin_delays_another_by_one_turn_and_not_by_eight() {
        let queue = Queue::new(1, 16);
        let crowd: Vec<Ticket> = (0..8).map(|_| queue.enter(ip(1)).ok().unwrap()).collect();
        let mut first = turn(&crowd[0]);
        let honest = queue.enter(ip(2)).ok().unwrap();
        assert_eq!(behind(&honest), Some(1), "after the one that runs");
        assert_eq!(behind(&crowd[1]), Some(2));
        assert!(queue.is_waited_for(ip(1)) && queue.is_waited_for(ip(2)));
        first.waste();
        drop(first);
        drop(turn(&honest));
        // Its next trial goes before the crowd's, too: their wasted time counts.
        let [again, other] = [2, 3].map(|last| queue.enter(ip(last)).ok().unwrap());
        assert_eq!([&crowd[1], &again, &other].map(behind), [Some(2), Some(1), None]);
    }

    /// In virtual time: an origin with long trials, and one with short ones.
    #[test]
    fn what_counts_is_the_time_that_an_origin_had() {
        let mut state = QueueState::default();
        let queue = Queue::new(1, 16);
        let [long, short] = [ip(1), ip(2)];
        let (mut now, mut had) = (Nanos::ZERO, [Nanos::ZERO; 2]);
        // Both always wait.
        state.line = [long, short]
            .map(|origin| Waiter { id: 0, origin, wake: UnixStream::pair().unwrap().0 })
            .into();
        for _ in 0..1_000 {
            let at = state.order()[0];
            let (origin, took) = (state.line[at].origin, Nanos::from_secs([30, 1][at]));
            let tag = state.tag(origin);
            state.clock = tag;
            let (queue, rest) = (Arc::clone(&queue), Nanos::ZERO);
            let turn = Turn { queue, place: 0, origin, tag, since: now, rest, wasted: false };
            now += took;
            had[at] += took;
            state.account(&turn, now);
            // The queue never assigned it, and must not get it back.
            std::mem::forget(turn);
        }
        let share = had[0].0 as f64 / now.0 as f64;
        assert!((0.45..0.55).contains(&share), "{share}");
    }
}

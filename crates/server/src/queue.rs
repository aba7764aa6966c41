//! Queue of trials: a few run at once, the others wait. The order is fair by origin, as in start-time fair queueing
//! (Goyal, Vin, Cheng, SIGCOMM 1996): it follows from the time for which an origin's trials held a turn, and not from
//! the number of its waiting trials. Trials of one origin keep the order of their arrival.
//!
//! A client of another program does not wait in line, but asks again. Between two questions its origin's claim stands in
//! line for it, so that an origin that asks more often does not go first. A claim that lets its turn pass, though others
//! wait behind it, is charged like a turn in which no trial began.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadheat_base::origins::{Admission, Shares, origin};

use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Queue of running and waiting trials.
pub(super) struct Queue {
    turns: u32,
    room: usize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    running: u32,
    /// Number of running turns in which no trial has begun.
    unused: u32,
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
    kind: WaiterKind,
}

enum WaiterKind {
    /// Trial whose session waits to be woken.
    Trial(UnixStream),
    /// Claim of clients that ask again, until this time.
    Claim(Nanos),
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
    has_begun: AtomicBool,
}

/// Largest number of origins with a time of their own. Above it the origin with the least time is dropped.
const MOST_ORIGINS: usize = 65_536;

/// Assumed length of a turn while it is unknown.
const TURN: Nanos = Nanos::from_secs(1);

/// Time that is charged for a turn in which no trial began, beside the time that it took: an origin that wastes turns
/// waits behind origins that use theirs.
const WASTE: Nanos = Nanos::from_secs(60);

/// Time for which a claim stands in line after the last question. Clients ask again after a second, or sooner.
const CLAIM: Nanos = Nanos::from_secs(3);

/// Place of a ticket in the queue.
pub(super) enum QueuePlace {
    /// Now: the turn is granted.
    Now(Turn),
    /// Next, and may run from this time on, or once the claims before it are over at this time.
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
        state.end_claims(self.turns, Monotonic.now());
        let id = state.join(self, origin, WaiterKind::Trial(wake))?;
        Ok(Ticket { queue: Arc::clone(self), id, woken })
    }

    /// Takes a turn for a client that asks at `now` and does not wait; `None` if there is none, or if it is another
    /// origin's. The claim of its own origin then stands in line.
    pub(super) fn ask(self: &Arc<Queue>, peer: IpAddr, now: Nanos) -> Option<Turn> {
        let mut state = self.lock();
        let id = state.claim(self, origin(peer), now)?;
        match state.place(self, id, now) {
            QueuePlace::Now(turn) => Some(turn),
            QueuePlace::At(_) | QueuePlace::Behind(_) | QueuePlace::PushedOut => None,
        }
    }

    /// Has the claim of an origin stand in line, or stand longer, without a turn for it.
    pub(super) fn knock(self: &Arc<Queue>, peer: IpAddr, now: Nanos) {
        let _ = self.lock().claim(self, origin(peer), now);
    }

    /// Returns the time at which the first turn that is free has rested; `None` if none rests.
    pub(super) fn rested_at(&self, now: Nanos) -> Option<Nanos> {
        self.lock().rested_at(self.turns).filter(|at| *at > now)
    }

    /// Returns true if a turn may be free within seconds: no trial has begun in it, or it is kept for a claim.
    pub(super) fn is_soon_free(&self, now: Nanos) -> bool {
        let mut state = self.lock();
        state.unused > 0 || state.free(self.turns, now) > 0
    }

    /// Returns true if a trial of another origin than `peer` waits.
    pub(super) fn is_waited_for(&self, peer: IpAddr) -> bool {
        let (own, now) = (origin(peer), Monotonic.now());
        self.lock().line.iter().any(|waiter| waiter.origin != own && !waiter.is_over(now))
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
        let waste = if turn.is_used() { Nanos::ZERO } else { WASTE };
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

    /// Puts a waiter at the end of the line; the error is the reason why there is no room for it.
    fn join(&mut self, queue: &Queue, origin: IpAddr, kind: WaiterKind) -> Result<u64, String> {
        let is_free = self.line.is_empty() && self.running < queue.turns;
        if self.line.len() >= queue.room && !is_free && !self.push_out(origin) {
            return Err(format!(
                "{} trials are waiting for their turn already; try again later",
                self.line.len()
            ));
        }
        let id = self.next;
        self.next += 1;
        self.line.push(Waiter { id, origin, kind });
        Ok(id)
    }

    /// Returns the claim of an origin, which stands in line from now on; `None` if there is no room for it.
    fn claim(&mut self, queue: &Queue, origin: IpAddr, now: Nanos) -> Option<u64> {
        self.end_claims(queue.turns, now);
        let until = now + CLAIM;
        let own = self.line.iter_mut().find_map(|waiter| match &mut waiter.kind {
            WaiterKind::Claim(own) if waiter.origin == origin => {
                *own = until;
                Some(waiter.id)
            }
            _ => None,
        });
        own.or_else(|| self.join(queue, origin, WaiterKind::Claim(until)).ok())
    }

    /// Removes claims that are over. A claim is charged if a turn was free for it while others waited behind it.
    fn end_claims(&mut self, turns: u32, now: Nanos) {
        if !self.line.iter().any(|waiter| waiter.is_over(now)) {
            return;
        }
        let free = self.free(turns, now);
        let order = self.order();
        let is_late = |place: usize| self.line[order[place]].is_over(now);
        let wasted: Vec<IpAddr> = (0..free.min(order.len().saturating_sub(1)))
            .filter(|place| is_late(*place))
            .map(|place| self.line[order[place]].origin)
            .collect();
        for origin in wasted {
            let finish = self.tag(origin) + WASTE;
            self.finished.insert(origin, finish);
        }
        self.line.retain(|waiter| !waiter.is_over(now));
        self.wake_all();
    }

    /// Returns the place of a waiter at `now`; takes the turn if it has come.
    fn place(&mut self, queue: &Arc<Queue>, id: u64, now: Nanos) -> QueuePlace {
        self.end_claims(queue.turns, now);
        let order = self.order();
        let before = order.iter().position(|at| self.line[*at].id == id);
        let Some(before) = before else { return QueuePlace::PushedOut };
        // It takes its turn at once if turns are free for all before it, too, though these have not looked yet.
        let free = self.free(queue.turns, now);
        if before < free {
            return QueuePlace::Now(self.grant(queue, &order, before, now));
        }
        if before == 0
            && let Some(at) = self.rested_at(queue.turns)
        {
            return QueuePlace::At(at);
        }
        let ends = order[..before].iter().map(|at| match self.line[*at].kind {
            WaiterKind::Claim(until) => Some(until),
            WaiterKind::Trial(_) => None,
        });
        // Nothing wakes it once a claim is over that has a turn free for it.
        if free > 0
            && let Some(until) = ends.flatten().min()
        {
            return QueuePlace::At(until + Nanos(1));
        }
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        QueuePlace::Behind(before.saturating_add(self.running))
    }

    /// Gives a turn to the waiter that is so far behind in the order.
    fn grant(&mut self, queue: &Arc<Queue>, order: &[usize], before: usize, now: Nanos) -> Turn {
        let origin = self.line.remove(order[before]).origin;
        self.running += 1;
        self.unused += 1;
        let tag = self.tag(origin);
        if before == 0 {
            self.clock = tag;
        }
        *self.held.entry(origin).or_default() += 1;
        self.wake_all();
        let place = (0..).find(|place| !self.taken.contains(place)).unwrap_or(0);
        self.taken.insert(place);
        let (queue, rest) = (Arc::clone(queue), Nanos::ZERO);
        Turn { queue, place, origin, tag, since: now, rest, has_begun: AtomicBool::new(false) }
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
        let shares = Shares { in_all: self.line.len(), of_one: usize::MAX };
        let origins = self.line.iter().rev().map(|waiter| waiter.origin);
        let Admission::Replaces(back) = shares.admit(newcomer, origins) else { return false };
        // It sees that its place is gone at its next look.
        self.line.remove(self.line.len() - 1 - back).wake();
        true
    }

    fn wake_all(&self) {
        self.line.iter().for_each(Waiter::wake);
    }
}

impl Waiter {
    fn wake(&self) {
        if let WaiterKind::Trial(wake) = &self.kind {
            // A full pipe means that it has been woken often enough.
            let _ = { wake }.write(&[1]);
        }
    }

    /// Returns true for a claim whose time has passed.
    fn is_over(&self, now: Nanos) -> bool {
        matches!(self.kind, WaiterKind::Claim(until) if until < now)
    }
}

impl Ticket {
    /// Returns the place of this ticket at `now`; takes the turn if it has come.
    pub(super) fn place(&self, now: Nanos) -> QueuePlace {
        let mut drained = [0; 64];
        while matches!((&self.woken).read(&mut drained), Ok(n) if n > 0) {}
        self.queue.lock().place(&self.queue, self.id, now)
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

    /// Marks that its trial has begun. A turn in which none begins is charged as wasted.
    pub(super) fn begin(&self) {
        let mut state = self.queue.lock();
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            state.unused -= 1;
        }
    }

    fn is_used(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (mut state, now) = (self.queue.lock(), Monotonic.now());
        state.running -= 1;
        state.unused -= u32::from(!self.is_used());
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
    use deadheat_datapath::transport::handover::readable;

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
        let first = turn(&crowd[0]);
        let honest = queue.enter(ip(2)).ok().unwrap();
        assert_eq!(behind(&honest), Some(1), "after the one that runs");
        assert_eq!(behind(&crowd[1]), Some(2));
        assert!(queue.is_waited_for(ip(1)) && queue.is_waited_for(ip(2)));
        drop(first);
        let used = turn(&honest);
        used.begin();
        drop(used);
        // Its next trial goes before the crowd's, too: their wasted time counts.
        let [again, other] = [2, 3].map(|last| queue.enter(ip(last)).ok().unwrap());
        assert_eq!([&crowd[1], &again, &other].map(behind), [Some(2), Some(1), None]);
    }

    /// Returns times after now.
    fn times() -> impl Fn(u64) -> Nanos {
        let start = Monotonic.now();
        move |secs| start + Nanos::from_secs(secs)
    }

    /// Four loops of one origin that never begin a trial, and a client of another that asks every second.
    #[test]
    fn who_asks_again_has_its_turn_before_who_wastes_turns() {
        let (queue, at) = (Queue::new(1, 16), times());
        let crowd = queue.ask(ip(1), at(0)).unwrap();
        assert!(queue.ask(ip(2), at(0)).is_none());
        for _ in 0..100 {
            assert!(queue.ask(ip(1), at(1)).is_none(), "the crowd asks more often");
        }
        drop(crowd);
        assert!(queue.ask(ip(1), at(2)).is_none(), "the turn is the other's");
        let honest = queue.ask(ip(2), at(2)).unwrap();
        honest.begin();
        assert!(queue.ask(ip(1), at(2)).is_none());
        drop(honest);
        assert!(
            queue.ask(ip(2), at(3)).is_some(),
            "and so is the next: a wasted turn counts as a minute"
        );
    }

    #[test]
    fn a_claim_that_nobody_takes_up_ends_and_is_charged_where_others_waited() {
        let (queue, at) = (Queue::new(1, 16), times());
        let first = queue.ask(ip(9), at(0)).unwrap();
        assert!(queue.ask(ip(1), at(0)).is_none() && queue.ask(ip(2), at(1)).is_none());
        drop(first);
        assert!(queue.ask(ip(2), at(2)).is_none(), "the first asked before it");
        let turn = queue.ask(ip(2), at(4)).unwrap();
        turn.begin();
        assert!(queue.ask(ip(1), at(4)).is_none() && queue.ask(ip(3), at(4)).is_none());
        drop(turn);
        assert!(queue.ask(ip(1), at(5)).is_none(), "it let a turn pass");
        assert!(queue.ask(ip(3), at(5)).is_some());
        // Alone it is charged for nothing.
        let queue = Queue::new(1, 16);
        let first = queue.ask(ip(9), at(0)).unwrap();
        assert!(queue.ask(ip(1), at(0)).is_none());
        drop(first);
        assert!(queue.ask(ip(2), at(10)).is_some());
    }

    #[test]
    fn a_trial_that_waits_behind_a_claim_is_told_when_to_look_again() {
        let (queue, at) = (Queue::new(1, 16), times());
        let running = queue.ask(ip(9), at(0)).unwrap();
        queue.knock(ip(1), at(0));
        let trial = queue.enter(ip(2)).ok().unwrap();
        drop(running);
        let QueuePlace::At(until) = trial.place(at(1)) else { panic!("not told when") };
        assert!(until > at(3) && until < at(4), "{until}");
        assert!(matches!(trial.place(until), QueuePlace::Now(_)));
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
            .map(|origin| Waiter { id: 0, origin, kind: WaiterKind::Claim(Nanos(u64::MAX)) })
            .into();
        for _ in 0..1_000 {
            let at = state.order()[0];
            let (origin, took) = (state.line[at].origin, Nanos::from_secs([30, 1][at]));
            let tag = state.tag(origin);
            state.clock = tag;
            let (queue, rest) = (Arc::clone(&queue), Nanos::ZERO);
            let has_begun = AtomicBool::new(true);
            let turn = Turn { queue, place: 0, origin, tag, since: now, rest, has_begun };
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

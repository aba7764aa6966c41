//! Dual queue with coupled proportional integral control (DualPI2; RFC 9332, appendix A): L4S packets (ECT(1) and CE)
//! have a short queue of their own, the others one with a target. A controller on the longer of the two delays gives
//! a probability p: classic packets are dropped or marked with p², L4S packets marked with 2p, or if they waited for
//! more than a millisecond. Gains, period, step and scheduler are the defaults of Linux's `sch_dualpi2` (6.17).

use super::draw::{Model, Stream, unit};
use super::packet::{Item, Place};
use super::queue::Fifo;
use deadheat_base::time::Nanos;

/// Time between two updates of the probability.
const PERIOD: u64 = 16_000_000;
/// Gains for the distance from the target and for the change, per second.
const ALPHA: f64 = 41.0 / 256.0;
const BETA: f64 = 819.0 / 256.0;
/// Coupling factor: flows of both kinds with equal round trips get equal shares (RFC 9332, section 2.1).
const COUPLING: f64 = 2.0;
/// Waiting time above which an L4S packet is marked.
const STEP: u64 = 1_000_000;
/// Weight of the classic queue, in percent of the bytes that leave while both queues wait.
const CLASSIC: i64 = 10;
/// Bytes of the packet for which the scheduler's first credit is meant, before any has arrived.
const USUAL: u64 = 1_500;

/// Both queues and their controller.
#[derive(Debug)]
pub(super) struct Dual<H> {
    low: Fifo<H>,
    classic: Fifo<H>,
    target: u64,
    draws: Stream,
    probability: f64,
    old_delay: u64,
    next: u64,
    /// Weighted bytes by which the L4S queue is ahead of its share; the classic queue is next if it is above 0.
    credit: i64,
}

impl<H: Copy> Dual<H> {
    pub(super) fn new(target: Nanos, place: Place) -> Dual<H> {
        Dual {
            low: Fifo::new(),
            classic: Fifo::new(),
            target: target.0,
            draws: Stream::new(place, Model::Early),
            probability: 0.0,
            old_delay: 0,
            next: PERIOD,
            credit: first_credit(USUAL),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.low.items.len() + self.classic.items.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.low.bytes + self.classic.bytes
    }

    pub(super) fn push(&mut self, item: Item<H>, largest: u64) {
        if self.len() == 0 {
            self.credit = first_credit(largest);
        }
        let queue = if item.codepoint.is_l4s() { &mut self.low } else { &mut self.classic };
        queue.push(item);
    }

    /// Takes the packet that is next in turn. Nothing is dropped or marked by chance while less than two of the
    /// `largest` packets wait behind it.
    pub(super) fn take(
        &mut self,
        (now, largest): (u64, u64),
        mut early: impl FnMut(Item<H>),
    ) -> Option<Item<H>> {
        self.tick(now);
        loop {
            let waits = [&self.low, &self.classic].map(|queue| !queue.items.is_empty());
            let is_low = waits[0] && (!waits[1] || self.credit <= 0);
            let queue = if is_low { &mut self.low } else { &mut self.classic };
            let (item, _) = queue.pop()?;
            match self.judged(item, now, largest) {
                Some(kept) => {
                    let weight = if is_low { CLASSIC } else { CLASSIC - 100 };
                    if waits == [true, true] {
                        self.credit += weight.saturating_mul(kept.wire as i64);
                    }
                    return Some(kept);
                }
                None => early(item),
            }
        }
    }

    /// Removes a packet of either queue.
    pub(super) fn pop(&mut self) -> Option<Item<H>> {
        let popped = self.low.pop().or_else(|| self.classic.pop());
        popped.map(|(item, _)| item)
    }

    /// Returns the packet, marked or not; `None` if it is dropped. Where the coupled probability is above 1, marks do not
    /// slow the senders enough: both queues drop with p² (RFC 9332, section 4.2.2).
    fn judged(&self, item: Item<H>, now: u64, largest: u64) -> Option<Item<H>> {
        let (p, is_low) = (self.probability, item.codepoint.is_l4s());
        let is_overloaded = COUPLING * p > 1.0;
        let draw = unit(self.draws.draw(item.seq));
        let by_chance = draw < if is_low { COUPLING * p } else { p * p };
        let hit = by_chance && self.bytes() >= 2 * largest;
        let must_drop = if is_low {
            is_overloaded && draw < p * p
        } else {
            is_overloaded || !item.codepoint.is_capable()
        };
        if hit && must_drop {
            return None;
        }
        let by_step = is_low && now.saturating_sub(item.arrived) > STEP;
        Some(Item { is_marked: hit || by_step, ..item })
    }

    /// Makes the updates that are due until `now`. Once one changes nothing, the later ones do not either.
    pub(super) fn tick(&mut self, now: u64) {
        while self.next <= now && self.next < u64::MAX {
            let before = (self.probability, self.old_delay);
            self.update(self.next);
            if before == (self.probability, self.old_delay) {
                self.next += (now - self.next) / PERIOD * PERIOD;
            }
            self.next = self.next.saturating_add(PERIOD);
        }
    }

    fn update(&mut self, now: u64) {
        let waited = |queue: &Fifo<H>| {
            queue.items.front().map_or(0, |item| now.saturating_sub(item.arrived))
        };
        let delay = waited(&self.low).max(waited(&self.classic));
        let seconds = |ns: u64| ns as f64 / 1e9;
        let step = ALPHA * (seconds(delay) - seconds(self.target))
            + BETA * (seconds(delay) - seconds(self.old_delay));
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        self.old_delay = delay;
    }
}

/// Credit after a pause: the L4S queue begins.
fn first_credit(largest: u64) -> i64 {
    (2 * CLASSIC - 100).saturating_mul(largest as i64)
}

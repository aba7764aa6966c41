//! Controlled delay (RFC 8289): packets are dropped at the head of the queue once they have waited longer than
//! `target` for a whole `interval`, then at intervals that shrink with the number of drops.

use super::packet::Item;
use crate::network::Ecn;
use deadheat_base::time::Nanos;

/// Number of intervals after which dropping starts afresh; before, it continues at the rate at which it ended (RFC
/// 8289, section 5.6).
const RECENT: u64 = 16;

/// Parameters of CoDel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Law {
    target: u64,
    interval: u64,
    ecn: Ecn,
}

impl Law {
    pub(super) fn new(target: Nanos, interval: Nanos, ecn: Ecn) -> Law {
        Law { target: target.0, interval: interval.0.max(1), ecn }
    }

    /// Returns the time of the next drop.
    fn next(&self, from: u64, count: u32) -> u64 {
        let step = self.interval as f64 / f64::from(count.max(1)).sqrt();
        from.saturating_add(step as u64)
    }
}

/// State of CoDel for one queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Codel {
    /// Time at which packets will have waited too long for an interval, if the queue stays long.
    above_from: Option<u64>,
    is_dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
}

impl Codel {
    /// Takes the packet to serve at `now`. `pop` takes one from the queue and returns the bytes left; `early`
    /// receives the dropped packets. With no more than `largest` bytes waiting, none is dropped.
    pub(super) fn take<H: Copy>(
        &mut self,
        law: &Law,
        (now, largest): (u64, u64),
        mut pop: impl FnMut() -> Option<(Item<H>, u64)>,
        mut early: impl FnMut(Item<H>),
    ) -> Option<Item<H>> {
        let mut look = |codel: &mut Codel| codel.look(law, now, largest, pop());
        let (mut head, mut is_too_long) = look(self);
        if !self.is_dropping {
            if let (true, Some(item)) = (is_too_long, head) {
                self.enter(law, now);
                return match marked(law, item) {
                    Some(item) => Some(item),
                    None => {
                        early(item);
                        look(self).0
                    }
                };
            }
            return head;
        }
        if !is_too_long {
            self.is_dropping = false;
        }
        while let (true, Some(item)) = (self.is_dropping, head) {
            if now < self.drop_next {
                break;
            }
            self.count = self.count.saturating_add(1);
            if let Some(item) = marked(law, item) {
                self.drop_next = law.next(self.drop_next, self.count);
                return Some(item);
            }
            early(item);
            (head, is_too_long) = look(self);
            if !is_too_long {
                self.is_dropping = false;
            } else {
                self.drop_next = law.next(self.drop_next, self.count);
            }
        }
        head
    }

    /// Starts to drop, faster if it did so a short time ago.
    fn enter(&mut self, law: &Law, now: u64) {
        self.is_dropping = true;
        let more = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < RECENT.saturating_mul(law.interval);
        self.count = if more > 1 && recent { more } else { 1 };
        self.drop_next = law.next(now, self.count);
        self.last_count = self.count;
    }

    fn look<H: Copy>(
        &mut self,
        law: &Law,
        now: u64,
        largest: u64,
        popped: Option<(Item<H>, u64)>,
    ) -> (Option<Item<H>>, bool) {
        let Some((item, left)) = popped else {
            self.above_from = None;
            return (None, false);
        };
        if now.saturating_sub(item.arrived) < law.target || left <= largest {
            self.above_from = None;
            return (Some(item), false);
        }
        let from = *self.above_from.get_or_insert(now.saturating_add(law.interval));
        let is_too_long = now >= from;
        (Some(item), is_too_long)
    }
}

/// Marks the packet, if it may be marked instead of dropped.
fn marked<H: Copy>(law: &Law, item: Item<H>) -> Option<Item<H>> {
    (law.ecn == Ecn::Marks && item.codepoint.is_capable())
        .then_some(Item { is_marked: true, ..item })
}

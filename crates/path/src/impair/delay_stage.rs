//! Delay stage behind the queue: delay, jitter, and reordering.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::packet::{Item, Turn};
use crate::network::{Impairments, Order};

/// Packet with the time at which it leaves the stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving<H> {
    pub(super) at: u64,
    pub(super) seq: u64,
    pub(super) arrived: u64,
    pub(super) is_copy: bool,
    /// Time spent in the queue.
    pub(super) queued: u64,
    pub(super) handle: H,
    pub(super) bytes: u32,
    pub(super) flip: Option<u32>,
    pub(super) is_marked: bool,
    pub(super) is_cut: bool,
    turn: Turn,
}

impl<H> Leaving<H> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.seq)
    }
}

impl<H> PartialEq for Leaving<H> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<H> Eq for Leaving<H> {}

impl<H> PartialOrd for Leaving<H> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Leaving<H> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Packets under way, the next one first.
#[derive(Debug)]
enum InFlight<H> {
    /// Ring: packets leave in the order in which they entered.
    Ring(VecDeque<Leaving<H>>),
    /// Heap: packets leave in the order of their times.
    Heap(BinaryHeap<Reverse<Leaving<H>>>),
}

/// Packets in the delay stage, which are all packets behind the queue.
#[derive(Debug)]
pub(super) struct DelayStage<H> {
    lane: InFlight<H>,
    /// Latest time of a packet that entered.
    latest: u64,
    depth: u64,
    patience: u64,
    /// Packets that are held back past their turn, with the number of packets that had passed by then.
    held: VecDeque<(Leaving<H>, u64)>,
    /// Number of packets that left in their turn, and the time of the last of them.
    passed: u64,
    passed_at: u64,
}

impl<H: Copy> DelayStage<H> {
    pub(super) fn new(model: &Impairments) -> DelayStage<H> {
        let free = model.jitter.as_ref().is_some_and(|jitter| jitter.order == Order::Free);
        let (depth, patience) =
            model.reorder.map_or((1, 0), |reorder| (reorder.depth.max(1), reorder.patience.0));
        DelayStage {
            lane: if free {
                InFlight::Heap(BinaryHeap::with_capacity(1_024))
            } else {
                InFlight::Ring(VecDeque::with_capacity(1_024))
            },
            latest: 0,
            depth: u64::from(depth),
            patience,
            held: VecDeque::new(),
            passed: 0,
            passed_at: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        let under_way = match &self.lane {
            InFlight::Ring(ring) => ring.len(),
            InFlight::Heap(heap) => heap.len(),
        };
        under_way + self.held.len()
    }

    /// Returns true if a packet that enters later may leave before the packets that are here.
    pub(super) fn may_be_overtaken(&self) -> bool {
        match &self.lane {
            InFlight::Ring(ring) => ring.is_empty(),
            InFlight::Heap(_) => true,
        }
    }

    /// Accepts a packet that leaves the server at `from`.
    #[inline]
    pub(super) fn push(&mut self, item: &Item<H>, from: u64, delay: u64, queued: u64) {
        let at = from.saturating_add(delay.saturating_add_signed(item.offset));
        let mut leaving = Leaving {
            at,
            seq: item.seq,
            arrived: item.arrived,
            is_copy: item.is_copy,
            queued,
            handle: item.handle,
            bytes: item.bytes,
            flip: item.flip,
            is_marked: item.is_marked,
            is_cut: item.is_cut,
            turn: item.turn,
        };
        match &mut self.lane {
            InFlight::Ring(ring) => {
                self.latest = self.latest.max(at);
                leaving.at = self.latest;
                ring.push_back(leaving);
            }
            InFlight::Heap(heap) => heap.push(Reverse(leaving)),
        }
    }

    fn first(&self) -> Option<&Leaving<H>> {
        match &self.lane {
            InFlight::Ring(ring) => ring.front(),
            InFlight::Heap(heap) => heap.peek().map(|Reverse(leaving)| leaving),
        }
    }

    fn pop_first(&mut self) -> Option<Leaving<H>> {
        match &mut self.lane {
            InFlight::Ring(ring) => ring.pop_front(),
            InFlight::Heap(heap) => heap.pop().map(|Reverse(leaving)| leaving),
        }
    }

    /// Returns the time at which the first held packet leaves: behind the last packet that it waits for, or when
    /// its patience is over.
    fn held_until(&self) -> Option<u64> {
        let (leaving, passed) = self.held.front()?;
        let enough = self.passed - passed >= self.depth;
        Some(if enough { self.passed_at } else { leaving.at.saturating_add(self.patience) })
    }

    /// Returns the next time at which [`DelayStage::peek`] may find a packet.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        let first = self.first().map(|leaving| leaving.at);
        match self.held_until() {
            Some(held) => Some(first.map_or(held, |at| at.min(held))),
            None => first,
        }
    }

    /// Returns the time and place of the next packet that leaves until `now`.
    #[inline]
    pub(super) fn peek(&mut self, now: u64) -> Option<(u64, u64)> {
        loop {
            let held = self.held_until();
            let first = self.first().map(|leaving| (leaving.at, leaving.seq, leaving.turn));
            let (at, seq, turn) = match (first, held) {
                (Some((at, seq, turn)), held) if held.is_none_or(|held| at < held) => {
                    (at, seq, turn)
                }
                (_, Some(held)) => (held, self.held.front()?.0.seq, Turn::Kept),
                (_, None) => return None,
            };
            if at > now {
                return None;
            }
            if turn == Turn::Kept {
                return Some((at, seq));
            }
            let leaving = self.pop_first()?;
            self.held.push_back((leaving, self.passed));
        }
    }

    /// Removes the packet that [`DelayStage::peek`] has found.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Leaving<H>> {
        let held = self.held_until();
        let first = self.first().map(|leaving| leaving.at);
        if let Some(held) = held.filter(|held| first.is_none_or(|at| *held <= at)) {
            let (leaving, _) = self.held.pop_front()?;
            return Some(Leaving { at: held, ..leaving });
        }
        let leaving = self.pop_first()?;
        self.passed += 1;
        self.passed_at = leaving.at;
        Some(leaving)
    }
}

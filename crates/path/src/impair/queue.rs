//! Queue before the rate: one queue or one for each flow, and the discipline that limits its length.

use std::collections::VecDeque;

use super::codel::{Codel, Law};
use super::dual::Dual;
use super::fair::Fair;
use super::packet::{Cause, Item, Place};
use super::pie::Pie;
use super::rate::Server;
use super::red::Red;
use crate::network::{Discipline, Ecn, Limit, Queue as Model};
use deadheat_base::time::Nanos;

/// Way in which a packet enters the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueEntry {
    /// Served at once: the server is free and no limit applies.
    Served,
    /// Has to wait, and so needs room in the queue.
    Waits,
}

/// Packets that the queue drops, with the reason.
pub(super) type QueueDrops<H> = VecDeque<(Item<H>, u64, Cause)>;

/// First-in, first-out queue.
#[derive(Debug)]
pub(super) struct Fifo<H> {
    pub(super) items: VecDeque<Item<H>>,
    pub(super) bytes: u64,
}

impl<H: Copy> Fifo<H> {
    pub(super) fn new() -> Fifo<H> {
        Fifo { items: VecDeque::with_capacity(1_024), bytes: 0 }
    }

    pub(super) fn push(&mut self, item: Item<H>) {
        self.bytes += item.wire;
        self.items.push_back(item);
    }

    pub(super) fn pop(&mut self) -> Option<(Item<H>, u64)> {
        let item = self.items.pop_front()?;
        self.bytes -= item.wire;
        Some((item, self.bytes))
    }
}

/// Queue before the server.
#[derive(Debug)]
pub(super) struct PacketQueue<H> {
    limit: Limit,
    ecn: Ecn,
    /// Largest packet so far with overhead: CoDel and PIE drop nothing while no more waits.
    largest: u64,
    kind: QueueKind<H>,
}

#[derive(Debug)]
enum QueueKind<H> {
    Tail(Fifo<H>),
    Codel(Fifo<H>, Law, Codel),
    Pie(Fifo<H>, Pie),
    Red(Fifo<H>, Red),
    Fair(Box<Fair<H>>, Law),
    Dual(Box<Dual<H>>),
}

/// Least capacity of a queue with a time as its limit, so that slow links still pass packets.
const LEAST_ROOM: u64 = 10 * 1_500;

impl<H: Copy> PacketQueue<H> {
    pub(super) fn new(model: &Model, place: Place) -> PacketQueue<H> {
        let fifo = Fifo::new();
        let kind = match model.discipline {
            Discipline::DropTail => QueueKind::Tail(fifo),
            Discipline::Codel { target, interval } => {
                QueueKind::Codel(fifo, Law::new(target, interval, model.ecn), Codel::default())
            }
            Discipline::FqCodel { target, interval } => {
                QueueKind::Fair(Box::new(Fair::new(place)), Law::new(target, interval, model.ecn))
            }
            Discipline::Pie { target } => QueueKind::Pie(fifo, Pie::new(target, place)),
            Discipline::Red => QueueKind::Red(fifo, Red::new(place)),
            Discipline::DualPi2 { target } => QueueKind::Dual(Box::new(Dual::new(target, place))),
        };
        PacketQueue { limit: model.limit, ecn: model.ecn, largest: 0, kind }
    }

    pub(super) fn len(&self) -> usize {
        match &self.kind {
            QueueKind::Tail(fifo)
            | QueueKind::Codel(fifo, ..)
            | QueueKind::Pie(fifo, _)
            | QueueKind::Red(fifo, _) => fifo.items.len(),
            QueueKind::Fair(fair, _) => fair.len(),
            QueueKind::Dual(dual) => dual.len(),
        }
    }

    fn bytes(&self) -> u64 {
        match &self.kind {
            QueueKind::Tail(fifo)
            | QueueKind::Codel(fifo, ..)
            | QueueKind::Pie(fifo, _)
            | QueueKind::Red(fifo, _) => fifo.bytes,
            QueueKind::Fair(fair, _) => fair.bytes(),
            QueueKind::Dual(dual) => dual.bytes(),
        }
    }

    /// Returns true if packets may be dropped when their turn comes, and not only when they arrive.
    pub(super) fn drops_heads(&self) -> bool {
        matches!(self.kind, QueueKind::Codel(..) | QueueKind::Fair(..) | QueueKind::Dual(_))
    }

    /// Accepts a packet, or drops it or others. `index` selects its draw.
    pub(super) fn offer(
        &mut self,
        mut item: Item<H>,
        (index, flow): (u64, u64),
        entry: QueueEntry,
        server: &mut Server,
        given: &mut QueueDrops<H>,
    ) {
        let now = item.arrived;
        self.largest = self.largest.max(item.wire);
        let room = match entry {
            QueueEntry::Served => Room { bytes: u64::MAX, packets: u64::MAX },
            QueueEntry::Waits => Room::of(self.limit, server, now),
        };
        let fits = room.holds(self.bytes() + item.wire, self.len() + 1);
        match &mut self.kind {
            // This discipline accepts the packet first and then drops others.
            QueueKind::Fair(fair, _) => {
                fair.push(item, flow);
                while !room.holds(fair.bytes(), fair.len()) {
                    fair.cut_fattest(|item| given.push_back((item, now, Cause::Full)));
                }
            }
            _ if !fits => given.push_back((item, now, Cause::Full)),
            QueueKind::Pie(fifo, pie) => {
                pie.tick(now);
                if pie.drops(index, fifo.bytes, self.largest) {
                    if !pie.may_mark(&item, self.ecn) {
                        given.push_back((item, now, Cause::Early));
                        return;
                    }
                    item.is_marked = true;
                }
                fifo.push(item);
            }
            QueueKind::Red(fifo, red) => {
                let filled = Room::of(self.limit, server, now).filled(fifo.bytes, fifo.items.len());
                let idle = red.idle_from.take().map_or(0, |from| now.saturating_sub(from));
                let idle = if idle > 0 { server.bytes_in(now, Nanos(idle)) } else { 0 };
                if red.hits(index, filled, idle) {
                    if self.ecn == Ecn::Ignored || !item.codepoint.is_capable() {
                        red.idle_from = fifo.items.is_empty().then_some(now);
                        given.push_back((item, now, Cause::Early));
                        return;
                    }
                    item.is_marked = true;
                }
                fifo.push(item);
            }
            QueueKind::Dual(dual) => {
                dual.tick(now);
                dual.push(item, self.largest);
            }
            QueueKind::Tail(fifo) | QueueKind::Codel(fifo, ..) => fifo.push(item),
        }
    }

    /// Removes all packets.
    pub(super) fn empty(&mut self, mut gone: impl FnMut(Item<H>)) {
        match &mut self.kind {
            QueueKind::Tail(fifo)
            | QueueKind::Codel(fifo, ..)
            | QueueKind::Pie(fifo, _)
            | QueueKind::Red(fifo, _) => {
                while let Some((item, _)) = fifo.pop() {
                    gone(item);
                }
            }
            QueueKind::Dual(dual) => {
                while let Some(item) = dual.pop() {
                    gone(item);
                }
            }
            QueueKind::Fair(fair, _) => {
                while fair.len() > 0 {
                    fair.cut_fattest(&mut gone);
                }
            }
        }
    }

    /// Removes the packet to serve at `now`, if any is left that is not dropped.
    pub(super) fn take(&mut self, now: u64, given: &mut QueueDrops<H>) -> Option<Item<H>> {
        let largest = self.largest;
        let early = |item| given.push_back((item, now, Cause::Early));
        match &mut self.kind {
            QueueKind::Tail(fifo) => fifo.pop().map(|(item, _)| item),
            QueueKind::Codel(fifo, law, codel) => {
                codel.take(law, (now, largest), || fifo.pop(), early)
            }
            QueueKind::Pie(fifo, pie) => {
                pie.tick(now);
                let (item, left) = fifo.pop()?;
                pie.seen(now.saturating_sub(item.arrived), left);
                Some(item)
            }
            QueueKind::Red(fifo, red) => {
                let (item, left) = fifo.pop()?;
                red.idle_from = (left == 0).then_some(now);
                Some(item)
            }
            QueueKind::Fair(fair, law) => fair.take(law, (now, largest), early),
            QueueKind::Dual(dual) => dual.take((now, largest), early),
        }
    }
}

/// Limits of the waiting packets.
#[derive(Debug, Clone, Copy)]
struct Room {
    bytes: u64,
    packets: u64,
}

impl Room {
    fn of(limit: Limit, server: &mut Server, now: u64) -> Room {
        let (bytes, packets) = match limit {
            Limit::Bytes(bytes) => (bytes, u64::MAX),
            Limit::Packets(packets) => (u64::MAX, packets),
            Limit::Time(span) => (server.bytes_in(now, span).max(LEAST_ROOM), u64::MAX),
        };
        Room { bytes, packets }
    }

    /// Returns the share of the room that this many bytes or packets take.
    fn filled(&self, bytes: u64, packets: usize) -> f64 {
        (bytes as f64 / self.bytes as f64).max(packets as f64 / self.packets as f64)
    }

    fn holds(&self, bytes: u64, packets: usize) -> bool {
        bytes <= self.bytes && packets as u64 <= self.packets
    }
}

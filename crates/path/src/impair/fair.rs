//! Fair queueing with controlled delay for each flow (RFC 8290): deficit round robin over queues that a hash of the
//! flow selects, new ones first.

use std::collections::VecDeque;

use super::codel::{Codel, Law};
use super::draw::{Model, Stream};
use super::packet::{Item, Place};

/// Number of queues (RFC 8290, section 5.2.2).
const QUEUES: usize = 1_024;
/// Bytes that a queue may send in a round: an Ethernet frame of 1500 bytes with its header (RFC 8290,
/// section 5.2.4).
const QUANTUM: i64 = 1_514;
/// Largest number of packets that are dropped at a time when there is no more room (RFC 8290, section 4.1).
const BATCH: usize = 64;
/// Index that stands for no slot.
const NONE: u32 = u32::MAX;

/// Set of all queues.
#[derive(Debug)]
pub(super) struct Fair<H> {
    queues: Vec<FlowQueue>,
    slots: Slots<H>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    len: usize,
    bytes: u64,
    spread: Stream,
}

/// Queue of one hash value, as a list of slots.
#[derive(Debug, Clone, Copy)]
struct FlowQueue {
    head: u32,
    tail: u32,
    bytes: u64,
    deficit: i64,
    /// True if it is in one of the two lists.
    active: bool,
    codel: Codel,
}

/// Packets of all queues, with links from each to the one behind it.
#[derive(Debug)]
struct Slots<H> {
    items: Vec<(Item<H>, u32)>,
    free: u32,
}

impl<H: Copy> Slots<H> {
    fn put(&mut self, item: Item<H>) -> u32 {
        let slot = self.free;
        if let Some(entry) = self.items.get_mut(slot as usize) {
            self.free = entry.1;
            *entry = (item, NONE);
            return slot;
        }
        self.items.push((item, NONE));
        (self.items.len() - 1) as u32
    }

    /// Removes the first packet of a queue, and returns the number of bytes left there.
    fn pop(&mut self, queue: &mut FlowQueue) -> Option<(Item<H>, u64)> {
        let entry = self.items.get_mut(queue.head as usize)?;
        let (item, next) = *entry;
        entry.1 = self.free;
        self.free = queue.head;
        queue.head = next;
        if next == NONE {
            queue.tail = NONE;
        }
        queue.bytes -= item.wire;
        Some((item, queue.bytes))
    }
}

impl<H: Copy> Fair<H> {
    pub(super) fn new(place: Place) -> Fair<H> {
        let empty = FlowQueue {
            head: NONE,
            tail: NONE,
            bytes: 0,
            deficit: 0,
            active: false,
            codel: Codel::default(),
        };
        Fair {
            queues: vec![empty; QUEUES],
            slots: Slots { items: Vec::with_capacity(1_024), free: NONE },
            new: VecDeque::with_capacity(QUEUES),
            old: VecDeque::with_capacity(QUEUES),
            len: 0,
            bytes: 0,
            spread: Stream::new(place, Model::Flow),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, item: Item<H>, flow: u64) {
        let number = (self.spread.draw(flow) % QUEUES as u64) as u16;
        let slot = self.slots.put(item);
        let queue = &mut self.queues[usize::from(number)];
        match self.slots.items.get_mut(queue.tail as usize) {
            Some(last) => last.1 = slot,
            None => queue.head = slot,
        }
        queue.tail = slot;
        queue.bytes += item.wire;
        self.len += 1;
        self.bytes += item.wire;
        if !queue.active {
            queue.active = true;
            queue.deficit = QUANTUM;
            self.new.push_back(number);
        }
    }

    /// Drops half of the bytes of the longest queue, at most 64 packets, from its head.
    pub(super) fn cut_fattest(&mut self, mut full: impl FnMut(Item<H>)) {
        let fattest = self.queues.iter_mut().max_by_key(|queue| (queue.bytes, queue.head != NONE));
        let Some(queue) = fattest else {
            return;
        };
        let keep = queue.bytes / 2;
        for _ in 0..BATCH {
            let Some((item, left)) = self.slots.pop(queue) else {
                return;
            };
            self.len -= 1;
            self.bytes -= item.wire;
            full(item);
            if left <= keep {
                return;
            }
        }
    }

    /// Takes the packet that is next in turn.
    pub(super) fn take(
        &mut self,
        law: &Law,
        (now, largest): (u64, u64),
        mut early: impl FnMut(Item<H>),
    ) -> Option<Item<H>> {
        loop {
            let (from_new, number) = match self.new.front() {
                Some(number) => (true, *number),
                None => (false, *self.old.front()?),
            };
            let queue = &mut self.queues[usize::from(number)];
            if queue.deficit <= 0 {
                queue.deficit += QUANTUM;
                self.rotate(from_new, number);
                continue;
            }
            let (len, bytes) = (&mut self.len, &mut self.bytes);
            let slots = &mut self.slots;
            let mut codel = queue.codel;
            let pop = || {
                let (item, left) = slots.pop(queue)?;
                *len -= 1;
                *bytes -= item.wire;
                Some((item, left))
            };
            let item = codel.take(law, (now, largest), pop, &mut early);
            queue.codel = codel;
            if let Some(item) = item {
                queue.deficit = queue.deficit.saturating_sub_unsigned(item.wire);
                return Some(item);
            }
            // An empty new queue takes a round among the old ones, so that it cannot return as new and starve them.
            if from_new && !self.old.is_empty() {
                self.rotate(from_new, number);
            } else {
                queue.active = false;
                if from_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
            }
        }
    }

    /// Moves the first queue of a list to the end of the old ones.
    fn rotate(&mut self, from_new: bool, number: u16) {
        if from_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
        self.old.push_back(number);
    }
}

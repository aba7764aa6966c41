//! Fate of each packet on one direction of a link: a pure function of the model, the seed and the packets'
//! arrivals. No clock, no socket: time is an argument, in nanoseconds since the channel began.
//!
//! A packet that a firewall blocks goes no further, and has no number. Any other packet passes three stages. At the
//! entrance, in this order: the loss model, duplication, corruption. Then the queue, and the server that models the
//! rate. Then delay, jitter and reordering. Loss acts before the queue, as in netem and dummynet, so a lost packet
//! takes no capacity: whether a packet is lost depends on no other sender's load.
//!
//! Randomness is counter-based: each draw is a hash of seed, link, direction, model and packet number ([`draw`]),
//! so that no model's draws depend on another's, and the same sequence of packets has the same fates. Changes over
//! time (outages, traces) are fixed by the seed before the first packet, and are the same for every sender.
//!
//! Times are logical: a departure follows from arrivals and the model, never from the moment at which the owner
//! calls.

use std::collections::VecDeque;

use self::draw::{COPY, Chance, Model, Stream, fold};
use self::log::{Log, LossRun};
use self::loss::Losses;
use self::packet::{Cause, Changes, Departure, DroppedPacket, End, Item, Packet, Place, Turn};
use self::queue::{PacketQueue, QueueDrops, QueueEntry};
use self::queue_times::QueueTimes;
use self::rate::{Server, Steps};
use super::block::Block;
use super::down::DownTimes;
use super::network::{Impairments, Jitter, Rate};
use super::trace::Content;
use crate::impair::delay_stage::DelayStage;
use crate::measurements::{PacketOutcomes, QueueCourse};
use deadheat_base::time::Nanos;

mod alone;
mod codel;
mod delay_stage;
mod down;
pub mod draw;
mod dual;
pub mod expected;
mod fair;
mod firewall;
pub mod log;
mod loss;
pub mod packet;
mod pie;
mod queue;
mod queue_times;
mod rate;
mod red;
mod shape;
#[cfg(test)]
mod tests;

/// Channel: one direction of one link, from the arrival of packets to their departures. `H` is the owner's handle of
/// a packet.
#[derive(Debug)]
pub struct Channel<H> {
    blocks: Vec<Block>,
    down: DownTimes,
    luck: Luck,
    losses: Losses,
    bottleneck: Option<Bottleneck<H>>,
    delay: Delay,
    way: DelayStage<H>,
    /// Dropped packets that are not reported yet.
    gone: VecDeque<DroppedPacket<H>>,
    /// Packets that the queue has dropped and that are not counted yet.
    given: QueueDrops<H>,
    log: Log,
    fates: PacketOutcomes,
    /// Number of packets and copies that have entered.
    entered: u64,
    /// Number of the packet after the last lost one.
    behind_loss: u64,
    /// True if the loss model dropped the last packet.
    was_lost: bool,
    /// Lowest sequence number that would still be in order: one more than the highest `seq` delivered.
    expected: u64,
    /// Latest arrival time seen.
    now: u64,
}

/// Random draws at the entrance, and the probabilities they are compared with.
#[derive(Debug)]
struct Luck {
    duplicate: (Chance, Stream),
    corrupt: (Chance, Stream),
    bit: Stream,
    reorder: (Chance, Stream),
    jitter: Option<Jitter>,
    offset: Stream,
}

/// Queue, and the server behind it.
#[derive(Debug)]
struct Bottleneck<H> {
    queue: PacketQueue<H>,
    times: QueueTimes,
    server: Server,
    overhead: u64,
    /// Time since which the head of the queue could be served, were the server free.
    since: u64,
    /// Time at which the next packet begins to leave; the end of time while none waits.
    due: u64,
    /// Time at which the last packet had left.
    out: u64,
    down: DownTimes,
    /// Time at which the link next goes down; the end of time if it never does.
    goes_down: u64,
}

/// Propagation delay without jitter.
#[derive(Debug)]
enum Delay {
    Fixed(u64),
    /// Delays of a trace, and the model's delay for steps without one.
    Steps(u64, Box<Steps>),
}

impl<H: Copy> Channel<H> {
    /// Creates an empty channel at its time 0.
    pub fn new(model: &Impairments, place: Place) -> Channel<H> {
        let bottleneck = Server::new(&model.rate).map(|server| Bottleneck {
            queue: PacketQueue::new(&model.queue, place),
            times: QueueTimes::new(),
            server,
            overhead: u64::from(model.overhead),
            since: 0,
            due: u64::MAX,
            out: 0,
            down: model.down.clone(),
            goes_down: model.down.iter().next().map_or(u64::MAX, |time| time.from.0),
        });
        Channel {
            blocks: model.block.clone(),
            down: model.down.clone(),
            luck: Luck::new(model, place),
            losses: Losses::new(model, place),
            bottleneck,
            delay: Delay::new(model),
            way: DelayStage::new(model),
            gone: VecDeque::with_capacity(256),
            given: VecDeque::with_capacity(64),
            log: Log::new(model),
            fates: PacketOutcomes::default(),
            entered: 0,
            behind_loss: 0,
            was_lost: false,
            expected: 0,
            now: 0,
        }
    }

    /// Accepts a packet that arrives at `now`, which must be no earlier than the times of earlier calls. Returns
    /// its number of departures: 1, or 2 if it is duplicated.
    #[inline]
    pub fn arrive(&mut self, now: Nanos, packet: &Packet, handle: H) -> u32 {
        if self.blocks(now, packet) {
            return self.block(now, packet, handle);
        }
        let is_lost = self.losses.take(self.number(), now.0.max(self.now));
        self.was_lost = is_lost;
        self.follow(now, packet, handle)
    }

    /// Accepts a packet as [`Channel::arrive`] does, but without a new loss decision: the decision about the packet
    /// before holds for this one, too.
    #[inline]
    pub fn follow(&mut self, now: Nanos, packet: &Packet, handle: H) -> u32 {
        if self.blocks(now, packet) {
            return self.block(now, packet, handle);
        }
        let index = self.number();
        let now = self.come(now, packet);
        if self.was_lost {
            self.lose(index, now, handle);
            return 1;
        }
        let (duplicate, stream) = self.luck.duplicate;
        if !duplicate.hits(stream, index) {
            self.enter(index, now, packet, handle);
            return 1;
        }
        self.fates.duplicated += 1;
        self.decided(index, 2);
        self.enter(index, now, packet, handle);
        self.enter(index | COPY, now, packet, handle);
        2
    }

    /// Returns the time of the next call of [`Channel::depart`], if nothing more arrives: no departure is earlier.
    /// With CoDel, reordering, jitter that lets packets overtake, or opportunities, it may be an internal step,
    /// after which this returns a later time. `None` while nothing will depart.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        let mut next = self.way.next().unwrap_or(u64::MAX);
        if let Some(gone) = self.gone.front() {
            next = next.min(gone.at);
        }
        if let Some(bottleneck) = &self.bottleneck
            && (self.way.may_be_overtaken() || bottleneck.queue.drops_heads())
        {
            next = next.min(bottleneck.due);
        }
        if let Some(bottleneck) = &self.bottleneck
            && bottleneck.due < u64::MAX
        {
            next = next.min(bottleneck.goes_down);
        }
        (next < u64::MAX).then_some(Nanos(next))
    }

    /// Removes the next departure until `now`, lost packets included, in the order of their times; at the same
    /// time, in the order of arrival.
    #[inline]
    pub fn depart(&mut self, now: Nanos) -> Option<Departure<H>> {
        self.serve(now.0);
        let leaving = self.way.peek(now.0);
        if let Some(gone) = self.gone.front()
            && gone.at <= now.0
            && leaving.is_none_or(|leaving| (gone.at, gone.seq) < leaving)
        {
            return self.gone.pop_front().map(DroppedPacket::departure);
        }
        leaving?;
        let packet = self.way.pop()?;
        let departure = Departure {
            at: Nanos(packet.at),
            arrived: Nanos(packet.arrived),
            seq: packet.seq,
            is_copy: packet.is_copy,
            queued: Nanos(packet.queued),
            handle: packet.handle,
            end: End::Dropped(Cause::Down),
        };
        if packet.is_cut || self.down.includes(departure.at) {
            self.fates.down += 1;
            return Some(departure);
        }
        self.fates.delivered += 1;
        self.fates.delivered_bytes += u64::from(packet.bytes);
        if packet.seq < self.expected {
            self.fates.reordered += 1;
        } else {
            self.expected = packet.seq + 1;
        }
        let changes = Changes { marked: packet.is_marked, flipped: packet.flip };
        Some(Departure { end: End::Delivered(changes), ..departure })
    }

    /// Returns the fates of the packets so far. Packets that the queue drops are counted at the time of the drop.
    pub fn fates(&self) -> PacketOutcomes {
        let queued = self.bottleneck.as_ref().map_or(0, |bottleneck| bottleneck.queue.len());
        PacketOutcomes {
            waiting: (self.way.len() + queued) as u64,
            digest: fold(self.fates.digest, self.number()),
            ..self.fates
        }
    }

    /// Returns the time in the queue over time, if packets waited.
    pub fn queue_course(&self) -> Option<QueueCourse> {
        self.bottleneck.as_ref()?.times.course()
    }

    /// Returns the log of packets that the loss model dropped so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Adds a decision to the digest; decisions without effect are left out.
    #[inline]
    fn decided(&mut self, index: u64, what: u64) {
        self.fates.digest = fold(fold(self.fates.digest, index), what);
    }

    fn lose(&mut self, index: u64, now: u64, handle: H) {
        let run = if index == self.behind_loss && index > 0 { LossRun::Same } else { LossRun::New };
        self.fates.lost += 1;
        self.fates.bursts += u64::from(run == LossRun::New);
        self.behind_loss = index + 1;
        self.log.note(index + 1, run);
        self.decided(index, 1);
        self.gone.push_back(DroppedPacket::at_once(now, self.entered, handle, Cause::Lost));
        self.entered += 1;
    }

    /// Passes a packet that is not lost to the queue, or directly to the delay stage if there is no rate limit.
    #[inline]
    fn enter(&mut self, index: u64, now: u64, packet: &Packet, handle: H) {
        let mut item = Item {
            handle,
            arrived: now,
            seq: self.entered,
            is_copy: index & COPY != 0,
            offset: 0,
            wire: u64::from(packet.bytes),
            bytes: packet.bytes,
            flip: None,
            turn: Turn::Kept,
            codepoint: packet.codepoint,
            is_marked: false,
            is_cut: false,
        };
        self.entered += 1;
        self.draw(index, &mut item);
        if self.down.includes(Nanos(now)) {
            self.come_down(&item);
            return;
        }
        let Some(bottleneck) = &mut self.bottleneck else {
            let delay = self.delay.at(now);
            self.way.push(&item, now, delay, 0);
            return;
        };
        self.fates.l4s.arrived += u64::from(item.codepoint.is_l4s());
        item.wire += bottleneck.overhead;
        bottleneck.offer(item, (index, packet.flow), &mut self.given);
        self.account();
        self.serve(now);
    }

    /// Draws the flipped bit, the jitter and the reordering of a packet: all but loss and duplication.
    #[inline]
    fn draw(&mut self, index: u64, item: &mut Item<H>) {
        let (corrupt, stream) = self.luck.corrupt;
        if corrupt.hits(stream, index) && item.bytes > 0 {
            let bits = u128::from(item.bytes) * 8;
            let bit = ((u128::from(self.luck.bit.draw(index)) * bits) >> 64) as u32;
            item.flip = Some(bit);
            self.fates.corrupted += 1;
            self.decided(index, 3 | u64::from(bit) << 8);
        }
        let (reorder, stream) = self.luck.reorder;
        if reorder.hits(stream, index) {
            item.turn = Turn::Given;
            self.decided(index, 4);
        }
        if let Some(jitter) = &self.luck.jitter {
            item.offset = shape::offset(jitter, self.luck.offset.draw(index));
            self.decided(index, 5 | (item.offset as u64) << 8);
        }
    }

    /// Moves the packets that the server serves until `now` to the delay stage.
    #[inline]
    fn serve(&mut self, now: u64) {
        let due = |bottleneck: &Bottleneck<H>| bottleneck.due.min(bottleneck.goes_down);
        if self.bottleneck.as_ref().is_some_and(|bottleneck| due(bottleneck) <= now) {
            self.serve_due(now);
        }
    }

    fn serve_due(&mut self, now: u64) {
        let Some(bottleneck) = &mut self.bottleneck else {
            return;
        };
        loop {
            let start = bottleneck.due;
            let next = start.min(bottleneck.goes_down);
            if next > now || next == u64::MAX {
                break;
            }
            if next == bottleneck.goes_down {
                bottleneck.go_down(&mut self.given);
                continue;
            }
            if let Some(mut item) = bottleneck.queue.take(start, &mut self.given) {
                let out = bottleneck.server.serve(start, item.wire);
                item.is_cut = bottleneck.goes_down < out;
                self.fates.marked += u64::from(item.is_marked);
                self.fates.l4s.marked += u64::from(item.is_marked && item.codepoint.is_l4s());
                self.fates.busy_ns += out - bottleneck.since.max(bottleneck.out).min(out);
                self.fates.busy_bytes += item.wire;
                bottleneck.out = out;
                let (delay, queued) = (self.delay.at(out), start - item.arrived.min(start));
                bottleneck.times.note(start, queued);
                self.way.push(&item, out, delay, queued);
            }
            bottleneck.since = start;
            bottleneck.plan();
        }
        self.account();
    }

    /// Counts the packets that the queue has dropped.
    #[inline]
    fn account(&mut self) {
        while let Some((item, at, cause)) = self.given.pop_front() {
            if item.codepoint.is_l4s() {
                self.fates.l4s.full += u64::from(cause == Cause::Full);
                self.fates.l4s.early += u64::from(cause == Cause::Early);
            }
            match cause {
                Cause::Full => self.fates.full += 1,
                Cause::Early => self.fates.early += 1,
                Cause::Lost => self.fates.lost += 1,
                Cause::Blocked => self.fates.blocked += 1,
                Cause::Down => self.fates.down += 1,
            }
            let Item { seq, is_copy, handle, arrived, .. } = item;
            let queued = at - arrived.min(at);
            self.gone.push_back(DroppedPacket { at, seq, is_copy, queued, handle, cause });
        }
    }
}

impl<H: Copy> Bottleneck<H> {
    fn offer(&mut self, item: Item<H>, draws: (u64, u64), given: &mut QueueDrops<H>) {
        let mut entry = QueueEntry::Waits;
        if self.queue.len() == 0 {
            self.since = item.arrived;
            if self.server.ready(item.arrived) <= item.arrived {
                entry = QueueEntry::Served;
            }
        }
        self.queue.offer(item, draws, entry, &mut self.server, given);
        if self.due == u64::MAX {
            self.plan();
        }
    }

    /// Sets the time at which the next packet begins to leave.
    fn plan(&mut self) {
        let waits = self.queue.len() > 0;
        self.due = if waits { self.server.ready(self.since) } else { u64::MAX };
    }
}

impl Luck {
    fn new(model: &Impairments, place: Place) -> Luck {
        let chance = |p, which| (Chance::new(p), Stream::new(place, which));
        Luck {
            duplicate: chance(model.duplicate, Model::Duplicate),
            corrupt: chance(model.corrupt, Model::Corrupt),
            bit: Stream::new(place, Model::Bit),
            reorder: chance(model.reorder.map_or(0.0, |reorder| reorder.share), Model::Reorder),
            jitter: model.jitter.clone(),
            offset: Stream::new(place, Model::Jitter),
        }
    }
}

impl Delay {
    fn new(model: &Impairments) -> Delay {
        let Rate::Trace(trace) = &model.rate else {
            return Delay::Fixed(model.delay.0);
        };
        match &trace.content {
            Content::Steps(steps) if steps.iter().any(|step| step.delay.is_some()) => {
                Delay::Steps(model.delay.0, Box::new(Steps::new(trace)))
            }
            _ => Delay::Fixed(model.delay.0),
        }
    }

    /// Returns the delay of a packet that leaves the server at this time.
    #[inline]
    fn at(&mut self, now: u64) -> u64 {
        match self {
            Delay::Fixed(delay) => *delay,
            Delay::Steps(delay, steps) => {
                steps.at(Nanos(now)).and_then(|step| step.delay).map_or(*delay, |delay| delay.0)
            }
        }
    }
}

//! Lane: one direction of one link, without threads. Frames arrive at a time, and their packets go out to a port at
//! the times that the channel gives them. Times are nanoseconds since the channel began.

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::port::{LONGEST_FRAME, Port};
use super::slab::{Slab, Slot};
use crate::impair::Channel;
use crate::impair::packet::{Cause, Changes, Departure, End, Packet, Place};
use crate::measurements::DirectionFigures;
use crate::nat::{Translator, Verdict, nat64};
use crate::network::{AGGREGATE, Grouping, Impairments, LossPer, Rate};
use crate::observe::log::{Outcome, PacketLog, SNAP};
use crate::observe::{Observer, Seen};
use crate::segment::{GsoFrame, Head, is_only_ack};
use deadheat_base::ends::Direction;
use deadheat_base::error::Result;
use deadheat_base::moments::Moments;
use deadheat_base::time::{Clock, Nanos};

/// Significant decimal digits of a release's lateness, and of the time in a queue.
const DIGITS: u8 = 3;

/// Lane from the arrival of frames to the departure of runs of their packets.
pub(super) struct Pipeline {
    model: Impairments,
    grouping: Grouping,
    channel: Channel<Segment>,
    slab: Slab,
    /// Run that the next departure may still join.
    open: Option<PacketRun>,
    head: Head,
    /// Buffer for a packet with a flipped bit.
    alone: Box<[u8]>,
    lateness: Moments,
    /// Queueing times of packets that left the queue, where there is a queue.
    queued: Option<Moments>,
    /// Queueing times of L4S packets among them.
    l4s_queued: Option<Moments>,
    writes: u64,
    drops: u64,
    /// NAT or firewall in front of the channel.
    ahead: Option<SharedMiddlebox>,
    /// NAT or firewall behind it.
    behind: Option<SharedMiddlebox>,
    /// Largest packet that the NAT64 behind it need not fragment, in bytes; `None` without one.
    longest_inside: Option<usize>,
    /// Packets, and bytes of them, that the middlebox dropped behind the channel.
    refused: (u64, u64),
    observer: Option<Box<Observer>>,
}

/// Room by which a packet may grow at a NAT64, in bytes: headers of its own and of a packet that it quotes.
const GROWTH: usize = 64;

/// NAT or firewall, shared by the threads of a link's two lanes.
pub(super) type SharedMiddlebox = Arc<Mutex<Translator>>;

/// Packet of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    slot: Slot,
    n: u32,
}

/// Run of neighbouring packets of a frame that are written together.
#[derive(Debug, Clone, Copy)]
struct PacketRun {
    slot: Slot,
    from: u32,
    to: u32,
    /// Number of packets in the frame.
    of: u32,
    changes: Changes,
    /// Departure time of its first packet.
    first: Nanos,
    /// Departure time of its last packet, at which all of them are written.
    at: Nanos,
}

impl PacketRun {
    fn of(segment: Segment, of: u32, changes: Changes, at: Nanos) -> PacketRun {
        PacketRun {
            slot: segment.slot,
            from: segment.n,
            to: segment.n + 1,
            of,
            changes,
            first: at,
            at,
        }
    }

    fn takes(&self, segment: Segment, changes: Changes, at: Nanos, grouping: Grouping) -> bool {
        let near = match grouping {
            Grouping::Strict => at == self.at,
            Grouping::Aggregate => at <= self.first + AGGREGATE,
        };
        near && segment.slot == self.slot
            && segment.n == self.to
            && changes == self.changes
            && changes.flipped.is_none()
    }

    fn packets(&self) -> u32 {
        self.to - self.from
    }
}

impl Pipeline {
    /// Creates a lane at its time 0, with room for the frames of `slab`.
    ///
    /// # Errors
    /// Fails if a histogram cannot be made.
    pub(super) fn new(
        model: &Impairments,
        place: Place,
        grouping: Grouping,
        slab: Slab,
        middlebox: Option<SharedMiddlebox>,
    ) -> Result<Pipeline> {
        let (ahead, behind) = match place.direction {
            Direction::Up => (middlebox, None),
            Direction::Down => (None, middlebox),
        };
        let longest_inside = behind.as_ref().and_then(|shared| locked(shared).longest_inside());
        Ok(Pipeline {
            model: model.clone(),
            grouping,
            channel: Channel::new(model, place),
            slab,
            open: None,
            head: Head::default(),
            alone: vec![0; LONGEST_FRAME + GROWTH].into(),
            lateness: Moments::new(DIGITS)?,
            queued: queued(model)?,
            l4s_queued: queued(model)?,
            writes: 0,
            drops: 0,
            ahead,
            behind,
            longest_inside,
            refused: (0, 0),
            observer: None,
        })
    }

    /// Discards all packets and figures; now is time 0.
    ///
    /// # Errors
    /// Fails if a histogram cannot be made.
    pub(super) fn begin(&mut self, place: Place) -> Result<()> {
        self.lateness = Moments::new(DIGITS)?;
        self.queued = queued(&self.model)?;
        self.l4s_queued = queued(&self.model)?;
        self.channel = Channel::new(&self.model, place);
        self.slab.clear();
        (self.open, self.writes, self.drops, self.refused) = (None, 0, 0, (0, 0));
        // One of the two lanes clears it: the one whose packets open bindings.
        if let Some(shared) = &self.ahead {
            locked(shared).clear();
        }
        Ok(())
    }

    /// Observes the packets from now on by this observer, if there is one.
    pub(super) fn observe(&mut self, observer: Option<Box<Observer>>) {
        self.observer = observer;
    }

    /// Removes the packets that the observer has noted.
    pub(super) fn take_log(&mut self) -> Option<PacketLog> {
        self.observer.as_mut()?.take_log()
    }

    /// Returns the buffer to read the next frame to.
    #[inline]
    pub(super) fn landing(&mut self) -> &mut [u8] {
        self.slab.landing()
    }

    /// Accepts the frame of `len` bytes that was read from a port, with `now` as its arrival; the caller has released
    /// everything until then. A frame that the middlebox returns goes back to the port.
    pub(super) fn arrive(&mut self, now: Nanos, mut len: usize, from: &dyn Port) {
        let verdict = self.ahead.as_ref().map_or(Verdict::Passes, |shared| {
            locked(shared).outward(now, self.slab.landing(), &mut len)
        });
        if verdict == Verdict::Returns {
            let frame = self.slab.landed(len);
            if from.write(&[IoSlice::new(frame)]).is_err() {
                self.drops += u64::from(GsoFrame::parse(frame).segments);
            }
            return;
        }
        let Some(slot) = self.slab.keep(len) else {
            let packets = u64::from(GsoFrame::parse(self.slab.landed(len)).segments);
            self.drops += packets;
            if let Some(observer) = &mut self.observer {
                observer.refused(packets);
            }
            return;
        };
        let seen = GsoFrame::parse(self.slab.frame(slot));
        if let Some(observer) = &mut self.observer {
            let frame = self.slab.frame(slot);
            (0..seen.segments).for_each(|n| observer.arrived(now, on_the_wire(frame, &seen, n)));
        }
        let departures = (0..seen.segments)
            .map(|n| {
                let bytes = seen.segment_bytes(n);
                let GsoFrame { flow, protocol, codepoint, .. } = seen;
                let packet = Packet { bytes, flow, protocol, codepoint };
                match self.model.loss_per {
                    _ if verdict == Verdict::Blocked => {
                        self.channel.block(now, &packet, Segment { slot, n })
                    }
                    LossPer::Super if n > 0 => {
                        self.channel.follow(now, &packet, Segment { slot, n })
                    }
                    _ => self.channel.arrive(now, &packet, Segment { slot, n }),
                }
            })
            .sum();
        self.slab.expect(slot, seen, departures);
    }

    /// Returns the time at which [`Pipeline::release`] is next due, if no frame arrives.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        match self.open {
            Some(run) if !self.has_neighbours_to_come(run) => Some(run.at),
            _ => self.channel.next(),
        }
    }

    /// Writes all packets that depart until `now`, and returns the number of writes. `clock` measures how late each
    /// write is.
    ///
    /// # Errors
    /// The error of the port where it is gone. If it has no room, the packets are lost and counted.
    pub(super) fn release(
        &mut self,
        now: Nanos,
        clock: &impl Clock,
        to: &dyn Port,
    ) -> io::Result<u64> {
        let before = self.writes;
        while let Some(departure) = self.channel.depart(now) {
            let Departure { at, handle: segment, end, queued, .. } = departure;
            match end {
                End::Delivered(changes) => {
                    let is_l4s = self.slab.seen(segment.slot).codepoint.is_l4s();
                    let of_l4s = self.l4s_queued.iter_mut().filter(|_| is_l4s);
                    self.queued.iter_mut().chain(of_l4s).for_each(|all| all.add(queued.0));
                    self.deliver(segment, changes, at, clock, to)?;
                    // Behind the end of the run before, which is settled with it.
                    self.observe_departure(&departure);
                }
                End::Dropped(_) => {
                    self.observe_departure(&departure);
                    self.slab.departed(segment.slot, 1);
                }
            }
        }
        if let Some(run) = self.open
            && !self.has_neighbours_to_come(run)
        {
            self.close(clock, to)?;
        }
        Ok(self.writes - before)
    }

    /// Adds a packet to the open run, or closes the run and opens another.
    fn deliver(
        &mut self,
        segment: Segment,
        changes: Changes,
        at: Nanos,
        clock: &impl Clock,
        to: &dyn Port,
    ) -> io::Result<()> {
        if let Some(run) = &mut self.open {
            if run.takes(segment, changes, at, self.grouping) {
                (run.to, run.at) = (segment.n + 1, at);
                return Ok(());
            }
            self.close(clock, to)?;
        }
        let of = self.slab.seen(segment.slot).segments;
        self.open = Some(PacketRun::of(segment, of, changes, at));
        Ok(())
    }

    /// Returns true if a packet that has not departed yet might still join this run.
    fn has_neighbours_to_come(&self, run: PacketRun) -> bool {
        self.grouping == Grouping::Aggregate
            && run.to < run.of
            && run.changes.flipped.is_none()
            && self.channel.next().is_some_and(|next| next <= run.first + AGGREGATE)
    }

    /// Writes the open run.
    fn close(&mut self, clock: &impl Clock, to: &dyn Port) -> io::Result<()> {
        let Some(run) = self.open.take() else { return Ok(()) };
        let (frame, seen) = (self.slab.frame(run.slot), self.slab.seen(run.slot));
        let behind = self.behind.as_ref();
        let is_flipped = run.changes.flipped.is_some();
        let mut parts = Vec::new();
        let (head, rest, passes) = if is_flipped || self.longest_inside.is_some() {
            let mut len = if is_flipped {
                seen.copy(frame, run.from, run.changes, &mut self.alone).unwrap_or(0)
            } else {
                let rest = seen.run(frame, run.from, run.to, run.changes, &mut self.head);
                let whole = [self.head.bytes(), &frame[rest]].concat();
                self.alone[..whole.len()].copy_from_slice(&whole);
                whole.len()
            };
            let passes = behind
                .is_none_or(|shared| locked(shared).inward(run.at, &mut self.alone, &mut len));
            if let Some(longest) = self.longest_inside {
                parts = nat64::fragments(&mut self.alone[..len], longest);
            }
            (&self.alone[..len], &[][..], passes)
        } else {
            let mut rest = seen.run(frame, run.from, run.to, run.changes, &mut self.head);
            let passes = behind.is_none_or(|shared| {
                let head = self.head.take(frame, &mut rest);
                locked(shared).inward(run.at, head, &mut head.len())
            });
            (self.head.bytes(), &frame[rest], passes)
        };
        if !passes {
            self.settle(Outcome::Dropped(Cause::Blocked));
            let bytes = (run.from..run.to).map(|n| u64::from(seen.segment_bytes(n))).sum::<u64>();
            self.refused.0 += u64::from(run.packets());
            self.refused.1 += bytes;
            self.slab.departed(run.slot, run.packets());
            return Ok(());
        }
        self.lateness.add((clock.now() - run.at).0);
        let written = match (head, rest) {
            _ if !parts.is_empty() => {
                parts.iter().try_for_each(|part| to.write(&[IoSlice::new(part)]))
            }
            (one, []) | ([], one) => to.write(&[IoSlice::new(one)]),
            _ => to.write(&[IoSlice::new(head), IoSlice::new(rest)]),
        };
        self.writes += 1;
        self.slab.departed(run.slot, run.packets());
        match written {
            Ok(()) => self.settle(Outcome::Delivered(run.changes)),
            Err(error) if is_gone(&error) => return Err(error),
            // With a flipped bit in the wrong place, the device sees no IP packet. A router would not either.
            Err(error) if run.changes.flipped.is_some() && is_refused(&error) => {
                self.settle(Outcome::Delivered(run.changes));
            }
            Err(_) => {
                self.drops += u64::from(run.packets());
                self.settle(Outcome::Refused);
            }
        }
        Ok(())
    }

    #[inline]
    fn observe_departure(&mut self, departure: &Departure<Segment>) {
        let Some(observer) = &mut self.observer else { return };
        let Segment { slot, n } = departure.handle;
        let (frame, seen) = (self.slab.frame(slot), self.slab.seen(slot));
        let packet = on_the_wire(frame, &seen, n);
        observer.departed(departure, packet, |room| seen.beginning(frame, n, SNAP, room));
    }

    /// Reports the outcome of the run that was written to the observer.
    #[inline]
    fn settle(&mut self, outcome: Outcome) {
        if let Some(observer) = &mut self.observer {
            observer.settle(outcome);
        }
    }

    /// Returns the figures since the beginning, without losses in devices.
    pub(super) fn figures(&self) -> DirectionFigures {
        DirectionFigures {
            fates: self.channel.fates().blocked_behind(self.refused),
            lateness_ns: Some(self.lateness.distribution(0, 0)),
            queued_ns: self.queued.as_ref().map(|queued| queued.distribution(0, 0)),
            queue_course: self.channel.queue_course(),
            l4s_queued_ns: self
                .l4s_queued
                .as_ref()
                .map(|queued| queued.distribution(0, 0))
                .filter(|queued| queued.n > 0),
            losses: self.channel.log().if_short(),
            wire: self.observer.as_ref().and_then(|observer| observer.wire()).map(Box::new),
            device_drops: self.drops,
            writes: self.writes,
        }
    }
}

/// Returns what an observer needs of packet `n` of a frame.
fn on_the_wire(frame: &[u8], seen: &GsoFrame, n: u32) -> Seen {
    let is_ack = seen.segments == 1 && is_only_ack(frame);
    Seen { flow: seen.flow, bytes: seen.segment_bytes(n), is_ack }
}

/// Creates a histogram of queueing times, for a model that has a queue.
fn queued(model: &Impairments) -> Result<Option<Moments>> {
    (model.rate != Rate::Unlimited).then(|| Moments::new(DIGITS)).transpose()
}

/// Locks a middlebox. If the other lane's thread panicked meanwhile, its bindings still are what they are.
fn locked(shared: &SharedMiddlebox) -> MutexGuard<'_, Translator> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if no later write can succeed.
fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::EBADF, libc::EBADFD, libc::ENODEV, libc::ENXIO, libc::EPIPE, libc::ENOTSOCK];
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// Returns true if the device did not accept the write of a packet.
fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

#[cfg(test)]
mod tests;

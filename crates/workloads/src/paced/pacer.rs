//! Pacer of messages: sends each when it is due, and decides the fate of a message that cannot leave on time. It does
//! not know their content.

use deadheat_base::rng::SplitMix64;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Lane;
use deadheat_contract::measurements::{Pacing, Recorder, SendSummary, Tally};

use deadheat_contract::workload::{EndpointReport, Part};

/// Message to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Time at which it is due, from the start.
    pub(crate) due: Nanos,
    /// Its number and its lane; `None` for the number after the last one sent, and for the next lane in turn.
    pub(crate) place: Option<(u64, Lane)>,
    /// Its length in bytes.
    pub(crate) len: usize,
    /// Fate of the message if it cannot leave on time.
    pub(crate) otherwise: Otherwise,
}

/// Fate of a message that cannot leave on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// Skipped if it is a step late, or if an earlier message waited for space past its time.
    Skipped,
    /// Sent as soon as possible.
    Kept,
    /// Sent as soon as possible, within this time after it was due.
    KeptFor(Nanos),
}

/// All messages to send, in their order.
pub(crate) struct Plan<I> {
    pub(crate) slots: I,
    /// Number of messages.
    pub(crate) count: u64,
    /// Interval between two of them, for the tolerance of lateness.
    pub(crate) step: Nanos,
    /// Time from the first to the end of the last.
    pub(crate) span: Nanos,
    /// True if all are a step apart.
    pub(crate) is_even: bool,
}

/// Decision of a pacer at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Message to send now, and its due time.
    Now(Slot, Nanos),
    /// Time before which nothing is due.
    At(Nanos),
    /// End of the plan: every message was sent or given up.
    Over,
}

pub(crate) struct Pacer<I> {
    plan: Plan<I>,
    /// Next message to send.
    next: Option<Slot>,
    left: u64,
    phase: SplitMix64,
    recorder: Box<dyn Recorder>,
    start: Option<Nanos>,
    sent: Tally,
    missed_no_room: u64,
    missed_no_time: u64,
    late: u64,
    late_from: Nanos,
    last: Option<Nanos>,
    /// True if the transport had no room for the message that is due.
    waits_for_room: bool,
    /// Time until which the transport had no room; the sender is not to blame for slots missed before.
    had_no_room_until: Nanos,
}

/// Longest time from the start until the first message is due, so that its phase against the kernel's tick
/// (1 to 10 ms) is random.
const PHASE: Nanos = Nanos::from_millis(4);

/// Least lateness of a late message. A message is late if it leaves more than a tenth of the step after its time, or
/// more than a hundredth of the path's round trip if that is longer, or more than this: a shorter tenth would be less
/// than the time of a system call, and a message that is late by a whole step is missed anyway.
const LATE: Nanos = Nanos::from_micros(50);

impl<I: Iterator<Item = Slot>> Pacer<I> {
    /// Creates a pacer of `plan`, with the seed and the recorder of `part`.
    pub(crate) fn new(mut plan: Plan<I>, part: Part) -> Pacer<I> {
        Pacer {
            next: plan.slots.next(),
            left: plan.count,
            plan,
            phase: SplitMix64::new(part.seed),
            recorder: part.recorder,
            start: None,
            sent: Tally::default(),
            missed_no_room: 0,
            missed_no_time: 0,
            late: 0,
            late_from: LATE.max(Nanos(part.transit.0 / 50)),
            last: None,
            waits_for_room: false,
            had_no_room_until: Nanos::ZERO,
        }
    }

    /// Returns true after the first turn.
    pub(crate) fn has_begun(&self) -> bool {
        self.start.is_some()
    }

    /// Draws the phase of the start, the same for all flows of a direction, so that they stay in turns.
    fn begin(&mut self, now: Nanos) -> Nanos {
        let within = self.plan.step.min(PHASE);
        *self.start.insert(now + Nanos(self.phase.below(within.0.max(1))))
    }

    /// Returns the message that is due at `now`, or the time to wait for.
    #[inline]
    pub(crate) fn turn(&mut self, now: Nanos) -> Turn {
        let start = match self.start {
            Some(start) => start,
            None => self.begin(now),
        };
        if !self.waits_for_room {
            self.miss(now, start);
        }
        match self.next {
            None => Turn::Over,
            Some(slot) if now < start + slot.due => Turn::At(start + slot.due),
            Some(slot) => Turn::Now(slot, start + slot.due),
        }
    }

    /// Skips the messages with a past time.
    fn miss(&mut self, now: Nanos, start: Nanos) {
        while let Some(slot) = self.next {
            let due = start + slot.due;
            let lasts = match slot.otherwise {
                Otherwise::Kept => return,
                Otherwise::Skipped if due < self.had_no_room_until => None,
                Otherwise::Skipped => Some(self.plan.step),
                Otherwise::KeptFor(lasts) => Some(lasts),
            };
            match lasts {
                Some(lasts) if now <= due + lasts => return,
                _ if due < self.had_no_room_until => self.missed_no_room += 1,
                _ => self.missed_no_time += 1,
            }
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.next = self.plan.slots.next();
    }

    /// Notes that the due message was sent at `now`, with this number of bytes.
    #[inline]
    pub(crate) fn sent(&mut self, now: Nanos, bytes: usize) {
        let (Some(start), Some(slot)) = (self.start, self.next) else { return };
        let due = start + slot.due;
        let step = self.plan.step;
        if self.waits_for_room {
            self.waits_for_room = false;
            self.had_no_room_until = now;
        }
        // A message that waited behind one without room is late because of the room, not because of its sender.
        let ready = match slot.otherwise {
            Otherwise::Skipped => due,
            _ => due.max(self.had_no_room_until),
        };
        let lateness = now - ready;
        if lateness > self.late_from.max(Nanos(step.0 / 10)) && due >= self.had_no_room_until {
            self.late += 1;
        }
        let gap = self.last.filter(|_| self.plan.is_even);
        let gap_error = gap.map(|last| (now - last).0.abs_diff(step.0));
        self.recorder.record_send(lateness.0, gap_error);
        self.last = Some(now);
        self.sent.messages += 1;
        self.sent.bytes += bytes as u64;
        self.advance();
    }

    /// Notes that the transport had no room for the due message.
    pub(crate) fn no_room(&mut self) {
        self.waits_for_room = true;
    }

    /// Gives up the rest: the peer takes no more messages, so they count as without room.
    pub(crate) fn give_up(&mut self) {
        self.missed_no_room += std::mem::take(&mut self.left);
        self.next = None;
    }

    /// Returns true if no more messages will be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.start.is_some() && self.next.is_none()
    }

    /// Returns the tally of the messages sent so far.
    pub(crate) fn tally(&self) -> Tally {
        self.sent
    }

    /// Returns the length of the plan, or the time until a step after the last message if that was sent later.
    fn span_ns(&self) -> Option<u64> {
        let start = self.start?;
        let last = self.last.map_or(Nanos::ZERO, |last| last + self.plan.step - start);
        Some(self.plan.span.max(last).0)
    }

    fn pacing(&self) -> Pacing {
        let SendSummary { lateness, gap_error } = self.recorder.sends();
        Pacing {
            slots: self.plan.count,
            sent: self.sent.messages,
            missed_no_room: self.missed_no_room,
            missed_no_time: self.missed_no_time,
            late: self.late,
            lateness_ns: lateness,
            gap_error_ns: gap_error,
        }
    }

    /// Returns the report of the sender. The distributions are added at the end only: to sum them up takes time that
    /// would delay sends.
    pub(crate) fn report(&self) -> EndpointReport {
        EndpointReport {
            sent: self.sent,
            send_span_ns: self.span_ns(),
            pacing: self.is_over().then(|| self.pacing()),
            ..EndpointReport::default()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use deadheat_contract::contract::{Guarantees, LaneSet, Side};
    use deadheat_contract::measurements::{OneWayDelays, RoundTripSummary, Sample};

    /// A recorder for tests that look at no times of sending.
    pub(crate) struct Deaf;

    impl Recorder for Deaf {
        fn record(&mut self, _: Sample) {}
        fn record_send(&mut self, _: u64, _: Option<u64>) {}
        fn record_delay(&mut self, _: i64) {}
        fn round_trips(&self, _: u64, _: u64) -> RoundTripSummary {
            RoundTripSummary::default()
        }
        fn sends(&self) -> SendSummary {
            SendSummary::default()
        }
        fn delays(&self) -> OneWayDelays {
            OneWayDelays::default()
        }
    }

    /// Returns a part of a trial with tag 7, for tests that drive halves.
    pub(crate) fn part(side: Side, guarantees: Guarantees) -> Part {
        let recorder = Box::new(Deaf);
        let (transit, peer) = (Nanos::ZERO, deadheat_contract::contract::PeerFacts::OURS);
        let (carried, store, exchange) = (LaneSet::ALL, None, None);
        let (flow, tag, seed) = (0, 7, 1);
        Part {
            side,
            flow,
            tag,
            seed,
            transit,
            guarantees,
            peer,
            recorder,
            carried,
            store,
            exchange,
        }
    }

    const MS: u64 = 1_000_000;

    /// Returns a pacer of a message every 10 ms, each of which is skipped, kept, or kept for 15 ms.
    fn pacer(otherwise: Otherwise) -> Pacer<impl Iterator<Item = Slot>> {
        let slots = (0..5).map(move |n| Slot {
            due: Nanos(10 * n * MS),
            place: Some((n, Lane(0))),
            len: 100,
            otherwise,
        });
        let (step, span) = (Nanos(10 * MS), Nanos(50 * MS));
        let plan = Plan { slots, count: 5, step, span, is_even: true };
        Pacer::new(plan, part(Side::Near, Guarantees::DATAGRAMS))
    }

    /// Returns the number and the lateness in ms of each message that left, if nothing could leave from 15
    /// to 38 ms: for want of room, or as the sender did not run.
    fn left(otherwise: Otherwise, for_want_of_room: bool) -> (Vec<(u64, u64)>, Pacing) {
        let mut pacer = pacer(otherwise);
        let (mut now, mut left) = (Nanos(0), Vec::new());
        let begin = match pacer.turn(now) {
            Turn::At(at) => at,
            _ => now,
        };
        loop {
            let since = (now - begin).0 / MS;
            match pacer.turn(now) {
                Turn::Now(..) if for_want_of_room && (15..38).contains(&since) => {
                    pacer.no_room();
                    now = begin + Nanos(38 * MS);
                }
                Turn::Now(slot, due) => {
                    left.push((slot.place.unwrap().0, (now - due).0 / MS));
                    pacer.sent(now, slot.len);
                }
                Turn::At(at) if !for_want_of_room && (15..38).contains(&((at - begin).0 / MS)) => {
                    now = begin + Nanos(38 * MS);
                }
                Turn::At(at) => now = at,
                Turn::Over => break,
            }
        }
        (left, pacer.report().pacing.unwrap())
    }

    #[test]
    fn what_cannot_leave_on_time_is_skipped_or_kept_as_it_says() {
        let counts = |p: &Pacing| (p.sent, p.missed_no_room, p.missed_no_time);
        let (skipped, pacing) = left(Otherwise::Skipped, true);
        assert_eq!(skipped, [(0, 0), (1, 0), (2, 18), (4, 0)]);
        assert_eq!(counts(&pacing), (4, 1, 0));
        let (kept, pacing) = left(Otherwise::Kept, true);
        assert_eq!(kept, [(0, 0), (1, 0), (2, 18), (3, 8), (4, 0)]);
        assert_eq!((counts(&pacing), pacing.late), ((5, 0, 0), 0), "the transport's doing");
        let (kept, pacing) = left(Otherwise::Kept, false);
        assert_eq!(kept, [(0, 0), (1, 0), (2, 18), (3, 8), (4, 0)]);
        assert_eq!((counts(&pacing), pacing.late), ((5, 0, 0), 2), "its own");
        let (some, pacing) = left(Otherwise::KeptFor(Nanos(15 * MS)), false);
        assert_eq!(some, [(0, 0), (1, 0), (3, 8), (4, 0)]);
        assert_eq!(counts(&pacing), (4, 0, 1));
    }

    #[test]
    fn a_peer_that_ends_leaves_the_rest_without_room() {
        let mut pacer = pacer(Otherwise::Kept);
        pacer.turn(Nanos(0));
        assert!(pacer.has_begun() && !pacer.is_over());
        pacer.give_up();
        assert_eq!(pacer.turn(Nanos(0)), Turn::Over);
        assert_eq!(pacer.report().pacing.unwrap().missed_no_room, 5);
    }
}

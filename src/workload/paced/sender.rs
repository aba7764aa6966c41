//! The sending half: one message at a time, each when it is due, and none to make up for another.

use crate::contract::{Action, Lane};
use crate::figures::{Pacing, Recorder, Tally};
use crate::rng::SplitMix64;
use crate::time::Nanos;

use super::super::header::Header;
use super::super::{Half, HalfReport, Part, Standing};
use super::schedule::Schedule;
use super::write_stamp;

pub(in crate::workload) struct Sender {
    size: usize,
    /// Messages take them in turns.
    lanes: u16,
    tag: u32,
    schedule: Schedule,
    phase: SplitMix64,
    recorder: Box<dyn Recorder>,
    start: Option<Nanos>,
    seq: u64,
    sent: Tally,
    missed_no_room: u64,
    missed_no_time: u64,
    late: u64,
    late_from: Nanos,
    last: Option<Nanos>,
    /// The transport had no room for the message that is due.
    waits_for_room: bool,
    /// Until here the transport had no room; slots before are not this sender's to miss.
    had_no_room_until: Nanos,
}

/// How long after the start the first message may be due, so that its phase against the kernel's
/// tick (1 to 10 ms) is random.
const PHASE: Nanos = Nanos::from_millis(4);

/// A message is late if it goes later than a tenth of the period after its time, or than a hundredth
/// of the path's round trip, which nobody feels there, or than this where both are short: the tenth is
/// then less than what a system call takes, and a message that is late by a whole period is missed
/// anyway.
const LATE: Nanos = Nanos::from_micros(50);

impl Sender {
    /// Sends a message of `size` bytes in each slot, on `lanes` lanes in turns.
    pub(in crate::workload) fn new(
        schedule: Schedule,
        size: usize,
        lanes: u16,
        part: Part,
    ) -> Sender {
        Sender {
            size,
            lanes,
            tag: part.tag,
            schedule,
            phase: SplitMix64::new(part.seed),
            recorder: part.recorder,
            start: None,
            seq: 0,
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

    /// All flows of a direction draw the same phase, so that they stay in turns.
    fn begin(&mut self, now: Nanos, out: &mut [u8]) -> Nanos {
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = (i % 251) as u8;
        }
        let within = self.schedule.step().min(PHASE);
        *self.start.insert(now + Nanos(self.phase.below(within.0.max(1))))
    }

    /// Leaves out the slots that passed while another message waited for room, and those that are
    /// more than a period behind.
    fn miss(&mut self, now: Nanos, start: Nanos) {
        while let Some(due) = self.schedule.due().map(|due| start + due) {
            if due < self.had_no_room_until {
                self.missed_no_room += 1;
            } else if now > due + self.schedule.step() {
                self.missed_no_time += 1;
            } else {
                return;
            }
            self.schedule.advance();
        }
    }

    fn pacing(&self) -> Pacing {
        Pacing {
            slots: self.schedule.slots(),
            sent: self.sent.messages,
            missed_no_room: self.missed_no_room,
            missed_no_time: self.missed_no_time,
            late: self.late,
            lateness_ns: self.recorder.lateness(),
            gap_error_ns: self.recorder.gap_error(),
        }
    }

    /// As long as the schedule, or until a period after the last message where that went later.
    fn span_ns(&self) -> Option<u64> {
        let start = self.start?;
        let last = self.last.map_or(Nanos::ZERO, |last| last + self.schedule.step() - start);
        Some(self.schedule.span().max(last).0)
    }
}

impl Half for Sender {
    #[inline]
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        let start = match self.start {
            Some(start) => start,
            None => self.begin(now, out),
        };
        if !self.waits_for_room {
            self.miss(now, start);
        }
        let Some(due) = self.schedule.due().map(|due| start + due) else {
            return Action::Done;
        };
        if now < due {
            return Action::Wait(Some(due));
        }
        Header { tag: self.tag, seq: self.seq }.write(out);
        write_stamp(&mut out[..self.size], due);
        let lane = Lane((self.seq % u64::from(self.lanes)) as u16);
        Action::Send { lane, len: self.size }
    }

    #[inline]
    fn on_sent(&mut self, now: Nanos) {
        let (Some(start), Some(due)) = (self.start, self.schedule.due()) else { return };
        let due = start + due;
        let step = self.schedule.step();
        if self.waits_for_room {
            self.waits_for_room = false;
            self.had_no_room_until = now;
        }
        let lateness = now - due;
        if lateness > self.late_from.max(Nanos(step.0 / 10)) && due >= self.had_no_room_until {
            self.late += 1;
        }
        let gap_error = self.last.map(|last| (now - last).0.abs_diff(step.0));
        self.recorder.record_send(lateness.0, gap_error);
        self.last = Some(now);
        self.seq += 1;
        self.sent.messages += 1;
        self.sent.bytes += self.size as u64;
        self.schedule.advance();
    }

    fn on_no_room(&mut self, _now: Nanos) {
        self.waits_for_room = true;
    }

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    /// The peer takes no more: what is left of the schedule finds no room.
    fn on_closed(&mut self, _now: Nanos) {
        self.missed_no_room += self.schedule.give_up();
    }

    fn on_peer_finished(&mut self, _now: Nanos, _sent: Tally) {}

    fn has_sent_all(&self) -> bool {
        self.start.is_some() && self.schedule.left() == 0
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, ..Standing::default() }
    }

    /// The distributions are added at the end only: summing them up takes time, and the schedule
    /// does not wait.
    fn report(&mut self, _now: Nanos) -> HalfReport {
        HalfReport {
            sent: self.sent,
            send_span_ns: self.span_ns(),
            pacing: self.has_sent_all().then(|| self.pacing()),
            ..HalfReport::default()
        }
    }
}

//! The sending half: sends each message when it is due, with its number and its due time.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};

use super::pacer::{Otherwise, Pacer, Plan, Slot, Turn};
use super::schedule::Schedule;
use super::write_due;
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, Part, Standing};

pub(crate) struct Sender<I> {
    tag: u32,
    pacer: Pacer<I>,
    /// Number of lanes, which messages without a lane of their own take in turns.
    lanes: u16,
    /// Number after the last message's.
    next: u64,
    /// Number and length of the message from the last `poll`.
    polled: (u64, usize),
}

/// Messages of one size on a grid of times; a missed message is not sent later.
pub(crate) struct Grid {
    schedule: Schedule,
    size: usize,
}

impl Iterator for Grid {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        let due = self.schedule.due()?;
        self.schedule.advance();
        Some(Slot { due, place: None, len: self.size, otherwise: Otherwise::Skipped })
    }
}

impl Sender<Grid> {
    /// Creates the sender of a message of `size` bytes in each slot, on `lanes` lanes in turns.
    pub(crate) fn new(schedule: Schedule, size: usize, lanes: u16, part: Part) -> Sender<Grid> {
        let plan = Plan {
            count: schedule.slots(),
            step: schedule.step(),
            span: schedule.span(),
            is_even: true,
            slots: Grid { schedule, size },
        };
        Sender { lanes, ..Sender::of(plan, part) }
    }
}

impl<I: Iterator<Item = Slot>> Sender<I> {
    /// Creates the sender of the messages of `plan`.
    pub(crate) fn of(plan: Plan<I>, part: Part) -> Sender<I> {
        let tag = part.tag;
        Sender { tag, pacer: Pacer::new(plan, part), lanes: 1, next: 0, polled: (0, 0) }
    }
}

/// Fills a whole message, before the header and the stamp are written over its start.
pub(crate) fn fill(out: &mut [u8]) {
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
}

impl<I: Iterator<Item = Slot> + Send> Endpoint for Sender<I> {
    #[inline]
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        if !self.pacer.has_begun() {
            fill(out);
        }
        let (slot, due) = match self.pacer.turn(now) {
            Turn::Now(slot, due) => (slot, due),
            Turn::At(at) => return Action::Wait(Some(at)),
            Turn::Over => return Action::Done,
        };
        let in_turn = (self.next, Lane((self.next % u64::from(self.lanes)) as u16));
        let (seq, lane) = slot.place.unwrap_or(in_turn);
        Header { tag: self.tag, seq }.write(out);
        write_due(&mut out[..slot.len], due);
        self.polled = (seq, slot.len);
        Action::Send { lane, len: slot.len }
    }

    #[inline]
    fn on_sent(&mut self, now: Nanos) {
        let (seq, bytes) = self.polled;
        self.next = seq + 1;
        self.pacer.sent(now, bytes);
    }

    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        self.pacer.no_room();
        None
    }

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => self.pacer.give_up(),
            FlowEvent::Opened { .. } | FlowEvent::Drained | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.pacer.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.pacer.tally(), ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        self.pacer.report()
    }
}

//! The near endpoint: sends requests when they are due, and receives the responses.
//!
//! After the header a request has the size of its response, and a message of a response has the number of its request.

use crate::contract::{Action, Delivery, Lane};
use crate::measurements::series::RoundTrips;
use crate::time::Nanos;

use super::Calls;
use super::answers::{Answer, figures, items};
use crate::paced::{
    DRAIN, DUE_LEN, Intake, Otherwise, Pacer, Plan, Slot, Turn, fill, read_due, write_due,
};
use crate::silence::Silence;
use crate::workload::header::Header;
use crate::workload::load::Item;
use crate::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes};
use crate::workload::{Part, Standing};

pub(super) struct Client {
    tag: u32,
    request: usize,
    pacer: Pacer<Schedule>,
    intake: Intake,
    requests: Vec<Answer>,
    answered: u64,
    /// Request of the last `poll`, until it is sent.
    polled: Option<u64>,
    /// Time at which it gives up on missing responses.
    gives_up_at: Option<Nanos>,
    is_settled: bool,
    silence: Silence,
    /// Response times since the last report.
    times: RoundTrips,
}

/// Bytes of memory for each request.
pub(super) const BYTES_EACH: u64 = size_of::<Answer>() as u64;

/// Slots of requests.
pub(super) type Schedule = Box<dyn Iterator<Item = Slot> + Send>;

/// Returns the requests as a plan: messages of `len` bytes, on `lanes` in turns.
pub(super) fn schedule(task: &Calls, lanes: u16, len: usize, seed: u64) -> Plan<Schedule> {
    let slots = (0..).zip(task.requests(seed)).map(move |(number, (due, _))| Slot {
        due,
        place: Some((number, Lane((number % u64::from(lanes)) as u16))),
        len,
        otherwise: Otherwise::Kept,
    });
    let period = task.period();
    Plan {
        slots: Box::new(slots),
        count: task.count,
        step: period.times(1),
        span: period.times(task.count),
        is_even: false,
    }
}

impl Client {
    pub(super) fn new(task: &Calls, lanes: u16, part: Part) -> Client {
        let sizes = task.requests(part.seed).map(|(_, size)| size);
        let requests: Vec<Answer> = sizes.map(|size| Answer::of(Nanos::ZERO, size)).collect();
        let len = task.request;
        let plan = schedule(task, lanes, len, part.seed);
        Client {
            tag: part.tag,
            request: len,
            intake: Intake::new(part.tag, part.transit, Delivery::Reliable),
            requests,
            pacer: Pacer::new(plan, part),
            answered: 0,
            polled: None,
            gives_up_at: None,
            is_settled: false,
            silence: Silence::new(),
            times: RoundTrips::default(),
        }
    }

    /// Waits for the missing responses, after all requests were sent.
    fn finish(&mut self, now: Nanos) -> Action {
        let at = *self.gives_up_at.get_or_insert(now + DRAIN);
        let is_answered = self.answered >= self.pacer.tally().messages;
        self.is_settled |= is_answered || self.intake.has_ended() || now >= at;
        if self.is_settled { Action::Done } else { Action::Wait(Some(at)) }
    }
}

impl Endpoint for Client {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        self.polled = None;
        if !self.pacer.has_begun() {
            fill(out);
        }
        let (slot, due) = match self.pacer.turn(now) {
            Turn::At(at) => return Action::Wait(Some(at)),
            Turn::Over => return self.finish(now),
            Turn::Now(slot, due) => (slot, due),
        };
        let (number, lane) = slot.place.unwrap_or_default();
        let Some(request) = self.requests.get_mut(number as usize) else {
            return Action::Done;
        };
        request.due = due;
        Header { tag: self.tag, seq: number }.write(out);
        write_due(&mut out[..slot.len], Nanos(request.size));
        self.polled = Some(number);
        Action::Send { lane, len: slot.len }
    }

    fn on_sent(&mut self, now: Nanos) {
        if self.polled.take().is_some() {
            self.pacer.sent(now, self.request);
            self.silence.begin(now);
            self.silence.sent(now);
        }
    }

    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        self.polled = None;
        self.pacer.no_room();
        None
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        if self.intake.take(now, bytes).is_none() {
            return;
        }
        let number = read_due(bytes).map_or(u64::MAX, |number| number.0);
        let part = bytes.len().saturating_sub(DUE_LEN) as u64;
        let left = self.pacer.tally().messages;
        let request = self.requests.get_mut(number as usize).filter(|_| number < left);
        let taken = request.and_then(|request| Some((request.take(now, part)?, request.took())));
        let Some((is_whole, took)) = taken else {
            self.intake.damaged();
            return;
        };
        self.silence.arrived(now, is_whole.then_some(took));
        if is_whole {
            self.answered += 1;
            self.times.add(took.0);
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                self.pacer.give_up();
                self.intake.close();
            }
            FlowEvent::PeerFinished { sent } => self.intake.peer_finished(now, sent),
            FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_settled
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let sent = self.pacer.tally();
        Standing {
            awaited: sent.messages - self.answered,
            sent,
            received: *self.intake.received(),
            ..Standing::default()
        }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: std::mem::take(&mut self.times), ..RecentTimes::default() }
    }

    fn items(&self) -> Vec<Item> {
        let left = (self.pacer.tally().messages as usize).min(self.requests.len());
        items(&self.requests[..left], Nanos::ZERO)
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        let mut report = EndpointReport {
            received: *self.intake.received(),
            outages: self.silence.outages(now),
            ..self.pacer.report()
        };
        if self.is_settled {
            let figures = figures(&self.requests).into_iter().flatten();
            report.figures = figures.map(|(name, figure)| (name.to_owned(), figure)).collect();
        }
        report
    }
}

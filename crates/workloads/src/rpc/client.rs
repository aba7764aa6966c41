//! The near endpoint: sends requests when they are due, and receives the responses.
//!
//! After the header a request has the size of its response, and a message of a response has the number of its request.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Delivery, Lane};

use super::Calls;
use super::answers::Answer;
use super::asked::{Asked, schedule};
use crate::paced::{DUE_LEN, Intake, fill, read_due, write_due};
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Part, RecentTimes, Standing,
};

pub(super) struct Client {
    tag: u32,
    request: usize,
    asked: Asked,
    intake: Intake,
}

/// Bytes of memory for each request.
pub(super) const BYTES_EACH: u64 = size_of::<Answer>() as u64;

impl Client {
    pub(super) fn new(task: &Calls, lanes: u16, part: Part) -> Client {
        let sizes = task.requests(part.seed).map(|(_, size)| size);
        let answers: Vec<Answer> = sizes.map(|size| Answer::of(Nanos::ZERO, size)).collect();
        let len = task.request;
        let plan = schedule(task, lanes, len, part.seed);
        Client {
            tag: part.tag,
            request: len,
            intake: Intake::new(part.tag, part.transit, Delivery::Reliable),
            asked: Asked::new(plan, part, answers),
        }
    }
}

impl Endpoint for Client {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        if !self.asked.has_begun() {
            fill(out);
        }
        let (request, answer) = match self.asked.poll(now, self.intake.has_ended()) {
            Ok(due) => due,
            Err(action) => return action,
        };
        answer.due = request.due;
        Header { tag: self.tag, seq: request.number }.write(out);
        write_due(&mut out[..request.len], Nanos(answer.size));
        Action::Send { lane: request.lane, len: request.len }
    }

    fn on_sent(&mut self, now: Nanos) {
        self.asked.sent(now, self.request);
    }

    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        self.asked.no_room();
        None
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        if self.intake.take(now, bytes).is_none() {
            return;
        }
        let number = read_due(bytes).map_or(u64::MAX, |number| number.0);
        let part = bytes.len().saturating_sub(DUE_LEN) as u64;
        let answer = self.asked.answer(number);
        match answer.and_then(|answer| Some((answer.take(now, part)?, answer.took()))) {
            Some((is_whole, took)) => self.asked.arrived(now, is_whole.then_some(took)),
            None => self.intake.damaged(),
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                self.asked.give_up();
                self.intake.close();
            }
            FlowEvent::PeerFinished { sent } => self.intake.peer_finished(now, sent),
            FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.asked.is_settled()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        self.asked.standing(*self.intake.received())
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.asked.take_recent()
    }

    fn items(&self) -> Vec<Item> {
        self.asked.items()
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        self.asked.report(now, *self.intake.received())
    }
}

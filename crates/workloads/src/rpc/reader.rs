//! The near endpoint at an origin: asks for a document when it is due, and notes when it begins and when all of it is here.

use crate::contract::{Action, Lane};
use crate::measurements::Tally;
use crate::measurements::series::RoundTrips;
use crate::time::Nanos;

use super::Calls;
use super::answers::{Answer, figures, items};
use super::client::{Schedule, schedule};
use crate::paced::{DRAIN, Pacer, Turn};
use crate::silence::Silence;
use crate::workload::header::{DocumentPart, Header, LEN};
use crate::workload::load::Item;
use crate::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes};
use crate::workload::{Part, Standing};

pub(super) struct Reader {
    tag: u32,
    pacer: Pacer<Schedule>,
    documents: Vec<Answer>,
    received: Tally,
    /// Request of the last `poll`, until it is sent.
    polled: Option<u64>,
    /// Time at which it gives up on missing documents.
    gives_up_at: Option<Nanos>,
    is_settled: bool,
    is_closed: bool,
    silence: Silence,
    /// Response times since the last report.
    times: RoundTrips,
}

impl Reader {
    pub(super) fn new(task: &Calls, part: Part) -> Reader {
        let documents = task.requests(part.seed).map(|_| Answer::of_unknown_size(Nanos::ZERO));
        let documents = documents.collect();
        let plan = schedule(task, 1, LEN, part.seed);
        Reader {
            tag: part.tag,
            pacer: Pacer::new(plan, part),
            documents,
            received: Tally::default(),
            polled: None,
            gives_up_at: None,
            is_settled: false,
            is_closed: false,
            silence: Silence::new(),
            times: RoundTrips::default(),
        }
    }

    /// Waits for the missing documents, after all requests were sent.
    fn finish(&mut self, now: Nanos) -> Action {
        let at = *self.gives_up_at.get_or_insert(now + DRAIN);
        let is_answered = self.received.messages >= self.pacer.tally().messages;
        self.is_settled |= is_answered || self.is_closed || now >= at;
        if self.is_settled { Action::Done } else { Action::Wait(Some(at)) }
    }

    /// Notes a part of a document; `None` if it answers nothing that is awaited.
    fn take(&mut self, now: Nanos, message: &[u8]) -> Option<()> {
        let (Header { tag, seq }, part) = DocumentPart::read(message)?;
        let asked = self.pacer.tally().messages;
        let answer = self.documents.get_mut(seq as usize);
        let answer = answer.filter(|_| tag == self.tag && seq < asked)?;
        match (part, answer.is_awaited()) {
            (DocumentPart::Begins, [true, _]) => answer.begins(now),
            (DocumentPart::Ends { bytes }, [false, false]) => {
                answer.ends(now, bytes);
                self.received.messages += 1;
                self.received.bytes += bytes;
                self.times.add(answer.took().0);
                self.silence.arrived(now, Some(answer.took()));
            }
            _ => return None,
        }
        Some(())
    }
}

impl Endpoint for Reader {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        self.polled = None;
        let (slot, due) = match self.pacer.turn(now) {
            Turn::At(at) => return Action::Wait(Some(at)),
            Turn::Over => return self.finish(now),
            Turn::Now(slot, due) => (slot, due),
        };
        let (number, lane) = slot.place.unwrap_or_default();
        let Some(answer) = self.documents.get_mut(number as usize) else { return Action::Done };
        *answer = Answer::of_unknown_size(due);
        Header { tag: self.tag, seq: number }.write(out);
        self.polled = Some(number);
        Action::Send { lane, len: slot.len }
    }

    fn on_sent(&mut self, now: Nanos) {
        if self.polled.take().is_some() {
            self.pacer.sent(now, LEN);
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
        if self.take(now, bytes).is_none() {
            self.received.foreign += 1;
        }
    }

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                self.pacer.give_up();
                self.is_closed = true;
            }
            FlowEvent::PeerFinished { .. } | FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_settled
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let (sent, received) = (self.pacer.tally(), self.received);
        let awaited = sent.messages - received.messages;
        Standing { awaited, sent, received, ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: std::mem::take(&mut self.times), ..RecentTimes::default() }
    }

    fn items(&self) -> Vec<Item> {
        let left = (self.pacer.tally().messages as usize).min(self.documents.len());
        items(&self.documents[..left], Nanos::ZERO)
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        let mut report = EndpointReport {
            received: self.received,
            outages: self.silence.outages(now),
            ..self.pacer.report()
        };
        if self.is_settled {
            let figures = figures(&self.documents).into_iter().flatten();
            report.figures = figures.map(|(name, figure)| (name.to_owned(), figure)).collect();
        }
        report
    }
}

//! The near endpoint at an origin: asks for a document when it is due, and notes when it begins and when all of it is here.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Tally;

use super::Calls;
use super::answers::Answer;
use super::asked::{Asked, schedule};
use deadheat_contract::workload::header::{DocumentPart, Header, LEN};
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Part, RecentTimes, Standing,
};

pub(super) struct Reader {
    tag: u32,
    asked: Asked,
    received: Tally,
    is_closed: bool,
}

impl Reader {
    pub(super) fn new(task: &Calls, part: Part) -> Reader {
        let documents = task.requests(part.seed).map(|_| Answer::of_unknown_size(Nanos::ZERO));
        let documents = documents.collect();
        let plan = schedule(task, 1, LEN, part.seed);
        Reader {
            tag: part.tag,
            asked: Asked::new(plan, part, documents),
            received: Tally::default(),
            is_closed: false,
        }
    }

    /// Notes a part of a document; `None` if it answers nothing that is awaited.
    fn take(&mut self, now: Nanos, message: &[u8]) -> Option<()> {
        let (Header { tag, seq }, part) = DocumentPart::read(message)?;
        let answer = self.asked.answer(seq).filter(|_| tag == self.tag)?;
        match (part, answer.is_awaited()) {
            (DocumentPart::Begins, [true, _]) => answer.begins(now),
            (DocumentPart::Ends { bytes }, [false, false]) => {
                answer.ends(now, bytes);
                let took = answer.took();
                self.received.messages += 1;
                self.received.bytes += bytes;
                self.asked.arrived(now, Some(took));
            }
            _ => return None,
        }
        Some(())
    }
}

impl Endpoint for Reader {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        let (request, answer) = match self.asked.poll(now, self.is_closed) {
            Ok(due) => due,
            Err(action) => return action,
        };
        *answer = Answer::of_unknown_size(request.due);
        Header { tag: self.tag, seq: request.number }.write(out);
        Action::Send { lane: request.lane, len: request.len }
    }

    fn on_sent(&mut self, now: Nanos) {
        self.asked.sent(now, LEN);
    }

    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        self.asked.no_room();
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
                self.asked.give_up();
                self.is_closed = true;
            }
            FlowEvent::PeerFinished { .. } | FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.asked.is_settled()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        self.asked.standing(self.received)
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.asked.take_recent()
    }

    fn items(&self) -> Vec<Item> {
        self.asked.items()
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        self.asked.report(now, self.received)
    }
}

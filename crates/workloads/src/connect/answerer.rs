//! The far endpoint: answers each request on the open connection.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Tally;

use super::ConnectTask;
use deadheat_contract::workload::header::{Header, SeqWindow, count};
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, Standing};

pub(super) struct Answerer {
    tag: u32,
    answer: usize,
    /// Number of the request to answer.
    asked: Option<u64>,
    seen: SeqWindow,
    sent: Tally,
    received: Tally,
    peer_finished: bool,
}

impl Answerer {
    pub(super) fn new(task: &ConnectTask, tag: u32) -> Answerer {
        Answerer {
            tag,
            answer: task.answer,
            asked: None,
            seen: SeqWindow::new(),
            sent: Tally::default(),
            received: Tally::default(),
            peer_finished: false,
        }
    }
}

impl Endpoint for Answerer {
    fn poll(&mut self, _now: Nanos, out: &mut [u8]) -> Action {
        match self.asked {
            Some(seq) => {
                Header { tag: self.tag, seq }.write(out);
                Action::Send { lane: Lane(0), len: self.answer }
            }
            None if self.peer_finished => Action::Done,
            None => Action::Wait(None),
        }
    }

    fn on_sent(&mut self, _now: Nanos) {
        self.asked = None;
        self.sent.messages += 1;
        self.sent.bytes += self.answer as u64;
    }

    /// Answers a request, also a repeated one: the first answer may have been lost.
    fn on_message(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8]) {
        match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag => {
                let arrival = self.seen.note(seq);
                count(&mut self.received, arrival, bytes.len());
                self.asked = Some(seq);
            }
            _ => self.received.foreign += 1,
        }
    }

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            // Forgets the request of the earlier connection, which was answered there.
            FlowEvent::Opened { .. } => self.asked = None,
            // Does nothing: the near end closes each connection, and the trial goes on with the next.
            FlowEvent::Closed => {}
            FlowEvent::PeerFinished { .. } => self.peer_finished = true,
            FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.peer_finished && self.asked.is_none()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, received: self.received, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport { sent: self.sent, received: self.received, ..EndpointReport::default() }
    }
}

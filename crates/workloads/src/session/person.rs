//! A person's end of a flow: sends what the person shares, and receives what the others do.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes, Standing};

use super::seen::Others;
use crate::paced::Receiver;
use crate::share::presenter::Presenter;

pub(super) struct Person {
    sender: Presenter,
    receiver: Receiver<Others>,
    /// True if the last `poll` returned a message to send.
    has_polled: bool,
}

impl Person {
    pub(super) fn new(sender: Presenter, receiver: Receiver<Others>) -> Person {
        Person { sender, receiver, has_polled: false }
    }
}

impl Endpoint for Person {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        let send = self.sender.poll(now, out);
        self.has_polled = matches!(send, Action::Send { .. });
        if self.has_polled {
            return send;
        }
        match (send, self.receiver.poll(now, out)) {
            (Action::Wait(send), Action::Wait(receive)) => {
                Action::Wait(send.into_iter().chain(receive).min())
            }
            (Action::Done, receive) => receive,
            (send, _) => send,
        }
    }

    fn on_sent(&mut self, now: Nanos) {
        self.has_polled = false;
        self.sender.on_sent(now);
    }

    fn on_no_room(&mut self, now: Nanos) -> Option<Nanos> {
        self.has_polled = false;
        self.sender.on_no_room(now)
    }

    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) {
        self.receiver.on_message(now, lane, bytes);
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        // While a message is to be sent, the peer takes no more; else it has ended its own direction.
        if event == FlowEvent::Closed && std::mem::take(&mut self.has_polled) {
            self.sender.on_event(now, event);
        }
        self.receiver.on_event(now, event);
    }

    fn has_sent_all(&self) -> bool {
        self.sender.has_sent_all()
    }

    fn standing(&mut self, now: Nanos) -> Standing {
        let Standing { sent, .. } = self.sender.standing(now);
        Standing { sent, ..self.receiver.standing(now) }
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.receiver.take_recent()
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        let EndpointReport { sent, send_span_ns, pacing, .. } = self.sender.report(now);
        EndpointReport { sent, send_span_ns, pacing, ..self.receiver.report(now) }
    }
}

//! The far endpoint: answers each request with as many messages as its response takes. With several lanes, responses
//! take turns message by message, so that a short one need not wait for a long one; with one lane, they go one after
//! the other, as in HTTP/1.1 (RFC 9112, 9.3.2).

use std::collections::VecDeque;

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Delivery, Lane};
use deadheat_contract::measurements::Tally;

use super::{Calls, Connections};
use crate::paced::{DUE_LEN, Intake, fill, read_due, write_due};
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, Standing};

/// A response with bytes left to send.
#[derive(Debug, Clone, Copy)]
struct Response {
    lane: Lane,
    request: u64,
    left: u64,
}

pub(super) struct Server {
    tag: u32,
    request: usize,
    largest: u64,
    /// Bytes of a response per message.
    room: u64,
    takes_turns: bool,
    /// True if each request has a connection of its own.
    is_redialled: bool,
    queue: VecDeque<Response>,
    intake: Intake,
    sent: Tally,
    has_begun: bool,
    is_over: bool,
}

/// Bytes of memory for each request.
pub(super) const BYTES_EACH: u64 = size_of::<Response>() as u64;

impl Server {
    pub(super) fn new(task: &Calls, lanes: u16, tag: u32) -> Server {
        Server {
            tag,
            request: task.request,
            largest: task.response.most,
            room: task.room(),
            takes_turns: lanes > 1,
            is_redialled: task.connect == Connections::Each,
            queue: VecDeque::with_capacity(task.requests_at_once() as usize),
            intake: Intake::new(tag, Nanos::ZERO, Delivery::Reliable),
            sent: Tally::default(),
            has_begun: false,
            is_over: false,
        }
    }

    /// Returns the bytes of `response` in its next message.
    fn part(&self, response: &Response) -> u64 {
        response.left.min(self.room)
    }
}

impl Endpoint for Server {
    fn poll(&mut self, _now: Nanos, out: &mut [u8]) -> Action {
        if !self.has_begun {
            self.has_begun = true;
            fill(out);
        }
        let Some(response) = self.queue.front() else {
            return if self.is_over { Action::Done } else { Action::Wait(None) };
        };
        let len = DUE_LEN + self.part(response) as usize;
        Header { tag: self.tag, seq: self.sent.messages }.write(out);
        write_due(&mut out[..len], Nanos(response.request));
        Action::Send { lane: response.lane, len }
    }

    fn on_sent(&mut self, _now: Nanos) {
        let Some(mut response) = self.queue.pop_front() else { return };
        let part = self.part(&response);
        self.sent.messages += 1;
        self.sent.bytes += DUE_LEN as u64 + part;
        response.left -= part;
        match (response.left, self.takes_turns) {
            (0, _) => {}
            (_, true) => self.queue.push_back(response),
            (_, false) => self.queue.push_front(response),
        }
    }

    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) {
        let Some(request) = self.intake.take(now, bytes) else { return };
        let size = read_due(bytes).map_or(0, |size| size.0);
        let is_sound = bytes.len() == self.request && (1..=self.largest).contains(&size);
        // The queue has the capacity for the maximum number of responses, and does not grow.
        if !is_sound || self.queue.len() == self.queue.capacity() {
            self.intake.damaged();
            return;
        }
        self.queue.push_back(Response { lane, request, left: size });
    }

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            // The rest of the responses of the earlier connection is not needed any more.
            FlowEvent::Opened { .. } => self.queue.clear(),
            // The rest is not needed any more; the next connection may still arrive.
            FlowEvent::Closed => {
                self.is_over |= !self.is_redialled;
                self.queue.clear();
            }
            FlowEvent::PeerFinished { .. } => {
                self.is_over = true;
                self.queue.clear();
            }
            FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, received: *self.intake.received(), ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport {
            sent: self.sent,
            received: *self.intake.received(),
            ..EndpointReport::default()
        }
    }
}

//! The far endpoint: answers each request with as many messages as its response takes. Where there are several lanes,
//! responses take turns message by message, so that a short one need not wait for a long one; where there is
//! one, they go one after the other, as those of HTTP/1.1 do on a connection (RFC 9112, 9.3.2).

use std::collections::VecDeque;

use crate::contract::{Action, Delivery, Lane};
use crate::measurements::Tally;
use crate::time::Nanos;

use super::{Calls, Connect};
use crate::paced::{Intake, STAMPED_LEN, fill, read_stamp, write_stamp};
use crate::workload::Standing;
use crate::workload::header::Header;
use crate::workload::{Endpoint, EndpointReport, FlowEvent};

/// A response of which something is left.
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
    /// Bytes of a response that one message carries.
    room: u64,
    takes_turns: bool,
    /// True if a request comes on a connection of its own.
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
            largest: task.response.1,
            room: task.room(),
            takes_turns: lanes > 1,
            is_redialled: task.connect == Connect::Each,
            queue: VecDeque::with_capacity(task.count as usize),
            intake: Intake::new(tag, Nanos::ZERO, Delivery::Reliable),
            sent: Tally::default(),
            has_begun: false,
            is_over: false,
        }
    }

    /// Returns the bytes that the next message carries of the response in front.
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
        let len = STAMPED_LEN + self.part(response) as usize;
        Header { tag: self.tag, seq: self.sent.messages }.write(out);
        write_stamp(&mut out[..len], Nanos(response.request));
        Action::Send { lane: response.lane, len }
    }

    fn on_sent(&mut self, _now: Nanos) {
        let Some(mut response) = self.queue.pop_front() else { return };
        let part = self.part(&response);
        self.sent.messages += 1;
        self.sent.bytes += STAMPED_LEN as u64 + part;
        response.left -= part;
        match (response.left, self.takes_turns) {
            (0, _) => {}
            (_, true) => self.queue.push_back(response),
            (_, false) => self.queue.push_front(response),
        }
    }

    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) {
        let Some(request) = self.intake.take(now, bytes) else { return };
        let size = read_stamp(bytes).map_or(0, |size| size.0);
        let is_sound = bytes.len() == self.request && (1..=self.largest).contains(&size);
        // As many as there are at most fit without more memory.
        if !is_sound || self.queue.len() == self.queue.capacity() {
            self.intake.damaged();
            return;
        }
        self.queue.push_back(Response { lane, request, left: size });
    }

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            // Nobody waits for what is left on the connection before.
            FlowEvent::Opened { .. } => self.queue.clear(),
            // Nobody waits for what is left; the next connection may still come in.
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

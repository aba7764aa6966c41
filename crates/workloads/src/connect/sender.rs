//! The near endpoint: opens a connection, sends a request, receives the answer, and begins again.

use std::collections::BTreeMap;

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Tally;

use super::ConnectTask;
use super::times::FirstBytes;
use deadheat_contract::workload::Standing;
use deadheat_contract::workload::header::{Arrival, Header, SeqWindow, count};
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes};

/// Phase of the current connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectPhase {
    /// No connection; the time at which the next is opened.
    Pause(Nanos),
    /// Open; the request was not sent yet, or not answered in time.
    Ask,
    /// The request was sent, and is repeated at this time.
    Await(Nanos),
}

pub(super) struct ConnectSender {
    tag: u32,
    request: usize,
    count: u64,
    pause: Nanos,
    retry: Nanos,
    /// True if a request is sent on each connection.
    asks: bool,
    phase: ConnectPhase,
    /// Number of connections with an answer.
    done: u64,
    /// Number of the first request on this connection: the count of requests on earlier ones.
    first: u64,
    set_up: Nanos,
    opened: Nanos,
    times: FirstBytes,
    seen: SeqWindow,
    sent: Tally,
    received: Tally,
}

impl ConnectSender {
    pub(super) fn new(task: &ConnectTask, tag: u32) -> ConnectSender {
        ConnectSender {
            tag,
            request: task.request,
            count: task.count,
            pause: task.pause,
            retry: task.retry,
            asks: task.asks(),
            phase: ConnectPhase::Pause(Nanos::ZERO),
            done: 0,
            first: 0,
            set_up: Nanos::ZERO,
            opened: Nanos::ZERO,
            times: FirstBytes::of(task.count),
            seen: SeqWindow::new(),
            sent: Tally::default(),
            received: Tally::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.done >= self.count
    }

    /// Notes the times of the current connection, and begins the pause after it.
    fn note(&mut self, now: Nanos, exchange: Nanos) {
        self.times.add(self.set_up, exchange);
        self.done += 1;
        self.phase = ConnectPhase::Pause(now + self.pause);
    }
}

impl Endpoint for ConnectSender {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        match self.phase {
            _ if self.is_over() => Action::Done,
            ConnectPhase::Pause(until) if now < until => Action::Wait(Some(until)),
            ConnectPhase::Pause(_) => Action::Open,
            ConnectPhase::Await(until) if now < until => Action::Wait(Some(until)),
            ConnectPhase::Ask | ConnectPhase::Await(_) => {
                Header { tag: self.tag, seq: self.sent.messages }.write(out);
                Action::Send { lane: Lane(0), len: self.request }
            }
        }
    }

    fn on_sent(&mut self, now: Nanos) {
        self.times.repeats += u64::from(matches!(self.phase, ConnectPhase::Await(_)));
        self.phase = ConnectPhase::Await(now + self.retry);
        self.sent.messages += 1;
        self.sent.bytes += self.request as u64;
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        let seq = match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag && seq < self.sent.messages => seq,
            _ => {
                self.received.foreign += 1;
                return;
            }
        };
        let arrival = self.seen.note(seq);
        count(&mut self.received, arrival, bytes.len());
        // The answer to a repeated request may follow the answer to the first.
        let is_awaited = matches!(self.phase, ConnectPhase::Await(_)) && seq >= self.first;
        if arrival == Arrival::Duplicate || !is_awaited {
            return;
        }
        self.note(now, now - self.opened);
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Opened { set_up } => {
                (self.opened, self.set_up, self.phase) = (now, set_up, ConnectPhase::Ask);
                self.first = self.sent.messages;
                if !self.asks {
                    self.note(now, Nanos::ZERO);
                }
            }
            FlowEvent::Drained | FlowEvent::Closed | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let awaited = u64::from(matches!(self.phase, ConnectPhase::Await(_)));
        Standing { sent: self.sent, received: self.received, awaited, ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.times.take_recent()
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let figures = if self.is_over() { self.times.figures(self.asks) } else { BTreeMap::new() };
        EndpointReport {
            sent: self.sent,
            received: self.received,
            figures,
            ..EndpointReport::default()
        }
    }
}

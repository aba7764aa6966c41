//! The near endpoint at an origin: opens a connection, asks for a document, notes when it begins, and goes on once all of
//! it is here.

use std::collections::BTreeMap;

use crate::contract::{Action, Lane};
use crate::measurements::Tally;
use crate::time::Nanos;

use super::ConnectTask;
use super::times::FirstBytes;
use crate::workload::Standing;
use crate::workload::header::{DocumentPart, Header, LEN};
use crate::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes};

/// Phase of the current visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VisitPhase {
    /// No connection; the time at which the next is opened.
    Pause(Nanos),
    /// Open; nothing was asked.
    Ask,
    /// Asked; the document has not begun.
    Await,
    /// The document has begun.
    Read,
}

pub(super) struct Visitor {
    tag: u32,
    count: u64,
    pause: Nanos,
    phase: VisitPhase,
    set_up: Nanos,
    opened: Nanos,
    times: FirstBytes,
    sent: Tally,
    received: Tally,
}

impl Visitor {
    pub(super) fn new(task: &ConnectTask, tag: u32) -> Visitor {
        Visitor {
            tag,
            count: task.count,
            pause: task.pause,
            phase: VisitPhase::Pause(Nanos::ZERO),
            set_up: Nanos::ZERO,
            opened: Nanos::ZERO,
            times: FirstBytes::of(task.count),
            sent: Tally::default(),
            received: Tally::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.received.messages >= self.count
    }
}

impl Endpoint for Visitor {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        match self.phase {
            _ if self.is_over() => Action::Done,
            VisitPhase::Pause(until) if now < until => Action::Wait(Some(until)),
            VisitPhase::Pause(_) => Action::Open,
            VisitPhase::Await | VisitPhase::Read => Action::Wait(None),
            VisitPhase::Ask => {
                Header { tag: self.tag, seq: self.sent.messages }.write(out);
                Action::Send { lane: Lane(0), len: LEN }
            }
        }
    }

    fn on_sent(&mut self, _now: Nanos) {
        self.phase = VisitPhase::Await;
        self.sent.messages += 1;
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        let part = match DocumentPart::read(bytes) {
            Some((Header { tag, seq }, part))
                if tag == self.tag && seq + 1 == self.sent.messages =>
            {
                part
            }
            _ => {
                self.received.foreign += 1;
                return;
            }
        };
        match (part, self.phase) {
            (DocumentPart::Begins, VisitPhase::Await) => {
                self.times.add(self.set_up, now - self.opened);
                self.phase = VisitPhase::Read;
            }
            (DocumentPart::Ends { bytes }, VisitPhase::Read) => {
                self.received.messages += 1;
                self.received.bytes += bytes;
                self.phase = VisitPhase::Pause(now + self.pause);
            }
            _ => self.received.foreign += 1,
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Opened { set_up } => {
                (self.opened, self.set_up, self.phase) = (now, set_up, VisitPhase::Ask);
            }
            FlowEvent::Drained | FlowEvent::Closed | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let awaited = u64::from(matches!(self.phase, VisitPhase::Await | VisitPhase::Read));
        Standing { sent: self.sent, received: self.received, awaited, ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.times.take_recent()
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let figures = if self.is_over() { self.times.figures() } else { BTreeMap::new() };
        EndpointReport {
            sent: self.sent,
            received: self.received,
            figures,
            ..EndpointReport::default()
        }
    }
}

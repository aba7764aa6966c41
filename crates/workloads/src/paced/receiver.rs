//! The receiving half of messages one way.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Delivery, Lane};
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use super::intake::Intake;
use super::read_due;
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes, Standing};

/// Measurement that a workload takes of arrivals.
pub(crate) trait Measure: Send {
    /// Bytes of memory for each message.
    const BYTES_EACH: u64 = 0;

    /// Returns the number of a message, its sequence number unless the content has another, and its length, if lengths
    /// differ.
    fn numbered(&self, seq: u64, _bytes: &[u8]) -> (u64, Option<usize>) {
        (seq, None)
    }

    /// Notes the first arrival of message `seq` at `now`. It was due at `due` on its sender's clock, if it has a stamp.
    /// `received` counts it already.
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, received: &Tally);

    /// Returns true if messages that cannot be lost are missing, while others may be lost.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Returns the items of the work with their outcomes; empty if its items are its messages.
    fn items(&self) -> Vec<Item> {
        Vec::new()
    }

    /// Returns the times of the items that were complete since the last call.
    fn take_times(&mut self) -> RoundTrips {
        RoundTrips::default()
    }

    /// Returns the jitter of arrivals so far (RFC 3550, 6.4.1), in nanoseconds; `None` if it is not measured.
    fn jitter_ns(&self) -> Option<u64> {
        None
    }

    /// Returns its figures by name; `None` if too little arrived to have any.
    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        None
    }

    /// Adds its figures. That takes time only if the flow has `ended`.
    fn report(&mut self, ended: bool, report: &mut EndpointReport) {
        if ended {
            let figures = self.figures().into_iter().flatten();
            report.figures = figures.map(|(name, figure)| (name.to_owned(), figure)).collect();
        }
    }
}

pub(crate) struct Receiver<M> {
    size: usize,
    intake: Intake,
    measure: M,
}

impl<M: Measure> Receiver<M> {
    /// Creates a receiver of messages of `size` bytes with this tag, over a path that may hold a message for `transit`,
    /// and lanes with this `delivery`.
    pub(crate) fn new(
        size: usize,
        tag: u32,
        transit: Nanos,
        delivery: Delivery,
        measure: M,
    ) -> Receiver<M> {
        Receiver { size, intake: Intake::new(tag, transit, delivery), measure }
    }

    /// Sets the interval between two messages, if all are equally far apart.
    pub(crate) fn every(self, period: Nanos) -> Receiver<M> {
        Receiver { intake: self.intake.every(period), ..self }
    }

    /// Sets the time in which at least one message is due, if messages are not equally far apart.
    pub(crate) fn beating(self, beat: Nanos) -> Receiver<M> {
        Receiver { intake: self.intake.beating(beat), ..self }
    }
}

impl<M: Measure> Endpoint for Receiver<M> {
    #[inline]
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        self.intake.begin(now);
        match self.intake.give_up_at(self.measure.is_waiting()) {
            _ if self.intake.is_over() => Action::Done,
            Some(at) if at <= now => Action::Done,
            at => Action::Wait(at),
        }
    }

    fn on_sent(&mut self, _now: Nanos) {}

    #[inline]
    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        let Some(seq) = self.intake.take(now, bytes) else { return };
        let (seq, length) = self.measure.numbered(seq, bytes);
        if bytes.len() != length.unwrap_or(self.size) {
            self.intake.damaged();
        }
        self.measure.note(now, seq, read_due(bytes), self.intake.received());
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => self.intake.close(),
            FlowEvent::PeerFinished { sent } => self.intake.peer_finished(now, sent),
            FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        true
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing {
            received: *self.intake.received(),
            lost: self.intake.lost(),
            jitter_ns: self.measure.jitter_ns(),
            ..Standing::default()
        }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes {
            missing: self.intake.take_missing(),
            delays: self.measure.take_times(),
            ..RecentTimes::default()
        }
    }

    fn items(&self) -> Vec<Item> {
        self.measure.items()
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let mut report = EndpointReport {
            received: *self.intake.received(),
            outages: self.intake.outages(),
            ..EndpointReport::default()
        };
        self.measure.report(self.intake.has_ended(), &mut report);
        report
    }
}

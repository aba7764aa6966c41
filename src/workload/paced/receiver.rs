//! The receiving half: takes each message once, and knows when no more will come.

use crate::contract::{Action, Delivery, Lane};
use crate::figures::Tally;
use crate::time::Nanos;

use super::super::header::{Arrival, Header, SeqWindow, count};
use super::super::{Half, HalfReport, Standing};
use super::read_stamp;

/// What a workload makes of arrivals.
pub(in crate::workload) trait Measure: Send {
    /// Bytes of memory for each message.
    const BYTES_EACH: u64 = 0;

    /// Message `seq` arrived at `now`, for the first time. It was due at `due` on its sender's clock, where
    /// it says so. `received` counts it already.
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, received: &Tally);

    /// Its figures by name; `None` where too little arrived to have any.
    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        None
    }

    /// Adds its figures. That takes time only where the flow has `ended`.
    fn report(&mut self, ended: bool, report: &mut HalfReport) {
        if ended {
            let figures = self.figures().into_iter().flatten();
            report.figures = figures.map(|(name, figure)| (name.to_owned(), figure)).collect();
        }
    }
}

pub(in crate::workload) struct Receiver<M> {
    size: usize,
    tag: u32,
    delivery: Delivery,
    measure: M,
    seen: SeqWindow,
    received: Tally,
    last: Option<Nanos>,
    closed: bool,
    /// What the sender sent, and when this end learned it.
    peer_finished: Option<(Tally, Nanos)>,
    /// After the sender has ended, this long without an arrival means that the rest is lost.
    quiet: Nanos,
}

/// How long that is, besides the time that a message may be on its way.
const QUIET: Nanos = Nanos::from_millis(200);

impl<M: Measure> Receiver<M> {
    /// For messages of `size` bytes with this tag, which the path may hold for `transit`, and lanes that
    /// deliver them so.
    pub(in crate::workload) fn new(
        size: usize,
        tag: u32,
        transit: Nanos,
        delivery: Delivery,
        measure: M,
    ) -> Receiver<M> {
        Receiver {
            size,
            tag,
            delivery,
            measure,
            seen: SeqWindow::new(),
            received: Tally::default(),
            last: None,
            closed: false,
            peer_finished: None,
            quiet: QUIET + transit,
        }
    }

    /// Whether no more will come; what is lost never does, what is sent again does in the end.
    fn is_over(&self) -> bool {
        let all_here =
            self.peer_finished.is_some_and(|(sent, _)| self.received.messages >= sent.messages);
        self.closed || all_here
    }

    /// When to give up on what has not come; `None` as long as it may.
    fn give_up_at(&self) -> Option<Nanos> {
        let (_, told) = self.peer_finished.filter(|_| self.delivery != Delivery::Reliable)?;
        Some(self.last.unwrap_or_default().max(told) + self.quiet)
    }
}

impl<M: Measure> Half for Receiver<M> {
    #[inline]
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        match self.give_up_at() {
            _ if self.is_over() => Action::Done,
            Some(at) if at <= now => Action::Done,
            at => Action::Wait(at),
        }
    }

    fn on_sent(&mut self, _now: Nanos) {}

    #[inline]
    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        let seq = match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag => seq,
            _ => {
                self.received.foreign += 1;
                return;
            }
        };
        let arrival = self.seen.note(seq);
        count(&mut self.received, arrival, bytes.len());
        if arrival == Arrival::Duplicate {
            return;
        }
        if bytes.len() != self.size {
            self.received.corrupted += 1;
        }
        self.last = Some(now);
        self.measure.note(now, seq, read_stamp(bytes), &self.received);
    }

    fn on_closed(&mut self, _now: Nanos) {
        self.closed = true;
    }

    fn on_peer_finished(&mut self, now: Nanos, sent: Tally) {
        self.peer_finished = Some((sent, now));
    }

    fn has_sent_all(&self) -> bool {
        true
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { received: self.received, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> HalfReport {
        let mut report = HalfReport { received: self.received, ..HalfReport::default() };
        let ended = self.closed || self.peer_finished.is_some();
        self.measure.report(ended, &mut report);
        report
    }
}

//! Measurement of a constant rate at its receiver: goodput, and delays above the shortest.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Recorder, Tally};

use crate::bulk::{Marks, Timing};
use crate::paced::Measure;
use deadheat_contract::workload::EndpointReport;

pub(super) struct CbrMeasure {
    recorder: Box<dyn Recorder>,
    marks: Marks,
    received_bytes: u64,
    is_stamped: bool,
    jitter: Jitter,
}

/// Jitter of arrivals: mean deviation of the difference of the delays of two successive messages (RFC 3550, 6.4.1).
#[derive(Debug, Default)]
struct Jitter {
    last_ns: Option<i64>,
    /// The jitter times 16, as in appendix A.8.
    scaled: u64,
}

impl Jitter {
    #[inline]
    fn add(&mut self, delay_ns: i64) {
        if let Some(last) = self.last_ns.replace(delay_ns) {
            let scaled = self.scaled;
            self.scaled = scaled + delay_ns.abs_diff(last) - ((scaled + 8) >> 4).min(scaled);
        }
    }

    fn ns(&self) -> Option<u64> {
        self.last_ns.map(|_| self.scaled >> 4)
    }
}

impl CbrMeasure {
    pub(super) fn new(recorder: Box<dyn Recorder>, timing: Timing, is_stamped: bool) -> CbrMeasure {
        let (marks, jitter) = (Marks::new(timing), Jitter::default());
        CbrMeasure { recorder, marks, received_bytes: 0, is_stamped, jitter }
    }
}

impl Measure for CbrMeasure {
    #[inline]
    fn note(&mut self, now: Nanos, _seq: u64, due: Option<Nanos>, received: &Tally) {
        self.received_bytes = received.bytes;
        self.marks.note(now, received.bytes);
        let Some(due) = due else { return };
        let delay = now.signed_since(due);
        self.jitter.add(delay);
        if self.marks.measures() {
            self.recorder.record_delay(delay);
        }
    }

    fn jitter_ns(&self) -> Option<u64> {
        self.jitter.ns()
    }

    /// Adds the figures. The delays are summed up at the end only, because that takes time.
    fn report(&mut self, ended: bool, report: &mut EndpointReport) {
        report.receive_span = self.marks.span(self.received_bytes);
        report.segments = self.marks.segments(self.received_bytes);
        if ended && self.is_stamped && self.jitter.ns().is_some() {
            let delays = self.recorder.delays();
            report.delay_variation_ns = Some(delays.variation);
            report.least_delay_ns = delays.least_ns;
        }
    }
}

//! Measurement of a constant rate at its receiver: goodput, and how delays differ from the least one.

use crate::measurements::{Recorder, Tally};
use crate::time::Nanos;

use super::super::bulk::{Marks, Timing};
use super::super::paced::Measure;
use crate::workload::EndpointReport;

pub(super) struct Arrivals {
    recorder: Box<dyn Recorder>,
    marks: Marks,
    received_bytes: u64,
    is_stamped: bool,
}

impl Arrivals {
    pub(super) fn new(recorder: Box<dyn Recorder>, timing: Timing, is_stamped: bool) -> Arrivals {
        Arrivals { recorder, marks: Marks::new(timing), received_bytes: 0, is_stamped }
    }
}

impl Measure for Arrivals {
    #[inline]
    fn note(&mut self, now: Nanos, _seq: u64, due: Option<Nanos>, received: &Tally) {
        self.received_bytes = received.bytes;
        self.marks.note(now, received.bytes);
        if let Some(due) = due.filter(|_| self.marks.measures()) {
            self.recorder.record_delay(now.signed_since(due));
        }
    }

    /// Adds the figures; the delays are summed up at the end only, as that takes time.
    fn report(&mut self, ended: bool, report: &mut EndpointReport) {
        report.receive_span = self.marks.span(self.received_bytes);
        report.segments = self.marks.segments(self.received_bytes);
        report.delay_variation_ns =
            (ended && self.is_stamped).then(|| self.recorder.delay_variation());
    }
}

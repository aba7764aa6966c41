//! The receiving half: counts each message once, and how its delay differs from the least one.

use crate::contract::{Action, Delivery, Lane};
use crate::figures::{Recorder, Tally};
use crate::time::Nanos;

use super::super::bulk::{Marks, Timing};
use super::super::header::{Arrival, Header, SeqWindow, count};
use super::super::{Half, HalfReport, Part, Standing};
use super::{STAMPED_LEN, read_stamp};

pub(super) struct Receiver {
    size: usize,
    tag: u32,
    delivery: Delivery,
    recorder: Box<dyn Recorder>,
    seen: SeqWindow,
    received: Tally,
    marks: Marks,
    closed: bool,
    /// What the sender sent, and when this end learned it.
    peer_finished: Option<(Tally, Nanos)>,
    /// After the sender has ended, this long without an arrival means that the rest is lost.
    quiet: Nanos,
}

/// How long that is, besides the time that a message may be on its way.
const QUIET: Nanos = Nanos::from_millis(200);

impl Receiver {
    pub(super) fn new(size: usize, part: Part, timing: Timing) -> Receiver {
        Receiver {
            size,
            tag: part.tag,
            delivery: part.guarantees.delivery,
            recorder: part.recorder,
            seen: SeqWindow::new(),
            received: Tally::default(),
            marks: Marks::new(timing),
            closed: false,
            peer_finished: None,
            quiet: QUIET + part.transit,
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
        let (_, told) = self.peer_finished.filter(|_| self.delivery == Delivery::BestEffort)?;
        let last = self.marks.last().unwrap_or_default();
        Some(last.max(told) + self.quiet)
    }
}

impl Half for Receiver {
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
        self.marks.note(now, self.received.bytes);
        if let Some(stamp) = read_stamp(bytes).filter(|_| self.marks.measures()) {
            self.recorder.record_delay(now.signed_since(stamp));
        }
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

    /// The delays are summed up at the end only, as that takes time.
    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { received: self.received, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> HalfReport {
        let ended = self.closed || self.peer_finished.is_some();
        let stamped = self.size >= STAMPED_LEN;
        HalfReport {
            received: self.received,
            receive_span: self.marks.span(),
            segments: self.marks.segments(self.received.bytes),
            delay_variation_ns: (ended && stamped).then(|| self.recorder.delay_variation()),
            ..HalfReport::default()
        }
    }
}

//! Messages that one end receives, each once, and the decision whether more will come.

use crate::contract::Delivery;
use crate::measurements::series::Missing;
use crate::measurements::{Outage, Tally};
use crate::time::Nanos;

use super::super::header::{Arrival, Header, SeqWindow, count};
use super::super::silence::Silence;

pub(in crate::workload) struct Intake {
    tag: u32,
    delivery: Delivery,
    seen: SeqWindow,
    received: Tally,
    last: Option<Nanos>,
    closed: bool,
    /// Tally of what the sender sent, and the time at which this end learned it.
    peer_finished: Option<(Tally, Nanos)>,
    /// Time without an arrival, once the sender has ended, after which the rest is lost.
    quiet: Nanos,
    transit: Nanos,
    /// Time between two messages, if all are equally far apart.
    period: Option<Nanos>,
    silence: Silence,
    /// Messages that were overtaken since the last look.
    missing: Option<Missing>,
}

/// Time in `quiet`, besides the time that a message may be on its way.
const QUIET: Nanos = Nanos::from_millis(200);

impl Intake {
    /// Creates an intake of messages with this tag, which the path may hold for `transit`, and lanes that
    /// deliver them so.
    pub(in crate::workload) fn new(tag: u32, transit: Nanos, delivery: Delivery) -> Intake {
        Intake {
            tag,
            delivery,
            seen: SeqWindow::new(),
            received: Tally::default(),
            last: None,
            closed: false,
            peer_finished: None,
            quiet: QUIET + transit,
            transit,
            period: None,
            silence: Silence::new(),
            missing: None,
        }
    }

    /// Sets the time between two messages, from which this end knows which ones it misses.
    pub(in crate::workload) fn every(self, period: Nanos) -> Intake {
        Intake { period: Some(period).filter(|period| *period > Nanos::ZERO), ..self }
    }

    /// Notes that the flow is under way at `now`.
    #[inline]
    pub(in crate::workload) fn begin(&mut self, now: Nanos) {
        if self.period.is_some() {
            self.silence.begin_receiving(now, self.transit);
        }
    }

    /// Counts a message; its number where it is one of this trial's and came for the first time.
    #[inline]
    pub(in crate::workload) fn take(&mut self, now: Nanos, bytes: &[u8]) -> Option<u64> {
        let seq = match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag => seq,
            _ => {
                self.received.foreign += 1;
                return None;
            }
        };
        let expected = self.seen.expected();
        let arrival = self.seen.note(seq);
        count(&mut self.received, arrival, bytes.len());
        if arrival == Arrival::Duplicate {
            return None;
        }
        if let Some(period) = self.period {
            self.silence.were_due(self.due_since_last(now, period));
            self.silence.came(now, None);
            if seq > expected {
                let due = |seq: u64| Nanos(seq.saturating_mul(period.0));
                let first = Missing::with(self.missing, due(expected));
                self.missing = Some(Missing::with(Some(first), due(seq - 1)));
            }
        }
        self.last = Some(now);
        Some(seq)
    }

    /// Returns the number of messages that were due since the last arrival.
    fn due_since_last(&self, now: Nanos, period: Nanos) -> u64 {
        (now - self.last.unwrap_or(now)).0 / period.0
    }

    /// Returns the number of messages that later ones have overtaken and that have not come; `None` where they are
    /// not equally far apart, or will come.
    pub(in crate::workload) fn lost(&self) -> Option<u64> {
        let may_be_lost = self.delivery != Delivery::Reliable && self.period.is_some();
        may_be_lost.then(|| self.seen.expected().saturating_sub(self.received.messages))
    }

    /// Returns the times at which messages were due that were overtaken since the last call.
    pub(in crate::workload) fn take_missing(&mut self) -> Option<Missing> {
        self.missing.take()
    }

    /// Returns the outages so far. One that lasts ends when the sender has sent all, as far as this end knows.
    pub(in crate::workload) fn outages(&mut self) -> Vec<Outage> {
        match (self.peer_finished, self.period) {
            (Some((sent, told)), Some(period)) if self.received.messages < sent.messages => {
                self.silence.were_due(self.due_since_last(told, period));
                self.silence.outages(told)
            }
            _ => self.silence.outages(self.last.unwrap_or_default()),
        }
    }

    /// Notes that the message that was taken last is damaged.
    pub(in crate::workload) fn damaged(&mut self) {
        self.received.corrupted += 1;
    }

    pub(in crate::workload) fn received(&self) -> &Tally {
        &self.received
    }

    /// Notes that the peer ended its direction.
    pub(in crate::workload) fn close(&mut self) {
        self.closed = true;
    }

    /// Notes that the peer has sent all that it will.
    pub(in crate::workload) fn peer_finished(&mut self, now: Nanos, sent: Tally) {
        self.peer_finished = Some((sent, now));
    }

    /// Returns true if the peer will send no more, as far as is known here.
    pub(in crate::workload) fn has_ended(&self) -> bool {
        self.closed || self.peer_finished.is_some()
    }

    /// Returns true if no more will come; what is lost never does, what is sent again does in the end.
    pub(in crate::workload) fn is_over(&self) -> bool {
        let all_here =
            self.peer_finished.is_some_and(|(sent, _)| self.received.messages >= sent.messages);
        self.closed || all_here
    }

    /// Returns the time to give up on what has not come; `None` as long as it may come, and while
    /// `is_waiting`.
    pub(in crate::workload) fn give_up_at(&self, is_waiting: bool) -> Option<Nanos> {
        let may_be_lost = self.delivery != Delivery::Reliable && !is_waiting;
        let (_, told) = self.peer_finished.filter(|_| may_be_lost)?;
        Some(self.last.unwrap_or_default().max(told) + self.quiet)
    }
}

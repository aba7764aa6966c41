//! Messages that one end receives, each once, and the decision whether more will come.

use crate::contract::Delivery;
use crate::measurements::Tally;
use crate::time::Nanos;

use super::super::header::{Arrival, Header, SeqWindow, count};

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
        let arrival = self.seen.note(seq);
        count(&mut self.received, arrival, bytes.len());
        if arrival == Arrival::Duplicate {
            return None;
        }
        self.last = Some(now);
        Some(seq)
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

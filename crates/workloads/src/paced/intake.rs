//! Messages that one end receives, each counted once, and the decision whether more will arrive.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Delivery;
use deadheat_contract::measurements::series::Missing;
use deadheat_contract::measurements::{Outage, Tally};

use crate::silence::Silence;
use deadheat_contract::workload::header::{Arrival, Header, SeqWindow, count};

pub(crate) struct Intake {
    tag: u32,
    delivery: Delivery,
    seen: SeqWindow,
    received: Tally,
    last: Option<Nanos>,
    closed: bool,
    /// Tally of the sender's messages, and the time at which this end received that tally.
    peer_finished: Option<(Tally, Nanos)>,
    /// Time without an arrival, once the sender has ended, after which the rest is lost.
    quiet: Nanos,
    transit: Nanos,
    /// Time between two messages, if all are equally far apart.
    period: Option<Nanos>,
    /// Longest time between two due messages, if the work has such a beat.
    beat: Option<Nanos>,
    silence: Silence,
    /// Messages that were overtaken since the last report.
    missing: Option<Missing>,
}

/// Part of `quiet` beside the longest time of a message on the path.
const QUIET: Nanos = Nanos::from_millis(200);

impl Intake {
    /// Creates an intake of messages with this tag, over a path that may hold a message for `transit`, and lanes with
    /// this `delivery`.
    pub(crate) fn new(tag: u32, transit: Nanos, delivery: Delivery) -> Intake {
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
            beat: None,
            silence: Silence::new(),
            missing: None,
        }
    }

    /// Sets the interval between two messages, by which this end knows which are missing.
    pub(crate) fn every(self, period: Nanos) -> Intake {
        let period = Some(period).filter(|period| *period > Nanos::ZERO);
        Intake { period, beat: period, ..self }
    }

    /// Sets the time in which at least one message is due, by which this end detects outages.
    pub(crate) fn beating(self, beat: Nanos) -> Intake {
        Intake { beat: Some(beat).filter(|beat| *beat > Nanos::ZERO), ..self }
    }

    /// Notes that the flow is under way at `now`.
    #[inline]
    pub(crate) fn begin(&mut self, now: Nanos) {
        if self.beat.is_some() {
            self.silence.begin_receiving(now, self.transit);
        }
    }

    /// Counts a message; returns its number if it belongs to this trial and is no copy.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, bytes: &[u8]) -> Option<u64> {
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
        if let Some(beat) = self.beat {
            self.silence.were_due(self.due_since_last(now, beat));
            self.silence.arrived(now, None);
        }
        if let Some(period) = self.period.filter(|_| seq > expected) {
            let due = |seq: u64| Nanos(seq.saturating_mul(period.0));
            let first = Missing::with(self.missing, due(expected));
            self.missing = Some(Missing::with(Some(first), due(seq - 1)));
        }
        self.last = Some(now);
        Some(seq)
    }

    /// Returns the number of beats since the last arrival, in each of which a message was due.
    fn due_since_last(&self, now: Nanos, beat: Nanos) -> u64 {
        (now - self.last.unwrap_or(now)).0 / beat.0
    }

    /// Returns the number of missing messages that later ones have overtaken; `None` if messages are not equally far
    /// apart, or if all arrive in the end.
    pub(crate) fn lost(&self) -> Option<u64> {
        let may_be_lost = self.delivery != Delivery::Reliable && self.period.is_some();
        may_be_lost.then(|| self.seen.expected().saturating_sub(self.received.messages))
    }

    /// Returns the due times of the messages that were overtaken since the last call.
    pub(crate) fn take_missing(&mut self) -> Option<Missing> {
        self.missing.take()
    }

    /// Returns the outages so far. An outage that goes on ends when the sender has sent all, as far as this end knows.
    pub(crate) fn outages(&mut self) -> Vec<Outage> {
        match (self.peer_finished, self.beat) {
            (Some((sent, told)), Some(beat)) if self.received.messages < sent.messages => {
                self.silence.were_due(self.due_since_last(told, beat));
                self.silence.outages(told)
            }
            _ => self.silence.outages(self.last.unwrap_or_default()),
        }
    }

    /// Notes that the last message is damaged.
    pub(crate) fn damaged(&mut self) {
        self.received.corrupted += 1;
    }

    pub(crate) fn received(&self) -> &Tally {
        &self.received
    }

    /// Notes that the peer ended its direction.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Notes that the peer has sent all of its messages, with their tally.
    pub(crate) fn peer_finished(&mut self, now: Nanos, sent: Tally) {
        self.peer_finished = Some((sent, now));
    }

    /// Returns true if the peer will send no more, as far as this end knows.
    pub(crate) fn has_ended(&self) -> bool {
        self.closed || self.peer_finished.is_some()
    }

    /// Returns true if no more messages will arrive. Lost messages never do; messages that are sent again do in the
    /// end.
    pub(crate) fn is_over(&self) -> bool {
        let all_here =
            self.peer_finished.is_some_and(|(sent, _)| self.received.messages >= sent.messages);
        self.closed || all_here
    }

    /// Returns the time to give up on missing messages; `None` as long as they may arrive, and while `is_waiting`.
    pub(crate) fn give_up_at(&self, is_waiting: bool) -> Option<Nanos> {
        let may_be_lost = self.delivery != Delivery::Reliable && !is_waiting;
        let (_, told) = self.peer_finished.filter(|_| may_be_lost)?;
        Some(self.last.unwrap_or_default().max(told) + self.quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of three messages every 20 ms for 10 s, without those that are due between `down`, in milliseconds.
    fn outages(down: std::ops::Range<u64>) -> Vec<Outage> {
        let beat = Nanos::from_millis(20);
        let transit = Nanos::from_millis(5);
        let mut intake = Intake::new(7, transit, Delivery::BestEffort).beating(beat);
        intake.begin(Nanos::ZERO);
        let (mut seq, mut sent) = (0, Tally::default());
        for at in (0..10_000).step_by(20) {
            for _ in 0..3 {
                let mut message = [0; 64];
                Header { tag: 7, seq }.write(&mut message);
                if !down.contains(&at) {
                    intake.take(Nanos::from_millis(at + 5), &message);
                }
                (seq, sent.messages) = (seq + 1, sent.messages + 1);
            }
        }
        intake.peer_finished(Nanos::from_secs(10), sent);
        intake.outages()
    }

    #[test]
    fn work_with_a_beat_knows_its_outages() {
        let [outage] = outages(4_000..7_000)[..] else { panic!("not one outage") };
        assert_eq!((outage.length_ns, outage.messages), (3_020_000_000, 151));
        assert_eq!(outage.from_ns, 3_980_000_000);
        assert_eq!(outages(0..0), []);
        assert_eq!(outages(4_000..4_100), []);
        let [last] = outages(9_000..10_000)[..] else { panic!("not one outage at the end") };
        assert_eq!(last.from_ns, 8_980_000_000);
    }
}

//! The sending half: hands over bytes or numbered messages until its time or bytes are used.

use crate::contract::{Action, Lane, Source};
use crate::figures::Tally;
use crate::time::Nanos;

use super::super::header::{self, Header};
use super::super::{Half, HalfReport, Standing};
use super::Stop;

pub(super) struct Sender {
    stop: Stop,
    size: usize,
    call: usize,
    header: Header,
    sent: Tally,
    start: Option<Nanos>,
    last: Nanos,
    /// Bytes handed over per visit, so that the clock is looked at about once a millisecond.
    stretch: u64,
    left_in_stretch: u64,
}

const SHORT_VISIT: Nanos = Nanos::from_millis(1);
const LONG_VISIT: Nanos = Nanos::from_millis(4);
const LONGEST_STRETCH: u64 = 8 << 20;

impl Sender {
    pub(super) fn new(stop: Stop, size: usize, call: usize, tag: u32) -> Sender {
        Sender {
            stop,
            size,
            call,
            header: Header { tag, seq: 0 },
            sent: Tally::default(),
            start: None,
            last: Nanos::ZERO,
            stretch: call as u64,
            left_in_stretch: 0,
        }
    }

    fn left(&self, now: Nanos, start: Nanos) -> u64 {
        match self.stop {
            Stop::After { bytes } => bytes.saturating_sub(self.sent.bytes),
            Stop::At { time } if now - start < time => u64::MAX,
            Stop::At { .. } => 0,
        }
    }

    /// Longer visits on a fast path, shorter ones on a slow path.
    fn adapt(&mut self, visit: Nanos) {
        if visit < SHORT_VISIT {
            self.stretch = (self.stretch * 2).min(LONGEST_STRETCH);
        } else if visit > LONG_VISIT {
            self.stretch = (self.stretch / 2).max(self.call as u64);
        }
    }
}

impl Half for Sender {
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        let start = match self.start {
            None => *self.start.insert(now),
            Some(start) => {
                self.adapt(now - self.last);
                start
            }
        };
        self.last = now;
        self.left_in_stretch = self.left(now, start).min(self.stretch);
        if self.left_in_stretch == 0 { Action::Done } else { Action::Pump }
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(self)
    }

    fn on_sent(&mut self, _now: Nanos) {}

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_closed(&mut self, _now: Nanos) {}

    fn on_peer_finished(&mut self, _now: Nanos, _sent: Tally) {}

    fn has_sent_all(&self) -> bool {
        self.start.is_some() && self.left_in_stretch == 0
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> HalfReport {
        let span = self.start.map(|start| (self.last - start).0);
        let mut sent = self.sent;
        // A byte stream stamps nothing, so it has sent no messages.
        if self.header.seq > 0 {
            sent.messages = sent.bytes.div_ceil(self.size as u64);
        }
        HalfReport { sent, send_span_ns: span, ..HalfReport::default() }
    }
}

impl Source for Sender {
    #[inline]
    fn budget(&self) -> u64 {
        self.left_in_stretch
    }

    fn message_size(&self) -> usize {
        self.size
    }

    fn call_size(&self) -> usize {
        self.call
    }

    #[inline]
    fn stamp(&mut self, message: &mut [u8]) {
        if message.len() >= header::LEN {
            self.header.write(message);
        }
        self.header.seq += 1;
    }

    #[inline]
    fn accepted(&mut self, bytes: u64) {
        self.left_in_stretch = self.left_in_stretch.saturating_sub(bytes);
        self.sent.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transport that takes everything, `per_visit` nanoseconds a visit; returns the sender.
    fn run(stop: Stop, per_visit: u64) -> Sender {
        let mut sender = Sender::new(stop, 1000, 4000, 7);
        let mut now = Nanos(50);
        while sender.poll(now, &mut []) == Action::Pump {
            let mut message = [0; 1000];
            while sender.budget() > 0 {
                sender.stamp(&mut message);
                sender.accepted(1000.min(sender.budget()));
            }
            now += Nanos(per_visit);
        }
        sender
    }

    #[test]
    fn bytes_end_it_exactly() {
        let mut sender = run(Stop::After { bytes: 123_000 }, 10);
        assert_eq!(sender.report(Nanos(0)).sent.bytes, 123_000);
        assert_eq!(sender.report(Nanos(0)).sent.messages, 123);
        assert_eq!(sender.header.seq, 123);
    }

    #[test]
    fn time_ends_it_within_a_visit_and_visits_grow_on_a_fast_path() {
        let mut sender = run(Stop::At { time: Nanos::from_millis(10) }, 500_000);
        let span = sender.report(Nanos(0)).send_span_ns.unwrap();
        assert!((10_000_000..10_500_001).contains(&span), "{span}");
        assert!(sender.stretch > 4000);
        let slow = run(Stop::At { time: Nanos::from_millis(100) }, 9_000_000);
        assert_eq!(slow.stretch, 4000);
    }
}

//! The receiving half: counts what arrives, and knows when it was the last.
//!
//! A byte stream says itself when it ends. For messages, control says how many were sent; the
//! receiver then waits until they are all there, or until nothing has come for a while.

use crate::contract::{Action, Framing, Lane, Sink};
use crate::figures::Tally;
use crate::time::Nanos;

use super::super::header::{Header, SeqWindow, count};
use super::super::{Half, HalfReport, ReceiveSpan, Standing};

pub(super) struct Receiver {
    framing: Framing,
    tag: u32,
    seen: SeqWindow,
    received: Tally,
    span: Option<ReceiveSpan>,
    closed: bool,
    /// What the sender sent, and when this end learned it.
    peer_finished: Option<(Tally, Nanos)>,
}

/// After the sender has ended, this long without an arrival means that the rest is lost.
const QUIET: Nanos = Nanos::from_millis(200);

impl Receiver {
    pub(super) fn new(framing: Framing, tag: u32) -> Receiver {
        Receiver {
            framing,
            tag,
            seen: SeqWindow::new(),
            received: Tally::default(),
            span: None,
            closed: false,
            peer_finished: None,
        }
    }

    fn is_done(&self, now: Nanos) -> bool {
        if self.closed {
            return true;
        }
        let (Some((sent, told)), Framing::Messages) = (self.peer_finished, self.framing) else {
            return false;
        };
        let last = self.span.map_or(Nanos::ZERO, |span| Nanos(span.last_ns));
        self.received.messages >= sent.messages || now - last.max(told) >= QUIET
    }
}

impl Half for Receiver {
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        if self.is_done(now) { Action::Done } else { Action::Drain }
    }

    fn sink(&mut self) -> Option<&mut dyn Sink> {
        Some(self)
    }

    fn on_sent(&mut self, _now: Nanos) {}

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_drained(&mut self, now: Nanos) {
        match &mut self.span {
            Some(span) => span.last_ns = now.0,
            None => {
                let first_bytes = self.received.bytes;
                self.span = Some(ReceiveSpan { first_ns: now.0, last_ns: now.0, first_bytes });
            }
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

    fn standing(&mut self, _now: Nanos) -> Standing {
        let numbered = self.framing == Framing::Messages;
        let lost = numbered.then(|| self.seen.expected().saturating_sub(self.received.messages));
        Standing { received: self.received, lost, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> HalfReport {
        HalfReport { received: self.received, receive_span: self.span, ..HalfReport::default() }
    }
}

impl Sink for Receiver {
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        if self.framing == Framing::ByteStream {
            self.received.bytes += bytes.len() as u64;
            return;
        }
        match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag => {
                let arrival = self.seen.note(seq);
                count(&mut self.received, arrival, bytes.len());
            }
            _ => self.received.foreign += 1,
        }
    }

    #[inline]
    fn pass(&mut self, bytes: u64) {
        self.received.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64) -> [u8; 100] {
        let mut message = [0; 100];
        Header { tag: 7, seq }.write(&mut message);
        message
    }

    fn sent(messages: u64) -> Tally {
        Tally { messages, ..Tally::default() }
    }

    #[test]
    fn it_waits_for_the_tail_and_gives_up_when_all_is_quiet() {
        let mut receiver = Receiver::new(Framing::Messages, 7);
        receiver.take(&message(0));
        receiver.on_drained(Nanos(1_000));
        receiver.on_peer_finished(Nanos(2_000), sent(3));
        assert_eq!(receiver.poll(Nanos(3_000), &mut []), Action::Drain);
        receiver.take(&message(2));
        receiver.on_drained(Nanos(100_000_000));
        assert_eq!(receiver.poll(Nanos(299_000_000), &mut []), Action::Drain);
        assert_eq!(receiver.poll(Nanos(300_000_000), &mut []), Action::Done);
        let report = receiver.report(Nanos(0));
        assert_eq!(report.received.messages, 2);
        let span = report.receive_span.unwrap();
        assert_eq!((span.first_ns, span.last_ns, span.first_bytes), (1_000, 100_000_000, 100));
    }

    #[test]
    fn the_last_message_ends_it_at_once() {
        let mut receiver = Receiver::new(Framing::Messages, 7);
        receiver.on_peer_finished(Nanos(1), sent(1));
        receiver.take(&message(0));
        receiver.on_drained(Nanos(2));
        assert_eq!(receiver.poll(Nanos(3), &mut []), Action::Done);
    }

    #[test]
    fn a_stream_ends_when_it_says_so_and_not_before() {
        let mut receiver = Receiver::new(Framing::ByteStream, 7);
        receiver.take(&[0; 5000]);
        receiver.on_drained(Nanos(1));
        receiver.on_peer_finished(Nanos(2), sent(0));
        assert_eq!(receiver.poll(Nanos::from_secs(9), &mut []), Action::Drain);
        receiver.on_closed(Nanos::from_secs(9));
        assert_eq!(receiver.poll(Nanos::from_secs(9), &mut []), Action::Done);
        assert_eq!(receiver.report(Nanos(0)).received.bytes, 5000);
    }

    #[test]
    fn copies_reordering_and_strangers_are_told_apart() {
        let mut receiver = Receiver::new(Framing::Messages, 7);
        for seq in [0, 2, 1, 2] {
            receiver.take(&message(seq));
        }
        receiver.take(b"stray");
        let got = receiver.report(Nanos(0)).received;
        assert_eq!((got.messages, got.duplicates, got.reordered, got.foreign), (3, 1, 1, 1));
    }

    #[test]
    fn it_misses_what_was_overtaken_until_it_comes_after_all() {
        let mut receiver = Receiver::new(Framing::Messages, 7);
        let mut lost = |seq| {
            receiver.take(&message(seq));
            receiver.standing(Nanos(0)).lost
        };
        assert_eq!([0, 3, 1, 1, 4].map(&mut lost), [0, 2, 1, 1, 1].map(Some));
        let mut stream = Receiver::new(Framing::ByteStream, 7);
        stream.take(&[0; 9]);
        let standing = stream.standing(Nanos(0));
        assert_eq!((standing.lost, standing.received.bytes), (None, 9));
    }
}

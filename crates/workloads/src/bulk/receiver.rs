//! The receiving half: counts bytes and messages, and detects the end.
//!
//! A byte stream signals its end. For messages, the sender's tally arrives on the control connection; the receiver then
//! waits until all have arrived or, if they may be lost, until none has arrived for a while.

use deadheat_base::error::Error;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Delivery, FileAt, Framing, Guarantees, Lane, Sink};
use deadheat_contract::measurements::Tally;

use super::keeper::{Fit, Keeper};
use super::marks::{Marks, Timing};
use crate::silence::Silence;
use deadheat_contract::workload::header::{self, Header, SeqWindow, count};
use deadheat_contract::workload::{BulkPart, Endpoint, EndpointReport, FlowEvent, Standing};

pub(super) struct BulkReceiver {
    framing: Framing,
    delivery: Delivery,
    tag: u32,
    seen: SeqWindow,
    received: Tally,
    marks: Marks,
    closed: bool,
    /// Tally of the sender's messages, and the time at which this end received that tally.
    peer_finished: Option<(Tally, Nanos)>,
    /// Receiver of the content, if it is stored or checked.
    keeper: Option<Box<Keeper>>,
    /// Time without an arrival, once the sender has ended, after which the rest is lost.
    quiet: Nanos,
    silence: Silence,
    /// First arrival, last arrival, and number of arrivals.
    came: Option<(Nanos, Nanos, u64)>,
    /// Time of the request, where this end asks for the data.
    asked: RequestTime,
}

/// Time at which the receiver asks for the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestTime {
    /// Never: the far end sends by itself.
    Never,
    /// As soon as it begins.
    First,
    /// At this time.
    At(Nanos),
}

/// Part of `quiet` beside the longest time of a message on the path.
const QUIET: Nanos = Nanos::from_millis(200);

impl BulkReceiver {
    pub(super) fn new(promised: &Guarantees, tag: u32, keeper: Option<Keeper>) -> BulkReceiver {
        BulkReceiver {
            framing: promised.framing,
            delivery: promised.service.delivery,
            tag,
            seen: SeqWindow::new(),
            received: Tally::default(),
            marks: Marks::default(),
            closed: false,
            peer_finished: None,
            keeper: keeper.map(Box::new),
            quiet: QUIET,
            silence: Silence::new(),
            came: None,
            asked: RequestTime::Never,
        }
    }

    /// Sets whether the receiver asks its peer for the data.
    pub(super) fn asking(self, asks: bool) -> BulkReceiver {
        let asked = if asks { RequestTime::First } else { RequestTime::Never };
        BulkReceiver { asked, ..self }
    }

    /// Sets the time for which the path may hold a message.
    pub(super) fn over(self, transit: Nanos) -> BulkReceiver {
        BulkReceiver { quiet: QUIET + transit, ..self }
    }

    /// Sets the warm-up and the measured time.
    pub(super) fn timed(self, timing: Timing) -> BulkReceiver {
        let marks = Marks::new(timing);
        // Messages that wait behind a gap are handed on as others; a byte stream waits whole.
        let is_stream = self.framing == Framing::ByteStream;
        BulkReceiver { marks: if is_stream { marks.asking() } else { marks }, ..self }
    }

    fn is_done(&self, now: Nanos) -> bool {
        if self.closed {
            return true;
        }
        let (Some((sent, told)), Framing::Messages) = (self.peer_finished, self.framing) else {
            return false;
        };
        let last = self.marks.last().unwrap_or_default();
        self.received.messages >= sent.messages
            || (self.delivery == Delivery::BestEffort && now - last.max(told) >= self.quiet)
    }
}

impl Endpoint for BulkReceiver {
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        if self.keeper.as_ref().is_some_and(|keeper| keeper.has_failed()) {
            return Action::Fail;
        }
        self.silence.begin_receiving(now, self.quiet - QUIET);
        if self.asked == RequestTime::First {
            self.asked = RequestTime::At(now);
        }
        if self.is_done(now) { Action::Done } else { Action::Drain }
    }

    fn failure(&mut self) -> Option<Error> {
        self.keeper.as_mut()?.failure()
    }

    fn bulk(&mut self) -> BulkPart<'_> {
        BulkPart::Receives(self)
    }

    fn on_sent(&mut self, _now: Nanos) {}

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Drained => {
                if let (true, Some(keeper)) = (self.marks.is_empty(), &mut self.keeper) {
                    keeper.begun();
                }
                self.marks.note(now, self.received.bytes);
                let (first, last, times) = self.came.unwrap_or((now, now, 0));
                // Data has no schedule: as many arrivals were due as in an equal time before.
                self.silence
                    .were_due((now - last).0.saturating_mul(times) / (last - first).0.max(1));
                self.silence.arrived(now, None);
                self.came = Some((first, now, times + 1));
            }
            FlowEvent::Closed => self.closed = true,
            FlowEvent::PeerFinished { sent } => self.peer_finished = Some((sent, now)),
            FlowEvent::Opened { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        true
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let numbered = self.framing == Framing::Messages;
        let lost = numbered.then(|| self.seen.expected().saturating_sub(self.received.messages));
        Standing { received: self.received, lost, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport {
            received: self.received,
            receive_span: self.marks.span(self.received.bytes),
            send_began_ns: match self.asked {
                RequestTime::At(at) => Some(at.0),
                RequestTime::Never | RequestTime::First => None,
            },
            segments: self.marks.segments(self.received.bytes),
            content: self.keeper.as_ref().map(|keeper| keeper.report()),
            outages: self.silence.outages(Nanos::ZERO),
            ..EndpointReport::default()
        }
    }
}

impl Sink for BulkReceiver {
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        if self.framing == Framing::ByteStream {
            self.received.bytes += bytes.len() as u64;
            if let Some(keeper) = &mut self.keeper {
                keeper.stream(bytes);
            }
            return;
        }
        match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag => {
                if let Some(keeper) = &mut self.keeper
                    && keeper.message(seq, &bytes[header::LEN..]) == Fit::Beyond
                {
                    self.received.foreign += 1;
                    return;
                }
                let arrival = self.seen.note(seq);
                count(&mut self.received, arrival, bytes.len());
            }
            _ => self.received.foreign += 1,
        }
    }

    #[inline]
    fn pass(&mut self, bytes: u64) {
        self.received.bytes += bytes;
        if let Some(keeper) = &mut self.keeper {
            keeper.passed(bytes);
        }
    }

    fn arrived(&mut self, amount: Option<u64>) {
        self.marks.arrived(amount);
    }

    #[inline]
    fn wants_arrived(&self) -> bool {
        self.marks.want_arrived()
    }

    fn stopped(&mut self) {
        self.marks.ask_at_stop();
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.keeper.as_mut()?.room()
    }

    fn file(&self) -> Option<FileAt<'_>> {
        self.keeper.as_ref()?.file()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::tests::shelf::Shelf;
    use deadheat_contract::contract::Service;

    fn message(seq: u64) -> [u8; 100] {
        let mut message = [0; 100];
        Header { tag: 7, seq }.write(&mut message);
        message
    }

    fn sent(messages: u64) -> Tally {
        Tally { messages, ..Tally::default() }
    }

    #[test]
    fn what_is_sent_again_until_it_arrives_is_waited_for() {
        let reliable = Guarantees { service: Service::ORDERED, ..Guarantees::DATAGRAMS };
        let mut receiver = BulkReceiver::new(&reliable, 7, None);
        receiver.take(&message(0));
        receiver.on_event(Nanos(1_000), FlowEvent::Drained);
        receiver.on_event(Nanos(2_000), FlowEvent::PeerFinished { sent: sent(2) });
        assert_eq!(receiver.poll(Nanos::from_secs(9), &mut []), Action::Drain);
        receiver.take(&message(1));
        assert_eq!(receiver.poll(Nanos::from_secs(9), &mut []), Action::Done);
    }

    #[test]
    fn it_waits_for_the_tail_and_gives_up_when_all_is_quiet() {
        let mut receiver = BulkReceiver::new(&Guarantees::DATAGRAMS, 7, None);
        receiver.take(&message(0));
        receiver.on_event(Nanos(1_000), FlowEvent::Drained);
        receiver.on_event(Nanos(2_000), FlowEvent::PeerFinished { sent: sent(3) });
        assert_eq!(receiver.poll(Nanos(3_000), &mut []), Action::Drain);
        receiver.take(&message(2));
        receiver.on_event(Nanos(100_000_000), FlowEvent::Drained);
        assert_eq!(receiver.poll(Nanos(299_000_000), &mut []), Action::Drain);
        assert_eq!(receiver.poll(Nanos(300_000_000), &mut []), Action::Done);
        let report = receiver.report(Nanos(0));
        assert_eq!(report.received.messages, 2);
        let span = report.receive_span.unwrap();
        assert_eq!((span.first_ns, span.last_ns, span.first_bytes), (1_000, 100_000_000, 100));
    }

    #[test]
    fn the_last_message_ends_it_at_once() {
        let mut receiver = BulkReceiver::new(&Guarantees::DATAGRAMS, 7, None);
        receiver.on_event(Nanos(1), FlowEvent::PeerFinished { sent: sent(1) });
        receiver.take(&message(0));
        receiver.on_event(Nanos(2), FlowEvent::Drained);
        assert_eq!(receiver.poll(Nanos(3), &mut []), Action::Done);
    }

    #[test]
    fn a_stream_ends_when_it_says_so_and_not_before() {
        let mut receiver = BulkReceiver::new(&Guarantees::BYTE_STREAM, 7, None);
        receiver.take(&[0; 5000]);
        receiver.on_event(Nanos(1), FlowEvent::Drained);
        receiver.on_event(Nanos(2), FlowEvent::PeerFinished { sent: sent(0) });
        assert_eq!(receiver.poll(Nanos::from_secs(9), &mut []), Action::Drain);
        receiver.on_event(Nanos::from_secs(9), FlowEvent::Closed);
        assert_eq!(receiver.poll(Nanos::from_secs(9), &mut []), Action::Done);
        assert_eq!(receiver.report(Nanos(0)).received.bytes, 5000);
    }

    #[test]
    fn it_waits_for_what_the_path_may_still_hold() {
        let ms = Nanos::from_millis;
        let mut receiver = BulkReceiver::new(&Guarantees::DATAGRAMS, 7, None).over(ms(300));
        let sent = Tally { messages: 2, ..Tally::default() };
        receiver.on_event(ms(10), FlowEvent::PeerFinished { sent });
        assert_eq!(receiver.poll(ms(509), &mut []), Action::Drain);
        receiver.take(&message(0));
        receiver.on_event(ms(310), FlowEvent::Drained);
        assert_eq!(receiver.poll(ms(809), &mut []), Action::Drain);
        assert_eq!(receiver.poll(ms(810), &mut []), Action::Done);
    }

    #[test]
    fn copies_reordering_and_strangers_are_told_apart() {
        let mut receiver = BulkReceiver::new(&Guarantees::DATAGRAMS, 7, None);
        for seq in [0, 2, 1, 2] {
            receiver.take(&message(seq));
        }
        receiver.take(b"stray");
        let got = receiver.report(Nanos(0)).received;
        assert_eq!((got.messages, got.duplicates, got.reordered, got.foreign), (3, 1, 1, 1));
    }

    #[test]
    fn it_misses_what_was_overtaken_until_it_comes_after_all() {
        let mut receiver = BulkReceiver::new(&Guarantees::DATAGRAMS, 7, None);
        let mut lost = |seq| {
            receiver.take(&message(seq));
            receiver.standing(Nanos(0)).lost
        };
        assert_eq!([0, 3, 1, 1, 4].map(&mut lost), [0, 2, 1, 1, 1].map(Some));
        let mut stream = BulkReceiver::new(&Guarantees::BYTE_STREAM, 7, None);
        stream.take(&[0; 9]);
        let standing = stream.standing(Nanos(0));
        assert_eq!((standing.lost, standing.received.bytes), (None, 9));
    }

    #[test]
    fn a_message_beyond_the_end_of_the_content_is_a_stranger() {
        let keeper = Keeper::new(0, 100).in_messages(88);
        let mut receiver = BulkReceiver::new(&Guarantees::DATAGRAMS, 7, Some(keeper));
        for seq in [0, 1, 2, u64::MAX] {
            receiver.take(&message(seq));
        }
        let report = receiver.report(Nanos(0));
        assert_eq!((report.received.messages, report.received.foreign), (2, 2));
        assert_eq!(report.content.unwrap().arrived, 100);
    }

    #[test]
    fn a_file_that_cannot_be_written_ends_it_with_the_reason() {
        let keeper = Keeper::new(0, 100).into_store(Shelf::full_from(0).store());
        let mut receiver = BulkReceiver::new(&Guarantees::BYTE_STREAM, 7, Some(keeper));
        assert_eq!(receiver.poll(Nanos(1), &mut []), Action::Drain);
        receiver.take(b"abc");
        assert_eq!(receiver.poll(Nanos(2), &mut []), Action::Fail);
        assert!(receiver.failure().unwrap().to_string().contains("no room at 0"));
    }
}

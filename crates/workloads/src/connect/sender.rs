//! The near endpoint: opens a connection, sends a request, receives the answer, and begins again. An origin answers with a
//! document, of which the begin is noted; the endpoint goes on once all of it is here.

use std::collections::BTreeMap;

use deadheat_base::error::Error;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Tally;

use super::ConnectTask;
use super::times::FirstBytes;
use deadheat_contract::workload::header::{Arrival, DocumentPart, Header, LEN, SeqWindow, count};
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes, Standing};

/// Phase of the current connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectPhase {
    /// No connection; the time at which the next is opened.
    Pause(Nanos),
    /// Open; the request was not sent yet, or not answered in time.
    Ask,
    /// The request was sent, and is repeated at this time; that of a document is not, and has an answer before.
    Await(Nanos),
    /// The document has begun, and has to end before this time.
    Read(Nanos),
}

/// Longest time until a document begins, and until it ends.
const LONGEST_PART: Nanos = Nanos::from_secs(30);

pub(super) struct ConnectSender {
    tag: u32,
    request: usize,
    count: u64,
    pause: Nanos,
    retry: Nanos,
    /// True if a request is sent on each connection.
    asks: bool,
    /// True if an origin answers, with documents.
    visits: bool,
    phase: ConnectPhase,
    /// Number of connections with an answer.
    done: u64,
    /// Number of the first request on this connection: the count of requests on earlier ones.
    first: u64,
    set_up: Nanos,
    opened: Nanos,
    times: FirstBytes,
    seen: SeqWindow,
    sent: Tally,
    received: Tally,
}

impl ConnectSender {
    /// Creates the endpoint; `visits` if an origin answers, with documents.
    pub(super) fn new(task: &ConnectTask, tag: u32, visits: bool) -> ConnectSender {
        ConnectSender {
            tag,
            request: if visits { LEN } else { task.request },
            count: task.count,
            pause: task.pause,
            retry: if visits { LONGEST_PART } else { task.retry },
            asks: visits || task.asks(),
            visits,
            phase: ConnectPhase::Pause(Nanos::ZERO),
            done: 0,
            first: 0,
            set_up: Nanos::ZERO,
            opened: Nanos::ZERO,
            times: FirstBytes::of(task.count),
            seen: SeqWindow::new(),
            sent: Tally::default(),
            received: Tally::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.done >= self.count
    }

    /// Notes the times of the current connection, and begins the pause after it.
    fn note(&mut self, now: Nanos, exchange: Nanos) {
        self.times.add(self.set_up, exchange);
        self.done += 1;
        self.phase = ConnectPhase::Pause(now + self.pause);
    }

    /// Takes a message of an origin; returns `None` if it is none, or out of turn.
    fn take_part(&mut self, now: Nanos, bytes: &[u8]) -> Option<()> {
        let (Header { tag, seq }, part) = DocumentPart::read(bytes)?;
        (tag == self.tag && seq + 1 == self.sent.messages).then_some(())?;
        match (part, self.phase) {
            (DocumentPart::Begins, ConnectPhase::Await(_)) => {
                self.times.add(self.set_up, now - self.opened);
                self.phase = ConnectPhase::Read(now + LONGEST_PART);
            }
            (DocumentPart::Ends { bytes }, ConnectPhase::Read(_)) => {
                self.received.messages += 1;
                self.received.bytes += bytes;
                self.done += 1;
                self.phase = ConnectPhase::Pause(now + self.pause);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Endpoint for ConnectSender {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        match self.phase {
            _ if self.is_over() => Action::Done,
            ConnectPhase::Pause(until) if now < until => Action::Wait(Some(until)),
            ConnectPhase::Pause(_) => Action::Open,
            ConnectPhase::Await(until) | ConnectPhase::Read(until) if now < until => {
                Action::Wait(Some(until))
            }
            ConnectPhase::Await(_) | ConnectPhase::Read(_) if self.visits => Action::Fail,
            ConnectPhase::Ask | ConnectPhase::Await(_) | ConnectPhase::Read(_) => {
                Header { tag: self.tag, seq: self.sent.messages }.write(out);
                Action::Send { lane: Lane(0), len: self.request }
            }
        }
    }

    fn failure(&mut self) -> Option<Error> {
        let what = match self.phase {
            ConnectPhase::Read(_) => "it did not send all of its document",
            _ => "it took a request, and did not answer",
        };
        Some(Error::broken("the far end", format!("{what} within {LONGEST_PART}")))
    }

    fn on_sent(&mut self, now: Nanos) {
        self.times.repeats += u64::from(matches!(self.phase, ConnectPhase::Await(_)));
        self.phase = ConnectPhase::Await(now + self.retry);
        self.sent.messages += 1;
        self.sent.bytes += if self.visits { 0 } else { self.request as u64 };
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        if self.visits {
            let is_part = self.take_part(now, bytes).is_some();
            self.received.foreign += u64::from(!is_part);
            return;
        }
        let seq = match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag && seq < self.sent.messages => seq,
            _ => {
                self.received.foreign += 1;
                return;
            }
        };
        let arrival = self.seen.note(seq);
        count(&mut self.received, arrival, bytes.len());
        // The answer to a repeated request may follow the answer to the first.
        let is_awaited = matches!(self.phase, ConnectPhase::Await(_)) && seq >= self.first;
        if arrival == Arrival::Duplicate || !is_awaited {
            return;
        }
        self.note(now, now - self.opened);
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Opened { set_up } => {
                (self.opened, self.set_up, self.phase) = (now, set_up, ConnectPhase::Ask);
                self.first = self.sent.messages;
                if !self.asks {
                    self.note(now, Nanos::ZERO);
                }
            }
            FlowEvent::Drained | FlowEvent::Closed | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let awaits = matches!(self.phase, ConnectPhase::Await(_) | ConnectPhase::Read(_));
        let awaited = u64::from(awaits);
        Standing { sent: self.sent, received: self.received, awaited, ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.times.take_recent()
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let figures = if self.is_over() { self.times.figures(self.asks) } else { BTreeMap::new() };
        EndpointReport {
            sent: self.sent,
            received: self.received,
            figures,
            ..EndpointReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paced::pacer::tests::part;
    use deadheat_contract::contract::PeerFacts;
    use deadheat_contract::workload::header::DUE_LEN;
    use deadheat_contract::workload::{self, AnswerSource, Part, Setting};

    fn visitor() -> Box<dyn Endpoint> {
        let setting = Setting { answers: AnswerSource::Origin, ..Setting::REMOTE };
        let task = workload::parse_on("connect:count=20", &setting).unwrap();
        let part = part(
            deadheat_contract::contract::Side::Near,
            deadheat_contract::contract::Guarantees::BYTE_STREAM,
        );
        task.half(Part { peer: PeerFacts { has_documents: true, ..PeerFacts::OTHERS }, ..part })
    }

    /// Gives the endpoint a part of the document for its request `seq`.
    fn arrives(visitor: &mut dyn Endpoint, now: Nanos, seq: u64, part: DocumentPart) {
        let mut message = [0; DUE_LEN];
        let len = part.write(Header { tag: 7, seq }, &mut message);
        visitor.on_message(now, Lane(0), &message[..len]);
    }

    #[test]
    fn each_visit_is_timed_until_its_document_begins_and_lasts_until_it_ends() {
        let (mut visitor, mut out) = (visitor(), [0; 64]);
        let ms = Nanos::from_millis;
        for visit in 0..20 {
            let now = ms(100 * visit);
            assert_eq!(visitor.poll(now, &mut out), Action::Open);
            visitor.on_event(now, FlowEvent::Opened { set_up: ms(20) });
            assert_eq!(visitor.poll(now, &mut out), Action::Send { lane: Lane(0), len: LEN });
            visitor.on_sent(now);
            arrives(&mut *visitor, now + ms(10 + visit), visit, DocumentPart::Begins);
            assert!(matches!(visitor.poll(now + ms(40), &mut out), Action::Wait(Some(_))));
            arrives(&mut *visitor, now + ms(50), visit, DocumentPart::Ends { bytes: 9 });
        }
        assert_eq!(visitor.poll(ms(2_000), &mut out), Action::Done);
        let report = visitor.report(ms(2_000));
        assert_eq!((report.received.messages, report.received.bytes), (20, 180));
        assert_eq!(report.figures["first_byte_p50_ns"], 39e6);
        assert_eq!(report.figures["set_up_p50_ns"], 20e6);
    }

    #[test]
    fn a_site_that_hangs_ends_the_trial_and_strange_messages_count_for_nothing() {
        let (mut visitor, mut out) = (visitor(), [0; 64]);
        let open = |visitor: &mut dyn Endpoint, out: &mut [u8]| {
            visitor.on_event(Nanos::ZERO, FlowEvent::Opened { set_up: Nanos::ZERO });
            visitor.poll(Nanos::ZERO, out);
            visitor.on_sent(Nanos::ZERO);
        };
        open(&mut *visitor, &mut out);
        arrives(&mut *visitor, Nanos(1), 0, DocumentPart::Ends { bytes: 9 });
        arrives(&mut *visitor, Nanos(1), 5, DocumentPart::Begins);
        visitor.on_message(Nanos(1), Lane(0), b"strange");
        assert_eq!(visitor.report(Nanos(1)).received.foreign, 3);
        assert_eq!(visitor.poll(LONGEST_PART, &mut out), Action::Fail);
        let said = visitor.failure().unwrap().to_string();
        assert_eq!(said, "the far end: it took a request, and did not answer within 30.0 s");
    }
}

//! The near endpoint: opens a connection, sends a request, receives the answer, and begins again.

use std::collections::BTreeMap;

use crate::contract::{Action, Lane};
use crate::measurements::Tally;
use crate::measurements::series::RoundTrips;
use crate::stats::quantile::printable_rank;
use crate::time::Nanos;

use super::ConnectTask;
use crate::workload::Standing;
use crate::workload::header::{Arrival, Header, SeqWindow, count};
use crate::workload::{Endpoint, EndpointReport, FlowEvent, RecentTimes};

/// Samples beyond each reported quantile.
const BEYOND: usize = 10;

/// Phase of the current connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectPhase {
    /// No connection; the time at which the next is opened.
    Pause(Nanos),
    /// Open; the request was not sent yet, or not answered in time.
    Ask,
    /// The request was sent, and is repeated at this time.
    Await(Nanos),
}

pub(super) struct ConnectSender {
    tag: u32,
    request: usize,
    count: u64,
    pause: Nanos,
    retry: Nanos,
    phase: ConnectPhase,
    /// Number of connections with an answer.
    done: u64,
    /// Number of the first request on this connection: the count of requests on earlier ones.
    first: u64,
    set_up: Nanos,
    opened: Nanos,
    /// Number of repeated requests.
    repeats: u64,
    /// Times of set-up and exchange of each connection, in nanoseconds.
    times: Vec<(u64, u64)>,
    /// Times until the first byte since the last report.
    recent: RoundTrips,
    seen: SeqWindow,
    sent: Tally,
    received: Tally,
}

impl ConnectSender {
    pub(super) fn new(task: &ConnectTask, tag: u32) -> ConnectSender {
        ConnectSender {
            tag,
            request: task.request,
            count: task.count,
            pause: task.pause,
            retry: task.retry,
            phase: ConnectPhase::Pause(Nanos::ZERO),
            done: 0,
            first: 0,
            set_up: Nanos::ZERO,
            opened: Nanos::ZERO,
            repeats: 0,
            times: Vec::with_capacity(task.count as usize),
            recent: RoundTrips::default(),
            seen: SeqWindow::new(),
            sent: Tally::default(),
            received: Tally::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.done >= self.count
    }

    fn figures(&self) -> BTreeMap<String, f64> {
        let n = self.times.len();
        if n < BEYOND {
            return BTreeMap::new();
        }
        let of = |each: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<u64> = self.times.iter().map(each).collect();
            all.sort_unstable();
            all
        };
        let (first, set_up, exchange) =
            (of(|(set_up, exchange)| set_up + exchange), of(|(s, _)| *s), of(|(_, e)| *e));
        let rank = |all: &[u64], q: f64| {
            printable_rank(n as u64, q).map(|rank| all[rank as usize - 1] as f64)
        };
        let mean = first.iter().map(|ns| *ns as f64).sum::<f64>() / n as f64;
        let figures = [
            ("first_byte_p50_ns", rank(&first, 0.5)),
            ("first_byte_mean_ns", Some(mean)),
            ("first_byte_p99_ns", rank(&first, 0.99)),
            ("first_byte_max_ns", first.last().map(|ns| *ns as f64)),
            ("set_up_p50_ns", rank(&set_up, 0.5)),
            ("exchange_p50_ns", rank(&exchange, 0.5)),
            ("asked_again_share", Some(self.repeats as f64 / n as f64)),
        ];
        figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

impl Endpoint for ConnectSender {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        match self.phase {
            _ if self.is_over() => Action::Done,
            ConnectPhase::Pause(until) if now < until => Action::Wait(Some(until)),
            ConnectPhase::Pause(_) => Action::Open,
            ConnectPhase::Await(until) if now < until => Action::Wait(Some(until)),
            ConnectPhase::Ask | ConnectPhase::Await(_) => {
                Header { tag: self.tag, seq: self.sent.messages }.write(out);
                Action::Send { lane: Lane(0), len: self.request }
            }
        }
    }

    fn on_sent(&mut self, now: Nanos) {
        self.repeats += u64::from(matches!(self.phase, ConnectPhase::Await(_)));
        self.phase = ConnectPhase::Await(now + self.retry);
        self.sent.messages += 1;
        self.sent.bytes += self.request as u64;
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
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
        let exchange = now - self.opened;
        self.times.push((self.set_up.0, exchange.0));
        self.recent.add((self.set_up + exchange).0);
        self.done += 1;
        self.phase = ConnectPhase::Pause(now + self.pause);
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Opened { set_up } => {
                (self.opened, self.set_up, self.phase) = (now, set_up, ConnectPhase::Ask);
                self.first = self.sent.messages;
            }
            FlowEvent::Drained | FlowEvent::Closed | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let awaited = u64::from(matches!(self.phase, ConnectPhase::Await(_)));
        Standing { sent: self.sent, received: self.received, awaited, ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: std::mem::take(&mut self.recent), ..RecentTimes::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let figures = if self.is_over() { self.figures() } else { BTreeMap::new() };
        EndpointReport {
            sent: self.sent,
            received: self.received,
            figures,
            ..EndpointReport::default()
        }
    }
}

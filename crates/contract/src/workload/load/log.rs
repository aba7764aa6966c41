//! Log of one flow's messages, with the due time and the fate of each, for the figures of phases at the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::contract::{Action, Lane};
use crate::measurements::{OneWayDelays, Recorder, RoundTripSummary, Sample, SendSummary};
use deadheat_base::error::Error;
use deadheat_base::time::Nanos;

use super::super::header::{Header, read_due};
use super::super::{Part, Standing, Task, TaskInfo};
use super::marks::PhaseMarks;
use super::phases::{Facts, Fate, Item, LOST, Observed, Phases};
use crate::workload::{BulkPart, Endpoint, EndpointReport, FlowEvent, RecentTimes};

/// Maximum number of messages in a log.
pub(super) const MOST: u64 = 1 << 20;

/// A message: its number, and its fate, with its due time on the clock of this host.
type Entry = (u64, Fate);

/// Returns the maximum number of messages of a direction; `None` if unknown.
pub(super) fn most(info: &TaskInfo) -> Option<u64> {
    Some(info.most_bytes?.div_ceil(info.largest_message.max(1) as u64))
}

/// Returns the capacity of a log in messages: 0 if the work reports its own items, or has only bytes.
fn known_most(info: &TaskInfo) -> u64 {
    match info.observed {
        Some(Observed::RoundTrips | Observed::OneWay(_)) => most(info).unwrap_or(MOST).min(MOST),
        Some(Observed::Items(_) | Observed::Bytes(_)) | None => 0,
    }
}

/// Returns the memory of a task's log in bytes, with the sorted fates at the end.
pub(super) fn memory(info: &TaskInfo) -> u64 {
    let each = 2 * size_of::<Entry>() + size_of::<Fate>() + size_of::<u64>();
    (known_most(info) + SPARE) * each as u64
}

/// Capacity of a log beyond the number of messages, for copies by the path.
const SPARE: u64 = 1 << 10;

/// Creates the endpoint of `task`, with a log at the end that observes its messages.
pub(super) fn logged(
    task: &dyn Task,
    phases: &Phases,
    observed: Observed,
    mut part: Part,
) -> Box<dyn Endpoint> {
    let is_of_all = matches!(observed, Observed::Bytes(_));
    if part.side != observed.side() || (part.flow != 0 && !is_of_all) {
        return task.half(part);
    }
    let info = task.info();
    let whole = info.planned.unwrap_or_default();
    let log = Arc::new(Mutex::new(Log::new(known_most(info), info.largest_message as u64)));
    let marks = is_of_all.then(|| PhaseMarks::new(phases, whole));
    if observed == Observed::RoundTrips {
        part.recorder = Box::new(LoggingRecorder { inner: part.recorder, log: Arc::clone(&log) });
    }
    let facts = Facts { observed, whole, timeout: info.timeout };
    let (tag, phases) = (part.tag, phases.clone());
    Box::new(LoggedEndpoint {
        inner: task.half(part),
        log,
        marks,
        phases,
        facts,
        tag,
        begin: None,
        sent: 0,
    })
}

struct Log {
    entries: Vec<Entry>,
    /// Bound on the numbers of messages: all are below.
    most: u64,
    /// Bytes of a message.
    size: u64,
    /// True if there were more entries than room: then there are no figures.
    is_over_full: bool,
}

impl Log {
    fn new(most: u64, size: u64) -> Log {
        let room = (most + SPARE) as usize;
        // Written once, so that the pages are in memory.
        let mut entries = vec![(1, Fate { due: Nanos(1), took: LOST, bytes: 1 }); room];
        entries.clear();
        Log { entries, most, size, is_over_full: false }
    }

    fn add(&mut self, seq: u64, due: Nanos, took: u64) {
        if self.entries.len() < self.entries.capacity() && seq < self.most {
            let bytes = if took == LOST { 0 } else { self.size };
            self.entries.push((seq, Fate { due, took, bytes }));
        } else {
            self.is_over_full = true;
        }
    }

    /// Returns the fates of all messages by their numbers, with due times after `begin`. Messages up to the number
    /// `sent` without an entry are lost; their due times are interpolated between their neighbours'.
    fn fates(&mut self, begin: Nanos, sent: u64) -> Vec<Fate> {
        self.entries.sort_by_key(|(seq, _)| *seq);
        self.entries.dedup_by_key(|(seq, _)| *seq);
        let known = &self.entries;
        let (Some((first, head)), Some((last, tail))) = (known.first(), known.last()) else {
            return Vec::new();
        };
        let step = (tail.due - head.due).0 / (last - first).max(1);
        let lost = |due: Nanos| Fate { due: due - begin, took: LOST, bytes: 0 };
        let steps = |n: u64| Nanos(step.saturating_mul(n));
        let mut fates: Vec<Fate> =
            (0..*first).map(|seq| lost(head.due - steps(first - seq))).collect();
        for (at, (seq, fate)) in known.iter().enumerate() {
            fates.push(Fate { due: fate.due - begin, ..*fate });
            if let Some((next, after)) = known.get(at + 1) {
                let (gap, span) = (u128::from(next - seq), u128::from((after.due - fate.due).0));
                let part = |n: u128| Nanos((span * n / gap) as u64);
                fates.extend((1..gap).map(|n| lost(fate.due + part(n))));
            }
        }
        let rest = last + 1..sent.min(self.most);
        fates.extend(rest.map(|seq| lost(tail.due + steps(seq - last))));
        fates
    }
}

/// Returns the fates of items, with due times after `begin`, in their order. An unknown due time is interpolated
/// between its neighbours', or equal to the nearest known one.
fn fates_of(items: &[Item], begin: Nanos) -> Vec<Fate> {
    let mut known = items.iter().enumerate().filter_map(|(at, item)| Some((at, item.due?)));
    let Some(mut before) = known.next() else { return Vec::new() };
    let mut after = before;
    let mut fates = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        while after.0 < at {
            let Some(next) = known.next() else { break };
            (before, after) = (after, next);
        }
        let due = match (before, after) {
            _ if item.due.is_some() => item.due.unwrap_or_default(),
            ((from, start), (to, end)) if from < at && at < to => {
                let part = u128::from((end - start).0) * (at - from) as u128 / (to - from) as u128;
                start + Nanos(part as u64)
            }
            (_, (_, nearest)) => nearest,
        };
        let took = item.took.map_or(LOST, |took| took.0);
        fates.push(Fate { due: due - begin, took, bytes: item.bytes });
    }
    fates.sort_by_key(|fate| fate.due);
    fates
}

/// Locks a log. Its endpoint and its recorder run in one thread, so neither ever waits for the other.
fn locked(log: &Mutex<Log>) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An endpoint that logs the messages of another one.
struct LoggedEndpoint {
    inner: Box<dyn Endpoint>,
    log: Arc<Mutex<Log>>,
    /// Bounds of phases, if bytes are observed.
    marks: Option<PhaseMarks>,
    phases: Phases,
    facts: Facts,
    tag: u32,
    /// Time of its first turn.
    begin: Option<Nanos>,
    /// Number of messages that the peer has sent one way, once it has reported that.
    sent: u64,
}

impl LoggedEndpoint {
    fn figures(&self) -> BTreeMap<String, f64> {
        if let Some(marks) = &self.marks {
            return marks.figures();
        }
        let mut log = locked(&self.log);
        let Some(begin) = self.begin.filter(|_| !log.is_over_full) else { return BTreeMap::new() };
        let fates = match self.facts.observed {
            Observed::Items(_) => fates_of(&self.inner.items(), begin),
            _ => log.fates(begin, self.sent),
        };
        self.phases.figures(&self.facts, &fates)
    }

    /// Notes the bytes that have arrived, when a phase begins or ends.
    #[inline]
    fn mark(&mut self, now: Nanos) {
        let (Some(marks), Some(begin)) = (&mut self.marks, self.begin) else { return };
        if marks.is_due(now - begin) {
            marks.pass(now - begin, self.inner.standing(now).received.bytes);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Endpoint for LoggedEndpoint {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        self.begin.get_or_insert(now);
        self.mark(now);
        self.inner.poll(now, out)
    }

    fn on_sent(&mut self, now: Nanos) {
        self.inner.on_sent(now);
    }

    fn on_no_room(&mut self, now: Nanos) -> Option<Nanos> {
        self.inner.on_no_room(now)
    }

    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) {
        if let (Observed::OneWay(_), Some(header)) = (self.facts.observed, Header::read(bytes))
            && header.tag == self.tag
            && let Some(due) = read_due(bytes)
        {
            locked(&self.log).add(header.seq, due, (now - due).0);
        }
        self.inner.on_message(now, lane, bytes);
        self.mark(now);
    }

    fn bulk(&mut self) -> BulkPart<'_> {
        self.inner.bulk()
    }

    fn failure(&mut self) -> Option<Error> {
        self.inner.failure()
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        if let (Observed::OneWay(_), FlowEvent::PeerFinished { sent }) =
            (self.facts.observed, event)
        {
            self.sent = sent.messages;
        }
        self.inner.on_event(now, event);
        if event == FlowEvent::Drained {
            self.mark(now);
        }
    }

    fn standing(&mut self, now: Nanos) -> Standing {
        self.inner.standing(now)
    }

    fn has_sent_all(&self) -> bool {
        self.inner.has_sent_all()
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.inner.take_recent()
    }

    fn items(&self) -> Vec<Item> {
        self.inner.items()
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        let mut report = self.inner.report(now);
        report.figures.extend(self.figures());
        report
    }
}

/// A recorder that also logs each round trip.
struct LoggingRecorder {
    inner: Box<dyn Recorder>,
    log: Arc<Mutex<Log>>,
}

impl Recorder for LoggingRecorder {
    fn expect(&mut self, samples: u64) {
        self.inner.expect(samples);
    }

    fn record(&mut self, sample: Sample) {
        let took = sample.rtt_ns.unwrap_or(LOST);
        locked(&self.log).add(sample.seq, Nanos(sample.intended_ns), took);
        self.inner.record(sample);
    }

    fn record_send(&mut self, lateness_ns: u64, gap_error_ns: Option<u64>) {
        self.inner.record_send(lateness_ns, gap_error_ns);
    }

    fn record_delay(&mut self, ns: i64) {
        self.inner.record_delay(ns);
    }

    fn round_trips(&self, timeout_ns: u64, per_mille: u64) -> RoundTripSummary {
        self.inner.round_trips(timeout_ns, per_mille)
    }

    fn sends(&self) -> SendSummary {
        self.inner.sends()
    }

    fn delays(&self) -> OneWayDelays {
        self.inner.delays()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_messages_were_due_between_their_neighbours() {
        let mut log = Log::new(10, 100);
        // In the order of arrival, one of them twice.
        for (seq, due) in [(2, 20), (5, 50), (3, 31), (5, 50)] {
            log.add(seq, Nanos(1000 + due), 7);
        }
        let fates = log.fates(Nanos(1000), 8);
        let due: Vec<u64> = fates.iter().map(|fate| fate.due.0).collect();
        assert_eq!(due, [0, 10, 20, 31, 40, 50, 60, 70]);
        let lost: Vec<bool> = fates.iter().map(|fate| fate.took == LOST).collect();
        assert_eq!(lost, [true, true, false, false, true, false, true, true]);
    }

    #[test]
    fn items_of_which_nobody_said_when_they_were_due_were_between_their_neighbours() {
        let item = |due: Option<u64>| Item { due: due.map(Nanos), took: due.map(Nanos), bytes: 3 };
        let items = [None, Some(120), None, None, Some(150), None].map(item);
        let fates = fates_of(&items, Nanos(100));
        let due: Vec<u64> = fates.iter().map(|fate| fate.due.0).collect();
        assert_eq!(due, [20, 20, 30, 40, 50, 50]);
        assert_eq!(fates.iter().filter(|fate| fate.took == LOST).count(), 4);
        assert!(fates_of(&[item(None)], Nanos(1)).is_empty());
    }

    #[test]
    fn numbers_of_strangers_take_no_room() {
        let mut log = Log::new(10, 100);
        log.add(3, Nanos(5), 1);
        assert_eq!(log.fates(Nanos(9), u64::MAX).len(), 10);
        log.add(u64::MAX, Nanos(5), 1);
        assert!(log.is_over_full);
        assert!(Log::new(10, 100).fates(Nanos(1), 9).is_empty());
    }
}

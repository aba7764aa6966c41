//! One direction of a TCP connection: segments that one end sends, and the acknowledgements of the other, as they pass the
//! capture. It may be at either end or between them, so a sender's state at a time follows from acknowledgements that passed
//! earlier, by the least time in which the sender answers.

use std::collections::VecDeque;

use deadheat_contract::measurements::series::RoundTrips;
use deadheat_contract::measurements::{Outage, SHORTEST_OUTAGE};

use super::packet::Segment;
use super::points::WayPoint;
use super::sequence::{Holes, ORIGIN, place};

/// Largest numbers of segments, acknowledgements and time stamps in memory for a direction.
const MOST_PROBES: usize = 256;
const MOST_PENDING: usize = 512;
const MOST_STAMPS: usize = 64;
/// Largest number of round trips in memory: of more, every second, fourth, … is kept.
const MOST_ROUND_TRIPS: usize = 8_192;

/// Least time-out of a retransmission: Linux's 200 ms behind the round trip, less its clock's tick.
const LEAST_TIMEOUT_NS: u64 = 190_000_000;
/// Delay from which an acknowledgement is delayed: Linux waits 40 ms and longer, RFC 1122 allows 500 ms.
const DELAYED_NS: u64 = 30_000_000;
const MOST_DELAYED_NS: u64 = 550_000_000;
/// Time in which a program answers at once.
const AT_ONCE_NS: u64 = 2_000_000;
/// Delay up to which a late segment was reordered, if the round trip is not known.
const REORDERED_NS: u64 = 3_000_000;

/// Acknowledgement as it passed the capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledgement {
    pub at: u64,
    pub number: u32,
    /// The receive window, if its scale is known.
    pub window: Option<u64>,
    pub is_zero: bool,
    /// True without data of its own.
    pub is_pure: bool,
    pub says_twice: bool,
    /// Least time in which its sender answered.
    pub least_answer: Option<u64>,
}

/// Direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// Sequence number at [`ORIGIN`]; absent before the first.
    base: Option<u32>,
    /// First byte of payload, and the next behind all that were sent, and behind all that were acknowledged.
    start: u64,
    end: u64,
    acked: u64,
    /// Options of its sender's SYN, and largest payload of a segment, if known.
    pub syn: Option<Segment>,
    pub largest: Option<u64>,
    /// Payload sent, each byte once; segments with data, those larger than the largest segment, and the largest payload.
    pub bytes: u64,
    pub segments: u64,
    pub super_segments: u64,
    pub largest_payload: u64,
    /// Segments seen twice.
    pub repeated: u64,
    /// Part of them that was acknowledged before.
    pub needless: u64,
    /// Segments that filled a hole too late for another order: lost on their way to the capture.
    pub lost_before: u64,
    /// Segments in another order.
    pub reordered: u64,
    /// Segments sent again after the time-out of a retransmission.
    pub timeouts: u64,
    /// Acknowledged bytes that the capture never saw.
    pub unseen: u64,
    /// Times at which the receiver said that bytes came twice.
    pub said_twice: u64,
    holes: Holes,
    /// End of all bytes sent when a segment was lost: acknowledgements up to it took the time of the repair.
    repaired_at: u64,
    probes: VecDeque<(u64, u64)>,
    /// Round trips, of which each `stride`-th is kept.
    pub round_trips: Vec<u64>,
    stride: u64,
    seen_round_trips: u64,
    /// Round trips since the last point of the series.
    pub recent: RoundTrips,
    /// Last time in which this direction's sender answered while it was sending; absent without time stamps.
    pub answer: Option<u64>,
    pub has_answers: bool,
    /// Least time in which it answered, and the least whole round trip.
    pub least_answer: Option<u64>,
    pub round_trip: Option<u64>,
    /// Acknowledgements that the sender does not have yet, and the last that it has.
    pending: VecDeque<(u64, u64, Option<u64>)>,
    /// Time stamps of its sender that were not echoed, with the times at which each was first seen.
    stamps: VecDeque<(u32, u64)>,
    at_sender: u64,
    pub window: Option<u64>,
    pub most_flight: u64,
    pub widest_window: u64,
    limited_since: Option<u64>,
    limited_ns: u64,
    busy_since: Option<u64>,
    idle_since: Option<u64>,
    busy_ns: u64,
    zero_since: Option<u64>,
    pub zero_windows: u64,
    pub zero_ns: u64,
    pub first_data: Option<u64>,
    last_data: u64,
    last_payload: u64,
    pub last_progress: u64,
    last_heard: u64,
    /// Last delayed acknowledgement, and its delay, if nothing was sent since.
    delayed: Option<(u64, u64)>,
    pub delayed_acks: u64,
    /// Waits of a small segment for a delayed acknowledgement, and their time.
    pub nagle_waits: u64,
    pub nagle_ns: u64,
    pub outages: Vec<Outage>,
}

impl Way {
    /// Takes a segment of its sender.
    pub(super) fn sends(&mut self, at: u64, segment: &Segment) {
        let Some(from) = self.number(segment.seq) else { return };
        if segment.is_syn {
            self.syn.get_or_insert(*segment);
            self.start = from + 1;
            self.end = self.end.max(self.start);
            return;
        }
        let to = from + segment.len;
        let is_at_limit = self.zero_since.is_some() || to <= self.acked && segment.len == 1;
        if segment.len > 0 && !(segment.len <= 1 && is_at_limit) {
            self.data(at, from, to);
        }
        if segment.is_fin && to == self.end {
            self.end += 1;
        }
    }

    fn data(&mut self, at: u64, from: u64, to: u64) {
        let len = to - from;
        self.catch_up(at);
        if self.first_data.is_none() && self.syn.is_none() {
            self.end = self.end.max(from);
            self.start = from;
        }
        self.first_data.get_or_insert(at);
        self.segments += self.segments_in(len);
        self.super_segments += u64::from(self.largest.is_some_and(|largest| len > largest));
        self.largest_payload = self.largest_payload.max(len);
        if from < self.end {
            self.again(at, from, to.min(self.end));
        }
        if from > self.end {
            self.holes.add(self.end, from, at);
        }
        if to > self.end {
            self.bytes += to - self.end.max(from);
            let is_new =
                from >= self.end && self.holes.is_empty() && self.acked >= self.repaired_at;
            self.end = to;
            if is_new && self.probes.len() < MOST_PROBES {
                self.probes.push_back((to, at));
            }
            self.after_delay(at);
        }
        self.busy(at);
        self.limits(at, len);
        (self.last_data, self.last_payload) = (at, len);
    }

    /// Takes bytes below the end: sent again, or late.
    fn again(&mut self, at: u64, from: u64, to: u64) {
        let silence = at.saturating_sub(self.last_data.max(self.last_heard));
        let is_timeout = from <= self.acked
            && self.last_heard > 0
            && silence >= LEAST_TIMEOUT_NS.saturating_add(self.round_trip.unwrap_or(0));
        let (filled, since) = self.holes.fill(from, to);
        self.bytes += filled;
        let soon = self.round_trip.map_or(REORDERED_NS, |ns| ns / 2);
        if filled > 0 && at.saturating_sub(since) < soon {
            self.reordered += self.segments_in(filled);
            return;
        }
        self.lost_before += self.segments_in(filled);
        let seen = to - from - filled;
        let again = self.segments_in(seen);
        self.repeated += again;
        if to <= self.acked {
            self.needless += again;
        }
        self.timeouts += u64::from(is_timeout);
        self.repaired_at = self.end;
        self.probes.clear();
    }

    /// Takes an acknowledgement of its receiver, and returns the time since the segment that caused it.
    pub(super) fn is_acknowledged(&mut self, ack: &Acknowledgement) -> Option<u64> {
        let number = self.number(ack.number)?;
        self.windows(ack);
        self.said_twice += u64::from(ack.says_twice);
        self.last_heard = ack.at;
        // A FIN takes a number, and bytes sent before the capture began are not known.
        let is_known = self.syn.is_some() || self.segments > 0;
        if number > self.end + 1 && is_known {
            self.unseen += number - self.end;
            self.repaired_at = number;
        }
        self.end = self.end.max(number);
        if self.pending.len() == MOST_PENDING {
            self.catch_up(u64::MAX);
        }
        self.pending.push_back((ack.at, number, ack.window));
        if number <= self.acked {
            return None;
        }
        self.unseen += self.holes.drop_below(number);
        if self.busy_since.is_some() && self.idle_since.is_none() {
            self.outage(ack.at, true);
        }
        (self.acked, self.last_progress) = (number, ack.at);
        self.idle_since = (number == self.end).then_some(ack.at).or(self.idle_since);
        let covered = self.probes.partition_point(|(end, _)| *end <= number);
        let (_, sent) = self.probes.drain(..covered).next_back()?;
        let took = ack.at.saturating_sub(sent);
        let delay = took.saturating_sub(ack.least_answer.unwrap_or(took));
        if ack.is_pure && number == self.end && (DELAYED_NS..MOST_DELAYED_NS).contains(&delay) {
            self.delayed_acks += 1;
            self.delayed = Some((ack.at, delay));
        }
        Some(took)
    }

    /// Notes a time stamp of its sender.
    pub(super) fn stamp(&mut self, own: u32, at: u64) {
        let is_new = self.stamps.back().is_none_or(|(last, _)| is_before(*last, own));
        if is_new && self.stamps.len() < MOST_STAMPS {
            self.stamps.push_back((own, at));
        }
    }

    /// Returns the time at which an echoed time stamp was first seen, if it was not echoed before.
    pub(super) fn stamped_at(&mut self, echoed: u32) -> Option<u64> {
        let until = self.stamps.partition_point(|(own, _)| !is_before(echoed, *own));
        let (own, at) = self.stamps.drain(..until).next_back()?;
        (own == echoed).then_some(at)
    }

    /// Notes the time in which its sender answered with data, by a time stamp if there is one: behind a pause it is of the
    /// program.
    pub(super) fn answers(&mut self, at: u64, took: Option<u64>) {
        let is_sending = at.saturating_sub(self.last_data) <= self.least_answer.unwrap_or(0);
        self.answer = took.or(self.answer).filter(|_| is_sending);
        self.has_answers |= self.answer.is_some();
    }

    /// Returns the counters, and begins the round trips of the next point.
    pub(super) fn point(&mut self, now: u64) -> WayPoint {
        let (busy_ns, limited_ns) = self.busy_and_limited(now);
        WayPoint {
            sent: self.bytes,
            arrived: self.arrived(),
            retransmits: self.repeated + self.lost_before,
            flight: self.end.saturating_sub(self.at_sender.max(self.start)),
            window: self.window,
            busy_ns,
            limited_ns,
            least_round_trip: self.round_trip,
            rtt: std::mem::take(&mut self.recent),
        }
    }

    /// Returns the payload that was acknowledged.
    pub(super) fn arrived(&self) -> u64 {
        self.acked.saturating_sub(self.start).min(self.bytes + self.unseen)
    }

    /// Keeps a round trip.
    pub(super) fn keep(&mut self, ns: u64) {
        self.recent.add(ns);
        self.seen_round_trips += 1;
        if self.round_trips.len() == MOST_ROUND_TRIPS {
            let mut at = 0;
            self.round_trips.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride = self.stride.max(1) * 2;
        }
        if self.seen_round_trips.is_multiple_of(self.stride.max(1)) {
            self.round_trips.push(ns);
        }
    }

    /// Returns the number of round trips of which the first is kept.
    pub(super) fn thinned(&self) -> u64 {
        self.stride.max(1)
    }

    /// Returns the time so far with data in flight, and the part of it in which the receive window was the limit.
    pub(super) fn busy_and_limited(&self, now: u64) -> (u64, u64) {
        let busy =
            self.busy_since.map_or(0, |since| self.idle_since.unwrap_or(now).saturating_sub(since));
        let limited = self.limited_since.map_or(0, |since| now.saturating_sub(since));
        let busy = self.busy_ns.saturating_add(busy);
        (busy, self.limited_ns.saturating_add(limited).min(busy))
    }

    /// Ends the direction with the last packet of its connection.
    pub(super) fn finish(&mut self, at: u64) {
        if self.busy_since.is_some() && self.idle_since.is_none() {
            self.outage(at, false);
        }
        self.windows_open(at);
    }

    /// Returns the segments that the network lost: sent again with need, or never seen before they came late.
    pub(super) fn lost(&self) -> u64 {
        let twice = self.needless.max(self.said_twice).min(self.repeated);
        self.lost_before + self.repeated - twice
    }

    /// Returns the position of a number; `None` for a number far outside.
    fn number(&mut self, seq: u32) -> Option<u64> {
        let base = *self.base.get_or_insert(seq);
        if self.end == 0 {
            (self.end, self.acked, self.at_sender) = (ORIGIN, ORIGIN, ORIGIN);
        }
        place(base, self.end, seq)
    }

    fn segments_in(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.largest.unwrap_or(bytes).max(1))
    }

    /// Takes the acknowledgements that have reached the sender.
    fn catch_up(&mut self, at: u64) {
        let least = self.least_answer.unwrap_or(0);
        let reached =
            self.pending.partition_point(|(passed, ..)| passed.saturating_add(least) <= at);
        for (_, number, window) in self.pending.drain(..reached) {
            self.at_sender = self.at_sender.max(number);
            self.window = window.or(self.window);
        }
    }

    /// Notes a segment that the sender held back until a delayed acknowledgement.
    fn after_delay(&mut self, at: u64) {
        let Some((acked, delay)) = self.delayed.take() else { return };
        let is_small = self.largest.is_none_or(|largest| self.last_payload < largest);
        let soon = self.least_answer.unwrap_or(0).saturating_mul(2) + AT_ONCE_NS;
        if is_small && at.saturating_sub(acked) <= soon {
            self.nagle_waits += 1;
            self.nagle_ns += delay;
        }
    }

    fn busy(&mut self, at: u64) {
        let answers = self.least_answer.unwrap_or(0);
        let soon = answers + answers / 4 + AT_ONCE_NS / 2;
        match (self.busy_since, self.idle_since.take()) {
            (Some(since), Some(idle)) if at.saturating_sub(idle) > soon => {
                self.busy_ns += idle.saturating_sub(since);
                self.busy_since = Some(at);
            }
            (None, _) => self.busy_since = Some(at),
            _ => {}
        }
    }

    /// Notes the bytes in flight, and the receive window as their limit.
    fn limits(&mut self, at: u64, len: u64) {
        let flight = self.end.saturating_sub(self.at_sender.max(self.start));
        self.most_flight = self.most_flight.max(flight);
        if let Some(since) = self.limited_since.take() {
            self.limited_ns += at.saturating_sub(since);
        }
        let Some(window) = self.window else { return };
        self.widest_window = self.widest_window.max(window);
        if window.saturating_sub(flight) < self.largest.unwrap_or(len) {
            self.limited_since = Some(at);
        }
    }

    fn windows(&mut self, ack: &Acknowledgement) {
        if !ack.is_zero {
            self.windows_open(ack.at);
        } else if self.zero_since.is_none() {
            self.zero_since = Some(ack.at);
            self.zero_windows += 1;
        }
    }

    fn windows_open(&mut self, at: u64) {
        if let Some(since) = self.zero_since.take() {
            self.zero_ns += at.saturating_sub(since);
        }
    }

    /// Notes a time without progress although data was in flight.
    fn outage(&mut self, at: u64, has_ended: bool) {
        let from = self.last_progress.max(self.busy_since.unwrap_or(0));
        let length_ns = at.saturating_sub(from);
        if length_ns >= SHORTEST_OUTAGE.0 {
            self.outages.push(Outage {
                from_ns: from,
                length_ns,
                messages: 0,
                ended: Some(has_ended),
            });
            if self.outages.len() > 64 {
                self.outages = Outage::joined(std::mem::take(&mut self.outages));
            }
        }
    }
}

/// Returns true if a time stamp is before another (RFC 7323, 4.3).
fn is_before(one: u32, other: u32) -> bool {
    other.wrapping_sub(one).cast_signed() > 0
}

//! Live view of a running trial, interval by interval: combines the points of both ends and all flows.
//!
//! Points come over control. An end behind a link that is down reports late, so a row is shown without it after a
//! while, and what it reports later is shown in a row of its own, with the times of the interval to which it belongs.

use std::collections::VecDeque;

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::series::{Missing, Point, RoundTrips, rate_bps};
use deadheat_contract::measurements::{FEWEST_IN_OUTAGE, SHORTEST_OUTAGE};

/// Interval of a running trial, all flows together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LiveRow {
    /// Contender as typed.
    pub contender: String,
    /// Start of the interval, in nanoseconds after the trial's start.
    pub from_ns: u64,
    /// End of the interval, likewise; always later than its start.
    pub to_ns: u64,
    /// True if the row completes an earlier one: it has only late reports.
    pub late: bool,
    /// Data towards the far end.
    pub up: LiveWay,
    /// Data towards the near end.
    pub down: LiveWay,
    /// Round trips that ended in the interval.
    pub rtt: RoundTrips,
    /// Times of messages one way, or of the work's items, that ended in the interval.
    pub delay: RoundTrips,
    /// Name of these times.
    pub delay_label: &'static str,
    /// Messages found missing in the interval; `None` if that cannot be known.
    pub lost_messages: Option<u64>,
    /// Messages with a fate that became known in the interval, arrivals included. `None` likewise.
    pub settled_messages: Option<u64>,
    /// Times, after the trial's start, at which the missing messages were due; `None` if none were found missing, or if
    /// that cannot be known.
    pub missing: Option<Missing>,
    /// Greatest jitter of a flow's arrivals so far (RFC 3550, 6.4.1), in nanoseconds; `None` if it is not measured.
    pub jitter_ns: Option<u64>,
    /// Datagrams dropped because a receiver's socket buffer was full; `None` if that cannot be known.
    pub socket_drops: Option<u64>,
    /// TCP only: sum of the congestion windows of the near end's flows, in bytes; of the far end's flows if only the
    /// far end sends.
    pub cwnd_bytes: Option<u64>,
    /// TCP only: segments retransmitted in the interval.
    pub retransmits: Option<u64>,
}

/// Data in one direction, in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveWay {
    /// Rate at which it arrived.
    pub rate: LiveRate,
    /// Messages that arrived, each once; `None` for byte streams, and if the receiving end has not reported.
    pub messages: Option<u64>,
    /// Number of flows whose receiving end has reported, and of all flows in this direction.
    pub flows: (usize, usize),
    /// Rate at which it was handed to the transport; `None` if the sending end has not reported.
    pub sent_bps: Option<f64>,
    /// Time without an arrival up to the end of the interval, in nanoseconds, if that is an outage: at least
    /// [`SHORTEST_OUTAGE`], with data on its way.
    pub outage_ns: Option<u64>,
}

/// Rate received by one end in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum LiveRate {
    /// No data travels in this direction.
    #[default]
    None,
    /// The receiving end has not reported this interval yet: its points come over control, perhaps by the same path.
    Unknown,
    /// Bits per second.
    Bps(f64),
}

/// Longest time that a row waits for the reports of all flows, if intervals are shorter than that.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// Maximum number of shown rows for which late reports are awaited one by one; more are awaited in longer rows.
const MOST_OWED: usize = 600;

/// Reports of a flow at one end.
#[derive(Debug, Clone)]
struct FlowReports {
    side: Side,
    flow: u16,
    /// Newest point that was shown, or counts of 0.
    before: Point,
    /// Points that were not shown, with the numbers of their intervals.
    queue: VecDeque<(u64, Point)>,
    /// Number of the interval of the newest point.
    newest: u64,
}

/// Reports of a flow for a row: the newest point before it, and all points of the row as one.
#[derive(Debug, Clone, Copy)]
struct News {
    side: Side,
    before: Point,
    now: Point,
}

/// A row that was shown before all flows had reported.
#[derive(Debug)]
struct OwedRow {
    /// Number of its interval.
    number: u64,
    from_ns: u64,
    to_ns: u64,
    /// Flows that had not reported.
    missing: Vec<(Side, u16)>,
    /// Data handed to the transport, upwards and downwards; `None` if the sending end had not reported.
    sent: [Option<SentData>; 2],
}

/// Data handed to the transport in an interval.
#[derive(Debug, Clone, Copy, Default)]
struct SentData {
    messages: u64,
    bps: f64,
    /// True if a flow sends bytes without a number of messages: then it always has more to send.
    is_stream: bool,
}

/// Time without an arrival in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct QuietTime {
    since_ns: Option<u64>,
    /// Messages handed to the transport meanwhile.
    messages: u64,
}

/// Collects the points of all flows, and makes rows of them.
///
/// Rows follow each other in time, except for late ones. Each point is in one row.
#[derive(Debug)]
pub struct Live {
    contender: String,
    delay_label: &'static str,
    interval: Nanos,
    flows: Vec<FlowReports>,
    /// Number of the interval of the last row, and its end.
    shown: u64,
    shown_to_ns: u64,
    owed: VecDeque<OwedRow>,
    /// Times without an arrival, upwards and downwards.
    quiet: [QuietTime; 2],
}

const WAYS: [Side; 2] = [Side::Far, Side::Near];

impl Live {
    /// Creates a view for a trial of `contender` with these flows of both ends, which report at each `interval`; the
    /// times one way are shown by the name `delay_label`.
    pub fn new(
        contender: &str,
        delay_label: &'static str,
        interval: Nanos,
        flows: impl Iterator<Item = (Side, u16)>,
    ) -> Live {
        let reports = |(side, flow)| FlowReports {
            side,
            flow,
            before: Point::default(),
            queue: VecDeque::new(),
            newest: 0,
        };
        Live {
            contender: contender.to_owned(),
            delay_label,
            interval: Nanos(interval.0.max(1)),
            flows: flows.map(reports).collect(),
            shown: 0,
            shown_to_ns: 0,
            owed: VecDeque::new(),
            quiet: Default::default(),
        }
    }

    /// Takes a point, and returns the rows that it completes, in order. A row is complete once every flow has reported
    /// its interval, or once one of them has reported another interval that ends `PATIENCE` later: the others then
    /// sleep, have ended, or report late.
    pub fn note(&mut self, side: Side, flow: u16, point: Point) -> Vec<LiveRow> {
        // A peer may name flows that do not exist.
        let own = self.flows.iter().position(|own| own.side == side && own.flow == flow);
        let Some(own) = own else { return Vec::new() };
        let is_owed = self.owed.iter().any(|row| row.missing.contains(&(side, flow)));
        let number = self.number(point.at_ns).max(self.flows[own].newest);
        // The row of its interval may have had an earlier point of this flow.
        let row = if is_owed { number } else { number.max(self.shown.saturating_add(1)) };
        self.flows[own].queue.push_back((row, point));
        self.flows[own].newest = number;
        let mut rows = self.late(OwedRows::Complete);
        while let Some(number) = self.next_number().filter(|number| self.is_complete(*number)) {
            self.show(number, &mut rows);
        }
        rows
    }

    /// Returns rows of the points that were reported and not yet shown.
    pub fn rest(&mut self) -> Vec<LiveRow> {
        let mut rows = self.late(OwedRows::All);
        let first = self.shown.saturating_add(1);
        let left = self.flows.iter_mut().flat_map(|flow| &mut flow.queue);
        left.for_each(|(number, _)| *number = first.max(*number));
        while let Some(number) = self.next_number() {
            self.show(number, &mut rows);
        }
        let is_empty = |row: &LiveRow| {
            let ways = [row.up, row.down];
            let moved = |way: &LiveWay| {
                matches!(way.rate, LiveRate::Bps(bps) if bps > 0.0)
                    || way.sent_bps.is_some_and(|bps| bps > 0.0)
            };
            !ways.iter().any(moved) && row.rtt.is_empty() && row.lost_messages.unwrap_or(0) == 0
        };
        // The end of a trial, in which the far end waited for stragglers that did not exist, is no interval.
        let is_stub = |row: &LiveRow| row.to_ns - row.from_ns < self.interval.0 * 9 / 10;
        if rows.last().is_some_and(|row| is_empty(row) && is_stub(row)) {
            rows.pop();
        }
        rows
    }

    /// Returns the number of the interval, from 1, that a point ends. A point is taken at the interval's end, or a little
    /// later.
    fn number(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.interval.0 / 5).div_ceil(self.interval.0).max(1)
    }

    /// Returns the number of the next interval to show: the first with a point, after the last row.
    fn next_number(&self) -> Option<u64> {
        let numbers =
            self.flows.iter().flat_map(|flow| flow.queue.iter().map(|(number, _)| *number));
        numbers.filter(|number| *number > self.shown).min()
    }

    fn is_complete(&self, number: u64) -> bool {
        let patience = PATIENCE.0.div_ceil(self.interval.0).max(1);
        let newest = self.flows.iter().map(|flow| flow.newest);
        newest.clone().all(|newest| newest >= number)
            || newest.max().is_some_and(|newest| newest >= number.saturating_add(patience))
    }

    /// Appends the row of the interval `number`, and before it the row of late reports.
    fn show(&mut self, number: u64, rows: &mut Vec<LiveRow>) {
        rows.extend(self.late(OwedRows::All));
        let from_ns = self.shown_to_ns;
        let news: Vec<News> = self.flows.iter_mut().filter_map(|flow| flow.take(number)).collect();
        let to_ns = news.iter().map(|news| news.now.at_ns).max().unwrap_or(0);
        let to_ns = to_ns.max(from_ns.saturating_add(1));
        (self.shown, self.shown_to_ns) = (number, to_ns);
        let mut row = self.row(&news, (from_ns, to_ns));
        let sent = WAYS.map(|receiver| sent(&news, receiver));
        for (at, way) in [&mut row.up, &mut row.down].into_iter().enumerate() {
            way.sent_bps = sent[at].map(|sent| sent.bps);
            way.outage_ns = self.quiet[at].note(way, sent[at], (from_ns, to_ns));
        }
        let behind = self.flows.iter().filter(|flow| flow.newest < number);
        let missing: Vec<(Side, u16)> = behind.map(|flow| (flow.side, flow.flow)).collect();
        if !missing.is_empty() {
            self.owed.push_back(OwedRow { number, from_ns, to_ns, missing, sent });
        }
        if self.owed.len() > MOST_OWED
            && let Some(oldest) = self.owed.pop_front()
            && let Some(next) = self.owed.front_mut()
        {
            next.from_ns = oldest.from_ns;
        }
        rows.push(row);
    }

    /// Returns rows of reports that arrived after the row of their interval was shown: once all flows have reported, or
    /// of the flows that have.
    fn late(&mut self, which: OwedRows) -> Vec<LiveRow> {
        let mut rows = Vec::new();
        let mut owed = std::mem::take(&mut self.owed);
        for row in &mut owed {
            let number = row.number;
            let is_here = |flow: &FlowReports| flow.newest >= number;
            let has_reported = |missing: &(Side, u16)| {
                let mut own = self.flows.iter().filter(|flow| (flow.side, flow.flow) == *missing);
                own.any(is_here)
            };
            let (came, missing): (Vec<_>, Vec<_>) =
                row.missing.iter().copied().partition(has_reported);
            if came.is_empty() || (which == OwedRows::Complete && !missing.is_empty()) {
                continue;
            }
            row.missing = missing;
            let came = |flow: &&mut FlowReports| came.contains(&(flow.side, flow.flow));
            let all = self.flows.iter_mut().filter(came);
            let news: Vec<News> = all.filter_map(|flow| flow.take(number)).collect();
            // Flows that slept have no point in this interval.
            if !news.is_empty() {
                rows.push(self.late_row(&news, row));
            }
        }
        owed.retain(|row| !row.missing.is_empty());
        self.owed = owed;
        rows
    }

    fn late_row(&mut self, news: &[News], owed: &OwedRow) -> LiveRow {
        let span = (owed.from_ns, owed.to_ns);
        let mut row = LiveRow { late: true, ..self.row(news, span) };
        for (at, way) in [&mut row.up, &mut row.down].into_iter().enumerate() {
            if way.rate == LiveRate::Unknown {
                // The earlier row has it.
                *way = LiveWay::default();
            }
            way.outage_ns = self.quiet[at].note(way, owed.sent[at], span);
        }
        row
    }

    /// Returns the row of what flows reported, without what depends on earlier rows.
    fn row(&self, news: &[News], (from_ns, to_ns): (u64, u64)) -> LiveRow {
        let [up, down] = WAYS.map(|receiver| self.way(news, receiver));
        let mut row = LiveRow {
            contender: self.contender.clone(),
            delay_label: self.delay_label,
            from_ns,
            to_ns,
            up,
            down,
            cwnd_bytes: window(news, Side::Near).or_else(|| window(news, Side::Far)),
            ..LiveRow::default()
        };
        news.iter().for_each(|news| row.add(news));
        row
    }

    /// Returns the data received at `receiver`.
    fn way(&self, news: &[News], receiver: Side) -> LiveWay {
        let carries = |flow: &FlowReports| {
            let newest = flow.queue.back().map_or(&flow.before, |(_, point)| point);
            if flow.side == receiver { newest.received_bytes > 0 } else { newest.sent_bytes > 0 }
        };
        if !self.flows.iter().any(carries) {
            return LiveWay::default();
        }
        let at_receiver = || news.iter().filter(|news| news.side == receiver);
        let of = self.flows.iter().filter(|flow| flow.side == receiver).count();
        let messages = at_receiver().map(News::received_messages).fold(0, u64::saturating_add);
        let is_stream = at_receiver().all(|news| news.now.received_messages == 0)
            && at_receiver().any(|news| news.now.received_bytes > 0);
        let has_reported = at_receiver().next().is_some();
        LiveWay {
            rate: if has_reported {
                LiveRate::Bps(at_receiver().map(News::received_bps).sum())
            } else {
                LiveRate::Unknown
            },
            messages: (has_reported && !is_stream).then_some(messages),
            flows: (at_receiver().count(), of),
            sent_bps: None,
            outage_ns: None,
        }
    }
}

/// OwedRow rows to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwedRows {
    /// Rows for which all flows have reported now.
    Complete,
    /// Rows for which any flow has reported now.
    All,
}

/// Returns what the flows that send to `receiver` handed to the transport; `None` if none of them has reported.
fn sent(news: &[News], receiver: Side) -> Option<SentData> {
    let senders = news.iter().filter(|news| news.side != receiver);
    senders.fold(None, |sum: Option<SentData>, news| {
        let SentData { messages, bps, is_stream } = sum.unwrap_or_default();
        let step = |now: u64, before: u64| now.saturating_sub(before);
        let own = step(news.now.sent_messages, news.before.sent_messages);
        Some(SentData {
            messages: messages.saturating_add(own),
            bps: bps + news.bps(step(news.now.sent_bytes, news.before.sent_bytes)),
            is_stream: is_stream || (news.now.sent_bytes > 0 && news.now.sent_messages == 0),
        })
    })
}

/// Returns the sum of the congestion windows of one end's sending flows.
fn window(news: &[News], side: Side) -> Option<u64> {
    let senders = news.iter().filter(|news| news.side == side && news.now.sent_bytes > 0);
    let windows = senders.filter_map(|news| news.now.tcp).map(|tcp| tcp.cwnd_bytes);
    windows.filter(|bytes| *bytes > 0).reduce(u64::saturating_add)
}

impl FlowReports {
    /// Takes the points up to the interval `number`, as one; `None` if there are none.
    fn take(&mut self, number: u64) -> Option<News> {
        let n = self.queue.iter().take_while(|(own, _)| *own <= number).count();
        let points = self.queue.drain(..n).map(|(_, point)| point);
        let now = points.reduce(|earlier, point| point.after(&earlier))?;
        let before = std::mem::replace(&mut self.before, now);
        Some(News { side: self.side, before, now })
    }
}

impl News {
    fn received_messages(&self) -> u64 {
        self.now.received_messages.saturating_sub(self.before.received_messages)
    }

    fn received_bps(&self) -> f64 {
        self.bps(self.now.received_bytes.saturating_sub(self.before.received_bytes))
    }

    /// Returns the rate of `bytes` over the flow's own time between the two points.
    fn bps(&self, bytes: u64) -> f64 {
        let span = self.now.at_ns.saturating_sub(self.before.at_ns);
        rate_bps(bytes as f64, span).unwrap_or(0.0)
    }
}

impl QuietTime {
    /// Notes the data of a row, and returns the time without an arrival up to its end, if that is an outage.
    fn note(
        &mut self,
        way: &LiveWay,
        sent: Option<SentData>,
        (from_ns, to_ns): (u64, u64),
    ) -> Option<u64> {
        match way.rate {
            LiveRate::Bps(bps) if bps > 0.0 => {
                *self = QuietTime::default();
                return None;
            }
            LiveRate::Bps(_) => {}
            LiveRate::None | LiveRate::Unknown => return None,
        }
        let since = *self.since_ns.get_or_insert(from_ns);
        // An end that reports nothing has ended: then nothing is on its way.
        let sent = sent?;
        self.messages = self.messages.saturating_add(sent.messages);
        let is_awaited = self.messages >= FEWEST_IN_OUTAGE || sent.is_stream;
        let length = to_ns.saturating_sub(since);
        (is_awaited && length >= SHORTEST_OUTAGE.0).then_some(length)
    }
}

impl LiveRow {
    fn add(&mut self, News { before, now, .. }: &News) {
        self.rtt.merge(&now.rtt);
        self.delay.merge(&now.delay);
        let step =
            |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        let lost = step(now.lost_messages, before.lost_messages);
        let received = now.received_messages.saturating_sub(before.received_messages);
        sum(&mut self.lost_messages, lost);
        sum(&mut self.settled_messages, lost.map(|lost| lost.saturating_add(received)));
        sum(&mut self.socket_drops, step(now.socket_drops, before.socket_drops));
        self.missing = both(self.missing, now.missing, Missing::and);
        self.jitter_ns = both(self.jitter_ns, now.jitter_ns, u64::max);
        if now.sent_bytes > 0 {
            let retransmits = |point: &Point| point.tcp.map(|tcp| tcp.retransmits);
            sum(&mut self.retransmits, step(retransmits(now), retransmits(before)));
        }
    }
}

/// Returns both values combined, or the only present one.
fn both<T>(a: Option<T>, b: Option<T>, and: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(and(a, b)),
        (a, b) => a.or(b),
    }
}

/// Adds a value to a total if it is known.
fn sum(total: &mut Option<u64>, more: Option<u64>) {
    *total = both(*total, more, u64::saturating_add);
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::TcpView;

    const MS: u64 = 1_000_000;

    /// Returns a view of intervals of 1 s, of one connection.
    fn pair() -> Live {
        Live::new("udp", "delay", Nanos::from_secs(1), flows(1))
    }

    fn flows(n: u16) -> impl Iterator<Item = (Side, u16)> {
        [Side::Near, Side::Far]
            .into_iter()
            .flat_map(move |side| (0..n).map(move |flow| (side, flow)))
    }

    fn received(at_ms: u64, bytes: u64) -> Point {
        let received_messages = bytes / 100;
        Point { at_ns: at_ms * MS, received_bytes: bytes, received_messages, ..Point::default() }
    }

    fn sent(at_ms: u64, bytes: u64) -> Point {
        let sent_messages = bytes / 100;
        Point { at_ns: at_ms * MS, sent_bytes: bytes, sent_messages, ..Point::default() }
    }

    fn over_tcp(at_ms: u64, bytes: u64, cwnd_bytes: u64, retransmits: u64) -> Point {
        let tcp = Some(TcpView { cwnd_bytes, retransmits, ..TcpView::default() });
        Point { at_ns: at_ms * MS, sent_bytes: bytes, tcp, ..Point::default() }
    }

    fn spans(rows: &[LiveRow]) -> Vec<(u64, u64, bool)> {
        rows.iter().map(|row| (row.from_ns / MS, row.to_ns / MS, row.late)).collect()
    }

    #[test]
    fn a_row_needs_all_flows_and_shows_what_happened_since_the_last() {
        let mut live = pair();
        assert_eq!(live.note(Side::Near, 0, over_tcp(1_000, 2_000, 30, 1)), []);
        let stream = |at_ms: u64, bytes| Point { received_messages: 0, ..received(at_ms, bytes) };
        let first = live.note(Side::Far, 0, stream(1_001, 1_000));
        assert_eq!(spans(&first), [(0, 1_001, false)]);
        assert_eq!(first[0].up.rate, LiveRate::Bps(8e9 * 1_000.0 / (1_001 * MS) as f64));
        assert_eq!((first[0].cwnd_bytes, first[0].retransmits), (Some(30), Some(1)));
        assert_eq!((first[0].up.messages, first[0].up.sent_bps), (None, Some(16_000.0)));
        assert_eq!(first[0].down.rate, LiveRate::None);
        assert_eq!(live.note(Side::Far, 0, stream(2_001, 4_000)), []);
        let second = live.note(Side::Near, 0, over_tcp(2_000, 9_000, 40, 3));
        assert_eq!(spans(&second), [(1_001, 2_001, false)]);
        assert_eq!(second[0].up.rate, LiveRate::Bps(3_000.0 * 8.0));
        assert_eq!((second[0].cwnd_bytes, second[0].retransmits), (Some(40), Some(2)));
        assert_eq!(live.rest(), []);
    }

    #[test]
    fn a_flow_that_sleeps_or_has_ended_holds_up_no_other() {
        let mut live = pair();
        live.note(Side::Near, 0, sent(1_000, 100));
        live.note(Side::Far, 0, received(1_000, 100));
        assert_eq!(live.note(Side::Far, 0, received(2_000, 200)), []);
        let rows = live.note(Side::Far, 0, received(3_000, 500));
        assert_eq!(spans(&rows), [(1_000, 2_000, false)]);
        assert_eq!((rows[0].up.rate, rows[0].up.messages), (LiveRate::Bps(800.0), Some(1)));
        let rest = live.rest();
        assert_eq!(spans(&rest), [(2_000, 3_000, false)]);
        assert_eq!((rest[0].up.rate, rest[0].up.messages), (LiveRate::Bps(2_400.0), Some(3)));
        assert_eq!(live.rest(), []);
    }

    /// The far end's message comes over a way that is longer than an interval.
    #[test]
    fn rows_of_short_intervals_wait_for_an_end_that_is_far_away() {
        let mut live = Live::new("udp", "delay", Nanos::from_millis(100), flows(1));
        let mut rows = Vec::new();
        for at in 1..=20 {
            rows.extend(live.note(Side::Near, 0, sent(100 * at, 100 * at)));
            if let Some(at @ 1..) = at.checked_sub(5) {
                rows.extend(live.note(Side::Far, 0, received(100 * at, 100 * at)));
            }
        }
        assert_eq!(rows.len(), 15);
        assert!(rows.iter().all(|row| row.up.rate == LiveRate::Bps(8_000.0) && !row.late));
    }

    /// The far end's message comes over the link that is down, and so after the interval's end.
    #[test]
    fn an_outage_is_shown_at_its_time_and_what_came_late_is_in_none_twice() {
        let mut live = pair();
        let mut rows = Vec::new();
        for second in 1..=6 {
            rows.extend(live.note(Side::Near, 0, sent(1_000 * second, 1_000 * second)));
            if second <= 2 {
                rows.extend(live.note(Side::Far, 0, received(1_000 * second, 1_000 * second)));
            }
        }
        assert_eq!(rows.len(), 5);
        for second in 3..=6 {
            let lost_messages = Some(if second == 6 { 30 } else { 0 });
            let bytes = if second == 6 { 3_000 } else { 2_000 };
            let missing =
                (second == 6).then_some(Missing { from_ns: 2_000 * MS, to_ns: 5_000 * MS });
            let point = Point { lost_messages, missing, ..received(1_000 * second, bytes) };
            rows.extend(live.note(Side::Far, 0, point));
        }
        rows.extend(live.rest());
        assert_eq!(
            spans(&rows),
            [
                (0, 1_000, false),
                (1_000, 2_000, false),
                (2_000, 3_000, false),
                (3_000, 4_000, false),
                (4_000, 5_000, false),
                (2_000, 3_000, true),
                (3_000, 4_000, true),
                (4_000, 5_000, true),
                (5_000, 6_000, false)
            ]
        );
        let full = LiveRate::Bps(8_000.0);
        let seen: Vec<LiveRate> = rows.iter().map(|row| row.up.rate).collect();
        assert_eq!(seen[..2], [full; 2]);
        assert_eq!(seen[2..5], [LiveRate::Unknown; 3]);
        assert_eq!(seen[5..8], [LiveRate::Bps(0.0); 3]);
        assert_eq!(seen[8], full);
        let outages: Vec<Option<u64>> = rows.iter().map(|row| row.up.outage_ns).collect();
        let second = |n: u64| Some(1_000 * n * MS);
        assert_eq!(outages[..5], [None; 5]);
        assert_eq!(outages[5..], [second(1), second(2), second(3), None]);
        assert_eq!((rows[8].lost_messages, rows[8].settled_messages), (Some(30), Some(40)));
        assert_eq!(rows[8].missing, Some(Missing { from_ns: 2_000 * MS, to_ns: 5_000 * MS }));
        let arrived: u64 = rows.iter().filter_map(|row| row.up.messages).sum();
        assert_eq!(arrived, 30);
    }

    /// An end that sleeps until something arrives takes its point late.
    #[test]
    fn an_end_that_slept_is_in_step_with_the_other_afterwards() {
        let mut live = pair();
        let mut rows = Vec::new();
        rows.extend(live.note(Side::Near, 0, sent(1_000, 1_000)));
        rows.extend(live.note(Side::Near, 0, sent(2_000, 2_000)));
        rows.extend(live.note(Side::Far, 0, received(2_240, 1_000)));
        for second in 3..=6 {
            rows.extend(live.note(Side::Near, 0, sent(1_000 * second, 1_000 * second)));
            rows.extend(live.note(Side::Far, 0, received(1_000 * second, 1_000 * second)));
        }
        rows.extend(live.rest());
        let last: Vec<(u64, u64, bool)> = spans(&rows).into_iter().rev().take(3).rev().collect();
        assert_eq!(last, [(3_000, 4_000, false), (4_000, 5_000, false), (5_000, 6_000, false)]);
        let arrived: u64 = rows.iter().filter_map(|row| row.up.messages).sum();
        assert_eq!(arrived, 60);
    }

    #[test]
    fn an_end_that_receives_nothing_receives_0() {
        let mut live = pair();
        live.note(Side::Near, 0, sent(1_000, 1_000));
        let rows = live.note(Side::Far, 0, received(1_000, 0));
        assert_eq!((rows[0].up.rate, rows[0].down.rate), (LiveRate::Bps(0.0), LiveRate::None));
        assert_eq!(rows[0].up.outage_ns, Some(1_000 * MS));
    }

    #[test]
    fn the_time_between_two_messages_is_no_outage() {
        let mut live = pair();
        let mut outages = Vec::new();
        for second in 1..=6 {
            let messages = 100 * (second / 3 + 1);
            live.note(Side::Near, 0, sent(1_000 * second, messages));
            let rows = live.note(Side::Far, 0, received(1_000 * second, messages));
            outages.extend(rows.into_iter().filter_map(|row| row.up.outage_ns));
        }
        assert_eq!(outages, [0u64; 0]);
    }

    #[test]
    fn flows_add_up_and_those_that_nobody_has_are_left_out() {
        let mut live = Live::new("udp", "delay", Nanos::from_secs(1), flows(2));
        let lossy = |flow: u64| Point { lost_messages: Some(flow + 1), ..received(1_000, 1_000) };
        for flow in [0, 1] {
            assert_eq!(live.note(Side::Near, flow, sent(1_000, 1_000)), []);
        }
        assert_eq!(live.note(Side::Far, 0, lossy(0)), []);
        let rows = live.note(Side::Far, 1, lossy(1));
        assert_eq!((rows[0].up.rate, rows[0].lost_messages), (LiveRate::Bps(16_000.0), Some(3)));
        assert_eq!((rows[0].up.messages, rows[0].settled_messages), (Some(20), Some(23)));
        assert_eq!(live.note(Side::Far, 7, lossy(7)), []);
        assert_eq!(live.rest(), []);
    }

    #[test]
    fn a_row_of_some_of_the_flows_says_so_and_the_others_follow() {
        let mut live = Live::new("udp", "delay", Nanos::from_secs(1), flows(2));
        let mut rows = Vec::new();
        for second in 1..=2 {
            for flow in [0, 1] {
                rows.extend(live.note(Side::Near, flow, sent(1_000 * second, 1_000 * second)));
            }
            rows.extend(live.note(Side::Far, 0, received(1_000 * second, 1_000 * second)));
        }
        assert_eq!((rows[0].up.rate, rows[0].up.flows), (LiveRate::Bps(8_000.0), (1, 2)));
        let late = live.note(Side::Far, 1, received(1_000, 500));
        assert_eq!(spans(&late), [(0, 1_000, true)]);
        assert_eq!((late[0].up.rate, late[0].up.flows), (LiveRate::Bps(4_000.0), (1, 2)));
        let next = live.note(Side::Far, 1, received(2_000, 1_500));
        assert_eq!((next[0].up.rate, next[0].up.flows), (LiveRate::Bps(16_000.0), (2, 2)));
    }

    #[test]
    fn lost_messages_that_come_after_all_are_no_gain() {
        let mut live = Live::new("udp", "delay", Nanos::from_secs(1), [(Side::Far, 0)].into_iter());
        let point = |at, lost| Point { lost_messages: Some(lost), ..received(at, 0) };
        assert_eq!(live.note(Side::Far, 0, point(1_000, 5))[0].lost_messages, Some(5));
        assert_eq!(live.note(Side::Far, 0, point(2_000, 3))[0].lost_messages, Some(0));
    }

    #[test]
    fn the_wait_for_stragglers_at_the_end_is_no_interval_but_an_arrival_in_it_is() {
        for (arrived, rows) in [(1_000, 1), (1_100, 2)] {
            let mut live = pair();
            live.note(Side::Near, 0, sent(1_000, 1_100));
            let mut shown = live.note(Side::Far, 0, received(1_000, 1_000));
            live.note(Side::Far, 0, received(1_200, arrived));
            shown.extend(live.rest());
            assert_eq!(shown.len(), rows);
        }
    }

    #[test]
    fn times_of_a_stranger_overflow_nothing() {
        let mut live = pair();
        for at_ns in [u64::MAX, 3, u64::MAX, 0] {
            let point = Point { at_ns, received_bytes: u64::MAX, ..Point::default() };
            live.note(Side::Far, 0, point);
            live.note(Side::Near, 0, point);
        }
        assert!(live.rest().iter().all(|row| row.from_ns < row.to_ns || row.late));
    }
}

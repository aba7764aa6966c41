//! Live view of a running trial, interval by interval: combines the points of both ends and all flows.

use crate::contract::Side;
use crate::measurements::series::{Missing, Point, RoundTrips, rate_bps};

/// Interval of a running trial, all flows together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LiveRow {
    /// Contender as typed.
    pub contender: String,
    /// Start of the interval, in nanoseconds after the trial's start.
    pub from_ns: u64,
    /// End of the interval, likewise; always later than its start.
    pub to_ns: u64,
    /// Rate received by the far end.
    pub up: LiveRate,
    /// Rate received by the near end.
    pub down: LiveRate,
    /// Round trips that ended in the interval.
    pub rtt: RoundTrips,
    /// Messages found missing in the interval; `None` if that cannot be known.
    pub lost_messages: Option<u64>,
    /// Times, after the trial's start, at which those messages were due; `None` if none were found missing, or if that
    /// cannot be known.
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

/// Reports of a flow at one end.
#[derive(Debug, Clone)]
struct FlowReports {
    side: Side,
    flow: u16,
    /// Point at the end of the last row.
    before: Point,
    /// Newest point.
    now: Point,
    news: News,
}

/// State of a flow: `Yes` if it has reported a point that no row shows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Yes,
    No,
}

/// Collects the points of all flows, and makes rows of them.
///
/// Rows follow each other in time. A late point, of an interval that a row has shown already, starts no new row: its
/// bytes belong to that interval, and its losses are shown in the next row with the times at which the messages were
/// due.
#[derive(Debug)]
pub struct Live {
    contender: String,
    /// Number of flows, both ends counted.
    expected: usize,
    reports: Vec<FlowReports>,
    shown_to_ns: u64,
}

impl Live {
    /// Creates a view for a trial of `contender` with `expected` flows, both ends counted.
    pub fn new(contender: &str, expected: usize) -> Live {
        Live { contender: contender.to_owned(), expected, reports: Vec::new(), shown_to_ns: 0 }
    }

    /// Takes a point. Returns a row if every flow has reported a new point, or if one has reported twice: the others
    /// then sleep, have ended, or report late.
    pub fn note(&mut self, side: Side, flow: u16, point: Point) -> Option<LiveRow> {
        let place =
            self.reports.iter().position(|reports| reports.side == side && reports.flow == flow);
        // A flow that reports a second time starts the next row.
        let is_second = place.is_some_and(|place| self.reports[place].news == News::Yes);
        let overdue = if is_second { self.rest() } else { None };
        let is_late = point.at_ns <= self.shown_to_ns;
        match place {
            Some(place) if is_late => self.reports[place].was_shown(point),
            Some(place) => {
                let reports = &mut self.reports[place];
                let earlier = reports.now;
                (reports.now, reports.news) = (reports.with_unshown(point, &earlier), News::Yes);
            }
            // A peer may name flows that do not exist; their number is bounded.
            None if self.reports.len() < self.expected => {
                let before = Point::default();
                let mut reports = FlowReports { side, flow, before, now: before, news: News::No };
                if is_late {
                    reports.was_shown(point);
                } else {
                    (reports.now, reports.news) = (point, News::Yes);
                }
                self.reports.push(reports);
            }
            None => return overdue,
        }
        let fresh = self.reports.iter().filter(|reports| reports.news == News::Yes).count();
        overdue.or_else(|| if fresh == self.expected { self.rest() } else { None })
    }

    /// Returns a row of the points that were reported and not yet shown.
    pub fn rest(&mut self) -> Option<LiveRow> {
        let news = || self.reports.iter().filter(|reports| reports.news == News::Yes);
        let to_ns = news().map(|reports| reports.now.at_ns).max()?;
        let (from_ns, cwnd) = (self.shown_to_ns, self.window(Side::Near));
        let mut row = LiveRow {
            contender: self.contender.clone(),
            from_ns,
            to_ns,
            up: self.rate(Side::Far, to_ns),
            down: self.rate(Side::Near, to_ns),
            cwnd_bytes: cwnd.or_else(|| self.window(Side::Far)),
            ..LiveRow::default()
        };
        for reports in self.reports.iter_mut().filter(|reports| reports.news == News::Yes) {
            row.add(reports);
            reports.before = reports.now;
            reports.now.rtt = RoundTrips::default();
            reports.now.missing = None;
            reports.news = News::No;
        }
        self.shown_to_ns = row.to_ns;
        Some(row)
    }

    /// Returns the rate received at `side` in the row that ends at `to_ns`.
    fn rate(&self, side: Side, to_ns: u64) -> LiveRate {
        let carries = |reports: &FlowReports| {
            let bytes = match reports.side == side {
                true => reports.now.received_bytes,
                false => reports.now.sent_bytes,
            };
            bytes > 0
        };
        if !self.reports.iter().any(carries) {
            return LiveRate::None;
        }
        let mut known =
            self.reports.iter().filter(|reports| reports.side == side && reports.news == News::Yes);
        let first = known.next();
        let Some(first) = first else { return LiveRate::Unknown };
        let bytes =
            known.fold(first.received(), |sum, reports| sum.saturating_add(reports.received()));
        let span = to_ns.saturating_sub(self.shown_to_ns);
        rate_bps(bytes as f64, span).map_or(LiveRate::Unknown, LiveRate::Bps)
    }

    /// Returns the sum of the congestion windows of one end's sending flows.
    fn window(&self, side: Side) -> Option<u64> {
        let senders = self
            .reports
            .iter()
            .filter(|reports| reports.side == side && reports.now.sent_bytes > 0);
        senders
            .filter_map(|reports| reports.now.tcp)
            .map(|tcp| tcp.cwnd_bytes)
            .filter(|bytes| *bytes > 0)
            .reduce(u64::saturating_add)
    }
}

impl FlowReports {
    /// Returns the bytes received since the end of the last row.
    fn received(&self) -> u64 {
        self.now.received_bytes.saturating_sub(self.before.received_bytes)
    }

    /// Takes a point of an interval that was shown already: its counts do not go into the next one, except for losses
    /// and round trips, which no row has shown.
    fn was_shown(&mut self, point: Point) {
        let earlier = self.now;
        let now = self.with_unshown(point, &earlier);
        let Point { lost_messages, socket_drops, .. } = self.before;
        (self.before, self.now) = (Point { lost_messages, socket_drops, ..point }, now);
    }

    /// Returns a point with the counts that `earlier` reported and no row has shown.
    fn with_unshown(&self, mut point: Point, earlier: &Point) -> Point {
        let mut rtt = earlier.rtt;
        rtt.merge(&point.rtt);
        point.rtt = rtt;
        point.missing = both(earlier.missing, point.missing, Missing::and);
        point
    }
}

impl LiveRow {
    fn add(&mut self, reports: &FlowReports) {
        let (before, now) = (&reports.before, &reports.now);
        self.rtt.merge(&now.rtt);
        let step =
            |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        sum(&mut self.lost_messages, step(now.lost_messages, before.lost_messages));
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
    use crate::measurements::TcpView;

    const MS: u64 = 1_000_000;

    fn received(at_ms: u64, bytes: u64) -> Point {
        Point { at_ns: at_ms * MS, received_bytes: bytes, ..Point::default() }
    }

    fn sent(at_ms: u64, bytes: u64, cwnd_bytes: u64, retransmits: u64) -> Point {
        let tcp = Some(TcpView { cwnd_bytes, retransmits, ..TcpView::default() });
        Point { at_ns: at_ms * MS, sent_bytes: bytes, tcp, ..Point::default() }
    }

    #[test]
    fn a_row_needs_all_flows_and_shows_what_happened_since_the_last() {
        let mut live = Live::new("tcp", 2);
        assert_eq!(live.note(Side::Near, 0, sent(100, 2_000, 30, 1)), None);
        let first = live.note(Side::Far, 0, received(101, 1_000)).unwrap();
        assert_eq!((first.from_ns, first.to_ns), (0, 101 * MS));
        assert_eq!(first.up, LiveRate::Bps(8e9 * 1_000.0 / (101 * MS) as f64));
        assert_eq!((first.cwnd_bytes, first.retransmits), (Some(30), Some(1)));
        assert_eq!(first.down, LiveRate::None);
        assert_eq!(live.note(Side::Far, 0, received(201, 4_000)), None);
        let second = live.note(Side::Near, 0, sent(200, 9_000, 40, 3)).unwrap();
        assert_eq!((second.from_ns, second.to_ns), (101 * MS, 201 * MS));
        assert_eq!(second.up, LiveRate::Bps(3_000.0 * 8.0 / 0.1));
        assert_eq!((second.cwnd_bytes, second.retransmits), (Some(40), Some(2)));
        assert_eq!(live.rest(), None);
    }

    #[test]
    fn a_flow_that_sleeps_or_has_ended_holds_up_no_other() {
        let mut live = Live::new("udp", 2);
        live.note(Side::Near, 0, sent(100, 10, 1, 0));
        live.note(Side::Far, 0, received(100, 10));
        assert_eq!(live.note(Side::Far, 0, received(200, 20)), None);
        let row = live.note(Side::Far, 0, received(300, 50)).unwrap();
        assert_eq!((row.to_ns, row.up), (200 * MS, LiveRate::Bps(10.0 * 8.0 / 0.1)));
        let rest = live.rest().unwrap();
        assert_eq!((rest.to_ns, rest.up), (300 * MS, LiveRate::Bps(30.0 * 8.0 / 0.1)));
        assert_eq!((rest.down, live.rest()), (LiveRate::None, None));
    }

    /// The far end's message comes over the link that is down, and so after the interval's end.
    #[test]
    fn rows_never_go_back_in_time_and_what_came_late_is_in_none_twice() {
        let mut live = Live::new("udp", 2);
        let mut rows = Vec::new();
        for second in 1..=6 {
            rows.extend(live.note(Side::Near, 0, sent(1_000 * second, 100 * second, 0, 0)));
            if second <= 2 {
                rows.extend(live.note(Side::Far, 0, received(1_000 * second, 100 * second)));
            }
        }
        for second in 3..=6 {
            let lost_messages = Some(if second == 6 { 3 } else { 0 });
            let bytes = if second == 6 { 300 } else { 200 };
            let missing =
                (second == 6).then_some(Missing { from_ns: 2_000 * MS, to_ns: 5_000 * MS });
            let point = Point { lost_messages, missing, ..received(1_000 * second, bytes) };
            rows.extend(live.note(Side::Far, 0, point));
        }
        rows.extend(live.rest());
        let spans: Vec<(u64, u64)> =
            rows.iter().map(|row| (row.from_ns / MS, row.to_ns / MS)).collect();
        assert_eq!(
            spans,
            [
                (0, 1_000),
                (1_000, 2_000),
                (2_000, 3_000),
                (3_000, 4_000),
                (4_000, 5_000),
                (5_000, 6_000)
            ]
        );
        let full = LiveRate::Bps(800.0);
        let seen: Vec<LiveRate> = rows.iter().map(|row| row.up).collect();
        assert_eq!(seen[..2], [full; 2]);
        assert_eq!(seen[2..5], [LiveRate::Unknown; 3]);
        assert_eq!(seen[5], full);
        assert_eq!(rows[5].lost_messages, Some(3));
        assert_eq!(rows[5].missing, Some(Missing { from_ns: 2_000 * MS, to_ns: 5_000 * MS }));
    }

    #[test]
    fn an_end_that_receives_nothing_receives_0() {
        let mut live = Live::new("udp", 2);
        live.note(Side::Near, 0, sent(100, 10, 0, 0));
        let row = live.note(Side::Far, 0, received(100, 0)).unwrap();
        assert_eq!((row.up, row.down), (LiveRate::Bps(0.0), LiveRate::None));
    }

    #[test]
    fn flows_add_up_and_those_that_nobody_has_are_left_out() {
        let mut live = Live::new("udp", 2);
        let lossy = |flow: u64| Point { lost_messages: Some(flow + 1), ..received(100, 1_000) };
        assert_eq!(live.note(Side::Far, 0, lossy(0)), None);
        let row = live.note(Side::Far, 1, lossy(1)).unwrap();
        assert_eq!((row.up, row.lost_messages), (LiveRate::Bps(2.0 * 8_000.0 / 0.1), Some(3)));
        assert_eq!(live.note(Side::Far, 7, lossy(7)), None);
        assert_eq!(live.rest(), None);
    }

    #[test]
    fn lost_messages_that_come_after_all_are_no_gain() {
        let mut live = Live::new("udp", 1);
        let point = |at, lost| Point { lost_messages: Some(lost), ..received(at, 0) };
        assert_eq!(live.note(Side::Far, 0, point(100, 5)).unwrap().lost_messages, Some(5));
        assert_eq!(live.note(Side::Far, 0, point(200, 3)).unwrap().lost_messages, Some(0));
    }
}

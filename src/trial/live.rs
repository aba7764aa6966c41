//! A trial under way, interval by interval: brings together what both ends and all flows tell.

use std::ops::Add;

use crate::contract::Side;
use crate::measurements::series::{Point, RoundTrips, rate_bps};

/// Interval of a trial under way, all flows together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// The contender, as typed.
    pub contender: String,
    /// Start of the interval, in nanoseconds after the trial's start.
    pub from_ns: u64,
    /// End of the interval, likewise.
    pub to_ns: u64,
    /// Rate received by the far end, in bits per second; `None` if nobody is there to tell.
    pub up_bps: Option<f64>,
    /// Rate received by the near end.
    pub down_bps: Option<f64>,
    /// The round trips that ended in the interval.
    pub rtt: RoundTrips,
    /// Messages found missing in the interval; `None` if nobody can know.
    pub lost_messages: Option<u64>,
    /// Datagrams that a receiver's socket had no room for; `None` if nobody can know.
    pub socket_drops: Option<u64>,
    /// TCP only: the congestion windows of the near end's flows together, in bytes, or of the far end's
    /// where only that sends.
    pub cwnd_bytes: Option<u64>,
    /// TCP only: segments sent again in the interval.
    pub retransmits: Option<u64>,
}

/// Reports of a flow at one end.
#[derive(Debug, Clone)]
struct Told {
    side: Side,
    flow: u16,
    /// Point at the end of the last row.
    before: Point,
    /// Newest point.
    now: Point,
    news: News,
}

/// State of a flow: `Yes` if it has reported something that no row shows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Yes,
    No,
}

/// Waits for the points of all flows, and makes a row of them.
#[derive(Debug)]
pub struct Live {
    contender: String,
    /// Flows, both ends counted.
    expected: usize,
    told: Vec<Told>,
    shown_to_ns: u64,
}

impl Live {
    /// Creates a view for a trial of `contender` in which so many flows tell, both ends counted.
    pub fn new(contender: &str, expected: usize) -> Live {
        Live { contender: contender.to_owned(), expected, told: Vec::new(), shown_to_ns: 0 }
    }

    /// Takes a point; a row where every flow has told something new, or one of them twice: the others
    /// sleep, or have ended.
    pub fn note(&mut self, side: Side, flow: u16, point: Point) -> Option<Row> {
        let place = self.told.iter().position(|told| told.side == side && told.flow == flow);
        // A flow that tells a second time opens the next row.
        let is_second = place.is_some_and(|place| self.told[place].news == News::Yes);
        let overdue = if is_second { self.rest() } else { None };
        match place {
            Some(place) => {
                let told = &mut self.told[place];
                (told.now, told.news) = (point, News::Yes);
            }
            // A peer may name flows that do not exist; they are not let in without end.
            None if self.told.len() < self.expected => {
                let before = Point::default();
                self.told.push(Told { side, flow, before, now: point, news: News::Yes });
            }
            None => return overdue,
        }
        let fresh = self.told.iter().filter(|told| told.news == News::Yes).count();
        overdue.or_else(|| if fresh == self.expected { self.rest() } else { None })
    }

    /// Returns a row of what was told and not yet shown.
    pub fn rest(&mut self) -> Option<Row> {
        if self.told.iter().all(|told| told.news == News::No) {
            return None;
        }
        let mut row =
            Row { contender: self.contender.clone(), from_ns: self.shown_to_ns, ..Row::default() };
        row.cwnd_bytes = self.window(Side::Near).or_else(|| self.window(Side::Far));
        for told in self.told.iter_mut().filter(|told| told.news == News::Yes) {
            row.add(told);
            told.before = told.now;
            told.news = News::No;
        }
        self.shown_to_ns = row.to_ns;
        Some(row)
    }

    /// Returns the congestion windows of one end's flows that send.
    fn window(&self, side: Side) -> Option<u64> {
        let senders = self.told.iter().filter(|told| told.side == side && told.now.sent_bytes > 0);
        senders
            .filter_map(|told| told.now.tcp)
            .map(|tcp| tcp.cwnd_bytes)
            .filter(|bytes| *bytes > 0)
            .reduce(u64::saturating_add)
    }
}

impl Row {
    fn add(&mut self, told: &Told) {
        let (before, now) = (&told.before, &told.now);
        self.to_ns = self.to_ns.max(now.at_ns);
        let received = now.received_bytes.saturating_sub(before.received_bytes);
        let rate = match told.side {
            Side::Near => &mut self.down_bps,
            Side::Far => &mut self.up_bps,
        };
        sum(rate, rate_bps(received as f64, now.at_ns.saturating_sub(before.at_ns)));
        self.rtt.merge(&now.rtt);
        let step =
            |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        sum(&mut self.lost_messages, step(now.lost_messages, before.lost_messages));
        sum(&mut self.socket_drops, step(now.socket_drops, before.socket_drops));
        if now.sent_bytes > 0 {
            let retransmits = |point: &Point| point.tcp.map(|tcp| tcp.retransmits);
            sum(&mut self.retransmits, step(retransmits(now), retransmits(before)));
        }
    }
}

/// Adds what is known to what is known.
fn sum<T: Copy + Add<Output = T>>(total: &mut Option<T>, more: Option<T>) {
    *total = match (*total, more) {
        (Some(total), Some(more)) => Some(total + more),
        (total, more) => total.or(more),
    };
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
        assert_eq!(first.up_bps, Some(8e9 * 1_000.0 / (101 * MS) as f64));
        assert_eq!((first.cwnd_bytes, first.retransmits), (Some(30), Some(1)));
        assert_eq!(first.down_bps, Some(0.0));
        assert_eq!(live.note(Side::Far, 0, received(201, 4_000)), None);
        let second = live.note(Side::Near, 0, sent(200, 9_000, 40, 3)).unwrap();
        assert_eq!((second.from_ns, second.to_ns), (101 * MS, 201 * MS));
        assert_eq!(second.up_bps, Some(3_000.0 * 8.0 / 0.1));
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
        assert_eq!((row.to_ns, row.up_bps), (200 * MS, Some(10.0 * 8.0 / 0.1)));
        let rest = live.rest().unwrap();
        assert_eq!((rest.to_ns, rest.up_bps), (300 * MS, Some(30.0 * 8.0 / 0.1)));
        assert_eq!((rest.down_bps, live.rest()), (None, None));
    }

    #[test]
    fn flows_add_up_and_those_that_nobody_has_are_left_out() {
        let mut live = Live::new("udp", 2);
        let lossy = |flow: u64| Point { lost_messages: Some(flow + 1), ..received(100, 1_000) };
        assert_eq!(live.note(Side::Far, 0, lossy(0)), None);
        let row = live.note(Side::Far, 1, lossy(1)).unwrap();
        assert_eq!((row.up_bps, row.lost_messages), (Some(2.0 * 8_000.0 / 0.1), Some(3)));
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

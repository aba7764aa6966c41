//! Time series of a flow at one end: counters at points in time, stored by column so that a series is small in JSON.
//! The difference of the counters of two points covers the interval between them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::TcpView;
use super::congestion::{PhaseChange, changes};
use super::rounds::Rounds;
use deadheat_base::time::Nanos;
use deadheat_base::unset::is_unset;

/// Times that ended in an interval: round trips, or delays one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Number of times.
    pub n: u64,
    /// Their sum, in nanoseconds.
    pub sum_ns: u64,
    /// Shortest time; 0 if there was none.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl RoundTrips {
    /// Adds a time.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.merge(&RoundTrips { n: 1, sum_ns: ns, min_ns: ns, max_ns: ns });
    }

    /// Adds the times of another interval.
    #[inline]
    pub fn merge(&mut self, other: &RoundTrips) {
        self.min_ns = match (self.n, other.n) {
            (_, 0) => self.min_ns,
            (0, _) => other.min_ns,
            _ => self.min_ns.min(other.min_ns),
        };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.n = self.n.saturating_add(other.n);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Returns true if there was none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the mean, in whole nanoseconds; `None` if there was none.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.n)
    }
}

/// Due times, after a flow's start, of the messages that were found missing in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// First due time, in nanoseconds.
    pub from_ns: u64,
    /// The last.
    pub to_ns: u64,
}

impl Missing {
    /// Returns the range of `so_far`, if there is any, extended by `due`.
    pub fn with(so_far: Option<Missing>, due: Nanos) -> Missing {
        let own = Missing { from_ns: due.0, to_ns: due.0 };
        so_far.map_or(own, |so_far| so_far.and(own))
    }

    /// Returns the range of both.
    #[must_use]
    pub fn and(self, other: Missing) -> Missing {
        Missing { from_ns: self.from_ns.min(other.from_ns), to_ns: self.to_ns.max(other.to_ns) }
    }
}

/// Counters of a flow at one end at one instant. All but the round trips count from the flow's start.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Time in nanoseconds after the flow's start at this end.
    pub at_ns: u64,
    /// Application bytes handed to the transport.
    pub sent_bytes: u64,
    /// Messages handed to the transport; 0 for byte streams.
    pub sent_messages: u64,
    /// Application bytes received.
    pub received_bytes: u64,
    /// Messages received, each once; 0 for byte streams.
    pub received_messages: u64,
    /// Messages missing at this end by now; absent if it cannot know.
    pub lost_messages: Option<u64>,
    /// Due times of the messages found missing since the previous point; absent if there are none, or if unknown.
    pub missing: Option<Missing>,
    /// Jitter of arrivals by RFC 3550, 6.4.1, in nanoseconds; absent if it is not measured.
    pub jitter_ns: Option<u64>,
    /// Datagrams dropped because this end's socket buffer was full; absent if unknown.
    pub socket_drops: Option<u64>,
    /// Round trips since the previous point.
    pub rtt: RoundTrips,
    /// Times of messages one way, or of the work's items, from their due times, since the previous point: if both ends
    /// have one clock, or one end knows both times.
    #[serde(default, skip_serializing_if = "RoundTrips::is_empty")]
    pub delay: RoundTrips,
    /// The kernel's view, for TCP.
    pub tcp: Option<TcpView>,
}

impl Point {
    /// Returns this point for the merged interval: the interval that `before` ended, and its own.
    pub fn after(mut self, before: &Point) -> Point {
        let (mut rtt, mut delay) = (before.rtt, before.delay);
        rtt.merge(&self.rtt);
        delay.merge(&self.delay);
        (self.rtt, self.delay) = (rtt, delay);
        self.missing = match (before.missing, self.missing) {
            (Some(before), Some(own)) => Some(before.and(own)),
            (before, own) => before.or(own),
        };
        self
    }
}

/// A flow at one end over a trial. Every column has one value for each point in time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Time between two points: the requested one, doubled for each merge of neighbours. A flow that slept reports
    /// late, so `at_ns` has the exact times; the last point is the flow's end.
    pub interval_ns: u64,
    /// Points that were due and not taken, because the thread that takes them was late by an interval or more.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub missed_points: u64,
    /// The flow's start at this end in nanoseconds since 1970, by this host's clock, to lay a dense series beside a
    /// capture of its packets; absent in any other series.
    pub began_ns: Option<u64>,
    /// Times in nanoseconds after the flow's start at this end. The starts of both ends differ by at most the delay of
    /// the signal to start.
    pub at_ns: Vec<u64>,
    /// Application bytes handed to the transport so far.
    pub sent_bytes: Vec<u64>,
    /// Application bytes received so far.
    pub received_bytes: Vec<u64>,
    /// Messages handed to the transport so far; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent_messages: Vec<u64>,
    /// Messages received so far, each once; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received_messages: Vec<u64>,
    /// Messages missing at this end so far; absent if it cannot know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_messages: Vec<u64>,
    /// Datagrams dropped so far because this end's socket buffer was full; absent if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub socket_drops: Vec<u64>,
    /// Round trips that ended in the interval; absent if none was measured at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_n: Vec<u64>,
    /// The shortest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_min_ns: Vec<Option<u64>>,
    /// Their mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_mean_ns: Vec<Option<u64>>,
    /// The longest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_max_ns: Vec<Option<u64>>,
    /// Messages one way, or items, with a known time that arrived in the interval; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay_n: Vec<u64>,
    /// Their mean time, from when they were due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay_mean_ns: Vec<Option<u64>>,
    /// The longest of their times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay_max_ns: Vec<Option<u64>>,
    /// The kernel's view of TCP, at the end of each interval; absent if this end sent nothing.
    pub tcp: Option<TcpColumns>,
    /// Phases of its congestion control, each with its first point; absent if the implementation reports none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseChange>,
    /// Bursts in which bulk data arrived; absent if the round trip is shorter than 2 ms or unknown, if the data never
    /// stopped for a quarter of one, and if this end received none.
    pub rounds: Option<Rounds>,
}

macro_rules! tcp_columns {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The kernel's view of a TCP connection by column, as [`TcpView`] describes each. A column is absent if the
        /// kernel never reported it; an entry is null if the kernel had no value.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct TcpColumns {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                pub $name: Vec<Option<u64>>,
            )*
        }

        impl TcpColumns {
            /// Creates the columns of `views`.
            fn new(views: &[TcpView]) -> TcpColumns {
                let is_reported = |bytes: &Vec<Option<u64>>| bytes.iter().flatten().any(|bytes| *bytes > 0);
                let mut columns =
                    TcpColumns { $($name: known(views.iter().map(|view| view.$name.into())),)* };
                if !is_reported(&columns.cwnd_bytes) {
                    columns.cwnd_bytes.clear();
                }
                columns
            }

            /// Returns every column with its name, in the order of the fields.
            pub fn columns(&self) -> impl Iterator<Item = (&'static str, &[Option<u64>])> {
                [$((stringify!($name), self.$name.as_slice()),)*].into_iter()
            }
        }
    };
}

tcp_columns! {
    /// Congestion window.
    cwnd_bytes,
    /// Smoothed round-trip time.
    srtt_ns,
    /// Mean deviation of the round-trip time.
    rttvar_ns,
    /// Recent minimum of the round-trip time.
    min_rtt_ns,
    /// Segments sent again so far.
    retransmits,
    /// Segments in flight now considered lost.
    lost_segments,
    /// Number of later segments after which a segment is considered lost.
    reordering_segments,
    /// Number of observed reorderings so far.
    reorderings,
    /// Bytes in flight, without those considered lost.
    in_flight_bytes,
    /// Bytes sent and not yet acknowledged cumulatively (FlightSize of RFC 5681).
    flight_size_bytes,
    /// Latest rate of delivery by the network.
    delivery_rate_bps,
    /// Rate at which segments may leave.
    pacing_rate_bps,
    /// Time so far with data to send, or unacknowledged data.
    busy_ns,
    /// Part of that time in which the peer's receive window was the limit.
    rwnd_limited_ns,
    /// Part of that time in which the send buffer was too small.
    sndbuf_limited_ns,
    /// Part of that time in which the window of a library in user space was the limit.
    library_limited_ns,
    /// Bytes that the peer acknowledged so far.
    bytes_acked,
    /// Bytes in the send buffer that were not sent yet.
    notsent_bytes,
    /// The peer's receive window.
    snd_wnd_bytes,
    /// Number of losses or marks taken as congestion, so far.
    congestion_events,
    /// Segments with data that the receiver reported as marked, so far.
    ce_delivered,
    /// Rounds of a protocol in user space so far.
    rounds,
}

/// Returns a column; empty if no entry is known.
fn known(column: impl Iterator<Item = Option<u64>>) -> Vec<Option<u64>> {
    let column: Vec<Option<u64>> = column.collect();
    if column.iter().all(Option::is_none) { Vec::new() } else { column }
}

/// Returns a column; empty if any entry is unknown.
fn whole(column: impl Iterator<Item = Option<u64>>) -> Vec<u64> {
    column.collect::<Option<Vec<u64>>>().unwrap_or_default()
}

/// Returns a column; empty if all entries are 0.
fn counted(column: impl Iterator<Item = u64>) -> Vec<u64> {
    let column: Vec<u64> = column.collect();
    if column.iter().all(|n| *n == 0) { Vec::new() } else { column }
}

/// Returns the times of each interval, from their columns: number, mean, shortest and longest.
fn gathered(n: &[u64], mean: &[Option<u64>], ends: [&[Option<u64>]; 2]) -> Vec<RoundTrips> {
    let each = |(at, n): (usize, &u64)| {
        let of = |column: &[Option<u64>]| column.get(at).copied().flatten().unwrap_or(0);
        let sum_ns = of(mean).saturating_mul(*n);
        RoundTrips { n: *n, sum_ns, min_ns: of(ends[0]), max_ns: of(ends[1]) }
    };
    n.iter().enumerate().map(each).collect()
}

impl Series {
    /// Creates the series of `points`, in order of time.
    pub fn new(interval_ns: u64, points: &[Point]) -> Series {
        let of = |value: fn(&Point) -> u64| points.iter().map(value);
        let times = |which: fn(&Point) -> &RoundTrips, value: fn(&RoundTrips) -> u64| {
            let each = points.iter().map(which);
            known(each.map(|times| (!times.is_empty()).then(|| value(times))))
        };
        let rtt = |value| times(|point| &point.rtt, value);
        let delay = |value| times(|point| &point.delay, value);
        let views: Option<Vec<TcpView>> = points.iter().map(|point| point.tcp).collect();
        let has_sent = points.iter().any(|point| point.sent_bytes > 0);
        let phases = points.iter().map(|point| (point.at_ns, point.tcp.and_then(|tcp| tcp.phase)));
        let phases = if has_sent { changes(phases) } else { Vec::new() };
        Series {
            interval_ns,
            missed_points: 0,
            began_ns: None,
            at_ns: of(|point| point.at_ns).collect(),
            sent_bytes: of(|point| point.sent_bytes).collect(),
            received_bytes: of(|point| point.received_bytes).collect(),
            sent_messages: counted(of(|point| point.sent_messages)),
            received_messages: counted(of(|point| point.received_messages)),
            lost_messages: whole(points.iter().map(|point| point.lost_messages)),
            socket_drops: whole(points.iter().map(|point| point.socket_drops)),
            rtt_n: counted(of(|point| point.rtt.n)),
            rtt_min_ns: rtt(|rtt| rtt.min_ns),
            rtt_mean_ns: rtt(|rtt| rtt.mean_ns().unwrap_or(0)),
            rtt_max_ns: rtt(|rtt| rtt.max_ns),
            delay_n: counted(of(|point| point.delay.n)),
            delay_mean_ns: delay(|delay| delay.mean_ns().unwrap_or(0)),
            delay_max_ns: delay(|delay| delay.max_ns),
            tcp: views.filter(|_| has_sent).map(|views| TcpColumns::new(&views)),
            phases,
            rounds: None,
        }
    }

    /// Iterates over the differences between neighbouring points, in order. Columns of unequal length, as a file may
    /// have them, end it early.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let n = self.at_ns.len().min(self.sent_bytes.len()).min(self.received_bytes.len());
        (0..n).map(|end| {
            let step = |column: &[u64]| {
                let before = end.checked_sub(1).and_then(|start| column.get(start).copied());
                column.get(end).map(|now| now.saturating_sub(before.unwrap_or(0)))
            };
            Interval {
                from_ns: end.checked_sub(1).map_or(0, |start| self.at_ns[start]),
                to_ns: self.at_ns[end],
                sent_bytes: step(&self.sent_bytes).unwrap_or(0),
                received_bytes: step(&self.received_bytes).unwrap_or(0),
                sent_messages: step(&self.sent_messages),
                received_messages: step(&self.received_messages),
                lost_messages: step(&self.lost_messages),
                socket_drops: step(&self.socket_drops),
            }
        })
    }

    /// Merges the round trips of neighbouring intervals into at most `most` groups.
    pub fn round_trips(&self, most: usize) -> Vec<RoundTrips> {
        let all = self.rtts();
        let together = |group: &[RoundTrips]| {
            let mut sum = RoundTrips::default();
            group.iter().for_each(|rtt| sum.merge(rtt));
            sum
        };
        all.chunks(all.len().div_ceil(most.max(1)).max(1)).map(together).collect()
    }

    /// Returns the round trips of each interval.
    pub fn rtts(&self) -> Vec<RoundTrips> {
        gathered(&self.rtt_n, &self.rtt_mean_ns, [&self.rtt_min_ns, &self.rtt_max_ns])
    }

    /// Returns the times one way, or of items, of each interval. The series does not store the shortest, which are 0
    /// here.
    pub fn delays(&self) -> Vec<RoundTrips> {
        gathered(&self.delay_n, &self.delay_mean_ns, [&[], &self.delay_max_ns])
    }

    /// Returns the number of bytes received up to `at_ns` after the start, interpolated between two points.
    pub fn received_by(&self, at_ns: u64) -> f64 {
        let mut bytes = 0.0;
        for interval in self.intervals() {
            if interval.to_ns <= at_ns {
                bytes += interval.received_bytes as f64;
            } else if interval.from_ns < at_ns {
                let part = (at_ns - interval.from_ns) as f64;
                let whole = (interval.to_ns - interval.from_ns) as f64;
                bytes += interval.received_bytes as f64 * part / whole;
            }
        }
        bytes
    }
}

/// Differences between two neighbouring points of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Start, in nanoseconds after the flow's start.
    pub from_ns: u64,
    /// End, in nanoseconds after the flow's start.
    pub to_ns: u64,
    /// Bytes handed to the transport in the interval.
    pub sent_bytes: u64,
    /// Bytes received in the interval.
    pub received_bytes: u64,
    /// Messages handed to the transport in the interval; `None` for byte streams.
    pub sent_messages: Option<u64>,
    /// Messages received in the interval.
    pub received_messages: Option<u64>,
    /// Messages found missing in the interval; also 0 if late arrivals outweigh new losses.
    pub lost_messages: Option<u64>,
    /// Datagrams dropped at this end's socket in the interval.
    pub socket_drops: Option<u64>,
}

impl Interval {
    /// Returns the bits per second handed to the transport; `None` for an empty interval.
    pub fn sent_bps(&self) -> Option<f64> {
        rate_bps(self.sent_bytes as f64, self.to_ns.saturating_sub(self.from_ns))
    }

    /// Returns the bits per second received.
    pub fn received_bps(&self) -> Option<f64> {
        rate_bps(self.received_bytes as f64, self.to_ns.saturating_sub(self.from_ns))
    }
}

/// Returns the bits per second of `bytes` in `ns` nanoseconds; `None` for no time.
pub fn rate_bps(bytes: f64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| bytes * 8e9 / ns as f64)
}

/// Returns the goodput of all flows together between two times after their starts, in bits per second, bursts and the
/// waits between them alike; `None` for no time, and if no flow has points up to the later one.
pub fn goodput_between<'a>(
    flows: impl Iterator<Item = &'a Series>,
    (from_ns, to_ns): (u64, u64),
) -> Option<f64> {
    let mut known = false;
    let mut bytes = 0.0;
    for flow in flows {
        known |= flow.at_ns.last().is_some_and(|last| *last >= to_ns);
        bytes += flow.received_by(to_ns) - flow.received_by(from_ns);
    }
    rate_bps(bytes, to_ns.saturating_sub(from_ns)).filter(|_| known)
}

/// Returns the goodput of all flows together over time, in bits per second: `parts` stretches of equal length from the
/// start to the last point of any flow. Bytes are spread evenly between two points, so a stretch shorter than an
/// interval shows no more detail.
pub fn goodput_bps(flows: &[&Series], parts: u64) -> Vec<f64> {
    let end = flows.iter().filter_map(|flow| flow.at_ns.last()).max().copied().unwrap_or(0);
    let at = |part: u64| (u128::from(end) * u128::from(part) / u128::from(parts.max(1))) as u64;
    let total = |at_ns: u64| flows.iter().map(|flow| flow.received_by(at_ns)).sum::<f64>();
    let stretch = |part: u64| {
        let (from, to) = (at(part), at(part + 1));
        rate_bps(total(to) - total(from), to - from)
    };
    (0..parts).filter_map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ns: u64, sent_bytes: u64, received_bytes: u64) -> Point {
        Point { at_ns, sent_bytes, received_bytes, ..Point::default() }
    }

    #[test]
    fn round_trips_add_up_and_an_empty_interval_has_no_least() {
        let mut rtt = RoundTrips::default();
        assert_eq!(rtt.mean_ns(), None);
        rtt.merge(&RoundTrips::default());
        [30, 10, 50].into_iter().for_each(|ns| rtt.add(ns));
        assert_eq!(rtt, RoundTrips { n: 3, sum_ns: 90, min_ns: 10, max_ns: 50 });
        rtt.merge(&RoundTrips::default());
        assert_eq!((rtt.min_ns, rtt.mean_ns()), (10, Some(30)));
    }

    #[test]
    fn intervals_are_differences_and_add_up_to_the_totals() {
        let series = Series::new(100, &[point(100, 10, 0), point(200, 10, 4), point(250, 30, 5)]);
        let intervals: Vec<Interval> = series.intervals().collect();
        assert_eq!(intervals.iter().map(|i| i.sent_bytes).sum::<u64>(), 30);
        assert_eq!(intervals.iter().map(|i| i.received_bytes).sum::<u64>(), 5);
        assert_eq!((intervals[2].from_ns, intervals[2].to_ns), (200, 250));
        assert_eq!(intervals[2].sent_bps(), Some(20.0 * 8e9 / 50.0));
        assert_eq!(intervals[0].sent_messages, None);
    }

    /// A burst of 1 MB in each round trip of 600 ms, of which each takes 100 ms: the rate of the link is six times the
    /// goodput.
    #[test]
    fn the_waits_between_bursts_are_part_of_the_goodput() {
        let points: Vec<Point> = (1..=60u64)
            .map(|tenth| point(tenth * 100_000_000, 0, tenth.div_ceil(6) * 1_000_000))
            .collect();
        let series = Series::new(100_000_000, &points);
        let of = |from_ms: u64, to_ms: u64| {
            goodput_between([&series].into_iter(), (from_ms * 1_000_000, to_ms * 1_000_000))
        };
        let whole = of(1_200, 4_800).unwrap();
        assert!((whole / (8e6 / 0.6) - 1.0).abs() < 1e-9, "{whole}");
        assert_eq!((of(1_200, 6_001), of(3, 3)), (None, None), "not known, and no time");
    }

    #[test]
    fn neighbouring_round_trips_come_together() {
        let measured = |n: u64, ns: u64| {
            let mut rtt = RoundTrips::default();
            (0..n).for_each(|_| rtt.add(ns));
            Point { rtt, ..Point::default() }
        };
        let series = Series::new(1, &[measured(1, 10), measured(3, 30), measured(0, 0)]);
        let pairs = series.round_trips(2);
        assert_eq!(pairs[0], RoundTrips { n: 4, sum_ns: 100, min_ns: 10, max_ns: 30 });
        assert_eq!((pairs.len(), pairs[1].mean_ns()), (2, None));
        assert_eq!((series.round_trips(9).len(), series.round_trips(0).len()), (3, 1));
        assert!(Series::default().round_trips(5).is_empty());
    }

    #[test]
    fn what_nobody_can_know_is_no_column() {
        let json = serde_json::to_value(Series::new(7, &[point(1, 2, 3)])).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["at_ns", "interval_ns", "received_bytes", "sent_bytes"]);
        // A receiver's congestion window says nothing about the transfer.
        let view = TcpView { cwnd_bytes: 10, ..TcpView::default() };
        let silent = Point { tcp: Some(view), ..point(1, 0, 3) };
        assert_eq!(Series::new(7, &[silent]).tcp, None);
        let sender = Series::new(7, &[Point { sent_bytes: 1, ..silent }]).tcp.unwrap();
        assert_eq!((sender.cwnd_bytes, sender.srtt_ns.len()), (vec![Some(10)], 0));
    }

    #[test]
    fn columns_that_do_not_match_harm_nobody() {
        let series = Series { at_ns: vec![5, 4, 9], sent_bytes: vec![3, 1], ..Series::default() };
        assert_eq!(series.intervals().count(), 0);
        let odd = Series { received_bytes: vec![8, 2], ..series };
        let intervals: Vec<Interval> = odd.intervals().collect();
        assert_eq!((intervals.len(), intervals[1].sent_bps()), (2, None));
        assert!(goodput_bps(&[&odd], 3).iter().all(|bps| bps.is_finite()));
        assert!(goodput_bps(&[&odd], 0).is_empty());
    }

    #[test]
    fn goodput_of_flows_with_other_points_is_their_sum() {
        let steady = Series::new(100, &[point(100, 0, 100), point(200, 0, 200)]);
        let late = Series::new(100, &[point(200, 0, 100)]);
        let bps = goodput_bps(&[&steady, &late], 2);
        assert_eq!(bps, [150.0 * 8e9 / 100.0; 2]);
    }
}

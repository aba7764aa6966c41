//! Counters of a connection over time. Points are as far apart as their number asks: when there are too many, neighbours are
//! merged.

use deadheat_contract::measurements::series::{Point, RoundTrips, Series, TcpColumns};

/// Largest number of points.
const MOST_POINTS: usize = 128;
/// Interval of the first points, in nanoseconds.
const FIRST_INTERVAL: u64 = 10_000_000;

/// Counters of a direction at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WayPoint {
    pub sent: u64,
    pub arrived: u64,
    /// The others are of TCP.
    pub retransmits: u64,
    pub flight: u64,
    pub window: Option<u64>,
    pub busy_ns: u64,
    pub limited_ns: u64,
    pub least_round_trip: Option<u64>,
    /// Round trips since the last point.
    pub rtt: RoundTrips,
}

/// Points of a connection: a time since its first packet, and the counters of both directions.
#[derive(Debug)]
pub(super) struct Points {
    interval: u64,
    next: u64,
    list: Vec<(u64, [WayPoint; 2])>,
}

impl Default for Points {
    fn default() -> Points {
        Points { interval: FIRST_INTERVAL, next: FIRST_INTERVAL, list: Vec::new() }
    }
}

impl Points {
    /// Returns the time of the point that is due before a packet, if any.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        (now >= self.next).then(|| now / self.interval * self.interval)
    }

    pub(super) fn push(&mut self, at: u64, ways: [WayPoint; 2]) {
        self.list.push((at, ways));
        if self.list.len() == MOST_POINTS {
            let merged = |pair: &[(u64, [WayPoint; 2])]| {
                let (at, mut ways) = pair[pair.len() - 1];
                if let [(_, before), _] = pair {
                    ways.iter_mut().zip(before).for_each(|(own, other)| own.rtt.merge(&other.rtt));
                }
                (at, ways)
            };
            self.list = self.list.chunks(2).map(merged).collect();
            self.interval = self.interval.saturating_mul(2);
        }
        self.next = (at / self.interval).saturating_add(1).saturating_mul(self.interval);
    }

    /// Returns the series of the client and of the server.
    pub(super) fn series(&self, is_tcp: bool) -> [Series; 2] {
        [0, 1].map(|side: usize| {
            let point = |(at_ns, ways): &(u64, [WayPoint; 2])| Point {
                at_ns: *at_ns,
                sent_bytes: ways[side].sent,
                received_bytes: ways[1 - side].arrived,
                rtt: ways[side].rtt,
                ..Point::default()
            };
            let points: Vec<Point> = self.list.iter().map(point).collect();
            let column = |of: fn(&WayPoint) -> Option<u64>| {
                let own: Vec<Option<u64>> =
                    self.list.iter().map(|(_, ways)| of(&ways[side])).collect();
                if own.iter().any(Option::is_some) { own } else { Vec::new() }
            };
            let columns = || TcpColumns {
                srtt_ns: column(|own| own.rtt.mean_ns()),
                min_rtt_ns: column(|own| own.least_round_trip),
                retransmits: column(|own| Some(own.retransmits)),
                flight_size_bytes: column(|own| Some(own.flight)),
                snd_wnd_bytes: column(|own| own.window),
                busy_ns: column(|own| Some(own.busy_ns)),
                rwnd_limited_ns: column(|own| own.window.map(|_| own.limited_ns)),
                bytes_acked: column(|own| Some(own.arrived)),
                ..TcpColumns::default()
            };
            let sends = points.last().is_some_and(|last| last.sent_bytes > 0);
            let tcp = (is_tcp && sends).then(columns);
            Series { tcp, ..Series::new(self.interval, &points) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_bounded_and_keep_all_round_trips_and_the_last_counters() {
        let mut points = Points::default();
        for n in 1..=10_000_u64 {
            if let Some(at) = points.due(n * FIRST_INTERVAL) {
                let mut rtt = RoundTrips::default();
                rtt.add(n);
                let way = WayPoint { sent: n, rtt, ..WayPoint::default() };
                points.push(at, [way, WayPoint::default()]);
            }
        }
        let [client, _] = points.series(true);
        assert!((MOST_POINTS / 2..MOST_POINTS).contains(&client.at_ns.len()));
        assert!(client.sent_bytes.is_sorted() && client.sent_bytes[0] > 0);
        assert!(client.at_ns.is_sorted_by(|a, b| a < b));
    }
}

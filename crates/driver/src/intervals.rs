//! Series of a flow over time: a point at each interval, in memory that is allocated before the flow starts.
//! Neighbouring points of a long trial are merged, so that a day takes no more memory than twelve seconds. Where points
//! are also shown while the trial runs, they go on to be taken at the interval that was asked for.

use std::sync::Arc;

use deadheat_base::time::Nanos;
use deadheat_base::waiting::SPIN_WINDOW;
use deadheat_contract::measurements::series::{Point, Series};

pub use rounds::RoundMeter;
pub use shared::{NextPoint, SharedPoints};

mod rounds;
mod shared;

/// Interval if none is given.
pub const DEFAULT: Nanos = Nanos::from_millis(100);
/// Shortest interval that does not affect the figures. The series of a shorter one is dense: it has more points, and a
/// flow that waits is woken for them.
pub const SHORTEST: Nanos = Nanos::from_millis(10);
/// Shortest interval of a dense series.
pub const SHORTEST_DENSE: Nanos = Nanos::from_millis(1);
/// Longest interval.
pub const LONGEST: Nanos = Nanos::from_secs(3600);

/// Number of points at which neighbours are merged: a flow keeps fewer, and at least half as many.
pub const MOST_POINTS: usize = 120;
/// Most points that all flows of an end keep, so that a report fits into a control message; each flow still has up to
/// four.
const MOST_TOGETHER: usize = 480;
/// Most points of dense series, of a flow and of all flows of an end.
pub const MOST_DENSE: usize = 1_000;

/// Sampler that stores the points of one flow at one end.
#[derive(Debug, Default)]
pub struct Sampler {
    start: Nanos,
    interval: Nanos,
    due: Nanos,
    points: Vec<Point>,
    most: usize,
    /// Interval at which points are taken for a view of the running trial; `None` if there is none: then each point that
    /// is taken is stored.
    shown: Option<Nanos>,
    /// True if a flow that waits is woken for a point that is due.
    is_dense: bool,
    /// Points that were taken since the last stored one, as one.
    unstored: Option<Point>,
    /// Points that were due and not taken.
    missed: u64,
    /// Points that another thread takes; the flow's thread only leaves its counters.
    shared: Option<Arc<SharedPoints>>,
    /// Meter of the bursts in which bulk data arrives.
    rounds: Option<RoundMeter>,
}

/// Longest time that a point may wait for a moment at which taking it delays nothing, whatever the interval.
const LONGEST_PATIENCE: Nanos = Nanos::from_millis(10);

impl Sampler {
    /// Creates a sampler for one of `flows` flows. An interval out of bounds is clamped, because it may come from a
    /// remote client.
    pub fn new(interval: Nanos, flows: usize) -> Sampler {
        let interval = interval.clamp(SHORTEST_DENSE, LONGEST);
        let is_dense = interval < SHORTEST;
        let (together, most) =
            if is_dense { (MOST_DENSE, MOST_DENSE) } else { (MOST_TOGETHER, MOST_POINTS) };
        let most = (together / flows.max(1)).clamp(4, most) / 2 * 2;
        // Every page is written once, so that none is allocated later.
        let mut points = vec![Point::default(); most];
        points.clear();
        Sampler { points, most, ..Sampler::without_points(interval, is_dense) }
    }

    /// Creates a sampler without room for points.
    fn without_points(interval: Nanos, is_dense: bool) -> Sampler {
        Sampler { interval, is_dense, ..Sampler::default() }
    }

    /// Goes on to take points at the interval that was asked for, however few of them are stored.
    #[must_use]
    pub fn for_a_view(mut self) -> Sampler {
        self.shown = Some(self.interval);
        self
    }

    /// Hands the points over to another thread. The flow's thread only leaves its counters here from then on.
    pub fn hand_over(&mut self) -> Arc<SharedPoints> {
        let without_points = Sampler::without_points(self.interval, self.is_dense);
        let shared = SharedPoints::new(std::mem::replace(self, without_points));
        self.shared = Some(Arc::clone(&shared));
        shared
    }

    /// Starts the flow's series at `now`.
    pub fn start(&mut self, now: Nanos) {
        self.start = now;
        match &self.shared {
            Some(shared) => shared.start(now),
            None => self.due = now + self.interval,
        }
    }

    /// Measures the bursts in which bulk data arrives over a connection with this least round trip.
    pub fn measure_rounds(&mut self, rtt: Nanos) {
        self.rounds = RoundMeter::new(rtt);
    }

    /// Returns the meter of the bursts of bulk data; `None` if they are not measured.
    #[inline]
    pub fn rounds(&mut self) -> Option<&mut RoundMeter> {
        self.rounds.as_mut()
    }

    /// Returns true if the interval is so short that a flow which sleeps in a call would miss points.
    pub fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Returns true if another thread takes the points.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the time at which the next point is due; always past where another thread takes the points.
    #[inline]
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Returns the end of a wait for a point; `None` if none ends for it. A wait sleeps until [`SPIN_WINDOW`] before its
    /// end, and would spend the rest polling.
    #[inline]
    pub fn wakes(&self) -> Option<Nanos> {
        (self.is_dense && !self.is_shared()).then(|| self.due + SPIN_WINDOW)
    }

    /// Returns the start of the series by the flow's clock.
    pub fn started(&self) -> Nanos {
        self.start
    }

    /// Returns the longest time that a point may wait for a moment at which taking it delays nothing.
    pub fn patience(&self) -> Nanos {
        if self.is_shared() {
            return Nanos(u64::MAX);
        }
        Nanos(self.shown.unwrap_or(self.interval).0 / 10).min(LONGEST_PATIENCE)
    }

    /// Returns the time from the start to `now`.
    pub fn since_start(&self, now: Nanos) -> Nanos {
        now - self.start
    }

    /// Takes a point. The next is due at the next multiple of the interval: missed points are counted, and not made up
    /// for.
    pub fn keep(&mut self, point: Point) {
        if let Some(shared) = &self.shared {
            return shared.leave(point);
        }
        self.count_missed(point.at_ns);
        let whole = match self.unstored.take() {
            Some(unstored) => point.after(&unstored),
            None => point,
        };
        match self.shown {
            Some(shown) if !self.ends_an_interval(whole.at_ns) => {
                self.unstored = Some(whole);
                self.due = self.next(point.at_ns, shown);
            }
            shown => {
                self.store(whole);
                self.due = self.next(point.at_ns, shown.unwrap_or(self.interval));
            }
        }
    }

    /// Counts the points that were due before that of this time.
    fn count_missed(&mut self, at_ns: u64) {
        let every = self.shown.unwrap_or(self.interval).0;
        self.missed += (at_ns / every).saturating_sub((self.due - self.start).0 / every);
    }

    /// Returns true if a point at this time lies in an interval after that of the last stored point.
    fn ends_an_interval(&self, at_ns: u64) -> bool {
        let before = self.points.last().map_or(0, |last| last.at_ns);
        at_ns / self.interval.0 > before / self.interval.0
    }

    /// Returns the next multiple of `interval` after `at_ns`.
    fn next(&self, at_ns: u64, interval: Nanos) -> Nanos {
        self.start + Nanos((at_ns / interval.0 + 1).saturating_mul(interval.0))
    }

    fn store(&mut self, point: Point) {
        self.points.push(point);
        // Merged now, not before the next point, so that the next due time is on the wider grid already.
        if self.points.len() >= self.most {
            for pair in 0..self.most / 2 {
                self.points[pair] = self.points[2 * pair + 1].after(&self.points[2 * pair]);
            }
            self.points.truncate(self.most / 2);
            self.interval = Nanos(self.interval.0.saturating_mul(2));
        }
    }

    /// Takes the point at the flow's end. A point that follows the last stored one by almost no time replaces it,
    /// because rates over so short an interval mean nothing.
    pub fn finish(&mut self, point: Point) {
        if let Some(shared) = &self.shared {
            return shared.finish(point);
        }
        self.count_missed(point.at_ns);
        let whole = match self.unstored.take() {
            Some(unstored) => point.after(&unstored),
            None => point,
        };
        match self.points.last_mut() {
            Some(last) if whole.at_ns.saturating_sub(last.at_ns) < self.interval.0 / 10 => {
                *last = whole.after(last);
            }
            _ => self.store(whole),
        }
    }

    /// Returns the stored points as a series.
    pub fn series(&self) -> Series {
        let series = match &self.shared {
            Some(shared) => shared.series(),
            None => {
                let missed_points = self.missed;
                Series { missed_points, ..Series::new(self.interval.0, &self.points) }
            }
        };
        Series { rounds: self.rounds.as_ref().and_then(RoundMeter::rounds), ..series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::TcpView;
    use deadheat_contract::measurements::congestion::CongestionPhase;
    use deadheat_contract::measurements::series::RoundTrips;

    /// Flow in virtual time that is sampled `late` after each due time; it moves a byte each microsecond and has one
    /// round trip per interval, with the interval's number as its length.
    fn run(interval: Nanos, flows: usize, time: Nanos, late: Nanos) -> (Series, u64) {
        let mut sampler = Sampler::new(interval, flows);
        let start = Nanos(12_345);
        sampler.start(start);
        let mut looks = 0;
        while sampler.due() + late <= start + time {
            let at = sampler.since_start(sampler.due() + late);
            looks += 1;
            let mut rtt = RoundTrips::default();
            rtt.add(looks);
            sampler.keep(Point { at_ns: at.0, sent_bytes: at.0 / 1000, rtt, ..Point::default() });
        }
        sampler.finish(Point { at_ns: time.0, sent_bytes: time.0 / 1000, ..Point::default() });
        (sampler.series(), looks)
    }

    #[test]
    fn a_second_has_ten_points_and_its_end() {
        let (series, looks) = run(DEFAULT, 1, Nanos(1_050_000_000), Nanos::ZERO);
        assert_eq!((series.interval_ns, looks), (100_000_000, 10));
        assert_eq!(series.at_ns[..2], [100_000_000, 200_000_000]);
        assert_eq!((series.at_ns[10], series.sent_bytes[10]), (1_050_000_000, 1_050_000));
        assert_eq!(series.rtt_n[..], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!((series.rtt_mean_ns[9], series.rtt_mean_ns[10]), (Some(10), None));
    }

    #[test]
    fn a_day_takes_no_more_room_and_loses_nothing() {
        let day = Nanos::from_secs(86_400);
        let (series, looks) = run(DEFAULT, 1, day, Nanos::ZERO);
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&series.at_ns.len()));
        // 100 ms doubled until fewer than 120 of them hold a day.
        assert_eq!(series.interval_ns, 100_000_000 << 13);
        let gaps: Vec<u64> = series.at_ns.windows(2).map(|w| w[1] - w[0]).collect();
        let (last, others) = gaps.split_last().unwrap();
        assert!(others.iter().all(|gap| *gap == series.interval_ns) && *last <= series.interval_ns);
        assert_eq!(series.intervals().map(|i| i.sent_bytes).sum::<u64>(), day.0 / 1000);
        assert_eq!(series.rtt_n.iter().sum::<u64>(), looks);
        assert_eq!(series.rtt_min_ns[0], Some(1));
        assert_eq!(series.rtt_max_ns.iter().flatten().max(), Some(&looks));
    }

    #[test]
    fn a_view_of_a_long_trial_has_a_point_at_each_interval_and_the_stored_series_loses_nothing() {
        let day = Nanos::from_secs(86_400);
        let mut sampler = Sampler::new(Nanos::from_secs(1), 1).for_a_view();
        let start = Nanos(12_345);
        sampler.start(start);
        let mut looks = 0;
        while sampler.due() < start + day {
            let at = sampler.since_start(sampler.due());
            looks += 1;
            assert_eq!(at, Nanos::from_secs(looks), "a point is missing");
            let mut rtt = RoundTrips::default();
            rtt.add(looks);
            sampler.keep(Point { at_ns: at.0, sent_bytes: at.0 / 1000, rtt, ..Point::default() });
        }
        sampler.finish(Point { at_ns: day.0, sent_bytes: day.0 / 1000, ..Point::default() });
        let series = sampler.series();
        assert_eq!(series.interval_ns, 1_000_000_000 << 10);
        let gaps: Vec<u64> = series.at_ns.windows(2).map(|w| w[1] - w[0]).collect();
        let (last, others) = gaps.split_last().unwrap();
        assert!(others.iter().all(|gap| *gap == series.interval_ns) && *last <= series.interval_ns);
        assert_eq!(series.rtt_n.iter().sum::<u64>(), 86_399);
        assert_eq!(series.intervals().map(|i| i.sent_bytes).sum::<u64>(), day.0 / 1000);
    }

    #[test]
    fn a_point_of_a_long_interval_waits_no_longer_than_that_of_a_short_one() {
        assert_eq!(Sampler::new(Nanos::from_secs(1), 1).patience(), Nanos::from_millis(10));
        assert_eq!(Sampler::new(DEFAULT, 1).patience(), Nanos::from_millis(10));
        assert_eq!(Sampler::new(SHORTEST, 1).patience(), Nanos::from_millis(1));
    }

    #[test]
    fn a_late_point_has_its_own_time_and_the_next_is_on_the_grid() {
        let (series, _) = run(DEFAULT, 1, Nanos::from_secs(1), Nanos::from_millis(130));
        assert_eq!(series.at_ns[..3], [230_000_000, 430_000_000, 630_000_000]);
        assert_eq!(series.missed_points, 5, "those at 100, 300, 500, 700 and 900 ms");
    }

    #[test]
    fn an_end_right_after_a_point_is_no_interval_of_its_own() {
        let (series, _) = run(DEFAULT, 1, Nanos(309_999_999), Nanos::ZERO);
        assert_eq!(series.at_ns, [100_000_000, 200_000_000, 309_999_999]);
        assert_eq!((series.sent_bytes[2], series.rtt_n[2]), (309_999, 1));
        let (series, _) = run(DEFAULT, 1, Nanos(310_000_000), Nanos::ZERO);
        assert_eq!(series.at_ns.len(), 4);
        let (series, _) = run(DEFAULT, 1, Nanos(3), Nanos::ZERO);
        assert_eq!(series.at_ns, [3]);
    }

    #[test]
    fn an_interval_of_a_stranger_stays_within_bounds() {
        for (asked, given) in [(Nanos(1), SHORTEST_DENSE), (Nanos(u64::MAX), LONGEST)] {
            let mut sampler = Sampler::new(asked, 1);
            sampler.start(Nanos(5));
            assert_eq!(sampler.due(), Nanos(5) + given);
        }
    }

    #[test]
    fn a_dense_series_wakes_a_flow_that_waits() {
        let wakes = |interval| {
            let mut sampler = Sampler::new(interval, 1);
            sampler.start(Nanos(5));
            sampler.wakes()
        };
        assert_eq!(wakes(SHORTEST), None);
        let dense = Nanos::from_millis(9);
        assert_eq!(wakes(dense), Some(Nanos(5) + dense + SPIN_WINDOW));
    }

    #[test]
    fn the_series_of_many_flows_fit_into_a_control_message() {
        // Numbers as long as those of a day at 100 Gbit/s.
        let long = 1_000_000_000_000_000;
        let view = TcpView {
            cwnd_bytes: long,
            retransmits: long,
            srtt_ns: Some(long),
            rttvar_ns: Some(long),
            min_rtt_ns: Some(long),
            in_flight_bytes: Some(long),
            phase: Some(CongestionPhase::ProbeRoundTrip),
            delivery_rate_bps: Some(long),
            pacing_rate_bps: Some(long),
            busy_ns: Some(long),
            rwnd_limited_ns: Some(long),
            sndbuf_limited_ns: Some(long),
            library_limited_ns: Some(long),
            bytes_acked: Some(long),
            notsent_bytes: Some(long),
            snd_wnd_bytes: Some(long),
            rounds: Some(long),
            congestion_events: Some(long),
            ce_delivered: Some(long),
            lost_segments: long,
            reordering_segments: Some(long),
            reorderings: Some(long),
            ..TcpView::default()
        };
        let kinds = [1, 2, 7, 100, 256].into_iter().flat_map(|flows| {
            [(flows, DEFAULT, MOST_TOGETHER), (flows, SHORTEST_DENSE, MOST_DENSE)]
        });
        for (flows, interval, most) in kinds {
            let mut sampler = Sampler::new(interval, flows);
            sampler.start(Nanos::ZERO);
            for k in 0..10_000 {
                sampler.keep(Point {
                    at_ns: long + k,
                    sent_bytes: long,
                    received_bytes: long,
                    sent_messages: long,
                    received_messages: long,
                    tcp: Some(view),
                    ..Point::default()
                });
            }
            let series = vec![sampler.series(); flows];
            let bytes = serde_json::to_vec(&series).unwrap().len();
            assert!(bytes < deadheat_base::frame::LARGEST as usize * 3 / 4, "{flows}: {bytes}");
            let points: usize = series.iter().map(|series| series.at_ns.len()).sum();
            assert!(points <= most.max(4 * flows), "{flows}: {points}");
        }
    }
}

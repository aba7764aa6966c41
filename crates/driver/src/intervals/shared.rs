//! Points of a flow that another thread takes: the flow's own thread may sleep in a call for longer than an interval. It
//! leaves its counters before each call that may sleep, and the other thread asks the kernel at each due time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;
use deadheat_contract::measurements::series::{Point, RoundTrips, Series};

use super::Sampler;

/// Points of one flow, shared by its thread and the thread that takes them.
#[derive(Debug)]
pub struct SharedPoints(Mutex<PointsSoFar>);

#[derive(Debug)]
struct PointsSoFar {
    sampler: Sampler,
    /// Counters that the flow's thread left last, with all events since the last point.
    left: Point,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Ended,
}

/// Time of the next point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPoint {
    /// The flow has not started; its first point is due this long after its start.
    After(Nanos),
    /// Due at this time.
    At(Nanos),
    /// The flow has ended, so none follows.
    Never,
}

impl SharedPoints {
    pub(super) fn new(sampler: Sampler) -> Arc<SharedPoints> {
        let (left, stage) = (Point::default(), Stage::Waiting);
        Arc::new(SharedPoints(Mutex::new(PointsSoFar { sampler, left, stage })))
    }

    /// Returns the time of the next point.
    pub fn next(&self) -> NextPoint {
        let so_far = self.lock();
        match so_far.stage {
            Stage::Waiting => NextPoint::After(so_far.sampler.interval),
            Stage::Running => NextPoint::At(so_far.sampler.due()),
            Stage::Ended => NextPoint::Never,
        }
    }

    /// Takes a point of a running flow, with the kernel's view at the time `now` and the counters that the flow's thread
    /// left before. Returns the point; `None` once the flow has ended.
    pub fn take(&self, now: Nanos, view: TcpView) -> Option<Point> {
        let mut so_far = self.lock();
        if so_far.stage != Stage::Running {
            return None;
        }
        let at_ns = so_far.sampler.since_start(now).0;
        let point = Point { at_ns, tcp: Some(view), ..so_far.left };
        let none = RoundTrips::default();
        so_far.left = Point { rtt: none, delay: none, missing: None, ..so_far.left };
        so_far.sampler.keep(point);
        Some(point)
    }

    pub(super) fn start(&self, now: Nanos) {
        let mut so_far = self.lock();
        so_far.sampler.start(now);
        so_far.stage = Stage::Running;
    }

    /// Leaves the flow's counters, with the events since they were last left.
    pub(super) fn leave(&self, point: Point) {
        let mut so_far = self.lock();
        so_far.left = point.after(&so_far.left);
    }

    pub(super) fn finish(&self, point: Point) {
        let mut so_far = self.lock();
        let last = point.after(&so_far.left);
        so_far.sampler.finish(last);
        so_far.stage = Stage::Ended;
    }

    pub(super) fn series(&self) -> Series {
        self.lock().sampler.series()
    }

    /// Locks the points, for less than a microsecond save where neighbours are merged.
    fn lock(&self) -> MutexGuard<'_, PointsSoFar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sent(at_ns: u64, sent_bytes: u64) -> Point {
        let mut point = Point { at_ns, sent_bytes, ..Point::default() };
        point.rtt.add(at_ns);
        point
    }

    #[test]
    fn a_point_has_the_view_of_its_time_and_the_counters_and_events_that_were_left_before() {
        let mut flow = Sampler::new(Nanos(MS), 1);
        let points = flow.hand_over();
        assert_eq!(points.next(), NextPoint::After(Nanos(MS)));
        flow.start(Nanos(5));
        assert_eq!(points.next(), NextPoint::At(Nanos(5 + MS)));
        assert_eq!(
            (flow.due(), flow.wakes()),
            (Nanos::ZERO, None),
            "it leaves counters at each turn"
        );
        flow.keep(sent(10, 100));
        flow.keep(sent(20, 200));
        let view = |cwnd_bytes| TcpView { cwnd_bytes, ..TcpView::default() };
        let first = points.take(Nanos(5 + MS), view(7)).unwrap();
        assert_eq!((first.at_ns, first.sent_bytes, first.rtt.n), (MS, 200, 2));
        // The flow's thread sleeps in a call; the points at 2 and 3 ms were not taken.
        points.take(Nanos(5 + 4 * MS), view(9)).unwrap();
        flow.finish(Point { tcp: Some(view(8)), ..sent(5 * MS, 300) });
        assert_eq!(
            (points.next(), points.take(Nanos(5 + 6 * MS), view(1))),
            (NextPoint::Never, None)
        );
        let series = flow.series();
        assert_eq!(series.at_ns, [MS, 4 * MS, 5 * MS]);
        assert_eq!((series.sent_bytes, series.missed_points), (vec![200, 200, 300], 2));
        assert_eq!(
            (series.rtt_n, series.tcp.unwrap().cwnd_bytes),
            (vec![2, 0, 1], [7, 9, 8].map(Some).to_vec())
        );
    }
}

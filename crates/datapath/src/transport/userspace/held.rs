//! Time in which a protocol had data under way, and in which a limit of its library held it back.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;

/// Reason why a sender waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendLimit {
    /// It does not wait: everything written is acknowledged.
    Nothing,
    /// The path, or congestion control: data is under way.
    Path,
    /// The library: more was written than it allows on the path, whatever the path could carry.
    Library,
}

/// Sums of these times over a connection.
#[derive(Debug)]
pub struct LimitTimes {
    waits: SendLimit,
    since: Nanos,
    busy: Nanos,
    by_library: Nanos,
    /// Shortest smoothed round trip, in nanoseconds.
    least_rtt_ns: u64,
}

/// Time beyond one and a half of the shortest round trip at which a standing queue is assumed: ENet counts
/// milliseconds.
const SLACK_NS: u64 = 1_000_000;

impl Default for LimitTimes {
    fn default() -> LimitTimes {
        LimitTimes {
            waits: SendLimit::Nothing,
            since: Nanos::ZERO,
            busy: Nanos::ZERO,
            by_library: Nanos::ZERO,
            least_rtt_ns: u64::MAX,
        }
    }
}

impl LimitTimes {
    /// Notes the reason why the sender waits from `now` on, with its smoothed round-trip time. If that shows a
    /// standing queue, the path is full, and the library's limit is not what holds the sender back.
    pub fn note(&mut self, now: Nanos, waits: SendLimit, srtt_ns: Option<u64>) {
        let passed = now - self.since;
        match self.waits {
            SendLimit::Nothing => {}
            SendLimit::Path => self.busy += passed,
            SendLimit::Library => {
                self.busy += passed;
                self.by_library += passed;
            }
        }
        let rtt_ns = srtt_ns.unwrap_or(u64::MAX);
        self.least_rtt_ns = self.least_rtt_ns.min(rtt_ns);
        let least = self.least_rtt_ns;
        let stands = rtt_ns > (least.saturating_add(least / 2)).saturating_add(SLACK_NS);
        self.waits = if waits == SendLimit::Library && stands { SendLimit::Path } else { waits };
        self.since = now;
    }

    /// Returns a view with these times, and the shortest round trip.
    pub fn add_to(&self, view: TcpView) -> TcpView {
        TcpView {
            busy_ns: Some(self.busy.0),
            library_limited_ns: Some(self.by_library.0),
            min_rtt_ns: view
                .min_rtt_ns
                .or(Some(self.least_rtt_ns).filter(|least| *least < u64::MAX)),
            ..view
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn the_library_s_time_is_part_of_the_busy_one_and_a_standing_queue_s_is_not() {
        let mut held = LimitTimes::default();
        let rtt = |ms: u64| Some(MS(ms).0);
        held.note(MS(1_000), SendLimit::Path, rtt(50));
        held.note(MS(1_010), SendLimit::Library, rtt(60));
        held.note(MS(1_110), SendLimit::Nothing, rtt(50));
        held.note(MS(9_000), SendLimit::Library, rtt(80));
        held.note(MS(9_001), SendLimit::Nothing, rtt(80));
        let view = held.add_to(TcpView::default());
        assert_eq!(view.busy_ns, Some(MS(111).0));
        assert_eq!(view.library_limited_ns, Some(MS(100).0));
        assert_eq!(view.min_rtt_ns, Some(MS(50).0));
    }
}

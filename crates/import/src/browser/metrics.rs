//! Metrics of the works of a page.

use super::super::rates::{GOODPUT, metric, rate};
use super::super::samples::loss_metric;
use super::{BrowserWork, figures};
use deadheat_contract::measurements::name::{RTT_MEAN, RTT_P50};
use deadheat_contract::measurements::{ClockNeed, Metric, Role, Unit};

impl BrowserWork {
    /// Returns the metrics: claims first, the figures of the page itself last.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let own = |name: &str, label: &str, role| metric(name, label, Unit::Nanos, role);
        let of_both = |name: &str, label: &str, role| Metric {
            clock: ClockNeed::Offset,
            ..own(name, label, role)
        };
        let (claim, other) = (Role::Claim, Role::Descriptive);
        let mut metrics = match self {
            BrowserWork::Connect { .. } => vec![own("connect_p50_ns", "connect p50", claim)],
            BrowserWork::Ping { .. } => vec![
                own(RTT_P50, "RTT p50", claim),
                own(RTT_MEAN, "RTT mean", other),
                own("rtt_p90_ns", "RTT p90", other),
                own("rtt_p99_ns", "RTT p99", other),
                loss_metric(),
            ],
            BrowserWork::State { .. } => vec![
                of_both("age_mean_ns", "mean age", claim),
                of_both("age_max_ns", "greatest age", other),
                loss_metric(),
            ],
            BrowserWork::Events { .. } => vec![
                of_both("delivery_mean_ns", "mean delivery", claim),
                of_both("delivery_p50_ns", "delivery p50", other),
                of_both("delivery_p90_ns", "delivery p90", other),
                of_both("delivery_max_ns", "slowest delivery", other),
            ],
            BrowserWork::Down { .. } | BrowserWork::Up { .. } => {
                vec![rate(GOODPUT, claim)]
            }
        };
        metrics.extend([
            own(figures::PAGE_LAG, "page busy, at most", other),
            own(figures::TIMER_LATE, "timers late, at most", other),
        ]);
        metrics
    }
}

//! Figures of a trial, and the gate that decides whether it counts.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Distribution, Percentile, Quantile, name};

use super::figures::rtt as name_of;
use super::{PingLoop, PingTask};
use deadheat_contract::workload::{EndpointReport, MOST_LATE, Measurements};

/// Largest effect of lateness on the claimed figure in a valid trial, as a ratio: a fifth of the figure is then due to
/// the generator. On a host that wakes late, all contenders of a race are late alike, so a smaller effect does not
/// invalidate a trial; if one contender is later than another, the interval is wider.
const MOST_LATE_EFFECT: f64 = 1.25;

impl PingTask {
    /// Returns the lateness from which a send counts as late: the longer of the interval, because messages then
    /// coincide with the next ones, and the round trip of the path, beside which less does not matter.
    pub(super) fn late_from(&self, transit: Nanos) -> Nanos {
        match self.pace {
            PingLoop::Open { interval } => interval.max(Nanos(transit.0.saturating_mul(2))),
            PingLoop::Closed { .. } => Nanos(u64::MAX),
        }
    }

    /// Returns the reason why the trial fails its gate, if the questions were not sent in time. The gate favours no
    /// contender: lateness is part of the round trip, which runs from the intended time, and its effect on the figure
    /// is known. Only a trial that consists mostly of the generator's lateness is invalid.
    pub(super) fn why_invalid(&self, near: &EndpointReport) -> Option<String> {
        if let Some(effect) = near.late_effect.filter(|effect| effect.exp() > MOST_LATE_EFFECT) {
            return Some(format!(
                "the generator was late: without it {} would be {:.0} % less ({:.0} % allowed)",
                self.claim().name(),
                100.0 * (1.0 - (-effect).exp()),
                100.0 * (1.0 - 1.0 / MOST_LATE_EFFECT)
            ));
        }
        let late = near.late_send_share.filter(|share| *share > MOST_LATE)?;
        Some(format!(
            "the generator was late: {:.0} % of messages left more than an interval after their time ({:.0} % \
             allowed)",
            late * 100.0,
            MOST_LATE * 100.0
        ))
    }
}

pub(super) fn put_percentiles(findings: &mut Measurements, rtt: &Distribution) {
    let percentiles = [rtt.p50, rtt.p90, rtt.p99, rtt.p999];
    for (percentile, value) in Percentile::ALL.into_iter().zip(percentiles) {
        let Some(value) = value else { continue };
        let metric = name_of(percentile);
        findings.metrics.insert(metric.clone(), value.at_least_ns() as f64);
        if matches!(value, Quantile::Beyond(_)) {
            findings.censored.push(metric);
        }
    }
    if let (Some(Quantile::Ns(p99)), Some(min)) = (rtt.p99, rtt.min) {
        findings.metrics.insert("rtt_pdv_p99_ns".into(), p99.saturating_sub(min) as f64);
    }
    if rtt.n > 0 {
        findings.metrics.insert(name::LOST.into(), rtt.censored as f64 / rtt.n as f64);
    }
}

//! Load of a trial: bulk data of a contender over the same path, from before the work begins until the work is over.

use crate::contract::Direction;
use crate::measurements::name;
use crate::measurements::series::{Series, TcpColumns};
use crate::transport::Contender;
use crate::trial::explain::Pass;
use crate::trial::{Order, Record};
use crate::workload::{EndpointReport, Task, load};

use super::both_reports::BothReports;

/// Reason why a trial fails if the work ended before the load's stint began.
pub(in crate::trial) const OVER_TOO_SOON: &str =
    "the work was over before the load beside it; give it more time after load-from and load-for";

/// Returns the order of the load in the trial of `work`; `None` if it has none.
pub(in crate::trial) fn order(work: &Order) -> Option<Order> {
    let pairing = work.pairing.load.as_deref()?.clone();
    Some(Order { pairing, samples: None, pass: Pass::Figures, ..work.clone() })
}

/// Adds the load's figures to the record of the work, and its series over time.
pub(in crate::trial) fn conclude(
    contender: &Contender,
    task: &dyn Task,
    reports: &BothReports,
    record: &mut Record,
) {
    let findings = task.conclude(&reports.of(&contender.transport.info().guarantees));
    if let Some(bps) = findings.metrics.get(name::GOODPUT) {
        record.metrics.insert(load::GOODPUT.to_owned(), *bps);
    }
    load::add_shares(&flow_rates(task, reports), &mut record.metrics);
    record.load_intervals = course(reports);
}

/// Returns the series of a load, for each end that received data or retransmitted some.
fn course(reports: &BothReports) -> Vec<Series> {
    let ends = [Some(&reports.near), reports.far.as_ref()];
    let all = ends.into_iter().flatten().flat_map(|end| &end.series);
    let all_series = all.map(|series| {
        let again = series.tcp.as_ref().map(|tcp| tcp.retransmits.clone()).unwrap_or_default();
        let tcp = TcpColumns { retransmits: again, ..TcpColumns::default() };
        Series { tcp: (tcp != TcpColumns::default()).then_some(tcp), ..series.clone() }
    });
    let says =
        |series: &Series| series.received_bytes.iter().any(|n| *n > 0) || series.tcp.is_some();
    all_series.filter(says).collect()
}

/// Returns the rate of each flow of a load: bytes that arrived per nanosecond in which the flow received; empty if its
/// flows go both ways, and so share no direction of a link.
fn flow_rates(task: &dyn Task, reports: &BothReports) -> Vec<f64> {
    let flows = &task.info().flows;
    let receivers = match flows.first() {
        Some(first) if flows.iter().any(|flow| flow != first) => return Vec::new(),
        Some(Some(Direction::Down)) => Some(&reports.near),
        _ => reports.far.as_ref(),
    };
    let halves = receivers.map_or(&[][..], |end| &end.halves);
    let rate = |half: &EndpointReport| {
        let span = half.receive_span?;
        let before = span.first_bytes.saturating_add(span.warmup_bytes);
        let ns = span.last_ns.saturating_sub(span.first_ns).max(1);
        Some(half.received.bytes.saturating_sub(before) as f64 / ns as f64)
    };
    halves.iter().map(|half| rate(half).unwrap_or(0.0)).collect()
}

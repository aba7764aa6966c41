//! Load of a trial: bulk data of a contender over the same path, from before the work begins until the work is over.

use crate::Order;
use crate::explain::Pass;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::name;
use deadheat_contract::measurements::series::{Series, TcpColumns, goodput_between};
use deadheat_contract::workload::{EndpointReport, Task, load};
use deadheat_datapath::transport::Contender;
use deadheat_records::trial::Record;

use super::both_reports::BothReports;

/// Reason why a trial fails if the work ended before the load's stint began.
pub(crate) const OVER_TOO_SOON: &str =
    "the work was over before the load beside it; give it more time after load-from and load-for";

/// Returns the order of the load in the trial of `work`; `None` if it has none.
pub(crate) fn order(work: &Order) -> Option<Order> {
    let pairing = work.pairing.load.as_deref()?.clone();
    Some(Order { pairing, samples: None, pass: Pass::Figures, ..work.clone() })
}

/// Adds the load's figures to the record of the work, and its series over time. `beside` is the time of the work beside
/// it, counted from the load's start; absent for a load with a stint, or in virtual time.
///
/// Over the time of the work, goodput is that of the connection. From the first arrival to the last it could be that of
/// one burst, whose packets follow each other at the rate of the link.
pub(crate) fn conclude(
    contender: &Contender,
    task: &dyn Task,
    reports: &BothReports,
    beside: Option<(Nanos, Nanos)>,
    record: &mut Record,
) {
    let findings = task.conclude(&reports.of(&contender.transport.info().guarantees));
    let far = reports.far.iter().flat_map(|far| &far.series);
    let all = reports.near.series.iter().chain(far);
    let beside = beside.and_then(|(from, to)| goodput_between(all, (from.0, to.0)));
    if let Some(bps) = beside.or(findings.metrics.get(name::GOODPUT).copied()) {
        record.metrics.insert(load::GOODPUT.to_owned(), bps);
    }
    load::add_shares(&flow_rates(task, reports), &mut record.metrics);
    record.load_intervals = course(&reports.near.series);
    record.load_far_intervals =
        reports.far.as_ref().map(|far| course(&far.series)).unwrap_or_default();
}

/// Returns the series of one end of a load, by flow: bytes sent and received, and of a sender the state of its
/// connection by which it shares a path. Empty if the end received nothing and has no such state.
fn course(series: &[Series]) -> Vec<Series> {
    let bare = |series: &Series| {
        let tcp = series.tcp.clone().map(|tcp| TcpColumns {
            cwnd_bytes: tcp.cwnd_bytes,
            srtt_ns: tcp.srtt_ns,
            retransmits: tcp.retransmits,
            delivery_rate_bps: tcp.delivery_rate_bps,
            congestion_events: tcp.congestion_events,
            ce_delivered: tcp.ce_delivered,
            ..TcpColumns::default()
        });
        let tcp = tcp.filter(|tcp| *tcp != TcpColumns::default());
        Series { tcp, ..series.clone() }
    };
    let says =
        |series: &Series| series.received_bytes.iter().any(|n| *n > 0) || series.tcp.is_some();
    let all: Vec<Series> = series.iter().map(bare).collect();
    if all.iter().any(says) { all } else { Vec::new() }
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

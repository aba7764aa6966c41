//! Load of a trial: bulk data of a contender over the same path, from before the work begins until the work is over.

use crate::Order;
use crate::explain::Pass;
use deadheat_base::rng::first;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::series::{Series, TcpColumns, goodput_between};
use deadheat_contract::measurements::{Metrics, name};
use deadheat_contract::workload::load::Observed;
use deadheat_contract::workload::{EndpointReport, Task, TaskInfo, load};
use deadheat_datapath::transport::Contender;
use deadheat_records::trial::Record;

use super::both_reports::BothReports;

/// Reason why a trial fails if the work ended before the load's stint began.
pub(crate) const OVER_TOO_SOON: &str =
    "the work was over before the load beside it; give it more time after load-from and load-for";

/// Returns the order of the load in the trial of `work`; `None` if it has none. It draws by a seed of its own: with that of
/// the work, a load by the same contender would draw the same numbers.
pub(crate) fn order(work: &Order) -> Option<Order> {
    let pairing = work.pairing.load.as_deref()?.clone();
    let seed = first(work.seed);
    Some(Order { pairing, seed, samples: None, pass: Pass::Figures, ..work.clone() })
}

/// Time of the work beside a load that begins before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeBeside {
    /// Start of the work, after the load's.
    pub(crate) from: Nanos,
    /// Its end, after the load's start; absent in virtual time.
    pub(crate) to: Option<Nanos>,
}

/// Adds the load's figures to the record of `work`, and its series over time. `beside` is absent for a load with a
/// stint.
///
/// Over the time of the work, goodput is that of the connection. From the first arrival to the last it could be that of
/// one burst, whose packets follow each other at the rate of the link.
pub(crate) fn conclude(
    contender: &Contender,
    (work, task): (&dyn Task, &dyn Task),
    reports: &BothReports,
    beside: Option<TimeBeside>,
    record: &mut Record,
) {
    let findings = task.conclude(&reports.of(&contender.transport.info().guarantees));
    let far = reports.far.as_ref().map_or(&[][..], |far| &far.series);
    let all = reports.near.series.iter().chain(far);
    let whole = beside.and_then(|time| goodput_between(all, (time.from.0, time.to?.0)));
    if let Some(bps) = whole.or(findings.metrics.get(name::GOODPUT).copied()) {
        record.metrics.insert(load::GOODPUT.to_owned(), bps);
    }
    let is_shared = shares_direction(work, task);
    if let Some(time) = beside.filter(|_| is_shared) {
        let both =
            [by_flow(&record.intervals, &record.far_intervals), by_flow(&reports.near.series, far)];
        record.flow_shares = add_flow_shares(work.info(), both, time.from, &mut record.metrics);
    } else {
        load::add_shares(&flow_rates(task, reports), &mut record.metrics);
    }
    record.load_intervals = course(&reports.near.series);
    record.load_far_intervals =
        reports.far.as_ref().map(|far| course(&far.series)).unwrap_or_default();
}

/// Returns true if all flows of work and load send bulk data in one direction, so that they share its bottleneck.
fn shares_direction(work: &dyn Task, load: &dyn Task) -> bool {
    let Some(Observed::Bytes(direction)) = work.info().observed else { return false };
    load.info().flows.iter().all(|flow| *flow == Some(direction))
}

/// Returns the series of both ends of each flow.
fn by_flow<'a>(near: &'a [Series], far: &'a [Series]) -> Vec<Vec<&'a Series>> {
    let both = |flow| near.get(flow).into_iter().chain(far.get(flow)).collect();
    (0..near.len().max(far.len())).map(both).collect()
}

/// Adds the figures of how the flows of work and load share the bottleneck, both from the end of the work's warm-up to
/// its end. The load began `ahead` of the work. Returns the share of each flow.
fn add_flow_shares(
    work: &TaskInfo,
    [own, beside]: [Vec<Vec<&Series>>; 2],
    ahead: Nanos,
    metrics: &mut Metrics,
) -> Vec<f64> {
    let last = |flow: &Vec<&Series>| flow.iter().filter_map(|end| end.at_ns.last()).max().copied();
    let planned = work.planned.map_or(u64::MAX, |planned| planned.0);
    let end = own.iter().filter_map(last).min().unwrap_or(0).min(planned);
    let rates = |flows: &[Vec<&Series>], (from, to): (u64, u64)| -> Option<Vec<f64>> {
        flows.iter().map(|flow| goodput_between(flow.iter().copied(), (from, to))).collect()
    };
    let both = |from: u64, to: u64| {
        let later = (from.saturating_add(ahead.0), to.saturating_add(ahead.0));
        rates(&own, (from, to)).zip(rates(&beside, later))
    };
    let Some((of_work, of_load)) = both(work.warmup.0, end) else {
        return Vec::new();
    };
    metrics.insert(load::GOODPUT.to_owned(), of_load.iter().sum());
    let by_flow = load::add_flows(&of_work, &of_load, metrics);
    let part = end / load::PARTS as u64;
    let shares = (0..load::PARTS as u64).map(|at| {
        let (work, load) = both(at * part, (at + 1) * part)?;
        let (work, load) = (work.iter().sum::<f64>(), load.iter().sum::<f64>());
        Some(work / (work + load)).filter(|share| share.is_finite())
    });
    let shares: Option<Vec<f64>> = shares.collect();
    if let Some(parts) = shares.as_deref().and_then(load::stay_after) {
        metrics.insert(load::STAY.to_owned(), (part * parts as u64) as f64);
    }
    by_flow
}

/// Returns the series of one end of a load, by flow: bytes sent and received, and of a sender the state of its
/// connection by which it shares a path, or by which a window holds it. Empty if the end received nothing and has no
/// such state.
fn course(series: &[Series]) -> Vec<Series> {
    let bare = |series: &Series| {
        let tcp = series.tcp.clone().map(|tcp| TcpColumns {
            cwnd_bytes: tcp.cwnd_bytes,
            srtt_ns: tcp.srtt_ns,
            retransmits: tcp.retransmits,
            delivery_rate_bps: tcp.delivery_rate_bps,
            congestion_events: tcp.congestion_events,
            ce_delivered: tcp.ce_delivered,
            busy_ns: tcp.busy_ns,
            rwnd_limited_ns: tcp.rwnd_limited_ns,
            sndbuf_limited_ns: tcp.sndbuf_limited_ns,
            library_limited_ns: tcp.library_limited_ns,
            snd_wnd_bytes: tcp.snd_wnd_bytes,
            min_rtt_ns: tcp.min_rtt_ns,
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

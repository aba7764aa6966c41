//! Metrics of a ping, its ledger, and figures of each way by itself.

use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::{
    Account, Better, ClockNeed, ConnStats, Ledger, Metric, MetricName, Percentile, Role, Suffix,
    Unit, name,
};
use deadheat_contract::workload::header::account;
use deadheat_contract::workload::{Clocks, EndpointReport, Measurements, Reports};

use super::PingTask;

/// Median of the round trips without the time that the far end took.
const ON_PATH: &str = "path_rtt_p50_ns";

/// Returns the name of a percentile of round trips.
pub(super) fn rtt(percentile: Percentile) -> String {
    MetricName::new("rtt", Suffix::Nanos).at(percentile).to_string()
}

/// Returns the name of the median delay one way, in nanoseconds.
fn one_way(direction: Direction) -> String {
    format!("one_way_{direction}_p50_ns")
}

impl PingTask {
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let descriptive = |name: &str, label: &str, unit| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit,
            better: Better::Lower,
            role: Role::Descriptive,
            clock: ClockNeed::None,
        };
        let percentile = |percentile: Percentile| Metric {
            role: if percentile == self.claim() { Role::Claim } else { Role::Descriptive },
            ..descriptive(&rtt(percentile), &format!("RTT {}", percentile.label()), Unit::Nanos)
        };
        let mut metrics: Vec<Metric> = Percentile::ALL.into_iter().map(percentile).collect();
        metrics.push(descriptive("rtt_pdv_p99_ns", "RTT PDV p99", Unit::Nanos));
        metrics.push(descriptive("rtt_jitter_rfc3550_ns", "RTT jitter (RFC 3550)", Unit::Nanos));
        metrics.push(descriptive(name::LOST, "lost", Unit::Share));
        metrics.push(descriptive(ON_PATH, "RTT p50 without the far end", Unit::Nanos));
        let way = |way| Metric {
            clock: ClockNeed::Offset,
            ..descriptive(&one_way(way), &format!("one-way {way} p50"), Unit::Nanos)
        };
        metrics.extend([Direction::Up, Direction::Down].map(way));
        metrics.sort_by_key(|metric| metric.role != Role::Claim);
        metrics
    }
}

/// Returns the ledger: by direction if the far end counted, and otherwise of the round trip.
pub(super) fn ledger(near: &EndpointReport, reports: &Reports<'_>) -> Ledger {
    let drops = |conns: &[ConnStats]| conns.first().and_then(|conn| conn.socket_drops);
    let (here, there) = (drops(reports.near_conns), drops(reports.far_conns));
    if let Some(far) = reports.far.first() {
        return Ledger {
            up: Some(account(near.sent, far.received, there)),
            down: Some(account(far.sent, near.received, here)),
            round_trip: None,
        };
    }
    let view = near.far_view.as_ref();
    let both = account(near.sent, near.received, here);
    let is_remade = view.is_some_and(|view| view.is_remade);
    // Messages that were made anew here arrive as they were sent.
    let corrupted = both.corrupted.filter(|_| !is_remade);
    let Some(split) = view.and_then(|view| view.split) else {
        return Ledger { round_trip: Some(Account { corrupted, ..both }), ..Ledger::default() };
    };
    let up = Account {
        delivered: split.arrived,
        lost_on_path: near.sent.messages.saturating_sub(split.arrived),
        duplicates: Some(split.duplicates),
        ..both.clone().without_receivers_counts()
    };
    let lost = split.arrived.saturating_sub(near.received.messages);
    let dropped = both.dropped_at_receiver.map(|dropped| dropped.min(lost));
    let down = Account {
        sent: split.arrived,
        lost_on_path: lost - dropped.unwrap_or(0),
        dropped_at_receiver: dropped,
        duplicates: Some(near.received.duplicates.saturating_sub(split.duplicates)),
        corrupted,
        ..both
    };
    Ledger { up: Some(up), down: Some(down), round_trip: None }
}

/// Adds delays one way, if the clocks are known, and the round trip on the path.
pub(super) fn put_ways(findings: &mut Measurements, near: &EndpointReport, reports: &Reports<'_>) {
    let Some(view) = &near.far_view else { return };
    let mut put = |name: String, ns: Option<f64>| ns.map(|ns| findings.metrics.insert(name, ns));
    put(ON_PATH.to_owned(), view.on_path.as_ref().and_then(|sums| sums.median_ns(0)));
    let ahead_ns = match (reports.clocks, reports.far) {
        (Clocks::Foreign { ahead_ns }, _) => ahead_ns,
        // Nobody compared the clock of what answered.
        (_, []) => return,
        // A far end of ours runs on the near clock, or behind a map to it.
        (_, [..]) => 0,
    };
    put(one_way(Direction::Up), view.up.as_ref().and_then(|sums| sums.median_ns(ahead_ns)));
    put(one_way(Direction::Down), view.down.as_ref().and_then(|sums| sums.median_ns(-ahead_ns)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::contract::Guarantees;
    use deadheat_contract::measurements::far_view::{DelaySums, FarView, LossSplit};
    use deadheat_contract::measurements::{Distribution, Quantile, Tally};

    fn near(view: FarView) -> EndpointReport {
        let sent = Tally { messages: 100, ..Tally::default() };
        let received = Tally { messages: 90, duplicates: 3, late: 2, ..Tally::default() };
        EndpointReport {
            sent,
            received,
            far_view: Some(Box::new(view)),
            ..EndpointReport::default()
        }
    }

    fn reports<'a>(
        near: &'a [EndpointReport],
        far: &'a [EndpointReport],
        clocks: Clocks,
    ) -> Reports<'a> {
        let guarantees = &Guarantees::DATAGRAMS;
        Reports { near, far, near_conns: &[], far_conns: &[], guarantees, clocks }
    }

    #[test]
    fn losses_are_split_by_the_far_ends_counts_and_what_nobody_counted_is_absent() {
        let split = LossSplit { arrived: 96, duplicates: 1 };
        let own = near(FarView { split: Some(split), is_remade: true, ..FarView::default() });
        let both = ledger(&own, &reports(&[], &[], Clocks::Apart));
        let (up, down) = (both.up.unwrap(), both.down.unwrap());
        assert!(up.closes() && down.closes() && both.round_trip.is_none());
        assert_eq!((up.lost(), down.sent, down.lost()), (4, 96, 6));
        assert_eq!((up.duplicates, down.duplicates), (Some(1), Some(2)));
        assert_eq!((up.late, up.reordered, up.corrupted), (None, None, None));
        assert_eq!((down.late, down.corrupted), (Some(2), None));
        let unknown = near(FarView { is_remade: true, ..FarView::default() });
        let both = ledger(&unknown, &reports(&[], &[], Clocks::Apart));
        let round_trip = both.round_trip.unwrap();
        assert_eq!((round_trip.lost(), round_trip.corrupted, both.up), (10, None, None));
        // Content that came back as it was sent was compared.
        let echoed = ledger(&near(FarView::default()), &reports(&[], &[], Clocks::Apart));
        assert_eq!(echoed.round_trip.unwrap().corrupted, Some(0));
    }

    #[test]
    fn delays_one_way_need_a_clock_that_was_compared() {
        let sums = |least_ns| {
            let above = Distribution { p50: Some(Quantile::Ns(500)), ..Distribution::default() };
            Some(DelaySums { least_ns, above })
        };
        let (up, down, on_path) = (sums(1_000_007_000), sums(-999_998_000), sums(9_000));
        let own = [near(FarView { up, down, on_path, ..FarView::default() })];
        let found = |far: &[EndpointReport], clocks| {
            let mut findings = Measurements::default();
            put_ways(&mut findings, &own[0], &reports(&own, far, clocks));
            let of = |name: String| findings.metrics.get(&name).copied();
            [of(ON_PATH.into()), of(one_way(Direction::Up)), of(one_way(Direction::Down))]
        };
        let known = found(&[], Clocks::Foreign { ahead_ns: 1_000_000_000 });
        assert_eq!(known, [Some(9_500.0), Some(7_500.0), Some(2_500.0)]);
        assert_eq!(found(&[], Clocks::Apart), [Some(9_500.0), None, None]);
        let ours = found(&[EndpointReport::default()], Clocks::Apart);
        assert_eq!(ours[2], Some(0.0), "no time is negative");
    }
}

//! Record of a trial, made of the reports of both ends.

use crate::control::AgentReport;
use deadheat_contract::contract::{Delivery, Framing, Guarantees, PeerFacts};
use deadheat_contract::measurements::{
    Account, ConnStats, Cost, Ledger, Marks, Outage, Packets, Throttled, Wire, total,
};
use deadheat_contract::workload::{Content, EndpointReport, Reports, Task};
use deadheat_datapath::transport::commands::FigureSource;
use deadheat_datapath::transport::{Contender, Info};
use deadheat_records::trial::Record;

use super::both_reports::BothReports;

/// Combines both ends' reports into a record.
pub(crate) fn conclude(
    contender: &Contender,
    task: &dyn Task,
    reports: &BothReports,
) -> (Record, Option<Content>) {
    let (near, far) = (&reports.near, reports.far.as_ref());
    let info = contender.transport.info();
    let promised = contender.promised();
    let both = reports.of(&promised);
    let findings = match with_cpu_time(contender, task, reports) {
        Some(halves) => task.conclude(&Reports { near: &halves, ..both }),
        None => task.conclude(&both),
    };
    let open = findings.ledger.accounts().find(|(_, account)| !account.closes());
    let why_open = open.map(|(way, account)| {
        let why = account.open_because.clone().unwrap_or_else(|| "the sums differ".into());
        format!("the {way} ledger does not close: {why}")
    });
    let held = held_back(near, far);
    let why_invalid = findings.why_invalid.or(why_open).map(|why| why + &held);
    let doubt = reports.doubt.as_ref().map(|what| format!("the far end's report {what}"));
    let why_invalid = doubt.or(why_invalid);
    let conns: Vec<&ConnStats> =
        near.conns.iter().chain(far.iter().flat_map(|far| &far.conns)).collect();
    let retransmits = conns.iter().filter_map(|conn| conn.retransmits).reduce(u64::saturating_add);
    let marks = conns.iter().filter_map(|conn| conn.marks).reduce(Marks::plus);
    let recovered = conns.iter().filter_map(|conn| conn.recovered).reduce(u64::saturating_add);
    let record = Record {
        valid: why_invalid.is_none(),
        why_invalid,
        metrics: findings.metrics,
        censored: findings.censored,
        rtt_ns: findings.rtt_ns,
        send_lateness_ns: findings.send_lateness_ns,
        late_effect: findings.late_effect,
        segments: findings.segments,
        warmup: findings.warmup,
        paced: findings.paced,
        clock: findings.clock,
        ledger: as_counted(findings.ledger, info.peer),
        cost: near.cost.plus(&reports.carriers[0]),
        far_cost: far
            .map(|far| far.cost.plus(&reports.carriers[1]))
            .filter(|cost| *cost != Cost::default()),
        effective: near.effective.clone(),
        far_effective: far.map(|far| far.effective.clone()).unwrap_or_default(),
        effective_by_flow: near.effective_by_flow.clone(),
        far_effective_by_flow: far.map(|far| far.effective_by_flow.clone()).unwrap_or_default(),
        connect_ns: near.conns.iter().map(|conn| conn.connect_ns).max().unwrap_or(0),
        retransmits,
        fallback: near.conns.iter().find_map(|conn| conn.fallback),
        recovered,
        marks,
        wire: wire(near, far).filter(|_| contender.external.is_none()),
        network_errors: total(conns.iter().map(|conn| conn.network_errors)),
        delivered_bytes: Some(delivered_bytes(near, far)),
        // The commands decide how messages become packets, so nothing is known about it.
        packets: packets(info, task.info().largest_message as u64, &near.conns)
            .filter(|_| contender.external.is_none()),
        counters: near.counters,
        far_counters: far.and_then(|far| far.counters),
        throttled: near.throttled,
        far_throttled: far.and_then(|far| far.throttled),
        outages: outages(near, far),
        intervals: near.series.clone(),
        far_intervals: far.map(|far| far.series.clone()).unwrap_or_default(),
        steal_share: near.steal_share,
        load: near.load,
        command: near.command.clone(),
        far_command: far.and_then(|far| far.command.clone()),
        ..Record::default()
    };
    (record, findings.content)
}

/// Returns the halves of the client command with the CPU time of both commands among its figures, if the work asks for it.
fn with_cpu_time(
    contender: &Contender,
    task: &dyn Task,
    reports: &BothReports,
) -> Option<Vec<EndpointReport>> {
    let pair = &contender.commands.as_ref()?.pair;
    let used = reports.near.cost.plus(&reports.far.as_ref()?.cost).cpu_ns as f64;
    let own = pair.figures.iter().filter(|figure| figure.source == FigureSource::Cpu);
    let names = own.map(|figure| figure.figure.metric_name());
    let mut asked =
        names.filter(|name| task.info().metrics.iter().any(|one| one.name == *name)).peekable();
    asked.peek()?;
    let mut halves = reports.near.halves.clone();
    halves.first_mut()?.figures.extend(asked.map(|name| (name, used)));
    Some(halves)
}

/// Returns the ledger without the counts that a far end of others does not say: it counts arrivals alone.
fn as_counted(ledger: Ledger, peer: PeerFacts) -> Ledger {
    let of_messages = |account: &Account| account.unit == "messages";
    let up = match ledger.up {
        Some(up) if peer.has_session() && of_messages(&up) => Some(up.without_receivers_counts()),
        up => up,
    };
    Ledger { up, ..ledger }
}

/// Describes the effect of a CPU quota, for a trial that does not count.
fn held_back(near: &AgentReport, far: Option<&AgentReport>) -> String {
    let said = |what: &str, throttled: Option<Throttled>| {
        throttled
            .map(|throttled| format!("; a CPU quota held {what} back {throttled}"))
            .unwrap_or_default()
    };
    // On one machine both ends are in one group, and each of them reads the group's counters.
    match near.throttled {
        Some(_) => said("it", near.throttled),
        None => said("the far end", far.and_then(|far| far.throttled)),
    }
}

/// Returns the outages that either end recorded, counted from the start of its flows.
fn outages(near: &AgentReport, far: Option<&AgentReport>) -> Vec<Outage> {
    let halves = near.halves.iter().chain(far.into_iter().flat_map(|far| &far.halves));
    Outage::joined(halves.flat_map(|half| half.outages.iter().copied()).collect())
}

fn delivered_bytes(near: &AgentReport, far: Option<&AgentReport>) -> u64 {
    let halves = near.halves.iter().chain(far.into_iter().flat_map(|far| &far.halves));
    total(halves.map(|half| half.received.bytes))
}

/// Returns the packets that both ends sent: as their connections count them, or computed from their datagrams.
fn wire(near: &AgentReport, far: Option<&AgentReport>) -> Option<Wire> {
    let ends = [near, far?];
    // A far end of others does not say what it sent.
    if ends.iter().any(|end| end.conns.len() != end.halves.len()) {
        return None;
    }
    let flows = ends.into_iter().flat_map(|end| end.conns.iter().zip(&end.halves));
    let each = flows.map(|(conn, half)| {
        let sent = &half.sent;
        conn.wire.or_else(|| conn.headers?.wire(sent.messages, sent.bytes))
    });
    let each: Option<Vec<Wire>> = each.collect();
    each?.into_iter().reduce(Wire::plus)
}

/// Returns the packets that a message of `message_bytes` becomes on the path that the connections found.
fn packets(info: &Info, message_bytes: u64, conns: &[ConnStats]) -> Option<Packets> {
    let Guarantees { framing, service, .. } = &info.guarantees;
    // A transport that retransmits splits messages itself, and a lost piece does not lose the message.
    if *framing != Framing::Messages || service.delivery == Delivery::Reliable {
        return None;
    }
    conns.iter().find_map(|conn| conn.headers?.packets_of(message_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::time::Nanos;
    use deadheat_contract::contract::CountSource;
    use deadheat_contract::measurements::Tally;
    use deadheat_contract::workload::{self, Clocks};

    #[test]
    fn a_far_end_that_counts_arrivals_alone_has_no_other_counts() {
        let account = Account { unit: "messages".into(), sent: 9, ..Account::COUNTED };
        let ledger = Ledger { up: Some(account.clone()), down: Some(account), round_trip: None };
        let meter = PeerFacts { counts: CountSource::Session, ..PeerFacts::OTHERS };
        let of_others = as_counted(ledger.clone(), meter);
        assert_eq!(of_others.down, ledger.down, "they arrived here");
        let up = of_others.up.unwrap();
        let counts = [up.dropped_at_receiver, up.duplicates, up.late, up.reordered, up.corrupted];
        assert_eq!((up.sent, counts), (9, [None; 5]));
        assert_eq!(as_counted(ledger.clone(), PeerFacts::ECHO), ledger);
        let bytes = Account { unit: "bytes".into(), ..Account::COUNTED };
        let stream = Ledger { up: Some(bytes), ..Ledger::default() };
        assert_eq!(as_counted(stream.clone(), meter), stream, "TCP loses none");
    }

    #[test]
    fn counts_that_a_peer_made_up_are_bounded_and_end_nothing() {
        let all = Tally {
            messages: u64::MAX,
            bytes: u64::MAX,
            duplicates: u64::MAX,
            late: u64::MAX,
            reordered: u64::MAX,
            corrupted: u64::MAX,
            foreign: u64::MAX,
        };
        let half = || EndpointReport { sent: all, received: all, ..EndpointReport::default() };
        let conn = || ConnStats {
            retransmits: Some(u64::MAX),
            network_errors: u64::MAX,
            socket_drops: Some(u64::MAX),
            ..ConnStats::default()
        };
        let report = || AgentReport {
            halves: vec![half(), half()],
            conns: vec![conn(), conn()],
            ..AgentReport::default()
        };
        let reports = BothReports {
            near: report(),
            far: Some(report()),
            took: Nanos::from_secs(1),
            clocks: Clocks::Shared,
            doubt: None,
            carriers: Default::default(),
        };
        let contender = Contender::parse("tcp").unwrap();
        for typed in ["bulk:time=1s,streams=2", "ping"] {
            let task = workload::parse(typed).unwrap();
            let (record, _) = conclude(&contender, &*task, &reports);
            assert_eq!(record.retransmits, Some(u64::MAX), "{typed}");
            assert_eq!(record.network_errors, u64::MAX, "{typed}");
            assert_eq!(record.delivered_bytes, Some(u64::MAX), "{typed}");
        }
    }
}

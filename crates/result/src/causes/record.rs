//! Signs of a usual trial, from its record: series of both ends, CPU time, the account of an emulated path, the ledger.

use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, parse_rate};
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Effective;
use deadheat_contract::measurements::congestion::CongestionPhase;
use deadheat_contract::measurements::name::{GOODPUT, LOST, MetricName, RTT_P50};
use deadheat_contract::measurements::path::{DirectionFigures, PathFigures};
use deadheat_contract::measurements::series::{Series, TcpColumns};
use deadheat_contract::measurements::{Account, Cost, Metric, Unit, total};
use deadheat_path::PathKind;
use deadheat_path::gate::least_rtt;
use deadheat_records::placement::Placement;
use deadheat_records::trial::Record;

use super::Finding;
use super::judge::judge;
use super::signs::{EndSigns, MessageSigns, PathSigns, ProtocolSigns, Signs, WorkKind};
use crate::analysis::claims::claimed;
use crate::analysis::path_ways::network;
use crate::outcome::Outcome;

/// Part of the least round trip above it at which a queue is assumed to stand, as in the times that libraries report.
const STANDS: f64 = 0.5;
/// Time above that part: a delayed wake-up is no queue.
const SLACK_NS: f64 = 1e6;
/// Share of a window up to which it has room for more.
const ROOM: f64 = 0.8;
/// Part of a pace from which on data counts as sent at it: headers take the rest, and each step has its bursts.
const AT_PACE: f64 = 0.85;
/// Shortest time for the rate of acknowledged data.
const PACE_STEP_NS: u64 = 50_000_000;
/// Bytes of a segment, for the number of segments in some bytes.
const SEGMENT: u64 = 1_448;

/// Reader of signs, with the facts of a race that they depend on.
pub(super) struct SignReader<'a> {
    claim: &'a Metric,
    work: WorkKind,
    /// Least round trip of an emulated path.
    path_rtt_ns: Option<f64>,
    placement: Option<Placement>,
    /// True if both ends ran on one CPU.
    is_cpu_shared: bool,
}

impl<'a> SignReader<'a> {
    /// Returns the facts; `None` for a race without a claim, or for work whose causes are not known.
    pub(super) fn of(outcome: &'a Outcome) -> Option<SignReader<'a>> {
        let claim = claimed(&outcome.metrics).next()?;
        let path_rtt_ns = match &outcome.path.built {
            Some(built) => built.rtt_least_ns,
            None => network(outcome).and_then(|network| least_rtt(&network)).map(|Nanos(ns)| ns),
        };
        let placement = Placement::parse(&outcome.plan.placement).ok();
        let is_here = outcome.path.kind != PathKind::Remote;
        Some(SignReader {
            claim,
            work: work_of(claim)?,
            path_rtt_ns: path_rtt_ns.map(|ns| ns as f64),
            placement,
            is_cpu_shared: placement == Some(Placement::SameCore) && is_here,
        })
    }

    /// Returns the signs of a trial, for each direction in which it moved data.
    pub(super) fn signs(&self, record: &Record) -> Vec<Signs> {
        match self.work {
            WorkKind::Bulk if record.intervals.is_empty() && record.far_intervals.is_empty() => {
                self.of_commands(record).into_iter().collect()
            }
            // Data at a rate of its own is not held back, but missed or lost.
            WorkKind::Bulk if record.paced.is_empty() => [Direction::Up, Direction::Down]
                .into_iter()
                .filter_map(|direction| self.of_data(record, direction))
                .collect(),
            WorkKind::Bulk | WorkKind::Losses => [Direction::Up, Direction::Down]
                .into_iter()
                .filter_map(|direction| self.of_losses(record, direction))
                .collect(),
            WorkKind::Messages | WorkKind::Connections => {
                self.of_messages(record).into_iter().collect()
            }
        }
    }

    fn of_data(&self, record: &Record, direction: Direction) -> Option<Signs> {
        let ends = [&record.intervals[..], &record.far_intervals];
        let signs = of_series(ends, direction)?;
        let [senders, _] = by_role(ends, direction);
        let [options, _] = by_role([&record.effective, &record.far_effective], direction);
        let buffer = options.get("sndbuf").and_then(|bytes| bytes.parse().ok());
        let full = buffer.map_or(0.0, |bytes| in_full_buffers(senders, bytes));
        let pace_bps = options.get("pace").and_then(|rate| pace(rate));
        let costs = [Some(&record.cost), record.far_cost.as_ref()];
        let [near, far] = [0, 1].map(|end| self.cpu(costs[end], ends[end].len(), signs.span_ns));
        let [sender, receiver] = by_role([near, far], direction);
        let signs = Signs {
            sender: signs.sender.and(sender),
            receiver: signs.receiver.and(receiver),
            is_cpu_shared: self.is_cpu_shared && record.far_cost.is_some(),
            protocol: signs.protocol.map(|protocol| ProtocolSigns {
                sndbuf_limited: protocol.sndbuf_limited.max(full),
                at_pace: pace_bps.map_or(0.0, |pace| at_pace(senders, pace)),
                pace_bps,
                ..protocol
            }),
            path: record.path.as_ref().map(|path| path_signs(path, direction, signs.span_ns)),
            work: self.work,
            ..signs
        };
        Some(with_losses(record, record.ledger.toward(direction), signs))
    }

    /// Returns the signs of commands, which report no series: their CPU time, and the way on which the path carried most.
    fn of_commands(&self, record: &Record) -> Option<Signs> {
        let path = record.path.as_ref()?;
        let carried = |way: Direction| {
            total(path.links.iter().map(|link| link.toward(way).fates.arrived_bytes))
        };
        let is_up = carried(Direction::Up) >= carried(Direction::Down);
        let direction = if is_up { Direction::Up } else { Direction::Down };
        let span_ns = record.took_ns;
        let near = self.cpu(Some(&record.cost), 1, span_ns);
        let far = self.cpu(record.far_cost.as_ref(), 1, span_ns);
        let [sender, receiver] = by_role([near, far], direction);
        let signs = Signs {
            work: self.work,
            span_ns,
            direction: Some(direction),
            goodput_bps: record.metrics.get(GOODPUT).copied().unwrap_or(0.0),
            sender,
            receiver,
            is_cpu_shared: self.is_cpu_shared,
            path: Some(path_signs(path, direction, span_ns)),
            ..Signs::default()
        };
        Some(with_losses(record, None, signs))
    }

    fn of_losses(&self, record: &Record, direction: Direction) -> Option<Signs> {
        let account = record.ledger.toward(direction)?;
        let series = record.intervals.iter().chain(&record.far_intervals);
        let span_ns = series.map(|flow| last(&flow.at_ns)).max().unwrap_or(record.took_ns);
        let signs = Signs {
            work: WorkKind::Losses,
            span_ns,
            direction: Some(direction),
            path: record.path.as_ref().map(|path| path_signs(path, direction, span_ns)),
            ..Signs::default()
        };
        Some(with_losses(record, Some(account), signs))
    }

    fn of_messages(&self, record: &Record) -> Option<Signs> {
        let claimed_ns = *record.metrics.get(&self.claim.name)?;
        let rtt = record.rtt_ns.as_ref();
        let queued = record.path.as_ref().map_or(0.0, |path| {
            let ways = [Direction::Up, Direction::Down];
            let busy = ways.map(|way| path_signs(path, way, record.took_ns).busy);
            let seen: f64 = ways.map(|way| queued_ns(path, way)).iter().sum();
            // In virtual time no packet's wait is noted; behind a busy link it is the time above the way's own.
            let is_busy = seen == 0.0 && busy.iter().any(|busy| *busy >= 0.5);
            let above = self.path_rtt_ns.map_or(0.0, |least| claimed_ns - least);
            if is_busy { above } else { seen }
        });
        let sent = record.ledger.accounts().map(|(_, account)| account);
        let sent = total(sent.filter(|one| one.unit == "messages").map(|one| one.sent)).max(1);
        let messages = MessageSigns {
            claimed_ns,
            least_ns: rtt.and_then(|rtt| rtt.min).map(|ns| ns as f64),
            median_ns: record
                .metrics
                .get(RTT_P50)
                .copied()
                .or_else(|| Some(rtt?.p50?.at_least_ns() as f64)),
            path_rtt_ns: self.path_rtt_ns,
            queued_ns: queued,
            waits_for_acks: [&record.effective, &record.far_effective].into_iter().any(has_nagle),
            resent: record.retransmits.unwrap_or(0) as f64 / sent as f64,
            is_beside_load: record.load_series().next().is_some(),
            ..MessageSigns::default()
        };
        let is_time = claimed_ns.is_finite() && claimed_ns > 0.0;
        is_time.then(|| Signs {
            work: self.work,
            span_ns: record.took_ns,
            messages: Some(messages),
            ..Signs::default()
        })
    }

    /// Returns the work of an end of ours with this many flows.
    fn cpu(&self, cost: Option<&Cost>, flows: usize, span_ns: u64) -> Option<EndSigns> {
        let is_real = self.placement != Some(Placement::Virtual);
        let cost = cost.filter(|cost| cost.cpu_ns > 0 && is_real)?;
        // A pinned end has one CPU for all its flows.
        let is_pinned = self.placement.is_some_and(|placement| placement != Placement::Host);
        let threads = if is_pinned { 1 } else { flows.max(1) };
        let ran = cost.working_ns() as f64 / span_ns.max(1) as f64 / threads as f64;
        Some(EndSigns { ran: ran.min(1.0), ..EndSigns::default() })
    }
}

/// Puts a pair of the near and the far end into the order of sender and receiver.
fn by_role<T>([near, far]: [T; 2], direction: Direction) -> [T; 2] {
    match direction {
        Direction::Up => [near, far],
        Direction::Down => [far, near],
    }
}

/// Adds the messages that were lost, and the time in outages.
fn with_losses(record: &Record, account: Option<&Account>, signs: Signs) -> Signs {
    let messages = account.filter(|account| account.unit == "messages" && account.sent > 0);
    let share = |n: u64| messages.map_or(0.0, |account| n as f64 / account.sent as f64);
    let out = total(record.outages.iter().map(|one| one.length_ns));
    Signs {
        dropped: share(messages.and_then(|account| account.dropped_at_receiver).unwrap_or(0)),
        lost: share(messages.map_or(0, |account| account.lost_on_path)),
        out: (out as f64 / signs.span_ns.max(1) as f64).min(1.0),
        ..signs
    }
}

/// Returns true if an end's small messages may wait for acknowledgements: a stream of the kernel with `nodelay` off. KCP,
/// which has an interval, calls something else by that name.
fn has_nagle(end: &Effective) -> bool {
    end.get("nodelay").is_some_and(|value| value == "off") && !end.contains_key("interval")
}

/// Returns the causes that hold back the load beside the work of a trial, the largest first. The CPU time of a trial is
/// that of both, so that no CPU is among them.
pub fn of_load(record: &Record) -> Vec<Finding> {
    let ends = [&record.load_intervals[..], &record.load_far_intervals];
    let both = [Direction::Up, Direction::Down];
    let signs = both.into_iter().filter_map(|direction| {
        let signs = of_series(ends, direction)?;
        let path = record.path.as_ref().map(|path| path_signs(path, direction, signs.span_ns));
        Some(Signs { path, ..signs })
    });
    signs.flat_map(|signs| judge(&signs)).collect()
}

/// Returns the signs in the series of the near and the far end; `None` if no data went in this direction. An end with
/// series is ours, and its CPU time is not known from them.
fn of_series(ends: [&[Series]; 2], direction: Direction) -> Option<Signs> {
    let [sending, receiving] = by_role(ends, direction);
    let senders: Vec<&Series> = sending.iter().filter(|flow| last(&flow.sent_bytes) > 0).collect();
    let receivers: Vec<&Series> =
        receiving.iter().filter(|flow| last(&flow.received_bytes) > 0).collect();
    let all = || senders.iter().chain(&receivers);
    let span_ns = all().map(|flow| last(&flow.at_ns)).max().filter(|span| *span > 0)?;
    let sent = total(senders.iter().map(|flow| last(&flow.sent_bytes)));
    let acked = senders.iter().filter_map(|flow| end(&flow.tcp.as_ref()?.bytes_acked));
    let bytes = match receivers[..] {
        [] => total(acked).min(sent),
        _ => total(receivers.iter().map(|flow| last(&flow.received_bytes))),
    };
    Some(Signs {
        direction: Some(direction),
        span_ns,
        bytes,
        goodput_bps: bytes as f64 * 8e9 / span_ns as f64,
        sender: (!senders.is_empty()).then(EndSigns::default),
        receiver: (!receivers.is_empty()).then(EndSigns::default),
        protocol: protocol(&senders, span_ns, bytes),
        // Bursts of one flow; several take turns in their silences.
        rounds: match receivers[..] {
            [only] => only.rounds,
            _ => None,
        },
        ..Signs::default()
    })
}

/// Returns the kind of work behind a claim.
fn work_of(claim: &Metric) -> Option<WorkKind> {
    let quantity = MetricName::parse(&claim.name).quantity;
    match claim.unit {
        Unit::BitRate if claim.name == GOODPUT => Some(WorkKind::Bulk),
        Unit::Share if claim.name == LOST => Some(WorkKind::Losses),
        Unit::Nanos => match quantity.split('_').next().unwrap_or_default() {
            "transfer" => Some(WorkKind::Bulk),
            "rtt" | "response" => Some(WorkKind::Messages),
            "first" | "set" => Some(WorkKind::Connections),
            _ => None,
        },
        _ => None,
    }
}

fn last(column: &[u64]) -> u64 {
    column.last().copied().unwrap_or(0)
}

fn end(column: &[Option<u64>]) -> Option<u64> {
    column.last().copied().flatten()
}

fn median(column: &[Option<u64>]) -> Option<u64> {
    let mut known: Vec<u64> = column.iter().copied().flatten().filter(|one| *one > 0).collect();
    known.sort_unstable();
    known.get(known.len() / 2).copied()
}

/// Returns the state of the sender's protocol over all flows; `None` if one of them reports none.
fn protocol(senders: &[&Series], span_ns: u64, bytes: u64) -> Option<ProtocolSigns> {
    let columns: Option<Vec<&TcpColumns>> = senders.iter().map(|flow| flow.tcp.as_ref()).collect();
    let columns = columns.filter(|columns| !columns.is_empty())?;
    let flows = columns.len() as f64;
    let share = |of: fn(&TcpColumns) -> &[Option<u64>]| {
        let ns = total(columns.iter().filter_map(|tcp| end(of(tcp))));
        (ns as f64 / (span_ns as f64 * flows)).min(1.0)
    };
    let resent = total(columns.iter().filter_map(|tcp| end(&tcp.retransmits)));
    let congested = columns.iter().map(|tcp| {
        end(&tcp.congestion_events).unwrap_or(0).max(end(&tcp.ce_delivered).unwrap_or(0))
    });
    let timeouts: f64 = senders.iter().map(|flow| in_timeouts(flow)).sum();
    let queued: Option<Vec<f64>> = columns.iter().map(|tcp| queued(tcp)).collect();
    let first = columns.first()?;
    let whole = |of: fn(&TcpColumns) -> Option<u64>| -> Option<u64> {
        columns.iter().map(|tcp| of(tcp)).sum()
    };
    Some(ProtocolSigns {
        is_kernel: !first.rwnd_limited_ns.is_empty(),
        // A protocol that does not count it has always data to send, as the work is.
        busy: if first.busy_ns.is_empty() { 1.0 } else { share(|tcp| &tcp.busy_ns) },
        rwnd_limited: share(|tcp| &tcp.rwnd_limited_ns),
        sndbuf_limited: share(|tcp| &tcp.sndbuf_limited_ns),
        library_limited: share(|tcp| &tcp.library_limited_ns),
        timeouts: timeouts / (span_ns as f64 * flows),
        at_pace: 0.0,
        pace_bps: None,
        queued: queued.map(|shares| shares.iter().sum::<f64>() / flows),
        is_starting: senders.iter().all(|flow| is_starting(flow)),
        resent: resent as f64 / (bytes / SEGMENT + resent).max(1) as f64,
        is_congested: resent > 0 || total(congested) > 0,
        cwnd_bytes: whole(|tcp| median(&tcp.cwnd_bytes)),
        peer_window_bytes: whole(|tcp| median(&tcp.snd_wnd_bytes)),
        srtt_ns: median(&first.srtt_ns),
        min_rtt_ns: end(&first.min_rtt_ns)
            .or_else(|| first.srtt_ns.iter().copied().flatten().min()),
    })
}

/// Returns the share of points at which the senders' buffers of this size in bytes were full: all that the socket holds
/// is under way, at least a quarter of the buffer, and both windows have room. The kernel counts this time
/// (`tcpi_sndbuf_limited`) only where a sender that waits for room has segments left to send.
fn in_full_buffers(senders: &[Series], buffer: u64) -> f64 {
    let (mut full, mut known) = (0, 0);
    for tcp in senders.iter().filter_map(|flow| flow.tcp.as_ref()) {
        let windows = tcp.cwnd_bytes.iter().zip(&tcp.snd_wnd_bytes);
        let waiting = tcp.in_flight_bytes.iter().zip(&tcp.notsent_bytes);
        for ((flight, unsent), (congestion, peer)) in waiting.zip(windows) {
            let (Some(flight), Some(window)) = (*flight, (*congestion).min(*peer)) else {
                continue;
            };
            known += 1;
            let has_room = flight as f64 <= ROOM * window as f64;
            full += u64::from(*unsent == Some(0) && has_room && flight >= buffer / 4);
        }
    }
    full as f64 / known.max(1) as f64
}

/// Returns the rate that a socket reports as its greatest, in bits per second: `20.0 Mbit/s`. `None` if it is not in
/// force.
fn pace(reported: &str) -> Option<f64> {
    let rate = reported.strip_suffix("/s")?.replace(' ', "").to_lowercase();
    parse_rate(&rate).ok().map(|BitRate(bps)| bps as f64)
}

/// Returns the share of the flows' time in which data was acknowledged at this rate in bits per second, less what headers
/// take of it. Acknowledgements come in bursts, so that each step of it takes [`PACE_STEP_NS`] and more.
fn at_pace(senders: &[Series], pace_bps: f64) -> f64 {
    let (mut at, mut known) = (0, 0);
    for flow in senders {
        let Some(tcp) = flow.tcp.as_ref() else { continue };
        let (mut from_ns, mut from_bytes) = (0, 0);
        for (at_ns, acked) in flow.at_ns.iter().zip(&tcp.bytes_acked) {
            let Some(acked) = acked.filter(|_| *at_ns >= from_ns + PACE_STEP_NS) else { continue };
            let step_ns = at_ns - from_ns;
            let rate_bps = acked.saturating_sub(from_bytes) as f64 * 8e9 / step_ns as f64;
            known += step_ns;
            at += if rate_bps >= AT_PACE * pace_bps { step_ns } else { 0 };
            (from_ns, from_bytes) = (*at_ns, acked);
        }
    }
    at as f64 / known.max(1) as f64
}

/// Returns the share of points whose smoothed round trip shows a standing queue.
fn queued(tcp: &TcpColumns) -> Option<f64> {
    let least = tcp.min_rtt_ns.iter().copied().flatten().min()? as f64;
    let known: Vec<f64> = tcp.srtt_ns.iter().copied().flatten().map(|ns| ns as f64).collect();
    let stands = known.iter().filter(|ns| **ns > least * (1.0 + STANDS) + SLACK_NS).count();
    (!known.is_empty()).then(|| stands as f64 / known.len() as f64)
}

/// Returns the time in recovery after retransmission timeouts, in nanoseconds.
fn in_timeouts(flow: &Series) -> f64 {
    let until = flow.phases.iter().skip(1).map(|change| change.at_ns).chain([last(&flow.at_ns)]);
    let spans = flow.phases.iter().zip(until);
    let timeouts = spans.filter(|(change, _)| change.phase == CongestionPhase::Timeout);
    timeouts.map(|(change, until)| until.saturating_sub(change.at_ns) as f64).sum()
}

fn is_starting(flow: &Series) -> bool {
    let is_start = |phase| matches!(phase, CongestionPhase::SlowStart | CongestionPhase::Startup);
    !flow.phases.is_empty() && flow.phases.iter().all(|change| is_start(change.phase))
}

/// Returns the signs of the link that was busiest in this direction, and the losses of all.
fn path_signs(path: &PathFigures, direction: Direction, span_ns: u64) -> PathSigns {
    let ways: Vec<&DirectionFigures> =
        path.links.iter().map(|link| link.toward(direction)).collect();
    let busiest = ways.iter().max_by_key(|way| way.fates.busy_ns).map(|way| way.fates);
    let arrived = ways.iter().map(|way| way.fates.arrived).max().unwrap_or(0).max(1) as f64;
    let lost = total(ways.iter().map(|way| way.fates.lost + way.fates.down));
    let overflowed = total(ways.iter().map(|way| way.fates.full + way.fates.early));
    let busy = busiest.filter(|fates| fates.busy_ns > 0);
    PathSigns {
        busy: busy.map_or(0.0, |fates| (fates.busy_ns as f64 / span_ns.max(1) as f64).min(1.0)),
        rate_bps: busy.map(|fates| fates.busy_bytes as f64 * 8e9 / fates.busy_ns as f64),
        carried_bytes: busy.map_or(0, |fates| fates.delivered_bytes),
        lost: lost as f64 / arrived,
        overflowed: overflowed as f64 / arrived,
    }
}

/// Returns the median time in the queues of a direction.
fn queued_ns(path: &PathFigures, direction: Direction) -> f64 {
    let ways = path.links.iter().map(|link| link.toward(direction));
    let medians = ways.filter_map(|way| Some(way.queued_ns.as_ref()?.p50?.at_least_ns() as f64));
    medians.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns as a kernel reports them: congestion window, peer's window, bytes in flight, bytes not sent yet.
    fn flow(points: &[[u64; 4]]) -> Series {
        let column = |at: usize| points.iter().map(|point| Some(point[at])).collect();
        let tcp = TcpColumns {
            cwnd_bytes: column(0),
            snd_wnd_bytes: column(1),
            in_flight_bytes: column(2),
            notsent_bytes: column(3),
            ..TcpColumns::default()
        };
        Series { tcp: Some(tcp), ..Series::default() }
    }

    #[test]
    fn a_buffer_is_full_where_all_of_it_is_under_way_and_the_windows_have_room() {
        let share = |points: &[[u64; 4]]| in_full_buffers(&[flow(points)], 86_000);
        // A window that grows, then a buffer of 43 kB that is full, as Linux 6.18 reported them.
        let full = [364_896, 770_048, 182_448, 0];
        assert_eq!(share(&[[28_960, 81_920, 28_960, 66_608], full, full, full]), 0.75);
        assert_eq!(share(&[[200_000, 770_048, 182_448, 0]]), 0.0, "the congestion window is full");
        assert_eq!(share(&[[364_896, 200_000, 182_448, 0]]), 0.0, "the peer's window is full");
        assert_eq!(share(&[[364_896, 770_048, 182_448, 9_000]]), 0.0, "a pacer holds data back");
        assert_eq!(share(&[[364_896, 770_048, 9_000, 0]]), 0.0, "the program gave no more");
        assert_eq!(in_full_buffers(&[Series::default()], 86_000), 0.0, "nothing is known");
    }

    #[test]
    fn a_pace_counts_where_data_is_acknowledged_at_it() {
        assert_eq!(pace("20.0 Mbit/s"), Some(2e7));
        assert_eq!(pace("20.0 Mbit/s, by fq alone"), None);
        let flow = |bytes: [u64; 4]| {
            let bytes_acked = bytes.into_iter().map(Some).collect();
            let tcp = TcpColumns { bytes_acked, ..TcpColumns::default() };
            let at_ns = (1..=4).map(|n| n * 100_000_000).collect();
            Series { at_ns, tcp: Some(tcp), ..Series::default() }
        };
        // 20 Mbit/s are 250,000 bytes in 100 ms.
        assert_eq!(at_pace(&[flow([240_000, 480_000, 500_000, 740_000])], 2e7), 0.75);
        assert_eq!(at_pace(&[flow([24_000, 48_000, 72_000, 96_000])], 2e7), 0.0);
        assert_eq!(at_pace(&[Series::default()], 2e7), 0.0, "nothing is known");
    }
}

//! Far halves of a trial against a far end of others: its counts, completed by what this end knows of an upload.
//!
//! The far end does not say when bytes arrived there. The near kernel saw them acknowledged, and its series has that over
//! time: bytes acknowledged in a span of the sender arrived in a span of the same length, a part of a round trip earlier.
//! Without acknowledgements the span is that of sending.

use crate::Order;
use crate::control::AgentReport;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{CountSource, Direction, PeerFacts};
use deadheat_contract::measurements::{ConnStats, Tally};
use deadheat_contract::workload::{EndpointReport, ProgramWork, ReceiveSpan, TaskInfo};
use deadheat_datapath::transport::commands::CommandPair;

use super::both_reports::BothReports;
use super::cast::Group;
use super::credible::CommandFacts;

/// Number of attempts to connect to a far end that counts before a contender counts as blocked.
const DIALS: u32 = 4;

/// Runs `trial`, and again if no connection came about with a far end of others that counts: some of their protocols send
/// the first packet of a flow once, so that a lossy path may lose a trial before it begins.
///
/// # Errors
/// The error of the last attempt.
pub(super) fn dialled<T>(order: &Order, mut trial: impl FnMut() -> Result<T>) -> Result<T> {
    let mut ran = trial();
    for _ in 1..DIALS {
        let peer = order.pairing.contender.transport.info().peer;
        ran = match ran {
            Err(Error::Blocked { .. }) if peer.has_session() => trial(),
            ran => return ran,
        };
    }
    ran
}

/// Checks and completes the reports of a group.
pub(super) fn complete_group(reports: BothReports, group: &Group) -> BothReports {
    let peer = group.contender.transport.info().peer;
    if let Some(commands) = &group.contender.commands {
        return ended_well(checked(reports, &commands.pair, group), group.task.info());
    }
    complete(reports.checked(&*group.task), peer, group.task.info())
}

/// Drops what a server says of its command if that cannot be true.
fn checked(mut reports: BothReports, pair: &CommandPair, group: &Group) -> BothReports {
    // A keeper on this machine is a process of ours.
    if !group.is_served {
        return reports;
    }
    let facts = CommandFacts {
        receives: pair.received.is_some() && pair.direction == Direction::Up,
        moves: match group.task.info().programs {
            ProgramWork::Transfer { bytes, .. } => Some(bytes),
            _ => None,
        },
    };
    reports.doubt = reports.far.as_ref().and_then(|far| facts.check(far).err());
    if reports.doubt.is_some() {
        reports.far = None;
    }
    reports
}

/// Completes the far end's report of a transfer that commands made: the end of the client confirms all of it, in the time
/// that the client took.
fn ended_well(mut reports: BothReports, task: &TaskInfo) -> BothReports {
    let half = |(flow, near): (usize, &EndpointReport)| match task.flows.get(flow) {
        Some(Some(Direction::Up)) => EndpointReport {
            received: near.sent,
            receive_span: near.send_began_ns.zip(near.send_span_ns).map(|(first_ns, took)| {
                ReceiveSpan { first_ns, last_ns: first_ns + took, first_bytes: 0, warmup_bytes: 0 }
            }),
            ..EndpointReport::default()
        },
        Some(Some(Direction::Down)) => EndpointReport {
            sent: near.received,
            send_began_ns: near.receive_span.map(|span| span.first_ns),
            send_span_ns: near.receive_span.map(|span| span.last_ns.saturating_sub(span.first_ns)),
            ..EndpointReport::default()
        },
        _ => EndpointReport::default(),
    };
    let halves: Vec<EndpointReport> = reports.near.halves.iter().enumerate().map(half).collect();
    // A keeper reports nothing else.
    reports.far = reports.far.map(|far| AgentReport {
        halves,
        cost: far.cost,
        command: far.command,
        ..AgentReport::default()
    });
    reports
}

/// Completes the far end's report of work that `peer` did, unless that is a process of ours, whose report is complete.
fn complete(mut reports: BothReports, peer: PeerFacts, task: &TaskInfo) -> BothReports {
    let near = &reports.near;
    let far = match peer.counts {
        CountSource::Report => return reports,
        CountSource::Session => reports.far.take(),
        CountSource::Acknowledgements => Some(acknowledged(near)),
        CountSource::Answers => Some(answered(near)),
        CountSource::Confirmation => Some(confirmed(near)),
    };
    reports.far = far.map(|mut far| {
        let uncounted = far.uncounted;
        for (flow, half) in far.halves.iter_mut().enumerate() {
            match (task.flows.get(flow), near.halves.get(flow)) {
                (Some(Some(Direction::Up)), _) => {
                    half.receive_span = span(near, flow, half.received.bytes, task.warmup);
                }
                (Some(Some(Direction::Down)), Some(near)) => {
                    count_last_call(&mut half.sent, &near.received, uncounted);
                }
                _ => {}
            }
        }
        far
    });
    reports
}

/// Adds to the data that a far end says it `sent` what this end received of its last call: a program with a thread for each
/// flow may end it between a call and its count. More than `most` bytes are no such call.
fn count_last_call(sent: &mut Tally, received: &Tally, most: u64) {
    if received.bytes.checked_sub(sent.bytes).is_some_and(|more| more <= most) {
        sent.bytes = received.bytes;
        sent.messages = sent.messages.max(received.messages);
    }
}

/// Returns the far halves of a far end that counts nothing: its kernel has acknowledged all that was sent, or the near end
/// would not have ended.
fn acknowledged(near: &AgentReport) -> AgentReport {
    let half = |near: &EndpointReport| EndpointReport {
        received: Tally { bytes: near.sent.bytes, ..Tally::default() },
        ..EndpointReport::default()
    };
    AgentReport { halves: near.halves.iter().map(half).collect(), ..AgentReport::default() }
}

/// Returns the far halves of an origin, of which only its answers are known: it had the requests that it answered, and has
/// sent the bytes that arrived, as its transports lose nothing. An answer that ends too early ends the trial.
fn answered(near: &AgentReport) -> AgentReport {
    let half = |near: &EndpointReport| EndpointReport {
        received: Tally { messages: near.received.messages, ..Tally::default() },
        sent: Tally {
            messages: near.received.messages,
            bytes: near.received.bytes,
            ..Tally::default()
        },
        send_began_ns: near.send_began_ns,
        ..EndpointReport::default()
    };
    AgentReport { halves: near.halves.iter().map(half).collect(), ..AgentReport::default() }
}

/// Returns the far halves of a responder: it ended its answer once it had all that was sent, and has sent all that arrived, as
/// its transports lose nothing. An answer that does not end so ends the trial.
fn confirmed(near: &AgentReport) -> AgentReport {
    let whole =
        |tally: &Tally| Tally { messages: tally.messages, bytes: tally.bytes, ..Tally::default() };
    let half = |near: &EndpointReport| EndpointReport {
        received: whole(&near.sent),
        sent: whole(&near.received),
        send_began_ns: near.send_began_ns.filter(|_| near.received.bytes > 0),
        ..EndpointReport::default()
    };
    AgentReport { halves: near.halves.iter().map(half).collect(), ..AgentReport::default() }
}

/// Returns the span in which `received` bytes of a flow of the near end arrived, on its clock.
fn span(near: &AgentReport, flow: usize, received: u64, warmup: Nanos) -> Option<ReceiveSpan> {
    let half = near.halves.get(flow)?;
    let span = by_acknowledgements(near, flow, received, warmup).or_else(|| {
        // The last slot of a schedule is as long as the others, so that the span of sending is that of receiving.
        let last_ns = half.send_span_ns?;
        Some(ReceiveSpan { first_ns: 0, last_ns, first_bytes: 0, warmup_bytes: 0 })
    })?;
    // Both ends have one clock here: this one's, on which the work began at its first send.
    let began = half.send_began_ns.unwrap_or(0);
    let at = |ns: u64| began.saturating_add(ns);
    Some(ReceiveSpan { first_ns: at(span.first_ns), last_ns: at(span.last_ns), ..span })
}

/// Returns the span on a clock that begins with the flow.
fn by_acknowledgements(
    near: &AgentReport,
    flow: usize,
    received: u64,
    warmup: Nanos,
) -> Option<ReceiveSpan> {
    let series = near.series.get(flow)?;
    let acked = &series.tcp.as_ref()?.bytes_acked;
    let points = series.at_ns.iter().zip(acked);
    let points: Vec<(u64, u64)> =
        points.map(|(at, acked)| Some((*at, (*acked)?))).collect::<Option<_>>()?;
    let (last_ns, all) = *points.last()?;
    if warmup == Nanos::ZERO {
        // The first byte was under way for one half of a round trip, and its last acknowledgement for the other.
        let first_ns = near.conns.get(flow).map_or(0, |conn: &ConnStats| conn.connect_ns) / 2;
        let last_ns = last_ns.checked_sub(first_ns).filter(|last_ns| *last_ns > first_ns)?;
        return Some(ReceiveSpan { first_ns, last_ns, first_bytes: 0, warmup_bytes: 0 });
    }
    let (first_ns, before) = *points.iter().find(|(at, _)| *at >= warmup.0)?;
    // Acknowledged bytes include the boundaries of messages, and a greeting; the share of the span is that of the content.
    let share = u128::from(received) * u128::from(all.checked_sub(before)?);
    let counted = share.checked_div(u128::from(all))? as u64;
    let warmup_bytes = received.saturating_sub(counted);
    Some(ReceiveSpan { first_ns, last_ns, first_bytes: 0, warmup_bytes })
        .filter(|span| span.last_ns > span.first_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::series::{Series, TcpColumns};
    use deadheat_contract::workload::Clocks;

    fn near(acked: &[u64]) -> AgentReport {
        let column = acked.iter().map(|acked| Some(*acked)).collect();
        let series = Series {
            at_ns: (1..=acked.len() as u64).map(|at| at * 100).collect(),
            tcp: Some(TcpColumns { bytes_acked: column, ..TcpColumns::default() }),
            ..Series::default()
        };
        let sent = Tally { bytes: 4_000, ..Tally::default() };
        AgentReport {
            halves: vec![EndpointReport { sent, ..EndpointReport::default() }],
            conns: vec![ConnStats { connect_ns: 30, ..ConnStats::default() }],
            series: vec![series],
            ..AgentReport::default()
        }
    }

    fn completed(near: AgentReport, far: Option<AgentReport>, warmup: u64) -> EndpointReport {
        let counts = match &far {
            Some(_) => CountSource::Session,
            None => CountSource::Acknowledgements,
        };
        let peer = PeerFacts { counts, ..PeerFacts::OTHERS };
        let clocks = Clocks::Shared;
        let (took, doubt, carriers) = (Nanos::ZERO, None, Default::default());
        let both = BothReports { near, far, took, clocks, doubt, carriers };
        let task = TaskInfo {
            flows: vec![Some(Direction::Up)],
            warmup: Nanos(warmup),
            ..TaskInfo::default()
        };
        complete(both, peer, &task).far.unwrap().halves.remove(0)
    }

    #[test]
    fn an_upload_that_nobody_counts_has_what_the_far_kernel_acknowledged() {
        let half = completed(near(&[1_037, 2_037, 4_037]), None, 0);
        assert_eq!(half.received.bytes, 4_000);
        let span = half.receive_span.unwrap();
        // 300 ns, less the round trip between the first byte and its acknowledgement, a half at each end.
        assert_eq!((span.first_ns, span.last_ns, span.warmup_bytes), (15, 285, 0));
    }

    #[test]
    fn bytes_of_the_warm_up_are_left_out_with_their_time() {
        let span = completed(near(&[1_037, 2_037, 4_037]), None, 150).receive_span.unwrap();
        assert_eq!((span.first_ns, span.last_ns, span.warmup_bytes), (200, 300, 2_019));
    }

    #[test]
    fn a_call_that_the_far_end_sent_and_did_not_count_is_counted_and_no_more() {
        let tally = |bytes| Tally { bytes, messages: bytes / 100, ..Tally::default() };
        for (said, counted) in [(900, 1_000), (1_000, 1_000), (1_200, 1_200), (800, 800)] {
            let mut sent = tally(said);
            count_last_call(&mut sent, &tally(1_000), 128);
            assert_eq!((sent.bytes, sent.messages), (counted, counted / 100), "{said}");
        }
    }

    #[test]
    fn counts_of_the_far_end_stay_and_get_the_span_of_sending_without_acknowledgements() {
        let mut near = near(&[1]);
        near.series.clear();
        near.halves[0].send_span_ns = Some(500);
        near.halves[0].send_began_ns = Some(7);
        let received = Tally { messages: 3, bytes: 300, ..Tally::default() };
        let half = EndpointReport { received, ..EndpointReport::default() };
        let far = AgentReport { halves: vec![half], ..AgentReport::default() };
        let half = completed(near, Some(far), 0);
        assert_eq!(half.received.messages, 3);
        let span = half.receive_span.unwrap();
        assert_eq!((span.first_ns, span.last_ns), (7, 507));
    }
}

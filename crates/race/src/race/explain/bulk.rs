//! Bulk data: the cost of a call, a byte and a packet, and the signs by which causes are judged.

use super::PassTrial;
use deadheat_contract::contract::{Delivery, Direction, Framing, Guarantees};
use deadheat_contract::measurements::{ConnStats, TcpView};
use deadheat_contract::workload::{EndpointReport, Task};
use deadheat_result::causes::SignSource;
use deadheat_result::causes::judge::judge;
use deadheat_result::causes::signs::{EndSigns, ProtocolSigns, Signs, WorkKind};
use deadheat_result::explained::{BulkEnd, BulkTransfer, Calls, Explanation};
use deadheat_trial::explain::{EndNotes, FlowNotes, Visits};

/// Explains each direction of the bulk data in `trials`.
pub(super) fn explain(
    trials: &[PassTrial],
    task: &dyn Task,
    guarantees: &Guarantees,
    into: &mut Explanation,
) {
    let flows = &task.info().flows;
    let mut directions: Vec<Direction> = flows.iter().flatten().copied().collect();
    directions.dedup();
    if directions.is_empty() {
        into.missing.push(
            "This workload neither asks for answers nor moves bulk data, so there is nothing to split."
                .to_owned(),
        );
    }
    for direction in directions {
        let mut transfers: Vec<BulkTransfer> = trials
            .iter()
            .filter_map(|explored| {
                DirectionFlows::of(explored, flows, direction)?.describe(guarantees)
            })
            .collect();
        transfers.sort_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps));
        let middle = transfers.len() / 2;
        match transfers.into_iter().nth(middle) {
            Some(moving) => into.moving.push(moving),
            None => into.missing.push(format!("No trial tells of the bulk data {direction}.")),
        }
    }
}

/// The two ends of one direction, each with only the flows of that direction.
struct DirectionFlows<'a> {
    direction: Direction,
    sender: DirectionSide<'a>,
    receiver: DirectionSide<'a>,
}

struct DirectionSide<'a> {
    notes: &'a EndNotes,
    flows: Vec<&'a FlowNotes>,
    conns: Vec<&'a ConnStats>,
    halves: Vec<&'a EndpointReport>,
}

impl<'a> DirectionSide<'a> {
    fn of(
        notes: &'a EndNotes,
        conns: &'a [ConnStats],
        halves: &'a [EndpointReport],
        ours: &[usize],
    ) -> Option<DirectionSide<'a>> {
        Some(DirectionSide {
            notes,
            flows: ours.iter().map(|flow| notes.flows.get(*flow)).collect::<Option<_>>()?,
            conns: ours.iter().map(|flow| conns.get(*flow)).collect::<Option<_>>()?,
            halves: ours.iter().map(|flow| halves.get(*flow)).collect::<Option<_>>()?,
        })
    }

    fn thread_ns(&self) -> u64 {
        self.flows.iter().map(|flow| flow.thread_ns).sum()
    }

    /// Returns the CPU figures of a transfer that took `span_ns` and moved `bytes`.
    fn end(&self, span_ns: f64, bytes: f64) -> BulkEnd {
        let cpu = &self.notes.cpu;
        let share = |ns: u64| if cpu.all_ns == 0 { 0.0 } else { ns as f64 / cpu.all_ns as f64 };
        let thread = self.thread_ns() as f64;
        BulkEnd {
            ran_share: (thread / (span_ns * self.flows.len() as f64)).min(1.0),
            thread_ns_per_gb: thread * 1e9 / bytes,
            cpus: cpu.cpus,
            busy_share: share(cpu.programs_ns.saturating_add(cpu.interrupts_ns)),
            interrupts_share: share(cpu.interrupts_ns),
        }
    }

    fn calls(&self, calls: u64, visits: impl Fn(&FlowNotes) -> Visits, bytes: u64) -> Calls {
        let inside: u64 = self.flows.iter().map(|flow| visits(flow).inside_ns).sum();
        let (calls, bytes) = (calls.max(1) as f64, bytes.max(1) as f64);
        Calls {
            per_mb: calls * 1e6 / bytes,
            bytes: bytes / calls,
            ns: inside as f64 / calls,
            ran_ns: self.thread_ns() as f64 / calls,
            ns_per_byte: inside as f64 / bytes,
        }
    }
}

impl<'a> DirectionFlows<'a> {
    fn of(
        explored: &'a PassTrial,
        flows: &[Option<Direction>],
        direction: Direction,
    ) -> Option<DirectionFlows<'a>> {
        let noted = &explored.noted;
        let ours: Vec<usize> =
            (0..flows.len()).filter(|flow| flows[*flow] == Some(direction)).collect();
        let [near_conns, far_conns] = &noted.conns;
        let [near_halves, far_halves] = &noted.halves;
        let near = DirectionSide::of(&noted.near, near_conns, near_halves, &ours)?;
        let far = DirectionSide::of(noted.far.as_ref()?, far_conns, far_halves, &ours)?;
        let (sender, receiver) = match direction {
            Direction::Up => (near, far),
            Direction::Down => (far, near),
        };
        Some(DirectionFlows { direction, sender, receiver })
    }

    fn describe(&self, guarantees: &Guarantees) -> Option<BulkTransfer> {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let sent: u64 = sender.halves.iter().map(|half| half.sent.bytes).sum();
        let delivered: u64 = receiver.halves.iter().map(|half| half.received.bytes).sum();
        let span = receiver.flows.iter().map(|flow| flow.receiving.span_ns).max()?;
        let send_span = sender.flows.iter().map(|flow| flow.sending.span_ns).max()?;
        if span == 0 || send_span == 0 || delivered == 0 {
            return None;
        }
        let goodput_bps = delivered as f64 * 8e9 / span as f64;
        let messages: u64 = sender.halves.iter().map(|half| half.sent.messages).sum();
        let segments =
            sender.flows.iter().map(|flow| flow.view?.data_segs_out).sum::<Option<u64>>();
        let packets = match guarantees.framing {
            Framing::Messages => Some(messages),
            Framing::ByteStream => segments,
        };
        let ends = [
            sender.end(send_span as f64, sent as f64),
            receiver.end(span as f64, delivered as f64),
        ];
        let signs =
            Signs { span_ns: span, bytes: delivered, goodput_bps, ..self.signs(guarantees, &ends) };
        let send_calls = sender.conns.iter().map(|conn| conn.send_calls).sum();
        let receive_calls = receiver.conns.iter().map(|conn| conn.receive_calls).sum();
        Some(BulkTransfer {
            direction: self.direction,
            delivered_bytes: delivered,
            goodput_bps,
            sending: sender.calls(send_calls, |flow| flow.sending, sent),
            receiving: receiver.calls(receive_calls, |flow| flow.receiving, delivered),
            packets_per_mb: packets.map(|packets| packets as f64 * 1e6 / sent.max(1) as f64),
            sender: ends[0],
            receiver: ends[1],
            causes: judge(&signs),
            why: None,
        })
    }

    fn signs(&self, guarantees: &Guarantees, ends: &[BulkEnd; 2]) -> Signs {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let worker = |end: &BulkEnd| EndSigns {
            ran: end.ran_share,
            busy: (end.cpus == 1).then_some(end.busy_share),
            interrupts: end.interrupts_share,
        };
        let (one, other) = (sender.notes, receiver.notes);
        let is_shared = !one.boot.is_empty()
            && one.boot == other.boot
            && one.held_on.is_some()
            && one.held_on == other.held_on;
        let views: Option<Vec<&TcpView>> =
            sender.flows.iter().map(|flow| flow.view.as_ref()).collect();
        let (mut dropped, mut lost) = (0.0, 0.0);
        if guarantees.service.delivery == Delivery::BestEffort {
            let sent: u64 = sender.halves.iter().map(|half| half.sent.messages).sum();
            let received: u64 = receiver.halves.iter().map(|half| half.received.messages).sum();
            let drops: u64 = receiver.conns.iter().filter_map(|conn| conn.socket_drops).sum();
            let undelivered = sent.saturating_sub(received);
            let share = |n: u64| n as f64 / sent.max(1) as f64;
            (dropped, lost) =
                (share(drops.min(undelivered)), share(undelivered - drops.min(undelivered)));
        }
        Signs {
            source: SignSource::Pass,
            work: WorkKind::Bulk,
            direction: Some(self.direction),
            sender: Some(worker(&ends[0])),
            receiver: Some(worker(&ends[1])),
            is_cpu_shared: is_shared,
            protocol: views.and_then(|views| protocol(&views)),
            dropped,
            lost,
            ..Signs::default()
        }
    }
}

/// Returns the signs in the last views of several connections together; `None` without any. What changes over time, such
/// as a queue, a usual trial's series shows better.
fn protocol(views: &[&TcpView]) -> Option<ProtocolSigns> {
    let first = views.first()?;
    let sum = |of: fn(&TcpView) -> Option<u64>| {
        views.iter().map(|view| of(view)).sum::<Option<u64>>().unwrap_or(0) as f64
    };
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let busy = sum(|view| view.busy_ns);
    let resent = share(sum(|view| Some(view.retransmits)), sum(|view| view.data_segs_out));
    Some(ProtocolSigns {
        busy: f64::from(u8::from(busy > 0.0)),
        rwnd_limited: share(sum(|view| view.rwnd_limited_ns), busy),
        sndbuf_limited: share(sum(|view| view.sndbuf_limited_ns), busy),
        library_limited: share(sum(|view| view.library_limited_ns), busy),
        resent,
        is_congested: resent > 0.0,
        cwnd_bytes: views.iter().map(|view| Some(view.cwnd_bytes).filter(|bytes| *bytes > 0)).sum(),
        peer_window_bytes: views.iter().map(|view| view.snd_wnd_bytes).sum(),
        srtt_ns: first.srtt_ns,
        min_rtt_ns: first.min_rtt_ns,
        ..ProtocolSigns::default()
    })
}

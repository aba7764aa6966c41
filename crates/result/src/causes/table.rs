//! Table of causes: the work in which each can hold a contender back, the signs that prove it, and the signs that
//! exclude it. A cause that no trial can prove is not listed.

use super::signs::{EndSigns, MessageSigns, PathSigns, ProtocolSigns, Signs, WorkKind};
use super::{Cause, Evidence};

/// Minimum share of the time for a thread or a CPU to count as fully occupied; the rest is spent on start, end and
/// delays of the other side.
const OCCUPIED: f64 = 0.9;
/// Minimum share of the time for a limit to count as a cause.
pub const HELD_BACK: f64 = 0.3;
/// Minimum share of undelivered messages that counts.
const NOTABLE_LOSS: f64 = 0.01;
/// Minimum share of the time in timeouts, or in outages, that counts.
const NOTABLE_STOP: f64 = 0.1;
/// Minimum number of round trips for a window of a sender that is not ours.
const FEWEST_ROUNDS: u64 = 8;
/// Ratios of the median and of the 90th percentile to the 10th of a constant number of bytes: a few rounds may have more,
/// as a late acknowledgement lets two bursts meet. Windows that losses govern vary more (CUBIC's from 0.7 to 1).
const CONSTANT: (f64, f64) = (1.15, 1.3);
/// Shortest retransmission timeout of Linux (`TCP_RTO_MIN`), less the accuracy of a percentile.
const TIMEOUT: f64 = 0.9 * 200e6;
/// Least share of messages with a retransmission that shows in a percentile or a mean.
const NOTABLE_RESENT: f64 = 0.002;

/// Proof of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Proof {
    /// Share of the time, or of the messages, that the cause accounts for.
    pub share: f64,
    /// Figures that prove it.
    pub evidence: Evidence,
}

/// Row of the table.
pub struct CauseRow {
    /// The cause.
    pub cause: Cause,
    /// Work that it can hold back.
    pub work: &'static [WorkKind],
    /// Proof from signs; `None` if they do not prove it.
    pub proof: fn(&Signs) -> Option<Proof>,
    /// Causes that exclude it where they are proved: it is then their consequence.
    pub excluded_by: &'static [Cause],
}

const DATA: &[WorkKind] = &[WorkKind::Bulk];
const MESSAGES: &[WorkKind] = &[WorkKind::Messages];
const LOSSES: &[WorkKind] = &[WorkKind::Bulk, WorkKind::Losses];
const CPUS: &[Cause] = &[Cause::OtherPrograms, Cause::OneCpu, Cause::SenderCpu, Cause::ReceiverCpu];
const CPUS_OR_PATH: &[Cause] =
    &[Cause::OtherPrograms, Cause::OneCpu, Cause::SenderCpu, Cause::ReceiverCpu, Cause::PathRate];
/// Causes where the congestion window is not the limit, whatever its state.
const CPUS_PATH_OR_PACE: &[Cause] = &[
    Cause::OtherPrograms,
    Cause::OneCpu,
    Cause::SenderCpu,
    Cause::ReceiverCpu,
    Cause::PathRate,
    Cause::Pacing,
];

/// All causes. A cause stands behind the causes that exclude it.
pub static TABLE: &[CauseRow] = &[
    row(Cause::OtherPrograms, DATA, other_programs, &[]),
    row(Cause::OneCpu, DATA, one_cpu, &[Cause::OtherPrograms]),
    row(Cause::ReceiverCpu, DATA, receiver_cpu, &[Cause::OtherPrograms, Cause::OneCpu]),
    row(
        Cause::SenderCpu,
        DATA,
        sender_cpu,
        &[Cause::OtherPrograms, Cause::OneCpu, Cause::ReceiverCpu],
    ),
    row(Cause::PathRate, LOSSES, path_rate, CPUS),
    row(Cause::ReceiverSocket, LOSSES, receiver_socket, &[Cause::OneCpu, Cause::ReceiverCpu]),
    row(Cause::Overhead, DATA, overhead, CPUS),
    row(Cause::PathLoss, LOSSES, path_loss, &[Cause::PathRate]),
    row(Cause::Outage, LOSSES, outage, &[]),
    row(Cause::ReceiveWindow, DATA, receive_window, CPUS),
    row(Cause::SendBuffer, DATA, send_buffer, CPUS),
    row(Cause::LibraryWindow, DATA, library_window, CPUS),
    row(Cause::PeerWindow, DATA, peer_window, CPUS_OR_PATH),
    row(Cause::SenderProgram, DATA, sender_program, CPUS),
    row(Cause::Timeouts, DATA, timeouts, &[Cause::Outage]),
    row(Cause::Pacing, DATA, pacing, CPUS_OR_PATH),
    row(Cause::CongestionWindow, DATA, congestion_window, CPUS_PATH_OR_PACE),
    row(Cause::SlowStart, DATA, slow_start, CPUS_PATH_OR_PACE),
    row(Cause::Timeouts, MESSAGES, message_timeouts, &[]),
    row(Cause::Retransmission, MESSAGES, retransmission, &[Cause::Timeouts]),
    row(Cause::Nagle, MESSAGES, nagle, &[Cause::Timeouts, Cause::Retransmission]),
    row(Cause::Queue, MESSAGES, queue, &[]),
    row(Cause::PathDelay, MESSAGES, path_delay, &[]),
    row(Cause::FarProgram, MESSAGES, far_program, &[]),
    row(Cause::WakeUp, MESSAGES, wake_up, &[]),
    row(Cause::Handshake, &[WorkKind::Connections], handshake, &[]),
];

const fn row(
    cause: Cause,
    work: &'static [WorkKind],
    proof: fn(&Signs) -> Option<Proof>,
    excluded_by: &'static [Cause],
) -> CauseRow {
    CauseRow { cause, work, proof, excluded_by }
}

/// Returns the proof of a cause with this share, if that is at least `least`.
fn proved(share: f64, least: f64, evidence: Evidence) -> Option<Proof> {
    (share >= least).then(|| Proof { share: share.min(1.0), evidence })
}

/// Returns the share of the time that an end's CPU worked for the transfer. Some kernels count interrupts as time of the
/// interrupted thread, so the sum is capped at the CPU's own.
fn occupied(end: &EndSigns) -> f64 {
    let with_interrupts = end.ran + end.interrupts;
    end.ran.max(end.busy.map_or(0.0, |busy| busy.min(with_interrupts)))
}

fn of_cpu(own: &EndSigns, other: Option<EndSigns>) -> Evidence {
    let interrupts = Some(own.interrupts).filter(|share| own.ran < OCCUPIED && *share > 0.0);
    Evidence { other_ran: other.map(|other| other.ran), interrupts, ..Evidence::default() }
}

fn other_programs(signs: &Signs) -> Option<Proof> {
    let ends = [signs.sender, signs.receiver];
    let both: f64 = ends.iter().flatten().map(|end| end.ran).sum();
    let others = |end: &EndSigns| {
        let ran = if signs.is_cpu_shared { both } else { end.ran };
        end.busy.map_or(0.0, |busy| busy - ran - end.interrupts)
    };
    let most = ends.iter().flatten().map(others).fold(0.0, f64::max);
    proved(most, HELD_BACK, Evidence::default())
}

/// On a shared CPU a full window, or a full socket, is a receiver that waits for its turn.
fn one_cpu(signs: &Signs) -> Option<Proof> {
    let (sender, receiver) = (signs.sender?, signs.receiver?);
    let busy = (sender.ran + receiver.ran).max(sender.busy.unwrap_or(0.0));
    let waits = signs.protocol.is_some_and(|protocol| protocol.rwnd_limited >= HELD_BACK)
        || signs.dropped >= NOTABLE_LOSS;
    let evidence = Evidence { other_ran: Some(receiver.ran), ..Evidence::default() };
    let least = if waits { HELD_BACK } else { OCCUPIED };
    proved(busy, least, evidence).filter(|_| signs.is_cpu_shared)
}

fn receiver_cpu(signs: &Signs) -> Option<Proof> {
    let receiver = signs.receiver?;
    let own = occupied(&receiver);
    let is_behind = signs.dropped >= NOTABLE_LOSS
        || signs.protocol.is_some_and(|protocol| protocol.rwnd_limited >= HELD_BACK)
        || signs.sender.is_none_or(|sender| own >= occupied(&sender));
    let evidence = Evidence {
        lost_share: Some(signs.dropped).filter(|share| *share >= NOTABLE_LOSS),
        ..of_cpu(&receiver, signs.sender)
    };
    proved(own, OCCUPIED, evidence).filter(|_| is_behind)
}

fn sender_cpu(signs: &Signs) -> Option<Proof> {
    let sender = signs.sender?;
    proved(occupied(&sender), OCCUPIED, of_cpu(&sender, signs.receiver))
}

/// A queue stands at the bottleneck: by the path's own account, or by the sender's round trips.
fn path_rate(signs: &Signs) -> Option<Proof> {
    let by_account = |path: PathSigns| {
        let evidence = Evidence {
            rate_bps: path.rate_bps,
            lost_share: Some(path.overflowed).filter(|share| *share > 0.0),
            ..Evidence::default()
        };
        if signs.work != WorkKind::Losses {
            return proved(path.busy, 0.5, evidence);
        }
        let overflow = Evidence { rate_bps: None, ..evidence };
        proved(path.overflowed, NOTABLE_LOSS, overflow)
            .or_else(|| proved(path.busy, OCCUPIED, evidence))
    };
    if let Some(path) = signs.path {
        return by_account(path);
    }
    let protocol = signs.protocol.filter(|_| signs.work == WorkKind::Bulk)?;
    let share = protocol.queued?.min(protocol.by_network());
    let evidence = Evidence {
        rate_bps: Some(signs.goodput_bps),
        rtt_ns: protocol.srtt_ns,
        ..Evidence::default()
    };
    proved(share, 0.5, evidence)
}

/// Counts what the busiest link carried beside the data that arrived, where its rate is the limit.
fn overhead(signs: &Signs) -> Option<Proof> {
    let path = signs.path.filter(|path| path.busy >= 0.5 && path.carried_bytes > 0)?;
    let share = 1.0 - signs.bytes as f64 / path.carried_bytes as f64;
    (share > 0.0 && signs.bytes > 0).then(|| Proof { share, evidence: Evidence::default() })
}

fn receiver_socket(signs: &Signs) -> Option<Proof> {
    let other_ran = signs.receiver.map(|receiver| receiver.ran);
    let evidence = Evidence { lost_share: Some(signs.dropped), other_ran, ..Evidence::default() };
    proved(signs.dropped, NOTABLE_LOSS, evidence)
}

/// Counts losses outside of outages.
fn path_loss(signs: &Signs) -> Option<Proof> {
    let lost = signs.lost - signs.out;
    let evidence = Evidence { lost_share: Some(lost), ..Evidence::default() };
    proved(lost, NOTABLE_LOSS, evidence)
}

fn outage(signs: &Signs) -> Option<Proof> {
    let time_ns = Some((signs.out * signs.span_ns as f64) as u64);
    proved(signs.out, NOTABLE_STOP, Evidence { time_ns, ..Evidence::default() })
}

/// Returns the evidence of a window of `bytes`.
fn of_window(bytes: Option<u64>, rtt_ns: Option<u64>) -> Evidence {
    let rate = bytes.zip(rtt_ns.filter(|rtt| *rtt > 0));
    let rate_bps = rate.map(|(bytes, rtt)| bytes as f64 * 8e9 / rtt as f64);
    Evidence { bytes, rtt_ns, rate_bps, ..Evidence::default() }
}

fn receive_window(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol?;
    let evidence = Evidence {
        other_ran: signs.receiver.map(|receiver| receiver.ran),
        ..of_window(protocol.peer_window_bytes, protocol.min_rtt_ns)
    };
    let is_most = protocol.rwnd_limited >= protocol.sndbuf_limited;
    proved(protocol.rwnd_limited, HELD_BACK, evidence).filter(|_| is_most)
}

fn send_buffer(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol?;
    let bytes = bytes_a_round_trip(signs, &protocol);
    let is_most = protocol.sndbuf_limited > protocol.rwnd_limited;
    let evidence = of_window(bytes, protocol.min_rtt_ns);
    proved(protocol.sndbuf_limited, HELD_BACK, evidence).filter(|_| is_most)
}

fn library_window(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol?;
    let bytes = bytes_a_round_trip(signs, &protocol);
    proved(protocol.library_limited, HELD_BACK, of_window(bytes, protocol.min_rtt_ns))
}

/// Returns the bytes that arrived in one round trip.
fn bytes_a_round_trip(signs: &Signs, protocol: &ProtocolSigns) -> Option<u64> {
    Some((signs.goodput_bps * protocol.srtt_ns? as f64 / 8e9) as u64)
}

/// The same number of bytes in each round trip, and then a silence: the sender may send no more until it is answered.
fn peer_window(signs: &Signs) -> Option<Proof> {
    let rounds = signs.rounds.filter(|_| signs.sender.is_none())?;
    let least = rounds.p10_bytes as f64;
    let is_constant = least > 0.0
        && rounds.p50_bytes as f64 <= CONSTANT.0 * least
        && rounds.p90_bytes as f64 <= CONSTANT.1 * least
        && rounds.n >= FEWEST_ROUNDS;
    let silent = rounds.silent_ns as f64 / rounds.span_ns.max(1) as f64;
    let each = rounds.span_ns as f64 * rounds.p50_bytes as f64 / signs.bytes.max(1) as f64;
    // Bursts that are farther apart come when the program has something to send.
    let is_each_round_trip = each <= 1.5 * rounds.rtt_ns as f64;
    proved(silent, HELD_BACK, of_window(Some(rounds.p50_bytes), Some(each as u64)))
        .filter(|_| is_constant && is_each_round_trip)
}

fn sender_program(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol.filter(|protocol| protocol.is_kernel && protocol.busy > 0.0)?;
    signs.sender?;
    proved(1.0 - protocol.busy, HELD_BACK, Evidence::default())
}

fn timeouts(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol?;
    let evidence = Evidence { lost_share: Some(protocol.resent), ..Evidence::default() };
    proved(protocol.timeouts, NOTABLE_STOP, evidence)
}

fn pacing(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol?;
    let evidence = Evidence { rate_bps: Some(protocol.pace_bps?), ..Evidence::default() };
    proved(protocol.at_pace, HELD_BACK, evidence)
}

fn congestion_window(signs: &Signs) -> Option<Proof> {
    let protocol = signs.protocol.filter(|protocol| protocol.is_congested)?;
    let in_queue = signs.path.map(|path| path.busy).or(protocol.queued).unwrap_or(0.0);
    let share = protocol.by_network() * (1.0 - in_queue.min(1.0)) - protocol.timeouts;
    let evidence = Evidence {
        lost_share: Some(protocol.resent),
        ..of_window(protocol.cwnd_bytes, protocol.srtt_ns)
    };
    proved(share, HELD_BACK, evidence)
}

fn slow_start(signs: &Signs) -> Option<Proof> {
    let protocol =
        signs.protocol.filter(|protocol| protocol.is_starting && !protocol.is_congested)?;
    let srtt_ns = protocol.srtt_ns.filter(|srtt| *srtt > 0)?;
    let round_trips = signs.span_ns as f64 / srtt_ns as f64;
    let evidence = Evidence {
        bytes: Some(signs.bytes),
        rtt_ns: Some(srtt_ns),
        round_trips: Some(round_trips),
        ..Evidence::default()
    };
    proved(protocol.by_network(), HELD_BACK, evidence).filter(|_| round_trips >= 2.0)
}

fn message_timeouts(signs: &Signs) -> Option<Proof> {
    let (messages, late) = late(signs)?;
    let least = messages.least_ns.unwrap_or(0.0);
    of_time(&messages, late).filter(|_| late >= TIMEOUT.max(4.0 * least))
}

fn retransmission(signs: &Signs) -> Option<Proof> {
    let (messages, late) = late(signs)?;
    of_time(&messages, late).filter(|_| late >= 0.9 * messages.least_ns.unwrap_or(f64::INFINITY))
}

/// Returns the time by which the claimed message is later than the median one, where segments were sent again.
fn late(signs: &Signs) -> Option<(MessageSigns, f64)> {
    let messages = signs.messages.filter(|messages| messages.resent >= NOTABLE_RESENT)?;
    Some((messages, messages.claimed_ns - messages.median_ns?))
}

/// Returns the proof of a part of a message's time.
fn of_time(messages: &MessageSigns, ns: f64) -> Option<Proof> {
    let evidence = Evidence {
        time_ns: Some(ns.max(0.0) as u64),
        lost_share: Some(messages.resent).filter(|share| *share > 0.0),
        ..Evidence::default()
    };
    proved(ns / messages.claimed_ns, HELD_BACK, evidence)
}

/// A message takes longer than the path and its queues do, and the ends may hold small ones back.
fn nagle(signs: &Signs) -> Option<Proof> {
    let messages = signs.messages.filter(|messages| messages.waits_for_acks)?;
    let least = messages.path_rtt_ns.or(messages.least_ns)?;
    of_time(&messages, messages.claimed_ns - least - messages.queued_ns)
}

fn queue(signs: &Signs) -> Option<Proof> {
    let messages = signs.messages?;
    let mut proof = of_time(&messages, messages.queued_ns)?;
    proof.evidence.lost_share = None;
    proof.evidence.beside_load = messages.is_beside_load;
    Some(proof)
}

fn path_delay(signs: &Signs) -> Option<Proof> {
    let messages = signs.messages?;
    let mut proof = of_time(&messages, messages.path_rtt_ns?)?;
    proof.evidence.lost_share = None;
    Some(proof)
}

fn far_program(signs: &Signs) -> Option<Proof> {
    let messages = signs.messages?;
    of_time(&messages, messages.far_program_ns)
}

fn wake_up(signs: &Signs) -> Option<Proof> {
    let messages = signs.messages?;
    of_time(&messages, messages.wake_up_ns)
}

fn handshake(signs: &Signs) -> Option<Proof> {
    let messages = signs.messages?;
    let rtt_ns = messages.path_rtt_ns.filter(|rtt| *rtt > 0.0)?;
    // What is added to a whole number of round trips is the ends' own time.
    let round_trips = (messages.claimed_ns / rtt_ns + 0.02).floor();
    let share = round_trips * rtt_ns / messages.claimed_ns;
    let evidence = Evidence {
        rtt_ns: Some(rtt_ns as u64),
        round_trips: Some(round_trips),
        ..Evidence::default()
    };
    proved(share, 0.5, evidence)
}

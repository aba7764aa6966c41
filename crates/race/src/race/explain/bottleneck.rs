//! Judges the bottleneck of a bulk transfer from evidence alone.

use deadheat_base::figures::percent;
use deadheat_base::units::BitRate;
use deadheat_result::explained::Limit;

/// Evidence about a transfer in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferEvidence {
    /// The sender.
    pub sender: EndWork,
    /// The receiver.
    pub receiver: EndWork,
    /// CPUs of the two ends.
    pub cpus: Cpus,
    /// Goodput at the receiver, in bits per second.
    pub goodput_bps: f64,
    /// Share of the sent data that found no room in the receiver's socket.
    pub dropped: f64,
    /// Share of the sent data that was lost on the path.
    pub lost: f64,
    /// TCP state at the sender; absent if the transport does not run on TCP.
    pub tcp: Option<TcpEvidence>,
}

/// Work of one end, as shares of the transfer's time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EndWork {
    /// Share of time in which its thread ran on a CPU.
    pub ran: f64,
    /// Share of time in which its CPU was busy with any work, interrupts included; absent if the thread is not
    /// pinned to one CPU.
    pub busy: Option<f64>,
    /// Share of time that this CPU spent in interrupts and soft interrupts.
    pub interrupts: f64,
}

/// CPUs on which the two ends ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    /// Same CPU for both.
    Shared,
    /// Separate CPUs, or CPUs that the scheduler chose.
    Apart,
}

/// TCP state at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TcpEvidence {
    /// Share of the time with unsent or unacknowledged data in which the peer's receive window limited it.
    pub rwnd_limited: f64,
    /// Share of that time in which its own send buffer limited it.
    pub sndbuf_limited: f64,
    /// Ratio of congestion window to smoothed round-trip time, in bits per second.
    pub window_bps: Option<f64>,
    /// Pacing rate in bits per second, if the kernel paces.
    pub pacing_bps: Option<f64>,
    /// Share of segments that were retransmitted.
    pub resent: f64,
}

/// Minimum share of the time for a thread or a CPU to count as fully occupied; the rest is spent on start, end and
/// delays of the other side.
const OCCUPIED: f64 = 0.9;
/// Minimum share of the time for a window or a buffer to count as the bottleneck.
const HELD_BACK: f64 = 0.3;
/// Minimum share of undelivered datagrams that shows which side could not keep up.
const NOTABLE_LOSS: f64 = 0.01;
/// Factor within which goodput counts as equal to the limit of a window or of pacing: headers and the swing of the
/// window account for the rest.
const ABOUT: f64 = 1.35;

/// Returns the bottleneck of the transfer, and the reason in one sentence.
pub fn judge(evidence: &TransferEvidence) -> (Limit, String) {
    let rules = [other_programs, receiver_drops, tcp_windows, cpus, path_loses, pacing_and_window];
    rules.iter().find_map(|rule| rule(evidence)).unwrap_or_else(|| remainder(evidence))
}

/// Detects a CPU that was busy, but not with the transfer.
fn other_programs(evidence: &TransferEvidence) -> Option<(Limit, String)> {
    let both = evidence.sender.ran + evidence.receiver.ran;
    let ends = [("sender", &evidence.sender), ("receiver", &evidence.receiver)];
    let others = |worker: &EndWork| {
        let ran = if evidence.cpus == Cpus::Shared { both } else { worker.ran };
        worker.busy.map_or(0.0, |busy| busy - ran - worker.interrupts)
    };
    let (end, worker) = ends.into_iter().find(|(_, worker)| others(worker) >= HELD_BACK)?;
    let reason = format!(
        "Other programs: the {end}'s CPU was busy {}, and {} was no part of this transfer; measure \
         on a quiet machine.",
        of_the_time(worker.busy.unwrap_or(0.0)),
        percent(others(worker))
    );
    Some((Limit::OtherPrograms, reason))
}

/// Detects datagrams that found no room in the receiver's socket.
fn receiver_drops(evidence: &TransferEvidence) -> Option<(Limit, String)> {
    if evidence.dropped < NOTABLE_LOSS {
        return None;
    }
    let dropped = percent(evidence.dropped);
    if evidence.cpus == Cpus::Shared {
        let reason = format!(
            "One CPU for both ends: the receiver's socket dropped {dropped} of the data that was sent while \
             the sender's thread ran {}.",
            of_the_time(evidence.sender.ran)
        );
        return Some((Limit::OneCpu, reason));
    }
    let receiver = &evidence.receiver;
    Some(if is_occupied(receiver) {
        let reason = format!(
            "The receiver's CPU: {}, and its socket dropped {dropped} of the data that was sent.",
            occupation("its", receiver)
        );
        (Limit::ReceiverCpu, reason)
    } else {
        let reason = format!(
            "The receive buffer: its socket dropped {dropped} of the data that was sent, although the \
             receiver's thread ran only {}: the data comes in bursts larger than the buffer.",
            of_the_time(receiver.ran)
        );
        (Limit::ReceiveWindow, reason)
    })
}

/// Returns the window or buffer that limited the sender's TCP.
fn tcp_windows(evidence: &TransferEvidence) -> Option<(Limit, String)> {
    let tcp = evidence.tcp.as_ref()?;
    if tcp.rwnd_limited >= HELD_BACK && tcp.rwnd_limited >= tcp.sndbuf_limited {
        let held = format!(
            "the receive window held the sender back {} that it had data to send",
            of_the_time(tcp.rwnd_limited)
        );
        return Some(match evidence.cpus {
            Cpus::Shared => (Limit::OneCpu, format!("One CPU for both ends: {held}.")),
            Cpus::Apart if is_occupied(&evidence.receiver) => {
                let worked = occupation("its", &evidence.receiver);
                (Limit::ReceiverCpu, format!("The receiver's CPU: {worked}, and {held}."))
            }
            Cpus::Apart => {
                let ran = of_the_time(evidence.receiver.ran);
                let reason = format!(
                    "The receive window: it held the sender back {} that it had data to send, while \
                     the receiver's thread ran only {ran}; a larger rcvbuf may help.",
                    of_the_time(tcp.rwnd_limited)
                );
                (Limit::ReceiveWindow, reason)
            }
        });
    }
    if tcp.sndbuf_limited >= HELD_BACK {
        let reason = format!(
            "The send buffer: it was too small {} that there was data to send; a larger sndbuf may \
             help.",
            of_the_time(tcp.sndbuf_limited)
        );
        return Some((Limit::SendBuffer, reason));
    }
    None
}

/// Detects ends that never wait.
fn cpus(evidence: &TransferEvidence) -> Option<(Limit, String)> {
    let (sender, receiver) = (&evidence.sender, &evidence.receiver);
    if evidence.cpus == Cpus::Shared {
        let both = sender.ran + receiver.ran;
        return (both.max(sender.busy.unwrap_or(0.0)) >= OCCUPIED).then(|| {
            let reason = format!(
                "One CPU for both ends: the sender's thread had it {}, the receiver's {}.",
                of_the_time(sender.ran),
                percent(receiver.ran)
            );
            (Limit::OneCpu, reason)
        });
    }
    let other = |worker: &EndWork| of_the_time(worker.ran);
    let more = occupied_share(sender) >= occupied_share(receiver);
    if is_occupied(sender) && (more || !is_occupied(receiver)) {
        let reason = format!(
            "The sender's CPU: {}, while the receiver's thread ran {}.",
            occupation("its", sender),
            other(receiver)
        );
        return Some((Limit::SenderCpu, reason));
    }
    is_occupied(receiver).then(|| {
        let reason = format!(
            "The receiver's CPU: {}, while the sender's thread ran {}.",
            occupation("its", receiver),
            other(sender)
        );
        (Limit::ReceiverCpu, reason)
    })
}

/// Detects messages that are lost on the path although both hosts have CPU time left.
fn path_loses(evidence: &TransferEvidence) -> Option<(Limit, String)> {
    (evidence.lost >= NOTABLE_LOSS).then(|| {
        let reason = format!(
            "The path: it lost {} of the data that was sent, and neither end's CPU was occupied.",
            percent(evidence.lost)
        );
        (Limit::Path, reason)
    })
}

/// Returns a limit that TCP set itself: pacing or congestion window.
fn pacing_and_window(evidence: &TransferEvidence) -> Option<(Limit, String)> {
    let tcp = evidence.tcp.as_ref()?;
    let goodput = evidence.goodput_bps;
    let about = |allowed: f64| allowed <= ABOUT * goodput && goodput <= ABOUT * allowed;
    if let Some(pacing) = tcp.pacing_bps.filter(|pacing| about(*pacing)) {
        let reason = format!(
            "Pacing: the sender's kernel let packets go at {}, and {} arrived.",
            rate(pacing),
            rate(goodput)
        );
        return Some((Limit::Pacing, reason));
    }
    let window = tcp.window_bps.filter(|window| about(*window))?;
    let lossy = if tcp.resent > 0.0 {
        format!("; {} of the segments were sent again, which keeps it small", percent(tcp.resent))
    } else {
        String::new()
    };
    let reason = format!(
        "The congestion window: one per round trip makes {}, and {} arrived{lossy}.",
        rate(window),
        rate(goodput)
    );
    Some((Limit::CongestionWindow, reason))
}

/// Returns the path as the remaining limit, because neither end was one.
fn remainder(evidence: &TransferEvidence) -> (Limit, String) {
    let reason = format!(
        "the sender's thread ran {} and the receiver's {}",
        of_the_time(evidence.sender.ran),
        percent(evidence.receiver.ran)
    );
    if let Some(tcp) = &evidence.tcp {
        let window = tcp.window_bps.map_or_else(String::new, |window| {
            format!(", and the congestion window would allow {}", rate(window))
        });
        return (
            Limit::Path,
            format!("The path: {reason}{window}; nothing at either end was full."),
        );
    }
    let reason = format!(
        "The send buffer: {reason}; each waits for the other, the sender for room and the receiver for \
         data."
    );
    (Limit::SendBuffer, reason)
}

/// Returns the share of the time that a worker's CPU worked for the transfer. Some kernels count interrupts as time
/// of the interrupted thread, so the sum is capped at the CPU's own.
fn occupied_share(worker: &EndWork) -> f64 {
    let with_interrupts = worker.ran + worker.interrupts;
    worker.ran.max(worker.busy.map_or(0.0, |busy| busy.min(with_interrupts)))
}

fn is_occupied(worker: &EndWork) -> bool {
    occupied_share(worker) >= OCCUPIED
}

/// Describes how a worker was occupied.
fn occupation(whose: &str, worker: &EndWork) -> String {
    match worker.busy {
        Some(busy) if worker.ran < OCCUPIED => format!(
            "{whose} CPU was busy {}, {} in interrupts, where packets are received",
            of_the_time(busy),
            percent(worker.interrupts)
        ),
        _ => format!("{whose} thread ran {}", of_the_time(worker.ran)),
    }
}

fn of_the_time(share: f64) -> String {
    format!("{} of the time", percent(share))
}

fn rate(bps: f64) -> String {
    BitRate(bps.max(0.0) as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: EndWork = EndWork { ran: 0.4, busy: Some(0.5), interrupts: 0.1 };
    const FULL: EndWork = EndWork { ran: 0.98, busy: Some(0.99), interrupts: 0.2 };
    const GBIT: f64 = 1e9;

    fn tcp() -> TcpEvidence {
        TcpEvidence { window_bps: Some(50.0 * GBIT), ..TcpEvidence::default() }
    }

    fn transfer() -> TransferEvidence {
        TransferEvidence {
            sender: IDLE,
            receiver: IDLE,
            cpus: Cpus::Apart,
            goodput_bps: GBIT,
            dropped: 0.0,
            lost: 0.0,
            tcp: Some(tcp()),
        }
    }

    #[track_caller]
    fn reason(evidence: TransferEvidence, limit: Limit, sentence: &str) {
        let (found, why) = judge(&evidence);
        assert_eq!((found, why.as_str()), (limit, sentence));
    }

    #[test]
    fn the_end_that_never_waits_is_the_limit() {
        reason(
            TransferEvidence { sender: FULL, ..transfer() },
            Limit::SenderCpu,
            "The sender's CPU: its thread ran 98 % of the time, while the receiver's thread ran 40 % of the time.",
        );
        reason(
            TransferEvidence { receiver: FULL, ..transfer() },
            Limit::ReceiverCpu,
            "The receiver's CPU: its thread ran 98 % of the time, while the sender's thread ran 40 % of the time.",
        );
        let fuller = EndWork { ran: 0.995, ..FULL };
        let (limit, _) = judge(&TransferEvidence { sender: FULL, receiver: fuller, ..transfer() });
        assert_eq!(limit, Limit::ReceiverCpu);
    }

    #[test]
    fn a_cpu_full_of_interrupts_counts_though_the_thread_rarely_runs() {
        let flooded = EndWork { ran: 0.25, busy: Some(0.97), interrupts: 0.7 };
        reason(
            TransferEvidence { receiver: flooded, ..transfer() },
            Limit::ReceiverCpu,
            "The receiver's CPU: its CPU was busy 97 % of the time, 70 % in interrupts, where packets are received, while the sender's thread ran 40 % of the time.",
        );
    }

    #[test]
    fn a_cpu_that_others_have_is_not_the_transfers_fault() {
        let taken = EndWork { ran: 0.16, busy: Some(1.0), interrupts: 0.04 };
        reason(
            TransferEvidence { sender: taken, receiver: FULL, ..transfer() },
            Limit::OtherPrograms,
            "Other programs: the sender's CPU was busy 100 % of the time, and 80 % was no part of this transfer; measure on a quiet machine.",
        );
        // If both ends share the CPU, the other end is not another program.
        let half = EndWork { ran: 0.5, busy: Some(1.0), interrupts: 0.0 };
        let shared =
            TransferEvidence { sender: half, receiver: half, cpus: Cpus::Shared, ..transfer() };
        assert_eq!(judge(&shared).0, Limit::OneCpu);
    }

    #[test]
    fn one_cpu_for_both_is_named_as_such() {
        let shared = TransferEvidence { cpus: Cpus::Shared, ..transfer() };
        let (sender, receiver) = (EndWork { ran: 0.55, ..IDLE }, EndWork { ran: 0.42, ..IDLE });
        reason(
            TransferEvidence { sender, receiver, ..shared.clone() },
            Limit::OneCpu,
            "One CPU for both ends: the sender's thread had it 55 % of the time, the receiver's 42 %.",
        );
        let held = TcpEvidence { rwnd_limited: 0.5, ..tcp() };
        assert_eq!(judge(&TransferEvidence { tcp: Some(held), ..shared.clone() }).0, Limit::OneCpu);
        assert_eq!(judge(&TransferEvidence { dropped: 0.4, tcp: None, ..shared }).0, Limit::OneCpu);
    }

    #[test]
    fn a_receive_window_is_the_receivers_fault_only_if_it_is_busy() {
        let held = Some(TcpEvidence { rwnd_limited: 0.31, ..tcp() });
        reason(
            TransferEvidence { receiver: FULL, tcp: held, ..transfer() },
            Limit::ReceiverCpu,
            "The receiver's CPU: its thread ran 98 % of the time, and the receive window held the sender back 31 % of the time that it had data to send.",
        );
        reason(
            TransferEvidence { tcp: held, ..transfer() },
            Limit::ReceiveWindow,
            "The receive window: it held the sender back 31 % of the time that it had data to send, while the receiver's thread ran only 40 % of the time; a larger rcvbuf may help.",
        );
    }

    #[test]
    fn a_small_send_buffer_is_named() {
        let held = Some(TcpEvidence { sndbuf_limited: 0.8, rwnd_limited: 0.4, ..tcp() });
        reason(
            TransferEvidence { tcp: held, ..transfer() },
            Limit::SendBuffer,
            "The send buffer: it was too small 80 % of the time that there was data to send; a larger sndbuf may help.",
        );
    }

    #[test]
    fn pacing_and_the_congestion_window_are_held_against_what_arrived() {
        let paced = Some(TcpEvidence { pacing_bps: Some(1.1 * GBIT), ..tcp() });
        reason(
            TransferEvidence { tcp: paced, ..transfer() },
            Limit::Pacing,
            "Pacing: the sender's kernel let packets go at 1.10 Gbit/s, and 1.00 Gbit/s arrived.",
        );
        let windowed =
            TcpEvidence { window_bps: Some(1.2 * GBIT), resent: 0.013, ..TcpEvidence::default() };
        reason(
            TransferEvidence { tcp: Some(windowed), ..transfer() },
            Limit::CongestionWindow,
            "The congestion window: one per round trip makes 1.20 Gbit/s, and 1.00 Gbit/s arrived; 1.3 % of the segments were sent again, which keeps it small.",
        );
    }

    #[test]
    fn what_is_left_is_the_path() {
        reason(
            transfer(),
            Limit::Path,
            "The path: the sender's thread ran 40 % of the time and the receiver's 40 %, and the congestion window would allow 50.0 Gbit/s; nothing at either end was full.",
        );
        reason(
            TransferEvidence { tcp: None, lost: 0.35, ..transfer() },
            Limit::Path,
            "The path: it lost 35 % of the data that was sent, and neither end's CPU was occupied.",
        );
    }

    #[test]
    fn datagrams_tell_by_where_they_vanish() {
        let dropping = TransferEvidence { dropped: 0.25, tcp: None, ..transfer() };
        reason(
            TransferEvidence { receiver: FULL, sender: FULL, ..dropping.clone() },
            Limit::ReceiverCpu,
            "The receiver's CPU: its thread ran 98 % of the time, and its socket dropped 25 % of the data that was sent.",
        );
        reason(
            dropping,
            Limit::ReceiveWindow,
            "The receive buffer: its socket dropped 25 % of the data that was sent, although the receiver's thread ran only 40 % of the time: the data comes in bursts larger than the buffer.",
        );
        let (limit, _) = judge(&TransferEvidence { sender: FULL, tcp: None, ..transfer() });
        assert_eq!(limit, Limit::SenderCpu);
    }

    #[test]
    fn a_pipe_whose_ends_wait_for_each_other_is_too_small() {
        reason(
            TransferEvidence { tcp: None, ..transfer() },
            Limit::SendBuffer,
            "The send buffer: the sender's thread ran 40 % of the time and the receiver's 40 %; each waits for the other, the sender for room and the receiver for data.",
        );
    }
}

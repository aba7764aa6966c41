//! The judge on signs that are made by hand.

use super::judge::{judge, judge_all};
use super::race::keep_tests;
use super::signs::{EndSigns, MessageSigns, PathSigns, ProtocolSigns, Signs, WorkKind};
use super::table::TABLE;
use super::{Cause, CauseTest, ContenderCauses, SignSource, TestOutcome};
use deadheat_contract::measurements::rounds::Rounds;

const IDLE: EndSigns = EndSigns { ran: 0.4, busy: Some(0.5), interrupts: 0.1 };
const FULL: EndSigns = EndSigns { ran: 0.98, busy: Some(0.99), interrupts: 0.2 };
const MS: f64 = 1e6;

fn kernel() -> ProtocolSigns {
    ProtocolSigns {
        is_kernel: true,
        busy: 1.0,
        queued: Some(0.0),
        srtt_ns: Some(20_000_000),
        min_rtt_ns: Some(20_000_000),
        ..ProtocolSigns::default()
    }
}

fn transfer() -> Signs {
    Signs {
        span_ns: 1_000_000_000,
        bytes: 125_000_000,
        goodput_bps: 1e9,
        sender: Some(IDLE),
        receiver: Some(IDLE),
        protocol: Some(kernel()),
        ..Signs::default()
    }
}

/// Returns a transfer whose protocol has these signs.
fn with(protocol: ProtocolSigns) -> Signs {
    Signs { protocol: Some(protocol), ..transfer() }
}

fn causes(signs: &Signs) -> Vec<Cause> {
    judge(signs).into_iter().map(|finding| finding.cause).collect()
}

#[test]
fn a_cause_stands_behind_those_that_exclude_it() {
    for (at, row) in TABLE.iter().enumerate() {
        let before: Vec<Cause> = TABLE[..at].iter().map(|row| row.cause).collect();
        assert!(row.excluded_by.iter().all(|cause| before.contains(cause)), "{:?}", row.cause);
    }
}

#[test]
fn nothing_proved_is_not_known() {
    assert_eq!(causes(&transfer()), []);
    let works = [WorkKind::Bulk, WorkKind::Messages, WorkKind::Losses, WorkKind::Connections];
    for work in works {
        assert_eq!(causes(&Signs { work, ..Signs::default() }), [], "{work:?}");
    }
}

#[test]
fn the_end_that_never_waits_is_the_cause() {
    assert_eq!(causes(&Signs { sender: Some(FULL), ..transfer() }), [Cause::SenderCpu]);
    assert_eq!(causes(&Signs { receiver: Some(FULL), ..transfer() }), [Cause::ReceiverCpu]);
    let fuller = Some(EndSigns { ran: 0.995, ..FULL });
    let both = Signs { sender: Some(FULL), receiver: fuller, ..transfer() };
    assert_eq!(causes(&both), [Cause::ReceiverCpu]);
    let held = ProtocolSigns { rwnd_limited: 0.31, ..kernel() };
    assert_eq!(causes(&Signs { receiver: Some(FULL), ..with(held) }), [Cause::ReceiverCpu]);
}

#[test]
fn a_cpu_full_of_interrupts_counts_though_the_thread_rarely_runs() {
    let flooded = EndSigns { ran: 0.25, busy: Some(0.97), interrupts: 0.7 };
    let found = judge(&Signs { receiver: Some(flooded), ..transfer() });
    assert_eq!((found[0].cause, found[0].evidence.interrupts), (Cause::ReceiverCpu, Some(0.7)));
}

#[test]
fn a_cpu_that_others_have_is_not_the_transfers_fault() {
    let taken = EndSigns { ran: 0.16, busy: Some(1.0), interrupts: 0.04 };
    let signs = Signs { sender: Some(taken), receiver: Some(FULL), ..transfer() };
    assert_eq!(causes(&signs), [Cause::OtherPrograms]);
    let half = Some(EndSigns { ran: 0.5, busy: Some(1.0), interrupts: 0.0 });
    let shared = Signs { sender: half, receiver: half, is_cpu_shared: true, ..transfer() };
    assert_eq!(causes(&shared), [Cause::OneCpu]);
}

#[test]
fn one_cpu_for_both_is_named_where_its_receiver_waits_for_its_turn() {
    let shared = Signs { is_cpu_shared: true, ..transfer() };
    let held = ProtocolSigns { rwnd_limited: 0.5, ..kernel() };
    assert_eq!(causes(&Signs { protocol: Some(held), ..shared.clone() }), [Cause::OneCpu]);
    assert_eq!(causes(&Signs { dropped: 0.4, protocol: None, ..shared.clone() })[0], Cause::OneCpu);
    let [sender, receiver] = [0.55, 0.42].map(|ran| Some(EndSigns { ran, ..IDLE }));
    assert_eq!(causes(&Signs { sender, receiver, ..shared }), [Cause::OneCpu]);
}

#[test]
fn a_full_window_or_buffer_is_named_with_its_share() {
    let found = judge(&with(ProtocolSigns {
        rwnd_limited: 0.9,
        peer_window_bytes: Some(65_536),
        ..kernel()
    }));
    assert_eq!((found[0].cause, found[0].share), (Cause::ReceiveWindow, 0.9));
    let evidence = found[0].evidence;
    assert_eq!((evidence.bytes, evidence.rate_bps), (Some(65_536), Some(26_214_400.0)));
    let held = ProtocolSigns { sndbuf_limited: 0.8, rwnd_limited: 0.1, ..kernel() };
    assert_eq!(causes(&with(held)), [Cause::SendBuffer]);
    let library = ProtocolSigns { library_limited: 0.7, is_kernel: false, ..kernel() };
    assert_eq!(causes(&with(library)), [Cause::LibraryWindow]);
}

#[test]
fn a_queue_at_the_bottleneck_is_the_path_and_a_small_window_without_one_is_congestion_control() {
    let congested = ProtocolSigns { is_congested: true, resent: 0.01, ..kernel() };
    let queued = ProtocolSigns { queued: Some(0.9), ..congested };
    assert_eq!(causes(&with(queued)), [Cause::PathRate]);
    assert_eq!(causes(&with(congested)), [Cause::CongestionWindow]);
    // The path's own account decides where there is one.
    let busy = |busy| Some(PathSigns { busy, rate_bps: Some(2e7), ..PathSigns::default() });
    assert_eq!(causes(&Signs { path: busy(0.98), ..with(congested) }), [Cause::PathRate]);
    assert_eq!(causes(&Signs { path: busy(0.1), ..with(queued) }), [Cause::CongestionWindow]);
}

#[test]
fn a_transfer_that_ends_while_its_window_grows_is_the_start() {
    let growing = Signs {
        span_ns: 150_000_000,
        bytes: 100_000,
        ..with(ProtocolSigns { is_starting: true, ..kernel() })
    };
    let found = judge(&growing);
    assert_eq!(found[0].cause, Cause::SlowStart);
    assert_eq!(found[0].evidence.round_trips, Some(7.5));
    let at_once = Signs { span_ns: 20_000_000, ..growing };
    assert_eq!(causes(&at_once), []);
}

#[test]
fn a_constant_burst_in_each_round_trip_is_the_window_of_a_sender_that_is_not_ours() {
    let rounds = Rounds {
        rtt_ns: 16_000_000,
        n: 60,
        p10_bytes: 65_000,
        p50_bytes: 65_536,
        p90_bytes: 65_536,
        silent_ns: 950_000_000,
        span_ns: 970_000_000,
    };
    let bytes = 60 * 65_536;
    let foreign = Signs { bytes, rounds: Some(rounds), sender: None, protocol: None, ..transfer() };
    let found = judge(&foreign);
    assert_eq!((found[0].cause, found[0].evidence.bytes), (Cause::PeerWindow, Some(65_536)));
    let varied = Rounds { p10_bytes: 20_000, ..rounds };
    assert_eq!(causes(&Signs { rounds: Some(varied), ..foreign.clone() }), []);
    // A program that writes from time to time is no window.
    let rare = Rounds { rtt_ns: 4_000_000, ..rounds };
    assert_eq!(causes(&Signs { rounds: Some(rare), ..foreign.clone() }), []);
    assert_eq!(causes(&Signs { sender: Some(IDLE), ..foreign }), []);
}

#[test]
fn messages_are_told_by_where_they_vanish() {
    let lossy = Signs { protocol: None, ..transfer() };
    assert_eq!(causes(&Signs { dropped: 0.25, ..lossy.clone() }), [Cause::ReceiverSocket]);
    assert_eq!(causes(&Signs { lost: 0.35, ..lossy.clone() }), [Cause::PathLoss]);
    let full = PathSigns { busy: 1.0, overflowed: 0.35, ..PathSigns::default() };
    let work = WorkKind::Losses;
    let signs = Signs { work, lost: 0.35, path: Some(full), ..lossy };
    assert_eq!(causes(&signs), [Cause::PathRate]);
}

#[test]
fn a_message_is_split_into_its_parts() {
    let message = MessageSigns {
        claimed_ns: 100.0 * MS,
        least_ns: Some(40.0 * MS),
        median_ns: Some(42.0 * MS),
        path_rtt_ns: Some(40.0 * MS),
        resent: 0.02,
        ..MessageSigns::default()
    };
    let of = |messages| {
        causes(&Signs { work: WorkKind::Messages, messages: Some(messages), ..Signs::default() })
    };
    assert_eq!(of(message), [Cause::Retransmission, Cause::PathDelay]);
    assert_eq!(of(MessageSigns { resent: 0.0, ..message }), [Cause::PathDelay]);
    let short = MessageSigns { least_ns: Some(10.0 * MS), ..message };
    let late = MessageSigns { claimed_ns: 260.0 * MS, ..short };
    assert_eq!(of(late), [Cause::Timeouts]);
    let queued = MessageSigns { queued_ns: 55.0 * MS, resent: 0.0, ..message };
    assert_eq!(of(queued), [Cause::Queue, Cause::PathDelay]);
    let set_up = Signs {
        work: WorkKind::Connections,
        messages: Some(MessageSigns { claimed_ns: 83.0 * MS, ..message }),
        ..Signs::default()
    };
    let found = judge(&set_up);
    assert_eq!((found[0].cause, found[0].evidence.round_trips), (Cause::Handshake, Some(2.0)));
}

#[test]
fn a_contender_has_the_causes_that_most_trials_prove() {
    let held = |share| with(ProtocolSigns { rwnd_limited: share, ..kernel() });
    let trials: Vec<Signs> = [0.9, 0.5, 0.7, 0.1].map(held).to_vec();
    let found = judge_all(&trials);
    assert_eq!((found.len(), found[0].trials, found[0].of), (1, 3, 4));
    assert_eq!(found[0].share, 0.7);
    assert_eq!(judge_all(&[held(0.9), held(0.1), held(0.1)]), []);
    // What the usual trials prove is not said of the pass again.
    let pass = Signs { source: SignSource::Pass, ..held(0.8) };
    assert_eq!(judge_all(&[held(0.9), pass.clone()]).len(), 1);
    assert_eq!(judge_all(&[pass])[0].source, SignSource::Pass);
}

#[test]
fn what_a_test_showed_stays_with_its_cause_of_its_contender() {
    let held = |share| with(ProtocolSigns { rwnd_limited: share, ..kernel() });
    let causes =
        |contender, share| ContenderCauses { contender, findings: judge_all(&[held(share)]) };
    let shown = CauseTest {
        change: "rcvbuf=8MB".to_owned(),
        result: TestOutcome::Confirmed,
        ratio: Some(3.0),
    };
    let mut before = [causes(0, 0.8), causes(1, 0.8)];
    before[0].findings[0].test = Some(shown.clone());
    let mut now = [causes(0, 0.9), causes(1, 0.9)];
    keep_tests(&before, &mut now);
    assert_eq!(now[0].findings[0].test, Some(shown));
    assert_eq!((now[0].findings[0].share, &now[1].findings[0].test), (0.9, &None));
}

#[test]
fn a_pace_is_named_where_data_goes_out_at_it_and_the_window_is_not() {
    let paced = ProtocolSigns { at_pace: 0.9, pace_bps: Some(2e7), is_starting: true, ..kernel() };
    let found = judge(&with(paced));
    assert_eq!((found.len(), found[0].cause), (1, Cause::Pacing));
    assert_eq!(found[0].evidence.rate_bps, Some(2e7));
    assert_eq!(causes(&with(ProtocolSigns { pace_bps: None, is_starting: false, ..paced })), []);
}

#[test]
fn overhead_is_what_a_busy_link_carried_beside_the_data() {
    let path = PathSigns { busy: 0.98, carried_bytes: 150_000_000, ..PathSigns::default() };
    let found = judge(&Signs { path: Some(path), bytes: 144_800_000, ..transfer() });
    let of: Vec<(Cause, f64)> = found.iter().map(|one| (one.cause, one.share)).collect();
    assert_eq!(of[0], (Cause::PathRate, 0.98));
    assert_eq!(of[1].0, Cause::Overhead);
    assert!((of[1].1 - 0.0347).abs() < 1e-4, "{of:?}");
    // A link that is idle half of the time is no limit.
    let idle = PathSigns { busy: 0.4, ..path };
    assert_eq!(causes(&Signs { path: Some(idle), bytes: 144_800_000, ..transfer() }), []);
}

//! Tests of queues against the promises of their RFCs, in virtual time.

use super::*;
use crate::network::{Discipline, Ecn, Limit, Queue as QueueModel};

const CODEL: Discipline =
    Discipline::Codel { target: Nanos::from_millis(5), interval: Nanos::from_millis(100) };
const FQ: Discipline =
    Discipline::FqCodel { target: Nanos::from_millis(5), interval: Nanos::from_millis(100) };
const NOT_ECT: Codepoint = Codepoint::NotEct;
const PIE: Discipline = Discipline::Pie { target: Nanos::from_millis(15) };

/// Returns a link of 12 Mbit/s: a packet of 1500 bytes lasts a millisecond.
pub(super) fn link(limit: Limit, discipline: Discipline, ecn: Ecn) -> Impairments {
    let queue = QueueModel { limit, discipline, ecn };
    Impairments { rate: fixed(12), queue, ..Impairments::default() }
}

pub(super) fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the queueing times of packets delivered from `from` on.
pub(super) fn queued(all: &[Departure<u64>], from: Nanos) -> Vec<u64> {
    let kept = |d: &&Departure<u64>| matches!(d.end, End::Delivered(_)) && d.at >= from;
    all.iter().filter(kept).map(|d| d.queued.0).collect()
}

#[test]
fn limits_are_exact() {
    // One is in transmission, so with room for ten, eleven of a burst get through.
    for limit in [
        Limit::Packets(10),
        Limit::Bytes(15_000),
        Limit::Bytes(16_499),
        Limit::Time(Nanos::from_millis(10)),
        Limit::Time(Nanos::from_millis(2)),
    ] {
        let (all, channel) = run(&link(limit, Discipline::DropTail, Ecn::Ignored), 100, 0);
        assert_eq!(delivered(&all), (0..11).collect::<Vec<u64>>(), "{limit:?}");
        assert_eq!(channel.fates().full, 89);
        assert_eq!(count(&all, Cause::Full), 89);
    }
    let (all, _) = run(&link(Limit::Bytes(14_999), Discipline::DropTail, Ecn::Ignored), 100, 0);
    assert_eq!(delivered(&all).len(), 10);
    let longer = Limit::Time(Nanos::from_millis(20));
    let (all, _) = run(&link(longer, Discipline::DropTail, Ecn::Ignored), 100, 0);
    assert_eq!(delivered(&all).len(), 21);
    // A place becomes free at the moment at which a packet begins to leave.
    let (all, _) = run(&link(Limit::Packets(1), Discipline::DropTail, Ecn::Ignored), 50, 1_000_000);
    assert_eq!(delivered(&all).len(), 50);
}

#[test]
fn overhead_counts_in_the_queue() {
    let mut model = link(Limit::Bytes(15_000), Discipline::DropTail, Ecn::Ignored);
    model.overhead = 38;
    let (all, channel) = run(&model, 100, 0);
    assert_eq!(delivered(&all).len(), 1 + 15_000 / 1_538);
    assert_eq!(channel.fates().delivered_bytes, 10 * 1_500);
}

/// Simulates a sender that reacts to drops and marks as Reno does: it halves its window once per round trip of 40
/// ms, and grows by a packet in each. Returns everything that left, for `time`.
fn reno(
    model: &Impairments,
    codepoint: Codepoint,
    time: Nanos,
) -> (Vec<Departure<u64>>, PacketOutcomes) {
    const WAY: u64 = 20_000_000;
    let mut channel = channel(model);
    let (mut all, mut seen) = (Vec::new(), 0);
    let (mut window, mut flying, mut number) = (10.0_f64, 0.0, 0);
    let mut answers: VecDeque<(u64, bool)> = VecDeque::new();
    let (mut now, mut calm) = (0, 0);
    while now < time.0 {
        while flying < window {
            channel.arrive(Nanos(now), &Packet { codepoint, ..MTU }, number);
            number += 1;
            flying += 1.0;
        }
        let next = channel.next().map_or(u64::MAX, |next| next.0);
        now = now.max(next.min(answers.front().map_or(u64::MAX, |(at, _)| *at)));
        drain(&mut channel, now, &mut all);
        for departure in &all[seen..] {
            let fine = departure.end == End::Delivered(Changes::default());
            answers.push_back((departure.at.0 + 2 * WAY, fine));
        }
        seen = all.len();
        while let Some((_, fine)) = answers.pop_front_if(|(at, _)| *at <= now) {
            flying -= 1.0;
            if fine {
                window += 1.0 / window;
            } else if now >= calm {
                window = (window / 2.0).max(2.0);
                calm = now + 2 * WAY;
            }
        }
    }
    (all, channel.fates())
}

#[test]
fn codel_brings_a_standing_queue_near_its_target() {
    let time = Nanos::from_secs(60);
    let half = Nanos::from_secs(30);
    let plain = link(Limit::Packets(1_000), Discipline::DropTail, Ecn::Ignored);
    let (all, _) = reno(&plain, NOT_ECT, time);
    assert!(median(queued(&all, half)) > 100_000_000);
    let (all, fates) = reno(&link(Limit::Packets(1_000), CODEL, Ecn::Ignored), NOT_ECT, time);
    let middle = median(queued(&all, half));
    assert!(middle < 10_000_000, "{middle}");
    assert!(fates.early > 5 && fates.full == 0, "{fates:?}");
    // The link stays in use.
    assert!(fates.busy_ns > 50_000_000_000, "{fates:?}");
}

#[test]
fn codel_lets_a_burst_pass_and_leaves_a_single_packet_alone() {
    // 60 packets at once are gone after 60 ms, less than the interval.
    let model = link(Limit::Packets(1_000), CODEL, Ecn::Ignored);
    let (_, channel) = run(&model, 60, 0);
    assert_eq!((channel.fates().early, channel.fates().delivered), (0, 60));
    // If the sender does not react, drops get closer: the n-th about interval / sqrt(n) after the one before.
    let (all, channel) = run(&model, 20_000, 900_000);
    let drops: Vec<u64> =
        all.iter().filter(|d| d.end == End::Dropped(Cause::Early)).map(|d| d.at.0).collect();
    assert!(channel.fates().early > 20);
    let gaps: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).take(9).collect();
    for (i, gap) in gaps.iter().enumerate() {
        let wanted = 100e6 / ((i + 1) as f64).sqrt();
        assert!((*gap as f64 - wanted).abs() < 1.1e6, "{i}: {gap} for {wanted}");
    }
}

#[test]
fn what_can_be_marked_is_not_dropped() {
    let time = Nanos::from_secs(30);
    for discipline in [CODEL, FQ, PIE] {
        let model = link(Limit::Packets(1_000), discipline, Ecn::Marks);
        let (all, fates) = reno(&model, Codepoint::Ect0, time);
        assert!(fates.marked > 3, "{discipline:?}: {fates:?}");
        assert_eq!((fates.early, fates.full), (0, 0), "{discipline:?}: {fates:?}");
        let middle = median(queued(&all, Nanos::from_secs(15)));
        assert!(middle < 25_000_000, "{discipline:?}: {middle}");
        let marked = |d: &&Departure<u64>| matches!(d.end, End::Delivered(c) if c.marked);
        // Few packets are marked and have not left yet.
        assert!(fates.marked - all.iter().filter(marked).count() as u64 <= 1);
        let (_, dropped) = reno(&model, NOT_ECT, time);
        assert!(dropped.marked == 0 && dropped.early > 3, "{discipline:?}: {dropped:?}");
    }
}

#[test]
fn pie_steers_to_its_target_and_lets_bursts_pass() {
    let model = link(Limit::Packets(1_000), PIE, Ecn::Ignored);
    let (all, fates) = reno(&model, NOT_ECT, Nanos::from_secs(60));
    let middle = median(queued(&all, Nanos::from_secs(30)));
    assert!((5_000_000..25_000_000).contains(&middle), "{middle}");
    assert!(fates.early > 5 && fates.full == 0, "{fates:?}");
    assert!(fates.busy_ns > 50_000_000_000, "{fates:?}");
    // A burst that is over within 150 ms loses nothing.
    let (_, channel) = run(&model, 120, 0);
    assert_eq!(channel.fates().early, 0);
    // If the sender does not react, the excess is dropped: a tenth, of packets 0.9 ms apart.
    let (all, channel) = run(&model, 200_000, 900_000);
    let share = channel.fates().early as f64 / 200_000.0;
    assert!((share - 0.1).abs() < 0.01, "{share}");
    let middle = median(queued(&all, Nanos::from_secs(90)));
    assert!((10_000_000..20_000_000).contains(&middle), "{middle}");
}

#[test]
fn pie_starts_afresh_after_a_long_rest() {
    let model = link(Limit::Packets(1_000), PIE, Ecn::Ignored);
    let mut channel = channel(&model);
    let mut all = Vec::new();
    for i in 0..5_000 {
        drain(&mut channel, i * 500_000, &mut all);
        channel.arrive(Nanos(i * 500_000), &MTU, i);
    }
    finish(&mut channel, &mut all);
    let before = channel.fates().early;
    assert!(before > 0);
    // A year later.
    let later = 365 * 86_400 * 1_000_000_000;
    for i in 0..120 {
        channel.arrive(Nanos(later), &MTU, i);
    }
    finish(&mut channel, &mut all);
    assert_eq!(channel.fates().early, before);
}

#[test]
fn flows_do_not_disturb_each_other() {
    let model = link(Limit::Packets(10_000), FQ, Ecn::Ignored);
    let mut channel = channel(&model);
    let mut all = Vec::new();
    // One flow sends twice what the link carries, another a packet each 20 ms.
    for i in 0..20_000 {
        let now = i * 500_000;
        drain(&mut channel, now, &mut all);
        channel.arrive(Nanos(now), &MTU, i);
        if i % 40 == 0 {
            channel.arrive(Nanos(now), &Packet { bytes: 200, flow: 2, ..MTU }, i + 1_000_000);
        }
    }
    finish(&mut channel, &mut all);
    let sparse: Vec<&Departure<u64>> = all.iter().filter(|d| d.handle >= 1_000_000).collect();
    assert_eq!(sparse.len(), 500);
    for departure in sparse {
        assert!(matches!(departure.end, End::Delivered(_)));
        // At most two packets of the other flow were before it.
        assert!(departure.queued.0 <= 2_000_000, "{departure:?}");
    }
}

#[test]
fn equal_flows_share_equally_and_the_fattest_pays() {
    let model = link(Limit::Packets(200), FQ, Ecn::Ignored);
    let mut channel = channel(&model);
    let mut all = Vec::new();
    // Flow 1 sends three times as much as flow 2 or 3; each of the three alone would fill the link.
    let mut number = 0;
    for i in 0..20_000_u64 {
        let now = i * 1_000_000;
        drain(&mut channel, now, &mut all);
        for flow in [1, 2, 1, 3, 1] {
            channel.arrive(Nanos(now), &Packet { flow, ..MTU }, number * 10 + flow);
            number += 1;
        }
    }
    finish(&mut channel, &mut all);
    let share = |flow| delivered(&all).iter().filter(|h| **h % 10 == flow).count() as f64;
    let total = delivered(&all).len() as f64;
    for flow in [1, 2, 3] {
        let share = share(flow) / total;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "flow {flow}: {share}");
    }
    let fates = channel.fates();
    assert!(fates.full > 0 && fates.delivered + fates.full + fates.early == 100_000, "{fates:?}");
}

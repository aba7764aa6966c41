//! The server, in exact time.

use std::sync::Arc;

use super::*;
use crate::network::{Limit, Queue as QueueModel};
use crate::trace::{Step, Trace};

fn endless() -> QueueModel {
    QueueModel { limit: Limit::Packets(u64::MAX), ..QueueModel::default() }
}

fn trace(length: Nanos, content: Content) -> Rate {
    let (file, sha256) = (String::from("a.trace"), String::new());
    Rate::Trace(Arc::new(Trace { file, sha256, length, content }))
}

fn step(from_ms: u64, mbit: u64) -> Step {
    let rate = BitRate(mbit * 1_000_000);
    Step { from: Nanos::from_millis(from_ms), rate, delay: None, loss: None }
}

fn times(all: &[Departure<u64>]) -> Vec<u64> {
    all.iter().map(|departure| departure.at.0).collect()
}

#[test]
fn a_million_packets_take_just_their_time() {
    for rate in [7_777_777, 20_000_000, 3, 123_456_789_123] {
        let model = Impairments {
            rate: Rate::Fixed(BitRate(rate)),
            overhead: 38,
            queue: endless(),
            ..Impairments::default()
        };
        let count = if rate == 3 { 1_000 } else { 1_000_000 };
        let mut channel = channel(&model);
        for i in 0..count {
            channel.arrive(Nanos(5), &MTU, i);
        }
        let mut last = Nanos::ZERO;
        while let Some(next) = channel.next() {
            while let Some(departure) = channel.depart(next) {
                last = departure.at;
            }
        }
        let bits = u128::from(count) * 1_538 * 8;
        let wanted = (bits * 1_000_000_000).div_ceil(u128::from(rate));
        assert_eq!(u128::from(last.0 - 5), wanted, "{rate}");
        let fates = channel.fates();
        assert_eq!(u128::from(fates.busy_ns), wanted);
        assert_eq!(fates.busy_bytes, count * 1_538);
    }
}

#[test]
fn a_packet_alone_takes_its_own_time() {
    // 1500 bytes at 12 Mbit/s last a millisecond.
    let model =
        Impairments { rate: fixed(12), delay: Nanos::from_millis(5), ..Impairments::default() };
    let (all, channel) = run(&model, 10, 3_000_000);
    assert_eq!(times(&all), (0..10).map(|i| i * 3_000_000 + 6_000_000).collect::<Vec<u64>>());
    assert!(all.iter().all(|departure| departure.queued == Nanos::ZERO));
    assert_eq!(channel.fates().busy_ns, 10_000_000);
    // Twice as fast as they leave: each waits half a packet time longer than the one before.
    let (all, channel) = run(&model, 10, 500_000);
    assert_eq!(times(&all), (0..10).map(|i| i * 1_000_000 + 6_000_000).collect::<Vec<u64>>());
    let queued: Vec<u64> = all.iter().map(|departure| departure.queued.0).collect();
    assert_eq!(queued, (0..10).map(|i| i * 500_000).collect::<Vec<u64>>());
    assert_eq!(channel.fates().busy_ns, 10_000_000);
}

#[test]
fn what_a_channel_does_is_not_when_it_is_asked() {
    let model = Impairments {
        rate: fixed(10),
        loss: Loss::Bernoulli(0.05),
        delay: Nanos::from_millis(3),
        queue: QueueModel { limit: Limit::Packets(20), ..QueueModel::default() },
        ..Impairments::default()
    };
    let (often, first) = run(&model, 5_000, 1_000_000);
    let mut channel = channel(&model);
    for i in 0..5_000 {
        channel.arrive(Nanos(i * 1_000_000), &MTU, i);
    }
    let mut once = Vec::new();
    drain(&mut channel, u64::MAX, &mut once);
    assert_eq!(often, once);
    assert_eq!(first.fates(), channel.fates());
}

#[test]
fn a_rate_may_change_under_way() {
    // 12 Mbit/s for 2 ms, 6 for 1 ms, nothing for 1 ms.
    let content = Content::Steps(vec![step(0, 12), step(2, 6), step(3, 0)]);
    let rate = trace(Nanos::from_millis(4), content);
    let model = Impairments { rate, queue: endless(), ..Impairments::default() };
    let (all, channel) = run(&model, 6, 0);
    // The third packet begins at 2 ms, is half finished at 3 ms, waits, and continues at 4 ms at twice the rate.
    let ms: Vec<f64> = times(&all).iter().map(|at| *at as f64 / 1e6).collect();
    assert_eq!(ms, [1.0, 2.0, 4.5, 5.5, 7.0, 9.0]);
    assert_eq!(channel.fates().busy_ns, 9_000_000);
}

#[test]
fn rounds_of_a_trace_are_skipped_exactly() {
    // 1 kbit/s for 1 ms of every 10 ms: 1500 bytes take 12 000 rounds.
    let mut slow = step(0, 0);
    slow.rate = BitRate(1_000);
    let content = Content::Steps(vec![slow, step(1, 0)]);
    let model = Impairments {
        rate: trace(Nanos::from_millis(10), content),
        queue: endless(),
        ..Impairments::default()
    };
    let (all, _) = run(&model, 2, 0);
    assert_eq!(times(&all), [11_999 * 10_000_000 + 1_000_000, 23_999 * 10_000_000 + 1_000_000]);
}

#[test]
fn a_dead_link_delivers_nothing() {
    for rate in [
        trace(Nanos::from_millis(4), Content::Steps(vec![step(0, 0)])),
        trace(Nanos::from_millis(4), Content::Steps(Vec::new())),
        trace(Nanos::from_millis(4), Content::Opportunities { bytes: 1_504, at: Vec::new() }),
        Rate::Fixed(BitRate(0)),
    ] {
        let limit = Limit::Packets(1_000);
        let queue = crate::network::Queue { limit, ..Default::default() };
        let model = Impairments { rate, queue, ..Impairments::default() };
        let mut channel = channel(&model);
        for i in 0..2_000 {
            channel.arrive(Nanos(i), &MTU, i);
        }
        assert_eq!(channel.depart(Nanos::from_secs(1_000_000)).map(|d| d.end), {
            let full = channel.fates().full > 0;
            full.then_some(End::Dropped(Cause::Full))
        });
        assert!(channel.fates().waiting >= 1_000);
    }
}

#[test]
fn a_trace_sets_delay_and_loss() {
    let mut steps = vec![step(0, 1_000), step(10, 1_000)];
    steps[1].delay = Some(Nanos::from_millis(7));
    steps[1].loss = Some(1.0);
    let rate = trace(Nanos::from_millis(20), Content::Steps(steps.clone()));
    let model = Impairments { rate, delay: Nanos::from_millis(2), ..Impairments::default() };
    let (all, channel) = run(&model, 40, 1_000_000);
    assert_eq!(channel.fates().lost, 20);
    assert_eq!(channel.log().to_string(), "11-20/31-40");
    let kept = all.iter().find(|d| d.handle == 0).map(|d| d.at.0);
    assert_eq!(kept, Some(2_012_000));
    steps[1].loss = None;
    let rate = trace(Nanos::from_millis(20), Content::Steps(steps));
    let model = Impairments { rate, delay: Nanos::from_millis(2), ..Impairments::default() };
    let (all, _) = run(&model, 25, 1_000_000);
    assert_eq!(all[10].at.0, 17_012_000);
    // The delay falls by 5 ms at 20 ms; earlier packets are not overtaken.
    assert_eq!(times(&all)[19..22], [26_012_000, 26_012_000, 26_012_000]);
    assert_eq!(delivered(&all), (0..25).collect::<Vec<u64>>());
}

#[test]
fn opportunities_carry_what_is_there() {
    let at = [1, 1, 3, 10].map(Nanos::from_millis).to_vec();
    let rate = trace(Nanos::from_millis(10), Content::Opportunities { bytes: 1_504, at });
    let model = Impairments { rate, queue: endless(), ..Impairments::default() };
    // All at once: two at 1 ms, one at 3, one at 10, and the next round.
    let (all, channel) = run(&model, 6, 0);
    let ms: Vec<u64> = times(&all).iter().map(|at| at / 1_000_000).collect();
    assert_eq!(ms, [1, 1, 3, 10, 11, 11]);
    assert_eq!(channel.fates().busy_ns, 11_000_000);
    // One every 4 ms, from 0 on: the opportunity at 3 ms and the second of each pair find no packet.
    let (all, _) = run(&model, 4, 4_000_000);
    let ms: Vec<u64> = times(&all).iter().map(|at| at / 1_000_000).collect();
    assert_eq!(ms, [1, 10, 11, 13]);
}

#[test]
fn an_opportunity_is_shared_and_several_are_joined() {
    let at = [2, 4, 6].map(Nanos::from_millis).to_vec();
    let rate = trace(Nanos::from_millis(6), Content::Opportunities { bytes: 1_000, at });
    let model = Impairments { rate, queue: endless(), ..Impairments::default() };
    let mut channel = channel(&model);
    let packet = |bytes| Packet { bytes, ..MTU };
    // 400 and 600 share the first; 2500 takes two and a half; 500 the other half.
    for (i, bytes) in [400, 600, 2_500, 500, 1].into_iter().enumerate() {
        channel.arrive(Nanos(0), &packet(bytes), i as u64);
    }
    let mut all = Vec::new();
    finish(&mut channel, &mut all);
    let ms: Vec<u64> = times(&all).iter().map(|at| at / 1_000_000).collect();
    assert_eq!(ms, [2, 2, 8, 8, 10]);
    // A packet that arrives at the very time of an opportunity in use still shares it; a later one does not.
    channel.arrive(Nanos::from_millis(10), &packet(500), 5);
    channel.arrive(Nanos(10_000_001), &packet(100), 6);
    all.clear();
    finish(&mut channel, &mut all);
    assert_eq!(times(&all), [10_000_000, 12_000_000]);
}

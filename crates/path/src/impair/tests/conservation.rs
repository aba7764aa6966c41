//! Random models and random arrivals: the account includes every packet, and time never goes back.

use std::sync::Arc;

use super::*;
use crate::network::{
    Discipline, Ecn, GilbertElliott, Limit, LossPer, Nic, Order, Queue as QueueModel, Reorder,
    Shape,
};
use crate::trace::{Step, Trace};
use deadheat_base::rng::SplitMix64;

fn pick<T: Clone>(rng: &mut SplitMix64, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

fn trace(rng: &mut SplitMix64) -> Rate {
    let length = Nanos::from_millis(1 + rng.below(50));
    let content = if rng.below(2) == 0 {
        let mut from: Vec<u64> = (0..rng.below(5)).map(|_| rng.below(length.0)).collect();
        from.push(0);
        from.sort_unstable();
        let step = |from| Step {
            from: Nanos(from),
            rate: BitRate(pick(rng, &[0, 1_000_000, 50_000_000, 1])),
            delay: pick(rng, &[None, Some(Nanos::from_millis(3)), Some(Nanos(0))]),
            loss: pick(rng, &[None, Some(0.3)]),
        };
        Content::Steps(from.into_iter().map(step).collect())
    } else {
        let mut at: Vec<Nanos> =
            (0..1 + rng.below(20)).map(|_| Nanos(rng.below(length.0 + 1))).collect();
        at.sort_unstable();
        Content::Opportunities { bytes: pick(rng, &[1_504, 100, 20_000]), at }
    };
    let (file, sha256) = (String::new(), String::new());
    Rate::Trace(Arc::new(Trace { file, sha256, length, content }))
}

fn model(rng: &mut SplitMix64) -> Impairments {
    let (target, interval) = (Nanos::from_millis(5), Nanos::from_millis(20));
    let chain = GilbertElliott { p: 0.1, r: 0.3, bad: 0.9, good: 0.01 };
    let outages = Outages { good: Nanos::from_millis(20), bad: Nanos::from_millis(5) };
    let jitter = Jitter {
        scale: Nanos(rng.below(5_000_000)),
        shape: pick(rng, &[Shape::Uniform, Shape::Normal, Shape::Pareto]),
        order: pick(rng, &[Order::Kept, Order::Free]),
    };
    let reorder = Reorder {
        share: rng.unit(),
        depth: rng.below(20) as u32,
        patience: Nanos(rng.below(10_000_000)),
    };
    let steps = trace(rng);
    Impairments {
        block: pick(rng, &[vec![], Block::parse_all("udp@50ms").unwrap()]),
        down: pick(rng, &[DownTimes::default(), DownTimes::parse("9ms-30ms/50ms-51ms").unwrap()]),
        nic: Nic::Usual,
        loss: pick(
            rng,
            &[
                Loss::None,
                Loss::Bernoulli(0.2),
                Loss::GilbertElliott(chain),
                Loss::Outages(outages),
                Loss::List([1, 2, 30, 31, 99].into()),
                Loss::Every(7),
            ],
        ),
        loss_per: LossPer::Packet,
        duplicate: pick(rng, &[0.0, 0.1, 1.0]),
        corrupt: pick(rng, &[0.0, 0.1]),
        rate: pick(rng, &[Rate::Unlimited, fixed(10), fixed(100), steps.clone(), steps]),
        overhead: pick(rng, &[0, 38]),
        queue: QueueModel {
            limit: pick(
                rng,
                &[
                    Limit::Bytes(20_000),
                    Limit::Packets(7),
                    Limit::Packets(1_000),
                    Limit::Time(target),
                ],
            ),
            discipline: pick(
                rng,
                &[
                    Discipline::DropTail,
                    Discipline::Codel { target, interval },
                    Discipline::FqCodel { target, interval },
                    Discipline::Pie { target },
                    Discipline::Red,
                    Discipline::DualPi2 { target },
                ],
            ),
            ecn: pick(rng, &[Ecn::Ignored, Ecn::Marks]),
        },
        delay: Nanos(rng.below(20_000_000)),
        jitter: pick(rng, &[None, Some(jitter)]),
        reorder: pick(rng, &[None, Some(reorder)]),
    }
}

/// Checks that the fates of packets in the channel and the count of their owner agree at every moment.
fn check(channel: &Channel<u64>, promised: u64, seen: &[Departure<u64>], arrived: u64) {
    let fates = channel.fates();
    assert_eq!(fates.arrived, arrived);
    assert_eq!(fates.arrived + fates.duplicated, promised);
    let ended =
        fates.delivered + fates.blocked + fates.lost + fates.full + fates.early + fates.down;
    assert_eq!(promised, ended + fates.waiting);
    assert!(fates.delivered as usize <= seen.len() && fates.bursts <= fates.lost);
    assert!(seen.is_sorted_by_key(|departure| departure.at));
}

#[test]
fn every_packet_is_accounted_for() {
    for seed in 0..400 {
        let mut rng = SplitMix64::new(seed);
        let model = model(&mut rng);
        let mut channel = Channel::new(&model, Place { seed, ..PLACE });
        let (mut now, mut promised, mut all) = (0, 0, Vec::new());
        for i in 0..600 {
            let gap = rng.below(3_000_000);
            now += pick(&mut rng, &[0, 0, 1_000, 300_000, gap]);
            let packet = Packet {
                bytes: pick(&mut rng, &[1_500, 60, 0, 65_535]),
                flow: rng.below(4),
                protocol: pick(&mut rng, &[6, 17]),
                codepoint: pick(
                    &mut rng,
                    &[Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce],
                ),
            };
            // Sometimes the owner is late and takes nothing for a while.
            if rng.below(3) > 0 {
                drain(&mut channel, now, &mut all);
            }
            promised += u64::from(channel.arrive(Nanos(now), &packet, i));
            check(&channel, promised, &all, i + 1);
        }
        let mut steps = 0;
        while let Some(next) = channel.next() {
            drain(&mut channel, next.0, &mut all);
            assert!(channel.next().is_none_or(|later| later > next), "{model:?}");
            steps += 1;
            assert!(steps < 100_000, "{model:?}");
        }
        check(&channel, promised, &all, 600);
        let waiting = channel.fates().waiting;
        assert_eq!(all.len() as u64 + waiting, promised, "{model:?}");
        let dead = matches!(&model.rate, Rate::Trace(trace) if match &trace.content {
            Content::Steps(steps) => steps.iter().all(|step| step.rate.0 <= 1),
            Content::Opportunities { .. } => false,
        });
        assert!(waiting == 0 || dead, "{waiting} left of {model:?}");
    }
}

/// A channel is a function of arrivals: calling it often or seldom changes nothing.
#[test]
fn when_it_is_asked_does_not_matter() {
    for seed in 0..200 {
        let mut rng = SplitMix64::new(seed);
        let model = model(&mut rng);
        let times: Vec<u64> = (0..300)
            .scan(0, |now, _| {
                *now += rng.below(1_000_000);
                Some(*now)
            })
            .collect();
        let outcome = |often: bool| {
            let mut channel = Channel::new(&model, PLACE);
            let mut all = Vec::new();
            for (i, now) in times.iter().enumerate() {
                if often {
                    drain(&mut channel, *now, &mut all);
                }
                let codepoint = [Codepoint::Ect1, Codepoint::NotEct][i % 2];
                channel.arrive(Nanos(*now), &Packet { codepoint, ..MTU }, i as u64);
            }
            drain(&mut channel, 10_000_000_000, &mut all);
            (all, channel.fates())
        };
        assert_eq!(outcome(true), outcome(false), "{model:?}");
    }
}

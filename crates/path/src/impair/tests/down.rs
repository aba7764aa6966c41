//! A link that goes down and comes back.

use super::*;
use crate::network::{Discipline, Jitter, Limit, Order, Queue as QueueModel, Shape};

const HALF: u64 = 500_000;

fn down(typed: &str) -> DownTimes {
    DownTimes::parse(typed).unwrap()
}

/// At 12 Mbit/s a packet of 1500 bytes takes a millisecond.
fn slow(discipline: Discipline) -> Impairments {
    let queue = QueueModel { limit: Limit::Packets(1_000), discipline, ..QueueModel::default() };
    let delay = Nanos::from_millis(5);
    Impairments {
        rate: fixed(12),
        delay,
        queue,
        down: down("9500us-13ms"),
        ..Impairments::default()
    }
}

#[test]
fn lost_is_what_arrives_waits_or_leaves_while_the_link_is_down() {
    let mut channel = channel(&slow(Discipline::DropTail));
    let mut all = Vec::new();
    // Twenty at once: number k is out of the queue after k ms, and leaves 5 ms later.
    for k in 1..=20 {
        channel.arrive(Nanos::ZERO, &MTU, k);
    }
    for (half_ms, k) in [(19, 21), (25, 22), (26, 23)] {
        drain(&mut channel, half_ms * HALF, &mut all);
        channel.arrive(Nanos(half_ms * HALF), &MTU, k);
    }
    finish(&mut channel, &mut all);
    // 5 to 7 would leave, 10 is on its way out, 11 to 20 wait, 21 and 22 arrive.
    assert_eq!(delivered(&all), [1, 2, 3, 4, 8, 9, 23]);
    assert_eq!(all.last().map(|last| last.at), Some(Nanos::from_millis(19)));
    let waited = all.iter().filter(|d| (11..=20).contains(&d.handle));
    assert!(waited.clone().all(|d| d.at == Nanos(19 * HALF) && d.queued == d.at));
    assert_eq!((waited.count(), count(&all, Cause::Down)), (10, 16));
    let fates = channel.fates();
    assert_eq!((fates.arrived, fates.delivered, fates.down, fates.lost), (23, 7, 16, 0));
    // Ten packets left a queue in which others waited, and one left an empty queue.
    assert_eq!((fates.busy_bytes, fates.busy_ns), (11 * 1_500, 11_000_000));
}

#[test]
fn each_discipline_loses_its_queue_and_goes_on() {
    let (target, interval) = (Nanos::from_millis(50), Nanos::from_millis(100));
    for discipline in [
        Discipline::Codel { target, interval },
        Discipline::FqCodel { target, interval },
        Discipline::Pie { target: Nanos::from_secs(1) },
        Discipline::DualPi2 { target: Nanos::from_secs(1) },
    ] {
        let mut channel = channel(&slow(discipline));
        for k in 1..=200 {
            channel.arrive(Nanos::ZERO, &Packet { flow: k % 3, ..MTU }, k);
        }
        let mut all = Vec::new();
        drain(&mut channel, 13_000_000, &mut all);
        assert_eq!(channel.fates().waiting, 2, "{discipline:?}");
        channel.arrive(Nanos::from_millis(13), &MTU, 201);
        finish(&mut channel, &mut all);
        assert_eq!((delivered(&all).len(), channel.fates().down), (7, 194), "{discipline:?}");
        assert_eq!(delivered(&all).last(), Some(&201), "{discipline:?}");
    }
}

/// The link takes nothing from what is drawn: packets that are not lost with it meet the same fates.
#[test]
fn what_is_drawn_stays() {
    let jitter = Jitter { scale: Nanos::from_millis(1), shape: Shape::Uniform, order: Order::Free };
    let always = Impairments {
        loss: Loss::Bernoulli(0.3),
        duplicate: 0.1,
        corrupt: 0.1,
        delay: Nanos::from_millis(3),
        jitter: Some(jitter),
        ..Impairments::default()
    };
    let at_times = Impairments { down: down("10ms-20ms/30ms-31ms"), ..always.clone() };
    let ((all, one), (some, other)) = (run(&always, 1_000, 50_000), run(&at_times, 1_000, 50_000));
    assert_eq!(one.log().to_string(), other.log().to_string());
    assert_eq!(one.fates().digest, other.fates().digest);
    let survivors = |all: &[Departure<u64>]| -> Vec<Departure<u64>> {
        let at_times = down("10ms-20ms/30ms-31ms");
        let is_here = |d: &&Departure<u64>| {
            !at_times.includes(Nanos(d.handle * 50_000)) && !at_times.includes(d.at)
        };
        let whole = all.iter().filter(|d| matches!(d.end, End::Delivered(_)));
        whole.filter(is_here).copied().collect()
    };
    assert_eq!(survivors(&all), survivors(&some));
    assert!(delivered(&some).len() < delivered(&all).len() - 100);
}

//! The whole channel in virtual time.

mod conservation;
mod down;
mod dual;
mod fates;
mod queues;
mod rates;
mod way;

use super::*;
use crate::network::{Loss, Outages, Rate};
use deadheat_base::ecn::Codepoint;
use deadheat_base::ends::Direction;
use deadheat_base::units::BitRate;

const PLACE: Place = Place { seed: 7, link: 0, direction: Direction::Up };
const MTU: Packet = Packet { bytes: 1_500, flow: 1, protocol: 6, codepoint: Codepoint::NotEct };

fn channel(model: &Impairments) -> Channel<u64> {
    Channel::new(model, PLACE)
}

fn fixed(mbit: u64) -> Rate {
    Rate::Fixed(BitRate(mbit * 1_000_000))
}

/// Removes everything that departs until `now`.
fn drain(channel: &mut Channel<u64>, now: u64, all: &mut Vec<Departure<u64>>) {
    while let Some(departure) = channel.depart(Nanos(now)) {
        assert!(departure.at.0 <= now);
        all.push(departure);
    }
}

/// Runs packets of 1500 bytes, `gap` nanoseconds apart, and collects all their departures.
fn run(model: &Impairments, count: u64, gap: u64) -> (Vec<Departure<u64>>, Channel<u64>) {
    let mut channel = channel(model);
    let mut all = Vec::new();
    for i in 0..count {
        drain(&mut channel, i * gap, &mut all);
        channel.arrive(Nanos(i * gap), &MTU, i);
    }
    finish(&mut channel, &mut all);
    (all, channel)
}

/// Advances to each time that the channel returns, until it is empty.
fn finish(channel: &mut Channel<u64>, all: &mut Vec<Departure<u64>>) {
    while let Some(next) = channel.next() {
        let before = all.last().map_or(0, |last: &Departure<u64>| last.at.0);
        assert!(next.0 >= before);
        drain(channel, next.0, all);
        assert!(channel.next().is_none_or(|later| later > next));
    }
    assert_eq!(channel.fates().waiting, 0);
}

fn delivered(all: &[Departure<u64>]) -> Vec<u64> {
    all.iter().filter(|d| matches!(d.end, End::Delivered(_))).map(|d| d.handle).collect()
}

fn count(all: &[Departure<u64>], cause: Cause) -> u64 {
    all.iter().filter(|d| d.end == End::Dropped(cause)).count() as u64
}

#[test]
fn nothing_but_delay_is_just_that() {
    let model = Impairments { delay: Nanos::from_millis(25), ..Impairments::default() };
    let (all, channel) = run(&model, 1_000, 10_000);
    for (i, departure) in all.iter().enumerate() {
        assert_eq!(departure.at.0, i as u64 * 10_000 + 25_000_000);
        assert_eq!(departure.end, End::Delivered(Changes::default()));
    }
    let fates = channel.fates();
    assert_eq!((fates.arrived, fates.delivered, fates.delivered_bytes), (1_000, 1_000, 1_500_000));
    assert_eq!((fates.busy_ns, fates.reordered), (0, 0));
}

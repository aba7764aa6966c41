//! Times that follow from a network's model: how long to wait for a packet, and when to give up. Pure.

use crate::control::PathTerms;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::workload::{Bounds, PathKind, Setting};
use deadheat_path::PathSpec;
use deadheat_path::network::{Impairments, Limit, Network, Rate, Shape};
use deadheat_path::routes::{along, round_ways};
use deadheat_path::trace::{Content, Trace};

/// Bytes that a sender's kernel may buffer and not yet have sent: the usual maximum of tcp_wmem.
const SEND_BUFFER: u64 = 8 << 20;

/// Longest time to wait until a queue is empty.
const LONGEST_DRAIN: Nanos = Nanos::from_secs(3_600);

/// Longest time to wait for a message once nothing else is in flight.
const LONGEST_TRANSIT: Nanos = Nanos::from_secs(3_600);

/// Multiple of its scale that jitter may reach: of a normal distribution, less than one in 10⁸ offsets exceed six of
/// them; Pareto's tail goes on, and is covered up to the longest delays that matter.
const JITTER_REACH: u64 = 10;

/// Time for which a near end tries to connect, if the path does not determine it.
const DIAL: Nanos = Nanos::from_secs(3);

/// Returns the time for which a near end tries to connect.
pub(crate) fn dial_timeout(emulated: Option<PathTerms>) -> Nanos {
    emulated.map_or(DIAL, |path| path.dial_ns)
}

/// Returns the time for which a far end waits for each flow; longer than a near end tries, so that the near end, which
/// knows more, reports first.
pub(crate) fn accept_timeout(dial: Nanos) -> Nanos {
    dial + Nanos(dial.0 / 3 * 2)
}

/// Returns the facts that a workload's defaults depend on: the round-trip time of the empty path on the first way between
/// near and far, and its lowest rate; for a trace, its mean rate.
pub fn setting(path: &PathSpec) -> Setting {
    let (kind, network) = match path {
        PathSpec::Loopback => return Setting::LOOPBACK,
        PathSpec::Emulated(network) => (PathKind::Emulated, network),
        PathSpec::Simulated(network) => (PathKind::Simulated, network),
    };
    let bounds = |way: &[&Impairments]| Bounds {
        delay: Some(delay_along(way)),
        rate: way.iter().filter_map(|on| rate_of(on)).min(),
    };
    let ways = round_ways(network);
    let of_first = ways.first().map(|way| [bounds(&way.up), bounds(&way.down)]);
    let of_first = of_first.unwrap_or([Bounds::UNKNOWN; 2]);
    let rtt = of_first.iter().filter_map(|way| way.delay).fold(Nanos::ZERO, |sum, one| sum + one);
    let rate = of_first.iter().filter_map(|way| way.rate).min();
    // If there are several ways, a contender may use them all; several far hosts have one each.
    let others = network.receivers.iter().chain(&network.people);
    let there_and_back =
        |host: &usize| delay_along(&along(network, &[network.near, *host, network.near]));
    let rtt = others.map(there_and_back).fold(rtt, Nanos::max);
    let is_one =
        ways.len() == 1 && network.far_hosts() == [network.far] && network.people.is_empty();
    let [up, down] = if is_one { of_first } else { [Bounds::UNKNOWN; 2] };
    Setting { kind, rtt: Some(rtt), rate, up, down, ..Setting::REMOTE }
}

/// Returns the rate of a direction, for a trace its mean; `None` if it is not limited.
fn rate_of(way: &Impairments) -> Option<BitRate> {
    match &way.rate {
        Rate::Unlimited => None,
        Rate::Fixed(rate) => Some(*rate),
        Rate::Trace(trace) => Some(BitRate(mean_rate(trace))),
    }
}

/// Returns the longest time that the path may hold a packet that is not queued behind others.
pub(crate) fn transit(network: &Network) -> Nanos {
    longest_way(network, |way| {
        let jitter = way.jitter.as_ref().map_or(0, |jitter| match jitter.shape {
            Shape::Uniform => jitter.scale.0,
            Shape::Normal | Shape::Pareto | Shape::Table(_) => {
                jitter.scale.0.saturating_mul(JITTER_REACH)
            }
        });
        let held = way.reorder.map_or(Nanos::ZERO, |reorder| reorder.patience);
        delay(way) + Nanos(jitter) + held + one_packet(way, largest(network))
    })
    .min(LONGEST_TRANSIT)
}

/// Returns the longest of the sums of such a time along the ways between hosts that send to each other.
fn longest_way(network: &Network, time: impl Fn(&Impairments) -> Nanos) -> Nanos {
    let ways = round_ways(network).into_iter().flat_map(|way| [way.up, way.down]);
    let ways = ways.chain(network.journeys().into_iter().map(|journey| along(network, &journey)));
    let sum = |way: Vec<&Impairments>| way.into_iter().fold(Nanos::ZERO, |sum, on| sum + time(on));
    ways.map(sum).max().unwrap_or_default()
}

/// Returns the sum of the longest delays along a way.
fn delay_along(way: &[&Impairments]) -> Nanos {
    way.iter().fold(Nanos::ZERO, |sum, on| sum + delay(on))
}

/// Returns the longest delay, a trace's own included.
fn delay(way: &Impairments) -> Nanos {
    let Rate::Trace(trace) = &way.rate else { return way.delay };
    let steps = match &trace.content {
        Content::Steps(steps) => steps.as_slice(),
        Content::Opportunities { .. } => &[],
    };
    steps.iter().filter_map(|step| step.delay).fold(way.delay, Nanos::max)
}

/// Returns the longest time of a packet that is alone in the queue: its serialisation time at a rate, and on a trace
/// also the longest pause.
fn one_packet(way: &Impairments, mtu: u16) -> Nanos {
    let bits = 8 * (u64::from(mtu) + u64::from(way.overhead));
    match &way.rate {
        Rate::Unlimited => Nanos::ZERO,
        Rate::Fixed(BitRate(bps)) => Nanos(bits.saturating_mul(1_000_000_000) / (*bps).max(1)),
        Rate::Trace(trace) => longest_pause(trace),
    }
}

/// Returns the longest pause of a trace, across its end and its next start too.
fn longest_pause(trace: &Trace) -> Nanos {
    let between = |times: &[Nanos]| {
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return trace.length;
        };
        let inside = times.windows(2).map(|pair| pair[1] - pair[0]);
        inside.fold(*first + (trace.length - *last), Nanos::max)
    };
    match &trace.content {
        Content::Opportunities { at, .. } => between(at),
        Content::Steps(steps) => {
            let mut times: Vec<Nanos> = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                let until = steps.get(at + 1).map_or(trace.length, |next| next.from);
                if step.rate.0 > 0 {
                    times.extend([step.from, until]);
                }
            }
            // Inside a step with capacity there is no pause.
            let pauses = times.chunks_exact(2).zip(times.chunks_exact(2).skip(1));
            let inside = pauses.map(|(before, after)| after[0] - before[1]).max();
            let around = match (times.first(), times.last()) {
                (Some(first), Some(last)) => *first + (trace.length - *last),
                _ => trace.length,
            };
            around.max(inside.unwrap_or_default())
        }
    }
}

/// Returns the time that a full queue, and the buffer of a sender's kernel, take to empty.
pub(crate) fn drain(network: &Network) -> Nanos {
    longest_way(network, |way| drain_way(way, largest(network))).min(LONGEST_DRAIN)
}

/// Returns the largest IP packet of any link, in bytes.
fn largest(network: &Network) -> u16 {
    network.links.iter().map(|link| link.mtu).max().unwrap_or_default()
}

/// Returns the longest time that links which are down may hold up a sender: it sends again at times that double
/// (RFC 6298, section 5.5), so up to as long again after a link is back.
pub(crate) fn outage(network: &Network) -> Nanos {
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    Nanos(2 * ways.map(|way| way.down.total().0).sum::<u64>()).min(LONGEST_DRAIN)
}

fn drain_way(way: &Impairments, mtu: u16) -> Nanos {
    let packet = u64::from(mtu) + u64::from(way.overhead);
    let bps = match &way.rate {
        Rate::Unlimited => return Nanos::ZERO,
        Rate::Fixed(BitRate(bps)) => *bps,
        Rate::Trace(trace) => mean_rate(trace),
    };
    let queue = match way.queue.limit {
        Limit::Bytes(bytes) => bytes,
        Limit::Packets(packets) => packets.saturating_mul(packet),
        Limit::Time(span) => (u128::from(span.0) * u128::from(bps) / 8_000_000_000) as u64,
    };
    let bits = 8 * u128::from(queue.saturating_add(SEND_BUFFER));
    let ns = bits * 1_000_000_000 / u128::from(bps.max(1));
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX)).min(LONGEST_DRAIN)
}

/// Returns the mean rate of a trace over its length, in bits per second.
fn mean_rate(trace: &Trace) -> u64 {
    let length = u128::from(trace.length.0.max(1));
    let bits_ns: u128 = match &trace.content {
        Content::Opportunities { bytes, at } => {
            8 * u128::from(*bytes) * at.len() as u128 * 1_000_000_000
        }
        Content::Steps(steps) => {
            let spans = steps.iter().enumerate().map(|(at, step)| {
                let until = steps.get(at + 1).map_or(trace.length, |next| next.from);
                u128::from(step.rate.0) * u128::from((until - step.from).0)
            });
            spans.sum()
        }
    };
    u64::try_from(bits_ns / length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_path::network::{Jitter, Link, Order};
    use deadheat_path::trace::Step;

    fn network(way: Impairments) -> Network {
        Network::between_two(vec![Link { up: way.clone(), ..Link::default() }])
    }

    fn trace(content: Content) -> Rate {
        let length = Nanos::from_secs(10);
        Rate::Trace(Trace { file: "t".into(), sha256: String::new(), length, content }.into())
    }

    fn step(from_s: u64, bps: u64) -> Step {
        Step { from: Nanos::from_secs(from_s), rate: BitRate(bps), delay: None, loss: None }
    }

    #[test]
    fn defaults_follow_from_delay_and_rate() {
        let of = |typed: &str| setting(&PathSpec::parse(typed).unwrap());
        assert_eq!(of("loopback"), Setting::LOOPBACK);
        let ms = Nanos::from_millis;
        let kind = PathKind::Emulated;
        let bounds = |delay, rate: Option<u64>| Bounds {
            delay: Some(ms(delay)),
            rate: rate.map(|mbit| BitRate(mbit * 1_000_000)),
        };
        let (up, down) = (bounds(25, None), bounds(25, None));
        let even = Setting { kind, rtt: Some(ms(50)), up, down, ..Setting::REMOTE };
        assert_eq!(of("delay=25ms,loss=1%"), even);
        let rate = Some(BitRate(5_000_000));
        let (up, down) = (bounds(5, Some(5)), bounds(15, Some(20)));
        let lopsided = "up.delay=5ms,down.delay=15ms,up.rate=5mbit,down.rate=20mbit";
        let expected = Setting { kind, rtt: Some(ms(20)), rate, up, down, ..Setting::REMOTE };
        assert_eq!(of(lopsided), expected);
        let two = of(&format!("{lopsided} + delay=5ms"));
        assert_eq!((two.rate, two.up, two.down), (rate, Bounds::UNKNOWN, Bounds::UNKNOWN));
        let kind = PathKind::Simulated;
        let (up, down) = (bounds(1, None), bounds(1, None));
        let fast = Setting { kind, rtt: Some(ms(2)), up, down, ..Setting::REMOTE };
        assert_eq!(of("sim:delay=1ms"), fast);
    }

    #[test]
    fn a_message_is_waited_for_as_long_as_the_path_may_hold_it() {
        let ms = Nanos::from_millis;
        let plain = Impairments { delay: ms(300), ..Impairments::default() };
        assert_eq!(transit(&network(plain.clone())), ms(300));
        let jitter = Jitter { scale: ms(5), shape: Shape::Normal, order: Order::Kept };
        let wavering = Impairments { jitter: Some(jitter), ..plain.clone() };
        assert_eq!(transit(&network(wavering)), ms(350));
        // 1500 bytes at 12 kbit/s take a second.
        let slow = Impairments { rate: Rate::Fixed(BitRate(12_000)), ..plain.clone() };
        assert_eq!(transit(&network(slow)), ms(1_300));
    }

    #[test]
    fn a_trace_holds_a_message_for_its_longest_pause() {
        let pause = |content| {
            transit(&network(Impairments { rate: trace(content), ..Impairments::default() }))
        };
        let steps = vec![step(0, 1_000), step(2, 0), step(5, 1_000), step(9, 0)];
        assert_eq!(pause(Content::Steps(steps)), Nanos::from_secs(3));
        let at = vec![Nanos::from_secs(1), Nanos::from_secs(4), Nanos::from_secs(9)];
        assert_eq!(pause(Content::Opportunities { bytes: 1504, at }), Nanos::from_secs(5));
        assert_eq!(pause(Content::Steps(vec![step(0, 8)])), Nanos::ZERO);
        assert_eq!(pause(Content::Steps(vec![step(0, 0)])), Nanos::from_secs(10));
    }

    #[test]
    fn a_link_that_is_down_holds_a_sender_up_for_twice_the_time() {
        let down = |typed: &str| outage(&Network::parse(typed).unwrap());
        assert_eq!(down("delay=1ms"), Nanos::ZERO);
        assert_eq!(down("up.down=1s-2s/3s-5s"), Nanos::from_secs(6));
        assert_eq!(down("down=0s-24h"), LONGEST_DRAIN);
    }

    #[test]
    fn what_is_in_queues_is_given_the_time_to_leave() {
        let at = |bps| Impairments { rate: Rate::Fixed(BitRate(bps)), ..Impairments::default() };
        // A queue of 100 ms and 8 MiB at 20 Mbit/s.
        assert_eq!(drain_way(&at(20_000_000), 1500), Nanos(3_455_443_200));
        assert_eq!(drain_way(&at(1), 1500), LONGEST_DRAIN);
        assert_eq!(drain_way(&Impairments::default(), 1500), Nanos::ZERO);
        let half = Content::Steps(vec![step(0, 40_000_000), step(5, 0)]);
        let traced = Impairments { rate: trace(half), ..Impairments::default() };
        assert_eq!(drain_way(&traced, 1500), Nanos(3_455_443_200));
    }
}

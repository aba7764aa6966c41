//! Gate of an emulated path: checks one trial of it against the request. A pure function of the model and
//! of the path's own account. It is fixed before the first trial and knows no figure of any contender, so the
//! decision which trials to exclude is blind to the result.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::impair::expected::{self, least_offset};
use crate::measurements::{DirectionFigures, PacketOutcomes, PathFigures};
use crate::network::{Impairments, Link, Network, Rate};
use crate::routes::{RoundWay, round_ways};
use crate::trace::{Content, Trace};
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

/// Limit of the median lateness on any path: the lateness of a thread that sleeps and then reads the clock, on a
/// virtual machine with two CPUs.
const LATE_P50: Nanos = Nanos::from_micros(20);
/// Limit of the 99th percentile of lateness on any path.
const LATE_P99: Nanos = Nanos::from_micros(100);
/// Limit of the median lateness as a part of the path's own time scale: 1 %, a fifth of the usual margin. A median
/// of round trips, or the round trip that a congestion control sees, moves by no more.
const LATE_P50_PART: u64 = 100;
/// Limit of the 99th percentile of lateness as a part of the same scale: 5 %, the usual margin. It does not move a
/// median, and the tail of round trips moves by no more.
const LATE_P99_PART: u64 = 20;

/// Tolerance of the achieved rate, as a part of the requested rate: 0.1 %.
const RATE_PART: u128 = 1_000;
/// Tolerance of the account of a busy time, in full packets: one at each end of it.
const RATE_PACKETS: u128 = 2;

/// Probability of a false alarm, for each direction of a link and trial: that a path which works as requested is
/// taken for a faulty one.
pub const LOSS_ERROR: f64 = 1e-4;

/// Limits of the lateness of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessLimits {
    /// Limit of the median, in nanoseconds.
    pub p50_ns: u64,
    /// Limit of the 99th percentile, in nanoseconds; of the 90th where there are too few packets for a 99th.
    pub p99_ns: u64,
}

impl LatenessLimits {
    /// Returns the limits for a path: absolute ones, or a share of its own time scale where that is more. A scale
    /// is the longest delay of any direction, or the time that a full packet takes at the least rate.
    pub fn of(network: &Network) -> LatenessLimits {
        let of_link = |link: &Link| [&link.up, &link.down].map(|way| time_scale(way, link.mtu));
        let scale = network.links.iter().flat_map(of_link).max().unwrap_or_default();
        LatenessLimits {
            p50_ns: LATE_P50.0.max(scale.0 / LATE_P50_PART),
            p99_ns: LATE_P99.0.max(scale.0 / LATE_P99_PART),
        }
    }
}

fn time_scale(way: &Impairments, mtu: u16) -> Nanos {
    let packet = match &way.rate {
        Rate::Fixed(BitRate(bps)) => {
            let bits = 8 * (u64::from(mtu) + u64::from(way.overhead));
            Nanos((bits * 1_000_000_000).div_ceil((*bps).max(1)))
        }
        // The slowest moment of a trace is no measure of the path: it may carry nothing for a while.
        Rate::Unlimited | Rate::Trace(_) => Nanos::ZERO,
    };
    way.delay.max(packet)
}

/// Returns the reason why a trial over `network` with this account does not count; `None` if it does.
pub fn why_invalid(network: &Network, figures: &PathFigures) -> Option<String> {
    if figures.links.len() != network.links.len() {
        return Some(format!(
            "the path accounted for {} links and has {}",
            figures.links.len(),
            network.links.len()
        ));
    }
    let limits = LatenessLimits::of(network);
    let links = || network.links.iter().zip(&figures.links).enumerate();
    let ways = || {
        links().flat_map(|(at, (link, had))| {
            [(Direction::Up, &had.up), (Direction::Down, &had.down)].map(|(direction, had)| {
                let name = network.way_name(at, direction);
                DirectionCheck { name, link, direction, had }
            })
        })
    };
    let checks = [
        DirectionCheck::account,
        DirectionCheck::devices,
        DirectionCheck::rate,
        DirectionCheck::loss,
    ];
    checks
        .iter()
        .find_map(|check| ways().find_map(|way| check(&way)))
        .or_else(|| ways().find_map(|way| way.lateness(limits)))
}

/// Direction of a link, with its model and its figures.
struct DirectionCheck<'a> {
    /// Name of the direction, as of [`Network::way_name`].
    name: String,
    link: &'a Link,
    direction: Direction,
    had: &'a DirectionFigures,
}

impl DirectionCheck<'_> {
    fn asked(&self) -> &Impairments {
        self.link.toward(self.direction)
    }

    fn account(&self) -> Option<String> {
        let PacketOutcomes { arrived, duplicated, delivered, waiting, .. } = self.had.fates;
        let PacketOutcomes { blocked, lost, full, early, down, .. } = self.had.fates;
        let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        let (came, went) = (
            sum(&[arrived, duplicated]),
            sum(&[delivered, blocked, lost, full, early, down, waiting]),
        );
        (came != went).then(|| {
            format!(
                "the path's account does not close: {came} packets came in {}, copies included, and \
                 it knows of {went}",
                self.name
            )
        })
    }

    fn devices(&self) -> Option<String> {
        (self.had.device_drops > 0).then(|| {
            format!(
                "the path lost {} packets {} outside its model, in devices and rings that were full, \
                 where 0 may be; offer less than this host can move, or leave the path more CPU time",
                self.had.device_drops, self.name
            )
        })
    }

    /// Checks the bytes that left while packets waited against the rate times that time. The last packet of each
    /// busy time may be counted in part.
    fn rate(&self) -> Option<String> {
        let Rate::Fixed(BitRate(asked)) = self.asked().rate else { return None };
        let PacketOutcomes { busy_ns, busy_bytes, .. } = self.had.fates;
        let expected = u128::from(asked) * u128::from(busy_ns);
        let had = 8_000_000_000 * u128::from(busy_bytes);
        let packet = 8_000_000_000 * u128::from(u32::from(self.link.mtu) + self.asked().overhead);
        let off = expected.abs_diff(had);
        let room = expected / RATE_PART + RATE_PACKETS * packet;
        (off > room && busy_ns > 0).then(|| {
            let had = had / u128::from(busy_ns);
            format!(
                "the path carried {} {} while packets waited, where {} was asked for, within 0.1 %; \
                 leave it more CPU time, or ask for a lower rate",
                BitRate(u64::try_from(had).unwrap_or(u64::MAX)),
                self.name,
                BitRate(asked)
            )
        })
    }

    fn loss(&self) -> Option<String> {
        let PacketOutcomes { arrived, blocked, lost, .. } = self.had.fates;
        let losses = |of| expected::losses(self.asked(), of, 1.0 - LOSS_ERROR);
        // A NAT drops before the model on the way up, and on the way down what the model has let pass.
        let is_behind = self.direction == Direction::Down && self.link.middlebox.is_some();
        let least = arrived.saturating_sub(blocked);
        let most = if is_behind { arrived } else { least };
        let expected = *losses(least)?.start()..=*losses(most)?.end();
        (!expected.contains(&lost)).then(|| {
            format!(
                "the path's model lost {lost} of {most} packets {}, and {} to {} were to be expected \
                 (at 99.99 %); report this, it is a fault of the emulator",
                self.name,
                expected.start(),
                expected.end()
            )
        })
    }

    fn lateness(&self, limits: LatenessLimits) -> Option<String> {
        let late = self.had.lateness_ns.as_ref()?;
        // Fewer than 1000 packets have no 99th percentile: their 90th is held to its limit.
        let tail = match late.p99 {
            Some(_) => ("99th percentile", late.p99, limits.p99_ns),
            None => ("90th percentile", late.p90, limits.p99_ns),
        };
        [("median", late.p50, limits.p50_ns), tail].into_iter().find_map(|(what, had, limit)| {
            let had = had?.at_least_ns();
            (had > limit).then(|| {
                format!(
                    "the path released packets {} too late: {what} {}, where at most {} may be",
                    self.name,
                    Nanos(had),
                    Nanos(limit)
                )
            })
        })
    }
}

/// Returns the share of packets, or of time, that a loss model takes in the long run; `None` where it has none, as
/// with a list or the losses of a trace.
pub fn asked_loss(way: &Impairments) -> Option<f64> {
    match &way.rate {
        Rate::Trace(trace) if trace_loses(trace) => None,
        _ => expected::share(&way.loss),
    }
}

fn trace_loses(trace: &Trace) -> bool {
    match &trace.content {
        Content::Steps(steps) => steps.iter().any(|step| step.loss.is_some()),
        Content::Opportunities { .. } => false,
    }
}

/// Returns the least round-trip time that the model allows, on the shortest of its ways, without the time that
/// packets take at a rate; `None` where jitter may reduce the delay to zero.
pub fn least_rtt(network: &Network) -> Option<Nanos> {
    let ways = round_ways(network);
    let least = |way: &RoundWay<'_>| {
        let all = way.up.iter().chain(&way.down);
        all.map(|way| least_delay(way)).try_fold(Nanos::ZERO, |sum, delay| Some(sum + delay?))
    };
    ways.iter().map(least).collect::<Option<Vec<_>>>()?.into_iter().min()
}

fn least_delay(way: &Impairments) -> Option<Nanos> {
    let delay = match &way.rate {
        Rate::Trace(trace) => trace_delay(trace, way.delay),
        Rate::Unlimited | Rate::Fixed(_) => way.delay,
    };
    match &way.jitter {
        None => Some(delay),
        Some(jitter) => {
            least_offset(jitter).map(|offset| Nanos(delay.0.saturating_add_signed(offset)))
        }
    }
}

/// Size of the default packet of ping(8), as an IPv4 packet.
const PING: u64 = 84;

/// Round-trip time of one ping on an otherwise idle link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdlePing {
    /// Least time; absent where jitter may reduce the delay to zero.
    pub least: Option<Nanos>,
    /// Mean time; absent where a trace decides.
    pub mean: Option<Nanos>,
}

impl IdlePing {
    /// Returns the times on this link.
    pub fn of(link: &Link) -> IdlePing {
        let both = |way: fn(&Impairments) -> Option<Nanos>| Some(way(&link.up)? + way(&link.down)?);
        IdlePing {
            least: both(|way| Some(least_delay(way)? + serial(way))),
            mean: both(mean_delay),
        }
    }
}

impl fmt::Display for IdlePing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.mean) {
            (Some(least), Some(mean)) if least == mean => mean.fmt(f),
            (Some(least), Some(mean)) => write!(f, "{mean} on average, {least} at least"),
            (None, Some(mean)) => write!(f, "{mean} on average"),
            (Some(least), None) => write!(f, "{least} at least"),
            (None, None) => f.write_str("no fixed time"),
        }
    }
}

/// Returns the mean delay; the mean of the jitter is 0.
fn mean_delay(way: &Impairments) -> Option<Nanos> {
    match way.rate {
        Rate::Trace(_) => None,
        Rate::Unlimited | Rate::Fixed(_) => Some(way.delay + serial(way)),
    }
}

/// Returns the time of a ping at the rate; zero for a trace, which may be idle at its fastest.
fn serial(way: &Impairments) -> Nanos {
    let bits = (PING + u64::from(way.overhead)) * 8;
    match way.rate {
        Rate::Fixed(rate) => Nanos((bits * 1_000_000_000).div_ceil(rate.0.max(1))),
        Rate::Unlimited | Rate::Trace(_) => Nanos::ZERO,
    }
}

fn trace_delay(trace: &Trace, otherwise: Nanos) -> Nanos {
    match &trace.content {
        Content::Steps(steps) => {
            let delays = steps.iter().map(|step| step.delay.unwrap_or(otherwise));
            delays.min().unwrap_or(otherwise)
        }
        Content::Opportunities { .. } => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::{Distribution, LinkFigures, Quantile};
    use crate::network::{GilbertElliott, Jitter, Loss, Order, Outages, Shape};

    fn network(way: Impairments) -> Network {
        Network::between_two(vec![Link { up: way.clone(), down: way, ..Link::default() }])
    }

    fn delay(ms: u64) -> Impairments {
        Impairments { delay: Nanos::from_millis(ms), ..Impairments::default() }
    }

    /// Returns the figures of a path without faults.
    fn fine() -> PathFigures {
        let fates =
            PacketOutcomes { arrived: 1_000, delivered: 1_000, ..PacketOutcomes::default() };
        let way = DirectionFigures {
            fates,
            lateness_ns: Some(late(2_000, 30_000)),
            ..Default::default()
        };
        PathFigures { links: vec![LinkFigures { up: way.clone(), down: way }] }
    }

    fn late(p50: u64, p99: u64) -> Distribution {
        let ns = |ns| Some(Quantile::Ns(ns));
        Distribution { n: 1_000, p50: ns(p50), p99: ns(p99), ..Distribution::default() }
    }

    fn why(way: Impairments, change: impl FnOnce(&mut DirectionFigures)) -> Option<String> {
        let mut figures = fine();
        change(&mut figures.links[0].down);
        why_invalid(&network(way), &figures)
    }

    #[test]
    fn a_path_that_does_what_it_was_asked_passes() {
        assert_eq!(why(delay(25), |_| ()), None);
        assert_eq!(why(delay(0), |_| ()), None);
    }

    #[test]
    fn limits_grow_with_the_time_scale_of_the_path() {
        let limits = |way| LatenessLimits::of(&network(way));
        assert_eq!(limits(delay(0)), LatenessLimits { p50_ns: 20_000, p99_ns: 100_000 });
        assert_eq!(limits(delay(25)), LatenessLimits { p50_ns: 250_000, p99_ns: 1_250_000 });
        // A packet of 1500 bytes takes 120 ms at 100 kbit/s.
        let slow = Impairments { rate: Rate::Fixed(BitRate(100_000)), ..delay(1) };
        assert_eq!(limits(slow), LatenessLimits { p50_ns: 1_200_000, p99_ns: 6_000_000 });
    }

    #[test]
    fn late_releases_are_named_with_figure_limit_and_remedy() {
        let said = why(delay(25), |way| way.lateness_ns = Some(late(2_000, 1_260_000))).unwrap();
        assert!(
            said.starts_with("the path released packets down too late: 99th percentile 1.26 ms"),
            "{said}"
        );
        assert!(said.contains("at most 1.25 ms may be"), "{said}");
        let said = why(delay(5), |way| way.lateness_ns = Some(late(50_500, 60_000))).unwrap();
        assert!(said.contains("median 50.5 µs"), "{said}");
        // As of five connections, a tenth of whose packets the host held up: n is too small for a 99th percentile.
        let tail = Distribution {
            n: 300,
            p90: Some(Quantile::Ns(1_260_000)),
            p99: None,
            ..late(2_000, 0)
        };
        let said = why(delay(25), |way| way.lateness_ns = Some(tail)).unwrap();
        assert!(said.contains("90th percentile 1.26 ms, where at most 1.25 ms may be"), "{said}");
        let few = Distribution { n: 9, p50: None, p99: None, ..late(0, 0) };
        assert_eq!(why(delay(5), |way| way.lateness_ns = Some(few)), None);
    }

    #[test]
    fn what_devices_lost_makes_a_trial_invalid_and_comes_before_lateness() {
        let said = why(delay(5), |way| {
            way.device_drops = 3;
            way.lateness_ns = Some(late(1 << 30, 1 << 30));
        });
        assert!(said.unwrap().starts_with("the path lost 3 packets down outside its model"));
    }

    #[test]
    fn an_account_that_does_not_close_is_no_account() {
        let said = why(delay(5), |way| way.fates.delivered -= 1).unwrap();
        assert!(said.contains("does not close: 1000 packets came in down"), "{said}");
        let waiting = |way: &mut DirectionFigures| {
            way.fates.delivered -= 1;
            way.fates.waiting = 1;
        };
        assert_eq!(why(delay(5), waiting), None);
        let none = why_invalid(&network(delay(5)), &PathFigures::default()).unwrap();
        assert_eq!(none, "the path accounted for 0 links and has 1");
    }

    #[test]
    fn the_rate_is_held_to_a_thousandth_and_a_packet_at_each_end() {
        let rated = || Impairments { rate: Rate::Fixed(BitRate(20_000_000)), ..delay(5) };
        let busy = |bytes, ns| {
            move |way: &mut DirectionFigures| {
                (way.fates.busy_bytes, way.fates.busy_ns) = (bytes, ns)
            }
        };
        // One second: 2.5 MB.
        assert_eq!(why(rated(), busy(2_500_000, 1_000_000_000)), None);
        assert_eq!(why(rated(), busy(2_505_500, 1_000_000_000)), None);
        let said = why(rated(), busy(2_505_501, 1_000_000_000)).unwrap();
        assert!(said.contains("20.0 Mbit/s down while packets waited"), "{said}");
        assert!(why(rated(), busy(2_400_000, 1_000_000_000)).is_some());
        assert_eq!(why(rated(), busy(1_500, 100)), None, "one packet says nothing");
        assert_eq!(why(rated(), busy(0, 0)), None);
        assert_eq!(why(delay(5), busy(9, 1_000_000_000)), None, "no rate was asked for");
    }

    #[test]
    fn losses_are_held_to_what_the_model_says() {
        let lose = |n: u64| {
            move |way: &mut DirectionFigures| {
                way.fates.lost = n;
                way.fates.delivered -= n;
            }
        };
        let with = |loss| Impairments { loss, ..delay(5) };
        let said = why(delay(5), lose(1)).unwrap();
        assert!(said.contains("lost 1 of 1000 packets down, and 0 to 0 were"), "{said}");
        // Ten of a thousand are expected, with a standard deviation of three.
        let random = || with(Loss::Bernoulli(0.01));
        let both = |n: u64| {
            let mut figures = fine();
            let link = &mut figures.links[0];
            lose(n)(&mut link.up);
            lose(n)(&mut link.down);
            why_invalid(&network(random()), &figures)
        };
        assert_eq!([both(1), both(10), both(22)], [None, None, None]);
        assert!(both(60).unwrap().contains("lost 60 of 1000 packets up"));
        let list = || with(Loss::List([5, 6, 40, 1_001].into()));
        assert_eq!(why(list(), |way| lose(3)(way)), Some(said_of_up()));
        assert!(said_of_up().contains("0 of 1000 packets up, and 3 to 3"));
    }

    #[test]
    fn what_a_nat_drops_is_no_loss_on_either_side_of_the_model() {
        let mut asked = network(Impairments { loss: Loss::Bernoulli(0.01), ..delay(5) });
        let said = |asked: &Network, blocked: u64, lost: u64| {
            let mut figures = fine();
            let link = &mut figures.links[0];
            for way in [&mut link.up, &mut link.down] {
                let fates = &mut way.fates;
                (fates.arrived, fates.blocked, fates.lost) = (100_000, blocked, lost);
                fates.delivered = 100_000 - blocked - lost;
            }
            why_invalid(asked, &figures)
        };
        assert_eq!(said(&asked, 0, 1_000), None);
        // On the way up the model sees half of them, on the way down all.
        assert!(said(&asked, 50_000, 1_000).unwrap().contains("packets up"));
        assert!(said(&asked, 50_000, 500).is_none());
        asked.links[0] = Network::parse("delay=5ms,loss=1%,nat=symmetric").unwrap().links.remove(0);
        assert!(said(&asked, 50_000, 1_000).unwrap().contains("packets up"));
        let way = asked.links[0].up.clone();
        asked.links[0].up = Impairments { loss: Loss::None, ..way };
        assert!(said(&asked, 50_000, 1_000).unwrap().contains("0 to 0"));
        asked.links[0].up = Impairments { loss: Loss::Bernoulli(0.02), ..Impairments::default() };
        assert_eq!(said(&asked, 50_000, 1_000), None);
    }

    /// The list holds for both directions, and the direction up lost nothing.
    fn said_of_up() -> String {
        let way = Impairments { loss: Loss::List([5, 6, 40].into()), ..delay(5) };
        why_invalid(&network(way), &fine()).unwrap()
    }

    #[test]
    fn shares_asked_for_are_those_of_the_long_run() {
        let share = |loss| asked_loss(&Impairments { loss, ..delay(1) });
        assert_eq!(share(Loss::None), Some(0.0));
        assert_eq!(share(Loss::Bernoulli(0.01)), Some(0.01));
        let chain = GilbertElliott { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 };
        assert!((share(Loss::GilbertElliott(chain)).unwrap() - 0.01 / 0.26).abs() < 1e-12);
        let outages = Outages { good: Nanos::from_millis(900), bad: Nanos::from_millis(100) };
        assert_eq!(share(Loss::Outages(outages)), Some(0.1));
        assert_eq!(share(Loss::List([1].into())), None);
    }

    #[test]
    fn the_least_round_trip_is_both_delays_less_what_jitter_can_take() {
        let with = |shape, ms| {
            let jitter = Jitter { scale: Nanos::from_millis(ms), shape, order: Order::Kept };
            least_rtt(&network(Impairments { jitter: Some(jitter), ..delay(25) }))
        };
        assert_eq!(least_rtt(&network(delay(25))), Some(Nanos::from_millis(50)));
        assert_eq!(with(Shape::Uniform, 5), Some(Nanos::from_millis(40)));
        assert_eq!(with(Shape::Normal, 5), None);
        // Pareto's offsets begin at 0.577 of the scale below 0.
        assert_eq!(with(Shape::Pareto, 5).map(|least| least.0 / 10_000), Some(4_422));
        let table = Shape::Table([-0.5, 0.0, 0.5].into());
        assert_eq!(with(table, 4), Some(Nanos::from_millis(46)));
    }

    #[test]
    fn an_idle_ping_takes_the_delays_and_its_time_at_the_rates() {
        let of = |typed: &str| {
            let link = &Network::parse(typed).unwrap().links[0];
            IdlePing::of(link).to_string()
        };
        assert_eq!(of("delay=20ms"), "40.0 ms");
        // 84 bytes at 1 Mbit/s are 0.672 ms.
        assert_eq!(of("delay=20ms,up.rate=1mbit"), "40.7 ms");
        assert_eq!(of("lte"), "50.1 ms on average, 44.3 ms at least");
        assert_eq!(of("delay=20ms,jitter=5ms,jitter-shape=normal"), "40.0 ms on average");
    }
}

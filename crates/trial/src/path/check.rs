//! Check of the emulator against itself: delays, rates and losses of packets, measured by the stamps and counters of
//! the hosts at the path's ends, compared with the path's specification.
//!
//! Each link is checked by itself, so that two hosts are the smallest network: all packets go over one pair of sockets at
//! its two hosts at a time. This module fixes which figures are judged, and by which limits; a machine's capacity is
//! shown and never judged.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::BitRate;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::path::{DirectionFigures, PacketOutcomes, PathFigures};
use deadheat_path::Family;
use deadheat_path::block::BlockedProtocol;
use deadheat_path::emulator::Emulator;
use deadheat_path::impair::expected;
use deadheat_path::netem::offload;
use deadheat_path::network::{Backend, Impairments, Link, Network, Rate, ReleaseWait};
use deadheat_path::routes::{self, Routes};

mod capacity;
mod found;
mod measure;
mod site;

use crate::path::check::measure::SendPlan;
pub use found::{
    Capacity, DelayCheck, DelayErrors, LimitVerdict, LossCheck, PathCheck, RateCheck, UncheckedWay,
    WayCheck,
};
use measure::SendOutcome;
pub use site::Site;

/// Probability with which a model with the right losses is judged right.
const CONFIDENCE: f64 = 0.99;

/// Largest error of the achieved rate, as a share.
const RATE_ERROR: f64 = 0.001;

/// Seed of every check, so that a failed check can be repeated.
const SEED: u64 = 1;

/// Length of a UDP header and one of IPv4 or IPv6, in bytes.
const fn headers(family: Family) -> u32 {
    match family {
        Family::V6 => 48,
        Family::Any | Family::V4 => 28,
    }
}

/// Time that most wake-ups in virtual machines do not exceed.
const WAKE_UP: Nanos = Nanos::from_micros(100);

/// Size of the datagrams for measuring delay, as a UDP payload.
const TIMED: usize = 100;

/// Network under check, already built.
pub trait Bed {
    /// Starts the path anew with this seed.
    ///
    /// # Errors
    /// Fails if the path cannot start.
    fn begin(&mut self, seed: u64) -> Result<()>;

    /// Ends the run and returns the path's figures since [`Bed::begin`].
    ///
    /// # Errors
    /// Fails if the figures cannot be read.
    fn end(&mut self) -> Result<PathFigures>;

    /// Creates new sockets at the first and at the second host of a link, with their addresses there; of IPv4 where the
    /// link carries it.
    ///
    /// # Errors
    /// Fails if a host cannot be entered.
    fn sites(&self, link: usize) -> Result<[Site; 2]>;

    /// Returns the backend of the network, and the reason for that choice.
    fn made_of(&self) -> (Backend, String);
}

impl Bed for Emulator {
    fn begin(&mut self, seed: u64) -> Result<()> {
        Emulator::begin(self, seed)
    }

    fn end(&mut self) -> Result<PathFigures> {
        Emulator::end(self)
    }

    fn sites(&self, link: usize) -> Result<[Site; 2]> {
        let failed =
            |what: &str| Error::setup("check a path", std::io::Error::other(what.to_owned()));
        let built = self.built().links.get(link).ok_or_else(|| failed("a link was not built"))?;
        let site = |host: usize, addresses: &[IpAddr]| {
            let address = addresses.first().ok_or_else(|| failed("a host has no address"))?;
            Site::behind(self.entry(host)?, *address)
        };
        let ([first, second], [one, other]) = (built.ends, &built.addresses);
        Ok([site(first, one)?, site(second, other)?])
    }

    fn made_of(&self) -> (Backend, String) {
        (self.built().backend, self.built().why.clone())
    }
}

impl PathCheck {
    /// Checks a network that is up, and calls `seen` after each direction; `typed` is its text. Takes about five seconds a
    /// direction.
    ///
    /// # Errors
    /// Fails if no direction of a link can be checked, if an operation other than a measured one fails (a host cannot be
    /// entered, or a socket not be created), or if `seen` does.
    pub fn measure(
        typed: &str,
        network: &Network,
        bed: &mut dyn Bed,
        seen: &mut dyn FnMut(&WayCheck) -> Result<()>,
    ) -> Result<PathCheck> {
        let start = Monotonic.now();
        let (checked, refused) = CheckDirection::all(network);
        if checked.is_empty() {
            let of_first = refused.into_iter().next().map(|(_, error)| error);
            return Err(
                of_first.unwrap_or_else(|| Error::usage("a path without links cannot be checked"))
            );
        }
        let (mut ways, mut errors) = (Vec::new(), Vec::new());
        for way in &checked {
            let (check, excess) = way.check(bed)?;
            seen(&check)?;
            errors.extend(excess.into_iter().filter(|_| check.delay.judged != LimitVerdict::Open));
            ways.push(check);
        }
        errors.sort_unstable();
        let free = checked.iter().find(|way| way.is_free());
        let capacity = free.map(|way| Capacity::measure(way, bed)).transpose()?;
        let unchecked = refused
            .into_iter()
            .map(|(way, error)| UncheckedWay { way: way.name(), why: error.to_string() });
        let (backend, why) = bed.made_of();
        Ok(PathCheck {
            path: typed.to_owned(),
            backend,
            why,
            ways,
            unchecked: unchecked.collect(),
            delay_errors: DelayErrors::of(&errors),
            capacity,
            took_ns: Monotonic.now() - start,
        })
    }
}

/// Direction of a link under check.
struct CheckDirection<'a> {
    network: &'a Network,
    /// Index of the link.
    link: usize,
    direction: Direction,
}

impl<'a> CheckDirection<'a> {
    /// Returns the directions of all links to check, one of a link whose two are alike, and the directions that cannot be
    /// checked, each with the reason.
    fn all(network: &'a Network) -> (Vec<CheckDirection<'a>>, Vec<(CheckDirection<'a>, Error)>) {
        let (mut checked, mut refused) = (Vec::new(), Vec::new());
        let routes = routes::over_time(network);
        for (link, own) in network.links.iter().enumerate() {
            let both = [Direction::Up, Direction::Down];
            for direction in if own.up == own.down { &both[..1] } else { &both[..] } {
                let way = CheckDirection { network, link, direction: *direction };
                match way.obstacle(&routes) {
                    None => checked.push(way),
                    Some(error) => refused.push((way, error)),
                }
            }
        }
        (checked, refused)
    }

    fn link(&self) -> &Link {
        &self.network.links[self.link]
    }

    fn model(&self) -> &Impairments {
        self.link().toward(self.direction)
    }

    fn name(&self) -> String {
        self.network.way_name(self.link, self.direction)
    }

    /// Returns the version of IP of its packets.
    fn family(&self) -> Family {
        if self.link().carries(Family::V4) { Family::V4 } else { Family::V6 }
    }

    /// Returns why it cannot be checked; `None` if it can.
    fn obstacle(&self, routes: &[Routes]) -> Option<Error> {
        let [from, _] = routes::hosts_of(self.link(), self.direction);
        let end = usize::from(self.direction == Direction::Up);
        let is_direct = |routes: &Routes| routes.link(from, self.link, end) == Some(self.link);
        if self.link().middlebox.is_some() {
            Some(Error::unsupported(
                "a check of a link with nat= or firewall=",
                "its sockets are connected to each other's address; leave these keys out, and all else is the same",
            ))
        } else if !self.model().down.is_empty() {
            Some(Error::usage(
                "a link that goes down at times is not checked, as each figure is taken from a time of its own; leave \
                 out `down=`",
            ))
        } else if self.model().block.iter().any(|block| block.protocol == BlockedProtocol::Udp) {
            Some(Error::usage(
                "a link that blocks UDP is not checked, as it is with UDP; leave out `block=udp`",
            ))
        } else if !routes.first().is_some_and(is_direct) {
            Some(Error::usage(
                "a link that its first host does not use to reach its second is not checked; leave out `route=`",
            ))
        } else {
            None
        }
    }

    /// Returns true if it leads up a link that limits no rate, and that a stream can cross both ways.
    fn is_free(&self) -> bool {
        let Link { up, down, .. } = self.link();
        let is_free = |way: &&Impairments| {
            way.rate == Rate::Unlimited && way.block.is_empty() && way.down.is_empty()
        };
        let is_up = self.direction == Direction::Up;
        is_up && self.family() == Family::V4 && [up, down].iter().all(is_free)
    }

    /// Returns the check, and the errors of the delays, sorted.
    fn check(&self, bed: &mut dyn Bed) -> Result<(WayCheck, Vec<i64>)> {
        let (delay, errors) = self.delay(bed)?;
        let (rate, loss) = (self.rate(bed)?, self.loss(bed)?);
        let (way, direction) = (self.name(), self.direction);
        Ok((WayCheck { way, direction, delay, rate, loss }, errors))
    }

    /// Sends datagrams in this direction, over a restarted path.
    fn send(&self, course: SendPlan, bed: &mut dyn Bed) -> Result<(SendOutcome, DirectionFigures)> {
        let [mut first, mut second] = bed.sites(self.link)?;
        let (first, second) = (first.datagrams()?, second.datagrams()?);
        let (from, to) = match self.direction {
            Direction::Up => (first, second),
            Direction::Down => (second, first),
        };
        bed.begin(SEED)?;
        let came = course.run(from, to)?;
        let figures = bed.end()?.links.into_iter().nth(self.link).unwrap_or_default();
        Ok((came, figures.toward(self.direction).clone()))
    }

    /// Returns the serialisation time of a UDP datagram at the path's rate.
    fn serialisation(&self, datagram: usize) -> Nanos {
        let Rate::Fixed(BitRate(rate)) = self.model().rate else { return Nanos::ZERO };
        let around = headers(self.family()) + self.model().overhead;
        let bits = 8 * (datagram as u64 + u64::from(around));
        Nanos(bits.saturating_mul(1_000_000_000) / rate.max(1))
    }

    fn delay(&self, bed: &mut dyn Bed) -> Result<(DelayCheck, Vec<i64>)> {
        let alone = self.serialisation(TIMED);
        let every = Nanos::from_millis(1).max(alone + alone);
        // 1000 remain without the first tenth; a slow path gets three seconds.
        let packets = (3_000_000_000 / every.0).clamp(30, 1_112) as usize;
        let delay = self.model().delay;
        let course = SendPlan { packets, size: TIMED, every, delay, is_stamped: true };
        let (came, _) = self.send(course, bed)?;
        let limits = match self.network.wait {
            ReleaseWait::Hybrid => (Nanos::from_micros(10), Nanos::from_micros(50)),
            // As late as a wake-up may be (`LatenessLimits`).
            ReleaseWait::Sleep => (Nanos::from_micros(20), Nanos::from_micros(100)),
            ReleaseWait::Spin => (Nanos::from_micros(5), Nanos::from_micros(20)),
        };
        // A delay shorter than a wake-up cannot hide one: the excess is the machine's.
        let short = self.network.wait != ReleaseWait::Spin && delay + alone < WAKE_UP;
        let open = short
            || self.model().jitter.is_some()
            || self.model().reorder.is_some()
            || matches!(self.model().rate, Rate::Trace(_));
        let errors = came.excess(delay + alone);
        Ok((DelayCheck::of(&errors, delay + alone, limits, open), errors))
    }

    fn rate(&self, bed: &mut dyn Bed) -> Result<Option<RateCheck>> {
        let Rate::Fixed(BitRate(expected_bps)) = self.model().rate else { return Ok(None) };
        let mtu = self.link().mtu;
        let size = usize::from(mtu).saturating_sub(headers(self.family()) as usize);
        let alone = self.serialisation(size);
        let packets = (1_000_000_000 / alone.0.max(1)).clamp(50, 200_000) as usize;
        // A quarter more than the rate, so that the queue is never empty.
        let every = Nanos(alone.0 * 4 / 5);
        let course = SendPlan {
            packets,
            size,
            every,
            delay: self.model().delay + Nanos(alone.0.saturating_mul(packets as u64)),
            is_stamped: false,
        };
        let (came, _) = self.send(course, bed)?;
        let bits = 8.0 * f64::from(u32::from(mtu) + self.model().overhead);
        let achieved_bps = came
            .span()
            .filter(|(span, _)| *span > 0)
            .map(|(span, packets)| bits * packets as f64 * 1e9 / span as f64);
        let offered_bps = bits * came.sent as f64 * 1e9 / came.sending_ns.max(1) as f64;
        let error = achieved_bps.map(|achieved| achieved / expected_bps as f64 - 1.0);
        let limit = RATE_ERROR + 2.0 / packets as f64;
        let judged = match error {
            // This host could not offer enough to decide.
            _ if offered_bps < 1.05 * expected_bps as f64 => LimitVerdict::Open,
            Some(error) => LimitVerdict::of(error.abs() <= limit),
            None => LimitVerdict::Outside,
        };
        Ok(Some(RateCheck { expected_bps, offered_bps, achieved_bps, error, limit, judged }))
    }

    fn loss(&self, bed: &mut dyn Bed) -> Result<LossCheck> {
        const SIZE: usize = 64;
        let alone = self.serialisation(SIZE);
        let every = Nanos::from_micros(25).max(alone + alone);
        let packets = (2_500_000_000 / every.0).clamp(200, 100_000) as usize;
        let delay = self.model().delay;
        let course = SendPlan { packets, size: SIZE, every, delay, is_stamped: false };
        let (came, figures) = self.send(course, bed)?;
        Ok(LossCheck::of(self.model(), &came, &figures))
    }
}

impl DelayCheck {
    fn of(sorted: &[i64], expected_ns: Nanos, limits: (Nanos, Nanos), open: bool) -> DelayCheck {
        let errors = DelayErrors::of(sorted);
        let within = |figure: Option<i64>, limit: Nanos| {
            figure.is_none_or(|ns| ns.unsigned_abs() <= limit.0)
        };
        let judged = match errors.p50_ns {
            _ if open => LimitVerdict::Open,
            None => LimitVerdict::Outside,
            p50 => LimitVerdict::of(within(p50, limits.0) && within(errors.p99_ns, limits.1)),
        };
        DelayCheck {
            expected_ns,
            errors,
            limit_p50_ns: limits.0.0,
            limit_p99_ns: limits.1.0,
            judged,
        }
    }
}

impl LossCheck {
    fn of(model: &Impairments, came: &SendOutcome, figures: &DirectionFigures) -> LossCheck {
        let queue = figures.fates.full + figures.fates.early;
        let PacketOutcomes { blocked, lost: own, bursts, .. } = figures.fates;
        let lost = came.sent.saturating_sub(came.got + came.full + queue + blocked);
        let expected = expected_losses(model, came.sent.saturating_sub(blocked));
        let judged = match &expected {
            None => LimitVerdict::Open,
            // The path's account must match the losses, and the losses must match the specification.
            Some(expected) => LimitVerdict::of(
                expected.contains(&lost) && own == lost && figures.device_drops == 0,
            ),
        };
        LossCheck {
            sent: came.sent,
            lost,
            dropped_at_receiver: came.full,
            dropped_by_queue: queue,
            by_own_account: own,
            device_drops: figures.device_drops,
            mean_burst: (bursts > 0).then(|| own as f64 / bursts as f64),
            expected_burst: expected::mean_burst(&model.loss),
            expected_share: expected::share(&model.loss),
            expected: expected.map(|range| [*range.start(), *range.end()]),
            judged,
        }
    }
}

/// Returns the range of losses among the first `n` packets that the model allows; `None` if the number of losses
/// decides nothing, or if packets are lost outside the model.
fn expected_losses(model: &Impairments, n: u64) -> Option<RangeInclusive<u64>> {
    if model.corrupt > 0.0 || matches!(model.rate, Rate::Trace(_)) {
        return None;
    }
    expected::losses(model, n, CONFIDENCE)
}

impl Capacity {
    /// Measures two seconds of streams, and as many datagrams as take the loopback interface about a second.
    fn measure(way: &CheckDirection<'_>, bed: &mut dyn Bed) -> Result<Capacity> {
        const DATAGRAMS: usize = 150_000;
        let time = Nanos::from_secs(1);
        let [mut near, mut far] = bed.sites(way.link)?;
        let mut home = Site::here(IpAddr::from([127, 0, 0, 1]))?;
        let mut capacity = Capacity { way: way.name(), ..Capacity::default() };
        let (from, to) = (home.datagrams()?, home.datagrams()?);
        capacity.loopback_datagrams_per_s = capacity::datagrams(from, to, DATAGRAMS, Nanos::ZERO)?;
        bed.begin(SEED)?;
        let (from, to) = (near.datagrams()?, far.datagrams()?);
        capacity.datagrams_per_s = capacity::datagrams(from, to, DATAGRAMS, way.model().delay)?;
        bed.begin(SEED)?;
        let start = Monotonic.now();
        let carried = capacity::stream(&near.stream()?, &far.stream()?, time)?;
        let took = (Monotonic.now() - start).as_secs_f64();
        let figures = bed.end()?.links.into_iter().nth(way.link).unwrap_or_default();
        let decided = figures.up.fates.arrived + figures.down.fates.arrived;
        capacity.stream_bps = carried.rate();
        capacity.decisions_per_s = (decided > 0).then(|| decided as f64 / took);
        // The network ends with the check, so its sockets are not needed any more.
        for site in [&mut near, &mut far] {
            let socket = site.datagrams()?;
            if let IpAddr::V4(address) = site.address() {
                offload::device_of(socket.as_fd(), address)
                    .and_then(|device| offload::switch_off(socket.as_fd(), &device))
                    .map_err(|e| Error::setup("switch the offloads of a path's end off", e))?;
            }
        }
        bed.begin(SEED)?;
        capacity.plain_stream_bps = capacity::stream(&near.stream()?, &far.stream()?, time)?.rate();
        bed.end()?;
        Ok(capacity)
    }
}

#[cfg(test)]
mod tests;

//! Check of the emulator against itself: delays, rates and losses of packets, measured by the stamps and counters of
//! the hosts at the path's ends, compared with the path's specification.
//!
//! All packets go over one pair of IPv4 sockets, of the first link, at a time. This module fixes which figures are
//! judged, and by which limits; a machine's capacity is shown and never judged.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Direction, Side};
use deadheat_contract::measurements::path::{DirectionFigures, PacketOutcomes, PathFigures};
use deadheat_path::Family;
use deadheat_path::emulator::Emulator;
use deadheat_path::impair::expected;
use deadheat_path::netem::offload;
use deadheat_path::network::{Backend, Impairments, Network, Rate, ReleaseWait};
use deadheat_stats::quantile::quantile_sorted;

mod capacity;
mod measure;
mod site;

use crate::path::check::measure::SendPlan;
use measure::SendOutcome;
pub use site::Site;

/// Probability with which a model with the right losses is judged right.
const CONFIDENCE: f64 = 0.99;

/// Largest error of the achieved rate, as a share.
const RATE_ERROR: f64 = 0.001;

/// Seed of every check, so that a failed check can be repeated.
const SEED: u64 = 1;

/// Length of an IPv4 and a UDP header in bytes.
const HEADERS: u32 = 28;

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

    /// Creates new sockets of one of its hosts, with an IPv4 address.
    ///
    /// # Errors
    /// Fails if that host cannot be entered.
    fn site(&self, side: Side) -> Result<Site>;

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

    fn site(&self, side: Side) -> Result<Site> {
        let built = self.built();
        let host = built.host(side);
        let address = built.address(host, Family::V4).ok_or_else(|| {
            Error::setup("check a path", std::io::Error::other("its hosts have no IPv4 address"))
        })?;
        Site::behind(self.entry(host)?, address)
    }

    fn made_of(&self) -> (Backend, String) {
        (self.built().backend, self.built().why.clone())
    }
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCheck {
    /// Path as typed.
    pub path: String,
    /// Backend that carries the packets.
    pub backend: Backend,
    /// Reason for that choice.
    pub why: String,
    /// Checks by direction; only up if both directions have the same specification.
    pub ways: Vec<WayCheck>,
    /// Capacity of the path; absent if it limits the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Duration of the check, in nanoseconds.
    pub took_ns: Nanos,
}

/// Judgement of a figure against the path's specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitVerdict {
    /// Within its limits.
    Within,
    /// Outside its limits.
    Outside,
    /// Not decided by the specification: jitter, traces, outages, damage.
    Open,
}

impl LimitVerdict {
    fn of(within: bool) -> LimitVerdict {
        if within { LimitVerdict::Within } else { LimitVerdict::Outside }
    }
}

/// Check of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayCheck {
    /// Direction that was checked.
    pub direction: Direction,
    /// Delay of packets.
    pub delay: DelayCheck,
    /// Rate at which packets pass; absent if it is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateCheck>,
    /// Loss of packets.
    pub loss: LossCheck,
}

/// Errors of the one-way delay of 100-byte datagrams at 1 kHz or at half of the path's rate: time from the sending
/// kernel's stamp to the receiving kernel's, less the specified delay, in signed nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelayCheck {
    /// Specified delay: the path's delay plus the serialisation time of such a packet.
    pub expected_ns: Nanos,
    /// Packets with both stamps, without the first tenth.
    pub n: u64,
    /// Least error; absent, like the following ones, if no packet had both stamps.
    pub min_ns: Option<i64>,
    /// Median error.
    pub p50_ns: Option<i64>,
    /// 90th percentile of the error.
    pub p90_ns: Option<i64>,
    /// 99th percentile of the error; absent with fewer than 1000 packets.
    pub p99_ns: Option<i64>,
    /// Greatest error.
    pub max_ns: Option<i64>,
    /// Limit of the median's distance from 0.
    pub limit_p50_ns: u64,
    /// Limit of the 99th percentile's distance from 0.
    pub limit_p99_ns: u64,
    /// Judgement of both limits.
    pub judged: LimitVerdict,
}

/// Rate of datagrams of the path's MTU, from the receiving kernel's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateCheck {
    /// Specified rate, in bits per second.
    pub expected_bps: u64,
    /// Offered rate, in bits per second.
    pub offered_bps: f64,
    /// Received rate in bits per second, link-layer overhead included; absent if fewer than two packets arrived.
    pub achieved_bps: Option<f64>,
    /// Difference between received and specified rate, as a share of the specified rate.
    pub error: Option<f64>,
    /// Limit of that error.
    pub limit: f64,
    /// Judgement of the error.
    pub judged: LimitVerdict,
}

/// Losses on the path among many small datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossCheck {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the loss model dropped.
    pub lost: u64,
    /// Datagrams that arrived at a full socket; not counted as lost.
    pub dropped_at_receiver: u64,
    /// Datagrams that the queue dropped because this host sent some of them late and so together; not counted as lost.
    pub dropped_by_queue: u64,
    /// Packets lost according to the path's own account.
    pub by_own_account: u64,
    /// Datagrams that the path lost outside its model: in devices and rings.
    pub device_drops: u64,
    /// Mean number of consecutive packets lost together, according to the path's own account; absent if it does not
    /// count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_burst: Option<f64>,
    /// Expected mean in the long run; absent if the model does not specify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_burst: Option<f64>,
    /// Specified share of lost packets; absent if there is none.
    pub expected_share: Option<f64>,
    /// Least and greatest number of losses, with a confidence of 99 %.
    pub expected: Option<[u64; 2]>,
    /// Judgement: within the limits, and in agreement with the path's own account.
    pub judged: LimitVerdict,
}

/// Capacity of the path, from near to far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// Rate of a byte stream, in bits of application data per second.
    pub stream_bps: Option<f64>,
    /// Packets that the path handled during that stream, both directions, per second.
    pub decisions_per_s: Option<f64>,
    /// Rate of a byte stream with the devices' offloads off, so that no packet is larger than the MTU, in bits per
    /// second.
    pub plain_stream_bps: Option<f64>,
    /// Datagrams of 64 bytes, one per call, received per second.
    pub datagrams_per_s: Option<f64>,
    /// The same over the loopback interface, measured just before.
    pub loopback_datagrams_per_s: Option<f64>,
}

impl PathCheck {
    /// Returns true if no judged figure is outside its limits.
    pub fn is_fine(&self) -> bool {
        self.ways.iter().all(|way| {
            let rate = way.rate.map_or(LimitVerdict::Open, |rate| rate.judged);
            [way.delay.judged, rate, way.loss.judged].iter().all(|j| *j != LimitVerdict::Outside)
        })
    }

    /// Checks a network that is up; `typed` is its text. Takes five to ten seconds.
    ///
    /// # Errors
    /// Fails if an operation other than a measured one fails: a host cannot be entered, or a socket not be created.
    pub fn measure(typed: &str, network: &Network, bed: &mut dyn Bed) -> Result<PathCheck> {
        let start = Monotonic.now();
        if network.has_others() {
            return Err(Error::unsupported(
                "a check of a network of several hosts",
                "it is made of links like others, so check a link alone: deadheat path check delay=10ms",
            ));
        }
        if network.links.iter().any(|link| link.middlebox.is_some()) {
            return Err(Error::unsupported(
                "a check of a path with nat= or firewall=",
                "its sockets are connected to each other's address; leave these keys out, and all else is the same",
            ));
        }
        let Some(link) = network.links.first() else {
            return Err(Error::usage("a path without links cannot be checked"));
        };
        let directions: &[Direction] =
            if link.up == link.down { &[Direction::Up] } else { &[Direction::Up, Direction::Down] };
        if [&link.up, &link.down].iter().any(|way| !way.down.is_empty()) {
            return Err(Error::usage(
                "a link that goes down at times is not checked, as each figure is taken from a time of its own; leave out \
                 `down=`",
            ));
        }
        let mut ways = Vec::new();
        for direction in directions {
            let way = CheckDirection {
                direction: *direction,
                model: link.toward(*direction),
                mtu: link.mtu,
                wait: network.wait,
            };
            ways.push(way.check(bed)?);
        }
        let free = [&link.up, &link.down].iter().all(|way| way.rate == Rate::Unlimited);
        let capacity = if free { Some(Capacity::measure(link.up.delay, bed)?) } else { None };
        let (backend, why) = bed.made_of();
        let took_ns = Monotonic.now() - start;
        Ok(PathCheck { path: typed.to_owned(), backend, why, ways, capacity, took_ns })
    }
}

/// Direction under check.
struct CheckDirection<'a> {
    direction: Direction,
    model: &'a Impairments,
    mtu: u16,
    wait: ReleaseWait,
}

impl CheckDirection<'_> {
    fn check(&self, bed: &mut dyn Bed) -> Result<WayCheck> {
        Ok(WayCheck {
            direction: self.direction,
            delay: self.delay(bed)?,
            rate: self.rate(bed)?,
            loss: self.loss(bed)?,
        })
    }

    /// Sends datagrams in this direction, over a restarted path.
    fn send(&self, course: SendPlan, bed: &mut dyn Bed) -> Result<(SendOutcome, DirectionFigures)> {
        let (from, to) = match self.direction {
            Direction::Up => (Side::Near, Side::Far),
            Direction::Down => (Side::Far, Side::Near),
        };
        let (from, to) = (bed.site(from)?.datagrams()?, bed.site(to)?.datagrams()?);
        bed.begin(SEED)?;
        let came = course.run(from, to)?;
        let figures = bed.end()?.links.into_iter().next().unwrap_or_default();
        Ok((came, if self.direction == Direction::Up { figures.up } else { figures.down }))
    }

    /// Returns the serialisation time of a UDP datagram at the path's rate.
    fn serialisation(&self, datagram: usize) -> Nanos {
        let Rate::Fixed(BitRate(rate)) = self.model.rate else { return Nanos::ZERO };
        let bits = 8 * (datagram as u64 + u64::from(HEADERS + self.model.overhead));
        Nanos(bits.saturating_mul(1_000_000_000) / rate.max(1))
    }

    fn delay(&self, bed: &mut dyn Bed) -> Result<DelayCheck> {
        let alone = self.serialisation(TIMED);
        let every = Nanos::from_millis(1).max(alone + alone);
        // 1000 remain without the first tenth; a slow path gets three seconds.
        let packets = (3_000_000_000 / every.0).clamp(30, 1_112) as usize;
        let delay = self.model.delay;
        let course = SendPlan { packets, size: TIMED, every, delay, is_stamped: true };
        let (came, _) = self.send(course, bed)?;
        let limits = match self.wait {
            ReleaseWait::Hybrid => (Nanos::from_micros(10), Nanos::from_micros(50)),
            // As late as a wake-up may be (`LatenessLimits`).
            ReleaseWait::Sleep => (Nanos::from_micros(20), Nanos::from_micros(100)),
            ReleaseWait::Spin => (Nanos::from_micros(5), Nanos::from_micros(20)),
        };
        // A delay shorter than a wake-up cannot hide one: the excess is the machine's.
        let short = self.wait != ReleaseWait::Spin && delay + alone < WAKE_UP;
        let open = short
            || self.model.jitter.is_some()
            || self.model.reorder.is_some()
            || matches!(self.model.rate, Rate::Trace(_));
        Ok(DelayCheck::of(&came.excess(delay + alone), delay + alone, limits, open))
    }

    fn rate(&self, bed: &mut dyn Bed) -> Result<Option<RateCheck>> {
        let Rate::Fixed(BitRate(expected_bps)) = self.model.rate else { return Ok(None) };
        let size = usize::from(self.mtu) - HEADERS as usize;
        let alone = self.serialisation(size);
        let packets = (1_000_000_000 / alone.0.max(1)).clamp(50, 200_000) as usize;
        // A quarter more than the rate, so that the queue is never empty.
        let every = Nanos(alone.0 * 4 / 5);
        let course = SendPlan {
            packets,
            size,
            every,
            delay: self.model.delay + Nanos(alone.0.saturating_mul(packets as u64)),
            is_stamped: false,
        };
        let (came, _) = self.send(course, bed)?;
        let bits = 8.0 * f64::from(u32::from(self.mtu) + self.model.overhead);
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
        let delay = self.model.delay;
        let course = SendPlan { packets, size: SIZE, every, delay, is_stamped: false };
        let (came, figures) = self.send(course, bed)?;
        Ok(LossCheck::of(self.model, &came, &figures))
    }
}

impl DelayCheck {
    fn of(sorted: &[i64], expected_ns: Nanos, limits: (Nanos, Nanos), open: bool) -> DelayCheck {
        let rank =
            |q: f64, least: usize| quantile_sorted(sorted, q).filter(|_| sorted.len() >= least);
        let (p50_ns, p99_ns) = (rank(0.5, 20), rank(0.99, 1_000));
        let within = |figure: Option<i64>, limit: Nanos| {
            figure.is_none_or(|ns| ns.unsigned_abs() <= limit.0)
        };
        let judged = match p50_ns {
            _ if open => LimitVerdict::Open,
            None => LimitVerdict::Outside,
            _ => LimitVerdict::of(within(p50_ns, limits.0) && within(p99_ns, limits.1)),
        };
        DelayCheck {
            expected_ns,
            n: sorted.len() as u64,
            min_ns: sorted.first().copied(),
            p50_ns,
            p90_ns: rank(0.9, 100),
            p99_ns,
            max_ns: sorted.last().copied(),
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
    fn measure(delay: Nanos, bed: &mut dyn Bed) -> Result<Capacity> {
        const DATAGRAMS: usize = 150_000;
        let time = Nanos::from_secs(1);
        let (mut near, mut far) = (bed.site(Side::Near)?, bed.site(Side::Far)?);
        let mut home = Site::here(IpAddr::from([127, 0, 0, 1]))?;
        let mut capacity = Capacity::default();
        let (from, to) = (home.datagrams()?, home.datagrams()?);
        capacity.loopback_datagrams_per_s = capacity::datagrams(from, to, DATAGRAMS, Nanos::ZERO)?;
        bed.begin(SEED)?;
        let (from, to) = (near.datagrams()?, far.datagrams()?);
        capacity.datagrams_per_s = capacity::datagrams(from, to, DATAGRAMS, delay)?;
        bed.begin(SEED)?;
        let start = Monotonic.now();
        let carried = capacity::stream(&near.stream()?, &far.stream()?, time)?;
        let took = (Monotonic.now() - start).as_secs_f64();
        let figures = bed.end()?.links.into_iter().next().unwrap_or_default();
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

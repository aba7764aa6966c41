//! Messages of several streams, each of which has an order of its own: what head-of-line blocking costs.
//!
//! The streams take turns on a grid of times. Where a connection has lanes, each stream has one; where it
//! has not, all share the connection's order, as the streams of HTTP/2 share that of TCP (RFC 9113), and a
//! lost message then holds back those of all streams.
//!
//! ```text
//! stream 0   due ──► arrives
//! stream 1      due ──────────(lost, sent again)──────────► arrives
//! stream 0         due ──► could be here ┄┄held back┄┄┄┄┄┄► arrives, where they share an order
//! ```

use crate::contract::{Direction, Guarantees, PeerKind, Service, Side};
use crate::error::{Error, Result};
use crate::figures::{Better, Metric, Role, Unit};
use crate::spec::{Key, Kind, Settings, Spec};
use crate::time::Nanos;
use crate::units::OfferedRate;

use super::header::account_of;
use super::paced::{self, DRAIN, Period, Receiver, STAMPED_LEN, Schedule, Sender};
use super::setting::{one_clock, ways};
use super::{Findings, Half, Info, Lengths, Part, Reports, Setting, Task, Workload};

mod delays;

use delays::Delays;

/// The workload.
pub(super) struct Streams;

const KEYS: &[Key] = &[
    Key {
        name: "streams",
        kind: Kind::Count(1, 256),
        default: "8",
        doc: "how many streams, which take turns",
    },
    Key {
        name: "rate",
        kind: Kind::Offered(100_000_000_000, 10_000_000),
        default: "200pps",
        doc: "what all streams offer together: messages (200pps) or application bits (2mbit) per second",
    },
    Key {
        name: "size",
        kind: Kind::Size(STAMPED_LEN as u64, 65_507),
        default: "200",
        doc: "message size",
    },
    Key {
        name: "count",
        kind: Kind::Count(20, MOST_MESSAGES),
        default: "",
        doc: "how many messages, all streams together (as many as the claim needs: 200, or 1000 for p99)",
    },
    Key {
        name: "over",
        kind: Kind::Choice(&["lanes", "connections"]),
        default: "lanes",
        doc: "all streams over one connection, each on a lane of its own where the transport has lanes; or a connection for each",
    },
    Key {
        name: "order",
        kind: Kind::Choice(&["stream", "none"]),
        default: "stream",
        doc: "each stream in its order, or every message as soon as it is there; all of them arrive",
    },
    Key {
        name: "direction",
        kind: Kind::Choice(&["up", "down"]),
        default: "up",
        doc: "near to far, or far to near",
    },
    Key {
        name: "claim",
        kind: Kind::Choice(&["mean", "p50", "p99"]),
        default: "mean",
        doc: "the figure of the delay that verdicts are given for; the others are described",
    },
];

static INFO: Info = Info {
    id: "streams",
    label: "streams",
    summary: "messages of several streams: what losses of one hold back of the others (head-of-line blocking)",
    keys: KEYS,
};

/// Each is remembered until the end, with two times.
const MOST_MESSAGES: u64 = 10_000_000;

/// Messages that have a mean: at a loss of 1 % two of them are sent again.
const ENOUGH: u64 = 200;

/// Messages of which ten lie beyond the 99th percentile.
const ENOUGH_FOR_P99: u64 = 1_000;

impl Workload for Streams {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        one_clock(INFO.id, setting)?;
        Ok(Box::new(StreamsTask::new(Settings::check(spec, KEYS)?)?))
    }
}

/// What carries the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Lanes,
    Connections,
}

/// Streams with their settings.
#[derive(Debug, Clone)]
struct StreamsTask {
    settings: Settings,
    streams: u16,
    period: Period,
    size: usize,
    count: u64,
    over: Over,
    service: Service,
    direction: Direction,
    /// How long a trial has to be, where the settings leave it open.
    lengths: Option<Lengths>,
}

impl StreamsTask {
    fn new(settings: Settings) -> Result<StreamsTask> {
        let size = settings.size("size").map_or(200, |size| size.0 as usize);
        let period = match settings.offered("rate") {
            Some(OfferedRate::Bits(rate)) => Period::of_bits(size as u64 * 8, rate.0),
            Some(OfferedRate::Packets(rate)) => Period::of_packets(rate.0),
            Some(OfferedRate::Max) | None => {
                return Err(Error::usage(
                    "streams: rate=max has no times from which to measure delays; give a rate, as 200pps",
                ));
            }
        };
        let asked = settings.count("count");
        let claims_p99 = settings.text("claim") == Some("p99");
        let fewest = if claims_p99 { ENOUGH_FOR_P99 } else { ENOUGH };
        let lengths = Lengths { fewest, unit_ns: period.times(1).0.max(1), key: "count" };
        let choice = |key: &str, word: &str| settings.text(key) == Some(word);
        Ok(StreamsTask {
            streams: settings.count("streams").map_or(1, |streams| streams as u16),
            period,
            size,
            count: asked.unwrap_or(fewest),
            over: if choice("over", "connections") { Over::Connections } else { Over::Lanes },
            service: if choice("order", "none") { Service::UNORDERED } else { Service::ORDERED },
            direction: if choice("direction", "down") { Direction::Down } else { Direction::Up },
            lengths: asked.is_none().then_some(lengths),
            settings,
        })
    }

    /// How many connections.
    fn connections(&self) -> u16 {
        if self.over == Over::Connections { self.streams } else { 1 }
    }

    fn schedule(&self, flow: u16) -> Schedule {
        let flows = u64::from(self.connections());
        Schedule::new(self.period, self.count, u64::from(flow), flows)
    }
}

impl Task for StreamsTask {
    fn headline(&self) -> String {
        let rate = self.settings.text("rate").unwrap_or_default();
        let over = match self.over {
            Over::Lanes => "one connection",
            Over::Connections => "a connection each",
        };
        let ways = ways(&[self.direction]);
        format!("{} streams over {over}, {}-byte messages, {rate} {ways}", self.streams, self.size)
    }

    fn lengths(&self) -> Option<Lengths> {
        self.lengths
    }

    fn metrics(&self) -> Vec<Metric> {
        let claimed = format!("delay_{}_ns", self.settings.text("claim").unwrap_or("mean"));
        let metric = |(name, label, unit): (&str, &str, Unit)| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit,
            better: Better::Lower,
            role: if name == claimed { Role::Claim } else { Role::Descriptive },
        };
        let mut metrics: Vec<Metric> = FIGURES.iter().copied().map(metric).collect();
        metrics.sort_by_key(|metric| metric.role != Role::Claim);
        metrics
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        let lanes = match self.over {
            Over::Lanes => self.streams.min(promised.lanes),
            Over::Connections => 1,
        };
        vec![self.service; usize::from(lanes)]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerKind) -> Option<String> {
        (peer == PeerKind::Kernel).then(|| {
            "the far host's kernel only echoes, so nobody could receive streams".to_owned()
        })
    }

    fn flows(&self) -> Vec<Option<Direction>> {
        vec![Some(self.direction); usize::from(self.connections())]
    }

    fn largest_message(&self) -> usize {
        self.size
    }

    fn longest(&self) -> Nanos {
        self.period.times(self.count) + DRAIN
    }

    fn planned(&self) -> Option<Nanos> {
        Some(self.period.times(self.count))
    }

    fn most_bytes(&self) -> Option<u64> {
        Some(self.count.saturating_mul(self.size as u64))
    }

    fn memory(&self, side: Side) -> u64 {
        let receives = (side == Side::Far) == (self.direction == Direction::Up);
        if receives { self.count * Delays::BYTES_EACH } else { 0 }
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn half(&self, part: Part) -> Box<dyn Half> {
        let schedule = self.schedule(part.flow);
        let sends = (part.side == Side::Near) == (self.direction == Direction::Up);
        if sends {
            let lanes = self.lanes(&part.guarantees).len() as u16;
            return Box::new(Sender::new(schedule, self.size, lanes, part));
        }
        let streams = if self.over == Over::Lanes { self.streams } else { 1 };
        let delays = Delays::new(schedule.slots(), streams);
        let delivery = self.service.delivery;
        Box::new(Receiver::new(self.size, part.tag, part.transit, delivery, delays))
    }

    fn conclude(&self, reports: &Reports<'_>) -> Findings {
        let mut findings = Findings::default();
        let (senders, receivers, conns) = reports.of(self.direction);
        paced::conclude(&mut findings, self.direction, senders);
        findings.ledger.set(self.direction, account_of(senders, receivers, conns));
        findings.metrics = paced::joined(receivers, self.metrics().iter());
        if findings.metrics.is_empty() && findings.why_invalid.is_none() {
            findings.why_invalid = Some("no message arrived, so there are no delays".to_owned());
        }
        findings
    }

    fn spec(&self) -> Spec {
        let given = self.settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut options: Vec<(String, String)> = given.collect();
        if !self.settings.given("count") {
            options.push(("count".to_owned(), self.count.to_string()));
        }
        options.sort();
        Spec { name: INFO.id.to_owned(), options }
    }
}

/// Its figures: name, label and unit.
const FIGURES: &[(&str, &str, Unit)] = &[
    ("delay_mean_ns", "mean delay", Unit::Nanos),
    ("delay_p50_ns", "delay p50", Unit::Nanos),
    ("delay_p99_ns", "delay p99", Unit::Nanos),
    ("delay_max_ns", "greatest delay", Unit::Nanos),
    ("held_mean_ns", "wait for other streams", Unit::Nanos),
    ("held_share", "messages that waited for other streams", Unit::Share),
    ("held_of_wait_share", "share of other streams in all waiting", Unit::Share),
    ("own_held_mean_ns", "wait for its own stream", Unit::Nanos),
];

#[cfg(test)]
mod tests;

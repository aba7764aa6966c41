//! Messages of several streams, each with an order of its own: the cost of head-of-line blocking.
//!
//! The streams take turns on a grid of times. If a connection has lanes, each stream has one; if not, all share the
//! connection's order, as the streams of HTTP/2 share the order of TCP (RFC 9113), and a lost message then holds back
//! the messages of all streams.
//!
//! ```text
//! stream 0   due ──► arrives
//! stream 1      due ──────────(lost, sent again)──────────► arrives
//! stream 0         due ──► could be here ┄┄held back┄┄┄┄┄┄► arrives, if they share an order
//! ```

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::units::OfferedRate;
use deadheat_contract::contract::{Direction, Guarantees, LaneSet, Ordering, Service};
use deadheat_contract::measurements::{Better, ClockNeed, Unit};

use crate::paced::{
    Claim, Pace, PaceSettings, Paced, Period, Work, WorkFacts, count_key, direction_key, size_key,
};
use deadheat_contract::workload::setting::{fits_rate, numbered, ways};
use deadheat_contract::workload::theory::{Conditions, Prediction, held_back, overlap};
use deadheat_contract::workload::{Info, Setting, Task, Traffic, Workload, traffic};

mod delays;

use delays::Delays;

/// The workload.
pub(super) struct Streams;

const MOST_STREAMS: u64 = 256;

const KEYS: &[Key] =
    deadheat_base::keys![STREAMS, RATE, SIZE, COUNT, OVER, ORDER, DIRECTION, CLAIM];

const STREAMS: Preset<u64> =
    Optional::count("streams", (1, MOST_STREAMS)).or("8").doc("streams, which take turns");

const RATE: Preset<OfferedRate> = Optional::offered("rate", (100_000_000_000, 10_000_000))
    .or("200pps")
    .doc("load of all streams together: messages (200pps) or application bits (2mbit) per second");

const SIZE: Preset<usize> = size_key("200", "message size");

const COUNT: Optional<u64> =
    count_key("messages, all streams together (as many as the claim needs: 200, or 1000 for p99)");

const OVER: Preset<Over> =
    Optional::choice("over", &["lanes", "connections"], &[Over::Lanes, Over::Connections])
        .or("lanes")
        .doc(
            "all streams over one connection, on lanes of their own where the transport has \
             lanes; or a connection for each",
        );

const ORDER: Preset<Option<Service>> = Optional::choice(
    "order",
    &["stream", "none", "own"],
    &[Some(Service::ORDERED), Some(Service::UNORDERED), None],
)
.or("stream")
.doc(
    "each stream in its order, every message as soon as it is there, or as the \
     transport's own lanes have it; all of them arrive",
);

const DIRECTION: Preset<Direction> = direction_key("up", "near to far, or far to near");

const CLAIM: Preset<Claim> = Optional::choice(
    "claim",
    &["mean", "p50", "p99"],
    &[
        Claim::new("delay_mean_ns", ENOUGH),
        Claim::new("delay_p50_ns", ENOUGH),
        Claim::new("delay_p99_ns", ENOUGH_FOR_P99),
    ],
)
.or("mean")
.doc("the figure of the delay for verdicts");

static INFO: Info = Info {
    id: "streams",
    label: "streams",
    summary: "several streams: the delay that a loss in one causes in others",
    keys: KEYS,
};

/// Number of messages for a mean: at a loss of 1 % two are sent again.
const ENOUGH: u64 = 200;

/// Number of messages with ten beyond the 99th percentile.
const ENOUGH_FOR_P99: u64 = 1_000;

impl Workload for Streams {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = task(Settings::check(spec, KEYS)?)?;
        fits_rate(INFO.id, setting, task.pace.direction, task.pace.offered_bps())?;
        Ok(Box::new(task))
    }

    /// Stands for messages that must arrive, of one sender or of many that share a connection.
    fn stands_for(&self, traffic: &Traffic, others: &[Traffic]) -> Option<Result<traffic::Work>> {
        let is_alone = traffic.state_beside(others).is_none();
        (traffic.kind == traffic::Kind::Events && is_alone).then(|| {
            let direction = traffic.direction(Direction::Up);
            let (rate, size) =
                (traffic.rate_per_second()?, Traffic::bytes(traffic.size.as_ref(), 64)?);
            let order = if traffic.in_order == Some(false) { "own" } else { "stream" };
            let work = traffic::Work::new(
                INFO.id,
                [
                    ("streams", traffic.senders.unwrap_or(1).clamp(1, MOST_STREAMS).to_string()),
                    ("rate", format!("{rate}pps")),
                    ("size", size.to_string()),
                    ("order", order.to_owned()),
                    ("direction", direction.to_string()),
                ],
            );
            let limit = Traffic::span(traffic.deadline.as_ref())?;
            Ok(work.within(limit, traffic::Least::Way(direction)).offering(rate, size))
        })
    }
}

/// Means by which streams are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Lanes,
    Connections,
}

/// Streams with their settings.
#[derive(Debug, Clone)]
struct StreamsWork {
    streams: u16,
    over: Over,
    /// Service of each stream; `None` for the transport's own service that delivers all.
    service: Option<Service>,
    claimed: &'static str,
}

fn task(settings: Settings) -> Result<Paced<StreamsWork>> {
    let size = settings.get(&SIZE);
    let period = match settings.get(&RATE) {
        OfferedRate::Bits(rate) => Period::of_bits(size as u64 * 8, rate.0),
        OfferedRate::Packets(rate) => Period::of_packets(rate.0),
        OfferedRate::Max => {
            return Err(Error::usage(
                "streams: rate=max has no times from which to measure delays; give a rate, as 200pps",
            ));
        }
    };
    let Claim { figure, fewest } = settings.get(&CLAIM);
    let work = StreamsWork {
        streams: settings.get(&STREAMS) as u16,
        over: settings.get(&OVER),
        service: settings.get(&ORDER),
        claimed: figure,
    };
    let (count, direction) = (settings.find(&COUNT), settings.get(&DIRECTION));
    let mut pace = Pace::new(settings, period, PaceSettings { count, fewest, size, direction });
    if work.over == Over::Connections {
        pace.flows = work.streams;
    }
    Ok(Paced::new(pace, work))
}

impl Work for StreamsWork {
    type Measure = Delays;

    fn facts(&self, pace: &Pace) -> WorkFacts {
        let (over, lane_names) = match self.over {
            Over::Lanes => ("one connection", numbered(self.streams)),
            Over::Connections => ("a connection each", Vec::new()),
        };
        let (streams, size, rate) = (self.streams, pace.size, pace.as_typed(&RATE));
        let ways = ways(&[pace.direction]);
        WorkFacts {
            id: INFO.id,
            headline: format!("{streams} streams over {over}, {size}-byte messages, {rate} {ways}"),
            figures: FIGURES,
            clocks: CLOCKS,
            claimed: self.claimed.to_owned(),
            lane_names,
            is_even: true,
            ..WorkFacts::default()
        }
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        let lanes = match self.over {
            Over::Lanes => self.streams.min(promised.lanes),
            Over::Connections => 1,
        };
        vec![self.service.unwrap_or_else(|| promised.arriving()); usize::from(lanes)]
    }

    /// Predicts the mean delay: the path's, and the waiting for lost messages, each detected by three later ones.
    fn theory(&self, pace: &Pace, on: &Conditions<'_>) -> Vec<Prediction> {
        let (way, per_ns, streams) =
            (pace.direction, 1.0 / pace.period_ns(), f64::from(self.streams));
        // Rate of messages on one connection, which detect losses, and in one order, which wait for each other.
        let lanes = self.lanes(on.guarantees);
        let (found, ordered) = match (self.over, lanes.len()) {
            (Over::Connections, _) => (per_ns / streams, per_ns / streams),
            (Over::Lanes, lanes) => (per_ns, per_ns / lanes.max(1) as f64),
        };
        let is_loose = lanes.iter().any(|lane| lane.ordering == Ordering::Unordered);
        let ordered = if is_loose { 0.0 } else { ordered };
        let (lost, recovery) = (on.lost(way, pace.size), on.recovery(1.0 / found));
        let crowded = on.crowded(way, pace.offered_bps());
        vec![Prediction {
            metric: "delay_mean_ns",
            value: on.transit(way, pace.size) + held_back(lost, ordered, recovery),
            form: "d + p (Tr + l Tr² / 2), for l messages of one order a second; a lost one comes Tr later: a round trip and three more messages",
            source: "single losses found by three later messages (RFC 5681)",
            tolerance: 0.2,
            outside: crowded.or(overlap(lost, found, recovery)),
        }]
    }

    fn measure(&self, slots: u64, _seed: u64, _carried: LaneSet) -> Delays {
        Delays::new(slots, if self.over == Over::Lanes { self.streams } else { 1 })
    }
}

/// Figures of the workload: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("delay_mean_ns", "mean delay", Unit::Nanos, Better::Lower),
    ("delay_p50_ns", "delay p50", Unit::Nanos, Better::Lower),
    ("delay_p99_ns", "delay p99", Unit::Nanos, Better::Lower),
    ("delay_max_ns", "greatest delay", Unit::Nanos, Better::Lower),
    ("held_mean_ns", "wait for other streams", Unit::Nanos, Better::Lower),
    ("held_share", "messages that waited for other streams", Unit::Share, Better::Lower),
    ("held_of_wait_share", "share of other streams in all waiting", Unit::Share, Better::Lower),
    ("own_held_mean_ns", "wait for its own stream", Unit::Nanos, Better::Lower),
];

/// Clocks that the figures need.
const CLOCKS: &[(&str, ClockNeed)] = &[
    ("delay_mean_ns", ClockNeed::Offset),
    ("delay_p50_ns", ClockNeed::Offset),
    ("delay_p99_ns", ClockNeed::Offset),
    ("delay_max_ns", ClockNeed::Offset),
];

#[cfg(test)]
mod tests;

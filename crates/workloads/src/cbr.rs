//! A constant offered rate. Each message has its time on a grid that is fixed at the start; a message that could not be
//! sent on time is not sent later in a burst, but counted as missed. So the effect of the path or the transport on a
//! given load is separate from the effect of the sender.
//!
//! `rate=max` has no grid: it sends as `bulk` does, as much as the transport takes.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, OfferedRate};
use deadheat_contract::contract::{
    Delivery, Direction, Framing, Guarantees, PeerFacts, Service, Side,
};
use deadheat_contract::measurements::name::{GOODPUT, LOST, OFFERED, SENT};
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Role, Unit};

use crate::bulk::{self, Begin, Rate, gather};
use crate::paced::{DRAIN, DUE_LEN, Period, Receiver, Schedule, Sender};
use deadheat_contract::workload::load::Flows;
use deadheat_contract::workload::setting::{filled, typed, ways};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    Endpoint, Info, Lengths, Measurements, Part, Reports, Setting, Task, TaskInfo, Workload, header,
};

mod conclude;
mod receiver;

use conclude::one_way;
use receiver::CbrMeasure;

/// The workload.
pub(super) struct Cbr;

const KEYS: &[Key] =
    &[RATE.key(), SIZE.key(), TIME.key(), WARMUP.key(), COUNT.key(), DIRECTION.key(), FLOWS.key()];

const RATE: Preset<OfferedRate> =
    Optional::offered("rate", (1_000_000_000_000, 100_000_000)).or("1mbit").doc(
        "load in each direction, all flows together: application bits (20mbit) or messages \
         (10kpps) per second, or max for as much as the transport takes",
    );

const SIZE: Preset<usize> = Optional::length("size", (header::LEN as u64, 65_507))
    .or("1400")
    .doc("message size; 20 bytes or more carry the time of sending, for delay variation");

const TIME: Optional<Nanos> = Optional::span("time", (1_000_000, 86_400 * 1_000_000_000))
    .doc("time of sending after the warm-up (without a count 300ms, 40 round trips of the path, or the time of 100 \
     messages a flow, up to 2.6s)");

const WARMUP: Optional<Nanos> = Optional::span("warmup", (0, 60 * 1_000_000_000)).doc(
    "time of sending before that, left out of goodput and delays: start-up (with time \
     50ms, or 20 round trips of the path up to 1.3s; with count nothing)",
);

const COUNT: Optional<u64> = Optional::count("count", (2, 1_000_000_000_000))
    .doc("messages in each direction, all flows together, instead of time");

const DIRECTION: Preset<&'static [Direction]> =
    Optional::choice("direction", &["up", "down", "both"], &bulk::WAYS)
        .or("up")
        .doc("near to far, far to near, or both");

const FLOWS: Preset<u64> = Optional::count("flows", (1, 64))
    .or("1")
    .doc("connections in each direction, which take turns and share the rate");

static INFO: Info = Info {
    id: "cbr",
    label: "constant rate",
    summary: "messages at a constant rate: how many arrive, and how evenly",
    keys: KEYS,
};

impl Workload for Cbr {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        Ok(Box::new(CbrTask::new(Settings::check(spec, KEYS)?, setting)?))
    }

    fn as_load(&self, load: &Flows) -> Option<String> {
        let (rate, time, warmup) = (load.rate?.0, typed(load.time), typed(load.warmup));
        let (id, direction, flows) = (INFO.id, load.direction, load.flows);
        Some(format!(
            "{id}:rate={rate}bit,direction={direction},flows={flows},time={time},warmup={warmup}"
        ))
    }
}

/// Condition for the end of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CbrEnd {
    After { count: u64 },
    At { time: Nanos },
}

/// A constant rate with its settings.
#[derive(Debug, Clone)]
struct CbrTask {
    settings: Settings,
    rate: OfferedRate,
    size: usize,
    stop: CbrEnd,
    /// Time to send before the measured time.
    warmup: Nanos,
    directions: &'static [Direction],
    flows: u64,
    /// Shortest length of a trial, if the settings do not give one.
    lengths: Option<Lengths>,
    info: TaskInfo,
}

/// Bytes per call without a pace.
const CALL: usize = 128 << 10;

/// Longest time that a blast of a given number of messages may take before its trial is given up.
const LONGEST_FOR_COUNT: Nanos = Nanos::from_secs(600);

/// Minimum number of messages of a flow: a rate from fewer is uncertain by more than a tenth.
const FEWEST: u64 = 10;

/// Messages of a flow if the settings give no time.
const ENOUGH: u64 = 100;

impl CbrTask {
    fn new(settings: Settings, setting: &Setting) -> Result<CbrTask> {
        let (rate, size) = (settings.get(&RATE), settings.get(&SIZE));
        let flows = settings.get(&FLOWS);
        let enough = period(rate, size).map_or(Nanos::ZERO, |period| period.times(ENOUGH * flows));
        let lengths = Lengths::steady(setting).at_least(enough);
        let stop = match (settings.find(&COUNT), settings.find(&TIME)) {
            (Some(_), Some(_)) => return Err(Error::usage("cbr: give count or time, not both")),
            (Some(count), None) => CbrEnd::After { count },
            (None, time) => {
                CbrEnd::At { time: time.unwrap_or(Nanos(lengths.fewest * lengths.unit_ns)) }
            }
        };
        let mut task = CbrTask {
            info: TaskInfo::default(),
            rate,
            size,
            flows,
            warmup: settings.find(&WARMUP).unwrap_or(match stop {
                CbrEnd::At { .. } => setting.start_up(),
                CbrEnd::After { .. } => Nanos::ZERO,
            }),
            lengths: match stop {
                CbrEnd::At { .. } if !settings.given(TIME.name()) => Some(lengths),
                _ => None,
            },
            stop,
            directions: settings.get(&DIRECTION),
            settings,
        };
        task.check()?;
        task.info = task.facts(setting);
        Ok(task)
    }

    fn check(&self) -> Result<()> {
        if matches!(self.stop, CbrEnd::After { .. }) && self.warmup > Nanos::ZERO {
            return Err(Error::usage(
                "cbr: warmup goes with time: of a count all messages count; leave it out, or give time",
            ));
        }
        let measured = match (self.stop, self.period()) {
            (CbrEnd::After { count }, _) => count,
            (CbrEnd::At { time }, Some(period)) => period.within(time),
            (CbrEnd::At { .. }, None) => return Ok(()),
        };
        if measured >= FEWEST * self.flows {
            return Ok(());
        }
        Err(Error::usage(format!(
            "cbr: only {measured} messages are due, and each of {} flows needs {FEWEST} to have a rate; raise {}",
            self.flows,
            if matches!(self.stop, CbrEnd::At { .. }) { "time or rate" } else { "count" }
        )))
    }

    /// Returns the interval between two messages of a direction, all its flows together; `None` without a
    /// pace.
    fn period(&self) -> Option<Period> {
        period(self.rate, self.size)
    }

    /// Returns the number of messages that a direction offers, if the settings decide it.
    fn slots(&self) -> Option<u64> {
        match (self.stop, self.period()) {
            (CbrEnd::After { count }, _) => Some(count),
            (CbrEnd::At { time }, Some(period)) => Some(period.within(self.warmup + time)),
            (CbrEnd::At { .. }, None) => None,
        }
    }

    /// Returns the application bits per second that one direction asks for.
    fn offered_bps(&self) -> Option<f64> {
        match self.rate {
            OfferedRate::Bits(rate) => Some(rate.0 as f64),
            OfferedRate::Packets(rate) => Some(rate.0 as f64 * self.size as f64 * 8.0),
            OfferedRate::Max => None,
        }
    }

    fn sending_time(&self) -> Option<Nanos> {
        match (self.stop, self.period()) {
            (CbrEnd::At { time }, _) => Some(self.warmup + time),
            (CbrEnd::After { count }, Some(period)) => Some(period.times(count)),
            (CbrEnd::After { .. }, None) => None,
        }
    }

    fn blast_stop(&self) -> bulk::Stop {
        match self.stop {
            CbrEnd::At { time } => bulk::Stop::At { time: self.warmup + time },
            CbrEnd::After { count } => {
                bulk::Stop::After { bytes: count.div_ceil(self.flows) * self.size as u64 }
            }
        }
    }
}

/// Returns the interval between two messages of a direction; `None` without a pace.
fn period(rate: OfferedRate, size: usize) -> Option<Period> {
    match rate {
        OfferedRate::Bits(rate) => Some(Period::of_bits(size as u64 * 8, rate.0)),
        OfferedRate::Packets(rate) => Some(Period::of_packets(rate.0)),
        OfferedRate::Max => None,
    }
}

impl CbrTask {
    fn facts(&self, setting: &Setting) -> TaskInfo {
        let pace = match self.rate {
            OfferedRate::Bits(rate) => rate.to_string(),
            OfferedRate::Packets(rate) => rate.to_string(),
            OfferedRate::Max => "as many as fit".to_owned(),
        };
        let each = |direction: &Direction| vec![Some(*direction); self.flows as usize];
        let spans = match self.stop {
            CbrEnd::At { time } => vec![("time", typed(time)), ("warmup", typed(self.warmup))],
            CbrEnd::After { .. } => Vec::new(),
        };
        TaskInfo {
            headline: format!("{}-byte messages, {pace} {}", self.size, ways(self.directions)),
            spec: filled(INFO.id, &self.settings, spans),
            metrics: self.metrics(),
            lengths: self.lengths,
            flows: self.directions.iter().flat_map(each).collect(),
            largest_message: self.size,
            longest: self.sending_time().map_or(LONGEST_FOR_COUNT, |time| time + DRAIN),
            planned: self.sending_time(),
            warmup: self.warmup,
            most_bytes: self.slots().map(|slots| slots.saturating_mul(self.size as u64)),
            is_paced: self.period().is_some(),
            overload: self.overload(setting),
            ..TaskInfo::default()
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        let metric = |name: &str, label: &str, unit, better| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit,
            better,
            role: if name == GOODPUT { Role::Claim } else { Role::Descriptive },
            clock: match name {
                "pdv_p50_ns" | "pdv_p99_ns" => ClockNeed::Relative,
                name if name.starts_with("one_way_") => ClockNeed::Offset,
                _ => ClockNeed::None,
            },
        };
        let rate = |name, label| metric(name, label, Unit::BitRate, Better::Higher);
        let share = |name, label| metric(name, label, Unit::Share, Better::Lower);
        let delay = |name: &str, label| metric(name, label, Unit::Nanos, Better::Lower);
        let mut metrics = vec![rate(GOODPUT, "goodput")];
        if self.directions.len() > 1 {
            metrics.push(rate("goodput_up_bps", "goodput up"));
            metrics.push(rate("goodput_down_bps", "goodput down"));
        }
        metrics.push(rate("wire_goodput_bps", "goodput with headers"));
        if self.period().is_some() {
            metrics.push(rate(OFFERED, "offered"));
        }
        metrics.push(rate(SENT, "sent"));
        metrics.push(share(LOST, "lost"));
        if self.period().is_some() {
            metrics.push(share("missed_share", "missed"));
            if self.size >= DUE_LEN {
                metrics.push(delay("pdv_p50_ns", "PDV p50"));
                metrics.push(delay("pdv_p99_ns", "PDV p99"));
                metrics.push(delay(&one_way(None), "one-way p50"));
                if self.directions.len() > 1 {
                    metrics.push(delay(&one_way(Some(Direction::Up)), "one-way up p50"));
                    metrics.push(delay(&one_way(Some(Direction::Down)), "one-way down p50"));
                }
            }
        }
        metrics
    }

    fn overload(&self, setting: &Setting) -> Option<String> {
        let bps = self.offered_bps()?;
        let narrow =
            |way: &&Direction| setting.bounds(**way).rate.is_some_and(|rate| bps > rate.0 as f64);
        let way = self.directions.iter().find(narrow)?;
        Some(format!(
            "cbr offers {} of data {way}, and the path carries {}: the rest queues, and is lost where the queue is full",
            BitRate(bps.round() as u64),
            setting.bounds(*way).rate?
        ))
    }
}

impl Task for CbrTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        let why = if peer.keeps_schedule {
            return None;
        } else if peer.only_connects {
            PeerFacts::NOBODY_BEHIND
        } else if peer.echoes {
            "its far end only echoes, so no end could receive or count the offered data"
        } else if !peer.sends_data {
            "its far end counts nothing"
        } else if peer.takes_data {
            "its far end takes and sends bytes as fast as it can; bulk fits"
        } else {
            "its far end answers requests, and sends nothing on a schedule"
        };
        Some(why.to_owned())
    }

    /// Predicts the share of lost messages, for transports that send none again: a message is lost with any of its
    /// packets.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        let ([direction], Some(bps)) = (self.directions, self.offered_bps()) else {
            return Vec::new();
        };
        if on.guarantees.service.delivery != Delivery::BestEffort || self.period().is_none() {
            return Vec::new();
        }
        vec![Prediction {
            metric: LOST,
            value: on.lost(*direction, self.size),
            form: "1 - (1 - p)^n, for n packets a message",
            source: "independent losses",
            tolerance: 0.1,
            outside: on.crowded(*direction, bps),
        }]
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let flow = usize::from(part.flow);
        let direction = self.info.flows.get(flow).copied().flatten();
        let sends = (part.side == Side::Near) == (direction == Some(Direction::Up));
        let Some(period) = self.period() else {
            return if sends {
                bulk::sender(self.blast_stop(), self.size, CALL, part.tag)
            } else {
                bulk::receiver(&part.guarantees, part.tag, part.transit, self.timing())
            };
        };
        if !sends {
            let delivery = part.guarantees.service.delivery;
            let (tag, transit) = (part.tag, part.transit);
            let is_stamped = self.size >= DUE_LEN;
            let arrivals = CbrMeasure::new(part.recorder, self.timing(), is_stamped);
            let receiver = Receiver::new(self.size, tag, transit, delivery, arrivals);
            // Flows take turns.
            return Box::new(receiver.every(period.times(self.flows)));
        }
        let turn = u64::from(part.flow) % self.flows;
        let schedule = Schedule::new(period, self.slots().unwrap_or(0), turn, self.flows);
        Box::new(Sender::new(schedule, self.size, 1, part))
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = Measurements::default();
        let flows = &self.info.flows;
        // Paced data has message boundaries even on a byte stream.
        let framing = match self.period() {
            Some(_) => Framing::Messages,
            None => reports.guarantees.framing,
        };
        let (mut goodput, mut wire, mut sent) = (Rate::default(), Rate::default(), Rate::default());
        let mut lost = (0u64, 0u64);
        for direction in self.directions {
            let way = gather(reports, flows, *direction, Begin::Receive);
            let account = way.account(framing);
            lost = (lost.0 + account.sent.saturating_sub(account.delivered), lost.1 + account.sent);
            goodput.add(way.goodput_bps());
            let around = self.around(reports, flows, *direction);
            wire.add(way.goodput_bps().zip(around).map(|(bps, around)| bps * around));
            sent.add(way.sent_bps());
            if let (Some(bps), true) = (way.goodput_bps(), self.directions.len() > 1) {
                findings.metrics.insert(format!("goodput_{direction}_bps"), bps);
            }
            findings.ledger.set(*direction, account);
        }
        let offered = self.offered_bps().map(|bps| bps * self.directions.len() as f64);
        for (name, bps) in
            [(GOODPUT, goodput.0), ("wire_goodput_bps", wire.0), (OFFERED, offered), (SENT, sent.0)]
        {
            bps.map(|bps| findings.metrics.insert(name.into(), bps));
        }
        if lost.1 > 0 {
            findings.metrics.insert(LOST.into(), lost.0 as f64 / lost.1 as f64);
        }
        findings.segments = bulk::segments(reports, flows);
        self.conclude_pacing(reports, &mut findings);
        if goodput.0.is_none() && findings.why_invalid.is_none() {
            findings.why_invalid =
                Some("fewer than two messages arrived, which have no rate; raise time".into());
        }
        findings
    }
}

#[cfg(test)]
mod tests;

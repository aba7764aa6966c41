//! Inputs of two players in lockstep: neither player can simulate a tick before the other's input for it has arrived.
//! So all inputs must arrive, in order, and soon. If messages may be lost, each carries every input that the other
//! player has not acknowledged; if all arrive in order, each input is sent once.
//!
//! ```text
//! may be lost      [0] [0 1] [0 1 2] [1 2 3] …        a message each tick; the other player acknowledges
//!                       lost
//! all in order     [0]  [1]    [2]     [3]   …        a lost message is sent again, and later ones wait
//! played           |◄─ playout ─►| 0 | 1 | 2 | …      a missing input stops the game
//! ```

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Delivery, Direction, Guarantees, PeerFacts, Service, Side};
use deadheat_contract::measurements::name::SENT;
use deadheat_contract::measurements::{Better, ClockNeed, Unit};

use crate::paced::{DRAIN, Period, conclude_both};
use deadheat_contract::workload::header::account_of;
use deadheat_contract::workload::load::{Items, Observed};
use deadheat_contract::workload::setting::{claiming, filled, fits_rate, needing};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    EndMemory, Endpoint, Info, Lengths, Measurements, Part, Reports, Setting, Task, TaskInfo,
    Traffic, Workload, traffic,
};

mod peer;
mod playing;
mod wire;

use peer::Peer;
use wire::FRONT;

/// The workload.
pub(super) struct Inputs;

const KEYS: &[Key] =
    &[HZ.key(), SIZE.key(), PLAYOUT.key(), SERVICE.key(), MTU.key(), COUNT.key(), CLAIM.key()];

const HZ: Preset<u64> =
    Optional::count("hz", (1, 1_000)).or("60").doc("inputs per second, each way");

const SIZE: Preset<usize> =
    Optional::length("size", (1, 1_000)).or("1").doc("one input; six buttons take 6 bits");

const PLAYOUT: Preset<Nanos> = Optional::span("playout", (0, 10_000_000_000))
    .or("100ms")
    .doc("how long after the fastest input would be there each is played");

const SERVICE: Preset<Option<Service>> = Optional::choice("service", &["own", "unreliable", "reliable"], &[None, Some(Service::BEST_EFFORT), Some(Service::ORDERED)])
    .or("own")
    .doc("service asked of the transport: its usual one, messages that may be lost (each with all inputs that are not \
     acknowledged), or every message in order (each with one input)");

const MTU: Preset<usize> = Optional::length("mtu", (64, 65_507))
    .or("1200")
    .doc("the largest message; of more inputs that are not acknowledged it has the oldest");

const COUNT: Optional<u64> = Optional::count("count", (20, 10_000_000))
    .doc("inputs each way (as many as the claim needs: 120, or two seconds)");

const CLAIM: Preset<&'static str> =
    Optional::choice("claim", &["p99", "smooth"], &["delay_p99_ns", "delay_smooth_ns"])
        .or("p99")
        .doc(
            "the figure for verdicts: the delay with which the game stands still for 1 % of the \
             time, or never",
        );

static INFO: Info = Info {
    id: "inputs",
    label: "lockstep inputs",
    summary: "a lockstep game of two players: how often it waits for an input",
    keys: KEYS,
};

/// Number of inputs for a delay at 1 %: two seconds each way, in which a loss of 1 % hits one.
const ENOUGH: u64 = 120;

impl Workload for Inputs {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = Lockstep::new(Settings::check(spec, KEYS)?)?;
        // At least a message with one input leaves each tick.
        let least = (FRONT + task.input) as f64 * 8.0 * task.hz as f64;
        for direction in [Direction::Up, Direction::Down] {
            fits_rate(INFO.id, setting, direction, least)?;
        }
        Ok(Box::new(task))
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::Inputs).then(|| {
            let (hz, size) =
                (traffic.rate_per_second()?, Traffic::bytes(traffic.size.as_ref(), 1)?);
            let limit = Traffic::span(traffic.deadline.as_ref())?;
            let options = [("hz", hz.to_string()), ("size", size.to_string())];
            let work = traffic::Work::new(INFO.id, options).claiming(0.99, None);
            Ok(work
                .within(limit, traffic::Least::Way(Direction::Up))
                .offering(hz, size.saturating_add(FRONT as u64)))
        })
    }
}

/// Inputs in lockstep with their settings.
#[derive(Debug, Clone)]
struct Lockstep {
    settings: Settings,
    hz: u64,
    input: usize,
    playout: Nanos,
    mtu: usize,
    count: u64,
    /// Service to ask for; `None` for the transport's own.
    service: Option<Service>,
    claimed: &'static str,
    /// Shortest length of a trial, if the settings do not give one.
    lengths: Option<Lengths>,
    info: TaskInfo,
}

impl Lockstep {
    fn new(settings: Settings) -> Result<Lockstep> {
        let (hz, asked) = (settings.get(&HZ), settings.find(&COUNT));
        let period_ns = Period::of_packets(hz).times(1).0.max(1);
        let lengths = Lengths { fewest: ENOUGH, unit_ns: period_ns, key: "count" };
        let mut task = Lockstep {
            info: TaskInfo::default(),
            hz,
            input: settings.get(&SIZE),
            playout: settings.get(&PLAYOUT),
            mtu: settings.get(&MTU),
            count: asked.unwrap_or(ENOUGH),
            service: settings.get(&SERVICE),
            claimed: settings.get(&CLAIM),
            lengths: asked.is_none().then_some(lengths),
            settings,
        };
        if task.mtu < FRONT + task.input {
            return Err(Error::usage(format!(
                "inputs: a message with one input of {} bytes has {} with its header, and mtu allows {}; raise mtu \
                 or lower size",
                task.input,
                FRONT + task.input,
                task.mtu
            )));
        }
        task.info = task.facts();
        Ok(task)
    }

    fn period(&self) -> Period {
        Period::of_packets(self.hz)
    }

    /// Returns the number of inputs that fit into a message.
    fn most(&self) -> u64 {
        ((self.mtu - FRONT) / self.input.max(1)) as u64
    }

    fn service(&self, promised: &Guarantees) -> Service {
        self.service.unwrap_or(promised.service)
    }
}

impl Lockstep {
    fn facts(&self) -> TaskInfo {
        let playout = self.settings.as_typed(&PLAYOUT);
        let planned = self.period().times(self.count);
        let longest = planned + DRAIN + DRAIN;
        let names = ["delay", "delay of an input"];
        TaskInfo {
            headline: format!(
                "inputs in lockstep at {} Hz, both ways, played {playout} later",
                self.hz
            ),
            spec: filled(INFO.id, &self.settings, [("count", self.count.to_string())]),
            metrics: needing(claiming(FIGURES, self.claimed), CLOCKS),
            lengths: self.lengths,
            flows: vec![None],
            largest_message: self.mtu,
            longest,
            planned: Some(planned),
            // A full message each tick, until the last input is acknowledged.
            most_bytes: Some(self.period().within(longest).saturating_mul(self.mtu as u64)),
            memory: EndMemory::both(self.count.saturating_mul(size_of::<Option<Nanos>>() as u64)),
            is_paced: true,
            // The other player's inputs as the near end plays them.
            observed: Some(Observed::Items(Items { side: Side::Near, names, deadline: None })),
            ..TaskInfo::default()
        }
    }
}

impl Task for Lockstep {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![self.service(promised)]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        (!peer.is_ours).then(|| {
            "its far end only echoes or counts, and the other player has inputs of its own"
                .to_owned()
        })
    }

    /// Predicts the time that the game stands still, if each message repeats the inputs that are not acknowledged.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        if self.service(on.guarantees).delivery != Delivery::BestEffort {
            return Vec::new();
        }
        let ticks = self.playout.0 / self.period().times(1).0.max(1);
        let of = |way| on.way(way).loss.powi(ticks.min(1 << 20) as i32 + 1);
        vec![Prediction {
            metric: "stalled_share",
            value: (of(Direction::Up) + of(Direction::Down)) / 2.0,
            form: "p^(m + 1), for a playout of m ticks beyond the delay",
            source: "runs of independent losses",
            tolerance: 0.1,
            outside: None,
        }]
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let delivery = self.service(&part.guarantees).delivery;
        Box::new(Peer::new(self, delivery != Delivery::Reliable, part))
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = Measurements::default();
        conclude_both(&mut findings, reports, self.info.metrics.iter());
        for direction in [Direction::Up, Direction::Down] {
            let (senders, receivers, conns) = reports.of(direction);
            findings.ledger.set(direction, account_of(senders, receivers, conns));
        }
        if !findings.metrics.contains_key(self.claimed) && findings.why_invalid.is_none() {
            let why = "too few inputs arrived to have the figure that is claimed";
            findings.why_invalid = Some(why.to_owned());
        }
        findings
    }
}

/// Figures of the workload: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("delay_p99_ns", "delay for 1 % standing still", Unit::Nanos, Better::Lower),
    ("delay_smooth_ns", "delay for none", Unit::Nanos, Better::Lower),
    ("stalled_share", "time standing still", Unit::Share, Better::Lower),
    ("stall_max_ns", "longest hitch", Unit::Nanos, Better::Lower),
    ("between_stalls_ns", "time from hitch to hitch", Unit::Nanos, Better::Higher),
    (SENT, "sent, each way", Unit::BitRate, Better::Lower),
];

/// Clocks that the figures need.
const CLOCKS: &[(&str, ClockNeed)] = &[
    ("delay_p99_ns", ClockNeed::Relative),
    ("delay_smooth_ns", ClockNeed::Relative),
    ("stalled_share", ClockNeed::Relative),
    ("stall_max_ns", ClockNeed::Relative),
    ("between_stalls_ns", ClockNeed::Relative),
];

#[cfg(test)]
mod tests;

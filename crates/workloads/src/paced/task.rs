//! Task of messages one way, at times that are fixed at the start: everything but the measurement of arrivals.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Settings;
use deadheat_base::spec::typed::Preset;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{
    Delivery, Direction, Guarantees, Lane, LaneSet, PeerFacts, Service, Side,
};
use deadheat_contract::measurements::{Better, ClockNeed, Unit};

use super::{
    DRAIN, Measure, Period, Plan, RECEIVERS, Receiver, Schedule, Sender, Slot, conclude, joined,
};
use deadheat_contract::workload::header::account_of;
use deadheat_contract::workload::load::{Items, Observed};
use deadheat_contract::workload::setting::{claiming, filled, needing};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    EndMemory, Endpoint, Lengths, Measurements, Part, Reports, Task, TaskInfo,
};

/// Part of a paced workload that differs from the others.
pub(crate) trait Work: Send + Sync {
    /// Measurement taken of arrivals.
    type Measure: Measure + 'static;

    /// Returns its facts, except those given by the pace.
    fn facts(&self, pace: &Pace) -> WorkFacts;

    /// Returns the services of the lanes, as [`Task::lanes`] does.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    /// Returns the plan of the messages on these lanes; `None` for a message of the same size in each slot of the pace,
    /// on the lanes in turns. `seed` is the same at both ends.
    fn plan(&self, _pace: &Pace, _lanes: &[Service], _seed: u64) -> Option<BoxedPlan> {
        None
    }

    /// Returns the measurement for a flow with this number of slots, which carries these lanes.
    fn measure(&self, slots: u64, seed: u64, carried: LaneSet) -> Self::Measure;

    /// Returns predictions of its figures, as [`Task::theory`] does.
    fn theory(&self, _pace: &Pace, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    /// Creates the sending endpoint of one flow, with these lanes.
    fn sender(&self, pace: &Pace, lanes: &[Service], part: Part) -> Box<dyn Endpoint> {
        let plan = || self.plan(pace, lanes, part.seed);
        match plan() {
            Some(all) if part.carried == LaneSet::ALL => Box::new(Sender::of(all, part)),
            Some(all) => {
                let lanes = part.carried;
                let count = plan().map_or(0, |plan| carried(plan.slots, lanes).count()) as u64;
                let slots: Box<dyn Iterator<Item = Slot> + Send> =
                    Box::new(carried(all.slots, lanes));
                Box::new(Sender::of(Plan { slots, count, ..all }, part))
            }
            None => {
                let schedule = pace.schedule(part.flow);
                Box::new(Sender::new(schedule, pace.size, lanes.len() as u16, part))
            }
        }
    }
}

/// Names of the times of items, with their label, and the time after which an item is too late.
pub(crate) type ItemNames = ([&'static str; 2], Option<Nanos>);

/// Facts of a paced workload, except those given by the pace.
#[derive(Default)]
pub(crate) struct WorkFacts {
    /// Name of the workload.
    pub(crate) id: &'static str,
    /// Description in a few words.
    pub(crate) headline: String,
    /// Figures: name, label, unit and the better end.
    pub(crate) figures: &'static [(&'static str, &'static str, Unit, Better)],
    /// Clocks that figures need, by name; others need none.
    pub(crate) clocks: &'static [(&'static str, ClockNeed)],
    /// Name of the figure for verdicts.
    pub(crate) claimed: String,
    /// Names of the lanes, as in [`TaskInfo::lane_names`].
    pub(crate) lane_names: Vec<String>,
    /// Names of the figures of each lane, as in [`TaskInfo::figures_by_lane`].
    pub(crate) figures_by_lane: Vec<Vec<&'static str>>,
    /// Maximum number of messages; `None` for one in each slot of the pace.
    pub(crate) messages: Option<u64>,
    /// True if it has no plan of its own.
    pub(crate) is_even: bool,
    /// Names of the times of its items, and their deadline, if its measure reports items ([`Measure::items`]).
    pub(crate) items: Option<ItemNames>,
}

/// Plan of a workload with a plan of its own.
pub(crate) type BoxedPlan = Plan<Box<dyn Iterator<Item = Slot> + Send>>;

/// Returns the messages of a plan on these lanes.
fn carried(
    slots: impl Iterator<Item = Slot> + Send,
    lanes: LaneSet,
) -> impl Iterator<Item = Slot> + Send {
    slots.filter(move |slot| slot.place.is_none_or(|(_, lane)| lanes.has(lane)))
}

/// Returns the delivery that a receiver of these lanes has to reckon with: if messages of one may be lost, it must not wait
/// for all.
pub(crate) fn delivery(lanes: &[Service], carried: LaneSet) -> Delivery {
    let carried = (0..).map(Lane).zip(lanes).filter(|(lane, _)| carried.has(*lane));
    let mut deliveries = carried.map(|(_, service)| service.delivery);
    deliveries.find(|delivery| *delivery != Delivery::Reliable).unwrap_or(Delivery::Reliable)
}

/// Pace of messages: their times, number and direction.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    pub(crate) settings: Settings,
    pub(crate) period: Period,
    pub(crate) size: usize,
    pub(crate) direction: Direction,
    /// Connections, which take turns.
    pub(crate) flows: u16,
    /// Far ends, each of which gets all messages.
    receivers: u16,
    /// Number of slots, all connections together.
    pub(crate) count: u64,
    /// Shortest length of a trial, if the settings do not give one.
    pub(crate) lengths: Option<Lengths>,
}

/// Settings that all paced workloads share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceSettings {
    /// Number of messages, if one is given.
    pub(crate) count: Option<u64>,
    /// Number of messages if none is given.
    pub(crate) fewest: u64,
    /// Size of the largest message in bytes.
    pub(crate) size: usize,
    pub(crate) direction: Direction,
}

impl Pace {
    /// Creates the pace of messages that are `period` apart on average.
    pub(crate) fn new(settings: Settings, period: Period, wanted: PaceSettings) -> Pace {
        let PaceSettings { count, fewest, size, direction } = wanted;
        let lengths = Lengths { fewest, unit_ns: period.times(1).0.max(1), key: "count" };
        Pace {
            period,
            size,
            direction,
            flows: 1,
            receivers: 1,
            count: count.unwrap_or(fewest),
            lengths: count.is_none().then_some(lengths),
            settings,
        }
    }

    /// Takes the number of far ends from the settings of the workload `id`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are several and they would be senders.
    pub(crate) fn with_receivers(self, id: &str) -> Result<Pace> {
        let receivers = self.settings.find(&RECEIVERS).unwrap_or(1) as u16;
        if receivers > 1 && self.direction == Direction::Down {
            return Err(Error::usage(format!(
                "{id}: receivers={receivers} are far ends, and with direction=down the far end sends; add direction=up, or \
                 leave receivers out"
            )));
        }
        Ok(Pace { receivers, ..self })
    }

    /// Returns the headline of the work `what`, with its receivers if they are several.
    fn headline(&self, what: String) -> String {
        match self.receivers {
            1 => what,
            many => format!("{what}, to each of {many} receivers"),
        }
    }

    /// Returns the number of far ends.
    pub(crate) fn receivers(&self) -> u16 {
        self.receivers
    }

    /// Returns the bits of data per second of all messages together.
    pub(crate) fn offered_bps(&self) -> f64 {
        let Period { ns, over } = self.period;
        8e9 * self.size as f64 * over as f64 * f64::from(self.receivers) / ns as f64
    }

    /// Returns the mean time between two messages, in nanoseconds.
    pub(crate) fn period_ns(&self) -> f64 {
        self.period.ns as f64 / self.period.over.max(1) as f64
    }

    /// Returns a setting as typed, or its default.
    pub(crate) fn as_typed<T>(&self, key: &Preset<T>) -> &str {
        self.settings.as_typed(key)
    }

    fn schedule(&self, flow: u16) -> Schedule {
        // Several receivers get the same; several connections take turns.
        let turn = if self.receivers > 1 { 0 } else { u64::from(flow) };
        Schedule::new(self.period, self.count, turn, u64::from(self.flows))
    }

    fn sends(&self, side: Side) -> bool {
        (side == Side::Near) == (self.direction == Direction::Up)
    }
}

/// Work at a pace.
pub(crate) struct Paced<W> {
    pub(crate) pace: Pace,
    pub(crate) work: W,
    info: TaskInfo,
    claimed: String,
    is_even: bool,
}

impl<W: Work> Paced<W> {
    /// Creates the task of this work at this pace.
    pub(crate) fn new(pace: Pace, work: W) -> Paced<W> {
        let facts = work.facts(&pace);
        let planned = pace.period.times(pace.count);
        let messages = facts.messages.unwrap_or(pace.count);
        let receiver = match pace.direction {
            Direction::Up => Side::Far,
            Direction::Down => Side::Near,
        };
        // On a grid of times a message's number gives its due time, whether it arrives or not.
        let observed = match facts.items {
            _ if pace.flows > 1 || pace.receivers > 1 => None,
            Some((names, deadline)) => {
                Some(Observed::Items(Items { side: receiver, names, deadline }))
            }
            None if facts.is_even => Some(Observed::OneWay(pace.direction)),
            None => None,
        };
        let kept = messages.saturating_mul(W::Measure::BYTES_EACH);
        let info = TaskInfo {
            headline: pace.headline(facts.headline),
            spec: filled(facts.id, &pace.settings, [("count", pace.count.to_string())]),
            metrics: needing(claiming(facts.figures, &facts.claimed), facts.clocks),
            lengths: pace.lengths,
            lane_names: facts.lane_names,
            figures_by_lane: facts.figures_by_lane,
            flows: vec![Some(pace.direction); usize::from(pace.flows * pace.receivers)],
            receivers: pace.receivers,
            largest_message: pace.size,
            longest: planned + DRAIN,
            planned: Some(planned),
            most_bytes: Some(messages.saturating_mul(pace.size as u64 * u64::from(pace.receivers))),
            memory: EndMemory::at(receiver, kept),
            is_paced: true,
            observed,
            ..TaskInfo::default()
        };
        Paced { pace, work, info, claimed: facts.claimed, is_even: facts.is_even }
    }
}

impl<W: Work> Task for Paced<W> {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.work.lanes(promised)
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        (!peer.is_ours).then(|| {
            "its far end only echoes or counts, so no end could measure the data".to_owned()
        })
    }

    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        // The forms are for one receiver, with the path to itself.
        if self.pace.receivers > 1 { Vec::new() } else { self.work.theory(&self.pace, on) }
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let lanes = self.work.lanes(&part.guarantees);
        if self.pace.sends(part.side) {
            return self.work.sender(&self.pace, &lanes, part);
        }
        let slots = self.pace.schedule(part.flow).slots();
        let measure = self.work.measure(slots, part.seed, part.carried);
        let (size, tag, transit) = (self.pace.size, part.tag, part.transit);
        let delivery = delivery(&lanes, part.carried);
        let receiver = Receiver::new(size, tag, transit, delivery, measure);
        if part.carried != LaneSet::ALL {
            // The other lanes have the beat of the work.
            return Box::new(receiver);
        }
        Box::new(if self.is_even {
            receiver.every(self.pace.period.times(u64::from(self.pace.flows)))
        } else {
            receiver.beating(self.pace.period.times(1))
        })
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let (direction, mut findings) = (self.pace.direction, Measurements::default());
        let (senders, receivers, conns) = reports.of(direction);
        conclude(&mut findings, direction, senders);
        let account = account_of(senders, receivers, conns);
        findings.metrics = joined(receivers, self.info.metrics.iter());
        let lost = account.sent.saturating_sub(account.delivered) as f64;
        let is_told = self.info.metrics.iter().any(|metric| metric.name == LOST);
        if is_told && account.sent > 0 {
            findings.metrics.insert(LOST.to_owned(), lost / account.sent as f64);
        }
        findings.ledger.set(direction, account);
        if !findings.metrics.contains_key(&self.claimed) && findings.why_invalid.is_none() {
            let why = "too few messages arrived to have the figure that is claimed";
            findings.why_invalid = Some(why.to_owned());
        }
        findings
    }
}

/// Name of the figure of messages that never arrived, for workloads that list it.
pub(crate) use deadheat_contract::measurements::name::LOST;

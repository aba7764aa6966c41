//! Task of messages one way, at times that are fixed at the start: everything of it but the measurement of
//! arrivals.

use crate::contract::{Delivery, Direction, Guarantees, PeerKind, Service, Side};
use crate::measurements::{Better, Metric, Unit};
use crate::spec::{Settings, Spec};
use crate::time::Nanos;

use super::super::header::account_of;
use super::super::load::{Items, Observed};
use super::super::setting::{claiming, with_count};
use super::super::theory::{Conditions, Prediction};
use super::super::{Lengths, Part, Reports, Task};
use super::{DRAIN, Measure, Period, Plan, Receiver, Schedule, Sender, Slot, conclude, joined};
use crate::workload::{Endpoint, Measurements};

/// Part of a paced workload that is its own.
pub(in crate::workload) trait Work: Send + Sync {
    /// Measurement taken of arrivals.
    type Measure: Measure + 'static;

    /// Returns the name of the workload.
    fn id(&self) -> &'static str;

    /// Returns the work in a few words.
    fn headline(&self, pace: &Pace) -> String;

    /// Returns its figures: name, label, unit and the better end.
    fn figures(&self) -> &'static [(&'static str, &'static str, Unit, Better)];

    /// Returns the name of the figure that verdicts are given for.
    fn claimed(&self) -> String;

    /// Returns the services of the lanes, as [`Task::lanes`] does.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    /// Returns the names of the lanes, as [`Task::lane_names`] does.
    fn lane_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the plan of the messages on these lanes; `None` for a message of the same size in each slot
    /// of the pace, on the lanes in turns. Both ends have the same seed.
    fn plan(&self, _pace: &Pace, _lanes: &[Service], _seed: u64) -> Option<Planned> {
        None
    }

    /// Returns true if it has no plan of its own.
    fn is_even(&self) -> bool {
        true
    }

    /// Returns the maximum number of messages.
    fn messages(&self, pace: &Pace) -> u64 {
        pace.count
    }

    /// Returns the measurement for a flow with this many slots of the pace.
    fn measure(&self, slots: u64, seed: u64) -> Self::Measure;

    /// Returns the names of the times of what it is about, and when that is too late, where its measure tells that item by
    /// item ([`Measure::items`]).
    fn items(&self) -> Option<ItemNames> {
        None
    }

    /// Returns what closed forms say of its figures, as [`Task::theory`] does.
    fn theory(&self, _pace: &Pace, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    /// Creates the sending endpoint of one flow, with these lanes.
    fn sender(&self, pace: &Pace, lanes: &[Service], part: Part) -> Box<dyn Endpoint> {
        match self.plan(pace, lanes, part.seed) {
            Some(plan) => Box::new(Sender::of(plan, part)),
            None => {
                let schedule = pace.schedule(part.flow);
                Box::new(Sender::new(schedule, pace.size, lanes.len() as u16, part))
            }
        }
    }
}

/// Names of the times of items, with their label, and the time after which an item is too late.
pub(in crate::workload) type ItemNames = ([&'static str; 2], Option<Nanos>);

/// The plan of a work's own.
pub(in crate::workload) type Planned = Plan<Box<dyn Iterator<Item = Slot> + Send>>;

/// Pace of messages: their times, number and direction.
#[derive(Debug, Clone)]
pub(in crate::workload) struct Pace {
    settings: Settings,
    pub(in crate::workload) period: Period,
    pub(in crate::workload) size: usize,
    pub(in crate::workload) direction: Direction,
    /// Connections, which take turns.
    pub(in crate::workload) flows: u16,
    /// Number of slots, all connections together.
    pub(in crate::workload) count: u64,
    /// Length that a trial has to have, if the settings leave it open.
    lengths: Option<Lengths>,
}

impl Pace {
    /// Creates a pace from the keys `size`, `count` and `direction`, which all such workloads have;
    /// `fewest` messages if no count is given.
    pub(in crate::workload) fn of(settings: Settings, period: Period, fewest: u64) -> Pace {
        let asked = settings.count("count");
        let lengths = Lengths { fewest, unit_ns: period.times(1).0.max(1), key: "count" };
        Pace {
            period,
            size: settings.size("size").map_or(0, |size| size.0 as usize),
            direction: match settings.text("direction") {
                Some("down") => Direction::Down,
                _ => Direction::Up,
            },
            flows: 1,
            count: asked.unwrap_or(fewest),
            lengths: asked.is_none().then_some(lengths),
            settings,
        }
    }

    /// Bits of data per second that all messages make together.
    pub(in crate::workload) fn offered_bps(&self) -> f64 {
        let Period { ns, over } = self.period;
        8e9 * self.size as f64 * over as f64 / ns as f64
    }

    /// Returns the mean time between two messages, in nanoseconds.
    pub(in crate::workload) fn period_ns(&self) -> f64 {
        self.period.ns as f64 / self.period.over.max(1) as f64
    }

    /// Returns a setting as typed, or its default.
    pub(in crate::workload) fn text(&self, key: &str) -> &str {
        self.settings.text(key).unwrap_or_default()
    }

    fn schedule(&self, flow: u16) -> Schedule {
        Schedule::new(self.period, self.count, u64::from(flow), u64::from(self.flows))
    }

    fn sends(&self, side: Side) -> bool {
        (side == Side::Near) == (self.direction == Direction::Up)
    }
}

/// Work at a pace.
pub(in crate::workload) struct Paced<W> {
    pub(in crate::workload) pace: Pace,
    pub(in crate::workload) work: W,
}

impl<W: Work> Task for Paced<W> {
    fn headline(&self) -> String {
        self.work.headline(&self.pace)
    }

    fn lengths(&self) -> Option<Lengths> {
        self.pace.lengths
    }

    fn metrics(&self) -> Vec<Metric> {
        claiming(self.work.figures(), &self.work.claimed())
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.work.lanes(promised)
    }

    fn lane_names(&self) -> Vec<String> {
        self.work.lane_names()
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerKind) -> Option<String> {
        (peer == PeerKind::Kernel).then(|| {
            "the far host's kernel only echoes, so nobody could receive what is sent".to_owned()
        })
    }

    fn flows(&self) -> Vec<Option<Direction>> {
        vec![Some(self.pace.direction); usize::from(self.pace.flows)]
    }

    fn largest_message(&self) -> usize {
        self.pace.size
    }

    fn longest(&self) -> Nanos {
        self.pace.period.times(self.pace.count) + DRAIN
    }

    fn planned(&self) -> Option<Nanos> {
        Some(self.pace.period.times(self.pace.count))
    }

    fn most_bytes(&self) -> Option<u64> {
        Some(self.work.messages(&self.pace).saturating_mul(self.pace.size as u64))
    }

    fn memory(&self, side: Side) -> u64 {
        let each = W::Measure::BYTES_EACH;
        if self.pace.sends(side) { 0 } else { self.work.messages(&self.pace).saturating_mul(each) }
    }

    fn is_paced(&self) -> bool {
        true
    }

    /// Messages on a grid of times are told apart by their numbers, whether they arrive or not.
    fn observed(&self) -> Option<Observed> {
        let side = match self.pace.direction {
            Direction::Up => Side::Far,
            Direction::Down => Side::Near,
        };
        match self.work.items() {
            _ if self.pace.flows > 1 => None,
            Some((names, deadline)) => Some(Observed::Items(Items { side, names, deadline })),
            None if self.work.is_even() => Some(Observed::OneWay(self.pace.direction)),
            None => None,
        }
    }

    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        self.work.theory(&self.pace, on)
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let lanes = self.work.lanes(&part.guarantees);
        if self.pace.sends(part.side) {
            return self.work.sender(&self.pace, &lanes, part);
        }
        // Where messages of one lane may be lost, the receiver must not wait for all.
        let mut deliveries = lanes.iter().map(|service| service.delivery);
        let loses = deliveries.find(|delivery| *delivery != Delivery::Reliable);
        let measure = self.work.measure(self.pace.schedule(part.flow).slots(), part.seed);
        let (size, tag, transit) = (self.pace.size, part.tag, part.transit);
        let delivery = loses.unwrap_or(Delivery::Reliable);
        let receiver = Receiver::new(size, tag, transit, delivery, measure);
        Box::new(match self.work.is_even() {
            true => receiver.every(self.pace.period.times(u64::from(self.pace.flows))),
            false => receiver.beating(self.pace.period.times(1)),
        })
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let (direction, mut findings) = (self.pace.direction, Measurements::default());
        let (senders, receivers, conns) = reports.of(direction);
        conclude(&mut findings, direction, senders);
        let account = account_of(senders, receivers, conns);
        findings.metrics = joined(receivers, self.metrics().iter());
        let lost = account.sent.saturating_sub(account.delivered) as f64;
        let is_told = self.work.figures().iter().any(|(name, ..)| *name == LOST);
        if is_told && account.sent > 0 {
            findings.metrics.insert(LOST.to_owned(), lost / account.sent as f64);
        }
        findings.ledger.set(direction, account);
        if !findings.metrics.contains_key(&self.work.claimed()) && findings.why_invalid.is_none() {
            let why = "too few messages arrived to have the figure that is claimed";
            findings.why_invalid = Some(why.to_owned());
        }
        findings
    }

    fn spec(&self) -> Spec {
        with_count(self.work.id(), &self.pace.settings, self.pace.count)
    }
}

/// The figure of messages that never arrived, for workloads that list it.
pub(in crate::workload) use crate::measurements::name::LOST;

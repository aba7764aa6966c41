//! Events that must arrive, such as clicks and shots, beside a state that is sent all the time, on one connection. The
//! figures are the time until an event arrives, and the causes of its waiting: a lost event before it, or outdated
//! state.
//!
//! ```text
//! state    |  |  |  |  |  |  |  |     sent at a fixed rate, on a lane of its own if there is one
//! events      ▲        ▲ ▲            at random times, all must arrive
//!             due ──(lost, sent again)──► arrives
//!                        due ──► could be here ┄┄held back┄┄► arrives, if all share one order
//! ```

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::OfferedRate;
use deadheat_contract::contract::{Direction, Guarantees, Lane, LaneSet, Service};
use deadheat_contract::measurements::{Better, ClockNeed, Unit};

use crate::draw::{Arrivals, Spread, arrivals_key};
use crate::paced::{
    BoxedPlan, Claim, DUE_LEN, NamedLane, Otherwise, Pace, PaceSettings, Paced, Period, Plan,
    RECEIVERS, Slot, Work, WorkFacts, count_key, direction_key, size_key,
};
use deadheat_contract::workload::setting::{fits_rate, ways};
use deadheat_contract::workload::{Info, Setting, Task, Traffic, Workload, traffic};

pub(crate) mod deliveries;

use deliveries::Deliveries;

/// The workload.
pub(super) struct Events;

const KEYS: &[Key] = deadheat_base::keys![
    EVENTS, SIZE, ARRIVALS, ORDER, HZ, STATE_SIZE, SERVICE, COUNT, RECEIVERS, DIRECTION, CLAIM
];

const EVENTS: Preset<OfferedRate> = Optional::offered("events", (1_000_000_000, 100_000))
    .or("50pps")
    .doc("events on average: per second (50pps), or as application bits per second");

const SIZE: Preset<usize> = size_key("64", "the message of one event");

const ARRIVALS: Preset<Spread> =
    arrivals_key("events at random times (a Poisson process), or equally far apart");

const ORDER: Preset<Option<Service>> = Optional::choice(
    "order",
    &["events", "none", "own"],
    &[Some(Service::ORDERED), Some(Service::UNORDERED), None],
)
.or("events")
.doc(
    "events in their order, each as soon as it is there, or as the transport's own \
     lanes have it; all of them arrive",
);

const HZ: Preset<u64> = Optional::count("hz", (0, 1_000))
    .or("60")
    .doc("updates of the state per second; 0 for events alone");

const STATE_SIZE: Preset<usize> = Optional::length("state-size", (DUE_LEN as u64, 65_507))
    .or("200")
    .doc("one update of the state");

const SERVICE: Preset<bool> = Optional::choice("service", &["own", "latest"], &[false, true])
    .or("own")
    .doc("service of the state's lane: the transport's usual one, or messages that may be lost; with own it shares the \
     lane of the events where a connection has one");

const COUNT: Optional<u64> = count_key("events (as many as the claim needs: 100, or 1000 for p99)");

const DIRECTION: Preset<Direction> =
    direction_key("up", "near to far, or far to near as from a server");

const CLAIM: Preset<Claim> = Optional::choice(
    "claim",
    &["mean", "p99"],
    &[Claim::new("delivery_mean_ns", ENOUGH), Claim::new("delivery_p99_ns", ENOUGH_FOR_P99)],
)
.or("mean")
.doc("the figure of the delivery time for verdicts");

static INFO: Info = Info {
    id: "events",
    label: "events",
    summary: "events that must arrive, beside state: how soon each does",
    keys: KEYS,
};

/// Lanes, if there are two.
const LANES: [NamedLane; 2] = [NamedLane { name: "state" }, NamedLane { name: INFO.id }];

/// Number of events for a mean: two seconds, in which a loss of 1 % hits one.
const ENOUGH: u64 = 100;

/// Number of events with ten beyond the 99th percentile.
const ENOUGH_FOR_P99: u64 = 1_000;

impl Workload for Events {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = task(Settings::check(spec, KEYS)?)?;
        let offered = task.work.offered_bps() * f64::from(task.pace.receivers());
        fits_rate(INFO.id, setting, task.pace.direction, offered)?;
        Ok(Box::new(task))
    }

    /// Stands for events beside a state in the same direction; events alone are the workload `streams`.
    fn stands_for(&self, traffic: &Traffic, others: &[Traffic]) -> Option<Result<traffic::Work>> {
        let state = traffic.state_beside(others)?;
        (traffic.kind == traffic::Kind::Events).then(|| {
            let direction = traffic.direction(Direction::Up);
            let (rate, size) =
                (traffic.rate_per_second()?, Traffic::bytes(traffic.size.as_ref(), 64)?);
            let order = if traffic.in_order == Some(false) { "own" } else { "events" };
            let (hz, state) = (state.rate_per_second()?, Traffic::bytes(state.size.as_ref(), 200)?);
            let work = traffic::Work::new(
                INFO.id,
                [
                    ("events", format!("{rate}pps")),
                    ("size", size.to_string()),
                    ("order", order.to_owned()),
                    ("hz", hz.to_string()),
                    ("state-size", state.to_string()),
                    ("direction", direction.to_string()),
                ],
            );
            let limit = Traffic::span(traffic.deadline.as_ref())?;
            Ok(work
                .within(limit, traffic::Least::Way(direction))
                .offering(1, rate.saturating_mul(size).saturating_add(hz.saturating_mul(state))))
        })
    }
}

/// Events beside a state, with their settings.
#[derive(Debug, Clone)]
struct EventsWork {
    /// Average interval between two events, and between two updates of the state.
    events: Period,
    state: Period,
    event_size: usize,
    state_size: usize,
    spread: Spread,
    count: u64,
    /// Service of the events; `None` for the transport's own service that delivers all.
    event_service: Option<Service>,
    /// True if the state asks for a lane that may lose messages.
    may_lose_state: bool,
    claimed: &'static str,
}

fn task(settings: Settings) -> Result<Paced<EventsWork>> {
    let (event_size, state_size) = (settings.get(&SIZE), settings.get(&STATE_SIZE));
    let events = match settings.get(&EVENTS) {
        OfferedRate::Bits(rate) => Period::of_bits(event_size as u64 * 8, rate.0),
        OfferedRate::Packets(rate) => Period::of_packets(rate.0),
        OfferedRate::Max => {
            return Err(Error::usage(
                "events: events=max has no times from which to measure; give a rate, as 50pps",
            ));
        }
    };
    let Claim { figure, fewest } = settings.get(&CLAIM);
    let mut work = EventsWork {
        events,
        state: Period::of_packets(settings.get(&HZ)),
        event_size,
        state_size,
        spread: settings.get(&ARRIVALS),
        count: 0,
        event_service: settings.get(&ORDER),
        may_lose_state: settings.get(&SERVICE),
        claimed: figure,
    };
    let (count, direction) = (settings.find(&COUNT), settings.get(&DIRECTION));
    let size = event_size.max(state_size);
    let wanted = PaceSettings { count, fewest, size, direction };
    let pace = Pace::new(settings, events, wanted).with_receivers(INFO.id)?;
    work.count = pace.count;
    Ok(Paced::new(pace, work))
}

/// Messages to send, updates of the state and events, in the order of their due times.
struct MessageTimes {
    state: Period,
    states: u64,
    /// Number of updates so far, and number of messages of both kinds.
    state_index: u64,
    index: u64,
    events: std::iter::Peekable<Arrivals>,
}

/// Message of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    at: Nanos,
    seq: u64,
    is_event: bool,
}

impl Iterator for MessageTimes {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let state = (self.state_index < self.states).then(|| self.state.times(self.state_index));
        let event = self.events.peek().copied();
        let (at, is_event) = match (state, event) {
            (Some(state), Some(event)) if event < state => (event, true),
            (Some(state), _) => (state, false),
            (None, event) => (event?, true),
        };
        let seq = self.index;
        self.index += 1;
        if is_event {
            self.events.next();
        } else {
            self.state_index += 1;
        }
        Some(Due { at, seq, is_event })
    }
}

impl EventsWork {
    /// Returns the number of updates of the state until the last event may be due.
    fn states(&self) -> u64 {
        if self.is_alone() { 0 } else { self.state.within(self.events.times(self.count)) }
    }

    /// Returns true if there is no state.
    fn is_alone(&self) -> bool {
        self.state.over == 0
    }

    fn messages(&self, seed: u64) -> MessageTimes {
        let events = Arrivals::new(self.spread, self.events, self.count, seed).peekable();
        MessageTimes { state: self.state, states: self.states(), state_index: 0, index: 0, events }
    }

    /// Returns the application bits per second of both kinds.
    fn offered_bps(&self) -> f64 {
        let bps = |period: Period, size: usize| {
            size as f64 * 8e9 * period.over as f64 / period.ns.max(1) as f64
        };
        bps(self.events, self.event_size) + bps(self.state, self.state_size)
    }
}

impl Work for EventsWork {
    type Measure = Deliveries;

    fn facts(&self, pace: &Pace) -> WorkFacts {
        let (events, hz) = (pace.as_typed(&EVENTS), pace.as_typed(&HZ));
        let ways = ways(&[pace.direction]);
        WorkFacts {
            id: INFO.id,
            headline: if self.is_alone() {
                format!("{events} events {ways}")
            } else {
                format!("{events} events beside a state at {hz} Hz on one connection, {ways}")
            },
            figures: FIGURES,
            clocks: CLOCKS,
            claimed: self.claimed.to_owned(),
            lane_names: NamedLane::names(&LANES),
            figures_by_lane: figures_by_lane(),
            messages: Some(self.count.saturating_add(self.states())),
            is_even: false,
            items: Some((["delivery", "delivery"], None)),
        }
    }

    /// Returns the lane of the state first, if it has one of its own.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        let events = self.event_service.unwrap_or_else(|| promised.arriving());
        match (self.may_lose_state, promised.lanes) {
            (true, _) => vec![Service::BEST_EFFORT, events],
            (false, 0 | 1) => vec![events],
            (false, _) => vec![promised.service, events],
        }
    }

    fn plan(&self, _pace: &Pace, lanes: &[Service], seed: u64) -> Option<BoxedPlan> {
        let event_lane = Lane((lanes.len().max(1) - 1) as u16);
        let (event_size, state_size) = (self.event_size, self.state_size);
        let slots = self.messages(seed).map(move |Due { at, seq, is_event }| Slot {
            due: at,
            place: Some((seq, if is_event { event_lane } else { Lane(0) })),
            len: if is_event { event_size } else { state_size },
            otherwise: if is_event { Otherwise::Kept } else { Otherwise::Skipped },
        });
        Some(Plan {
            slots: Box::new(slots),
            count: self.count + self.states(),
            step: if self.is_alone() { &self.events } else { &self.state }.times(1),
            span: self.events.times(self.count),
            is_even: false,
        })
    }

    fn measure(&self, _slots: u64, seed: u64, carried: LaneSet) -> Deliveries {
        let kinds = self.messages(seed).map(|due| due.is_event).collect();
        let all = Deliveries::new(kinds, self.event_size, self.state_size);
        if carried.has(Lane(1)) { all } else { all.of_state_alone() }
    }
}

/// Figures of the workload: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("delivery_mean_ns", "mean delivery", Unit::Nanos, Better::Lower),
    ("delivery_p50_ns", "delivery p50", Unit::Nanos, Better::Lower),
    ("delivery_p99_ns", "delivery p99", Unit::Nanos, Better::Lower),
    ("delivery_max_ns", "slowest delivery", Unit::Nanos, Better::Lower),
    ("undelivered_share", "events not delivered", Unit::Share, Better::Lower),
    ("held_by_events_mean_ns", "wait for earlier events", Unit::Nanos, Better::Lower),
    ("held_by_state_mean_ns", "wait for the state", Unit::Nanos, Better::Lower),
    ("state_age_mean_ns", "mean age of the state", Unit::Nanos, Better::Lower),
];

/// Returns the figures of the state and of the events.
fn figures_by_lane() -> Vec<Vec<&'static str>> {
    let names = FIGURES.iter().map(|(name, ..)| *name);
    let (state, events) = names.partition(|name| name.starts_with("state_"));
    vec![state, events]
}

/// Clocks that the figures need.
const CLOCKS: &[(&str, ClockNeed)] = &[
    ("delivery_mean_ns", ClockNeed::Offset),
    ("delivery_p50_ns", ClockNeed::Offset),
    ("delivery_p99_ns", ClockNeed::Offset),
    ("delivery_max_ns", ClockNeed::Offset),
    ("state_age_mean_ns", ClockNeed::Offset),
];

#[cfg(test)]
mod tests;

//! State that changes all the time, such as of a game, an avatar or a robot: a sender sends updates at a fixed rate,
//! and a receiver shows the newest update that it has. The figure is the age of that update, not whether each one
//! arrives.
//!
//! ```text
//! updates     0    1    2    3    4    5
//! arrive      |    |         |||  |          (2 was lost; in an ordered transport 3 and 4 wait for it)
//! age        /|/|/|  /  /  / |/|/|
//! ```

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Direction, Guarantees, Lane, LaneSet, Service};
use deadheat_contract::measurements::series::RoundTrips;
use deadheat_contract::measurements::{Better, ClockNeed, Tally, Unit};

use crate::paced::{
    BoxedPlan, DUE_LEN, LOST, Measure, Otherwise, Pace, PaceSettings, Paced, Period, Plan,
    RECEIVERS, Slot, Work, WorkFacts, count_key, direction_key, size_key,
};
use deadheat_contract::workload::setting::{fits_rate, set_apart, ways};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{Info, Setting, Task, Traffic, Workload, traffic};

pub(crate) mod ages;
pub(crate) mod motion;
mod objects;
mod theory;

use ages::{Ages, Showing};
use motion::{Display, Motion};
use objects::{Crowd, Objects};

/// The workload.
pub(super) struct State;

const KEYS: &[Key] = deadheat_base::keys![
    HZ,
    SIZE,
    COUNT,
    RECEIVERS,
    SERVICE,
    MOTION,
    DISPLAY,
    PLAYOUT,
    OBJECTS,
    OBJECT_SIZE,
    NEAR,
    CAP,
    DIRECTION,
    CLAIM
];

const HZ: Preset<u64> = Optional::count("hz", (1, 1_000)).or("60").doc("updates per second");

const SIZE: Preset<usize> = size_key("200", "one update, with all that changed");

const COUNT: Optional<u64> = count_key("updates (as many as the claim needs: 120, or two seconds)");

const SERVICE: Preset<Option<Service>> = Optional::choice(
    "service",
    &["own", "latest", "reliable"],
    &[None, Some(Service::BEST_EFFORT), Some(Service::ORDERED)],
)
.or("own")
.doc(
    "service asked of the transport: its usual one, messages that may be lost in any \
     order, or every message in order",
);

const MOTION: Preset<Motion> = Optional::choice("motion", &["sine", "step", "bounce", "linear", "hand"], &[Motion::Sine, Motion::Step, Motion::Bounce, Motion::Linear, Motion::Hand])
    .or("sine")
    .doc("motion of the state, for the error of what is shown: swings once a second, jumps every half second, falls and \
     bounces every second, goes to and fro at one speed, or reaches as a hand does");

const DISPLAY: Preset<fn(Nanos) -> Display> = Optional::<fn(Nanos) -> Display>::choice("display", &["hold", "extrapolate", "interpolate"], &[|_| Display::Hold, |_| Display::Extrapolate, Display::Interpolate])
    .or("hold")
    .doc("what is shown between updates: the newest, where it would be by now at its speed, or between two, later by \
     playout");

const PLAYOUT: Preset<Nanos> = Optional::span("playout", (0, 5_000_000_000))
    .or("50ms")
    .doc("delay of the state that interpolation shows, behind the sender's time");

const OBJECTS: Preset<u64> = Optional::count("objects", (1, 10_000))
    .or("1")
    .doc("objects in the state; of several, an update has those of highest priority");

const OBJECT_SIZE: Preset<usize> = Optional::length("object-size", (1, 65_507 - DUE_LEN as u64))
    .or("28")
    .doc("one of several objects in an update, behind a header of 20 bytes, instead of size");

const NEAR: Preset<f64> = Optional::any_share("near")
    .or("10%")
    .doc("share of the objects that are near, and a hundred times as important as the rest");

const CAP: Optional<BitRate> = Optional::rate("cap", (1_000, 100_000_000_000)).doc(
    "the most that updates of several objects may take, headers of 20 bytes included \
     (all objects in each update)",
);

const DIRECTION: Preset<Direction> =
    direction_key("down", "near to far, or far to near as from a server");

const CLAIM: Preset<&'static str> =
    Optional::choice("claim", &["mean", "p99"], &["age_mean_ns", "age_p99_ns"])
        .or("mean")
        .doc("the figure of the age for verdicts");

static INFO: Info = Info {
    id: "state",
    label: "state updates",
    summary: "game state at a fixed rate: how old the receiver's copy is",
    keys: KEYS,
};

/// Number of updates for a mean age: two seconds of a game, in which a loss of 1 % hits one.
const ENOUGH: u64 = 120;

/// Largest message in bytes, and maximum of objects times updates.
const LARGEST: u64 = 65_507;
const MOST_OBJECTS: u64 = 10_000_000;

impl Workload for State {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = task(Settings::check(spec, KEYS)?)?;
        fits_rate(INFO.id, setting, task.pace.direction, task.pace.offered_bps())?;
        let least = setting.bounds(task.pace.direction).delay;
        match (task.work.showing.display, least) {
            (Display::Interpolate(playout), Some(least)) if playout <= least => {
                Err(Error::usage(format!(
                    "state: there is never anything to interpolate: playout is {playout}, and the path takes {least} {}; \
                     raise playout, or take a shorter path",
                    task.pace.direction
                )))
            }
            _ => Ok(Box::new(task)),
        }
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::State).then(|| {
            let direction = traffic.direction(Direction::Down);
            let (hz, size) =
                (traffic.rate_per_second()?, Traffic::bytes(traffic.size.as_ref(), 200)?);
            let work = traffic::Work::new(
                INFO.id,
                [
                    ("hz", hz.to_string()),
                    ("size", size.to_string()),
                    ("service", "own".to_owned()),
                    ("direction", direction.to_string()),
                    ("claim", "p99".to_owned()),
                ],
            );
            let limit = Traffic::span(traffic.stale_after.as_ref())?;
            let work = work.claiming(0.99, Some(("claim", "mean")));
            Ok(work.within(limit, traffic::Least::Way(direction)).offering(hz, size))
        })
    }
}

/// State updates with their settings.
#[derive(Debug, Clone)]
struct Updates {
    /// Service to ask for; `None` for the transport's own.
    service: Option<Service>,
    showing: Showing,
    /// Objects, if there are several.
    crowd: Option<Crowd>,
    claimed: &'static str,
}

/// Returns the objects that share each update, if there are several.
fn crowd(settings: &Settings, hz: u64) -> Result<Option<Crowd>> {
    let (objects, size) = (settings.get(&OBJECTS), settings.get(&OBJECT_SIZE) as u64);
    let cap = settings.find(&CAP).map(|cap| cap.0);
    if objects == 1 {
        return match cap {
            None => Ok(None),
            Some(_) => Err(Error::usage(
                "state: cap= is shared out among objects, and there is one; give objects=, or lower hz or size",
            )),
        };
    }
    let room = cap.map_or(LARGEST, |cap| (cap / 8 / hz).min(LARGEST));
    let each = (room.saturating_sub(DUE_LEN as u64) / size).min(objects);
    match cap {
        None if each < objects => Err(Error::usage(format!(
            "state: {objects} objects of {size} bytes do not fit into one message of {LARGEST}; give cap=, so that \
             some of them are in each update"
        ))),
        Some(cap) if each == 0 => Err(Error::usage(format!(
            "state: cap={} at {hz} Hz leaves {room} bytes for each update, and one object takes {}; raise the cap, or \
             lower hz or object-size",
            BitRate(cap),
            size + DUE_LEN as u64
        ))),
        _ => {
            let near = (settings.get(&NEAR) * objects as f64).round();
            Ok(Some(Crowd { objects: objects as usize, near: near as usize, each: each as usize }))
        }
    }
}

/// Refuses keys that have no effect beside the others.
fn check_idle(settings: &Settings) -> Result<()> {
    let is_one = settings.get(&OBJECTS) == 1;
    let display = settings.get(&DISPLAY)(Nanos::ZERO);
    let interpolates = matches!(display, Display::Interpolate(_));
    let idle: &[(bool, &[Key], &str)] = &[
        (!interpolates, &[PLAYOUT.key()], "display=interpolate"),
        (is_one, &[NEAR.key(), OBJECT_SIZE.key()], "objects= of two or more"),
        (
            !is_one,
            &[SIZE.key()],
            "one object; with several, object-size says how long an update is",
        ),
    ];
    let found = idle
        .iter()
        .filter(|(is_idle, ..)| *is_idle)
        .find_map(|(_, keys, with)| Some((set_apart(settings, keys)?, with)));
    match found {
        None => Ok(()),
        Some((name, with)) => Err(Error::usage(format!(
            "state: `{name}` means something only with {with}; add that, or leave {name} out"
        ))),
    }
}

fn task(settings: Settings) -> Result<Paced<Updates>> {
    check_idle(&settings)?;
    let hz = settings.get(&HZ);
    let crowd = crowd(&settings, hz)?;
    let period = Period::of_packets(hz);
    let work = Updates {
        service: settings.get(&SERVICE),
        showing: Showing {
            motion: settings.get(&MOTION),
            display: settings.get(&DISPLAY)(settings.get(&PLAYOUT)),
            phase: Nanos::ZERO,
            period: period.times(1),
        },
        crowd,
        claimed: settings.get(&CLAIM),
    };
    let size = match crowd {
        None => settings.get(&SIZE),
        Some(crowd) => DUE_LEN + crowd.each * settings.get(&OBJECT_SIZE),
    };
    let (count, direction) = (settings.find(&COUNT), settings.get(&DIRECTION));
    let wanted = PaceSettings { count, fewest: ENOUGH, size, direction };
    let pace = Pace::new(settings, period, wanted).with_receivers(INFO.id)?;
    if let Some(crowd) = crowd
        && pace.count.saturating_mul(crowd.objects as u64) > MOST_OBJECTS
    {
        return Err(Error::usage(format!(
            "state: count={} with objects={} has more priorities to weigh than {MOST_OBJECTS}; take fewer of either",
            pace.count, crowd.objects
        )));
    }
    Ok(Paced::new(pace, work))
}

impl Work for Updates {
    type Measure = StateMeasure;

    fn facts(&self, pace: &Pace) -> WorkFacts {
        let (hz, ways) = (pace.as_typed(&HZ), ways(&[pace.direction]));
        let (headline, figures) = match self.crowd {
            None => (format!("{}-byte state updates at {hz} Hz {ways}", pace.size), FIGURES),
            Some(Crowd { objects, each, .. }) => (
                format!("state of {objects} objects, {each} in each update, at {hz} Hz {ways}"),
                CROWD_FIGURES,
            ),
        };
        WorkFacts {
            id: INFO.id,
            headline,
            figures,
            clocks: CLOCKS,
            claimed: self.claimed.to_owned(),
            is_even: true,
            ..WorkFacts::default()
        }
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![self.service.unwrap_or(promised.service)]
    }

    /// Gives each message the number of its update, because the objects differ from update to update.
    fn plan(&self, pace: &Pace, _lanes: &[Service], _seed: u64) -> Option<BoxedPlan> {
        self.crowd?;
        let (period, count, len) = (pace.period, pace.count, pace.size);
        let slots = (0..count).map(move |tick| Slot {
            due: period.times(tick),
            place: Some((tick, Lane(0))),
            len,
            otherwise: Otherwise::Skipped,
        });
        let (step, span) = (period.times(1), period.times(count));
        Some(Plan { slots: Box::new(slots), count, step, span, is_even: true })
    }

    fn theory(&self, pace: &Pace, on: &Conditions<'_>) -> Vec<Prediction> {
        let lane = self.lanes(on.guarantees).first().copied().filter(|_| self.crowd.is_none());
        lane.map(|service| theory::of(pace, service, on)).unwrap_or_default()
    }

    fn measure(&self, slots: u64, _seed: u64, _carried: LaneSet) -> StateMeasure {
        let objects = match self.crowd {
            None => StateObjects::One(Ages::new(slots, self.showing)),
            Some(crowd) => StateObjects::Many(Objects::new(crowd, slots, self.showing)),
        };
        StateMeasure { objects, times: RoundTrips::default() }
    }
}

/// Measure of a state at the receiver.
struct StateMeasure {
    objects: StateObjects,
    /// Delays of the updates that arrived since the last report.
    times: RoundTrips,
}

/// Objects of a state at the receiver: one or many.
enum StateObjects {
    One(Ages),
    Many(Objects),
}

impl Measure for StateMeasure {
    const BYTES_EACH: u64 = Ages::BYTES_EACH;

    #[inline]
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, received: &Tally) {
        if let Some(due) = due {
            self.times.add((now - due).0);
        }
        match &mut self.objects {
            StateObjects::One(ages) => ages.note(now, seq, due, received),
            StateObjects::Many(objects) => objects.note(now, seq, due, received),
        }
    }

    fn take_times(&mut self) -> RoundTrips {
        std::mem::take(&mut self.times)
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        match &self.objects {
            StateObjects::One(ages) => ages.figures(),
            StateObjects::Many(objects) => objects.figures(),
        }
    }
}

/// Figures of a state of many objects: name, label, unit and the better end.
const CROWD_FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("age_mean_ns", "mean age", Unit::Nanos, Better::Lower),
    ("age_p99_ns", "age p99", Unit::Nanos, Better::Lower),
    ("age_max_ns", "greatest age", Unit::Nanos, Better::Lower),
    ("near_age_mean_ns", "mean age of near objects", Unit::Nanos, Better::Lower),
    ("rest_age_mean_ns", "mean age of the rest", Unit::Nanos, Better::Lower),
    ("error_mean_share", "mean error of the shown state", Unit::Share, Better::Lower),
    ("error_p99_share", "error p99 of the shown state", Unit::Share, Better::Lower),
    (LOST, "lost", Unit::Share, Better::Lower),
];

/// Figures of a state of one object: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("age_mean_ns", "mean age", Unit::Nanos, Better::Lower),
    ("age_p99_ns", "age p99", Unit::Nanos, Better::Lower),
    ("age_max_ns", "greatest age", Unit::Nanos, Better::Lower),
    ("stall_share", "time stalled", Unit::Share, Better::Lower),
    ("stall_max_ns", "longest stall", Unit::Nanos, Better::Lower),
    ("error_mean_share", "mean error of the shown state", Unit::Share, Better::Lower),
    ("error_p99_share", "error p99 of the shown state", Unit::Share, Better::Lower),
    ("playout_p99_ns", "playout delay for 1 % late", Unit::Nanos, Better::Lower),
    (LOST, "lost", Unit::Share, Better::Lower),
];

/// Clocks that the figures need.
const CLOCKS: &[(&str, ClockNeed)] = &[
    ("age_mean_ns", ClockNeed::Offset),
    ("age_p99_ns", ClockNeed::Offset),
    ("age_max_ns", ClockNeed::Offset),
    ("near_age_mean_ns", ClockNeed::Offset),
    ("rest_age_mean_ns", ClockNeed::Offset),
    ("error_mean_share", ClockNeed::Offset),
    ("error_p99_share", ClockNeed::Offset),
    ("playout_p99_ns", ClockNeed::Offset),
    ("stall_share", ClockNeed::Relative),
    ("stall_max_ns", ClockNeed::Relative),
];

#[cfg(test)]
mod tests;

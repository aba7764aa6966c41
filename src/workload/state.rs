//! State that changes all the time, as of a game, an avatar or a robot: a sender tells it at a fixed rate, and
//! a receiver shows the newest that it has. What counts is how old that is, not whether each update arrives.
//!
//! ```text
//! updates     0    1    2    3    4    5
//! arrive      |    |         |||  |          (2 was lost; in an ordered transport 3 and 4 wait for it)
//! age        /|/|/|  /  /  / |/|/|
//! ```

use crate::contract::{Direction, Guarantees, Service};
use crate::error::Result;
use crate::measurements::{Better, Unit};
use crate::spec::{Key, Kind, Settings, Spec};

use super::paced::{LOST, Pace, Paced, Period, Work, count_key, direction_key, size_key};
use super::setting::{fits_rate, one_clock, ways};
use super::{Info, Setting, Task, Traffic, Workload, traffic};

pub(in crate::workload) mod ages;
pub(in crate::workload) mod motion;

use ages::{Ages, Showing};
use motion::{Display, Motion};

/// The workload.
pub(super) struct State;

const KEYS: &[Key] = &[
    Key { name: "hz", kind: Kind::Count(1, 1_000), default: "60", doc: "updates per second" },
    size_key("200", "one update, with all that changed"),
    count_key("how many updates (as many as the claim needs: 120, or two seconds)"),
    Key {
        name: "service",
        kind: Kind::Choice(&["own", "latest", "reliable"]),
        default: "own",
        doc: "what is asked of the transport: its own usual service, messages that may be lost in any order, or every message in order",
    },
    Key {
        name: "motion",
        kind: Kind::Choice(&["sine", "step", "bounce"]),
        default: "sine",
        doc: "what the state does, for the error of what is shown: swings once a second, jumps every half second, or falls and bounces every second",
    },
    Key {
        name: "display",
        kind: Kind::Choice(&["hold", "extrapolate", "interpolate"]),
        default: "hold",
        doc: "what is shown between updates: the newest, where it would be by now at its speed, or between two of them, later by playout",
    },
    Key {
        name: "playout",
        kind: Kind::Span(0, 5_000_000_000),
        default: "50ms",
        doc: "how far behind the sender's time interpolation shows",
    },
    direction_key("down", "near to far, or far to near as from a server"),
    Key {
        name: "claim",
        kind: Kind::Choice(&["mean", "p99"]),
        default: "mean",
        doc: "the figure of the age that verdicts are given for; the others are described",
    },
];

static INFO: Info = Info {
    id: "state",
    label: "state updates",
    summary: "a state told at a fixed rate, as in games: how old what the receiver has is, and how wrong",
    keys: KEYS,
};

/// Updates that have a mean age: two seconds of a game, in which losses of 1 % strike once.
const ENOUGH: u64 = 120;

/// Seconds of a state in which losses of 1 % strike, and the fewest updates that are any: those of an application
/// that tells it less often take no longer.
const SECONDS: u64 = 2;
const FEWEST: u64 = 20;

impl Workload for State {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        one_clock(INFO.id, setting)?;
        let task = task(Settings::check(spec, KEYS)?);
        fits_rate(INFO.id, setting, task.pace.direction, task.pace.offered_bps())?;
        Ok(Box::new(task))
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::State).then(|| {
            let direction = traffic.direction(Direction::Down);
            let (hz, size) =
                (traffic.rate_per_second()?, Traffic::bytes(traffic.size.as_ref(), 200)?);
            let service = if traffic.has_to_arrive() { "reliable" } else { "own" };
            let work = traffic::Work::new(
                INFO.id,
                [
                    ("hz", hz.to_string()),
                    ("count", hz.saturating_mul(SECONDS).clamp(FEWEST, ENOUGH).to_string()),
                    ("size", size.to_string()),
                    ("service", service.to_owned()),
                    ("direction", direction.to_string()),
                    ("claim", "p99".to_owned()),
                ],
            );
            let limit = Traffic::span(traffic.stale_after.as_ref())?;
            Ok(work.within(limit, traffic::Least::Way(direction)).offering(hz, size))
        })
    }
}

/// State updates with their settings.
#[derive(Debug, Clone)]
struct Updates {
    /// The service that is asked for; `None` for the transport's own.
    service: Option<Service>,
    showing: Showing,
    claimed: String,
}

fn task(settings: Settings) -> Paced<Updates> {
    let period = Period::of_packets(settings.count("hz").unwrap_or(60));
    let work = Updates {
        service: match settings.text("service") {
            Some("latest") => Some(Service::BEST_EFFORT),
            Some("reliable") => Some(Service::ORDERED),
            _ => None,
        },
        showing: Showing {
            motion: Motion::named(settings.text("motion").unwrap_or_default()),
            display: match settings.text("display") {
                Some("extrapolate") => Display::Extrapolate,
                Some("interpolate") => {
                    Display::Interpolate(settings.span("playout").unwrap_or_default())
                }
                _ => Display::Hold,
            },
            period: period.times(1),
        },
        claimed: format!("age_{}_ns", settings.text("claim").unwrap_or_default()),
    };
    Paced { pace: Pace::of(settings, period, ENOUGH), work }
}

impl Work for Updates {
    type Measure = Ages;

    fn id(&self) -> &'static str {
        INFO.id
    }

    fn headline(&self, pace: &Pace) -> String {
        let ways = ways(&[pace.direction]);
        format!("{}-byte state updates at {} Hz {ways}", pace.size, pace.text("hz"))
    }

    fn figures(&self) -> &'static [(&'static str, &'static str, Unit, Better)] {
        FIGURES
    }

    fn claimed(&self) -> String {
        self.claimed.clone()
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![self.service.unwrap_or(promised.service)]
    }

    fn measure(&self, slots: u64, _seed: u64) -> Ages {
        Ages::new(slots, self.showing)
    }
}

/// Its figures: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("age_mean_ns", "mean age", Unit::Nanos, Better::Lower),
    ("age_p99_ns", "age p99", Unit::Nanos, Better::Lower),
    ("age_max_ns", "greatest age", Unit::Nanos, Better::Lower),
    ("stall_share", "time stalled", Unit::Share, Better::Lower),
    ("stall_max_ns", "longest stall", Unit::Nanos, Better::Lower),
    ("error_mean_share", "mean error of what is shown", Unit::Share, Better::Lower),
    ("error_p99_share", "error p99 of what is shown", Unit::Share, Better::Lower),
    ("playout_p99_ns", "playout delay for 1 % late", Unit::Nanos, Better::Lower),
    (LOST, "lost", Unit::Share, Better::Lower),
];

#[cfg(test)]
mod tests;

//! State that changes all the time, as of a game, an avatar or a robot: a sender tells it at a fixed rate, and
//! a receiver shows the newest that it has. What counts is how old that is, not whether each update arrives.
//!
//! ```text
//! updates     0    1    2    3    4    5
//! arrive      |    |         |||  |          (2 was lost; in an ordered transport 3 and 4 wait for it)
//! age        /|/|/|  /  /  / |/|/|
//! ```

use crate::contract::{Direction, Guarantees, PeerKind, Service, Side};
use crate::error::Result;
use crate::figures::{Better, Metric, Role, Unit};
use crate::spec::{Key, Kind, Settings, Spec};
use crate::time::Nanos;

use super::header::account_of;
use super::paced::{self, DRAIN, Period, Receiver, STAMPED_LEN, Schedule, Sender};
use super::setting::{one_clock, ways};
use super::{Findings, Half, Info, Lengths, Part, Reports, Setting, Task, Workload};

mod ages;
mod motion;

use ages::{Ages, Showing};
use motion::{Display, Motion};

/// The workload.
pub(super) struct State;

const KEYS: &[Key] = &[
    Key { name: "hz", kind: Kind::Count(1, 1_000), default: "60", doc: "updates per second" },
    Key {
        name: "size",
        kind: Kind::Size(STAMPED_LEN as u64, 65_507),
        default: "200",
        doc: "one update, with all that changed",
    },
    Key {
        name: "count",
        kind: Kind::Count(20, MOST_UPDATES),
        default: "",
        doc: "how many updates (as many as the claim needs: 120, or two seconds)",
    },
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
    Key {
        name: "direction",
        kind: Kind::Choice(&["up", "down"]),
        default: "down",
        doc: "near to far, or far to near as from a server",
    },
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

/// Each is remembered until the end, with two times.
const MOST_UPDATES: u64 = 10_000_000;

/// Updates that have a mean age: two seconds of a game, in which losses of 1 % strike once.
const ENOUGH: u64 = 120;

impl Workload for State {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        one_clock(INFO.id, setting)?;
        Ok(Box::new(StateTask::new(Settings::check(spec, KEYS)?)))
    }
}

/// State updates with their settings.
#[derive(Debug, Clone)]
struct StateTask {
    settings: Settings,
    period: Period,
    size: usize,
    count: u64,
    /// The service that is asked for; `None` for the transport's own.
    service: Option<Service>,
    showing: Showing,
    direction: Direction,
    /// How long a trial has to be, where the settings leave it open.
    lengths: Option<Lengths>,
}

impl StateTask {
    fn new(settings: Settings) -> StateTask {
        let period = Period::of_packets(settings.count("hz").unwrap_or(60));
        let asked = settings.count("count");
        let lengths = Lengths { fewest: ENOUGH, unit_ns: period.times(1).0, key: "count" };
        StateTask {
            period,
            size: settings.size("size").map_or(200, |size| size.0 as usize),
            count: asked.unwrap_or(ENOUGH),
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
            direction: match settings.text("direction") {
                Some("up") => Direction::Up,
                _ => Direction::Down,
            },
            lengths: asked.is_none().then_some(lengths),
            settings,
        }
    }

    /// The service that its one lane has.
    fn served(&self, promised: &Guarantees) -> Service {
        self.service.unwrap_or(promised.service)
    }
}

impl Task for StateTask {
    fn headline(&self) -> String {
        let hz = self.settings.text("hz").unwrap_or_default();
        format!("{}-byte state updates at {hz} Hz {}", self.size, ways(&[self.direction]))
    }

    fn lengths(&self) -> Option<Lengths> {
        self.lengths
    }

    fn metrics(&self) -> Vec<Metric> {
        let claimed = format!("age_{}_ns", self.settings.text("claim").unwrap_or("mean"));
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
        vec![self.served(promised)]
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerKind) -> Option<String> {
        (peer == PeerKind::Kernel)
            .then(|| "the far host's kernel only echoes, so nobody could tell a state".to_owned())
    }

    fn flows(&self) -> Vec<Option<Direction>> {
        vec![Some(self.direction)]
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
        if receives { self.count * Ages::BYTES_EACH } else { 0 }
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn half(&self, part: Part) -> Box<dyn Half> {
        let schedule = Schedule::new(self.period, self.count, 0, 1);
        if (part.side == Side::Near) == (self.direction == Direction::Up) {
            return Box::new(Sender::new(schedule, self.size, 1, part));
        }
        let delivery = self.served(&part.guarantees).delivery;
        let ages = Ages::new(self.count, self.showing);
        Box::new(Receiver::new(self.size, part.tag, part.transit, delivery, ages))
    }

    fn conclude(&self, reports: &Reports<'_>) -> Findings {
        let mut findings = Findings::default();
        let (senders, receivers, conns) = reports.of(self.direction);
        paced::conclude(&mut findings, self.direction, senders);
        let account = account_of(senders, receivers, conns);
        let lost = account.sent.saturating_sub(account.delivered) as f64;
        findings.metrics = paced::joined(receivers, self.metrics().iter());
        if account.sent > 0 {
            findings.metrics.insert("loss_share".to_owned(), lost / account.sent as f64);
        }
        findings.ledger.set(self.direction, account);
        if !findings.metrics.contains_key("age_mean_ns") && findings.why_invalid.is_none() {
            let why = "fewer than two updates arrived, between which a state could grow old";
            findings.why_invalid = Some(why.to_owned());
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
    ("age_mean_ns", "mean age", Unit::Nanos),
    ("age_p99_ns", "age p99", Unit::Nanos),
    ("age_max_ns", "greatest age", Unit::Nanos),
    ("stall_share", "time stalled", Unit::Share),
    ("stall_max_ns", "longest stall", Unit::Nanos),
    ("error_mean_share", "mean error of what is shown", Unit::Share),
    ("error_p99_share", "error p99 of what is shown", Unit::Share),
    ("playout_p99_ns", "playout delay for 1 % late", Unit::Nanos),
    ("loss_share", "lost", Unit::Share),
];

#[cfg(test)]
mod tests;

//! Shared fixtures for the tests of this crate and of its dependents (feature `testing`): an outcome to fill, and a
//! context with a fake runner in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a fixture that fails is a failed test"
)]

pub use deadheat_result::testing::{WORKLOAD, built, outcome, record};
use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Request;
use crate::race::context::{Observer, RaceContext, RaceEvent};
use deadheat_base::error::Result;
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{Manual, Nanos};
use deadheat_contract::measurements::Metrics;
use deadheat_contract::measurements::series::{Point, RoundTrips, Series, TcpColumns};
#[cfg(test)]
use deadheat_host::placement::Load;
#[cfg(test)]
use deadheat_records::host::HostFacts;
use deadheat_result::outcome::Outcome;
use deadheat_trial::sim::fake::Fake;
use deadheat_trial::{Order, TrialOutcome};
#[cfg(test)]
use {
    deadheat_path::PathKind, deadheat_records::placement::Placement,
    deadheat_records::trial::PathFacts, deadheat_trial::Runner,
};

/// Duration of a fake trial.
pub const TRIAL: Nanos = Nanos::from_millis(100);

/// Returns the day of all test races.
pub fn day() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// Returns a trial that yields `figure` for every metric of the workload.
pub fn ran(order: &Order, figure: f64) -> TrialOutcome {
    let task = &order.pairing.task;
    let metrics: Metrics =
        task.info().metrics.iter().map(|metric| (metric.name.clone(), figure)).collect();
    TrialOutcome::Ran(Box::new(deadheat_result::testing::record(metrics)))
}

/// Returns log-normal noise around a level per contender, from a seed.
pub fn noisy(
    seed: u64,
    sd: f64,
    level: impl Fn(&str) -> f64,
) -> impl FnMut(&Order) -> TrialOutcome {
    let mut rng = SplitMix64::new(seed);
    move |order| ran(order, level(&order.contender()) * (sd * rng.normal()).exp())
}

/// Records the name of each event, with details.
#[derive(Default)]
pub struct Diary(pub RefCell<Vec<String>>);

impl Observer for Diary {
    fn on(&mut self, event: RaceEvent<'_>) {
        let line = match event {
            RaceEvent::Pilot { trial, of } => format!("pilot {trial}/{of}"),
            RaceEvent::Settling { why } => format!("settling: {}", why.words()),
            RaceEvent::Expected { takes } => format!("expects {takes}"),
            RaceEvent::Planned { .. } => "planned".into(),
            RaceEvent::TimeIsShort { room, fewest, .. } => format!("room for {room} of {fewest}"),
            RaceEvent::TrialStarted(place) => {
                let copy = if place.control { "'" } else { "" };
                format!("{}: {}{copy}", place.block, place.label)
            }
            RaceEvent::FarEndAway { .. } => "away".into(),
            RaceEvent::FarEndBack { .. } => "back".into(),
            RaceEvent::TrialEnded { .. } | RaceEvent::Waiting { .. } => return,
            RaceEvent::BlockDone { blocks, .. } => format!("block {blocks}"),
            RaceEvent::Explaining { trial, of, label } => format!("explain {trial}/{of}: {label}"),
            RaceEvent::Saved { .. } => "saved".into(),
            RaceEvent::Paused => "paused".into(),
            RaceEvent::Continued { .. } => "continued".into(),
            RaceEvent::Ended { outcome } => format!("{:?}", outcome.status),
        };
        self.0.borrow_mut().push(line);
    }
}

/// Returns a context with a fake runner that advances a virtual clock by [`TRIAL`] with each trial, for `race`.
pub fn staged(
    mut trial: impl FnMut(&Order) -> TrialOutcome,
    race: impl for<'a> FnOnce(RaceContext<'a>) -> Result<Outcome>,
) -> Result<Outcome> {
    let clock = Manual::default();
    let ticking = clock.clone();
    let mut runner = Fake(move |order: &Order| {
        use deadheat_base::time::Clock;
        ticking.advance_to(ticking.now() + TRIAL);
        trial(order)
    });
    let mut observer = crate::race::context::SilentObserver;
    race(RaceContext::new(&mut runner, &mut observer).at(&clock, day()))
}

/// Runs `request` in such a context, after `prepare` has changed it.
pub fn run_staged(
    request: &Request,
    trial: impl FnMut(&Order) -> TrialOutcome,
    prepare: impl for<'a> FnOnce(RaceContext<'a>) -> RaceContext<'a>,
) -> Result<Outcome> {
    staged(trial, |context| request.run_with(prepare(context)))
}

/// Runs a race as [`run_staged`] does, without a file and a stop flag.
pub fn run(request: &Request, trial: impl FnMut(&Order) -> TrialOutcome) -> Result<Outcome> {
    run_staged(request, trial, |context| context)
}

const MS: u64 = 1_000_000;

/// Returns a race of pings every 10 ms for three seconds, whose round trips take 20 ms, and 80 + block ms under a
/// load of 8 Mbit/s from the first second to the second.
pub fn loaded() -> Outcome {
    let request = Request::new(["udp", "tcp"])
        .workload("ping:load=tcp,load-from=1s,load-for=1s,load-lead=100ms")
        .blocks(4)
        .margin(0.05)
        .seed(3);
    let mut n = 0;
    run(&request, |_| {
        n += 1;
        let mut record = deadheat_result::testing::record(Metrics::from([(
            "rtt_p50_during_ns".to_owned(),
            8e7,
        )]));
        record.intervals = vec![pings(n)];
        let point = |at| Point { at_ns: at * MS, received_bytes: at * 1000, ..Point::default() };
        let received: Vec<Point> = (1..=10).map(|k| point(k * 100)).collect();
        let sent = TcpColumns {
            retransmits: (1..=10).map(|k| Some(2 * k)).collect(),
            ..TcpColumns::default()
        };
        let idle: Vec<Point> =
            (1..=10).map(|k| Point { at_ns: k * 100 * MS, ..Point::default() }).collect();
        let sender = Series { tcp: Some(sent), ..Series::new(100 * MS, &idle) };
        record.load_intervals = vec![sender, Series::new(100 * MS, &received)];
        TrialOutcome::Ran(Box::new(record))
    })
    .unwrap()
}

fn pings(n: u64) -> Series {
    let point = |k: u64| {
        let is_loaded = (11..=20).contains(&k);
        let mut rtt = RoundTrips::default();
        (0..10).for_each(|_| rtt.add(if is_loaded { (80 + n % 2) * MS } else { 20 * MS }));
        let lost = k.clamp(10, 20) - 10;
        Point {
            at_ns: k * 100 * MS,
            received_messages: 10 * k - lost,
            lost_messages: Some(lost),
            rtt,
            ..Point::default()
        }
    };
    Series::new(100 * MS, &(1..=30).map(point).collect::<Vec<_>>())
}

/// Fake runner whose trials run over a path of another kind.
#[cfg(test)]
pub(super) struct OnPath<F>(pub(super) Fake<F>, pub(super) PathKind);

#[cfg(test)]
impl<F: FnMut(&Order) -> TrialOutcome> Runner for OnPath<F> {
    fn run(&mut self, order: &Order) -> TrialOutcome {
        self.0.run(order)
    }

    fn placement(&mut self, asked: Option<Placement>, on: Load) -> Result<(Placement, String)> {
        self.0.placement(asked, on)
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        self.0.hosts()
    }

    fn path(&self) -> PathFacts {
        PathFacts { kind: self.1, ..self.0.path() }
    }
}

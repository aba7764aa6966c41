//! The pass in virtual time, on a runner that invents its rows.

use std::collections::BTreeMap;

use super::super::Request;
use super::super::testing::{self, Diary, WORKLOAD, day};
use super::*;
use crate::race::RaceContext;
use deadheat_base::time::Manual;
use deadheat_contract::measurements::Metrics;
use deadheat_host::placement::Load;
use deadheat_records::host::HostFacts;
use deadheat_records::parts::{Clocks, Part};
use deadheat_records::placement::Placement;
use deadheat_records::trial::PathFacts;
use deadheat_result::outcome::Status;
use deadheat_trial::Runner;
use deadheat_trial::explain::{EndNotes, FlowNotes, Row, STAMPED};
use deadheat_trial::sim::fake;

/// Runner that returns a figure for usual orders, and rows for instrumented ones; `think` is the time of the far
/// application.
struct Made<F> {
    think: F,
    noted: Option<Observations>,
    seeds: Vec<u64>,
}

impl<F: FnMut(&Order) -> std::result::Result<u64, TrialOutcome>> Runner for Made<F> {
    fn run(&mut self, order: &Order) -> TrialOutcome {
        let task = &order.pairing.task;
        let names = task.info().metrics.iter().map(|metric| metric.name.clone());
        if order.pass == Pass::Figures {
            return TrialOutcome::Ran(Box::new(deadheat_result::testing::record(
                names.map(|name| (name, 50e3)).collect(),
            )));
        }
        self.seeds.push(order.seed);
        match (self.think)(order) {
            Ok(think) => {
                self.noted = Some(noted(think));
                let metrics: Metrics = names.map(|name| (name, 52e3)).collect();
                TrialOutcome::Ran(Box::new(deadheat_result::testing::record(metrics)))
            }
            Err(end) => end,
        }
    }

    fn placement(&mut self, _: Option<Placement>, _: Load) -> Result<(Placement, String)> {
        Ok((Placement::CrossCore, String::new()))
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        Ok((HostFacts::default(), None))
    }

    fn path(&self) -> PathFacts {
        fake::Fake(|_: &Order| TrialOutcome::Failed(Error::Interrupted)).path()
    }

    fn noted(&mut self) -> Option<Observations> {
        self.noted.take()
    }
}

fn noted(think: u64) -> Observations {
    let near = |number: u64| {
        let at = |after: u64| Some(1_000_000 * (number + 1) + after);
        Row {
            number,
            call: at(0),
            returned: at(400),
            scheduled: at(100),
            left: at(200),
            acknowledged: None,
            arrived: at(800 + think),
            got: at(1_000 + think),
        }
    };
    let far = |number: u64| {
        let at = |after: u64| Some(9_000_000_000 + 1_000_000 * (number + 1) + after);
        Row {
            number,
            arrived: at(300),
            got: at(400),
            call: at(400 + think),
            scheduled: at(500 + think),
            left: at(600 + think),
            ..Row::default()
        }
    };
    let end = |row: &dyn Fn(u64) -> Row| EndNotes {
        flows: vec![FlowNotes {
            rows: (0..100).map(|n| row(STAMPED * n)).collect(),
            ..FlowNotes::default()
        }],
        ..EndNotes::default()
    };
    Observations { near: end(&near), far: Some(end(&far)), ..Observations::default() }
}

fn request() -> Request {
    Request::new(["tcp", "udp"]).workload(WORKLOAD).seed(3).blocks(2).explain()
}

/// Runs `request`; returns its outcome, its events, and the seeds of the pass.
fn run(
    request: &Request,
    think: impl FnMut(&Order) -> std::result::Result<u64, TrialOutcome>,
) -> (Outcome, Vec<String>, Vec<u64>) {
    let (clock, mut diary) = (Manual::default(), Diary::default());
    let mut runner = Made { think, noted: None, seeds: Vec::new() };
    let context = RaceContext::new(&mut runner, &mut diary).at(&clock, day());
    let outcome = request.run_with(context).unwrap();
    (outcome, diary.0.into_inner(), runner.seeds)
}

fn parts(explanation: &Explanation) -> BTreeMap<Part, f64> {
    let trip = explanation.round_trip.as_ref().unwrap();
    trip.parts.iter().map(|time| (time.part, time.ns)).collect()
}

#[test]
fn the_pass_follows_the_race_and_touches_nothing_of_it() {
    let think = |order: &Order| Ok(if order.contender() == "udp" { 5_000 } else { 0 });
    let (outcome, diary, seeds) = run(&request(), think);
    let began = diary.iter().position(|line| line.starts_with("explain")).unwrap();
    assert!(diary[..began].contains(&"block 2".to_owned()), "{diary:?}");
    let pass: Vec<&String> =
        diary[began..].iter().filter(|line| line.starts_with("explain")).collect();
    assert_eq!(pass.len(), 8, "two contenders, a cold trial each and three more: {diary:?}");
    assert!(pass[0].starts_with("explain 1/8: "));
    // Two blocks of two contenders and the control.
    assert_eq!(outcome.trials.len(), 6);
    let mut plain = request();
    plain.asked.explain = false;
    let plain = run(&plain, |_| Ok(0));
    assert_eq!((&plain.0.summary, &plain.0.verdicts), (&outcome.summary, &outcome.verdicts));
    assert_eq!((plain.0.explain, plain.2.len()), (None, 0));
    // The contenders of a round share their seed, and no two rounds do.
    let rounds: std::collections::BTreeSet<u64> = seeds.iter().copied().collect();
    assert_eq!((seeds.len(), rounds.len()), (8, 4));

    let explained = outcome.explain.unwrap();
    let [tcp, udp] = &explained.contenders[..] else { panic!("{explained:?}") };
    assert_eq!((tcp.trials, tcp.headline, tcp.instrumented), (3, Some(50e3), Some(52e3)));
    assert_eq!((tcp.clocks, tcp.missing.len()), (Some(Clocks::Apart), 0));
    let (tcp, udp) = (parts(tcp), parts(udp));
    for (part, ns) in &tcp {
        let more = if *part == Part::FarApplication { 5_000.0 } else { 0.0 };
        assert_eq!(udp[part], ns + more, "{part:?}");
    }
    assert_eq!(tcp.values().sum::<f64>(), 1_000.0);
}

#[test]
fn what_fails_is_missing_and_said() {
    let mut tries = 0;
    let (outcome, _, _) = run(&request(), |order| {
        if order.contender() == "tcp" {
            return Ok(0);
        }
        tries += 1;
        Err(TrialOutcome::Failed(Error::peer("far agent", "gone")))
    });
    assert_eq!(tries, 8, "each trial is tried twice");
    let explained = outcome.explain.unwrap();
    assert!(explained.contenders[0].round_trip.is_some());
    let udp = &explained.contenders[1];
    assert_eq!((udp.trials, &udp.round_trip), (0, &None));
    assert_eq!(udp.missing.len(), 1, "{:?}", udp.missing);
    assert!(udp.missing[0].contains("gone"), "{:?}", udp.missing);
}

#[test]
fn a_pass_that_is_broken_off_leaves_the_race_as_it_was() {
    let (outcome, _, _) = run(&request(), |_| Err(TrialOutcome::Failed(Error::Interrupted)));
    assert_eq!((outcome.status, outcome.explain), (Status::Budget, None));
    assert_eq!(outcome.trials.len(), 6);
}

#[test]
fn a_clock_that_was_set_takes_the_trial_out() {
    let mut explanation = Explanation::default();
    let trial = |step_ns| {
        let mut noted = noted(0);
        noted.near.step_ns = step_ns;
        PassTrial { record: deadheat_result::testing::record(Metrics::new()), noted }
    };
    let trials = [trial(40), trial(-3_600_000_000_000), trial(0)];
    echo::explain(&trials, deadheat_contract::contract::PeerFacts::OURS, &mut explanation);
    assert_eq!(explanation.round_trip.unwrap().messages, 180);
    assert!(explanation.missing[0].contains("set during 1 of 3 trials"));
}

#[test]
fn without_stamps_the_applications_tell_and_the_reason_is_given() {
    let mut explanation = Explanation::default();
    let mut noted = noted(700);
    noted.far.as_mut().unwrap().flows[0].unstamped = Some("no device".into());
    let trials = [PassTrial { record: deadheat_result::testing::record(Metrics::new()), noted }];
    echo::explain(&trials, deadheat_contract::contract::PeerFacts::OURS, &mut explanation);
    let expected = [(Part::FarApplication, 700.0), (Part::BothUnsplit, 1_000.0)];
    assert_eq!(parts(&explanation), BTreeMap::from(expected));
    assert_eq!(explanation.missing, ["No kernel stamps: no device."]);
}

#[test]
fn a_race_that_is_repeated_explains_again() {
    let (outcome, _, _) = run(&request(), |_| Ok(0));
    assert!(outcome.asked.explain);
    assert!(super::super::replay(&outcome).unwrap().asked().explain);
    assert!(!testing::outcome(2).asked.explain);
}

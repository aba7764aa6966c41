//! Simulation of the whole procedure, on hundreds of races in virtual time, to verify its error rates.

use super::context::{RaceContext, SilentObserver};
use super::testing::{self, WORKLOAD, ran, run};
use super::{Request, replay};
use deadheat_base::error::Result;
use deadheat_base::rng::{self, SplitMix64};
use deadheat_base::time::Nanos;
use deadheat_host::placement::Load;
use deadheat_path::{Family, PathSpec};
use deadheat_records::host::HostFacts;
use deadheat_records::placement::Placement;
use deadheat_records::trial::PathFacts;
use deadheat_result::outcome::{Outcome, Verdict};
use deadheat_stats as stats;
use deadheat_trial::sim::Simulation;
use deadheat_trial::{Order, Runner, TrialOutcome};

const RACES: u64 = 300;

fn ask() -> Request {
    Request::new(["udp", "udp", "tcp"]).workload(WORKLOAD).blocks(20)
}

/// Kind of noise: a factor on a trial's figure, from a generator and the trial's number.
type Noise = fn(&mut SplitMix64, f64) -> f64;

const NOISES: [(&str, Noise); 6] = [
    ("normal", |rng, _| (0.1 * rng.normal()).exp()),
    // Student's t with two degrees of freedom: no variance at all.
    ("heavy", |rng, _| {
        let chi = rng.normal().hypot(rng.normal()) / std::f64::consts::SQRT_2;
        (0.05 * rng.normal() / chi.max(1e-3)).exp()
    }),
    ("drifting", |rng, n| (0.01 * n + 0.05 * rng.normal()).exp()),
    ("two regimes", |rng, _| {
        let slow = if rng.unit() < 0.3 { 3.0 } else { 1.0 };
        slow * (0.02 * rng.normal()).exp()
    }),
    ("skewed", skewed),
    ("one in five slow", contaminated),
];

/// Trials with an exponential logarithm, with a mean of 0.6.
fn skewed(rng: &mut SplitMix64, _: f64) -> f64 {
    (-0.6 * (1.0 - rng.unit()).ln()).exp()
}

/// Trials of which a fifth is slowed by an exponential factor.
fn contaminated(rng: &mut SplitMix64, _: f64) -> f64 {
    let slowed = if rng.unit() < 0.2 { -(1.0 - rng.unit()).ln() } else { 0.0 };
    (slowed + 0.03 * rng.normal()).exp()
}

/// The whole procedure on identical contenders, with a margin so small that it has no effect: at most 5 % of races
/// may have an `ahead`, with any noise and any end of the race.
#[test]
fn identical_contenders_are_told_apart_in_at_most_one_race_of_twenty() {
    let (mut early, mut controls) = (0, 0);
    let ask = || ask().margin(1e-4);
    let tie = testing::noisy(0, 0.01, |_| 100.0);
    let planned = run(&ask().seed(0), tie).unwrap();
    for (name, noise) in NOISES {
        let mut wrong = 0;
        for race in 0..RACES {
            let mut rng = SplitMix64::new(1_000 + race);
            let mut trials = 0.0;
            let mut request = ask().seed(race);
            // Every other race has planned 20 blocks and has time for 14, between two looks.
            if race % 2 == 0 {
                request = Request { seed: Some(race), ..replay(&planned).unwrap() };
                request = request.budget(Nanos::from_millis(100 + 14 * 400));
            }
            let outcome = run(&request, |order| {
                trials += 1.0;
                ran(order, 100.0 * noise(&mut rng, trials))
            })
            .unwrap();
            let ahead = |v: &Verdict| v.outcome == stats::Outcome::Ahead;
            wrong += u64::from(outcome.verdicts.iter().any(ahead));
            controls += u64::from(!outcome.trusted());
            early += u64::from(deadheat_result::outcome::blocks_done(&outcome) == 14);
        }
        assert!(wrong * 20 <= RACES, "{name}: {wrong} of {RACES}");
        println!("{name}: {wrong} of {RACES} races with a false `ahead`");
    }
    let races = NOISES.len() as u64 * RACES;
    assert_eq!(early, races / 2);
    assert!(controls * 20 <= races, "{controls} controls");
}

/// Runner of simulated trials with a seed of its own for each, so that identical contenders differ by chance.
struct IndependentTrials {
    simulation: Simulation,
    trials: u64,
}

impl Runner for IndependentTrials {
    fn run(&mut self, order: &Order) -> TrialOutcome {
        self.trials += 1;
        let seed = rng::first(order.seed ^ rng::first(self.trials));
        self.simulation.run(&Order { seed, ..order.clone() })
    }

    fn placement(&mut self, asked: Option<Placement>, load: Load) -> Result<(Placement, String)> {
        self.simulation.placement(asked, load)
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        self.simulation.hosts()
    }

    fn path(&self) -> PathFacts {
        self.simulation.path()
    }
}

/// Returns the verdicts of `blocks` blocks of the program's own simulated trials, each with a seed of its own.
fn by_chance(seed: u64, workload: &str, path: &str, blocks: u64) -> Outcome {
    let typed = format!("sim:{path}");
    let Ok(PathSpec::Simulated(network)) = PathSpec::parse(&typed) else { panic!("{typed}") };
    let simulation = Simulation::new(&typed, network, Family::Any).unwrap();
    let clock = simulation.clock();
    let mut runner = IndependentTrials { simulation, trials: seed << 32 };
    let mut observer = SilentObserver;
    let request = Request::new(["sim-datagram", "sim-datagram"])
        .workload(workload)
        .path(&typed)
        .blocks(blocks)
        .seed(seed);
    request
        .run_with(RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day()))
        .unwrap()
}

/// The program itself, with trials that are either as fast as the path or, if a tenth of their messages is lost, as
/// slow as the timeout.
#[test]
fn identical_contenders_are_not_told_apart_by_trials_of_two_kinds() {
    const LONG: u64 = 8;
    let mut wrong = 0;
    for race in 0..LONG {
        let work = "ping:count=100,warmup=0,interval=10ms,timeout=200ms,claim=p90";
        let outcome = by_chance(race, work, "delay=20ms,loss=5%", 120);
        wrong += u64::from(outcome.verdicts[0].outcome == stats::Outcome::Ahead);
    }
    println!("trials of two kinds: {wrong} of {LONG} races with a false `ahead`");
    assert_eq!(wrong, 0);
}

/// Two equal contenders and a third that is 30 % slower: it is behind both, and they are a tie.
#[test]
fn a_real_difference_is_found_and_a_false_one_beside_it_is_not() {
    let (mut found, mut wrong) = (0, 0);
    for race in 0..RACES {
        let request = ask().margin(0.05).seed(race);
        let level = |spec: &str| if spec == "tcp" { 130.0 } else { 100.0 };
        let outcome = run(&request, testing::noisy(race, 0.1, level)).unwrap();
        let ahead = |a, b| {
            let of = |v: &&Verdict| (v.a, v.b) == (a, b);
            outcome.verdicts.iter().find(of).and_then(|verdict| verdict.ahead)
        };
        found += u64::from(ahead(0, 2) == Some(0) && ahead(1, 2) == Some(1));
        wrong += u64::from(ahead(0, 1).is_some());
    }
    assert!(found * 20 >= RACES * 19, "{found} of {RACES}");
    assert!(wrong * 20 <= RACES, "{wrong} of {RACES}");
}

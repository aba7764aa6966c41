//! Simulation of the whole procedure, on hundreds of races in virtual time, to verify its error rates.

use super::testing::{self, WORKLOAD, ran, run};
use super::{Request, replay};
use crate::result::outcome::Verdict;
use crate::rng::SplitMix64;
use crate::stats;
use crate::time::Nanos;

const RACES: u64 = 300;

fn ask() -> Request {
    Request::new(["udp", "udp", "tcp"]).workload(WORKLOAD).blocks(20)
}

/// Kind of noise: a factor on a trial's figure, from a generator and the trial's number.
type Noise = fn(&mut SplitMix64, f64) -> f64;

const NOISES: [(&str, Noise); 4] = [
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
];

/// The whole procedure on identical contenders, with a margin so small that it protects nobody:
/// at most 5 % of races may have any `ahead`, whatever the noise and however the race ends.
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
            // Every other race has planned 20 blocks and has time for 14, which is between looks.
            if race % 2 == 0 {
                request = Request { seed: Some(race), ..replay(&planned) };
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
            early += u64::from(crate::result::outcome::blocks_done(&outcome) == 14);
        }
        assert!(wrong * 20 <= RACES, "{name}: {wrong} of {RACES}");
        println!("{name}: {wrong} of {RACES} races with a false `ahead`");
    }
    assert_eq!(early, 4 * RACES / 2);
    assert!(controls * 20 <= 4 * RACES, "{controls} controls");
}

/// Two equals and a third that is 30 % slower: it is found behind both, and the equals stay equal.
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

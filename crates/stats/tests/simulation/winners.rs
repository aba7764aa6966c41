//! Who names the wrong winner on a host that drifts, given the same time and the same noise.

use deadheat_stats::rng::SplitMix64;
use deadheat_stats::{Better, Claim, Missing, Outcome, Plan, Slack, Winner, rule};

use crate::races::{LEVEL, MARGIN};
use crate::world::Host;

/// Trials that fit 40 s.
const TRIALS: usize = 300;

/// Trials of a run of 10 s, the usual one of iperf3.
const RUN: usize = 75;

/// What a method says about two contenders of which the first is truly better.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Said {
    Right,
    Wrong,
    Open,
}

/// A method on a host with this seed, and a true difference of logarithms.
type Method = fn(f64, u64) -> Said;

/// Interleaved: A, B and A's copy in each block, until it is decided.
fn interleaved(difference: f64, seed: u64) -> Said {
    let (mut host, mut rng) = (Host::new(seed), SplitMix64::new(seed ^ 1));
    let plan = Plan::new(TRIALS / 3, 1, LEVEL);
    let mut ratios = Vec::new();
    for block in 1..=TRIALS / 3 {
        let mut order = [0, 1, 2];
        rng.shuffle(&mut order);
        let mut figures = [0.0; 3];
        for slot in order {
            figures[slot] = host.trial();
        }
        ratios.push(figures[0] - figures[1] - difference);
        let Some(look) = plan.at(block) else { continue };
        let claim = Claim::on_ratios(&ratios, Slack::default());
        let ruling = rule(&[claim], Better::Lower, MARGIN, look.alpha)[0];
        if ruling.missing == Missing::Nothing || block == TRIALS / 3 {
            return match (ruling.outcome, ruling.winner.or(ruling.direction)) {
                (Outcome::DeadHeat, None) | (Outcome::Undecided, None) => Said::Open,
                (_, Some(Winner::A)) => Said::Right,
                (_, _) => Said::Wrong,
            };
        }
    }
    Said::Open
}

/// All of A, then all of B, and the lower mean wins (hyperfine).
fn one_after_the_other(difference: f64, seed: u64) -> Said {
    lower_mean(difference, seed, TRIALS / 2)
}

/// One run of 10 s each, and the lower mean wins (iperf3).
fn single_runs(difference: f64, seed: u64) -> Said {
    lower_mean(difference, seed, RUN)
}

fn lower_mean(difference: f64, seed: u64, trials: usize) -> Said {
    let mut host = Host::new(seed);
    let mut mean = |shift: f64| (0..trials).map(|_| (host.trial() + shift).exp()).sum::<f64>();
    let (a, b) = (mean(0.0), mean(difference));
    if a < b { Said::Right } else { Said::Wrong }
}

#[test]
fn interleaved_races_rarely_name_the_wrong_winner() {
    const RACES: u64 = 200;
    println!("| true difference | method | right winner | wrong winner | left open |");
    println!("|---|---|---|---|---|");
    for difference in [0.05, 0.1, 0.2] {
        let methods: [(&str, Method); 3] = [
            ("interleaved blocks", interleaved),
            ("all of A, then all of B", one_after_the_other),
            ("one run of 10 s each", single_runs),
        ];
        let mut wrong = Vec::new();
        for (name, method) in methods {
            let said: Vec<Said> =
                (0..RACES).map(|race| method(f64::ln_1p(difference), 100 + race)).collect();
            let share = |what| {
                100.0 * said.iter().filter(|said| **said == what).count() as f64 / RACES as f64
            };
            println!(
                "| {} % | {name} | {} % | {} % | {} % |",
                100.0 * difference,
                share(Said::Right),
                share(Said::Wrong),
                share(Said::Open)
            );
            wrong.push(share(Said::Wrong));
            if name == "interleaved blocks" {
                assert!(share(Said::Right) >= 90.0 || difference < 0.1, "{said:?}");
            }
        }
        assert!(wrong[0] <= 1.0, "{difference}: {wrong:?}");
        assert!(wrong[1] > 5.0 || difference > 0.1, "the host is too calm: {wrong:?}");
    }
}

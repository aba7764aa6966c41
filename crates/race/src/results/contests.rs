//! Tests of `analysis/contests.rs` of deadheat-result, on results of whole races.

use crate::race::{Request, testing};
use deadheat_base::rng::SplitMix64;
use deadheat_contract::measurements::{Metrics, name};
use deadheat_contract::workload::load;
use deadheat_result::analysis::contests::contests;
use deadheat_result::contest::Contest;
use deadheat_result::outcome::Outcome;
use deadheat_stats::Outcome as Ruled;
use deadheat_trial::{Order, TrialOutcome};

/// Rate of the bottleneck in bits per second.
const RATE: f64 = 20e6;

/// Returns a trial in which the work has `share` of the bottleneck, or all of it without a load.
fn shared(order: &Order, share: f64) -> TrialOutcome {
    let own = if order.pairing.load.is_some() { share } else { 1.0 };
    let mut metrics = Metrics::from([(name::GOODPUT.to_owned(), own * RATE)]);
    if own < 1.0 {
        metrics.insert(load::GOODPUT.to_owned(), (1.0 - own) * RATE);
        metrics.insert(load::SHARE.to_owned(), 1.0 - own);
    }
    TrialOutcome::Ran(Box::new(testing::record(metrics)))
}

/// Returns noise that is skewed, with a heavy tail to one side, and stays in one of two states for blocks.
fn unkind(rng: &mut SplitMix64, state: &mut f64) -> f64 {
    if rng.next_u64().is_multiple_of(23) {
        *state = -*state;
    }
    let tail = if rng.next_u64().is_multiple_of(8) { 3.0 } else { 1.0 };
    0.1 * tail * (rng.normal().exp() - 1.6) + 0.1 * *state
}

/// Runs a matrix of two contenders with these shares of the first beside the second, on the logistic scale.
fn matrix(seed: u64, log_odds: f64) -> Outcome {
    let (mut rng, mut state) = (SplitMix64::new(seed), 1.0);
    let request = Request::new(["quic", "kcp"])
        .workload("bulk:time=100ms,warmup=0ms,load-lead=0s")
        .vary("load", ["none", "quic", "kcp"])
        .path("sim:rate=20mbit,delay=1ms")
        .blocks(12)
        .all_blocks()
        .margin(0.25)
        .seed(seed);
    let ran = testing::run(&request, |order| {
        let load = order.pairing.load.as_ref().map(|load| load.contender.spec.to_string());
        let of = match (order.contender().as_str(), load.as_deref()) {
            ("quic", Some("kcp")) => log_odds,
            ("kcp", Some("quic")) => -log_odds,
            _ => 0.0,
        };
        let odds = (of + unkind(&mut rng, &mut state)).exp();
        shared(order, odds / (1.0 + odds))
    });
    ran.unwrap()
}

fn of<'a>(outcome: &'a Outcome, label: &str) -> &'a Contest {
    let id = outcome.contenders.iter().find(|one| one.label == label).unwrap().id;
    outcome.contests.iter().find(|contest| contest.contender == id).unwrap()
}

#[test]
fn a_pair_of_a_matrix_has_one_verdict_and_each_of_both_its_harm() {
    let outcome = matrix(5, 2.0_f64.ln());
    let [verdict] = outcome.verdicts.as_slice() else { panic!("{:?}", outcome.verdicts) };
    assert_eq!((verdict.outcome, outcome.plan.claims), (Ruled::Ahead, 1), "{}", verdict.note);
    assert_eq!(outcome.contenders[verdict.ahead.unwrap()].label, "quic · load=kcp");
    assert_eq!(outcome.contests.len(), 4);
    let kcp = of(&outcome, "kcp · load=quic");
    assert_eq!((kcp.load.as_str(), kcp.outcome, kcp.fair_share), ("quic", None, Some(0.5)));
    let (share, harm) = (kcp.share.unwrap(), &kcp.harms[0]);
    assert!((share.point - 1.0 / 3.0).abs() < 0.05, "{share:?}");
    // Alone it has all.
    assert!((harm.portion.point + share.point - 1.0).abs() < 0.02, "{harm:?}");
    assert!(harm.portion.low < Some(harm.portion.point) && harm.portion.high < Some(0.9));
    let itself = of(&outcome, "quic · load=quic");
    assert!(itself.outcome.is_some(), "beside itself a share is ruled on");
    assert_eq!(contests(&outcome), outcome.contests, "a saved race gives the same again");
}

/// Of 60 matrices of contenders that are the same, with noise that is skewed and stays in a state for blocks: the pair is
/// not fair in at most one of twenty, with what chance allows beyond.
#[test]
fn the_same_beside_the_same_is_seldom_unfair() {
    let wrong = (0..60).filter(|seed| {
        let outcome = matrix(1_000 + seed, 0.0);
        outcome.verdicts[0].outcome == Ruled::Ahead
    });
    let wrong = wrong.count();
    assert!(wrong <= 6, "{wrong} of 60");
}

/// Runs a race of one contender with two flows beside six of another, in which the work has `share`.
fn crowd(share: f64, blocks: u64) -> Outcome {
    let mut rng = SplitMix64::new(3);
    let request = Request::new(["quic"])
        .workload("bulk:time=100ms,warmup=0ms,streams=2,load=kcp,load-flows=6,load-lead=0s")
        .path("sim:rate=20mbit,delay=1ms")
        .blocks(blocks)
        .all_blocks()
        .margin(0.1)
        .seed(3);
    testing::run(&request, |order| shared(order, share * (1.0 + 0.01 * rng.normal()))).unwrap()
}

#[test]
fn a_fair_share_counts_the_flows_of_both() {
    let fair = crowd(0.25, 12);
    let [contest] = fair.contests.as_slice() else { panic!("{:?}", fair.contests) };
    assert_eq!((contest.outcome, contest.fair_share), (Some(Ruled::DeadHeat), Some(0.25)));
    assert!(contest.harms.is_empty(), "nothing ran alone");
    let greedy = crowd(0.5, 12);
    assert_eq!(greedy.contests[0].outcome, Some(Ruled::Ahead));
    let few = crowd(0.25, 2);
    let share = few.contests[0].share.unwrap();
    assert_eq!((few.contests[0].outcome, share.low), (Some(Ruled::Undecided), None));
    // A side that got nothing has the least share, and is not left out.
    let none = crowd(0.0, 12);
    assert_eq!(none.contests[0].outcome, Some(Ruled::Ahead), "{:?}", none.contests);
}

#[test]
fn harm_to_times_is_a_part_of_the_time_beside_the_load() {
    let request = Request::new(["udp"])
        .workload("ping:count=100")
        .vary("load", ["none", "tcp"])
        .blocks(8)
        .all_blocks()
        .seed(3);
    let outcome = testing::run(&request, |order| {
        testing::ran(order, if order.pairing.load.is_some() { 80.0 } else { 20.0 })
    });
    let contests = outcome.unwrap().contests;
    let [contest] = contests.as_slice() else { panic!("{contests:?}") };
    assert_eq!((contest.share, contest.outcome), (None, None));
    let harm = &contest.harms[0];
    assert_eq!((harm.metric.as_str(), harm.portion.point), ("rtt_p50_ns", 0.75));
}

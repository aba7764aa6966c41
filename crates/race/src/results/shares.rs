//! Tests of `analysis/shares.rs` of deadheat-result, on results of whole races.

use crate::race::Request;
use crate::race::testing::{self, WORKLOAD, ran};
use deadheat_base::rng::SplitMix64;
use deadheat_records::placement::Placement;
use deadheat_result::analysis::shares::*;
use deadheat_result::outcome::{Outcome, Trial, VarianceShare};

/// Returns round trips that depend on the placement (4 times), the size (1.5 times) and hardly on the
/// transport (2 %).
fn race(contenders: &[&str], blocks: u64) -> Outcome {
    let request = Request::new(contenders.iter().copied())
        .workload(WORKLOAD)
        .vary("placement", ["busy", "same-core"])
        .vary("size", ["64", "1kB"])
        .blocks(blocks)
        .margin(0.05)
        .seed(5);
    let mut rng = SplitMix64::new(9);
    testing::run(&request, |order| {
        let placement = if order.placement == Placement::SameCore { 4.0 } else { 1.0 };
        let size = if order.workload().contains("1kB") { 1.5 } else { 1.0 };
        let transport = if order.contender() == "udp" { 1.02 } else { 1.0 };
        ran(order, 1_000.0 * placement * size * transport * (0.01 * rng.normal()).exp())
    })
    .unwrap()
}

fn of_first<'a>(outcome: &Outcome, shares: &'a [VarianceShare]) -> Vec<&'a VarianceShare> {
    shares.iter().filter(|share| share.metric == outcome.metrics[0].name).collect()
}

#[test]
fn the_right_factor_has_the_right_share_and_its_levels_the_right_size() {
    let outcome = race(&["tcp", "udp"], 12);
    let found = of_first(&outcome, &outcome.shares);
    let names: Vec<&str> = found.iter().map(|share| share.factor.as_str()).collect();
    assert_eq!(names, ["placement", "size", "transport", "interactions", "blocks", "noise"]);
    // Variances of the logarithms: half the distance of two levels, squared.
    let variance = |ratio: f64| (ratio.ln() / 2.0).powi(2);
    let total = variance(4.0) + variance(1.5) + variance(1.02) + 1e-4;
    for (share, ratio) in found.iter().zip([4.0, 1.5, 1.02]) {
        let want = variance(ratio) / total;
        assert!((share.share - want).abs() < 0.005, "{share:?} and not {want}");
        assert!(share.low.unwrap() <= share.share && share.share <= share.high.unwrap());
        let [level] = share.levels.as_slice() else { panic!("{share:?}") };
        assert!((level.ratio / ratio - 1.0).abs() < 0.01, "{level:?}");
        assert!(level.low.unwrap() < ratio && ratio < level.high.unwrap(), "{level:?}");
    }
    let level = &found[0].levels[0];
    assert_eq!((level.against.as_str(), level.level.as_str()), ("busy", "same-core"));
    let sum: f64 = found.iter().map(|share| share.share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert_eq!(outcome.shares, shares(&outcome), "a saved race gives the same again");
}

#[test]
fn one_contender_is_no_factor_and_three_of_two_transports_are_contenders() {
    let alone = race(&["tcp"], 6);
    let names: Vec<&str> =
        of_first(&alone, &alone.shares).iter().map(|share| share.factor.as_str()).collect();
    assert_eq!(names, ["placement", "size", "interactions", "blocks", "noise"]);
    let three = race(&["udp", "tcp", "udp"], 3);
    let found = of_first(&three, &three.shares);
    assert_eq!((found[2].factor.as_str(), found[2].low), ("contender", None));
    let levels: Vec<&str> = found[2].levels.iter().map(|l| l.level.as_str()).collect();
    assert_eq!(levels, ["tcp", "udp #2"]);
}

#[test]
fn what_has_no_logarithm_is_counted_and_too_much_of_it_leaves_no_shares() {
    let mut outcome = race(&["tcp", "udp"], 6);
    let name = outcome.metrics[0].name.clone();
    let own = |trial: &&mut Trial| !trial.control && trial.contender > 0;
    let zero = |trial: &mut Trial| {
        trial.record.metrics.insert(name.clone(), 0.0);
    };
    outcome.trials.iter_mut().filter(own).take(1).for_each(zero);
    let found = shares(&outcome);
    assert_eq!(of_first(&outcome, &found)[0].left_out, 1);
    outcome.trials.iter_mut().filter(own).take(9).for_each(zero);
    assert!(of_first(&outcome, &shares(&outcome)).is_empty());
    let only = |trial: &mut Trial| trial.contender < 4;
    let mut outcome = race(&["tcp", "udp"], 6);
    outcome.trials.retain_mut(only);
    let found = shares(&outcome);
    assert_eq!(of_first(&outcome, &found)[0].factor, "size", "one placement is none");
    outcome.factors.clear();
    assert!(shares(&outcome).is_empty());
}

//! Tests of `analysis/sweep.rs` of deadheat-result, on results of whole races.

use crate::race::{Request, testing};
use deadheat_base::rng::SplitMix64;
use deadheat_base::spec::Spec;
use deadheat_base::units::parse_offered;
use deadheat_contract::measurements::{Metrics, name};
use deadheat_result::analysis::sweep::*;
use deadheat_result::outcome::{KneeAt, KneePlace, Outcome};
use deadheat_trial::TrialOutcome;

/// Returns a bottleneck of 5 Mbit/s for `udp`, of 20 for `tcp`, under loads from 1 to 16.
fn race(blocks: u64) -> Outcome {
    let request = Request::new(["udp", "tcp"])
        .workload("cbr:time=100ms")
        .vary("rate", ["1mbit", "2mbit", "4mbit", "8mbit", "16mbit"])
        .vary("size", ["1000", "1400"])
        .blocks(blocks)
        .margin(0.05)
        .seed(3);
    let mut rng = SplitMix64::new(4);
    testing::run(&request, |order| {
        let typed = Spec::parse(&order.workload()).unwrap();
        let rate = typed.options.iter().find(|(key, _)| key == "rate").unwrap();
        let deadheat_base::units::OfferedRate::Bits(rate) = parse_offered(&rate.1).unwrap() else {
            panic!("{}", order.workload())
        };
        let offered = rate.0 as f64;
        let capacity = if order.contender() == "udp" { 5e6 } else { 20e6 };
        let delivered = offered.min(capacity * (1.0 + 0.01 * rng.normal()));
        let figures = [(name::OFFERED, offered), (name::GOODPUT, delivered)];
        let metrics: Metrics = figures.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        TrialOutcome::Ran(Box::new(testing::record(metrics)))
    })
    .unwrap()
}

#[test]
fn each_contender_has_its_knee_under_each_other_condition() {
    let outcome = race(8);
    let found = &outcome.sweeps;
    assert_eq!(found.len(), 4);
    for sweep in &found[..2] {
        assert_eq!((sweep.contender, sweep.knee.place), (0, KneePlace::At), "{sweep:?}");
        assert!((sweep.knee.bps / 5e6 - 1.0).abs() < 0.02, "{sweep:?}");
        let (low, high) = (sweep.low.unwrap().bps, sweep.high.unwrap().bps);
        assert!(low <= sweep.knee.bps && sweep.knee.bps <= high, "{sweep:?}");
    }
    let sizes: Vec<&str> = found.iter().map(|s| s.conditions["size"].as_str()).collect();
    assert_eq!(sizes, ["1000", "1400", "1000", "1400"]);
    let above = KneeAt { place: KneePlace::Above, bps: 16e6 };
    assert!(found[2..].iter().all(|sweep| sweep.contender == 1 && sweep.knee == above));
}

#[test]
fn few_blocks_have_no_interval_and_other_races_no_knee() {
    let mut outcome = race(3);
    assert_eq!((outcome.sweeps[0].low, outcome.sweeps[0].blocks), (None, 3));
    outcome.factors[0].name = "size".into();
    assert!(sweeps(&outcome).is_empty());
}

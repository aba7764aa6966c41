//! Tests of `analysis/theory.rs` of deadheat-result, on results of whole races.

use crate::race::{Request, testing};
use deadheat_contract::measurements::Metrics;
use deadheat_result::analysis::theory::*;
use deadheat_result::outcome::Outcome;
use deadheat_trial::TrialOutcome;

/// Returns a race of states over a path that loses 1 %, in which the mean age is `age` ms and a little more or less.
fn race(path: &str, age: f64) -> Outcome {
    let request = Request::new(["sim-datagram", "arq"])
        .workload("state")
        .path(path)
        .vary("hz", ["20", "60"])
        .blocks(8)
        .margin(0.05)
        .seed(3);
    let mut n = 0;
    testing::run(&request, |_| {
        n += 1;
        let age = (age + 0.1 * f64::from(n % 3)) * 1e6;
        let metrics = [("age_mean_ns".to_owned(), age), ("loss_share".to_owned(), 0.01)];
        TrialOutcome::Ran(Box::new(testing::record(Metrics::from(metrics))))
    })
    .unwrap()
}

#[test]
fn measurement_parts_from_theory_beyond_tolerance_and_scatter_only() {
    // 25 ms, and 1.01 / 1.98 of 16.7 ms.
    let parts = |age: f64| {
        let outcome = race("sim:delay=25ms,loss=1%", age);
        let all = beside(&outcome);
        let is_own = |one: &&PredictedFigure| {
            let entrant = &outcome.contenders[one.contender];
            let cell = entrant.cell.as_ref().unwrap();
            one.prediction.metric == "age_mean_ns" && (cell.contender, cell.levels[0]) == (0, 1)
        };
        let own: Vec<&PredictedFigure> = all.iter().filter(is_own).collect();
        assert_eq!(own.len(), 1);
        assert!((own[0].prediction.value / 33.5e6 - 1.0).abs() < 1e-3, "{own:?}");
        own[0].differs()
    };
    assert_eq!([parts(33.5), parts(36.0), parts(30.0)], [false, true, true]);
}

#[test]
fn each_level_has_its_prediction() {
    let outcome = race("sim:delay=25ms,loss=1%", 33.0);
    let lines = by_level(&outcome, "age_mean_ns", 0);
    assert_eq!(lines.len(), 2);
    let at = |line: usize, level: usize| lines[line].by_level[level].unwrap() / 1e6;
    assert!((at(0, 0) - 50.5).abs() < 0.01 && (at(0, 1) - 33.5).abs() < 0.01);
    // With retransmission, in order: 25 ms, half a period, and 1 % of the messages queued behind a loss.
    assert!((at(1, 1) - (25.0 + 8.333 + 0.01 * 100.0 * 100.0 / 33.333)).abs() < 0.01);
}

#[test]
fn paths_of_which_no_form_knows_have_none() {
    for path in ["sim:delay=25ms,loss=1%,burst=4", "sim:delay=25ms,jitter=2ms,loss=1%"] {
        assert!(beside(&race(path, 33.0)).is_empty(), "{path}");
    }
}

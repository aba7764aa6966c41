//! Two saved races compared.

use crate::common;
use deadheat::analysis::compare::{Change, Comparison, Row, compare};
use deadheat::measurements::{Better, Role};
use deadheat::result::outcome::Outcome;

const METRIC: &str = "rtt_p50_ns";

/// The full race with udp's claimed figure changed, trial by trial.
fn with_udp(change: impl Fn(f64, u64) -> f64) -> Outcome {
    let mut outcome = common::full();
    for trial in outcome.trials.iter_mut().filter(|trial| trial.contender == common::UDP) {
        let block = trial.block;
        let metrics = &mut trial.record.metrics;
        metrics.entry(METRIC.into()).and_modify(|ns| *ns = change(*ns, block));
    }
    outcome
}

fn udp(comparison: &Comparison) -> &Row {
    let is_udp = |row: &&Row| row.contender == "udp" && row.metric.name == METRIC;
    comparison.rows.iter().find(is_udp).unwrap()
}

#[test]
fn a_race_is_the_same_as_itself() {
    let race = common::full();
    let comparison = compare(&race, &race);
    assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    assert!(comparison.only_old.is_empty() && comparison.only_new.is_empty());
    let row = udp(&comparison);
    assert_eq!(row.change, Some(Change::Same));
    assert_eq!(row.ratio.unwrap().point, 1.0);
    // Four claims: two one-sided tests at 5 % / 4 each.
    assert!((row.confidence - 0.975).abs() < 1e-12);
    assert_eq!(row.trials, [8, 8]);
}

#[test]
fn which_way_is_worse_depends_on_the_metric() {
    for (factor, better, expected) in [
        (1.2, Better::Lower, Change::ChangedWorse),
        (0.8, Better::Lower, Change::ChangedBetter),
        (1.2, Better::Higher, Change::ChangedBetter),
        (0.8, Better::Higher, Change::ChangedWorse),
        (1.03, Better::Lower, Change::Same),
    ] {
        let mut new = with_udp(|ns, _| ns * factor);
        new.metrics[0].better = better;
        let comparison = compare(&common::full(), &new);
        let row = udp(&comparison);
        assert_eq!(row.change, Some(expected), "{factor}");
        assert!((row.ratio.unwrap().point / factor - 1.0).abs() < 0.01);
        assert_eq!(comparison.is_worse(), expected == Change::ChangedWorse);
    }
}

#[test]
fn noise_is_undecided_and_not_the_same() {
    let new = with_udp(|ns, block| ns * if block.is_multiple_of(2) { 0.8 } else { 1.25 });
    assert_eq!(udp(&compare(&common::full(), &new)).change, Some(Change::Undecided));
}

#[test]
fn the_larger_margin_counts() {
    let mut new = with_udp(|ns, _| ns * 1.2);
    new.plan.margin = 0.3;
    let comparison = compare(&common::full(), &new);
    assert_eq!(udp(&comparison).change, Some(Change::Same));
    assert_eq!(udp(&comparison).margin, 0.3);
}

#[test]
fn what_has_no_ratio_is_undecided() {
    let zeros = with_udp(|_, _| 0.0);
    let row = udp(&compare(&common::full(), &zeros)).clone();
    assert_eq!((row.change, row.ratio), (Some(Change::Undecided), None));
    let mut few = common::full();
    few.trials.retain(|trial| trial.block < 3);
    let row = udp(&compare(&few, &few)).clone();
    assert_eq!((row.change, row.ratio), (Some(Change::Undecided), None));
}

#[test]
fn two_figures_at_the_timeout_are_not_the_same() {
    let mut race = with_udp(|_, _| 3e9);
    for trial in race.trials.iter_mut().filter(|trial| trial.contender == common::UDP) {
        trial.record.censored.push(METRIC.into());
    }
    let row = udp(&compare(&race, &race)).clone();
    assert!(row.censored);
    assert_eq!(row.change, Some(Change::Undecided));
}

#[test]
fn excluded_trials_and_the_control_do_not_count() {
    let mut new = common::full();
    for trial in &mut new.trials {
        if trial.control || !trial.record.valid {
            trial.record.metrics.insert(METRIC.into(), 1.0);
        }
    }
    let comparison = compare(&common::full(), &new);
    let is_tcp = |row: &&Row| row.contender == "tcp" && row.metric.name == METRIC;
    let row = comparison.rows.iter().find(is_tcp).unwrap();
    assert_eq!((row.change, row.trials), (Some(Change::Same), [8, 8]));
}

#[test]
fn no_claim_is_made_about_descriptive_metrics() {
    let comparison = compare(&common::full(), &common::full());
    let mut rows = comparison.rows.iter();
    assert!(rows.all(|row| row.change.is_some() == (row.metric.role == Role::Claim)));
    assert!(!comparison.rows.iter().any(|row| row.contender == "icmp"), "it never ran");
}

#[test]
fn whatever_else_differs_is_said() {
    let mut new = common::full();
    new.asked.workload = "ping:size=1400".into();
    new.path.spec = "loopback".into();
    new.plan.placement = "busy".into();
    new.plan.quantile_definition = "linear".into();
    new.deadheat.version = "0.2.0".into();
    new.host.kernel = "Linux 6.19.1".into();
    new.host.sysctls.insert("net.core.rmem_max".into(), "4194304".into());
    new.peer_host = None;
    new.contenders[common::TCP].implementation = "tcp/linux-6.19/cubic".into();
    new.contenders[common::UDP].spec = "udp:io=gso".into();
    new.control.as_mut().unwrap().trusted = false;
    let warnings = compare(&common::full(), &new).warnings;
    for code in [
        "workload_differs",
        "path_differs",
        "placement_differs",
        "quantiles_differ",
        "version_differs",
        "host_differs",
        "far_host_differs",
        "implementation_differs",
        "contender_differs",
        "race_not_trusted",
    ] {
        assert!(warnings.iter().any(|warning| warning.code == code), "{code}");
    }
    let sysctl = warnings.iter().find(|warning| warning.message.contains("net.core.rmem_max"));
    assert_eq!(
        sysctl.unwrap().message,
        "The sysctl net.core.rmem_max differs: 212992 before, 4194304 now."
    );
}

//! Two saved races compared.

use crate::common;
use deadheat::analysis::compare::{
    Change, Comparison, ComparisonRow, GATE_RUNS, RatioBasis, check, compare as compare_runs,
};
use deadheat::measurements::{Better, Role};
use deadheat::result::analysis::gate::Judgement;
use deadheat::result::outcome::Outcome;
use deadheat::stats::runs::Promise;

const METRIC: &str = "rtt_p50_ns";

/// Two races alone.
fn compare(old: &Outcome, new: &Outcome) -> Comparison {
    compare_runs(&[old], &[new], Promise::Once)
}

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

fn udp(comparison: &Comparison) -> &ComparisonRow {
    let is_udp = |row: &&ComparisonRow| row.contender == "udp" && row.metric.name == METRIC;
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
    assert_eq!((row.basis, row.runs, row.between_runs), (RatioBasis::TwoRuns, [1, 1], None));
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
fn a_change_that_the_clocks_of_two_hosts_may_be_is_none() {
    let on_clocks = |mut race: Outcome| {
        for summary in &mut race.summary {
            // A tenth of each figure may be the clocks'.
            summary.clock_bound_ns = Some((summary.estimate / 10.0) as u64);
        }
        race
    };
    for (factor, expected) in
        [(1.0, Change::Undecided), (1.2, Change::Undecided), (1.5, Change::ChangedWorse)]
    {
        let new = on_clocks(with_udp(|ns, _| ns * factor));
        let comparison = compare(&on_clocks(common::full()), &new);
        assert_eq!(udp(&comparison).change, Some(expected), "{factor}");
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
    let is_tcp = |row: &&ComparisonRow| row.contender == "tcp" && row.metric.name == METRIC;
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

/// Runs of the full race in which the figures of all contenders differ by these factors.
fn runs(factors: &[f64]) -> Vec<Outcome> {
    let run = |(at, factor): (usize, &f64)| {
        let mut race = common::full();
        race.started = format!("2026-03-{:02}T04:00:00Z", at + 1);
        for trial in &mut race.trials {
            trial.record.metrics.entry(METRIC.into()).and_modify(|ns| *ns *= factor);
        }
        for summary in race.summary.iter_mut().filter(|summary| summary.metric == METRIC) {
            summary.estimate *= factor;
        }
        race
    };
    factors.iter().enumerate().map(run).collect()
}

fn refer(races: &[Outcome]) -> Vec<&Outcome> {
    races.iter().collect()
}

#[test]
fn several_runs_tell_how_much_runs_differ() {
    let old = runs(&[1.0, 1.03, 0.98, 1.01, 0.97, 1.02, 0.99, 1.0]);
    let new = [with_udp(|ns, _| ns * 1.04)];
    let comparison = compare_runs(&refer(&old), &refer(&new), Promise::Once);
    let row = udp(&comparison);
    // Between two runs alone 4 % would be a change beyond the noise of trials.
    assert_eq!(
        (row.basis, row.runs, row.change),
        (RatioBasis::Runs, [8, 1], Some(Change::Undecided))
    );
    let between = row.between_runs.unwrap();
    assert!((0.015..0.025).contains(&between), "{between}");
    let found = row.found.unwrap();
    assert!((0.05..0.12).contains(&found), "{found}");
    let doubled = [with_udp(|ns, _| ns * 2.0)];
    let comparison = compare_runs(&refer(&old), &refer(&doubled), Promise::Once);
    assert_eq!(udp(&comparison).change, Some(Change::ChangedWorse));
    assert!(comparison.is_worse());
    let several = runs(&[1.5, 1.53, 1.48]);
    let comparison = compare_runs(&refer(&old[..3]), &refer(&several), Promise::Once);
    assert_eq!(
        (udp(&comparison).runs, udp(&comparison).change),
        ([3, 3], Some(Change::ChangedWorse))
    );
    let same = runs(&[1.0, 1.002, 0.999, 1.001, 0.998, 1.0]);
    let comparison = compare_runs(&refer(&same), &[&same[0]], Promise::Once);
    assert_eq!(udp(&comparison).change, Some(Change::Same));
}

#[test]
fn a_gate_is_wider_than_one_look_and_says_what_more_runs_would_find() {
    let old = runs(&[1.0, 1.03, 0.98]);
    let new = [with_udp(|ns, _| ns)];
    let once = compare_runs(&refer(&old), &refer(&new), Promise::Once);
    let gate = Judgement::of(&refer(&old), &refer(&new)).comparison;
    assert_eq!((once.looks, gate.looks), (1, GATE_RUNS));
    let [found, wider] = [&once, &gate].map(|comparison| udp(comparison).found.unwrap());
    assert!(wider > 2.0 * found, "{found} {wider}");
    let more = udp(&gate).with_more.unwrap();
    assert!(more.runs > 3 && more.found < 0.75 * wider, "{more:?} {wider}");
    assert!((gate.error - 0.05).abs() < 1e-9);
}

#[test]
fn runs_of_one_hour_do_not_know_what_days_differ_by() {
    let mut old = runs(&[1.0, 1.01, 0.99]);
    let mut new = runs(&[1.0]);
    let short = |old: &[Outcome], new: &[Outcome]| {
        let warnings = compare_runs(&refer(old), &refer(new), Promise::Once).warnings;
        warnings.into_iter().find(|warning| warning.code == "baseline_short")
    };
    // One a night, and the new one the night after.
    new[0].started = "2026-03-04T04:00:00Z".into();
    assert_eq!(short(&old, &new), None);
    for (at, race) in old.iter_mut().enumerate() {
        race.started = format!("2026-03-01T04:{at}0:00Z");
    }
    assert_eq!(
        short(&old, &new).unwrap().message,
        "The 3 old runs were made within 20 minutes, and the new one 2 days later: what differs from day to day is not known."
    );
    new[0].started = "2026-03-01T06:00:00Z".into();
    assert_eq!(short(&old, &new), None);
}

#[test]
fn runs_of_one_side_have_to_be_of_the_same_thing() {
    let old = runs(&[1.0, 1.01, 0.99]);
    let new = runs(&[1.0]);
    assert!(check(&refer(&old), &refer(&new)).is_ok());
    assert!(check(&[], &refer(&new)).is_err());
    type Edit<'a> = &'a dyn Fn(&mut Outcome);
    let changes: [(Edit<'_>, &str); 4] = [
        (&|race| race.asked.workload = "ping:size=1400".into(), "workload"),
        (&|race| race.path.spec = "gamma.example:5210".into(), "path"),
        (&|race| race.path.address = "[2001:db8::1]:5210".into(), "IP version: 4, and 6"),
        (
            &|race| {
                race.contenders[common::TCP].asked.insert("near".into(), "kcptun -r other".into());
            },
            "near of tcp",
        ),
    ];
    for (change, wanted) in changes {
        let mut old = old.clone();
        old[0].path.address = "192.0.2.7:5210".into();
        old[1].path.address = "192.0.2.8:5210".into();
        old[2].path.address = "192.0.2.7:5210".into();
        for race in &mut old {
            race.contenders[common::TCP].asked.insert("near".into(), "kcptun -r first".into());
        }
        assert!(check(&refer(&old), &refer(&new)).is_ok());
        change(&mut old[1]);
        let said = check(&refer(&old), &refer(&new)).unwrap_err().to_string();
        assert!(said.contains("no runs of the same thing") && said.contains(wanted), "{said}");
    }
}

#[test]
fn another_ip_version_or_command_is_said_before_anything_else() {
    let [mut old, mut new] = [common::full(), common::full()];
    old.path.address = "192.0.2.7:5210".into();
    new.path.address = "[2001:db8::7]:5210".into();
    for (race, command) in [(&mut old, "kcptun -l a"), (&mut new, "kcptun -l b")] {
        race.contenders[common::TCP].asked.insert("near".into(), command.into());
    }
    let comparison = compare(&old, &new);
    let text = deadheat::report::compare::render(&comparison, "markdown", &Default::default());
    let text = text.unwrap();
    let answer = text.split("### ").next().unwrap();
    for said in [
        "No runs of the same thing: The IP version differs: IPv4 before, IPv6 now",
        "The setting near of tcp differs: kcptun -l a before, kcptun -l b now",
        "Two runs of the same race differ, too; how much is not known here",
    ] {
        assert!(answer.contains(said), "{said}: {answer}");
    }
    let json = deadheat::report::compare::render(&comparison, "json", &Default::default()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["basis"], "two_runs");
    assert!(deadheat::report::compare::render(&comparison, "html", &Default::default()).is_err());
}

//! Tests of `analysis/course.rs` of deadheat-result, on results of whole races.

use crate::race::testing::loaded as race;
use deadheat_result::analysis::course::*;

const MS: u64 = 1_000_000;

#[test]
fn each_stretch_has_the_median_of_its_trials() {
    let outcome = race();
    let all = courses(&outcome);
    assert_eq!(all.len(), 1);
    let Courses { stint, step_ns, quantity, label, lines } = &all[0];
    assert_eq!(*label, "RTT");
    assert_eq!((stint.from.0, stint.end().0), (1000 * MS, 2000 * MS));
    assert_eq!((*step_ns, *quantity, lines.len()), (100 * MS, Quantity::RoundTrip, 2));
    let line = &lines[0];
    assert_eq!(line.work.len(), 30);
    let middle = |bands: &Bands, at: usize| bands[at].map(|band| band.middle);
    assert_eq!(middle(&line.work, 3), Some(2e7));
    let loaded = line.work[14].unwrap();
    assert!((8e7..=8.1e7).contains(&loaded.middle) && loaded.low <= loaded.high, "{loaded:?}");
    assert_eq!((middle(&line.lost, 3), middle(&line.lost, 14)), (Some(0.0), Some(0.1)));
}

#[test]
fn the_load_is_told_in_the_time_of_the_work() {
    let line = &courses(&race())[0].lines[1];
    let middle = |bands: &Bands, at: usize| bands[at].map(|band| band.middle);
    assert_eq!(middle(&line.load, 9), None);
    assert_eq!(middle(&line.load, 10), Some(8e6));
    assert_eq!((middle(&line.load, 19), middle(&line.load, 20)), (Some(8e6), None));
    assert_eq!((middle(&line.again, 9), middle(&line.again, 12)), (None, Some(20.0)));
}

#[test]
fn work_without_phases_and_trials_without_series_have_no_course() {
    let mut outcome = race();
    outcome.asked.workload = "ping:load=tcp".into();
    assert!(courses(&outcome).is_empty());
    let mut outcome = race();
    outcome.trials.iter_mut().for_each(|trial| trial.record.intervals.clear());
    assert!(courses(&outcome).is_empty());
}

//! Results of races at points of a map.

use deadheat_result::map::point::*;
use deadheat_result::outcome::*;

use crate::race::{Request, testing};

fn race() -> Outcome {
    let request = Request::new(["tcp", "udp"]).blocks(12).margin(0.05).seed(1);
    let level = |name: &str| if name == "udp" { 80.0 } else { 100.0 };
    testing::run(&request, testing::noisy(1, 0.001, level)).unwrap()
}

#[test]
fn ids_of_a_race_become_those_of_the_map() {
    let out = vec![FailedContender { contender: 1, why: "it failed".into() }];
    let point = MapPoint::of(vec!["1ms".into()], &[0, 2], out, &race());
    assert_eq!((point.outcome, point.leaders.as_slice()), (PointAnswer::Ahead, &[2][..]));
    assert_eq!((point.verdicts[0].a, point.verdicts[0].b), (0, 2));
    assert_eq!(point.closest().unwrap().ahead, Some(2));
    let summed: Vec<usize> = point.summary.iter().map(|summary| summary.contender).collect();
    assert_eq!(summed, [0, 2]);
    assert_eq!(point.out[0].contender, 1);
    assert!(point.blocks > 0 && point.workload.unwrap().starts_with("ping:"));
}

#[test]
fn a_race_that_is_not_trusted_says_nothing() {
    let mut race = race();
    let control: &mut Control = race.control.as_mut().unwrap();
    (control.trusted, control.note) = (false, "copies differ".into());
    let point = MapPoint::of(vec![], &[0, 1], vec![], &race);
    assert_eq!((point.outcome, point.leaders.len()), (PointAnswer::Undecided, 0));
    assert!(!point.trusted);
    assert_eq!(point.why.unwrap(), "not trusted: copies differ");
}

#[test]
fn a_map_of_one_contender_has_its_figures() {
    let request = Request::new(["tcp"]).blocks(8).seed(1);
    let mut race = testing::run(&request, testing::noisy(1, 0.01, |_| 100.0)).unwrap();
    let point = MapPoint::of(vec!["1ms".into()], &[0], vec![], &race);
    assert_eq!((point.outcome, point.leaders.as_slice()), (PointAnswer::Figure, &[0][..]));
    assert!(point.summary[0].low.is_some() && point.verdicts.is_empty());
    let control: &mut Control = race.control.as_mut().unwrap();
    (control.trusted, control.note) = (false, "copies differ".into());
    let point = MapPoint::of(vec!["1ms".into()], &[0], vec![], &race);
    assert_eq!((point.outcome, point.trusted), (PointAnswer::Figure, false));
    assert_eq!(point.why.unwrap(), "not trusted: copies differ");
}

#[test]
fn a_contender_without_figures_is_out_with_the_reason() {
    let mut race = race();
    race.summary.retain(|summary| summary.contender == 0);
    for trial in race.trials.iter_mut().filter(|trial| trial.contender == 1) {
        trial.record.valid = false;
        trial.record.why_invalid = Some("nothing came".into());
    }
    let point = MapPoint::of(vec![], &[0, 1], vec![], &race);
    assert_eq!((point.outcome, point.leaders.as_slice()), (PointAnswer::Alone, &[0][..]));
    assert_eq!(point.out[0].why, "none of its trials counts: nothing came");
    race.contenders[0].blocked = Some("a wall".into());
    race.summary.clear();
    let point = MapPoint::of(vec![], &[0, 1], vec![], &race);
    assert_eq!((point.outcome, point.out.len()), (PointAnswer::Failed, 2));
    assert_eq!(point.out[0].why, "blocked: a wall");
}

//! Tests of `analysis/headline.rs` of deadheat-result, on results of whole races.

use deadheat_result::analysis::headline::*;
use deadheat_result::outcome::{Cell, Outcome};

#[test]
fn the_work_is_named_as_its_task_names_it() {
    let mut outcome = crate::race::testing::loaded();
    assert!(headline(&outcome).starts_with("64-byte ping, 1000/s beside a bulk flow of tcp"));
    outcome.plan.workload = Some("cbr:rate=100mbit".to_owned());
    assert_eq!(headline(&outcome), "1400-byte messages, 100 Mbit/s up");
    outcome.plan.workload = Some("pong:size=3".to_owned());
    assert_eq!(headline(&outcome), "pong:size=3");
}

#[test]
fn works_that_differ_by_condition_have_their_name_in_common() {
    let mut outcome = crate::race::testing::loaded();
    let works = |outcome: &mut Outcome, all: [&str; 2]| {
        for (contender, workload) in all.into_iter().enumerate() {
            outcome.contenders[contender].cell = Some(Cell {
                rivals: None,
                contender,
                levels: vec![contender],
                workload: workload.to_owned(),
                placement: None,
                infeasible: None,
            });
        }
    };
    works(&mut outcome, ["ping:size=64", "ping:size=1400"]);
    assert_eq!(headline(&outcome), "ping");
    works(&mut outcome, ["ping:size=90,count=200", "ping:size=90,count=300"]);
    assert_eq!(headline(&outcome), "90-byte ping, 1000/s");
}

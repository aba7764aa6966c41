//! Tests of `analysis/derived.rs` of deadheat-result, on results of whole races.

use crate::race::{Request, testing};
use deadheat_contract::measurements::Metrics;
use deadheat_datapath::transport::Effective;
use deadheat_result::analysis::derived::*;
use deadheat_result::outcome::Trial;
use deadheat_stats::Outcome as Ruled;

/// A saved verdict of an older rule is not repeated, and not hidden either.
#[test]
fn a_saved_race_is_ruled_by_the_rule_of_today_and_says_what_was_another() {
    let request = Request::new(["tcp", "udp"]).blocks(20).at_least(20).margin(0.05).seed(1);
    let level = |contender: &str| if contender == "udp" { 80_000.0 } else { 100_000.0 };
    let mut saved = testing::run(&request, testing::noisy(3, 0.01, level)).unwrap();
    let said = ruled_anew(&saved).verdicts[0].note.clone();
    assert!(!said.contains("of the day it ran"), "{said}");
    saved.verdicts[0].outcome = Ruled::Undecided;
    saved.verdicts[0].ahead = None;
    saved.verdicts[0].note = "tcp and udp: undecided".into();
    saved.plan.margin = 0.41;
    let anew = ruled_anew(&saved);
    assert_eq!(anew.trials, saved.trials);
    assert_eq!((anew.verdicts[0].outcome, anew.verdicts[0].ahead), (Ruled::Ahead, Some(1)));
    let both = format!(
        "{}; by the rule of the day it ran: tcp and udp: undecided",
        said.trim_end_matches('.')
    );
    assert_eq!(anew.verdicts[0].note, both);
}

#[test]
fn settings_are_those_of_a_valid_trial_or_else_of_one_that_knows_most_of_them() {
    let mut entrant = Request::new(["udp"]).check().unwrap().entrants.remove(0);
    let mut trials = Vec::new();
    let mut after = |near: &str, far: Option<&str>, valid: bool| {
        let read = |value: &str| Effective::from([("source".to_owned(), value.to_owned())]);
        let mut record = testing::record(Metrics::new());
        (record.valid, record.effective) = (valid, read(near));
        record.far_effective = far.map(read).unwrap_or_default();
        let block = trials.len() as u64;
        trials.push(Trial { block, order: 0, contender: 0, control: false, record });
        settle(&mut entrant, &trials);
        entrant.effective["source"].clone()
    };
    assert_eq!(after("a", None, false), "a", "as of a kernel's echo");
    assert_eq!(after("b", Some("c"), false), "b");
    assert_eq!(after("d", None, false), "b", "nothing is known of its far end");
    assert_eq!(after("e", Some("f"), true), "e");
    assert_eq!(after("g", Some("h"), false), "e");
}

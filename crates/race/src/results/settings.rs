//! Tests of `analysis/settings.rs` of deadheat-result, on results of whole races.

use crate::race::{Request, testing};
use deadheat_contract::measurements::Metrics;
use deadheat_datapath::transport::Effective;
use deadheat_result::analysis::settings::*;
use deadheat_result::outcome::{Trial, Warning};

/// Returns the warnings of a race of TCP with these values of `option` read back by trials and their flows.
fn found(spec: &str, option: &str, trials: &[&[&str]]) -> Vec<Warning> {
    let mut outcome = testing::outcome(2);
    outcome.contenders = Request::new([spec]).check().unwrap().entrants;
    for (block, flows) in trials.iter().enumerate() {
        let mut record = testing::record(Metrics::new());
        let read = |value: &str| Effective::from([(option.to_owned(), value.to_owned())]);
        record.far_effective = read(flows[0]);
        record.far_effective_by_flow = flows.iter().map(|value| read(value)).collect();
        let block = block as u64;
        outcome.trials.push(Trial { block, order: 0, contender: 0, control: false, record });
    }
    changed(&outcome)
}

#[test]
fn a_setting_that_changes_is_told_with_what_it_was_and_is() {
    let between_trials = found("tcp", "cc", &[&["cubic"], &["cubic"], &["bbr"]]);
    let between_flows = found("tcp", "cc", &[&["cubic", "cubic", "bbr"]]);
    assert_eq!(between_trials, between_flows);
    let [warning] = &between_trials[..] else { panic!("{between_trials:?}") };
    assert_eq!(warning.code, "setting_changed");
    let expected =
        "cc of tcp changed during the race: at the far end it was cubic at first and bbr later";
    assert_eq!(warning.message, expected);
    assert_eq!(found("tcp", "cc", &[&["cubic"], &["cubic"]]), []);
}

#[test]
fn what_the_host_tunes_may_move_unless_it_was_asked_for() {
    let moves: &[&[&str]] = &[&["131072"], &["262144"]];
    assert_eq!(found("tcp", "rcvbuf", moves), []);
    assert_eq!(found("tcp:rcvbuf=64kB", "rcvbuf", moves).len(), 1);
    assert_eq!(found("tcp", "unheard-of", moves), []);
    let validated: &[&[&str]] = &[&["on, validated"], &["on, not validated"]];
    assert_eq!(found("quic:ecn=on", "ecn", validated), [], "a short trial validates no marks");
    let cleared: &[&[&str]] = &[&["on, validated"], &["off: the path clears the marks"]];
    assert_eq!(found("quic:ecn=on", "ecn", cleared).len(), 1);
    let remarks: &[&[&str]] = &[&["zerocopy"], &["zerocopy (the kernel copied some calls)"]];
    assert_eq!(found("tcp:io=zerocopy", "io", remarks), []);
}

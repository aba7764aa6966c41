//! Tests of `analysis/host_use.rs` of deadheat-result, on results of whole races.

use crate::race::{Request, testing};
use deadheat_records::quiet::{HostQuiet, ProbePoint};
use deadheat_result::analysis::host_use::*;
use deadheat_result::outcome::{Outcome, Ratio};
use deadheat_stats::Outcome as Ruled;

/// A race that udp wins by a quarter, whose copies differ by `copies` either way, on a host of which others use a share.
fn raced(share: Option<f64>, copies: f64) -> Outcome {
    let request = Request::new(["tcp", "udp"]).blocks(40).seed(3);
    let level = |name: &str| if name.starts_with("udp") { 80.0 } else { 100.0 };
    let mut outcome = testing::run(&request, testing::noisy(3, 0.02, level)).unwrap();
    let mut quiet = HostQuiet::default();
    for at_ms in 1..4 {
        let (p50_ns, high_ns, steal_share) = (9, 9, 0.0);
        let others_share = if at_ms == 1 { Some(1.0) } else { share };
        quiet.add(ProbePoint { at_ms, p50_ns, high_ns, steal_share, others_share });
    }
    outcome.probe = Some(quiet);
    for verdict in &mut outcome.control.as_mut().unwrap().verdicts {
        verdict.ratio = Some(Ratio { point: 1.0, low: 1.0 / copies, high: copies });
    }
    outcome
}

#[test]
fn a_host_that_others_use_is_in_each_verdict_once() {
    let mut outcome = raced(Some(0.43), 1.05);
    for _ in 0..2 {
        weigh(&mut outcome);
        let verdict = &outcome.verdicts[0];
        assert_eq!(verdict.outcome, Ruled::Ahead, "{}", verdict.note);
        let said = "other programs used 43 % of the CPUs that it ran on.";
        assert!(verdict.note.ends_with(said), "{}", verdict.note);
        assert_eq!(verdict.note.matches(said).count(), 1, "{}", verdict.note);
    }
    for calm in [Some(0.04), None] {
        let mut outcome = raced(calm, 1.05);
        let before = outcome.verdicts.clone();
        weigh(&mut outcome);
        assert_eq!(outcome.verdicts, before, "{calm:?}");
    }
}

#[test]
fn nobody_is_ahead_on_a_busy_host_by_what_copies_differ_by() {
    let mut outcome = raced(Some(0.98), 1.3);
    let winner = outcome.verdicts[0].ahead;
    weigh(&mut outcome);
    let verdict = &outcome.verdicts[0];
    assert_eq!((verdict.outcome, verdict.ahead), (Ruled::Undecided, None));
    assert_eq!(verdict.direction, winner);
    assert!(verdict.note.contains("identical copies differed by as much"), "{}", verdict.note);
    let mut calm = raced(Some(0.02), 1.3);
    weigh(&mut calm);
    assert_eq!(calm.verdicts[0].outcome, Ruled::Ahead);
    let mut alone = raced(Some(0.98), 1.05);
    alone.control = None;
    weigh(&mut alone);
    assert_eq!(alone.verdicts[0].outcome, Ruled::Undecided);
}

use super::*;
use deadheat_stats as stats;

fn contender(id: &str) -> BrowserContender {
    BrowserContender { id: id.to_owned(), label: id.to_uppercase() }
}

fn plan(work: BrowserWork, blocks: u64) -> BrowserPlan {
    BrowserPlan::new(vec![contender("a"), contender("b")], work, Some(blocks), 7).unwrap()
}

const PINGS: BrowserWork = BrowserWork::Ping { size: 64, count: 30, interval_ms: 10 };

const PAGE: PageFacts =
    PageFacts { browser: String::new(), step_ms: 0.1, loopback_ms: 0.05, isolated: false };

/// Span of a trial that is as long as a trial may be.
const SPAN: TrialSpan = TrialSpan { started_ms: 1_700_000_000_000, lasted_ms: 86_400_000.0 };

/// Returns the trial of pings that took about `ms` each.
fn pings(ms: f64) -> BrowserTrial {
    let trips: Vec<String> = (0..30).map(|at| format!("{}", ms + f64::from(at) / 100.0)).collect();
    let text = format!("{{\"trips_ms\":[{}],\"lag_max_ms\":2.5}}", trips.join(","));
    BrowserTrial::read(PINGS, text.as_bytes(), SPAN).unwrap()
}

/// Returns the result of a race in which contender `b` takes `factor` times as long as `a`.
fn race(factor: f64) -> Outcome {
    let plan = plan(PINGS, 8);
    let of = |slot: PlannedTrial| {
        let noise = 1.0 + (slot.block as f64 * 0.37 + slot.order as f64 * 0.61).sin() / 100.0;
        (slot, pings(20.0 * noise * if slot.contender == 1 { factor } else { 1.0 }))
    };
    let done: Vec<_> = plan.trials().into_iter().map(of).collect();
    plan.outcome(&done, &PAGE)
}

#[test]
fn a_plan_has_every_contender_and_a_copy_in_each_block() {
    let trials = plan(PINGS, 6).trials();
    assert_eq!(trials.len(), 18);
    for block in trials.chunks(3) {
        let mut slots: Vec<(usize, bool)> =
            block.iter().map(|slot| (slot.contender, slot.control)).collect();
        slots.sort_unstable();
        assert_eq!(slots, [(0, false), (0, true), (1, false)]);
    }
    assert_ne!(trials[..3].iter().map(|t| t.contender).collect::<Vec<_>>(), [0, 0, 0]);
}

#[test]
fn a_plan_that_cannot_be_is_refused_by_name() {
    let refusal = |contenders: Vec<BrowserContender>, work, blocks| {
        BrowserPlan::new(contenders, work, blocks, 1).unwrap_err()
    };
    assert!(refusal(Vec::new(), PINGS, None).contains("1 to 8 contenders"));
    assert!(refusal(vec![contender("a"), contender("a")], PINGS, None).contains("twice"));
    assert!(refusal(vec![contender("a")], PINGS, Some(101)).contains("1 to 100 blocks"));
    let large = BrowserWork::Ping { size: 1 << 20, count: 1, interval_ms: 1 };
    assert!(refusal(vec![contender("a")], large, None).contains("size is 1048576"));
    let few = BrowserWork::Ping { size: 64, count: 19, interval_ms: 1 };
    let said = refusal(vec![contender("a")], few, None);
    assert!(said.contains("count is 19, and may be 20 to 5000"), "{said}");
}

#[test]
fn a_slower_contender_loses_and_the_control_is_a_tie() {
    let outcome = race(1.5);
    assert_eq!(outcome.verdicts.len(), 1);
    assert_eq!(
        (outcome.verdicts[0].outcome, outcome.verdicts[0].ahead),
        (stats::Outcome::Ahead, Some(0))
    );
    let control = outcome.control.as_ref().unwrap();
    assert!(control.trusted && control.verdicts[0].ratio.is_some(), "{}", control.note);
    assert_eq!((outcome.status, outcome.trials.len()), (Status::Decided, 24));
    let origin = outcome.imported.as_ref().unwrap();
    assert!(origin.files[0].doubts[0].contains("steps of 0.1 ms"), "{origin:?}");
    assert!(origin.files[0].doubts[2].contains("busy for 2.5 ms"), "{origin:?}");
    assert_eq!(outcome.trials[0].record.metrics["page_lag_max_ns"], 2.5e6);
    let lag = outcome.summary.iter().find(|row| row.metric == "page_lag_max_ns");
    assert_eq!(lag.map(|row| row.estimate), Some(2.5e6));
    assert_eq!(race(1.0).verdicts[0].outcome, stats::Outcome::DeadHeat);
}

#[test]
fn blocks_that_are_not_whole_are_in_no_figure() {
    let plan = plan(PINGS, 8);
    let done: Vec<_> = plan.trials().into_iter().take(7).map(|slot| (slot, pings(20.0))).collect();
    let outcome = plan.outcome(&done, &PAGE);
    assert_eq!((outcome.trials.len(), outcome.status), (6, Status::Interrupted));
}

#[test]
fn figures_that_cannot_be_are_refused_or_make_the_trial_invalid() {
    let refused = |text: &str| BrowserTrial::read(PINGS, text.as_bytes(), SPAN).unwrap_err();
    assert!(refused("{").contains("cannot be read"));
    assert_eq!(refused("{\"trips_ms\":[-1]}"), "a round trip of -1 ms cannot be");
    assert_eq!(refused("{\"trips_ms\":[1e300]}"), "a round trip of 1e300 ms cannot be");
    assert!(refused("{\"more\":1}").contains("unknown field"));
    let many = format!("{{\"trips_ms\":[{}1]}}", "1,".repeat(5_000));
    assert_eq!(refused(&many), "figures of 5001 round trips, of 30 that the trial has");
    let short = TrialSpan { lasted_ms: 1_000.0, ..SPAN };
    let too_late = |text: &str| BrowserTrial::read(PINGS, text.as_bytes(), short).unwrap_err();
    let said = too_late("{\"trips_ms\":[20,1200]}");
    assert_eq!(said, "a round trip of 1200 ms is longer than the trial, which lasted 1000 ms");
    assert!(too_late("{\"connects_ms\":[600,600]}").contains("one connection after the other"));
    assert!(too_late("{\"lag_max_ms\":5000}").contains("a busy page of 5000 ms"));
    assert!(too_late("{\"arrivals\":[[0,9,8]]}").contains("message 0 arrived 1 ms before"));
    let invalid = |work, text: &str| {
        let trial = BrowserTrial::read(work, text.as_bytes(), SPAN).unwrap();
        assert!(!trial.record.valid && trial.record.metrics.is_empty());
        trial.why_invalid().unwrap().to_owned()
    };
    assert_eq!(invalid(PINGS, "{\"trips_ms\":[1]}"), "1 of 30 pings were sent");
    let busy = |name: &str| invalid(PINGS, &format!("{{\"{name}\":1500}}"));
    assert!(busy("lag_max_ms").contains("busy for 1500 ms at a time, and 1000 ms is the most"));
    assert!(busy("late_max_ms").contains("a timer of the page was 1500 ms late"));
    assert_eq!(invalid(PINGS, "{\"why_invalid\":\"in the background\"}"), "in the background");
    let state = BrowserWork::State { hz: 10, size: 100, count: 3 };
    assert!(invalid(state, "{\"arrivals\":[[7,0,1]],\"clock_ms\":[1,2]}").contains("numbers"));
    let more = "{\"arrivals\":[[2,0,1]],\"clock_ms\":[1,2],\"sent\":2}";
    assert!(invalid(state, more).contains("numbers that the server did not send"));
    assert!(invalid(state, "{\"arrivals\":[[0,0,1]]}").contains("compare its clock"));
    let down = BrowserWork::Down { bytes: 5_000 };
    assert!(invalid(down, "{\"bulk\":[4000,1]}").contains("4000 of 5000 bytes"));
}

#[test]
fn an_age_grows_until_a_newer_update_arrives() {
    let state = BrowserWork::State { hz: 10, size: 100, count: 3 };
    // Due at 0, 100 and 200 ms; each arrives 20 ms later, but the second one is lost.
    let text = "{\"arrivals\":[[0,0,20],[2,200,220]],\"clock_ms\":[5,10]}";
    let trial = BrowserTrial::read(state, text.as_bytes(), SPAN).unwrap();
    let metric = |name: &str| trial.record.metrics[name];
    // From 20 to 220 ms the age is 20 to 220, and then, to 300 ms, 20 to 100.
    assert_eq!(metric("age_mean_ns"), (200.0 * 120.0 + 80.0 * 60.0) / 280.0 * 1e6);
    assert_eq!(metric("age_max_ns"), 220e6);
    assert!((metric("loss_share") - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(trial.record.clock.as_ref().unwrap().error_bound_ns, 5_000_000);
    // The server skipped the second one.
    let text = "{\"arrivals\":[[0,0,20],[1,200,220]],\"clock_ms\":[5,10],\"sent\":2}";
    let skipped = BrowserTrial::read(state, text.as_bytes(), SPAN).unwrap();
    assert_eq!(skipped.record.metrics["age_mean_ns"], metric("age_mean_ns"));
    assert_eq!(skipped.record.metrics["loss_share"], 0.0);
}

#[test]
fn events_and_bulk_data_have_their_figures() {
    let events = BrowserWork::Events { hz: 10, size: 100, count: 2 };
    let text = "{\"arrivals\":[[0,0,20],[1,130,160]],\"clock_ms\":[5,10]}";
    let trial = BrowserTrial::read(events, text.as_bytes(), SPAN).unwrap();
    assert_eq!(trial.record.metrics["delivery_mean_ns"], 25e6);
    let up = BrowserWork::Up { bytes: 1_000_000 };
    let trial = BrowserTrial::read(up, b"{\"bulk\":[1000000,1000]}", SPAN).unwrap();
    assert_eq!(trial.record.metrics["goodput_bps"], 8e6);
    let connect = BrowserWork::Connect { count: 3 };
    let trial = BrowserTrial::read(connect, b"{\"connects_ms\":[30,10,20]}", SPAN).unwrap();
    assert_eq!(trial.record.metrics["connect_p50_ns"], 20e6);
}

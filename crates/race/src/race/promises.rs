//! Promises of a plan, in virtual time: a race reaches the blocks for a verdict, or reports beforehand that it
//! cannot, with a budget that suffices.

use super::testing::{self, WORKLOAD, ran, run};
use super::{Request, replay};
use deadheat_base::error::Result;
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{self, Clock, Manual, Nanos};
use deadheat_result::outcome::{Outcome, Status, blocks_done};
use deadheat_stats::Outcome as Ruled;
use deadheat_trial::sim::fake::Fake;
use deadheat_trial::{Order, TrialOutcome};

/// Runs `request` with trials of the duration `takes` that differ by 1 %, and returns the race with its duration.
fn timed(request: &Request, takes: impl Fn(&Order) -> Nanos) -> (Result<Outcome>, Nanos) {
    let (clock, mut rng) = (Manual::default(), SplitMix64::new(3));
    let ticking = clock.clone();
    let mut runner = Fake(|order: &Order| {
        let took = takes(order);
        ticking.pass(took);
        let level = if order.contender().starts_with("udp") { 80.0 } else { 100.0 };
        match ran(order, level * (0.01 * rng.normal()).exp()) {
            TrialOutcome::Ran(mut record) => {
                record.took_ns = took.0;
                // One trial in nine fails its gate, and is repeated.
                record.valid = rng.below(9) > 0;
                TrialOutcome::Ran(record)
            }
            other => other,
        }
    });
    let mut nobody = super::SilentObserver;
    let context = super::RaceContext::new(&mut runner, &mut nobody).at(&clock, testing::day());
    let outcome = request.run_with(context);
    (outcome, clock.now())
}

fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// The default race to a far host: two contenders and the floor, trials of two to three seconds; the contender of
/// the pilot has the shortest. Eight blocks of it and its floors exceed the default budget.
#[test]
fn a_default_race_of_long_trials_reaches_its_verdict() {
    for trial in [1.8, 2.1, 2.5, 5.0, 20.0] {
        let request = Request::new(["tcp", "udp", "icmp"]).seed(4);
        let (outcome, took) = timed(&request, |order| {
            seconds(if order.contender().starts_with("tcp") { trial } else { 1.3 * trial })
        });
        let outcome = outcome.unwrap();
        assert!(blocks_done(&outcome) >= 6, "{trial}: {} blocks", blocks_done(&outcome));
        assert_eq!(outcome.status, Status::Decided, "{trial}");
        assert_eq!(outcome.verdicts[0].outcome, Ruled::Ahead, "{trial}");
        assert!(took < seconds(900.0), "{trial}: {took}");
        // The repeated race is not ended by the limit that its first run had to exceed.
        let (again, _) = timed(&replay(&outcome).unwrap(), |_| seconds(1.5 * trial));
        assert!(blocks_done(&again.unwrap()) >= 6);
    }
}

/// The budget that a refusal advises suffices, for any duration of trials and any number of contenders.
#[test]
fn the_budget_that_a_refusal_advises_decides() {
    for contenders in [&["tcp", "udp"][..], &["tcp", "udp", "tcp", "udp:rx=recv", "icmp"]] {
        for trial in [0.4, 1.1, 3.0] {
            let ask = |budget| {
                Request::new(contenders.to_vec()).workload(WORKLOAD).seed(4).budget(budget)
            };
            let takes = |_: &Order| seconds(trial);
            let said = timed(&ask(seconds(4.0 * trial)), takes).0.unwrap_err().to_string();
            let advised = said.split("--budget ").nth(1).unwrap().split('s').next().unwrap();
            let advised: f64 = advised.parse().unwrap();
            let (outcome, took) = timed(&ask(seconds(advised)), takes);
            let outcome = outcome.unwrap();
            let fewest = if contenders.len() == 2 { 6 } else { 8 };
            assert!(said.contains(&format!("at least {fewest} blocks")), "{said}");
            assert!(blocks_done(&outcome) >= fewest, "{said}: {}", blocks_done(&outcome));
            assert!(took <= seconds(advised), "a limit that is asked for is kept: {took}");
        }
    }
}

#[test]
fn blocks_that_decide_and_a_time_that_has_no_room_for_them_are_refused() {
    let ask = Request::new(["tcp", "udp"]).blocks(12).budget(seconds(6.0));
    let (refused, _) = timed(&ask, |_| seconds(1.0));
    assert!(refused.unwrap_err().to_string().contains("at least 6 blocks"));
    // A race of fewer blocks is run for figures, and any time suffices.
    let (figures, _) = timed(&ask.blocks(3), |_| seconds(1.0));
    assert_eq!(blocks_done(&figures.unwrap()), 1);
}

/// The pilot measures the first contender only. If others take longer, the first block shows it.
#[test]
fn a_budget_that_slower_contenders_exceed_is_said_after_the_first_block() {
    let request = Request::new(["tcp", "udp"]).workload(WORKLOAD).budget(seconds(30.0)).seed(4);
    let (clock, mut diary) = (Manual::default(), testing::Diary::default());
    let ticking = clock.clone();
    let mut runner = Fake(|order: &Order| {
        ticking.pass(seconds(if order.contender().starts_with("udp") { 8.0 } else { 1.0 }));
        ran(order, 100.0)
    });
    let context = super::RaceContext::new(&mut runner, &mut diary).at(&clock, testing::day());
    request.run_with(context).unwrap();
    let lines = diary.0.into_inner();
    let said = lines.iter().position(|line| line == "room for 2 of 6").expect("said");
    assert_eq!(lines[said + 1], "block 1", "{lines:?}");
}

#[test]
fn levels_that_take_longer_than_the_one_of_the_pilot_are_planned_as_such() {
    let ask = |budget| {
        let request = Request::new(["tcp", "udp"]).workload("ping:interval=10ms").budget(budget);
        request.vary("count", ["100", "2000"]).seed(4)
    };
    let work = |order: &Order| {
        let is_long = order.workload().contains("count=2000");
        seconds(if is_long { 20.2 } else { 1.2 })
    };
    // Seven blocks of three short trials and two long ones take five minutes.
    let (refused, took) = timed(&ask(seconds(120.0)), work);
    assert!(refused.unwrap_err().to_string().contains("at least 7 blocks"));
    assert!(took < seconds(15.0), "said before the first block: {took}");
    let (outcome, _) = timed(&ask(seconds(480.0)), work);
    assert_eq!(outcome.unwrap().status, Status::Decided);
}

#[test]
fn a_screening_takes_twenty_seconds_or_the_fewest_blocks() {
    let ask = Request::new(["tcp", "udp", "icmp"]).screening().seed(4);
    let (outcome, took) = timed(&ask, |_| seconds(0.2));
    assert_eq!((outcome.unwrap().plan.blocks_max, took < seconds(25.0)), (20, true));
    let (outcome, took) = timed(&ask, |_| seconds(2.3));
    let outcome = outcome.unwrap();
    assert!((6..9).contains(&blocks_done(&outcome)), "{}", blocks_done(&outcome));
    assert_eq!((outcome.status, took < seconds(90.0)), (Status::Decided, true));
}

#[test]
fn one_block_is_a_wish_for_figures_and_nothing_is_wrong_with_it() {
    let ask = Request::new(["tcp", "udp"]).blocks(1).seed(1);
    let note = |request: &Request| request.for_figures(&request.check().unwrap());
    assert_eq!(note(&ask), None);
    let outcome = run(&ask, testing::noisy(1, 0.01, |_| 100.0)).unwrap();
    assert!(outcome.trusted(), "{:?}", outcome.why_not_trusted());
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    assert!(deadheat_result::analysis::claims::is_for_figures(&outcome));
    let five = Request::new(["tcp", "udp", "tcp"]).blocks(5);
    let said = "5 blocks cannot decide 3 claims; 7 are the fewest: this race will have figures and no verdicts";
    assert_eq!(note(&five).unwrap(), said);
    assert_eq!(note(&five.blocks(7)), None);
}

/// CPU time of this thread, without other programs.
fn cpu_time() -> Nanos {
    time::read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap()
}

/// A race of eight times the blocks takes about eight times as long, and not 64 times.
#[test]
fn the_time_of_a_race_grows_with_its_blocks_and_not_with_their_square() {
    let of = |blocks: u64| {
        let request =
            Request::new(["tcp", "udp"]).blocks(blocks).at_least(blocks).margin(0.05).seed(1);
        let began = cpu_time();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("race.json");
        let noise = testing::noisy(1, 0.3, |_| 100.0);
        let outcome = testing::run_staged(&request, noise, |context| context.save(&file));
        assert_eq!(blocks_done(&outcome.unwrap()), blocks);
        (cpu_time() - began).0 as f64
    };
    let (few, many) = (of(250), of(2_000));
    assert!(many < 20.0 * few, "{} times the time for 8 times the blocks", many / few);
}

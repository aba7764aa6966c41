//! Races that are saved, broken off, gone on with and run again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ask, blocks, codes, repeatable, tie};
use crate::race::context::{RaceContext, SampleStore, TrialPlace};
use crate::race::testing::{self, WORKLOAD, ran, run, run_staged};
use crate::race::{Request, replay, resume};
use deadheat_base::error::Error;
use deadheat_base::time::{Manual, Nanos};
use deadheat_result::analysis::derived;
use deadheat_result::journal;
use deadheat_result::outcome::{Outcome, Status};
use deadheat_stats as stats;
use deadheat_trial::sim::fake::Fake;
use deadheat_trial::{Order, TrialOutcome};

#[test]
fn ctrl_c_keeps_whole_blocks_only() {
    let flag = Arc::new(AtomicBool::new(false));
    let pressed = flag.clone();
    let mut trials = 0;
    let outcome = run_staged(
        &ask(&["tcp", "udp"]),
        |order| {
            trials += 1;
            // The pilot, four whole blocks, and the second trial of the fifth.
            if trials == 1 + 4 * 3 + 2 {
                pressed.store(true, Ordering::Relaxed);
            }
            ran(order, 100.0)
        },
        |context| context.stop(flag),
    )
    .unwrap();
    assert_eq!((outcome.status, outcome.trials.len()), (Status::Interrupted, 12));
    // The user who stops has seen the estimates, so the stop decides nothing.
    assert_eq!(outcome.verdicts[0].outcome, stats::Outcome::Undecided);
    let flag = Arc::new(AtomicBool::new(true));
    let before = run_staged(&ask(&["tcp"]), tie(), |context| context.stop(flag));
    assert!(matches!(before, Err(Error::Interrupted)));
}

#[test]
fn a_killed_race_goes_on_as_if_nothing_had_been() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("race.json");
    let request = ask(&["tcp", "udp", "udp"]);
    let whole = run(&request, repeatable()).unwrap();
    assert_eq!(blocks(&whole), 12);
    for killed_at in [6, 20, 41] {
        // A kill leaves on disk the last save, so copy it at that moment.
        let left = directory.path().join("left.json");
        let (mut trials, mut figures) = (0, repeatable());
        run_staged(
            &request,
            |order| {
                trials += 1;
                if trials == killed_at {
                    std::fs::copy(&file, &left).unwrap();
                    if journal::beside(&file).exists() {
                        std::fs::copy(journal::beside(&file), journal::beside(&left)).unwrap();
                    }
                }
                figures(order)
            },
            |context| context.save(&file),
        )
        .unwrap();
        let before = derived::load(&left).unwrap();
        assert_eq!(before.status, Status::Running);
        assert_eq!(blocks(&before), (killed_at - 2) / 4);
        let after = resumed(before, None, repeatable()).unwrap();
        assert_eq!(after, whole);
    }
}

fn resumed(
    before: Outcome,
    budget: Option<Nanos>,
    trial: impl FnMut(&Order) -> TrialOutcome,
) -> deadheat_base::error::Result<Outcome> {
    let clock = Manual::default();
    let mut runner = Fake(trial);
    let mut observer = crate::race::SilentObserver;
    let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    let asked = replay(&before)?;
    resume(before, budget, &asked, context)
}

#[test]
fn a_word_of_a_saved_race_that_means_nothing_here_is_refused() {
    let mut before = testing::outcome(2);
    before.status = Status::Interrupted;
    before.asked.idle = Some("host".into());
    assert!(replay(&before).is_ok());
    before.asked.idle = Some("hosts".into());
    let said = replay(&before).unwrap_err().to_string();
    assert!(said.contains("did you mean `host`?"), "{said}");
    let said = resumed(before.clone(), None, repeatable()).unwrap_err().to_string();
    assert!(said.contains("did you mean `host`?"), "{said}");
    before.asked.idle = None;
    before.plan.idle = Some("awoke".into());
    let said = resumed(before, None, repeatable()).unwrap_err().to_string();
    assert!(said.contains("did you mean `awake`?"), "{said}");
}

#[test]
fn a_race_over_conditions_goes_on_and_runs_again_though_what_varies_has_a_default() {
    let request = ask(&["tcp", "udp"]).vary("size", ["64", "1kB"]);
    let mut before = run(&request, repeatable()).unwrap();
    assert!(!before.asked.workload.contains("size="), "{}", before.asked.workload);
    let of_block = before.trials.iter().filter(|trial| trial.block == 0).count();
    before.trials.truncate(3 * of_block);
    before.verdicts.clear();
    before.status = Status::Interrupted;
    let (asked, first) = (before.asked.clone(), before.trials.clone());
    // As in results of earlier versions.
    before.asked.workload.push_str(",size=64");
    let after = resumed(before, None, repeatable()).unwrap();
    assert_eq!(after.trials[..first.len()], first);
    assert!(blocks(&after) > 3);
    assert_eq!(run(&replay(&after).unwrap(), repeatable()).unwrap().asked.workload, asked.workload);
}

#[test]
fn what_is_over_is_not_resumed() {
    let say = |outcome: Outcome| resumed(outcome, None, tie()).unwrap_err().to_string();
    assert!(say(run(&ask(&["tcp", "udp"]), tie()).unwrap()).contains("decided"));
    let whole = run(&ask(&["tcp"]), tie()).unwrap();
    assert!(say(whole).contains("--blocks"));
    let mut spent = run(&ask(&["tcp", "udp"]).blocks(40), repeatable()).unwrap();
    spent.trials.truncate(30);
    (spent.status, spent.asked.budget_ns) = (Status::Budget, Some(1_000_000));
    assert!(say(spent).contains("--budget"));
}

#[test]
fn a_race_goes_on_after_its_last_look_by_rulings_after_any_block() {
    let mut before = run(&ask(&["tcp", "udp"]).blocks(40), repeatable()).unwrap();
    before.trials.truncate(30);
    before.verdicts.clear();
    before.status = Status::Budget;
    before.asked.budget_ns = Some(1_000_000);
    let after = resumed(before, Some(Nanos::from_secs(60)), repeatable()).unwrap();
    assert!(blocks(&after) > 10 && codes(&after).is_empty(), "{:?}", after.warnings);
    let looks = &after.plan.looks;
    assert_eq!(looks.last().map(|look| look.blocks), Some(10));
    let spent = looks.iter().map(|look| look.alpha).sum::<f64>() + after.plan.any_time;
    assert!(after.plan.any_time > 0.0 && (spent - 0.05).abs() < 1e-12, "{spent}");
}

#[test]
fn going_on_after_the_last_look_of_a_short_race_is_possible_and_told() {
    let request = ask(&["tcp", "udp"]).blocks(20);
    let mut before = run(&request, repeatable()).unwrap();
    before.trials.truncate(30);
    before.verdicts.clear();
    before.status = Status::Budget;
    before.asked.budget_ns = Some(1_000_000);
    let after = resumed(before, Some(Nanos::from_secs(60)), repeatable()).unwrap();
    assert!(blocks(&after) > 10);
    let warning = after.warnings.iter().find(|w| w.code == "resumed_after_last_look");
    let message = &warning.unwrap().message;
    // There were ten blocks before any look: the whole error again.
    assert!(message.contains("at 10 blocks") && message.contains("up to 10 %"), "{message}");
}

#[test]
fn another_host_is_told() {
    let mut before = run(&ask(&["tcp", "udp"]), repeatable()).unwrap();
    before.trials.truncate(9);
    before.status = Status::Interrupted;
    before.host.hostname = "elsewhere".into();
    let after = resumed(before, None, repeatable()).unwrap();
    assert!(codes(&after).contains(&"resumed_elsewhere"));
}

#[test]
fn a_replay_has_the_same_plan_order_and_seeds() {
    let request = Request::new(["tcp", "udp", "udp"])
        .workload(WORKLOAD)
        .seed(11)
        .budget(Nanos::from_secs(8))
        .title("again")
        .label("kernel", "6.18");
    let first = run(&request, repeatable()).unwrap();
    assert!(first.plan.blocks_max < 40, "what there was time for, by the pilot");
    let mut second = run(&replay(&first).unwrap(), repeatable()).unwrap();
    assert_eq!(second.plan, first.plan);
    assert_eq!(second.asked.placement.as_ref(), Some(&first.plan.placement));
    second.asked.placement = None;
    assert_eq!(second, first);
}

#[test]
fn a_place_that_cannot_be_written_costs_no_block() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("missing/race.json");
    let mut trials = 0;
    let outcome = run_staged(
        &ask(&["tcp", "udp"]),
        |order| {
            trials += 1;
            ran(order, 100.0)
        },
        |context| context.save(&file),
    );
    assert!(outcome.unwrap_err().to_string().contains("directory does not exist"));
    assert_eq!(trials, 1);
}

#[test]
fn a_disk_that_fails_on_the_way_ends_the_race_and_keeps_the_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("results");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("race.json");
    let mut trials = 0;
    let outcome = run_staged(
        &ask(&["tcp", "udp"]),
        |order| {
            trials += 1;
            // In the third block.
            if trials == 1 + 2 * 3 + 1 {
                std::fs::remove_dir_all(&folder).unwrap();
            }
            ran(order, 100.0)
        },
        |context| context.save(&file),
    )
    .unwrap();
    assert_eq!((outcome.status, blocks(&outcome)), (Status::Failed, 3));
    assert!(codes(&outcome).contains(&"save_failed"));
}

#[test]
fn what_is_saved_is_what_is_returned() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("race.json");
    let outcome = run_staged(&ask(&["tcp", "udp"]), repeatable(), |context| context.save(&file));
    assert_eq!(derived::load(&file).unwrap(), outcome.unwrap());
}

/// Records the samples to be stored.
struct Kept(Vec<(u64, u64, usize, bool)>);

impl SampleStore for Kept {
    fn append(
        &mut self,
        main: &Path,
        part: &Path,
        place: &TrialPlace<'_>,
    ) -> deadheat_base::error::Result<()> {
        assert!(main.ends_with("race.samples") && part.ends_with("race.samples.part"));
        self.0.push((place.block, place.order, place.contender, place.control));
        Ok(())
    }

    fn cut(&mut self, main: &Path, first: u64) -> deadheat_base::error::Result<()> {
        assert!(main.ends_with("race.samples"));
        self.0.retain(|(block, ..)| *block < first);
        Ok(())
    }
}

#[test]
fn samples_are_kept_for_every_trial_of_a_block_and_old_ones_removed() {
    let directory = tempfile::tempdir().unwrap();
    let stale = directory.path().join("race.samples");
    std::fs::write(&stale, "of an earlier race").unwrap();
    let (mut kept, mut orders) = (Kept(Vec::new()), Vec::new());
    let clock = Manual::default();
    let mut runner = Fake(|order: &Order| {
        orders.push(order.samples.is_some());
        ran(order, 100.0)
    });
    let mut observer = crate::race::SilentObserver;
    let context = RaceContext::new(&mut runner, &mut observer)
        .at(&clock, testing::day())
        .save(directory.path().join("race.json"))
        .keep(&mut kept);
    let outcome = ask(&["tcp", "udp"]).run_with(context).unwrap();
    let places = outcome.trials.iter();
    let places: Vec<_> = places.map(|t| (t.block, t.order, t.contender, t.control)).collect();
    assert_eq!(kept.0, places);
    assert!(!orders[0] && orders[1..].iter().all(|kept| *kept));
    assert!(!stale.exists());
}

#[test]
fn a_race_that_is_broken_off_before_its_first_block_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let [file, part] = ["race.json", "race.samples.part"].map(|name| directory.path().join(name));
    let flag = Arc::new(AtomicBool::new(false));
    let pressed = flag.clone();
    let mut runner = Fake(|order: &Order| {
        // A trial of the first block, which leaves half of its samples.
        if order.samples.is_some() {
            std::fs::write(&part, "half").unwrap();
            pressed.store(true, Ordering::Relaxed);
        }
        ran(order, 100.0)
    });
    let (mut observer, mut keep) =
        (crate::race::SilentObserver, crate::race::samples_file::SamplesFile);
    let clock = Manual::default();
    let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    let context = context.stop(flag).save(&file).keep(&mut keep);
    let broken = ask(&["tcp", "udp"]).run_with(context);
    assert!(matches!(broken, Err(Error::Interrupted)), "{broken:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

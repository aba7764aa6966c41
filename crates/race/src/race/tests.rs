//! Whole races on fake runners in virtual time.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::race::context::RaceContext;
use crate::race::testing::{self, Diary, WORKLOAD, noisy, ran, run};
use crate::race::{Request, replay};
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{Manual, Nanos};
use deadheat_records::placement::Placement;
use deadheat_result::outcome::{Outcome, Status};
use deadheat_stats as stats;
use deadheat_trial::sim::fake::Fake;
use deadheat_trial::{Order, TrialOutcome};

mod saved;
mod trials;

fn ask(contenders: &[&str]) -> Request {
    Request::new(contenders.to_vec()).workload(WORKLOAD).blocks(12).margin(0.05).seed(7)
}

/// Returns 100 for tcp, 80 for udp, with 1 % noise.
fn clear_lead() -> impl FnMut(&Order) -> TrialOutcome {
    noisy(1, 0.01, |spec| if spec == "udp" { 80.0 } else { 100.0 })
}

fn tie() -> impl FnMut(&Order) -> TrialOutcome {
    noisy(2, 0.01, |_| 100.0)
}

/// Returns figures that follow from seed, contender and the number of runs under that seed, so that a repeated
/// block gives the same figures.
fn repeatable() -> impl FnMut(&Order) -> TrialOutcome {
    let mut seen = BTreeMap::new();
    move |order| {
        let nth = seen.entry((order.seed, order.contender())).or_insert(0u64);
        *nth += 1;
        let key = order.seed ^ (*nth << 8) ^ order.contender().len() as u64;
        ran(order, 100.0 * (0.3 * SplitMix64::new(key).normal()).exp())
    }
}

fn codes(outcome: &Outcome) -> Vec<&str> {
    let codes = outcome.warnings.iter();
    codes.map(|warning| warning.code.as_str()).collect()
}

fn blocks(outcome: &Outcome) -> u64 {
    deadheat_result::outcome::blocks_done(outcome)
}

#[test]
fn a_race_is_of_one_text_of_a_file_that_its_contender_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.toml");
    let write = |carries: &str| {
        let near = "sh {listen} {far}";
        let far = "sh {listen} {target}";
        let text = format!("near = \"{near}\"\nfar = \"{far}\"\ncarries = \"{carries}\"\n");
        std::fs::write(&file, text).unwrap();
    };
    write("tcp:cc=reno");
    let typed = format!("external:file={}", file.display());
    let load = format!("{WORKLOAD},load={typed}");
    let mut carried = Vec::new();
    let request = ask(&["udp", typed.as_str()]).workload(load).blocks(6);
    let outcome = run(&request, |order| {
        write("tcp:cc=cubic");
        let load = order.pairing.load.as_ref().unwrap();
        for contender in [&order.pairing.contender, &load.contender] {
            carried.extend(contender.external.as_ref().map(|pair| pair.carries.clone()));
        }
        ran(order, 100.0)
    });
    assert_eq!(outcome.unwrap().trials.len(), 18);
    assert!(carried.len() > 18 && carried.iter().all(|carries| carries == "tcp:cc=reno"));
}

#[test]
fn a_clear_lead_is_decided_early() {
    let outcome = run(&ask(&["tcp", "udp"]).blocks(40), clear_lead()).unwrap();
    assert_eq!(outcome.status, Status::Decided);
    assert_eq!(outcome.verdicts[0].outcome, stats::Outcome::Ahead);
    assert_eq!(outcome.verdicts[0].ahead, Some(1));
    assert!(outcome.verdicts[0].note.starts_with("udp is ahead of tcp"));
    assert!(outcome.trusted() && blocks(&outcome) < 40);
    assert_eq!(outcome.trials.len() as u64, 3 * blocks(&outcome));
    assert_eq!(codes(&outcome), Vec::<&str>::new());
    assert_eq!(outcome.differences[0].what, "delivery");
}

#[test]
fn a_race_to_its_first_sentence_ends_where_a_sharper_one_knew_it() {
    let noise = || noisy(3, 0.08, |spec| if spec == "udp" { 80.0 } else { 100.0 });
    let request = ask(&["tcp", "udp"]).blocks(120);
    let [first, sharp] =
        [request.clone().first(), request].map(|request| run(&request, noise()).unwrap());
    assert_eq!([first.status, sharp.status], [Status::Decided; 2]);
    assert_eq!([&first, &sharp].map(|race| race.verdicts[0].ahead), [Some(1); 2]);
    assert_eq!(sharp.verdicts[0].known_since, Some(blocks(&first)));
    assert!(blocks(&first) < blocks(&sharp), "{} {}", blocks(&first), blocks(&sharp));
}

#[test]
fn a_tie_is_a_dead_heat() {
    let outcome = run(&ask(&["tcp", "udp"]), tie()).unwrap();
    assert_eq!(outcome.verdicts[0].outcome, stats::Outcome::DeadHeat);
    assert_eq!(outcome.verdicts[0].ahead, None);
    assert!(outcome.verdicts[0].note.contains("dead heat"));
    let control = outcome.control.unwrap();
    assert_eq!(control.verdicts[0].outcome, stats::Outcome::DeadHeat);
}

#[test]
fn a_budget_that_is_spent_leaves_undecided_with_what_it_would_take() {
    let request = ask(&["tcp", "udp"]).budget(Nanos::from_secs(3));
    let outcome = run(&request.blocks(40), noisy(4, 0.3, |_| 100.0)).unwrap();
    assert_eq!(outcome.status, Status::Budget);
    let verdict = &outcome.verdicts[0];
    assert_eq!(verdict.outcome, stats::Outcome::Undecided);
    assert!(verdict.more_blocks.is_some_and(|more| more > 10), "{verdict:?}");
    assert!(verdict.note.contains("decide it on this machine"), "{}", verdict.note);
    // 100 ms for the warm-up, 300 ms a block.
    assert_eq!((outcome.plan.blocks_max, blocks(&outcome)), (9, 9));
}

#[test]
fn time_that_runs_out_early_still_has_a_last_look() {
    let request = ask(&["tcp", "udp"]).blocks(100).budget(Nanos::from_secs(10));
    let clock = Manual::default();
    let ticking = clock.clone();
    let (mut trials, mut lead) = (0, clear_lead());
    let mut runner = Fake(move |order: &Order| {
        use deadheat_base::time::Clock;
        trials += 1;
        // Three times as slow as in the warm-up.
        let took = if trials == 1 { 100 } else { 300 };
        ticking.advance_to(ticking.now() + Nanos::from_millis(took));
        lead(order)
    });
    let mut observer = crate::race::SilentObserver;
    let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    let outcome = request.run_with(context).unwrap();
    assert_eq!((outcome.plan.blocks_max, blocks(&outcome)), (33, 11));
    assert!(outcome.plan.looks.iter().all(|look| look.blocks > 11));
    assert_eq!(outcome.status, Status::Decided);
    assert_eq!(outcome.verdicts[0].outcome, stats::Outcome::Ahead);
}

#[test]
fn a_single_contender_is_described_without_verdicts() {
    let outcome = run(&ask(&["udp"]), tie()).unwrap();
    assert_eq!((outcome.status, blocks(&outcome)), (Status::Budget, 12));
    assert_eq!((outcome.verdicts.len(), outcome.plan.claims), (0, 0));
    assert_eq!(outcome.summary[0].trials, 12);
    assert_eq!(codes(&outcome), ["single_contender"]);
    assert!(outcome.control.is_some() && outcome.trusted());
}

#[test]
fn a_control_that_is_no_tie_takes_the_trust_away() {
    // A runner cannot distinguish the copy; this one reads the schedule.
    let copies: Vec<(u64, usize)> = (0..40)
        .map(|n| {
            let block = deadheat_result::schedule::block(7, n, &[0, 1], &[]);
            let at = |slot: &deadheat_result::schedule::BlockSlot| {
                slot.role == deadheat_result::schedule::SlotRole::Control
            };
            (block.seed, block.slots.iter().position(at).unwrap())
        })
        .collect();
    let mut turn = BTreeMap::new();
    let outcome = run(&ask(&["tcp", "udp"]).blocks(40), |order| {
        let turn = turn.entry(order.seed).or_insert(0);
        *turn += 1;
        let copy = copies.contains(&(order.seed, *turn - 1));
        ran(order, if copy { 150.0 } else { 100.0 })
    })
    .unwrap();
    assert!(!outcome.trusted());
    assert!(outcome.control.unwrap().note.contains("something other than the transports"));
}

#[test]
fn a_race_whose_trials_answer_other_questions_goes_on_once_it_is_decided() {
    let whole = |least| {
        let request = ask(&["tcp", "udp"]).blocks(12).at_least(least);
        let outcome = run(&request, clear_lead()).unwrap();
        assert_eq!(outcome.status, Status::Decided);
        blocks(&outcome)
    };
    let decided = whole(0);
    assert!(decided < 11);
    assert_eq!((whole(decided + 1), whole(12)), (decided + 1, 12));
}

#[test]
fn a_race_of_all_blocks_has_one_look_after_the_last_and_only_time_ends_it_before() {
    let request = ask(&["tcp", "udp"]).blocks(40).all_blocks();
    let outcome = run(&request, clear_lead()).unwrap();
    assert_eq!((outcome.status, blocks(&outcome)), (Status::Decided, 40));
    let at = |blocks, alpha| stats::Look { blocks, alpha };
    assert_eq!((&outcome.plan.looks[..], outcome.plan.any_time), (&[at(40, 0.05)][..], 0.0));
    let again = run(&replay(&outcome).unwrap(), clear_lead()).unwrap();
    assert_eq!((again.asked.all_blocks, blocks(&again)), (true, 40));
    // 100 ms for the warm-up, 300 ms a block.
    let timed = run(&request.budget(Nanos::from_secs(3)), clear_lead()).unwrap();
    assert_eq!((timed.status, blocks(&timed)), (Status::Decided, 9));
    assert_eq!(timed.plan.looks, [at(9, 0.05)]);
    // As many as fit, by the time of the warm-up.
    let open = Request::new(["tcp", "udp"]).workload(WORKLOAD).all_blocks();
    let fitting = run(&open.clone().budget(Nanos::from_secs(6)), clear_lead()).unwrap();
    assert_eq!((fitting.plan.looks[..].to_vec(), blocks(&fitting)), (vec![at(19, 0.05)], 19));
    let endless = open.check().unwrap_err().to_string();
    assert!(endless.contains("add --blocks 40, or --budget 5m"), "{endless}");
}

#[test]
fn the_same_seed_gives_the_same_race_and_another_another() {
    let race = |seed| run(&ask(&["tcp", "udp"]).seed(seed), repeatable()).unwrap();
    assert_eq!(race(1), race(1));
    assert_ne!(race(1).trials, race(2).trials);
    let unseeded = Request { seed: None, ..ask(&["tcp", "udp"]) };
    assert!(run(&unseeded, tie()).unwrap().seed <= u64::from(u32::MAX));
}

#[test]
fn every_trial_of_a_block_has_the_same_seed() {
    let seeds = Cell::new(BTreeMap::<u64, u32>::new());
    run(&ask(&["tcp", "udp"]), |order| {
        let mut map = seeds.take();
        *map.entry(order.seed).or_default() += 1;
        seeds.set(map);
        ran(order, 100.0)
    })
    .unwrap();
    let mut counts: Vec<u32> = seeds.take().into_values().collect();
    counts.sort_unstable();
    assert_eq!((counts[0], counts[1..].iter().all(|n| *n == 3)), (1, true));
}

#[test]
fn an_observer_sees_a_race_from_pilot_to_end() {
    let mut diary = Diary::default();
    let clock = Manual::default();
    let mut runner = Fake(|order: &Order| ran(order, 100.0));
    let context = RaceContext::new(&mut runner, &mut diary).at(&clock, testing::day());
    ask(&["tcp", "udp"]).blocks(2).run_with(context).unwrap();
    let lines = diary.0.into_inner();
    assert_eq!(lines[..2], ["pilot 1/1", "planned"]);
    let mut first = lines[2..5].to_vec();
    first.sort_unstable();
    assert_eq!(first, ["0: tcp", "0: tcp'", "0: udp"]);
    assert_eq!((lines[5].as_str(), lines[9].as_str()), ("block 1", "block 2"));
    assert_eq!(lines[10..], ["Budget"]);
}

#[test]
fn a_budget_for_too_few_blocks_is_told_before_they_run() {
    let outcome = run(&ask(&["tcp", "udp"]).blocks(3), tie()).unwrap();
    assert_eq!(codes(&outcome), ["budget_too_small"]);
    assert!(outcome.warnings[0].message.contains("6 are the fewest"));
}

#[test]
fn a_race_over_conditions_runs_every_cell_in_every_block_and_compares_within_them() {
    let request = Request::new(["tcp", "udp"])
        .workload(WORKLOAD)
        .vary("placement", ["same-core", "busy"])
        .blocks(12)
        .margin(0.05)
        .seed(5);
    // UDP is ahead on one core only; the control's copies would show if cells were mixed up.
    let mut rng = SplitMix64::new(9);
    let outcome = testing::run(&request, |order| {
        let base = if order.placement == Placement::Busy { 50.0 } else { 100.0 };
        let gain = match (order.contender().as_str(), order.placement) {
            ("udp", Placement::SameCore) => 0.5,
            _ => 1.0,
        };
        ran(order, base * gain * (0.005 * rng.normal()).exp())
    })
    .unwrap();
    assert_eq!(outcome.contenders.len(), 4);
    let metric = &outcome.metrics[0].name;
    let of = |a: usize, b: usize| {
        let mut verdicts = outcome.verdicts.iter();
        verdicts.find(|v| (v.a, v.b) == (a, b) && v.metric == *metric).map(|v| (v.outcome, v.ahead))
    };
    assert_eq!(of(0, 1), Some((stats::Outcome::Ahead, Some(1))));
    assert_eq!(of(2, 3), Some((stats::Outcome::DeadHeat, None)));
    assert_eq!(of(0, 2), None);
    assert_eq!(of(1, 3), None);
    let blocks = deadheat_result::outcome::blocks_done(&outcome);
    for entrant in &outcome.contenders {
        let own = outcome.trials.iter().filter(|t| t.contender == entrant.id && !t.control);
        assert_eq!(own.count() as u64, blocks, "{}", entrant.label);
    }
    let again = replay(&outcome).unwrap().check().unwrap();
    assert_eq!(again.entrants.len(), 4);
    assert_eq!(again.factors, outcome.factors);
}

#[test]
fn a_placement_that_this_machine_has_not_rules_its_cells_out_and_names_them() {
    let request = Request::new(["udp", "udp"]).workload(WORKLOAD).blocks(2);
    let request = request.vary("placement", ["same-core", "0,9999"]);
    let outcome = testing::run(&request, |order| ran(order, 100.0)).unwrap();
    let infeasible: Vec<bool> =
        outcome.contenders.iter().map(|entrant| entrant.infeasible().is_some()).collect();
    assert_eq!(infeasible, [false, false, true, true]);
    assert!(outcome.trials.iter().all(|trial| trial.contender < 2));
}

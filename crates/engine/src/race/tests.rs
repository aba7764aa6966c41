//! Whole races on fake runners in virtual time.

use crate::analysis::derived;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::testing::{self, Diary, WORKLOAD, noisy, ran, run, run_staged};
use super::{Request, replay, resume};
use crate::error::Error;
use crate::host::placement::Placement;
use crate::race::context::{RaceContext, SampleStore, TrialPlace};
use crate::result::journal;
use crate::result::outcome::{Outcome, Status, Trial, UNTRUSTED_GATE};
use crate::rng::SplitMix64;
use crate::stats;
use crate::time::{Manual, Nanos};
use crate::trial::sim::fake::Fake;
use crate::trial::{Order, TrialOutcome};

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
    crate::result::outcome::blocks_done(outcome)
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
        use crate::time::Clock;
        trials += 1;
        // Three times as slow as in the warm-up.
        let took = if trials == 1 { 100 } else { 300 };
        ticking.advance_to(ticking.now() + Nanos::from_millis(took));
        lead(order)
    });
    let mut observer = super::SilentObserver;
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
            let block = super::schedule::block(7, n, &[0, 1], &[]);
            let at =
                |slot: &super::schedule::BlockSlot| slot.role == super::schedule::SlotRole::Control;
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
fn a_blocked_contender_drops_out_with_its_evidence_and_the_race_goes_on() {
    let outcome = run(&ask(&["tcp", "udp", "unix"]), |order| match order.contender().as_str() {
        "unix" => TrialOutcome::Blocked("8 hellos, no answer in 2 s".into()),
        _ => ran(order, 100.0),
    })
    .unwrap();
    assert_eq!(outcome.status, Status::Decided);
    let evidence = outcome.contenders[2].blocked.as_deref();
    assert_eq!(evidence, Some("8 hellos, no answer in 2 s"));
    // Tried twice in the first block, and never again.
    let unix = || outcome.trials.iter().filter(|trial| trial.contender == 2);
    assert_eq!(unix().count(), 2);
    assert!(unix().all(|trial| trial.block == 0 && !trial.record.valid));
    assert_eq!(outcome.verdicts.len(), 1);
    assert_eq!(codes(&outcome), ["blocked"]);
    assert!(outcome.trusted());
}

/// A limit of the server is not the path's fault, so the advice is not about firewalls.
#[test]
fn a_contender_that_a_limit_of_the_server_ends_says_whose_it_is_and_what_raises_it() {
    const LIMIT: &str =
        "the server's limits end it: a trial may run at 10.0 Gbit/s per direction (--max-rate)";
    let outcome = run(&ask(&["tcp", "udp", "unix"]), |order| match order.contender().as_str() {
        "unix" => TrialOutcome::Limited(LIMIT.into()),
        _ => ran(order, 100.0),
    })
    .unwrap();
    assert_eq!(outcome.status, Status::Decided);
    let entrant = &outcome.contenders[2];
    assert_eq!((entrant.limited.as_deref(), entrant.blocked.as_deref()), (Some(LIMIT), None));
    assert_eq!(entrant.out(), Some(("limited", LIMIT)));
    assert_eq!(outcome.trials.iter().filter(|trial| trial.contender == 2).count(), 2);
    assert_eq!(codes(&outcome), ["limited"]);
    let warning = outcome.warnings.iter().find(|warning| warning.code == "limited").unwrap();
    assert!(warning.message.contains("--max-rate"), "{}", warning.message);
    assert!(warning.advice.contains("operator"), "{}", warning.advice);
    assert!(!warning.advice.contains("firewall"), "{}", warning.advice);
    let error = run(&ask(&["tcp"]), |_| TrialOutcome::Limited(LIMIT.into())).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("no contender fits the limits of the far end"), "{said}");
    assert!(said.contains("--max-rate") && !said.contains("blocked"), "{said}");
}

/// The trial is not repeated, and no contender is blamed.
#[test]
fn a_server_that_its_operator_stops_ends_the_race_with_the_blocks_done() {
    let mut trials = 0;
    let outcome = run(&ask(&["tcp", "udp"]), |order| {
        trials += 1;
        match trials {
            ..=8 => ran(order, 100.0),
            9 => TrialOutcome::Failed(Error::stopped(
                "server 10.0.0.1:5210",
                "its operator stopped it",
            )),
            _ => panic!("a stopped server is not asked again"),
        }
    })
    .unwrap();
    assert_eq!((outcome.status, blocks(&outcome)), (Status::Failed, 2));
    let why = outcome.why_failed().unwrap();
    assert!(why.contains("server 10.0.0.1:5210: its operator stopped it"), "{why}");
}

#[test]
fn a_contender_that_breaks_twice_in_a_row_drops_out_and_the_race_goes_on() {
    let break_at = |which: &'static [u32]| {
        let mut trials = 0;
        move |order: &Order| {
            trials += u32::from(order.contender() == "unix");
            match order.contender().as_str() {
                "unix" if which.contains(&trials) => {
                    TrialOutcome::Broke("unix: it panicked".into())
                }
                _ => ran(order, 100.0),
            }
        }
    };
    // Now and then, but never twice in a row.
    let outcome = run(&ask(&["tcp", "udp", "unix"]), break_at(&[2, 4])).unwrap();
    assert!(outcome.contenders.iter().all(|entrant| entrant.failed.is_none()));
    assert_eq!((outcome.verdicts.len(), codes(&outcome)), (3, vec!["gate_failed"]));
    let why = outcome.trials.iter().find_map(|trial| trial.record.why_invalid.as_deref());
    assert_eq!(why, Some("failed: unix: it panicked"));
    // In the second block, twice: its earlier trials do not count.
    let outcome = run(&ask(&["tcp", "udp", "unix"]), break_at(&[2, 3])).unwrap();
    assert_eq!(outcome.status, Status::Decided);
    assert_eq!(outcome.contenders[2].failed.as_deref(), Some("unix: it panicked"));
    assert_eq!(outcome.trials.iter().filter(|trial| trial.contender == 2).count(), 3);
    assert_eq!((outcome.verdicts.len(), codes(&outcome)), (1, vec!["failed"]));
    assert!(outcome.trusted());
    // No contender is left.
    let error = run(&ask(&["tcp"]), |_| TrialOutcome::Broke("it spins".into())).unwrap_err();
    assert_eq!(error.to_string(), "race: no contender is left; tcp: it spins");
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
fn one_blocked_trial_alone_drops_nobody() {
    let mut trials = 0;
    let outcome = run(&ask(&["tcp", "udp"]), |order| {
        trials += 1;
        match trials {
            3 => TrialOutcome::Blocked("a moment of silence".into()),
            _ => ran(order, 100.0),
        }
    })
    .unwrap();
    assert!(outcome.contenders.iter().all(|entrant| entrant.blocked.is_none()));
    let invalid = outcome.trials.iter().find(|trial| !trial.record.valid).unwrap();
    assert_eq!(invalid.record.why_invalid.as_deref(), Some("blocked: a moment of silence"));
    assert_eq!(codes(&outcome), ["gate_failed"]);
}

#[test]
fn a_first_contender_that_is_blocked_leaves_pilot_and_control_to_the_next() {
    let outcome = run(&ask(&["unix", "tcp", "udp"]), |order| match order.contender().as_str() {
        "unix" => TrialOutcome::Blocked("silence".into()),
        _ => ran(order, 100.0),
    })
    .unwrap();
    assert!(outcome.contenders[0].blocked.is_some());
    assert!(outcome.trials.iter().all(|trial| trial.contender != 0));
    assert_eq!(outcome.control.unwrap().contender, 1);
    assert_eq!(outcome.plan.claims, 1);
}

#[test]
fn nobody_left_ends_the_race() {
    let error =
        run(&ask(&["tcp", "udp"]), |_| TrialOutcome::Blocked("silence".into())).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("tcp: silence; udp: silence"), "{said}");
    let mut trials = 0;
    let outcome = run(&ask(&["tcp", "udp"]), |order| {
        trials += 1;
        match trials {
            0..8 => ran(order, 100.0),
            _ => TrialOutcome::Blocked("silence".into()),
        }
    })
    .unwrap();
    assert_eq!(outcome.status, Status::Failed);
    assert!(codes(&outcome).contains(&"trial_failed"));
}

#[test]
fn a_failed_gate_is_repeated_at_the_end_of_the_block_and_stays_listed() {
    let mut trials = 0;
    let outcome = run(&ask(&["tcp", "udp"]), |order| {
        trials += 1;
        let mut end = ran(order, 100.0);
        // The second and, as its repeats, the fifth and sixth trial of the race; the pilot is the first.
        if let TrialOutcome::Ran(record) = &mut end
            && [2, 5].contains(&trials)
        {
            record.valid = false;
            record.why_invalid = Some("the generator was late".into());
        }
        end
    })
    .unwrap();
    let first: Vec<_> = outcome.trials.iter().filter(|trial| trial.block == 0).collect();
    let valid: Vec<bool> = first.iter().map(|trial| trial.record.valid).collect();
    assert_eq!(valid, [false, true, true, false, true]);
    let who = |place: usize| (first[place].contender, first[place].control);
    assert_eq!((who(3), who(4)), (who(0), who(0)));
    let orders: Vec<u64> = first.iter().map(|trial| trial.order).collect();
    assert_eq!(orders, [0, 1, 2, 3, 4]);
    assert_eq!(codes(&outcome), ["gate_failed"]);
    assert!(outcome.trusted());
}

#[test]
fn gates_that_fail_too_often_take_the_trust_away_after_two_repeats_each() {
    let outcome = run(&ask(&["tcp", "udp"]), |order| {
        let mut end = ran(order, 100.0);
        if let TrialOutcome::Ran(record) = &mut end {
            record.valid = order.contender() == "tcp";
        }
        end
    })
    .unwrap();
    let of_first = outcome.trials.iter().filter(|trial| trial.block == 0);
    assert_eq!(of_first.count(), 2 + 3);
    assert_eq!(codes(&outcome), [UNTRUSTED_GATE, "exclusions_differ"]);
    assert!(!outcome.trusted());
    assert_eq!(outcome.verdicts[0].ratio, None);
}

#[test]
fn one_long_trial_that_fails_its_gate_may_have_met_a_bad_moment_and_two_give_up() {
    for (bad, gives_up) in [(1, false), (2, true)] {
        let clock = Manual::default();
        let ticking = clock.clone();
        let mut trials = 0;
        let mut runner = Fake(move |order: &Order| {
            use crate::time::Clock;
            trials += 1;
            ticking.advance_to(ticking.now() + Nanos::from_secs(20));
            let mut end = ran(order, 100.0);
            if let TrialOutcome::Ran(record) = &mut end
                && trials <= bad
            {
                record.valid = false;
                record.why_invalid = Some("the path was late".into());
            }
            end
        });
        let mut observer = super::SilentObserver;
        let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
        match ask(&["tcp", "udp"]).blocks(6).run_with(context) {
            Ok(outcome) => assert!(!gives_up && blocks(&outcome) == 6, "{bad}"),
            Err(error) => {
                assert!(gives_up && error.to_string().contains("2 of 2 trials"), "{bad}: {error}");
            }
        }
    }
}

#[test]
fn a_trial_that_fails_is_tried_again_once() {
    let fail_at = |which: &'static [u32]| {
        let mut trials = 0;
        move |order: &Order| {
            trials += 1;
            match which.contains(&trials) {
                true => TrialOutcome::Failed(Error::peer("far agent", "gone")),
                false => ran(order, 100.0),
            }
        }
    };
    let outcome = run(&ask(&["tcp", "udp"]), fail_at(&[9])).unwrap();
    assert_eq!(outcome.status, Status::Decided);
    assert_eq!(codes(&outcome), ["gate_failed"]);
    // In the third block, twice: the race ends with the two blocks before.
    let outcome = run(&ask(&["tcp", "udp"]), fail_at(&[9, 10])).unwrap();
    assert_eq!((outcome.status, blocks(&outcome)), (Status::Failed, 2));
    assert!(outcome.warnings[0].message.contains("far agent: gone"));
    // In the first block: the only result is the error.
    for which in [&[1, 2][..], &[3, 4]] {
        let which: &'static [u32] = which.to_vec().leak();
        let error = run(&ask(&["tcp", "udp"]), fail_at(which)).unwrap_err();
        assert_eq!(error.to_string(), "far agent: gone");
    }
}

#[test]
fn a_trial_that_fails_keeps_when_it_began_and_how_long_it_took() {
    let clock = Manual::default();
    let ticking = clock.clone();
    let mut trials = 0;
    let mut runner = Fake(move |order: &Order| {
        use crate::time::Clock;
        trials += 1;
        // The ninth is the third of the second block, after a block and a pilot of six or one.
        let takes = if trials == 9 { 23 } else { 1 };
        ticking.advance_to(ticking.now() + Nanos::from_secs(takes));
        match trials {
            9 => TrialOutcome::Failed(Error::peer("far agent", "gone")),
            _ => ran(order, 100.0),
        }
    });
    let mut observer = super::SilentObserver;
    let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    let outcome = ask(&["tcp", "udp"]).blocks(6).run_with(context).unwrap();
    let failed: Vec<&Trial> = outcome.trials.iter().filter(|trial| !trial.record.ran()).collect();
    let [failed] = failed.as_slice() else { panic!("{failed:?}") };
    let since = testing::day().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert_eq!(failed.record.took_ns, 23_000_000_000);
    assert_eq!(failed.record.started_ms, since + 8_000);
}

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
) -> crate::error::Result<Outcome> {
    let clock = Manual::default();
    let mut runner = Fake(trial);
    let mut observer = super::SilentObserver;
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
    ) -> crate::error::Result<()> {
        assert!(main.ends_with("race.samples") && part.ends_with("race.samples.part"));
        self.0.push((place.block, place.order, place.contender, place.control));
        Ok(())
    }

    fn cut(&mut self, main: &Path, first: u64) -> crate::error::Result<()> {
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
    let mut observer = super::SilentObserver;
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
    let (mut observer, mut keep) = (super::SilentObserver, crate::race::samples_file::SamplesFile);
    let clock = Manual::default();
    let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    let context = context.stop(flag).save(&file).keep(&mut keep);
    let broken = ask(&["tcp", "udp"]).run_with(context);
    assert!(matches!(broken, Err(Error::Interrupted)), "{broken:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
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
fn figures_that_are_no_numbers_are_no_figures() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("race.json");
    let outcome = run_staged(
        &ask(&["tcp", "udp"]),
        |order| ran(order, f64::NAN),
        |context| context.save(&file),
    )
    .unwrap();
    assert_eq!(outcome.verdicts[0].ratio, None);
    assert!(outcome.trials.iter().all(|trial| trial.record.metrics.is_empty()));
    assert_eq!(derived::load(&file).unwrap(), outcome);
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
    let blocks = crate::result::outcome::blocks_done(&outcome);
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

/// The path fails its gate in every third trial.
#[test]
fn a_trial_that_its_path_spoiled_is_repeated_and_told() {
    use crate::measurements::path::{DirectionFigures, LinkFigures, PacketOutcomes, PathFigures};
    let mut noise = noisy(5, 0.01, |_| 100.0);
    let mut turn = 0;
    let request = Request::new(["tcp", "udp"])
        .workload(WORKLOAD)
        .path("delay=25ms,loss=1%")
        .blocks(4)
        .margin(0.05)
        .seed(3);
    let outcome = run(&request, |order| {
        turn += 1;
        let TrialOutcome::Ran(mut record) = noise(order) else { panic!("the noise always runs") };
        let fates = PacketOutcomes {
            arrived: 1_000,
            delivered: 990,
            lost: 10,
            ..PacketOutcomes::default()
        };
        let way = DirectionFigures { fates, ..DirectionFigures::default() };
        let link = LinkFigures { up: way.clone(), down: way };
        record.path = Some(PathFigures { links: vec![link] });
        if turn % 3 == 0 {
            record.valid = false;
            record.why_invalid = Some("the path was late".into());
            record.path_invalid.clone_from(&record.why_invalid);
        }
        TrialOutcome::Ran(record)
    })
    .unwrap();
    let spoiled = outcome.trials.iter().filter(|t| t.record.path_invalid.is_some()).count();
    let valid = outcome.trials.iter().filter(|t| t.record.valid).count();
    assert_eq!(valid, 12, "two contenders and the control in four blocks");
    assert!(spoiled >= 4, "{spoiled}");
    let [up, down] = outcome.path_ways.as_slice() else { panic!("{:?}", outcome.path_ways) };
    assert_eq!((up.packets, down.lost, up.trials), (12_000, 120, 12));
    // Three trials in each of four blocks share a seed: 4 × 1000 draws of 1 %.
    let (low, high) = (up.loss_low.unwrap(), up.loss_high.unwrap());
    assert!((0.005..0.007).contains(&low) && (0.013..0.016).contains(&high), "{low} {high}");
    let warning = outcome.warnings.iter().find(|w| w.code.starts_with("gate_failed")).unwrap();
    assert!(warning.message.contains("failed their gate, all for the path; the first: the path"));
    assert!(warning.advice.contains("a CPU of their own"), "{}", warning.advice);
    assert_eq!(replay(&outcome).unwrap().asked().path, "delay=25ms,loss=1%");
}

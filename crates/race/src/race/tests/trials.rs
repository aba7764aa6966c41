//! Trials that are blocked, fail, break or miss their gate, and contenders that drop out by them.

use super::{ask, blocks, codes};
use crate::race::context::RaceContext;
use crate::race::testing::{self, OnPath, WORKLOAD, noisy, ran, run, run_staged};
use crate::race::{Request, SilentObserver, replay};
use deadheat_base::error::Error;
use deadheat_base::time::{Manual, Nanos};
use deadheat_path::PathKind;
use deadheat_result::analysis::{derived, no_figures};
use deadheat_result::outcome::{Status, Trial, UNTRUSTED_GATE};
use deadheat_result::schedule;
use deadheat_trial::sim::fake::Fake;
use deadheat_trial::{Order, TrialOutcome};

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

/// What breaks on these draws breaks on them again.
#[test]
fn in_virtual_time_a_broken_trial_is_not_repeated_and_two_blocks_in_a_row_drop_its_contender() {
    let race = |broken: &'static [u64]| {
        let fake = Fake(move |order: &Order| {
            let is_of =
                |block: &u64| schedule::block(7, *block, &[0, 1, 2], &[]).seed == order.seed;
            match order.contender().as_str() {
                "unix" if broken.iter().any(is_of) => TrialOutcome::Broke("unix: it hangs".into()),
                _ => ran(order, 100.0),
            }
        });
        let (clock, mut observer) = (Manual::default(), SilentObserver);
        let mut runner = OnPath(fake, PathKind::Simulated);
        let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
        ask(&["tcp", "udp", "unix"]).seed(7).blocks(8).all_blocks().run_with(context).unwrap()
    };
    let now_and_then = race(&[2, 4, 6]);
    assert!(now_and_then.contenders.iter().all(|entrant| entrant.failed.is_none()));
    let own = |trial: &&Trial| trial.contender == 2;
    assert_eq!(now_and_then.trials.iter().filter(own).count(), 8, "one in each block");
    let twice = race(&[4, 5]);
    assert_eq!(twice.contenders[2].failed.as_deref(), Some("unix: it hangs"));
    assert_eq!(twice.trials.iter().filter(own).count(), 6);
}

#[test]
fn a_race_that_cannot_succeed_ends_after_two_blocks_with_the_reason_and_what_would_do() {
    let refused = |order: &Order, who: &[&str]| {
        let TrialOutcome::Ran(mut record) = ran(order, 100.0) else { unreachable!() };
        if who.contains(&order.contender().as_str()) {
            record.valid = false;
            record.why_invalid = Some(format!("sends were late by {} ms", record.metrics.len()));
        }
        TrialOutcome::Ran(record)
    };
    let contenders = Request::new(["tcp", "udp", "unix"]);
    let request = contenders.workload(WORKLOAD).margin(0.05).seed(7);
    let race = |who: &'static [&'static str]| {
        let mut trials = 0;
        run(&request, move |order| {
            trials += 1;
            if trials == 1 { ran(order, 100.0) } else { refused(order, who) }
        })
        .unwrap()
    };
    for who in [&["tcp", "udp", "unix"][..], &["tcp", "unix"]] {
        let outcome = race(who);
        assert_eq!((outcome.status, blocks(&outcome)), (Status::Failed, 2), "{who:?}");
        let why = outcome.why_failed().unwrap();
        assert!(why.contains(" do not count after 2 blocks"), "{why}");
        assert!(why.contains(&who.join(" and ")) && why.contains("sends were late by"), "{why}");
        let ended = outcome.warnings.iter().find(|one| one.code == "race_failed").unwrap();
        assert!(ended.advice.contains("ask for less"), "{}", ended.advice);
    }
    // Two can still be told apart.
    let outcome = race(&["unix"]);
    assert_ne!(outcome.status, Status::Failed);
    assert!(blocks(&outcome) > 2);
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

/// A host so busy that every trial is refused, from the first on, and one that is calm again once the pilot is over.
#[test]
fn what_was_measured_is_kept_where_every_gate_fails() {
    let request = Request::new(["tcp", "udp"]).workload(WORKLOAD).margin(0.05).seed(7);
    for bad in [u64::MAX, 3] {
        let mut trials = 0;
        let outcome = run(&request, |order| {
            trials += 1;
            let mut end = ran(order, 100.0);
            if let TrialOutcome::Ran(record) = &mut end
                && trials <= bad
            {
                record.valid = false;
                record.why_invalid =
                    Some("99th percentile 341 ms, where at most 2.00 ms may be".into());
            }
            end
        });
        let outcome = outcome.unwrap();
        assert_eq!(blocks(&outcome) == 2, bad > 3, "{}", blocks(&outcome));
        assert_eq!(outcome.trusted(), bad == 3);
        let shown = no_figures::untrusted(&outcome);
        let figures: Vec<(&str, f64, usize)> =
            shown.iter().map(|one| (one.contender, one.median, one.trials)).collect();
        let want = [("tcp", 100.0, 6), ("udp", 100.0, 6)];
        assert_eq!(figures, if bad == 3 { &want[..0] } else { &want[..] });
        assert!(outcome.verdicts.iter().all(|verdict| bad == 3 || verdict.ratio.is_none()));
    }
}

/// UDP is blocked, and TCP would race alone for the rest of the time.
#[test]
fn a_race_with_nothing_left_to_compare_ends() {
    let request = Request::new(["tcp", "udp", "quic"]).workload(WORKLOAD).margin(0.05).seed(7);
    let trial = |order: &Order| match order.contender().as_str() {
        "tcp" => ran(order, 100.0),
        _ => TrialOutcome::Blocked("UDP does not arrive".into()),
    };
    let outcome = run(&request, trial).unwrap();
    assert_eq!((blocks(&outcome), outcome.status), (1, Status::Budget));
    assert!(codes(&outcome).contains(&"nothing_to_compare"), "{:?}", codes(&outcome));
    let asked = run(&request.blocks(8), trial).unwrap();
    assert_eq!(blocks(&asked), 8, "blocks that were asked for are run");
    let alone = run(&ask(&["tcp"]).blocks(8), |order| ran(order, 100.0)).unwrap();
    assert_eq!(blocks(&alone), 8, "one that was asked for alone goes on");
}

#[test]
fn a_trial_that_fails_is_tried_again_once() {
    let fail_at = |which: &'static [u32]| {
        let mut trials = 0;
        move |order: &Order| {
            trials += 1;
            if which.contains(&trials) {
                TrialOutcome::Failed(Error::peer("far agent", "gone"))
            } else {
                ran(order, 100.0)
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
        use deadheat_base::time::Clock;
        trials += 1;
        // The ninth is the third of the second block, after a block and a pilot of six or one.
        let takes = if trials == 9 { 23 } else { 1 };
        ticking.advance_to(ticking.now() + Nanos::from_secs(takes));
        match trials {
            9 => TrialOutcome::Failed(Error::peer("far agent", "gone")),
            _ => ran(order, 100.0),
        }
    });
    let mut observer = crate::race::SilentObserver;
    let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    let outcome = ask(&["tcp", "udp"]).blocks(6).run_with(context).unwrap();
    let failed: Vec<&Trial> = outcome.trials.iter().filter(|trial| !trial.record.ran()).collect();
    let [failed] = failed.as_slice() else { panic!("{failed:?}") };
    let since = testing::day().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert_eq!(failed.record.took_ns, 23_000_000_000);
    assert_eq!(failed.record.started_ms, since + 8_000);
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

/// The path fails its gate in every third trial.
#[test]
fn a_trial_that_its_path_spoiled_is_repeated_and_told() {
    use deadheat_contract::measurements::path::{
        DirectionFigures, LinkFigures, PacketOutcomes, PathFigures,
    };
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

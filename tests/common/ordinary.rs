//! The race of a new user: two contenders and a floor, with a fixed margin.

use std::collections::BTreeMap;

use deadheat::measurements::{Account, Ledger};
use deadheat::path::PathKind;
use deadheat::records::trial::PathFacts;
use deadheat::result::outcome::{
    Control, Difference, Effect, Outcome, Ratio, Status, Summary, Trial, Verdict, Warning,
};
use deadheat::rng::SplitMix64;
use deadheat::stats;

use super::{BBR, TCP, UNIX};

const BLOCKS: u64 = 93;

/// Returns a race that is just undecided: `udp` leads, and it is open whether by more than the margin.
pub(crate) fn ordinary() -> Outcome {
    let mut outcome = super::full();
    outcome.title = None;
    outcome.labels.clear();
    outcome.peer_host = None;
    outcome.path = PathFacts {
        spec: "loopback".into(),
        kind: PathKind::Loopback,
        address: "127.0.0.1".into(),
        built: None,
        reached: None,
        far_end: None,
    };
    outcome.asked.path = "loopback".into();
    outcome.asked.to = None;
    outcome.asked.family = None;
    outcome.asked.contenders = ["tcp", "udp", "icmp"].map(String::from).to_vec();
    outcome.asked.workload = "ping:size=64,interval=1ms,timeout=3s".into();
    outcome.plan.workload = Some("ping:size=64,interval=1ms,count=100,timeout=3s".into());
    outcome.plan.workload_reason =
        Some("as many messages as the percentile needs: 100 for p50".into());
    outcome.plan.margin_reason = "nothing else was asked".into();
    outcome.plan.claims = 1;
    outcome.plan.blocks_max = 97;
    outcome.asked.margin = None;
    outcome.explain = None;
    outcome.status = Status::Budget;
    outcome.contenders.retain(|one| ![UNIX, BBR].contains(&one.id));
    for (id, one) in (0..).zip(&mut outcome.contenders) {
        one.id = id;
        one.blocked = None;
    }
    outcome.contenders[2].implementation = "icmp/linux-6.18".into();
    outcome.trials = trials();
    outcome.summary = [(0, 78_000.0), (1, 74_100.0), (2, 15_100.0)].map(summary).to_vec();
    outcome.verdicts = vec![verdict()];
    outcome.control = Some(control());
    outcome.differences = ["delivery", "order", "framing"].map(difference).to_vec();
    outcome.warnings.clear();
    outcome
}

/// Returns the same race with everything that makes a first screen long.
pub(crate) fn crowded() -> Outcome {
    let mut outcome = ordinary();
    let note = |code: &str| Warning {
        code: code.into(),
        message: format!("{code}: something was seen here that takes a sentence of its own to say"),
        advice: "do something about it, which takes another sentence of the same length".into(),
    };
    outcome.warnings =
        ["receive_buffer", "two_regimes", "send_queue", "load", "steal"].map(note).to_vec();
    outcome.unfiltered = vec![Verdict {
        outcome: stats::Outcome::Ahead,
        ahead: Some(1),
        ..outcome.verdicts[0].clone()
    }];
    for trial in outcome.trials.iter_mut().filter(|trial| trial.contender == 1).take(12) {
        trial.record.valid = false;
        trial.record.why_invalid =
            Some(format!("2.{} % of messages left over 100 µs late", trial.block % 10));
    }
    outcome
}

fn trials() -> Vec<Trial> {
    let mut rng = SplitMix64::new(5);
    let mut trials = Vec::new();
    for block in 0..BLOCKS {
        let drift = 0.02 * rng.normal();
        let mut order = 0;
        let mut add = |contender, control, base: f64| {
            let figure = base * (drift + 0.015 * rng.normal()).exp();
            let metrics = BTreeMap::from([
                ("rtt_p50_ns".to_owned(), figure),
                ("rtt_p99_ns".to_owned(), 1.8 * figure),
            ]);
            let mut record = deadheat::result::testing::record(metrics);
            record.started_ms = 1_773_500_966_000 + 376 * block + 94 * order;
            record.took_ns = 94_000_000;
            record.ledger = Ledger {
                round_trip: Some(Account {
                    unit: "messages".into(),
                    sent: 100,
                    delivered: 100,
                    ..Account::COUNTED
                }),
                ..Ledger::default()
            };
            trials.push(Trial { block, order, contender, control, record });
            order += 1;
        };
        add(1, false, 74_100.0);
        add(0, false, 78_000.0);
        add(0, true, 78_000.0);
        if block % 10 == 0 {
            add(2, false, 15_100.0);
        }
    }
    for (at, who) in [(17, "tcp"), (130, "udp"), (131, "tcp")] {
        trials[at].record.valid = false;
        trials[at].record.why_invalid =
            Some(format!("2 % of messages left over 100 µs late ({who})"));
    }
    trials
}

fn summary((contender, estimate): (usize, f64)) -> Summary {
    Summary {
        contender,
        metric: "rtt_p50_ns".into(),
        estimate,
        low: Some(estimate * 0.994),
        high: Some(estimate * 1.006),
        trials: BLOCKS,
        censored: false,
        regimes: None,
        clock_bound_ns: None,
    }
}

fn verdict() -> Verdict {
    Verdict {
        metric: "rtt_p50_ns".into(),
        a: TCP,
        b: 1,
        outcome: stats::Outcome::Undecided,
        ahead: None,
        ratio: Some(Ratio { point: 1.05, low: 1.007, high: 1.1 }),
        difference: None,
        margin: 0.05,
        confidence: 0.95,
        blocks: BLOCKS,
        known_since: None,
        more_blocks: Some(610),
        more_ns: Some(229_000_000_000),
        direction: Some(1),
        resolution: Some(0.045),
        effect: Some(Effect { point: 3_700.0, low: 520.0, high: 7_100.0 }),
        note: "udp is ahead of tcp: RTT p50 is 5 % lower (0.7 to 9 %), by 3.70 µs; whether by more than \
               the 5 % that matter is open. About 4 min more should decide it on this machine."
            .into(),
    }
}

fn control() -> Control {
    Control {
        contender: TCP,
        verdicts: vec![Verdict {
            b: TCP,
            ratio: Some(Ratio { point: 1.006, low: 0.97, high: 1.06 }),
            direction: None,
            effect: Some(Effect { point: 468.0, low: -2_340.0, high: 4_680.0 }),
            known_since: Some(20),
            more_blocks: None,
            more_ns: None,
            note: "tcp and its hidden copy: undecided.".into(),
            ..verdict()
        }],
        trusted: true,
        note: "identical copies of tcp differed by 0.6 %, no more than chance does".into(),
    }
}

fn difference(what: &str) -> Difference {
    let values = [("tcp", "one way"), ("udp", "another")];
    Difference {
        what: what.into(),
        values: values.map(|(label, value)| (label.to_owned(), value.to_owned())).into(),
        matters: "It matters.".into(),
    }
}

/// Returns a race of an older version, with a margin that grew with the noise.
pub(crate) fn widened() -> Outcome {
    let mut outcome = ordinary();
    outcome.plan.margin = 0.41;
    outcome.plan.margin_reason = "the least that this host resolves".into();
    outcome.plan.workload = None;
    outcome.plan.workload_reason = None;
    outcome.plan.replans.clear();
    let control = outcome.control.iter_mut().flat_map(|control| &mut control.verdicts);
    for verdict in outcome.verdicts.iter_mut().chain(control) {
        verdict.outcome = stats::Outcome::DeadHeat;
        (verdict.margin, verdict.ahead) = (0.41, None);
        (verdict.direction, verdict.resolution, verdict.effect) = (None, None, None);
        (verdict.more_blocks, verdict.more_ns) = (None, None);
        verdict.note =
            "tcp and udp: dead heat, RTT p50 within 41 % (ratio 1.12, 0.86 to 1.39)".into();
    }
    outcome
}

/// Returns every kind of end of a race, by name.
pub(crate) fn kinds() -> Vec<(&'static str, Outcome)> {
    let alone = {
        let mut outcome = ordinary();
        outcome.contenders.truncate(1);
        outcome.verdicts.clear();
        outcome.trials.retain(|trial| trial.contender == TCP);
        outcome.summary.truncate(1);
        outcome
    };
    let failed = {
        let mut outcome = ordinary();
        outcome.status = Status::Failed;
        outcome.warnings.push(Warning {
            code: "trial_failed".into(),
            message: "a trial failed twice: no route to host".into(),
            advice: "mend what the message names".into(),
        });
        outcome
    };
    let interrupted = Outcome { status: Status::Interrupted, ..ordinary() };
    let blocked = {
        let mut outcome = ordinary();
        outcome.contenders[2].blocked = Some("no answer".into());
        outcome.trials.retain(|trial| trial.contender != 2);
        outcome.summary.truncate(2);
        outcome
    };
    let distrusted = {
        let mut outcome = ordinary();
        if let Some(control) = &mut outcome.control {
            control.trusted = false;
            control.note = "tcp differs from its own hidden copy by 14 % (6 to 23 %)".into();
        }
        outcome
    };
    vec![
        ("ordinary", ordinary()),
        ("crowded", crowded()),
        ("widened", widened()),
        ("alone", alone),
        ("failed", failed),
        ("interrupted", interrupted),
        ("blocked", blocked),
        ("distrusted", distrusted),
        ("four", super::full()),
        ("duel", super::duel()),
        ("varied", super::varied()),
        ("emulated", super::emulated()),
        ("minimal", super::minimal()),
    ]
}

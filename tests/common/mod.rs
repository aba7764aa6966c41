//! Saved results built by hand: one with every feature of a result, one that is nearly empty,
//! and one with a hostile text in every name.

#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a failed test")]

mod causes;
pub(crate) mod large;
pub(crate) mod map;
pub(crate) mod ordinary;
pub(crate) mod study;

use std::collections::BTreeMap;
use std::net::IpAddr;

use deadheat::analysis::judgement::DecisionStage;
use deadheat::analysis::{shares, verdicts};
use deadheat::contract::Direction;
use deadheat::measurements::congestion::CongestionPhase;
use deadheat::measurements::path::{Captured, DirectionFigures, L4sOutcomes, LinkFigures};
use deadheat::measurements::path::{
    PacketOutcomes, PathFigures, QueueCourse, WireEnd, WireFigures,
};
use deadheat::measurements::rounds::Rounds;
use deadheat::measurements::series::{Point, RoundTrips, Series};
use deadheat::measurements::{
    Account, Allocations, Better, ClockEstimate, ClockNeed, ContentState, Cost, Distribution,
    Fallback, FallbackCause, HostCounters, Ledger, Marks, Metric, Outage, PacedFlow, Pacing,
    Packets, Quantile, Role, TcpView, Throttled, Unit, Verified, WarmUp, Wire,
};
use deadheat::path::PathKind;
use deadheat::path::gate::LatenessLimits;
use deadheat::records::host::HostFacts;
use deadheat::records::parts::{Clocks, Part, PartTime, RoundTrip};
use deadheat::records::path::{BuiltLink, BuiltPath, BuiltWay, TraceFile};
use deadheat::records::placement::Placement;
use deadheat::records::quiet::LevelChange;
use deadheat::records::quiet::{Disturbance, Disturber, HostQuiet, HostState, ProbePoint};
use deadheat::records::trial::{PathFacts, Record};
use deadheat::result::contest::{Contest, Harm, Portion};
use deadheat::result::explained::{
    BulkEnd, BulkTransfer, Calls, Explanation, Explanations, Userspace, UserspaceEnd,
};
use deadheat::result::imported::{
    DateSource, ImportOrigin, ImportPairing, ImportedFile, PairedBy, Spread, SpreadOver,
};
use deadheat::result::outcome::{
    Cell, Control, Difference, Effect, Entrant, Factor, KneeAt, KneePlace, LevelRatio, Outcome,
    Program, Ratio, RecordedPlan, RecordedRequest, Replan, ShareKind, Status, Summary, Sweep,
    Trial, VarianceShare, Verdict, Warning,
};
use deadheat::result::path_way::PathWay;
use deadheat::rng::SplitMix64;
use deadheat::stats;

const BLOCKS: u64 = 8;
const MESSAGES: u64 = 20_000;
const TIMEOUT_NS: u64 = 3_000_000_000;

pub(crate) const TCP: usize = 0;
pub(crate) const UNIX: usize = 1;
pub(crate) const UDP: usize = 2;
pub(crate) const BBR: usize = 3;
pub(crate) const ICMP: usize = 4;

/// Returns [`full`] as a race over conditions, with the fields of format 1 that it lacks.
pub(crate) fn everything() -> Outcome {
    let mut outcome = full();
    outcome.host.cpu_quota_milli = Some(1_500);
    if let Some(far) = &mut outcome.peer_host {
        far.reached_at = Some([192, 0, 2, 7].into());
    }
    let factor = Factor {
        name: "placement".into(),
        levels: ["same-core", "busy"].map(String::from).to_vec(),
    };
    outcome.asked.vary = vec![factor.clone()];
    outcome.factors = vec![factor];
    for (contender, entrant) in outcome.contenders.iter_mut().enumerate() {
        entrant.cell = Some(Cell {
            contender,
            levels: vec![0],
            workload: "ping:size=64".into(),
            placement: Some(Placement::SameCore),
            infeasible: (contender == BBR).then(|| "this host has one CPU".into()),
            rivals: (contender == UDP).then(Vec::new),
        });
    }
    outcome.shares = shares();
    let at = |place, mbps: f64| KneeAt { place, bps: mbps * 1e6 };
    let knee = Sweep {
        contender: UDP,
        conditions: map(&[("placement", "busy")]),
        knee: at(KneePlace::At, 4.98),
        low: Some(at(KneePlace::At, 4.9)),
        high: Some(at(KneePlace::At, 5.05)),
        blocks: BLOCKS,
    };
    let open = Sweep {
        contender: TCP,
        knee: at(KneePlace::Above, 16.0),
        low: None,
        high: None,
        ..knee.clone()
    };
    outcome.sweeps = vec![knee, open];
    let share = Portion { point: 0.7, low: Some(0.65), high: Some(0.75) };
    outcome.contests = vec![Contest {
        contender: TCP,
        load: "tcp:cc=bbr".into(),
        fair_share: Some(0.5),
        share: Some(share),
        flow_shares: vec![0.35, 0.35, 0.3],
        outcome: Some(stats::Outcome::Ahead),
        harms: vec![Harm { metric: outcome.metrics[0].name.clone(), portion: share }],
        queued_ns: Some(12e6),
        dropped_share: Some(0.01),
        marked_share: Some(0.02),
        blocks: BLOCKS,
    }];
    outcome.imported = Some(imported());
    outcome.asked.resolve = Some(0.02);
    outcome.asked.claims_all = true;
    outcome.unfiltered = outcome.verdicts[..1].to_vec();
    let Outcome { path, path_ways, trials, .. } = emulated();
    let trial = trials.into_iter().find(|trial| trial.record.path_invalid.is_some());
    outcome.trials.extend(trial.map(|trial| Trial { order: 99, ..trial }));
    throttle(&mut outcome.trials[0]);
    Outcome { path, path_ways, ..outcome }
}

/// Returns the shares of a factor and of noise.
fn shares() -> Vec<VarianceShare> {
    let share = VarianceShare {
        metric: "rtt_p50_ns".into(),
        kind: ShareKind::Factor,
        factor: "placement".into(),
        share: 0.71,
        low: Some(0.66),
        high: Some(0.75),
        raw: 0.712,
        trials: 80,
        left_out: 1,
        blocks: BLOCKS,
        levels: vec![LevelRatio {
            level: "busy".into(),
            against: "same-core".into(),
            ratio: 0.31,
            low: Some(0.29),
            high: Some(0.34),
            blocks: BLOCKS,
        }],
    };
    let noise = VarianceShare {
        kind: ShareKind::Noise,
        factor: "noise".into(),
        share: 0.29,
        levels: Vec::new(),
        ..share.clone()
    };
    vec![share, noise]
}

/// Makes a trial one on one machine, under a quota.
fn throttle(trial: &mut Trial) {
    let throttled = Some(Throttled { times: 12, held_ns: 340_000_000 });
    (trial.record.throttled, trial.record.far_throttled) = (throttled, throttled);
}

/// Returns every field about an imported file.
fn imported() -> ImportOrigin {
    let file = ImportedFile {
        name: "udp_ms.txt".into(),
        sha256: "435b3985b819253326e53231c35a1d298779f2c7dc40da027ee10eaff8f611e0".into(),
        format: "plain".into(),
        program: Some("awk 5".into()),
        unit: "ms".into(),
        trial: "a number".into(),
        contenders: vec![UDP],
        trials: 1000,
        unknown: vec!["lost samples".into()],
        doubts: vec!["The order is lost: the numbers are sorted.".into()],
    };
    let spread = Spread {
        contender: UDP,
        what: "time".into(),
        unit: Unit::Nanos,
        over: SpreadOver::Samples,
        n: 998,
        lost: 2,
        min: 412e6,
        q1: Some(421e6),
        median: Some(424e6),
        q3: Some(428e6),
        max: 511e6,
    };
    ImportOrigin {
        pairing: Some(ImportPairing {
            by: PairedBy::Column,
            blocks: 2,
            incomplete: 1,
            first: Some(0),
        }),
        dated: DateSource::ByFiles,
        files: vec![file],
        spreads: vec![spread],
        basis: "One contender: there is nothing to compare it with.".into(),
        lacks: "Not known from the files: lost samples.".into(),
    }
}

/// Returns [`duel`] over an emulated path of two links, which failed its gate once.
pub(crate) fn emulated() -> Outcome {
    let mut outcome = duel();
    let spec = "delay=25ms,up.loss=1%,rate=20mbit,seed=7 + delay=40ms,trace=train.txt";
    outcome.asked.to = None;
    outcome.asked.path = spec.into();
    outcome.peer_host = None;
    outcome.path = PathFacts {
        spec: spec.into(),
        kind: PathKind::Emulated,
        address: "198.18.0.2".into(),
        built: Some(Box::new(built_path())),
        reached: None,
        far_end: None,
    };
    let ways = [(0, Direction::Up), (0, Direction::Down), (1, Direction::Up), (1, Direction::Down)];
    outcome.path_ways = ways.map(path_way).to_vec();
    for trial in &mut outcome.trials {
        trial.record.path = Some(path_figures());
    }
    if let Some(trial) = outcome.trials.iter_mut().find(|trial| trial.contender == UDP) {
        let why = "the path released packets up on link 1 too late: 99th percentile 480 µs, where at \
                   most 400 µs may be; leave the path's threads a CPU";
        trial.record.valid = false;
        trial.record.why_invalid = Some(why.into());
        trial.record.path_invalid = Some(why.into());
    }
    outcome
}

fn built_path() -> BuiltPath {
    let rated = |loss| BuiltWay {
        loss_share: Some(loss),
        rate_bps: Some(20_000_000),
        nic_bps: Some(10_000_000_000),
        trace: None,
    };
    let traced = BuiltWay {
        loss_share: Some(0.0),
        rate_bps: None,
        nic_bps: Some(10_000_000_000),
        trace: Some(TraceFile {
            file: "train.txt".into(),
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
            length_ns: 60_000_000_000,
        }),
    };
    let addresses = |link: u8, host: u8| vec![IpAddr::from([198, 18, link, host])];
    let link = |at: u8, words: &str, up: BuiltWay, down: BuiltWay| BuiltLink {
        words: words.into(),
        near: addresses(at, 1),
        far: addresses(at, 2),
        up,
        down,
    };
    BuiltPath {
        backend: "tun".into(),
        why: "the best that this host allows".into(),
        grouping: "strict".into(),
        wait: "hybrid".into(),
        mtu: 1_500,
        seed: Some(7),
        rtt_least_ns: Some(50_000_000),
        lateness_limits: LatenessLimits { p50_ns: 80_000, p99_ns: 400_000 },
        links: vec![
            link(0, "delay=25ms,up.loss=1%,rate=20mbit", rated(0.01), rated(0.0)),
            link(1, "delay=40ms,trace=train.txt", traced.clone(), traced),
        ],
        roles: [("near", "home"), ("far", "cloud"), ("relay", "office")]
            .map(|(role, host)| (role.to_owned(), vec![host.to_owned()]))
            .into(),
    }
}

fn path_way((link, direction): (usize, Direction)) -> PathWay {
    let up = (link, direction) == (0, Direction::Up);
    PathWay {
        link,
        direction,
        trials: 23,
        packets: 460_123,
        blocked: if up { 123 } else { 0 },
        down: if up { 45 } else { 0 },
        lost: if up { 4_607 } else { 0 },
        queue_drops: if up { 31 } else { 0 },
        marked: 5,
        duplicated: 4,
        corrupted: 3,
        reordered: 2,
        loss_low: Some(if up { 0.009_1 } else { 0.0 }),
        loss_high: Some(if up { 0.010_9 } else { 0.0 }),
        rate_bps: (link == 0).then_some(19_999_870.0),
        queued_p50_ns: up.then_some(1_204_000.0),
        queued_p99_ns: up.then_some(9_700_000.0),
        late_p50_ns: Some(2_310.0),
        late_p99_ns: Some(61_200.0),
    }
}

fn wire_figures() -> WireFigures {
    let end = |gap| WireEnd {
        packets: 12_345,
        gaps_ns: rtt(gap, 0, false),
        train_packets: rtt(4, 0, false),
        in_short_trains: 9_000,
        pacing_error_ns: rtt(gap / 2, 0, false),
    };
    WireFigures {
        data_packets: 12_000,
        ack_packets: 345,
        entrance: end(900_000),
        exit: end(1_000_000),
    }
}

fn path_figures() -> PathFigures {
    let way = DirectionFigures {
        fates: PacketOutcomes {
            arrived: MESSAGES + 2,
            arrived_bytes: 92 * (MESSAGES + 2),
            blocked: 2,
            down: 3,
            delivered: MESSAGES - 200,
            delivered_bytes: 92 * (MESSAGES - 200),
            lost: 201,
            bursts: 199,
            full: 2,
            early: 1,
            marked: 1,
            l4s: L4sOutcomes { arrived: 2, full: 0, early: 0, marked: 1 },
            duplicated: 3,
            corrupted: 1,
            reordered: 2,
            waiting: 1,
            busy_ns: 900_000_000,
            busy_bytes: 2_250_000,
            digest: 0x1234_5678_9abc_def0,
        },
        lateness_ns: Some(rtt(2_300, 0, false)),
        queued_ns: Some(rtt(1_200_000, 0, false)),
        queue_course: Some(QueueCourse {
            began_ns: Some(1_800_000_000_000_000_000),
            every_ns: 20_000_000,
            longest_ns: vec![0, 1_200_000, 1_190_000, 400_000],
        }),
        l4s_queued_ns: Some(rtt(600_000, 0, false)),
        losses: Some("5-6/40".into()),
        wire: Some(Box::new(wire_figures())),
        device_drops: 0,
        writes: 12_345,
    };
    let link = LinkFigures { up: way.clone(), down: way };
    PathFigures { links: vec![link.clone(), link] }
}

/// Returns round trips of two contenders under two placements and three sizes, of which one combination
/// is not possible: four times as long on one core as with `busy` ends, up to 1.6 times with the
/// size, and `udp` 6 % faster on one core alone.
pub(crate) fn varied() -> Outcome {
    let factor = |name: &str, levels: &[&str]| Factor {
        name: name.into(),
        levels: levels.iter().map(ToString::to_string).collect(),
    };
    let mut outcome = Outcome {
        factors: vec![
            factor("placement", &["same-core", "busy"]),
            factor("size", &["64", "1kB", "60kB"]),
        ],
        contenders: Vec::new(),
        trials: Vec::new(),
        summary: Vec::new(),
        verdicts: Vec::new(),
        control: None,
        ..duel()
    };
    outcome.asked.contenders = ["tcp", "udp"].map(String::from).to_vec();
    outcome.asked.vary.clone_from(&outcome.factors);
    for cell in 0..12 {
        let (contender, levels) = (cell % 2, vec![cell / 6, cell / 2 % 3]);
        let names = [0, 1].map(|at| outcome.factors[at].levels[levels[at]].clone());
        let base = contenders().swap_remove([TCP, UDP][contender]);
        let impossible = contender == 1 && levels == [1, 2];
        outcome.contenders.push(Entrant {
            id: cell,
            label: format!("{} · placement={}, size={}", base.label, names[0], names[1]),
            cell: Some(Cell {
                contender,
                levels,
                workload: format!("ping:size={}", names[1]),
                placement: Some([Placement::SameCore, Placement::Busy][cell / 6]),
                infeasible: impossible.then(|| "the other end has no CPU of its own".into()),
                rivals: None,
            }),
            ..base
        });
    }
    let mut rng = SplitMix64::new(11);
    for block in 0..12 {
        for (order, entrant) in (0..).zip(outcome.contenders.clone()) {
            let Some(cell) = entrant.cell.filter(|cell| cell.infeasible.is_none()) else {
                continue;
            };
            let size = [1.0, 1.1, 1.6][cell.levels[1]];
            let place = [4.0, 1.0][cell.levels[0]];
            let gain = if (cell.contender, cell.levels[0]) == (1, 0) { 0.94 } else { 1.0 };
            let figure = 10_000.0 * size * place * gain * (0.03 * rng.normal()).exp();
            let metrics = BTreeMap::from([("rtt_p50_ns".to_owned(), figure)]);
            let record = deadheat::result::testing::record(metrics);
            let trial = Trial { block, order, contender: entrant.id, control: false, record };
            if entrant.id == 0 {
                // The hidden copy of the first, 0.1 % apart.
                let mut copy = Trial { control: true, order: 12, ..trial.clone() };
                copy.record.metrics.values_mut().for_each(|figure| *figure *= 1.001);
                outcome.trials.push(copy);
            }
            outcome.trials.push(trial);
        }
    }
    verdicts::refresh(&mut outcome, DecisionStage::Look { alpha: 0.05, next: None });
    outcome.shares = shares::shares(&outcome);
    outcome
}

/// Returns a race of two contenders and their one claim.
pub(crate) fn duel() -> Outcome {
    let mut outcome = full();
    let keep = |id: usize| id == TCP || id == UDP;
    outcome.title = None;
    outcome.contenders.retain(|contender| keep(contender.id));
    outcome.trials.retain(|trial| keep(trial.contender));
    outcome.summary.retain(|summary| keep(summary.contender));
    outcome.verdicts.retain(|verdict| keep(verdict.a) && keep(verdict.b));
    outcome.differences.clear();
    outcome.warnings.clear();
    outcome
}

/// Returns a race of five: `udp` ahead of the tied `tcp` and `unix`, `tcp:cc=bbr` undecided, `icmp`
/// blocked; with a censored p99, an excluded trial, differences and warnings. Every field of
/// format 1 is there at least once.
pub(crate) fn full() -> Outcome {
    Outcome {
        format: 1,
        deadheat: Program { version: "0.1.0".into() },
        title: Some("Echo between two cores".into()),
        labels: map(&[("rack", "7"), ("ticket", "NET-12")]),
        started: "2026-03-14T15:09:26Z".into(),
        seed: 42,
        asked: asked(),
        plan: plan(),
        host: host("alpha"),
        peer_host: Some(host("beta")),
        absences: Vec::new(),
        probe: Some(probe()),
        path: PathFacts {
            spec: "beta.example:5210".into(),
            kind: PathKind::Remote,
            address: "192.0.2.7".into(),
            built: None,
            reached: None,
            far_end: None,
        },
        metrics: metrics(),
        factors: Vec::new(),
        contenders: contenders(),
        trials: trials(),
        summary: summary(),
        path_ways: Vec::new(),
        shares: Vec::new(),
        sweeps: Vec::new(),
        contests: Vec::new(),
        verdicts: verdicts(),
        unfiltered: Vec::new(),
        causes: causes::of_race(),
        control: Some(control()),
        differences: differences(),
        warnings: vec![
            Warning {
                code: "steal".into(),
                message: "The hypervisor took up to 2.1 % of the CPU time of a trial.".into(),
                advice: "Race on a quieter host, or with more blocks.".into(),
            },
            Warning {
                code: "two_regimes".into(),
                message: "The trials of tcp:cc=bbr fall into two clusters under RTT p50.".into(),
                advice: "Fix the placement with --placement, then race again.".into(),
            },
        ],
        explain: Some(explained()),
        imported: None,
        trusted: true,
        why_not_trusted: Vec::new(),
        status: Status::Budget,
    }
}

/// Returns a race that has only begun.
pub(crate) fn minimal() -> Outcome {
    let asked = RecordedRequest {
        contenders: vec!["tcp".into()],
        to: None,
        family: None,
        source: None,
        device: None,
        blocks: None,
        budget_ns: None,
        every_ns: None,
        margin: None,
        placement: None,
        interval_ns: None,
        ..asked()
    };
    let path = PathFacts {
        spec: "loopback".into(),
        kind: PathKind::Loopback,
        address: "127.0.0.1".into(),
        built: None,
        reached: None,
        far_end: None,
    };
    let full = full();
    Outcome {
        deadheat: full.deadheat,
        started: full.started,
        seed: full.seed,
        metrics: full.metrics,
        contenders: vec![Entrant {
            far_effective: BTreeMap::new(),
            ..contenders().swap_remove(TCP)
        }],
        trials: vec![Trial {
            block: 0,
            order: 0,
            contender: TCP,
            control: false,
            record: deadheat::result::testing::record(BTreeMap::new()),
        }],
        ..Outcome::new(asked, plan(), path)
    }
}

/// Text that a hostile file, peer or user would put where text is expected.
pub(crate) const HOSTILE: &str =
    "a|b,\"c\"\n\u{1b}[31m<b>&`x`</b>\r\t\u{202e}*_[z](javascript:1) @all #1 \u{9b}2J";

/// Returns the full race with [`HOSTILE`] in every text that comes from outside.
pub(crate) fn hostile() -> Outcome {
    let mut outcome = full();
    let bad = || HOSTILE.to_owned();
    outcome.title = Some(bad());
    outcome.labels = map(&[(HOSTILE, HOSTILE)]);
    outcome.host.hostname = bad();
    outcome.host.kernel = bad();
    outcome.path.spec = bad();
    outcome.path.address = bad();
    outcome.asked.workload = bad();
    outcome.plan.placement_reason = bad();
    for contender in &mut outcome.contenders {
        contender.label = format!("{} {HOSTILE}", contender.label);
        contender.implementation = bad();
        contender.blocked = contender.blocked.as_ref().map(|_| bad());
        contender.not_applicable = contender.blocked.as_ref().map(|_| bad());
    }
    for trial in &mut outcome.trials {
        trial.record.why_invalid = trial.record.why_invalid.as_ref().map(|_| bad());
        let ledger = &mut trial.record.ledger;
        for account in ledger.round_trip.iter_mut() {
            account.open_because = account.open_because.as_ref().map(|_| bad());
        }
    }
    for verdict in &mut outcome.verdicts {
        verdict.note = bad();
    }
    if let Some(control) = &mut outcome.control {
        control.note = bad();
    }
    for difference in &mut outcome.differences {
        difference.what = bad();
        difference.matters = bad();
        difference.values = map(&[(HOSTILE, HOSTILE)]);
    }
    for warning in &mut outcome.warnings {
        warning.message = bad();
        warning.advice = bad();
    }
    for metric in &mut outcome.metrics {
        metric.label = bad();
    }
    for explanation in outcome.explain.iter_mut().flat_map(|explain| &mut explain.contenders) {
        explanation.missing.iter_mut().for_each(|what| *what = bad());
        explanation.moving.iter_mut().for_each(|moving| moving.why = Some(bad()));
    }
    outcome
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns calls, packets and CPU of bulk data; beside round trips, which no race has.
fn moving() -> BulkTransfer {
    let calls = Calls {
        per_mb: 7.63,
        bytes: 131_072.0,
        ns: 16_400.0,
        ran_ns: 15_900.0,
        ns_per_byte: 0.125,
    };
    let cpu = BulkEnd {
        ran_share: 0.97,
        thread_ns_per_gb: 121_000_000.0,
        cpus: 1,
        busy_share: 0.99,
        interrupts_share: 0.18,
    };
    BulkTransfer {
        direction: Direction::Up,
        delivered_bytes: 8_000_000_000,
        goodput_bps: 64e9,
        sending: calls,
        receiving: calls,
        packets_per_mb: Some(15.4),
        sender: cpu,
        receiver: cpu,
        causes: causes::of_pass(),
        why: Some("The receiver's CPU: its thread ran 97 % of the time.".into()),
    }
}

fn explained() -> Explanations {
    use Part::*;
    let part = |(part, ns): (Part, f64)| PartTime { part, ns, low_ns: 0.9 * ns, high_ns: 1.3 * ns };
    let tcp = [
        (NearCall, 3_120.0),
        (NearStack, 410.0),
        (BothWays, 21_400.0),
        (FarWake, 17_030.0),
        (FarApplication, 1_210.0),
        (FarCall, 2_870.0),
        (FarStack, 380.0),
        (NearWake, 17_240.0),
    ];
    let udp = [(FarApplication, 1_050.0), (BothUnsplit, 51_800.0)];
    let trip = |parts: &[(Part, f64)], total_ns: f64| RoundTrip {
        messages: 2_700,
        incomplete: 3,
        total_ns,
        parts: parts.iter().copied().map(part).collect(),
        residual_ns: total_ns - parts.iter().map(|(_, ns)| ns).sum::<f64>(),
        bare_ns: None,
        acknowledged_ns: None,
        near_sending_ns: Some(9_400.0),
        far_sending_ns: Some(8_100.0),
    };
    let explanation = |contender, headline| Explanation {
        contender,
        trials: 3,
        headline: Some(headline),
        instrumented: Some(headline + 1_900.0),
        ..Explanation::default()
    };
    Explanations {
        metric: "rtt_p50_ns".into(),
        rounds: 3,
        contenders: vec![
            Explanation {
                round_trip: Some(RoundTrip {
                    bare_ns: Some(61_200.0),
                    acknowledged_ns: Some(41_000.0),
                    ..trip(&tcp, 63_700.0)
                }),
                clocks: Some(Clocks::Apart),
                ..explanation(TCP, 62_574.0)
            },
            Explanation {
                round_trip: Some(trip(&udp, 52_800.0)),
                clocks: Some(Clocks::Apart),
                missing: vec![
                    "2700 of 2700 round trips lack the near end's TX_SOFTWARE stamp.".into(),
                ],
                ..explanation(UDP, 51_474.0)
            },
            Explanation {
                moving: vec![moving()],
                userspace: Some(userspace()),
                ..explanation(UNIX, 62_174.0)
            },
        ],
    }
}

fn userspace() -> Userspace {
    let near = UserspaceEnd {
        protocol_ns: 410_250.0,
        encryption_ns: Some(118_400.0),
        allocation_ns: Some(36_100.0),
        allocations: Some(731.5),
        thread_share: 0.62,
    };
    let far = UserspaceEnd { encryption_ns: None, allocation_ns: None, allocations: None, ..near };
    Userspace { near, far: Some(far) }
}

fn asked() -> RecordedRequest {
    RecordedRequest {
        contenders: ["tcp", "unix", "udp", "tcp:cc=bbr", "icmp"].map(String::from).to_vec(),
        workload: "ping:size=64,interval=1ms,count=20000,timeout=3s".into(),
        path: "loopback".into(),
        to: Some("beta.example:5210".into()),
        family: Some(4),
        source: None,
        device: None,
        blocks: Some(40),
        budget_ns: Some(60_000_000_000),
        every_ns: Some(1_000_000_000),
        all_blocks: false,
        first: false,
        margin: Some(0.05),
        margin_ns: None,
        resolve: None,
        claims_all: false,
        as_deployed: false,
        confidence: 0.95,
        gate_races: None,
        placement: Some("cross-core".into()),
        idle: Some("awake".into()),
        vary: Vec::new(),
        interval_ns: Some(500_000_000),
        explain: true,
    }
}

fn plan() -> RecordedPlan {
    let looks = [(6, 0.002), (7, 0.004), (8, 0.008)];
    RecordedPlan {
        margin: 0.05,
        margin_reason: "as asked".into(),
        placement: "cross-core".into(),
        placement_reason: "as asked; each end has a CPU of its own and sleeps between messages"
            .into(),
        idle: Some("awake".into()),
        idle_reason: Some("as asked".into()),
        blocks_max: 40,
        looks: looks.map(|(blocks, alpha)| stats::Look { blocks, alpha }).to_vec(),
        claims: 6,
        workload: Some("ping:size=64,interval=1ms,count=20000,timeout=3s".into()),
        workload_reason: Some("as asked".into()),
        any_time: 0.0,
        replans: vec![Replan { after: 4, from: 24, to: 40, scatter: 0.021 }],
        quantile_definition: "nearest rank; printed only with at least ten samples beyond".into(),
    }
}

fn host(name: &str) -> HostFacts {
    HostFacts {
        cpu_quota_milli: None,
        reached_at: None,
        seen_as: None,
        hostname: name.into(),
        kernel: "Linux 6.18.44".into(),
        arch: "x86_64".into(),
        cpu_model: "AMD EPYC 9V45".into(),
        cpus: vec![0, 1],
        threads_per_core: Some(1),
        governor: Some("performance".into()),
        idle_driver: Some("none".into()),
        virtualisation: Some("kvm".into()),
        clock_source: Some("tsc".into()),
        mitigations: map(&[("spectre_v2", "Retpolines")]),
        sysctls: map(&[("net.core.rmem_max", "212992")]),
        congestion_control: Some("cubic".into()),
        congestion_controls: vec!["cubic".into(), "reno".into(), "bbr".into()],
        memory_bytes: 8_000_000_000,
        deadheat: "0.1.0".into(),
    }
}

fn metrics() -> Vec<Metric> {
    let metric = |name: &str, label: &str, unit, role| Metric {
        name: name.into(),
        label: label.into(),
        unit,
        better: Better::Lower,
        role,
        clock: ClockNeed::None,
    };
    vec![
        metric("rtt_p50_ns", "RTT p50", Unit::Nanos, Role::Claim),
        metric("rtt_p99_ns", "RTT p99", Unit::Nanos, Role::Descriptive),
        metric("pdv_p99_ns", "PDV p99", Unit::Nanos, Role::Descriptive),
    ]
}

fn contenders() -> Vec<Entrant> {
    let entrant = |id: usize, spec: &str, colour: &str, implementation: &str| Entrant {
        colour: colour.into(),
        implementation: implementation.into(),
        asked: map(&[("nodelay", "on")]),
        effective: map(&[("nodelay", "on"), ("sndbuf", "2626560")]),
        far_effective: map(&[("nodelay", "on")]),
        floor: id == ICMP,
        ..Entrant::new(id, spec, spec)
    };
    let mut contenders = vec![
        entrant(TCP, "tcp", "#1f77b4", "tcp/linux-6.18/cubic"),
        entrant(UNIX, "unix", "#7f7f7f", "unix/linux-6.18"),
        entrant(UDP, "udp", "#ff7f0e", "udp/linux-6.18"),
        entrant(BBR, "tcp:cc=bbr", "#17becf", "tcp/linux-6.18/bbr"),
        entrant(ICMP, "icmp", "#2ca02c", ""),
    ];
    contenders[ICMP].blocked = Some(
        "8 echo requests to 192.0.2.7 in 4 s brought no answer, while control over TCP works"
            .into(),
    );
    contenders
}

/// Returns the median round trip of a contender's trials, in nanoseconds.
fn typical_ns(contender: usize, block: u64) -> u64 {
    let base = match contender {
        UDP => 51_200,
        BBR if block.is_multiple_of(2) => 52_400,
        BBR => 64_100,
        UNIX => 61_900,
        _ => 62_300,
    };
    base + 137 * (block % 5)
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for block in 0..BLOCKS {
        let entrants = [(UDP, false), (TCP, false), (TCP, true), (BBR, false), (UNIX, false)];
        for (order, (contender, control)) in (0..).zip(entrants) {
            trials.push(Trial {
                block,
                order,
                contender,
                control,
                record: record(contender, block),
            });
        }
    }
    // The generator was late once; the trial was repeated at the end of its block.
    let repeat = Trial { order: 5, ..trials[11].clone() };
    let late = &mut trials[11];
    late.record.valid = false;
    late.record.why_invalid =
        Some("6.2 % of the sends were later than a tenth of the interval (at most 1 %)".into());
    trials.insert(15, repeat);
    trials
}

fn record(contender: usize, block: u64) -> Record {
    let p50 = typical_ns(contender, block);
    // In two blocks udp lost so much that its p99 lies among the lost.
    let lost =
        if contender == UDP { [60, 0, 340, 0, 40, 420, 0, 20][block as usize % 8] } else { 0 };
    let is_censored = lost > MESSAGES / 100;
    let p99 = if is_censored { TIMEOUT_NS } else { 2 * p50 + 4_000 };
    let mut metrics = BTreeMap::from([
        ("rtt_p50_ns".to_owned(), p50 as f64),
        ("rtt_p99_ns".to_owned(), p99 as f64),
    ]);
    if lost == 0 {
        metrics.insert("pdv_p99_ns".to_owned(), (p99 - p50 + 9_000) as f64);
    }
    Record {
        valid: true,
        why_invalid: None,
        lost_ms: None,
        implementation: "linux-6.18".into(),
        fallback: (contender == UDP && block == 3).then_some(Fallback {
            cause: FallbackCause::Silence,
            at_ns: 2_000_000_000,
            after_ns: 1_010_000_000,
            unheard: 104,
        }),
        recovered: (contender == UDP).then_some(17),
        marks: (contender == UDP).then_some(Marks { datagrams: 1_000, capable: 990, ce: 40 }),
        wire: (contender == UDP)
            .then_some(Wire { packets: 2 * MESSAGES, bytes: 92 * 2 * MESSAGES }),
        metrics,
        censored: if is_censored { vec!["rtt_p99_ns".into()] } else { Vec::new() },
        rtt_ns: Some(rtt(p50, lost, is_censored)),
        send_lateness_ns: Some(rtt(900, 0, false)),
        late_effect: Some(0.004),
        segments: Vec::new(),
        warmup: Some(WarmUp { sent: 20, answered: 20 }),
        paced: if block == 0 && contender == UDP { vec![paced()] } else { Vec::new() },
        clock: Some(clock()),
        ledger: ledger(contender, lost),
        verified: (contender == UDP).then(|| verified(lost)),
        cost: cost(contender, 20_000_000),
        far_cost: (contender != BBR).then(|| cost(contender, 18_000_000)),
        effective: map(&[("nodelay", "on")]),
        far_effective: map(&[("nodelay", "on")]),
        effective_by_flow: vec![map(&[]), map(&[("rcvbuf", "262144")])],
        far_effective_by_flow: vec![map(&[]), map(&[("rcvbuf", "524288")])],
        connect_ns: 181_000,
        network_errors: 3,
        retransmits: Some(0),
        delivered_bytes: Some(64 * MESSAGES),
        packets: (contender == UDP).then_some(Packets {
            message_bytes: 64,
            header_bytes: 28,
            path_mtu: 1_500,
        }),
        path_mtu: Vec::new(),
        counters: Some(counters()),
        far_counters: (contender != BBR).then(counters),
        path: None,
        path_invalid: None,
        captured: Some(Captured { packets: 12_000, left_out: 3, failure: Some("full".into()) }),
        outages: if contender == UDP && lost == 420 { vec![outage()] } else { Vec::new() },
        // The other trials are of a version that kept no series.
        intervals: if block + 1 == BLOCKS { vec![series(contender, p50)] } else { Vec::new() },
        far_intervals: if block + 1 == BLOCKS { vec![series(contender, 0)] } else { Vec::new() },
        steal_share: Some(0.0021),
        flow_shares: if contender == TCP { vec![0.7, 0.3] } else { Vec::new() },
        load: Some(0.42),
        started_ms: 1_773_500_966_000 + block,
        took_ns: 23_204_000_000,
        ..Record::default()
    }
}

fn outage() -> Outage {
    Outage { from_ns: 4_100_000_000, length_ns: 3_020_000_000, messages: 420, ended: Some(true) }
}

fn clock() -> ClockEstimate {
    ClockEstimate {
        offset_ns: -1_734_221,
        error_bound_ns: 21_500,
        drift_ppm: Some(-3.25),
        n: MESSAGES,
        round_trip_ns: Some(43_000),
        hosts: Some(2),
        ..ClockEstimate::default()
    }
}

fn counters() -> HostCounters {
    HostCounters {
        fragmented: 1,
        fragments_created: 23,
        fragment_failures: 2,
        fragments_received: 46,
        reassembled: 1,
        reassembly_failures: 3,
        reassembly_timeouts: 1,
        udp_no_port: 4,
        udp_receive_errors: 60,
        udp_receive_buffer_errors: 60,
        udp_send_buffer_errors: 5,
        tcp_retransmits: 7,
        backlog_drops: 8,
    }
}

fn paced() -> PacedFlow {
    PacedFlow {
        direction: Direction::Up,
        pacing: Pacing {
            slots: MESSAGES,
            sent: MESSAGES - 7,
            missed_no_room: 4,
            missed_no_time: 3,
            late: 2,
            lateness_ns: rtt(900, 0, false),
            gap_error_ns: rtt(400, 0, false),
        },
        delay_variation_ns: Some(rtt(12_000, 0, false)),
    }
}

/// Returns three intervals of a flow at one end; the end that measures round trips has some of `rtt_ns`.
fn series(contender: usize, rtt_ns: u64) -> Series {
    let is_tcp = [TCP, BBR].contains(&contender);
    let point = |k: u64| {
        let mut rtt = RoundTrips::default();
        for trip in 0..rtt_ns.min(2 * (3 - k)) {
            rtt.add(rtt_ns + 1_000 * k + 100 * trip);
        }
        let tcp = TcpView {
            cwnd_bytes: 14_480 * k,
            mss_bytes: 1_448,
            srtt_ns: (k > 1).then_some(61_000),
            rttvar_ns: (k > 1).then_some(9_000),
            min_rtt_ns: Some(41_000),
            retransmits: k - 1,
            reordering_segments: Some(3),
            reorderings: Some(0),
            in_flight_bytes: Some(7_240 * k),
            flight_size_bytes: Some(8_688 * k),
            phase: Some(if k < 3 { CongestionPhase::SlowStart } else { CongestionPhase::Recovery }),
            delivery_rate_bps: Some(1_000_000 * k),
            pacing_rate_bps: (k < 3).then_some(2_000_000),
            busy_ns: Some(4_000_000 * k),
            rwnd_limited_ns: Some(0),
            sndbuf_limited_ns: Some(0),
            library_limited_ns: Some(0),
            bytes_acked: Some(64 * 500 * k),
            notsent_bytes: Some(0),
            snd_wnd_bytes: Some(65_536),
            congestion_events: Some(k - 1),
            ce_delivered: Some(k - 1),
            rounds: Some(k),
            ..TcpView::default()
        };
        Point {
            at_ns: 500_000_000 * k,
            sent_bytes: 64 * 500 * k,
            sent_messages: 500 * k,
            received_bytes: 64 * 499 * k,
            received_messages: 499 * k,
            lost_messages: (rtt_ns > 0).then_some(k),
            missing: None,
            jitter_ns: None,
            socket_drops: (contender == UDP).then_some(0),
            rtt,
            delay: RoundTrips::default(),
            tcp: is_tcp.then_some(tcp),
        }
    };
    let began_ns = Some(1_800_000_000_000_000_000);
    let rounds = Some(Rounds {
        rtt_ns: 16_000_000,
        n: 64,
        p10_bytes: 64_800,
        p50_bytes: 65_536,
        p90_bytes: 65_536,
        silent_ns: 1_400_000_000,
        span_ns: 1_430_000_000,
    });
    let points = [1, 2, 3].map(point);
    Series { missed_points: 1, began_ns, rounds, ..Series::new(500_000_000, &points) }
}

fn verified(lost: u64) -> Verified {
    let state = if lost == 0 { ContentState::Verified } else { ContentState::Partial };
    Verified {
        state,
        content: (lost == 0).then(|| format!("sha256 {}", "0123456789abcdef".repeat(4))),
        bytes: 1_000_000,
        bytes_missing: lost,
        differs_at: (lost == 420).then_some(77),
        file: Some("/tmp/received.bin".into()),
    }
}

fn rtt(p50: u64, lost: u64, is_censored: bool) -> Distribution {
    Distribution {
        n: MESSAGES,
        censored: lost,
        min: Some(p50 / 2),
        max: Some(p50 * 9),
        mean: (lost == 0).then_some(p50 as f64 * 1.07),
        stddev: (lost == 0).then_some(p50 as f64 * 0.2),
        p50: Some(Quantile::Ns(p50)),
        p90: Some(Quantile::Ns(p50 + 9_000)),
        p99: Some(if is_censored {
            Quantile::Beyond(TIMEOUT_NS)
        } else {
            Quantile::Ns(2 * p50 + 4_000)
        }),
        p999: Some(if lost > MESSAGES / 1_000 {
            Quantile::Beyond(TIMEOUT_NS)
        } else {
            Quantile::Ns(3 * p50)
        }),
    }
}

fn ledger(contender: usize, lost: u64) -> Ledger {
    let account = |lost_on_path: u64, dropped: u64| Account {
        unit: "messages".into(),
        sent: MESSAGES,
        delivered: MESSAGES - lost_on_path - dropped,
        lost_on_path,
        dropped_at_receiver: Some(dropped),
        duplicates: Some(u64::from(lost > 200)),
        late: Some(0),
        reordered: Some(lost / 100),
        corrupted: Some(0),
        open_because: None,
    };
    let mut ledger = Ledger {
        up: Some(account(lost, 0)),
        down: Some(Account {
            sent: MESSAGES - lost,
            delivered: MESSAGES - lost - u64::from(lost == 340),
            ..account(0, u64::from(lost == 340))
        }),
        round_trip: None,
    };
    if contender == BBR {
        ledger = Ledger {
            up: None,
            down: None,
            round_trip: Some(Account {
                sent: MESSAGES,
                delivered: MESSAGES - 1,
                open_because: Some("one message was still in a socket at the end".into()),
                ..account(0, 0)
            }),
        };
    }
    ledger
}

/// Returns a host that was disturbed, with a level that rose by half after 6 s.
fn probe() -> HostQuiet {
    let mut quiet = HostQuiet {
        waited_ns: 10_100_000_000,
        disturbed: Some(Disturbance { by: Disturber::Echo, share: 0.62 }),
        regimes: Some([(50_500.0, 0.5), (75_500.0, 0.5)].map(|(centre, share)| stats::Regime {
            centre,
            share,
            count: 6,
        })),
        changes: vec![LevelChange { at_ms: 1_006_000, from_ns: 50_500.0, to_ns: 75_500.0 }],
        state: HostState::Drifting,
        ..HostQuiet::default()
    };
    for second in 0..12 {
        let level = if second < 6 { 50_000 } else { 75_000 };
        let p50_ns = level + 1_000 * (second % 2);
        let at_ms = 1_000_000 + 1_000 * second;
        quiet.add(ProbePoint {
            at_ms,
            p50_ns,
            high_ns: p50_ns + 9_000,
            steal_share: 0.01,
            others_share: Some(0.02),
        });
    }
    quiet.measure_scatter();
    quiet
}

fn cost(contender: usize, scale: u64) -> Cost {
    let cpu_ns = scale * (7 + contender as u64 * 2);
    Cost {
        cpu_ns,
        user_ns: cpu_ns / 4,
        system_ns: cpu_ns - cpu_ns / 4,
        waiting_ns: Some(cpu_ns / 5),
        syscalls: Some(4 * MESSAGES),
        voluntary_switches: MESSAGES,
        involuntary_switches: 3,
        peak_memory_bytes: Some(9_000_000 + contender as u64 * 1_000_000),
        allocations: Some(Allocations { calls: 3 + contender as u64, bytes: 4_096 }),
    }
}

fn summary() -> Vec<Summary> {
    let row = |contender, metric: &str, [low, estimate, high]: [f64; 3]| Summary {
        contender,
        metric: metric.into(),
        estimate,
        low: Some(low),
        high: Some(high),
        trials: BLOCKS,
        censored: false,
        regimes: None,
        clock_bound_ns: None,
    };
    let mut rows = vec![
        row(TCP, "rtt_p50_ns", [62_300.0, 62_574.0, 62_848.0]),
        row(UNIX, "rtt_p50_ns", [61_900.0, 62_174.0, 62_448.0]),
        row(UDP, "rtt_p50_ns", [51_200.0, 51_474.0, 51_748.0]),
        row(BBR, "rtt_p50_ns", [52_400.0, 58_319.0, 64_648.0]),
        row(TCP, "rtt_p99_ns", [128_600.0, 129_148.0, 129_696.0]),
        row(UNIX, "rtt_p99_ns", [127_800.0, 128_348.0, 128_896.0]),
        row(UDP, "rtt_p99_ns", [106_400.0, 107_085.0, 3e9]),
        row(BBR, "rtt_p99_ns", [108_800.0, 120_638.0, 133_296.0]),
        row(TCP, "pdv_p99_ns", [75_300.0, 75_574.0, 75_848.0]),
        row(UNIX, "pdv_p99_ns", [74_900.0, 75_174.0, 75_448.0]),
        row(UDP, "pdv_p99_ns", [64_337.0, 64_474.0, 64_748.0]),
        row(BBR, "pdv_p99_ns", [65_400.0, 71_319.0, 77_648.0]),
    ];
    rows[3].regimes = Some([
        stats::Regime { centre: 52_674.0, share: 0.5, count: 4 },
        stats::Regime { centre: 64_374.0, share: 0.5, count: 4 },
    ]);
    rows[6].censored = true;
    rows[10].trials = 3;
    rows[10].low = None;
    rows[10].high = None;
    rows
}

fn verdicts() -> Vec<Verdict> {
    let effect = |[low, point, high]: [f64; 3]| Effect { point, low, high };
    let verdict = |a, b, outcome, [low, point, high]: [f64; 3], by, note: &str| Verdict {
        metric: "rtt_p50_ns".into(),
        a,
        b,
        outcome,
        ahead: (outcome == stats::Outcome::Ahead).then_some(b),
        ratio: Some(Ratio { point, low, high }),
        margin: 0.05,
        confidence: 0.9917,
        blocks: BLOCKS,
        known_since: Some(20),
        more_blocks: None,
        more_ns: None,
        direction: (low > 1.0).then_some(b),
        resolution: Some(0.013),
        effect: Some(effect(by)),
        note: note.into(),
        difference: None,
    };
    let undecided = |a, b, ratio, by, more: u64| Verdict {
        known_since: None,
        more_blocks: Some(more),
        more_ns: Some(more * 116_000_000_000),
        resolution: Some(0.118),
        ..verdict(
            a,
            b,
            stats::Outcome::Undecided,
            ratio,
            by,
            &format!("Undecided: about {more} more blocks."),
        )
    };
    let (ahead, tie) = (stats::Outcome::Ahead, stats::Outcome::DeadHeat);
    vec![
        verdict(
            TCP,
            UNIX,
            tie,
            [1.002, 1.006, 1.011],
            [150.0, 400.0, 650.0],
            "Dead heat: tcp and unix are within ±5 % under RTT p50, though tcp is measurably 0.6 % higher.",
        ),
        verdict(
            TCP,
            UDP,
            ahead,
            [1.204, 1.216, 1.221],
            [10_800.0, 11_100.0, 11_300.0],
            "udp is ahead of tcp: RTT p50 is 17.8 % lower (17.0 % to 18.1 %), by 11.1 µs.",
        ),
        undecided(TCP, BBR, [0.961, 1.073, 1.193], [-2_500.0, 4_255.0, 10_100.0], 22),
        verdict(
            UNIX,
            UDP,
            ahead,
            [1.196, 1.208, 1.213],
            [10_400.0, 10_700.0, 10_900.0],
            "udp is ahead of unix: RTT p50 is 17.2 % lower (16.4 % to 17.6 %), by 10.7 µs.",
        ),
        undecided(UNIX, BBR, [0.955, 1.066, 1.186], [-2_900.0, 3_855.0, 9_700.0], 24),
        undecided(UDP, BBR, [0.791, 0.882, 1.012], [-13_600.0, -6_845.0, 600.0], 9),
    ]
}

fn control() -> Control {
    Control {
        contender: TCP,
        verdicts: vec![Verdict {
            metric: "rtt_p50_ns".into(),
            a: TCP,
            b: TCP,
            outcome: stats::Outcome::DeadHeat,
            ahead: None,
            ratio: Some(Ratio { point: 1.001, low: 0.994, high: 1.008 }),
            margin: 0.05,
            confidence: 0.95,
            blocks: BLOCKS,
            known_since: Some(20),
            more_blocks: None,
            more_ns: None,
            direction: None,
            resolution: Some(0.011),
            effect: Some(Effect { point: 62.0, low: -370.0, high: 500.0 }),
            note: "tcp and its hidden copy are a dead heat.".into(),
            difference: None,
        }],
        trusted: true,
        note: "tcp against a hidden copy of itself is a dead heat, as it must be.".into(),
    }
}

fn differences() -> Vec<Difference> {
    vec![
        Difference {
            what: "framing".into(),
            values: map(&[
                ("tcp", "4 B length before each message"),
                ("tcp:cc=bbr", "4 B length before each message"),
                ("unix", "4 B length before each message"),
                ("udp", "none"),
            ]),
            matters: "A byte stream does not keep message boundaries, so messages carry their \
                      length; at 64 B that is 6 % more bytes."
                .into(),
        },
        Difference {
            what: "congestion control".into(),
            values: map(&[
                ("tcp", "cubic"),
                ("tcp:cc=bbr", "bbr"),
                ("unix", "none"),
                ("udp", "none"),
            ]),
            matters: "It decides goodput, and latency under load.".into(),
        },
    ]
}

//! A race of the largest size that pages are tested with: eight contenders, fifty blocks, eight metrics, series over
//! time in each trial.

use std::collections::BTreeMap;

use deadheat::analysis::judgement::DecisionStage;
use deadheat::analysis::verdicts;
use deadheat::measurements::series::{Point, RoundTrips, Series};
use deadheat::measurements::{Better, ClockNeed, Metric, Role, Unit};
use deadheat::records::trial::Record;
use deadheat::result::outcome::{Entrant, Outcome, Trial};
use deadheat::rng::SplitMix64;

use super::{contenders, full, record};

pub(crate) const CONTENDERS: usize = 8;
pub(crate) const BLOCKS: u64 = 50;

/// Labels of the contenders, and their colours.
const NAMES: [(&str, &str, &str); CONTENDERS] = [
    ("tcp", "tcp", "#0072b2"),
    ("tcp:cc=bbr", "tcp", "#0072b2"),
    ("tcp:nodelay=off,sndbuf=4MiB,rcvbuf=4MiB,busy-poll=50us", "tcp", "#0072b2"),
    ("udp", "udp", "#e6762e"),
    ("udp:gso=on", "udp", "#e6762e"),
    ("unix", "unix", "#009e73"),
    ("pipe", "pipe", "#cc79a7"),
    ("icmp", "icmp", "#8a8d91"),
];

/// The metrics, claims first, each as a multiple of the median round trip.
const METRICS: [(&str, &str, Role, f64); 8] = [
    ("rtt_p50_ns", "RTT p50", Role::Claim, 1.0),
    ("rtt_p99_ns", "RTT p99", Role::Claim, 2.3),
    ("rtt_p90_ns", "RTT p90", Role::Descriptive, 1.3),
    ("rtt_p999_ns", "RTT p99.9", Role::Descriptive, 9.0),
    ("rtt_mean_ns", "RTT mean", Role::Descriptive, 1.1),
    ("rtt_max_ns", "RTT maximum", Role::Descriptive, 40.0),
    ("pdv_p99_ns", "PDV p99", Role::Descriptive, 1.2),
    ("jitter_ns", "jitter", Role::Descriptive, 0.1),
];

/// Returns the race. One contender has two regimes, one fails its gate now and then, one is censored in
/// its tail.
pub(crate) fn large() -> Outcome {
    let metric = |(name, label, role, _): (&str, &str, Role, f64)| Metric {
        name: name.into(),
        label: label.into(),
        unit: Unit::Nanos,
        better: Better::Lower,
        role,
        clock: ClockNeed::None,
    };
    let entrant = |(id, (spec, transport, colour)): (usize, (&str, &str, &str))| Entrant {
        id,
        spec: spec.into(),
        label: spec.into(),
        transport: transport.into(),
        colour: colour.into(),
        implementation: format!("{transport}/linux-6.18"),
        ..contenders().swap_remove(0)
    };
    let mut outcome = Outcome {
        metrics: METRICS.map(metric).to_vec(),
        contenders: NAMES.into_iter().enumerate().map(entrant).collect(),
        trials: trials(),
        warnings: Vec::new(),
        differences: Vec::new(),
        ..full()
    };
    outcome.asked.contenders = NAMES.map(|(spec, _, _)| spec.to_owned()).to_vec();
    outcome.plan.blocks_max = BLOCKS;
    verdicts::refresh(&mut outcome, DecisionStage::Look { alpha: 0.05, next: None });
    outcome
}

fn trials() -> Vec<Trial> {
    let mut rng = SplitMix64::new(5);
    let mut trials = Vec::new();
    for block in 0..BLOCKS {
        for (order, contender) in (0..).zip((0..CONTENDERS).chain([0])) {
            let control = order == CONTENDERS as u64;
            let record = figures(contender, block, &mut rng);
            trials.push(Trial { block, order, contender, control, record });
        }
    }
    trials
}

fn figures(contender: usize, block: u64, rng: &mut SplitMix64) -> Record {
    let slow = if contender == 4 && rng.unit() < 0.3 { 2.5 } else { 1.0 };
    let base = [62e3, 62.3e3, 71e3, 51e3, 52e3, 31e3, 30e3, 44e3][contender] * slow;
    let p50 = base * (1.0 + 0.001 * block as f64) * (0.03 * rng.normal()).exp();
    let figures = METRICS.map(|(name, _, _, times)| {
        (name.to_owned(), (p50 * times * (0.05 * times.sqrt() * rng.normal()).exp()).round())
    });
    let mut trial = Record {
        metrics: BTreeMap::from(figures),
        censored: Vec::new(),
        rtt_ns: Some(super::rtt(p50 as u64, 1, false)),
        intervals: vec![series(p50, rng)],
        far_intervals: vec![series(p50, rng)],
        ..record(contender % 2, 1)
    };
    if contender == 3 && block % 9 == 4 {
        trial.metrics.insert("rtt_p999_ns".into(), 3e9);
        trial.censored.push("rtt_p999_ns".into());
    }
    if contender == 7 && block % 20 == 6 {
        trial.valid = false;
        trial.why_invalid = Some("the generator was late".into());
    }
    trial
}

/// Returns forty points of a flow that answers every 500 µs.
fn series(p50: f64, rng: &mut SplitMix64) -> Series {
    let points: Vec<Point> = (1..=40)
        .map(|k| {
            let mut rtt = RoundTrips::default();
            for _ in 0..20 {
                rtt.add((p50 * (0.2 * rng.normal()).exp()) as u64);
            }
            let bytes = 64 * 20 * k;
            Point {
                at_ns: 10_000_000 * k,
                sent_bytes: bytes,
                sent_messages: 20 * k,
                received_bytes: bytes,
                received_messages: 20 * k,
                rtt,
                ..Point::default()
            }
        })
        .collect();
    Series::new(10_000_000, &points)
}

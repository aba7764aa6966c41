//! Gates whose baseline runs in the race: four paths each, over a hundred gates.

use crate::races::{LEVEL, Race, Replanning};
use crate::world::Noise;
use crate::{percent, race};

/// Gates for which a level is promised.
const GATES: u64 = 100;

/// Races of a gate, one for each path.
const PATHS: u64 = 4;

/// Noise of all kinds: skewed, dependent, in regimes.
const KINDS: [Noise; 8] = [
    Noise::Scatter(0.08),
    Noise::Heavy,
    Noise::Contaminated,
    Noise::Skewed,
    Noise::TwoKinds,
    Noise::Regimes(3.0),
    Noise::Serial(0.2),
    Noise::Serial(0.4),
];

/// Gates of each kind of noise in a test. With DEADHEAT_SERIES=100 they are as many series of [`GATES`] each.
const TESTED: u64 = 8;

fn of_a_gate(noise: Noise, truth: &[f64], margin: f64, blocks: usize) -> Race<'_> {
    let level = LEVEL / (GATES * PATHS) as f64;
    let replanning = Replanning::UpTo(2 * blocks);
    Race { margin, level, replanning, ..race(truth, noise, blocks) }
}

/// The promise: of series of a hundred gates without a change, at most 5 % raise any alarm.
#[test]
fn a_hundred_gates_without_a_change_rarely_raise_an_alarm() {
    let asked: Option<u64> =
        std::env::var("DEADHEAT_SERIES").ok().and_then(|asked| asked.parse().ok());
    let (series, gates) = asked.map_or((1, TESTED), |series| (series, GATES));
    println!("| noise | series of {gates} gates with an alarm | alarms of all races |");
    println!("|---|---|---|");
    let mut total = 0;
    for (kind, noise) in KINDS.into_iter().enumerate() {
        let race = of_a_gate(noise, &[0.0, 0.0], 0.05, 40);
        let (mut with, mut alarms) = (0, 0);
        for one in 0..series {
            let first = 1_000_000 * (1 + kind as u64) + one * gates * PATHS;
            let seeds = first..first + gates * PATHS;
            let found = seeds.filter(|seed| race.run(*seed).worse).count() as u64;
            with += u64::from(found > 0);
            alarms += found;
        }
        let (name, races) = (noise.name(), series * gates * PATHS);
        println!("| {name} | {with} of {series} | {alarms} of {races} |");
        if asked.is_some() {
            // 11 of 100 or more have a probability of 1.1 % at a true rate of 5 % (binomial).
            assert!(with * 10 <= series, "{name}: {with} of {series}");
        }
        total += alarms;
    }
    // Of 64 gates two alarms or more have a probability of 0.05 % at the promised rate.
    assert!(asked.is_some() || total <= 1, "{total} alarms");
}

/// Slowdowns that are found in the time of a gate: 60 blocks a path.
#[test]
fn a_gate_finds_a_slower_build() {
    println!("| scatter of a trial | slower by | found on a path |");
    println!("|---|---|---|");
    for (scatter, slower, least) in [(0.025, 0.1, 0.95), (0.08, 0.1, 0.5), (0.08, 0.2, 0.95)] {
        let truth = [0.0, f64::ln_1p(slower)];
        let race = of_a_gate(Noise::Scatter(scatter), &truth, 0.05, 60);
        let found = (0..20).filter(|seed| race.run(9_000 + seed).worse).count() as f64 / 20.0;
        println!("| {} % | {} % | {} % |", percent(scatter), percent(slower), percent(found));
        assert!(found >= least, "{scatter} {slower}: {found}");
    }
}

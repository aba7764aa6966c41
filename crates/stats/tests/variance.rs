//! The shares of the variation against NumPy and statsmodels, and against variation that was put
//! in. How the golden numbers were made is in `tests/data/variance_golden.py`.

#![allow(clippy::unwrap_used, reason = "a broken golden file is a failed test")]

use deadheat_stats::Observation;
use deadheat_stats::rng::SplitMix64;
use deadheat_stats::variance::{FEWEST_BLOCKS, Part, level_shifts, variation};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    name: String,
    factors: usize,
    observations: Vec<Observed>,
    raw: Vec<f64>,
    share: Vec<f64>,
    shifts: Vec<BTreeMap<usize, f64>>,
}

#[derive(Deserialize)]
struct Observed {
    block: u64,
    levels: Vec<usize>,
    value: f64,
}

#[test]
fn shares_and_shifts_are_those_of_numpy() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/variance_golden.json")).unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let observations: Vec<Observation> = case
            .observations
            .into_iter()
            .map(|o| Observation { block: o.block, levels: o.levels, value: o.value })
            .collect();
        let found = variation(&observations, case.factors, 0.95, 1).unwrap();
        let mut parts: Vec<Part> = found.factors.iter().map(|part| part.unwrap()).collect();
        let none = Part { raw: 0.0, share: 0.0, interval: None };
        parts.extend([found.interactions.unwrap_or(none), found.blocks, found.residual]);
        for (at, part) in parts.iter().enumerate() {
            let (raw, share) = (case.raw[at], case.share[at]);
            assert!((part.raw - raw).abs() < 1e-9, "{}, {at}: {part:?}, not {raw}", case.name);
            assert!(
                (part.share - share).abs() < 1e-9,
                "{}, {at}: {part:?}, not {share}",
                case.name
            );
        }
        for (factor, shifts) in case.shifts.iter().enumerate() {
            let found = level_shifts(&observations, factor, 0, 0.95);
            assert_eq!(found.len(), shifts.len(), "{}, {factor}", case.name);
            for shift in found {
                let want = shifts[&shift.level];
                assert!((shift.shift - want).abs() < 1e-9, "{}: {shift:?}", case.name);
            }
        }
    }
}

/// Parts of an experiment of 3 by 3 by 2 cells: variances of the three factors, the
/// interaction of the first two, the blocks, the noise.
struct Made {
    variances: [f64; 6],
    blocks: u64,
}

const SIZES: [usize; 3] = [3, 3, 2];

impl Made {
    fn shares(&self) -> [f64; 6] {
        let total: f64 = self.variances.iter().sum();
        self.variances.map(|variance| variance / total)
    }

    /// `keep` says which cells run; half of the noise is shared by the trials of a block with the
    /// same level of the first factor if `clustered`.
    fn run(
        &self,
        rng: &mut SplitMix64,
        keep: impl Fn(u64, [usize; 3]) -> bool,
    ) -> Vec<Observation> {
        let deviations = self.variances.map(f64::sqrt);
        // Contrasts of unit variance over the levels.
        let contrast = |levels: usize, level: usize| match levels {
            2 => 2.0 * level as f64 - 1.0,
            _ => (level as f64 - 1.0) * 1.5f64.sqrt(),
        };
        let mut observations = Vec::new();
        for block in 0..self.blocks {
            let drift = deviations[4] * rng.normal();
            for cell in 0..18 {
                let levels = [cell / 6, cell / 2 % 3, cell % 2];
                let c: [f64; 3] = std::array::from_fn(|f| contrast(SIZES[f], levels[f]));
                let effects: f64 = (0..3).map(|f| deviations[f] * c[f]).sum();
                let value =
                    effects + deviations[3] * c[0] * c[1] + drift + deviations[5] * rng.normal();
                if keep(block, levels) {
                    observations.push(Observation { block, levels: levels.into(), value });
                }
            }
        }
        observations
    }
}

fn parts(observations: &[Observation]) -> Vec<Part> {
    let found = variation(observations, 3, 0.95, 7).unwrap();
    let mut parts: Vec<Part> = found.factors.iter().map(|part| part.unwrap()).collect();
    parts.extend([found.interactions.unwrap(), found.blocks, found.residual]);
    parts
}

#[test]
fn what_was_put_in_comes_out() {
    let made = Made { variances: [0.6, 0.18, 0.02, 0.05, 0.05, 0.10], blocks: 60 };
    let mut rng = SplitMix64::new(3);
    for gaps in [0, 5] {
        // Without gaps all cells run; with them, every fifth trial is missing.
        let observations = made.run(&mut rng, |block, levels| {
            let place = block as usize + 7 * levels[0] + 3 * levels[1] + levels[2];
            gaps == 0 || !place.is_multiple_of(gaps)
        });
        let parts = parts(&observations);
        for (at, (part, share)) in parts.iter().zip(made.shares()).enumerate() {
            // The blocks are drawn themselves: their variance is known to 18 % at 60 of them.
            let near = if at == 4 { 0.03 } else { 0.02 };
            assert!((part.share - share).abs() < near, "{gaps}, {at}: {part:?}, not {share}");
        }
        let sum: f64 = parts.iter().map(|part| part.share).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        assert!((parts.iter().map(|part| part.raw).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_factor_that_does_nothing_has_no_share() {
    let made = Made { variances: [0.3, 0.0, 0.0, 0.0, 0.1, 0.6], blocks: 8 };
    let mut rng = SplitMix64::new(4);
    let rounds = 200;
    let (mut raw, mut share, mut excluded) = (0.0, 0.0, 0);
    for _ in 0..rounds {
        let part = parts(&made.run(&mut rng, |_, _| true))[1];
        raw += part.raw / f64::from(rounds);
        share += part.share / f64::from(rounds);
        excluded += u32::from(part.interval.unwrap().0 > 0.0);
    }
    // Two degrees of freedom of 143, times 0.6 of the total: 0.84 % of noise on average. What the
    // clamping leaves of it is less than half.
    println!("{raw:.4} of the variation, {share:.4} without its noise");
    assert!((raw - 0.0084).abs() < 0.002, "{raw}");
    assert!(share < 0.004, "{share}");
    assert!(excluded <= rounds / 20, "{excluded} of {rounds} intervals leave out 0");
}

#[test]
fn intervals_hold_what_they_say() {
    let variances = [0.5, 0.15, 0.03, 0.04, 0.08, 0.20];
    for (blocks, least) in [(FEWEST_BLOCKS as u64, 0.85), (12, 0.88), (24, 0.88)] {
        let made = Made { variances, blocks };
        let mut rng = SplitMix64::new(5);
        let rounds = 200;
        let mut held = [0u32; 6];
        for _ in 0..rounds {
            let parts = parts(&made.run(&mut rng, |_, _| true));
            for (at, part) in parts.iter().enumerate() {
                let Some((low, high)) = part.interval else { continue };
                assert!(low <= part.share && part.share <= high);
                held[at] += u32::from(low <= made.shares()[at] && made.shares()[at] <= high);
            }
        }
        println!("{blocks} blocks: {held:?} of {rounds}");
        for (at, held) in held.iter().enumerate() {
            // The blocks have no interval.
            let least = if at == 4 { 0.0 } else { least };
            assert!(f64::from(*held) >= least * f64::from(rounds), "{blocks}, {at}: {held}");
        }
    }
}

#[test]
fn level_shifts_have_the_right_size_and_their_intervals_hold() {
    let made = Made { variances: [0.6, 0.0, 0.02, 0.0, 0.5, 0.10], blocks: 10 };
    // From the lowest to the highest of three levels are two steps of sqrt(1.5) deviations.
    let truth = 2.0 * (1.5f64 * 0.6).sqrt();
    let mut rng = SplitMix64::new(6);
    let mut held = 0;
    for _ in 0..300 {
        // The highest level is infeasible with the second one of the second factor.
        let observations = made.run(&mut rng, |_, levels| levels[..2] != [2, 1]);
        let shifts = level_shifts(&observations, 0, 0, 0.95);
        assert_eq!(
            shifts.iter().map(|s| (s.level, s.blocks)).collect::<Vec<_>>(),
            [(1, 10), (2, 10)]
        );
        assert!((shifts[1].shift - truth).abs() < 0.4, "{shifts:?}");
        let back = level_shifts(&observations, 0, 2, 0.95);
        assert!((back[0].shift + shifts[1].shift).abs() < 1e-12, "{back:?}");
        let (low, high) = shifts[1].interval.unwrap();
        held += u32::from(low <= truth && truth <= high);
    }
    assert!((277..=297).contains(&held), "{held} of 300");
}

#[test]
fn too_little_is_said_to_be_too_little() {
    let made = Made { variances: [0.5, 0.1, 0.1, 0.0, 0.1, 0.2], blocks: 5 };
    let observations = made.run(&mut SplitMix64::new(8), |_, _| true);
    let found = variation(&observations, 3, 0.95, 1).unwrap();
    assert_eq!((found.blocks_used, found.observations), (5, 90));
    assert!(found.factors.iter().flatten().all(|part| part.interval.is_none() && part.raw > 0.0));
    assert!(level_shifts(&observations, 0, 0, 0.95).iter().all(|shift| shift.interval.is_none()));
    let one_size: Vec<Observation> =
        observations.iter().filter(|o| o.levels[1] == 2).cloned().collect();
    let found = variation(&one_size, 3, 0.95, 1).unwrap();
    assert_eq!(found.factors.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    // One block, one cell, no variation, values that are none, levels that are missing.
    assert_eq!(variation(&observations[..18], 3, 0.95, 1), None);
    let cell: Vec<Observation> =
        observations.iter().filter(|o| o.levels == [0, 0, 0]).cloned().collect();
    assert_eq!(variation(&cell, 3, 0.95, 1), None);
    let with = |value: f64| -> Vec<Observation> {
        observations.iter().cloned().map(|o| Observation { value, ..o }).collect()
    };
    assert_eq!(variation(&with(1.0), 3, 0.95, 1), None);
    assert_eq!(variation(&with(f64::NAN), 3, 0.95, 1), None);
    assert_eq!(variation(&observations, 2, 0.95, 1), None);
    assert_eq!(variation(&[], 3, 0.95, 1), None);
    assert!(level_shifts(&observations, 3, 0, 0.95).is_empty());
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let made = Made { variances: [0.5, 0.1, 0.1, 0.0, 0.1, 0.2], blocks: 8 };
    let observations = made.run(&mut SplitMix64::new(9), |_, _| true);
    let with = |seed| variation(&observations, 3, 0.95, seed).unwrap().factors[0].unwrap().interval;
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

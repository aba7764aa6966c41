//! Share of each factor in the variation: "placement 71 %, call size 18 %, transport 2 %".
//!
//! An observation is the logarithm of one trial's figure, so that effects are ratios. Sums of squares follow
//! `factorial`: blocks first, then the factors, averaged over all orders if cells are missing, then the interactions of
//! all factors together; the rest is noise.
//!
//! # Correction of the shares for noise
//!
//! A factor without an effect still has a sum of squares: noise, on average its degrees of freedom times the noise
//! variance. That is subtracted (`SS - df MSE`, over the total sum of squares: epsilon squared, Kelley 1935, PNAS 21),
//! also from the blocks and interactions, and added to the residual. ε² is used instead of ω² (Hays 1963), because its
//! parts add up to the whole, and because it is less biased if they differ (Okada 2013, Behaviormetrika 40). A share
//! below zero belongs to a factor without a visible effect; it is set to 0, and the difference is taken from the
//! residual. `raw` is the share without correction.
//!
//! # Intervals
//!
//! The bootstrap draws whole blocks with replacement, [`RESAMPLES`] times from a fixed seed: common effects of a block
//! are preserved, and the noise need not be normal, or equal in all cells. A resample has its own noise beside the
//! noise of the data, so the expected noise is subtracted twice. Percentiles of few blocks are too narrow; their levels
//! are widened by the ratio of Student's t to the normal (Hesterberg 2015, Am. Stat. 69(4), "expanded percentile"). In
//! simulations of three factors, 95 % intervals had a coverage of 88 to 96 % with 6 blocks and 90 to 97 % with 12 or
//! more. With fewer than [`FEWEST_BLOCKS`] there is no interval. The share of the blocks never has one: there are only
//! as many values of it as blocks, and in simulations resampling them gave a coverage as low as 70 %.

use super::factorial::{Factorial, Observation, Squares, Sums};
use super::quantile::quantile_sorted;
use super::{normal, serial, signed_rank, student};
use crate::rng::SplitMix64;
use std::collections::BTreeMap;

/// Minimum number of blocks for an interval: five have only 126 different resamples.
pub const FEWEST_BLOCKS: usize = 6;

/// Number of resamples behind each interval.
pub const RESAMPLES: usize = 1_000;

/// Part of a factor, or of another source, in the variation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Sum of squares over the total, in `[0, 1]`, with noise.
    pub raw: f64,
    /// Share without its expected noise, in `[0, 1]`.
    pub share: f64,
    /// Interval of the share; `None` with fewer than [`FEWEST_BLOCKS`], and for the blocks.
    pub interval: Option<(f64, f64)>,
}

/// Variation and its parts; their shares add up to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    /// Parts by factor, in the order of [`Observation::levels`]; `None` if only one level was observed.
    pub factors: Vec<Option<Part>>,
    /// Part of the interactions of all factors together; `None` if there cannot be any, for example with a single
    /// factor.
    pub interactions: Option<Part>,
    /// Part of the blocks: conditions that changed with the time.
    pub blocks: Part,
    /// Part of the residual: scatter of trials under the same conditions in the same block.
    pub residual: Part,
    /// Number of observations that it is based on.
    pub observations: usize,
    /// Number of blocks that it is based on.
    pub blocks_used: usize,
}

/// Splits the variation among `factors` factors, with intervals at `confidence` (in (0, 1)).
///
/// `None` without variation, with a single block or cell, with too few observations to separate noise from effects,
/// with values that are not finite, or with more than eight factors.
pub fn variation(
    observations: &[Observation],
    factors: usize,
    confidence: f64,
    seed: u64,
) -> Option<Variation> {
    let data = Factorial::new(observations, factors)?;
    let blocks = data.blocks();
    let sums = data.sums(&vec![1.0; blocks]);
    let raw = Shares::raw(&sums)?;
    let shares = Shares::of(&sums, Noise::Once)?.clamped();
    let resampled = resample(&data, seed, confidence);
    let part = |at: usize| Part {
        // Rounding errors could make it more than 1.
        raw: raw.0[at].min(1.0),
        share: shares.0[at],
        // The interval always contains the share itself.
        interval: resampled
            .as_ref()
            .map(|ends| (ends[at].0.min(shares.0[at]), ends[at].1.max(shares.0[at]))),
    };
    Some(Variation {
        factors: (0..factors)
            .map(|at| (sums.factors[at].freedom > 0.0).then(|| part(at)))
            .collect(),
        interactions: (sums.interactions.freedom > 0.5).then(|| part(factors)),
        blocks: Part { interval: None, ..part(factors + 1) },
        residual: part(factors + 2),
        observations: observations.len(),
        blocks_used: blocks,
    })
}

/// Number of times that the expected noise is subtracted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    /// Once, for the data.
    Once,
    /// Twice, for a resample of blocks, which has the noise of the data and its own.
    Twice,
}

/// Shares of the total: the factors, the interactions, the blocks, the residual.
#[derive(Debug, Clone, PartialEq)]
struct Shares(Vec<f64>);

impl Shares {
    /// Returns the uncorrected shares. `None` without variation.
    fn raw(sums: &Sums) -> Option<Shares> {
        let share = |squares: &Squares| squares.sum / sums.total;
        let rest = [&sums.interactions, &sums.blocks, &sums.residual];
        (sums.total > 0.0).then(|| Shares(sums.factors.iter().chain(rest).map(share).collect()))
    }

    /// Returns the shares without their expected noise. `None` if noise and effects cannot be separated.
    fn of(sums: &Sums, noise: Noise) -> Option<Shares> {
        let has_effects = sums.factors.iter().any(|factor| factor.freedom > 0.5);
        if sums.total <= 0.0 || sums.residual.freedom < 0.5 || !has_effects {
            return None;
        }
        let variance = sums.residual.sum / sums.residual.freedom;
        let share = |squares: &Squares, times: f64| {
            (squares.sum - times * squares.freedom * variance) / sums.total
        };
        let times = if noise == Noise::Once { 1.0 } else { 2.0 };
        let effects = sums.factors.iter().chain([&sums.interactions]);
        let mut shares: Vec<f64> = effects.map(|squares| share(squares, times)).collect();
        // A resample draws whole blocks, so their means have no additional noise.
        shares.push(share(&sums.blocks, 1.0));
        shares.push(1.0 - shares.iter().sum::<f64>());
        Some(Shares(shares))
    }

    /// Sets shares below zero to zero; the residual is reduced, so that they still add up to 1.
    fn clamped(mut self) -> Shares {
        let residual = self.0.pop().map(|_| 0.0);
        self.0.iter_mut().for_each(|share| *share = share.clamp(0.0, 1.0));
        let rest = 1.0 - self.0.iter().sum::<f64>();
        self.0.extend(residual.map(|zero| rest.max(zero)));
        self
    }
}

/// Returns the ends of the interval of each share, in the order of [`Shares`].
fn resample(data: &Factorial, seed: u64, confidence: f64) -> Option<Vec<(f64, f64)>> {
    let blocks = data.blocks();
    let tail = 0.5 * (1.0 - confidence);
    if blocks < FEWEST_BLOCKS || !(tail > 0.0 && tail < 0.5) {
        return None;
    }
    let mut rng = SplitMix64::new(seed);
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for _ in 0..RESAMPLES {
        let mut weights = vec![0.0; blocks];
        (0..blocks).for_each(|_| weights[rng.below(blocks as u64) as usize] += 1.0);
        // A resample of a single block has no noise and no information.
        let Some(shares) = Shares::of(&data.sums(&weights), Noise::Twice) else { continue };
        columns.resize(shares.0.len(), Vec::new());
        columns.iter_mut().zip(shares.0).for_each(|(column, share)| column.push(share));
    }
    let n = blocks as f64;
    let wider = (n / (n - 1.0)).sqrt() * student::upper_quantile(tail, blocks as u64 - 1);
    let tail = normal::upper_tail(wider);
    let ends = |column: &mut Vec<f64>| {
        column.sort_unstable_by(f64::total_cmp);
        let at = |q: f64| Some(quantile_sorted(column, q)?.clamp(0.0, 1.0));
        at(tail).zip(at(1.0 - tail))
    };
    columns.iter_mut().map(ends).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// Shift between one level of a factor and another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelShift {
    /// Index of the level.
    pub level: usize,
    /// Shift of the logarithm: positive if the figure is larger than at the reference.
    pub shift: f64,
    /// Interval of the shift; `None` with too few blocks for the confidence (six for 95 %).
    pub interval: Option<(f64, f64)>,
    /// Number of blocks with a comparison of both levels.
    pub blocks: usize,
}

/// Compares each other level of `factor` with the level `reference`, with all other factors equal.
///
/// In each block, trials that differ in this factor alone are compared, and the mean of their differences is the value
/// of the block: thus a level that is infeasible with some others is compared only where both ran. Over blocks, the
/// estimate is Hodges and Lehmann's, with the interval of the signed-rank test, as for verdicts. Levels that never ran
/// beside the reference are omitted.
pub fn level_shifts(
    observations: &[Observation],
    factor: usize,
    reference: usize,
    confidence: f64,
) -> Vec<LevelShift> {
    // Groups: block and the other levels, then this level.
    let mut groups: BTreeMap<(u64, Vec<usize>), BTreeMap<usize, f64>> = BTreeMap::new();
    for observation in observations {
        let mut others = observation.levels.clone();
        if factor < others.len() {
            let level = others.remove(factor);
            let group = groups.entry((observation.block, others)).or_default();
            group.insert(level, observation.value);
        }
    }
    // Sum and number of the differences, by level and block.
    let mut differences: BTreeMap<usize, BTreeMap<u64, (f64, f64)>> = BTreeMap::new();
    for ((block, _), group) in &groups {
        let Some(first) = group.get(&reference) else { continue };
        for (level, value) in group.iter().filter(|(level, _)| **level != reference) {
            let sum = differences.entry(*level).or_default().entry(*block).or_default();
            *sum = (sum.0 + value - first, sum.1 + 1.0);
        }
    }
    let shift = |(level, blocks): (usize, BTreeMap<u64, (f64, f64)>)| {
        let means: Vec<f64> = blocks.values().map(|(sum, number)| sum / number).collect();
        Some(LevelShift {
            level,
            shift: signed_rank::hodges_lehmann(&means)?,
            interval: signed_rank::interval(&means, confidence)
                .map(|interval| interval.widened(serial::inflation(&means)))
                .map(|interval| (interval.low, interval.high)),
            blocks: means.len(),
        })
    };
    differences.into_iter().filter_map(shift).collect()
}

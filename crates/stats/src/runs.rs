//! Runs: the same race run several times, and the difference between runs of an old version and of a new one.
//!
//! Two runs of the same version differ by more than the scatter of their trials: placement, memory and the host's other
//! work are constant within a run. So the replicate here is the run, with one figure: the median of its logarithms.
//! Several runs of the old version give the differences between runs, and with them the range of the next run.
//!
//! [`reach`] gives that range, in standard deviations between runs: the quantile of the distance between old and new
//! over the deviation estimated from few runs. Under a normal distribution that is Student's t (for one new run) and
//! the simultaneous prediction limit of Hahn (1969, J. Am. Stat. Assoc. 64; 1970, J. Qual. Technol. 2) for the next `n`
//! runs. Runs have heavier tails, so here it is computed for a Laplace distribution, with exponential tails; the limits
//! for Student's t with five degrees of freedom are about the same. They are simulated with a fixed seed: no closed
//! form exists.
//!
//! The scatter of runs is at least the error of a median as estimated from the trials within a run.

use super::estimate::{Estimate, sorted_finite};
use super::quantile::{median_ranks, median_sorted};
use super::rng::SplitMix64;
use super::{normal, serial};

/// Minimum number of runs of a baseline for a gate: two give a deviation with one degree of freedom, which may be a
/// hundredth of the true one.
pub const FEWEST_RUNS: usize = 3;

/// Minimum number of draws for a quantile.
const DRAWS: u64 = 40_000;

/// Minimum number of draws beyond the quantile, as far as [`MOST_DRAWS`] allows.
const BEYOND: f64 = 100.0;

const MOST_DRAWS: u64 = 400_000;

/// Number of draws if each look has several new runs.
const DRAWS_OF_SEVERAL: u64 = 10_000;

const SEED: u64 = 0x7275_6e73_5f61_7061;

/// Share of changes of the size [`RunsApart::found`] that are found.
const POWER: f64 = 0.8;

/// Figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunCentre {
    /// Median of the logarithms of its trials.
    pub centre: f64,
    /// Variance of that median, estimated from the trials of the run; 0 with too few trials.
    pub variance: f64,
}

impl RunCentre {
    /// Returns the figure of a run from the logarithms of its trials, in the order in which they ran. `None` without
    /// trials, or if a logarithm is not finite.
    pub fn of(logs: &[f64]) -> Option<RunCentre> {
        let sorted = sorted_finite(logs.to_vec())?;
        let end = |rank: usize| sorted.get(rank).copied();
        let ends = median_ranks(sorted.len(), 0.05);
        let width = ends.and_then(|(low, high)| Some(end(high)? - end(low)?)).unwrap_or(0.0);
        let error = width / (2.0 * normal::upper_quantile(0.025)) * serial::inflation(logs);
        Some(RunCentre { centre: median_sorted(&sorted)?, variance: error * error })
    }
}

/// Scope of the level of a comparison of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// A single comparison, in both directions.
    Once,
    /// This number of comparisons with the same old runs together, in one direction.
    Runs(u64),
}

/// Distance of new runs from old ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunsApart {
    /// Mean of the new runs minus the mean of the old ones, in logarithms.
    pub shift: f64,
    /// Standard deviation between runs of the same version.
    pub deviation: f64,
    /// Numbers of runs: old, new.
    pub runs: [usize; 2],
}

impl RunsApart {
    /// Returns the distance. `None` if neither version has two runs, so that the differences between runs are unknown.
    pub fn of(old: &[RunCentre], new: &[RunCentre]) -> Option<RunsApart> {
        let freedom = (old.len() + new.len()).checked_sub(2).filter(|freedom| *freedom > 0)?;
        let shift = mean(new, |run| run.centre)? - mean(old, |run| run.centre)?;
        let squares = |runs: &[RunCentre]| {
            let centre = mean(runs, |run| run.centre)?;
            Some(runs.iter().map(|run| (run.centre - centre).powi(2)).sum::<f64>())
        };
        let between = (squares(old)? + squares(new)?) / freedom as f64;
        let [within, newer] = [old, new].map(|runs| mean(runs, |run| run.variance));
        let (within, newer) = (within?, newer?);
        // A new run with fewer trials than the old ones has more noise of its own.
        let variance = between.max(within) + (newer - within).max(0.0);
        Some(RunsApart { shift, deviation: variance.sqrt(), runs: [old.len(), new.len()] })
    }

    /// Returns the shift, with an interval of `reach` deviations on both sides.
    pub fn interval(&self, reach: f64, confidence: f64) -> Estimate {
        let arm = reach * self.deviation;
        Estimate { point: self.shift, low: self.shift - arm, high: self.shift + arm, confidence }
    }

    /// Returns the shift that four of five comparisons would find with `reach`, at least `margin`: both in logarithms.
    pub fn found(&self, reach: f64, margin: f64) -> f64 {
        let [old, new] = self.runs.map(|runs| 1.0 / runs as f64);
        let scatter = self.deviation * (old + new).sqrt();
        (reach * self.deviation).max(margin) + normal::upper_quantile(1.0 - POWER) * scatter
    }
}

fn mean(runs: &[RunCentre], of: fn(&RunCentre) -> f64) -> Option<f64> {
    (!runs.is_empty()).then(|| runs.iter().map(of).sum::<f64>() / runs.len() as f64)
}

/// Returns the largest distance of unchanged new runs from old ones, in deviations between runs: the probability of a
/// larger one among all comparisons of the promise is `error`. `runs` are the numbers of old and new runs; infinite if
/// they give no deviation.
pub fn reach(runs: [usize; 2], promise: Promise, error: f64) -> f64 {
    let [old, new] = runs;
    if old == 0 || new == 0 || old + new < 3 || !(error > 0.0 && error < 1.0) {
        return f64::INFINITY;
    }
    let looks = match promise {
        Promise::Once => 1,
        Promise::Runs(looks) => looks.max(1),
    };
    let draws = match (new, looks) {
        (2.., 2..) => DRAWS_OF_SEVERAL,
        _ => DRAWS.max(((BEYOND / error) as u64).min(MOST_DRAWS)),
    };
    let mut rng = SplitMix64::new(SEED);
    let mut once = |_| {
        let distance = distance(&mut rng, runs, looks);
        if promise == Promise::Once { distance.abs() } else { distance }
    };
    let mut distances: Vec<f64> = (0..draws).map(&mut once).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let at = ((1.0 - error) * draws as f64).ceil() as usize;
    distances.get(at).or(distances.last()).copied().unwrap_or(f64::INFINITY)
}

/// Draws the largest distance of `looks` comparisons with the same old runs, over the deviation estimated from the
/// runs.
fn distance(rng: &mut SplitMix64, [old, new]: [usize; 2], looks: u64) -> f64 {
    let mut moments = |count: usize| {
        let drawn: Vec<f64> = (0..count).map(|_| laplace(rng.unit())).collect();
        let mean = drawn.iter().sum::<f64>() / count as f64;
        (mean, drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>())
    };
    let (before, mut squares) = moments(old);
    let (mut after, more) = moments(new);
    squares += more;
    if new == 1 {
        // A single draw of the largest of `looks` values.
        after = largest(rng.unit(), looks);
    } else {
        for _ in 1..looks {
            let sum: f64 = (0..new).map(|_| laplace(rng.unit())).sum();
            after = after.max(sum / new as f64);
        }
    }
    (after - before) / (squares / (old + new - 2) as f64).sqrt()
}

/// Returns the quantile of the Laplace distribution at a probability.
fn laplace(probability: f64) -> f64 {
    let tail = |p: f64| (2.0 * p.max(f64::MIN_POSITIVE)).ln();
    if probability < 0.5 { tail(probability) } else { -tail(1.0 - probability) }
}

/// Returns the quantile of the largest of `n` draws from the Laplace distribution.
fn largest(probability: f64, n: u64) -> f64 {
    let log = probability.max(f64::MIN_POSITIVE).ln() / n as f64;
    // 1 - p^(1/n), which is too near to 0 for a subtraction.
    let above = -log.exp_m1();
    if above > 0.5 { laplace(1.0 - above) } else { -(2.0 * above.max(f64::MIN_POSITIVE)).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(centres: &[f64]) -> Vec<RunCentre> {
        centres.iter().map(|centre| RunCentre { centre: *centre, variance: 0.0 }).collect()
    }

    #[test]
    fn a_run_is_the_median_of_its_trials_with_its_own_error() {
        let mut rng = SplitMix64::new(1);
        let logs: Vec<f64> = (0..100).map(|_| 3.0 + 0.1 * rng.normal()).collect();
        let run = RunCentre::of(&logs).unwrap();
        // A median of 100 normal values is off by 1.25 × 0.1 / 10.
        assert!((run.centre - 3.0).abs() < 0.04, "{run:?}");
        assert!((0.009..0.022).contains(&run.variance.sqrt()), "{run:?}");
        assert_eq!(RunCentre::of(&[1.0, 2.0, 4.0]).unwrap().variance, 0.0);
        assert_eq!(RunCentre::of(&[]), None);
        assert_eq!(RunCentre::of(&[1.0, f64::NAN]), None);
    }

    /// Laplace samples: t of 8 against 1 has its 95 % quantile near Student's 2.36 × √(9/8); over a hundred runs
    /// it is that of an independent simulation (NumPy, 200,000 draws): 19.1, 10.7, 8.0 and 6.0, with ±3 %.
    #[test]
    fn limits_are_those_of_an_independent_simulation() {
        let once = reach([8, 1], Promise::Once, 0.05);
        assert!((2.5..3.0).contains(&once), "{once}");
        for (old, want) in [(3, 19.1), (5, 10.7), (8, 8.0), (20, 6.0)] {
            let got = reach([old, 1], Promise::Runs(100), 0.05);
            assert!((got / want - 1.0).abs() < 0.05, "{old}: {got} instead of {want}");
        }
        // The larger side is as good on either.
        let [one, other] = [[6, 2], [2, 6]].map(|runs| reach(runs, Promise::Once, 0.05));
        assert!((one / other - 1.0).abs() < 0.05, "{one} {other}");
        assert!(reach([6, 6], Promise::Once, 0.05) < one);
        assert!(reach([6, 3], Promise::Runs(100), 0.05) < reach([6, 1], Promise::Runs(100), 0.05));
    }

    #[test]
    fn without_two_runs_of_anything_nothing_is_known() {
        assert_eq!(RunsApart::of(&runs(&[1.0]), &runs(&[2.0])), None);
        assert_eq!(RunsApart::of(&[], &runs(&[2.0, 3.0])), None);
        assert_eq!(reach([1, 1], Promise::Once, 0.05), f64::INFINITY);
        assert!(RunsApart::of(&runs(&[1.0]), &runs(&[2.0, 2.5])).is_some());
    }

    #[test]
    fn runs_that_agree_by_chance_are_not_taken_for_sure() {
        let same = [RunCentre { centre: 1.0, variance: 0.0004 }; 4];
        let new = [RunCentre { centre: 1.1, variance: 0.0004 }];
        let apart = RunsApart::of(&same, &new).unwrap();
        assert!((apart.deviation - 0.02).abs() < 1e-12 && (apart.shift - 0.1).abs() < 1e-12);
        let short = [RunCentre { centre: 1.1, variance: 0.0020 }];
        let apart = RunsApart::of(&same, &short).unwrap();
        assert!((apart.deviation - 0.002f64.sqrt()).abs() < 1e-12, "{apart:?}");
    }

    #[test]
    fn more_runs_find_smaller_changes_and_never_below_the_margin() {
        let found = |old: usize| {
            let centres: Vec<f64> = (0..old).map(|at| 0.02 * (at % 2) as f64).collect();
            let apart = RunsApart {
                deviation: 0.02,
                ..RunsApart::of(&runs(&centres), &runs(&[0.0])).unwrap()
            };
            apart.found(reach([old, 1], Promise::Runs(100), 0.05), 0.05)
        };
        let sizes = [3, 5, 8, 20].map(found);
        assert!(sizes.windows(2).all(|pair| pair[1] < pair[0]), "{sizes:?}");
        let apart = RunsApart { shift: 0.0, deviation: 1e-6, runs: [20, 1] };
        assert!((apart.found(6.0, 0.05) - 0.05).abs() < 1e-4);
    }
}

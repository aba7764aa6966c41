//! A percentile of all trials of one contender together. A high percentile has too few samples beyond it in a single
//! trial; all trials together have enough. The samples of one trial are not independent, so the interval comes from
//! resampling whole trials (the cluster bootstrap: Davison & Hinkley 1997, "Bootstrap Methods and their Application",
//! 3.8).

use super::estimate::Estimate;
use super::quantile;
use crate::rng::SplitMix64;

/// Number of resamples: the ends of the interval are then accurate to about a twentieth of its width.
const RESAMPLES: usize = 1_000;

/// Minimum number of trials for an interval: with fewer, resampling underestimates their differences.
const FEWEST_TRIALS: usize = 10;

/// Returns the `q` quantile (nearest rank) of all samples of all `trials`, each in ascending order, with a percentile
/// interval of this `confidence`. A lost sample is `f64::INFINITY`, and so is a quantile or an end of the interval
/// that falls among such samples.
///
/// `None` with fewer than ten samples beyond the quantile, with fewer than ten trials, or if a sample is not a number.
pub fn pooled_quantile(
    trials: &[Vec<f64>],
    q: f64,
    confidence: f64,
    seed: u64,
) -> Option<Estimate> {
    let n: usize = trials.iter().map(Vec::len).sum();
    let is_number = |sample: &f64| !sample.is_nan();
    if trials.len() < FEWEST_TRIALS
        || !quantile::printable(n as u64, q)
        || !trials.iter().flatten().all(is_number)
        || !(0.0..1.0).contains(&confidence)
    {
        return None;
    }
    let pool = Pool::of(trials);
    let point = pool.quantile(&vec![1; trials.len()], q)?;
    let mut rng = SplitMix64::new(seed);
    let mut drawn: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let mut weights = vec![0; trials.len()];
            for _ in trials {
                weights[rng.below(trials.len() as u64) as usize] += 1;
            }
            pool.quantile(&weights, q)
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    Some(Estimate {
        point,
        low: quantile::quantile_sorted(&drawn, tail)?,
        high: quantile::quantile_sorted(&drawn, 1.0 - tail)?,
        confidence,
    })
}

/// Samples of all trials in ascending order, each with its trial.
struct Pool {
    samples: Vec<(f64, u32)>,
    lens: Vec<u64>,
}

impl Pool {
    fn of(trials: &[Vec<f64>]) -> Pool {
        let own = |(at, trial): (usize, &Vec<f64>)| {
            trial.iter().map(|sample| (*sample, at as u32)).collect::<Vec<_>>()
        };
        let mut samples: Vec<(f64, u32)> = trials.iter().enumerate().flat_map(own).collect();
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        Pool { samples, lens: trials.iter().map(|trial| trial.len() as u64).collect() }
    }

    /// Returns the quantile if each trial is counted `weights` times. The search starts from above, because few samples
    /// lie beyond a high quantile.
    fn quantile(&self, weights: &[u64], q: f64) -> Option<f64> {
        let n: u64 = self.lens.iter().zip(weights).map(|(len, weight)| len * weight).sum();
        let beyond = n - quantile::nearest_rank(n, q)?;
        let mut passed = 0;
        for (sample, trial) in self.samples.iter().rev() {
            passed += weights[*trial as usize];
            if passed > beyond {
                return Some(*sample);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws trials of exponential samples, whose scales differ from trial to trial by about `spread`.
    fn trials(count: usize, len: usize, spread: f64, seed: u64) -> Vec<Vec<f64>> {
        let mut rng = SplitMix64::new(seed);
        let mut one = || {
            let scale = (spread * rng.normal()).exp();
            let mut trial: Vec<f64> = (0..len).map(|_| -scale * (1.0 - rng.unit()).ln()).collect();
            trial.sort_by(f64::total_cmp);
            trial
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn it_is_the_quantile_of_all_samples() {
        let trials = trials(40, 100, 0.1, 1);
        let mut all = trials.concat();
        all.sort_by(f64::total_cmp);
        for q in [0.5, 0.9, 0.99, 0.997] {
            let found = pooled_quantile(&trials, q, 0.95, 1).unwrap();
            assert_eq!(Some(found.point), quantile::quantile_sorted(&all, q));
            assert!(found.low <= found.point && found.point <= found.high, "{q}: {found:?}");
            assert_eq!(pooled_quantile(&trials, q, 0.95, 1), Some(found), "seeded");
        }
    }

    /// The 99th percentile of these is known: that of the exponential distribution.
    #[test]
    fn its_interval_holds_the_truth_as_often_as_it_says() {
        let truth = -(0.01f64).ln();
        let holds = |spread| {
            let held = (0..200).filter(|seed| {
                let trials = trials(60, 50, spread, 1_000 + seed);
                let found = pooled_quantile(&trials, 0.99, 0.95, *seed).unwrap();
                (found.low..=found.high).contains(&truth)
            });
            held.count()
        };
        // 190 of 200 are promised; chance leaves 177 to 199 with 30 samples beyond.
        assert!((177..=199).contains(&holds(0.0)), "{}", holds(0.0));
    }

    #[test]
    fn trials_that_differ_widen_it_and_a_bootstrap_of_samples_would_not() {
        let width = |spread| {
            let found = pooled_quantile(&trials(60, 400, spread, 3), 0.5, 0.95, 3).unwrap();
            (found.high / found.low).ln()
        };
        assert!(width(0.3) > 4.0 * width(0.0), "{} {}", width(0.3), width(0.0));
    }

    #[test]
    fn lost_samples_push_it_beyond_and_too_few_say_nothing() {
        let mut lossy = trials(20, 100, 0.0, 5);
        for trial in &mut lossy {
            trial[97] = f64::INFINITY;
            trial.sort_by(f64::total_cmp);
        }
        let found = pooled_quantile(&lossy, 0.995, 0.95, 5).unwrap();
        assert_eq!((found.point, found.high), (f64::INFINITY, f64::INFINITY));
        assert!(pooled_quantile(&lossy, 0.9, 0.95, 5).unwrap().high.is_finite());
        assert_eq!(pooled_quantile(&lossy, 0.999, 0.95, 5), None, "two beyond");
        assert_eq!(pooled_quantile(&lossy[..9], 0.5, 0.95, 5), None);
        assert_eq!(pooled_quantile(&[], 0.5, 0.95, 5), None);
        lossy[3][4] = f64::NAN;
        assert_eq!(pooled_quantile(&lossy, 0.5, 0.95, 5), None);
    }
}

//! Random times and sizes. Both ends draw the same ones, from the seed of the trial, which all contenders of a block
//! share.

use deadheat_base::rng::SplitMix64;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;

use crate::paced::Period;

/// Declares the spread of arrivals.
pub(super) const fn arrivals_key(doc: &'static str) -> Preset<Spread> {
    let values = &[Spread::Poisson, Spread::Constant];
    Optional::choice("arrivals", &["poisson", "constant"], values).or("poisson").doc(doc)
}

/// Spread of arrivals over a time, with one period per arrival on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// Poisson process, as of many independent people, under the condition that exactly the given number of arrivals
    /// fall into the time.
    Poisson,
    /// Arrivals all equally far apart.
    Constant,
}

/// Times of arrivals after the start, in their order.
#[derive(Debug, Clone)]
pub(super) struct Arrivals {
    spread: Spread,
    period: Period,
    count: u64,
    index: u64,
    draws: SplitMix64,
    /// Nanoseconds for each unit of the exponential distribution, and the time so far.
    scale: f64,
    at: f64,
}

impl Arrivals {
    /// Creates `count` arrivals in as many periods.
    pub(super) fn new(spread: Spread, period: Period, count: u64, seed: u64) -> Arrivals {
        let draws = SplitMix64::new(seed ^ ARRIVALS);
        let scale = match spread {
            Spread::Constant => 0.0,
            // Exponential gaps, divided by their sum with the gap after the last, are the gaps of a Poisson process
            // under the condition that this number of events falls into the time (order statistics property).
            Spread::Poisson => {
                let mut ahead = draws.clone();
                let sum: f64 = (0..=count).map(|_| exponential(&mut ahead)).sum();
                period.times(count).0 as f64 / sum
            }
        };
        Arrivals { spread, period, count, index: 0, draws, scale, at: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        if self.index == self.count {
            return None;
        }
        let grid = self.period.times(self.index);
        self.index += 1;
        if self.spread == Spread::Constant {
            return Some(grid);
        }
        self.at += exponential(&mut self.draws) * self.scale;
        Some(Nanos(self.at as u64))
    }
}

/// Constants that make the draws for different purposes independent, with the same seed.
const ARRIVALS: u64 = 0x6172_7269_7661_6c73;
const SIZES: u64 = 0x7369_7a65_7320_6f66;

/// Draws from the exponential distribution with mean 1.
fn exponential(draws: &mut SplitMix64) -> f64 {
    -(1.0 - draws.unit()).ln()
}

/// Sizes around a mean, lognormal.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    draws: SplitMix64,
    /// The standard deviation of the logarithm.
    sigma: f64,
}

/// The largest size over the mean.
pub(super) const MOST_OVER_MEAN: f64 = 4.0;

impl Sizes {
    /// Creates sizes with a standard deviation of `cv` means.
    pub(super) fn new(cv: f64, seed: u64) -> Sizes {
        Sizes { draws: SplitMix64::new(seed ^ SIZES), sigma: (1.0 + cv * cv).ln().sqrt() }
    }

    /// Draws the next size over its mean, at most [`MOST_OVER_MEAN`].
    pub(super) fn factor(&mut self) -> f64 {
        let log = self.sigma * self.draws.normal() - self.sigma * self.sigma / 2.0;
        log.exp().min(MOST_OVER_MEAN)
    }

    /// Draws a size of this law.
    pub(super) fn of(&mut self, law: SizeLaw) -> u64 {
        let (low, high) = law.logs();
        let log = match law.percentiles {
            None => low + (high - low) * self.draws.unit(),
            Some(_) => {
                let (mean, deviation) = law.log_normal();
                mean + deviation * self.draws.normal()
            }
        };
        (log.exp().round() as u64).clamp(law.least, law.most)
    }
}

/// Law of random sizes: with a uniform logarithm, or log-normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeLaw {
    /// Smallest size.
    pub(super) least: u64,
    /// Largest size.
    pub(super) most: u64,
    /// The 5th and the 95th percentile of a log-normal law; absent for a uniform logarithm.
    percentiles: Option<(u64, u64)>,
}

/// The 95th percentile of the standard normal distribution.
const NORMAL_P95: f64 = 1.644_853_626_951_472_7;

impl SizeLaw {
    /// Creates the law of sizes from `least` to `most` with a uniform logarithm.
    pub(super) const fn between(least: u64, most: u64) -> SizeLaw {
        SizeLaw { least, most, percentiles: None }
    }

    /// Creates the log-normal law with these percentiles, of sizes up to `most`.
    pub(super) fn log_normal_of(p5: u64, p95: u64, most: u64) -> SizeLaw {
        SizeLaw { least: 1, most, percentiles: Some((p5, p95)) }
    }

    /// Returns the logarithms of the smallest and the largest size.
    fn logs(self) -> (f64, f64) {
        ((self.least.max(1) as f64).ln(), (self.most.max(1) as f64).ln())
    }

    /// Returns the mean and the standard deviation of the logarithm of a log-normal law.
    fn log_normal(self) -> (f64, f64) {
        let (p5, p95) = self.percentiles.unwrap_or((self.least, self.most));
        let (low, high) = ((p5.max(1) as f64).ln(), (p95.max(1) as f64).ln());
        ((low + high) / 2.0, (high - low) / (2.0 * NORMAL_P95))
    }

    /// Returns the mean size in bytes.
    pub(super) fn mean(self) -> f64 {
        if self.percentiles.is_some() {
            let (mean, deviation) = self.log_normal();
            return (mean + deviation * deviation / 2.0).exp();
        }
        let (least, most) = (self.least as f64, self.most as f64);
        if least == most { least } else { (most - least) / (most / least).ln() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_as_many_as_asked_for_and_in_the_time() {
        let period = Period::of_packets(20);
        for spread in [Spread::Poisson, Spread::Constant] {
            let times: Vec<Nanos> = Arrivals::new(spread, period, 1_000, 3).collect();
            assert_eq!(times.len(), 1_000);
            assert!(times.is_sorted() && times[999] < Nanos::from_secs(50));
            assert_eq!(times, Arrivals::new(spread, period, 1_000, 3).collect::<Vec<_>>());
        }
        let constant: Vec<Nanos> = Arrivals::new(Spread::Constant, period, 3, 3).collect();
        assert_eq!(constant, [0, 50, 100].map(Nanos::from_millis));
    }

    /// The gaps of a Poisson process scatter as much as they last, and e^-2 of them are longer than two means.
    #[test]
    fn poisson_arrivals_are_exponentially_far_apart() {
        let period = Period::of_packets(1_000);
        let times: Vec<Nanos> = Arrivals::new(Spread::Poisson, period, 100_000, 9).collect();
        let gaps = || times.windows(2).map(|two| (two[1] - two[0]).0 as f64 / 1e6);
        let n = gaps().count() as f64;
        let mean = gaps().sum::<f64>() / n;
        let deviation = (gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
        assert!((mean - 1.0).abs() < 0.001 && (deviation - 1.0).abs() < 0.02, "{mean} {deviation}");
        let long = gaps().filter(|gap| *gap > 2.0).count() as f64 / n;
        assert!((long - (-2.0f64).exp()).abs() < 0.003, "{long}");
    }

    #[test]
    fn sizes_have_their_mean_and_their_spread() {
        let mut sizes = Sizes::new(0.3, 5);
        let factors: Vec<f64> = (0..100_000).map(|_| sizes.factor()).collect();
        let mean = factors.iter().sum::<f64>() / 1e5;
        let deviation = (factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!(
            (mean - 1.0).abs() < 0.005 && (deviation - 0.3).abs() < 0.005,
            "{mean} {deviation}"
        );
        assert!(Sizes::new(0.0, 5).factor() == 1.0);
        let law = SizeLaw::between(1_000, 100_000);
        let drawn: Vec<u64> = (0..10_000).map(|_| sizes.of(law)).collect();
        assert!(drawn.iter().all(|size| (1_000..=100_000).contains(size)));
        let below = drawn.iter().filter(|size| **size < 10_000).count();
        assert!((4_700..5_300).contains(&below), "half below the geometric mean: {below}");
        assert_eq!(sizes.of(SizeLaw::between(7, 7)), 7);
    }

    /// The law of heistp/ccafct: the mean of these percentiles is published as 645,683 bytes.
    #[test]
    fn a_log_normal_law_has_its_percentiles_and_the_published_mean() {
        let law = SizeLaw::log_normal_of(65_536, 2_097_152, 1 << 30);
        assert!((law.mean() / 645_683.0 - 1.0).abs() < 0.001, "{}", law.mean());
        let mut sizes = Sizes::new(0.0, 5);
        let drawn: Vec<u64> = (0..100_000).map(|_| sizes.of(law)).collect();
        let below = |size: u64| drawn.iter().filter(|drawn| **drawn < size).count();
        let tails = [below(65_536), 100_000 - below(2_097_152)];
        assert!(tails.iter().all(|tail| (4_700..5_300).contains(tail)), "{tails:?}");
    }
}

//! Running summaries of times, in memory of fixed size.

use std::io;

use deadheat_stats::quantile::printable_rank;
use hdrhistogram::Histogram;

use crate::distribution::{Distribution, Quantile};
use crate::error::{Error, Result};

/// Longest time of a histogram; longer ones count as this. One hour, the longest timeout.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram with exact extremes and moments. The moments are sums of differences from the first
/// value, which keeps them exact enough without a division per sample (Chan, Golub & LeVeque 1983,
/// Am. Stat. 37(3), "shifted data").
#[derive(Debug, Clone)]
pub struct Moments {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    shift: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Creates an empty histogram with a resolution of `digits` significant decimal digits, 1 to 5.
    ///
    /// # Errors
    /// [`Error::Setup`] if the histogram cannot be created.
    pub fn new(digits: u8) -> Result<Moments> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, digits)
            .map_err(|e| Error::setup("make a histogram", io::Error::other(e.to_string())))?;
        Ok(Moments { histogram, min: u64::MAX, max: 0, shift: 0.0, sum: 0.0, squares: 0.0 })
    }

    /// Adds a time in nanoseconds.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        if self.histogram.is_empty() {
            self.shift = ns as f64;
        }
        self.histogram.saturating_record(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        let beyond = ns as f64 - self.shift;
        self.sum += beyond;
        self.squares += beyond * beyond;
    }

    /// Returns the number of times so far.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns true if there are no times yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn mean(&self) -> f64 {
        self.shift + self.sum / self.histogram.len() as f64
    }

    fn stddev(&self) -> f64 {
        let n = self.histogram.len() as f64;
        ((self.squares - self.sum * self.sum / n) / (n - 1.0)).max(0.0).sqrt()
    }

    /// Returns the summary, with `censored` more samples known only to exceed `timeout_ns`.
    pub fn distribution(&self, censored: u64, timeout_ns: u64) -> Distribution {
        self.distribution_by(censored, timeout_ns, |rank| self.at_rank(rank))
    }

    /// Returns the summary as [`Moments::distribution`], with the value at each rank (from 1) from `at_rank`.
    pub fn distribution_by(
        &self,
        censored: u64,
        timeout_ns: u64,
        at_rank: impl Fn(u64) -> u64,
    ) -> Distribution {
        let seen = self.histogram.len();
        let n = seen + censored;
        let whole = censored == 0 && seen > 0;
        let quantile = |per_mille: u64| {
            let rank = printable_rank(n, per_mille as f64 / 1000.0)?;
            Some(if rank > seen {
                Quantile::Beyond(timeout_ns)
            } else {
                Quantile::Ns(at_rank(rank))
            })
        };
        Distribution {
            n,
            censored,
            min: (seen > 0).then_some(self.min),
            max: (seen > 0).then_some(self.max),
            mean: whole.then(|| self.mean()),
            stddev: (whole && seen > 1).then(|| self.stddev()),
            p50: quantile(500),
            p90: quantile(900),
            p99: quantile(990),
            p999: quantile(999),
        }
    }

    /// Returns the value at a rank, from 1, as exact as the histogram.
    pub fn at_rank(&self, rank: u64) -> u64 {
        let share = (rank as f64 - 0.5) / self.histogram.len() as f64;
        self.histogram.value_at_quantile(share).clamp(self.min, self.max)
    }
}

/// Delays between two clocks with an unknown offset: only differences between delays are known.
///
/// The resolution of a histogram is relative to the time, so its origin must be near the shortest delay, which may be
/// any number. The first delays are stored exactly; the shortest of them is the origin for the rest, up and down.
#[derive(Debug, Clone)]
pub struct Delays {
    early: Vec<i64>,
    from: i64,
    below: Moments,
    above: Moments,
    least: i64,
    most: i64,
    n: u64,
    /// First delay, from which offsets are counted, for the mean and the deviation.
    first: i64,
    sum: f64,
    squares: f64,
}

/// Number of delays that are stored before the histograms begin.
const EARLY: usize = 4096;
/// Significant decimal digits of a delay's distance from the origin.
const DELAY_DIGITS: u8 = 3;

impl Delays {
    /// Creates a summary with no delays yet.
    ///
    /// # Errors
    /// As [`Moments::new`].
    pub fn new() -> Result<Delays> {
        Ok(Delays {
            early: Vec::with_capacity(EARLY),
            from: 0,
            below: Moments::new(DELAY_DIGITS)?,
            above: Moments::new(DELAY_DIGITS)?,
            least: i64::MAX,
            most: i64::MIN,
            n: 0,
            first: 0,
            sum: 0.0,
            squares: 0.0,
        })
    }

    /// Adds a delay in nanoseconds.
    #[inline]
    pub fn add(&mut self, ns: i64) {
        if self.n == 0 {
            self.first = ns;
        }
        self.n += 1;
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
        let beyond = ns.saturating_sub(self.first) as f64;
        self.sum += beyond;
        self.squares += beyond * beyond;
        if self.n > EARLY as u64 {
            self.count(ns);
            return;
        }
        self.early.push(ns);
        if self.early.len() == EARLY {
            self.from = self.least;
            for at in 0..EARLY {
                self.count(self.early[at]);
            }
        }
    }

    fn count(&mut self, ns: i64) {
        if ns < self.from {
            self.below.add(self.from.abs_diff(ns));
        } else {
            self.above.add(ns.abs_diff(self.from));
        }
    }

    /// Returns the shortest delay, in nanoseconds; `None` without delays.
    pub fn least(&self) -> Option<i64> {
        (self.n > 0).then_some(self.least)
    }

    /// Returns the summary of the delays above the shortest.
    pub fn above_least(&self) -> Distribution {
        if self.n == 0 {
            return Distribution::default();
        }
        let n = self.n as f64;
        let mut early = self.early.clone();
        early.sort_unstable();
        let quantile = |per_mille| {
            let rank = printable_rank(self.n, f64::from(per_mille) / 1000.0)?;
            let value = match early.get(rank as usize - 1) {
                Some(value) if self.n <= EARLY as u64 => *value,
                _ => self.at_rank(rank),
            };
            Some(Quantile::Ns(value.clamp(self.least, self.most).abs_diff(self.least)))
        };
        let variance = (self.squares - self.sum * self.sum / n) / (n - 1.0);
        Distribution {
            n: self.n,
            censored: 0,
            min: Some(0),
            max: Some(self.most.abs_diff(self.least)),
            mean: Some(self.sum / n + self.first.saturating_sub(self.least) as f64),
            stddev: (self.n > 1).then(|| variance.max(0.0).sqrt()),
            p50: quantile(500),
            p90: quantile(900),
            p99: quantile(990),
            p999: quantile(999),
        }
    }

    /// Returns the value at a rank, once all delays are in the histograms.
    fn at_rank(&self, rank: u64) -> i64 {
        let below = self.below.len();
        if rank <= below {
            self.from.saturating_sub_unsigned(self.below.at_rank(below - rank + 1))
        } else {
            self.from.saturating_add_unsigned(self.above.at_rank(rank - below))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    fn delays(values: impl IntoIterator<Item = i64>) -> Distribution {
        let mut delays = Delays::new().unwrap();
        for value in values {
            delays.add(value);
        }
        delays.above_least()
    }

    #[test]
    fn few_delays_are_exact_whatever_the_clocks_differ_by() {
        for apart in [0, -5_000_000_000_000, i64::MAX / 2] {
            let summed = delays((0..100).rev().map(|i| apart + i * 1_001));
            assert_eq!(summed.n, 100);
            assert_eq!(summed.p50, Some(Quantile::Ns(49 * 1_001)), "{apart}");
            assert_eq!((summed.min, summed.max), (Some(0), Some(99 * 1_001)));
            assert_eq!(summed.p99, None, "one sample beyond is too few");
        }
        assert_eq!(delays([]), Distribution::default());
        let mut summed = Delays::new().unwrap();
        assert_eq!(summed.least(), None);
        [7, -3, 5].into_iter().for_each(|ns| summed.add(ns));
        assert_eq!(summed.least(), Some(-3));
        let one = delays([-7]);
        assert_eq!((one.n, one.max, one.mean, one.stddev), (1, Some(0), Some(0.0), None));
    }

    #[test]
    fn many_delays_agree_with_sorting() {
        let mut rng = SplitMix64::new(5);
        // Delays shrink over time, so that most lie below where the counting begins.
        for drift in [0.0, -3.0, 3.0] {
            let values: Vec<i64> = (0..50_000)
                .map(|i| 9_000_000_000 + (f64::from(i) * drift + 200_000.0 * rng.unit()) as i64)
                .collect();
            let summed = delays(values.iter().copied());
            let mut sorted = values;
            sorted.sort_unstable();
            let least = sorted[0];
            for (got, rank) in [(summed.p50, 25_000), (summed.p99, 49_500), (summed.p999, 49_950)] {
                let want = sorted[rank - 1].abs_diff(least);
                let Some(Quantile::Ns(got)) = got else { panic!("{got:?}") };
                assert!(got.abs_diff(want) <= 400, "{drift}: {got} for {want}");
            }
            let mean =
                sorted.iter().map(|v| v.abs_diff(least) as f64).sum::<f64>() / sorted.len() as f64;
            assert!((summed.mean.unwrap() - mean).abs() < 1.0);
        }
    }

    #[test]
    fn a_first_delay_far_off_does_not_blur_the_rest() {
        let values = (0..100_000i64).map(|i| if i == 0 { 50_000_000 } else { 1_000 + i % 1_000 });
        let summed = delays(values);
        let Some(Quantile::Ns(p50)) = summed.p50 else { panic!("{summed:?}") };
        assert!(p50.abs_diff(499) <= 2, "{p50}");
    }
}

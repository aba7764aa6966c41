//! Quantiles of times, by nearest rank as in all other quantiles.

use deadheat_stats::quantile::nearest_rank;

/// Sorted times in nanoseconds, at least one.
pub(crate) struct Quantiles(Vec<u64>);

impl Quantiles {
    /// Creates the quantiles of these times; `None` if there are none.
    pub(crate) fn of(mut times: Vec<u64>) -> Option<Quantiles> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Quantiles(times))
    }

    pub(crate) fn count(&self) -> f64 {
        self.0.len() as f64
    }

    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().map(|time| *time as f64).sum()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum() / self.count()
    }

    /// Returns the geometric mean; a time of 0 counts as a nanosecond.
    pub(crate) fn geometric_mean(&self) -> f64 {
        let logs: f64 = self.0.iter().map(|time| (*time).max(1) as f64).map(f64::ln).sum();
        (logs / self.count()).exp()
    }

    pub(crate) fn least(&self) -> u64 {
        self.0.first().copied().unwrap_or(0)
    }

    pub(crate) fn greatest(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// Returns the quantile `q`: the share `q` of the times is at most this.
    pub(crate) fn at(&self, q: f64) -> f64 {
        self.among(q, self.0.len()).unwrap_or(0) as f64
    }

    /// Returns the quantile among `expected` times, with missing ones as the longest; `None` if the quantile falls
    /// among the missing ones.
    pub(crate) fn among(&self, q: f64, expected: usize) -> Option<u64> {
        let rank = nearest_rank(expected as u64, q)? as usize;
        self.0.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest_and_what_is_missing_is_longest() {
        let times = Quantiles::of((1..=100).rev().collect()).unwrap();
        assert_eq!((times.at(0.5), times.at(0.99), times.at(1.0)), (50.0, 99.0, 100.0));
        assert_eq!((times.least(), times.greatest(), times.mean()), (1, 100, 50.5));
        assert_eq!((times.among(0.99, 101), times.among(0.99, 102)), (Some(100), None));
        assert!(Quantiles::of(Vec::new()).is_none());
    }
}

//! Selection by rank among the values of all pairs of one sample, or of two samples: sums, averages, differences.
//!
//! The values are never stored: 10,000 blocks have 50 million averages of pairs. They are monotonic in the samples, so
//! one pass over sorted samples counts the values up to a limit, and bisection of the limit finds the value at any rank
//! (as Monahan 1984, ACM Trans. Math. Softw. 10, but over the bits of the limit: at most 64 passes, and no random
//! draws).

use super::Estimate;

/// Values of pairs in ascending order, by rank.
pub(super) trait Ranked {
    /// Returns the number of values.
    fn len(&self) -> usize;

    /// Returns the smallest and the largest value, both finite; `None` without values.
    fn ends(&self) -> Option<(f64, f64)>;

    /// Returns the number of values up to `limit`, inclusive.
    fn up_to(&self, limit: f64) -> usize;

    /// Returns the value at `rank`, from 1: the smallest number with at least `rank` values up to it.
    fn at(&self, rank: usize) -> Option<f64> {
        self.select(rank)
    }

    /// Returns the value at `rank` by bisection.
    fn select(&self, rank: usize) -> Option<f64> {
        if rank == 0 || rank > self.len() {
            return None;
        }
        let (least, most) = self.ends()?;
        let (mut low, mut high) = (ordered(least), ordered(most));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.up_to(from_ordered(middle)) >= rank { high = middle } else { low = middle + 1 }
        }
        // Returns the positive one of the two zeros.
        Some(from_ordered(low) + 0.0)
    }

    /// Returns the median: the mean of the two values in the middle if their number is even.
    fn median(&self) -> Option<f64> {
        let (n, half) = (self.len(), self.len() / 2);
        let upper = self.at(half + 1)?;
        if n % 2 == 1 {
            return Some(upper);
        }
        // Halved before they are added: the sum of two finite values may not be finite.
        Some(0.5 * self.at(half)? + 0.5 * upper)
    }

    /// Returns the interval between the `rank`-th smallest and the `rank`-th largest value (from 1), around the median:
    /// the shape of both Hodges–Lehmann intervals.
    fn estimate(&self, rank: usize, confidence: f64) -> Option<Estimate> {
        let low = self.at(rank)?;
        let high = self.at(self.len().checked_sub(rank)? + 1)?;
        let point = self.median()?;
        (low <= high).then_some(Estimate { point, low, high, confidence })
    }
}

/// Converts a finite number to an integer of the same order; -0 and 0 are neighbours.
fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Inverts [`ordered`].
fn from_ordered(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Compares every rank, the counts and the median of `ranked` with `all` its values.
    pub(in super::super) fn assert_is_sorted(ranked: &impl Ranked, mut all: Vec<f64>) {
        all.sort_unstable_by(f64::total_cmp);
        assert_eq!(ranked.len(), all.len());
        for (at, want) in all.iter().enumerate() {
            assert_eq!(ranked.at(at + 1), Some(*want), "rank {} of {}", at + 1, all.len());
            assert_eq!(ranked.up_to(*want), all.partition_point(|value| value <= want));
        }
        assert_eq!((ranked.at(0), ranked.at(all.len() + 1)), (None, None));
        assert_eq!(ranked.median(), super::super::quantile::median_sorted(&all));
    }

    #[test]
    fn numbers_and_keys_have_one_order() {
        let numbers = [f64::MIN, -1.0, -f64::MIN_POSITIVE, -0.0, 0.0, 1e-300, 1.0, f64::MAX];
        assert!(numbers.is_sorted_by_key(|number| ordered(*number)));
        for number in numbers {
            assert_eq!(from_ordered(ordered(number)).to_bits(), number.to_bits());
        }
    }
}

//! Persistence: a contender that remains in a state of its own for several blocks.
//!
//! A path chosen by address, a CPU or a cache of one process: such a state slows one contender for a while and no
//! other. Then blocks are not independent repetitions, the race depends on the number of changes of that state, and
//! neither random order nor the copy reveals it. Intervals are widened for a correlation of neighbouring blocks
//! ([`super::serial`]), which is enough up to [`super::serial::HOLDS_UP_TO`]; beyond that they are too narrow.
//!
//! The test is Bartels's (1982, J. Am. Stat. Assoc. 77): von Neumann's ratio of the ranks, the sum of squared steps
//! from each value to the next over the sum of squares about the mean. It is about 2 for a random order, and small if
//! neighbours are similar. It uses ranks, because one slow trial must neither mimic nor hide a state.

use super::normal;

/// Minimum number of values to detect a state.
const FEWEST: usize = 8;

/// Similarity of neighbouring values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Persistence {
    /// Correlation of the ranks of neighbours, `1 - RVN / 2`.
    pub correlation: f64,
    /// Probability of at least this similarity of neighbours if the order of the values is random.
    pub p: f64,
}

/// Returns the similarity of neighbours among these values, in order of measurement. `None` with fewer than eight, with
/// values that are not finite, or if all are equal.
pub fn persistence(values: &[f64]) -> Option<Persistence> {
    if values.len() < FEWEST || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let n = values.len() as f64;
    let ranks = ranks(values);
    let mean = 0.5 * (n + 1.0);
    let squares: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    if squares <= 0.0 {
        return None;
    }
    let steps: f64 = ranks.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let ratio = steps / squares;
    // Mean and variance over all orders (Bartels 1982); 2 and this are exact without ties.
    let variance = 4.0 * (n - 2.0) * (5.0 * n * n - 2.0 * n - 9.0)
        / (5.0 * n * (n + 1.0) * (n - 1.0) * (n - 1.0));
    let p = normal::upper_tail((2.0 - ratio) / variance.sqrt());
    Some(Persistence { correlation: 1.0 - 0.5 * ratio, p })
}

/// Returns the rank of each value, from 1; equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = 0.5 * (start + 1 + start + group.len()) as f64;
        group.iter().for_each(|at| ranks[*at] = rank);
        start += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// All 40,320 orders of eight values: the mean of the ratio is 2 and its variance that of the formula.
    #[test]
    fn moments_are_those_of_all_orders() {
        let mut values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let (mut count, mut sum, mut squares, mut rare) = (0.0, 0.0, 0.0, 0.0);
        permute(&mut values, 0, &mut |order| {
            let found = persistence(order).unwrap();
            let ratio = 2.0 * (1.0 - found.correlation);
            count += 1.0;
            sum += ratio;
            squares += (ratio - 2.0).powi(2);
            rare += f64::from(u8::from(found.p <= 0.01));
        });
        let n: f64 = 8.0;
        let variance = 4.0 * 6.0 * (5.0 * n * n - 2.0 * n - 9.0) / (5.0 * n * 9.0 * 49.0);
        assert_eq!(count, 40_320.0);
        assert!((sum / count - 2.0).abs() < 1e-12, "{}", sum / count);
        assert!((squares / count - variance).abs() < 1e-12, "{} {variance}", squares / count);
        assert!(rare / count <= 0.01, "{}", rare / count);
    }

    fn permute(values: &mut [f64; 8], at: usize, each: &mut impl FnMut(&[f64])) {
        if at == values.len() {
            return each(values);
        }
        for with in at..values.len() {
            values.swap(at, with);
            permute(values, at + 1, each);
            values.swap(at, with);
        }
    }

    #[test]
    fn random_orders_are_rarely_found_alike_whatever_the_values() {
        let mut rng = SplitMix64::new(11);
        for n in [12, 20, 40, 100] {
            let mut alike = [0; 2];
            for _ in 0..4_000 {
                let skewed: Vec<f64> = (0..n).map(|_| -(1.0 - rng.unit()).ln()).collect();
                let two: Vec<f64> = (0..n).map(|_| f64::from(u8::from(rng.unit() < 0.3))).collect();
                for (count, values) in alike.iter_mut().zip([skewed, two]) {
                    *count += u32::from(persistence(&values).is_some_and(|found| found.p <= 0.01));
                }
            }
            println!("of 4000 random orders of {n}, alike at 1 %: {alike:?}");
            assert!(alike.iter().all(|count| *count <= 60), "{n}: {alike:?}");
        }
    }

    #[test]
    fn states_are_found() {
        let state = |i: i32| f64::from(u8::from(i >= 24)) + 1e-3 * f64::from(i * 7 % 5);
        let state: Vec<f64> = (0..40).map(state).collect();
        let found = persistence(&state).unwrap();
        assert!(found.correlation > 0.5 && found.p < 1e-3, "{found:?}");
        let turns: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        assert!(persistence(&turns).unwrap().p > 0.99);
        assert_eq!(persistence(&[1.0; 20]), None);
        assert_eq!(persistence(&state[..7]), None);
        assert_eq!(persistence(&[f64::NAN; 20]), None);
    }
}

//! Test for an effect of the place in a block: the aligned rank test of Hodges & Lehmann (1962, Ann. Math. Statist.
//! 33).
//!
//! Friedman's test ranks within each block alone, which has little power for blocks of two or three trials. Here each
//! block is first shifted to a mean of zero, and then all values are ranked together.

use super::changes::doubled_ranks;
use super::normal;

/// Returns the p-value of "no place differs from another", for blocks with one value for each place. `None` with
/// fewer than two places, fewer than ten blocks, blocks of unequal length, or values that are all equal.
///
/// By the χ² limit of the statistic, in the approximation of Wilson & Hilferty (1931, PNAS 17); its error is 12 % at a
/// tail of 0.001.
pub fn aligned_ranks(blocks: &[Vec<f64>]) -> Option<f64> {
    let places = blocks.first()?.len();
    if places < 2 || blocks.len() < 10 || blocks.iter().any(|block| block.len() != places) {
        return None;
    }
    // Twice the ranks: the factor is in both sums, and cancels.
    let ranks: Vec<f64> = doubled_ranks(&aligned(blocks)).into_iter().map(|r| r as f64).collect();
    let (n, k) = (blocks.len() as f64, places as f64);
    let middle = n * k + 1.0;
    let of_place = |place| ranks.chunks(places).map(|block: &[f64]| block[place] - middle).sum();
    let between: f64 = (0..places).map(of_place).map(|sum: f64| sum * sum).sum();
    // Within a block, places are exchangeable: the variance of a place's sum follows from the ranks there.
    let spread = |block: &[f64]| {
        let mean = block.iter().sum::<f64>() / k;
        block.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>()
    };
    let within: f64 = ranks.chunks(places).map(spread).sum();
    (within > 0.0).then(|| upper_chi_squared((k - 1.0) * between / within, k - 1.0))
}

/// Aligns all values: each less the mean of its block.
fn aligned(blocks: &[Vec<f64>]) -> Vec<f64> {
    let centred = |block: &Vec<f64>| {
        let mean = block.iter().sum::<f64>() / block.len() as f64;
        block.iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    blocks.iter().flat_map(centred).collect()
}

/// Returns `P(χ² > x)` with `freedom` degrees of freedom.
fn upper_chi_squared(x: f64, freedom: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    normal::upper_tail(((x / freedom).cbrt() - (1.0 - part)) / part.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// Tables: χ² of 1 exceeds 7.879 with 0.005, of 3 12.838, of 4 18.467 with 0.001.
    #[test]
    fn tails_are_those_of_the_tables() {
        for (x, freedom, tail) in [(7.879, 1.0, 0.005), (12.838, 3.0, 0.005), (18.467, 4.0, 0.001)]
        {
            let found = upper_chi_squared(x, freedom);
            assert!((found / tail - 1.0).abs() < 0.12, "{x} {freedom}: {found}");
        }
    }

    fn blocks(rng: &mut SplitMix64, n: usize, places: &[f64]) -> Vec<Vec<f64>> {
        let mut one = |_| {
            let level = 5.0 * rng.normal();
            places.iter().map(|place| level + place + rng.normal()).collect()
        };
        (0..n).map(&mut one).collect()
    }

    /// 4,000 sound races: 5 % and 0.5 % alarms, within three standard errors.
    #[test]
    fn alarms_are_as_rare_as_promised() {
        for places in [2, 3, 5] {
            let mut rng = SplitMix64::new(places as u64);
            let races = 4_000;
            let p: Vec<f64> = (0..races)
                .map(|_| aligned_ranks(&blocks(&mut rng, 20, &vec![0.0; places])).unwrap())
                .collect();
            let below = |level: f64| p.iter().filter(|p| **p <= level).count() as f64 / 4_000.0;
            let (often, rarely) = (below(0.05), below(0.005));
            println!("{places} places: {often} at 5 %, {rarely} at 0.5 %");
            assert!((0.039..0.061).contains(&often), "{places}: {often}");
            assert!((0.001..0.009).contains(&rarely), "{places}: {rarely}");
        }
    }

    #[test]
    fn a_place_that_differs_is_found_and_a_blocks_own_level_is_not() {
        let mut rng = SplitMix64::new(7);
        assert!(aligned_ranks(&blocks(&mut rng, 40, &[2.0, 0.0, 0.0])).unwrap() < 1e-6);
        assert!(aligned_ranks(&blocks(&mut rng, 40, &[0.0, 0.0, 0.0])).unwrap() > 0.01);
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(aligned_ranks(&[]), None);
        assert_eq!(aligned_ranks(&vec![vec![1.0]; 20]), None);
        assert_eq!(aligned_ranks(&vec![vec![1.0, 2.0]; 9]), None);
        assert_eq!(aligned_ranks(&vec![vec![1.0, 1.0]; 20]), None);
        let mut unequal = vec![vec![1.0, 2.0]; 20];
        unequal[3].push(1.0);
        assert_eq!(aligned_ranks(&unequal), None);
    }
}

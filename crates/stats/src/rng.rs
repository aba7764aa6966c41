//! Seeded random numbers that never change between versions.
//!
//! A race records its seed; the order of contenders and the losses of a path must be the same in every later version,
//! so the generator is implemented here instead of in a crate that may change its algorithm. Not for cryptography.

/// Increment that [`SplitMix64`] adds to its state for each number.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the first number of [`SplitMix64`] with this seed: a hash of it.
#[inline]
pub fn first(seed: u64) -> u64 {
    SplitMix64::new(seed).next_u64()
}

/// SplitMix64: Steele, Lea & Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
///
/// 64 bits of state, period 2^64, every seed is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator that `seed` determines completely.
    #[inline]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Draws a number uniform over all 64-bit values.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws a number uniform in `[0, n)` without bias (Lemire 2019, ACM TOMACS 29(1)). 0 if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // The lowest `2^64 mod n` products are over-represented and drawn again.
        let unfair = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// Draws a number uniform in `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws a standard normal number, by Marsaglia's polar method (1964). The second value of each pair is discarded,
    /// so that the state is a single word.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }

    /// Shuffles by Fisher–Yates: every order equally likely.
    #[inline]
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the reference C implementation (Vigna, prng.di.unimi.it/splitmix64.c).
    #[test]
    fn reference_vector() {
        let mut rng = SplitMix64::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for value in expected {
            assert_eq!(rng.next_u64(), value);
        }
    }

    #[test]
    fn below_is_even() {
        let mut rng = SplitMix64::new(1);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.below(6) as usize] += 1;
        }
        // Five standard deviations of a binomial(60000, 1/6).
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 460), "{counts:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn normal_has_the_right_moments() {
        let mut rng = SplitMix64::new(2);
        let values: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = values.iter().sum::<f64>() / 1e5;
        let square = values.iter().map(|v| v * v).sum::<f64>() / 1e5;
        let beyond = values.iter().filter(|v| v.abs() > 1.96).count();
        assert!(mean.abs() < 0.016 && (square - 1.0).abs() < 0.023, "{mean} {square}");
        assert!(beyond.abs_diff(5_000) < 350, "{beyond}");
    }

    #[test]
    fn shuffle_reaches_every_order_alike() {
        let mut rng = SplitMix64::new(3);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            rng.shuffle(&mut items);
            *counts.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|c| c.abs_diff(1_000) < 160), "{counts:?}");
    }

    /// Published races name their order by seed alone; this must never change.
    #[test]
    fn orders_are_stable() {
        let mut rng = SplitMix64::new(42);
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        rng.shuffle(&mut order);
        assert_eq!(order, [4, 3, 2, 0, 7, 6, 1, 5]);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&rng.unit())));
    }
}

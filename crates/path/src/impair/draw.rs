//! Draws: numbers that depend on the seed, the place, the model and a packet's number, and on nothing else.
//!
//! With `first(x)` for the first output of SplitMix64 (Steele, Lea & Flood 2014) started at `x`, each model on each
//! direction of each link has the key `first(first(first(seed) + place) + model)`, where `place` is twice the
//! link's number, plus 1 for the direction down, and its draw number `i` is output `i` of SplitMix64 started at
//! that key. All sums wrap. None of it may ever change: a published seed stands for its losses.

use super::packet::Place;
use deadheat_base::ends::Direction;
use deadheat_base::rng::{STEP, first};

/// Bit that is set in the number when the copy of a duplicated packet draws.
pub const COPY: u64 = 1 << 63;

/// Purpose of a draw. The numbers are part of every key, so they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Model {
    /// Loss of a packet, given the state of the loss model.
    Loss = 1,
    /// Change of a Gilbert–Elliott chain's state after a packet.
    Chain = 2,
    /// State in which a chain starts.
    ChainStart = 3,
    /// Lengths of the good and bad times of outages, by their number.
    Outage = 4,
    /// State in which outages start, good or bad.
    OutageStart = 5,
    /// Loss of a packet with the loss probability of a trace.
    TraceLoss = 6,
    /// Duplication of a packet.
    Duplicate = 7,
    /// Corruption: a bit is flipped.
    Corrupt = 8,
    /// Number of the flipped bit.
    Bit = 9,
    /// Jitter: the offset of the delay.
    Jitter = 10,
    /// Reordering: the packet is held back.
    Reorder = 11,
    /// Early drop or mark by PIE, RED and DualPI2.
    Early = 12,
    /// Queue of FQ-CoDel for a flow; the flow replaces the packet's number.
    Flow = 13,
}

/// Draws of one model on one direction of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// Creates the stream of `model` at `place`.
    pub fn new(place: Place, model: Model) -> Stream {
        let down = u64::from(place.direction == Direction::Down);
        let seeded = first(place.seed);
        let placed = first(seeded.wrapping_add(2 * u64::from(place.link) + down));
        Stream(first(placed.wrapping_add(model as u64)))
    }

    /// Returns draw number `index`, uniform over all 64-bit values.
    #[inline]
    pub fn draw(self, index: u64) -> u64 {
        first(self.0.wrapping_add(index.wrapping_mul(STEP)))
    }
}

/// Adds a word to a running hash of words in order.
#[inline]
pub(super) fn fold(hash: u64, word: u64) -> u64 {
    first(hash ^ word)
}

/// Probability, as the number of values that it includes out of 2^53 equally likely ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chance(u64);

impl Chance {
    /// Rounds to the nearest multiple of 2^-53; outside of 0 to 1 to the nearer of the two.
    pub(super) fn new(probability: f64) -> Chance {
        // Scaling by a power of two is exact, and the cast turns NaN into 0.
        Chance((probability.clamp(0.0, 1.0) * (1u64 << 53) as f64).round() as u64)
    }

    /// Returns true if draw number `index` falls within the probability. Does not draw if the result is certain.
    #[inline]
    pub(super) fn hits(self, stream: Stream, index: u64) -> bool {
        self.0 > 0 && stream.draw(index) >> 11 < self.0
    }
}

/// Converts a draw to a number in (0, 1): the middle of one of 2^52 equal parts.
#[inline]
pub(super) fn unit(draw: u64) -> f64 {
    ((draw >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::rng::SplitMix64;

    const UP: Place = Place { seed: 42, link: 0, direction: Direction::Up };

    /// Draws must be the same for ever and everywhere.
    #[test]
    fn draws_are_stable() {
        let draw = |place, model| [0, 1, 2, COPY].map(|i| Stream::new(place, model).draw(i));
        assert_eq!(
            draw(UP, Model::Loss),
            [
                0x79ac_3b16_dbc3_b641,
                0xc3d6_87ef_b041_ce09,
                0x3e97_ae81_416c_4386,
                0xdc7a_b535_d127_cb45
            ]
        );
        assert_eq!(
            draw(Place { direction: Direction::Down, ..UP }, Model::Loss),
            [
                0x95d0_4f41_b8c2_bed1,
                0x5957_dac3_98af_0bf4,
                0x72bc_0076_5212_a68d,
                0xf62b_d1cf_3ad1_e80d
            ]
        );
        assert_eq!(
            draw(Place { link: 1, ..UP }, Model::Jitter),
            [
                0x43d5_241a_dd14_861e,
                0x67f5_05eb_0759_3c75,
                0x8eaa_1f79_bfde_083e,
                0x286e_7e58_3b3c_9e5a
            ]
        );
    }

    #[test]
    fn a_stream_is_splitmix_from_its_key() {
        let stream = Stream::new(UP, Model::Loss);
        let mut rng = SplitMix64::new(stream.0);
        for index in 0..100 {
            assert_eq!(stream.draw(index), rng.next_u64());
        }
    }

    #[test]
    fn chances_are_exact_at_their_ends() {
        let stream = Stream::new(UP, Model::Loss);
        let hits = |p: f64| (0..10_000).filter(|i| Chance::new(p).hits(stream, *i)).count();
        assert_eq!(
            (hits(0.0), hits(1.0), hits(-1.0), hits(2.0), hits(f64::NAN)),
            (0, 10_000, 0, 10_000, 0)
        );
        assert_eq!(Chance::new(0.5), Chance(1 << 52));
    }

    #[test]
    fn a_unit_lies_inside() {
        assert!(unit(0) > 0.0 && unit(u64::MAX) < 1.0 && unit(1 << 63) > 0.5);
        assert!((unit(1 << 63) - 0.5).abs() < 1e-15);
    }
}

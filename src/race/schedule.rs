//! Who runs when: the order of each block and the seed its trials share. Everything follows from
//! the race's seed and the block's number, so that any block can be run again as it was.

use crate::rng::{SplitMix64, first};

/// What a slot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The contender itself.
    Contender,
    /// The hidden second copy of it.
    Control,
}

/// One trial to run in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The contender's id.
    pub contender: usize,
    /// Itself or its copy.
    pub role: Role,
}

/// The trials of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its number, from 0.
    pub number: u64,
    /// The seed of path and trial, the same for every slot: common random numbers make pairs.
    pub seed: u64,
    /// The slots in the order in which they run.
    pub slots: Vec<Slot>,
}

/// The number whose stream of random numbers the trials before block 0 use.
const PILOT: u64 = u64::MAX;

/// Block `number` of the race with `seed`: every contender in `active` once, and a copy of the
/// first of them, in random order. Empty if nobody is active.
pub fn block(seed: u64, number: u64, active: &[usize]) -> Block {
    let mut rng = stream(seed, number);
    // Drawn before the order, so that the path stays the same when a contender drops out.
    let trial_seed = rng.next_u64();
    let itself = |&contender: &usize| Slot { contender, role: Role::Contender };
    let copy = |&contender: &usize| Slot { contender, role: Role::Control };
    let mut slots: Vec<Slot> = active.iter().map(itself).collect();
    slots.extend(active.first().map(copy));
    rng.shuffle(&mut slots);
    Block { number, seed: trial_seed, slots }
}

/// The seed of the `n`-th trial before block 0.
pub fn pilot_seed(seed: u64, n: u64) -> u64 {
    stream(stream(seed, PILOT).next_u64(), n).next_u64()
}

/// An independent stream for each block. Seeds are hashed, because SplitMix64 streams from seeds
/// that differ by its increment are one stream, shifted.
fn stream(seed: u64, number: u64) -> SplitMix64 {
    SplitMix64::new(first(first(seed) ^ number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(block: &Block) -> String {
        let name = |slot: &Slot| match slot.role {
            Role::Contender => slot.contender.to_string(),
            Role::Control => format!("{}'", slot.contender),
        };
        let names: Vec<String> = block.slots.iter().map(name).collect();
        names.join(" ")
    }

    /// Published races name their order by seed alone; this must never change.
    #[test]
    fn orders_are_golden() {
        let blocks: Vec<Block> = (0..6).map(|number| block(7, number, &[0, 1, 2])).collect();
        let orders: Vec<String> = blocks.iter().map(shown).collect();
        assert_eq!(orders, GOLDEN);
        assert_eq!(blocks[0].seed, GOLDEN_SEED);
    }

    const GOLDEN: [&str; 6] =
        ["0' 0 2 1", "1 2 0' 0", "1 2 0 0'", "0 2 1 0'", "2 0 1 0'", "0' 0 1 2"];
    const GOLDEN_SEED: u64 = 11_241_344_834_629_033_336;

    #[test]
    fn a_dropped_contender_leaves_the_paths_as_they_were() {
        for number in 0..20 {
            let (all, fewer) = (block(1, number, &[0, 1, 2]), block(1, number, &[1, 2]));
            assert_eq!(all.seed, fewer.seed);
            assert!(fewer.slots.contains(&Slot { contender: 1, role: Role::Control }));
            assert_eq!(fewer.slots.len(), 3);
        }
        assert!(block(1, 0, &[]).slots.is_empty());
    }

    #[test]
    fn every_order_comes_up_and_no_seed_twice() {
        let mut orders = std::collections::BTreeMap::new();
        let mut seeds = std::collections::BTreeSet::new();
        for number in 0..2_400 {
            let block = block(3, number, &[0, 1, 2]);
            *orders.entry(shown(&block)).or_insert(0u32) += 1;
            seeds.insert(block.seed);
        }
        seeds.extend((0..6).map(|n| pilot_seed(3, n)));
        assert_eq!((orders.len(), seeds.len()), (24, 2_406));
        // Five standard deviations of a binomial(2400, 1/24).
        assert!(orders.values().all(|n| n.abs_diff(100) < 50), "{orders:?}");
    }
}

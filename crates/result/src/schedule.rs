//! Schedule of trials: the order of each block and the seed that its trials share. Both follow from the race's seed
//! and the block's number alone, so any block can be repeated.
//!
//! Orders are balanced as well as random. A Williams design (1949, Aust. J. Sci. Res. A 2) is a set of orders in
//! which each slot has each position equally often, and follows each other slot equally often: one order per slot
//! for an even number of slots, two for an odd number. So an effect of the position, or of the previous trial, is
//! the same for all slots in each set, not only on average. The sets run one after another; in each the slots get
//! their letters at random, and the orders are drawn without replacement.

use deadheat_base::rng::{SplitMix64, first};

/// Purpose of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRole {
    /// The contender itself.
    Contender,
    /// The hidden second copy of the contender.
    Control,
}

/// Slot of a block: one trial to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSlot {
    /// The contender's id.
    pub contender: usize,
    /// Itself or its copy.
    pub role: SlotRole,
}

/// The trials of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Number of the block, from 0.
    pub number: u64,
    /// Seed of path and trial, the same for every slot: common random numbers pair the trials.
    pub seed: u64,
    /// The slots in the order in which they run.
    pub slots: Vec<BlockSlot>,
}

/// Number of the random stream for the trials before block 0.
const PILOT: u64 = u64::MAX;

/// Number of the random stream for the designs of the order.
const ORDER: u64 = u64::MAX - 1;

/// Returns block `number` of the race with `seed`: every contender in `active` once, and a copy of the first of
/// them, in an order of the design of that size. `extras` run at random positions between them and do not change
/// that order, so they may run in some blocks only.
pub fn block(seed: u64, number: u64, active: &[usize], extras: &[BlockSlot]) -> Block {
    let mut rng = stream(seed, number);
    // Drawn first, so that the path stays the same when a contender drops out.
    let trial_seed = rng.next_u64();
    let itself = |&contender: &usize| BlockSlot { contender, role: SlotRole::Contender };
    let copy = |&contender: &usize| BlockSlot { contender, role: SlotRole::Control };
    let compared: Vec<BlockSlot> =
        active.iter().map(itself).chain(active.first().map(copy)).collect();
    let order = order(seed, number, compared.len());
    let mut slots: Vec<BlockSlot> =
        order.iter().filter_map(|at| compared.get(*at).copied()).collect();
    for extra in extras {
        slots.insert(rng.below(slots.len() as u64 + 1) as usize, *extra);
    }
    Block { number, seed: trial_seed, slots }
}

/// Returns the order of `size` slots in block `number`.
fn order(seed: u64, number: u64, size: usize) -> Vec<usize> {
    let orders = if size.is_multiple_of(2) { size } else { 2 * size };
    if orders == 0 {
        return Vec::new();
    }
    let (round, within) = (number / orders as u64, (number % orders as u64) as usize);
    let mut rng = stream(stream(seed, ORDER).next_u64() ^ size as u64, round);
    let (mut letters, mut rows): (Vec<usize>, Vec<usize>) =
        ((0..size).collect(), (0..orders).collect());
    rng.shuffle(&mut letters);
    rng.shuffle(&mut rows);
    williams(size, rows[within]).into_iter().map(|letter| letters[letter]).collect()
}

/// Returns row `row` of the Williams design: 0, n - 1, 1, n - 2 … plus the row, reversed in the second half of the
/// rows of an odd size.
fn williams(size: usize, row: usize) -> Vec<usize> {
    let zigzag = |at: usize| if at.is_multiple_of(2) { at / 2 } else { size - at.div_ceil(2) };
    let mut letters: Vec<usize> = (0..size).map(|at| (zigzag(at) + row) % size).collect();
    if row >= size {
        letters.reverse();
    }
    letters
}

/// Returns the seed of the `n`-th trial before block 0.
pub fn pilot_seed(seed: u64, n: u64) -> u64 {
    stream(stream(seed, PILOT).next_u64(), n).next_u64()
}

/// Returns an independent random stream for each block. Seeds are hashed, because two SplitMix64 seeds that differ
/// by its increment give the same stream, shifted.
fn stream(seed: u64, number: u64) -> SplitMix64 {
    SplitMix64::new(first(first(seed) ^ number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(block: &Block) -> String {
        let name = |slot: &BlockSlot| match slot.role {
            SlotRole::Contender => slot.contender.to_string(),
            SlotRole::Control => format!("{}'", slot.contender),
        };
        let names: Vec<String> = block.slots.iter().map(name).collect();
        names.join(" ")
    }

    /// Published races give their order by the seed alone; this must never change.
    #[test]
    fn orders_are_golden() {
        let blocks: Vec<Block> = (0..6).map(|number| block(7, number, &[0, 1, 2], &[])).collect();
        let orders: Vec<String> = blocks.iter().map(shown).collect();
        assert_eq!(orders, GOLDEN);
        assert_eq!(blocks[0].seed, GOLDEN_SEED);
    }

    const GOLDEN: [&str; 6] =
        ["2 0 1 0'", "1 2 0' 0", "0' 1 0 2", "0 0' 2 1", "2 0' 0 1", "1 0 0' 2"];
    const GOLDEN_SEED: u64 = 11_241_344_834_629_033_336;

    #[test]
    fn a_dropped_contender_leaves_the_paths_as_they_were() {
        for number in 0..20 {
            let all = block(1, number, &[0, 1, 2], &[]);
            let fewer = block(1, number, &[1, 2], &[]);
            assert_eq!(all.seed, fewer.seed);
            assert!(fewer.slots.contains(&BlockSlot { contender: 1, role: SlotRole::Control }));
            assert_eq!(fewer.slots.len(), 3);
        }
        assert!(block(1, 0, &[], &[]).slots.is_empty());
    }

    /// Each slot has each position equally often, and follows each other slot equally often, in every set of
    /// orders: with even and odd numbers of slots.
    #[test]
    fn orders_are_balanced_for_place_and_for_the_trial_before() {
        for contenders in 1..9 {
            let active: Vec<usize> = (0..contenders).collect();
            let size = contenders + 1;
            let (orders, each) = if size % 2 == 0 { (size, 1) } else { (2 * size, 2) };
            for set in 0..5 {
                let mut places = std::collections::BTreeMap::new();
                let mut follows = std::collections::BTreeMap::new();
                for number in set * orders..(set + 1) * orders {
                    let slots = block(11, number as u64, &active, &[]).slots;
                    let name = |slot: &BlockSlot| (slot.contender, slot.role == SlotRole::Control);
                    for (place, slot) in slots.iter().enumerate() {
                        *places.entry((place, name(slot))).or_insert(0) += 1;
                    }
                    for pair in slots.windows(2) {
                        *follows.entry((name(&pair[0]), name(&pair[1]))).or_insert(0) += 1;
                    }
                }
                assert_eq!((places.len(), follows.len()), (size * size, size * (size - 1)));
                assert!(places.values().all(|n| *n == each), "{size}: {places:?}");
                assert!(follows.values().all(|n| *n == each), "{size}: {follows:?}");
            }
        }
    }

    #[test]
    fn extras_leave_the_order_of_the_others_alone() {
        let floor = BlockSlot { contender: 9, role: SlotRole::Contender };
        let mut places = [0u32; 5];
        for number in 0..500 {
            let (with, without) =
                (block(5, number, &[0, 1, 2], &[floor]), block(5, number, &[0, 1, 2], &[]));
            let place = with.slots.iter().position(|slot| *slot == floor).unwrap();
            let mut rest = with.slots;
            rest.remove(place);
            assert_eq!((rest, with.seed), (without.slots, without.seed));
            places[place] += 1;
        }
        // Five standard deviations of a binomial(500, 1/5).
        assert!(places.iter().all(|n| n.abs_diff(100) < 45), "{places:?}");
    }

    #[test]
    fn every_order_comes_up_and_no_seed_twice() {
        let mut orders = std::collections::BTreeMap::new();
        let mut seeds = std::collections::BTreeSet::new();
        for number in 0..2_400 {
            let block = block(3, number, &[0, 1, 2], &[]);
            *orders.entry(shown(&block)).or_insert(0u32) += 1;
            seeds.insert(block.seed);
        }
        seeds.extend((0..6).map(|n| pilot_seed(3, n)));
        assert_eq!((orders.len(), seeds.len()), (24, 2_406));
        // Five standard deviations of a binomial(2400, 1/24).
        assert!(orders.values().all(|n| n.abs_diff(100) < 50), "{orders:?}");
    }
}

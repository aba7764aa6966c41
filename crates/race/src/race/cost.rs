//! Duration of blocks: expected from the trials before the first block, and measured from blocks.

use super::block::TrialSettings;
use super::pilot::Pilot;
use super::request::MOST_BLOCKS;
use deadheat_base::time::Nanos;
use deadheat_result::outcome::Entrant;
use deadheat_stats::quantile;

/// Duration of the parts of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct BlockCost {
    /// Duration of a block without reference rows.
    pub block: Nanos,
    /// Duration of the reference rows, in the blocks that have them.
    pub floors: Nanos,
}

impl BlockCost {
    /// Returns the expected duration of the parts of a block. Each competitor and the control run once, as long as
    /// the pilot's trials, scaled by the planned work of their conditions. Trials that fail their gate are repeated
    /// as often as in the pilot.
    pub(super) fn expected(
        common: &TrialSettings,
        entrants: &[Entrant],
        pilot: &Pilot,
    ) -> BlockCost {
        let took: Vec<f64> = pilot.took.iter().map(|took| took.0 as f64).collect();
        let trial = quantile::median(&took).unwrap_or(0.0);
        let failed = took.len().saturating_sub(pilot.figures.len()) as f64;
        let failed = failed / took.len().max(1) as f64;
        // A failed trial is repeated twice at most.
        let repeated = 1.0 + failed + failed.powi(2);
        let planned = |entrant: &Entrant| {
            entrant.cell.as_ref()?;
            common.pairings.get(entrant.id)?.as_ref()?.task.info().planned
        };
        let racing = || entrants.iter().filter(|entrant| entrant.is_racing());
        let first = racing().find(|entrant| !entrant.floor);
        let base = first.and_then(planned);
        let lasts = |entrant: &Entrant| match (planned(entrant), base) {
            (Some(own), Some(base)) => (trial + own.0 as f64 - base.0 as f64).max(0.0),
            _ => trial,
        };
        let sum = |is_floor: bool| -> f64 {
            racing().filter(|entrant| entrant.floor == is_floor).map(lasts).sum()
        };
        let control = first.map_or(0.0, lasts);
        let all = |sum: f64| Nanos((sum * repeated) as u64);
        BlockCost { block: all(sum(false) + control), floors: all(sum(true)) }
    }

    /// Returns the duration of `blocks` blocks from number `from` on. Each but the last takes at least `every`, the
    /// time between their starts, if that is given.
    pub(super) fn of_blocks(&self, from: u64, blocks: u64, every: Option<Nanos>) -> Nanos {
        let Some(last) = from.saturating_add(blocks).checked_sub(1).filter(|_| blocks > 0) else {
            return Nanos::ZERO;
        };
        let with = floor_blocks(last + 1) - floor_blocks(from);
        let every = every.unwrap_or_default();
        let [plain, full] = [self.block, self.block.saturating_add(self.floors)];
        let times = |one: Nanos, n: u64| Nanos(one.max(every).0.saturating_mul(n));
        let all = times(plain, blocks - with).saturating_add(times(full, with));
        let last = if has_floors(last) { full } else { plain };
        all - (last.max(every) - last)
    }
}

/// Returns the number of blocks with reference rows among the first `blocks`.
fn floor_blocks(blocks: u64) -> u64 {
    match blocks.checked_sub(1) {
        None => 0,
        Some(last) => 1 + u64::from(u64::BITS - last.leading_zeros()),
    }
}

/// Returns the largest number of blocks for which `fits` holds; it must hold for all smaller numbers too.
pub(super) fn most(fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, MOST_BLOCKS);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Time that the blocks of a race took so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpentTime {
    /// Expected durations, used until blocks are measured.
    pub expected: BlockCost,
    /// Number of blocks, and their total time without reference rows.
    pub blocks: u64,
    plain: Nanos,
    /// Number of blocks with reference rows, and the total time of these rows.
    with_floors: u64,
    floors: Nanos,
}

impl SpentTime {
    /// Adds block `number`, which took `all`, including `floors` for its reference rows.
    pub(super) fn add(&mut self, number: u64, all: Nanos, floors: Nanos) {
        self.blocks += 1;
        self.plain += all - floors;
        if has_floors(number) {
            self.with_floors += 1;
            self.floors += floors;
        }
    }

    /// Returns the measured durations, or the expected ones where none are measured.
    pub(super) fn cost(&self) -> BlockCost {
        let mean =
            |sum: Nanos, n: u64, expected: Nanos| sum.0.checked_div(n).map_or(expected, Nanos);
        BlockCost {
            block: mean(self.plain, self.blocks, self.expected.block),
            floors: mean(self.floors, self.with_floors, self.expected.floors),
        }
    }
}

/// Returns true if this block has reference rows: the first two have, and later blocks ever less often, about eight
/// in a hundred.
pub(super) fn has_floors(block: u64) -> bool {
    block == 0 || block.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: BlockCost = BlockCost { block: Nanos(300), floors: Nanos(100) };

    #[test]
    fn reference_rows_are_counted_in_the_blocks_that_have_them() {
        for from in 0..20 {
            for blocks in 0..70 {
                let each = |number| if has_floors(number) { 400 } else { 300 };
                let sum: u64 = (from..from + blocks).map(each).sum();
                assert_eq!(COST.of_blocks(from, blocks, None), Nanos(sum), "{from} {blocks}");
            }
        }
    }

    #[test]
    fn the_wait_after_the_last_block_is_none_of_it() {
        assert_eq!(COST.of_blocks(0, 3, Some(Nanos(1_000))), Nanos(2_400));
        assert_eq!(COST.of_blocks(5, 2, Some(Nanos(1_000))), Nanos(1_300));
        // Blocks 0, 1 and 2 take longer than the time between two, and block 3 takes less.
        assert_eq!(COST.of_blocks(0, 4, Some(Nanos(350))), Nanos(1_500));
    }

    #[test]
    fn the_most_that_fits_is_found() {
        assert_eq!(most(|blocks| blocks <= 7), 7);
        assert_eq!((most(|_| false), most(|_| true)), (0, MOST_BLOCKS));
    }

    #[test]
    fn what_blocks_took_replaces_what_was_expected() {
        let mut spent = SpentTime { expected: COST, ..SpentTime::default() };
        assert_eq!(spent.cost(), COST);
        spent.add(0, Nanos(1_000), Nanos(200));
        spent.add(1, Nanos(700), Nanos(100));
        spent.add(3, Nanos(600), Nanos::ZERO);
        assert_eq!(spent.cost(), BlockCost { block: Nanos(2_000 / 3), floors: Nanos(150) });
    }
}

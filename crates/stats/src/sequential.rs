//! Looks at a race: the blocks after which they take place, and the error that each may spend.
//!
//! A test after every block that stops at the first success finds a winner between identical contenders in far more
//! than 5 % of races. Here the looks are declared before the first block and share one error: after the share `t` of
//! the blocks, `alpha t^3` may have been spent (Lan & DeMets 1983, Biometrika 70; the power family of Kim & DeMets
//! 1987, Biometrika 74), and a look has the increase since the previous one.
//!
//! Group-sequential theory would give the later looks a little more, out of the correlation between looks; that
//! correlation is known for normal sums, not for exact tests on few blocks with any noise. The levels are therefore
//! simply added up (union bound): the race as a whole keeps `alpha` whatever the correlation.
//!
//! Beside the looks, a race that is long enough has a ruling after every block, by evidence that is valid after any
//! number of readings ([`super::eprocess`]), with half of the error. Large differences end a race there after a
//! dozen blocks, independent of the planned number, and the looks are late, where they find small differences: at 70
//! and 100 %. Among the compared rules (`tests/rules.rs`) with the same power at the planned end, this one needs the
//! fewest blocks.
//!
//! Exponent 3 is close to O'Brien & Fleming's boundary: little is spent early, and half remains for the last look. A
//! difference that is large enough to end a race early has a tiny p-value anyway; a smaller difference needs the last
//! look's power.
//!
//! Half-way, and before the last look, the number of blocks may be changed by their scatter alone
//! ([`Plan::replanned`]). Scatter does not depend on which contender leads: given the distances of the log-ratios from
//! their centre, their signs are as random as before, so the change spends no error. Past looks keep their level, and
//! the new looks share the rest.

use super::{eprocess, signed_rank};
use serde::{Deserialize, Serialize};

/// Shares of the blocks after which a look takes place.
const SHARES: [f64; 4] = [0.4, 0.6, 0.8, 1.0];

/// Shares in a race with rulings after any block, which find large differences early, so that the looks can be late.
const LATE_SHARES: [f64; 2] = [0.7, 1.0];

/// Share of the error for rulings after any block, in a race that is long enough for a ruling before the first look.
const ANY_TIME: f64 = 0.5;

/// Minimum number of blocks of a race that may be replanned; half of fewer blocks are too few to estimate the scatter.
const FEWEST_TO_REPLAN: usize = 10;

/// Exponent of the spending function.
const EXPONENT: i32 = 3;

/// Planned look at the results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Number of blocks after which it takes place.
    pub blocks: usize,
    /// Family-wise level that this look may spend over all claims, for each of the two kinds of
    /// error (false `ahead`, false `dead heat`).
    pub alpha: f64,
}

/// Plan of all looks of a race, fixed before its first block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Looks in order of blocks; their levels and `any_time` add up to `alpha`. Empty only for a race of no blocks.
    pub looks: Vec<Look>,
    /// Level that rulings after any block share ([`crate::rule_any_time`]); 0 for a race without them.
    pub any_time: f64,
    /// Level of the whole race.
    pub alpha: f64,
    /// Number of claims that share it at each look.
    pub claims: usize,
}

impl Plan {
    /// Plans rulings after any block with half of the error, and looks after about 70 and 100 % of `max_blocks`; in
    /// a race that is too short for such a ruling before the first look, looks after 40, 60, 80 and 100 %.
    ///
    /// A look is omitted if not even blocks all on one side could decide a claim, and the next look gets its share. The
    /// last look always exists.
    pub fn new(max_blocks: usize, claims: usize, alpha: f64) -> Plan {
        Plan { looks: Vec::new(), any_time: 0.0, alpha, claims }.with_looks(0, max_blocks)
    }

    /// Plans a single look, after all of `max_blocks` blocks, with the whole error: for a race whose number of blocks is
    /// fixed, because its trials also answer other questions than its claims.
    pub fn at_the_end(max_blocks: usize, claims: usize, alpha: f64) -> Plan {
        let look = Look { blocks: max_blocks, alpha };
        let looks = if max_blocks == 0 { Vec::new() } else { vec![look] };
        Plan { looks, any_time: 0.0, alpha, claims }
    }

    /// Replans for another number of blocks, after `done` of them and before any look at these. Earlier looks are
    /// unchanged; the remaining error is spent over new ones, in proportion to the spending function. Returns the same
    /// plan if `max_blocks` are done already.
    ///
    /// Valid only if the number depends on nothing but the scatter.
    pub fn replanned(&self, done: usize, max_blocks: usize) -> Plan {
        if max_blocks <= done {
            return self.clone();
        }
        let mut past = self.clone();
        past.looks.retain(|look| look.blocks < done);
        past.with_looks(done, max_blocks)
    }

    /// Returns the number of blocks after which to replan: half of them, which is between two looks. `None` for races
    /// of fewer than ten.
    pub fn replan_at(&self) -> Option<usize> {
        let whole = self.looks.last()?.blocks;
        (whole >= FEWEST_TO_REPLAN).then(|| whole.div_ceil(2))
    }

    /// Adds the looks after more than `done` of `max_blocks` blocks.
    fn with_looks(mut self, done: usize, max_blocks: usize) -> Plan {
        if self.any_time == 0.0 && done < max_blocks {
            let share = ANY_TIME * self.last(usize::MAX);
            let fewest = eprocess::fewest(share / self.claims.max(1) as f64);
            let is_early = fewest.is_some_and(|fewest| fewest <= blocks_at(SHARES[0], max_blocks));
            self.any_time = if is_early { share } else { 0.0 };
        }
        let left = self.last(usize::MAX);
        let (before, all) = (share(done, max_blocks), share(max_blocks, max_blocks));
        let shares = if self.any_time > 0.0 { &LATE_SHARES[..] } else { &SHARES[..] };
        for at in shares {
            let blocks = blocks_at(*at, max_blocks);
            if blocks <= done || self.looks.last().is_some_and(|look| look.blocks >= blocks) {
                continue;
            }
            let unspent = self.last(blocks);
            // The last look takes the exact rest, so that the sum is alpha to the last digit.
            let level = if blocks == max_blocks {
                unspent
            } else {
                let gone = left * (share(blocks, max_blocks) - before) / (all - before);
                gone - (left - unspent)
            };
            let decides = Plan::fewest_blocks(self.claims, level) <= blocks;
            if decides || blocks == max_blocks {
                self.looks.push(Look { blocks, alpha: level });
            }
        }
        self
    }

    /// Returns the look planned after exactly `blocks` blocks.
    pub fn at(&self, blocks: usize) -> Option<&Look> {
        self.looks.iter().find(|look| look.blocks == blocks)
    }

    /// Returns the remaining level if the race ends now, after `blocks` blocks, because its time is over: the level
    /// that looks after fewer blocks have not spent.
    ///
    /// Valid only if the reason to end is not the result. A look after this very block may be repeated at this higher
    /// level: its rejections are among the new ones.
    pub fn last(&self, blocks: usize) -> f64 {
        let spent: f64 =
            self.looks.iter().filter(|look| look.blocks < blocks).map(|look| look.alpha).sum();
        (self.alpha - self.any_time - spent).max(0.0)
    }

    /// Returns the minimum number of blocks that could decide all of `claims` claims at level `alpha`: `2 / 2^n <=
    /// alpha / claims`. `usize::MAX` if no number is enough.
    pub fn fewest_blocks(claims: usize, alpha: f64) -> usize {
        signed_rank::fewest(alpha / claims.max(1) as f64).unwrap_or(usize::MAX)
    }
}

fn blocks_at(share: f64, max_blocks: usize) -> usize {
    // 0.6 × 10 must be 6 in spite of the rounding of 0.6.
    (share * max_blocks as f64 - 1e-9).ceil() as usize
}

/// Returns the share of the error that may be spent after `blocks` of `max_blocks`.
fn share(blocks: usize, max_blocks: usize) -> f64 {
    (blocks as f64 / max_blocks as f64).powi(EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_add_up_and_every_look_can_decide() {
        for max_blocks in 1..200 {
            for claims in [1, 3, 6, 15] {
                let plan = Plan::new(max_blocks, claims, 0.05);
                let sum: f64 = plan.looks.iter().map(|look| look.alpha).sum();
                assert!((sum + plan.any_time - 0.05).abs() < 1e-15, "{plan:?}");
                assert_eq!(plan.looks.last().map(|look| look.blocks), Some(max_blocks));
                assert!(plan.looks.is_sorted_by(|a, b| a.blocks < b.blocks), "{plan:?}");
                let (_, early) = plan.looks.split_last().unwrap();
                for look in early {
                    assert!(Plan::fewest_blocks(claims, look.alpha) <= look.blocks, "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn four_looks_in_a_race_too_short_for_more() {
        let plan = Plan::new(25, 1, 0.05);
        let blocks: Vec<usize> = plan.looks.iter().map(|look| look.blocks).collect();
        assert_eq!((blocks, plan.any_time), (vec![10, 15, 20, 25], 0.0));
        let levels = [0.064, 0.152, 0.296, 0.488].map(|share| 0.05 * share);
        for (look, level) in plan.looks.iter().zip(levels) {
            assert!((look.alpha - level).abs() < 1e-15);
        }
    }

    #[test]
    fn any_block_and_two_late_looks_in_a_longer_one() {
        let plan = Plan::new(40, 1, 0.05);
        let blocks: Vec<usize> = plan.looks.iter().map(|look| look.blocks).collect();
        assert_eq!((blocks, plan.any_time), (vec![28, 40], ANY_TIME * 0.05));
        for (look, share) in plan.looks.iter().zip([0.343, 0.657]) {
            assert!((look.alpha - (1.0 - ANY_TIME) * 0.05 * share).abs() < 1e-15);
        }
        // With so many claims the first block that may decide comes after the first look of four.
        assert_eq!(Plan::new(40, 500, 0.05).any_time, 0.0);
    }

    #[test]
    fn a_new_number_of_blocks_spends_what_is_left() {
        for planned in 10..120 {
            for claims in [1, 3] {
                let plan = Plan::new(planned, claims, 0.05);
                let at = plan.replan_at().unwrap();
                assert!(plan.at(at).is_none() && at < planned, "{planned}");
                for more in [at + 1, planned, 2 * planned, 10 * planned] {
                    let new = plan.replanned(at, more);
                    let sum: f64 = new.looks.iter().map(|look| look.alpha).sum();
                    assert!((sum + new.any_time - 0.05).abs() < 1e-15, "{new:?}");
                    assert_eq!(new.looks.last().map(|look| look.blocks), Some(more));
                    assert!(new.looks.is_sorted_by(|a, b| a.blocks < b.blocks), "{new:?}");
                    assert!(new.looks.iter().all(|look| look.alpha > 0.0), "{new:?}");
                    let past = |plan: &Plan| plan.looks.iter().filter(|l| l.blocks <= at).count();
                    assert_eq!(past(&new), past(&plan));
                    assert_eq!(new.looks[..past(&new)], plan.looks[..past(&plan)]);
                }
            }
        }
    }

    /// Planned for 25 and looked at after 10; decided after 13 to run 60: rulings after any block have half of the 0.936
    /// that are left, and looks after 42 and 60 share the rest by 0.7³ and 1 less (13/60)³.
    #[test]
    fn replanned_by_hand() {
        let plan = Plan::new(25, 1, 0.05).replanned(13, 60);
        let blocks: Vec<usize> = plan.looks.iter().map(|look| look.blocks).collect();
        assert_eq!(blocks, [10, 42, 60]);
        assert!((plan.any_time - 0.05 * ANY_TIME * 0.936).abs() < 1e-15);
        let (left, before) = ((1.0 - ANY_TIME) * 0.936, (13.0f64 / 60.0).powi(3));
        let first = left * (0.343 - before) / (1.0 - before);
        for (look, level) in plan.looks.iter().zip([0.064, first, left - first]) {
            assert!((look.alpha - 0.05 * level).abs() < 1e-15, "{plan:?}");
        }
        assert_eq!(plan.replanned(60, 60), plan);
        // Before the last look: what it would have spent goes to the new ones.
        let longer = plan.replanned(60, 100);
        let blocks: Vec<usize> = longer.looks.iter().map(|look| look.blocks).collect();
        assert_eq!((blocks, longer.any_time), (vec![10, 42, 70, 100], plan.any_time));
        let sum = longer.looks.iter().map(|l| l.alpha).sum::<f64>() + longer.any_time;
        assert!((sum - 0.05).abs() < 1e-15);
        // The same number again, before anything was looked at, changes nothing.
        let plan = Plan::new(30, 1, 0.05);
        assert_eq!(plan.replanned(0, 30), plan);
        assert_eq!(Plan::new(9, 1, 0.05).replan_at(), None);
        assert_eq!(Plan::new(30, 1, 0.05).replan_at(), Some(15));
        assert_eq!(Plan::new(0, 1, 0.05).replan_at(), None);
    }

    /// Six blocks are one look at the full level; with fewer no difference can be shown at 95 %.
    #[test]
    fn short_races() {
        assert_eq!(Plan::new(6, 1, 0.05).looks, [Look { blocks: 6, alpha: 0.05 }]);
        assert_eq!(Plan::new(2, 1, 0.05).looks, [Look { blocks: 2, alpha: 0.05 }]);
        assert!(Plan::new(0, 1, 0.05).looks.is_empty());
        assert!(Plan::at_the_end(0, 1, 0.05).looks.is_empty());
        assert_eq!([1, 5, 10, 15].map(|m| Plan::fewest_blocks(m, 0.05)), [6, 8, 9, 10]);
        assert_eq!(Plan::fewest_blocks(1, 0.0), usize::MAX);
    }

    #[test]
    fn time_ran_out() {
        let plan = Plan::new(25, 1, 0.05);
        assert_eq!(plan.last(5), 0.05);
        assert_eq!(plan.last(10), 0.05);
        assert!((plan.last(11) - 0.05 * (1.0 - 0.064)).abs() < 1e-15);
        assert_eq!(plan.last(25), plan.looks[3].alpha);
        assert_eq!(plan.at(15), Some(&plan.looks[1]));
        assert_eq!(plan.at(16), None);
        // What rulings after any block have is theirs.
        assert_eq!(Plan::new(40, 1, 0.05).last(5), 0.05 - ANY_TIME * 0.05);
    }
}

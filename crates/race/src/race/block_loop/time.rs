//! Time of a race: the limit, the part that is left, and the number of blocks that fit in it.

use super::BlockLoop;
use crate::race::absence::PATIENCE;
use crate::race::context::RaceEvent;
use crate::race::cost::most;
use crate::race::enough::TimeLimit;
use crate::race::request::LONGEST_UNASKED;
use deadheat_base::time::Nanos;
use deadheat_result::analysis::claims;

impl BlockLoop<'_> {
    /// Returns the longest wait for a far end that does not answer: as long as the race has time, and at least
    /// [`PATIENCE`].
    pub(super) fn patience(&self) -> Nanos {
        let left = match (self.limit, self.pace.every()) {
            (TimeLimit::Asked(_), _) => self.time_left().unwrap_or(Nanos::ZERO),
            (_, Some(every)) => Nanos(every.0.saturating_mul(self.blocks_left())),
            _ => Nanos::ZERO,
        };
        left.max(PATIENCE)
    }

    /// Returns true if another block would end after the time limit. The first block may always run, and so may the
    /// fewest blocks for a verdict if no time was asked for.
    pub(super) fn out_of_time(&self) -> bool {
        let now = self.context.clock.now();
        let starts = self.pace.next().unwrap_or(now).max(now);
        let would_end = starts - self.began + self.spent.cost().of_blocks(self.done, 1, None);
        let limit = match self.limit {
            TimeLimit::None => return false,
            TimeLimit::Unasked(limit) if self.done < self.fewest() => limit.max(LONGEST_UNASKED),
            TimeLimit::Asked(limit) | TimeLimit::Unasked(limit) => limit,
        };
        self.spent.blocks > 0 && would_end > limit
    }

    /// Returns the remaining time; `None` without a limit.
    pub(super) fn time_left(&self) -> Option<Nanos> {
        let elapsed = self.context.clock.now() - self.began;
        match self.limit {
            TimeLimit::None => None,
            TimeLimit::Asked(limit) => Some(limit - elapsed),
            TimeLimit::Unasked(limit) => {
                let missing = self.fewest().saturating_sub(self.done);
                let needed =
                    if missing == 0 { Nanos::ZERO } else { self.expected_duration(missing) };
                Some((limit - elapsed).max(needed.min(LONGEST_UNASKED - elapsed)))
            }
        }
    }

    /// Returns the number of blocks that fit in `left`.
    pub(super) fn blocks_within(&self, left: Nanos) -> u64 {
        most(|blocks| self.expected_duration(blocks) <= left)
    }

    /// Returns the expected duration of the next `blocks` blocks.
    pub(super) fn expected_duration(&self, blocks: u64) -> Nanos {
        self.spent.cost().of_blocks(self.done, blocks, self.pace.every())
    }

    /// Returns the minimum number of blocks of the race: with fewer no claim could be decided.
    fn fewest(&self) -> u64 {
        let claims = usize::try_from(self.outcome.plan.claims).unwrap_or(usize::MAX);
        self.least_blocks.unwrap_or(claims::fewest_for(claims, self.outcome.asked.confidence))
    }

    /// Warns as soon as the first block shows that the time asked for is too short for a verdict.
    pub(super) fn warn_of_short_time(&mut self) {
        let (TimeLimit::Asked(_), 1, Some(left)) =
            (self.limit, self.spent.blocks, self.time_left())
        else {
            return;
        };
        let (fewest, room) = (self.fewest(), self.done + self.blocks_within(left));
        if self.outcome.plan.blocks_max >= fewest && room < fewest {
            let takes = self.expected_duration(fewest.saturating_sub(self.done));
            let whole = self.context.clock.now() - self.began + takes;
            self.context.observer.on(RaceEvent::TimeIsShort { room, fewest, takes: whole });
        }
    }

    /// Returns the number of blocks to come, at most.
    pub(super) fn blocks_left(&self) -> u64 {
        self.outcome.plan.blocks_max.saturating_sub(self.done)
    }

    /// Returns the most time to come.
    pub(super) fn remaining(&self) -> Nanos {
        let blocks = self.expected_duration(self.blocks_left());
        self.time_left().map_or(blocks, |left| blocks.min(left))
    }
}

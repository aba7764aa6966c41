//! Blocks and time that a race needs: the only check of the requested amounts against the minimum for verdicts.
//! Races, cells of `--vary`, points of a map, races of a study and of advice, and gates use it.

use super::cells;
use super::request::{CheckedRequest, DEFAULT_BUDGET, Request};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_result::analysis::claims;

/// Longest default time limit of a race over conditions, if neither blocks nor a budget are asked for.
const LONGEST_BUDGET: Nanos = Nanos::from_secs(600);

/// Time limit of a screening with short trials; the fewest blocks for a verdict always run.
pub const SCREENING_TIME: Nanos = Nanos::from_secs(20);

/// Limit of a race's duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// No limit: as long as the blocks take.
    None,
    /// Limit from the user, which is strict.
    Asked(Nanos),
    /// Default limit: it extends to the fewest blocks for a verdict, up to
    /// [`LONGEST_UNASKED`](super::request::LONGEST_UNASKED).
    Unasked(Nanos),
}

impl Request {
    /// Returns the time limit. A requested budget is strict, unless the race needs a minimum of blocks for other
    /// questions than its claims. Without a budget, and if nothing else ends the race, the limit is the default of
    /// a race without conditions for each combination of conditions, up to [`LONGEST_BUDGET`].
    pub(super) fn limit(&self) -> TimeLimit {
        match (self.asked.budget_ns.map(Nanos), self.least_blocks) {
            // The race's purpose takes precedence over the expected time.
            (Some(budget), Some(_)) => return TimeLimit::Unasked(budget),
            (Some(budget), None) => return TimeLimit::Asked(budget),
            (None, _) => {}
        }
        if self.is_screening && !self.is_simulated() {
            return TimeLimit::Unasked(SCREENING_TIME);
        }
        // Virtual time costs nothing, so as many seeds run as decide the claims.
        if self.asked.blocks.is_some() || self.is_simulated() {
            return TimeLimit::None;
        }
        let factors = cells::factors(self).map_or_else(|_| self.asked.vary.clone(), |(_, all)| all);
        let combinations = factors.iter().map(|factor| factor.levels.len() as u64).product();
        TimeLimit::Unasked(Nanos(DEFAULT_BUDGET.0.saturating_mul(combinations)).min(LONGEST_BUDGET))
    }

    /// Refuses a race of all blocks without an end.
    ///
    /// # Errors
    /// [`Error::Usage`] with what would be one.
    pub(super) fn check_all_blocks(&self) -> Result<()> {
        let is_endless = self.asked.blocks.is_none() && self.asked.budget_ns.is_none();
        if self.asked.all_blocks && is_endless {
            return Err(Error::usage(
                "--all-blocks runs all blocks, whatever they decide, and nothing says how many; add --blocks 40, or \
                 --budget 5m for as many as fit (in a study, blocks = 40 or budget = \"5m\" beside all_blocks)",
            ));
        }
        Ok(())
    }

    /// Returns the minimum number of blocks for verdicts on `claims` claims; 0 if fewer blocks are asked for,
    /// because the user then wants figures only.
    pub(super) fn fewest(&self, claims: usize) -> u64 {
        let fewest = self.least_blocks.unwrap_or(claims::fewest_for(claims, self.asked.confidence));
        if self.asked.blocks.is_some_and(|blocks| blocks < fewest) { 0 } else { fewest }
    }

    /// Returns the reason why the requested blocks cannot decide, with the least number that could; `None` if they
    /// can, or if their number is open. Races, maps, gates and studies use it.
    pub fn too_few_blocks(&self, checked: &CheckedRequest) -> Option<String> {
        let claims = claims::claims(&checked.entrants, &checked.metrics);
        let fewest = self.least_blocks.unwrap_or(claims::fewest_for(claims, self.asked.confidence));
        let blocks = self.asked.blocks.filter(|blocks| *blocks < fewest)?;
        let note =
            |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
        let what = match self.least_blocks {
            Some(_) => "the claims on this race".to_owned(),
            None => note(claims as u64, "claim"),
        };
        let blocks = note(blocks, "block");
        Some(format!("{blocks} cannot decide {what}; {fewest} are the fewest"))
    }

    /// Returns a note to show before a race that has too few blocks for a verdict. A race of one block is meant to
    /// give figures only, so it needs no note.
    pub fn for_figures(&self, checked: &CheckedRequest) -> Option<String> {
        let too_few = self.too_few_blocks(checked).filter(|_| self.asked.blocks != Some(1))?;
        Some(format!("{too_few}: this race will have figures and no verdicts"))
    }
}

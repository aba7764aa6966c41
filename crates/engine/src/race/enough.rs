//! Blocks and time that a race needs: the one check of what is asked for against the least that verdicts take. Races,
//! cells of `--vary`, points of a map, races of a study and of advice, and gates all ask here.

use super::cells;
use super::request::{CheckedRequest, DEFAULT_BUDGET, RaceLength, Request};
use crate::analysis::claims;
use crate::time::Nanos;

/// Longest default time limit of a race over conditions, if neither blocks nor a budget are asked for.
const LONGEST_BUDGET: Nanos = Nanos::from_secs(600);

/// Maximum number of blocks of a screening.
pub const SCREENING_BLOCKS: u64 = 20;

/// Time limit of a screening whose trials are short: the fewest blocks that a verdict takes are always run.
pub const SCREENING_TIME: Nanos = Nanos::from_secs(20);

/// Limit of a race's duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// No limit: as long as the blocks take.
    None,
    /// Limit that the user gave, which is kept.
    Asked(Nanos),
    /// Limit where none was given: it yields to the fewest blocks that a verdict takes, up to [`LONGEST_UNASKED`](super::request::LONGEST_UNASKED).
    Unasked(Nanos),
}

impl Request {
    /// Returns the budget asked for, which yields to the blocks that others than the race's claims take, or the default if nothing else ends the race: the default of a race
    /// without conditions for each combination of conditions, up to [`LONGEST_BUDGET`].
    pub(super) fn limit(&self) -> TimeLimit {
        match (self.budget, self.least_blocks) {
            // What the race is for comes before the time that was expected for it.
            (Some(budget), Some(_)) => return TimeLimit::Unasked(budget),
            (Some(budget), None) => return TimeLimit::Asked(budget),
            (None, _) => {}
        }
        if let (RaceLength::Screening, false) = (self.length, self.is_simulated()) {
            return TimeLimit::Unasked(SCREENING_TIME);
        }
        // Virtual time costs nothing: as many seeds as decide.
        if self.blocks.is_some() || self.is_simulated() {
            return TimeLimit::None;
        }
        let factors = cells::factors(self).map_or_else(|_| self.vary.clone(), |(_, all)| all);
        let combinations = factors.iter().map(|factor| factor.levels.len() as u64).product();
        TimeLimit::Unasked(Nanos(DEFAULT_BUDGET.0.saturating_mul(combinations)).min(LONGEST_BUDGET))
    }

    /// Returns the fewest blocks that the race has to reach, those that verdicts on so many claims take; 0 if fewer are
    /// asked for, as then figures are all that is wanted.
    pub(super) fn fewest(&self, claims: usize) -> u64 {
        let fewest = self.least_blocks.unwrap_or(claims::fewest_for(claims, self.confidence));
        if self.blocks.is_some_and(|blocks| blocks < fewest) { 0 } else { fewest }
    }

    /// Returns why the blocks asked for cannot decide, and the least that could; `None` if they can, or their number is
    /// left open. Races, maps, gates and studies all ask here.
    pub fn too_few_blocks(&self, checked: &CheckedRequest) -> Option<String> {
        let claims = claims::claims(&checked.entrants, &checked.metrics);
        let fewest = self.least_blocks.unwrap_or(claims::fewest_for(claims, self.confidence));
        let blocks = self.blocks.filter(|blocks| *blocks < fewest)?;
        let said =
            |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
        let what = match self.least_blocks {
            Some(_) => "the claims on this race".to_owned(),
            None => said(claims as u64, "claim"),
        };
        let blocks = said(blocks, "block");
        Some(format!("{blocks} cannot decide {what}; {fewest} are the fewest"))
    }

    /// Returns what is to be said before a race whose blocks are too few for a verdict. One block is a wish for figures,
    /// of which nothing need be said.
    pub fn for_figures(&self, checked: &CheckedRequest) -> Option<String> {
        let too_few = self.too_few_blocks(checked).filter(|_| self.blocks != Some(1))?;
        Some(format!("{too_few}: this race will have figures and no verdicts"))
    }
}

//! Judgement of a gate against a baseline: is a contender of a race worse than it was?
//!
//! Uses [`compare()`], with the error spread over as many runs as a gate may have ([`GATE_RUNS`]). In [`first`] the
//! baseline is a contender of the race instead.

pub mod first;

use deadheat_contract::measurements::Role;
use deadheat_stats::runs::Promise;

use super::compare::{Change, Comparison, ComparisonRow, GATE_RUNS, compare, is_simulated};
use super::no_figures::{SilentContender, why_silent};
use crate::outcome::{Entrant, Outcome};

/// Judgement of a race's contenders against the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Comparison claim by claim; descriptive metrics are not judged.
    pub comparison: Comparison,
    /// Contenders that had figures in the baseline, and ran again without figures.
    pub silent: Vec<SilentContender>,
}

impl Judgement {
    /// Judges new runs, usually one, against the runs of the baseline.
    pub fn of(baseline: &[&Outcome], new: &[&Outcome]) -> Judgement {
        let is_one_look = baseline.iter().any(|race| is_simulated(race));
        // In virtual time a fixed seed gives the same race each time, so all looks are one.
        let promise = if is_one_look { Promise::Once } else { Promise::Runs(GATE_RUNS) };
        let mut comparison = compare(baseline, new, promise);
        comparison.rows.retain(|row| row.metric.role == Role::Claim);
        let mut silent: Vec<SilentContender> = Vec::new();
        for (race, contender) in
            new.iter().flat_map(|race| race.contenders.iter().map(move |one| (race, one)))
        {
            let own = contender.identity();
            let has = |races: &[&Outcome]| races.iter().any(|race| has_figures(race, own));
            let is_known = silent.iter().any(|known| known.contender == contender.label);
            if let (true, false, false, Some(why)) =
                (has(baseline), has(new), is_known, why_silent(race, contender))
            {
                silent.push(SilentContender { contender: contender.label.clone(), why });
            }
        }
        // Their sentences say why.
        let is_silent = |label: &String| silent.iter().any(|silent| silent.contender == *label);
        comparison.absent.retain(|absent| !is_silent(&absent.contender));
        Judgement { comparison, silent }
    }

    /// Returns true if a contender is worse: by more than the margin, or without figures although it had some.
    pub fn is_worse(&self) -> bool {
        self.comparison.is_worse() || !self.silent.is_empty()
    }

    /// Returns true if there is nothing to judge: no contender has claimed figures both in the baseline and now.
    pub fn is_doubtful(&self) -> bool {
        self.comparison.rows.is_empty() && self.silent.is_empty()
    }

    /// Returns the rows of claims that show this `change`.
    pub fn rows(&self, change: Change) -> impl Iterator<Item = &ComparisonRow> {
        self.comparison.rows.iter().filter(move |row| row.change == Some(change))
    }
}

/// Returns true if the contender with this identity has a valid trial.
pub fn has_figures(race: &Outcome, identity: &str) -> bool {
    let mut contenders = race.contenders.iter();
    let Some(contender) = contenders.find(|contender| contender.identity() == identity) else {
        return false;
    };
    has_valid_trial(race, contender)
}

/// Returns true if a contender has a valid trial, that of its hidden copy aside.
pub fn has_valid_trial(race: &Outcome, contender: &Entrant) -> bool {
    let mut own = race.trials.iter().filter(|trial| trial.contender == contender.id);
    own.any(|trial| trial.record.valid && !trial.control)
}

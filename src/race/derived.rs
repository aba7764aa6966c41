//! All of an outcome that follows from its trials: summaries, verdicts, differences, warnings. The same trials
//! and plan always give the same, while a race runs and when its journal is read.

use super::analyse::{self, Stand};
use super::differences::differences;
use super::outcome::Outcome;
use super::path_ways;
use super::shares;
use super::sweep;
use super::warnings;
use crate::path::network::Network;
use crate::stats::Plan;
use crate::transport::Contender;

/// Returns the decisions permitted after `done` blocks.
pub(super) fn stand(looks: &Plan, done: u64) -> Stand {
    let next = looks.looks.iter().map(|look| look.blocks as u64).find(|at| *at > done);
    let next = next.map(|at| at - done);
    match looks.at(usize::try_from(done).unwrap_or(usize::MAX)) {
        Some(look) => Stand::Look { alpha: look.alpha, next },
        None => Stand::Between { next },
    }
}

/// Brings all that follows from the trials up to date.
pub(super) fn refresh(
    outcome: &mut Outcome,
    contenders: &[Contender],
    network: Option<&Network>,
    stand: Stand,
) {
    for entrant in &mut outcome.contenders {
        let mut trials = outcome.trials.iter().rev();
        let ran = trials.find(|t| t.contender == entrant.id && t.record.valid);
        if let Some(trial) = ran {
            entrant.implementation.clone_from(&trial.record.implementation);
            entrant.effective.clone_from(&trial.record.effective);
            entrant.far_effective.clone_from(&trial.record.far_effective);
        }
    }
    analyse::refresh(outcome, stand);
    // Intervals take a while: for the file at each look, and once more at the end.
    if let Stand::Look { .. } = stand {
        outcome.shares = shares::shares(outcome);
        outcome.sweeps = sweep::sweeps(outcome);
    }
    outcome.differences = differences(&outcome.contenders, contenders);
    outcome.path_ways = path_ways::ways(outcome, network);
    warnings::refresh(outcome);
}

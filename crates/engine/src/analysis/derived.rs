//! Parts of an outcome that follow from its trials: summaries, verdicts, differences, warnings. They are a function
//! of trials and plan, while a race runs and when its journal is read.

use std::path::Path;

use super::differences::differences;
use super::{path_ways, shares, sweep, warnings};
use crate::analysis::claims::looks;
use crate::analysis::verdicts::{self, DecisionStage};
use crate::error::{Error, Result};
use crate::foreign::short;
use crate::host::quiet::HostQuiet;
use crate::path::PathSpec;
use crate::path::files::ReadFile;
use crate::path::network::Network;
use crate::result::journal::JournalRecovery;
use crate::result::outcome::{Entrant, Outcome, Warning, blocks_done};
use crate::result::save;
use crate::stats::Plan;
use crate::transport::Contender;

/// Returns the decisions permitted after `done` blocks.
pub(crate) fn decision_stage(looks: &Plan, done: u64) -> DecisionStage {
    let next = looks.looks.iter().map(|look| look.blocks as u64).find(|at| *at > done);
    let next = next.map(|at| at - done);
    match looks.at(usize::try_from(done).unwrap_or(usize::MAX)) {
        // A look without remaining error decides nothing.
        Some(look) if look.alpha > 0.0 => DecisionStage::Look { alpha: look.alpha, next },
        Some(_) | None => DecisionStage::Between { next },
    }
}

/// Updates the parts that follow from the trials.
pub(crate) fn refresh(
    outcome: &mut Outcome,
    contenders: &[Contender],
    network: Option<&Network>,
    stage: DecisionStage,
) {
    for entrant in &mut outcome.contenders {
        // A trial whose figures do not count may still know what both ends had set, as one whose sender was late.
        let own = || outcome.trials.iter().rev().filter(|t| t.contender == entrant.id);
        let settled = || own().find(|t| !t.record.far_effective.is_empty());
        if let Some(trial) = own().find(|t| t.record.valid).or_else(settled) {
            entrant.implementation.clone_from(&trial.record.implementation);
            entrant.effective.clone_from(&trial.record.effective);
            entrant.far_effective.clone_from(&trial.record.far_effective);
        }
    }
    outcome.probe.iter_mut().for_each(HostQuiet::measure_scatter);
    verdicts::refresh(outcome, stage);
    // Intervals take time to compute: do so at each look, and once at the end.
    if let DecisionStage::Look { .. } = stage {
        outcome.shares = shares::shares(outcome);
        outcome.sweeps = sweep::sweeps(outcome);
    }
    outcome.differences = differences(&outcome.contenders, contenders);
    outcome.path_ways = path_ways::ways(outcome, network);
    warnings::refresh(outcome, network);
}

/// Returns the model of the path of the trials, if it is emulated. A result that is only read opens no file that
/// its path names; it then has no model.
pub(crate) fn network(outcome: &Outcome) -> Option<Network> {
    let closed: ReadFile<'_> = &mut |file| Err(Error::usage(format!("{file} is not opened")));
    match PathSpec::parse_with(&outcome.asked.path, closed) {
        Ok(PathSpec::Emulated(network) | PathSpec::Simulated(network)) => Some(network),
        Ok(PathSpec::Loopback) | Err(_) => None,
    }
}

/// Reads a race as saved or compressed by gzip; if it is running or was killed, with the blocks in its journal and
/// the results that follow from them.
///
/// # Errors
/// As [`save::load_with`].
pub fn load(file: &Path) -> Result<Outcome> {
    save::load_with(file, derive)
}

/// Derives all results from all blocks of a recovered outcome, and adds a warning for the skipped part of its
/// journal.
fn derive(outcome: &mut Outcome, recovered: &JournalRecovery) -> Result<()> {
    if recovered.blocks > 0 {
        derive_all(outcome)?;
    }
    if let Some(what) = &recovered.skipped {
        outcome.warnings.push(Warning {
            code: warnings::JOURNAL_SKIPPED.to_owned(),
            message: format!(
                "blocks of this race may be missing, since its journal was not read whole: {}",
                short(what)
            ),
            advice: "keep a copy of both files; --resume runs the blocks that are missing again"
                .to_owned(),
        });
    }
    Ok(())
}

fn derive_all(outcome: &mut Outcome) -> Result<()> {
    let parsed = outcome.contenders.iter().map(Entrant::recorded);
    let contenders: Vec<Contender> = parsed.collect::<Result<_>>()?;
    let looks = looks(&outcome.plan, outcome.asked.confidence);
    let (stage, network) = (decision_stage(&looks, blocks_done(outcome)), network(outcome));
    refresh(outcome, &contenders, network.as_ref(), stage);
    Ok(())
}

//! Parts of an outcome that follow from its trials: summaries, verdicts, differences, warnings. They are a function
//! of trials and plan, while a race runs and when its journal is read.

use std::collections::BTreeMap;
use std::path::Path;

use super::differences::differences;
use super::path_ways::{self, network};
use super::{contests, host_use, notice, shares, sweep, warnings};
use crate::analysis::claims::looks;
use crate::analysis::judgement::DecisionStage;
use crate::analysis::verdicts;
use crate::causes;
use crate::journal::{self, JournalRecovery};
use crate::outcome::{DEFAULT_MARGIN, Entrant, Outcome, Trial, Verdict, Warning, blocks_done};
use deadheat_base::error::Result;
use deadheat_base::foreign::short;
use deadheat_contract::recorded::RecordedContender;
use deadheat_path::network::Network;
use deadheat_records::quiet::HostQuiet;
use deadheat_stats::Plan;

/// Growth of the blocks, as one in so many, after which the derived results are updated.
const GROWN: u64 = 64;

/// Returns the decisions permitted after `done` blocks.
pub fn decision_stage(looks: &Plan, done: u64) -> DecisionStage {
    let next = looks.looks.iter().map(|look| look.blocks as u64).find(|at| *at > done);
    let next = next.map(|at| at - done);
    match looks.at(usize::try_from(done).unwrap_or(usize::MAX)) {
        // A look without remaining error decides nothing.
        Some(look) if look.alpha > 0.0 => DecisionStage::Look { alpha: look.alpha, next },
        Some(_) | None => DecisionStage::Between { next },
    }
}

/// Returns true if the parts that follow from the trials are due after `done` blocks, where they were updated after `fresh`.
/// Each update takes time that grows with the blocks.
pub fn is_due(done: u64, fresh: u64) -> bool {
    done - fresh > fresh / GROWN
}

/// Updates the parts that follow from the trials.
pub fn refresh(
    outcome: &mut Outcome,
    contenders: &[RecordedContender],
    network: Option<&Network>,
    stage: DecisionStage,
) {
    for entrant in &mut outcome.contenders {
        settle(entrant, &outcome.trials);
    }
    outcome.probe.iter_mut().for_each(HostQuiet::measure_scatter);
    verdicts::refresh(outcome, stage);
    host_use::weigh(outcome);
    // Intervals take time to compute: do so at each look, and once at the end.
    if let DecisionStage::Look { .. } = stage {
        outcome.shares = shares::shares(outcome);
        outcome.sweeps = sweep::sweeps(outcome);
        outcome.contests = contests::contests(outcome);
    }
    causes::race::refresh(outcome);
    outcome.differences = differences(&outcome.contenders, contenders);
    outcome.path_ways = path_ways::ways(outcome, network);
    warnings::refresh(outcome, network);
}

/// Sets what both ends of an entrant had set, from its last valid trial. A trial whose figures do not count may still know it,
/// as one whose sender was late; of a kernel that answers by itself, only this end's is known.
pub fn settle(entrant: &mut Entrant, trials: &[Trial]) {
    let own = || trials.iter().rev().filter(|trial| trial.contender == entrant.id);
    let found = own()
        .find(|trial| trial.record.valid)
        .or_else(|| own().find(|trial| !trial.record.far_effective.is_empty()))
        .or_else(|| own().find(|trial| !trial.record.effective.is_empty()));
    let Some(Trial { record, .. }) = found else { return };
    entrant.implementation.clone_from(&record.implementation);
    entrant.effective.clone_from(&record.effective);
    entrant.far_effective.clone_from(&record.far_effective);
}

/// Reads a race as saved or compressed by gzip; if it is running or was killed, with the blocks in its journal and
/// the results that follow from them.
///
/// # Errors
/// As [`journal::load_with`].
pub fn load(file: &Path) -> Result<Outcome> {
    journal::load_with(file, derive)
}

/// Derives all results from all blocks of a recovered outcome, and adds a warning for the skipped part of its
/// journal.
fn derive(outcome: &mut Outcome, recovered: &JournalRecovery) -> Result<()> {
    if recovered.blocks > 0 {
        derive_all(outcome)?;
    }
    if let Some(what) = &recovered.skipped {
        outcome.warnings.push(Warning::new(
            notice::JOURNAL_SKIPPED,
            format!(
                "blocks of this race may be missing, since its journal was not read whole: {}",
                short(what)
            ),
            "keep a copy of both files; --resume runs the blocks that are missing again",
        ));
    }
    Ok(())
}

/// Returns a saved race with the verdicts that this version reaches on its trials: block after block at its planned looks,
/// and once more at its end. Trials and gates stay as they ran. The sentence of a verdict that was another when the race
/// was saved has both.
pub fn ruled_anew(saved: &Outcome) -> Outcome {
    let mut anew =
        Outcome { trials: Vec::new(), verdicts: Vec::new(), control: None, ..saved.clone() };
    // Older versions widened it with the noise.
    anew.plan.margin = anew.asked.margin.unwrap_or(DEFAULT_MARGIN);
    let looks = looks(&anew.plan, anew.asked.confidence);
    let mut blocks: BTreeMap<u64, Vec<&Trial>> = BTreeMap::new();
    for trial in &saved.trials {
        blocks.entry(trial.block).or_default().push(trial);
    }
    let mut fresh = 0;
    for (block, trials) in blocks {
        anew.trials.extend(trials.into_iter().cloned());
        let done = block.saturating_add(1);
        let stage = decision_stage(&looks, done);
        if matches!(stage, DecisionStage::Look { .. })
            || looks.any_time > 0.0 && is_due(done, fresh)
        {
            verdicts::refresh(&mut anew, stage);
            fresh = done;
        }
    }
    let done = usize::try_from(blocks_done(saved)).unwrap_or(usize::MAX);
    let stage = match looks.last(done) {
        alpha if alpha > 0.0 => DecisionStage::Look { alpha, next: None },
        _ => DecisionStage::Between { next: None },
    };
    match contenders(&anew) {
        Ok(contenders) => {
            let network = network(&anew);
            refresh(&mut anew, &contenders, network.as_ref(), stage);
        }
        // A build without one of them rules on figures all the same.
        Err(_) => verdicts::refresh(&mut anew, stage),
    }
    for verdict in &mut anew.verdicts {
        let is_same =
            |old: &&Verdict| (&old.metric, old.a, old.b) == (&verdict.metric, verdict.a, verdict.b);
        let old = saved.verdicts.iter().find(is_same);
        let differs = |old: &&Verdict| (old.outcome, old.ahead) != (verdict.outcome, verdict.ahead);
        if let Some(old) = old.filter(differs) {
            let now = verdict.note.trim_end_matches('.');
            verdict.note = format!("{now}; by the rule of the day it ran: {}", old.note);
        }
    }
    anew
}

fn contenders(outcome: &Outcome) -> Result<Vec<RecordedContender>> {
    outcome.contenders.iter().map(Entrant::recorded).collect()
}

fn derive_all(outcome: &mut Outcome) -> Result<()> {
    let contenders = contenders(outcome)?;
    let looks = looks(&outcome.plan, outcome.asked.confidence);
    let (stage, network) = (decision_stage(&looks, blocks_done(outcome)), network(outcome));
    refresh(outcome, &contenders, network.as_ref(), stage);
    Ok(())
}

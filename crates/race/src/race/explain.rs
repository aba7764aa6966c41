//! Second, instrumented pass of a race: it shows where the time goes. It runs after the last block, with the race's
//! plan, placement and seed. None of its figures enters a verdict or a summary, because recording times costs time;
//! this cost is shown beside the figures.

use super::block::{TrialSettings, worth_repeating};
use super::pilot;
use crate::race::context::{RaceContext, RaceEvent};
use deadheat_base::error::{Error, Result};
use deadheat_records::trial::Record;
use deadheat_result::explained::{Explanation, Explanations};
use deadheat_result::outcome::{Entrant, Outcome};
use deadheat_result::schedule::{self, SlotRole};
use deadheat_stats::quantile::median;
use deadheat_trial::explain::Pass;
use deadheat_trial::{Observations, Order, Pairing, TrialOutcome};

mod bulk;
mod echo;
mod userspace;

/// Number of trials of each contender that are used; one more, run first, is not.
const ROUNDS: u64 = 3;

/// Number of the pass's first block: far beyond the blocks of the race, so that each trial has its own seed.
const FIRST: u64 = 1 << 40;

/// A trial of the pass.
struct PassTrial {
    record: Record,
    noted: Observations,
}

/// Runs the pass for every contender of `outcome` that is not blocked.
///
/// # Errors
/// [`Error::Interrupted`] if the stop flag is set. A trial that fails is only missing.
pub(super) fn run(
    context: &mut RaceContext<'_>,
    common: &TrialSettings,
    outcome: &Outcome,
) -> Result<Explanations> {
    let active: Vec<usize> =
        outcome.contenders.iter().filter(|e| e.is_racing()).map(|e| e.id).collect();
    let mut found: Vec<PassTrials> =
        outcome.contenders.iter().map(|_| PassTrials::default()).collect();
    let of = (ROUNDS + 1) * active.len() as u64;
    let mut trial = 0;
    for round in 0..=ROUNDS {
        let block = schedule::block(outcome.seed, FIRST + round, &active, &[]);
        for slot in block.slots.iter().filter(|slot| slot.role == SlotRole::Contender) {
            let (Some(entrant), Some(found)) =
                (outcome.contenders.get(slot.contender), found.get_mut(slot.contender))
            else {
                continue;
            };
            trial += 1;
            context.observer.on(RaceEvent::Explaining { trial, of, label: &entrant.label });
            let order = Order { pass: Pass::Explain, ..common.order(entrant, block.seed)? };
            match attempt(context, &order)? {
                // The first trial finds cold caches, so it is not used.
                _ if round == 0 => {}
                Ok(explored) => found.trials.push(explored),
                Err(why) => found.missing.push(why),
            }
        }
    }
    let metric = outcome.metrics.first().map_or_else(String::new, |metric| metric.name.clone());
    let contenders = outcome
        .contenders
        .iter()
        .zip(found)
        .filter(|(entrant, _)| entrant.is_racing())
        .map(|(entrant, found)| {
            let pairing = common.pairing(entrant)?;
            Ok(explain(outcome, entrant, &metric, pairing, found))
        })
        .collect::<Result<Vec<Explanation>>>()?;
    Ok(Explanations { metric, rounds: ROUNDS, contenders })
}

/// Trials of one contender, and the messages of its failed trials.
#[derive(Default)]
struct PassTrials {
    trials: Vec<PassTrial>,
    missing: Vec<String>,
}

/// Runs a trial, again if it failed or failed its gate. Returns its notes, or the reason why it has none.
///
/// A trial that fails its gate twice is used here, with a note: a late generator spoils a figure that counts from
/// the intended time, but not a figure that counts from the call.
fn attempt(
    context: &mut RaceContext<'_>,
    order: &Order,
) -> Result<std::result::Result<PassTrial, String>> {
    let mut tries = 2;
    loop {
        if context.stopped() {
            return Err(Error::Interrupted);
        }
        let (end, _) = pilot::attempt(context, order)?;
        tries -= 1;
        let why = match end {
            TrialOutcome::Ran(record) if record.valid || tries == 0 => {
                let noted = context.runner.noted();
                let noted = noted.ok_or_else(|| "A trial noted nothing.".to_owned());
                return Ok(noted.map(|noted| PassTrial { record: *record, noted }));
            }
            TrialOutcome::Ran(_) => continue,
            TrialOutcome::Blocked(evidence) => format!("A trial was blocked: {evidence}."),
            TrialOutcome::Broke(evidence) | TrialOutcome::Disconnected(evidence) => {
                format!("A trial failed: {evidence}.")
            }
            TrialOutcome::Limited(what) => format!("A trial was ended: {what}."),
            TrialOutcome::Lost(why) => format!("A trial was lost: {why}."),
            TrialOutcome::Failed(Error::Interrupted) => return Err(Error::Interrupted),
            TrialOutcome::Failed(error) => {
                tries = if worth_repeating(&error) { tries } else { 0 };
                format!("A trial failed: {error}.")
            }
        };
        if tries == 0 {
            return Ok(Err(why));
        }
    }
}

/// Returns a sentence if trials failed their gate.
fn failed_gates(trials: &[PassTrial]) -> Option<String> {
    let reasons: Vec<&str> = trials
        .iter()
        .filter(|explored| !explored.record.valid)
        .map(|explored| explored.record.why_invalid.as_deref().unwrap_or("it does not say why"))
        .collect();
    let first = reasons.first()?;
    let (n, of) = (reasons.len(), trials.len());
    Some(format!(
        "{n} of {of} trials of this pass failed their gate, and count here all the same: {first}."
    ))
}

fn explain(
    outcome: &Outcome,
    entrant: &Entrant,
    metric: &str,
    pairing: &Pairing,
    found: PassTrials,
) -> Explanation {
    let PassTrials { trials, mut missing } = found;
    missing.dedup();
    missing.extend(failed_gates(&trials));
    let of_metric = |explored: &PassTrial| explored.record.metrics.get(metric).copied();
    let figures: Vec<f64> = trials.iter().filter_map(of_metric).collect();
    let headline = outcome.summary.iter().find(|s| s.contender == entrant.id && s.metric == metric);
    let mut explanation = Explanation {
        contender: entrant.id,
        trials: trials.len() as u64,
        headline: headline.map(|summary| summary.estimate),
        instrumented: median(&figures),
        missing,
        userspace: userspace::explain(&trials),
        ..Explanation::default()
    };
    if trials.is_empty() {
        return explanation;
    }
    let Pairing { contender, task, .. } = pairing;
    let info = contender.transport.info();
    if task.info().numbering.is_some() {
        echo::explain(&trials, info.peer, &mut explanation);
    } else {
        bulk::explain(&trials, &**task, &info.guarantees, &mut explanation);
    }
    explanation
}

#[cfg(test)]
mod tests;

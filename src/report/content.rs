//! What a report of one race says, in order. Sections that have nothing to say vanish.

use super::document::{Document, Section};
use super::words;
use super::{answer, arrived, evidence, explain, factors, over_time, path, results, sweeps};
use crate::race::outcome::{Entrant, Outcome, Trial};

/// The report of `outcome`.
pub(super) fn document(outcome: &Outcome) -> Document {
    let sections: [Option<Section>; 19] = [
        answer::section(outcome),
        sweeps::section(outcome),
        factors::section(outcome),
        factors::combinations(outcome),
        results::section(outcome),
        evidence::verdicts(outcome),
        explain::section(outcome),
        evidence::control(outcome),
        evidence::regimes(outcome),
        over_time::section(outcome),
        evidence::accounts(outcome),
        arrived::section(outcome),
        path::section(outcome),
        evidence::differences(outcome),
        evidence::warnings(outcome),
        evidence::excluded(outcome),
        evidence::blocked(outcome),
        factors::infeasible(outcome),
        evidence::conditions(outcome),
    ];
    Document {
        title: title(outcome),
        subtitle: format!(
            "deadheat {} · {} · {} over {}",
            outcome.deadheat.version,
            words::count(blocks_done(outcome), "block"),
            // Its settings, defaults and all, are among the conditions.
            outcome.asked.workload.split(':').next().unwrap_or_default(),
            outcome.path.spec,
        ),
        sections: sections.into_iter().flatten().collect(),
    }
}

fn title(outcome: &Outcome) -> String {
    if let Some(title) = &outcome.title {
        return title.clone();
    }
    if factors::vary(outcome) {
        let names: Vec<&str> = outcome.factors.iter().map(|factor| factor.name.as_str()).collect();
        let contenders: Vec<String> =
            (0..outcome.asked.contenders.len()).map(|row| outcome.contender(row)).collect();
        return format!("{} over {}", words::list(&contenders), words::list(&names));
    }
    let labels: Vec<&str> =
        outcome.contenders.iter().map(|contender| contender.label.as_str()).collect();
    words::list(&labels)
}

/// The label of the contender `id`; a file may name one that it does not have.
pub(super) fn label(outcome: &Outcome, id: usize) -> String {
    entrant(outcome, id)
        .map_or_else(|| format!("contender {id}"), |contender| contender.label.clone())
}

/// The contender `id`.
pub(super) fn entrant(outcome: &Outcome, id: usize) -> Option<&Entrant> {
    outcome.contenders.iter().find(|contender| contender.id == id)
}

/// The contender's own trials that passed their gate; the control's are not among them.
pub(super) fn valid_trials(outcome: &Outcome, id: usize) -> impl Iterator<Item = &Trial> {
    outcome
        .trials
        .iter()
        .filter(move |trial| trial.contender == id && !trial.control && trial.record.valid)
}

/// How many blocks have trials.
pub(super) fn blocks_done(outcome: &Outcome) -> u64 {
    let mut blocks: Vec<u64> = outcome.trials.iter().map(|trial| trial.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.len() as u64
}

//! Sentences about an import: the basis of its verdicts, the information that its files lack, and their oddities.

use super::{FileContent, ImportedTrial};
use deadheat_result::imported::{ImportPairing, ImportedFile};
use deadheat_result::outcome::Outcome;

/// Maximum number of runs that a sentence names.
const MOST_NAMED: usize = 5;

/// Returns the number of valid trials of a contender.
pub(super) fn valid_trials(outcome: &Outcome, contender: usize) -> usize {
    let own = outcome.trials.iter().filter(|trial| trial.contender == contender);
    own.filter(|trial| trial.record.valid).count()
}

/// Returns the labels of contenders with this many valid trials.
fn with_trials(outcome: &Outcome, n: usize) -> Vec<&str> {
    let own = outcome.contenders.iter().filter(|own| valid_trials(outcome, own.id) == n);
    own.map(|entrant| entrant.label.as_str()).collect()
}

/// Returns the reason why there is no verdict, or the basis of the verdicts.
pub(super) fn basis(outcome: &Outcome) -> String {
    if outcome.contenders.len() < 2 {
        return "One contender: there is nothing to compare it with.".to_owned();
    }
    let mut text = String::new();
    if !outcome.verdicts.is_empty() {
        text.push_str(
            "The trials were compared as independent samples (Mann–Whitney, Hodges–Lehmann): what \
             drifted between them counts as difference.",
        );
    }
    let have = |n: usize| if n == 1 { "has" } else { "have" };
    let (none, single) = (with_trials(outcome, 0), with_trials(outcome, 1));
    if none.is_empty() && single.is_empty() {
        if outcome.verdicts.is_empty() {
            text.push_str("No verdict: no two contenders have trials of the same measure.");
        }
        return text;
    }
    let mut parts = Vec::new();
    if !single.is_empty() {
        parts.push(format!("{} {} one trial", single.join(", "), have(single.len())));
    }
    if !none.is_empty() {
        parts.push(format!("{} {} no valid trial", none.join(", "), have(none.len())));
    }
    let end = if text.is_empty() { "No verdict" } else { " No verdict on the others" };
    text.push_str(&format!("{end}: {}.", parts.join(", and ")));
    if !single.is_empty() {
        text.push_str(
            " How much trials differ cannot be told from samples of one. Give files of several trials \
             the same --label; if each number of a file is a trial, say --each trial.",
        );
    }
    text
}

/// Returns the sentence on the information that no file has.
pub(super) fn lacks(
    outcome: &Outcome,
    files: &[ImportedFile],
    pairing: Option<&ImportPairing>,
) -> String {
    let mut phrases: Vec<&str> = Vec::new();
    if outcome.contenders.len() > 1 {
        // With a start of each run, or pairs of runs, the order is known.
        if pairing.is_none() && outcome.trials.iter().any(|trial| trial.record.started_ms == 0) {
            phrases.push("the order of the runs");
        }
        phrases.push("the conditions of each run");
    }
    for phrase in files.iter().flat_map(|file| &file.unknown) {
        if !phrases.contains(&phrase.as_str()) {
            phrases.push(phrase);
        }
    }
    match &phrases[..] {
        [] => String::new(),
        [one] => format!("Not known from the files: {one}."),
        [others @ .., last] => {
            format!("Not known from the files: {}; and {last}.", others.join("; "))
        }
    }
}

/// Takes the oddities of a file and its trials.
pub(super) fn doubts(reading: &mut FileContent) -> Vec<String> {
    let mut doubts = std::mem::take(&mut reading.doubts);
    let trials: Vec<&ImportedTrial> = reading.arms.iter().flat_map(|arm| &arm.trials).collect();
    let reasons = trials.iter().enumerate().filter(|(_, trial)| !trial.record.valid);
    let reasons =
        reasons.map(|(at, trial)| (at, trial.record.why_invalid.clone().unwrap_or_default()));
    for (why, runs) in grouped(reasons) {
        let whose = named(&runs, trials.len(), "It is");
        doubts.push(format!("{whose} in no verdict: {}.", why.trim_end_matches('.')));
    }
    let own = trials.iter().enumerate();
    let own = own.flat_map(|(at, trial)| trial.doubts.iter().map(move |doubt| (at, doubt.clone())));
    for (doubt, runs) in grouped(own) {
        if trials.len() == 1 {
            doubts.push(doubt);
        } else {
            doubts.push(format!("{}: {doubt}", named(&runs, trials.len(), "")));
        }
    }
    doubts
}

/// Groups sentences by their text, each with its trials, in order.
fn grouped(sentences: impl Iterator<Item = (usize, String)>) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, sentence) in sentences {
        match groups.iter_mut().find(|(own, _)| *own == sentence) {
            Some((_, runs)) => runs.push(at),
            None => groups.push((sentence, vec![at])),
        }
    }
    groups
}

/// Names runs by their numbers, from 1: `Run 3 of 6 is`, `Runs 2, 3 of 6 are`.
fn named(runs: &[usize], all: usize, alone: &str) -> String {
    if all == 1 {
        return alone.to_owned();
    }
    let numbers = runs.iter().take(MOST_NAMED).map(|at| (at + 1).to_string());
    let more = if runs.len() > MOST_NAMED { ", …" } else { "" };
    let (noun, verb) = if runs.len() == 1 { ("Run", " is") } else { ("Runs", " are") };
    let verb = if alone.is_empty() { "" } else { verb };
    format!("{noun} {}{more} of {all}{verb}", numbers.collect::<Vec<_>>().join(", "))
}

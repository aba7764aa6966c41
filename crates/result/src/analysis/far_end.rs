//! Warnings about a far end that was away, was another one afterwards, or did not come back.

use crate::outcome::{Absence, Outcome, Warning};
use deadheat_base::error::Error;
use deadheat_base::time::Nanos;
use deadheat_contract::recorded::{self, SeenTrial};

/// Returns the warnings of a race whose far end is one of others.
pub(super) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    let Some(facts) = outcome.path.far_end.as_deref() else { return Vec::new() };
    let counts = facts.counts.as_deref().unwrap_or("nothing");
    let mut all = vec![Warning::new(
        "far_end_of_others",
        format!(
            "the far end is {}, and counts {counts}; not known from it: {}",
            facts.label,
            facts.unknown.join("; ")
        ),
        "`deadheat serve` at the far host reports all of this",
    )];
    let label = |id: usize| outcome.contenders.iter().find(|one| one.id == id);
    // What it offered in a trial it offered, too, where this host was late; a trial that failed has no settings.
    let seen = outcome.trials.iter().filter_map(|trial| {
        let label = &label(trial.contender)?.label;
        Some(SeenTrial { label, effective: &trial.record.effective })
    });
    let seen: Vec<SeenTrial<'_>> = seen.collect();
    // A result may be of a program with other far ends.
    if let Some(remarks) = recorded::far_end(&facts.id).and_then(|end| end.remarks) {
        let remarks = remarks(&seen).into_iter();
        all.extend(remarks.map(|one| Warning::new("far_end_remark", one.message, one.advice)));
    }
    all
}

/// Returns the warning of the absences of a far end, named as typed; the first was at `since`. `None` if there were none.
pub fn away(host: &str, absences: &[Absence], since: &str) -> Option<Warning> {
    let why = &absences.first()?.why;
    let blocks: Vec<u64> = absences.iter().filter_map(|absence| absence.block).collect();
    let place = place(&blocks);
    let lasted = Nanos(absences.iter().map(|absence| absence.length().0).sum());
    let message = match absences.len() {
        1 => format!("{host} was away for {lasted} from {since} on,{place} ({why})"),
        times => format!(
            "{host} was away {times} times, for {lasted} in all,{place}, first at {since}; the first: {why}"
        ),
    };
    Some(Warning::new(
        CODES[0],
        message,
        "trials that were over before count, and the lost ones ran anew; look at the line, or at the server's log, if it \
         happens again",
    ))
}

/// Returns the warning that the far end was another one after an absence, with the change in words.
pub fn changed(host: &str, what: &str) -> Warning {
    Warning::new(
        CODES[1],
        format!("{host} is not as it was when the race began: {what}"),
        "blocks before and after are of two far ends; run the race anew if that matters",
    )
}

/// Returns the warning that the far end did not come back, which ended the race.
pub fn lost(error: &Error) -> Warning {
    Warning::new(
        CODES[2],
        format!("the far end did not come back: {error}"),
        "start `deadheat serve` there again, or mend the line; then `deadheat race --resume FILE` goes on",
    )
}

/// Returns the warning that only one contender is left, so that nothing is compared, which ended the race.
pub fn alone(label: &str) -> Warning {
    Warning::new(
        "nothing_to_compare",
        format!("only {label} is left, so nothing is compared, and the race ended"),
        "race it alone for its figures, or with others that get through",
    )
}

/// Codes of warnings of a far end that was away, was another one afterwards, or did not come back.
pub(super) const CODES: [&str; 3] = ["far_end_away", "far_end_changed", "far_end_failed"];

/// Returns the blocks of absences in words, as people count them.
fn place(blocks: &[u64]) -> String {
    let mut blocks: Vec<String> = blocks.iter().map(|block| (block + 1).to_string()).collect();
    blocks.dedup();
    match &blocks[..] {
        [] => " in no block".to_owned(),
        [one] => format!(" in block {one}"),
        many => format!(" in blocks {}", many.join(", ")),
    }
}

//! Hope of a race: whether enough contenders have trials that count for any verdict.
//!
//! Gates refuse trials blindly, so a race of which they refuse nearly all goes on like any other, and its end is the same
//! after ten minutes as after two blocks.

use deadheat_result::analysis::exclusions::by_reason;
use deadheat_result::analysis::notice;
use deadheat_result::analysis::warnings::{OF_WORK, gate_advice};
use deadheat_result::outcome::{Entrant, Outcome, Trial, Warning, blocks_done};

/// Number of blocks that show it: with repeats, up to six trials of each contender.
pub(super) const FIRST_BLOCKS: u64 = 2;

/// Least share of a contender's trials that count, for pairs with it to be expected.
const LEAST_VALID: f64 = 0.1;

/// Returns false if fewer than two competitors have trials that count, or none of a race of one.
pub(super) fn is_left(outcome: &Outcome) -> bool {
    let able = competitors(outcome).filter(|entrant| is_able(outcome, entrant)).count();
    able >= competitors(outcome).count().min(2)
}

fn competitors(outcome: &Outcome) -> impl Iterator<Item = &Entrant> {
    outcome.contenders.iter().filter(|entrant| entrant.is_racing() && !entrant.floor)
}

fn is_able(outcome: &Outcome, entrant: &Entrant) -> bool {
    let (valid, all) = counts(outcome, entrant);
    valid as f64 > LEAST_VALID * all as f64
}

/// Returns the number of a contender's trials that count, and of all.
fn counts(outcome: &Outcome, entrant: &Entrant) -> (usize, usize) {
    let own = || own(outcome, entrant);
    (own().filter(|trial| trial.record.valid).count(), own().count())
}

fn own<'a>(outcome: &'a Outcome, entrant: &Entrant) -> impl Iterator<Item = &'a Trial> {
    let id = entrant.id;
    let is_own = move |trial: &&Trial| trial.contender == id && trial.record.lost_ms.is_none();
    outcome.trials.iter().filter(is_own)
}

/// Returns the warning of a race without hope: the contenders, the most frequent reason, and the advice about it.
pub(super) fn end(outcome: &Outcome) -> Warning {
    let unable: Vec<&Entrant> =
        competitors(outcome).filter(|entrant| !is_able(outcome, entrant)).collect();
    let (failed, all) = unable.iter().fold((0, 0), |(failed, all), entrant| {
        let (valid, own) = counts(outcome, entrant);
        (failed + own - valid, all + own)
    });
    let labels: Vec<&str> = unable.iter().map(|entrant| entrant.label.as_str()).collect();
    let reasons = by_reason(unable.iter().flat_map(|entrant| own(outcome, entrant)));
    let first = reasons.first().and_then(|trials| trials.first());
    let (advice, why) = first.map_or((OF_WORK, ""), |(trial, why)| {
        (gate_advice(&trial.record, &outcome.plan.placement), *why)
    });
    notice::race_failed(
        format!(
            "{failed} of {all} trials of {} do not count after {} blocks, and more of them would show no more: {why}",
            labels.join(" and "),
            blocks_done(outcome)
        ),
        advice,
    )
}

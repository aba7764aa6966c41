//! Warnings of events in a race, which do not follow from its trials and its plan.

use super::far_end;
use super::pauses::Pauses;
use crate::outcome::{RACE_FAILED, Warning};
use deadheat_base::error::Error;
use deadheat_base::figures::percent;

/// Code of the warning that part of a journal could not be read.
pub(super) const JOURNAL_SKIPPED: &str = "journal_skipped";

/// Codes of the warnings of events.
pub(super) const EVENTS: &[&str] = &[
    "trial_failed",
    RACE_FAILED,
    "save_failed",
    "resumed_after_last_look",
    "resumed_elsewhere",
    "paused",
    JOURNAL_SKIPPED,
    far_end::CODES[0],
    far_end::CODES[1],
    far_end::CODES[2],
];

/// Returns the warning that a trial failed twice, which ended the race.
pub fn trial_failed(error: &Error) -> Warning {
    Warning::new(
        "trial_failed",
        format!("a trial failed twice: {error}"),
        "remove the cause that the message names; the blocks done are kept and can be resumed",
    )
}

/// Returns the warning that trials of all contenders but one at most fail their gate, which ended the race.
pub fn race_failed(why: String, advice: &str) -> Warning {
    Warning::new(RACE_FAILED, why, advice)
}

/// Returns the warning that the race could not be saved, and ended.
pub fn save_failed(error: &Error) -> Warning {
    Warning::new(
        "save_failed",
        format!("the race could not be saved: {error}"),
        "free space or choose another file with -o; the last saved state is intact",
    )
}

/// Returns the warning that the race went on after `blocks` blocks, when its whole error was spent; `error` is an upper bound
/// on the probability of a false verdict now.
pub fn resumed_after_last_look(blocks: u64, error: f64) -> Warning {
    Warning::new(
        "resumed_after_last_look",
        format!(
            "the race was resumed after its last look at {blocks} blocks; the chance of a \
             false verdict is up to {}",
            percent(error)
        ),
        "for the full confidence run a new race with more --blocks or --budget",
    )
}

/// Returns the warning that the race went on on another host.
pub fn resumed_elsewhere(from: &str, to: &str) -> Warning {
    Warning::new(
        "resumed_elsewhere",
        format!("the race began on {from} and went on on {to}"),
        "run the race anew on one host",
    )
}

/// Returns the warning that a person paused the race between blocks.
pub fn paused(pauses: &Pauses) -> Warning {
    Warning::new(
        "paused",
        pauses.message(),
        "each block is whole, and the time is in no figure and not in the budget; run the race anew if the host changed meanwhile",
    )
}

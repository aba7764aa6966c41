//! Contenders that fell back from their preferred transport.

use crate::outcome::{Entrant, Outcome, Trial, Warning};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Fallback, FallbackCause};

/// Returns a warning for each contender that fell back.
pub(crate) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    outcome.contenders.iter().filter_map(|entrant| warning(outcome, entrant)).collect()
}

fn warning(outcome: &Outcome, entrant: &Entrant) -> Option<Warning> {
    let own: Vec<&Trial> =
        outcome.trials.iter().filter(|trial| trial.contender == entrant.id).collect();
    let fell = || own.iter().filter_map(|trial| Some((trial, trial.record.fallback?)));
    let (last, _) = fell().next_back()?;
    let mut took: Vec<u64> = fell().map(|(_, Fallback { after_ns, .. })| after_ns).collect();
    took.sort_unstable();
    let at_start = fell().filter(|(_, fallback)| fallback.cause == FallbackCause::Start).count();
    Some(Warning::new(
        "fell_back",
        format!(
            "{} fell back on {} in {} of {} trials, in {at_start} of them at the start; it took {} (median)",
            entrant.label,
            last.record.effective.get("carried_by").map_or("", String::as_str),
            took.len(),
            own.len(),
            Nanos(took[took.len() / 2])
        ),
        "figures are of both; losses until then are in the ledger",
    ))
}

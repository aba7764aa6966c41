//! Contenders that fell back from their preferred transport.

use super::notice::Notice;
use crate::outcome::{Entrant, Outcome, Trial};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Fallback, FallbackCause};

/// Returns a notice for each contender that fell back.
pub(crate) fn notices(outcome: &Outcome) -> Vec<Notice> {
    outcome.contenders.iter().filter_map(|entrant| notice(outcome, entrant)).collect()
}

fn notice(outcome: &Outcome, entrant: &Entrant) -> Option<Notice> {
    let own: Vec<&Trial> =
        outcome.trials.iter().filter(|trial| trial.contender == entrant.id).collect();
    let fell = || own.iter().filter_map(|trial| Some((trial, trial.record.fallback?)));
    let (last, _) = fell().next_back()?;
    let mut took: Vec<u64> = fell().map(|(_, Fallback { after_ns, .. })| after_ns).collect();
    took.sort_unstable();
    let at_start = fell().filter(|(_, fallback)| fallback.cause == FallbackCause::Start).count();
    Some(Notice::FellBack {
        label: entrant.label.clone(),
        to: last.record.effective.get("carried_by").cloned().unwrap_or_default(),
        trials: took.len(),
        of: own.len(),
        at_start,
        took: Nanos(took[took.len() / 2]),
    })
}

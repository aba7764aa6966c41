//! Exclusions by gates: a check that they are equal for all contenders.
//!
//! A gate that checks only conditions excludes equally many trials of each contender. If it does not, the race is
//! also judged on all trials, and is not trusted if that changes a verdict.

use std::collections::BTreeMap;

use crate::outcome::{Entrant, Outcome, Trial};
use deadheat_stats::{Outcome as Ruled, fisher};

/// Significance level for differing losses.
const LEVEL: f64 = 0.01;

/// Two contenders with unequal losses to gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnequalLosses {
    /// Contender with more losses.
    pub more: FailedTrials,
    /// Contender with fewer losses.
    pub less: FailedTrials,
}

/// Failed trials of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTrials {
    /// The contender's label.
    pub label: String,
    /// Number of trials that failed their gate.
    pub failed: u64,
    /// Number of trials in all.
    pub trials: u64,
}

/// Returns the pair of competitors with the largest difference in losses, if it is significant.
pub(crate) fn unequal_losses(outcome: &Outcome) -> Option<UnequalLosses> {
    let racing: Vec<(&Entrant, u64, u64)> = outcome
        .contenders
        .iter()
        .filter(|entrant| entrant.is_racing() && !entrant.floor)
        .map(|entrant| {
            let is_own =
                |trial: &&Trial| trial.contender == entrant.id && trial.record.lost_ms.is_none();
            let own = || outcome.trials.iter().filter(is_own);
            let failed = own().filter(|trial| !trial.record.valid).count() as u64;
            (entrant, failed, own().count() as u64)
        })
        .collect();
    let mut pairs = Vec::new();
    for (at, a) in racing.iter().enumerate() {
        for b in &racing[at + 1..] {
            pairs.push((fisher(a.1, a.2, b.1, b.2), a, b));
        }
    }
    let tests = pairs.len() as f64;
    let (p, a, b) = pairs.into_iter().min_by(|x, y| x.0.total_cmp(&y.0))?;
    let share = |(_, failed, all): &(&Entrant, u64, u64)| *failed as f64 / (*all).max(1) as f64;
    let (more, less) = if share(a) >= share(b) { (a, b) } else { (b, a) };
    let failed_trials = |(entrant, failed, trials): &(&Entrant, u64, u64)| FailedTrials {
        label: entrant.label.clone(),
        failed: *failed,
        trials: *trials,
    };
    (p * tests <= LEVEL)
        .then(|| UnequalLosses { more: failed_trials(more), less: failed_trials(less) })
}

/// Groups trials that failed their gate by the reason, the most frequent first, each trial with its own words. Reasons that
/// differ only in their numbers count as one.
pub fn by_reason<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<Vec<(&'a Trial, &'a str)>> {
    let mut reasons: BTreeMap<String, Vec<(&Trial, &str)>> = BTreeMap::new();
    for trial in trials.filter(|trial| !trial.record.valid) {
        let why = trial.record.why_invalid.as_deref().unwrap_or("no reason recorded");
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let parts: Vec<&str> = why.split(is_number).filter(|part| !part.is_empty()).collect();
        reasons.entry(parts.concat()).or_default().push((trial, why));
    }
    let mut reasons: Vec<Vec<(&Trial, &str)>> = reasons.into_values().collect();
    reasons.sort_by_key(|trials| std::cmp::Reverse(trials.len()));
    reasons
}

/// Returns true if a verdict would differ without exclusions.
pub(crate) fn change_verdicts(outcome: &Outcome) -> bool {
    outcome.unfiltered.iter().any(|with| {
        let same =
            |v: &&crate::outcome::Verdict| (&v.metric, v.a, v.b) == (&with.metric, with.a, with.b);
        outcome.verdicts.iter().find(same).is_some_and(|without| {
            let is_decided = without.outcome != Ruled::Undecided;
            is_decided && (without.outcome, without.ahead) != (with.outcome, with.ahead)
        })
    })
}

//! Claims of a race: the pairs and metrics of its verdicts, the error level of each, and the looks.

use crate::outcome::{Entrant, Outcome, RecordedPlan};
use deadheat_contract::measurements::{Metric, Role};
use deadheat_stats::Plan;

/// Returns the error level of the whole race.
pub fn alpha(confidence: f64) -> f64 {
    // 1 - 0.95 is 0.050000000000000044 in f64.
    ((1.0 - confidence) * 1e9).round() / 1e9
}

/// Returns the number of blocks needed for an interval of one claim.
pub fn fewest_blocks(confidence: f64) -> usize {
    Plan::fewest_blocks(1, alpha(confidence))
}

/// Returns the minimum number of blocks with which all claims could be decided; 0 without claims.
pub fn fewest_for(claims: usize, confidence: f64) -> u64 {
    match claims {
        0 => 0,
        claims => Plan::fewest_blocks(claims, alpha(confidence)) as u64,
    }
}

/// Returns true if the requested blocks are too few for a verdict on every claim: the race is run for its figures.
pub fn is_for_figures(outcome: &Outcome) -> bool {
    let claims = usize::try_from(outcome.plan.claims).unwrap_or(usize::MAX);
    let fewest = fewest_for(claims, outcome.asked.confidence);
    outcome.asked.blocks.is_some_and(|blocks| blocks < fewest)
}

/// Returns the number of claims: pairs that compete under the same conditions, times claimed metrics.
pub fn claims(entrants: &[Entrant], metrics: &[Metric]) -> usize {
    let racing: Vec<&Entrant> = entrants.iter().filter(|entrant| entrant.is_racing()).collect();
    let meets = |(at, entrant): (usize, &&Entrant)| {
        racing[..at].iter().filter(|other| other.competes_with(entrant)).count()
    };
    let pairs: usize = racing.iter().enumerate().map(meets).sum();
    pairs * claimed(metrics).count()
}

/// Returns the metrics with verdicts.
pub fn claimed(metrics: &[Metric]) -> impl Iterator<Item = &Metric> {
    metrics.iter().filter(|metric| metric.role == Role::Claim)
}

/// Returns the looks of `fixed` in the form of the statistics crate.
pub fn looks(fixed: &RecordedPlan, confidence: f64) -> Plan {
    Plan {
        looks: fixed.looks.clone(),
        any_time: fixed.any_time,
        alpha: alpha(confidence),
        claims: usize::try_from(fixed.claims).unwrap_or(usize::MAX),
    }
}

//! Outages of contenders: the time to the next message that arrived, and connections kept or lost.

use super::spread::{FiveNumbers, five_numbers};
use crate::outcome::{Outcome, Trial};

/// Outages of a contender over its trials, without the trials of the hidden copy.
#[derive(Debug, Clone, PartialEq)]
pub struct OutageCounts {
    /// Contender, by its number.
    pub contender: usize,
    /// Number of trials that ran, or ended because the connection was lost.
    pub trials: usize,
    /// Number of them with an outage, or without a connection at the end.
    pub with: usize,
    /// Number of trials whose outages all ended with an arrival: each trial has one connection, which was kept.
    pub kept: usize,
    /// Number of trials in which nothing arrived until the end, with the connection still there.
    pub silent: usize,
    /// Number of trials whose connection was lost.
    pub lost: usize,
    /// Longest outage of each trial in which all ended, in nanoseconds; `None` without such a trial.
    pub longest_ns: Option<FiveNumbers>,
}

/// Returns the outages of all contenders that had some.
pub fn counts(outcome: &Outcome) -> Vec<OutageCounts> {
    let ids = outcome.contenders.iter().map(|entrant| entrant.id);
    ids.map(|id| of_contender(outcome, id)).filter(|counts| counts.with > 0).collect()
}

fn of_contender(outcome: &Outcome, contender: usize) -> OutageCounts {
    let is_own = |trial: &&Trial| trial.contender == contender && !trial.control;
    let counts = |trial: &&Trial| trial.record.ran() || trial.record.disconnected;
    let own: Vec<&Trial> = outcome.trials.iter().filter(is_own).filter(counts).collect();
    let had = |trial: &&&Trial| !trial.record.disconnected && !trial.record.outages.is_empty();
    let all_ended =
        |trial: &&&Trial| trial.record.outages.iter().all(|own| own.ended == Some(true));
    let is_silent =
        |trial: &&&Trial| trial.record.outages.iter().any(|own| own.ended == Some(false));
    let lost = own.iter().filter(|trial| trial.record.disconnected).count();
    let kept = || own.iter().filter(had).filter(all_ended);
    let longest = kept().filter_map(|trial| {
        let lengths = trial.record.outages.iter().map(|outage| outage.length_ns as f64);
        lengths.reduce(f64::max)
    });
    OutageCounts {
        contender,
        trials: own.len(),
        with: lost + own.iter().filter(had).count(),
        kept: kept().count(),
        silent: own.iter().filter(is_silent).count(),
        lost,
        longest_ns: five_numbers(&mut longest.collect::<Vec<f64>>()),
    }
}

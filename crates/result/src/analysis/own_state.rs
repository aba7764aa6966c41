//! Contenders that stay in a state of their own over several blocks.
//!
//! A path chosen by address, or a CPU that one process occupies, slows one contender for a while and not the
//! others. The blocks of such a race are not independent repeats: the frequency of state changes decides which
//! contender is better. The hidden copy does not show it, because it has a state of its own.
//!
//! For each contender, and for the copy, the residual is the logarithm of its figure less the median of the others
//! in the same block; effects on the whole block cancel. The residuals are tested for serial correlation
//! ([`deadheat_stats::persistence`]). The contender with the highest correlation is reported and removed, and the
//! rest are tested again, because its state is part of the others' medians.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::{alpha, claimed};
use super::table::{Column, Table};
use crate::outcome::Outcome;
use deadheat_stats::{persistence, quantile};

/// Share of the race's error for finding a state, over all contenders and metrics of a sound race: 0.5 % of races
/// with 95 % confidence.
const SHARE: f64 = 0.1;

/// Minimum correlation of neighbours for a state: intervals allow for correlation up to
/// [`deadheat_stats::serial::HOLDS_UP_TO`], and an estimate scatters.
const LEAST: f64 = 0.5;

/// Advice if there is a state.
pub(super) const ADVICE: &str = "look for what lasts longer than a block and belongs to one contender: a path chosen by address or port, a CPU or \
     a cache of its own; then race in several races apart, each of which is one draw of it";

/// A contender that stays in a state of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OwnState {
    /// Id of the contender.
    pub contender: usize,
    /// Label of the contender.
    pub label: String,
    /// True if it is the hidden copy.
    pub copy: bool,
    /// Name of the metric.
    pub metric: String,
    /// Label of the metric.
    pub metric_label: String,
    /// Correlation of neighbouring blocks.
    pub correlation: f64,
}

impl OwnState {
    /// Returns the state in words: `RTT p50 of tcp stays in a state of its own for several blocks`.
    pub(crate) fn words(&self) -> String {
        let copy = if self.copy { "the hidden copy of " } else { "" };
        format!(
            "{} of {copy}{} stays in a state of its own over several blocks (neighbours correlate by {:.1})",
            self.metric_label, self.label, self.correlation
        )
    }
}

/// Series of figures of one contender, or of its copy.
type StateSeries<'a> = BTreeMap<(usize, bool), &'a Column>;

/// Returns the contenders of a race that stay in a state of their own.
pub(crate) fn own_states(outcome: &Outcome, table: &Table<'_>) -> Vec<OwnState> {
    let metrics = claimed(&outcome.metrics).count().max(1) as f64;
    let mut found = Vec::new();
    for metric in claimed(&outcome.metrics) {
        let mut series: StateSeries<'_> = BTreeMap::new();
        for entrant in outcome.contenders.iter().filter(|entrant| entrant.is_racing()) {
            for copy in [false, true] {
                if let Some(column) = table.one(entrant.id, copy, &metric.name) {
                    series.insert((entrant.id, copy), column);
                }
            }
        }
        let level = SHARE * alpha(outcome.asked.confidence) / metrics / series.len().max(1) as f64;
        while let Some(((contender, copy), correlation)) = most_persistent(&series, level) {
            series.remove(&(contender, copy));
            found.push(OwnState {
                contender,
                label: outcome
                    .contenders
                    .get(contender)
                    .map_or_else(String::new, |e| e.label.clone()),
                copy,
                metric: metric.name.clone(),
                metric_label: metric.label.clone(),
                correlation,
            });
        }
    }
    found
}

/// Returns the series in a state that varies most, with the correlation of neighbouring blocks: among three series
/// a state shows in all residuals, and is largest in the residuals of its own series.
fn most_persistent(series: &StateSeries<'_>, level: f64) -> Option<((usize, bool), f64)> {
    if series.len() < 2 {
        return None;
    }
    let mut most: Option<((usize, bool), f64)> = None;
    let mut largest = 0.0;
    for (key, residuals) in residuals(series) {
        let Some(found) = persistence(&residuals) else { continue };
        let is_state = found.p <= level && found.correlation > LEAST;
        let middle = quantile::median(&residuals).unwrap_or(0.0);
        let size: f64 = residuals.iter().map(|residual| (residual - middle).abs()).sum();
        if is_state && size > largest {
            (most, largest) = (Some((key, found.correlation)), size);
        }
    }
    most
}

/// Returns, for each series, its logarithms less the median of the others, in the blocks in which all have a
/// figure.
fn residuals(series: &StateSeries<'_>) -> BTreeMap<(usize, bool), Vec<f64>> {
    let mut residuals: BTreeMap<(usize, bool), Vec<f64>> = BTreeMap::new();
    let blocks: BTreeSet<u64> = series.values().flat_map(|column| column.keys().copied()).collect();
    for block in blocks {
        let log = |column: &&Column| {
            let figure = column.get(&block)?;
            Some(figure.value.ln()).filter(|log| log.is_finite())
        };
        let logs: Option<Vec<f64>> = series.values().map(log).collect();
        let Some(logs) = logs else { continue };
        for (at, key) in series.keys().enumerate() {
            let others: Vec<f64> = logs
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, log)| *log)
                .collect();
            let middle = quantile::median(&others).unwrap_or(0.0);
            residuals.entry(*key).or_default().push(logs[at] - middle);
        }
    }
    residuals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judgement::DecisionStage;
    use crate::analysis::table::TrialFilter;
    use crate::analysis::verdicts;
    use crate::outcome::Trial;
    use crate::testing;
    use deadheat_base::rng::SplitMix64;
    use deadheat_stats::Outcome as Ruled;

    /// Returns a race of 40 blocks in which a series (contender, copy) is slower by half in some blocks.
    fn race(contenders: usize, slow: impl Fn((usize, bool), u64) -> bool) -> Outcome {
        let mut outcome = testing::outcome(contenders);
        let name = claimed(&outcome.metrics).next().unwrap().name.clone();
        let mut rng = SplitMix64::new(3);
        for block in 0..40 {
            // An effect on a whole block is not a state of one contender.
            let host = if block % 20 < 10 { 1.0 } else { 2.0 };
            for series in (0..contenders).map(|id| (id, false)).chain([(0, true)]) {
                let slower = if slow(series, block) { 1.5 } else { 1.0 };
                let figure = 100.0 * host * slower * (0.02 * rng.normal()).exp();
                outcome.trials.push(Trial {
                    block,
                    order: 0,
                    contender: series.0,
                    control: series.1,
                    record: testing::record([(name.clone(), figure)].into_iter().collect()),
                });
            }
        }
        outcome
    }

    fn found(outcome: &Outcome) -> Vec<(usize, bool)> {
        let table = Table::of(&outcome.trials, TrialFilter::Valid);
        let states = own_states(outcome, &table);
        states.into_iter().map(|state| (state.contender, state.copy)).collect()
    }

    /// Returns true in the first 25 blocks except five: the duration of the state decides the lead.
    fn long(block: u64) -> bool {
        block < 25 && !(10..15).contains(&block)
    }

    #[test]
    fn a_contender_in_a_state_of_its_own_is_named_and_decided_nothing_about() {
        let mut outcome = race(3, |series, block| series == (1, false) && long(block));
        assert_eq!(found(&outcome), [(1, false)]);
        verdicts::refresh(&mut outcome, DecisionStage::Look { alpha: 0.05, next: None });
        crate::analysis::warnings::refresh(&mut outcome, None);
        for verdict in &outcome.verdicts {
            let is_open = verdict.outcome == Ruled::Undecided;
            assert_eq!(is_open, verdict.a == 1 || verdict.b == 1, "{verdict:?}");
            assert_eq!(
                is_open,
                verdict.note.contains("stays in a state of its own"),
                "{}",
                verdict.note
            );
            assert!(!is_open || verdict.direction.is_none() && verdict.more_blocks.is_none());
        }
        assert!(outcome.why_not_trusted().is_some_and(|why| why.contains("state of its own")));
    }

    #[test]
    fn the_copy_is_named_too_and_has_no_claims() {
        let mut outcome = race(2, |series, block| series == (0, true) && long(block));
        assert_eq!(found(&outcome), [(0, true)]);
        verdicts::refresh(&mut outcome, DecisionStage::Look { alpha: 0.05, next: None });
        assert_eq!(outcome.verdicts[0].outcome, Ruled::DeadHeat);
    }

    #[test]
    fn states_of_the_host_and_slow_trials_here_and_there_are_none() {
        assert_eq!(found(&race(3, |_, _| false)), []);
        let here_and_there = |series: (usize, bool), block: u64| {
            SplitMix64::new(block * 7 + series.0 as u64).unit() < 0.3
        };
        assert_eq!(found(&race(3, here_and_there)), []);
    }
}

//! Figures by contender and block, and their log-ratios.
//!
//! The hidden copy of a contender has columns of its own and enters no claim. The mean of two trials has another
//! distribution than one trial if trials are skewed, so identical contenders would no longer be exchangeable within
//! a block, which the tests assume.

use std::collections::BTreeMap;

use crate::outcome::{Outcome, Trial};
use deadheat_stats::Slack;

/// Figure of one contender in one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub value: f64,
    pub censored: bool,
    /// Upper bound on the decrease of the logarithm if no message had been sent late.
    pub late: f64,
}

impl Figure {
    /// Returns the largest part of the value that late sends may have made.
    fn late_part(&self) -> f64 {
        self.value * -(-self.late).exp_m1()
    }
}

/// A contender's figures of one metric, by block.
pub(crate) type Column = BTreeMap<u64, Figure>;

/// Selection of trials that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialFilter {
    /// Valid trials: they passed their gate.
    Valid,
    /// All trials that have figures.
    Ran,
}

/// Figures of a race, by contender, copy and metric.
pub(crate) struct Table<'a>(BTreeMap<(usize, bool, &'a str), Column>);

impl<'a> Table<'a> {
    pub(crate) fn of(trials: &'a [Trial], counted: TrialFilter) -> Table<'a> {
        let mut columns: BTreeMap<(usize, bool, &'a str), Column> = BTreeMap::new();
        let counts = |trial: &&Trial| counted == TrialFilter::Ran || trial.record.valid;
        for trial in trials.iter().filter(counts) {
            for (name, value) in &trial.record.metrics {
                let key = (trial.contender, trial.control, name.as_str());
                let figure = Figure {
                    value: *value,
                    censored: trial.record.censored.contains(name),
                    late: trial.record.late_effect.unwrap_or(0.0),
                };
                // A repeat in the same block replaces the repeated trial.
                columns.entry(key).or_default().insert(trial.block, figure);
            }
        }
        Table(columns)
    }

    /// Returns the figures of a contender alone, or of its copy alone.
    pub(crate) fn one(&self, contender: usize, copy: bool, metric: &'a str) -> Option<&Column> {
        self.0.get(&(contender, copy, metric))
    }

    /// Returns the figures of a contender's own trials; empty if it has none.
    pub(crate) fn own(&self, contender: usize, metric: &'a str) -> Column {
        self.one(contender, false, metric).cloned().unwrap_or_default()
    }
}

/// Pairs of figures of two contenders, one for each block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pairs {
    /// Log-ratios: logarithms of the first contender's figure over the second's.
    pub log_ratios: Vec<f64>,
    /// Differences: the first contender's figure less the second's, in blocks with a ratio.
    pub differences: Vec<f64>,
    /// Differences in all blocks in which not both figures are censored.
    pub all_differences: Vec<f64>,
    /// Logarithms of both contenders' figures, in blocks with a ratio.
    pub logs: [Vec<f64>; 2],
    /// Figures of both contenders, in blocks with a difference.
    pub figures: [Vec<f64>; 2],
    /// True if any of these figures is censored at the timeout.
    pub censored: bool,
    /// For each contender, true if in any block its figure is censored, and yet below the other's.
    pub low_bounds: [bool; 2],
    /// Number of blocks in which both figures are censored, so that they have no ratio.
    pub both_censored: u64,
    /// Number of blocks with both figures but no ratio: one is zero, or both are censored.
    pub left_out: u64,
    /// Bounds on the effect of late sends on the ratio.
    pub slack: Slack,
    /// Bounds on the effect of late sends on the differences.
    pub difference_slack: Slack,
}

/// Returns the log-ratios of `a` over `b` in `metric`, by block.
pub fn pairs(outcome: &Outcome, metric: &str, a: usize, b: usize) -> Pairs {
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    Pairs::of(&table.own(a, metric), &table.own(b, metric))
}

impl Pairs {
    /// Returns the pairs of a and b, in the blocks that have both.
    pub(crate) fn of(a: &Column, b: &Column) -> Pairs {
        let mut pairs = Pairs::default();
        let (mut late, mut late_by) = (0.0, 0.0);
        for (block, a) in a {
            let Some(b) = b.get(block) else { continue };
            pairs.censored |= a.censored || b.censored;
            pairs.low_bounds[0] |= a.censored && a.value < b.value;
            pairs.low_bounds[1] |= b.censored && b.value < a.value;
            let log_ratio = a.value.ln() - b.value.ln();
            if !(a.censored && b.censored) && (a.value - b.value).is_finite() {
                pairs.all_differences.push(a.value - b.value);
                pairs.figures[0].push(a.value);
                pairs.figures[1].push(b.value);
                late_by += a.late_part() - b.late_part();
            }
            if a.censored && b.censored {
                pairs.both_censored += 1;
                pairs.left_out += 1;
            } else if log_ratio.is_finite() {
                pairs.log_ratios.push(log_ratio);
                pairs.logs[0].push(a.value.ln());
                pairs.logs[1].push(b.value.ln());
                pairs.differences.push(a.value - b.value);
                late += a.late - b.late;
            } else {
                pairs.left_out += 1;
            }
        }
        // Lateness common to both cancels in the ratio.
        let late = late / pairs.log_ratios.len().max(1) as f64;
        pairs.slack = Slack { below: late.max(0.0), above: (-late).max(0.0) };
        let late_by = late_by / pairs.all_differences.len().max(1) as f64;
        pairs.difference_slack = Slack { below: late_by.max(0.0), above: (-late_by).max(0.0) };
        pairs
    }
}

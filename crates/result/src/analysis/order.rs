//! Order effects: differences of trials by their position in the block.
//!
//! The first trial of a block may find a host that cooled down in the pause before. Orders are balanced, so each
//! contender has each position equally often and ratios are not biased; but blocks scatter more, and the user can
//! reduce that.

use std::collections::BTreeMap;
use std::fmt;

use crate::analysis::claims::claimed;
use crate::outcome::{Outcome, Trial};
use deadheat_base::figures::percent;
use deadheat_contract::measurements::Metric;
use deadheat_stats::{aligned_ranks, quantile};

/// Significance level of differing positions: 1 in 200 races with some five looks each.
const LEVEL: f64 = 0.001;

/// Advice for an order effect.
pub(super) const ADVICE: &str = "race fewer contenders at once, or longer trials; the order is balanced, so that \
                            each contender has each place as often, and no verdict hangs on it";

/// Position in the block with unusual figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderEffect {
    /// The label of the metric.
    pub metric: String,
    /// Position that differs most, from 1, and the number of positions.
    pub place: (usize, usize),
    /// Deviation from the mean of the block, above or below, as a fraction.
    pub change: f64,
}

/// Returns the position that differs most, in the first claimed metric with an order effect.
pub(crate) fn effect(outcome: &Outcome) -> Option<OrderEffect> {
    claimed(&outcome.metrics).find_map(|metric| of_metric(outcome, metric))
}

fn of_metric(outcome: &Outcome, metric: &Metric) -> Option<OrderEffect> {
    let blocks = by_place(outcome, &metric.name);
    if aligned_ranks(&blocks)? > LEVEL {
        return None;
    }
    let places = blocks.first()?.len();
    let from_mean = |place: usize| {
        let apart = |block: &Vec<f64>| block[place] - block.iter().sum::<f64>() / places as f64;
        quantile::median(&blocks.iter().map(apart).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    let (place, apart) = (0..places)
        .map(|place| (place, from_mean(place)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(OrderEffect {
        metric: metric.label.clone(),
        place: (place + 1, places),
        change: apart.exp_m1(),
    })
}

/// Returns logarithms of the figure by position, in complete blocks, each less its contender's usual value.
fn by_place(outcome: &Outcome, metric: &str) -> Vec<Vec<f64>> {
    let is_racing = |trial: &&Trial| {
        outcome.contenders.get(trial.contender).is_some_and(|e| e.is_racing() && !e.floor)
    };
    let log = |trial: &Trial| {
        let figure = trial.record.metrics.get(metric).filter(|_| trial.record.valid)?;
        Some(figure.ln()).filter(|log| log.is_finite())
    };
    let mut usual: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut blocks: BTreeMap<u64, Vec<(u64, usize, Option<f64>)>> = BTreeMap::new();
    for trial in outcome.trials.iter().filter(is_racing) {
        let figure = log(trial);
        usual.entry(trial.contender).or_default().extend(figure);
        blocks.entry(trial.block).or_default().push((trial.order, trial.contender, figure));
    }
    let usual: BTreeMap<usize, f64> = usual
        .into_iter()
        .filter_map(|(contender, logs)| Some((contender, quantile::median(&logs)?)))
        .collect();
    // A block with a repeated trial has more slots, and so has a block before a contender dropped out.
    let whole = usual_length(blocks.values().map(Vec::len));
    blocks
        .into_values()
        .filter(|block| block.len() == whole)
        .filter_map(|mut block| {
            block.sort_unstable_by_key(|(order, ..)| *order);
            let less_usual = |(_, contender, figure): &(u64, usize, Option<f64>)| {
                Some((*figure)? - usual.get(contender)?)
            };
            block.iter().map(less_usual).collect()
        })
        .collect()
}

/// Returns the most common length.
fn usual_length(lengths: impl Iterator<Item = usize>) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    lengths.for_each(|length| *counts.entry(length).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(0, |(length, _)| length)
}

impl fmt::Display for OrderEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, places) = self.place;
        let way = if self.change < 0.0 { "below" } else { "above" };
        write!(
            f,
            "the place in the block makes a difference: in trial {place} of {places}, {} is {} {way} the \
             mean of its block",
            self.metric,
            percent(self.change.abs())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use deadheat_base::rng::SplitMix64;
    use deadheat_contract::measurements::Metrics;

    /// Returns 24 blocks of tcp, udp and the copy, in turn; the first trial of each takes `first` times
    /// as long.
    fn race(first: f64) -> Outcome {
        let mut outcome = testing::outcome(2);
        let name = outcome.metrics[0].name.clone();
        let mut rng = SplitMix64::new(5);
        for block in 0..24 {
            let level = (0.3 * rng.normal()).exp();
            for order in 0..3 {
                let slot = (block + order) % 3;
                let own = [100.0, 150.0, 100.0][slot as usize] * (0.02 * rng.normal()).exp();
                let value = own * level * if order == 0 { first } else { 1.0 };
                let record = testing::record(Metrics::from([(name.clone(), value)]));
                let (contender, control) = [(0, false), (1, false), (0, true)][slot as usize];
                outcome.trials.push(Trial { block, order, contender, control, record });
            }
        }
        outcome
    }

    #[test]
    fn a_cold_first_place_is_found_and_named() {
        let found = effect(&race(1.2)).unwrap();
        assert_eq!(found.place, (1, 3));
        // A fifth above the other two is 1.2^(2/3) above the mean of all three.
        assert!((found.change - 0.129).abs() < 0.02, "{found:?}");
        assert!(found.to_string().contains("in trial 1 of 3"), "{found}");
        assert!(found.to_string().contains("above the mean"), "{found}");
    }

    #[test]
    fn contenders_and_levels_that_differ_are_no_order_effect() {
        assert_eq!(effect(&race(1.0)), None);
    }
}

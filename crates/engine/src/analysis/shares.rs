//! Shares of variation that each condition accounts for, in a race over conditions. Pure and descriptive, without
//! claims, so they spend no error.
//!
//! An observation is the logarithm of a valid trial's figure, without the trials of the control, because only the
//! first contender has one. The contenders are a factor beside the varied ones.

use crate::measurements::Metric;
use crate::result::outcome::{LevelRatio, Outcome, ShareKind, Trial, VarianceShare};
use crate::stats::variance::{self, Observation, Part};

/// Maximum share of valid trials without a figure above 0. With more, as for a loss that is mostly 0, the rest is
/// not representative.
const MOST_LEFT_OUT: f64 = 0.1;

/// A factor in the form of the statistics.
struct VariedFactor<'a> {
    kind: ShareKind,
    name: &'a str,
    levels: Vec<String>,
}

/// Returns the shares of each metric that has any: the factors in their order, the contenders, their interactions,
/// blocks, noise. Leaves out factors with valid trials under one level only.
pub fn shares(outcome: &Outcome) -> Vec<VarianceShare> {
    let varied = varied(outcome);
    if outcome.factors.is_empty() {
        return Vec::new();
    }
    outcome.metrics.iter().flat_map(|metric| of_metric(outcome, &varied, metric)).collect()
}

fn varied(outcome: &Outcome) -> Vec<VariedFactor<'_>> {
    let mut all: Vec<VariedFactor<'_>> = outcome
        .factors
        .iter()
        .map(|f| VariedFactor { kind: ShareKind::Factor, name: &f.name, levels: f.levels.clone() })
        .collect();
    let rows = outcome.asked.contenders.len();
    if rows > 1 {
        let levels = (0..rows).map(|row| outcome.contender(row)).collect();
        all.push(VariedFactor {
            kind: ShareKind::Contenders,
            name: of_contenders(outcome),
            levels,
        });
    }
    all
}

/// Returns `transport` if each contender has another transport, otherwise `contender`.
fn of_contenders(outcome: &Outcome) -> &'static str {
    let mut of_row: Vec<(usize, &str)> = outcome
        .contenders
        .iter()
        .filter_map(|e| Some((e.cell.as_ref()?.contender, e.transport.as_str())))
        .collect();
    of_row.sort_unstable();
    of_row.dedup();
    let mut transports: Vec<&str> = of_row.iter().map(|(_, transport)| *transport).collect();
    transports.sort_unstable();
    transports.dedup();
    if transports.len() == of_row.len() { "transport" } else { "contender" }
}

fn of_metric(
    outcome: &Outcome,
    varied: &[VariedFactor<'_>],
    metric: &Metric,
) -> Vec<VarianceShare> {
    let valid = || outcome.trials.iter().filter(|trial| trial.record.valid && !trial.control);
    let observations: Vec<Observation> =
        valid().filter_map(|trial| observation(outcome, trial, metric, varied.len())).collect();
    let trials = valid().count();
    let left_out = trials - observations.len();
    let confidence = outcome.asked.confidence;
    if left_out as f64 > MOST_LEFT_OUT * trials as f64 {
        return Vec::new();
    }
    let variation = variance::variation(&observations, varied.len(), confidence, outcome.seed);
    let Some(found) = variation else { return Vec::new() };
    let share = |kind, factor: &str, part: Part, levels| VarianceShare {
        metric: metric.name.clone(),
        kind,
        factor: factor.to_owned(),
        share: part.share,
        low: part.interval.map(|(low, _)| low),
        high: part.interval.map(|(_, high)| high),
        raw: part.raw,
        trials: found.observations as u64,
        left_out: left_out as u64,
        blocks: found.blocks_used as u64,
        levels,
    };
    let mut all: Vec<VarianceShare> = varied
        .iter()
        .zip(&found.factors)
        .enumerate()
        .filter_map(|(at, (varied, part))| {
            let levels = ratios(&observations, at, varied, confidence);
            Some(share(varied.kind, varied.name, (*part)?, levels))
        })
        .collect();
    if let Some(part) = found.interactions {
        all.push(share(ShareKind::Interactions, "interactions", part, Vec::new()));
    }
    all.push(share(ShareKind::Blocks, "blocks", found.blocks, Vec::new()));
    all.push(share(ShareKind::Noise, "noise", found.residual, Vec::new()));
    all
}

/// Returns the trial's figure and its levels; the contender is the last, if it is a factor.
fn observation(
    outcome: &Outcome,
    trial: &Trial,
    metric: &Metric,
    factors: usize,
) -> Option<Observation> {
    let cell = outcome.contenders.get(trial.contender)?.cell.as_ref()?;
    let value = trial.record.metrics.get(&metric.name)?.ln();
    let mut levels = cell.levels.clone();
    levels.push(cell.contender);
    levels.truncate(factors);
    value.is_finite().then_some(Observation { block: trial.block, levels, value })
}

/// Returns the ratio of each level to the first one with trials.
fn ratios(
    observations: &[Observation],
    at: usize,
    varied: &VariedFactor<'_>,
    confidence: f64,
) -> Vec<LevelRatio> {
    let Some(first) = observations.iter().filter_map(|o| o.levels.get(at)).min() else {
        return Vec::new();
    };
    let name = |level: usize| varied.levels.get(level).cloned().unwrap_or_default();
    variance::level_shifts(observations, at, *first, confidence)
        .into_iter()
        .map(|shift| LevelRatio {
            level: name(shift.level),
            against: name(*first),
            ratio: shift.shift.exp(),
            low: shift.interval.map(|(low, _)| low.exp()),
            high: shift.interval.map(|(_, high)| high.exp()),
            blocks: shift.blocks as u64,
        })
        // JSON cannot hold an infinite number.
        .filter(|level| level.ratio.is_finite() && level.high.is_none_or(f64::is_finite))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::placement::Placement;
    use crate::race::Request;
    use crate::race::testing::{self, WORKLOAD, ran};
    use crate::rng::SplitMix64;

    /// Returns round trips that depend on the placement (4 times), the size (1.5 times) and hardly on the
    /// transport (2 %).
    fn race(contenders: &[&str], blocks: u64) -> Outcome {
        let request = Request::new(contenders.iter().copied())
            .workload(WORKLOAD)
            .vary("placement", ["busy", "same-core"])
            .vary("size", ["64", "1kB"])
            .blocks(blocks)
            .margin(0.05)
            .seed(5);
        let mut rng = SplitMix64::new(9);
        testing::run(&request, |order| {
            let placement = if order.placement == Placement::SameCore { 4.0 } else { 1.0 };
            let size = if order.workload().contains("1kB") { 1.5 } else { 1.0 };
            let transport = if order.contender() == "udp" { 1.02 } else { 1.0 };
            ran(order, 1_000.0 * placement * size * transport * (0.01 * rng.normal()).exp())
        })
        .unwrap()
    }

    fn of_first<'a>(outcome: &Outcome, shares: &'a [VarianceShare]) -> Vec<&'a VarianceShare> {
        shares.iter().filter(|share| share.metric == outcome.metrics[0].name).collect()
    }

    #[test]
    fn the_right_factor_has_the_right_share_and_its_levels_the_right_size() {
        let outcome = race(&["tcp", "udp"], 12);
        let found = of_first(&outcome, &outcome.shares);
        let names: Vec<&str> = found.iter().map(|share| share.factor.as_str()).collect();
        assert_eq!(names, ["placement", "size", "transport", "interactions", "blocks", "noise"]);
        // Variances of the logarithms: half the distance of two levels, squared.
        let variance = |ratio: f64| (ratio.ln() / 2.0).powi(2);
        let total = variance(4.0) + variance(1.5) + variance(1.02) + 1e-4;
        for (share, ratio) in found.iter().zip([4.0, 1.5, 1.02]) {
            let want = variance(ratio) / total;
            assert!((share.share - want).abs() < 0.005, "{share:?} and not {want}");
            assert!(share.low.unwrap() <= share.share && share.share <= share.high.unwrap());
            let [level] = share.levels.as_slice() else { panic!("{share:?}") };
            assert!((level.ratio / ratio - 1.0).abs() < 0.01, "{level:?}");
            assert!(level.low.unwrap() < ratio && ratio < level.high.unwrap(), "{level:?}");
        }
        let level = &found[0].levels[0];
        assert_eq!((level.against.as_str(), level.level.as_str()), ("busy", "same-core"));
        let sum: f64 = found.iter().map(|share| share.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        assert_eq!(outcome.shares, shares(&outcome), "a saved race gives the same again");
    }

    #[test]
    fn one_contender_is_no_factor_and_three_of_two_transports_are_contenders() {
        let alone = race(&["tcp"], 6);
        let names: Vec<&str> =
            of_first(&alone, &alone.shares).iter().map(|share| share.factor.as_str()).collect();
        assert_eq!(names, ["placement", "size", "interactions", "blocks", "noise"]);
        let three = race(&["udp", "tcp", "udp"], 3);
        let found = of_first(&three, &three.shares);
        assert_eq!((found[2].factor.as_str(), found[2].low), ("contender", None));
        let levels: Vec<&str> = found[2].levels.iter().map(|l| l.level.as_str()).collect();
        assert_eq!(levels, ["tcp", "udp #2"]);
    }

    #[test]
    fn what_has_no_logarithm_is_counted_and_too_much_of_it_leaves_no_shares() {
        let mut outcome = race(&["tcp", "udp"], 6);
        let name = outcome.metrics[0].name.clone();
        let own = |trial: &&mut Trial| !trial.control && trial.contender > 0;
        let zero = |trial: &mut Trial| {
            trial.record.metrics.insert(name.clone(), 0.0);
        };
        outcome.trials.iter_mut().filter(own).take(1).for_each(zero);
        let found = shares(&outcome);
        assert_eq!(of_first(&outcome, &found)[0].left_out, 1);
        outcome.trials.iter_mut().filter(own).take(9).for_each(zero);
        assert!(of_first(&outcome, &shares(&outcome)).is_empty());
        let only = |trial: &mut Trial| trial.contender < 4;
        let mut outcome = race(&["tcp", "udp"], 6);
        outcome.trials.retain_mut(only);
        let found = shares(&outcome);
        assert_eq!(of_first(&outcome, &found)[0].factor, "size", "one placement is none");
        outcome.factors.clear();
        assert!(shares(&outcome).is_empty());
    }
}

//! Shares of variation that each condition accounts for, in a race over conditions. Pure and descriptive, without
//! claims, so they spend no error.
//!
//! An observation is the logarithm of a valid trial's figure, without the trials of the control, because only the
//! first contender has one. The contenders are a factor beside the varied ones.

use crate::outcome::{LevelRatio, Outcome, ShareKind, Trial, VarianceShare};
use deadheat_contract::measurements::Metric;
use deadheat_stats::Observation;
use deadheat_stats::variance::{self, Part};

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

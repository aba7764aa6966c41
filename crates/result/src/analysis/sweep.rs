//! Knee of each contender, in a race that varies an offered rate. Pure and descriptive, without claims.

use crate::analysis::sweep;
use std::collections::BTreeMap;

use crate::analysis::claims::alpha;
use crate::outcome::{KneeAt, KneePlace, Outcome, Sweep};
use deadheat_base::spec::{Key, Kind, Spec};
use deadheat_contract::measurements::name;
use deadheat_contract::workload;
use deadheat_stats::knee::{self, Load, Place};
use deadheat_stats::quantile::median;

/// A contender and the levels of all factors but the load, with its loads by block.
type Rising = BTreeMap<(usize, Vec<usize>), BTreeMap<u64, Vec<Load>>>;

/// Returns a knee for each contender under each combination of the other conditions; empty if no offered rate was
/// varied.
pub fn sweeps(outcome: &Outcome) -> Vec<Sweep> {
    let Some(factor) = load_factor(outcome) else { return Vec::new() };
    let error = alpha(outcome.asked.confidence);
    let sweep = |((contender, levels), blocks): ((usize, Vec<usize>), BTreeMap<u64, Vec<Load>>)| {
        let blocks: Vec<Vec<Load>> = blocks.into_values().collect();
        let knee = knee::knee(&blocks, error)?;
        Some(Sweep {
            contender,
            conditions: conditions(outcome, factor, &levels),
            knee: at(knee.estimate),
            low: knee.interval.map(|(low, _)| at(low)),
            high: knee.interval.map(|(_, high)| at(high)),
            blocks: knee.blocks as u64,
        })
    };
    rising(outcome, factor).into_iter().filter_map(sweep).collect()
}

/// Curve of delivered over offered load: one contender under one combination of the other conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// Level of each other factor, by name.
    pub conditions: BTreeMap<String, String>,
    /// Loads of each valid trial.
    pub trials: Vec<Load>,
    /// Medians over the trials of each level, by rising load.
    pub middle: Vec<Load>,
}

/// Returns the delivered load for each offered load, from which [`sweeps`] finds knees.
pub fn curves(outcome: &Outcome) -> Vec<Curve> {
    let Some(factor) = load_factor(outcome) else { return Vec::new() };
    let curve = |((contender, levels), blocks): ((usize, Vec<usize>), BTreeMap<u64, Vec<Load>>)| {
        let trials: Vec<Load> = blocks.into_values().flatten().collect();
        let conditions = conditions(outcome, factor, &levels);
        Curve { contender, conditions, middle: middle(&trials), trials }
    };
    rising(outcome, factor).into_iter().map(curve).collect()
}

/// Maximum relative difference of loads of one level: a generator does not reproduce the requested rate exactly.
const ONE_LEVEL: f64 = 0.02;

/// Returns the medians of the loads of each level.
fn middle(trials: &[Load]) -> Vec<Load> {
    let mut sorted = trials.to_vec();
    sorted.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let is_one = |a: &Load, b: &Load| b.offered <= a.offered * (1.0 + ONE_LEVEL);
    let load = |level: &[Load]| {
        let of = |value: fn(&Load) -> f64| median(&level.iter().map(value).collect::<Vec<f64>>());
        Some(Load { offered: of(|load| load.offered)?, delivered: of(|load| load.delivered)? })
    };
    sorted.chunk_by(is_one).filter_map(load).collect()
}

/// Returns the factor that is an offered rate, as an index into `outcome.factors`.
pub fn load_factor(outcome: &Outcome) -> Option<usize> {
    let spec = Spec::parse(&outcome.asked.workload).ok()?;
    let keys = workload::keys(&spec.name).ok()?;
    outcome.factors.iter().position(|factor| sweep::is_load(&keys, &factor.name))
}

fn rising(outcome: &Outcome, factor: usize) -> Rising {
    let mut rising = Rising::new();
    for trial in outcome.trials.iter().filter(|trial| trial.record.valid && !trial.control) {
        let entrant = outcome.contenders.get(trial.contender);
        let Some(cell) = entrant.and_then(|entrant| entrant.cell.as_ref()) else { continue };
        let figure = |name: &str| trial.record.metrics.get(name).copied();
        let (Some(offered), Some(delivered)) = (figure(name::OFFERED), figure(name::GOODPUT))
        else {
            continue;
        };
        let mut others = cell.levels.clone();
        if factor < others.len() {
            others.remove(factor);
        }
        let blocks = rising.entry((cell.contender, others)).or_default();
        blocks.entry(trial.block).or_default().push(Load { offered, delivered });
    }
    rising
}

/// Returns the other conditions by name; `levels` has no entry for the load.
fn conditions(outcome: &Outcome, factor: usize, levels: &[usize]) -> BTreeMap<String, String> {
    let others = outcome.factors.iter().enumerate().filter(|(at, _)| *at != factor);
    let level = |((_, factor), level): ((usize, &crate::outcome::Factor), &usize)| {
        Some((factor.name.clone(), factor.levels.get(*level)?.clone()))
    };
    others.zip(levels).filter_map(level).collect()
}

fn at(place: Place) -> KneeAt {
    let (place, bps) = match place {
        Place::Below(bps) => (KneePlace::Below, bps),
        Place::At(bps) => (KneePlace::At, bps),
        Place::Above(bps) => (KneePlace::Above, bps),
    };
    KneeAt { place, bps }
}

/// Returns true if the key with this name is an offered rate.
pub fn is_load(keys: &[&Key], name: &str) -> bool {
    keys.iter().any(|key| key.name == name && matches!(key.kind, Kind::Offered(..)))
}

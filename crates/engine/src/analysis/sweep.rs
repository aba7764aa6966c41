//! Knee of each contender, in a race that varies an offered rate. Pure and descriptive, without claims.

use crate::analysis::sweep;
use std::collections::BTreeMap;

use crate::analysis::claims::alpha;
use crate::measurements::name;
use crate::result::outcome::{KneeAt, KneePlace, Outcome, Sweep};
use crate::spec::{Key, Kind, Spec};
use crate::stats::knee::{self, Load, Place};
use crate::stats::quantile::median;
use crate::workload;

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
    let level = |((_, factor), level): ((usize, &crate::result::outcome::Factor), &usize)| {
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
pub(crate) fn is_load(keys: &[&Key], name: &str) -> bool {
    keys.iter().any(|key| key.name == name && matches!(key.kind, Kind::Offered(..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Metrics;
    use crate::race::{Request, testing};
    use crate::rng::SplitMix64;
    use crate::trial::TrialOutcome;
    use crate::trial::sim::fake;
    use crate::units::parse_offered;

    /// Returns a bottleneck of 5 Mbit/s for `udp`, of 20 for `tcp`, under loads from 1 to 16.
    fn race(blocks: u64) -> Outcome {
        let request = Request::new(["udp", "tcp"])
            .workload("cbr:time=100ms")
            .vary("rate", ["1mbit", "2mbit", "4mbit", "8mbit", "16mbit"])
            .vary("size", ["1000", "1400"])
            .blocks(blocks)
            .margin(0.05)
            .seed(3);
        let mut rng = SplitMix64::new(4);
        testing::run(&request, |order| {
            let typed = Spec::parse(&order.workload()).unwrap();
            let rate = typed.options.iter().find(|(key, _)| key == "rate").unwrap();
            let crate::units::OfferedRate::Bits(rate) = parse_offered(&rate.1).unwrap() else {
                panic!("{}", order.workload())
            };
            let offered = rate.0 as f64;
            let capacity = if order.contender() == "udp" { 5e6 } else { 20e6 };
            let delivered = offered.min(capacity * (1.0 + 0.01 * rng.normal()));
            let figures = [(name::OFFERED, offered), (name::GOODPUT, delivered)];
            let metrics: Metrics = figures.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            TrialOutcome::Ran(Box::new(fake::record(metrics)))
        })
        .unwrap()
    }

    #[test]
    fn each_contender_has_its_knee_under_each_other_condition() {
        let outcome = race(8);
        let found = &outcome.sweeps;
        assert_eq!(found.len(), 4);
        for sweep in &found[..2] {
            assert_eq!((sweep.contender, sweep.knee.place), (0, KneePlace::At), "{sweep:?}");
            assert!((sweep.knee.bps / 5e6 - 1.0).abs() < 0.02, "{sweep:?}");
            let (low, high) = (sweep.low.unwrap().bps, sweep.high.unwrap().bps);
            assert!(low <= sweep.knee.bps && sweep.knee.bps <= high, "{sweep:?}");
        }
        let sizes: Vec<&str> = found.iter().map(|s| s.conditions["size"].as_str()).collect();
        assert_eq!(sizes, ["1000", "1400", "1000", "1400"]);
        let above = KneeAt { place: KneePlace::Above, bps: 16e6 };
        assert!(found[2..].iter().all(|sweep| sweep.contender == 1 && sweep.knee == above));
    }

    #[test]
    fn few_blocks_have_no_interval_and_other_races_no_knee() {
        let mut outcome = race(3);
        assert_eq!((outcome.sweeps[0].low, outcome.sweeps[0].blocks), (None, 3));
        outcome.factors[0].name = "size".into();
        assert!(sweeps(&outcome).is_empty());
    }
}

//! The knee of a contender under rising load: the largest load at which the delivered load follows the offered load.
//!
//! The model of one block is a broken stick, `delivered = min(offered * (1 - e), C)`: a share `e` is
//! lost at any load, and no more than `C` gets through. The knee is where the two lines meet,
//! `C / (1 - e)`.
//!
//! | part | estimate, block by block |
//! |---|---|
//! | `e` | share lost at the lowest load |
//! | saturated | the loads from the first one on that all lose more than `e` by at least 1 %, or by three times the noise if that is more |
//! | noise | scatter, over blocks, of the share lost at the lowest load (from its median absolute deviation) |
//! | `C` | median of the deliveries of saturated loads, each weighted by its delivered share: far beyond the knee, deliveries depend more on queues and the receiver's own losses than on the path |
//!
//! The knee is never below the highest load that was delivered, nor above the lowest that was not. If the lowest load
//! loses more than 1 % and delivers as much as the plateau, within 5 % or three times the noise, it is on the plateau,
//! and the knee is below it.
//!
//! The estimate is the median over blocks, with an interval from order statistics. A block with a knee outside of the
//! tested loads counts as below or above them.

use serde::{Deserialize, Serialize};

use super::quantile::{self, MAD_TO_SD};

/// Load of a block, offered and delivered in the same unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Load that the sender was asked to offer.
    pub offered: f64,
    /// Load that arrived at the receiver.
    pub delivered: f64,
}

impl Load {
    /// Returns the share that was not delivered. Noise may make it negative, and to clamp it would move the knee up.
    fn lost(&self) -> f64 {
        1.0 - self.delivered / self.offered
    }
}

/// Place of a knee, in the unit of the loads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Below the lowest load, given here: every load saturates.
    Below(f64),
    /// At this load.
    At(f64),
    /// Above the highest load, given here: none saturates.
    Above(f64),
}

impl Place {
    fn order(&self, other: &Place) -> std::cmp::Ordering {
        let key = |place: &Place| match *place {
            Place::Below(load) => (0, load),
            Place::At(load) => (1, load),
            Place::Above(load) => (2, load),
        };
        let ((a, x), (b, y)) = (key(self), key(other));
        a.cmp(&b).then(x.total_cmp(&y))
    }
}

/// A knee with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Median over blocks; with an even number of blocks, the lower of the middle two unless both are `At`.
    pub estimate: Place,
    /// Interval of that median from order statistics; absent with too few blocks (95 % needs six).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(Place, Place)>,
    /// Number of blocks that it is based on.
    pub blocks: usize,
}

/// Least lost share of a saturated load.
const LEAST_LOSS: f64 = 0.01;
/// Largest distance from the plateau, as a share, of a lowest load on the plateau.
const ON_PLATEAU: f64 = 0.05;
/// Number of standard deviations within which a difference is noise.
const DEVIATIONS: f64 = 3.0;

/// Estimates the knee of one contender from its `blocks`, each with one figure per load in any order; `error` is one
/// minus the confidence of the interval.
///
/// Loads that are not positive and finite are omitted, and blocks with fewer than two others. `None` without any block.
pub fn knee(blocks: &[Vec<Load>], error: f64) -> Option<Knee> {
    let blocks: Vec<Vec<Load>> = blocks.iter().filter_map(|block| usable(block)).collect();
    let noise = noise(&blocks);
    let mut places: Vec<Place> = blocks.iter().filter_map(|loads| of_block(loads, noise)).collect();
    places.sort_unstable_by(Place::order);
    let interval = quantile::median_ranks(places.len(), error)
        .and_then(|(low, high)| Some((*places.get(low)?, *places.get(high)?)));
    Some(Knee { estimate: median(&places)?, interval, blocks: places.len() })
}

/// Returns the usable loads of a block, lowest first.
fn usable(block: &[Load]) -> Option<Vec<Load>> {
    let sound = |load: &&Load| {
        load.offered.is_finite()
            && load.offered > 0.0
            && load.delivered.is_finite()
            && load.delivered >= 0.0
    };
    let mut loads: Vec<Load> = block.iter().filter(sound).copied().collect();
    loads.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    (loads.len() >= 2).then_some(loads)
}

/// Returns the standard deviation, over blocks, of the share lost at the lowest load.
fn noise(blocks: &[Vec<Load>]) -> f64 {
    let firsts = || blocks.iter().filter_map(|loads| loads.first());
    let lowest = firsts().map(|load| load.offered).fold(f64::INFINITY, f64::min);
    let shares: Vec<f64> =
        firsts().filter(|load| load.offered == lowest).map(|load| load.lost()).collect();
    quantile::mad(&shares).map_or(0.0, |mad| mad * MAD_TO_SD)
}

fn of_block(loads: &[Load], noise: f64) -> Option<Place> {
    let (lowest, highest) = (loads.first()?, loads.last()?);
    let lost = lowest.lost();
    let least = LEAST_LOSS.max(DEVIATIONS * noise);
    let saturated = loads.iter().rev().take_while(|load| load.lost() > lost + least).count();
    let (through, beyond) = loads.split_at(loads.len() - saturated);
    if lowest.delivered == 0.0 {
        return Some(Place::Below(lowest.offered));
    }
    let (Some(last), Some(first)) = (through.last(), beyond.first()) else {
        return Some(Place::Above(highest.offered));
    };
    let plateau = plateau(beyond)?;
    let near = ON_PLATEAU.max(DEVIATIONS * noise);
    if lost > least && lowest.delivered >= plateau * (1.0 - near) {
        return Some(Place::Below(lowest.offered));
    }
    let knee = plateau / (1.0 - lost);
    Some(Place::At(knee.max(last.offered).min(first.offered)))
}

/// Returns the plateau: the median of the deliveries of saturated loads, weighted by the share delivered.
fn plateau(beyond: &[Load]) -> Option<f64> {
    let mut weighted: Vec<(f64, f64)> =
        beyond.iter().map(|load| (load.delivered, 1.0 - load.lost())).collect();
    weighted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = weighted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    weighted.into_iter().find_map(|(delivered, weight)| {
        sum += weight;
        (sum >= half).then_some(delivered)
    })
}

fn median(sorted: &[Place]) -> Option<Place> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get((sorted.len() / 2).checked_sub(1)?)?;
    Some(match (lower, upper) {
        (Place::At(a), Place::At(b)) => Place::At(0.5 * a + 0.5 * b),
        _ => lower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    fn loads(pairs: &[(f64, f64)]) -> Vec<Load> {
        pairs
            .iter()
            .map(|(offered, delivered)| Load { offered: *offered, delivered: *delivered })
            .collect()
    }

    fn place(pairs: &[(f64, f64)]) -> Place {
        knee(&[loads(pairs)], 0.05).unwrap().estimate
    }

    /// Simulates loads, each 1.5 times the one before, over a link of `capacity` that loses a share `lossy` anyway.
    fn stick(capacity: f64, lossy: f64, noise: f64, rng: &mut SplitMix64) -> Vec<Load> {
        (0..10)
            .map(|step| {
                let offered = 1.5f64.powi(step);
                let exact = (offered * (1.0 - lossy)).min(capacity);
                Load { offered, delivered: exact * (1.0 + noise * rng.normal()) }
            })
            .collect()
    }

    fn at(place: Place) -> f64 {
        match place {
            Place::At(load) => load,
            other => panic!("{other:?}"),
        }
    }

    /// Loads offered and the shares lost as in Kreylos 2020, "Is TCP really that slow?", in MiB/s: 1400-byte
    /// datagrams up a line on which TCP had 0.634.
    const PUBLISHED: [(f64, f64); 4] =
        [(0.623, 0.00015), (0.812, 0.2093), (1.181, 0.4429), (43.3, 0.9588)];

    fn published() -> Vec<(f64, f64)> {
        PUBLISHED.iter().map(|(offered, lost)| (*offered, offered * (1.0 - lost))).collect()
    }

    #[test]
    fn the_published_line_has_its_knee_at_its_rate() {
        let found = at(place(&published()));
        assert!((found - 0.642).abs() < 0.001, "{found}");
        assert!((found / 0.634 - 1.0).abs() < 0.015);
    }

    #[test]
    fn outside_of_the_loads_it_is_said_on_which_side() {
        assert_eq!(place(&published()[1..]), Place::Below(0.812));
        assert_eq!(place(&published()[1..3]), Place::Below(0.812));
        assert_eq!(place(&[(1.0, 1.0), (2.0, 1.999), (4.0, 3.99)]), Place::Above(4.0));
        // A path that loses a tenth at any load is not saturated by that.
        assert_eq!(place(&[(1.0, 0.9), (2.0, 1.8), (4.0, 3.6)]), Place::Above(4.0));
        assert_eq!(place(&[(1.0, 0.0), (2.0, 0.0)]), Place::Below(1.0));
    }

    #[test]
    fn loss_at_any_load_moves_the_knee_to_where_the_lines_meet() {
        assert!((at(place(&[(1.0, 0.9), (2.0, 1.8), (4.0, 2.7), (8.0, 2.7)])) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_knee_lies_between_the_loads_that_enclose_it() {
        // Overload brings less than the load before: what got through there counts.
        assert_eq!(place(&[(1.0, 1.0), (2.0, 2.0), (4.0, 1.5), (8.0, 0.5)]), Place::At(2.0));
        // A queue swallows a part of each load.
        assert_eq!(place(&[(1.0, 0.9), (2.0, 1.6), (4.0, 2.0), (8.0, 2.6)]), Place::At(2.0));
    }

    #[test]
    fn one_bad_load_below_the_knee_is_no_knee() {
        assert_eq!(place(&[(1.0, 1.0), (2.0, 1.5), (4.0, 4.0), (8.0, 5.0)]), Place::At(5.0));
    }

    #[test]
    fn noise_is_averaged_and_the_interval_holds_the_truth() {
        let mut rng = SplitMix64::new(3);
        for (capacity, lossy, noise) in
            [(9.0, 0.0, 0.002), (9.0, 0.0, 0.02), (14.0, 0.05, 0.01), (5.5, 0.001, 0.05)]
        {
            let mut held = 0;
            for _ in 0..200 {
                let blocks: Vec<Vec<Load>> =
                    (0..20).map(|_| stick(capacity, lossy, noise, &mut rng)).collect();
                let found = knee(&blocks, 0.05).unwrap();
                let truth = capacity / (1.0 - lossy);
                assert!(
                    (at(found.estimate) / truth - 1.0).abs() < 3.0 * noise + 0.002,
                    "{found:?}"
                );
                let (low, high) = found.interval.unwrap();
                held += usize::from(at(low) <= truth && truth <= at(high));
            }
            assert!(held >= 184, "{held} of 200 at {capacity}, {lossy}, {noise}");
        }
    }

    #[test]
    fn blocks_outside_count_as_outside() {
        let inside = loads(&[(1.0, 1.0), (2.0, 1.5)]);
        let above = loads(&[(1.0, 1.0), (2.0, 2.0)]);
        let mut blocks = vec![inside.clone(); 5];
        blocks.extend([above.clone(), above.clone()]);
        let found = knee(&blocks, 0.05).unwrap();
        assert_eq!(found.estimate, Place::At(1.5));
        assert_eq!(found.interval, Some((Place::At(1.5), Place::Above(2.0))));
        let found = knee(&[inside.clone(), above.clone()], 0.05).unwrap();
        assert_eq!((found.estimate, found.interval, found.blocks), (Place::At(1.5), None, 2));
        let found = knee(&[inside, above.clone(), above], 0.05).unwrap();
        assert_eq!(found.estimate, Place::Above(2.0));
    }

    #[test]
    fn too_little_is_nothing() {
        assert_eq!(knee(&[], 0.05), None);
        assert_eq!(knee(&[loads(&[(1.0, 1.0)])], 0.05), None);
        assert_eq!(knee(&[loads(&[(1.0, 1.0), (0.0, 0.0), (f64::NAN, 1.0)])], 0.05), None);
        assert_eq!(knee(&[loads(&[(1.0, f64::INFINITY), (-1.0, 0.0), (2.0, 1.0)])], 0.05), None);
    }

    #[test]
    fn a_knee_survives_json() {
        let found = knee(&[loads(&published())], 0.05).unwrap();
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Knee>(&json).unwrap(), found);
    }
}

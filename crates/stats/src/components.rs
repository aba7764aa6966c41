//! Variance components, and the length of a trial that follows from them.
//!
//! A trial of many messages averages the variation from message to message, but not the variation from trial to trial
//! (placement, ports, memory). So beyond some length, a longer trial only takes the time of another one (Kalibera &
//! Jones 2013, §9). With the variance `w` of a segment within its trial, `b` between trials, and the cost `o + L c` of
//! a trial of `L` segments, a second of measurement is most effective at the minimum of `(b + w / L) (o + L c)`: at `L
//! = √(w o / (b c))`.

use std::ops::RangeInclusive;

/// Components of the variation of a figure, as variances in the square of its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Variance from segment to segment of one trial.
    pub within: f64,
    /// Variance from one trial to the next, beyond the variance within trials. Zero if that explains all.
    pub between: f64,
    /// Variance over the trials as a whole, beyond the differences of neighbours: interleaving cancels it.
    pub drift: f64,
}

/// Estimates the components of trials in the order in which they ran, each with the figures of its equally long
/// segments. `None` with fewer than three trials or two segments, trials of different lengths, or figures that are
/// not finite.
pub fn components(trials: &[Vec<f64>]) -> Option<Components> {
    let segments = trials.first()?.len();
    let regular =
        |trial: &Vec<f64>| trial.len() == segments && trial.iter().all(|figure| figure.is_finite());
    if trials.len() < 3 || segments < 2 || !trials.iter().all(regular) {
        return None;
    }
    let within = trials.iter().map(|trial| variance(trial)).sum::<f64>() / trials.len() as f64;
    let means: Vec<f64> = trials.iter().map(|trial| mean(trial)).collect();
    // Half the mean square of successive differences (von Neumann 1941, Ann. Math. Statist. 12) is a variance without
    // slow drift.
    let steps: Vec<f64> = means.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).collect();
    let neighbours = 0.5 * mean(&steps);
    Some(Components {
        within,
        between: (neighbours - within / segments as f64).max(0.0),
        drift: (variance(&means) - neighbours).max(0.0),
    })
}

/// Returns the allowed number of segments per trial with the least variance of the mean per time. `trial_overhead_ns`
/// is the time of a trial before its first segment.
pub fn best_length(
    components: &Components,
    segment_cost_ns: u64,
    trial_overhead_ns: u64,
    allowed: RangeInclusive<u64>,
) -> u64 {
    let (fewest, most) = (*allowed.start(), *allowed.end());
    let Components { within, between, .. } = *components;
    let (cost, overhead) = (segment_cost_ns as f64, trial_overhead_ns as f64);
    let best = (within * overhead / (between * cost)).sqrt();
    // Without variation the shortest is the cheapest.
    if best.is_nan() || most <= fewest {
        return fewest;
    }
    let price =
        |length: u64| (between + within / length as f64) * (overhead + length as f64 * cost);
    let below = (best.floor() as u64).clamp(fewest, most);
    let above = (best.ceil() as u64).clamp(fewest, most);
    if price(above) < price(below) { above } else { below }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within each trial the variance is 2. Means 2, 3, 7 step by 1 and 4: (1 + 16) / 4 = 4.25, less 2 / 2.
    /// Their variance is 7, which leaves 2.75 for the drift.
    #[test]
    fn by_hand() {
        let trials = [vec![1.0, 3.0], vec![2.0, 4.0], vec![6.0, 8.0]];
        let expected = Components { within: 2.0, between: 3.25, drift: 2.75 };
        assert_eq!(components(&trials), Some(expected));
        let alike = [vec![1.0, 3.0], vec![3.0, 1.0], vec![1.0, 3.0]];
        assert_eq!(components(&alike), Some(Components { within: 2.0, between: 0.0, drift: 0.0 }));
    }

    #[test]
    fn too_little_tells_nothing() {
        let trial = || vec![1.0, 2.0];
        assert_eq!(components(&[]), None);
        assert_eq!(components(&[trial(), trial()]), None);
        assert_eq!(components(&[vec![1.0], vec![2.0], vec![3.0]]), None);
        assert_eq!(components(&[trial(), trial(), vec![1.0]]), None);
        assert_eq!(components(&[trial(), trial(), vec![1.0, f64::INFINITY]]), None);
    }

    fn best(within: f64, between: f64, allowed: RangeInclusive<u64>) -> u64 {
        best_length(&Components { within, between, drift: 0.0 }, 10, 1_000, allowed)
    }

    /// √(w o / (b c)) = √(100 × 1000 / (1 × 10)) = 100.
    #[test]
    fn the_length_with_the_least_variance_per_second() {
        assert_eq!(best(100.0, 1.0, 1..=1_000), 100);
        assert_eq!(best(100.0, 1.0, 1..=40), 40);
        assert_eq!(best(100.0, 1.0, 300..=400), 300);
        // √2 × 10 = 14.14: (1 + 2 / 14) × 1140 = 1302.86, (1 + 2 / 15) × 1150 = 1303.3.
        assert_eq!(best(2.0, 1.0, 1..=1_000), 14);
    }

    #[test]
    fn the_ends() {
        assert_eq!(best(1.0, 0.0, 1..=50), 50);
        assert_eq!(best(0.0, 1.0, 2..=50), 2);
        assert_eq!(best(0.0, 0.0, 3..=50), 3);
        assert_eq!(best(1.0, 1.0, 7..=7), 7);
        let free = Components { within: 1.0, between: 1.0, drift: 0.0 };
        assert_eq!(best_length(&free, 0, 10, 1..=9), 9);
        assert_eq!(best_length(&free, 10, 0, 1..=9), 1);
        assert_eq!(best_length(&free, 0, 0, 1..=9), 1);
    }
}

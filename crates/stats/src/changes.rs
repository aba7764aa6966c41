//! Changes of level in a series: the same race run again and again, one figure each time.
//!
//! Binary segmentation on ranks. At every place where the series could be cut, the sum of the ranks before
//! it is compared with what chance would make of it (Mann & Whitney 1947); the place that stands out
//! most is a change if it stands out more than in the same values shuffled (Pettitt 1979, Appl. Stat. 28,
//! with the standardised maximum). Then each side is looked at in the same way. Ranks do not
//! care how heavy the tails are, and shuffling makes the test exact for values that are exchangeable,
//! whatever their distribution.
//!
//! The error is spent by length: a part with a share of the values has that share of `alpha`. So the chance
//! that a series without any change is cut at all is at most `alpha`, and so is the chance, with changes that
//! are found where they are, that a stretch between two of them is cut. A series that drifts is not
//! exchangeable; a slow drift is told in steps.

use super::Estimate;
use super::mann_whitney;
use super::quantile::median;
use crate::rng::SplitMix64;

/// Fewest values on each side of a change: one or two races that stand out are races that stand out.
pub const SHORTEST: usize = 3;

/// Longest series that is examined: the last so many values of a longer one.
pub const LONGEST: usize = 2_000;

/// Number of shuffles. With the series itself that is 10,000 orders, so no share of the error above 0.0001 is lost to
/// their number.
const SHUFFLES: u64 = 9_999;

/// Change of level, at one place in the series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value on the new level.
    pub at: usize,
    /// Median of the stretch before, in the unit of the values.
    pub from: f64,
    /// Median of the stretch after.
    pub to: f64,
    /// Shift between the two stretches (Hodges–Lehmann) with its interval at 95 %; absent where the stretches are too
    /// short for that level.
    pub shift: Option<Estimate>,
    /// Share of shuffled series that stand out as much: the p-value.
    pub p: f64,
}

/// Finds the changes of level of `values`, in order, with at most the chance `alpha` that one is seen where nothing
/// changed. The same seed finds the same. Empty where a value is not finite.
pub fn changes(values: &[f64], alpha: f64, seed: u64) -> Vec<Change> {
    if values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let skipped = values.len().saturating_sub(LONGEST);
    let values = &values[skipped..];
    let mut cuts = Vec::new();
    let mut rng = SplitMix64::new(seed);
    cut(values, 0, alpha / values.len().max(1) as f64, &mut rng, &mut cuts);
    cuts.sort_unstable_by_key(|(at, _)| *at);
    settle(values, &mut cuts);
    let ends: Vec<usize> =
        [0].into_iter().chain(cuts.iter().map(|(at, _)| *at)).chain([values.len()]).collect();
    let around = cuts.iter().zip(ends.windows(3));
    let told = around.filter_map(|((at, p), ends)| {
        let (before, after) = (&values[ends[0]..*at], &values[*at..ends[2]]);
        Some(Change {
            at: at + skipped,
            from: median(before)?,
            to: median(after)?,
            shift: mann_whitney::interval(after, before, 0.95),
            p: *p,
        })
    });
    told.collect()
}

/// Cuts `values`, which begin at index `start` of the series, and the parts on both sides of the cut.
fn cut(
    values: &[f64],
    start: usize,
    alpha_each: f64,
    rng: &mut SplitMix64,
    cuts: &mut Vec<(usize, f64)>,
) {
    let alpha = alpha_each * values.len() as f64;
    let Some((at, p)) = first_cut(values, alpha, rng) else {
        return;
    };
    cuts.push((start + at, p));
    let (before, after) = values.split_at(at);
    cut(before, start, alpha_each, rng, cuts);
    cut(after, start + at, alpha_each, rng, cuts);
}

/// Moves each cut to where its own two stretches say that it is: when it was found, changes further away
/// were still in them.
fn settle(values: &[f64], cuts: &mut [(usize, f64)]) {
    for index in 0..cuts.len() {
        let start = index.checked_sub(1).map_or(0, |before| cuts[before].0);
        let end = cuts.get(index + 1).map_or(values.len(), |(after, _)| *after);
        let (at, seen) = peak(&doubled_ranks(&values[start..end]));
        if seen > 0.0 {
            cuts[index].0 = start + at;
        }
    }
}

/// Finds the place at which the series is cut, and its p-value, if that is at most `alpha`.
fn first_cut(values: &[f64], alpha: f64, rng: &mut SplitMix64) -> Option<(usize, f64)> {
    if values.len() < 2 * SHORTEST {
        return None;
    }
    let mut ranks = doubled_ranks(values);
    let (at, seen) = peak(&ranks);
    if seen <= 0.0 {
        return None;
    }
    let orders = (SHUFFLES + 1) as f64;
    let mut as_much = 1u64;
    for _ in 0..SHUFFLES {
        rng.shuffle(&mut ranks);
        // Equal up to rounding is as much.
        as_much += u64::from(peak(&ranks).1 >= seen * (1.0 - 1e-12));
        if as_much as f64 > alpha * orders {
            return None;
        }
    }
    Some((at, as_much as f64 / orders))
}

/// Finds the cut at which the ranks before it are furthest from chance, and how far: the square of the distance over
/// its variance, up to a factor that all orders of the same ranks share.
fn peak(ranks: &[u64]) -> (usize, f64) {
    let n = ranks.len();
    let expected = (n + 1) as f64;
    let mut best = (0, 0.0);
    let mut sum = 0u64;
    for (at, rank) in ranks.iter().enumerate().take(n.saturating_sub(SHORTEST)) {
        sum += rank;
        let before = at + 1;
        if before < SHORTEST {
            continue;
        }
        let distance = sum as f64 - before as f64 * expected;
        let stands_out = distance * distance / (before as f64 * (n - before) as f64);
        if stands_out > best.1 {
            best = (before, stands_out);
        }
    }
    best
}

/// Returns twice the rank of each value, from 1; equal values share the mean of theirs.
pub(super) fn doubled_ranks(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut below = 0;
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let shared = (2 * below + tied.len() + 1) as u64;
        tied.iter().for_each(|index| ranks[*index] = shared);
        below += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHA: f64 = 0.05;

    /// Draws noise without a variance (Student's t with two degrees of freedom), of unit scale.
    fn heavy(rng: &mut SplitMix64) -> f64 {
        rng.normal() / (-(1.0 - rng.unit()).ln()).sqrt()
    }

    /// Counts the series with a change, of 1,000 series of `n` values; `value` makes the one at an index.
    fn alarms(n: usize, mut value: impl FnMut(usize, &mut SplitMix64) -> f64) -> u32 {
        let mut rng = SplitMix64::new(n as u64);
        let mut has_change = |series: u64| {
            let values: Vec<f64> = (0..n).map(|at| value(at, &mut rng)).collect();
            u32::from(!changes(&values, ALPHA, series).is_empty())
        };
        (0..1_000).map(&mut has_change).sum()
    }

    /// 69 of 1,000 or more happen with probability 0.5 % at a true rate of 5 % (binomial).
    const MOST_ALARMS: u32 = 68;

    #[test]
    fn series_without_a_change_are_rarely_cut() {
        for n in [6, 12, 40] {
            let normal = alarms(n, |_, rng| rng.normal());
            let heavy = alarms(n, |_, rng| heavy(rng));
            // As coarse as figures in a file can be: five values only.
            let tied = alarms(n, |_, rng| rng.below(5) as f64);
            let all = [normal, heavy, tied];
            assert!(all.iter().all(|alarms| *alarms <= MOST_ALARMS), "{n}: {all:?}");
        }
    }

    /// A drift over the whole series by half of what a single value scatters.
    #[test]
    fn a_mild_drift_is_rarely_a_change() {
        for n in [10, 20] {
            let drifting = alarms(n, |at, rng| rng.normal() + 0.5 * at as f64 / n as f64);
            // The power against such a drift is little above the level.
            assert!(drifting <= 100, "{n}: {drifting}");
        }
    }

    #[test]
    fn a_step_of_three_deviations_is_found_where_it_is() {
        for (n, step) in [(12, 6), (20, 10), (20, 15), (60, 40)] {
            let mut rng = SplitMix64::new(n as u64);
            let (mut found, mut near) = (0, 0);
            for series in 0..500 {
                let level = |at: usize| if at < step { 10.0 } else { 13.0 };
                let values: Vec<f64> = (0..n).map(|at| level(at) + rng.normal()).collect();
                let changes = changes(&values, ALPHA, series);
                found += u32::from(!changes.is_empty());
                near += u32::from(changes.iter().any(|change| change.at.abs_diff(step) <= 1));
            }
            assert!(found >= 475 && near >= 425, "{n}, {step}: {found} found, {near} near");
        }
    }

    #[test]
    fn there_and_back_are_two_changes() {
        let mut rng = SplitMix64::new(3);
        let level = |at: usize| if (10..20).contains(&at) { 14.0 } else { 10.0 };
        let values: Vec<f64> = (0..30).map(|at| level(at) + rng.normal()).collect();
        let found = changes(&values, ALPHA, 1);
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [10, 20]);
        let there = found[0];
        assert!((there.from - 10.0).abs() < 1.0 && (there.to - 14.0).abs() < 1.0, "{there:?}");
        let shift = there.shift.unwrap();
        assert!(shift.low < 4.0 && 4.0 < shift.high && there.p <= ALPHA, "{shift:?}");
    }

    #[test]
    fn the_same_seed_finds_the_same_and_edges_find_nothing() {
        let values: Vec<f64> = (0..40).map(|at| f64::from(u8::from(at >= 23))).collect();
        assert_eq!(changes(&values, ALPHA, 9), changes(&values, ALPHA, 9));
        assert_eq!(changes(&values, ALPHA, 9)[0].at, 23);
        for values in [&[][..], &[1.0], &[1.0; 5], &[1.0, 1.0, 1.0, 2.0, 2.0], &[4.0; 100]] {
            assert!(changes(values, ALPHA, 1).is_empty(), "{values:?}");
        }
        let mut broken = values;
        broken[3] = f64::NAN;
        assert!(changes(&broken, ALPHA, 1).is_empty());
    }

    #[test]
    fn of_a_series_that_is_too_long_the_end_counts() {
        let values: Vec<f64> = (0..LONGEST + 500)
            .map(|at| f64::from(u8::from(at >= 100)) + f64::from(u8::from(at >= 2_400)))
            .collect();
        let found = changes(&values, ALPHA, 1);
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [2_400]);
    }

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(doubled_ranks(&[3.0, 1.0, 3.0, 2.0]), [7, 2, 7, 4]);
    }
}

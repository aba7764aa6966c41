//! Spread of figures, for drawings: five numbers for a box, and the share of round trips longer than a time. Pure
//! and descriptive, without claims.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::outcome::{Outcome, Summary, Trial};
use deadheat_stats::quantile::{median, printable_rank};

/// Definition of the quartiles. The median is the mean of the middle two, as everywhere here.
pub const QUARTILES: &str = "quartiles: inverse of the distribution, averaged where it is flat \
                             (Hyndman-Fan type 2); whiskers: furthest trials within 1.5 times \
                             the interquartile range";

/// Reach of whiskers: they end at the furthest value within this many interquartile ranges of the box (Tukey 1977,
/// "Exploratory Data Analysis", section 2C).
const REACH: f64 = 1.5;

/// Five numbers of a sample, and its extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FiveNumbers {
    /// Number of values.
    pub n: usize,
    /// Minimum.
    pub min: f64,
    /// End of the lower whisker: the least value within its reach.
    pub low: f64,
    /// The lower quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub q3: f64,
    /// End of the upper whisker: the greatest value within its reach.
    pub high: f64,
    /// Maximum.
    pub max: f64,
}

/// Returns the five numbers of `values`, which are sorted in place; quartiles by [`QUARTILES`]. `None` for an empty
/// sample, or if a value is not finite.
pub fn five_numbers(values: &mut [f64]) -> Option<FiveNumbers> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let (q1, q3) = (quarter(values, 1), quarter(values, 3));
    let reach = REACH * (q3 - q1);
    let (min, max) = (values[0], values[values.len() - 1]);
    Some(FiveNumbers {
        n: values.len(),
        min,
        low: values.iter().copied().find(|value| *value >= q1 - reach).unwrap_or(min),
        q1,
        median: quarter(values, 2),
        q3,
        high: values.iter().rev().copied().find(|value| *value <= q3 + reach).unwrap_or(max),
        max,
    })
}

/// Returns the quantile `k / 4` of a sorted sample that is not empty.
fn quarter(sorted: &[f64], k: usize) -> f64 {
    let rank = (k * sorted.len()).div_ceil(4).max(1);
    let value = sorted[rank - 1];
    if (k * sorted.len()).is_multiple_of(4) && rank < sorted.len() {
        // Halve before adding: the sum of two finite values may overflow.
        0.5 * value + 0.5 * sorted[rank]
    } else {
        value
    }
}

/// Returns the median of figures, each with true if it is censored and so a lower bound: the mean of the middle
/// two, or the lower of them if only one is a bound, because their mean would be neither.
pub(crate) fn median_of_bounds(figures: &mut [(f64, bool)]) -> Option<f64> {
    // Of equal figures the bound is the greater.
    figures.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (lower, upper) = (figures.len().checked_sub(1)? / 2, figures.len() / 2);
    let ((low, is_bound), (high, other)) = (figures[lower], figures[upper]);
    Some(if is_bound == other { 0.5 * low + 0.5 * high } else { low })
}

/// Returns the contender's own valid trials, without its copy's, in the order run.
pub fn valid_trials(outcome: &Outcome, contender: usize) -> impl Iterator<Item = &Trial> {
    let own = move |trial: &&Trial| trial.contender == contender && !trial.control;
    outcome.trials.iter().filter(own).filter(|trial| trial.record.valid)
}

/// Returns a metric's figures over a contender's valid trials, without figures that are not finite.
pub fn figures(outcome: &Outcome, contender: usize, metric: &str) -> Vec<f64> {
    valid_trials(outcome, contender)
        .filter_map(|trial| trial.record.metrics.get(metric).copied())
        .filter(|value| value.is_finite())
        .collect()
}

/// Resamples `values` to at most `most` groups of neighbours of nearly equal size: the median of each, in order.
/// Values that are not finite are left out.
pub fn resampled(values: &[f64], most: usize) -> Vec<f64> {
    let groups = values.len().min(most);
    let edge = |group: usize| group * values.len() / groups.max(1);
    (0..groups).filter_map(|group| median(&values[edge(group)..edge(group + 1)])).collect()
}

/// Returns the median over trials of the values of `of`; `None` if no trial has one.
pub fn middle(
    outcome: &Outcome,
    contender: usize,
    of: impl Fn(&Trial) -> Option<f64>,
) -> Option<f64> {
    let finite = valid_trials(outcome, contender).filter_map(of).filter(|value| value.is_finite());
    median(&finite.collect::<Vec<f64>>())
}

/// Returns the valid trial with the figure nearest to the median over all, among the trials that `can` accepts: an
/// example of the contender.
pub fn typical<'a>(
    outcome: &'a Outcome,
    contender: usize,
    metric: &str,
    can: impl Fn(&Trial) -> bool,
) -> Option<&'a Trial> {
    let middle = median(&figures(outcome, contender, metric))?;
    valid_trials(outcome, contender)
        .filter(|trial| can(trial))
        .filter_map(|trial| Some((trial, trial.record.metrics.get(metric)? - middle)))
        .min_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))
        .map(|(trial, _)| trial)
}

/// Figures of one contender by the level of one factor.
#[derive(Debug, Clone, PartialEq)]
pub struct ByLevel {
    /// Index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// Figures of each level of this factor, for each combination of the other factors' levels.
    pub each: Vec<Vec<Option<f64>>>,
    /// Median over these combinations, for each level.
    pub middle: Vec<Option<f64>>,
}

/// Returns the summaries of a metric by the level of `factor`, an index into `outcome.factors`.
pub fn by_level(outcome: &Outcome, metric: &str, factor: usize) -> Vec<ByLevel> {
    let Some(n) = outcome.factors.get(factor).map(|factor| factor.levels.len()) else {
        return Vec::new();
    };
    let mut rows: BTreeMap<usize, BTreeMap<Vec<usize>, Vec<Option<f64>>>> = BTreeMap::new();
    for entrant in &outcome.contenders {
        let Some(cell) = &entrant.cell else { continue };
        let Some(level) = cell.levels.get(factor).copied().filter(|level| *level < n) else {
            continue;
        };
        let mut others = cell.levels.clone();
        others.remove(factor);
        let of_cell = |s: &&Summary| s.contender == entrant.id && s.metric == metric;
        let estimate = outcome.summary.iter().find(of_cell).map(|summary| summary.estimate);
        let row = rows.entry(cell.contender).or_default();
        let line = row.entry(others).or_insert_with(|| vec![None; n]);
        line[level] = estimate.filter(|value| value.is_finite());
    }
    let by_level = |(contender, each): (usize, BTreeMap<Vec<usize>, Vec<Option<f64>>>)| {
        let each: Vec<Vec<Option<f64>>> = each.into_values().collect();
        let at = |level: usize| {
            let known: Option<Vec<f64>> = each.iter().map(|line| line[level]).collect();
            // Levels without all combinations cannot be compared with complete ones.
            known.and_then(|known| median(&known))
        };
        ByLevel { contender, middle: (0..n).map(at).collect(), each }
    };
    rows.into_iter().map(by_level).collect()
}

/// Pool of the round trips of several trials, in memory of fixed size, with a relative precision of 1/1000.
pub struct Pool {
    histogram: Histogram<u64>,
    lost: u64,
    trials: u64,
}

/// Maximum time that a pool records: one hour, the longest timeout.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Number of significant decimal digits.
const DIGITS: u8 = 3;

impl Pool {
    /// Creates an empty pool; `None` if there is no memory for it.
    pub fn new() -> Option<Pool> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok()?;
        Some(Pool { histogram, lost: 0, trials: 0 })
    }

    /// Adds a trial's round trips in nanoseconds; `None` is a lost one.
    pub fn add(&mut self, round_trips: impl Iterator<Item = Option<u64>>) {
        self.trials += 1;
        for rtt in round_trips {
            match rtt {
                Some(ns) => self.histogram.saturating_record(ns),
                None => self.lost += 1,
            }
        }
    }

    /// Returns the number of messages, lost ones included.
    pub fn n(&self) -> u64 {
        self.histogram.len() + self.lost
    }

    /// Returns the number of messages without an answer.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of trials.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// Returns the time within which a share `q` of all messages was answered (nearest rank), in nanoseconds;
    /// `None` if fewer than ten are beyond it, or if it falls among the lost.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let (n, seen) = (self.n(), self.histogram.len());
        let rank = printable_rank(n, q).filter(|rank| *rank <= seen)?;
        // Half a rank lower, so that rounding in the histogram's division does not raise it.
        Some(self.histogram.value_at_quantile((rank as f64 - 0.5) / seen as f64))
    }

    /// Returns the share of messages that took longer than a time, as `(ns, share)`, from the least time up: at
    /// most `most` points, evenly spread over the logarithm of the share, and none with fewer than ten messages
    /// beyond.
    pub fn tail(&self, most: usize) -> Vec<(f64, f64)> {
        let n = self.n();
        if self.histogram.is_empty() || n == 0 || most < 2 {
            return Vec::new();
        }
        let mut points = vec![(self.histogram.min() as f64, 1.0)];
        let least = (10.0 / n as f64).clamp(1e-9, 1.0);
        for step in 1..most {
            let share = least.powf(step as f64 / (most - 1) as f64);
            let Some(ns) = self.quantile_ns(1.0 - share) else { continue };
            // Of equal times keep the last, with the least share.
            match points.last_mut() {
                Some(last) if last.0 == ns as f64 => last.1 = share,
                _ => points.push((ns as f64, share)),
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_no_mean_of_a_figure_and_a_bound() {
        let timeout = 3e9;
        let median = |figures: &[(f64, bool)]| median_of_bounds(&mut figures.to_vec());
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[(2.0, false)]), Some(2.0));
        assert_eq!(median(&[(4.0, false), (2.0, false)]), Some(3.0));
        assert_eq!(median(&[(timeout, true), (1e5, false)]), Some(1e5));
        assert_eq!(median(&[(timeout, true), (timeout, true)]), Some(timeout));
        assert_eq!(median(&[(timeout, true), (1e5, false), (timeout, true)]), Some(timeout));
    }

    #[test]
    fn five_numbers_of_a_textbook() {
        // Hyndman-Fan type 2, as in R's `quantile(x, type = 2)`.
        let mut values = [7.0, 15.0, 36.0, 39.0, 40.0, 41.0];
        let five = five_numbers(&mut values).unwrap();
        assert_eq!((five.q1, five.median, five.q3), (15.0, 37.5, 40.0));
        let mut eight = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        let five = five_numbers(&mut eight).unwrap();
        assert_eq!((five.q1, five.median, five.q3), (2.5, 4.5, 6.5));
    }

    #[test]
    fn whiskers_end_at_values_and_leave_out_what_is_far() {
        let five = five_numbers(&mut [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 100.0]).unwrap();
        assert_eq!((five.low, five.high, five.max), (10.0, 16.0, 100.0));
        let one = five_numbers(&mut [3.0]).unwrap();
        assert_eq!([one.min, one.low, one.q1, one.median, one.q3, one.high, one.max], [3.0; 7]);
        let huge = five_numbers(&mut [-f64::MAX, f64::MAX]).unwrap();
        assert_eq!((huge.low, huge.median, huge.high), (-f64::MAX, 0.0, f64::MAX));
    }

    #[test]
    fn nothing_and_no_numbers_have_none() {
        assert_eq!(five_numbers(&mut []), None);
        assert_eq!(five_numbers(&mut [1.0, f64::NAN]), None);
        assert_eq!(five_numbers(&mut [1.0, f64::INFINITY]), None);
    }

    #[test]
    fn a_tail_ends_where_ten_messages_lie_beyond() {
        let mut pool = Pool::new().unwrap();
        pool.add((1..=1_000).map(Some));
        let tail = pool.tail(200);
        assert_eq!(tail[0], (1.0, 1.0));
        let last = tail[tail.len() - 1];
        assert_eq!(last, (990.0, 0.01));
        assert!(tail.len() <= 200 && tail.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 > w[1].1));
        assert_eq!((pool.quantile_ns(0.5), pool.quantile_ns(0.999)), (Some(500), None));
    }

    #[test]
    fn lost_messages_keep_a_tail_up() {
        let mut pool = Pool::new().unwrap();
        pool.add((0..1_000).map(|i| (i >= 100).then_some(50)));
        assert_eq!((pool.n(), pool.lost(), pool.trials()), (1_000, 100, 1));
        assert!(pool.tail(50).iter().all(|(_, share)| *share >= 0.1), "{:?}", pool.tail(50));
        let empty = Pool::new().unwrap();
        assert!(empty.tail(50).is_empty());
        assert_eq!(empty.quantile_ns(0.5), None);
    }
}

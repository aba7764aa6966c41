//! Samples of one trial: stored in order, summarised, and examined for lost information.

use std::path::Path;

use super::{ImportedTrial, ReaderContext, rates};
use deadheat_base::error::Error;
use deadheat_contract::measurements::{
    Account, Distribution, Ledger, Metric, Quantile, Recorder, Role, Sample, Unit, name,
};
use deadheat_records::samples::Samples;
use deadheat_result::imported::{Spread, SpreadOver};
use deadheat_stats::quantile;

/// Maximum number of samples in one file: they are sorted in memory, where each takes 8 bytes.
const MOST: usize = 32 << 20;

/// Number of consecutive rises, without a fall, that shows that numbers were sorted: by chance one file in 5,040
/// looks like that.
const RISES: u64 = 7;

/// Placeholder for a lost sample.
const LOST: u64 = u64::MAX;

/// Placeholder for a sample of which only an upper bound is known.
const BELOW: u64 = u64::MAX - 1;

/// Samples in the order read, in nanoseconds or bits per second.
#[derive(Default)]
pub(super) struct SampleBuffer {
    values: Vec<u64>,
    /// Send time of each sample, in nanoseconds after the first; empty if unknown.
    at_ns: Vec<u64>,
    /// Upper bounds of the samples of which only that is known: they lie in `[0, bound)`.
    below: Vec<u64>,
}

impl SampleBuffer {
    /// Adds a sample.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn push(&mut self, value: u64) -> Result<(), String> {
        if self.values.len() >= MOST {
            return Err(format!("more than {MOST} samples; thin them out, or split the file"));
        }
        self.values.push(value);
        Ok(())
    }

    /// Adds a sample, or one without an answer, with the time at which it was sent if that is known.
    pub(super) fn put(&mut self, value: Option<u64>, at_ns: Option<u64>) -> Result<(), String> {
        self.push(value.unwrap_or(LOST))?;
        self.at_ns.extend(at_ns);
        Ok(())
    }

    /// Adds a sample of which only an upper bound is known, as `<1ms` tells it: no figure is taken from it.
    pub(super) fn push_below(&mut self, bound: u64) -> Result<(), String> {
        self.push(BELOW)?;
        self.below.push(bound);
        Ok(())
    }

    /// Returns all values unchanged.
    #[cfg(test)]
    pub(super) fn into_vec(self) -> Vec<u64> {
        self.values
    }

    /// Summarises the samples as a trial with metrics of this naming; round trips are stored as the context says.
    ///
    /// # Errors
    /// If they cannot be stored.
    pub(super) fn trial(
        self,
        what: &MetricNaming,
        context: &mut ReaderContext<'_>,
    ) -> Result<ImportedTrial, String> {
        // A sample that is an interval is no number to store.
        let is_stored = what.unit == Unit::Nanos && self.below.is_empty();
        let samples_file = if is_stored { context.part() } else { None };
        if let Some(part) = &samples_file {
            self.keep(part).map_err(|e| e.to_string())?;
        }
        let summed = self.sum();
        let mut trial = ImportedTrial { samples_file, ..ImportedTrial::complete() };
        what.enter(&summed, Role::Claim, &mut trial);
        if what.stem == RTT {
            trial.record.rtt_ns = Some(summed.distribution());
        }
        trial.doubts = summed.doubts(what.unit);
        Ok(trial)
    }

    fn keep(&self, part: &Path) -> Result<(), Error> {
        let longest = self.values.iter().filter(|v| **v < BELOW).max().copied().unwrap_or(0);
        let mut samples = Samples::new(Some(part), longest)?;
        for (seq, value) in self.values.iter().enumerate() {
            samples.record(Sample {
                seq: seq as u64,
                intended_ns: self.at_ns.get(seq).copied().unwrap_or(0),
                lateness_ns: 0,
                rtt_ns: (*value != LOST).then_some(*value),
            });
        }
        Ok(())
    }

    /// Sorts and summarises the samples.
    pub(super) fn sum(mut self) -> SortedSamples {
        let lost = self.values.iter().filter(|value| **value == LOST).count() as u64;
        self.values.retain(|value| *value < BELOW);
        let is_sorted = is_sorted(&self.values);
        self.values.sort_unstable();
        // A number below a bound of another sample has no rank among the samples.
        let bound = self.below.iter().max().copied().unwrap_or(0);
        let within = self.values.partition_point(|value| *value < bound) as u64;
        let below = self.below.len() as u64;
        let unranked = below + within;
        SortedSamples { lost, below, unranked, bound, is_sorted, sorted: self.values }
    }
}

/// Returns true if numbers only rise, or only fall.
fn is_sorted(values: &[u64]) -> bool {
    let count = |holds: fn(u64, u64) -> bool| {
        values.windows(2).filter(|pair| holds(pair[0], pair[1])).count() as u64
    };
    let (rises, falls) = (count(|a, b| a < b), count(|a, b| a > b));
    rises.min(falls) == 0 && rises.max(falls) >= RISES
}

/// Samples in ascending order.
pub(super) struct SortedSamples {
    sorted: Vec<u64>,
    lost: u64,
    /// Number of samples of which only an upper bound is known.
    below: u64,
    /// Number of samples, from the least, whose order is not known because of these.
    unranked: u64,
    /// Largest of their bounds.
    bound: u64,
    /// True if they were sorted in the file.
    is_sorted: bool,
}

impl SortedSamples {
    /// Returns the number of samples, received and lost.
    pub(super) fn count(&self) -> u64 {
        self.received() + self.lost
    }

    /// Returns the number of samples received.
    fn received(&self) -> u64 {
        self.sorted.len() as u64 + self.below
    }

    /// Returns the mean; `None` if there are no samples, or if one is only known to lie below a bound.
    pub(super) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.sorted.iter().map(|value| *value as f64).sum();
        (!self.sorted.is_empty() && self.below == 0).then(|| sum / self.sorted.len() as f64)
    }

    /// Returns the sample of a rank from 1, counted over all; `None` for a rank below which the order is not known.
    fn ranked(&self, rank: u64) -> Option<u64> {
        let is_ordered = rank > self.unranked;
        is_ordered.then(|| self.sorted.get((rank - 1 - self.below) as usize).copied())?
    }

    /// Returns the distribution. Lost samples count as longer than all received ones.
    pub(super) fn distribution(&self) -> Distribution {
        let (n, seen) = (self.count(), self.received());
        let max = self.sorted.last().copied();
        let quantile = |q: f64| {
            let rank = quantile::printable_rank(n, q)?;
            if rank > seen {
                return Some(Quantile::Beyond(max?));
            }
            self.ranked(rank).map(Quantile::Ns)
        };
        let mean = self.mean().filter(|_| self.lost == 0);
        let squares = |mean: f64| -> f64 {
            self.sorted.iter().map(|value| (*value as f64 - mean).powi(2)).sum()
        };
        Distribution {
            n,
            censored: self.lost,
            min: self.sorted.first().copied().filter(|_| self.below == 0),
            max,
            mean,
            stddev: mean
                .filter(|_| seen > 1)
                .map(|mean| (squares(mean) / (seen - 1) as f64).sqrt()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
        }
    }

    /// Returns the five-number summary of the received samples. A quartile needs ten samples beyond it.
    pub(super) fn five(&self, what: &str, unit: Unit) -> Spread {
        let n = self.received();
        let at = |q: f64| {
            let rank = quantile::printable_rank(n, q)?;
            self.ranked(rank).map(|value| value as f64)
        };
        // Of samples below a bound the least may be 0, and the largest is less than the bound.
        let least = self.sorted.first().filter(|_| self.below == 0);
        let most = self.sorted.last().copied().unwrap_or(0).max(self.bound);
        Spread {
            contender: 0,
            what: what.to_owned(),
            unit,
            over: SpreadOver::Samples,
            n,
            lost: self.lost,
            min: least.map_or(0.0, |value| *value as f64),
            q1: at(0.25),
            median: at(0.5),
            q3: at(0.75),
            max: most as f64,
        }
    }

    /// Returns sentences about information that was lost before the import.
    pub(super) fn doubts(&self, unit: Unit) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.below > 0 {
            doubts.push(format!(
                "Of {} samples only this is known: they lie below {}. No percentile is taken from them.",
                self.below,
                step_text(self.bound, unit)
            ));
        }
        if self.is_sorted {
            doubts.push(
                "The order is lost: the numbers are sorted. Warm-up, drift and jitter can no longer \
                 be seen."
                    .to_owned(),
            );
        }
        let distinct = self.sorted.chunk_by(|a, b| a == b).count();
        if self.sorted.len() >= 20 && distinct * 2 < self.sorted.len() {
            let step = self.sorted.iter().fold(0, |step, value| gcd(step, *value));
            doubts.push(format!(
                "Coarse: {distinct} distinct values among {}, in steps of {}; differences below that \
                 are not in them.",
                self.sorted.len(),
                step_text(step, unit)
            ));
        }
        doubts
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Formats a step: `1 ms`, `100 us`, `8000 bit/s`.
fn step_text(step: u64, unit: Unit) -> String {
    if unit != Unit::Nanos {
        return format!("{step} bit/s");
    }
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let whole = units.iter().find(|(ns, _)| step > 0 && step.is_multiple_of(*ns));
    whole.map_or_else(|| format!("{step} ns"), |(ns, name)| format!("{} {name}", step / ns))
}

/// Name and unit of the sampled quantity, for its metrics.
pub(super) struct MetricNaming {
    /// First part of a metric's name: `rtt`.
    pub stem: String,
    /// Display name: `RTT`.
    pub label: String,
    pub unit: Unit,
}

/// Stem of round trips, as in a result's `rtt_ns`.
const RTT: &str = "rtt";

/// Percentiles that become metrics: name, label, share.
const PERCENTILES: [(&str, &str); 4] =
    [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p999", "p99.9")];

impl MetricNaming {
    /// Returns the naming of round trips, as in this program's `ping`.
    pub(super) fn rtt() -> MetricNaming {
        MetricNaming::time(RTT, "RTT")
    }

    /// Returns the naming of a time.
    pub(super) fn time(stem: &str, label: &str) -> MetricNaming {
        MetricNaming { stem: stem.to_owned(), label: label.to_owned(), unit: Unit::Nanos }
    }

    /// Returns the metrics of a trial with such samples; the median is the claim, if there is one.
    pub(super) fn metrics(&self, claim: Role) -> Vec<Metric> {
        let percentile = |(name, label): (&str, &str)| {
            let role = if name == "p50" { claim } else { Role::Descriptive };
            rates::metric(&self.metric(name), &format!("{} {label}", self.label), self.unit, role)
        };
        PERCENTILES.into_iter().map(percentile).collect()
    }

    fn metric(&self, percentile: &str) -> String {
        let unit = if self.unit == Unit::Nanos { "ns" } else { "bps" };
        format!("{}_{percentile}_{unit}", self.stem)
    }

    /// Adds samples to a trial: percentiles with their metrics, and five numbers.
    pub(super) fn enter(&self, summed: &SortedSamples, claim: Role, trial: &mut ImportedTrial) {
        self.enter_distribution(&summed.distribution(), claim, trial);
        trial.spreads.push(summed.five(&self.label, self.unit));
    }

    /// Adds the percentiles of a distribution to a trial, with their metrics.
    pub(super) fn enter_distribution(
        &self,
        seen: &Distribution,
        claim: Role,
        trial: &mut ImportedTrial,
    ) {
        trial.metrics.extend(self.metrics(claim));
        let record = &mut trial.record;
        let percentiles = [seen.p50, seen.p90, seen.p99, seen.p999];
        for ((name, _), value) in PERCENTILES.iter().zip(percentiles) {
            let Some(value) = value else { continue };
            record.metrics.insert(self.metric(name), value.at_least_ns() as f64);
            if matches!(value, Quantile::Beyond(_)) {
                record.censored.push(self.metric(name));
            }
        }
    }
}

/// Returns the metric of the lost share, as in this program's `ping`.
pub(super) fn loss_metric() -> Metric {
    rates::metric(name::LOST, "lost", Unit::Share, Role::Descriptive)
}

/// Counts of messages, there and back or one way: sent, received, duplicated, reordered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageCounts {
    pub sent: u64,
    pub received: u64,
    /// Unknown to most tools, as the next.
    pub duplicates: Option<u64>,
    pub reordered: Option<u64>,
}

impl MessageCounts {
    /// Returns counts of which nothing else is known.
    pub(super) fn of(sent: u64, received: u64) -> MessageCounts {
        MessageCounts { sent, received, ..MessageCounts::default() }
    }

    /// Adds the ledger of round trips and the lost share to a trial.
    pub(super) fn enter(&self, trial: &mut ImportedTrial) {
        trial.metrics.push(loss_metric());
        if self.enter_loss(trial) {
            trial.record.ledger = Ledger { round_trip: Some(self.account()), ..Ledger::default() };
        }
    }

    /// Adds the ledger of messages that went one way, and the lost share, to a trial.
    pub(super) fn enter_one_way(&self, trial: &mut ImportedTrial) {
        if self.enter_loss(trial) {
            trial.record.ledger = Ledger { up: Some(self.account()), ..Ledger::default() };
            trial.metrics.extend((self.sent > 0).then(loss_metric));
        }
    }

    /// Adds the lost share. Where more were received than sent, it is not known, and the trial says so.
    fn enter_loss(&self, trial: &mut ImportedTrial) -> bool {
        let (sent, received) = (self.sent, self.received);
        let Some(lost) = sent.checked_sub(received) else {
            trial.impossible(&format!("{received} received of {sent} sent"));
            return false;
        };
        if sent > 0 {
            trial.record.metrics.insert(loss_metric().name, lost as f64 / sent as f64);
        }
        true
    }

    /// Returns the account. The place of losses is not known; they count as of the path.
    pub(super) fn account(&self) -> Account {
        Account {
            unit: "messages".to_owned(),
            sent: self.sent,
            delivered: self.received.min(self.sent),
            lost_on_path: self.sent.saturating_sub(self.received),
            duplicates: self.duplicates,
            reordered: self.reordered,
            ..Account::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(values: impl IntoIterator<Item = u64>) -> SortedSamples {
        SampleBuffer { values: values.into_iter().collect(), ..SampleBuffer::default() }.sum()
    }

    #[test]
    fn five_numbers_are_order_statistics() {
        let five = summed((1..=1000).rev().map(|i| i * 1_000)).five("time", Unit::Nanos);
        assert_eq!((five.min, five.max, five.n), (1_000.0, 1_000_000.0, 1000));
        assert_eq!(
            (five.q1, five.median, five.q3),
            (Some(250_000.0), Some(500_000.0), Some(750_000.0))
        );
        let few = summed(1..=12).five("time", Unit::Nanos);
        assert_eq!((few.q1, few.median, few.min, few.max), (None, None, 1.0, 12.0));
    }

    #[test]
    fn lost_samples_are_longer_than_all_that_came() {
        let seen = summed((1..=1000).map(|i| if i > 980 { LOST } else { i })).distribution();
        assert_eq!((seen.n, seen.censored, seen.max, seen.mean), (1000, 20, Some(980), None));
        assert_eq!((seen.p90, seen.p99), (Some(Quantile::Ns(900)), Some(Quantile::Beyond(980))));
        let none = summed([LOST; 30]).distribution();
        assert_eq!((none.n, none.p50, none.max), (30, None, None));
    }

    #[test]
    fn samples_below_a_bound_have_no_rank_and_no_value() {
        let mut buffer = SampleBuffer::default();
        (0..60).for_each(|_| buffer.push_below(1_000_000).unwrap());
        (0..38).for_each(|_| buffer.push(2_000_000).unwrap());
        buffer.put(None, None).unwrap();
        buffer.put(None, None).unwrap();
        let summed = buffer.sum();
        let seen = summed.distribution();
        assert_eq!((seen.n, seen.censored, seen.p50, seen.min), (100, 2, None, None));
        assert_eq!(seen.p90, Some(Quantile::Ns(2_000_000)));
        let five = summed.five("RTT", Unit::Nanos);
        assert_eq!((five.n, five.min, five.q1, five.max), (98, 0.0, None, 2_000_000.0));
        assert_eq!(five.q3, Some(2_000_000.0));
        assert!(summed.doubts(Unit::Nanos)[0].contains("they lie below 1 ms"));
    }

    #[test]
    fn more_received_than_sent_is_impossible_and_in_no_figure() {
        let mut trial = ImportedTrial::complete();
        MessageCounts::of(2, 3).enter(&mut trial);
        assert_eq!(trial.doubts, ["Impossible, and in no figure: 3 received of 2 sent."]);
        assert!(trial.record.metrics.is_empty() && trial.record.ledger.accounts().next().is_none());
    }

    #[test]
    fn sorted_and_coarse_numbers_are_told() {
        let sorted = summed((0..40).map(|i| (i / 4) * 1_000_000)).doubts(Unit::Nanos);
        assert!(sorted[0].contains("The order is lost"), "{sorted:?}");
        assert!(sorted[1].contains("10 distinct values among 40, in steps of 1 ms"), "{sorted:?}");
        assert!(summed([5, 3, 8, 1, 9, 2, 7, 4, 6, 10]).doubts(Unit::Nanos).is_empty());
        assert!(summed([7; 10]).doubts(Unit::Nanos).is_empty(), "equal numbers have no order");
    }
}

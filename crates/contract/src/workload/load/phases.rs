//! Phases of a trial: before, during and after the load, with the figures of the work in each.
//!
//! ```text
//! load     ............................|#################################|....................
//! phase    <------- before -------> gg | ggggggg <----- during -----> gg | ggggggg <- after ->
//! ```
//! A message belongs to the phase in which it was due. Near an edge of the load (`g`) it belongs to none: for
//! `load-lead` after the edge, in which the load finds its rate or the queue drains, and for a quarter of that before
//! it, so that no round trip that began in a phase ends in the next, and the delay of the signal to start or to stop
//! has no effect.

use std::collections::BTreeMap;

use crate::contract::{Direction, Side};
use crate::measurements::{
    Better, ClockNeed, Metric, MetricName, Percentile, Phase, Role, Suffix, Unit,
};
use deadheat_base::time::Nanos;
use deadheat_stats::quantile::{nearest_rank, quantile_sorted};

use super::super::TaskInfo;
use super::super::setting::{spoken, typed};
use super::{FOR, FROM, PHASE};

/// Part of the work's time for which a load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stint {
    /// Time from the beginning of the work to the beginning of the load.
    pub from: Nanos,
    /// Time for which the load then runs.
    pub lasts: Nanos,
}

impl Stint {
    /// Returns the time from the beginning of the work to the end of the load.
    pub fn end(&self) -> Nanos {
        self.from + self.lasts
    }
}

/// Way in which a work is observed over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Messages there and back, at the near end.
    RoundTrips,
    /// Messages one way at an even rate, on one clock, at their receiver.
    OneWay(Direction),
    /// Items of the work, at the end that reports them ([`super::super::Endpoint::items`]).
    Items(Items),
    /// Bytes at their receiver, for work without numbered messages.
    Bytes(Direction),
}

/// Kind of the items of a work: frames, events, requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items {
    /// End that reports them.
    pub side: Side,
    /// First part of the names of their times, and label of the times.
    pub names: [&'static str; 2],
    /// Time after which an item is too late, if there is one.
    pub deadline: Option<Nanos>,
}

/// An item, and its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Due time, on the clock of this host; `None` if unknown: then it is interpolated between its neighbours'.
    pub due: Option<Nanos>,
    /// Time from then until it was complete; `None` if it never was.
    pub took: Option<Nanos>,
    /// Bytes of it that arrived.
    pub bytes: u64,
}

impl Observed {
    /// Returns the first part of the names of its times, and their label; `None` if it has no times.
    pub(super) fn names(self) -> Option<[&'static str; 2]> {
        match self {
            Observed::RoundTrips => Some(["rtt", "RTT"]),
            Observed::OneWay(_) => Some(["delay", "delay"]),
            Observed::Items(items) => Some(items.names),
            Observed::Bytes(_) => None,
        }
    }

    /// Returns the label of its figure over time.
    pub fn label(self) -> &'static str {
        self.names().map_or("goodput", |[_, label]| label)
    }

    /// Returns the end that observes it.
    pub(super) fn side(self) -> Side {
        match self {
            Observed::RoundTrips => Side::Near,
            Observed::Items(items) => items.side,
            Observed::OneWay(Direction::Down) | Observed::Bytes(Direction::Down) => Side::Near,
            Observed::OneWay(Direction::Up) | Observed::Bytes(Direction::Up) => Side::Far,
        }
    }

    /// Returns the time after which an item is too late, if there is one.
    pub(super) fn deadline(self) -> Option<Nanos> {
        if let Observed::Items(items) = self { items.deadline } else { None }
    }
}

/// Phases of a work.
#[derive(Debug, Clone)]
pub(super) struct Phases {
    pub(super) stint: Stint,
    /// Time after an edge of the load in which a message is in no phase.
    pub(super) guard: Nanos,
    /// Phase for verdicts; `None` for the trial as a whole.
    pub(super) judged: Option<Phase>,
}

/// Percentiles of a phase.
pub(super) const PERCENTILES: [Percentile; 3] = [Percentile::P50, Percentile::P90, Percentile::P99];

/// Fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    /// Due time after the beginning of the work.
    pub(super) due: Nanos,
    /// Time from then to its arrival, in nanoseconds; [`LOST`] if it never arrived.
    pub(super) took: u64,
    /// Bytes of it that arrived.
    pub(super) bytes: u64,
}

/// Time of a lost message, longer than any other, so that lost messages are sorted last.
pub(super) const LOST: u64 = u64::MAX;

/// Facts of a work that figures of phases depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) observed: Observed,
    /// Duration of the work.
    pub(super) whole: Nanos,
    /// Time after which an answer counts as lost.
    pub(super) timeout: Nanos,
}

/// Share of round trips in the trimmed mean of [`per_minute`], and minimum number of them.
const KEPT: f64 = 0.95;
const FEWEST_KEPT: usize = 20;

/// Nanoseconds of a minute.
const MINUTE: f64 = 60e9;

impl Phases {
    /// Returns the time before an edge in which a message is in no phase.
    pub(super) fn ahead(&self) -> Nanos {
        Nanos(self.guard.0 / 4)
    }

    /// Returns the bounds of a phase in a work that lasts for `whole`.
    pub(super) fn span(&self, phase: Phase, whole: Nanos) -> (Nanos, Nanos) {
        let Stint { from, .. } = self.stint;
        match phase {
            Phase::Before => (Nanos::ZERO, from - self.ahead()),
            Phase::During => (from + self.guard, self.stint.end() - self.ahead()),
            Phase::After => (self.stint.end() + self.guard, whole),
        }
    }

    /// Returns the settings as options.
    pub(super) fn options(&self) -> [(String, String); 3] {
        let judged = self.judged.map_or("all", Phase::name).to_owned();
        [
            (FROM.name().to_owned(), typed(self.stint.from)),
            (FOR.name().to_owned(), typed(self.stint.lasts)),
            (PHASE.name().to_owned(), judged),
        ]
    }

    /// Returns the time of the load in words.
    pub(super) fn spoken(&self) -> String {
        format!("from {} on for {}", spoken(self.stint.from), spoken(self.stint.lasts))
    }

    /// Returns the figures of all phases. `fates` are in the order of due times.
    pub(super) fn figures(&self, facts: &Facts, fates: &[Fate]) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        for phase in Phase::ALL {
            let (from, to) = self.span(phase, facts.whole);
            let first = fates.partition_point(|fate| fate.due < from);
            let end = fates.partition_point(|fate| fate.due < to).max(first);
            if first < end {
                figures.extend(of_phase(phase, facts, &fates[first..end], to - from));
            }
        }
        figures
    }
}

/// Returns the figures of one phase, which lasts for `span`.
fn of_phase(phase: Phase, facts: &Facts, own: &[Fate], span: Nanos) -> Vec<(String, f64)> {
    let mut figures = Vec::new();
    let mut times: Vec<u64> = own.iter().map(|fate| fate.took).collect();
    times.sort_unstable();
    let is_there_and_back = facts.observed == Observed::RoundTrips;
    for percentile in PERCENTILES {
        let at = quantile_sorted(&times, percentile.per_mille() as f64 / 1000.0)
            .filter(|_| times.len() as u64 >= percentile.fewest());
        let value = match at {
            // The lower bound. Messages one way have no timeout, and then no figure.
            Some(LOST) if is_there_and_back => Some(facts.timeout.0),
            Some(LOST) | None => None,
            Some(took) => Some(took),
        };
        let name = percentile_name(facts.observed, percentile, phase);
        figures.extend(name.zip(value).map(|(name, ns)| (name, ns as f64)));
    }
    if is_there_and_back {
        figures.extend(per_minute(&times).map(|rpm| (probe_name(phase), rpm)));
    }
    let lost = times.iter().filter(|took| **took == LOST).count();
    let (longest, mean) = bursts(own);
    figures.push((loss_name(phase), lost as f64 / times.len() as f64));
    figures.push((burst_name("burst_max", phase), longest as f64));
    figures.extend(mean.map(|mean| (burst_name("burst_mean", phase), mean)));
    if let Some(deadline) = facts.observed.deadline() {
        let missed = times.iter().filter(|took| **took > deadline.0).count();
        // Adds half a missed item out of one more item, as for the whole trial, so that a phase without misses has a
        // ratio to others.
        figures.push((missed_name(phase), (missed as f64 + 0.5) / (times.len() as f64 + 1.0)));
    }
    let bits = own.iter().fold(0u64, |sum, fate| sum.saturating_add(fate.bytes.saturating_mul(8)));
    figures.push((goodput_name(phase), bits as f64 * 1e9 / span.0.max(1) as f64));
    figures
}

/// Returns the number of successive round trips per minute, from the mean up to the 95th percentile; `None` if that is
/// unknown, or lost. `times` are sorted.
///
/// Responsiveness under Working Conditions in draft-ietf-ippm-responsiveness is 60 000 divided by such a mean in
/// milliseconds, of the times to connect, to negotiate TLS and to answer on separate connections, and to answer on the
/// connections of the load. This figure is for a single probe on a connection of its own.
fn per_minute(times: &[u64]) -> Option<f64> {
    let rank = nearest_rank(times.len() as u64, KEPT)? as usize;
    let kept = times.get(..rank).filter(|_| times.len() >= FEWEST_KEPT)?;
    let sum: u128 = kept.iter().map(|took| u128::from(*took)).sum();
    (kept.last() != Some(&LOST) && sum > 0).then(|| MINUTE * rank as f64 / sum as f64)
}

/// Returns the longest run of messages lost one after the other, and the mean length of such runs if there are any
/// (loss periods, RFC 3357, section 4).
fn bursts(fates: &[Fate]) -> (u64, Option<f64>) {
    let (mut runs, mut lost, mut longest) = (0u64, 0u64, 0);
    for run in fates.chunk_by(|a, b| (a.took == LOST) == (b.took == LOST)) {
        if run[0].took == LOST {
            runs += 1;
            lost += run.len() as u64;
            longest = longest.max(run.len() as u64);
        }
    }
    (longest, (runs > 0).then(|| lost as f64 / runs as f64))
}

/// Name of the figure of losses during the load less losses before it.
pub(super) const INDUCED: &str = "loss_induced_share";

/// Name of the ratio of the work's goodput during the load to its goodput before.
pub(super) const GOODPUT_RATIO: &str = "goodput_under_load_ratio";

pub(super) fn ratio_name(observed: Observed) -> Option<String> {
    let [name, _] = observed.names()?;
    Some(MetricName::new(name, Suffix::UnderLoadRatio).at(Percentile::P50).to_string())
}

pub(super) fn percentile_name(
    observed: Observed,
    percentile: Percentile,
    phase: Phase,
) -> Option<String> {
    let [name, _] = observed.names()?;
    Some(MetricName::new(name, Suffix::Nanos).at(percentile).in_phase(phase).to_string())
}

fn of_a_phase(quantity: &str, suffix: Suffix, phase: Phase) -> String {
    MetricName::new(quantity, suffix).in_phase(phase).to_string()
}

pub(super) fn missed_name(phase: Phase) -> String {
    of_a_phase("missed", Suffix::Share, phase)
}

pub(super) fn goodput_name(phase: Phase) -> String {
    of_a_phase("goodput", Suffix::BitRate, phase)
}

/// Quantity of the losses in a phase.
const LOSS: &str = "loss";
/// Quantities of runs of losses in a phase, with their labels.
const BURSTS: [(&str, &str); 2] = [("burst_max", "longest"), ("burst_mean", "mean")];

pub(super) fn loss_name(phase: Phase) -> String {
    of_a_phase(LOSS, Suffix::Share, phase)
}

fn burst_name(quantity: &str, phase: Phase) -> String {
    of_a_phase(quantity, Suffix::Count, phase)
}

fn probe_name(phase: Phase) -> String {
    of_a_phase("probe", Suffix::PerMinute, phase)
}

/// Returns true if a figure is about gaps in the numbers of messages.
pub(super) fn counts_gaps(name: &str) -> bool {
    let quantity = MetricName::parse(name).quantity;
    quantity == LOSS || BURSTS.iter().any(|(burst, _)| *burst == quantity)
}

pub(super) fn descriptive(name: String, label: String, unit: Unit, better: Better) -> Metric {
    Metric { name, label, unit, better, role: Role::Descriptive, clock: ClockNeed::None }
}

/// Returns the clock that a figure of a phase needs: it is the clock of the work's times.
pub(super) fn clock_of(metric: &Metric, observed: Observed, work: &TaskInfo) -> ClockNeed {
    let is_of_times = metric.unit != Unit::BitRate
        && !counts_gaps(&metric.name)
        && metric.name != INDUCED
        && observed != Observed::RoundTrips;
    let compares = matches!(observed, Observed::OneWay(_))
        || work.metrics.iter().any(|metric| metric.clock != ClockNeed::None);
    if is_of_times && compares { ClockNeed::Offset } else { ClockNeed::None }
}

/// Returns the metrics of all phases.
pub(super) fn metrics(observed: Observed) -> Vec<Metric> {
    let lower = |name: String, label: String, unit| descriptive(name, label, unit, Better::Lower);
    let higher = |name: String, label: String, unit| descriptive(name, label, unit, Better::Higher);
    let mut metrics = Vec::new();
    for phase in Phase::ALL {
        let when = format!("{} the load", phase.name());
        if let Some([_, times]) = observed.names() {
            for percentile in PERCENTILES {
                let called = percentile_name(observed, percentile, phase).unwrap_or_default();
                let label = format!("{times} {} {when}", percentile.label());
                metrics.push(lower(called, label, Unit::Nanos));
            }
            metrics.extend(of_losses(phase));
        }
        if observed == Observed::RoundTrips {
            let label = format!("probe round trips per minute {when}");
            metrics.push(higher(probe_name(phase), label, Unit::Count));
        }
        if observed.deadline().is_some() {
            metrics.push(lower(missed_name(phase), format!("not in time {when}"), Unit::Share));
        }
        let label = format!("goodput of the work {when}");
        metrics.push(higher(goodput_name(phase), label, Unit::BitRate));
    }
    match (observed.names(), ratio_name(observed)) {
        (Some([_, times]), Some(ratio)) => {
            let label = format!("{times} p50 during the load over that before");
            metrics.push(lower(ratio, label, Unit::Count));
            metrics.push(lower(INDUCED.to_owned(), "induced loss".to_owned(), Unit::Share));
        }
        _ => {
            let label = "goodput during the load over that before".to_owned();
            metrics.push(higher(GOODPUT_RATIO.to_owned(), label, Unit::Count));
        }
    }
    metrics
}

/// Returns the metrics of the losses in a phase.
fn of_losses(phase: Phase) -> [Metric; 3] {
    let when = format!("{} the load", phase.name());
    let lower = |name: String, label: String, unit| descriptive(name, label, unit, Better::Lower);
    let [longest, mean] = BURSTS.map(|(quantity, label)| {
        let label = format!("{label} burst of losses {when}");
        lower(burst_name(quantity, phase), label, Unit::Count)
    });
    [lower(loss_name(phase), format!("lost {when}"), Unit::Share), longest, mean]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn phases() -> Phases {
        let stint = Stint { from: Nanos(1000 * MS), lasts: Nanos(2000 * MS) };
        Phases { stint, guard: Nanos(100 * MS), judged: Some(Phase::During) }
    }

    fn facts(observed: Observed) -> Facts {
        let (whole, timeout) = (Nanos(4000 * MS), Nanos(3000 * MS));
        Facts { observed, whole, timeout }
    }

    /// A message every 10 ms for four seconds, each of which takes what `took` says of its time in ms.
    fn fates(took: impl Fn(u64) -> u64) -> Vec<Fate> {
        let fate = |ms| {
            let took = took(ms);
            Fate { due: Nanos(ms * MS), took, bytes: if took == LOST { 0 } else { 100 } }
        };
        (0..400).map(|n| fate(n * 10)).collect()
    }

    #[test]
    fn messages_near_an_edge_are_in_no_phase() {
        // Bad are those and only those that are between the phases.
        let bad = |ms| (975..1100).contains(&ms) || (2975..3100).contains(&ms);
        let all = fates(|ms| if bad(ms) { LOST } else { 5 * MS });
        let figures = phases().figures(&facts(Observed::RoundTrips), &all);
        for phase in ["before", "during", "after"] {
            assert_eq!(figures[&format!("loss_{phase}_share")], 0.0, "{phase}");
            assert_eq!(figures[&format!("rtt_p50_{phase}_ns")], 5e6);
            assert_eq!(figures[&format!("probe_{phase}_rpm")], 12_000.0);
            assert!(!figures.contains_key(&format!("burst_mean_{phase}_count")));
        }
        // 98 messages of 975 ms, and 188 of 1875.
        assert_eq!(figures["goodput_before_bps"], 98.0 * 800.0 / 0.975);
        assert_eq!(figures["goodput_during_bps"], 188.0 * 800.0 / 1.875);
    }

    #[test]
    fn bursts_are_runs_of_losses_within_a_phase() {
        let lost = [1200, 1210, 1220, 1500, 2960, 2970];
        let all = fates(|ms| if lost.contains(&ms) { LOST } else { ms * 1000 });
        let figures = phases().figures(&facts(Observed::OneWay(Direction::Up)), &all);
        assert_eq!(figures["burst_max_during_count"], 3.0);
        assert_eq!(figures["burst_mean_during_count"], 2.0);
        assert_eq!(figures["loss_during_share"], 6.0 / 188.0);
        assert_eq!(figures["burst_max_before_count"], 0.0);
        assert!(!figures.keys().any(|name| name.ends_with("_rpm")));
    }

    #[test]
    fn a_quantile_among_the_lost_is_the_timeout_there_and_back_and_nothing_one_way() {
        let all = fates(|ms| if ms % 20 == 0 { LOST } else { MS });
        let there_and_back = phases().figures(&facts(Observed::RoundTrips), &all);
        assert_eq!(there_and_back["rtt_p90_during_ns"], 3e9);
        assert!(!there_and_back.contains_key("probe_during_rpm"));
        let one_way = phases().figures(&facts(Observed::OneWay(Direction::Up)), &all);
        assert!(!one_way.contains_key("delay_p90_during_ns"));
        assert_eq!(one_way["burst_max_during_count"], 1.0);
    }

    #[test]
    fn round_trips_a_minute_are_of_the_shorter_nineteen_twentieths() {
        let mut times = vec![20 * MS; 95];
        times.extend([LOST; 5]);
        assert_eq!(per_minute(&times), Some(3000.0));
        times.extend([LOST; 10]);
        assert_eq!(per_minute(&times), None);
        assert_eq!(per_minute(&times[..19]), None);
    }

    #[test]
    fn an_item_that_is_late_or_lost_is_not_in_time() {
        let items = Items {
            side: Side::Far,
            names: ["latency", "latency"],
            deadline: Some(Nanos(50 * MS)),
        };
        // Of 188 during the load, three are late and one is lost.
        let late = [1200, 1500, 1700];
        let all = fates(|ms| {
            if ms == 2000 {
                LOST
            } else if late.contains(&ms) {
                51 * MS
            } else {
                50 * MS
            }
        });
        let figures = phases().figures(&facts(Observed::Items(items)), &all);
        assert_eq!(figures["missed_during_share"], 4.5 / 189.0);
        assert_eq!(figures["missed_after_share"], 0.5 / 91.0);
        assert_eq!(figures["latency_p50_during_ns"], 50e6);
        assert_eq!(figures["loss_during_share"], 1.0 / 188.0);
    }

    #[test]
    fn every_figure_has_its_metric() {
        let names = ["latency", "latency"];
        let items = Items { side: Side::Far, names, deadline: Some(Nanos(MS)) };
        let all = [Observed::RoundTrips, Observed::OneWay(Direction::Down), Observed::Items(items)];
        for observed in all {
            let lost = fates(|ms| if ms % 100 == 0 { LOST } else { MS });
            let known: Vec<String> = metrics(observed).into_iter().map(|m| m.name).collect();
            let figures = phases().figures(&facts(observed), &lost);
            assert!(figures.len() >= 15);
            assert!(figures.keys().all(|name| known.contains(name)), "{figures:?}");
        }
    }
}

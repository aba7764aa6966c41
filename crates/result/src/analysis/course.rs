//! Course of the work over time, before, during and after a load: for each contender the median over trials in each
//! stretch of time, with quartiles. Pure and descriptive, without claims.

use crate::analysis::spread::{five_numbers, valid_trials};
use crate::outcome::{Entrant, Outcome, Trial};
use deadheat_contract::measurements::series::{RoundTrips, Series, rate_bps};
use deadheat_contract::workload;
use deadheat_contract::workload::load::{Stint, stint_of};

/// Maximum number of stretches that a drawing can show.
const MOST_STRETCHES: u64 = 100;

/// Quantity that describes the work over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Mean round trip.
    RoundTrip,
    /// Mean time of messages one way, or of items.
    Delay,
    /// Goodput of the work.
    Goodput,
}

/// Values of all trials of a contender in one stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Lower quartile.
    pub low: f64,
    /// Median.
    pub middle: f64,
    /// Upper quartile.
    pub high: f64,
}

/// Values by stretch; `None` if no trial has one.
pub type Bands = Vec<Option<Band>>;

/// Course of one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The contender.
    pub contender: usize,
    /// The work, in the unit of the quantity.
    pub work: Bands,
    /// Share of the work's messages that are missing.
    pub lost: Bands,
    /// Goodput of the load, in bits per second.
    pub load: Bands,
    /// Retransmitted segments of the load, per second.
    pub again: Bands,
}

/// Courses of contenders that ran under the same conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Courses {
    /// Part of the work's time for which the load ran.
    pub stint: Stint,
    /// Length of each stretch, in nanoseconds.
    pub step_ns: u64,
    /// Figure that describes the work.
    pub quantity: Quantity,
    /// Name of this quantity.
    pub label: &'static str,
    /// Courses, one for each contender with valid trials.
    pub lines: Vec<Course>,
}

/// Stretches of time from the start of the work.
#[derive(Debug, Clone, Copy)]
struct StretchGrid {
    step_ns: u64,
    stretches: usize,
}

impl StretchGrid {
    /// Creates stretches as long as the longest interval of any series; shorter stretches would show detail that
    /// was not measured.
    fn of(trials: &[&Trial]) -> Option<StretchGrid> {
        let work = || trials.iter().flat_map(|trial| ends(trial));
        let load = trials.iter().flat_map(|trial| trial.record.load_series());
        let end = work().filter_map(|series| series.at_ns.last()).max().copied()?;
        let interval = work().chain(load).map(|series| series.interval_ns).max()?.max(1);
        let step_ns = interval * end.div_ceil(interval).div_ceil(MOST_STRETCHES).max(1);
        // Leave out a last stretch of less than half the length; it holds too little data.
        let stretches = (end.saturating_add(step_ns / 2) / step_ns) as usize;
        (stretches > 1).then_some(StretchGrid { step_ns, stretches })
    }

    fn at(&self, stretch: usize) -> u64 {
        self.step_ns * stretch as u64
    }

    /// Returns the stretch that contains the middle of the interval.
    fn of_interval(&self, from_ns: u64, to_ns: u64) -> usize {
        let middle = from_ns / 2 + to_ns / 2;
        ((middle / self.step_ns) as usize).min(self.stretches - 1)
    }
}

fn ends(trial: &Trial) -> impl Iterator<Item = &Series> {
    trial.record.intervals.iter().chain(&trial.record.far_intervals)
}

/// Returns the courses of contenders that have a load in the middle of their work, grouped by conditions; empty if
/// trials have no series.
pub fn courses(outcome: &Outcome) -> Vec<Courses> {
    let mut groups: Vec<Vec<&Entrant>> = Vec::new();
    for entrant in &outcome.contenders {
        match groups.iter_mut().find(|group| group[0].meets(entrant)) {
            Some(group) => group.push(entrant),
            None => groups.push(vec![entrant]),
        }
    }
    groups.iter().filter_map(|group| together(outcome, group)).collect()
}

fn together(outcome: &Outcome, group: &[&Entrant]) -> Option<Courses> {
    let cell = group[0].cell.as_ref().map(|cell| &cell.workload);
    let typed = cell.unwrap_or(&outcome.asked.workload);
    let (stint, label) = (stint_of(typed)?, workload::parse(typed).ok()?.info().observed?.label());
    let of = |id: usize| valid_trials(outcome, id).collect::<Vec<&Trial>>();
    let by_contender: Vec<(usize, Vec<&Trial>)> =
        group.iter().map(|entrant| (entrant.id, of(entrant.id))).collect();
    let all: Vec<&Trial> = by_contender.iter().flat_map(|(_, trials)| trials).copied().collect();
    let grid = StretchGrid::of(&all)?;
    let has = |n: fn(&Series) -> &Vec<u64>| {
        all.iter().flat_map(|trial| ends(trial)).any(|series| !n(series).is_empty())
    };
    let quantity = match (has(|series| &series.rtt_n), has(|series| &series.delay_n)) {
        (true, _) => Quantity::RoundTrip,
        (_, true) => Quantity::Delay,
        _ => Quantity::Goodput,
    };
    let line = |(contender, trials): (usize, Vec<&Trial>)| Course {
        contender,
        work: bands(&trials, grid, |trial| work(trial, quantity, grid)),
        lost: bands(&trials, grid, |trial| lost(trial, grid)),
        load: bands(&trials, grid, |trial| load(trial, stint, grid)),
        again: bands(&trials, grid, |trial| again(trial, stint, grid)),
    };
    let lines: Vec<Course> = by_contender.into_iter().map(line).collect();
    let lines: Vec<Course> =
        lines.into_iter().filter(|line| line.work.iter().any(Option::is_some)).collect();
    (!lines.is_empty()).then_some(Courses { stint, step_ns: grid.step_ns, quantity, label, lines })
}

/// Returns the quartiles over trials of the values that `of` gives for each stretch.
fn bands(trials: &[&Trial], grid: StretchGrid, of: impl Fn(&Trial) -> Vec<Option<f64>>) -> Bands {
    let all: Vec<Vec<Option<f64>>> = trials.iter().map(|trial| of(trial)).collect();
    let band = |stretch: usize| {
        let mut values: Vec<f64> = all.iter().filter_map(|trial| *trial.get(stretch)?).collect();
        let five = five_numbers(&mut values)?;
        Some(Band { low: five.q1, middle: five.median, high: five.q3 })
    };
    (0..grid.stretches).map(band).collect()
}

fn work(trial: &Trial, quantity: Quantity, grid: StretchGrid) -> Vec<Option<f64>> {
    let times: fn(&Series) -> Vec<RoundTrips> = match quantity {
        Quantity::RoundTrip => Series::rtts,
        Quantity::Delay => Series::delays,
        Quantity::Goodput => {
            let all: Vec<&Series> = ends(trial).collect();
            return goodput(&all, 0, grid);
        }
    };
    let mut sums = vec![RoundTrips::default(); grid.stretches];
    for series in ends(trial) {
        for (interval, times) in series.intervals().zip(times(series)) {
            sums[grid.of_interval(interval.from_ns, interval.to_ns)].merge(&times);
        }
    }
    sums.iter().map(|times| times.mean_ns().map(|ns| ns as f64)).collect()
}

fn lost(trial: &Trial, grid: StretchGrid) -> Vec<Option<f64>> {
    let mut sums = vec![(0u64, 0u64); grid.stretches];
    for interval in ends(trial).flat_map(Series::intervals) {
        let (Some(lost), Some(received)) = (interval.lost_messages, interval.received_messages)
        else {
            continue;
        };
        let sum = &mut sums[grid.of_interval(interval.from_ns, interval.to_ns)];
        *sum = (sum.0.saturating_add(lost), sum.1.saturating_add(received));
    }
    let share = |(lost, received): &(u64, u64)| {
        let all = lost.saturating_add(*received);
        (all > 0).then(|| *lost as f64 / all as f64)
    };
    sums.iter().map(share).collect()
}

fn load(trial: &Trial, stint: Stint, grid: StretchGrid) -> Vec<Option<f64>> {
    let all: Vec<&Series> = trial.record.load_series().collect();
    goodput(&all, stint.from.0, grid)
}

/// Returns the goodput of flows that began at `began_ns`, for each stretch if they cover its middle.
fn goodput(flows: &[&Series], began_ns: u64, grid: StretchGrid) -> Vec<Option<f64>> {
    let end = flows.iter().filter_map(|flow| flow.at_ns.last()).max().copied().unwrap_or(0);
    let total = |at_ns: u64| {
        let at = at_ns.saturating_sub(began_ns);
        flows.iter().map(|flow| flow.received_by(at)).sum::<f64>()
    };
    let value = |stretch: usize| {
        let (from, to) = (grid.at(stretch), grid.at(stretch + 1));
        let middle = from + grid.step_ns / 2;
        if !(began_ns..began_ns.saturating_add(end)).contains(&middle) {
            return None;
        }
        let (first, last) = (from.max(began_ns), to.min(began_ns.saturating_add(end)));
        rate_bps(total(to) - total(from), last - first)
    };
    (0..grid.stretches).map(value).collect()
}

/// Returns the retransmitted segments of the load's senders, per second.
fn again(trial: &Trial, stint: Stint, grid: StretchGrid) -> Vec<Option<f64>> {
    let mut sums = vec![None; grid.stretches];
    for series in trial.record.load_series() {
        let Some(tcp) = &series.tcp else { continue };
        let mut before = 0;
        for (interval, count) in series.intervals().zip(&tcp.retransmits) {
            let Some(count) = *count else { continue };
            let at = |ns: u64| ns.saturating_add(stint.from.0);
            let stretch = grid.of_interval(at(interval.from_ns), at(interval.to_ns));
            let sum: &mut Option<f64> = &mut sums[stretch];
            *sum = Some(sum.unwrap_or(0.0) + count.saturating_sub(before) as f64);
            before = count;
        }
    }
    let seconds = grid.step_ns as f64 / 1e9;
    sums.into_iter().map(|sum| sum.map(|segments| segments / seconds)).collect()
}

//! Highs and lows of a race over hours or days: each contender's best and worst trial with their times, medians by
//! hour of the day and by day, and periods without answers. Pure and descriptive, without claims: the worst of a
//! thousand trials is always bad.

use std::collections::BTreeMap;

use crate::outcome::{Outcome, Trial};
use deadheat_contract::measurements::{Better, Metric, name};
use deadheat_stats::quantile::median;

/// Minimum duration of a race with highs and lows, unless its blocks had start times.
const SHORTEST_MS: u64 = 3_600_000;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Minimum ratio of a pause between two blocks to the usual pause for it to be reported.
const PAUSE: u64 = 3;

/// Extremes and daily patterns in the course of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Highs<'a> {
    /// Metric that ranks trials: the first compared one.
    pub metric: &'a Metric,
    /// Extremes, one entry for each contender with a valid trial.
    pub extremes: Vec<Extremes>,
    /// Medians by hour of the day (UTC), from 0; empty if all trials began in the same hour of the day.
    pub hours: Vec<Spell>,
    /// Medians by day since 1970-01-01 (UTC); empty if all trials began on one day.
    pub days: Vec<Spell>,
    /// Longest pause between two blocks, if it is unusual.
    pub pause: Option<Gap>,
}

/// The extremes of one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Extremes {
    /// Id of the contender.
    pub contender: usize,
    /// Best trial.
    pub best: TimedFigure,
    /// Worst trial.
    pub worst: TimedFigure,
    /// Trial with the largest share lost; absent if no trial lost any message.
    pub most_lost: Option<TimedFigure>,
    /// Longest period of trials without any answer; absent if every trial had one.
    pub outage: Option<Gap>,
}

/// Figure of a trial, and the start time of the trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedFigure {
    /// The figure, in its metric's unit.
    pub value: f64,
    /// Start time of the trial, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Gap in time, without answers or without blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Start of the gap: the start of the last trial before it, in milliseconds since 1970.
    pub from_ms: u64,
    /// End of the gap: the start of the first trial after it, or of the last of the race.
    pub to_ms: u64,
}

impl Gap {
    /// Returns the length of the gap, in milliseconds.
    pub fn ms(&self) -> u64 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// Period: the same hour of all days, or one day.
#[derive(Debug, Clone, PartialEq)]
pub struct Spell {
    /// Number of the hour or day.
    pub number: u64,
    /// Median of each contender, in the order of `extremes`.
    pub medians: Vec<Option<f64>>,
    /// Number of trials in the period.
    pub trials: u64,
}

/// Returns the extremes and patterns of a race that lasted long enough.
pub fn highs(outcome: &Outcome) -> Option<Highs<'_>> {
    let metric = outcome.metrics.first()?;
    let times = || outcome.trials.iter().map(|trial| trial.record.started_ms);
    let (first, last) = (times().min()?, times().max()?);
    if last - first < SHORTEST_MS && outcome.asked.every_ns.is_none() {
        return None;
    }
    let extremes: Vec<Extremes> =
        outcome.contenders.iter().filter_map(|one| extremes(outcome, metric, one.id)).collect();
    let spells = |number: fn(u64) -> u64| {
        let spells = spells(outcome, metric, &extremes, number);
        if spells.len() > 1 { spells } else { Vec::new() }
    };
    let (hours, days) = (spells(|ms| ms % DAY_MS / HOUR_MS), spells(|ms| ms / DAY_MS));
    (!extremes.is_empty()).then(|| Highs { metric, hours, days, pause: pause(outcome), extremes })
}

/// Returns a contender's own trials, without its copy's, in the order run.
fn own(outcome: &Outcome, contender: usize) -> impl Iterator<Item = &Trial> {
    outcome.trials.iter().filter(move |trial| trial.contender == contender && !trial.control)
}

fn moment(trial: &Trial, metric: &str) -> Option<TimedFigure> {
    let value = trial.record.metrics.get(metric).copied().filter(|value| value.is_finite())?;
    trial.record.valid.then_some(TimedFigure { value, at_ms: trial.record.started_ms })
}

fn extremes(outcome: &Outcome, metric: &Metric, contender: usize) -> Option<Extremes> {
    let moments = || own(outcome, contender).filter_map(|trial| moment(trial, &metric.name));
    let least = moments().min_by(|a, b| a.value.total_cmp(&b.value))?;
    let most = moments().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let (best, worst) = match metric.better {
        Better::Lower => (least, most),
        Better::Higher => (most, least),
    };
    let lost = own(outcome, contender).filter_map(lost);
    let most_lost = lost.max_by(|a, b| a.value.total_cmp(&b.value));
    Some(Extremes {
        contender,
        best,
        worst,
        most_lost: most_lost.filter(|moment| moment.value > 0.0),
        outage: outage(outcome, contender),
    })
}

/// Returns the share of its messages that a trial lost.
fn lost(trial: &Trial) -> Option<TimedFigure> {
    moment(trial, name::LOST)
}

/// Returns the longest time between two trials with answers that has at least one trial without answers in between;
/// it extends to the end of the race if no such trial follows.
fn outage(outcome: &Outcome, contender: usize) -> Option<Gap> {
    let mut longest: Option<Gap> = None;
    let (mut from, mut is_down) = (None, false);
    let mut end = |from_ms: u64, to_ms: u64| {
        let gap = Gap { from_ms, to_ms };
        if longest.is_none_or(|longest| gap.ms() > longest.ms()) {
            longest = Some(gap);
        }
    };
    let mut last = None;
    for trial in own(outcome, contender).filter(|trial| trial.record.valid) {
        let at = trial.record.started_ms;
        let from_ms = *from.get_or_insert(at);
        let nothing = lost(trial).is_some_and(|lost| lost.value >= 1.0);
        if !nothing {
            if is_down {
                end(from_ms, at);
            }
            from = Some(at);
        }
        is_down = nothing;
        last = Some(at);
    }
    if let (true, Some(from_ms), Some(to_ms)) = (is_down, from, last) {
        end(from_ms, to_ms);
    }
    longest
}

/// Returns medians over periods of time; `number` assigns a trial to its period.
fn spells(
    outcome: &Outcome,
    metric: &Metric,
    extremes: &[Extremes],
    number: fn(u64) -> u64,
) -> Vec<Spell> {
    let mut parts: BTreeMap<u64, Vec<Vec<f64>>> = BTreeMap::new();
    for (column, one) in extremes.iter().enumerate() {
        for moment in own(outcome, one.contender).filter_map(|t| moment(t, &metric.name)) {
            let part = parts.entry(number(moment.at_ms));
            let part = part.or_insert_with(|| vec![Vec::new(); extremes.len()]);
            part[column].push(moment.value);
        }
    }
    let spell = |(number, columns): (u64, Vec<Vec<f64>>)| Spell {
        number,
        trials: columns.iter().map(|column| column.len() as u64).sum(),
        medians: columns.iter().map(|column| median(column)).collect(),
    };
    parts.into_iter().map(spell).collect()
}

/// Returns the longest time between the starts of two blocks, if it is much longer than the usual one.
fn pause(outcome: &Outcome) -> Option<Gap> {
    let mut starts: BTreeMap<u64, u64> = BTreeMap::new();
    for trial in &outcome.trials {
        let start = starts.entry(trial.block).or_insert(u64::MAX);
        *start = (*start).min(trial.record.started_ms);
    }
    let starts: Vec<u64> = starts.into_values().collect();
    let gaps: Vec<Gap> =
        starts.windows(2).map(|two| Gap { from_ms: two[0], to_ms: two[1] }).collect();
    let usual = median(&gaps.iter().map(|gap| gap.ms() as f64).collect::<Vec<f64>>())?;
    let longest = gaps.into_iter().max_by_key(Gap::ms)?;
    (longest.ms() as f64 > usual * PAUSE as f64).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use deadheat_contract::measurements::Metrics;

    const MINUTE: u64 = 60_000;
    /// 2026-01-01T00:00:00Z.
    const DAY: u64 = 20_454 * DAY_MS;

    /// Returns a race of tcp and udp: a trial each at these minutes, with round trips and a share lost.
    fn outcome(figures: &[(u64, [f64; 2], f64)]) -> Outcome {
        let mut outcome = testing::outcome(2);
        for (block, (minute, rtt, lost)) in figures.iter().enumerate() {
            for (contender, rtt) in rtt.iter().enumerate() {
                let name = outcome.metrics[0].name.clone();
                let lost = if contender == 1 { *lost } else { 0.0 };
                let metrics = Metrics::from([(name, *rtt), ("loss_share".into(), lost)]);
                let mut record = testing::record(metrics);
                record.started_ms = DAY + minute * MINUTE;
                outcome.trials.push(Trial {
                    block: block as u64,
                    order: contender as u64,
                    contender,
                    control: false,
                    record,
                });
            }
        }
        outcome
    }

    #[test]
    fn a_short_race_has_none_unless_its_blocks_had_their_times() {
        let mut outcome = outcome(&[(0, [5.0, 5.0], 0.0), (59, [5.0, 5.0], 0.0)]);
        assert_eq!(highs(&outcome), None);
        outcome.asked.every_ns = Some(1);
        assert!(highs(&outcome).is_some());
        outcome.trials.clear();
        assert_eq!(highs(&outcome), None);
    }

    #[test]
    fn the_best_and_the_worst_are_found_with_their_times() {
        let outcome = outcome(&[
            (0, [5.0, 6.0], 0.0),
            (30, [3.0, 9.0], 0.01),
            (60, [8.0, 4.0], 0.2),
            (90, [7.0, 5.0], 0.1),
        ]);
        let seen = highs(&outcome).unwrap();
        let at = |value, minute| TimedFigure { value, at_ms: DAY + minute * MINUTE };
        let [tcp, udp] = &seen.extremes[..] else { panic!("{seen:?}") };
        assert_eq!((tcp.best, tcp.worst), (at(3.0, 30), at(8.0, 60)));
        assert_eq!((tcp.most_lost, tcp.outage), (None, None));
        assert_eq!((udp.best, udp.worst), (at(4.0, 60), at(9.0, 30)));
        assert_eq!((udp.most_lost, udp.outage), (Some(at(0.2, 60)), None));
        let hours: Vec<_> = seen.hours.iter().map(|s| (s.number, s.medians.clone())).collect();
        assert_eq!(hours[0], (0, vec![Some(4.0), Some(7.5)]));
        assert_eq!(hours[1], (1, vec![Some(7.5), Some(4.5)]));
        assert!(seen.days.is_empty() && seen.pause.is_none());
    }

    #[test]
    fn hours_of_all_days_are_together_and_days_apart() {
        let day = 24 * 60;
        let outcome = outcome(&[
            (0, [1.0, 1.0], 0.0),
            (60, [2.0, 2.0], 0.0),
            (day, [3.0, 3.0], 0.0),
            (day + 60, [4.0, 4.0], 0.0),
        ]);
        let seen = highs(&outcome).unwrap();
        assert_eq!(seen.hours.iter().map(|s| s.number).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(seen.hours[0].medians[0], Some(2.0));
        assert_eq!(seen.days.iter().map(|s| s.number).collect::<Vec<_>>(), [20_454, 20_455]);
        assert_eq!((seen.days[1].medians[1], seen.days[1].trials), (Some(3.5), 4));
        let pause = seen.pause.unwrap();
        assert_eq!((pause.from_ms, pause.to_ms), (DAY + 60 * MINUTE, DAY + day * MINUTE));
    }

    #[test]
    fn an_outage_lasts_from_the_last_good_trial_to_the_next() {
        let lost = |minute, lost| (minute, [5.0, 5.0], lost);
        let outcome = outcome(&[
            lost(0, 0.0),
            lost(10, 1.0),
            lost(20, 0.0),
            lost(30, 1.0),
            lost(40, 1.0),
            lost(50, 0.5),
            lost(60, 1.0),
        ]);
        let outage = highs(&outcome).unwrap().extremes[1].outage.unwrap();
        assert_eq!((outage.from_ms, outage.to_ms), (DAY + 20 * MINUTE, DAY + 50 * MINUTE));
    }

    #[test]
    fn trials_that_do_not_count_are_no_extremes() {
        let mut outcome = outcome(&[(0, [5.0, 5.0], 0.0), (90, [9.0, 9.0], 0.0)]);
        for trial in &mut outcome.trials {
            trial.record.valid = trial.block == 0;
        }
        let seen = highs(&outcome).unwrap();
        assert_eq!(seen.extremes[0].worst.value, 5.0);
    }
}

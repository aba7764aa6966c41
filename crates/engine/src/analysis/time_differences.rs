//! Claims on differences in time: of figures that the offset between two hosts' clocks enters, and where the user gave the
//! margin as a time.
//!
//! All contenders of a block are on one line for the far clock, so the offset and its error are the same for all of them,
//! and cancel in a difference. They do not in a ratio.

use crate::measurements::{ClockNeed, Metric, Unit};
use crate::result::outcome::{Outcome, Summary};

/// Terms of a claim on differences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DifferenceTerms {
    /// Margin in nanoseconds.
    pub(crate) margin_ns: f64,
    /// Bound on the clocks' part in each figure, in nanoseconds; `None` if both ends have one clock.
    pub(crate) clock_bound_ns: Option<u64>,
}

/// Returns the terms of a claim on differences; `None` if the claim is on ratios.
pub(crate) fn terms(outcome: &Outcome, metric: &Metric) -> Option<DifferenceTerms> {
    if metric.unit != Unit::Nanos {
        return None;
    }
    let clock_bound_ns = clock_bound(outcome, metric, None);
    let asked = outcome.asked.margin_ns.map(|margin| margin as f64);
    let of_scale = || Some(outcome.plan.margin * scale(outcome, metric)?);
    let margin_ns = match (asked, clock_bound_ns) {
        (Some(margin), _) => margin,
        (None, Some(_)) => of_scale()?,
        (None, None) => return None,
    };
    Some(DifferenceTerms { margin_ns, clock_bound_ns })
}

/// Returns the greatest clock bound of the valid trials, of one contender or of all, if the offset between two clocks is
/// part of this metric.
pub fn clock_bound(outcome: &Outcome, metric: &Metric, contender: Option<usize>) -> Option<u64> {
    if metric.clock != ClockNeed::Offset {
        return None;
    }
    let counts = |id: usize| contender.is_none_or(|contender| contender == id);
    let trials = outcome.trials.iter().filter(|one| one.record.valid && counts(one.contender));
    trials.filter_map(|trial| trial.record.clock.as_ref()).map(|clock| clock.error_bound_ns).max()
}

/// Returns the time that the margin is a share of: the path's round trip, which is the least of the echoes of the first
/// block, or the least figure of that block without the part that the clocks may have in it, whichever is longer. So the
/// margin does not change as a race goes on, and on a short path it is that of a race on one clock.
fn scale(outcome: &Outcome, metric: &Metric) -> Option<f64> {
    let first = outcome.trials.iter().map(|trial| trial.block).min()?;
    let trials = || outcome.trials.iter().filter(|trial| trial.block == first);
    let clocks = || trials().filter_map(|trial| Some((trial, trial.record.clock.as_ref()?)));
    let round_trip = clocks().filter_map(|(_, clock)| clock.round_trip_ns).min()? as f64;
    let sure = clocks().filter_map(|(trial, clock)| {
        Some(trial.record.metrics.get(&metric.name)? - clock.error_bound_ns as f64)
    });
    let sure = sure.reduce(f64::min).unwrap_or(0.0);
    Some(round_trip.max(sure)).filter(|scale| *scale > 0.0)
}

/// Returns the largest logarithm by which two hosts' clocks may put a figure off; infinite if all of it may be theirs.
pub(crate) fn clock_slack(summary: &Summary) -> f64 {
    let share = summary.clock_bound_ns.map_or(0.0, |bound| bound as f64 / summary.estimate);
    if share < 1.0 { -(-share).ln_1p() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::verdicts::{DecisionStage, refresh};
    use crate::measurements::ClockEstimate;
    use crate::race::testing;
    use crate::result::outcome::{Trial, Verdict};
    use crate::stats::Outcome as Ruled;
    use crate::trial::Record;

    const MS: f64 = 1e6;

    /// Returns the verdict of a race between two hosts with these figures of two contenders, in milliseconds and by block,
    /// on clocks that are known to `bound_ms`.
    fn verdict(a: &[f64], b: &[f64], bound_ms: f64, change: impl FnOnce(&mut Outcome)) -> Verdict {
        let mut outcome = testing::outcome(2);
        outcome.metrics[0].clock = ClockNeed::Offset;
        let name = outcome.metrics[0].name.clone();
        for (contender, column) in [a, b].into_iter().enumerate() {
            for (block, figure) in (0..).zip(column) {
                let clock = ClockEstimate {
                    error_bound_ns: (bound_ms * MS) as u64,
                    round_trip_ns: Some((2.0 * bound_ms * MS) as u64),
                    ..ClockEstimate::default()
                };
                let metrics = [(name.clone(), figure * MS)].into();
                let record =
                    Record { valid: true, metrics, clock: Some(clock), ..Record::default() };
                let control = false;
                outcome.trials.push(Trial {
                    block,
                    order: contender as u64,
                    contender,
                    control,
                    record,
                });
            }
        }
        change(&mut outcome);
        refresh(&mut outcome, DecisionStage::Look { alpha: 0.05, next: None });
        outcome.verdicts.remove(0)
    }

    /// Returns 24 figures around `centre`, up to `scatter` off.
    fn around(centre: f64, scatter: f64, turn: usize) -> Vec<f64> {
        (0..24)
            .map(|block| centre + scatter * (((block * 7 + turn) % 24) as f64 / 11.5 - 1.0))
            .collect()
    }

    #[test]
    fn an_offset_of_the_clocks_moves_no_verdict_and_no_estimate() {
        let mut seen: Vec<i64> = Vec::new();
        for offset in [0.0, -9.5, 7.0] {
            let (a, b) = (around(10.0 + offset, 0.2, 0), around(10.4 + offset, 0.2, 5));
            let tie = verdict(&a, &b, 12.5, |_| {});
            assert_eq!(tie.outcome, Ruled::DeadHeat, "{offset}: {}", tie.note);
            let difference = tie.difference.unwrap();
            assert_eq!((difference.margin, difference.clock_bound), (1.25 * MS, Some(12_500_000)));
            seen.push(difference.point.round() as i64);
            assert_eq!((tie.ratio, tie.resolution), (None, None), "a ratio would be of the offset");
            let b = around(15.0 + offset, 0.2, 5);
            let ahead = verdict(&a, &b, 12.5, |_| {});
            assert_eq!((ahead.outcome, ahead.ahead), (Ruled::Ahead, Some(0)), "{offset}");
            assert!(ahead.note.contains(" ms lower ("), "{}", ahead.note);
            assert!(
                ahead.note.contains("clocks, ±12.5 ms, is the same for both"),
                "{}",
                ahead.note
            );
        }
        seen.dedup();
        assert_eq!(seen.len(), 1, "{seen:?}");
    }

    #[test]
    fn on_a_short_path_the_margin_is_that_of_one_clock_and_a_ratio_is_given() {
        let (a, b) = (around(8.5, 0.1, 0), around(8.6, 0.1, 5));
        let tie = verdict(&a, &b, 0.02, |_| {});
        let difference = tie.difference.unwrap();
        let least = a.iter().copied().fold(f64::INFINITY, f64::min) - 0.02;
        assert!((difference.margin - 0.05 * least * MS).abs() < 1.0, "{difference:?}");
        assert_eq!(tie.outcome, Ruled::DeadHeat);
        assert!(tie.ratio.is_some_and(|ratio| ratio.point < 1.0));
    }

    #[test]
    fn a_margin_in_time_is_for_times_on_any_path() {
        let (a, b) = (around(10.0, 0.2, 0), around(11.0, 0.2, 5));
        let on_one_clock = |outcome: &mut Outcome| {
            outcome.trials.iter_mut().for_each(|trial| trial.record.clock = None);
        };
        let by_ratio = verdict(&a, &b, 0.02, on_one_clock);
        assert_eq!((by_ratio.outcome, by_ratio.difference), (Ruled::Ahead, None));
        let by_time = verdict(&a, &b, 0.02, |outcome| {
            on_one_clock(outcome);
            outcome.asked.margin_ns = Some(2_000_000);
        });
        assert_eq!(by_time.outcome, Ruled::DeadHeat, "{}", by_time.note);
        assert!(by_time.note.contains("within 2.00 ms (difference −"), "{}", by_time.note);
        assert!(by_time.ratio.is_some() && by_time.difference.unwrap().clock_bound.is_none());
    }
}

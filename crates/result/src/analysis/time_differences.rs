//! Claims on differences in time: of figures that the offset between two hosts' clocks enters, and where the user gave the
//! margin as a time.
//!
//! All contenders of a block are on one line for the far clock, so the offset and its error are the same for all of them,
//! and cancel in a difference. They do not in a ratio, nor between contenders whose figures are of the clocks of two far
//! hosts: there the interval of the difference has room for both.

use std::collections::BTreeSet;

use crate::far_hosts::FarHosts;
use crate::outcome::{Entrant, Outcome, Summary};
use deadheat_contract::measurements::{ClockNeed, Metric, Unit};
use deadheat_contract::workload;

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

/// Returns the bound on the clocks' part in the difference of two contenders, if their figures are of the clocks of two far
/// hosts, so that the offsets do not cancel.
pub(crate) fn clocks_apart(
    outcome: &Outcome,
    metric: &Metric,
    (a, b): (&Entrant, &Entrant),
) -> Option<u64> {
    let host = |entrant| far_host(outcome, metric, entrant);
    if metric.clock != ClockNeed::Offset || host(a) == host(b) {
        return None;
    }
    let bound = |entrant: &Entrant| clock_bound(outcome, metric, Some(entrant.id));
    Some(bound(a)?.saturating_add(bound(b)?))
}

/// Returns true if figures of contenders that compete are of the clocks of several far hosts.
pub fn has_clocks_apart(outcome: &Outcome, metric: &Metric) -> bool {
    let hosts: BTreeSet<_> =
        outcome.contenders.iter().map(|one| far_host(outcome, metric, one)).collect();
    metric.clock == ClockNeed::Offset && hosts.len() > 1
}

/// Returns the far host whose clock enters this metric of a contender, if `--to` named several.
fn far_host(outcome: &Outcome, metric: &Metric, entrant: &Entrant) -> Option<String> {
    let hosts = outcome.asked.to.as_ref().map(FarHosts::names).filter(|hosts| hosts.len() > 1)?;
    let of_lane = || {
        let contender = entrant.recorded().ok()?;
        let task = workload::parse(&outcome.asked.workload).ok()?;
        let info = task.info();
        let own = |figures: &Vec<&str>| figures.contains(&metric.name.as_str());
        let lane = info.lane_names.get(info.figures_by_lane.iter().position(own)?)?;
        contender.host_of_lane(lane).map(str::to_owned)
    };
    of_lane().or_else(|| hosts.first().cloned())
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
    use crate::analysis::judgement::DecisionStage;
    use crate::analysis::verdicts::refresh;
    use crate::outcome::{Trial, Verdict};
    use crate::testing;
    use deadheat_contract::measurements::ClockEstimate;
    use deadheat_records::trial::Record;
    use deadheat_stats::Outcome as Ruled;

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
            .map(|block| centre + scatter * ((block * (7 + 2 * turn) % 24) as f64 / 11.5 - 1.0))
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
        }
        seen.dedup();
        assert_eq!(seen.len(), 1, "{seen:?}");
    }

    /// The state goes to another far host in the second contender, and the events do not.
    #[test]
    fn the_clocks_of_two_far_hosts_do_not_cancel() {
        let (a, b) = (around(10.0, 0.2, 0), around(15.0, 0.2, 5));
        let judged = |metric: &str, to: &[&str], second: &str, bound: f64| {
            verdict(&a, &b, bound, |outcome| {
                let old = std::mem::replace(&mut outcome.metrics[0].name, metric.into());
                for trial in &mut outcome.trials {
                    let figure = trial.record.metrics.remove(&old).unwrap();
                    trial.record.metrics.insert(metric.into(), figure);
                }
                let mut hosts = FarHosts::from(to[0]);
                to[1..].iter().for_each(|host| hosts.push(*host));
                outcome.asked.to = Some(hosts);
                outcome.asked.workload = "events".into();
                outcome.contenders[0].spec = "mix:events=tcp,others=udp".into();
                outcome.contenders[1].spec = second.into();
            })
        };
        let (state, events) = ("state_age_mean_ns", "delivery_mean_ns");
        let apart = "mix:events=tcp,state=udp:to=b.example";
        let two = ["a.example", "b.example"];
        for (metric, second, bound, outcome) in [
            (events, apart, 12.5, Ruled::Ahead),
            (state, apart, 12.5, Ruled::Undecided),
            (state, apart, 1.0, Ruled::Ahead),
            (state, "mix:events=tcp,state=udp:to=a.example", 12.5, Ruled::Ahead),
        ] {
            let verdict = judged(metric, &two, second, bound);
            assert_eq!(verdict.outcome, outcome, "{metric} {second} {bound}: {}", verdict.note);
            let is_apart = metric == state && second == apart;
            assert_eq!(verdict.note.contains("far hosts of their own"), is_apart);
            assert_eq!(verdict.difference.unwrap().clock_bound.is_none(), is_apart);
            assert!(!is_apart || verdict.ratio.is_none());
        }
        let share = verdict(&a, &b, 1.0, |outcome| {
            outcome.metrics[0].unit = Unit::Share;
            let old = std::mem::replace(&mut outcome.metrics[0].name, "voice_late_share".into());
            for trial in &mut outcome.trials {
                let figure = trial.record.metrics.remove(&old).unwrap();
                trial.record.metrics.insert("voice_late_share".into(), figure);
            }
            outcome.asked.to = Some(FarHosts::from(two[0]));
            outcome.asked.to.as_mut().unwrap().push(two[1]);
            outcome.asked.workload = "share".into();
            outcome.contenders[0].spec = "mix:voice=udp,others=tcp".into();
            outcome.contenders[1].spec = "mix:voice=udp:to=b.example,others=tcp".into();
        });
        assert_eq!((share.outcome, share.ratio, share.more_blocks), (Ruled::Undecided, None, None));
        assert!(share.note.contains("far hosts of their own"), "{}", share.note);
        let close = judged(state, &two, apart, 1.0).difference.unwrap();
        assert!(close.high - close.low > 4.0 * MS, "{close:?}");
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

//! Analysis: from trials to summary, verdicts and control. Pure: the same trials and plan always give the same
//! verdicts, so a saved race can be analysed again.
//!
//! # When a claim is decided
//!
//! Claims are decided at the planned looks; once more, with the remaining error, when time is over; and after any
//! block, by evidence that may be checked as often as desired ([`stats::eprocess`]), for which the plan reserves a
//! part of the error. A decision is said at once ([`Verdict::known_since`]), and every further look rules on all
//! blocks again, so that a verdict and the table beside it are about the same trials. Between looks a verdict stays,
//! unless the evidence after any block rules anew. A race ends early once every verdict is settled: firm, that is, and
//! with the requested resolution ([`stats::verdict::is_sharp`]). No claim is decided about a contender that stays in a
//! state of its own over several blocks (`own_state`), because its blocks are not independent repeats.
//!
//! # What makes a pair
//!
//! A block counts for a claim if both contenders have a valid trial with the figure in it: one trial of each.
//! Trials of the hidden copy enter no claim and no summary. A figure censored at the timeout is a lower bound:
//! ratios with such a figure can show a lead, but never a tie, and a block with two censored figures has no ratio.

use super::judgement::{DecisionStage, JudgingTerms, Question, decided, is_decided, judge};
use super::table::{Column, Table, TrialFilter};
pub use super::table::{Pairs, pairs};
use super::{control, exclusions, own_state};
use crate::analysis::claims::{alpha, claimed};
use crate::analysis::spread::median_of_bounds;
use crate::analysis::time_differences::{clock_bound, clocks_apart, terms};
use crate::outcome::{Entrant, Outcome, Summary, Verdict};
use deadheat_stats::verdict::is_sharp;
use deadheat_stats::{self as stats, quantile};

/// Updates summary, verdicts and control from the trials.
pub fn refresh(outcome: &mut Outcome, stage: DecisionStage) {
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    let summary = summaries(outcome, &table);
    let verdicts = verdicts(outcome, &table, &outcome.verdicts, stage);
    // A decided race may end here, so the alarm is due as at a look.
    let is_decided = !verdicts.is_empty() && verdicts.iter().all(is_decided);
    let alarm_is_due = is_decided || matches!(stage, DecisionStage::Look { .. });
    let control = control::control(outcome, &table, alarm_is_due);
    let unfiltered = match exclusions::unequal_losses(outcome) {
        None => Vec::new(),
        Some(_) => verdicts_on(outcome, TrialFilter::Ran, stage),
    };
    outcome.summary = summary;
    outcome.verdicts = verdicts;
    outcome.control = control;
    outcome.unfiltered = unfiltered;
}

/// Returns the verdicts based on these trials alone.
fn verdicts_on(outcome: &Outcome, counted: TrialFilter, stage: DecisionStage) -> Vec<Verdict> {
    verdicts(outcome, &Table::of(&outcome.trials, counted), &outcome.unfiltered, stage)
}

/// Updates the summary only, for trials that are not paired.
pub fn summarise(outcome: &mut Outcome) {
    outcome.summary = summaries(outcome, &Table::of(&outcome.trials, TrialFilter::Valid));
}

/// Updates summary and verdicts from trials that others ran in blocks: there is one look, and no control.
pub fn refresh_imported(outcome: &mut Outcome) {
    let stage = DecisionStage::Look { alpha: alpha(outcome.asked.confidence), next: None };
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    let (summary, verdicts) =
        (summaries(outcome, &table), verdicts(outcome, &table, &outcome.verdicts, stage));
    (outcome.summary, outcome.verdicts) = (summary, verdicts);
}

/// Returns true if every claim is decided. Always false for a race without claims.
pub fn all_decided(outcome: &Outcome) -> bool {
    !outcome.verdicts.is_empty() && outcome.verdicts.iter().all(is_decided)
}

/// Returns true if more blocks would change no verdict: each is a dead heat or a lead beyond the margin, and is known with
/// the requested resolution. Always false for a race without claims.
pub fn all_settled(outcome: &Outcome) -> bool {
    all_decided(outcome) && outcome.verdicts.iter().all(|verdict| is_settled(outcome, verdict))
}

fn is_settled(outcome: &Outcome, verdict: &Verdict) -> bool {
    let wanted = outcome.asked.resolve.unwrap_or(outcome.plan.margin);
    let is_sharp = match (verdict.difference, verdict.ratio) {
        (Some(by), _) => {
            let wanted = wanted / outcome.plan.margin * by.margin;
            by.resolution.is_some_and(|found| is_sharp(found, wanted, by.point.abs()))
        }
        (None, Some(ratio)) => {
            let seen = ratio.point.ln().abs().exp_m1();
            verdict.resolution.is_some_and(|found| is_sharp(found, wanted, seen))
        }
        (None, None) => false,
    };
    is_sharp && !verdict.leaves_margin_open()
}

/// Returns the number of claims that are decided.
pub fn decisions(outcome: &Outcome) -> usize {
    outcome.verdicts.iter().filter(|verdict| is_decided(verdict)).count()
}

/// Returns the scatter of the log-ratio of a block, the largest of all claims: the standard deviation about their
/// own centre, which does not depend on the leader. `None` with too few blocks.
pub fn scatter(outcome: &Outcome) -> Option<f64> {
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    let margin = outcome.plan.margin.ln_1p();
    let mut scatters = claims(outcome, &table, &[]).into_iter().map(|claim| {
        let scatter = stats::scatter(claim.values())?;
        // In multiples of the margin, as a plan counts.
        Some(claim.on.map_or(scatter, |on| scatter / on.margin_ns * margin))
    });
    scatters.try_fold(0.0, |most: f64, scatter| Some(most.max(scatter?)))
}

/// Returns the summary of each contender over its own valid trials, without its hidden copy's.
fn summaries<'a>(outcome: &'a Outcome, table: &Table<'a>) -> Vec<Summary> {
    let mut all = Vec::new();
    for metric in &outcome.metrics {
        for entrant in &outcome.contenders {
            let Some(own) = table.one(entrant.id, false, &metric.name) else { continue };
            let mut values: Vec<f64> = own.values().map(|figure| figure.value).collect();
            values.sort_unstable_by(f64::total_cmp);
            let mut bounds: Vec<(f64, bool)> =
                own.values().map(|figure| (figure.value, figure.censored)).collect();
            let Some(estimate) = median_of_bounds(&mut bounds) else {
                continue;
            };
            let ends = median_interval(&values, outcome.asked.confidence);
            all.push(Summary {
                contender: entrant.id,
                metric: metric.name.clone(),
                estimate,
                low: ends.map(|(low, _)| low),
                high: ends.map(|(_, high)| high),
                trials: values.len() as u64,
                censored: own.values().any(|figure| figure.censored),
                regimes: stats::regimes(&values),
                clock_bound_ns: clock_bound(outcome, metric, Some(entrant.id)),
            });
        }
    }
    all
}

/// Returns the order statistics that enclose the median at `confidence`; `None` with too few values.
fn median_interval(sorted: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let (low, high) = quantile::median_ranks(sorted.len(), alpha(confidence))?;
    Some((*sorted.get(low)?, *sorted.get(high)?))
}

fn verdicts<'a>(
    outcome: &'a Outcome,
    table: &Table<'a>,
    earlier: &[Verdict],
    stage: DecisionStage,
) -> Vec<Verdict> {
    let level = match stage {
        DecisionStage::Look { alpha, .. } => alpha,
        DecisionStage::Between { .. } => alpha(outcome.asked.confidence),
    };
    let states = own_state::own_states(outcome, table);
    let terms = JudgingTerms { level, any_time: outcome.plan.any_time, stage, states: &states };
    judge(outcome, earlier, &claims(outcome, table, earlier), terms)
}

/// Returns the claims of a race: pairs of competitors under the same conditions, for each claimed metric. Earlier
/// decisions about a contender that dropped out stay.
fn claims<'a>(outcome: &'a Outcome, table: &Table<'a>, earlier: &[Verdict]) -> Vec<Question<'a>> {
    let mut questions = Vec::new();
    for metric in claimed(&outcome.metrics) {
        let column = |entrant: &Entrant| table.own(entrant.id, &metric.name);
        let columns: Vec<Column> = outcome.contenders.iter().map(column).collect();
        for (at, a) in outcome.contenders.iter().enumerate() {
            for (with, b) in outcome.contenders.iter().enumerate().skip(at + 1) {
                let is_out = !a.is_racing() || !b.is_racing();
                let stays = is_out && decided(earlier, &metric.name, a.id, b.id).is_some();
                if a.competes_with(b) && (!is_out || stays) {
                    questions.push(Question {
                        metric,
                        a: a.id,
                        b: b.id,
                        names: (&a.label, &b.label),
                        pairs: Pairs::of(&columns[at], &columns[with]),
                        on: terms(outcome, metric),
                        clocks_apart: clocks_apart(outcome, metric, (a, b)),
                    });
                }
            }
        }
    }
    questions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Trial;
    use crate::testing;
    use deadheat_contract::measurements::Better;
    use deadheat_contract::measurements::Metrics;
    use deadheat_path::PathKind;
    use deadheat_stats::Outcome as Ruled;

    const LOOK: DecisionStage = DecisionStage::Look { alpha: 0.05, next: None };

    /// Returns a race of two or more contenders with these figures of its first claim, by block.
    fn race(columns: &[&[f64]]) -> Outcome {
        let mut outcome = testing::outcome(columns.len());
        let name = claimed(&outcome.metrics).next().unwrap().name.clone();
        for (block, figure) in columns[0].iter().enumerate() {
            // The copy is 0.1 % above the original.
            outcome.trials.push(trial(&name, block, 0, figure * 1.001));
            outcome.trials.last_mut().unwrap().control = true;
        }
        for (contender, column) in columns.iter().enumerate() {
            for (block, figure) in column.iter().enumerate() {
                outcome.trials.push(trial(&name, block, contender, *figure));
            }
        }
        outcome
    }

    fn trial(name: &str, block: usize, contender: usize, figure: f64) -> Trial {
        Trial {
            block: block as u64,
            order: 0,
            contender,
            control: false,
            record: testing::record(Metrics::from([(name.to_owned(), figure)])),
        }
    }

    fn scattered(centre: f64) -> Vec<f64> {
        (0..12).map(|i| centre * (1.0 + 0.001 * f64::from(i))).collect()
    }

    #[test]
    fn virtual_time_is_none_to_wait_for() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        refresh(&mut outcome, DecisionStage::Between { next: Some(3) });
        assert!(outcome.verdicts[0].more_ns.is_some(), "{:?}", outcome.verdicts);
        outcome.path.kind = PathKind::Simulated;
        refresh(&mut outcome, DecisionStage::Between { next: Some(3) });
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.more_blocks, verdict.more_ns), (Some(3), None));
    }

    #[test]
    fn a_clear_lead_is_decided_at_a_look_and_not_between() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        refresh(&mut outcome, DecisionStage::Between { next: Some(3) });
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.more_blocks), (Ruled::Undecided, Some(3)));
        assert!(verdict.ratio.is_some_and(|ratio| (ratio.point - 1.25).abs() < 1e-9));
        refresh(&mut outcome, LOOK);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.ahead), (Ruled::Ahead, Some(1)));
        assert!(verdict.note.starts_with("udp is ahead of tcp: "), "{}", verdict.note);
        assert!(all_decided(&outcome) && outcome.trusted());
        let control = outcome.control.unwrap();
        assert_eq!(control.verdicts[0].outcome, Ruled::DeadHeat);
        assert_eq!((control.verdicts[0].a, control.verdicts[0].b), (0, 0));
    }

    #[test]
    fn a_verdict_is_about_the_blocks_that_the_table_shows() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        refresh(&mut outcome, LOOK);
        let then = outcome.verdicts[0].clone();
        assert_eq!((then.blocks, then.known_since), (12, Some(12)));
        let name = outcome.metrics[0].name.clone();
        for block in 12..40 {
            outcome.trials.push(trial(&name, block, 0, 80.0));
            outcome.trials.push(trial(&name, block, 1, 100.0));
        }
        refresh(&mut outcome, DecisionStage::Between { next: Some(1) });
        let between = &outcome.verdicts[0];
        assert_eq!((between.ahead, between.ratio, between.blocks), (then.ahead, then.ratio, 12));
        assert!(between.note.ends_with(" As of block 12 of 40."), "{}", between.note);
        refresh(&mut outcome, LOOK);
        let now = &outcome.verdicts[0];
        assert_eq!((now.blocks, outcome.summary[0].trials), (40, 40));
        assert_ne!(now.ahead, then.ahead, "{}", now.note);
    }

    /// Most blocks say that udp is ahead, by a little; some say that it is far behind.
    #[test]
    fn a_verdict_against_its_table_is_none() {
        let jitter = |block: u32| f64::from(block * 7 % 11) / 10.0;
        let tcp: Vec<f64> = (0..120).map(|block| 100.0 + jitter(block)).collect();
        let udp = |block: u32| if block % 9 == 4 { 230.0 } else { 91.0 } + jitter(block + 5);
        let udp: Vec<f64> = (0..120).map(udp).collect();
        let mut outcome = race(&[&tcp, &udp]);
        refresh(&mut outcome, LOOK);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.ahead), (Ruled::Undecided, None), "{}", verdict.note);
        assert!(verdict.note.contains("the means may say otherwise"), "{}", verdict.note);
    }

    #[test]
    fn a_lead_that_may_be_too_little_to_matter_is_said_and_not_settled() {
        let few: Vec<f64> =
            (0..12).map(|i| 100.0 * (0.004 * f64::from(i * 7 % 12)).exp()).collect();
        let mut outcome = race(&[&few, &few.iter().rev().map(|v| v * 0.955).collect::<Vec<f64>>()]);
        refresh(&mut outcome, LOOK);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.ahead), (Ruled::Ahead, Some(1)), "{}", verdict.note);
        assert!(verdict.leaves_margin_open() && all_decided(&outcome));
        assert!(!all_settled(&outcome));
        assert!(verdict.note.contains("is ahead of tcp by at least"), "{}", verdict.note);
        assert!(verdict.note.contains("whether by more than the 5 %"), "{}", verdict.note);
    }

    /// The mean of two trials has another distribution than one trial, so claims and summaries do not depend on the
    /// copy.
    #[test]
    fn trials_of_the_copy_enter_no_claim_and_no_summary() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        let mut alone = outcome.clone();
        alone.trials.retain(|trial| !trial.control);
        for trial in outcome.trials.iter_mut().filter(|trial| trial.control) {
            trial.record.metrics.values_mut().for_each(|figure| *figure *= 3.0);
            trial.record.censored.extend(trial.record.metrics.keys().cloned());
        }
        refresh(&mut outcome, LOOK);
        refresh(&mut alone, LOOK);
        assert_eq!((&outcome.verdicts, &outcome.summary), (&alone.verdicts, &alone.summary));
        assert!(outcome.control.as_ref().is_some_and(|control| !control.trusted));
        let pairs = pairs(&outcome, &outcome.metrics[0].name, 0, 1);
        assert!(!pairs.censored && pairs.log_ratios.len() == 12);
    }

    #[test]
    fn higher_goodput_wins() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        outcome.metrics[0].better = Better::Higher;
        refresh(&mut outcome, LOOK);
        assert_eq!(outcome.verdicts[0].ahead, Some(0));
    }

    #[test]
    fn only_blocks_with_both_make_pairs() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        let invalid = outcome.trials.iter_mut().filter(|trial| trial.contender == 1);
        for trial in invalid.take(4) {
            trial.record.valid = false;
        }
        refresh(&mut outcome, LOOK);
        assert_eq!(outcome.verdicts[0].blocks, 8);
        let [tcp, udp] = &outcome.summary[..2] else { panic!("{:?}", outcome.summary) };
        assert_eq!((tcp.trials, udp.trials), (12, 8));
    }

    #[test]
    fn a_control_that_differs_takes_the_trust_away_for_good() {
        let mut outcome = race(&[&scattered(100.0), &scattered(100.0)]);
        for trial in outcome.trials.iter_mut().filter(|trial| trial.control) {
            for figure in trial.record.metrics.values_mut() {
                *figure *= 1.3;
            }
        }
        refresh(&mut outcome, LOOK);
        assert!(!outcome.trusted());
        refresh(&mut outcome, DecisionStage::Between { next: None });
        let control = outcome.control.as_ref().unwrap();
        assert!(!control.trusted && control.note.contains("something other than the transports"));
    }

    #[test]
    fn an_undecided_control_is_noted_and_trusted() {
        let mut outcome = race(&[&scattered(100.0)[..3], &scattered(100.0)[..3]]);
        refresh(&mut outcome, LOOK);
        let control = outcome.control.unwrap();
        assert!(
            control.trusted && control.note.contains("copies of tcp differed by 0.1 %"),
            "{control:?}"
        );
    }

    #[test]
    fn censored_figures_prove_no_tie() {
        let mut outcome = race(&[&scattered(100.0), &scattered(100.0)]);
        let name = outcome.metrics[0].name.clone();
        let lost = outcome.trials.iter_mut().filter(|trial| trial.contender == 1);
        for trial in lost.take(2) {
            trial.record.censored.push(name.clone());
        }
        refresh(&mut outcome, LOOK);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.more_blocks), (Ruled::Undecided, None));
        assert!(verdict.note.contains("lost messages"), "{}", verdict.note);
        assert!(outcome.summary[1].censored);
    }

    #[test]
    fn a_tie_waits_for_the_blocks_that_an_interval_takes() {
        let five = &scattered(100.0)[..5];
        let mut outcome = race(&[five, five]);
        refresh(&mut outcome, LOOK);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.more_blocks), (Ruled::Undecided, Some(1)));
        let six = &scattered(100.0)[..6];
        let mut outcome = race(&[six, six]);
        refresh(&mut outcome, LOOK);
        assert_eq!(outcome.verdicts[0].outcome, Ruled::DeadHeat);
    }

    #[test]
    fn figures_without_a_ratio_decide_nothing() {
        let mut outcome = race(&[&[0.0; 12], &scattered(80.0)]);
        refresh(&mut outcome, LOOK);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.ratio, verdict.blocks), (Ruled::Undecided, None, 0));
        assert!(serde_json::to_string(&outcome).is_ok());
    }

    #[test]
    fn a_blocked_contender_makes_no_claims_but_keeps_decisions() {
        let columns = [scattered(100.0), scattered(80.0), scattered(60.0)];
        let mut outcome = race(&[&columns[0], &columns[1], &columns[2]]);
        outcome.contenders[2].blocked = Some("no answer".into());
        refresh(&mut outcome, LOOK);
        assert_eq!(outcome.verdicts.len(), 1);
        outcome.contenders[1].blocked = Some("no answer".into());
        refresh(&mut outcome, LOOK);
        assert_eq!(outcome.verdicts.len(), 1);
    }

    /// Ranks from the table of the sign test: n = 6 gives the whole range, 8 ranks 1 and 8, 9
    /// ranks 2 and 8, 20 ranks 6 and 15.
    #[test]
    fn the_median_lies_between_order_statistics() {
        let ends = |n: u32| {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            median_interval(&values, 0.95)
        };
        assert_eq!([0, 1, 5].map(ends), [None, None, None]);
        assert_eq!(ends(6), Some((1.0, 6.0)));
        assert_eq!(ends(8), Some((1.0, 8.0)));
        assert_eq!(ends(9), Some((2.0, 8.0)));
        assert_eq!(ends(20), Some((6.0, 15.0)));
        let (low, high) = ends(10_000).unwrap();
        assert!((low - 4_902.0).abs() < 2.0 && (high - 5_099.0).abs() < 2.0, "{low} {high}");
    }
}

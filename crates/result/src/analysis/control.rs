//! The control: a contender against its hidden copy.
//!
//! Original and copy are the same by construction, so their interval does not test the race but shows how much
//! identical contenders differ here. It raises an alarm only if that is exceptional: in one of 200 sound races. An
//! alarm shows that the set-up itself makes a difference.

use super::table::{Pairs, Table};
use crate::analysis::claims::{alpha, claimed};
use crate::analysis::judgement::{DecisionStage, JudgingTerms, Question, judge};
use crate::outcome::{Control, Outcome, Ratio, Verdict};
use deadheat_base::figures::{IN_TIMES, change, change_range, percent};
use deadheat_stats::{self as stats, Claim, Outcome as Ruled};

/// Share of the race's error for the alarm at each of four looks, or at two looks and at the block after which all
/// claims are decided: 0.5 % of races with 95 % confidence in total. A race may end at any of them.
const ALARM_SHARE: f64 = 0.1 / 4.0;

/// Share of the margin below which a difference of original and copy affects no verdict.
const HARMLESS: f64 = 0.2;

/// Compares the last copied contender with its copy.
pub(crate) fn control<'a>(
    outcome: &'a Outcome,
    table: &Table<'a>,
    alarm_is_due: bool,
) -> Option<Control> {
    // It may have been the copy of a contender that dropped out later.
    let alarmed = |control: &&Control| control.verdicts.iter().any(|v| v.outcome == Ruled::Ahead);
    if let Some(alarmed) = outcome.control.as_ref().filter(alarmed) {
        return Some(alarmed.clone());
    }
    let copied = outcome.trials.iter().rev().find(|trial| trial.control)?;
    let entrant = outcome.contenders.get(copied.contender)?;
    let column = |copy, metric| table.one(entrant.id, copy, metric).cloned().unwrap_or_default();
    let questions: Vec<Question<'_>> = claimed(&outcome.metrics)
        .map(|metric| Question {
            on: None,
            clocks_apart: None,
            metric,
            a: entrant.id,
            b: entrant.id,
            names: (&entrant.label, "its hidden copy"),
            pairs: Pairs::of(&column(false, &metric.name), &column(true, &metric.name)),
        })
        .collect();
    // The interval shown is at the race's level; only an alarm is a decision.
    let shown = DecisionStage::Look { alpha: alpha(outcome.asked.confidence), next: None };
    let level = alpha(outcome.asked.confidence);
    let terms = JudgingTerms { level, any_time: 0.0, stage: shown, states: &[] };
    let mut verdicts = judge(outcome, &[], &questions, terms);
    let alarms =
        if alarm_is_due { alarms(&questions, outcome) } else { vec![false; questions.len()] };
    for (verdict, alarm) in verdicts.iter_mut().zip(alarms) {
        let found = match verdict.outcome {
            _ if alarm => Ruled::Ahead,
            Ruled::DeadHeat => Ruled::DeadHeat,
            Ruled::Ahead | Ruled::Undecided => Ruled::Undecided,
        };
        verdict.outcome = found;
        (verdict.ahead, verdict.direction) = (alarm.then_some(entrant.id), None);
        verdict.note = note(&entrant.label, verdict);
    }
    // One block gives a figure of both, but no interval.
    let compared = |verdict: &Verdict| verdict.ratio.is_some() || verdict.blocks == 1;
    let tested = |verdict: &Verdict| verdict.outcome != Ruled::Ahead && compared(verdict);
    let trusted = verdicts.iter().all(tested);
    let first = verdicts.iter().find(|verdict| !tested(verdict)).or(verdicts.first());
    let note = first.map_or_else(String::new, |verdict| verdict.note.clone());
    Some(Control { contender: entrant.id, verdicts, trusted, note })
}

/// Returns, for each question, true if chance alone causes such a difference in only one of 200 sound races.
fn alarms(questions: &[Question<'_>], outcome: &Outcome) -> Vec<bool> {
    let claims: Vec<Claim<'_>> = questions.iter().map(Question::claim).collect();
    let level = ALARM_SHARE * alpha(outcome.asked.confidence);
    let rulings = stats::rule(&claims, stats::Better::Lower, HARMLESS * outcome.plan.margin, level);
    let harmless = (HARMLESS * outcome.plan.margin).ln_1p();
    let is_alarm = |ruling: &stats::Ruling| {
        ruling.outcome == Ruled::Ahead && ruling.ratio.point.ln().abs() > harmless
    };
    rulings.iter().map(is_alarm).collect()
}

fn note(label: &str, verdict: &Verdict) -> String {
    let Some(ratio) = verdict.ratio else {
        return match verdict.blocks {
            0 => format!(
                "no block has a valid trial of both {label} and its hidden copy, so nothing shows what \
                 identical contenders differ by here"
            ),
            blocks => format!(
                "{blocks} {} of {label} and its hidden copy {} too few to show what identical contenders differ by here",
                if blocks == 1 { "block" } else { "blocks" },
                if blocks == 1 { "is" } else { "are" }
            ),
        };
    };
    let seen = ratio.of_copies(label);
    match verdict.outcome {
        Ruled::Ahead => format!(
            "{seen}, which chance does in one of 200 races: something other than the transports \
             makes a difference here"
        ),
        Ruled::DeadHeat | Ruled::Undecided => seen,
    }
}

impl Ratio {
    /// Returns the difference of a contender and its hidden copy: `identical copies of tcp differed by 0.6 % (−3 to
    /// +6 %)`. The sign has no meaning, so the difference is given as positive.
    pub fn of_copies(self, label: &str) -> String {
        let Ratio { point, low, high } = if self.point < 1.0 { self.inverse() } else { self };
        let by = if point >= IN_TIMES { change(point) } else { percent(point - 1.0) };
        format!("identical copies of {label} differed by {by} ({})", change_range(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_the_side_where_the_difference_is_positive() {
        let told = |point, low, high| Ratio { point, low, high }.of_copies("tcp");
        let one = told(1.02, 0.961, 1.075);
        assert_eq!(one, "identical copies of tcp differed by 2 % (−3.9 to +7.5 %)");
        // The result is the same if copy and original are exchanged.
        assert_eq!(told(1.0 / 1.02, 1.0 / 1.075, 1.0 / 0.961), one);
        assert_eq!(
            told(12.0, 0.93, 1_157.0),
            "identical copies of tcp differed by 12 times (0.93 to 1,157 times)"
        );
    }
}

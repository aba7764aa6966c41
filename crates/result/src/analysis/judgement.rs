//! Judgement of questions: each is a claim with the labels of its sentence, and gets its verdict from the rulings on all of
//! them.

use super::lost_shares::PairLost;
use super::own_state::OwnState;
use super::sentence::{ContenderPair, PairLosses};
use super::table::Pairs;
use super::time_differences::DifferenceTerms;
use crate::analysis::claims::{alpha, fewest_blocks};
use crate::outcome::{Effect, Outcome, Ratio, TimeDifference, Verdict};
use deadheat_contract::measurements::{Better, Metric, total};
use deadheat_path::PathKind;
use deadheat_stats::{self as stats, Claim, Missing, Outcome as Ruled, Ruling, Scale, signed_rank};

/// Decisions permitted at this point of a race.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DecisionStage {
    /// Look at the results, at this error level.
    Look {
        /// Family-wise level that the look may spend.
        alpha: f64,
        /// Number of blocks until the next look; absent at the last.
        next: Option<u64>,
    },
    /// No decision: estimates only.
    Between {
        /// Number of blocks until the next look; absent after the last.
        next: Option<u64>,
    },
}

pub(super) fn is_decided(verdict: &Verdict) -> bool {
    verdict.outcome != Ruled::Undecided
}

/// A claim before it is ruled on, with labels for its sentence.
pub(crate) struct Question<'a> {
    pub metric: &'a Metric,
    pub a: usize,
    pub b: usize,
    pub names: (&'a str, &'a str),
    pub pairs: Pairs,
    /// Terms of a claim on differences; `None` for one on ratios.
    pub on: Option<DifferenceTerms>,
    /// Bound on the clocks' part in the difference, in nanoseconds, if the two are at far hosts of their own.
    pub clocks_apart: Option<u64>,
}

impl Question<'_> {
    /// Returns the values by block that the claim is about.
    pub(super) fn values(&self) -> &[f64] {
        match self.on {
            Some(_) => &self.pairs.all_differences,
            None => &self.pairs.log_ratios,
        }
    }

    /// Returns the claim in the form of the statistics crate.
    pub(crate) fn claim(&self) -> Claim<'_> {
        let pairs = &self.pairs;
        let apart = self.clocks_apart;
        let (scale, [a, b], slack) = match self.on {
            // A share into which both clocks enter may be anything.
            None => {
                let clocks = apart.map_or(0.0, |_| f64::INFINITY);
                (Scale::LogRatios, &pairs.logs, pairs.slack.plus(clocks))
            }
            Some(on) => {
                let slack = pairs.difference_slack.plus(apart.unwrap_or_default() as f64);
                (Scale::Differences { margin: on.margin_ns }, &pairs.figures, slack)
            }
        };
        Claim { scale, ..Claim::on_ratios(self.values(), slack).with_columns(a, b) }
    }
}

/// Terms under which questions are judged together.
#[derive(Clone, Copy)]
pub(crate) struct JudgingTerms<'a> {
    /// Shared error at this look.
    pub level: f64,
    /// Shared error over all blocks; 0 for questions that are judged at looks only.
    pub any_time: f64,
    pub stage: DecisionStage,
    /// Contenders in a state of their own, about which no claim is decided.
    pub states: &'a [OwnState],
}

/// Rules on questions. Between looks earlier decisions stay, unless the evidence after any block rules anew.
pub(crate) fn judge(
    outcome: &Outcome,
    earlier: &[Verdict],
    questions: &[Question<'_>],
    terms: JudgingTerms<'_>,
) -> Vec<Verdict> {
    let claims: Vec<Claim<'_>> = questions.iter().map(Question::claim).collect();
    // The better direction is set for each metric below; a race may have both.
    let margin = outcome.plan.margin;
    let rulings = stats::rule(&claims, Better::Lower, margin, terms.level);
    let early = if terms.any_time > 0.0 {
        let level = alpha(outcome.asked.confidence);
        stats::rule_any_time(&claims, Better::Lower, margin, terms.any_time, level)
    } else {
        Vec::new()
    };
    let early = early.into_iter().chain(std::iter::repeat(None));
    questions
        .iter()
        .zip(rulings.into_iter().zip(early))
        .map(|(question, rulings)| {
            let earlier = decided(earlier, &question.metric.name, question.a, question.b);
            let fresh = verdict(outcome, question, rulings, terms);
            let is_look = matches!(terms.stage, DecisionStage::Look { .. });
            match earlier {
                Some(earlier) if !is_look && !is_decided(&fresh) => kept(earlier, fresh.blocks),
                _ => {
                    let since = earlier.filter(|one| one.ahead == fresh.ahead);
                    let since = since.map_or(Some(fresh.blocks), |one| one.known_since);
                    Verdict { known_since: since.filter(|_| is_decided(&fresh)), ..fresh }
                }
            }
        })
        .collect()
}

/// Words before the number of blocks of a verdict on fewer than the race has.
const AS_OF: &str = " As of block ";

/// Returns an earlier verdict after `blocks` blocks; its sentence says which blocks it is about.
fn kept(earlier: &Verdict, blocks: u64) -> Verdict {
    let note = earlier.note.split_once(AS_OF).map_or(earlier.note.as_str(), |(note, _)| note);
    let as_of = if earlier.blocks < blocks {
        format!("{AS_OF}{} of {blocks}.", earlier.blocks)
    } else {
        String::new()
    };
    Verdict { note: format!("{note}{as_of}"), ..earlier.clone() }
}

pub(super) fn decided<'a>(
    earlier: &'a [Verdict],
    metric: &str,
    a: usize,
    b: usize,
) -> Option<&'a Verdict> {
    earlier
        .iter()
        .find(|verdict| verdict.metric == metric && verdict.a == a && verdict.b == b)
        .filter(|verdict| verdict.outcome != Ruled::Undecided)
}

/// Returns the ruling that counts now: the ruling of a planned look, or else, with true, the ruling that is possible
/// after any block.
fn current_ruling(
    outcome: &Outcome,
    question: &Question<'_>,
    (planned, early): (Ruling, Option<Ruling>),
    stage: DecisionStage,
) -> (Ruling, bool) {
    let (pairs, blocks) = (&question.pairs, question.values().len());
    let lacking = fewest_blocks(outcome.asked.confidence).saturating_sub(blocks) as u64;
    let ruling = permitted(planned, pairs, lacking, stage);
    let decides = |early: &Ruling| early.outcome != Ruled::DeadHeat || !pairs.censored;
    match early.filter(decides) {
        Some(early) if ruling.outcome == Ruled::Undecided => (early, true),
        _ => (ruling, false),
    }
}

fn verdict(
    outcome: &Outcome,
    question: &Question<'_>,
    rulings: (Ruling, Option<Ruling>),
    terms: JudgingTerms<'_>,
) -> Verdict {
    let pairs = &question.pairs;
    let blocks = question.values().len();
    let (ruling, is_early) = current_ruling(outcome, question, rulings, terms.stage);
    let state = terms.states.iter().find(|state| {
        let is_part = [question.a, question.b].contains(&state.contender) && !state.copy;
        is_part && state.metric == question.metric.name
    });
    let is_lower = ruling.difference.map_or(ruling.ratio.point < 1.0, |one| one.point < 0.0);
    let a_wins = is_lower == (question.metric.better == Better::Lower);
    let winner = if a_wins { question.a } else { question.b };
    let leads = ruling.outcome == Ruled::Ahead || ruling.direction.is_some();
    let leader = leads.then_some(usize::from(!a_wins));
    let lost = PairLost::of(outcome, question.metric, [question.a, question.b], pairs.low_bounds);
    let is_withheld = lost.withholds(ruling.outcome, leader, outcome.plan.margin);
    let ruling = if state.is_some() || is_withheld {
        Ruling { missing: Missing::Never, ..undecided(ruling) }
    } else {
        ruling
    };
    let more_blocks = ruling.missing.blocks();
    let effect = if is_early {
        stats::eprocess::interval(&pairs.differences, 1.0 - ruling.confidence())
    } else {
        signed_rank::interval(&pairs.differences, ruling.confidence())
    };
    let mut verdict = Verdict {
        metric: question.metric.name.clone(),
        a: question.a,
        b: question.b,
        outcome: ruling.outcome,
        ahead: (ruling.outcome == Ruled::Ahead).then_some(winner),
        ratio: question.on.map_or_else(|| ratio(&ruling), |on| beside(on, question, &ruling)),
        difference: question.on.and_then(|on| difference(on, question, &ruling)),
        margin: outcome.plan.margin,
        confidence: ruling.confidence(),
        blocks: blocks as u64,
        known_since: None,
        more_blocks,
        more_ns: more_blocks.and_then(|more| Some(more.saturating_mul(block_ns(outcome)?))),
        direction: ruling.direction.map(|_| winner),
        resolution: ruling.resolution.filter(|one| one.is_finite() && question.on.is_none()),
        effect: effect.map(|stats::Estimate { point, low, high, .. }| Effect { point, low, high }),
        note: String::new(),
    };
    let (a, b) = question.names;
    let seen = PairLosses {
        censored: pairs.censored,
        both_censored: pairs.both_censored,
        is_doubtful: matches!(ruling.missing, Missing::Perhaps(_)),
        disagreement: ruling.disagreement,
        clocks_apart: question.clocks_apart,
    };
    let pair = ContenderPair { a, b, metric: question.metric };
    verdict.note = match state {
        Some(state) => pair.of_state(&verdict, &seen, &state.words()),
        // No number of further blocks would change these losses.
        None if is_withheld => pair.of_independent(&verdict, &seen),
        None => pair.note(&verdict, &seen),
    };
    verdict.note += &lost.sentence([a, b], &question.metric.label, is_withheld);
    verdict
}

/// Returns the ratio beside a verdict on differences, if the clocks matter less to it than the margin does.
fn beside(on: DifferenceTerms, question: &Question<'_>, ruling: &Ruling) -> Option<Ratio> {
    let matters = question.clocks_apart.is_some()
        || on.clock_bound_ns.is_some_and(|bound| bound as f64 >= on.margin_ns);
    let logs = signed_rank::interval(&question.pairs.log_ratios, ruling.confidence())
        .filter(|_| !matters)?;
    let [point, low, high] = [logs.point, logs.low, logs.high].map(f64::exp);
    [point, low, high].iter().all(|end| end.is_finite()).then_some(Ratio { point, low, high })
}

/// Returns the difference that a verdict is about, if there is a block.
fn difference(
    on: DifferenceTerms,
    question: &Question<'_>,
    ruling: &Ruling,
) -> Option<TimeDifference> {
    let stats::Estimate { point, low, high, confidence } = ruling.difference?;
    (confidence > 0.0).then_some(TimeDifference {
        point,
        low,
        high,
        margin: on.margin_ns,
        resolution: ruling.resolution.filter(|resolution| resolution.is_finite()),
        clock_bound: on.clock_bound_ns.filter(|_| question.clocks_apart.is_none()),
    })
}

/// Returns the ratio if JSON can hold it.
fn ratio(ruling: &Ruling) -> Option<Ratio> {
    let stats::Estimate { point, low, high, confidence } = ruling.ratio;
    let finite = [point, low, high].iter().all(|end| end.is_finite());
    (confidence > 0.0 && finite).then_some(Ratio { point, low, high })
}

/// Returns the ruling without its decision.
fn undecided(ruling: Ruling) -> Ruling {
    Ruling {
        outcome: Ruled::Undecided,
        winner: None,
        direction: None,
        is_beyond: false,
        disagreement: None,
        detectable_but_small: false,
        ..ruling
    }
}

/// Returns the ruling reduced to the permitted decisions. A tie of two tests needs fewer blocks than an interval at
/// the race's confidence; if gates excluded that many blocks, the ruling is postponed.
fn permitted(ruling: Ruling, pairs: &Pairs, lacking: u64, stage: DecisionStage) -> Ruling {
    let undecided = undecided(ruling);
    let at_least = |blocks: Option<u64>| match (ruling.missing, blocks) {
        (Missing::Blocks(more), Some(blocks)) => Missing::Blocks(more.max(blocks)),
        (Missing::Perhaps(more), Some(blocks)) => Missing::Perhaps(more.max(blocks)),
        (_, Some(blocks)) => Missing::Blocks(blocks),
        (missing, None) => missing,
    };
    match stage {
        DecisionStage::Between { next } => Ruling { missing: at_least(next), ..undecided },
        DecisionStage::Look { .. } if pairs.censored && ruling.outcome == Ruled::DeadHeat => {
            Ruling { missing: Missing::Never, ..undecided }
        }
        DecisionStage::Look { .. } if lacking > 0 => {
            Ruling { missing: at_least(Some(lacking)), ..undecided }
        }
        DecisionStage::Look { .. } => ruling,
    }
}

/// Returns the mean duration of a block over the trials so far; `None` in virtual time, or if no time was recorded.
fn block_ns(outcome: &Outcome) -> Option<u64> {
    if outcome.path.kind == PathKind::Simulated {
        return None;
    }
    let took = total(outcome.trials.iter().map(|trial| trial.record.took_ns));
    let blocks = outcome.trials.iter().map(|trial| trial.block).max()? + 1;
    Some(took / blocks).filter(|ns| *ns > 0)
}

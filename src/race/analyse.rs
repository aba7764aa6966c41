//! From trials to summary, verdicts and control. Pure: the same trials and plan always give the
//! same answer, so a saved race can be analysed again.
//!
//! # When a claim is decided
//!
//! Only at the looks that the plan fixed before block 0, or once more, with the error that is
//! left, when time runs out. Between looks the file shows current estimates, all `undecided`. A
//! decision once made stays, with the estimate it was made on: that is what its error level is
//! about. Decided claims stay in Holm's family at later looks, so that each look as a whole keeps
//! its level and the looks together keep that of the race.
//!
//! # What makes a pair
//!
//! A block counts for a claim if both contenders have a valid trial with the figure in it. A
//! figure censored at the timeout is the least it can be: ratios that stand on one can show who
//! is ahead, but never a tie, and a block where both are censored has no ratio.
//!
//! # Why an undecided control is no reason for distrust
//!
//! The control asks one thing: does this set-up find differences where there are none? `ahead`
//! says that it does, and the race is not trusted. `undecided` says that a few blocks were too
//! noisy to prove a tie within the margin; the noise is in the verdicts' intervals as well, which
//! makes them careful, not wrong. It is noted.

use std::collections::BTreeMap;

use super::outcome::{Control, Outcome, Ratio, Summary, Trial, Verdict};
use super::plan::{alpha, claimed, fewest_blocks, percent};
use super::sentence::Pair;
use crate::figures::{Better, Metric};
use crate::stats::{self, Claim, Outcome as Ruled, Ruling, quantile};

/// What may be decided now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stand {
    /// A look, at this error level.
    Look {
        /// The family-wise level that it may spend.
        alpha: f64,
    },
    /// Nothing: estimates only.
    Between {
        /// Blocks until the next look; absent after the last.
        next: Option<u64>,
    },
}

/// Brings summary, verdicts and control up to date with the trials.
pub fn refresh(outcome: &mut Outcome, stand: Stand) {
    let table = Table::of(&outcome.trials);
    let summary = summaries(outcome, &table);
    let verdicts = verdicts(outcome, &table, stand);
    let control = control(outcome, &table, stand);
    outcome.summary = summary;
    outcome.verdicts = verdicts;
    outcome.control = control;
}

/// Brings the summary alone up to date, where trials are no pairs.
pub fn summarise(outcome: &mut Outcome) {
    outcome.summary = summaries(outcome, &Table::of(&outcome.trials));
}

/// Whether every claim is decided. A race without claims never is.
pub fn all_decided(outcome: &Outcome) -> bool {
    let mut verdicts = outcome.verdicts.iter().peekable();
    verdicts.peek().is_some() && verdicts.all(|verdict| verdict.outcome != Ruled::Undecided)
}

/// One figure of one trial.
#[derive(Debug, Clone, Copy)]
struct Figure {
    value: f64,
    censored: bool,
}

/// A contender's (or its copy's) figures of one metric, by block.
type Column = BTreeMap<u64, Figure>;

/// All valid figures.
struct Table<'a>(BTreeMap<(usize, bool, &'a str), Column>);

impl<'a> Table<'a> {
    fn of(trials: &'a [Trial]) -> Table<'a> {
        let mut columns: BTreeMap<(usize, bool, &'a str), Column> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| trial.record.valid) {
            for (name, value) in &trial.record.metrics {
                let key = (trial.contender, trial.control, name.as_str());
                let figure =
                    Figure { value: *value, censored: trial.record.censored.contains(name) };
                columns.entry(key).or_default().insert(trial.block, figure);
            }
        }
        Table(columns)
    }

    fn column(&self, contender: usize, control: bool, metric: &'a str) -> Option<&Column> {
        self.0.get(&(contender, control, metric))
    }
}

fn summaries<'a>(outcome: &'a Outcome, table: &Table<'a>) -> Vec<Summary> {
    let mut all = Vec::new();
    for metric in &outcome.metrics {
        for entrant in &outcome.contenders {
            let Some(column) = table.column(entrant.id, false, &metric.name) else {
                continue;
            };
            let mut values: Vec<f64> = column.values().map(|figure| figure.value).collect();
            values.sort_unstable_by(f64::total_cmp);
            let Some(estimate) = quantile::median(&values) else {
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
                censored: column.values().any(|figure| figure.censored),
                regimes: stats::regimes(&values),
            });
        }
    }
    all
}

/// The order statistics that enclose the median at `confidence`; `None` with too few values.
fn median_interval(sorted: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let (low, high) = quantile::median_ranks(sorted.len(), alpha(confidence))?;
    Some((*sorted.get(low)?, *sorted.get(high)?))
}

/// The log-ratios of two contenders, a block each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pairs {
    /// Logarithms of the first contender's figure over the second's.
    pub log_ratios: Vec<f64>,
    /// Whether any of these figures is censored at the timeout.
    pub censored: bool,
    /// Blocks that have both figures and no ratio of them: one is zero, or both are censored.
    pub left_out: u64,
}

/// The log-ratios of `a` over `b` in `metric`, block by block.
pub fn pairs(outcome: &Outcome, metric: &str, a: usize, b: usize) -> Pairs {
    let table = Table::of(&outcome.trials);
    let column = |id| table.0.get(&(id, false, metric));
    Pairs::of(column(a), column(b))
}

impl Pairs {
    /// a over b, in the blocks that have both.
    fn of(a: Option<&Column>, b: Option<&Column>) -> Pairs {
        let mut pairs = Pairs::default();
        let (Some(a), Some(b)) = (a, b) else {
            return pairs;
        };
        for (block, a) in a {
            let Some(b) = b.get(block) else { continue };
            pairs.censored |= a.censored || b.censored;
            let log_ratio = a.value.ln() - b.value.ln();
            // Two censored figures, or one that is zero, have no ratio.
            if log_ratio.is_finite() && !(a.censored && b.censored) {
                pairs.log_ratios.push(log_ratio);
            } else {
                pairs.left_out += 1;
            }
        }
        pairs
    }
}

/// A claim before it is ruled on. The labels are for its sentence.
struct Question<'a> {
    metric: &'a Metric,
    a: usize,
    b: usize,
    names: (&'a str, String),
    pairs: Pairs,
}

fn verdicts<'a>(outcome: &'a Outcome, table: &Table<'a>, stand: Stand) -> Vec<Verdict> {
    let mut questions = Vec::new();
    for metric in claimed(&outcome.metrics) {
        for (a, first) in outcome.contenders.iter().enumerate() {
            let others = outcome.contenders[a + 1..].iter();
            for second in others.filter(|second| first.meets(second)) {
                let earlier = decided(&outcome.verdicts, &metric.name, first.id, second.id);
                let gone = !first.is_racing() || !second.is_racing();
                if gone && earlier.is_none() {
                    continue;
                }
                let column = |id| table.column(id, false, &metric.name);
                questions.push(Question {
                    metric,
                    a: first.id,
                    b: second.id,
                    names: (&first.label, second.label.clone()),
                    pairs: Pairs::of(column(first.id), column(second.id)),
                });
            }
        }
    }
    judge(outcome, &outcome.verdicts, questions, stand)
}

/// Rules on questions that share one error, and lets earlier decisions stand.
fn judge(
    outcome: &Outcome,
    earlier: &[Verdict],
    questions: Vec<Question<'_>>,
    stand: Stand,
) -> Vec<Verdict> {
    let confidence = outcome.asked.confidence;
    let level = match stand {
        Stand::Look { alpha } => alpha,
        Stand::Between { .. } => alpha(confidence),
    };
    let claims: Vec<Claim<'_>> = questions
        .iter()
        .map(|question| Claim {
            log_ratios: &question.pairs.log_ratios,
            slack: stats::Slack::default(),
        })
        .collect();
    // Which end of the scale wins is asked of each metric below; a race may have both kinds.
    let rulings = stats::rule(&claims, stats::Better::Lower, outcome.plan.margin, level);
    questions
        .iter()
        .zip(rulings)
        .map(|(question, ruling)| {
            decided(earlier, &question.metric.name, question.a, question.b)
                .cloned()
                .unwrap_or_else(|| verdict(outcome, question, ruling, stand))
        })
        .collect()
}

fn decided<'a>(earlier: &'a [Verdict], metric: &str, a: usize, b: usize) -> Option<&'a Verdict> {
    earlier
        .iter()
        .find(|verdict| verdict.metric == metric && verdict.a == a && verdict.b == b)
        .filter(|verdict| verdict.outcome != Ruled::Undecided)
}

fn verdict(outcome: &Outcome, question: &Question<'_>, ruling: Ruling, stand: Stand) -> Verdict {
    let margin = outcome.plan.margin;
    let blocks = question.pairs.log_ratios.len();
    let lacking = fewest_blocks(outcome.asked.confidence).saturating_sub(blocks) as u64;
    let (ruling, more_blocks) = admitted(ruling, question.pairs.censored, lacking, stand);
    let pair = Pair { a: question.names.0, b: &question.names.1, metric: question.metric, margin };
    let a_wins = (ruling.ratio.point < 1.0) == (question.metric.better == Better::Lower);
    let winner = if a_wins { question.a } else { question.b };
    Verdict {
        metric: question.metric.name.clone(),
        a: question.a,
        b: question.b,
        outcome: ruling.outcome,
        ahead: (ruling.outcome == Ruled::Ahead).then_some(winner),
        ratio: ratio(&ruling),
        margin,
        confidence: ruling.ratio.confidence,
        blocks: blocks as u64,
        more_blocks,
        note: pair.note(&ruling, more_blocks, question.pairs.censored),
    }
}

/// The ratio, if there is one. One too large for a number cannot be written down.
fn ratio(ruling: &Ruling) -> Option<Ratio> {
    let stats::Estimate { point, low, high, confidence } = ruling.ratio;
    let finite = [point, low, high].iter().all(|end| end.is_finite());
    (confidence > 0.0 && finite).then_some(Ratio { point, low, high })
}

/// What of a ruling may be said now, and about how many more blocks it takes. A tie of two tests takes fewer
/// blocks than an interval at the race's confidence does; where gates refused that many, it has to wait.
fn admitted(ruling: Ruling, censored: bool, lacking: u64, stand: Stand) -> (Ruling, Option<u64>) {
    let undecided = Ruling { outcome: Ruled::Undecided, winner: None, ..ruling };
    match stand {
        Stand::Between { next } => (undecided, ruling.missing.blocks().max(next)),
        Stand::Look { .. } if censored && ruling.outcome == Ruled::DeadHeat => (undecided, None),
        Stand::Look { .. } if lacking > 0 => {
            (undecided, ruling.missing.blocks().max(Some(lacking)))
        }
        Stand::Look { .. } => (ruling, ruling.missing.blocks()),
    }
}

/// The contender copied last against its copy.
fn control<'a>(outcome: &'a Outcome, table: &Table<'a>, stand: Stand) -> Option<Control> {
    // It may have been the copy of a contender that dropped out since.
    let differs = |control: &&Control| control.verdicts.iter().any(|v| v.outcome == Ruled::Ahead);
    if let Some(differs) = outcome.control.as_ref().filter(differs) {
        return Some(differs.clone());
    }
    let copied = outcome.trials.iter().rev().find(|trial| trial.control)?;
    let entrant = outcome.contenders.get(copied.contender)?;
    let questions = claimed(&outcome.metrics)
        .map(|metric| Question {
            metric,
            a: entrant.id,
            b: entrant.id,
            names: (&entrant.label, "its hidden copy".to_owned()),
            pairs: Pairs::of(
                table.column(entrant.id, false, &metric.name),
                table.column(entrant.id, true, &metric.name),
            ),
        })
        .collect();
    let earlier = outcome.control.as_ref().map_or(&[][..], |c| &c.verdicts);
    let verdicts = judge(outcome, earlier, questions, stand);
    let tested = |verdict: &Verdict| verdict.outcome != Ruled::Ahead && verdict.ratio.is_some();
    let trusted = verdicts.iter().all(tested);
    let note = control_note(&entrant.label, &verdicts, outcome.plan.margin);
    Some(Control { contender: entrant.id, verdicts, trusted, note })
}

fn control_note(label: &str, verdicts: &[Verdict], margin: f64) -> String {
    let of = |outcome| verdicts.iter().find(move |v: &&Verdict| v.outcome == outcome);
    if let Some(ahead) = of(Ruled::Ahead) {
        let ratio = ahead.ratio.map_or(1.0, |ratio| ratio.point);
        return format!(
            "{label} differs from its own hidden copy by {}: this set-up finds differences where \
             there are none, and the race is not to be trusted",
            percent((ratio - 1.0).abs())
        );
    }
    if verdicts.iter().any(|verdict| verdict.ratio.is_none()) {
        return format!(
            "{label} could not be held against its hidden copy: no block has a valid figure of both, \
             so nothing speaks for this race"
        );
    }
    if let Some(undecided) = of(Ruled::Undecided) {
        let range = undecided.ratio.map_or(String::new(), |ratio| {
            format!(" (ratio {:.2} to {:.2})", ratio.low, ratio.high)
        });
        return format!(
            "{label} against its hidden copy is undecided{range}: no difference was found, but a \
             tie within {} is not proven",
            percent(margin)
        );
    }
    format!("{label} ties with its hidden copy within {}", percent(margin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Metrics;
    use crate::race::testing;
    use crate::trial::fake;

    const LOOK: Stand = Stand::Look { alpha: 0.05 };

    /// A race of two or more contenders with these figures of its first claim, by block.
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
            record: fake::record(Metrics::from([(name.to_owned(), figure)])),
        }
    }

    fn scattered(centre: f64) -> Vec<f64> {
        (0..12).map(|i| centre * (1.0 + 0.001 * f64::from(i))).collect()
    }

    #[test]
    fn a_clear_lead_is_decided_at_a_look_and_not_between() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        refresh(&mut outcome, Stand::Between { next: Some(3) });
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
    fn a_decision_stays_with_the_blocks_it_was_made_on() {
        let mut outcome = race(&[&scattered(100.0), &scattered(80.0)]);
        refresh(&mut outcome, LOOK);
        let then = outcome.verdicts.clone();
        let name = outcome.metrics[0].name.clone();
        for block in 12..40 {
            outcome.trials.push(trial(&name, block, 0, 80.0));
            outcome.trials.push(trial(&name, block, 1, 100.0));
        }
        refresh(&mut outcome, LOOK);
        assert_eq!(outcome.verdicts, then);
        assert_eq!(outcome.summary[0].trials, 40);
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
        refresh(&mut outcome, Stand::Between { next: None });
        let control = outcome.control.as_ref().unwrap();
        assert!(!control.trusted && control.note.contains("not to be trusted"));
    }

    #[test]
    fn an_undecided_control_is_noted_and_trusted() {
        let mut outcome = race(&[&scattered(100.0)[..3], &scattered(100.0)[..3]]);
        refresh(&mut outcome, LOOK);
        let control = outcome.control.unwrap();
        assert!(control.trusted && control.note.contains("undecided"), "{control:?}");
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

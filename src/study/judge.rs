//! Published figures beside measured ones, and what can be said of each claim. Pure: the same study
//! and results always give the same answer.
//!
//! # What answers a test
//!
//! One that sets two cells against each other is answered by the ratio of their figures, block by
//! block, as verdicts are: Hodges–Lehmann estimate and exact signed-rank interval at 95 %. One about a
//! single figure is answered by the median over trials and its interval of order statistics, which work
//! on the figures themselves, so that a loss of 0 is a figure like any other. Of a figure that is
//! censored at the timeout only the least is known, so that the interval has no upper end.
//!
//! Many tests are made without sharing an error: a claim is somebody's, and was not picked from these
//! results. A claim with many tests holds only where all of them say so, which is the careful side.

use std::collections::BTreeMap;

use super::check::{Checked, stands_for};
use super::expect::{Expect, figure};
use super::model::{Cell, Claim, Look, Published, Test};
use super::outcome::{Answer, Beside, ClaimRuling, Interval, Ruling, TestAnswer};
use super::sentence::{self, Told};
use crate::figures::Better;
use crate::race::analyse::{self, Pairs};
use crate::race::outcome::{Factor, Outcome, Summary, Trial};
use crate::race::plan::fewest_blocks;
use crate::race::spread::valid_trials;
use crate::stats::{signed_rank, spread};

/// The level of a ratio's interval.
const CONFIDENCE: f64 = 0.95;

/// Where more of the blocks than this have no ratio, the rest does not stand for them.
const MOST_LEFT_OUT: f64 = 0.1;

/// What follows from the results of a study's races.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Published figures beside measured ones, in the order of the study.
    pub beside: Vec<Beside>,
    /// What can be said of each claim, in the order of the study.
    pub rulings: Vec<ClaimRuling>,
}

/// Judges a study by the results of its races, by id. Races may be missing.
pub fn judge(checked: &Checked, results: &BTreeMap<String, Outcome>) -> Judged {
    let court = Court { checked, results };
    Judged {
        beside: checked.study.published.iter().filter_map(|one| court.beside(one)).collect(),
        rulings: checked.study.claims.iter().map(|claim| court.ruling(claim)).collect(),
    }
}

struct Court<'a> {
    checked: &'a Checked,
    results: &'a BTreeMap<String, Outcome>,
}

/// What a test saw, and on how many blocks.
struct Seen {
    interval: Option<Interval>,
    blocks: u64,
    lacks: Option<String>,
}

impl Court<'_> {
    fn ruling(&self, claim: &Claim) -> ClaimRuling {
        let (answers, lacks): (Vec<TestAnswer>, Vec<Option<String>>) =
            claim.tests.iter().map(|test| self.answer(test)).unzip();
        let ruling = rule(&answers);
        let told: Vec<Told<'_>> = answers
            .iter()
            .zip(lacks)
            .map(|(answer, lacks)| {
                let metric = self.checked.metric(&answer.test.race, &answer.test.metric);
                Told { answer, metric, lacks }
            })
            .collect();
        let note = sentence::note(claim, ruling, &told, &self.untrusted(claim));
        ClaimRuling { id: claim.id.clone(), ruling, answers, note }
    }

    /// The races that a claim stands on and that are not trusted.
    fn untrusted<'a>(&self, claim: &'a Claim) -> Vec<&'a str> {
        let mut races: Vec<&str> = claim.tests.iter().map(|test| test.race.as_str()).collect();
        races.sort_unstable();
        races.dedup();
        races.retain(|id| self.results.get(*id).is_some_and(|outcome| !outcome.trusted()));
        races
    }

    /// A test's answer, and what its figure lacks.
    fn answer(&self, test: &Test) -> (TestAnswer, Option<String>) {
        let outcome = self.results.get(&test.race);
        let cells = || std::iter::once(&test.of).chain(&test.against);
        if outcome.is_some_and(|outcome| cells().any(|cell| is_left_out(outcome, cell))) {
            let answer = Answer::LeftOut;
            return (TestAnswer { test: test.clone(), answer, seen: None, blocks: 0 }, None);
        }
        let seen = match (outcome, &test.against) {
            (None, _) => Seen::nothing(format!("the race `{}` has no result", test.race)),
            (Some(outcome), None) => figure_seen(outcome, &test.metric, &test.of),
            (Some(outcome), Some(against)) if test.look == Look::Spread => {
                spread_seen(outcome, &test.metric, &test.of, against)
            }
            (Some(outcome), Some(against)) => ratio_seen(outcome, &test.metric, &test.of, against),
        };
        let unit = self.checked.metric(&test.race, &test.metric).map(|metric| metric.unit);
        let unit = unit.filter(|_| test.against.is_none());
        let margin = outcome.map_or(0.0, |outcome| outcome.plan.margin);
        let answer = match (Expect::parse(&test.expect, unit), &seen.interval) {
            (Ok(expect), Some(interval)) => expect.answer(interval, margin),
            _ => Answer::Open,
        };
        let answer =
            TestAnswer { test: test.clone(), answer, seen: seen.interval, blocks: seen.blocks };
        (answer, seen.lacks)
    }

    fn beside(&self, published: &Published) -> Option<Beside> {
        let metric = self.checked.metric(&published.race, &published.metric)?;
        let value = |one: &Published| figure(&one.value, metric.unit).ok();
        let own = value(published)?;
        let all = self.checked.study.published.iter();
        let alike: Vec<&Published> = all
            .filter(|one| (&one.race, &one.metric) == (&published.race, &published.metric))
            .collect();
        // A ratio to 0 says nothing.
        let is_base = |one: &&&Published| value(one).is_some_and(|value| value > 0.0);
        let first = alike.iter().find(is_base).copied().or(alike.first().copied())?;
        let base = value(first)?;
        let outcome = self.results.get(&published.race);
        let measured = |one: &Published| {
            let outcome = outcome?;
            summary(outcome, &one.metric, cell_id(outcome, &one.cell)?).map(interval_of)
        };
        let points = alike.iter().map(|one| Some(measured(one)?.point));
        let points: Vec<f64> = points.flatten().collect();
        let values: Vec<f64> = alike.iter().filter_map(|one| value(one)).collect();
        let ratio = |outcome| {
            if first.cell == published.cell {
                return measured(published).map(|_| Interval::EXACTLY_ONE);
            }
            ratio_seen(outcome, &published.metric, &published.cell, &first.cell).interval
        };
        let own_measured = measured(published);
        Some(Beside {
            published: published.clone(),
            value: own,
            measured: own_measured,
            published_ratio: if base > 0.0 { own / base } else { 1.0 },
            measured_ratio: outcome.and_then(ratio),
            published_rank: rank(own, &values, metric.better),
            measured_rank: own_measured.map(|own| rank(own.point, &points, metric.better)),
        })
    }
}

impl Interval {
    /// What is set against itself.
    const EXACTLY_ONE: Interval = Interval { point: 1.0, low: Some(1.0), high: Some(1.0) };
}

impl Seen {
    fn nothing(lacks: impl Into<String>) -> Seen {
        Seen { interval: None, blocks: 0, lacks: Some(lacks.into()) }
    }
}

/// Whether a cell has a level that its race did not vary over: the quick setting has fewer of them. The
/// study was checked, so that the full one has it.
fn is_left_out(outcome: &Outcome, cell: &Cell) -> bool {
    let lacks = |factor: &Factor| {
        cell.levels.get(&factor.name).is_some_and(|level| !factor.levels.contains(level))
    };
    outcome.factors.iter().any(lacks)
}

/// All yes, all no, some of each, or not known. What the setting leaves out has no say.
fn rule(answers: &[TestAnswer]) -> Ruling {
    let is = |wanted: Answer| answers.iter().filter(|one| one.answer == wanted).count();
    match (is(Answer::Yes), is(Answer::No), is(Answer::Open)) {
        (1.., 1.., _) => Ruling::Depends,
        (1.., 0, 0) => Ruling::Holds,
        (0, 1.., 0) => Ruling::DoesNotHold,
        _ => Ruling::Open,
    }
}

/// The place of `own` among `all`, from 1, the best first. Equal ones share theirs.
fn rank(own: f64, all: &[f64], better: Better) -> u64 {
    let is_ahead = |other: &&f64| match better {
        Better::Lower => **other < own,
        Better::Higher => **other > own,
    };
    1 + all.iter().filter(is_ahead).count() as u64
}

/// The contender of a race that a cell of its study names.
pub fn cell_id(outcome: &Outcome, cell: &Cell) -> Option<usize> {
    let rows = 0..outcome.asked.contenders.len();
    let row = rows.into_iter().find(|row| outcome.contender(*row) == cell.contender)?;
    let mut entrants = outcome.contenders.iter();
    entrants.find(|entrant| stands_for(entrant, row, cell, &outcome.factors)).map(|e| e.id)
}

fn summary<'a>(outcome: &'a Outcome, metric: &str, id: usize) -> Option<&'a Summary> {
    outcome.summary.iter().find(|one| one.contender == id && one.metric == metric)
}

fn is_censored(outcome: &Outcome, metric: &str, id: usize) -> bool {
    summary(outcome, metric, id).is_some_and(|found| found.censored)
}

fn interval_of(summary: &Summary) -> Interval {
    let Summary { estimate, low, high, censored, .. } = *summary;
    Interval { point: estimate, low, high: high.filter(|_| !censored) }
}

fn figure_seen(outcome: &Outcome, metric: &str, cell: &Cell) -> Seen {
    let Some(id) = cell_id(outcome, cell) else { return Seen::nothing(not_run(cell)) };
    let Some(found) = summary(outcome, metric, id) else {
        return Seen::nothing(no_trial(outcome, id));
    };
    let lacks = if found.censored {
        Some("it falls among lost messages, so that only the least it can be is known".into())
    } else {
        found.low.is_none().then(|| too_few(found.trials))
    };
    Seen { interval: Some(interval_of(found)), blocks: found.trials, lacks }
}

fn ratio_seen(outcome: &Outcome, metric: &str, of: &Cell, against: &Cell) -> Seen {
    let (a, b) = match both(outcome, metric, of, against) {
        Ok(ids) => ids,
        Err(lacks) => return Seen::nothing(lacks),
    };
    let Pairs { log_ratios, left_out, .. } = analyse::pairs(outcome, metric, a, b);
    let blocks = log_ratios.len() as u64;
    if left_out as f64 > MOST_LEFT_OUT * (blocks + left_out) as f64 {
        let why =
            format!("{left_out} of {} blocks have no ratio: a figure is 0", blocks + left_out);
        return Seen { blocks, ..Seen::nothing(why) };
    }
    let censored = (is_censored(outcome, metric, a), is_censored(outcome, metric, b));
    let lacks = match censored {
        (false, false) => (blocks < fewest_blocks(CONFIDENCE) as u64).then(|| too_few(blocks)),
        _ => Some("figures fall among lost messages, so that one end is not known".into()),
    };
    Seen { interval: ratio(&log_ratios, censored), blocks, lacks }
}

/// The ids of two cells that both have figures, or what they lack.
fn both(
    outcome: &Outcome,
    metric: &str,
    of: &Cell,
    against: &Cell,
) -> Result<(usize, usize), String> {
    let a = cell_id(outcome, of).ok_or_else(|| not_run(of))?;
    let b = cell_id(outcome, against).ok_or_else(|| not_run(against))?;
    match [a, b].into_iter().find(|id| summary(outcome, metric, *id).is_none()) {
        Some(id) => Err(no_trial(outcome, id)),
        None => Ok((a, b)),
    }
}

/// How much more one scatters from block to block than the other.
fn spread_seen(outcome: &Outcome, metric: &str, of: &Cell, against: &Cell) -> Seen {
    let (a, b) = match both(outcome, metric, of, against) {
        Ok(ids) => ids,
        Err(lacks) => return Seen::nothing(lacks),
    };
    if [a, b].into_iter().any(|id| is_censored(outcome, metric, id)) {
        return Seen::nothing(
            "figures fall among lost messages, so that their spread is not known",
        );
    }
    let logs = |id| -> BTreeMap<u64, f64> {
        let log = |trial: &Trial| {
            let figure = trial.record.metrics.get(metric)?.ln();
            figure.is_finite().then_some((trial.block, figure))
        };
        valid_trials(outcome, id).filter_map(log).collect()
    };
    let (above, below) = (logs(a), logs(b));
    let pairs: Vec<(f64, f64)> =
        above.iter().filter_map(|(block, log)| Some((*log, *below.get(block)?))).collect();
    let seen = spread::ratio(&pairs, CONFIDENCE);
    let interval =
        seen.map(|seen| Interval { point: seen.point, low: Some(seen.low), high: Some(seen.high) });
    let lacks = seen
        .is_none()
        .then(|| format!("{} blocks, and a spread takes {}", pairs.len(), spread::FEWEST_BLOCKS));
    Seen { interval, blocks: pairs.len() as u64, lacks }
}

/// The ratio with its interval. Where the figure above the line is censored, it can be any greater; where
/// that below is, any less.
fn ratio(log_ratios: &[f64], (above, below): (bool, bool)) -> Option<Interval> {
    let point = signed_rank::hodges_lehmann(log_ratios)?.exp();
    let interval = signed_rank::interval(log_ratios, CONFIDENCE);
    let end = |end: f64| Some(end.exp()).filter(|end| end.is_finite());
    let low = interval.and_then(|interval| end(interval.low)).filter(|_| !below);
    let high = interval.and_then(|interval| end(interval.high)).filter(|_| !above);
    point.is_finite().then_some(Interval { point, low, high })
}

fn too_few(blocks: u64) -> String {
    let blocks_text = if blocks == 1 { "1 block".into() } else { format!("{blocks} blocks") };
    format!("{blocks_text}, and an interval takes {}", fewest_blocks(CONFIDENCE))
}

fn not_run(cell: &Cell) -> String {
    format!("{} is not among what was run", cell.text())
}

fn no_trial(outcome: &Outcome, id: usize) -> String {
    let Some(entrant) = outcome.contenders.get(id) else { return "it did not run".into() };
    let why = entrant.infeasible().or(entrant.blocked.as_deref());
    match why {
        Some(why) => format!("{}: {why}", entrant.label),
        None => format!("{} has no valid trial with this figure", entrant.label),
    }
}

#[cfg(test)]
mod tests;

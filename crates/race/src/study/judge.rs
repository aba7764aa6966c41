//! Judgement of a study: published figures beside measured ones, and a ruling on each claim. Pure: a function of
//! the study and its results.
//!
//! # What answers a test
//!
//! A test of two cells uses the ratio of their figures, block by block, as verdicts do: Hodges–Lehmann estimate and
//! exact signed-rank interval. A test of a single figure uses the median over trials and its interval of order
//! statistics, which work on the figures themselves, so a loss of 0 is a valid figure. A figure censored at the
//! timeout is a lower bound, so its interval has no upper end. Consecutive blocks may be alike, so all intervals
//! are widened by their serial dependence, as in verdicts.
//!
//! Intervals are computed from trials, never from saved verdicts or from margins widened by noise. The intervals of
//! all comparisons of a study on one race hold together at 95 % (Bonferroni): with four, each has 98.75 %. A race
//! that is not trusted answers no test, and neither does one whose path has a fault that hit nothing (`fault`).

use std::collections::BTreeMap;

use super::check::{CheckedStudy, cell_id};
use super::fault;
use deadheat_contract::measurements::Better;
use deadheat_result::analysis::claims::{alpha, fewest_blocks};
use deadheat_result::analysis::spread::{figures, valid_trials};
use deadheat_result::analysis::verdicts::{self, Pairs};
use deadheat_result::outcome::{DEFAULT_MARGIN, Factor, Outcome, Summary, Trial};
use deadheat_result::study::expect::{ExpectedRange, figure};
use deadheat_result::study::model::{
    Claim, NeededSetting, PublishedFigure, RaceCell, Test, TestSubject,
};
use deadheat_result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, PublishedComparison, Ruling, Setting, TestAnswer,
};
use deadheat_result::study::sentence::{self, AnswerDetail};
use deadheat_stats::{quantile, serial, signed_rank, spread};

/// Confidence level at which all intervals on one race hold jointly.
const CONFIDENCE: f64 = 0.95;

/// Maximum share of blocks without a ratio. With more, the rest is not representative.
const MOST_LEFT_OUT: f64 = 0.1;

/// Judgement from the results of a study's races.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyJudgement {
    /// Published figures beside measured ones, in the order of the study.
    pub beside: Vec<PublishedComparison>,
    /// Rulings on the claims, in the order of the study.
    pub rulings: Vec<ClaimRuling>,
}

/// Extent to which a study's races ran.
#[derive(Debug, Clone, Copy)]
pub struct Extent<'a> {
    /// The setting.
    pub setting: Setting,
    /// Ids of races that ran in full at any setting.
    pub full: &'a [String],
}

impl Extent<'_> {
    /// Extent of the full setting: every race ran in full.
    pub const FULL: Extent<'static> = Extent { setting: Setting::Full, full: &[] };

    fn is_full(&self, race: &str) -> bool {
        self.setting == Setting::Full || self.full.iter().any(|id| id == race)
    }
}

/// Judges a study by the results of its races, by id; some may be missing.
pub fn judge(
    checked: &CheckedStudy,
    results: &BTreeMap<String, Outcome>,
    extent: Extent<'_>,
) -> StudyJudgement {
    let judge = StudyJudge { checked, results, extent };
    StudyJudgement {
        beside: checked.study.published.iter().filter_map(|one| judge.beside(one)).collect(),
        rulings: checked.study.claims.iter().map(|claim| judge.ruling(claim)).collect(),
    }
}

/// Returns the number of blocks that a study's claims on one of its races need; 0 if no claim needs any.
pub(super) fn blocks_for(checked: &CheckedStudy, race: &str, extent: Extent<'_>) -> u64 {
    let judge = StudyJudge { checked, results: &BTreeMap::new(), extent };
    match judge.family(race) {
        Family(0) => 0,
        family => fewest_blocks(family.confidence()) as u64,
    }
}

struct StudyJudge<'a> {
    checked: &'a CheckedStudy,
    results: &'a BTreeMap<String, Outcome>,
    extent: Extent<'a>,
}

/// Evidence for a test, and the number of blocks behind it.
struct TestEvidence {
    interval: Option<EstimateInterval>,
    blocks: u64,
    lacks: Option<String>,
}

/// Number of intervals that hold jointly, which sets the confidence level of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Family(usize);

impl Family {
    fn confidence(self) -> f64 {
        1.0 - (1.0 - CONFIDENCE) / self.0.max(1) as f64
    }

    /// Returns a sentence about the missing blocks if there are too few for an interval.
    fn too_few(self, blocks: u64) -> Option<String> {
        let takes = fewest_blocks(self.confidence()) as u64;
        if blocks >= takes {
            return None;
        }
        let blocks = if blocks == 1 { "1 block".into() } else { format!("{blocks} blocks") };
        Some(match self.0 {
            0 | 1 => format!("{blocks}, and an interval takes {takes}"),
            n => format!("{blocks}, and an interval takes {takes} where {n} hold together"),
        })
    }
}

impl StudyJudge<'_> {
    fn ruling(&self, claim: &Claim) -> ClaimRuling {
        if let Some(agree) = &claim.agree {
            return self.agreement(&claim.id, agree);
        }
        let (answers, lacks): (Vec<TestAnswer>, Vec<Option<String>>) =
            claim.tests.iter().map(|test| self.answer(test)).unzip();
        let ruling = rule(&answers);
        let details: Vec<AnswerDetail<'_>> = answers
            .iter()
            .zip(lacks)
            .map(|(answer, lacks)| {
                let metric = self.checked.metric(&answer.test.race, &answer.test.metric);
                AnswerDetail { answer, metric, lacks }
            })
            .collect();
        let note = sentence::note(claim, ruling, &details);
        ClaimRuling { id: claim.id.clone(), ruling, answers, note }
    }

    /// Returns true if the setting leaves the test out.
    fn is_left_out(&self, test: &Test) -> bool {
        let mut cells = std::iter::once(&test.of).chain(&test.against);
        let lacks = |outcome: &Outcome| cells.any(|cell| is_left_out(outcome, cell));
        (test.needs == NeededSetting::Full && !self.extent.is_full(&test.race))
            || self.results.get(&test.race).is_some_and(lacks)
    }

    /// Returns the comparisons that the study makes on a race; a comparison in several claims counts once.
    fn family(&self, race: &str) -> Family {
        let tests = self.checked.study.claims.iter().flat_map(|claim| &claim.tests);
        let mut asked: Vec<&Test> = Vec::new();
        for test in tests.filter(|test| test.race == race && !self.is_left_out(test)) {
            if !asked.iter().any(|other| is_same_comparison(other, test)) {
                asked.push(test);
            }
        }
        Family(asked.len())
    }

    /// Returns a test's answer, and the reason if its figure is missing.
    fn answer(&self, test: &Test) -> (TestAnswer, Option<String>) {
        let nothing = |answer| TestAnswer {
            test: test.clone(),
            answer,
            seen: None,
            blocks: 0,
            confidence: None,
        };
        if self.is_left_out(test) {
            return (nothing(AnswerKind::LeftOut), None);
        }
        let Some(outcome) = self.results.get(&test.race) else {
            let lacks = format!("the race `{}` has no result", test.race);
            return (nothing(AnswerKind::Open), Some(lacks));
        };
        let family = self.family(&test.race);
        let seen = match &test.against {
            None => figure_evidence(outcome, &test.metric, &test.of, family),
            Some(against) if test.look == TestSubject::Spread => {
                spread_evidence(outcome, &test.metric, &test.of, against, family)
            }
            Some(against) => ratio_evidence(outcome, &test.metric, &test.of, against, family),
        };
        let unit = self.checked.metric(&test.race, &test.metric).map(|metric| metric.unit);
        let unit = unit.filter(|_| test.against.is_none());
        // Not the planned margin: in older files noise widened it.
        let margin = outcome.asked.margin.unwrap_or(DEFAULT_MARGIN);
        let distrust =
            (!outcome.trusted()).then(|| format!("the race `{}` is not trusted", test.race));
        let doubt = distrust.or_else(|| fault::missed(outcome, test));
        let answer = match (ExpectedRange::parse(&test.expect, unit), &seen.interval) {
            (Ok(expect), Some(interval)) if doubt.is_none() => expect.answer(interval, margin),
            _ => AnswerKind::Open,
        };
        let answer = TestAnswer {
            seen: seen.interval,
            blocks: seen.blocks,
            confidence: seen.interval.map(|_| family.confidence()),
            ..nothing(answer)
        };
        // Without a figure, the reason for its absence is more useful.
        let lacks = if seen.interval.is_some() { doubt.or(seen.lacks) } else { seen.lacks };
        (answer, lacks)
    }

    fn beside(&self, published: &PublishedFigure) -> Option<PublishedComparison> {
        let metric = self.checked.metric(&published.race, &published.metric)?;
        let value = |one: &PublishedFigure| figure(&one.value, metric.unit).ok();
        let own = value(published)?;
        let all = self.checked.study.published.iter();
        let alike: Vec<&PublishedFigure> = all
            .filter(|one| (&one.race, &one.metric) == (&published.race, &published.metric))
            .collect();
        // A ratio to 0 is undefined.
        let is_base = |one: &&&PublishedFigure| value(one).is_some_and(|value| value > 0.0);
        let first = alike.iter().find(is_base).copied().or(alike.first().copied())?;
        let base = value(first)?;
        let outcome = self.results.get(&published.race);
        let measured = |one: &PublishedFigure| {
            let outcome = outcome?;
            summary(outcome, &one.metric, cell_id(outcome, &one.cell)?).map(interval_of)
        };
        let points = alike.iter().map(|one| Some(measured(one)?.point));
        let points: Vec<f64> = points.flatten().collect();
        let values: Vec<f64> = alike.iter().filter_map(|one| value(one)).collect();
        let ratio = |outcome| {
            if first.cell == published.cell {
                return measured(published).map(|_| EXACTLY_ONE);
            }
            let (of, against) = (&published.cell, &first.cell);
            ratio_evidence(outcome, &published.metric, of, against, Family(1)).interval
        };
        let own_measured = measured(published);
        Some(PublishedComparison {
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

/// Ratio of a cell to itself.
const EXACTLY_ONE: EstimateInterval =
    EstimateInterval { point: 1.0, low: Some(1.0), high: Some(1.0) };

impl TestEvidence {
    fn nothing(lacks: impl Into<String>) -> TestEvidence {
        TestEvidence { interval: None, blocks: 0, lacks: Some(lacks.into()) }
    }
}

/// Returns true if a cell has a level that its race did not vary over: the quick setting has fewer levels. A
/// checked study has it at the full setting.
fn is_left_out(outcome: &Outcome, cell: &RaceCell) -> bool {
    let lacks = |factor: &Factor| {
        cell.levels.get(&factor.name).is_some_and(|level| !factor.levels.contains(level))
    };
    outcome.factors.iter().any(lacks)
}

/// Returns true if two tests compare the same cells, in either order.
fn is_same_comparison(one: &Test, other: &Test) -> bool {
    let cells = |test: &Test| (Some(test.of.clone()), test.against.clone());
    let (of, against) = cells(other);
    let mine = cells(one);
    (&one.metric, one.look) == (&other.metric, other.look)
        && (mine == (of.clone(), against.clone()) || mine == (against, of))
}

/// Returns the ruling that follows from the answers. Tests that the setting leaves out do not count.
pub fn rule(answers: &[TestAnswer]) -> Ruling {
    let is = |wanted: AnswerKind| answers.iter().filter(|one| one.answer == wanted).count();
    let (more, no, open) = (is(AnswerKind::More), is(AnswerKind::No), is(AnswerKind::Open));
    let yes = is(AnswerKind::Yes) + more;
    let asked = yes + no + open;
    match (yes, no, open) {
        (0, 1.., 0) => Ruling::DoesNotHold,
        _ if 2 * no > asked => Ruling::MostlyContradicted,
        (1.., 1.., _) => Ruling::Depends,
        (1.., 0, 0) if 2 * more >= asked => Ruling::Exceeds,
        (1.., 0, 0) => Ruling::Holds,
        _ => Ruling::Open,
    }
}

/// Returns the rank of `own` among `all`, from 1 for the best. Equal values share a rank.
fn rank(own: f64, all: &[f64], better: Better) -> u64 {
    let is_ahead = |other: &&f64| match better {
        Better::Lower => **other < own,
        Better::Higher => **other > own,
    };
    1 + all.iter().filter(is_ahead).count() as u64
}

fn summary<'a>(outcome: &'a Outcome, metric: &str, id: usize) -> Option<&'a Summary> {
    outcome.summary.iter().find(|one| one.contender == id && one.metric == metric)
}

fn is_censored(outcome: &Outcome, metric: &str, id: usize) -> bool {
    summary(outcome, metric, id).is_some_and(|found| found.censored)
}

fn interval_of(summary: &Summary) -> EstimateInterval {
    let Summary { estimate, low, high, censored, .. } = *summary;
    EstimateInterval { point: estimate, low, high: high.filter(|_| !censored) }
}

fn figure_evidence(
    outcome: &Outcome,
    metric: &str,
    cell: &RaceCell,
    family: Family,
) -> TestEvidence {
    let Some(id) = cell_id(outcome, cell) else { return TestEvidence::nothing(not_run(cell)) };
    let values = figures(outcome, id, metric);
    let Some(point) = quantile::median(&values) else {
        return TestEvidence::nothing(no_trial(outcome, id));
    };
    let interval = serial::median_interval(&values, alpha(family.confidence()));
    let (low, high) = (interval.map(|seen| seen.low), interval.map(|seen| seen.high));
    let blocks = values.len() as u64;
    let (high, lacks) = if is_censored(outcome, metric, id) {
        (
            None,
            Some("only the least it can be is known, because it falls among lost messages".into()),
        )
    } else {
        (high, family.too_few(blocks))
    };
    TestEvidence { interval: Some(EstimateInterval { point, low, high }), blocks, lacks }
}

fn ratio_evidence(
    outcome: &Outcome,
    metric: &str,
    of: &RaceCell,
    against: &RaceCell,
    family: Family,
) -> TestEvidence {
    let (a, b) = match both_cells(outcome, metric, of, against) {
        Ok(ids) => ids,
        Err(lacks) => return TestEvidence::nothing(lacks),
    };
    let Pairs { log_ratios, left_out, .. } = verdicts::pairs(outcome, metric, a, b);
    let blocks = log_ratios.len() as u64;
    if left_out as f64 > MOST_LEFT_OUT * (blocks + left_out) as f64 {
        let why =
            format!("{left_out} of {} blocks have no ratio: a figure is 0", blocks + left_out);
        return TestEvidence { blocks, ..TestEvidence::nothing(why) };
    }
    let censored = (is_censored(outcome, metric, a), is_censored(outcome, metric, b));
    let lacks = match censored {
        (false, false) => family.too_few(blocks),
        _ => Some("one end is not known, because figures fall among lost messages".into()),
    };
    TestEvidence { interval: ratio(&log_ratios, censored, family), blocks, lacks }
}

/// Returns the ids of two cells that both have figures, or the reason why one has none.
fn both_cells(
    outcome: &Outcome,
    metric: &str,
    of: &RaceCell,
    against: &RaceCell,
) -> Result<(usize, usize), String> {
    let a = cell_id(outcome, of).ok_or_else(|| not_run(of))?;
    let b = cell_id(outcome, against).ok_or_else(|| not_run(against))?;
    match [a, b].into_iter().find(|id| summary(outcome, metric, *id).is_none()) {
        Some(id) => Err(no_trial(outcome, id)),
        None => Ok((a, b)),
    }
}

/// Returns the ratio of the scatter from block to block of one cell to that of the other.
fn spread_evidence(
    outcome: &Outcome,
    metric: &str,
    of: &RaceCell,
    against: &RaceCell,
    family: Family,
) -> TestEvidence {
    let (a, b) = match both_cells(outcome, metric, of, against) {
        Ok(ids) => ids,
        Err(lacks) => return TestEvidence::nothing(lacks),
    };
    if [a, b].into_iter().any(|id| is_censored(outcome, metric, id)) {
        return TestEvidence::nothing("figures fall among lost messages, and have no spread");
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
    let seen = spread::ratio(&pairs, family.confidence());
    let interval = seen.map(|seen| EstimateInterval {
        point: seen.point,
        low: Some(seen.low),
        high: Some(seen.high),
    });
    let lacks = seen
        .is_none()
        .then(|| format!("{} blocks, and a spread takes {}", pairs.len(), spread::FEWEST_BLOCKS));
    TestEvidence { interval, blocks: pairs.len() as u64, lacks }
}

/// Returns the ratio with its interval. A censored numerator removes the upper end; a censored
/// denominator removes the lower end.
fn ratio(
    log_ratios: &[f64],
    (above, below): (bool, bool),
    family: Family,
) -> Option<EstimateInterval> {
    let point = signed_rank::hodges_lehmann(log_ratios)?.exp();
    let interval = signed_rank::interval(log_ratios, family.confidence());
    let interval = interval.map(|interval| interval.widened(serial::inflation(log_ratios)));
    let end = |end: f64| Some(end.exp()).filter(|end| end.is_finite());
    let low = interval.and_then(|interval| end(interval.low)).filter(|_| !below);
    let high = interval.and_then(|interval| end(interval.high)).filter(|_| !above);
    point.is_finite().then_some(EstimateInterval { point, low, high })
}

fn not_run(cell: &RaceCell) -> String {
    format!("{} is not among what was run", cell.text())
}

fn no_trial(outcome: &Outcome, id: usize) -> String {
    let Some(entrant) = outcome.contenders.get(id) else { return "it did not run".into() };
    let why = entrant.infeasible().or(entrant.out().map(|(_, why)| why));
    match why {
        Some(why) => format!("{}: {why}", entrant.label),
        None => format!("{} has no valid trial with this figure", entrant.label),
    }
}

mod agreement;
#[cfg(test)]
mod tests;

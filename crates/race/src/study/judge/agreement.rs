//! Agreement of measured figures with published ones. Each published figure is a test: is the measured interval in the
//! range around it? Where a figure has too few trials for an interval, the range of three or more stands in its place.

use super::{Family, StudyJudge, TestEvidence, figure_evidence};
use crate::study::agree;
use crate::study::check::cell_id;
use deadheat_base::figures::percent;
use deadheat_base::units;
use deadheat_contract::measurements::Metric;
use deadheat_result::analysis::spread::figures;
use deadheat_result::outcome::Outcome;
use deadheat_result::study::expect::ExpectedRange;
use deadheat_result::study::model::{
    ClaimedAgreement, NeededSetting, PublishedFigure, RaceCell, Test, TestSubject,
};
use deadheat_result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, Ruling, TestAnswer,
};
use deadheat_result::study::sentence::short;

/// Fewest trials whose range shows how figures scatter.
const FEWEST_TRIALS: usize = 3;

/// Largest number of figures that a sentence lists.
const MOST_LISTED: usize = 6;

/// Published figure with the range around it, and the measured one.
struct PublishedAgreement<'a> {
    metric: &'a Metric,
    answer: TestAnswer,
    /// Range that agrees, in the metric's unit.
    range: (f64, f64),
    /// Ends of the measured interval, or range; `None` where there is none, or its race is not trusted.
    measured: Option<(f64, f64)>,
}

/// Numbers of agreeing, of other, and of undecided figures or pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgreementCount {
    yes: u64,
    no: u64,
    open: u64,
}

impl StudyJudge<'_> {
    /// Rules on a claim of agreement.
    pub(super) fn agreement(&self, id: &str, claimed: &ClaimedAgreement) -> ClaimRuling {
        let study = &self.checked.study;
        let all: Vec<PublishedAgreement<'_>> = agree::figures(claimed, study)
            .filter_map(|published| self.published_agreement(claimed, published))
            .collect();
        let (ruling, note) = match (claimed.at_least, &claimed.in_order) {
            (_, Some(share)) => order(&all, units::parse_share(share).unwrap_or(1.0)),
            (least, None) => numbers(&all, least.unwrap_or(1), &claimed.within),
        };
        let answers = all.into_iter().map(|one| one.answer).collect();
        ClaimRuling { id: id.to_owned(), ruling, answers, note }
    }

    fn published_agreement(
        &self,
        claimed: &ClaimedAgreement,
        published: &PublishedFigure,
    ) -> Option<PublishedAgreement<'_>> {
        let metric = self.checked.metric(&published.race, &published.metric)?;
        let range = agree::tolerance(published, claimed, metric.unit)?;
        let test = Test {
            race: published.race.clone(),
            metric: published.metric.clone(),
            look: TestSubject::Level,
            needs: NeededSetting::Any,
            if_lost: Some(0),
            given: String::new(),
            of: published.cell.clone(),
            against: None,
            expect: agree::text(range, metric.unit),
        };
        let mut answer =
            TestAnswer { test, answer: AnswerKind::Open, seen: None, blocks: 0, confidence: None };
        let outcome = self.results.get(&published.race);
        if let Some(outcome) = outcome {
            let TestEvidence { interval, blocks, .. } =
                figure_evidence(outcome, &published.metric, &published.cell, Family(1));
            let is_whole = interval.is_some_and(|seen| seen.low.is_some());
            answer.blocks = blocks;
            answer.confidence = is_whole.then(|| Family(1).confidence());
            answer.seen = if is_whole { interval } else { trials(outcome, published).or(interval) };
            if let Some(seen) = answer.seen.as_ref().filter(|_| outcome.trusted()) {
                answer.answer = ExpectedRange::Between(range.0, range.1).answer(seen, 0.0);
            }
        }
        let seen = answer.seen.filter(|_| outcome.is_some_and(Outcome::trusted));
        let measured = seen.and_then(|seen| Some((seen.low?, seen.high?)));
        Some(PublishedAgreement { metric, answer, range, measured })
    }
}

/// Returns the median of the trials of a published figure with their range; `None` for too few.
fn trials(
    outcome: &Outcome,
    PublishedFigure { metric, cell, .. }: &PublishedFigure,
) -> Option<EstimateInterval> {
    let values = figures(outcome, cell_id(outcome, cell)?, metric);
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let point = deadheat_stats::quantile::median(&values)?;
    let interval = EstimateInterval { point, low: Some(least), high: Some(most) };
    (values.len() >= FEWEST_TRIALS).then_some(interval)
}

impl AgreementCount {
    fn of(answers: impl Iterator<Item = AnswerKind>) -> AgreementCount {
        let mut count = AgreementCount { yes: 0, no: 0, open: 0 };
        for answer in answers {
            match answer {
                AnswerKind::Yes | AnswerKind::More => count.yes += 1,
                AnswerKind::No => count.no += 1,
                AnswerKind::Open | AnswerKind::LeftOut => count.open += 1,
            }
        }
        count
    }

    fn all(self) -> u64 {
        self.yes + self.no + self.open
    }

    /// Rules on a claim of at least so many.
    fn rule(self, least: u64) -> Ruling {
        match self {
            AgreementCount { yes, .. } if yes >= least => Ruling::Holds,
            AgreementCount { yes, open, .. } if yes + open < least => Ruling::DoesNotHold,
            AgreementCount { .. } => Ruling::Open,
        }
    }
}

/// Rules on the number of figures that agree.
fn numbers(all: &[PublishedAgreement<'_>], least: u64, within: &str) -> (Ruling, String) {
    let count = AgreementCount::of(all.iter().map(|one| one.answer.answer));
    let AgreementCount { yes, no, open } = count;
    let ruling = count.rule(least);
    let mut note = format!(
        "{yes} of {} published figures agree within {within} or the range of their trials, {no} do not, and {open} \
         are not decided; asked for: {least}.",
        count.all()
    );
    let others: Vec<String> =
        all.iter().filter(|one| one.answer.answer == AnswerKind::No).map(said).collect();
    if !others.is_empty() {
        let listed = others.len().min(MOST_LISTED);
        let more = others.len() - listed;
        let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
        note.push_str(&format!(" Other than published: {}{rest}.", others[..listed].join("; ")));
    }
    (ruling, note)
}

/// Describes a figure that differs: `one, tcp (streams=2): 5.1 Mbit/s [5, 5.2] where 4.1mbit..4.9mbit was published`.
fn said(one: &PublishedAgreement<'_>) -> String {
    let Test { race, of, expect, .. } = &one.answer.test;
    let seen = short(&one.answer, one.metric.unit).unwrap_or_default();
    format!("{race}, {}: {seen} for {expect}", cell_text(of))
}

/// Returns the levels of a cell, or its contender where nothing varies.
fn cell_text(cell: &RaceCell) -> String {
    let levels: Vec<String> =
        cell.levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
    if levels.is_empty() { cell.contender.clone() } else { levels.join(", ") }
}

/// Rules on the order of the figures, pair by pair. A pair counts where its published ranges are apart, and is decided
/// where its measured ranges are apart.
fn order(all: &[PublishedAgreement<'_>], asked: f64) -> (Ruling, String) {
    let pairs = all
        .iter()
        .enumerate()
        .flat_map(|(at, one)| all[..at].iter().map(move |other| (one, other)));
    let same = pairs.filter(|(one, other)| one.metric.unit == other.metric.unit);
    let answers = same.filter_map(|(one, other)| {
        let published = apart(one.range, other.range)?;
        let measured = one.measured.zip(other.measured).and_then(|(one, other)| apart(one, other));
        Some(match measured {
            None => AnswerKind::Open,
            Some(measured) if measured == published => AnswerKind::Yes,
            Some(_) => AnswerKind::No,
        })
    });
    let count = AgreementCount::of(answers);
    let AgreementCount { yes, no, open } = count;
    let least = (asked * count.all() as f64).ceil() as u64;
    let ruling = if count.all() == 0 { Ruling::Open } else { count.rule(least) };
    let note = format!(
        "Of {} pairs of figures that differ as published, {yes} are in that order here, {no} in the other, and {open} \
         are not told apart; asked for: {}.",
        count.all(),
        percent(asked)
    );
    (ruling, note)
}

/// Returns which of two ranges is greater; `None` where they overlap.
fn apart(one: (f64, f64), other: (f64, f64)) -> Option<std::cmp::Ordering> {
    if one.0 > other.1 {
        Some(std::cmp::Ordering::Greater)
    } else if one.1 < other.0 {
        Some(std::cmp::Ordering::Less)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;

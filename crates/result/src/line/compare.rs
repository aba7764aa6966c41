//! Comparison of surveys of a line, before and after: which figures changed. Pure.

use serde::Serialize;

use super::figures::figure;
use super::outcome::{LineFigure, LineOutcome, Survey};
use deadheat_base::error::{Error, Result};

/// Comparison of earlier surveys with later ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineComparison {
    /// The line of the earlier surveys, as typed.
    pub before: String,
    /// The line of the later ones.
    pub after: String,
    /// Number of surveys, before and after.
    pub surveys: [u64; 2],
    /// Unit that is repeated, of which intervals are made.
    pub replicate: LineReplicate,
    /// Figures that both have, in the order of a report.
    pub figures: Vec<SurveyedPair>,
}

/// Unit that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineReplicate {
    /// Rounds of one survey: they tell how a line varies within a minute.
    Rounds,
    /// Surveys: they tell how it varies from one to the next.
    Surveys,
}

/// One figure, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurveyedPair {
    /// Earlier figure.
    pub before: LineFigure,
    /// Later figure.
    pub after: LineFigure,
    /// Knowledge of the difference.
    pub change: FigureChange,
}

/// Knowledge of a difference between two figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureChange {
    /// Changed: the two intervals have nothing in common.
    Changed,
    /// Open: they overlap.
    Open,
    /// Unknown: there are too few replicates for intervals.
    Unknown,
}

/// Confidence from which on an interval counts.
const ENOUGH: f64 = 0.95;

/// Compares surveys of earlier files with surveys of later ones.
///
/// # Errors
/// [`Error::Usage`] if either has no figures, or if they have none in common.
pub fn compare(before: &[LineOutcome], after: &[LineOutcome]) -> Result<LineComparison> {
    let [old, new] = [before, after].map(surveys);
    let replicate =
        if old.len() > 1 && new.len() > 1 { LineReplicate::Surveys } else { LineReplicate::Rounds };
    let [Some(first), Some(last)] = [old.last(), new.last()] else {
        return Err(Error::usage(
            "a file has no survey with figures, so there is nothing to compare",
        ));
    };
    let pair = |of_old: &LineFigure| {
        let of_new = last.figure(&of_old.name)?;
        let (before, after) = match replicate {
            LineReplicate::Rounds => (of_old.clone(), of_new.clone()),
            LineReplicate::Surveys => (over(&old, of_old)?, over(&new, of_new)?),
        };
        let change = change(&before, &after);
        Some(SurveyedPair { before, after, change })
    };
    let figures: Vec<SurveyedPair> = first.figures.iter().filter_map(pair).collect();
    if figures.is_empty() {
        return Err(Error::usage("the surveys have no figure in common"));
    }
    let name =
        |lines: &[LineOutcome]| lines.last().map(|line| line.path.spec.clone()).unwrap_or_default();
    let surveys = [old.len() as u64, new.len() as u64];
    Ok(LineComparison { before: name(before), after: name(after), surveys, replicate, figures })
}

/// Returns the surveys with figures, in order of time.
fn surveys(lines: &[LineOutcome]) -> Vec<&Survey> {
    let all = lines.iter().flat_map(|line| &line.surveys);
    let mut all: Vec<&Survey> = all.filter(|survey| !survey.figures.is_empty()).collect();
    all.sort_by_key(|survey| survey.started_ms);
    all
}

/// Returns the median over surveys of a figure that one of them has, with its interval.
fn over(surveys: &[&Survey], one: &LineFigure) -> Option<LineFigure> {
    let found = || surveys.iter().filter_map(|survey| survey.figure(&one.name));
    let points: Vec<f64> = found().map(|figure| figure.point).collect();
    let all = figure(one.name.clone(), (one.unit, one.better), &points)?;
    let censored = found().any(|figure| figure.censored);
    let untrusted = found().any(|figure| figure.untrusted);
    Some(LineFigure {
        censored,
        untrusted,
        filling: one.filling,
        clock_bound_ns: one.clock_bound_ns,
        ..all
    })
}

/// Two intervals of 95 % of like figures have nothing in common in less than one case of a hundred: six rounds each are
/// wholly apart in two orders of 924.
fn change(before: &LineFigure, after: &LineFigure) -> FigureChange {
    let is_known = |one: &LineFigure| one.confidence >= ENOUGH && !one.untrusted;
    if !is_known(before) || !is_known(after) {
        return FigureChange::Unknown;
    }
    if before.high < after.low || after.high < before.low {
        FigureChange::Changed
    } else {
        FigureChange::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::outcome::tests::line_of;

    #[test]
    fn a_line_that_became_slower_is_told_from_one_that_scatters() {
        let rounds = |from: f64| (0..6).map(|round| from + 0.1 * f64::from(round)).collect();
        let of = |values: Vec<f64>| [line_of(0, &values)];
        let change = |before: Vec<f64>, after: Vec<f64>| {
            compare(&of(before), &of(after)).unwrap().figures[0].change
        };
        assert_eq!(change(rounds(20.0), rounds(25.0)), FigureChange::Changed);
        assert_eq!(change(rounds(20.0), rounds(20.2)), FigureChange::Open);
        assert_eq!(change(vec![20.0, 20.1], vec![90.0, 91.0]), FigureChange::Unknown);
        assert!(compare(&of(Vec::new()), &of(rounds(1.0))).is_err());
    }

    /// Surveys of several days differ by more than the rounds of each.
    #[test]
    fn several_surveys_each_are_compared_with_what_lies_between_surveys() {
        let day = |from: f64| line_of(0, &[from; 6]);
        let before: Vec<LineOutcome> = [20.0, 24.0, 22.0, 21.0, 23.0, 25.0].map(day).into();
        let after: Vec<LineOutcome> = [24.5, 22.5, 26.0, 23.5, 21.5, 27.0].map(day).into();
        let found = compare(&before, &after).unwrap();
        assert_eq!((found.replicate, found.surveys), (LineReplicate::Surveys, [6, 6]));
        assert_eq!(found.figures[0].change, FigureChange::Open);
        let one = compare(&before[..1], &after[..1]).unwrap();
        assert_eq!(
            (one.replicate, one.figures[0].change),
            (LineReplicate::Rounds, FigureChange::Changed)
        );
    }
}

//! Drawings of a study's claims, one each: the ratios that its tests asked for, with their intervals, over the claimed
//! range.

use super::axis::{Axis, Quantity};
use super::canvas::{Panel, Size};
use super::ink::Ink;
use super::rows::{Row, Rows, RowsAxis};
use super::{MOST_ROWS, drawn, left_out, numbers, slug};
use crate::figure::Figure;
use crate::study::{USUAL_MARGIN, answer_word, shown};
use crate::words;
use deadheat_base::units;
use deadheat_result::study::expect::ExpectedRange;
use deadheat_result::study::model::Test;
use deadheat_result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, StudyRun, TestAnswer,
};

const BAND: f64 = 18.0;

/// Test that has a ratio to draw.
struct RatioTest<'a> {
    answer: &'a TestAnswer,
    seen: EstimateInterval,
    /// Ends of the claimed range; `None` where it has none.
    claimed: (Option<f64>, Option<f64>),
}

/// Returns a figure for each claim of which a test asked for a ratio, in the order of the study.
pub(super) fn figures(run: &StudyRun) -> impl Iterator<Item = Figure> + '_ {
    run.rulings.iter().filter_map(|ruling| figure(run, ruling))
}

fn figure(run: &StudyRun, ruling: &ClaimRuling) -> Option<Figure> {
    let claim = run.study.claims.iter().find(|claim| claim.id == ruling.id)?;
    let all: Vec<RatioTest<'_>> =
        ruling.answers.iter().filter_map(|answer| ratio_test(run, answer)).collect();
    let shown_rows = &all[..all.len().min(MOST_ROWS)];
    if shown_rows.is_empty() {
        return None;
    }
    let ends = shown_rows.iter().flat_map(|one| {
        let EstimateInterval { point, low, high } = one.seen;
        [Some(point), low, high, one.claimed.0, one.claimed.1].into_iter().flatten()
    });
    let x = Axis::log(ends.chain([0.9, 1.1]))?;
    let caption = format!(
        "A row is a test of the claim: the ratio of the two figures, with its interval. Shaded: the range that the claim \
         says. Filled where the answer is yes, an empty square where it is no, a small ring where it is open.{}",
        left_out(all.len(), MOST_ROWS)
    );
    let headings = ["given", "ratio of", "expected", "ratio", "low", "high", "answer"];
    Some(drawn(
        format!("claim-{}", slug(&claim.id)),
        claim.says.clone(),
        caption,
        numbers(&headings, shown_rows.iter().map(numbers_of).collect()),
        |size| draw(shown_rows, x, size),
    ))
}

/// Returns a test with its ratio; `None` if it asked for something else, or if there is none.
fn ratio_test<'a>(run: &StudyRun, answer: &'a TestAnswer) -> Option<RatioTest<'a>> {
    answer.test.against.as_ref()?;
    let seen = answer.seen?;
    let is_drawable = |value: f64| value.is_finite() && value > 0.0;
    let ends = [Some(seen.point), seen.low, seen.high];
    if !ends.into_iter().flatten().all(is_drawable) {
        return None;
    }
    Some(RatioTest { answer, seen, claimed: claimed(run, &answer.test) })
}

fn claimed(run: &StudyRun, test: &Test) -> (Option<f64>, Option<f64>) {
    let race = run.study.races.iter().find(|race| race.id == test.race);
    let margin = race.and_then(|race| units::parse_share(race.margin.as_deref()?).ok());
    let margin = margin.unwrap_or(USUAL_MARGIN);
    match ExpectedRange::parse(&test.expect, None) {
        Ok(ExpectedRange::Below(limit)) => (None, Some(limit)),
        Ok(ExpectedRange::Above(limit)) => (Some(limit), None),
        Ok(
            ExpectedRange::Between(from, to)
            | ExpectedRange::OrMore(from, to)
            | ExpectedRange::OrLess(from, to),
        ) => (Some(from), Some(to)),
        Ok(ExpectedRange::WithinMargin) => (Some(1.0 / (1.0 + margin)), Some(1.0 + margin)),
        // A range that cannot be parsed shades nothing.
        Err(_) => (Some(1.0), Some(1.0)),
    }
}

/// Returns the two figures of a test in words.
fn subject(test: &Test) -> String {
    let against = test.against.as_ref().map_or_else(String::new, |cell| cell.text());
    format!("{} over {against}", test.of.text())
}

fn numbers_of(one: &RatioTest<'_>) -> Vec<String> {
    let four = |value: f64| format!("{value:.4}");
    let end = |value: Option<f64>| value.map_or_else(|| words::NOTHING.into(), four);
    let test = &one.answer.test;
    vec![
        test.given.clone(),
        subject(test),
        test.expect.clone(),
        four(one.seen.point),
        end(one.seen.low),
        end(one.seen.high),
        answer_word(one.answer.answer).to_owned(),
    ]
}

fn draw(all: &[RatioTest<'_>], x: Axis, size: Size) -> String {
    let row = |one: &RatioTest<'_>| {
        let test = &one.answer.test;
        let given = if test.given.is_empty() { &test.race } else { &test.given };
        Row {
            label: answer_word(one.answer.answer).to_owned(),
            note: shown(one.answer).unwrap_or_default(),
            number: None,
            heading: Some(format!("{given}: {}", subject(test))),
        }
    };
    let rows: Vec<Row> = all.iter().map(row).collect();
    let foot = "ratio of the first to the second; shaded: what the claim says";
    let rows = Rows::new(size, &rows, BAND, RowsAxis { x, quantity: Quantity::Number, foot });
    let panel = rows.panel();
    for (at, one) in all.iter().enumerate() {
        let (from, to) = one.claimed;
        let y = rows.y(at);
        let from = (from.unwrap_or(x.low()), y - BAND / 2.0);
        let to = (to.unwrap_or(x.high()), y + BAND / 2.0);
        panel.rectangle(from, to, Ink::Zone, "");
    }
    panel.upright(1.0, Ink::Reference);
    for (at, one) in all.iter().enumerate() {
        mark(&panel, x, one, rows.y(at));
    }
    rows.finish()
}

fn mark(panel: &Panel<'_>, x: Axis, one: &RatioTest<'_>, y: f64) {
    let EstimateInterval { point, low, high } = one.seen;
    // An end that is not known may be anywhere.
    if low.is_some() || high.is_some() {
        let ends = [(low.unwrap_or(x.low()), y), (high.unwrap_or(x.high()), y)];
        panel.line(&ends, Ink::Interval, "");
    }
    let answer = one.answer.answer;
    let figure = shown(one.answer).unwrap_or_default();
    let words = format!("{}: {figure}, {}", subject(&one.answer.test), answer_word(answer));
    let (shape, ink, radius) = match answer {
        AnswerKind::Yes | AnswerKind::More => (0, Ink::Measured, 4.5),
        AnswerKind::No => (1, Ink::NobodyHollow, 5.0),
        AnswerKind::Open | AnswerKind::LeftOut => (0, Ink::NobodyHollow, 3.2),
    };
    panel.mark((point, y), shape, ink, radius, &words);
}

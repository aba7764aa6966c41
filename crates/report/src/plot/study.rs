//! Drawings of a study: published figures beside measured ones, and the rulings on its claims.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Size, TEXT};
use super::ink::Ink;
use super::label::width;
use super::rows::{Row, Rows, RowsAxis};
use super::{MOST_ROWS, drawn, figure_text, left_out, numbers};
use crate::figure::Figure;
use crate::study::{answer_word, ruling_word, unit};
use crate::words;
use deadheat_result::study::outcome::{AnswerKind, ClaimRuling, PublishedComparison, StudyRun};

const BAND: f64 = 18.0;

/// Draws published figures beside measured ones, as ratios to the first of their race and metric.
pub(super) fn published(run: &StudyRun) -> Option<Figure> {
    let all = &run.beside;
    let beside = &all[..all.len().min(MOST_ROWS)];
    let ratios = beside.iter().flat_map(|beside| {
        let measured = beside.measured_ratio.map(|m| [Some(m.point), m.low, m.high]);
        [Some(beside.published_ratio)].into_iter().chain(measured.into_iter().flatten()).flatten()
    });
    let x = Axis::log(ratios.chain([0.9, 1.1]))?;
    if beside.is_empty() {
        return None;
    }
    let row = |beside: &PublishedComparison| {
        let unit = unit(&beside.published.metric);
        let ratio =
            |value: Option<f64>| value.map_or_else(|| words::NOTHING.into(), |v| format!("{v:.4}"));
        vec![
            beside.published.race.clone(),
            beside.published.metric.clone(),
            beside.published.cell.text(),
            words::figure(beside.value, unit),
            figure_text(beside.measured.map(|measured| measured.point), unit),
            ratio(Some(beside.published_ratio)),
            ratio(beside.measured_ratio.map(|measured| measured.point)),
            ratio(beside.measured_ratio.and_then(|measured| measured.low)),
            ratio(beside.measured_ratio.and_then(|measured| measured.high)),
        ]
    };
    let headings = [
        "race",
        "metric",
        "figure of",
        "published",
        "measured",
        "published ratio",
        "measured ratio",
        "low",
        "high",
    ];
    Some(drawn(
        "published".into(),
        "Published beside measured".into(),
        format!(
            "Each figure as a ratio to the first of its race and metric, as machines differ: hollow \
             as published, filled as measured here, with its interval.{}",
            left_out(all.len(), MOST_ROWS)
        ),
        numbers(&headings, beside.iter().map(row).collect()),
        |size| draw(beside, x, size),
    ))
}

fn draw(all: &[PublishedComparison], x: Axis, size: Size) -> String {
    let mut rows: Vec<Row> = Vec::new();
    let mut last: Option<(&str, &str)> = None;
    for beside in all {
        let group = (beside.published.race.as_str(), beside.published.metric.as_str());
        let heading = (last != Some(group)).then(|| format!("{} · {}", group.0, group.1));
        last = Some(group);
        let unit = unit(group.1);
        let measured = figure_text(beside.measured.map(|measured| measured.point), unit);
        rows.push(Row {
            label: beside.published.cell.text(),
            note: format!("{} → {measured}", words::figure(beside.value, unit)),
            number: None,
            heading,
        });
    }
    let foot = "ratio to the first; published → measured at the right";
    let rows = Rows::new(size, &rows, BAND, RowsAxis { x, quantity: Quantity::Number, foot });
    let panel = rows.panel();
    panel.upright(1.0, Ink::Reference);
    for (at, beside) in all.iter().enumerate() {
        let (y, name) = (rows.y(at), beside.published.cell.text());
        let published = beside.published_ratio;
        if published.is_finite() && published > 0.0 {
            if let Some(measured) = beside.measured_ratio {
                let both = [published, measured.point];
                panel.line(&both.map(|ratio| (ratio, y)), Ink::Grid, "");
            }
            let words = format!("{name}: published ratio {}", words::significant(published));
            panel.mark((published, y), 2, Ink::NobodyHollow, 5.4, &words);
        }
        // Drawn last, so that nothing hides the measured figure.
        if let Some(measured) = beside.measured_ratio {
            if let (Some(low), Some(high)) = (measured.low, measured.high) {
                panel.line(&[(low, y), (high, y)], Ink::Interval, "");
            }
            let words = format!("{name}: measured ratio {}", words::significant(measured.point));
            panel.mark((measured.point, y), 0, Ink::Measured, 3.2, &words);
        }
    }
    rows.finish()
}

/// Returns the text of a claim, in the words of its study.
fn says<'a>(run: &'a StudyRun, claim: &'a ClaimRuling) -> &'a str {
    let found = run.study.claims.iter().find(|other| other.id == claim.id);
    found.map_or(claim.id.as_str(), |found| found.says.as_str())
}

/// Draws a strip for each claim: its ruling, and a mark for each of its tests.
pub(super) fn claims(run: &StudyRun) -> Option<Figure> {
    if run.rulings.is_empty() {
        return None;
    }
    let rows = run.rulings.iter().map(|claim| {
        let answers: Vec<&str> =
            claim.answers.iter().map(|test| answer_word(test.answer)).collect();
        vec![says(run, claim).to_owned(), ruling_word(claim.ruling).to_owned(), answers.join(", ")]
    });
    Some(drawn(
        "claims".into(),
        "Claims and their rulings".into(),
        "A mark for each test of a claim: filled where the answer is yes, an empty square where it \
         is no, a small ring where the measurements do not tell."
            .into(),
        numbers(&["claim", "ruling", "answers"], rows.collect()),
        |size| strips(run, size),
    ))
}

fn strips(run: &StudyRun, size: Size) -> String {
    const LINE: f64 = 16.0;
    let room = size.width() - 6.0;
    let wrapped: Vec<Vec<String>> =
        run.rulings.iter().take(MOST_ROWS).map(|claim| wrap(says(run, claim), room)).collect();
    let lines: usize = wrapped.iter().map(|lines| lines.len() + 1).sum();
    let canvas = Canvas::new(size, lines as f64 * LINE + wrapped.len() as f64 * 14.0 + 6.0);
    let mut y = 12.0;
    for (claim, lines) in run.rulings.iter().zip(&wrapped) {
        for line in lines {
            canvas.text((0.0, y), line, Ink::Text, Anchor::Left);
            y += LINE;
        }
        let word = ruling_word(claim.ruling);
        canvas.text((0.0, y), word, Ink::Strong, Anchor::Left);
        let mut x = width(word, TEXT) * 1.1 + 18.0;
        for test in &claim.answers {
            if x > size.width() - 8.0 {
                break;
            }
            let words =
                format!("{} {}: {}", test.test.race, test.test.expect, answer_word(test.answer));
            match test.answer {
                AnswerKind::Yes | AnswerKind::More => {
                    canvas.mark((x, y), 0, Ink::Nobody, 5.0, &words)
                }
                AnswerKind::No => canvas.mark((x, y), 1, Ink::NobodyHollow, 5.0, &words),
                AnswerKind::Open => canvas.mark((x, y), 0, Ink::NobodyHollow, 2.6, &words),
                AnswerKind::LeftOut => continue,
            }
            x += 16.0;
        }
        y += LINE + 14.0;
    }
    canvas.finish()
}

/// Breaks a sentence into lines of at most `room` units; at most four, the last cut.
fn wrap(text: &str, room: f64) -> Vec<String> {
    // Letters are about half as wide as high; exact widths are checked later.
    let text: String = text.chars().take(600).collect();
    let columns = (room / (0.56 * TEXT)) as usize;
    let mut lines = crate::wrap(&deadheat_base::foreign::visible(&text), columns.max(8));
    if lines.len() > 4 {
        lines.truncate(4);
        if let Some(last) = lines.last_mut() {
            last.push('…');
        }
    }
    lines
}

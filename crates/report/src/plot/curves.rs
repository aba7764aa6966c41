//! Published figures of a study over their place in its drawing, a line each, beside the measured ones.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::{drawn, figure_text, left_out, numbers};
use crate::figure::Figure;
use crate::study::unit;
use crate::words;
use deadheat_contract::measurements::Unit;
use deadheat_result::study::model::Test;
use deadheat_result::study::outcome::{PublishedComparison, StudyRun};

/// Maximum number of distinguishable lines.
const MOST_LINES: usize = 10;

/// Published figure with its place, beside the measured one.
struct PlacedFigure<'a> {
    at: f64,
    beside: &'a PublishedComparison,
    /// Least and greatest measured figure, where that is known.
    ends: Option<(f64, f64)>,
}

/// Line of a drawing: its name, and its figures from left to right.
type PlacedLine<'a> = (&'a str, Vec<PlacedFigure<'a>>);

/// Draws the figure, if published figures have a place.
pub(super) fn figure(run: &StudyRun) -> Option<Figure> {
    let over = run.study.over.as_deref()?;
    let all = lines(run);
    let shown = &all[..all.len().min(MOST_LINES)];
    let metric = &shown.first()?.1.first()?.beside.published.metric;
    let unit = unit(metric);
    let placed = || shown.iter().flat_map(|(_, figures)| figures);
    let x = Axis::of(placed().map(|one| one.at))?;
    let values = placed().flat_map(|one| {
        let measured = one.beside.measured.map(|measured| measured.point);
        [Some(one.beside.value), measured, one.ends.map(|ends| ends.1)].into_iter().flatten()
    });
    let y = Axis::from_zero(values)?;
    let row = |name: &str, one: &PlacedFigure<'_>| {
        let end = |end: Option<f64>| figure_text(end, unit);
        vec![
            name.to_owned(),
            words::significant(one.at),
            words::figure(one.beside.value, unit),
            end(one.beside.measured.map(|measured| measured.point)),
            end(one.ends.map(|ends| ends.0)),
            end(one.ends.map(|ends| ends.1)),
        ]
    };
    let rows = shown.iter().flat_map(|(name, all)| all.iter().map(move |one| row(name, one)));
    let headings = ["line", over, "published", "measured", "least", "greatest"];
    Some(drawn(
        "curves".into(),
        "Published and measured".into(),
        format!(
            "Lines and filled marks as measured here, with the range of trials; hollow marks as published.{}",
            left_out(all.len(), MOST_LINES)
        ),
        numbers(&headings, rows.collect()),
        |size| draw(shown, (x, y), (over, unit), size),
    ))
}

/// Returns the lines of a study in the order in which they are first named.
fn lines(run: &StudyRun) -> Vec<PlacedLine<'_>> {
    let mut lines: Vec<PlacedLine<'_>> = Vec::new();
    for beside in &run.beside {
        let Some(at) = beside.published.at else { continue };
        let name = beside.published.line.as_str();
        let found = lines.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            lines.push((name, Vec::new()));
            lines.len() - 1
        });
        lines[found].1.push(PlacedFigure { at, beside, ends: ends(run, beside) });
    }
    lines.iter_mut().for_each(|(_, all)| all.sort_by(|a, b| a.at.total_cmp(&b.at)));
    lines
}

/// Returns the ends of the interval of a measured figure, or of the range of its trials that a claim of agreement has.
fn ends(run: &StudyRun, beside: &PublishedComparison) -> Option<(f64, f64)> {
    let is_same = |test: &Test| {
        let published = &beside.published;
        (&test.race, &test.metric, &test.of)
            == (&published.race, &published.metric, &published.cell)
            && test.against.is_none()
    };
    let mut answers = run.rulings.iter().flat_map(|ruling| &ruling.answers);
    let of_trials = answers.find(|answer| is_same(&answer.test)).and_then(|answer| answer.seen);
    let seen = of_trials.or(beside.measured)?;
    Some((seen.low?, seen.high?))
}

fn draw(
    lines: &[PlacedLine<'_>],
    (x, y): (Axis, Axis),
    (over, unit): (&str, Unit),
    size: Size,
) -> String {
    let key = LineKey::new(size, lines.iter().enumerate().map(|(at, (name, _))| (at, *name)));
    let top = key.height + 14.0;
    let (height, below) = (260.0, 40.0);
    let canvas = Canvas::new(size, top + height + below);
    key.draw(&canvas);
    let frame = Frame { left: 62.0, top, right: canvas.width - 10.0, bottom: top + height };
    let panel = canvas.panel(frame, x, y);
    panel.ticks_left(Quantity::Of(unit));
    panel.ticks_below(Quantity::Number);
    let foot = ((frame.left + frame.right) / 2.0, frame.bottom + 28.0);
    canvas.text(foot, over, Ink::Small, Anchor::Middle);
    for (number, (name, all)) in lines.iter().enumerate() {
        let measured = |one: &PlacedFigure<'_>| Some((one.at, one.beside.measured?.point));
        let through: Vec<(f64, f64)> = all.iter().filter_map(measured).collect();
        panel.line(&through, Ink::KeyLine(number), "");
        for one in all {
            let said = |what: &str, value: f64| {
                format!(
                    "{name}, {}: {what} {}",
                    words::significant(one.at),
                    words::figure(value, unit)
                )
            };
            let value = one.beside.value;
            panel.mark(
                (one.at, value),
                number,
                Ink::Hollow(number),
                5.0,
                &said("published", value),
            );
            if let Some((low, high)) = one.ends {
                panel.line(&[(one.at, low), (one.at, high)], Ink::Whisker(number), "");
            }
            if let Some((at, point)) = measured(one) {
                panel.mark((at, point), number, Ink::Dot(number), 3.2, &said("measured", point));
            }
        }
    }
    canvas.finish()
}

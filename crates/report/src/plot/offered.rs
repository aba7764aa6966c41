//! Drawing of rising load: the delivered load over the offered load, and the missing rest.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Panel, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::{drawn, numbers};
use crate::figure::Figure;
use crate::{sweeps, words};
use deadheat_contract::measurements::Unit;
use deadheat_result::analysis::sweep::{Curve, curves};
use deadheat_result::outcome::{KneePlace, Outcome, Sweep};
use deadheat_stats::knee::Load;

/// Maximum number of distinguishable lines.
const MOST_LINES: usize = 10;

/// Line with its name and its knee.
struct LoadLine<'a> {
    number: usize,
    name: String,
    curve: Curve,
    sweep: Option<&'a Sweep>,
}

/// Draws the figure, if an offered rate was varied.
pub(super) fn figure(outcome: &Outcome) -> Option<Figure> {
    let all = curves(outcome);
    // Lines of one contender under several conditions must differ, too.
    let by_contender = all.iter().all(|curve| curve.conditions.is_empty());
    let line = |(at, curve): (usize, Curve)| {
        let is_same =
            |s: &&Sweep| (s.contender, &s.conditions) == (curve.contender, &curve.conditions);
        LoadLine {
            number: if by_contender { curve.contender } else { at },
            name: sweeps::named(outcome, curve.contender, &curve.conditions),
            sweep: outcome.sweeps.iter().find(is_same),
            curve,
        }
    };
    let too_many = all.len().saturating_sub(MOST_LINES);
    let lines: Vec<LoadLine<'_>> = all.into_iter().take(MOST_LINES).enumerate().map(line).collect();
    let rows = lines.iter().flat_map(|line| {
        line.curve.middle.iter().map(|load| {
            vec![
                line.name.clone(),
                words::figure(load.offered, Unit::BitRate),
                words::figure(load.delivered, Unit::BitRate),
                words::figure(missing(load), Unit::Share),
            ]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let loads = || lines.iter().flat_map(|line| line.curve.trials.iter());
    let (x, y) = axes(loads())?;
    let left_out = match too_many {
        0 => String::new(),
        n => format!(" {} more {} left out.", n, words::is_are(n)),
    };
    let caption = format!(
        "On the dashed diagonal all that is offered is delivered; where a line leaves it is its knee, \
         marked by a ring with its interval. Lines run through medians over trials, small dots are \
         trials.{left_out}"
    );
    Some(drawn(
        "offered".into(),
        "Delivered against offered load".into(),
        caption,
        numbers(&["contender", "offered", "delivered", "not delivered"], rows),
        |size| draw(&lines, (x, y), size),
    ))
}

/// Returns the axes of load: one kind for both, so that the diagonal is straight.
fn axes<'a>(loads: impl Iterator<Item = &'a Load> + Clone) -> Option<(Axis, Axis)> {
    let offered = || loads.clone().map(|load| load.offered);
    let delivered = loads.clone().map(|load| load.delivered);
    let x = Axis::of(offered())?;
    if x.is_log() {
        let least = loads.clone().map(|load| load.delivered.max(load.offered / 100.0));
        return Some((x, Axis::log(least.chain(offered()))?));
    }
    Some((Axis::from_zero(offered())?, Axis::from_zero(delivered)?))
}

/// Returns the share of the offered load that was not delivered.
fn missing(load: &Load) -> f64 {
    if load.offered > 0.0 { (1.0 - load.delivered / load.offered).max(0.0) } else { 0.0 }
}

fn draw(lines: &[LoadLine<'_>], (x, y): (Axis, Axis), size: Size) -> String {
    let key = LineKey::new(size, lines.iter().map(|line| (line.number, line.name.as_str())));
    let top = key.height + 22.0;
    let (height, below) = (230.0, 38.0);
    let is_wide = size == Size::Wide;
    let full = if is_wide { top + height + below } else { top + 2.0 * (height + below) + 30.0 };
    let canvas = Canvas::new(size, full);
    key.draw(&canvas);
    let width = canvas.width;
    let (first, second) = if is_wide {
        let middle = width * 0.56;
        let bottom = top + height;
        (
            Frame { left: 62.0, top, right: middle, bottom },
            Frame { left: middle + 66.0, top, right: width - 10.0, bottom },
        )
    } else {
        let next = top + height + below + 30.0;
        (
            Frame { left: 62.0, top, right: width - 10.0, bottom: top + height },
            Frame { left: 62.0, top: next, right: width - 10.0, bottom: next + height },
        )
    };
    delivered(&canvas, lines, first, (x, y));
    lost(&canvas, lines, second, x);
    canvas.finish()
}

fn frame_words(canvas: &Canvas, frame: Frame, above: &str) {
    canvas.text((frame.left, frame.top - 12.0), above, Ink::Small, Anchor::Left);
    let below = ((frame.left + frame.right) / 2.0, frame.bottom + 28.0);
    canvas.text(below, "offered", Ink::Small, Anchor::Middle);
}

fn delivered(canvas: &Canvas, lines: &[LoadLine<'_>], frame: Frame, (x, y): (Axis, Axis)) {
    let panel = canvas.panel(frame, x, y);
    panel.ticks_left(Quantity::Of(Unit::BitRate));
    panel.ticks_below(Quantity::Of(Unit::BitRate));
    frame_words(canvas, frame, "delivered");
    let (from, to) = (x.low().max(y.low()), x.high().min(y.high()));
    panel.line(&[(from, from), (to, to)], Ink::Reference, "");
    for line in lines {
        through(&panel, line, |load| load.delivered, &|load| {
            format!("delivered {}", words::figure(load.delivered, Unit::BitRate))
        });
        if let Some(sweep) = line.sweep {
            knee(&panel, line, sweep, y.low());
        }
    }
}

/// Draws a ring at the knee, and its interval beneath.
fn knee(panel: &Panel<'_>, line: &LoadLine<'_>, sweep: &Sweep, floor: f64) {
    let at = sweep.knee.bps;
    if sweep.knee.place != KneePlace::At || !at.is_finite() {
        return;
    }
    let words = format!("{}: knee at {}", line.name, words::figure(at, Unit::BitRate));
    if let (Some(low), Some(high)) = (&sweep.low, &sweep.high) {
        panel.line(&[(low.bps, at), (high.bps, at)], Ink::Whisker(line.number), "");
    }
    panel.line(&[(at, floor), (at, at)], Ink::Reference, "");
    panel.mark((at, at), 0, Ink::Hollow(line.number), 5.5, &words);
}

fn lost(canvas: &Canvas, lines: &[LoadLine<'_>], frame: Frame, x: Axis) {
    let most = lines.iter().flat_map(|line| line.curve.trials.iter().map(missing));
    let Some(y) = Axis::from_zero(most.chain([0.01])) else { return };
    let panel = canvas.panel(frame, x, y);
    panel.ticks_left(Quantity::Of(Unit::Share));
    panel.ticks_below(Quantity::Of(Unit::BitRate));
    frame_words(canvas, frame, "not delivered");
    for line in lines {
        through(&panel, line, missing, &|load| {
            format!("{} not delivered", words::figure(missing(load), Unit::Share))
        });
    }
}

/// Draws the trials of a line as dots, the line through their medians, and a mark on each.
fn through(
    panel: &Panel<'_>,
    line: &LoadLine<'_>,
    of: impl Fn(&Load) -> f64,
    say: &dyn Fn(&Load) -> String,
) {
    let place = |load: &Load| (load.offered, of(load));
    let places = |loads: &[Load]| loads.iter().map(place).collect::<Vec<_>>();
    panel.line(&places(&line.curve.trials), Ink::Dots(line.number), "");
    panel.line(&places(&line.curve.middle), Ink::KeyLine(line.number), "");
    for load in &line.curve.middle {
        let offered = words::figure(load.offered, Unit::BitRate);
        let words = format!("{}, offered {offered}: {}", line.name, say(load));
        panel.mark(place(load), line.number, Ink::Dot(line.number), 3.2, &words);
    }
}

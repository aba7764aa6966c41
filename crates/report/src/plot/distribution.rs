//! The share of round trips that took longer than a time, down to its tail.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::{drawn, figure_text, numbers, order, palette};
use crate::figure::Figure;
use crate::names::label;
use crate::{ReportInput, words};
use deadheat_contract::measurements::{Distribution, Quantile, Unit};
use deadheat_result::analysis::pooled::pooled;
use deadheat_result::analysis::spread::{self, Pool};
use deadheat_result::outcome::{Outcome, Trial};

/// Maximum number of points of a line: more cannot be distinguished.
const MOST_POINTS: usize = 200;
/// Room beyond the greatest time for lines of messages without an answer, as a factor.
const BEYOND: f64 = 1.5;
/// Maximum number of lines in one panel: more cannot be distinguished either.
const MOST_LINES: usize = 12;
/// Percentiles that have a mark of their own, with their names.
const MARKED: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// Curve of one contender.
struct Curve {
    number: usize,
    label: String,
    /// Points `(ns, share beyond)`, falling.
    points: Vec<(f64, f64)>,
    /// Percentiles of [`MARKED`], where known.
    marked: [Option<f64>; 5],
    n: u64,
    lost: u64,
}

/// Draws the figure, from raw samples if there are any, else from the percentiles of trials.
pub(super) fn figure(shown: &ReportInput<'_>) -> Option<Figure> {
    let outcome = shown.outcome;
    let (ids, _) = order(outcome);
    let pools = shown.samples.and_then(|file| pooled(outcome, file).ok());
    let raw = |id: usize| from_samples(outcome, id, pools.as_ref()?.get(&id)?);
    let mut curves: Vec<Curve> = ids.iter().filter_map(|id| raw(*id)).collect();
    let is_raw = !curves.is_empty();
    if !is_raw {
        curves = ids.iter().filter_map(|id| from_records(outcome, *id)).collect();
    }
    if curves.is_empty() || curves.len() > MOST_LINES {
        return None;
    }
    let times = || curves.iter().flat_map(|curve| curve.points.iter().map(|(ns, _)| *ns));
    // Room at the right for the ends of lines that go on beyond all times.
    let has_lost = curves.iter().any(|curve| curve.lost > 0);
    let beyond = times().fold(0.0, f64::max) * if has_lost { BEYOND } else { 1.0 };
    let x = Axis::log(times().chain([beyond]))?;
    let shares = curves.iter().flat_map(|c| c.points.iter().map(|(_, share)| *share));
    let least = shares.chain(curves.iter().filter_map(Curve::lost_share)).fold(0.5, f64::min);
    let least = least.max(1e-9);
    Some(drawn(
        "distribution".into(),
        "Distribution of round trips".into(),
        caption(is_raw, &curves),
        numbers_of(&curves),
        |size| draw(&curves, x, least, size),
    ))
}

fn caption(is_raw: bool, curves: &[Curve]) -> String {
    let mut caption = if is_raw {
        "The share of round trips that took longer than a time, each contender's over all its valid \
         trials in one pot, as far as ten lie beyond. The further left, the faster; each step down \
         is a tenth as many."
            .to_owned()
    } else {
        "Percentiles of round trips, medians over valid trials: raw samples were not kept. The \
         further left, the faster; each step down is a tenth as many."
            .to_owned()
    };
    if curves.iter().any(|curve| curve.lost > 0) {
        caption.push_str(" Messages without an answer are slower than any time: the line goes on to the right, with an arrowhead, at their share.");
    }
    caption
}

impl Curve {
    /// Returns the share of round trips without an answer; `None` if there are none.
    fn lost_share(&self) -> Option<f64> {
        (self.lost > 0).then(|| self.lost as f64 / self.n.max(1) as f64)
    }

    /// Returns the points of the part beyond all times, from the last known point to the end `x`: the share that has
    /// no answer.
    fn beyond(&self, x: f64) -> Option<[(f64, f64); 3]> {
        let (share, last) = (self.lost_share()?, *self.points.last()?);
        let level = share.min(last.1);
        Some([last, (last.0, level), (x, level)])
    }
}

fn from_samples(outcome: &Outcome, id: usize, pool: &Pool) -> Option<Curve> {
    let points = pool.tail(MOST_POINTS);
    (points.len() > 1).then(|| Curve {
        number: palette::number(outcome, id),
        label: label(outcome, id),
        points,
        marked: MARKED.map(|(q, _)| pool.quantile_ns(q).map(|ns| ns as f64)),
        n: pool.n(),
        lost: pool.lost(),
    })
}

fn from_records(outcome: &Outcome, id: usize) -> Option<Curve> {
    type Of = fn(&Distribution) -> Option<Quantile>;
    let all: [Of; 4] = [|d| d.p50, |d| d.p90, |d| d.p99, |d| d.p999];
    let figure = |of: Of| {
        let exact = |trial: &Trial| match of(trial.record.rtt_ns.as_ref()?)? {
            Quantile::Ns(ns) => Some(ns as f64),
            Quantile::Beyond(_) => None,
        };
        // If some trials lie beyond the timeout, a median of the others would flatter.
        let is_whole = spread::valid_trials(outcome, id).all(|trial| exact(trial).is_some());
        is_whole.then(|| spread::middle(outcome, id, exact)).flatten()
    };
    let [p50, p90, p99, p999] = all.map(figure);
    let marked = [p50, p90, p99, p999, None];
    let points: Vec<(f64, f64)> = marked
        .iter()
        .zip(MARKED)
        .map_while(|(ns, (q, _))| Some(((*ns).filter(|ns| *ns > 0.0)?, 1.0 - q)))
        .collect();
    let sums = spread::valid_trials(outcome, id).filter_map(|trial| trial.record.rtt_ns.as_ref());
    let (n, lost) = sums.fold((0u64, 0u64), |(n, lost), d| {
        (n.saturating_add(d.n), lost.saturating_add(d.censored))
    });
    (points.len() > 1).then(|| Curve {
        number: palette::number(outcome, id),
        label: label(outcome, id),
        points,
        marked,
        n,
        lost,
    })
}

fn numbers_of(curves: &[Curve]) -> crate::figure::Numbers {
    let row = |curve: &Curve| {
        let mut row = vec![curve.label.clone(), curve.n.to_string(), curve.lost.to_string()];
        row.extend(curve.marked.iter().map(|ns| figure_text(*ns, Unit::Nanos)));
        row
    };
    let mut headings = vec!["contender", "round trips", "without answer"];
    headings.extend(MARKED.map(|(_, name)| name));
    numbers(&headings, curves.iter().map(row).collect())
}

fn draw(curves: &[Curve], x: Axis, least: f64, size: Size) -> String {
    let key = LineKey::new(size, curves.iter().map(|curve| (curve.number, curve.label.as_str())));
    let height = if size == Size::Wide { 280.0 } else { 250.0 };
    let canvas = Canvas::new(size, key.height + height + 46.0);
    key.draw(&canvas);
    let top = key.height + 6.0;
    let frame = Frame { left: 46.0, top, right: canvas.width - 10.0, bottom: top + height };
    // All round trips are at the top, the rarest at the bottom.
    let panel = canvas.panel(frame, x, Axis::exact_log(least * 0.8, 1.0));
    let ticks: Vec<(f64, String)> = [(0.0, "all")]
        .iter()
        .chain(&MARKED)
        .map(|(q, name)| (1.0 - q, (*name).to_owned()))
        .filter(|(share, _)| *share >= least * 0.8)
        .collect();
    panel.named_left(&ticks);
    panel.ticks_below(Quantity::Of(Unit::Nanos));
    let foot = ((frame.left + frame.right) / 2.0, frame.bottom + 30.0);
    canvas.text(foot, "round-trip time, logarithmic", Ink::Small, Anchor::Middle);
    for curve in curves {
        let words = format!(
            "{}: {} round trips, half within {}, 99 % within {}",
            curve.label,
            curve.n,
            figure_text(curve.marked[0], Unit::Nanos),
            figure_text(curve.marked[2], Unit::Nanos)
        );
        panel.line(&curve.points, Ink::Line(curve.number), &words);
        if let Some(beyond) = curve.beyond(x.high()) {
            let words = format!(
                "{}: {} of {} round trips have no answer",
                curve.label, curve.lost, curve.n
            );
            panel.line(&beyond, Ink::Line(curve.number), &words);
            panel.arrow(beyond[2], Ink::Dot(curve.number), 5.0, &words);
        }
        for (ns, (q, name)) in curve.marked.iter().zip(MARKED) {
            let Some(ns) = ns else { continue };
            let words = format!("{}, {name}: {}", curve.label, words::figure(*ns, Unit::Nanos));
            panel.mark((*ns, 1.0 - q), curve.number, Ink::Dot(curve.number), 3.2, &words);
        }
    }
    canvas.finish()
}

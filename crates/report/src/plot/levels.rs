//! Drawings of a race over conditions: figures by the level of each, and the sources of their variation.

use super::axis::{Axis, Quantity};
use super::bars::{Bar, stacked};
use super::canvas::{Anchor, Canvas, Frame, SMALL, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::label::cut;
use super::rows::Row;
use super::{drawn, numbers, slug};
use crate::figure::Figure;
use crate::words;
use deadheat_contract::measurements::{Metric, Role};
use deadheat_result::analysis::spread::{ByLevel, by_level};
use deadheat_result::analysis::sweep::load_factor;
use deadheat_result::analysis::theory::{self, PredictionSeries};
use deadheat_result::outcome::{Outcome, ShareKind};

/// Maximum number of factors and claims with a figure each.
const MOST_FACTORS: usize = 4;
const MOST_CLAIMS: usize = 2;
/// Maximum number of combinations that are drawn beside their median.
const MOST_FAINT: usize = 12;
const HEIGHT: f64 = 220.0;
/// Share of a level's room over which the marks of contenders stand beside each other.
const BESIDE: f64 = 0.5;

/// Returns a figure for each factor and claim. An offered rate has a figure of its own.
pub(super) fn figures(outcome: &Outcome) -> Vec<Figure> {
    let claims = || outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    let load = load_factor(outcome);
    let factors = (0..outcome.factors.len()).filter(|factor| Some(*factor) != load);
    factors
        .take(MOST_FACTORS)
        .flat_map(|factor| claims().take(MOST_CLAIMS).map(move |metric| (factor, metric)))
        .filter_map(|(factor, metric)| figure(outcome, metric, factor))
        .collect()
}

fn figure(outcome: &Outcome, metric: &Metric, factor: usize) -> Option<Figure> {
    let named = outcome.factors.get(factor)?;
    let lines = by_level(outcome, &metric.name, factor);
    let theory = theory::by_level(outcome, &metric.name, factor);
    let predicted = theory.iter().flat_map(|line| line.by_level.iter()).flatten();
    let measured = lines.iter().flat_map(|l| l.each.iter().flatten()).flatten();
    let y = Axis::of(measured.chain(predicted).copied())?;
    let is_first = outcome.metrics.iter().find(|m| m.role == Role::Claim) == Some(metric);
    let id = if is_first {
        format!("levels-{}", slug(&named.name))
    } else {
        format!("levels-{}-{}", slug(&named.name), slug(&metric.name))
    };
    let has_more = lines.iter().any(|line| line.each.len() > 1);
    let mut caption = match (has_more, are_ordered(&named.levels)) {
        (true, true) => {
            "Faint lines: each combination of the other conditions; strong ones: their median."
        }
        (true, false) => {
            "Small marks: each combination of the other conditions; large ones: their median."
        }
        (false, _) => "Medians over trials, by level.",
    }
    .to_owned();
    if !theory.is_empty() {
        caption.push_str(" Dotted: the closed form, over the range in which it holds.");
    }
    let rows = lines.iter().flat_map(|line| {
        line.middle.iter().zip(&named.levels).map(|(value, level)| {
            let contender = outcome.contender(line.contender);
            vec![contender, level.clone(), super::figure_text(*value, metric.unit)]
        })
    });
    Some(drawn(
        id,
        format!("{} by {}", metric.label, named.name),
        caption,
        numbers(&["contender", &named.name, &metric.label], rows.collect()),
        |size| draw(outcome, metric, (&lines, &theory, &named.levels), y, size),
    ))
}

/// Returns true if the levels are quantities, between which a line means something. Others are kinds of things.
fn are_ordered(levels: &[String]) -> bool {
    levels.iter().all(|level| level.starts_with(|c: char| c.is_ascii_digit()))
}

fn draw(
    outcome: &Outcome,
    metric: &Metric,
    (lines, theory, levels): (&[ByLevel], &[PredictionSeries], &[String]),
    y: Axis,
    size: Size,
) -> String {
    let names: Vec<String> = lines.iter().map(|line| outcome.contender(line.contender)).collect();
    let numbers = lines.iter().map(|line| line.contender);
    let key = LineKey::new(size, numbers.zip(names.iter().map(String::as_str)));
    let top = key.height + 8.0;
    let canvas = Canvas::new(size, top + HEIGHT + 26.0);
    key.draw(&canvas);
    let frame = Frame { left: 60.0, top, right: canvas.width - 8.0, bottom: top + HEIGHT };
    let x = Axis::exact(-0.5, levels.len() as f64 - 0.5);
    let panel = canvas.panel(frame, x, y);
    panel.ticks_left(Quantity::Of(metric.unit));
    let room = (frame.right - frame.left) / levels.len().max(1) as f64 - 6.0;
    for (at, level) in levels.iter().enumerate() {
        let (x, _) = panel.at(at as f64, y.low());
        canvas.text((x, frame.bottom + 13.0), &cut(level, SMALL, room), Ink::Small, Anchor::Middle);
    }
    canvas.stroke((frame.left, frame.bottom), (frame.right, frame.bottom), Ink::Axis);
    let known = |line: &[Option<f64>]| -> Vec<(f64, f64)> {
        line.iter().enumerate().filter_map(|(at, value)| Some((at as f64, (*value)?))).collect()
    };
    for line in theory {
        panel.line(&known(&line.by_level), Ink::Theory(line.contender), "");
    }
    let ordered = are_ordered(levels);
    for (place, (line, name)) in lines.iter().zip(&names).enumerate() {
        let number = line.contender;
        // Marks without lines stand beside each other, so that none hides another.
        let aside = if ordered {
            0.0
        } else {
            (place as f64 + 0.5) / lines.len() as f64 * BESIDE - BESIDE / 2.0
        };
        for each in line.each.iter().filter(|_| line.each.len() > 1).take(MOST_FAINT) {
            if ordered {
                panel.line(&known(each), Ink::Faint(number), "")
            } else {
                known(each).into_iter().for_each(|(at, value)| {
                    panel.mark((at + aside, value), number, Ink::Hollow(number), 1.8, "");
                })
            }
        }
        let middle = known(&line.middle);
        if ordered {
            panel.line(&middle, Ink::KeyLine(number), "");
        }
        for (at, value) in middle {
            let level = levels.get(at as usize).map_or("", String::as_str);
            let words = format!("{name}, {level}: {}", words::figure(value, metric.unit));
            panel.mark((at + aside, value), number, Ink::Dot(number), 3.6, &words);
        }
    }
    canvas.finish()
}

/// Draws the sources of variation of each metric, as bars of one length.
pub(super) fn shares(outcome: &Outcome) -> Option<Figure> {
    let mut parts: Vec<(ShareKind, &str)> = Vec::new();
    for share in &outcome.shares {
        let part = (share.kind, share.factor.as_str());
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let of_metric = |metric: &Metric| {
        outcome.shares.iter().filter(|share| share.metric == metric.name).collect::<Vec<_>>()
    };
    let has_shares = |metric: &&Metric| !of_metric(metric).is_empty();
    let metrics: Vec<&Metric> = outcome.metrics.iter().filter(has_shares).collect();
    if metrics.is_empty() {
        return None;
    }
    let bar = |metric: &&Metric| {
        let piece = |part: &(ShareKind, &str)| {
            let mut shares = of_metric(metric).into_iter();
            let share = shares.find(|share| (share.kind, share.factor.as_str()) == *part)?;
            let at = parts.iter().position(|other| other == part)?;
            let length = if share.share.is_finite() { share.share.clamp(0.0, 1.0) } else { 0.0 };
            let words = format!("{}, {}: {}", metric.label, part.1, words::percent(share.share));
            Some((length, Ink::Part(part_number(share.kind, at)), words))
        };
        Bar {
            row: Row { label: metric.label.clone(), ..Row::default() },
            pieces: parts.iter().filter_map(piece).collect(),
        }
    };
    let bars: Vec<Bar> = metrics.iter().map(bar).collect();
    let rows = outcome.shares.iter().map(|share| {
        let end = |end: Option<f64>| end.map_or_else(|| words::NOTHING.into(), words::percent);
        let share_of = words::percent(share.share);
        vec![share.metric.clone(), share.factor.clone(), share_of, end(share.low), end(share.high)]
    });
    let key: Vec<(usize, &str)> = parts
        .iter()
        .enumerate()
        .map(|(at, (kind, name))| (part_number(*kind, at), *name))
        .collect();
    Some(drawn(
        "shares".into(),
        "What accounts for the variation".into(),
        "The share of the variance of each figure's logarithm that each condition accounts for; \
         interactions, changes from block to block and noise make up the rest."
            .into(),
        numbers(&["metric", "factor", "share of variance", "low", "high"], rows.collect()),
        |size| {
            let x =
                (Axis::exact(0.0, 1.0), Quantity::Of(deadheat_contract::measurements::Unit::Share));
            stacked(size, &key, &bars, x)
        },
    ))
}

/// Returns the number of a share's colour: noise is grey, because it belongs to no factor.
fn part_number(kind: ShareKind, at: usize) -> usize {
    match kind {
        ShareKind::Noise => super::palette::GREY,
        _ => at % super::palette::GREY,
    }
}

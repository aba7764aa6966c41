//! Pairs of contenders: the ratio of their figures with its interval, against the margin.

use super::axis::{Axis, Quantity};
use super::canvas::Size;
use super::ink::Ink;
use super::rows::{Row, Rows, RowsAxis};
use super::{MOST_ROWS, drawn, left_out, numbers, palette, slug};
use crate::content::{entrant, label};
use crate::figure::Figure;
use crate::measurements::{Better, Metric};
use crate::stats;
use crate::{factors, words};
use deadheat_engine::result::outcome::{Outcome, Ratio, Verdict};

const BAND: f64 = 18.0;

/// A pair with its verdict and the ratio to draw.
struct Pair<'a> {
    verdict: &'a Verdict,
    ratio: Ratio,
    label: String,
    outcome: String,
}

/// Returns the figure of one claim: a row for each pair, and one for the control.
pub(super) fn figure(outcome: &Outcome, metric: &Metric) -> Option<Figure> {
    let control = outcome.control.iter().flat_map(|control| &control.verdicts);
    let all: Vec<Pair<'_>> = outcome
        .verdicts
        .iter()
        .chain(control)
        .filter(|verdict| verdict.metric == metric.name)
        .filter_map(|verdict| pair(outcome, verdict))
        .collect();
    let pairs = &all[..all.len().min(MOST_ROWS)];
    let margins = pairs.iter().map(|pair| pair.verdict.margin.max(0.0));
    let margin = margins.filter(|margin| margin.is_finite()).fold(0.0, f64::max);
    let zone = (1.0 / (1.0 + margin), 1.0 + margin);
    let ends = pairs.iter().flat_map(|pair| [pair.ratio.low, pair.ratio.high, pair.ratio.point]);
    let x = Axis::log(ends.chain([zone.0 * 0.99, zone.1 * 1.01]))?;
    if pairs.is_empty() {
        return None;
    }
    let caption = format!(
        "Ratio of the two figures with its interval. An interval within the shaded margin of {} is \
         a dead heat (filled grey), one beyond 1 and past the margin puts one of the two ahead \
         (its colour); a hollow mark is undecided.{}",
        words::margin(margin),
        left_out(all.len(), MOST_ROWS)
    );
    let table = pairs.iter().map(numbers_of).collect();
    Some(drawn(
        format!("pairs-{}", slug(&metric.name)),
        format!("{}: pairs against the margin", metric.label),
        caption,
        numbers(&["pair", "ratio", "low", "high", "margin", "blocks", "verdict"], table),
        |size| draw(outcome, metric, pairs, (x, zone), size),
    ))
}

fn pair<'a>(outcome: &Outcome, verdict: &'a Verdict) -> Option<Pair<'a>> {
    let ratio = verdict.ratio?;
    let is_drawable = |value: f64| value.is_finite() && value > 0.0;
    if ![ratio.low, ratio.point, ratio.high].into_iter().all(is_drawable) {
        return None;
    }
    let name = |id| label(outcome, id);
    let text = if verdict.a == verdict.b {
        let cell = entrant(outcome, verdict.a).and_then(|entrant| entrant.cell.as_ref());
        let copied = cell.map_or_else(|| name(verdict.a), |cell| outcome.contender(cell.contender));
        format!("{copied} / its hidden copy")
    } else {
        factors::pair(outcome, verdict.a, verdict.b)
            .unwrap_or_else(|| format!("{} / {}", name(verdict.a), name(verdict.b)))
    };
    Some(Pair { verdict, ratio, label: text, outcome: factors::short(outcome, verdict) })
}

fn numbers_of(pair: &Pair<'_>) -> Vec<String> {
    let four = |value: f64| format!("{value:.4}");
    vec![
        pair.label.clone(),
        four(pair.ratio.point),
        four(pair.ratio.low),
        four(pair.ratio.high),
        words::percent(pair.verdict.margin),
        pair.verdict.blocks.to_string(),
        pair.outcome.clone(),
    ]
}

fn draw(
    outcome: &Outcome,
    metric: &Metric,
    pairs: &[Pair<'_>],
    (x, zone): (Axis, (f64, f64)),
    size: Size,
) -> String {
    let row = |pair: &Pair<'_>| Row {
        label: pair.label.clone(),
        note: pair.outcome.clone(),
        ..Row::default()
    };
    let rows: Vec<Row> = pairs.iter().map(row).collect();
    let (left, right) = match metric.better {
        Better::Lower => ("first ahead", "second ahead"),
        Better::Higher => ("second ahead", "first ahead"),
    };
    let foot = format!("← {left}   ·   ratio, first / second   ·   {right} →");
    let rows =
        Rows::new(size, &rows, BAND, RowsAxis { x, quantity: Quantity::Number, foot: &foot });
    let panel = rows.panel();
    panel.rectangle((zone.0, 0.0), (zone.1, rows.height()), Ink::Zone, "");
    panel.upright(1.0, Ink::Reference);
    for (at, pair) in pairs.iter().enumerate() {
        let (y, Ratio { point, low, high }) = (rows.y(at), pair.ratio);
        let (ratio, interval) = words::ratio(&pair.ratio);
        let said = format!("{}: {ratio} {interval}, {}", pair.label, pair.outcome);
        let ahead = pair.verdict.ahead.map(|id| palette::number(outcome, id));
        let line = ahead.map_or(Ink::NobodyWhisker, Ink::Whisker);
        panel.interval((low, high), y, line);
        match (pair.verdict.outcome, ahead) {
            (stats::Outcome::Ahead, Some(number)) => {
                panel.mark((point, y), number, Ink::Dot(number), 4.5, &said);
            }
            (stats::Outcome::Undecided, _) => {
                panel.mark((point, y), 0, Ink::NobodyHollow, 4.2, &said);
            }
            _ => panel.mark((point, y), 0, Ink::Nobody, 4.5, &said),
        }
    }
    rows.finish()
}

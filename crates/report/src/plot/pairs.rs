//! Pairs of contenders: the ratio of their figures in each block, and over all with its interval, against the margin.

use std::collections::BTreeMap;

use super::axis::{Axis, Quantity};
use super::canvas::{Panel, Size};
use super::ink::Ink;
use super::rows::{Row, Rows, RowsAxis};
use super::{MOST_ROWS, drawn, left_out, numbers, palette, slug};
use crate::figure::Figure;
use crate::names::{entrant, label};
use crate::{factors, words};
use deadheat_contract::measurements::{Better, Metric};
use deadheat_result::outcome::{Outcome, Ratio, Verdict};
use deadheat_stats as stats;

const BAND: f64 = 30.0;
/// Middles of the interval above the blocks, and of their marks below it, relative to the middle of the band.
const INTERVAL_AT: f64 = -8.0;
const BLOCKS_AT: f64 = 7.0;
/// Width over which marks are spread so that they do not hide each other.
const SPREAD: f64 = 11.0;
/// Maximum number of blocks that are marked, over all pairs, and the number that each pair may mark at least.
const MOST_BLOCKS: usize = 300;
const FEWEST_MARKS: usize = 16;
/// Maximum number of blocks with words each in a figure; beyond, ordinary marks of a pair are one element.
const MOST_WORDS: usize = 240;
/// Share of the blocks of a pair at each end whose marks do not widen the axis; they stand at its ends.
const BEYOND: f64 = 0.05;

/// A pair with its verdict and the ratio to draw.
struct Pair<'a> {
    verdict: &'a Verdict,
    ratio: Ratio,
    label: String,
    outcome: String,
    blocks: Vec<BlockRatio>,
}

/// Ratio of both figures of a block.
struct BlockRatio {
    block: u64,
    ratio: f64,
    /// The side on which the true ratio lies, if one figure is censored at the timeout.
    beyond: Option<Beyond>,
}

/// Side of a ratio on which its true value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Below,
    Above,
}

impl Pair<'_> {
    /// Returns the radius of an arrowhead to a side, if any block's true ratio lies there.
    fn arrow(&self, side: Beyond, r: f64) -> Option<f64> {
        let is_there = self.blocks.iter().any(|block| block.beyond == Some(side));
        is_there.then_some(if side == Beyond::Below { -r } else { r })
    }

    /// Returns the ratios of most blocks, which the axis has room for.
    fn usual(&self) -> impl Iterator<Item = f64> {
        let mut all: Vec<f64> = self.blocks.iter().map(|block| block.ratio).collect();
        all.sort_unstable_by(f64::total_cmp);
        let out = (all.len() as f64 * BEYOND).ceil() as usize;
        let kept = all.len().saturating_sub(2 * out);
        all.into_iter().skip(out).take(kept)
    }
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
    let blocks = pairs.iter().flat_map(Pair::usual);
    let x = Axis::log(ends.chain(blocks).chain([zone.0 * 0.99, zone.1 * 1.01]))?;
    if pairs.is_empty() {
        return None;
    }
    let has_bounds = pairs.iter().any(|pair| pair.blocks.iter().any(|b| b.beyond.is_some()));
    let censored = if has_bounds {
        " An arrowhead points to where a true ratio lies of which only a bound is known, as a message has no answer in \
         time."
    } else {
        ""
    };
    let caption = format!(
        "Above: the ratio of the two figures with its interval. An interval within the shaded margin of {} is \
         a dead heat (filled grey), one beyond 1 and past the margin puts one of the two ahead \
         (its colour); a hollow mark is undecided. Below: the ratio in each block.{censored}{}",
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
    let short = factors::short(outcome, verdict);
    Some(Pair { verdict, ratio, label: text, outcome: short, blocks: blocks(outcome, verdict) })
}

/// Returns the ratios of a verdict's pair in the blocks in which both have a valid trial. Where both figures are
/// censored nothing is known of their ratio.
fn blocks(outcome: &Outcome, verdict: &Verdict) -> Vec<BlockRatio> {
    let column = |contender: usize, is_copy: bool| -> BTreeMap<u64, (f64, bool)> {
        let own = outcome.trials.iter().filter(|trial| trial.record.valid);
        own.filter(|trial| (trial.contender, trial.control) == (contender, is_copy))
            .filter_map(|trial| {
                let value = *trial.record.metrics.get(&verdict.metric)?;
                let censored = trial.record.censored.contains(&verdict.metric);
                Some((trial.block, (value, censored)))
            })
            .collect()
    };
    let (a, b) = (column(verdict.a, false), column(verdict.b, verdict.a == verdict.b));
    let ratio = |(block, (a, a_censored)): (&u64, &(f64, bool))| {
        let (b, b_censored) = *b.get(block)?;
        let beyond = match (*a_censored, b_censored) {
            (true, true) => return None,
            (true, false) => Some(Beyond::Above),
            (false, true) => Some(Beyond::Below),
            (false, false) => None,
        };
        let ratio = a / b;
        (ratio.is_finite() && ratio > 0.0).then_some(BlockRatio { block: *block, ratio, beyond })
    };
    a.iter().filter_map(ratio).collect()
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
    let most = (MOST_BLOCKS / pairs.len().max(1)).max(FEWEST_MARKS);
    let each = pairs.iter().map(|pair| pair.blocks.len()).sum::<usize>() <= MOST_WORDS;
    for (at, pair) in pairs.iter().enumerate() {
        let (y, Ratio { point, low, high }) = (rows.y(at) + INTERVAL_AT, pair.ratio);
        let (ratio, interval) = words::ratio(&pair.ratio);
        let said = format!("{}: {ratio} {interval}, {}", pair.label, pair.outcome);
        let ahead = pair.verdict.ahead.map(|id| palette::number(outcome, id));
        let line = ahead.map_or(Ink::NobodyWhisker, Ink::Whisker);
        panel.interval((low, high), y, line);
        let ends = [(low, pair.arrow(Beyond::Below, 7.0)), (high, pair.arrow(Beyond::Above, 7.0))];
        for (end, arrow) in ends {
            if let Some(r) = arrow {
                panel.arrow((end, y), ahead.map_or(Ink::Nobody, Ink::Dot), r, "");
            }
        }
        marks(&panel, pair, rows.y(at) + BLOCKS_AT, (most, each));
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

/// Draws the ratios of at most `most` blocks, around the height `y`; with `each`, every one has words of its own.
fn marks(panel: &Panel<'_>, pair: &Pair<'_>, y: f64, (most, each): (usize, bool)) {
    let every = pair.blocks.len().div_ceil(most).max(1);
    let mut many = Vec::new();
    for (at, block) in pair.blocks.iter().enumerate().step_by(every) {
        // The golden ratio spreads any number of neighbours evenly.
        let y = y + SPREAD * ((at as f64 * 0.618_033_988_75).fract() - 0.5);
        let place = (block.ratio, y);
        let bound = match block.beyond {
            Some(Beyond::Below) => "at most ",
            Some(Beyond::Above) => "at least ",
            None => "",
        };
        let said = if each {
            format!("{}, block {}: {bound}{:.4}", pair.label, block.block, block.ratio)
        } else {
            String::new()
        };
        match block.beyond {
            None if !each => many.push(place),
            None => panel.mark(place, 0, Ink::Nobody, 1.9, &said),
            Some(Beyond::Below) => panel.arrow(place, Ink::Nobody, -2.6, &said),
            Some(Beyond::Above) => panel.arrow(place, Ink::Nobody, 2.6, &said),
        }
    }
    if !many.is_empty() {
        panel.line(&many, Ink::NobodyDots, "");
    }
}

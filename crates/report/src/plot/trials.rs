//! Trials of one metric: a box for each contender, and every trial as a mark.

use super::axis::{self, Axis, Quantity};
use super::canvas::{Panel, Size};
use super::ink::Ink;
use super::rows::{Row, Rows, RowsAxis};
use super::{drawn, numbers, order, palette, slug};
use crate::figure::Figure;
use crate::names::label;
use crate::results::Bound;
use crate::words::{self, Scale};
use deadheat_contract::measurements::Metric;
use deadheat_result::analysis::spread::{self, FiveNumbers, five_numbers};
use deadheat_result::outcome::{Outcome, Summary, Trial};

const BAND: f64 = 32.0;
/// Middles of the box above the marks, and of the marks below it, relative to the middle of the band.
const BOX_AT: f64 = -8.0;
const MARKS_AT: f64 = 8.0;
const HALF_BOX: f64 = 5.0;
/// Width over which marks are spread so that they do not hide each other.
const SPREAD: f64 = 11.0;

/// Maximum number of trials with words each; beyond, a figure has one element for all ordinary marks of a
/// contender.
const MOST_WORDS: usize = 480;
/// Maximum number of trials that are all marked; beyond, only every so many of a contender are.
const MOST_MARKS: usize = 4_000;

/// Contender with its trials.
struct TrialsRow<'a> {
    number: usize,
    label: String,
    trials: Vec<(&'a Trial, f64)>,
    five: Option<FiveNumbers>,
    summary: Option<&'a Summary>,
    bound: Option<Bound>,
}

impl TrialsRow<'_> {
    /// Returns `> ` for a value that is only a lower bound on the true figure.
    fn more(&self, value: f64) -> &'static str {
        if self.bound.as_ref().is_some_and(|bound| bound.holds(value)) { "> " } else { "" }
    }
}

/// State of a trial in the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Counted,
    Censored,
    Excluded,
}

impl Fate {
    fn of(trial: &Trial, metric: &Metric) -> Fate {
        match () {
            () if !trial.record.valid => Fate::Excluded,
            () if trial.record.censored.contains(&metric.name) => Fate::Censored,
            () => Fate::Counted,
        }
    }
}

/// Draws the figure of one metric.
pub(super) fn figure(outcome: &Outcome, metric: &Metric) -> Option<Figure> {
    let (ids, left_out) = order(outcome);
    let entries: Vec<TrialsRow<'_>> =
        ids.into_iter().filter_map(|id| entry(outcome, metric, id)).collect();
    let values = entries.iter().flat_map(|entry| entry.trials.iter().map(|(_, value)| *value));
    let x = Axis::of(values)?;
    Some(drawn(
        format!("trials-{}", slug(&metric.name)),
        format!("{} of each trial", metric.label),
        format!("{}{left_out}", caption(metric, &entries)),
        numbers_of(metric, &entries),
        |size| draw(metric, &entries, x, size),
    ))
}

fn entry<'a>(outcome: &'a Outcome, metric: &Metric, id: usize) -> Option<TrialsRow<'a>> {
    let own = outcome.trials.iter().filter(|trial| trial.contender == id && !trial.control);
    let trials: Vec<(&Trial, f64)> = own
        .filter_map(|trial| Some((trial, *trial.record.metrics.get(&metric.name)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    if trials.is_empty() {
        return None;
    }
    let summary = outcome.summary.iter().find(|s| s.contender == id && s.metric == metric.name);
    Some(TrialsRow {
        number: palette::number(outcome, id),
        label: label(outcome, id),
        five: five_numbers(&mut spread::figures(outcome, id, &metric.name)),
        trials,
        bound: summary.map(|summary| Bound::of(outcome, summary)),
        summary,
    })
}

fn caption(metric: &Metric, entries: &[TrialsRow<'_>]) -> String {
    let has = |fate| {
        entries.iter().any(|e| e.trials.iter().any(|(trial, _)| Fate::of(trial, metric) == fate))
    };
    let mut caption =
        "One mark is one trial. The box holds the middle half of the valid ones, its thick line is \
         their median; whiskers reach the furthest within 1.5 times the box."
            .to_owned();
    if entries.iter().any(|entry| regimes(entry).is_some()) {
        caption.push_str(" Diamonds over a box: two clusters of trials, which one figure hides.");
    }
    if has(Fate::Censored) {
        caption.push_str(" An arrowhead is a trial in which the true figure lies beyond.");
    }
    if has(Fate::Excluded) {
        caption.push_str(" Hollow: excluded by its gate, in no figure.");
    }
    caption
}

fn regimes(entry: &TrialsRow<'_>) -> Option<[f64; 2]> {
    let regimes = entry.summary?.regimes?;
    Some(regimes.map(|regime| regime.centre))
}

fn numbers_of(metric: &Metric, entries: &[TrialsRow<'_>]) -> crate::figure::Numbers {
    let all = entries.iter().filter_map(|entry| entry.five).map(|five| five.median);
    let scale = Scale::of(all, metric.unit);
    let headings = ["least", "lower quartile", "median", "upper quartile", "greatest"]
        .map(|what| format!("{what}, {}", scale.unit()));
    let mut table = numbers(&["contender", "valid trials", "excluded", "censored"], Vec::new());
    table.headings.extend(headings);
    for entry in entries {
        let count = |fate| {
            let is = |(trial, _): &&(&Trial, f64)| Fate::of(trial, metric) == fate;
            entry.trials.iter().filter(is).count().to_string()
        };
        let n = entry.five.map_or(0, |five| five.n);
        let mut row =
            vec![entry.label.clone(), n.to_string(), count(Fate::Excluded), count(Fate::Censored)];
        let figures = entry.five.map(|five| [five.min, five.q1, five.median, five.q3, five.max]);
        row.extend(match figures {
            Some(figures) => figures
                .map(|value| format!("{}{}", entry.more(value), axis::plain(scale.times(value)))),
            None => [words::NOTHING; 5].map(String::from),
        });
        table.rows.push(row);
    }
    table
}

fn draw(metric: &Metric, entries: &[TrialsRow<'_>], x: Axis, size: Size) -> String {
    let row = |entry: &TrialsRow<'_>| {
        let excluded = entry.trials.iter().filter(|(trial, _)| !trial.record.valid).count();
        let n = entry.trials.len();
        let trials = if excluded == 0 { n.to_string() } else { format!("{} of {n}", n - excluded) };
        let median = entry.five.map_or_else(String::new, |five| {
            let more = entry.more(five.median);
            format!("{more}{} · ", words::figure(five.median, metric.unit))
        });
        Row {
            label: entry.label.clone(),
            number: Some(entry.number),
            note: format!("{median}n {trials}"),
            heading: None,
        }
    };
    let rows: Vec<Row> = entries.iter().map(row).collect();
    let axis = RowsAxis { x, quantity: Quantity::Of(metric.unit), foot: "" };
    let rows = Rows::new(size, &rows, BAND, axis);
    let panel = rows.panel();
    let each = entries.iter().map(|entry| entry.trials.len()).sum::<usize>() <= MOST_WORDS;
    for (at, entry) in entries.iter().enumerate() {
        let middle = rows.y(at);
        if let Some(five) = &entry.five {
            boxed(&panel, five, entry.number, middle + BOX_AT);
        }
        for centre in regimes(entry).into_iter().flatten() {
            let y = middle + BOX_AT - HALF_BOX - 3.0;
            let words = format!(
                "{}: a cluster of trials around {}",
                entry.label,
                words::figure(centre, metric.unit)
            );
            panel.mark((centre, y), 2, Ink::Hollow(entry.number), 2.6, &words);
        }
        marks(&panel, metric, entry, middle + MARKS_AT, each);
    }
    rows.finish()
}

fn boxed(panel: &Panel<'_>, five: &FiveNumbers, number: usize, y: f64) {
    let whisker = Ink::Whisker(number);
    for (from, to) in [(five.low, five.q1), (five.q3, five.high)] {
        if from != to {
            panel.line(&[(from, y), (to, y)], whisker, "");
        }
    }
    for end in [five.low, five.high] {
        panel.line(&[(end, y - 3.0), (end, y + 3.0)], whisker, "");
    }
    panel.rectangle((five.q1, y - HALF_BOX), (five.q3, y + HALF_BOX), Ink::Box(number), "");
    let median = [(five.median, y - HALF_BOX), (five.median, y + HALF_BOX)];
    panel.line(&median, Ink::Middle(number), "");
}

/// Draws the trials; with `each`, every trial has words of its own, else ordinary ones are one element.
fn marks(panel: &Panel<'_>, metric: &Metric, entry: &TrialsRow<'_>, y: f64, each: bool) {
    let number = entry.number;
    let every = entry.trials.len().div_ceil(MOST_MARKS);
    let mut many = Vec::new();
    for (at, (trial, value)) in entry.trials.iter().enumerate() {
        // The golden ratio spreads any number of neighbours evenly.
        let at_place = (at as f64 * 0.618_033_988_75).fract() - 0.5;
        let place = (*value, y + SPREAD * at_place);
        let fate = Fate::of(trial, metric);
        if !each && fate == Fate::Counted {
            if at.is_multiple_of(every) {
                many.push(place);
            }
            continue;
        }
        let text = if each || at.is_multiple_of(every) {
            trial_text(metric, &entry.label, trial, *value, fate)
        } else {
            continue;
        };
        match fate {
            Fate::Counted => panel.mark(place, number, Ink::Dot(number), 2.4, &text),
            Fate::Excluded => panel.mark(place, number, Ink::Hollow(number), 2.2, &text),
            Fate::Censored => panel.arrow(place, Ink::Dot(number), 2.6, &text),
        }
    }
    if !many.is_empty() {
        panel.line(&many, Ink::Dots(number), "");
    }
}

fn trial_text(metric: &Metric, label: &str, trial: &Trial, value: f64, fate: Fate) -> String {
    let figure = match fate {
        Fate::Censored => words::beyond(value, metric.unit),
        _ => words::figure(value, metric.unit),
    };
    let excluded = if fate == Fate::Excluded { ", excluded" } else { "" };
    format!("{label}, block {}: {figure}{excluded}", trial.block)
}

//! Figures from block to block, each relative to its contender's own median, to show drift.

use super::axis::{Axis, Quantity};
use super::canvas::Size;
use super::facets::Facets;
use super::ink::Ink;
use super::{drawn, left_out, numbers, order, palette, slug};
use crate::figure::Figure;
use crate::names::label;
use crate::words;
use deadheat_contract::measurements::Metric;
use deadheat_result::analysis::spread;
use deadheat_result::imported::ImportOrigin;
use deadheat_result::outcome::{Outcome, Trial};
use deadheat_stats::quantile::median;

const HEIGHT: f64 = 74.0;
/// Maximum number of panels: readers skip more.
const MOST_PANELS: usize = 16;
/// Minimum number of blocks that show drift.
const FEWEST_BLOCKS: u64 = 3;
/// Maximum number of marks of one contender; with more trials, only every so many is marked and listed.
const MOST_MARKS: usize = 200;
/// Maximum number of marks with words of their own in a figure; beyond, the marks of a contender are one element.
const MOST_WORDS: usize = 480;

/// A contender's valid trials in the order of blocks.
struct BlockSeries<'a> {
    number: usize,
    label: String,
    median: f64,
    trials: Vec<(&'a Trial, f64)>,
}

impl<'a> BlockSeries<'a> {
    /// Returns the trials that are marked.
    fn marked(&self) -> impl Iterator<Item = (&'a Trial, f64)> {
        let every = self.trials.len().div_ceil(MOST_MARKS).max(1);
        self.trials.iter().step_by(every).copied()
    }
}

/// Returns the figure of one metric; `None` with too few blocks to show drift.
pub(super) fn figure(outcome: &Outcome, metric: &Metric) -> Option<Figure> {
    if !outcome.imported.as_ref().is_none_or(ImportOrigin::is_of_page) {
        // The order of trials is unknown; sorted figures would look like drift.
        return None;
    }
    let (ids, _) = order(outcome);
    let mut courses: Vec<BlockSeries<'_>> =
        ids.into_iter().filter_map(|id| course(outcome, metric, id)).collect();
    let all = courses.len();
    courses.truncate(MOST_PANELS);
    let blocks = || courses.iter().flat_map(|c| c.trials.iter().map(|(trial, _)| trial.block));
    let (first, last) = (blocks().min()?, blocks().max()?);
    if last - first + 1 < FEWEST_BLOCKS {
        return None;
    }
    let ratios = courses.iter().flat_map(|c| c.trials.iter().map(|(_, value)| value / c.median));
    let y = Axis::log(ratios.chain([0.98, 1.02]))?;
    let x = Axis::exact(first as f64 - 0.5, last as f64 + 0.5);
    let rows = courses.iter().flat_map(|course| {
        course.marked().map(|(trial, value)| {
            vec![course.label.clone(), trial.block.to_string(), words::figure(value, metric.unit)]
        })
    });
    Some(drawn(
        format!("time-{}", slug(&metric.name)),
        format!("{} from block to block", metric.label),
        format!(
            "Each valid trial as a multiple of its contender's median, in the order of blocks. Level \
             rows of marks: nothing drifted; the same slope in all panels: the host did.{}",
            left_out(all, MOST_PANELS)
        ),
        numbers(&["contender", "block", &metric.label], rows.collect()),
        |size| draw(metric, &courses, (x, y), size),
    ))
}

fn course<'a>(outcome: &'a Outcome, metric: &Metric, id: usize) -> Option<BlockSeries<'a>> {
    let median = median(&spread::figures(outcome, id, &metric.name))?;
    let mut trials: Vec<(&Trial, f64)> = spread::valid_trials(outcome, id)
        .filter_map(|trial| Some((trial, *trial.record.metrics.get(&metric.name)?)))
        .filter(|(_, value)| value.is_finite() && *value > 0.0)
        .collect();
    trials.sort_by_key(|(trial, _)| trial.block);
    (median > 0.0 && !trials.is_empty()).then(|| BlockSeries {
        number: palette::number(outcome, id),
        label: label(outcome, id),
        median,
        trials,
    })
}

fn draw(metric: &Metric, courses: &[BlockSeries<'_>], (x, y): (Axis, Axis), size: Size) -> String {
    let facets = Facets::new(size, courses.len(), HEIGHT);
    let each = courses.iter().map(|course| course.marked().count()).sum::<usize>() <= MOST_WORDS;
    for (at, course) in courses.iter().enumerate() {
        let number = course.number;
        let note = format!("1 = {}", words::figure(course.median, metric.unit));
        facets.title(at, &course.label, Some(number), &note);
        let panel = facets.canvas.panel(facets.frame(at), x, y);
        panel.ticks_left(Quantity::Number);
        panel.ticks_below(Quantity::Number);
        panel.level(1.0, Ink::Reference);
        let place = |(trial, value): (&Trial, f64)| (trial.block as f64, value / course.median);
        let line: Vec<(f64, f64)> = course.marked().map(place).collect();
        panel.line(&line, Ink::Faint(number), "");
        if !each {
            panel.line(&line, Ink::Dots(number), "");
            continue;
        }
        for (trial, value) in course.marked() {
            let figure = words::figure(value, metric.unit);
            let words = format!("{}, block {}: {figure}", course.label, trial.block);
            panel.mark(place((trial, value)), number, Ink::Dot(number), 2.2, &words);
        }
    }
    facets.canvas.finish()
}

//! Spread of the trials of each contender, in box plots.

use super::boxes::{BoxAxis, BoxRow, Boxes, Steps};
use super::document::{Block, Section};
use super::names::label;
use super::results;
use super::words::{self, Scale};
use deadheat_contract::measurements::{Metric, Role};
use deadheat_result::analysis::spread::{self, valid_trials};
use deadheat_result::outcome::Outcome;

/// Maximum number of contenders that are drawn; a race over conditions may have hundreds.
const MOST: usize = 40;

/// Returns the section with a plot for each claimed metric of which some contender has two figures.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let claims = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    let blocks = claims.filter_map(|metric| Some(Block::Boxes(boxes(outcome, metric)?)));
    Section::new("Spread of the trials", blocks.collect())
}

fn legend(rows: &[BoxRow], steps: Steps, metric: &Metric, outcome: &Outcome) -> String {
    let axis = match steps {
        Steps::Even => "",
        Steps::Logarithmic => ", on a logarithmic axis",
    };
    let mut legend = format!(
        "{} of each valid trial{axis}. Box: the middle half, ┃ the median; whiskers: the furthest \
         trials within 1.5 boxes of it; · further ones.",
        metric.label
    );
    if rows.iter().any(|row| !row.censored.is_empty()) {
        legend.push_str(" › is only known to be greater.");
    }
    if outcome.contenders.len() > MOST {
        let those = words::count(MOST as u64, "contender");
        legend.push_str(&format!(" Only the first {those} are drawn."));
    }
    legend
}

fn boxes(outcome: &Outcome, metric: &Metric) -> Option<Boxes> {
    let rows = results::rows(outcome).into_iter();
    let rows: Vec<BoxRow> = rows.filter_map(|id| row(outcome, id, metric)).take(MOST).collect();
    if rows.iter().all(|row| row.five.n < 2) {
        return None;
    }
    let least = rows.iter().map(|row| row.five.min).fold(f64::INFINITY, f64::min);
    let greatest = rows.iter().map(|row| row.five.max).fold(f64::NEG_INFINITY, f64::max);
    let axis = BoxAxis::new(least, greatest);
    let scale = |value: f64| {
        // Distant ends have units of their own.
        let shared: &[f64] = match axis.steps {
            Steps::Even => &[least, greatest],
            Steps::Logarithmic => &[value],
        };
        Scale::of(shared.iter().copied(), metric.unit).with_unit(value)
    };
    let ends = (scale(least), scale(greatest));
    let legend = legend(&rows, axis.steps, metric, outcome);
    Some(Boxes { rows, legend, axis, ends })
}

fn row(outcome: &Outcome, contender: usize, metric: &Metric) -> Option<BoxRow> {
    let mut figures = spread::figures(outcome, contender, &metric.name);
    let five = spread::five_numbers(&mut figures)?;
    let is_far = |value: &f64| *value < five.low || *value > five.high;
    let trials = valid_trials(outcome, contender);
    let censored = trials.filter(|trial| trial.record.censored.contains(&metric.name));
    Some(BoxRow {
        name: label(outcome, contender),
        far: figures.into_iter().filter(is_far).collect(),
        censored: censored
            .filter_map(|trial| trial.record.metrics.get(&metric.name).copied())
            .filter(|value| value.is_finite())
            .collect(),
        five,
    })
}

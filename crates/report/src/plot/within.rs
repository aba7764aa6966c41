//! Course of trials from start to end: goodput, or the mean round trip.

use super::axis::{Axis, Quantity};
use super::canvas::Size;
use super::facets::Facets;
use super::ink::Ink;
use super::{drawn, left_out, numbers, order, palette};
use crate::figure::Figure;
use crate::names::label;
use crate::words;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::series::{Series, goodput_bps};
use deadheat_result::analysis::spread;
use deadheat_result::outcome::{Outcome, Trial};

const HEIGHT: f64 = 92.0;
const MOST_PANELS: usize = 16;
/// Maximum number of trials shown beside the typical one. Below: the maximum number of points of each line.
const MOST_OTHERS: usize = 6;
const OTHERS_POINTS: usize = 24;
const MOST_POINTS: usize = 60;

/// Points of a line: nanoseconds after the start, and a figure.
type Points = Vec<(f64, f64)>;

/// A contender's typical trial, and some of the others.
struct TrialCurves {
    number: usize,
    label: String,
    block: u64,
    typical: Points,
    others: Vec<Points>,
}

/// Draws the figure, if trials kept a series.
pub(super) fn figure(outcome: &Outcome) -> Option<Figure> {
    let metric = outcome.metrics.first()?;
    let (ids, _) = order(outcome);
    let mut courses: Vec<TrialCurves> =
        ids.into_iter().filter_map(|id| course(outcome, id, &metric.name, metric.unit)).collect();
    let all = courses.len();
    courses.truncate(MOST_PANELS);
    let points_of = || courses.iter().flat_map(|c| c.others.iter().chain([&c.typical])).flatten();
    let end = points_of().map(|(at, _)| *at).fold(0.0, f64::max);
    if end <= 0.0 {
        return None;
    }
    let values = || points_of().map(|(_, value)| *value);
    let (unit, what, y) = match metric.unit {
        Unit::BitRate => (Unit::BitRate, "Goodput", Axis::from_zero(values())?),
        Unit::Nanos | Unit::Share | Unit::Count => {
            (Unit::Nanos, "Mean round trip", Axis::of(values().filter(|value| *value > 0.0))?)
        }
    };
    let rows = courses.iter().flat_map(|course| {
        course.typical.iter().map(|(at, value)| {
            let time = words::figure(*at, Unit::Nanos);
            vec![course.label.clone(), time, words::figure(*value, unit)]
        })
    });
    Some(drawn(
        "within-trial".into(),
        format!("{what} within trials"),
        format!(
            "{what} from the start of a trial to its end: of each contender's typical trial, whose \
             {} is nearest to the median, and faintly of up to {MOST_OTHERS} others.{}",
            metric.label,
            left_out(all, MOST_PANELS)
        ),
        numbers(&["contender", "time from start", what], rows.collect()),
        |size| draw(&courses, (Axis::exact(0.0, end), y), unit, size),
    ))
}

fn course(outcome: &Outcome, id: usize, metric: &str, unit: Unit) -> Option<TrialCurves> {
    let has_course = |trial: &Trial| points(trial, unit, MOST_POINTS).len() > 1;
    let typical = spread::typical(outcome, id, metric, has_course)?;
    let others: Vec<&Trial> = spread::valid_trials(outcome, id)
        .filter(|trial| (trial.block, trial.order) != (typical.block, typical.order))
        .collect();
    let every = others.len().div_ceil(MOST_OTHERS).max(1);
    let others = others.into_iter().step_by(every);
    let line = points(typical, unit, MOST_POINTS);
    (line.len() > 1).then(|| TrialCurves {
        number: palette::number(outcome, id),
        label: label(outcome, id),
        block: typical.block,
        typical: line,
        others: others.map(|trial| points(trial, unit, OTHERS_POINTS)).collect(),
    })
}

/// Returns at most `most` points of a trial's series: rates in the middle of their intervals, round trips
/// at the end.
fn points(trial: &Trial, unit: Unit, most: usize) -> Points {
    let record = &trial.record;
    if unit == Unit::BitRate {
        let flows: Vec<&Series> = record.intervals.iter().chain(&record.far_intervals).collect();
        let end = flows.iter().filter_map(|flow| flow.at_ns.last()).max().copied().unwrap_or(0);
        let known = flows.iter().map(|flow| flow.at_ns.len()).max().unwrap_or(0);
        let rates = goodput_bps(&flows, known.min(most) as u64);
        let each = end as f64 / rates.len().max(1) as f64;
        return (0..).zip(rates).map(|(at, rate)| ((f64::from(at) + 0.5) * each, rate)).collect();
    }
    let Some(series) = record.intervals.iter().find(|series| !series.rtt_n.is_empty()) else {
        return Vec::new();
    };
    let n = series.rtt_n.len().min(series.at_ns.len());
    let group = series.rtt_n.len().div_ceil(most).max(1);
    let ends = (0..n).map(|at| ((at + 1) * group).min(n)).map(|end| series.at_ns[end - 1] as f64);
    let means = series.round_trips(most).into_iter().map(|rtt| rtt.mean_ns());
    ends.zip(means).filter_map(|(at, mean)| Some((at, mean? as f64))).collect()
}

fn draw(courses: &[TrialCurves], (x, y): (Axis, Axis), unit: Unit, size: Size) -> String {
    let facets = Facets::new(size, courses.len(), HEIGHT);
    for (at, course) in courses.iter().enumerate() {
        let number = course.number;
        facets.title(at, &course.label, Some(number), &format!("block {}", course.block));
        let panel = facets.canvas.panel(facets.frame(at), x, y);
        panel.ticks_left(Quantity::Of(unit));
        panel.ticks_below(Quantity::Of(Unit::Nanos));
        for other in course.others.iter().filter(|other| other.len() > 1) {
            panel.line(other, Ink::Faint(number), "");
        }
        let values = || course.typical.iter().map(|(_, value)| *value);
        let words = format!(
            "{}, block {}: from {} to {}",
            course.label,
            course.block,
            words::figure(values().fold(f64::INFINITY, f64::min), unit),
            words::figure(values().fold(0.0, f64::max), unit)
        );
        panel.line(&course.typical, Ink::Solid(number), &words);
    }
    facets.canvas.finish()
}

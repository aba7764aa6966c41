//! Drawing of the work over time beside a load, one line for each contender: figures of the work, its losses,
//! and the rate of the load.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Panel, SMALL, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::{drawn, figure_text, label, left_out, numbers, palette};
use crate::figure::Figure;
use crate::{names, words};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Unit;
use deadheat_result::analysis::course::{self, Band, Bands, Course, Courses};
use deadheat_result::outcome::Outcome;
use deadheat_stats::quantile::median;

/// Maximum number of distinguishable lines, and of lines with distinguishable bands.
const MOST_LINES: usize = 8;
const MOST_BANDS: usize = 4;
/// Maximum number of figures of a race over conditions.
const MOST_FIGURES: usize = 4;

/// Heights: of the first panel, of the panels under it, of a name over each, of the labels of the time.
const FIRST: f64 = 150.0;
const OTHER: f64 = 66.0;
const NAME: f64 = 20.0;
const BELOW: f64 = 40.0;
const LEFT: f64 = 60.0;

/// Panel of a figure.
struct Strip {
    name: String,
    unit: Quantity,
    y: Axis,
    of: fn(&Course) -> &Bands,
}

/// Draws a figure for each combination of conditions under which contenders ran beside a load with phases.
pub(super) fn figures(outcome: &Outcome) -> Vec<Figure> {
    let all = course::courses(outcome);
    all.iter().take(MOST_FIGURES).filter_map(|courses| figure(outcome, courses)).collect()
}

fn figure(outcome: &Outcome, courses: &Courses) -> Option<Figure> {
    let unit = match courses.quantity {
        course::Quantity::RoundTrip | course::Quantity::Delay => Unit::Nanos,
        course::Quantity::Goodput => Unit::BitRate,
    };
    // If only bytes are known over time, they are drawn, whatever phases the work has.
    let label = if unit == Unit::BitRate { "goodput" } else { courses.label };
    let what = words::capital(label);
    let lines = &courses.lines[..courses.lines.len().min(MOST_LINES)];
    let step = Nanos(courses.step_ns);
    let mean = if unit == Unit::Nanos { "mean of " } else { "" };
    let name = format!("{label}, {mean}each {step}");
    let strips = strips(lines, name, unit)?;
    let values = if lines.len() > MOST_BANDS {
        "Medians over trials."
    } else {
        "Lines: medians over trials; bands: the middle half of the trials."
    };
    let caption = format!(
        "{what} over time, with the load from {} to {} shaded. {values}{}",
        courses.stint.from,
        courses.stint.end(),
        left_out(courses.lines.len(), MOST_LINES)
    );
    Some(drawn(
        "over-time".into(),
        title(outcome, courses, &what),
        caption,
        numbers(
            &["contender", "time from start", &what, "lost", "goodput of the load"],
            rows(outcome, courses, lines, unit),
        ),
        |size| draw(outcome, courses, lines, &strips, size),
    ))
}

/// Returns the title, with the conditions if they are varied.
fn title(outcome: &Outcome, courses: &Courses, what: &str) -> String {
    let first = courses.lines.first().and_then(|line| names::entrant(outcome, line.contender));
    let levels = first.and_then(|entrant| entrant.cell.as_ref()).map(|cell| &cell.levels);
    let named =
        outcome.factors.iter().zip(levels.into_iter().flatten()).filter_map(|(factor, level)| {
            Some(format!("{}={}", factor.name, factor.levels.get(*level)?))
        });
    let conditions = named.collect::<Vec<_>>().join(", ");
    if conditions.is_empty() {
        format!("{what} before, during and after the load")
    } else {
        format!("{what} before, during and after the load: {conditions}")
    }
}

fn rows(outcome: &Outcome, courses: &Courses, lines: &[Course], unit: Unit) -> Vec<Vec<String>> {
    let middle = |bands: &Bands, at: usize| bands.get(at).copied().flatten().map(|b| b.middle);
    let row = |line: &Course, at: usize| {
        let time = Nanos(courses.step_ns * at as u64 + courses.step_ns / 2);
        vec![
            names::label(outcome, line.contender),
            words::figure(time.0 as f64, Unit::Nanos),
            figure_text(middle(&line.work, at), unit),
            figure_text(middle(&line.lost, at), Unit::Share),
            figure_text(middle(&line.load, at), Unit::BitRate),
        ]
    };
    let of_line = |line| (0..courses.lines[0].work.len()).map(move |at| row(line, at));
    lines.iter().flat_map(of_line).collect()
}

/// Returns the panels, without empty ones.
fn strips(lines: &[Course], name: String, unit: Unit) -> Option<Vec<Strip>> {
    let ends = |of: fn(&Course) -> &Bands| {
        let bands = lines.iter().flat_map(of).flatten();
        bands.flat_map(|band| [band.low, band.middle, band.high]).collect::<Vec<f64>>()
    };
    let y = match unit {
        Unit::BitRate => Axis::from_zero(ends(|line| &line.work))?,
        Unit::Nanos | Unit::Share | Unit::Count => Axis::of(ends(|line| &line.work))?,
    };
    let mut strips = vec![Strip { name, unit: Quantity::Of(unit), y, of: |line| &line.work }];
    let mut more = |name: &str, unit: Quantity, of: fn(&Course) -> &Bands| {
        let mut bands = lines.iter().flat_map(of).flatten();
        let happens = bands.any(|band| band.middle > 0.0);
        if let Some(y) = Axis::from_zero(ends(of)).filter(|_| happens) {
            strips.push(Strip { name: name.to_owned(), unit, y, of });
        }
    };
    more("messages lost", Quantity::Of(Unit::Share), |line| &line.lost);
    more("goodput of the load", Quantity::Of(Unit::BitRate), |line| &line.load);
    more("segments of the load sent again, per second", Quantity::Number, |line| &line.again);
    Some(strips)
}

fn draw(
    outcome: &Outcome,
    courses: &Courses,
    lines: &[Course],
    strips: &[Strip],
    size: Size,
) -> String {
    let label = |line: &Course| names::label(outcome, line.contender);
    let names: Vec<String> = lines.iter().map(label).collect();
    let number = |line: &Course| palette::number(outcome, line.contender);
    let key = LineKey::new(size, lines.iter().map(number).zip(names.iter().map(String::as_str)));
    let heights: f64 = FIRST + OTHER * (strips.len() - 1) as f64 + NAME * strips.len() as f64;
    let canvas = Canvas::new(size, key.height + heights + BELOW + 18.0);
    key.draw(&canvas);
    let whole = (courses.step_ns * lines[0].work.len() as u64) as f64;
    let x = Axis::exact(0.0, whole);
    let mut top = key.height + 18.0;
    for (at, strip) in strips.iter().enumerate() {
        let height = if at == 0 { FIRST } else { OTHER };
        let frame = Frame {
            left: LEFT,
            top: top + NAME,
            right: canvas.width - 12.0,
            bottom: top + NAME + height,
        };
        let panel = canvas.panel(frame, x, strip.y);
        shade(&panel, courses, strip.y);
        if at == 0 {
            phases(&canvas, &panel, courses, whole);
        }
        panel.ticks_left(strip.unit);
        if at + 1 == strips.len() {
            panel.ticks_below(Quantity::Of(Unit::Nanos));
            let under = ((frame.left + frame.right) / 2.0, frame.bottom + 28.0);
            canvas.text(under, "time from the start of the work", Ink::Small, Anchor::Middle);
        } else {
            panel.grid_below();
        }
        canvas.text((frame.left, frame.top - 9.0), &strip.name, Ink::Small, Anchor::Left);
        for (line, name) in lines.iter().zip(&names) {
            curve(&panel, courses, strip, line, (number(line), name, lines.len() <= MOST_BANDS));
        }
        top = frame.bottom;
    }
    canvas.finish()
}

/// Shades the time of the load.
fn shade(panel: &Panel<'_>, courses: &Courses, y: Axis) {
    let (from, to) = (courses.stint.from.0 as f64, courses.stint.end().0 as f64);
    panel.rectangle((from, y.low()), (to, y.high()), Ink::Zone, "");
}

/// Writes the names of the phases over the first panel, where there is room.
fn phases(canvas: &Canvas, panel: &Panel<'_>, courses: &Courses, whole: f64) {
    let (from, to) = (courses.stint.from.0 as f64, courses.stint.end().0 as f64);
    for (name, from, to) in [("before", 0.0, from), ("load", from, to), ("after", to, whole)] {
        let ((left, y), (right, _)) =
            (panel.at(from, panel.y_high()), panel.at(to, panel.y_high()));
        if right - left > label::width(name, SMALL) + 4.0 {
            canvas.text(((left + right) / 2.0, y - 26.0), name, Ink::Small, Anchor::Middle);
        }
    }
}

/// Draws a contender's line, and the band around it.
fn curve(
    panel: &Panel<'_>,
    courses: &Courses,
    strip: &Strip,
    line: &Course,
    (number, name, has_band): (usize, &str, bool),
) {
    let step = courses.step_ns as f64;
    let at = |stretch: usize| (stretch as f64 + 0.5) * step;
    let bands = (strip.of)(line);
    let known: Vec<(f64, Band)> =
        bands.iter().enumerate().filter_map(|(n, band)| Some((at(n), (*band)?))).collect();
    let is_next = |a: &(f64, Band), b: &(f64, Band)| b.0 - a.0 < 1.5 * step;
    let runs = || known.chunk_by(is_next);
    if has_band {
        for run in runs().filter(|run| run.len() > 1) {
            let upper = run.iter().map(|(x, band)| (*x, band.high));
            let lower = run.iter().rev().map(|(x, band)| (*x, band.low));
            panel.area(&upper.chain(lower).collect::<Vec<_>>(), Ink::Band(number));
        }
    }
    let mut words = summary(courses, strip, &known, name);
    for run in runs() {
        let points: Vec<(f64, f64)> = run.iter().map(|(x, band)| (*x, band.middle)).collect();
        // The words belong to the whole line, and are written once.
        let ink = if words.is_empty() { Ink::KeyLine(number) } else { Ink::Line(number) };
        panel.line(&points, ink, &std::mem::take(&mut words));
    }
}

/// Returns the medians of a line before, during and after the load, in words.
fn summary(courses: &Courses, strip: &Strip, known: &[(f64, Band)], name: &str) -> String {
    let (from, to) = (courses.stint.from.0 as f64, courses.stint.end().0 as f64);
    let of = |low: f64, high: f64| {
        let within = known.iter().filter(|(x, _)| (low..high).contains(x));
        median(&within.map(|(_, band)| band.middle).collect::<Vec<f64>>())
    };
    let say = |value: Option<f64>| match strip.unit {
        Quantity::Of(unit) => figure_text(value, unit),
        Quantity::Number => value.map_or_else(|| words::NOTHING.to_owned(), |v| format!("{v:.0}")),
    };
    format!(
        "{name}, {}: {} before the load, {} during it, {} after it",
        strip.name,
        say(of(0.0, from)),
        say(of(from, to)),
        say(of(to, f64::INFINITY))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::testing::loaded as race;

    #[test]
    fn each_contender_has_a_line_in_each_panel_in_which_something_happens() {
        let outcome = race();
        let all = figures(&outcome);
        assert_eq!(all.len(), 1);
        let figure = &all[0];
        assert_eq!(figure.id, "over-time");
        // Round trips, losses, the load's goodput, and what it sent again: of two contenders.
        for drawing in [&figure.wide, &figure.narrow] {
            assert_eq!(drawing.matches("data-t=").count(), 8, "{drawing}");
            for phase in ["before", "load", "after"] {
                assert!(drawing.contains(&format!(">{phase}</text>")), "{phase}");
            }
            // The time of the load is shaded in each panel, and a band goes with each line.
            assert_eq!(drawing.matches("class=\"z\"").count(), 4);
            assert_eq!(drawing.matches("class=\"h c").count(), 8);
        }
        assert!(figure.wide.contains("20.0 ms before the load, 8"), "{}", figure.wide);
        assert_eq!(figure.numbers.rows.len(), 2 * 30);
    }

    #[test]
    fn work_without_a_load_in_its_middle_has_none() {
        let mut outcome = race();
        outcome.asked.workload = "ping".into();
        assert!(figures(&outcome).is_empty());
    }
}

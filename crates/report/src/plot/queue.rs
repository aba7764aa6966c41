//! Queues of an emulated path over time: a panel for each direction of a link in which packets waited, and a line for the
//! typical trial of each contender.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::{drawn, left_out, numbers, order, palette};
use crate::figure::Figure;
use crate::names::label;
use crate::path::way_name;
use crate::words;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::path::QueueCourse;
use deadheat_result::analysis::spread;
use deadheat_result::outcome::{Outcome, Trial};

const MOST_LINES: usize = 8;
const MOST_PANELS: usize = 6;
/// Maximum number of points of a line; the emulator stores no more.
const MOST_POINTS: usize = 128;

/// Heights: of a panel, of a name over each panel, of the labels of the time.
const PANEL: f64 = 92.0;
const NAME: f64 = 20.0;
const BELOW: f64 = 40.0;
const LEFT: f64 = 60.0;

/// Line of a contender's typical trial.
struct QueueLine {
    number: usize,
    label: String,
    block: u64,
    /// Nanoseconds since the path began, and the longest time in the queue around then.
    points: Vec<(f64, f64)>,
}

/// Direction of a link, with its lines.
struct QueuePanel {
    name: String,
    lines: Vec<QueueLine>,
}

/// Draws the figure, if packets waited.
pub(super) fn figure(outcome: &Outcome) -> Option<Figure> {
    let metric = outcome.metrics.first()?;
    let (mut ids, _) = order(outcome);
    let contenders = ids.len();
    ids.truncate(MOST_LINES);
    let typical =
        |id| spread::typical(outcome, id, &metric.name, |trial| trial.record.path.is_some());
    let trials: Vec<&Trial> = ids.into_iter().filter_map(typical).collect();
    let links = trials.iter().filter_map(|trial| Some(trial.record.path.as_ref()?.links.len()));
    let links = links.max().unwrap_or(0);
    let ways = (0..links).flat_map(|link| [(link, Direction::Up), (link, Direction::Down)]);
    let mut panels: Vec<QueuePanel> = ways
        .map(|way| QueuePanel { name: way_name(outcome, way), lines: lines(outcome, &trials, way) })
        .filter(|panel| !panel.lines.is_empty())
        .collect();
    let all = panels.len();
    // The fullest queues come first.
    panels.sort_by(|a, b| b.longest().total_cmp(&a.longest()));
    panels.truncate(MOST_PANELS);
    if panels.is_empty() {
        return None;
    }
    let caption = format!(
        "The longest time that packets had waited in a queue as they left it, in the typical trial of each contender, \
         whose {} is nearest to the median. The time is from the start of its path, before connections open and a load \
         begins. The fullest queue is first.{}{}",
        metric.label,
        left_out(all, MOST_PANELS),
        if contenders > MOST_LINES { left_out(contenders, MOST_LINES) } else { String::new() }
    );
    let rows = panels.iter().flat_map(|panel| {
        panel.lines.iter().flat_map(|line| {
            line.points.iter().map(|(at, ns)| {
                let times = [*at, *ns].map(|ns| words::figure(ns, Unit::Nanos));
                [vec![panel.name.clone(), line.label.clone()], times.to_vec()].concat()
            })
        })
    });
    Some(drawn(
        "queues".into(),
        "Queues over time".into(),
        caption,
        numbers(&["way", "contender", "time from start", "longest wait"], rows.collect()),
        |size| draw(&panels, size),
    ))
}

impl QueuePanel {
    fn longest(&self) -> f64 {
        let all = self.lines.iter().flat_map(|line| &line.points);
        all.map(|(_, ns)| *ns).fold(0.0, f64::max)
    }

    fn end(&self) -> f64 {
        self.lines
            .iter()
            .filter_map(|line| line.points.last())
            .map(|(at, _)| *at)
            .fold(0.0, f64::max)
    }
}

fn lines(outcome: &Outcome, trials: &[&Trial], way: (usize, Direction)) -> Vec<QueueLine> {
    let line = |trial: &&Trial| {
        let link = trial.record.path.as_ref()?.links.get(way.0)?;
        let points = points(link.toward(way.1).queue_course.as_ref()?);
        (points.len() > 1).then(|| QueueLine {
            number: palette::number(outcome, trial.contender),
            label: label(outcome, trial.contender),
            block: trial.block + 1,
            points,
        })
    };
    trials.iter().filter_map(line).collect()
}

/// Returns the name of the direction whose queue was the fullest in a trial, and the longest waits there from `start` to
/// `end` after that, a time in nanoseconds since 1970; `None` if no packet waited.
pub(super) fn fullest(
    outcome: &Outcome,
    trial: &Trial,
    start: u64,
    end: f64,
) -> Option<(String, Vec<(f64, f64)>)> {
    let links = &trial.record.path.as_ref()?.links;
    let ways = (0..links.len()).flat_map(|link| [(link, Direction::Up), (link, Direction::Down)]);
    let courses =
        ways.filter_map(|way| Some((way, links[way.0].toward(way.1).queue_course.as_ref()?)));
    let (way, course) =
        courses.max_by_key(|(_, course)| course.longest_ns.iter().max().copied())?;
    let began = course.began_ns? as f64 - start as f64;
    let waits = points(course).into_iter().map(|(at, ns)| (at + began, ns));
    let waits = waits.filter(|(at, _)| (0.0..=end).contains(at)).collect();
    Some((way_name(outcome, way), waits))
}

/// Returns the times of a line and the longest waits around them, each in the middle of its interval.
fn points(course: &QueueCourse) -> Vec<(f64, f64)> {
    let group = course.longest_ns.len().div_ceil(MOST_POINTS).max(1);
    let each = course.every_ns as f64 * group as f64;
    let longest = course.longest_ns.chunks(group).filter_map(|times| times.iter().max());
    (0..).zip(longest).map(|(at, ns)| ((f64::from(at) + 0.5) * each, *ns as f64)).collect()
}

fn draw(panels: &[QueuePanel], size: Size) -> String {
    let mut entries: Vec<(usize, &str)> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if entries.iter().all(|(number, _)| *number != line.number) {
            entries.push((line.number, &line.label));
        }
    }
    let key = LineKey::new(size, entries.into_iter());
    let canvas = Canvas::new(size, key.height + (PANEL + NAME) * panels.len() as f64 + BELOW);
    key.draw(&canvas);
    let end = panels.iter().map(QueuePanel::end).fold(0.0, f64::max);
    let mut top = key.height + NAME;
    for (at, of) in panels.iter().enumerate() {
        let frame = Frame { left: LEFT, top, right: canvas.width - 12.0, bottom: top + PANEL };
        let Some(y) = Axis::from_zero([of.longest()]) else { continue };
        let panel = canvas.panel(frame, Axis::exact(0.0, end), y);
        panel.ticks_left(Quantity::Of(Unit::Nanos));
        if at + 1 == panels.len() {
            panel.ticks_below(Quantity::Of(Unit::Nanos));
            let under = ((LEFT + canvas.width - 12.0) / 2.0, top + PANEL + 28.0);
            canvas.text(under, "time from the start of the path", Ink::Small, Anchor::Middle);
        } else {
            panel.grid_below();
        }
        let room = canvas.width - LEFT - 12.0;
        canvas.fitted((LEFT, top - 9.0), &of.name, Ink::Small, Anchor::Left, room);
        for line in &of.lines {
            let longest = line.points.iter().map(|(_, ns)| *ns).fold(0.0, f64::max);
            let longest = words::figure(longest, Unit::Nanos);
            let words = format!("{}, block {}: at most {longest}", line.label, line.block);
            panel.line(&line.points, Ink::Line(line.number), &words);
        }
        top += PANEL + NAME;
    }
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::path::{LinkFigures, PathFigures};
    use deadheat_race::race::testing;

    /// Returns a race of two contenders over two links, in which packets of the first waited on the second link, up.
    fn outcome(longest_ns: Vec<u64>) -> Outcome {
        let mut outcome = testing::outcome(2);
        let name = outcome.metrics[0].name.clone();
        for (order, contender) in [(0, 0), (1, 1)] {
            let mut record =
                deadheat_result::testing::record([(name.clone(), 100.0)].into_iter().collect());
            let mut links = vec![LinkFigures::default(); 2];
            if contender == 0 {
                let course = QueueCourse {
                    every_ns: 10_000_000,
                    longest_ns: longest_ns.clone(),
                    began_ns: None,
                };
                links[1].up.queue_course = Some(course);
            }
            record.path = Some(PathFigures { links });
            outcome.trials.push(Trial { block: 0, order, contender, control: false, record });
        }
        outcome
    }

    #[test]
    fn a_queue_in_which_packets_waited_has_a_panel() {
        let drawn = figure(&outcome(vec![0, 5_000_000, 2_000_000])).unwrap();
        assert_eq!(drawn.numbers.rows.len(), 3);
        let [way, contender, at, longest] = &drawn.numbers.rows[1][..] else { panic!() };
        assert_eq!([way, contender, at, longest], ["up on link 2", "tcp", "15.0 ms", "5.00 ms"]);
        assert!(drawn.wide.contains("at most 5.00 ms"));
        assert!(figure(&outcome(Vec::new())).is_none());
    }

    #[test]
    fn a_long_list_of_a_stranger_is_drawn_with_few_points() {
        let drawn = figure(&outcome((0..100_000).collect())).unwrap();
        assert!(drawn.numbers.rows.len() <= MOST_POINTS);
        assert_eq!(drawn.numbers.rows.last().unwrap()[3], words::figure(99_999.0, Unit::Nanos));
    }
}

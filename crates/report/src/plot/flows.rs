//! Flows of a dense series in one picture, of the typical trial of each contender: the congestion control of its senders and
//! of the load's, over the fullest queue and on one clock.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Panel, SMALL, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::sender::{self, SenderLines, Values};
use super::{drawn, label as text, left_out, long, numbers, order, palette, queue, slug};
use crate::figure::Figure;
use crate::names::label;
use crate::over_time::missed_points;
use crate::words;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::series::Series;
use deadheat_result::analysis::spread;
use deadheat_result::outcome::{Outcome, Trial};

const MOST_FIGURES: usize = 4;
const MOST_FLOWS: usize = 8;

/// Heights: of a panel, of a row of phases, of a name over each, of the labels of the time.
const PANEL: f64 = 104.0;
const ROW: f64 = 15.0;
const NAME: f64 = 20.0;
const BELOW: f64 = 40.0;
const LEFT: f64 = 60.0;
const KILOBYTE: f64 = 1e3;

/// Flow with its lines, counted from the start of the first flow.
struct FlowLines {
    number: usize,
    name: String,
    is_first: bool,
    lines: SenderLines,
}

/// Typical trial of a contender.
struct FlowsTrial {
    flows: Vec<FlowLines>,
    /// Name of the direction with the fullest queue, and the waits there.
    queue: Option<(String, Vec<(f64, f64)>)>,
    end: f64,
    /// Sentence on points that its series lack, if they lack some.
    missed: Option<String>,
}

/// Panel of lines: its name, the quantity of its axis with the number of a column's units in one of the axis's.
type FlowPanel = (&'static str, Quantity, f64, fn(&SenderLines) -> &Values);

const PANELS: [FlowPanel; 4] = [
    ("congestion window, kB", Quantity::Number, KILOBYTE, |lines| &lines.window),
    ("in flight, kB", Quantity::Number, KILOBYTE, |lines| &lines.in_flight),
    ("delivery rate", Quantity::Of(Unit::BitRate), 1.0, |lines| &lines.rate),
    ("smoothed round trip", Quantity::Of(Unit::Nanos), 1.0, |lines| &lines.round_trip),
];

/// Draws a figure for each contender of which several flows have dense series.
pub(super) fn figures(outcome: &Outcome) -> Vec<Figure> {
    let Some(metric) = outcome.metrics.first().filter(|_| long::is_dense(outcome)) else {
        return Vec::new();
    };
    let (ids, _) = order(outcome);
    let typical = |id: usize| {
        let trial =
            spread::typical(outcome, id, &metric.name, |trial| of(outcome, trial).is_some())?;
        Some((id, trial, of(outcome, trial)?))
    };
    let all: Vec<(usize, &Trial, FlowsTrial)> = ids.into_iter().filter_map(typical).collect();
    let figure = |(id, trial, flows): &(usize, &Trial, FlowsTrial)| {
        let caption = format!(
            "Each flow that sent, in the trial whose {} is nearest to the median (block {}), from the start of the first \
             flow. Bars: phases of congestion control but steady ones (congestion avoidance, ProbeBW).{}{}",
            metric.label,
            trial.block + 1,
            flows.missed.as_ref().map_or_else(String::new, |missed| format!(" {missed}")),
            left_out(all.len(), MOST_FIGURES)
        );
        drawn(
            format!("flows-{}", slug(&label(outcome, *id))),
            format!("Flows over time: {}", label(outcome, *id)),
            caption,
            numbers(&["flow", "time from start", "window, kB", "round trip"], rows(flows)),
            |size| draw(flows, size),
        )
    };
    all.iter().take(MOST_FIGURES).map(figure).collect()
}

/// Returns the flows of a trial; `None` unless two of them have lines on one clock.
fn of(outcome: &Outcome, trial: &Trial) -> Option<FlowsTrial> {
    let record = &trial.record;
    let own = palette::number(outcome, trial.contender);
    let load = palette::load_number(outcome, trial.contender);
    let load_name = outcome.contests.iter().find(|one| one.contender == trial.contender);
    let load_name = load_name.map_or("load".to_owned(), |one| format!("load: {}", one.load));
    let groups = [
        (own, label(outcome, trial.contender), [&record.intervals, &record.far_intervals]),
        (load, load_name, [&record.load_intervals, &record.load_far_intervals]),
    ];
    let senders: Vec<(usize, String, bool, &Series)> = groups
        .into_iter()
        .flat_map(|(number, name, ends)| {
            let sending = ends.into_iter().flatten().filter(|series| series.tcp.is_some());
            sending.enumerate().map(move |(at, series)| (number, name.clone(), at == 0, series))
        })
        .take(MOST_FLOWS)
        .collect();
    let missed = missed_points(senders.iter().map(|(.., series)| *series));
    let start = senders.iter().filter_map(|(.., series)| series.began_ns).min()?;
    let line = |(number, name, is_first, series): (usize, String, bool, &Series)| {
        let lines = sender::of_flow(series, series.tcp.as_ref()?).later(series.began_ns? - start);
        Some(FlowLines { number, name, is_first, lines })
    };
    let flows: Vec<FlowLines> = senders.into_iter().filter_map(line).collect();
    let times = flows.iter().flat_map(|flow| &flow.lines.window).map(|(at, _)| *at);
    let end = times.fold(0.0, f64::max);
    let queue = queue::fullest(outcome, trial, start, end);
    (flows.len() > 1 && end > 0.0).then_some(FlowsTrial { flows, queue, end, missed })
}

fn rows(trial: &FlowsTrial) -> Vec<Vec<String>> {
    let row = |flow: &FlowLines, at: usize| {
        let (time, window) = flow.lines.window[at];
        let round_trip = flow.lines.round_trip.get(at).and_then(|(_, ns)| *ns);
        vec![
            flow.name.clone(),
            words::figure(time, Unit::Nanos),
            window.map_or_else(String::new, |bytes| words::significant(bytes / KILOBYTE)),
            round_trip.map_or_else(String::new, |ns| words::figure(ns, Unit::Nanos)),
        ]
    };
    let each = |flow| (0..FlowLines::len(flow)).map(move |at| row(flow, at));
    trial.flows.iter().flat_map(each).collect()
}

impl FlowLines {
    fn len(&self) -> usize {
        self.lines.window.len()
    }

    fn ink(&self) -> Ink {
        if self.is_first { Ink::Solid(self.number) } else { Ink::Faint(self.number) }
    }
}

fn draw(trial: &FlowsTrial, size: Size) -> String {
    let first = trial.flows.iter().filter(|flow| flow.is_first);
    let key = LineKey::new(size, first.map(|flow| (flow.number, flow.name.as_str())));
    let values = |of: fn(&SenderLines) -> &Values, scale: f64| {
        let all = trial.flows.iter().flat_map(move |flow| of(&flow.lines));
        all.filter_map(move |(_, value)| Some(value.as_ref()? / scale))
    };
    let panels = PANELS.iter().filter_map(|(name, quantity, scale, of)| {
        Some((*name, *quantity, *scale, *of, Axis::from_zero(values(*of, *scale))?))
    });
    let panels: Vec<_> = panels.collect();
    let count = panels.len() + usize::from(trial.queue.is_some());
    let phases = NAME + ROW * trial.flows.len() as f64;
    let canvas = Canvas::new(size, key.height + (PANEL + NAME) * count as f64 + phases + BELOW);
    key.draw(&canvas);
    let x = Axis::exact(0.0, trial.end);
    let mut top = key.height;
    let mut panel = |name: &str, quantity, y| {
        let panel = canvas.panel(frame(&canvas, top, PANEL), x, y);
        panel.ticks_left(quantity);
        panel.grid_below();
        let room = canvas.width - LEFT - 12.0;
        canvas.fitted((LEFT, top + NAME - 9.0), name, Ink::Small, Anchor::Left, room);
        top += PANEL + NAME;
        panel
    };
    for (name, quantity, scale, of, y) in panels {
        let panel = panel(name, quantity, y);
        for flow in &trial.flows {
            let line: Vec<(f64, f64)> =
                of(&flow.lines).iter().filter_map(|(at, v)| Some((*at, (*v)? / scale))).collect();
            panel.line(&line, flow.ink(), &format!("{}: {name}", flow.name));
        }
    }
    if let Some((name, points)) = &trial.queue
        && let Some(y) = Axis::from_zero(points.iter().map(|(_, ns)| *ns))
    {
        let name = format!("time in the queue, {name}");
        panel(&name, Quantity::Of(Unit::Nanos), y).line(points, Ink::Reference, &name);
    }
    phase_rows(&canvas, trial, x, top);
    canvas.finish()
}

/// Draws a row of bars for the phases of each flow, with their names where there is room, and the labels of the time.
fn phase_rows(canvas: &Canvas, trial: &FlowsTrial, x: Axis, top: f64) {
    let count = trial.flows.len() as f64;
    let panel: Panel<'_> =
        canvas.panel(frame(canvas, top, ROW * count), x, Axis::exact(count, 0.0));
    panel.ticks_below(Quantity::Of(Unit::Nanos));
    let Frame { left, right, bottom, .. } = panel.frame;
    let under = ((left + right) / 2.0, bottom + 28.0);
    canvas.text(under, "time from the start of the first flow", Ink::Small, Anchor::Middle);
    canvas.text((left, top + NAME - 9.0), "phases", Ink::Small, Anchor::Left);
    for (row, flow) in trial.flows.iter().enumerate() {
        let (low, high) = (row as f64 + 0.15, row as f64 + 0.85);
        let next = flow.lines.phases.iter().skip(1).map(|(from, ..)| *from as f64);
        for ((from, to, phase), next) in flow.lines.phases.iter().zip(next.chain([trial.end])) {
            let [start, length] =
                [*from, to - from].map(|ns| words::figure(ns as f64, Unit::Nanos));
            let words = format!("{}: {phase} from {start} for {length}", flow.name);
            let ink = Ink::Bar(flow.number);
            panel.rectangle((*from as f64, low), (*to as f64, high), ink, &words);
            let name = phase.to_string();
            let (at, y) = panel.at(*to as f64, row as f64 + 0.5);
            if at + text::width(&name, SMALL) + 8.0 < panel.at(next, 0.0).0 {
                canvas.text((at + 4.0, y), &name, Ink::Small, Anchor::Left);
            }
        }
    }
}

fn frame(canvas: &Canvas, top: f64, height: f64) -> Frame {
    Frame { left: LEFT, top: top + NAME, right: canvas.width - 12.0, bottom: top + NAME + height }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::TcpView;
    use deadheat_contract::measurements::congestion::CongestionPhase;
    use deadheat_contract::measurements::series::Point;
    use deadheat_race::race::testing::loaded as race;

    const MS: u64 = 1_000_000;

    fn series(began_ns: u64, window: fn(u64) -> u64) -> Series {
        let point = |k: u64| {
            let phase =
                if k < 10 { CongestionPhase::SlowStart } else { CongestionPhase::Avoidance };
            let view = TcpView {
                cwnd_bytes: window(k),
                srtt_ns: Some(20 * MS),
                phase: Some(phase),
                ..TcpView::default()
            };
            Point { at_ns: k * 5 * MS, sent_bytes: k, tcp: Some(view), ..Point::default() }
        };
        let points: Vec<Point> = (1..=100).map(point).collect();
        Series { began_ns: Some(began_ns), ..Series::new(5 * MS, &points) }
    }

    #[test]
    fn the_flows_of_contender_and_load_share_panels_and_a_clock() {
        let mut outcome = race();
        outcome.metrics.truncate(1);
        outcome.asked.interval_ns = Some(5 * MS);
        let name = outcome.metrics[0].name.clone();
        for trial in &mut outcome.trials {
            trial.record.metrics.insert(name.clone(), 2e7);
            (trial.record.intervals, trial.record.far_intervals) = Default::default();
            trial.record.load_far_intervals = Vec::new();
            trial.record.intervals = vec![series(200 * MS, |k| 1_000 * k)];
            trial.record.load_intervals = vec![series(100 * MS, |k| 2_000 * k)];
        }
        let figures = figures(&outcome);
        let drawn = &figures[0];
        for name in ["congestion window, kB", "smoothed round trip", "phases", "slow start"] {
            assert!(drawn.wide.contains(&format!(">{name}</text>")), "{name}: {}", drawn.wide);
        }
        assert!(drawn.caption.ends_with("(congestion avoidance, ProbeBW)."), "{}", drawn.caption);
        let at = |at: usize| drawn.numbers.rows[at].clone();
        assert_eq!(at(0)[1..], ["105 ms", "1.00", "20.0 ms"], "100 ms later than the load");
        assert_eq!(at(199)[1..], ["500 ms", "200", "20.0 ms"]);
        for trial in &mut outcome.trials {
            trial.record.load_intervals[0].missed_points = 3;
        }
        let caption = &super::figures(&outcome)[0].caption;
        assert!(caption.contains(" 3 points were due and not taken: "), "{caption}");
        for trial in &mut outcome.trials {
            trial.record.load_intervals[0].began_ns = None;
        }
        assert!(super::figures(&outcome).is_empty(), "no clock in common");
    }
}

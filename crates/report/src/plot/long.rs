//! Drawing of long trials over time, and of those with dense series, one line for each contender: round trips, goodput, when
//! nothing arrived, and what a sender's congestion control reports.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Panel, Size};
use super::facets::LineKey;
use super::ink::Ink;
use super::sender::{self, SenderLines, Values};
use super::{drawn, figure_text, left_out, numbers, order, palette};
use crate::figure::Figure;
use crate::names::label;
use crate::words;
use deadheat_base::figures::grouped;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::congestion::CongestionPhase;
use deadheat_contract::measurements::series::{RoundTrips, Series, goodput_bps};
use deadheat_result::analysis::spread;
use deadheat_result::causes::Cause;
use deadheat_result::outcome::{Outcome, Trial};

/// Shortest trial that is drawn.
const LONG_NS: u64 = 10_000_000_000;
const MOST_LINES: usize = 8;
const MOST_POINTS: usize = 120;

/// Heights: of a panel, of a contender's row among the outages, of a name over each panel, of the labels of the time.
const PANEL: f64 = 104.0;
const ROW: f64 = 13.0;
const NAME: f64 = 20.0;
const BELOW: f64 = 40.0;
const LEFT: f64 = 60.0;

/// Name of the panel in which limits are drawn.
const IN_FLIGHT: &str = "in flight, bytes";

/// Interval below which a series is dense, so that its trials are drawn however short they are.
const DENSE_NS: u64 = 10_000_000;

/// A contender's typical trial.
struct LongTrial {
    number: usize,
    label: String,
    block: u64,
    end_ns: u64,
    /// Mean round trip, or mean time one way, of each interval.
    times: Values,
    /// Rate at which data arrived at both ends together.
    goodput: Values,
    /// Lines of its sender, in a race with dense series.
    sender: SenderLines,
    /// Window that held its sender back, in bytes, if one did.
    limit: Option<f64>,
    /// Starts and ends of the stretches without an arrival.
    outages: Vec<(u64, u64)>,
    /// Number of outages in the contender's other trials.
    elsewhere: usize,
}

/// Values that a panel draws of a trial.
type ValuesOf = fn(&LongTrial) -> &Values;

/// Panel of lines.
struct LinePanel {
    name: String,
    unit: Unit,
    y: Axis,
    of: ValuesOf,
    /// True if the limit of each trial is drawn beside its line.
    has_limits: bool,
}

/// Draws the figure, if trials last long enough.
pub(super) fn figure(outcome: &Outcome) -> Option<Figure> {
    let metric = outcome.metrics.first()?;
    let (ids, _) = order(outcome);
    let mut trials: Vec<LongTrial> =
        ids.into_iter().filter_map(|id| long(outcome, id, &metric.name)).collect();
    let all = trials.len();
    trials.truncate(MOST_LINES);
    let strips = strips(outcome, &trials);
    if strips.is_empty() {
        return None;
    }
    let silences: usize = trials.iter().map(|trial| trial.outages.len()).sum();
    let elsewhere: usize = trials.iter().map(|trial| trial.elsewhere).sum();
    let caption = format!(
        "The typical trial of each contender, whose {} is nearest to the median, from its start to its end.{}{}{}",
        metric.label,
        if silences > 0 { " Bars: when nothing arrived for 500 ms or more." } else { "" },
        match elsewhere {
            0 => String::new(),
            n =>
                format!(" {} in trials that are not drawn.", words::count(n as u64, "more outage")),
        },
        left_out(all, MOST_LINES)
    );
    Some(drawn(
        "long-trial".into(),
        "Over time".into(),
        caption,
        numbers(&["contender", "time from start", "round trip or delay", "goodput"], rows(&trials)),
        |size| draw(&trials, &strips, size),
    ))
}

/// Returns true if the series of the race are dense.
pub(super) fn is_dense(outcome: &Outcome) -> bool {
    outcome.asked.interval_ns.is_some_and(|every| every < DENSE_NS)
}

/// Returns the typical trial of a contender, if that is long enough.
fn long(outcome: &Outcome, id: usize, metric: &str) -> Option<LongTrial> {
    let end = |trial: &Trial| {
        let flows = trial.record.intervals.iter().chain(&trial.record.far_intervals);
        flows.filter_map(|flow| flow.at_ns.last()).max().copied().unwrap_or(0)
    };
    let is_dense = is_dense(outcome);
    let least = if is_dense { 1 } else { LONG_NS };
    let typical = spread::typical(outcome, id, metric, |trial| end(trial) >= least)?;
    let record = &typical.record;
    let own = spread::valid_trials(outcome, id);
    let others = own.filter(|one| (one.block, one.order) != (typical.block, typical.order));
    let end_ns = end(typical);
    let sender = if is_dense { sender::lines(typical) } else { SenderLines::default() };
    Some(LongTrial {
        number: palette::number(outcome, id),
        label: label(outcome, id),
        block: typical.block + 1,
        end_ns,
        times: times(typical),
        goodput: goodput(typical, end_ns),
        // Without bytes in flight there is no panel for it.
        limit: limit(outcome, id).filter(|_| !sender.in_flight.is_empty()),
        sender,
        outages: record.outages.iter().map(|one| (one.from_ns, one.end_ns().min(end_ns))).collect(),
        elsewhere: others.map(|trial| trial.record.outages.len()).sum(),
    })
}

/// Returns the bytes under way that a window let a contender have, if its first cause is a window.
fn limit(outcome: &Outcome, id: usize) -> Option<f64> {
    let own = outcome.causes.iter().find(|own| own.contender == id)?;
    let first = own.findings.first()?;
    let is_window = matches!(
        first.cause,
        Cause::ReceiveWindow
            | Cause::SendBuffer
            | Cause::LibraryWindow
            | Cause::PeerWindow
            | Cause::CongestionWindow
    );
    first.evidence.bytes.filter(|_| is_window).map(|bytes| bytes as f64)
}

/// Returns the mean times of a trial: of the first flow that has round trips, or else times one way.
fn times(trial: &Trial) -> Values {
    let flows = || trial.record.intervals.iter().chain(&trial.record.far_intervals);
    let times = |of: fn(&Series) -> Vec<RoundTrips>| {
        flows().map(move |flow| (flow, of(flow))).find(|(_, times)| !times.is_empty())
    };
    let found = times(Series::rtts).or_else(|| times(Series::delays));
    let Some((series, times)) = found else { return Vec::new() };
    let group = times.len().min(series.at_ns.len()).div_ceil(MOST_POINTS).max(1);
    let grouped = times.chunks(group).zip(series.at_ns.chunks(group));
    let mean = |times: &[RoundTrips]| {
        let mut sum = RoundTrips::default();
        times.iter().for_each(|one| sum.merge(one));
        sum.mean_ns().map(|mean| mean as f64)
    };
    grouped.filter_map(|(times, at)| Some((*at.last()? as f64, mean(times)))).collect()
}

fn goodput(trial: &Trial, end_ns: u64) -> Values {
    let flows: Vec<&Series> =
        trial.record.intervals.iter().chain(&trial.record.far_intervals).collect();
    let known = flows.iter().map(|flow| flow.at_ns.len()).max().unwrap_or(0);
    let rates = goodput_bps(&flows, known.min(MOST_POINTS) as u64);
    let each = end_ns as f64 / rates.len().max(1) as f64;
    (0..).zip(rates).map(|(at, rate)| ((f64::from(at) + 0.5) * each, Some(rate))).collect()
}

/// Returns the panels with lines: that of the claimed figure first.
fn strips(outcome: &Outcome, trials: &[LongTrial]) -> Vec<LinePanel> {
    let values = |of: ValuesOf| {
        trials.iter().flat_map(of).filter_map(|(_, value)| *value).collect::<Vec<f64>>()
    };
    let has_round_trips = outcome
        .trials
        .iter()
        .any(|trial| trial.record.intervals.iter().any(|series| !series.rtt_n.is_empty()));
    let name = if has_round_trips { "mean round trip" } else { "mean delay" };
    let times = Axis::of(values(|trial| &trial.times).into_iter().filter(|ns| *ns > 0.0));
    let times = times.map(|y| LinePanel {
        name: name.to_owned(),
        unit: Unit::Nanos,
        y,
        of: |trial| &trial.times,
        has_limits: false,
    });
    let rates = values(|trial| &trial.goodput);
    let rates =
        Axis::from_zero(rates.iter().copied()).filter(|_| rates.iter().any(|bps| *bps > 0.0));
    let goodput = rates.map(|y| LinePanel {
        name: "goodput".to_owned(),
        unit: Unit::BitRate,
        y,
        of: |trial| &trial.goodput,
        has_limits: false,
    });
    let mut strips: Vec<LinePanel> = times.into_iter().chain(goodput).collect();
    if outcome.metrics.first().is_some_and(|metric| metric.unit == Unit::BitRate) {
        strips.reverse();
    }
    let of_sender: [(&str, Unit, ValuesOf); 4] = [
        ("congestion window, bytes", Unit::Count, |trial| &trial.sender.window),
        (IN_FLIGHT, Unit::Count, |trial| &trial.sender.in_flight),
        ("delivery rate", Unit::BitRate, |trial| &trial.sender.rate),
        ("smoothed round trip", Unit::Nanos, |trial| &trial.sender.round_trip),
    ];
    let limits: Vec<f64> = trials.iter().filter_map(|trial| trial.limit).collect();
    strips.extend(of_sender.into_iter().filter_map(|(name, unit, of)| {
        let has_limits = name == IN_FLIGHT && !limits.is_empty();
        let limits = limits.iter().copied().filter(|_| has_limits);
        let y = Axis::from_zero(values(of).into_iter().chain(limits))?;
        let limit = if has_limits { "; dotted: the window that held it back" } else { "" };
        Some(LinePanel { name: format!("{name}{limit}"), unit, y, of, has_limits })
    }));
    strips
}

fn rows(trials: &[LongTrial]) -> Vec<Vec<String>> {
    let row = |trial: &LongTrial, (at, rate): &(f64, Option<f64>)| {
        let time = trial.times.iter().find(|(end, _)| end >= at).and_then(|(_, time)| *time);
        vec![
            trial.label.clone(),
            words::figure(*at, Unit::Nanos),
            figure_text(time, Unit::Nanos),
            figure_text(*rate, Unit::BitRate),
        ]
    };
    trials
        .iter()
        .flat_map(|trial| trial.goodput.iter().map(move |point| row(trial, point)))
        .collect()
}

fn draw(trials: &[LongTrial], strips: &[LinePanel], size: Size) -> String {
    let labels = trials.iter().map(|trial| (trial.number, trial.label.as_str()));
    let key = LineKey::new(size, labels);
    let has_outages = trials.iter().any(|trial| !trial.outages.is_empty());
    let outages = if has_outages { NAME + ROW * trials.len() as f64 } else { 0.0 };
    let has_phases = trials.iter().any(|trial| !trial.sender.phases.is_empty());
    let phases = if has_phases { NAME + ROW * trials.len() as f64 } else { 0.0 };
    let height = (PANEL + NAME) * strips.len() as f64 + outages + phases + BELOW;
    let canvas = Canvas::new(size, key.height + height);
    key.draw(&canvas);
    let end = trials.iter().map(|trial| trial.end_ns).max().unwrap_or(0) as f64;
    let x = Axis::exact(0.0, end);
    let mut top = key.height;
    for (at, strip) in strips.iter().enumerate() {
        let frame = frame(&canvas, top, PANEL);
        let panel = canvas.panel(frame, x, strip.y);
        for trial in trials {
            shade(&panel, trial, (strip.y.low(), strip.y.high()));
        }
        panel.ticks_left(Quantity::Of(strip.unit));
        below(&canvas, &panel, at + 1 == strips.len() && !has_outages && !has_phases);
        canvas.text((frame.left, frame.top - 9.0), &strip.name, Ink::Small, Anchor::Left);
        for trial in trials {
            curve(&panel, strip, trial);
            if let Some(limit) = trial.limit.filter(|_| strip.has_limits) {
                let line = [(0.0, limit), (trial.end_ns as f64, limit)];
                let words = format!("{}: {} bytes", trial.label, grouped(&limit.to_string()));
                panel.line(&line, Ink::Theory(trial.number), &words);
            }
        }
        top = frame.bottom;
    }
    let lengths = |from: u64, to: u64| {
        [from, to.saturating_sub(from)].map(|ns| words::figure(ns as f64, Unit::Nanos))
    };
    if has_outages {
        let spans = |trial: &LongTrial| {
            let words = |(from, to): &(u64, u64)| {
                let [start, length] = lengths(*from, *to);
                (*from, *to, format!("nothing arrived from {start} for {length}"))
            };
            trial.outages.iter().map(words).collect()
        };
        top = rows_of_spans(&canvas, trials, x, (top, "nothing arrived", !has_phases), &spans);
    }
    if has_phases {
        let spans = |trial: &LongTrial| {
            let words = |(from, to, phase): &(u64, u64, CongestionPhase)| {
                let [start, length] = lengths(*from, *to);
                (*from, *to, format!("{phase} from {start} for {length}"))
            };
            trial.sender.phases.iter().map(words).collect()
        };
        let name = "phases but steady ones: slow start, start-up, recovery, …";
        rows_of_spans(&canvas, trials, x, (top, name, true), &spans);
    }
    canvas.finish()
}

/// Span of time: its start and end in nanoseconds from the start of the trial, with words.
type Span = (u64, u64, String);

/// Draws a row of bars for each trial, one for each span. Returns the end of the rows.
fn rows_of_spans(
    canvas: &Canvas,
    trials: &[LongTrial],
    x: Axis,
    (top, name, is_last): (f64, &str, bool),
    spans: &dyn Fn(&LongTrial) -> Vec<Span>,
) -> f64 {
    let frame = frame(canvas, top, ROW * trials.len() as f64);
    let panel = canvas.panel(frame, x, Axis::exact(trials.len() as f64, 0.0));
    below(canvas, &panel, is_last);
    canvas.text((frame.left, frame.top - 9.0), name, Ink::Small, Anchor::Left);
    for (row, trial) in trials.iter().enumerate() {
        for (from, to, what) in spans(trial) {
            let words = format!("{}, block {}: {what}", trial.label, trial.block);
            let (low, high) = (row as f64 + 0.15, row as f64 + 0.85);
            panel.rectangle((from as f64, low), (to as f64, high), Ink::Bar(trial.number), &words);
        }
    }
    frame.bottom
}

fn frame(canvas: &Canvas, top: f64, height: f64) -> Frame {
    Frame { left: LEFT, top: top + NAME, right: canvas.width - 12.0, bottom: top + NAME + height }
}

/// Draws the grid of the time, with labels under the last panel.
fn below(canvas: &Canvas, panel: &Panel<'_>, is_last: bool) {
    if !is_last {
        panel.grid_below();
        return;
    }
    panel.ticks_below(Quantity::Of(Unit::Nanos));
    let Frame { left, right, bottom, .. } = panel.frame;
    let under = ((left + right) / 2.0, bottom + 28.0);
    canvas.text(under, "time from the start of the trial", Ink::Small, Anchor::Middle);
}

/// Shades the times in which nothing arrived.
fn shade(panel: &Panel<'_>, trial: &LongTrial, (low, high): (f64, f64)) {
    for (from, to) in &trial.outages {
        panel.rectangle((*from as f64, low), (*to as f64, high), Ink::Zone, "");
    }
}

/// Draws a contender's line, with a gap where there is no value.
fn curve(panel: &Panel<'_>, strip: &LinePanel, trial: &LongTrial) {
    let points = (strip.of)(trial);
    let known = || points.iter().filter_map(|(_, value)| *value);
    let mut words = format!(
        "{}, block {}, {}: from {} to {}",
        trial.label,
        trial.block,
        strip.name,
        words::figure(known().fold(f64::INFINITY, f64::min), strip.unit),
        words::figure(known().fold(0.0, f64::max), strip.unit)
    );
    for run in points.chunk_by(|a, b| a.1.is_some() == b.1.is_some()) {
        let line: Vec<(f64, f64)> = run.iter().filter_map(|(at, v)| Some((*at, (*v)?))).collect();
        if line.len() < 2 {
            continue;
        }
        // The words belong to the whole line, and are written once.
        let ink =
            if words.is_empty() { Ink::KeyLine(trial.number) } else { Ink::Line(trial.number) };
        panel.line(&line, ink, &std::mem::take(&mut words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::series::Point;
    use deadheat_contract::measurements::{Outage, TcpView};
    use deadheat_race::race::testing::loaded as race;
    use deadheat_result::causes::{ContenderCauses, Evidence, Finding, SignSource};

    const MS: u64 = 1_000_000;

    /// Returns a race of which each trial lasts `seconds`, with 100 answers each 100 ms but from 4 s to 7 s.
    fn lasting(seconds: u64) -> Outcome {
        let mut outcome = race();
        outcome.metrics.truncate(1);
        let point = |k: u64| {
            let mut rtt = RoundTrips::default();
            let is_up = !(41..=70).contains(&k);
            (0..if is_up { 100 } else { 0 }).for_each(|_| rtt.add(20 * MS));
            let received_bytes = 1_000 * if k <= 40 { k } else { (k.max(70) - 30).max(40) };
            Point { at_ns: k * 100 * MS, received_bytes, rtt, ..Point::default() }
        };
        let points: Vec<Point> = (1..=10 * seconds).map(point).collect();
        let name = outcome.metrics[0].name.clone();
        for trial in &mut outcome.trials {
            trial.record.metrics.insert(name.clone(), 2e7);
            trial.record.intervals = vec![Series::new(100 * MS, &points)];
            trial.record.far_intervals = Vec::new();
            let (from_ns, length_ns) = (4_000 * MS, 3_000 * MS);
            let outage = Outage { from_ns, length_ns, messages: 30, ended: Some(true) };
            trial.record.outages = vec![outage];
        }
        outcome
    }

    #[test]
    fn a_long_trial_has_round_trips_goodput_and_its_outage() {
        let figure = figure(&lasting(12)).unwrap();
        assert_eq!(figure.id, "long-trial");
        for drawing in [&figure.wide, &figure.narrow] {
            for name in ["mean round trip", "goodput", "nothing arrived"] {
                assert!(drawing.contains(&format!(">{name}</text>")), "{name}: {drawing}");
            }
            // Two contenders have a bar each; both panels are shaded for each of them.
            assert_eq!(drawing.matches("nothing arrived from 4.00 s for 3.00 s").count(), 2);
            assert_eq!(drawing.matches("class=\"z\"").count(), 4);
        }
        // Round trips have a gap, and goodput falls to 0.
        let at = |seconds: f64| {
            let mut rows = figure.numbers.rows.iter();
            rows.find(|row| row[1] == words::figure(seconds * 1e9, Unit::Nanos)).unwrap()
        };
        assert_eq!(at(5.05)[2..], [words::NOTHING, "0 bit/s"]);
        assert_eq!(at(8.05)[2..], ["20.0 ms", "80.0 kbit/s"]);
        assert!(figure.caption.contains("more outages in trials that are not drawn"));
    }

    #[test]
    fn a_dense_series_has_the_sender_and_its_phases_however_short_the_trial() {
        let mut outcome = lasting(1);
        outcome.asked.interval_ns = Some(5 * MS);
        let point = |k: u64| {
            let view = TcpView {
                cwnd_bytes: 10_000 * k,
                srtt_ns: Some(20 * MS),
                in_flight_bytes: Some(9_000 * k),
                phase: Some(CongestionPhase::by_threshold(k, 50)),
                ..TcpView::default()
            };
            Point { at_ns: k * 5 * MS, sent_bytes: k, tcp: Some(view), ..Point::default() }
        };
        let points: Vec<Point> = (1..=1_000).map(point).collect();
        for trial in &mut outcome.trials {
            trial.record.intervals = vec![Series::new(5 * MS, &points)];
        }
        let figure = figure(&outcome).unwrap();
        for name in ["congestion window, bytes", "in flight, bytes", "smoothed round trip"] {
            assert!(figure.wide.contains(&format!(">{name}</text>")), "{name}");
        }
        assert!(!figure.wide.contains("dotted"));
        let evidence = Evidence { bytes: Some(65_536), ..Evidence::default() };
        let finding = Finding {
            cause: Cause::ReceiveWindow,
            direction: None,
            source: SignSource::default(),
            trials: 3,
            of: 3,
            share: 0.9,
            evidence,
            test: None,
        };
        outcome.causes = vec![ContenderCauses { contender: 0, findings: vec![finding] }];
        let limited = super::figure(&outcome).unwrap();
        let mut sparse = lasting(12);
        sparse.causes = outcome.causes.clone();
        assert!(!super::figure(&sparse).unwrap().wide.contains("in flight"));
        assert!(limited.wide.contains(">in flight, bytes; dotted: the window that held it back<"));
        assert_eq!(limited.wide.matches(": 65,536 bytes").count(), 1);
        assert!(figure.wide.contains("slow start from 5.00 ms for 245 ms"));
        assert!(!figure.wide.contains("avoidance from"));
    }

    #[test]
    fn short_trials_have_none() {
        assert!(figure(&lasting(9)).is_none());
    }
}

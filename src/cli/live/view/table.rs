//! Figures and pairs of a metric as rows with bars.

use ratatui_core::text::{Line, Span};

use super::bars::{BarAxis, BarMarks, bar};
use super::ink::{Ink, cut, fit, line};
use super::model::LiveModel;
use crate::cli::standing::{MetricStanding, PairRow};
use deadheat_report::{columns, spark};

/// Least columns of a window with a course of widths.
const WIDE: usize = 100;

/// Columns of a course of widths.
const COURSE: usize = 12;

/// Least columns of a bar.
const LEAST_BAR: usize = 8;

/// Columns of the texts before a bar.
struct TextWidths {
    name: usize,
    point: usize,
    interval: usize,
}

impl TextWidths {
    /// Returns the columns that these rows of name, point and interval need.
    fn of<'a>(rows: impl Iterator<Item = [&'a str; 3]>, width: usize) -> TextWidths {
        let most = if width >= WIDE { 40 } else { width / 3 };
        let all = TextWidths { name: 4, point: 1, interval: 0 };
        rows.fold(all, |most_so_far, [name, point, interval]| TextWidths {
            name: most_so_far.name.max(columns(name)).min(most),
            point: most_so_far.point.max(columns(point)),
            interval: most_so_far.interval.max(columns(interval)),
        })
    }

    /// Returns the column in which bars begin.
    fn end(&self) -> usize {
        2 + self.name + 2 + self.point + 2 + self.interval + 2
    }

    fn row(&self, [name, point, interval]: [&str; 3]) -> String {
        let point = format!("{}{point}", " ".repeat(self.point.saturating_sub(columns(point))));
        format!("  {}  {point}  {}  ", fit(name, self.name), fit(interval, self.interval))
    }
}

/// Returns the figures of the first metric.
pub(super) fn figures(
    model: &LiveModel,
    metric: &MetricStanding,
    ink: Ink,
    width: usize,
) -> Vec<Line<'static>> {
    let rows: Vec<[String; 3]> = metric.rows.iter().map(|row| metric.texts(row)).collect();
    let texts = TextWidths::of(rows.iter().map(|row| row.each_ref().map(String::as_str)), width);
    let course = if width >= WIDE { COURSE + 2 } else { 0 };
    let room = width.saturating_sub(texts.end() + course + 1);
    let room = if room < LEAST_BAR { 0 } else { room };
    let mut lines = vec![heading(model, metric, (texts.end(), room, course), ink)];
    for (at, (row, shown)) in metric.rows.iter().zip(&rows).enumerate() {
        let style = if row.is_floor { ink.faint() } else { ink.bar() };
        let mut spans = vec![Span::raw(texts.row(shown.each_ref().map(String::as_str)))];
        if let (Some(axis), Some(point)) = (model.axis, row.estimate) {
            let mark = if row.is_floor { '○' } else { '●' };
            let marks = BarMarks { point: mark, behind: &[] };
            spans.push(Span::styled(bar(axis, point, row.ends, marks, room), style));
        }
        if course > 0
            && let Some(widths) = model.widths.get(at)
        {
            spans.push(Span::styled(format!("  {}", spark::line(widths, COURSE)), ink.faint()));
        }
        lines.push(Line::from(spans));
    }
    lines
}

/// Returns the heading: the metric with its unit, the ends of the axis over the bars.
fn heading(
    model: &LiveModel,
    metric: &MetricStanding,
    (begin, room, course): (usize, usize, usize),
    ink: Ink,
) -> Line<'static> {
    let mut spans = vec![Span::styled(fit(&metric.heading(), begin), ink.strong())];
    if let Some(axis) = model.axis.filter(|_| room > 0) {
        let [low, high] = [axis.low, axis.high].map(|end| metric.scale.number(end));
        let between = if axis.is_log() { "logarithmic" } else { "" };
        let gap = room.saturating_sub(columns(&low) + columns(&high));
        spans.push(Span::styled(format!("{low}{between:^gap$}{high}"), ink.faint()));
    }
    if course > 0 {
        spans.push(Span::styled("  width so far", ink.faint()));
    }
    Line::from(spans)
}

/// Most margins that an axis of pairs shows on each side of equality.
const MOST_MARGINS: f64 = 12.0;

/// Returns the pairs of a metric; no line if there are none.
pub(super) fn pairs(metric: &MetricStanding, ink: Ink, width: usize) -> Vec<Line<'static>> {
    if metric.pairs.is_empty() {
        return Vec::new();
    }
    let rows = metric.pairs.iter().map(|row| [&*row.name, &*row.point, &*row.interval]);
    let texts = TextWidths::of(rows, width);
    let room = width.saturating_sub(texts.end() + 1);
    let room = if room < LEAST_BAR { 0 } else { room };
    let ends = metric.pairs.iter().filter_map(|row| row.in_margins).flatten();
    let most = ends.map(f64::abs).fold(2.0, f64::max).min(MOST_MARGINS) * 1.1;
    let axis = BarAxis { low: -most, high: most };
    let what = fit("Pairs", texts.end());
    let margin = format!("┊ margin {} ┊", metric.margin);
    let legend = cut(&format!("{margin:^room$}"), room);
    let mut lines =
        vec![Line::from(vec![Span::styled(what, ink.strong()), Span::styled(legend, ink.faint())])];
    lines.extend(metric.pairs.iter().map(|row| pair(row, &texts, (axis, room), ink)));
    lines
}

fn pair(
    row: &PairRow,
    texts: &TextWidths,
    (axis, room): (BarAxis, usize),
    ink: Ink,
) -> Line<'static> {
    let text = texts.row([&row.name, &row.point, &row.interval]);
    let text_style = if row.is_control { ink.faint() } else { ratatui_core::style::Style::new() };
    let mut spans = vec![Span::styled(text, text_style)];
    if let Some([low, point, high]) = row.in_margins {
        let behind = [(-1.0, '┊'), (0.0, '│'), (1.0, '┊')];
        let marks = BarMarks { point: if row.is_control { '○' } else { '●' }, behind: &behind };
        let style = if row.is_control { ink.faint() } else { ink.bar() };
        spans.push(Span::styled(bar(axis, point, Some((low, high)), marks, room), style));
    }
    Line::from(spans)
}

/// Returns the figures of further metrics, a line each, for the details.
pub(super) fn further(metrics: &[MetricStanding], ink: Ink) -> Vec<Line<'static>> {
    let shown = metrics.iter().skip(1).map(|metric| {
        let rows = metric.rows.iter().map(|row| {
            let [name, point, interval] = metric.texts(row);
            format!("{name} {point} {interval}")
        });
        let text = format!("  {} {}: ", metric.label, metric.scale.unit());
        line(text + &rows.collect::<Vec<_>>().join(" · "), ink.faint())
    });
    shown.collect()
}

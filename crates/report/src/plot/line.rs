//! A surveyed line: round trips of small messages on the idle line, and beside each load.

use super::axis::{Axis, Quantity};
use super::canvas::Size;
use super::ink::Ink;
use super::rows::{Row, Rows, RowsAxis};
use super::{drawn, numbers};
use crate::figure::Figure;
use crate::words;
use deadheat_contract::measurements::Unit;
use deadheat_result::line::outcome::LineFigure;

const BAND: f64 = 18.0;

/// Kind of trial of a survey: the idle line, or a load.
pub(crate) struct LineRow<'a> {
    /// The load, in words.
    pub label: String,
    /// Round trip of a small message beside it.
    pub rtt: &'a LineFigure,
    /// Goodput of the load; `None` on the idle line.
    pub goodput: Option<&'a LineFigure>,
}

/// Draws the round trips of a survey; `None` if it has none.
pub(crate) fn figure(rows: &[LineRow<'_>]) -> Option<Figure> {
    let ends = rows.iter().flat_map(|row| [row.rtt.low, row.rtt.point, row.rtt.high]);
    let x = Axis::of(ends)?;
    let caption = "Median round trip of a small message, with its interval over rounds: on the idle line, and while a \
                   load fills it. The further right, the longer a call, a game or a click waits behind the load. An \
                   arrowhead: messages were lost, and the figure is at least this.";
    let numbers_of = |row: &LineRow<'_>| {
        let end = |value: f64| words::figure(value, Unit::Nanos);
        let goodput = row.goodput.map_or_else(|| words::NOTHING.to_owned(), figure_text);
        vec![
            row.label.clone(),
            figure_text(row.rtt),
            end(row.rtt.low),
            end(row.rtt.high),
            row.rtt.rounds.to_string(),
            goodput,
        ]
    };
    let headings = ["beside", "round trip", "low", "high", "rounds", "goodput"];
    Some(drawn(
        "line-round-trips".into(),
        "Round trips, idle and loaded".into(),
        caption.into(),
        numbers(&headings, rows.iter().map(numbers_of).collect()),
        |size| draw(rows, x, size),
    ))
}

fn figure_text(figure: &LineFigure) -> String {
    if figure.censored {
        words::beyond(figure.point, figure.unit)
    } else {
        words::figure(figure.point, figure.unit)
    }
}

fn draw(all: &[LineRow<'_>], x: Axis, size: Size) -> String {
    let row = |row: &LineRow<'_>| {
        let goodput =
            row.goodput.map_or_else(String::new, |one| format!(" · {}", figure_text(one)));
        let note = format!("{}{goodput}", figure_text(row.rtt));
        Row { label: row.label.clone(), note, ..Row::default() }
    };
    let rows: Vec<Row> = all.iter().map(row).collect();
    let axis = RowsAxis { x, quantity: Quantity::Of(Unit::Nanos), foot: "round trip" };
    let rows = Rows::new(size, &rows, BAND, axis);
    let panel = rows.panel();
    for (at, row) in all.iter().enumerate() {
        let (y, point) = (rows.y(at), row.rtt.point);
        panel.interval((row.rtt.low, row.rtt.high), y, Ink::Interval);
        let said = format!("{}: {}", row.label, figure_text(row.rtt));
        if row.rtt.censored {
            panel.arrow((point, y), Ink::Measured, 5.0, &said)
        } else {
            panel.mark((point, y), 0, Ink::Measured, 4.5, &said)
        }
    }
    rows.finish()
}

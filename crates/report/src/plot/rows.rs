//! Figures with a row for each contender or pair: labels at the left, or above on a phone, one axis
//! for all below, a note at the right.

use super::axis::{Axis, Quantity};
use super::canvas::{Anchor, Canvas, Frame, Panel, SMALL, Size, TEXT};
use super::ink::Ink;
use super::label;

/// Row of a figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Row {
    /// Label at the left.
    pub(super) label: String,
    /// Number of the contender; its colour and shape precede the label.
    pub(super) number: Option<usize>,
    /// Note at the right end.
    pub(super) note: String,
    /// A heading above it.
    pub(super) heading: Option<String>,
}

/// Horizontal axis under rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowsAxis<'a> {
    pub(super) x: Axis,
    /// Quantity of the ticks.
    pub(super) quantity: Quantity,
    /// Line of text under the ticks; empty for none.
    pub(super) foot: &'a str,
}

/// Maximum width of labels and notes on a wide drawing.
const WIDEST_LABEL: f64 = 200.0;
const WIDEST_NOTE: f64 = 150.0;
/// Distance from the swatch to the label.
const SWATCH: f64 = 15.0;
const HEADING: f64 = 22.0;
/// Height of a further line above a row.
const LINE: f64 = 15.0;

/// Layout of rows on a sheet.
pub(super) struct Rows {
    canvas: Canvas,
    frame: Frame,
    x: Axis,
    /// The middle of each row's band.
    middles: Vec<f64>,
    /// Top of each row, and its text.
    names: Vec<(f64, Row)>,
    size: Size,
}

impl Rows {
    /// Creates rows with a band of `band` units each, over one horizontal axis.
    pub(super) fn new(size: Size, rows: &[Row], band: f64, axis: RowsAxis<'_>) -> Rows {
        Rows::under(size, 0.0, rows, band, axis)
    }

    /// Creates rows like [`Rows::new`], with room of `above` units for a key.
    pub(super) fn under(
        size: Size,
        above: f64,
        rows: &[Row],
        band: f64,
        RowsAxis { x, quantity, foot }: RowsAxis<'_>,
    ) -> Rows {
        let is_wide = size == Size::Wide;
        let (mut y, mut tops, mut middles) = (above + 4.0, Vec::new(), Vec::new());
        for row in rows {
            y += if row.heading.is_some() { HEADING } else { 0.0 };
            tops.push(y);
            y += match (is_wide, is_on_two_lines(row, size)) {
                (true, _) => band + 8.0,
                (false, false) => band + 24.0,
                (false, true) => band + 24.0 + LINE,
            };
            middles.push(y - band / 2.0 - 4.0);
        }
        let foot_height = if foot.is_empty() { 0.0 } else { 18.0 };
        let canvas = Canvas::new(size, y + 24.0 + foot_height);
        let (left, right) = margins(size, rows);
        let frame = Frame { left, right: size.width() - right, top: above + 2.0, bottom: y };
        let names = tops.into_iter().zip(rows.iter().cloned()).collect();
        let sheet = Rows { canvas, frame, x, middles, names, size };
        sheet.panel().ticks_below(quantity);
        if !foot.is_empty() {
            let at = ((frame.left + frame.right) / 2.0, y + 31.0);
            sheet.canvas.fitted(at, foot, Ink::Small, Anchor::Middle, frame.right - frame.left);
        }
        sheet
    }

    fn name(&self, size: Size, row: &Row, top: f64, middle: f64) {
        let y = if size == Size::Wide { middle } else { top + 8.0 };
        let swatch = if row.number.is_some() { SWATCH } else { 0.0 };
        if let Some(heading) = &row.heading {
            let room = self.canvas.width - 4.0;
            self.canvas.fitted((0.0, top - 9.0), heading, Ink::Small, Anchor::Left, room);
        }
        if let Some(number) = row.number {
            self.canvas.mark((6.0, y), number, Ink::Dots(number), 3.6, "");
        }
        if is_on_two_lines(row, size) {
            let room = self.canvas.width - swatch;
            self.canvas.fitted((swatch, y), &row.label, Ink::Text, Anchor::Left, room);
            self.canvas.fitted((swatch, y + LINE), &row.note, Ink::Small, Anchor::Left, room);
            return;
        }
        let note = label::cut(&row.note, SMALL, WIDEST_NOTE);
        let room = match size {
            Size::Wide => self.frame.left - swatch - 8.0,
            Size::Narrow => self.canvas.width - swatch - label::width(&note, SMALL) - 10.0,
        };
        self.canvas.fitted((swatch, y), &row.label, Ink::Text, Anchor::Left, room);
        self.canvas.text((self.canvas.width, y), &note, Ink::Small, Anchor::Right);
    }

    /// Returns the panel to draw on: the horizontal axis in its quantity, the vertical one in units from
    /// the top.
    pub(super) fn panel(&self) -> Panel<'_> {
        let Frame { top, bottom, .. } = self.frame;
        let down = Axis::exact(0.0, bottom - top);
        let mut panel = self.canvas.panel(self.frame, self.x, down);
        panel.up = (top, bottom);
        panel
    }

    /// Returns the middle of a row's band, in units of the panel.
    pub(super) fn y(&self, row: usize) -> f64 {
        self.middles.get(row).map_or(0.0, |middle| middle - self.frame.top)
    }

    /// Returns the height of the panel, in its units.
    pub(super) fn height(&self) -> f64 {
        self.frame.bottom - self.frame.top
    }

    /// Returns the sheet itself.
    pub(super) fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// Returns the complete drawing; names are drawn last, so that nothing hides them.
    pub(super) fn finish(self) -> String {
        for ((top, row), middle) in self.names.iter().zip(&self.middles) {
            self.name(self.size, row, *top, *middle);
        }
        self.canvas.finish()
    }
}

/// Returns true if label and note do not fit beside each other above the row of a narrow drawing: none is cut for the
/// other.
fn is_on_two_lines(row: &Row, size: Size) -> bool {
    let swatch = if row.number.is_some() { SWATCH } else { 0.0 };
    let note = label::width(&row.note, SMALL);
    let both = label::width(&row.label, TEXT) + note + swatch + 10.0;
    size == Size::Narrow && (both > size.width() || note > WIDEST_NOTE)
}

/// Returns the room for labels at the left and for notes at the right.
fn margins(size: Size, rows: &[Row]) -> (f64, f64) {
    if size == Size::Narrow {
        return (6.0, 8.0);
    }
    let label = |row: &Row| {
        label::width(&label::cut(&row.label, TEXT, WIDEST_LABEL), TEXT)
            + if row.number.is_some() { SWATCH } else { 0.0 }
    };
    let note = |row: &Row| label::width(&label::cut(&row.note, SMALL, WIDEST_NOTE), SMALL);
    let left = rows.iter().map(label).fold(0.0, f64::max) + 14.0;
    let right = rows.iter().map(note).fold(0.0, f64::max) + 14.0;
    (left, right)
}

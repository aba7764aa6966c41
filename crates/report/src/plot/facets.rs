//! Figures with a small panel for each contender, and keys to lines that share a panel.

use super::canvas::{Anchor, Canvas, Frame, SMALL, Size, TEXT};
use super::ink::Ink;
use super::label;

/// Room for labels at the left of a panel.
const LEFT: f64 = 52.0;
/// Distance from one panel to the next beside it.
const BETWEEN: f64 = 22.0;
/// Height of the title over a panel, and of the ticks under it.
const TITLE: f64 = 20.0;
const TICKS: f64 = 24.0;
/// Distance from a sheet's edge to its key, so that no mark is cut off.
const INSET: f64 = 2.0;

/// Panels of one height in one or two columns.
pub(super) struct Facets {
    pub(super) canvas: Canvas,
    columns: usize,
    height: f64,
}

impl Facets {
    /// Creates `n` panels of `height` units, two beside each other if there is room.
    pub(super) fn new(size: Size, n: usize, height: f64) -> Facets {
        let columns = if size == Size::Wide && n > 1 { 2 } else { 1 };
        let rows = n.div_ceil(columns) as f64;
        let canvas = Canvas::new(size, rows * (TITLE + height + TICKS) + 4.0);
        Facets { canvas, columns, height }
    }

    /// Returns the position of panel `at`.
    pub(super) fn frame(&self, at: usize) -> Frame {
        let columns = self.columns as f64;
        let each = (self.canvas.width - BETWEEN * (columns - 1.0)) / columns;
        let left = (at % self.columns) as f64 * (each + BETWEEN);
        let top = (at / self.columns) as f64 * (TITLE + self.height + TICKS) + TITLE;
        Frame { left: left + LEFT, top, right: left + each - 8.0, bottom: top + self.height }
    }

    /// Draws the title of a panel, with a note at its right.
    pub(super) fn title(&self, at: usize, text: &str, number: Option<usize>, note: &str) {
        let frame = self.frame(at);
        let (left, y) = (frame.left, frame.top - 9.0);
        let swatch = if number.is_some() { 11.0 } else { 0.0 };
        if let Some(number) = number {
            self.canvas.mark((left + 4.0, y), number, Ink::Key(number), 3.4, "");
        }
        let note = label::cut(note, SMALL, (frame.right - left) * 0.6);
        let room = frame.right - left - swatch - label::width(&note, SMALL) - 10.0;
        self.canvas.fitted((left + swatch, y), text, Ink::Text, Anchor::Left, room);
        self.canvas.text((frame.right, y), &note, Ink::Small, Anchor::Right);
    }
}

/// Key to the lines or parts, in rows over the panel.
pub(super) struct LineKey {
    places: Vec<(f64, f64, usize, String)>,
    pub(super) height: f64,
    kind: KeyKind,
}

/// Kind of entries in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Lines,
    Parts,
}

const LINE: f64 = 17.0;

impl LineKey {
    /// Creates a key of the lines of `entries`, by number and label.
    pub(super) fn new<'a>(size: Size, entries: impl Iterator<Item = (usize, &'a str)>) -> LineKey {
        LineKey::of(KeyKind::Lines, size, entries)
    }

    /// Creates a key of the parts of stacked bars, by number and name.
    pub(super) fn parts<'a>(
        size: Size,
        entries: impl Iterator<Item = (usize, &'a str)>,
    ) -> LineKey {
        LineKey::of(KeyKind::Parts, size, entries)
    }

    fn of<'a>(
        kind: KeyKind,
        size: Size,
        entries: impl Iterator<Item = (usize, &'a str)>,
    ) -> LineKey {
        let (mut x, mut y) = (INSET, 9.0);
        let sample = kind.sample();
        let mut places = Vec::new();
        for (number, text) in entries {
            let text = label::cut(text, TEXT, size.width() * 0.6);
            let width = sample + 4.0 + label::width(&text, TEXT) + 16.0;
            if x > INSET && x + width > size.width() {
                (x, y) = (INSET, y + LINE);
            }
            places.push((x, y, number, text));
            x += width;
        }
        let height = if places.is_empty() { 0.0 } else { y + 13.0 };
        LineKey { places, height, kind }
    }

    /// Draws the key at the top of a sheet.
    pub(super) fn draw(&self, canvas: &Canvas) {
        let sample = self.kind.sample();
        for (x, y, number, text) in &self.places {
            // A keyboard does not stop at these marks: their words are beside them.
            if self.kind == KeyKind::Lines {
                canvas.stroke((*x, *y), (x + sample - 4.0, *y), Ink::KeyLine(*number));
                canvas.mark((x + sample / 2.0 - 2.0, *y), *number, Ink::Key(*number), 3.0, "");
            } else {
                canvas.mark((x + 5.0, *y), 1, Ink::KeyPart(*number), 5.5, "");
            }
            canvas.text((x + sample, *y), text, Ink::Text, Anchor::Left);
        }
    }
}

impl KeyKind {
    /// Returns the width of the sample before a name.
    fn sample(self) -> f64 {
        match self {
            KeyKind::Lines => 24.0,
            KeyKind::Parts => 15.0,
        }
    }
}

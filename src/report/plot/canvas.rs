//! A sheet to draw on: text, and panels with two axes.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TextStyle};

use super::axis::{Axis, Quantity, labels};
use super::ink::Ink;
use super::label;
use super::svg::{STEPS, Sheet, Svg};

/// Size of a drawing; a figure has one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Wide drawing, for a screen or paper.
    Wide,
    /// Narrow drawing, for a phone.
    Narrow,
}

impl Size {
    /// Returns its width in units.
    pub(super) fn width(self) -> f64 {
        match self {
            Size::Wide => 760.0,
            Size::Narrow => 340.0,
        }
    }
}

/// Sizes of letters, in units; the style sheet has the same.
pub(super) const TEXT: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;

/// Anchor of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Left,
    Middle,
    Right,
}

/// Sheet of a size. Drawing on it cannot fail, although the library returns results.
pub(super) struct Canvas {
    sheet: Rc<RefCell<Sheet>>,
    root: DrawingArea<Svg, Shift>,
    pub(super) width: f64,
    pub(super) height: f64,
}

fn steps(units: f64) -> i32 {
    (units * STEPS).round() as i32
}

impl Canvas {
    /// Creates an empty sheet.
    pub(super) fn new(size: Size, height: f64) -> Canvas {
        let (width, height) = (size.width(), height.max(10.0).ceil());
        let sheet = Rc::new(RefCell::new(Sheet::default()));
        let root = Svg::new(Rc::clone(&sheet), (steps(width) as u32, steps(height) as u32));
        Canvas { sheet, root: root.into_drawing_area(), width, height }
    }

    /// Returns the complete drawing.
    pub(super) fn finish(self) -> String {
        let sheet = self.sheet.take();
        let (width, height) = (self.width, self.height);
        let mut svg = String::with_capacity(sheet.out.len() + 128);
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\">"
        );
        svg.push_str(&sheet.out);
        svg.push_str("</svg>");
        svg
    }

    /// Sets the meaning of the next mark, in words.
    fn say(&self, words: impl Into<String>) {
        self.sheet.borrow_mut().words = Some(words.into());
    }

    /// Draws a line of text, held in the middle of its height.
    pub(super) fn text(&self, (x, y): (f64, f64), text: &str, ink: Ink, hold: Hold) {
        let size = if ink == Ink::Small { SMALL } else { TEXT };
        let h_pos = match hold {
            Hold::Left => HPos::Left,
            Hold::Middle => HPos::Center,
            Hold::Right => HPos::Right,
        };
        let colour = ink.to_rgba();
        let style = TextStyle::from(("sans-serif", size * STEPS).into_font())
            .color(&colour)
            .pos(Pos::new(h_pos, VPos::Center));
        let _ = self.root.draw(&Text::new(text, (steps(x), steps(y)), style));
    }

    /// Draws text, cut to `room`.
    pub(super) fn fitted(&self, at: (f64, f64), text: &str, ink: Ink, hold: Hold, room: f64) {
        let size = if ink == Ink::Small { SMALL } else { TEXT };
        self.text(at, &label::cut(text, size, room), ink, hold);
    }

    /// Draws a line between two places.
    pub(super) fn stroke(&self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        let points = [from, to].map(|(x, y)| (steps(x), steps(y)));
        let _ = self.root.draw(&PathElement::new(points, ink.style()));
    }

    /// Draws the mark of the contender `shape`, which is not told from others by its colour alone.
    pub(super) fn mark(&self, at: (f64, f64), shape: usize, ink: Ink, radius: f64, words: &str) {
        if !words.is_empty() {
            self.say(words);
        }
        let (x, y) = (steps(at.0), steps(at.1));
        let Some(corners) = corners(shape, radius) else {
            let _ = self.root.draw(&Circle::new((x, y), steps(radius), ink.style()));
            return;
        };
        let corners: Vec<(i32, i32)> =
            corners.iter().map(|(dx, dy)| (x + steps(*dx), y + steps(*dy))).collect();
        let _ = self.root.draw(&Polygon::new(corners, ink.style()));
    }

    /// Creates a panel: `x` from `left` to `right`, `y` from `bottom` to `top`.
    pub(super) fn panel(&self, frame: Frame, x: Axis, y: Axis) -> Panel<'_> {
        let across = steps(frame.left)..steps(frame.right);
        let up = steps(frame.bottom)..steps(frame.top);
        let area = self.root.apply_coord_spec(Cartesian2d::<Axis, Axis>::new(x, y, (across, up)));
        Panel { canvas: self, area, frame, x, y }
    }
}

/// Returns the corners of a shape around the middle; `None` for a circle.
fn corners(shape: usize, r: f64) -> Option<Vec<(f64, f64)>> {
    let square = 0.88 * r;
    Some(match shape % 6 {
        1 => vec![(-square, -square), (square, -square), (square, square), (-square, square)],
        2 => vec![(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)],
        3 => vec![(0.0, -1.2 * r), (1.15 * r, 0.85 * r), (-1.15 * r, 0.85 * r)],
        4 => vec![(0.0, 1.2 * r), (1.15 * r, -0.85 * r), (-1.15 * r, -0.85 * r)],
        5 => cross(1.2 * r, 0.45 * r),
        _ => return None,
    })
}

/// Returns the outline of a plus.
fn cross(far: f64, near: f64) -> Vec<(f64, f64)> {
    let arm = [(-near, -far), (near, -far), (near, -near), (far, -near), (far, near), (near, near)];
    let back = arm.map(|(x, y)| (-x, -y));
    arm.into_iter().chain(back).collect()
}

/// Returns the shape for a value that is only known to lie beyond: an arrowhead to the right.
pub(super) fn arrow((x, y): (f64, f64), r: f64) -> [(f64, f64); 3] {
    [(x - r, y - r), (x + 1.3 * r, y), (x - r, y + r)]
}

/// Position of a panel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// A part of a sheet with axes.
pub(super) struct Panel<'a> {
    canvas: &'a Canvas,
    area: DrawingArea<Svg, Cartesian2d<Axis, Axis>>,
    pub(super) frame: Frame,
    x: Axis,
    y: Axis,
}

impl Panel<'_> {
    /// Returns the position of a pair of values, in units.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = self.area.map_coordinate(&(x, y));
        (f64::from(x) / STEPS, f64::from(y) / STEPS)
    }

    /// Returns the greatest value of the vertical axis.
    pub(super) fn y_high(&self) -> f64 {
        self.y.high()
    }

    /// Draws a line through pairs of values.
    pub(super) fn line(&self, points: Vec<(f64, f64)>, ink: Ink, words: &str) {
        if !words.is_empty() {
            self.canvas.say(words);
        }
        let _ = self.area.draw(&PathElement::new(points, ink.style()));
    }

    /// Fills the area inside a line through pairs of values.
    pub(super) fn area(&self, corners: Vec<(f64, f64)>, ink: Ink) {
        let _ = self.area.draw(&Polygon::new(corners, ink.style()));
    }

    /// Draws a rectangle between two pairs of values.
    pub(super) fn rectangle(&self, from: (f64, f64), to: (f64, f64), ink: Ink, words: &str) {
        if !words.is_empty() {
            self.canvas.say(words);
        }
        let _ = self.area.draw(&Rectangle::new([from, to], ink.style()));
    }

    /// Draws a mark at a pair of values.
    pub(super) fn mark(&self, (x, y): (f64, f64), shape: usize, ink: Ink, r: f64, words: &str) {
        self.canvas.mark(self.at(x, y), shape, ink, r, words);
    }

    /// Draws an arrowhead at a pair of values: the true value is only known to lie beyond.
    pub(super) fn arrow(&self, (x, y): (f64, f64), ink: Ink, r: f64, words: &str) {
        if !words.is_empty() {
            self.canvas.say(words);
        }
        let corners = arrow(self.at(x, y), r).map(|(x, y)| (steps(x), steps(y)));
        let _ = self.canvas.root.draw(&Polygon::new(corners, ink.style()));
    }

    /// Draws the grid and the labels of the horizontal axis.
    pub(super) fn ticks_below(&self, quantity: Quantity) {
        let Frame { left, right, top, bottom } = self.frame;
        let ticks = self.x.ticks(((right - left) / 52.0) as usize);
        let labels = labels(&self.x, &ticks, quantity);
        let mut free = f64::NEG_INFINITY;
        for (tick, label) in ticks.iter().zip(labels) {
            let (x, _) = self.at(*tick, self.y.low());
            self.canvas.stroke((x, top), (x, bottom), Ink::Grid);
            let half = label::width(&label, SMALL) / 2.0;
            // Inside the sheet, and not into the label before.
            let at = x.min(self.canvas.width - half - 1.0).max(half + 1.0);
            if at - half > free {
                self.canvas.text((at, bottom + 12.0), &label, Ink::Small, Hold::Middle);
                free = at + half + 6.0;
            }
        }
        self.canvas.stroke((left, bottom), (right, bottom), Ink::Axis);
    }

    /// Draws the grid of the horizontal axis, whose labels stand under another panel.
    pub(super) fn grid_below(&self) {
        let Frame { left, right, bottom, .. } = self.frame;
        for tick in self.x.ticks(((right - left) / 52.0) as usize) {
            self.upright(tick, Ink::Grid);
        }
        self.canvas.stroke((left, bottom), (right, bottom), Ink::Axis);
    }

    /// Draws the grid and the labels of the vertical axis.
    pub(super) fn ticks_left(&self, quantity: Quantity) {
        let ticks = self.y.ticks(((self.frame.bottom - self.frame.top) / 22.0) as usize);
        let labels = labels(&self.y, &ticks, quantity);
        self.named_left(&ticks.into_iter().zip(labels).collect::<Vec<_>>());
    }

    /// Draws a grid at the values given, with their names.
    pub(super) fn named_left(&self, ticks: &[(f64, String)]) {
        for (tick, label) in ticks {
            let (_, y) = self.at(self.x.low(), *tick);
            self.canvas.stroke((self.frame.left, y), (self.frame.right, y), Ink::Grid);
            self.canvas.text((self.frame.left - 6.0, y), label, Ink::Small, Hold::Right);
        }
    }

    /// Draws a line across at a value of the vertical axis.
    pub(super) fn level(&self, y: f64, ink: Ink) {
        let (_, y) = self.at(self.x.low(), y);
        self.canvas.stroke((self.frame.left, y), (self.frame.right, y), ink);
    }

    /// Draws a line up and down at a value of the horizontal axis.
    pub(super) fn upright(&self, x: f64, ink: Ink) {
        let (x, _) = self.at(x, self.y.low());
        self.canvas.stroke((x, self.frame.top), (x, self.frame.bottom), ink);
    }
}

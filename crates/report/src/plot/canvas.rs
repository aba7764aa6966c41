//! A sheet to draw on: text, and panels with two axes.

use std::cell::RefCell;

use super::axis::{Axis, Quantity, labels};
use super::ink::Ink;
use super::label;
pub(super) use super::svg::Anchor;
use super::svg::{STEPS, Svg, steps};

/// Size of a drawing; a figure has one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Wide drawing, for a screen or paper.
    Wide,
    /// Narrow drawing, for a phone.
    Narrow,
}

impl Size {
    /// Returns the width in units.
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

/// Sheet of a size.
pub(super) struct Canvas {
    svg: RefCell<Svg>,
    pub(super) width: f64,
}

impl Canvas {
    /// Creates an empty sheet.
    pub(super) fn new(size: Size, height: f64) -> Canvas {
        let width = size.width();
        Canvas { svg: RefCell::new(Svg::new(width, height.max(10.0).ceil())), width }
    }

    /// Returns the complete drawing.
    pub(super) fn finish(self) -> String {
        self.svg.into_inner().finish()
    }

    /// Draws a line of text, anchored in the middle of its height.
    pub(super) fn text(&self, at: (f64, f64), text: &str, ink: Ink, anchor: Anchor) {
        self.svg.borrow_mut().text(at, text, letters(ink), ink, anchor);
    }

    /// Draws text, cut to `room`.
    pub(super) fn fitted(&self, at: (f64, f64), text: &str, ink: Ink, anchor: Anchor, room: f64) {
        self.text(at, &label::cut(text, letters(ink), room), ink, anchor);
    }

    /// Draws a line between two places.
    pub(super) fn stroke(&self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        self.svg.borrow_mut().line(&[from, to], ink, "");
    }

    /// Draws the mark of the contender `shape`, which differs from others not only in colour.
    pub(super) fn mark(&self, at: (f64, f64), shape: usize, ink: Ink, radius: f64, words: &str) {
        let mut svg = self.svg.borrow_mut();
        match corners(shape, radius) {
            None => svg.circle(at, radius, ink, words),
            Some(corners) => svg.area(&around(at, &corners), ink, words),
        }
    }

    /// Creates a panel: `x` from `left` to `right`, `y` from `bottom` to `top`.
    pub(super) fn panel(&self, frame: Frame, x: Axis, y: Axis) -> Panel<'_> {
        Panel { canvas: self, frame, up: (frame.bottom, frame.top), x, y }
    }
}

/// Returns the size of letters.
fn letters(ink: Ink) -> f64 {
    if ink == Ink::Small { SMALL } else { TEXT }
}

/// Returns the places of corners around the middle `at`.
fn around((x, y): (f64, f64), corners: &[(f64, f64)]) -> Vec<(f64, f64)> {
    // Each corner is on the grid, so that a shape is the same at every position.
    let on_grid = |units: f64| f64::from(steps(units)) / STEPS;
    corners.iter().map(|(dx, dy)| (on_grid(x) + on_grid(*dx), on_grid(y) + on_grid(*dy))).collect()
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
    pub(super) frame: Frame,
    /// Start and end of the vertical axis: the bottom and the top, unless the axis points down.
    pub(super) up: (f64, f64),
    x: Axis,
    y: Axis,
}

impl Panel<'_> {
    /// Returns the position of a pair of values, in units, on the grid of coordinates.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let between = |from: f64, to: f64, share: f64| {
            let (from, to) = (f64::from(steps(from)), f64::from(steps(to)));
            (from + ((to - from) * share).round()) / STEPS
        };
        let Frame { left, right, .. } = self.frame;
        (between(left, right, self.x.share(x)), between(self.up.0, self.up.1, self.y.share(y)))
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().map(|(x, y)| self.at(*x, *y)).collect()
    }

    /// Returns the greatest value of the vertical axis.
    pub(super) fn y_high(&self) -> f64 {
        self.y.high()
    }

    /// Draws a line through pairs of values.
    pub(super) fn line(&self, points: &[(f64, f64)], ink: Ink, words: &str) {
        self.canvas.svg.borrow_mut().line(&self.places(points), ink, words);
    }

    /// Draws an interval on the horizontal axis, with a bar across at each end.
    pub(super) fn interval(&self, (low, high): (f64, f64), y: f64, ink: Ink) {
        self.line(&[(low, y), (high, y)], ink, "");
        for end in [low, high] {
            self.line(&[(end, y - 4.0), (end, y + 4.0)], ink, "");
        }
    }

    /// Fills the area inside a line through pairs of values.
    pub(super) fn area(&self, corners: &[(f64, f64)], ink: Ink) {
        self.canvas.svg.borrow_mut().area(&self.places(corners), ink, "");
    }

    /// Draws a rectangle between two pairs of values.
    pub(super) fn rectangle(&self, from: (f64, f64), to: (f64, f64), ink: Ink, words: &str) {
        let corners = [from, to].map(|(x, y)| self.at(x, y));
        self.canvas.svg.borrow_mut().rectangle(corners, ink, words);
    }

    /// Draws a mark at a pair of values.
    pub(super) fn mark(&self, (x, y): (f64, f64), shape: usize, ink: Ink, r: f64, words: &str) {
        self.canvas.mark(self.at(x, y), shape, ink, r, words);
    }

    /// Draws an arrowhead at a pair of values, to the right, or with a negative `r` to the left: the true value is only
    /// known to lie beyond.
    pub(super) fn arrow(&self, (x, y): (f64, f64), ink: Ink, r: f64, words: &str) {
        let (x, y) = self.at(x, y);
        let corners = [(x - r, y - r), (x + 1.3 * r, y), (x - r, y + r)];
        self.canvas.svg.borrow_mut().area(&corners, ink, words);
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
            // Labels stay inside the sheet, and do not touch the label before.
            let at = x.min(self.canvas.width - half - 1.0).max(half + 1.0);
            if at - half > free {
                self.canvas.text((at, bottom + 12.0), &label, Ink::Small, Anchor::Middle);
                free = at + half + 6.0;
            }
        }
        self.canvas.stroke((left, bottom), (right, bottom), Ink::Axis);
    }

    /// Draws the grid of the horizontal axis, with labels under another panel.
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
            self.canvas.text((self.frame.left - 6.0, y), label, Ink::Small, Anchor::Right);
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

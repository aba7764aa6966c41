//! Compact SVG: classes in place of colours, a tenth of a unit as the grid of all coordinates, and words
//! on the marks.

use std::fmt::Write;

use super::ink::Ink;

/// Coordinates in steps, from the top left corner.
type Point = (i32, i32);

/// Steps of a coordinate in one unit of the drawing.
pub(super) const STEPS: f64 = 10.0;

/// Returns a length in steps, the nearest.
pub(super) fn steps(units: f64) -> i32 {
    (units * STEPS).round() as i32
}

/// Anchor of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// Drawing under construction. Places and lengths are in units; a place beyond an edge is moved to the edge.
#[derive(Debug)]
pub(super) struct Svg {
    out: String,
    size: Point,
}

impl Svg {
    /// Creates an empty drawing.
    pub(super) fn new(width: f64, height: f64) -> Svg {
        let out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\">"
        );
        Svg { out, size: (steps(width), steps(height)) }
    }

    /// Returns the complete drawing.
    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }

    /// Draws a line through `points`, or a dot at each for [`Ink::Dots`]; `words` describe it, if
    /// they are not empty.
    pub(super) fn line(&mut self, points: &[(f64, f64)], ink: Ink, words: &str) {
        let points = self.places(points);
        self.element("path", ink, words, |out| match ink {
            Ink::Dots(_) | Ink::NobodyDots => dots(out, &points),
            _ => outline(out, &points, false),
        });
    }

    /// Draws the area inside `corners`.
    pub(super) fn area(&mut self, corners: &[(f64, f64)], ink: Ink, words: &str) {
        let points = self.places(corners);
        self.element("path", ink, words, |out| outline(out, &points, true));
    }

    /// Draws a rectangle between two corners.
    pub(super) fn rectangle(&mut self, corners: [(f64, f64); 2], ink: Ink, words: &str) {
        let [from, to] = corners.map(|corner| self.place(corner));
        let (left, top) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = ((from.0 - to.0).abs(), (from.1 - to.1).abs());
        let sides = [("x", left), ("y", top), ("width", width), ("height", height)];
        self.element("rect", ink, words, |out| lengths(out, sides));
    }

    /// Draws a circle.
    pub(super) fn circle(&mut self, centre: (f64, f64), radius: f64, ink: Ink, words: &str) {
        let (x, y) = self.place(centre);
        let sides = [("cx", x), ("cy", y), ("r", steps(radius))];
        self.element("circle", ink, words, |out| lengths(out, sides));
    }

    /// Draws a line of text of `size`, anchored in the middle of its height.
    pub(super) fn text(&mut self, at: (f64, f64), text: &str, size: f64, ink: Ink, anchor: Anchor) {
        let (x, y) = self.place(at);
        // From the middle down to the baseline.
        let y = y + (size * STEPS * 0.35) as i32;
        let _ = write!(self.out, "<text class=\"{}\"", ink.classes());
        lengths(&mut self.out, [("x", x), ("y", y)]);
        self.out.push_str(match anchor {
            Anchor::Left => ">",
            Anchor::Middle => " text-anchor=\"middle\">",
            Anchor::Right => " text-anchor=\"end\">",
        });
        escape(&mut self.out, text);
        self.out.push_str("</text>");
    }

    /// Writes an element with its classes and words; `shape` writes the attributes of its shape.
    fn element(&mut self, name: &str, ink: Ink, words: &str, shape: impl FnOnce(&mut String)) {
        let out = &mut self.out;
        let _ = write!(out, "<{name} class=\"{}\"", ink.classes());
        shape(out);
        if let Some(dashes) = ink.dashes() {
            let _ = write!(out, " stroke-dasharray=\"{dashes}\"");
        }
        if !words.is_empty() {
            out.push_str(" data-t=\"");
            escape(out, words);
            out.push('"');
        }
        out.push_str("/>");
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<Point> {
        points.iter().map(|point| self.place(*point)).collect()
    }

    fn place(&self, (x, y): (f64, f64)) -> Point {
        (steps(x).clamp(0, self.size.0), steps(y).clamp(0, self.size.1))
    }
}

/// Writes attributes that are lengths.
fn lengths<const N: usize>(out: &mut String, lengths: [(&str, i32); N]) {
    for (name, steps) in lengths {
        let _ = write!(out, " {name}=\"");
        number(out, steps);
        out.push('"');
    }
}

/// Formats coordinates in units, with one digit at most: `12.3`, `7`.
fn number(out: &mut String, steps: i32) {
    let (whole, rest) = (steps / 10, (steps % 10).abs());
    let sign = if steps < 0 && whole == 0 && rest != 0 { "-" } else { "" };
    let _ = match rest {
        0 => write!(out, "{whole}"),
        _ => write!(out, "{sign}{whole}.{rest}"),
    };
}

/// Writes a line through `points` as relative steps, which are shorter than places.
fn outline(out: &mut String, points: &[Point], closed: bool) {
    out.push_str(" d=\"");
    let mut last = None;
    for point in points {
        match last.replace(*point) {
            None => {
                out.push('M');
                number(out, point.0);
                out.push(' ');
                number(out, point.1);
            }
            Some((x, y)) => {
                let (dx, dy) = (point.0 - x, point.1 - y);
                let name = match (dx, dy) {
                    // A line of no length is drawn only if it is the whole outline.
                    (0, 0) if points.len() > 2 => continue,
                    (_, 0) => 'h',
                    (0, _) => 'v',
                    _ => 'l',
                };
                out.push(name);
                if name != 'v' {
                    number(out, dx);
                }
                if name == 'l' {
                    out.push(if dy < 0 { '-' } else { ' ' });
                    number(out, dy.abs());
                }
                if name == 'v' {
                    number(out, dy);
                }
            }
        }
    }
    out.push_str(if closed { "z\"" } else { "\"" });
}

/// Writes a dot at each of `points`: lines of no length, with round ends.
fn dots(out: &mut String, points: &[Point]) {
    out.push_str(" d=\"");
    for point in points {
        out.push('M');
        number(out, point.0);
        out.push(' ');
        number(out, point.1);
        out.push_str("h0");
    }
    out.push('"');
}

/// Escapes `text` as XML: markup escaped, and characters that XML 1.0 cannot carry or would hide written
/// out.
pub(super) fn escape(out: &mut String, text: &str) {
    for c in deadheat_base::foreign::visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_digit_at_most() {
        let show = |steps| {
            let mut out = String::new();
            number(&mut out, steps);
            out
        };
        assert_eq!([0, 5, -5, 10, -15, 123].map(show), ["0", "0.5", "-0.5", "1", "-1.5", "12.3"]);
    }

    #[test]
    fn lines_are_written_by_their_steps() {
        let mut out = String::new();
        outline(&mut out, &[(0, 0), (10, 0), (10, 25), (5, 20), (6, 30)], true);
        assert_eq!(out, " d=\"M0 0h1v2.5l-0.5-0.5l0.1 1z\"");
        out.clear();
        dots(&mut out, &[(1, 2), (30, 40)]);
        assert_eq!(out, " d=\"M0.1 0.2h0M3 4h0\"");
    }

    #[test]
    fn markup_and_what_hides_are_written_out() {
        let mut out = String::new();
        escape(&mut out, "<script>\"a\" & 'b'</script>\u{0}\u{202e}\u{ffff}");
        assert_eq!(
            out,
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;\\u{0}\\u{202e}\u{fffd}"
        );
    }
}

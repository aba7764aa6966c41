//! A backend of the plotting library that writes compact SVG: classes in place of colours, a tenth of
//! a unit as the grid of all coordinates, and words on the marks.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write;
use std::rc::Rc;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use super::ink::Ink;

/// Steps of a coordinate in one unit of the drawing.
pub(super) const STEPS: f64 = 10.0;

/// Drawing under construction.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// The elements so far.
    pub(super) out: String,
    /// Meaning of the next mark, in words.
    pub(super) words: Option<String>,
}

/// Draws onto a sheet. Writing to memory cannot fail.
pub(super) struct Svg {
    sheet: Rc<RefCell<Sheet>>,
    size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Svg {
    /// Creates a drawing of a size in steps.
    pub(super) fn new(sheet: Rc<RefCell<Sheet>>, size: (u32, u32)) -> Svg {
        Svg { sheet, size }
    }

    /// Writes an element with its classes; `shape` writes the attributes of its shape.
    fn element(&mut self, name: &str, ink: Ink, shape: impl FnOnce(&mut String)) -> Drawn {
        let mut sheet = self.sheet.borrow_mut();
        let words = sheet.words.take();
        let out = &mut sheet.out;
        let _ = write!(out, "<{name} class=\"{}\"", ink.classes());
        shape(out);
        if let Some(dashes) = ink.dashes() {
            let _ = write!(out, " stroke-dasharray=\"{dashes}\"");
        }
        if let Some(words) = words {
            out.push_str(" data-t=\"");
            escape(out, &words);
            out.push('"');
        }
        out.push_str("/>");
        Ok(())
    }
}

impl DrawingBackend for Svg {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        self.draw_rect(at, at, &colour, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        let (left, right) = (from.0.min(to.0), from.0.max(to.0));
        let (top, bottom) = (from.1.min(to.1), from.1.max(to.1));
        self.element("rect", Ink::of(style.color()), |out| {
            let sides =
                [("x", left), ("y", top), ("width", right - left), ("height", bottom - top)];
            for (name, steps) in sides {
                let _ = write!(out, " {name}=\"");
                number(out, steps);
                out.push('"');
            }
        })
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let ink = Ink::of(style.color());
        let points: Vec<BackendCoord> = path.into_iter().collect();
        self.element("path", ink, |out| match ink {
            Ink::Dots(_) => dots(out, &points),
            _ => outline(out, &points, false),
        })
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        let radius = i32::try_from(radius).unwrap_or(i32::MAX);
        self.element("circle", Ink::of(style.color()), |out| {
            for (name, steps) in [("cx", centre.0), ("cy", centre.1), ("r", radius)] {
                let _ = write!(out, " {name}=\"");
                number(out, steps);
                out.push('"');
            }
        })
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        let points: Vec<BackendCoord> = corners.into_iter().collect();
        self.element("path", Ink::of(style.color()), |out| outline(out, &points, true))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        let anchor = style.anchor();
        // From the line on which letters stand to where they are held.
        let down = match anchor.v_pos {
            VPos::Top => 0.78,
            VPos::Center => 0.35,
            VPos::Bottom => 0.0,
        };
        let y = at.1 + (style.size() * down) as i32;
        let mut sheet = self.sheet.borrow_mut();
        let out = &mut sheet.out;
        let _ = write!(out, "<text class=\"{}\" x=\"", Ink::of(style.color()).classes());
        number(out, at.0);
        out.push_str("\" y=\"");
        number(out, y);
        out.push('"');
        match anchor.h_pos {
            HPos::Left => {}
            HPos::Center => out.push_str(" text-anchor=\"middle\""),
            HPos::Right => out.push_str(" text-anchor=\"end\""),
        }
        out.push('>');
        escape(out, text);
        out.push_str("</text>");
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = super::label::width(text, style.size());
        Ok((width as u32, style.size() as u32))
    }
}

/// Coordinates in units, with one digit at most: `12.3`, `7`.
fn number(out: &mut String, steps: i32) {
    let (whole, rest) = (steps / 10, (steps % 10).abs());
    let sign = if steps < 0 && whole == 0 && rest != 0 { "-" } else { "" };
    let _ = match rest {
        0 => write!(out, "{whole}"),
        _ => write!(out, "{sign}{whole}.{rest}"),
    };
}

/// Writes a line through `points`, by its steps, which are shorter than places.
fn outline(out: &mut String, points: &[BackendCoord], closed: bool) {
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
                    // A line of no length is not drawn at all, unless it is all there is.
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
fn dots(out: &mut String, points: &[BackendCoord]) {
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
    for c in crate::foreign::visible(text).chars() {
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

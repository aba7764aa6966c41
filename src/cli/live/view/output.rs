//! Frames as control sequences of ECMA-48: of each frame the cells that differ from the frame before.

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

/// Frames of a view, one after the other.
///
/// The backends that ratatui has write to the terminal at once, and wait for it; these bytes are written when it takes
/// them.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Frame that the terminal shows.
    shown: Buffer,
    is_known: bool,
}

/// Most columns and rows of a frame.
const MOST: usize = 1_000;

impl Frames {
    /// Has the next frame drawn whole: something else may have written to the terminal.
    pub(super) fn anew(&mut self) {
        self.is_known = false;
    }

    /// Returns true if a frame of this size shows all of the window.
    pub(super) fn fits(&self, size: (usize, usize)) -> bool {
        self.is_known && self.shown.area == area(size)
    }

    /// Draws the next frame, and returns the bytes that turn the last one into it.
    pub(super) fn next(&mut self, size: (usize, usize), draw: impl FnOnce(&mut Buffer)) -> Vec<u8> {
        let mut bytes = String::new();
        if !self.fits(size) {
            self.shown = Buffer::empty(area(size));
            self.is_known = true;
            bytes += "\x1b[0m\x1b[2J";
        }
        let mut next = Buffer::empty(area(size));
        draw(&mut next);
        bytes += &changes(&self.shown.diff(&next));
        self.shown = next;
        bytes.into_bytes()
    }
}

fn area((columns, rows): (usize, usize)) -> Rect {
    let cells = |n: usize| u16::try_from(n.clamp(1, MOST)).unwrap_or(1);
    Rect::new(0, 0, cells(columns), cells(rows))
}

/// Returns the bytes that write these cells.
fn changes(cells: &[(u16, u16, &Cell)]) -> String {
    let mut bytes = String::new();
    let (mut next, mut style) = (None, None);
    for (x, y, cell) in cells {
        if next != Some((*x, *y)) {
            bytes += &format!("\x1b[{};{}H", y + 1, x + 1);
        }
        if style != Some(cell.style()) {
            style = Some(cell.style());
            bytes += &select(cell.style());
        }
        bytes += cell.symbol();
        // How far another character moves the cursor is for the terminal to say.
        let is_narrow = deadheat_report::columns(cell.symbol()) == 1;
        next = is_narrow.then(|| (x.saturating_add(1), *y));
    }
    if style.is_some() {
        bytes += "\x1b[0m";
    }
    bytes
}

/// Returns the sequence that selects a style (SGR, ECMA-48 8.3.117), from any style before.
fn select(style: Style) -> String {
    let mut codes = vec!["0"];
    let modifiers = [(Modifier::BOLD, "1"), (Modifier::DIM, "2")];
    let on = modifiers.iter().filter(|(one, _)| style.add_modifier.contains(*one));
    codes.extend(on.map(|(_, code)| *code));
    codes.extend(match style.fg {
        Some(Color::Magenta) => Some("35"),
        Some(Color::Cyan) => Some("36"),
        // The view has no other colours.
        _ => None,
    });
    format!("\x1b[{}m", codes.join(";"))
}

#[cfg(test)]
mod tests {
    use super::super::ink::Ink;
    use super::*;

    #[test]
    fn a_frame_is_drawn_whole_once_and_then_by_what_differs() {
        let mut frames = Frames::default();
        let text = |frames: &mut Frames, size, text: &str, style: Style| {
            let bytes = frames.next(size, |buffer| {
                buffer.set_string(0, 0, text, style);
            });
            String::from_utf8(bytes).unwrap()
        };
        let size = (10, 2);
        let first = text(&mut frames, size, "abc", Ink::Colour.bar());
        assert_eq!(first, "\x1b[0m\x1b[2J\x1b[1;1H\x1b[0;36mabc\x1b[0m");
        assert_eq!(text(&mut frames, size, "abc", Ink::Colour.bar()), "");
        let other = text(&mut frames, size, "axc", Ink::Plain.strong());
        assert_eq!(other, "\x1b[1;1H\x1b[0;1maxc\x1b[0m", "all three have another style");
        assert_eq!(
            text(&mut frames, size, "axd", Ink::Plain.strong()),
            "\x1b[1;3H\x1b[0;1md\x1b[0m"
        );
        let wider = text(&mut frames, (12, 2), "axd", Ink::Plain.strong());
        assert!(wider.starts_with("\x1b[0m\x1b[2J"), "a window of another size is cleared");
        frames.anew();
        assert!(text(&mut frames, (12, 2), "axd", Style::new()).contains("axd"));
    }
}

//! Styles of a view. Shapes and words carry the meaning; colours only help, and no two of them are red and green.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

/// Styles with or without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Colour,
    /// Bold and dim only (no-color.org).
    Plain,
}

impl Ink {
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn bar(self) -> Style {
        self.coloured(Color::Cyan)
    }

    pub(super) fn alarm(self) -> Style {
        self.coloured(Color::Magenta).add_modifier(Modifier::BOLD)
    }

    fn coloured(self, colour: Color) -> Style {
        match self {
            Ink::Colour => Style::new().fg(colour),
            Ink::Plain => Style::new(),
        }
    }
}

/// Returns a line in one style.
pub(super) fn line(text: impl Into<String>, style: Style) -> Line<'static> {
    Line::from(Span::styled(text.into(), style))
}

/// Returns the part of `text` that fits in `width` columns, with `…` where a part is missing.
pub(super) fn cut(text: &str, width: usize) -> String {
    use deadheat_report::columns;
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += columns(c.encode_utf8(&mut [0; 4]));
        used <= width
    };
    let kept: String = text.chars().take_while(fits).collect();
    if width == 0 { String::new() } else { kept + "…" }
}

/// Cuts or pads `text` to `width` columns.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let gap = width.saturating_sub(deadheat_report::columns(&text));
    text + &" ".repeat(gap)
}

/// Returns the first `room` lines; the last of them says how many are missing, if any are.
pub(super) fn shorten(mut lines: Vec<Line<'static>>, room: usize, ink: Ink) -> Vec<Line<'static>> {
    if lines.len() > room {
        lines.truncate(room.saturating_sub(1));
        if room > 0 {
            lines.push(line("  … and more; a taller window shows all", ink.faint()));
        }
    }
    lines
}

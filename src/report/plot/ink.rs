//! Meaning of each element of a drawing. It passes through the plotting library coded as a colour that no
//! drawing has, and comes out as classes, which the page gives colours to.

use plotters::style::{Color, ShapeStyle};
use plotters_backend::BackendColor;

/// Meaning of an element. The number is that of a contender or a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// Text.
    Text,
    /// Text that stands out.
    Strong,
    /// Secondary text.
    Small,
    /// An axis.
    Axis,
    /// A line of the grid.
    Grid,
    /// The zone of a margin.
    Zone,
    /// A line to compare with.
    Reference,
    /// A filled mark.
    Dot(usize),
    /// A hollow mark: excluded, undecided.
    Hollow(usize),
    /// Filled mark of no contender: a dead heat, a published figure.
    Nobody,
    /// Hollow mark of no contender.
    NobodyHollow,
    /// Filled mark of a measured figure of any contender, where contenders have no colours.
    Measured,
    /// A line through figures.
    Line(usize),
    /// A line of a contender that has a panel of its own, and needs no dashes.
    Solid(usize),
    /// Prediction of theory for a contender.
    Theory(usize),
    /// A line in the background.
    Faint(usize),
    /// Many marks in one.
    Dots(usize),
    /// The box of a box plot, a band.
    Box(usize),
    /// A band around a line, without an edge.
    Band(usize),
    /// Median of a box plot.
    Middle(usize),
    /// An interval, a whisker.
    Whisker(usize),
    /// Interval of no contender.
    NobodyWhisker,
    /// An interval over a bar, or where contenders have no colours.
    Interval,
    /// A bar.
    Bar(usize),
    /// The second piece of a bar.
    BarTwo(usize),
    /// A part of a stacked bar.
    Part(usize),
    /// The mark in a key or beside a label.
    Key(usize),
    /// The line in a key.
    KeyLine(usize),
    /// The part in a key.
    KeyPart(usize),
    /// A cell of a map of which nothing can be said.
    Unknown,
}

/// Number of contenders with a class of their own; those beyond share them.
pub const CLASSES: usize = 32;

impl Ink {
    /// Returns the classes, as `figure.rs` and the style sheet in `style.rs` explain them.
    pub(super) fn classes(self) -> String {
        let of = |classes: &str, number: usize| format!("{classes} c{}", number % CLASSES);
        match self {
            Ink::Text => "t".into(),
            Ink::Strong => "t tb".into(),
            Ink::Small => "t ts".into(),
            Ink::Axis => "a".into(),
            Ink::Grid => "g".into(),
            Ink::Zone => "z".into(),
            Ink::Reference => "r".into(),
            Ink::Dot(number) => of("m d", number),
            Ink::Hollow(number) => of("m o", number),
            Ink::Nobody => "m d u".into(),
            Ink::NobodyHollow => "m o u".into(),
            Ink::Measured => "m d i".into(),
            Ink::Line(number) => of("m l", number),
            Ink::Solid(number) => of("m l", number),
            Ink::Theory(number) => of("l y", number),
            Ink::Faint(number) => of("l k", number),
            Ink::Dots(number) => of("s", number),
            Ink::Box(number) => of("b", number),
            Ink::Band(number) => of("h", number),
            Ink::Middle(number) => of("q", number),
            Ink::Whisker(number) => of("w", number),
            Ink::NobodyWhisker => "w u".into(),
            Ink::Interval => "w i".into(),
            Ink::Bar(number) => of("m f", number),
            Ink::BarTwo(number) => of("m f f2", number),
            Ink::Part(number) => format!("m f p{number}"),
            Ink::Key(number) => of("d", number),
            Ink::KeyLine(number) => of("l", number),
            Ink::KeyPart(number) => format!("f p{number}"),
            Ink::Unknown => "m n".into(),
        }
    }

    /// Returns the pattern of a contender's line, so that colour is not all that tells lines apart.
    pub(super) fn dashes(self) -> Option<&'static str> {
        match self {
            Ink::Line(number) | Ink::KeyLine(number) => {
                [None, Some("7 3"), Some("2 2.5"), Some("9 3 2 3"), Some("4 2")][number % 5]
            }
            Ink::Theory(_) => Some("1 3"),
            _ => None,
        }
    }

    fn code(self) -> (u8, u8) {
        let number = |n: usize| (n % 256) as u8;
        match self {
            Ink::Text => (1, 0),
            Ink::Small => (2, 0),
            Ink::Axis => (3, 0),
            Ink::Grid => (4, 0),
            Ink::Zone => (5, 0),
            Ink::Reference => (6, 0),
            Ink::Dot(n) => (7, number(n)),
            Ink::Hollow(n) => (8, number(n)),
            Ink::Nobody => (9, 0),
            Ink::NobodyHollow => (10, 0),
            Ink::Line(n) => (11, number(n)),
            Ink::Faint(n) => (12, number(n)),
            Ink::Dots(n) => (13, number(n)),
            Ink::Box(n) => (14, number(n)),
            Ink::Middle(n) => (15, number(n)),
            Ink::Whisker(n) => (16, number(n)),
            Ink::NobodyWhisker => (17, 0),
            Ink::Bar(n) => (18, number(n)),
            Ink::BarTwo(n) => (19, number(n)),
            Ink::Part(n) => (20, number(n)),
            Ink::Key(n) => (21, number(n)),
            Ink::KeyLine(n) => (22, number(n)),
            Ink::KeyPart(n) => (23, number(n)),
            Ink::Solid(n) => (24, number(n)),
            Ink::Interval => (25, 0),
            Ink::Strong => (26, 0),
            Ink::Measured => (27, 0),
            Ink::Unknown => (28, 0),
            Ink::Band(n) => (29, number(n)),
            Ink::Theory(n) => (30, number(n)),
        }
    }

    /// Decodes an ink; text for an unknown code.
    pub(super) fn of(colour: BackendColor) -> Ink {
        let (kind, n, _) = colour.rgb;
        let n = usize::from(n);
        match kind {
            2 => Ink::Small,
            3 => Ink::Axis,
            4 => Ink::Grid,
            5 => Ink::Zone,
            6 => Ink::Reference,
            7 => Ink::Dot(n),
            8 => Ink::Hollow(n),
            9 => Ink::Nobody,
            10 => Ink::NobodyHollow,
            11 => Ink::Line(n),
            12 => Ink::Faint(n),
            13 => Ink::Dots(n),
            14 => Ink::Box(n),
            15 => Ink::Middle(n),
            16 => Ink::Whisker(n),
            17 => Ink::NobodyWhisker,
            18 => Ink::Bar(n),
            19 => Ink::BarTwo(n),
            20 => Ink::Part(n),
            21 => Ink::Key(n),
            22 => Ink::KeyLine(n),
            23 => Ink::KeyPart(n),
            24 => Ink::Solid(n),
            25 => Ink::Interval,
            26 => Ink::Strong,
            27 => Ink::Measured,
            28 => Ink::Unknown,
            29 => Ink::Band(n),
            30 => Ink::Theory(n),
            _ => Ink::Text,
        }
    }

    /// Returns the style for the plotting library.
    pub(super) fn style(self) -> ShapeStyle {
        self.filled()
    }
}

impl Color for Ink {
    fn to_backend_color(&self) -> BackendColor {
        let (kind, number) = self.code();
        BackendColor { alpha: 1.0, rgb: (kind, number, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_as_a_colour_comes_out_as_what_it_was() {
        let all = [
            Ink::Text,
            Ink::Small,
            Ink::Axis,
            Ink::Grid,
            Ink::Zone,
            Ink::Reference,
            Ink::Dot(31),
            Ink::Hollow(2),
            Ink::Nobody,
            Ink::NobodyHollow,
            Ink::Line(3),
            Ink::Faint(4),
            Ink::Dots(5),
            Ink::Box(6),
            Ink::Middle(7),
            Ink::Whisker(8),
            Ink::NobodyWhisker,
            Ink::Bar(9),
            Ink::BarTwo(10),
            Ink::Part(11),
            Ink::Key(12),
            Ink::KeyLine(13),
            Ink::KeyPart(1),
            Ink::Solid(14),
            Ink::Interval,
            Ink::Strong,
            Ink::Measured,
            Ink::Unknown,
            Ink::Band(15),
            Ink::Theory(16),
        ];
        for ink in all {
            assert_eq!(Ink::of(ink.to_backend_color()), ink);
        }
        assert_eq!(Ink::Dot(33).classes(), "m d c1");
    }
}

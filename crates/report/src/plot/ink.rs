//! Meaning of each element of a drawing, written as classes; the page gives them colours.

/// Meaning of an element. The number is the number of a contender or a part.
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
    /// Many marks of no contender in one.
    NobodyDots,
    /// The box of a box plot, a band.
    Box(usize),
    /// A band around a line, without an edge.
    Band(usize),
    /// Median of a box plot.
    Middle(usize),
    /// Thick line of no contender: the bottleneck of a way.
    NobodyMiddle,
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
    /// A cell of a map without information.
    Unknown,
}

/// Number of contenders with a class of their own; further contenders share these.
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
            Ink::Line(number) | Ink::Solid(number) => of("m l", number),
            Ink::Theory(number) => of("l y", number),
            Ink::Faint(number) => of("l k", number),
            Ink::Dots(number) => of("s", number),
            Ink::NobodyDots => "s u".into(),
            Ink::Box(number) => of("b", number),
            Ink::Band(number) => of("h", number),
            Ink::Middle(number) => of("q", number),
            Ink::NobodyMiddle => "q i".into(),
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

    /// Returns the pattern of a contender's line, so that lines differ not only in colour.
    pub(super) fn dashes(self) -> Option<&'static str> {
        match self {
            Ink::Line(number) | Ink::KeyLine(number) => {
                [None, Some("7 3"), Some("2 2.5"), Some("9 3 2 3"), Some("4 2")][number % 5]
            }
            Ink::Theory(_) => Some("1 3"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_beyond_the_last_class_share_them() {
        assert_eq!(Ink::Dot(33).classes(), "m d c1");
        assert_eq!(Ink::Theory(32).classes(), "l y c0");
    }
}

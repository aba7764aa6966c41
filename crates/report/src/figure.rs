//! A drawing with the numbers behind it, for pages and for files of its own.
//!
//! A drawing is one `<svg>` element. All text in it is escaped. Classes give elements their meaning; the page
//! gives them their look:
//!
//! | class | meaning |
//! |---|---|
//! | `t` | text; `ts` small or secondary text |
//! | `a` `g` | an axis; a line of the grid |
//! | `m` | a mark that stands for a figure, described by its attribute `data-t` |
//! | `c0` … `c31` | elements of the contender with this number: they have its colour |
//! | `p0` … `p14` | elements of the part with this number |
//! | `z` | the zone of a margin; `r` a line to compare with, such as a ratio of 1 |
//! | `d` `o` `f` `l` | kind of a mark: filled, hollow, a bar, a line; `u` for a mark of no contender |
//! | `n` | a cell of a map without information |
//! | `b` `q` `w` `s` `k` `i` `h` `y` | a box, its median, a whisker, many trials, a faint line, an interval, a band, a
//! prediction of theory |
//!
//! `plot/style.rs` has the rules for all of them and the variables with the colours.
//!
//! Marks are in reading order, so that a keyboard can go through them.

/// A drawing with the numbers behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Name that is unique in its report: lower case, digits and dashes.
    pub id: String,
    /// Heading that names the content.
    pub title: String,
    /// Caption of a sentence or two that describes the content, also for readers that cannot see the drawing.
    pub caption: String,
    /// Drawing for a screen or a sheet of paper, some 760 units wide.
    pub wide: String,
    /// Drawing for a phone, some 340 units wide.
    pub narrow: String,
    /// The numbers behind it: headings, then rows of as many cells. Raw text, units in the headings.
    pub numbers: Numbers,
}

/// The numbers behind a figure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Numbers {
    /// A heading for each column, with its unit.
    pub headings: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

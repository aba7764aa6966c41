//! Content of a report, independent of its form: sentences, tables, lists. All text in it is raw; each form
//! escapes it.

use super::boxes::Boxes;

/// A report for people.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Document {
    /// Subject of the report; the first line.
    pub title: String,
    /// A line under the title.
    pub subtitle: String,
    /// Sections in reading order; none is empty.
    pub sections: Vec<Section>,
}

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    /// Heading; empty for the answer at the top.
    pub heading: String,
    /// Blocks of the section, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// Sentences, each starting on a line of its own.
    Sentences(Vec<Line>),
    /// Rows and columns.
    Table(Table),
    /// Points of a list.
    Points(Vec<Point>),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    /// Box plots, which only a form of fixed width can draw.
    Boxes(Boxes),
    /// Lines of letters of one width, as they are.
    Fixed(Vec<String>),
}

/// A line of text with its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    /// Text of the line.
    pub text: String,
    /// Meaning for the reader.
    pub tone: Tone,
}

/// Point of a list: an observation, and details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    /// Observation.
    pub lead: String,
    /// Names and values, one line each.
    pub values: Vec<(String, String)>,
    /// Reason why it matters, or advice on what to do.
    pub detail: String,
}

/// Meaning of a piece of text, which a terminal shows by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    /// No particular meaning.
    #[default]
    Plain,
    /// Good: a contender is ahead, or all is well.
    Good,
    /// A tie.
    Tie,
    /// Undecided, or with a caveat.
    Open,
    /// Untrustworthy, or worse.
    Bad,
    /// Secondary text.
    Aside,
}

/// A table. The first column names the row, and is repeated where the table is broken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    /// The columns, each with one cell for each row.
    pub columns: Vec<Column>,
    /// Legend needed to read it; a line below.
    pub legend: String,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Column {
    /// Heading of the column.
    pub heading: String,
    /// Cells, from the top.
    pub cells: Vec<Cell>,
}

/// A cell: a number that lines up with the others of its column, then the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cell {
    /// The figure, lined up at its decimal point.
    pub number: String,
    /// Text after the figure, such as its interval.
    pub rest: String,
    /// Meaning of the cell.
    pub tone: Tone,
}

impl Section {
    /// Returns a section, unless it would be empty.
    pub(super) fn new(heading: &str, blocks: Vec<Block>) -> Option<Section> {
        let blocks: Vec<Block> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
        (!blocks.is_empty()).then(|| Section { heading: heading.to_owned(), blocks })
    }
}

impl Block {
    fn is_empty(&self) -> bool {
        match self {
            Block::Sentences(lines) => lines.is_empty(),
            Block::Table(table) => table.rows() == 0,
            Block::Points(points) => points.is_empty(),
            Block::Facts(facts) => facts.is_empty(),
            Block::Boxes(boxes) => boxes.rows.is_empty(),
            Block::Fixed(lines) => lines.is_empty(),
        }
    }
}

impl Line {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Line {
        Line { text: text.into(), tone }
    }
}

impl Table {
    /// Returns the number of rows below the heading.
    pub(super) fn rows(&self) -> usize {
        self.columns.iter().map(|column| column.cells.len()).max().unwrap_or(0)
    }
}

impl Column {
    pub(super) fn new(heading: impl Into<String>, cells: Vec<Cell>) -> Column {
        Column { heading: heading.into(), cells }
    }

    /// Returns true if any cell has content.
    pub(super) fn has_content(&self) -> bool {
        !self.cells.iter().all(Cell::is_empty)
    }
}

impl Cell {
    /// Creates a cell of text alone.
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell { rest: text.into(), ..Cell::default() }
    }

    /// Returns true if the cell has no content.
    pub(super) fn is_empty(&self) -> bool {
        self.number.is_empty() && self.rest.is_empty()
    }

    /// Creates a cell of a number and the text after it.
    pub(super) fn number(number: impl Into<String>, rest: impl Into<String>) -> Cell {
        Cell { number: number.into(), rest: rest.into(), tone: Tone::Plain }
    }

    /// Sets the meaning.
    pub(super) fn tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

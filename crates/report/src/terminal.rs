//! A document for a terminal: sections under bold headings, aligned columns, sentences
//! wrapped to the width. Colour only repeats the meaning of words.

use super::boxes::Boxes;
use super::document::{Block, Column, Document, Line, Point, Section, Table, Tone};
use super::text::{align_decimals, columns, pad, wrap};
use super::{Colour, Style};
use deadheat_base::foreign::visible;

/// Minimum width of the layout; a narrower terminal breaks lines itself.
const NARROWEST: usize = 40;

/// Maximum width of sentences; longer lines are hard to read.
const WIDEST_TEXT: usize = 100;

/// Maximum width of a name on the same line as its value.
const WIDEST_NAME: usize = 26;

/// Maximum length of a heading that is never broken.
const SHORT_HEADING: usize = 8;

const INDENT: usize = 2;
const GAP: usize = 2;

/// Renders `document` as text, with a newline at its end.
pub(super) fn render(document: &Document, style: &Style) -> String {
    let mut page =
        TextPage { lines: Vec::new(), width: style.width.max(NARROWEST), colour: style.colour };
    page.paragraph(&document.title, 0, TextStyle::Heading);
    if !document.subtitle.is_empty() {
        page.paragraph(&document.subtitle, 0, TextStyle::Tone(Tone::Aside));
    }
    for section in &document.sections {
        page.section(section);
    }
    page.lines.join("\n") + "\n"
}

/// Style of a piece of text.
#[derive(Debug, Clone, Copy)]
enum TextStyle {
    Heading,
    Underlined,
    Tone(Tone),
}

impl TextStyle {
    /// Parameters of Select Graphic Rendition, ECMA-48 §8.3.117; empty for none.
    fn sgr(self) -> &'static str {
        match self {
            TextStyle::Heading => "1",
            TextStyle::Underlined => "4",
            TextStyle::Tone(Tone::Plain) => "",
            TextStyle::Tone(Tone::Good) => "1;32",
            TextStyle::Tone(Tone::Tie) => "1;36",
            TextStyle::Tone(Tone::Open) => "33",
            TextStyle::Tone(Tone::Bad) => "1;31",
            TextStyle::Tone(Tone::Aside) => "2",
        }
    }
}

/// Page under construction, line by line.
struct TextPage {
    lines: Vec<String>,
    width: usize,
    colour: Colour,
}

impl TextPage {
    fn paint(&self, text: &str, ink: TextStyle) -> String {
        match (self.colour, ink.sgr()) {
            (Colour::Never, _) | (_, "") => text.to_owned(),
            _ if text.is_empty() => String::new(),
            (Colour::Always, sgr) => format!("\u{1b}[{sgr}m{text}\u{1b}[0m"),
        }
    }

    fn line(&mut self, text: &str) {
        self.lines.push(text.trim_end().to_owned());
    }

    fn paragraph(&mut self, text: &str, indent: usize, ink: TextStyle) {
        let width = self.width.min(WIDEST_TEXT).saturating_sub(indent);
        for line in wrap(&visible(text), width) {
            let painted = self.paint(&line, ink);
            self.line(&format!("{:indent$}{painted}", ""));
        }
    }

    fn section(&mut self, section: &Section) {
        self.line("");
        if !section.heading.is_empty() {
            self.paragraph(&section.heading, 0, TextStyle::Heading);
        }
        for (index, block) in section.blocks.iter().enumerate() {
            if index > 0 {
                self.line("");
            }
            match block {
                Block::Sentences(lines) => self.sentences(lines),
                Block::Table(table) => self.table(table),
                Block::Points(points) => points.iter().for_each(|point| self.point(point)),
                Block::Facts(facts) => self.facts(facts, INDENT),
                Block::Boxes(boxes) => self.boxes(boxes),
                Block::Fixed(lines) => {
                    lines
                        .iter()
                        .for_each(|line| self.line(&format!("{:INDENT$}{}", "", visible(line))));
                }
            }
        }
    }

    fn sentences(&mut self, lines: &[Line]) {
        for line in lines {
            self.paragraph(&line.text, INDENT, TextStyle::Tone(line.tone));
        }
    }

    fn point(&mut self, point: &Point) {
        self.paragraph(&point.lead, INDENT, TextStyle::Tone(Tone::Plain));
        self.facts(&point.values, 2 * INDENT);
        if !point.detail.is_empty() {
            self.paragraph(&point.detail, 2 * INDENT, TextStyle::Tone(Tone::Aside));
        }
    }

    fn facts(&mut self, facts: &[(String, String)], indent: usize) {
        let names: Vec<String> = facts.iter().map(|(name, _)| visible(name)).collect();
        let longest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let name_width = longest.min(WIDEST_NAME);
        let value_at = indent + name_width + GAP;
        let width = self.width.min(WIDEST_TEXT).saturating_sub(value_at);
        for (name, (_, value)) in names.iter().zip(facts) {
            let mut lead = pad(name, name_width + GAP);
            if columns(name) > name_width {
                self.paragraph(name, indent, TextStyle::Tone(Tone::Aside));
                lead = pad("", name_width + GAP);
            }
            for line in wrap(&visible(value), width) {
                let painted = self.paint(&lead, TextStyle::Tone(Tone::Aside));
                self.line(&format!("{:indent$}{painted}{line}", ""));
                lead = pad("", name_width + GAP);
            }
        }
    }

    /// Writes a line for each contender; a name that leaves too little room has a line of its own.
    fn boxes(&mut self, boxes: &Boxes) {
        let names: Vec<String> = boxes.rows.iter().map(|row| visible(&row.name)).collect();
        let longest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let name_width = longest.min((self.width - INDENT) / 3);
        let drawing_at = INDENT + name_width + GAP;
        let width = self.width.min(WIDEST_TEXT).saturating_sub(drawing_at);
        for (name, row) in names.iter().zip(&boxes.rows) {
            let mut lead = pad(name, name_width + GAP);
            if columns(name) > name_width {
                self.paragraph(name, INDENT, TextStyle::Tone(Tone::Plain));
                lead = pad("", name_width + GAP);
            }
            self.line(&format!("{:INDENT$}{lead}{}", "", boxes.draw(row, width)));
        }
        let scale = self.paint(&boxes.scale(width), TextStyle::Tone(Tone::Aside));
        self.line(&format!("{:drawing_at$}{scale}", ""));
        self.line("");
        self.paragraph(&boxes.legend, INDENT, TextStyle::Tone(Tone::Aside));
    }

    fn table(&mut self, table: &Table) {
        let room = self.width.saturating_sub(INDENT);
        let Some((first, others)) = table.columns.split_first() else {
            return;
        };
        let first = ColumnLayout::new(first, table.rows(), room / 3);
        let others: Vec<ColumnLayout> = others
            .iter()
            .map(|column| {
                ColumnLayout::new(column, table.rows(), room.saturating_sub(first.width + GAP))
            })
            .collect();
        let mut rest = others.as_slice();
        let mut is_first = true;
        while is_first || !rest.is_empty() {
            let mut used = first.width;
            let fitting = rest.iter().take_while(|column| {
                used += GAP + column.width;
                used <= room
            });
            // One column at least, so that the loop ends; the layout has made it fit.
            let take = fitting.count().max(1).min(rest.len());
            let (now, later) = rest.split_at(take);
            if !is_first {
                self.line("");
            }
            self.stripe(&first, now, table.rows());
            rest = later;
            is_first = false;
        }
        if !table.legend.is_empty() {
            self.line("");
            self.paragraph(&table.legend, INDENT, TextStyle::Tone(Tone::Aside));
        }
    }

    /// Writes as many columns as fit beside each other.
    fn stripe(&mut self, first: &ColumnLayout, others: &[ColumnLayout], rows: usize) {
        let columns: Vec<&ColumnLayout> = std::iter::once(first).chain(others).collect();
        let height = columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
        for index in 0..height {
            let cells = columns.iter().map(|column| {
                let above = height - column.heading.len();
                let text = index.checked_sub(above).and_then(|line| column.heading.get(line));
                (text.map_or("", String::as_str), column.width, TextStyle::Underlined)
            });
            let cells: Vec<_> = cells.collect();
            self.row(&cells);
        }
        for row in 0..rows {
            let is_silent =
                |column: &ColumnLayout| column.cells.get(row).is_none_or(ColumnLayout::is_blank);
            if !others.is_empty() && others.iter().all(is_silent) {
                continue;
            }
            let lines =
                |column: &ColumnLayout| column.cells.get(row).map_or(0, |(lines, _)| lines.len());
            let height = columns.iter().map(|column| lines(column)).max().unwrap_or(0);
            for index in 0..height {
                let cells = columns.iter().map(|column| {
                    let cell = column.cells.get(row);
                    let text = cell.and_then(|(lines, _)| lines.get(index));
                    let tone = cell.map_or(Tone::Plain, |(_, tone)| *tone);
                    (text.map_or("", String::as_str), column.width, TextStyle::Tone(tone))
                });
                let cells: Vec<_> = cells.collect();
                self.row(&cells);
            }
        }
    }

    fn row(&mut self, cells: &[(&str, usize, TextStyle)]) {
        let mut line = " ".repeat(INDENT);
        for (index, (text, width, ink)) in cells.iter().enumerate() {
            if index > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            line.push_str(&self.paint(text, *ink));
            line.push_str(&" ".repeat(width.saturating_sub(columns(text))));
        }
        self.line(&line);
    }
}

/// A column with its cells broken into lines of the same width.
struct ColumnLayout {
    heading: Vec<String>,
    cells: Vec<(Vec<String>, Tone)>,
    width: usize,
}

impl ColumnLayout {
    fn is_blank((lines, _): &(Vec<String>, Tone)) -> bool {
        lines.iter().all(String::is_empty)
    }

    fn new(column: &Column, rows: usize, widest: usize) -> ColumnLayout {
        let cells = (0..rows).map(|row| column.cells.get(row).cloned().unwrap_or_default());
        let cells: Vec<_> = cells.collect();
        let numbers: Vec<String> = cells.iter().map(|cell| visible(&cell.number)).collect();
        let numbers = align_decimals(&numbers);
        let number_width = numbers.iter().map(|text| columns(text)).max().unwrap_or(0);
        let text = |(cell, number): (&super::document::Cell, &String)| {
            let rest = visible(&cell.rest);
            if number_width == 0 || number.is_empty() {
                rest
            } else {
                format!("{} {rest}", pad(number, number_width)).trim_end().to_owned()
            }
        };
        let texts: Vec<String> = cells.iter().zip(&numbers).map(text).collect();
        let heading = visible(&column.heading);
        // A heading over narrow cells takes two lines rather than one word a line.
        let half = match columns(&heading) {
            short @ 0..=SHORT_HEADING => short,
            long => long / 2 + 2,
        };
        let words = heading.split(' ').map(columns).chain([half]);
        let needed = texts.iter().map(|text| columns(text)).chain(words).max();
        let width = needed.unwrap_or(0).min(widest.max(1));
        let lines = |text: &String| {
            if columns(text) <= width {
                // Not wrapped, because wrapping would fold the spaces that align numbers.
                vec![text.clone()]
            } else {
                wrap(text, width)
            }
        };
        ColumnLayout {
            heading: wrap(&heading, width),
            cells: texts.iter().zip(&cells).map(|(text, cell)| (lines(text), cell.tone)).collect(),
            width,
        }
    }
}

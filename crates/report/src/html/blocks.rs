//! The pieces of a document as elements: sentences, tables, lists.

use super::markup::{Attributes, Markup};
use crate::document::{Block, Cell, Column, Line, Point, Table, Tone};
use crate::text::align_decimals;

/// Space as wide as a digit.
const FIGURE_SPACE: &str = "\u{2007}";

/// Space as wide as a decimal point.
const PUNCTUATION_SPACE: &str = "\u{2008}";

/// Maximum number of facts outside a scrolling box.
const MOST_FACTS: usize = 20;

impl Tone {
    /// Returns its class in the style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Tie => "tie",
            Tone::Open => "open",
            Tone::Bad => "bad",
            Tone::Aside => "aside",
        }
    }

    /// Returns a sign with the meaning of its colour.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Tone::Plain | Tone::Aside => "",
            Tone::Good => "▲",
            Tone::Tie => "=",
            Tone::Open => "?",
            Tone::Bad => "!",
        }
    }
}

/// Writes the answer: sentences that stand out, each with a sign of its meaning.
pub(super) fn answer(html: &mut Markup, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    html.open("ul", &[("class", "answer")]);
    for line in lines {
        html.open("li", &[("class", line.tone.class())]);
        html.open("span", &[("class", "sign"), ("aria-hidden", "true")]);
        html.text(line.tone.sign()).close("span");
        html.leaf("span", &[], &line.text).close("li");
    }
    html.close("ul");
}

/// Writes a piece of a section. `name` is the subject of a table, for readers that cannot see its place.
pub(super) fn block(html: &mut Markup, name: &str, block: &Block) {
    match block {
        Block::Sentences(lines) => {
            for line in lines {
                html.leaf("p", &[("class", line.tone.class())], &line.text);
            }
        }
        Block::Table(whole) => table(html, name, whole),
        Block::Points(all) => points(html, all),
        Block::Facts(all) if all.len() > MOST_FACTS => long_facts(html, name, all),
        Block::Facts(all) => facts(html, all),
        // Boxes of letters are left out: a page has drawings.
        Block::Boxes(_) | Block::Fixed(_) => {}
    }
}

/// Writes names with their values.
pub(super) fn facts(html: &mut Markup, facts: &[(String, String)]) {
    html.open("dl", &[("class", "facts")]);
    each_fact(html, facts);
    html.close("dl");
}

/// Writes facts that are so many that they scroll in a box of their own.
fn long_facts(html: &mut Markup, name: &str, facts: &[(String, String)]) {
    html.open(
        "div",
        &[("class", "scrolls"), ("tabindex", "0"), ("role", "group"), ("aria-label", name)],
    );
    self::facts(html, facts);
    html.close("div");
}

fn each_fact(html: &mut Markup, facts: &[(String, String)]) {
    for (name, value) in facts {
        html.open("div", &[]).leaf("dt", &[], name).leaf("dd", &[], value).close("div");
    }
}

fn points(html: &mut Markup, points: &[Point]) {
    html.open("ul", &[("class", "points")]);
    for point in points {
        html.open("li", &[]).leaf("p", &[("class", "lead")], &point.lead);
        if !point.values.is_empty() {
            facts(html, &point.values);
        }
        if !point.detail.is_empty() {
            html.leaf("p", &[("class", "aside")], &point.detail);
        }
        html.close("li");
    }
    html.close("ul");
}

/// Writes a table in a box that scrolls on its own if it is wider than the page.
pub(super) fn table(html: &mut Markup, name: &str, table: &Table) {
    begin_scroll(html, name);
    html.open("table", &[]).open("thead", &[]).open("tr", &[]);
    for column in &table.columns {
        let class = if has_numbers(column) { "num" } else { "" };
        // A heading without a word is none.
        if column.heading.is_empty() {
            html.open("td", &[]).close("td")
        } else {
            html.leaf("th", &with_class(&[("scope", "col")], class), &column.heading)
        };
    }
    html.close("tr").close("thead").open("tbody", &[]);
    let numbers: Vec<Vec<String>> = table.columns.iter().map(numbers).collect();
    for row in 0..table.rows() {
        html.open("tr", &[]);
        for (at, column) in table.columns.iter().enumerate() {
            let number = numbers[at].get(row).map_or("", String::as_str);
            cell(html, at, column.cells.get(row), number);
        }
        html.close("tr");
    }
    html.close("tbody").close("table").close("div");
    if !table.legend.is_empty() {
        html.leaf("p", &[("class", "aside legend")], &table.legend);
    }
}

/// Opens the box; the caller closes it. It can be reached by keyboard, and scrolled.
pub(super) fn begin_scroll(html: &mut Markup, name: &str) {
    html.open(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "group"), ("aria-label", name)],
    );
}

fn cell(html: &mut Markup, at: usize, cell: Option<&Cell>, number: &str) {
    let is_heading =
        at == 0 && cell.is_some_and(|cell| !cell.number.is_empty() || !cell.rest.is_empty());
    let element = if is_heading { "th" } else { "td" };
    let scope: Attributes<'_> = if is_heading { &[("scope", "row")] } else { &[] };
    let Some(cell) = cell else {
        html.open(element, scope).close(element);
        return;
    };
    let class = if cell.number.is_empty() { "" } else { "num" };
    html.open(element, &with_class(scope, class));
    if !number.trim().is_empty() {
        html.text(number);
    }
    if !cell.rest.is_empty() {
        let tone = if cell.number.is_empty() { cell.tone.class() } else { "rest" };
        if tone == "plain" {
            html.text(&cell.rest);
        } else {
            html.open("span", &[("class", tone)]).text(&cell.rest).close("span");
        }
    }
    html.close(element);
}

fn with_class<'a>(attributes: Attributes<'a>, class: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut attributes = attributes.to_vec();
    if !class.is_empty() {
        attributes.push(("class", class));
    }
    attributes
}

fn has_numbers(column: &Column) -> bool {
    column.cells.iter().any(|cell| !cell.number.is_empty())
}

/// Returns the numbers of a column, padded so that their decimal points are aligned.
fn numbers(column: &Column) -> Vec<String> {
    let numbers: Vec<String> = column.cells.iter().map(|cell| cell.number.clone()).collect();
    align_decimals(&numbers).iter().map(|number| spaced(number)).collect()
}

/// Replaces the spaces of a fixed-width font by spaces as wide as the digit or point in their place.
fn spaced(number: &str) -> String {
    let digits = number.trim_end();
    let behind = number.len() - digits.len();
    let point = if behind > 0 && !digits.contains('.') { PUNCTUATION_SPACE } else { "" };
    let behind = behind.saturating_sub(point.chars().count());
    format!("{}{point}{}", digits.replace(' ', FIGURE_SPACE), FIGURE_SPACE.repeat(behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_in_any_font() {
        let numbers = ["9.21", "123", "12.3"].map(|number| Cell::number(number, ""));
        let column = Column::new("x", numbers.to_vec());
        let shown = super::numbers(&column);
        assert_eq!(
            shown,
            ["\u{2007}\u{2007}9.21", "123\u{2008}\u{2007}\u{2007}", "\u{2007}12.3\u{2007}"]
        );
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_heading_and_starts_with_its_name() {
        let columns = vec![
            Column::new("a", vec![Cell::text("x<y").tone(Tone::Good), Cell::text("z")]),
            Column::new("b", vec![Cell::number("1.0", "[0.9, 1.1]")]),
        ];
        let mut html = Markup::default();
        table(&mut html, "t", &Table { columns, legend: String::new() });
        let text = html.into_string();
        assert_eq!(text.matches("scope=\"row\"").count(), 2);
        assert_eq!(text.matches("<td").count(), 2);
        assert!(text.contains("<span class=\"good\">x&lt;y</span>"), "{text}");
        assert!(text.contains("<td class=\"num\">1.0<span class=\"rest\">[0.9, 1.1]"), "{text}");
    }
}

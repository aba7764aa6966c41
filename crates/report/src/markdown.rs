//! A document for issues and wikis: GitHub-flavoured Markdown that contains only text.

use super::document::{Block, Cell, Column, Document, Point, Section, Table};
use super::{Report, ReportInput, Style, content};
use deadheat_base::error::Result;
use deadheat_base::foreign::visible;

/// Name of the format.
pub const ID: &str = "markdown";

/// Format of Markdown.
pub(super) struct Markdown;

impl Report for Markdown {
    fn id(&self) -> &'static str {
        ID
    }

    fn summary(&self) -> &'static str {
        "tables and lists for issues and wikis"
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        Ok(render(&content::document(shown.outcome)).into_bytes())
    }
}

/// Renders `document` as Markdown, with a newline at its end.
pub(super) fn render(document: &Document) -> String {
    let mut parts = vec![format!("## {}", escape(&document.title)), escape(&document.subtitle)];
    for section in &document.sections {
        render_section(section, &mut parts);
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

/// Adds a section to `parts`, which empty lines are to separate.
pub(super) fn render_section(section: &Section, parts: &mut Vec<String>) {
    // A page breaks lines anywhere, and then the columns no longer line up with the axis.
    if section.blocks.iter().all(|block| matches!(block, Block::Boxes(_))) {
        return;
    }
    if !section.heading.is_empty() {
        parts.push(format!("### {}", escape(&section.heading)));
    }
    for block in &section.blocks {
        parts.push(match block {
            Block::Sentences(lines) if section.heading.is_empty() => {
                let lines = lines.iter().map(|line| format!("- **{}**", escape(&line.text)));
                lines.collect::<Vec<_>>().join("\n")
            }
            Block::Sentences(lines) => {
                let lines = lines.iter().map(|line| escape(&line.text));
                lines.collect::<Vec<_>>().join("\n\n")
            }
            Block::Table(table) => render_table(table),
            Block::Points(points) => points.iter().map(render_point).collect::<Vec<_>>().join("\n"),
            Block::Facts(facts) => {
                let facts = facts
                    .iter()
                    .map(|(name, value)| format!("- {}: {}", escape(name), escape(value)));
                facts.collect::<Vec<_>>().join("\n")
            }
            Block::Boxes(_) => String::new(),
            Block::Fixed(lines) => indented(lines),
        });
    }
}

/// Writes lines as an indented block of code, which no text in them can end.
fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("    {}", visible(line))).collect::<Vec<_>>().join("\n")
}

fn render_point(point: &Point) -> String {
    let mut lines = vec![format!("- {}", escape(&point.lead))];
    for (name, value) in &point.values {
        lines.push(format!("  - {}: {}", escape(name), escape(value)));
    }
    if !point.detail.is_empty() {
        lines.push(format!("  - *{}*", escape(&point.detail)));
    }
    lines.join("\n")
}

/// Renders a table without a newline at its end.
pub(super) fn render_table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heading = |column: &Column| escape(&column.heading);
    let mut lines = vec![
        row(table.columns.iter().map(heading).collect()),
        format!("|{}", "---|".repeat(table.columns.len())),
    ];
    for index in 0..table.rows() {
        let cell = |column: &Column| column.cells.get(index).map(cell_text).unwrap_or_default();
        lines.push(row(table.columns.iter().map(cell).collect()));
    }
    let mut text = lines.join("\n");
    if !table.legend.is_empty() {
        text.push_str(&format!("\n\n{}", escape(&table.legend)));
    }
    text
}

fn cell_text(cell: &Cell) -> String {
    escape(format!("{} {}", cell.number, cell.rest).trim())
}

/// Escapes `text` so that Markdown shows it as it is: control characters written out, then everything
/// that would be markup, a table border, HTML or a mention.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // GitHub looks for names of people and numbers of issues once it has decoded references and escapes; a space
            // without width behind the sign hides them.
            '@' | '#' => {
                escaped.push(c);
                escaped.push_str("&#8203;");
            }
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_stays_text() {
        assert_eq!(
            escape("<b>|a|</b> `x` [l](u) *s*\n# @all"),
            "&lt;b&gt;\\|a\\|&lt;/b&gt; \\`x\\` \\[l\\](u) \\*s\\*\\\\n#&#8203; @&#8203;all"
        );
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_heading() {
        let table = Table {
            columns: vec![
                Column::new("a|b", vec![Cell::text("x|y")]),
                Column::new("c", Vec::new()),
            ],
            legend: String::new(),
        };
        assert_eq!(render_table(&table), "| a\\|b | c |\n|---|---|\n| x\\|y |  |");
    }
}

//! A drawing in a page, with its caption, its numbers, and the colours of its contenders.

use std::fmt::Write;

use super::blocks;
use super::markup::Markup;
use crate::figure::{Figure, Numbers};
use crate::plot::palette::{self, Tint};
use crate::plot::style::RULES;
use deadheat_result::outcome::Outcome;

/// Returns the colours of a result's contenders, limited to the part `part`.
pub(super) fn colours(part: &str, outcome: &Outcome) -> String {
    of_tints(part, &palette::tints(outcome))
}

/// Returns these colours of contenders, limited to the part `part`.
pub(super) fn of_tints(part: &str, tints: &[Tint]) -> String {
    format!("#{part}{{{}}}\n", variables('c', tints))
}

/// Returns the style rules for drawings on any page: their classes, and the colours that do not depend on
/// a result.
pub(super) fn rules() -> String {
    let parts = palette::parts();
    let mut rules = format!("{RULES}\n:root{{{}}}\n", variables('p', &parts));
    for (name, count) in [('c', palette::CLASSES), ('p', parts.len())] {
        for at in 0..count {
            // Writing to a String cannot fail.
            let _ = write!(rules, ".{name}{at}{{--c:var(--{name}{at})}}");
        }
    }
    rules
}

fn variables(name: char, tints: &[Tint]) -> String {
    let variable = |(at, tint): (usize, &Tint)| {
        format!("--{name}{at}:light-dark({},{});", tint.light, tint.dark)
    };
    tints.iter().enumerate().map(variable).collect()
}

/// Writes `figure` with a heading of `level`, in the part `part`.
pub(super) fn write(html: &mut Markup, part: &str, level: usize, figure: &Figure) {
    let id = format!("{part}-{}", figure.id);
    let heading = format!("{id}-title");
    let caption = format!("{id}-caption");
    html.open("figure", &[("class", "figure"), ("id", &id), ("aria-labelledby", &heading)]);
    html.leaf(&format!("h{level}"), &[("id", &heading)], &figure.title);
    html.open("figcaption", &[("id", &caption)]).text(&figure.caption).close("figcaption");
    let about = [("aria-labelledby", heading.as_str()), ("aria-describedby", caption.as_str())];
    for (size, drawing) in [("wide", &figure.wide), ("narrow", &figure.narrow)] {
        let class = format!("plot {size}");
        let mut attributes = vec![("class", class.as_str()), ("role", "img")];
        attributes.extend(about);
        html.open("div", &attributes).made(drawing).close("div");
    }
    if !figure.numbers.rows.is_empty() {
        html.open("details", &[("class", "numbers")]).leaf("summary", &[], "Numbers");
        numbers(html, &format!("Numbers of {}", figure.title), &figure.numbers);
        html.close("details");
    }
    html.close("figure");
}

/// Writes a table without the end tags of cells and rows, which HTML permits to omit: there are many.
fn numbers(html: &mut Markup, name: &str, numbers: &Numbers) {
    blocks::begin_scroll(html, name);
    html.open("table", &[]).open("thead", &[]).open("tr", &[]);
    for heading in &numbers.headings {
        html.open("th", &[("scope", "col")]).text(heading);
    }
    html.close("thead").open("tbody", &[]);
    for row in &numbers.rows {
        html.made("<tr>");
        for cell in row {
            html.made("<td>").text(cell);
        }
        html.made("\n");
    }
    html.close("tbody").close("table").close("div");
}

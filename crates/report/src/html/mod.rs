//! A page for a browser: one file with all its content. It is readable without its script,
//! on a phone and on paper.
//!
//! | file | content |
//! |---|---|
//! | `markup.rs` | elements, and the one place where text is escaped |
//! | `shell.rs` | head, policy, bar and end of every page |
//! | `part.rs` | one result: the answer, the figures, and their basis |
//! | `blocks.rs` | sentences, tables and lists |
//! | `figure.rs` | a drawing with its caption and its numbers |
//! | `study.rs` | a study: its question, its claims, the published figures |
//! | `index.rs` | a page over many pages |
//! | `page.css` `page.js` | style; behaviour if scripts run |

use super::document::{Block, Document};
use super::figure::Figure;
use super::plot::palette::Tint;
use super::{Report, ReportInput, Samples, Style, answer, content};
use crate::error::Result;
use deadheat_engine::study::outcome::StudyRun;

mod blocks;
mod figure;
mod index;
mod markup;
mod part;
mod shell;
mod study;

pub use index::{EntryContent, IndexEntry, index};
use markup::{Markup, slug};

/// Name of the format, after `--format`.
pub const ID: &str = "html";

/// Format of a page.
pub(super) struct Html;

impl Report for Html {
    fn id(&self) -> &'static str {
        ID
    }

    fn summary(&self) -> &'static str {
        "a page in one file, with figures, for a browser"
    }

    fn samples(&self) -> Samples {
        Samples::Used
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        let part = Part { name: content::document(shown.outcome).title, shown: *shown };
        Ok(page(&Page::of(part)).into_bytes())
    }
}

/// A page over one result, several, or a study.
#[derive(Debug)]
pub struct Page<'a> {
    /// Title of the page. A page of one result has that result's title.
    pub title: String,
    /// The results, in order.
    pub parts: Vec<Part<'a>>,
    /// The study that the races belong to.
    pub study: Option<&'a StudyRun>,
}

impl<'a> Page<'a> {
    /// Creates the page of one result.
    pub fn of(part: Part<'a>) -> Page<'a> {
        Page { title: content::title(part.shown.outcome), parts: vec![part], study: None }
    }
}

/// Returns the page of a document that is not a race: its answer, tables and facts.
pub(super) fn of_document(document: &Document) -> String {
    with_drawing(document, None, "")
}

/// Returns the page of a map: its document, and its drawing behind the answer.
pub(super) fn of_map(document: &Document, drawing: &Figure, tints: &[Tint]) -> String {
    let colours = figure::rules() + &figure::of_tints(MAP, tints);
    with_drawing(document, Some(drawing), &colours)
}

/// Element of a map's drawing.
const MAP: &str = "m";

fn with_drawing(document: &Document, drawing: Option<&Figure>, colours: &str) -> String {
    let mut html = Markup::default();
    html.open("article", &[]);
    html.leaf("h1", &[], &document.title);
    html.leaf("p", &[("class", "subtitle")], &document.subtitle);
    for (at, section) in document.sections.iter().enumerate() {
        if !section.heading.is_empty() {
            html.leaf("h2", &[("id", &slug(&section.heading))], &section.heading);
        }
        for block in &section.blocks {
            match block {
                Block::Sentences(lines) if at == 0 => blocks::answer(&mut html, lines),
                block => blocks::block(&mut html, &document.title, block),
            }
        }
        if let Some(drawing) = drawing.filter(|_| at == 0) {
            html.open("div", &[("id", MAP)]);
            figure::write(&mut html, MAP, 2, drawing);
            html.close("div");
        }
    }
    html.close("article");
    shell::page(&document.title, colours, &[], &html.into_string())
}

/// A result in a page.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    /// Unique name among the parts: its file, or the id of its race in a study.
    pub name: String,
    /// The result.
    pub shown: ReportInput<'a>,
}

/// Renders the page as HTML.
pub fn page(page: &Page<'_>) -> String {
    let mut html = Markup::default();
    let mut links = Vec::new();
    let mut colours = figure::rules();
    let is_alone = page.parts.len() == 1 && page.study.is_none();
    if let Some(run) = page.study {
        let results = page.parts.iter().map(|part| (part.name.as_str(), part.shown.outcome));
        links.extend(study::top(&mut html, run, &results.collect()));
    } else if !is_alone {
        html.leaf("h1", &[], &page.title);
        overview(&mut html, &page.parts);
    }
    for (at, one) in page.parts.iter().enumerate() {
        let id = format!("p{}", at + 1);
        colours.push_str(&figure::colours(&id, one.shown.outcome));
        let about = page.study.and_then(|run| study::about(run, &one.name));
        let written = part::PartContent { id: &id, part: one, is_alone, about };
        let sections = part::write(&mut html, &written);
        if is_alone {
            links.extend(sections);
        } else {
            links.push((format!("#{id}"), one.name.clone()));
        }
    }
    shell::page(&page.title, &colours, &links, &html.into_string())
}

/// Writes an overview of several results.
fn overview(html: &mut Markup, parts: &[Part<'_>]) {
    html.leaf("h2", &[("id", "overview")], "At a glance");
    blocks::begin_scroll(html, "At a glance");
    html.open("table", &[]).open("thead", &[]).open("tr", &[]);
    for heading in ["result", "started", "path", "answer"] {
        html.leaf("th", &[("scope", "col")], heading);
    }
    html.close("tr").close("thead").open("tbody", &[]);
    for (at, part) in parts.iter().enumerate() {
        let outcome = part.shown.outcome;
        html.open("tr", &[]).open("th", &[("scope", "row")]);
        html.leaf("a", &[("href", &format!("#p{}", at + 1))], &part.name).close("th");
        html.leaf("td", &[("class", "date")], &day(&outcome.started));
        html.leaf("td", &[], &outcome.path.spec).open("td", &[("class", "wide-cell")]);
        blocks::answer(html, &answer::sentences(outcome));
        html.close("td").close("tr");
    }
    html.close("tbody").close("table").close("div");
}

/// Formats a time: `2026-03-14 15:09`, in UTC. Text that is no time is shown as it is.
fn day(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(10..11), rfc3339.get(11..16)) {
        (Some(day), Some("T"), Some(time)) => format!("{day} {time}"),
        _ => rfc3339.to_owned(),
    }
}

/// Returns the name of a section's element in the part `part`.
fn section_id(part: &str, heading: &str) -> String {
    format!("{part}-{}", slug(heading))
}

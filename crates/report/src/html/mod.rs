//! A page for a browser: one file with all its content. It is readable without its script,
//! on a phone and on paper.
//!
//! | file | content |
//! |---|---|
//! | `markup.rs` | elements, and the one place where text is escaped |
//! | `shell.rs` | head, policy, bar and end of every page |
//! | `opening.rs` | the first screen: the answer, its figure, and how far to trust it |
//! | `glossary.rs` | meanings of words, at the end |
//! | `part.rs` | one result: the answer, the figures, and their basis |
//! | `blocks.rs` | sentences, tables and lists |
//! | `figure.rs` | a drawing with its caption and its numbers |
//! | `study.rs` | a study: its question, its claims, the published figures |
//! | `studies.rs` | several studies: every claim with its ruling |
//! | `index.rs` | a page over many pages |
//! | `page.css` `page.js` | style; behaviour if scripts run |

use super::document::{Block, Document, Line};
use super::figure::Figure;
use super::opening::{Opening, RaceSet};
use super::plot::palette::{self, Tint};
use super::{Report, ReportInput, Samples, Style, content, names};
use deadheat_base::error::Result;
use deadheat_result::study::outcome::StudyRun;

mod blocks;
mod figure;
mod glossary;
mod index;
pub(super) mod markup;
mod opening;
mod part;
mod shell;
mod studies;
mod study;

pub use shell::STYLE;

pub use index::{EntryContent, IndexEntry, index};
use markup::{Link, Markup, slug};
pub use studies::of_studies;

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
        Page { title: names::title(part.shown.outcome), parts: vec![part], study: None }
    }
}

/// Element of the heading above the races of a page.
const RACES: &str = "races";

/// Element of the drawing of a page that is not a race's.
const DRAWING: &str = "m";

/// Returns the page of a document that is not a race: its first screen, answer, drawing, tables and facts.
pub(super) fn of_document(
    document: &Document,
    opening: &Opening,
    drawing: Option<&Figure>,
    tints: &[Tint],
) -> String {
    let colours = figure::rules() + &figure::of_tints(DRAWING, tints);
    let mut html = Markup::default();
    html.open("article", &[]);
    html.leaf("h1", &[], &document.title);
    opening::write(&mut html, opening);
    html.leaf("p", &[("class", "subtitle")], &document.subtitle);
    // Drawings of letters are left out: a page has others.
    let is_shown = |block: &Block| !matches!(block, Block::Boxes(_) | Block::Fixed(_));
    let shown = document.sections.iter().filter(|section| section.blocks.iter().any(is_shown));
    let is_new = |line: &&Line| !opening.says(&line.text);
    for (at, section) in shown.enumerate() {
        if !section.heading.is_empty() {
            html.leaf("h2", &[("id", &slug(&section.heading))], &section.heading);
        }
        let name = if section.heading.is_empty() { &document.title } else { &section.heading };
        for block in &section.blocks {
            match block {
                Block::Sentences(lines) if at == 0 => {
                    let lines: Vec<Line> = lines.iter().filter(is_new).cloned().collect();
                    blocks::answer(&mut html, &lines);
                }
                block => blocks::block(&mut html, name, block),
            }
        }
        if let Some(drawing) = drawing.filter(|_| at == 0) {
            html.open("div", &[("id", DRAWING)]);
            figure::write(&mut html, DRAWING, 2, drawing);
            html.close("div");
        }
    }
    html.close("article");
    shell::page(&document.title, &colours, &[], &html.into_string())
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
        if run.study.over.is_some() {
            colours.push_str(&figure::of_tints(study::PART, &palette::lines()));
        }
    } else if !is_alone {
        html.leaf("h1", &[], &page.title);
        let races = page.parts.iter().map(|part| (part.name.as_str(), part.shown.outcome));
        links.extend(several(&mut html, &RaceSet::of_races(races.collect())));
    }
    if !is_alone && !page.parts.is_empty() {
        html.leaf("h2", &[("id", RACES)], "Races");
        links.push((format!("#{RACES}"), "Races".to_owned()));
    }
    for (at, one) in page.parts.iter().enumerate() {
        let id = format!("p{}", at + 1);
        colours.push_str(&figure::colours(&id, one.shown.outcome));
        let about = page.study.and_then(|run| study::about(run, &one.name));
        let written = part::PartContent { id: &id, part: one, is_alone, about };
        let sections = part::write(&mut html, &written);
        links.extend(if is_alone { sections } else { Vec::new() });
    }
    shell::page(&page.title, &colours, &links, &html.into_string())
}

/// Writes the answer of several results: the first screen, and their figures side by side; returns links to it.
fn several(html: &mut Markup, set: &RaceSet<'_>) -> Vec<Link> {
    opening::write(html, &set.opening());
    let tables = set.tables();
    if tables.is_empty() {
        return Vec::new();
    }
    let heading = "Side by side";
    let id = slug(heading);
    html.open("section", &[]).leaf("h2", &[("id", &id)], heading);
    for table in &tables {
        blocks::table(html, heading, table);
    }
    html.close("section");
    vec![(format!("#{id}"), heading.to_owned())]
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

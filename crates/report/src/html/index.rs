//! A page over the results of a folder, with a link to the page of each.

use super::markup::Markup;
use super::{blocks, day, several, shell, study};
use crate::document::{Line, Tone};
use crate::opening::RaceSet;
use crate::{names, opening, words};
use deadheat_result::outcome::Outcome;
use deadheat_result::study::outcome::StudyRun;

/// A file of the folder.
#[derive(Debug)]
pub struct IndexEntry<'a> {
    /// Name of the file in its folder.
    pub file: String,
    /// Content of the file.
    pub found: EntryContent<'a>,
}

/// Content of a file.
#[derive(Debug)]
pub enum EntryContent<'a> {
    /// Result of a race. Its page is at `page`, beside the index.
    Race {
        /// The result.
        outcome: &'a Outcome,
        /// The file of its page.
        page: String,
    },
    /// Study that was run. Its page is at `page`, beside the index.
    Study {
        /// Run of the study.
        run: &'a StudyRun,
        /// The file of its page.
        page: String,
    },
    /// File that cannot be shown.
    Unreadable {
        /// Reason why it cannot be shown.
        why: String,
    },
}

impl IndexEntry<'_> {
    /// Returns the start time of the measurement; empty if unknown.
    pub fn started(&self) -> &str {
        match &self.found {
            EntryContent::Race { outcome, .. } => &outcome.started,
            EntryContent::Study { run, .. } => &run.started,
            EntryContent::Unreadable { .. } => "",
        }
    }
}

/// Returns the index of `entries`, in their order.
pub fn index(title: &str, entries: &[IndexEntry<'_>]) -> String {
    let mut html = Markup::default();
    html.leaf("h1", &[], title);
    let unreadable =
        |entry: &&IndexEntry<'_>| matches!(entry.found, EntryContent::Unreadable { .. });
    let left_out: Vec<&IndexEntry<'_>> = entries.iter().filter(unreadable).collect();
    let shown = entries.len() - left_out.len();
    html.leaf("p", &[("class", "subtitle")], &words::count(shown as u64, "result"));
    let races = entries.iter().filter_map(|entry| match &entry.found {
        EntryContent::Race { outcome, .. } => Some((entry.file.as_str(), *outcome)),
        _ => None,
    });
    let set = RaceSet::of_races(races.collect());
    let links = if set.is_worth_a_summary() { several(&mut html, &set) } else { Vec::new() };
    html.open("ol", &[("class", "cards")]);
    for entry in entries {
        match &entry.found {
            EntryContent::Race { outcome, page } => race(&mut html, &entry.file, outcome, page),
            EntryContent::Study { run, page } => study_card(&mut html, &entry.file, run, page),
            EntryContent::Unreadable { .. } => {}
        }
    }
    html.close("ol");
    if !left_out.is_empty() {
        html.leaf("h2", &[("id", "left-out")], "Files that are not shown");
        let facts: Vec<(String, String)> = left_out
            .iter()
            .filter_map(|entry| match &entry.found {
                EntryContent::Unreadable { why } => Some((entry.file.clone(), why.clone())),
                _ => None,
            })
            .collect();
        blocks::facts(&mut html, &facts);
    }
    shell::page(title, "", &links, &html.into_string())
}

struct Card<'a> {
    title: &'a str,
    page: &'a str,
    facts: Vec<String>,
    lines: Vec<Line>,
}

fn card(html: &mut Markup, card: Card<'_>) {
    html.open("li", &[("class", "card")]).open("h2", &[]);
    html.leaf("a", &[("href", card.page)], card.title).close("h2");
    let facts: Vec<String> = card.facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    html.leaf("p", &[("class", "subtitle")], &facts.join(" · "));
    blocks::answer(html, &card.lines);
    html.close("li");
}

fn race(html: &mut Markup, file: &str, outcome: &Outcome, page: &str) {
    let facts = vec![
        format!("{} UTC", day(&outcome.started)),
        outcome.host.hostname.clone(),
        outcome.asked.workload.clone(),
        outcome.path.spec.clone(),
        outcome.asked.contenders.join(", "),
        file.to_owned(),
    ];
    let title = names::title(outcome);
    card(html, Card { title: &title, page, facts, lines: vec![opening::headline(outcome)] });
}

fn study_card(html: &mut Markup, file: &str, run: &StudyRun, page: &str) {
    let facts = vec![
        format!("{} UTC", day(&run.started)),
        run.host.clone(),
        format!("study {}", run.name),
        words::count(run.races.len() as u64, "race"),
        file.to_owned(),
    ];
    let mut lines = study::rulings(run);
    if lines.is_empty() {
        lines.push(Line::new(run.study.question.clone(), Tone::Plain));
    }
    card(html, Card { title: &run.study.title, page, facts, lines });
}

//! A study for people, before it is run.

use deadheat_base::foreign::visible;
use deadheat_race::study::check::CheckedStudy;
use deadheat_report::study::variant_word;
use deadheat_report::wrap;
use deadheat_result::study::model::{Claim, PublishedFigure, RacePlan, Source};
use deadheat_result::study::outcome::Setting;

use super::super::list::at_most;

/// Maximum width of sentences.
const WIDEST: usize = 100;

/// Returns the question of a study, its source, its measurements, and its claims.
pub(super) fn text(name: &str, checked: &CheckedStudy, width: usize) -> String {
    let study = &checked.study;
    let mut page = StudyText { out: String::new(), width: width.min(WIDEST) };
    page.line(0, &format!("{name}: {}", study.title));
    page.line(2, &study.question);
    for paragraph in study.about.split("\n\n").filter(|text| !text.trim().is_empty()) {
        page.out.push('\n');
        page.line(2, &paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(source) = &study.source {
        page.source(source);
    }
    page.heading("Races");
    study.races.iter().for_each(|race| page.race(race));
    if !study.published.is_empty() {
        page.heading("Published figures");
        study.published.iter().for_each(|published| page.published(published));
    }
    if !study.claims.is_empty() {
        page.heading("Claims");
        study.claims.iter().for_each(|claim| page.claim(claim));
    }
    page.heading(&format!("To run it ({})", at_most(study)));
    page.raw(2, &format!("deadheat study run {name}"));
    page.raw(2, &format!("deadheat study run {name} --quick"));
    page.out
}

struct StudyText {
    out: String,
    width: usize,
}

impl StudyText {
    fn line(&mut self, indent: usize, text: &str) {
        for line in wrap(&visible(text), self.width.saturating_sub(indent)) {
            self.out.push_str(&format!("{:indent$}{line}\n", ""));
        }
    }

    /// Writes text in one piece, as it would be typed.
    fn raw(&mut self, indent: usize, text: &str) {
        self.out.push_str(&format!("{:indent$}{}\n", "", visible(text)));
    }

    fn heading(&mut self, text: &str) {
        self.out.push_str(&format!("\n{text}\n"));
    }

    fn source(&mut self, source: &Source) {
        self.heading("Source");
        self.line(2, &format!("{}, “{}”, {}", source.author, source.title, source.year));
        self.line(2, &source.at);
        if !source.host.is_empty() {
            self.line(2, &format!("measured on: {}", source.host));
        }
    }

    fn race(&mut self, race: &RacePlan) {
        self.line(2, &format!("{} ({}): {}", race.id, variant_word(race.variant), race.about));
        self.raw(4, &race.command());
        let quick = race.at(Setting::Quick).command();
        if quick != race.command() {
            self.raw(4, &format!("{quick}    # --quick"));
        }
        for flaw in &race.flaws {
            self.line(4, &format!("- {flaw}"));
        }
    }

    fn published(&mut self, published: &PublishedFigure) {
        let PublishedFigure { race, metric, cell, value, stddev, range, note, .. } = published;
        let stddev = stddev.as_ref().map_or_else(String::new, |sd| format!(" ± {sd}"));
        let range = range.as_ref().map_or_else(String::new, |range| format!(", trials {range}"));
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        self.line(2, &format!("{race}, {metric}, {}: {value}{stddev}{range}{note}", cell.text()));
    }

    fn claim(&mut self, claim: &Claim) {
        let by = claim.by.as_ref().map_or_else(String::new, |by| format!(" ({by})"));
        self.line(2, &format!("{}: {}{by}", claim.id, claim.says));
        if let Some(agree) = &claim.agree {
            let asked = match (&agree.in_order, agree.at_least) {
                (Some(share), _) => {
                    format!("{share} of the pairs of published figures are in order")
                }
                (None, least) => format!("{} published figures agree", least.unwrap_or(1)),
            };
            self.line(4, &format!("- {asked}, within {}", agree.within));
        }
        for test in &claim.tests {
            let given =
                if test.given.is_empty() { String::new() } else { format!("{}: ", test.given) };
            let what = match &test.against {
                Some(against) => format!("{} over {}", test.of.text(), against.text()),
                None => test.of.text(),
            };
            let line = format!("{given}{}, {}, {what} is {}", test.race, test.metric, test.expect);
            self.line(4, &format!("- {line}"));
        }
    }
}

//! Study at the top of its page: the question, the ruling on each claim, and published figures beside
//! those measured here.

use super::markup::{Link, Markup};
use super::{blocks, day, figure, opening};
use crate::document::{Cell, Column, Line, Table, Tone};
use crate::opening::{Opening, OpeningFigure};
use crate::study::{
    Results, answer_word, beside, flawless_first, history, ruling_word, variant_word,
};
use crate::{plot, words};
use deadheat_result::study::model::{Claim, RacePlan, Source, Test};
use deadheat_result::study::outcome::{
    AnswerKind, ClaimRuling, EstimateInterval, Ruling, Setting, StudyRun, TestAnswer,
};

/// Most claims on the first screen.
const MOST_CLAIMS: usize = 3;

/// The name of the study's own part.
pub(super) const PART: &str = "study";

/// Returns the line that says how, where, when and by which version a study was run.
pub(super) fn origin(run: &StudyRun) -> String {
    format!(
        "study {} · {} · run on {} · {} UTC · deadheat {}",
        run.name,
        run.thoroughness(),
        run.host,
        day(&run.started),
        run.deadheat.version
    )
}

/// Writes the part above the races; returns links to it.
pub(super) fn top(html: &mut Markup, run: &StudyRun, results: &Results<'_>) -> Vec<Link> {
    let study = &run.study;
    html.open("article", &[("class", "part"), ("id", PART)]);
    html.leaf("h1", &[], &study.title);
    html.leaf("p", &[("class", "lead")], &study.question);
    opening::write(html, &of_study(run));
    html.leaf("p", &[("class", "subtitle")], &origin(run));
    let mut links = Vec::new();
    if !run.rulings.is_empty() {
        links.push(section(html, "Claims"));
        claims(html, run);
        html.close("section");
    }
    if !run.beside.is_empty() {
        links.push(section(html, "Published beside measured"));
        for one in plot::study_figures(run) {
            figure::write(html, PART, 3, &one);
        }
        for table in beside(run, results) {
            blocks::block(html, "Published beside measured", &table);
        }
        html.close("section");
    }
    if !study.about.is_empty() || study.source.is_some() {
        links.push(section(html, "The experiment"));
        study.about.split("\n\n").filter(|text| !text.trim().is_empty()).for_each(|text| {
            let text: Vec<&str> = text.split_whitespace().collect();
            html.leaf("p", &[], &text.join(" "));
        });
        if let Some(source) = &study.source {
            html.leaf("p", &[("class", "aside")], &credit(source));
        }
        html.close("section");
    }
    if let Some(history) = history(run) {
        html.leaf("p", &[("class", "aside")], &history);
    }
    missing(html, run);
    html.close("article");
    links
}

/// Returns the first screen of a study: its claims with their rulings, the figure behind the first that is settled, and
/// how far to trust it.
fn of_study(run: &StudyRun) -> Opening {
    let tally = crate::study::tally(std::slice::from_ref(run));
    let mut headlines = vec![Line::new(format!("{tally}."), Tone::Plain)];
    let of_claims = rulings(run).into_iter().take(MOST_CLAIMS);
    headlines.extend(of_claims.map(|line| Line::new(words::capital(&line.text), Tone::Plain)));
    let settled = run.rulings.iter().filter(|said| said.ruling != Ruling::Open);
    let mut figures = settled.filter_map(|said| {
        let is_settled = |kind| !matches!(kind, AnswerKind::LeftOut | AnswerKind::Open);
        let answers = flawless_first(run, said);
        let answer = answers.into_iter().find(|one| is_settled(one.answer))?;
        let shown = crate::study::shown(answer)?;
        let confidence =
            answer.confidence.map(|level| format!("at {} confidence", words::level(level)));
        let (test, race) = (&answer.test, &answer.test.race);
        let metric = crate::study::planned_metric(run, race, &test.metric);
        let label = metric.as_ref().map_or(test.metric.as_str(), |metric| &metric.label);
        let about = format!("{label} of {}, in the race {race}", subject(test));
        Some(OpeningFigure { value: shown, interval: confidence.unwrap_or_default(), about })
    });
    let trusted = run.races.iter().filter(|race| race.trusted).count();
    let (all, doubts) = (run.races.len(), crate::study::doubts(run));
    let tone = if doubts.is_empty() { Tone::Good } else { Tone::Plain };
    let text = format!("{trusted} of {} trusted.", words::count(all as u64, "race"));
    let mut trust = vec![Line::new(text, tone)];
    trust.extend(doubts);
    if run.setting == Setting::Quick {
        let text = "Quick setting: shorter races than the study has, which settle less.";
        trust.push(Line::new(text, Tone::Open));
    }
    Opening { headlines, figure: figures.next(), trust }
}

fn section(html: &mut Markup, heading: &str) -> Link {
    let id = super::section_id(PART, heading);
    html.open("section", &[]).leaf("h2", &[("id", &id)], heading);
    (format!("#{id}"), heading.to_owned())
}

fn credit(source: &Source) -> String {
    let host = if source.host.is_empty() {
        String::new()
    } else {
        format!(" Measured on {}.", source.host.trim_end_matches('.'))
    };
    format!("{}: {} ({}), {}.{host}", source.author, source.title, source.year, source.at)
}

/// Returns a sign and a tone with the meaning of the ruling.
fn look(ruling: Ruling) -> (&'static str, Tone) {
    match ruling {
        Ruling::Holds | Ruling::Exceeds => ("✓", Tone::Good),
        Ruling::DoesNotHold | Ruling::MostlyContradicted => ("✗", Tone::Bad),
        Ruling::Depends => ("±", Tone::Tie),
        Ruling::Open => ("?", Tone::Open),
    }
}

/// Writes each claim with its ruling, and the tests behind it, folded.
pub(super) fn claims(html: &mut Markup, run: &StudyRun) {
    html.open("ul", &[("class", "claims")]);
    for said in &run.rulings {
        let claim = run.study.claims.iter().find(|claim| claim.id == said.id);
        let (sign, tone) = look(said.ruling);
        html.open("li", &[("class", tone.class())]);
        html.open("p", &[("class", "ruling")]);
        html.open("span", &[("class", "sign"), ("aria-hidden", "true")]).text(sign).close("span");
        html.leaf("span", &[("class", tone.class())], &in_words(said.ruling, claim));
        html.close("p");
        html.leaf("p", &[("class", "lead")], claim.map_or(said.id.as_str(), |claim| &claim.says));
        if let Some(by) = claim.and_then(|claim| claim.by.as_ref()) {
            html.leaf("p", &[("class", "aside")], &format!("Claimed by {by}."));
        }
        html.leaf("p", &[], &said.note);
        if !said.answers.is_empty() {
            html.open("details", &[]).leaf("summary", &[], "What was asked of the measurements");
            blocks::table(html, &format!("Tests of {}", said.id), &tests(said));
            html.close("details");
        }
        html.close("li");
    }
    html.close("ul");
}

fn in_words(ruling: Ruling, claim: Option<&Claim>) -> String {
    let words = ruling_word(ruling);
    match claim.and_then(|claim| claim.depends_on.as_ref()) {
        Some(what) if ruling == Ruling::Depends => format!("{words} on {what}"),
        _ => words.to_owned(),
    }
}

fn tests(said: &ClaimRuling) -> Table {
    let column = |heading: &str, cell: &dyn Fn(&TestAnswer) -> Cell| {
        Column::new(heading, said.answers.iter().map(cell).collect())
    };
    let mut columns = vec![
        column("of", &|answer| Cell::text(subject(&answer.test))),
        column("given", &|answer| Cell::text(answer.test.given.clone())),
        column("race", &|answer| Cell::text(answer.test.race.clone())),
        column("metric", &|answer| Cell::text(answer.test.metric.clone())),
        column("expected", &|answer| Cell::text(answer.test.expect.clone())),
        column("seen", &|answer| interval(answer.seen.as_ref())),
        column("blocks", &|answer| Cell::text(answer.blocks.to_string())),
        column("answer", &|answer| {
            let tone = match answer.answer {
                AnswerKind::Yes | AnswerKind::More => Tone::Good,
                AnswerKind::No => Tone::Bad,
                AnswerKind::Open => Tone::Open,
                AnswerKind::LeftOut => Tone::Plain,
            };
            Cell::text(answer_word(answer.answer)).tone(tone)
        }),
    ];
    columns.retain(Column::has_content);
    Table { columns, legend: String::new() }
}

fn subject(test: &Test) -> String {
    match &test.against {
        Some(against) => format!("{} over {}", test.of.text(), against.text()),
        None => test.of.text(),
    }
}

fn interval(interval: Option<&EstimateInterval>) -> Cell {
    let Some(seen) = interval else { return Cell::text(words::NOTHING).tone(Tone::Aside) };
    let ends = match (seen.low, seen.high) {
        (Some(low), Some(high)) => {
            words::interval(&words::significant(low), &words::significant(high))
        }
        _ => String::new(),
    };
    Cell::number(words::significant(seen.point), ends)
}

/// Writes the races that did not run, or did not complete.
fn missing(html: &mut Markup, run: &StudyRun) {
    let facts: Vec<(String, String)> = run
        .races
        .iter()
        .filter_map(|race| Some((race.id.clone(), race.why_not.clone()?)))
        .collect();
    if !facts.is_empty() {
        section(html, "Not measured");
        blocks::facts(html, &facts);
        html.close("section");
    }
}

/// A study's description of one of its races.
pub(super) struct RaceDescription<'a>(&'a RacePlan);

/// Returns the study's description of its race `id`.
pub(super) fn about<'a>(run: &'a StudyRun, id: &str) -> Option<RaceDescription<'a>> {
    run.study.races.iter().find(|race| race.id == id).map(RaceDescription)
}

impl RaceDescription<'_> {
    pub(super) fn write(&self, html: &mut Markup) {
        let variant = variant_word(self.0.variant);
        html.open("p", &[]).leaf("span", &[("class", "variant")], variant);
        html.text(" ").text(&self.0.about).close("p");
        if !self.0.flaws.is_empty() {
            html.open("ul", &[("class", "flaws")]);
            for flaw in &self.0.flaws {
                html.leaf("li", &[], flaw);
            }
            html.close("ul");
        }
    }
}

/// Returns each claim with its ruling, in a line.
pub(super) fn rulings(run: &StudyRun) -> Vec<Line> {
    let line = |said: &ClaimRuling| {
        let claim = run.study.claims.iter().find(|claim| claim.id == said.id);
        let (_, tone) = look(said.ruling);
        let says = claim.map_or(said.id.as_str(), |claim| &claim.says);
        Line::new(format!("{}: {says}", in_words(said.ruling, claim)), tone)
    };
    run.rulings.iter().map(line).collect()
}

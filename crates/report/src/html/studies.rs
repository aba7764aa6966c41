//! A page over several studies: every claim with its ruling. The races of a study are in its own page.

use super::markup::{Link, Markup};
use super::{blocks, opening, shell, study};
use crate::document::{Line, Tone};
use crate::opening::{Opening, OpeningFigure};
use crate::studies::{how_many_studies, remarks, subtitle, table, title};
use crate::study::{doubtful, how_many, tally};
use crate::words;
use deadheat_result::study::outcome::{Ruling, Setting, StudyRun};

/// Returns the page of several studies, in their order.
pub fn of_studies(runs: &[StudyRun]) -> String {
    let mut html = Markup::default();
    html.leaf("h1", &[], &title(runs));
    opening::write(&mut html, &first_screen(runs));
    html.leaf("p", &[("class", "subtitle")], &subtitle(runs));
    let heading = "Claims of each study";
    html.open("section", &[]).leaf("h2", &[("id", "studies")], heading);
    blocks::table(&mut html, heading, &table(runs));
    contents(&mut html, runs);
    html.close("section");
    let mut links: Vec<Link> = vec![("#studies".to_owned(), heading.to_owned())];
    for (at, run) in runs.iter().enumerate() {
        let id = id(at);
        html.open("article", &[("class", "part"), ("id", &id)]);
        html.leaf("h2", &[], &run.study.title);
        html.leaf("p", &[("class", "lead")], &run.study.question);
        html.leaf("p", &[("class", "subtitle")], &study::origin(run));
        for line in remarks(run) {
            html.leaf("p", &[("class", line.tone.class())], &line.text);
        }
        study::claims(&mut html, run);
        html.close("article");
        links.push((format!("#{id}"), run.name.clone()));
    }
    shell::page(&title(runs), "", &links, &html.into_string())
}

fn id(at: usize) -> String {
    format!("s{}", at + 1)
}

/// Writes a list of the studies, each with its question and its claims in a sentence.
fn contents(html: &mut Markup, runs: &[StudyRun]) {
    html.open("ol", &[("class", "contents")]);
    for (at, run) in runs.iter().enumerate() {
        html.open("li", &[]).open("p", &[("class", "entry")]);
        html.leaf("a", &[("href", &format!("#{}", id(at)))], &run.study.title).close("p");
        html.leaf("p", &[], &run.study.question);
        let text = format!("{}.", tally(std::slice::from_ref(run)));
        html.leaf("p", &[("class", "subtitle")], &text).close("li");
    }
    html.close("ol");
}

/// Returns the first screen: the claims by ruling, the share that holds, and how far to trust it.
fn first_screen(runs: &[StudyRun]) -> Opening {
    let claims: usize = runs.iter().map(|run| run.rulings.len()).sum();
    let of = |rulings: &[Ruling]| rulings.iter().map(|one| how_many(runs, *one)).sum::<usize>();
    let holds = of(&[Ruling::Holds, Ruling::Exceeds]);
    let parts: Vec<String> = [
        (holds, ["holds", "hold"]),
        (of(&[Ruling::DoesNotHold, Ruling::MostlyContradicted]), ["does not", "do not"]),
        (of(&[Ruling::Depends]), ["depends on conditions", "depend on conditions"]),
        (of(&[Ruling::Open]), ["is open", "are open"]),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, [one, several])| format!("{n} {}", if n == 1 { one } else { several }))
    .collect();
    let text = if parts.is_empty() {
        "No claims to judge.".to_owned()
    } else {
        let claims = words::count(claims as u64, "claim");
        format!("Of {claims} in {}, {}.", how_many_studies(runs), words::list(&parts))
    };
    let figure = (claims > 0).then(|| OpeningFigure {
        value: format!("{holds} of {claims}"),
        interval: String::new(),
        about: "claims hold as they were made, or the effect is larger than was claimed".to_owned(),
    });
    let headlines = vec![Line::new(text, Tone::Plain)];
    Opening { headlines, figure, trust: trust(runs) }
}

fn trust(runs: &[StudyRun]) -> Vec<Line> {
    let races = || runs.iter().flat_map(|run| &run.races);
    let all = words::count(races().count() as u64, "race");
    let ran = races().filter(|race| race.file.is_some()).count();
    let trusted = races().filter(|race| race.trusted).count();
    let tone = if trusted == races().count() { Tone::Good } else { Tone::Plain };
    let mut lines = vec![Line::new(format!("{trusted} of {all} trusted."), tone)];
    let doubtful = runs.iter().map(|run| doubtful(run).len()).sum::<usize>();
    let (missing, quick) =
        (races().count() - ran, runs.iter().filter(|run| run.setting == Setting::Quick).count());
    for (n, says, tone) in [
        (doubtful, format!("{doubtful} of {all} not trusted: they settle no claim."), Tone::Bad),
        (missing, format!("{missing} of {all} did not run."), Tone::Open),
        (
            quick,
            format!(
                "Quick setting in {quick} of {} studies: shorter races than the study has, which settle less.",
                runs.len()
            ),
            Tone::Open,
        ),
    ] {
        if n > 0 {
            lines.push(Line::new(says, tone));
        }
    }
    lines
}

//! The answer: the verdicts in a few sentences. Everything said here follows from the pairwise verdicts.

use super::document::{Block, Line, Section, Tone};
use super::names::{label, vary};
use super::standing::{Standing, result, tone};
use super::totals::blocks_done;
use super::{absence, contests, factors, imported, libraries, resolution, sweeps, why, words};
use deadheat_result::analysis::{claims, host_use, no_figures};
use deadheat_result::outcome::{Outcome, Status, Verdict};

/// Maximum number of verdicts that get their own sentence each; beyond, contenders are grouped.
const ONE_BY_ONE: usize = 3;

/// Returns the section at the top.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    Section::new("", vec![Block::Sentences(lines(outcome))])
}

/// Returns the answer without its resolution, for forms with little room.
pub(super) fn sentences(outcome: &Outcome) -> Vec<Line> {
    lines(outcome).into_iter().filter(|line| line.tone != Tone::Aside).collect()
}

/// Returns the sentences of the answer: what speaks against it, the verdicts, and its resolution.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut lines = doubts(outcome);
    lines.extend(unfinished(outcome));
    let is_for_figures = claims::is_for_figures(outcome) && !no_figures::is_blank(outcome);
    let figures_alone = is_for_figures.then(|| figures_alone(outcome));
    if vary(outcome) {
        lines.extend(sweeps::lines(outcome));
    }
    let shares = contests::lines(outcome);
    if contests::is_matrix(outcome) && !shares.is_empty() {
        lines.extend(shares);
    } else if let Some(line) = figures_alone {
        lines.push(line);
    } else if vary(outcome) {
        lines.extend(factors::lines(outcome));
    } else if outcome.verdicts.is_empty() && outcome.imported.is_none() {
        lines.push(nothing_to_compare(outcome));
    } else if outcome.verdicts.len() <= ONE_BY_ONE {
        lines.extend(outcome.verdicts.iter().map(|verdict| one(outcome, verdict)));
    } else {
        for metric in &outcome.metrics {
            lines.extend(Standing::of(outcome, metric).map(|standing| standing.line()));
        }
        lines.extend(host_use::sentence(outcome).map(|text| Line::new(text, Tone::Open)));
    }
    if !contests::is_matrix(outcome) {
        lines.extend(contests::lines(outcome));
    }
    if !outcome.trusted() {
        // Bad news must not look like good news.
        for line in lines.iter_mut().filter(|line| line.tone != Tone::Bad) {
            line.tone = Tone::Open;
        }
    }
    lines.extend(why::lines(outcome));
    lines.extend(libraries::lines(outcome));
    lines.extend(resolution::lines(outcome));
    let basis = outcome.imported.as_ref().map(|imported| imported.basis.as_str());
    lines.extend(basis.map(|basis| Line::new(basis, Tone::Open)));
    lines.extend(imported::notes(outcome).into_iter().map(|note| Line::new(note, Tone::Open)));
    lines.extend(absence::lines(outcome));
    lines
}

fn doubts(outcome: &Outcome) -> Vec<Line> {
    outcome.doubts().map(|why| Line::new(format!("Not trusted: {why}"), Tone::Bad)).collect()
}

fn unfinished(outcome: &Outcome) -> Option<Line> {
    let blocks = words::count(blocks_done(outcome), "block");
    let text = match outcome.status {
        Status::Decided | Status::Budget => return None,
        Status::Running => format!("Not finished: what follows stands on {blocks}."),
        Status::Interrupted => format!("Stopped by hand after {blocks}."),
        Status::Failed => {
            let why = outcome.why_failed().unwrap_or_default().trim_end_matches('.');
            format!("The race could not go on after {blocks}: {why}.")
        }
    };
    Some(Line::new(text, Tone::Open))
}

/// Returns the sentence on a race with fewer blocks than verdicts need, as its user asked.
fn figures_alone(outcome: &Outcome) -> Line {
    let blocks = blocks_done(outcome);
    let text = match outcome.asked.blocks {
        Some(1) => "Figures of one block; no verdict was asked for.".to_owned(),
        _ => {
            let claims = usize::try_from(outcome.plan.claims).unwrap_or(usize::MAX);
            let fewest = claims::fewest_for(claims, outcome.asked.confidence);
            format!(
                "Figures of {}; verdicts take {fewest} at least.",
                words::count(blocks, "block")
            )
        }
    };
    Line::new(text, Tone::Plain)
}

fn nothing_to_compare(outcome: &Outcome) -> Line {
    let running: Vec<&str> = outcome
        .contenders
        .iter()
        .filter(|contender| contender.out().is_none())
        .map(|contender| contender.label.as_str())
        .collect();
    let text = match running.as_slice() {
        [] => "No contender got through; there is nothing to compare.".into(),
        [only] => format!("There is no other contender to compare {only} with."),
        _ => "No verdict yet: too few blocks.".into(),
    };
    Line::new(text, Tone::Open)
}

/// Returns the sentence on one verdict, as its race wrote it.
pub(super) fn one(outcome: &Outcome, verdict: &Verdict) -> Line {
    let text = if verdict.note.is_empty() {
        let pair = [label(outcome, verdict.a), label(outcome, verdict.b)];
        format!("{}: {}.", words::list(&pair), result(outcome, verdict))
    } else {
        verdict.note.clone()
    };
    Line::new(text, tone(verdict.outcome))
}

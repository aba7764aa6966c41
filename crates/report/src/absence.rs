//! Contenders without figures, in the answer: why no trial is valid, why they dropped out, why they never ran.

use super::document::{Line, Tone};
use super::words;
use deadheat_result::analysis::no_figures::{self, SilentContender};
use deadheat_result::dropped::DropReason;
use deadheat_result::outcome::{Entrant, Outcome};

/// Maximum number of reasons of each kind that are given in full.
const MOST_REASONS: usize = 2;

/// Place of the reasons that are left out.
const IN_FULL: &str = "--details has the reasons";

/// Returns the sentences on contenders without figures.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut lines = silent(outcome);
    lines.extend(untrusted(outcome));
    lines.extend(dropped(outcome));
    lines.extend(not_applicable(outcome));
    lines
}

/// Names the contenders that ran and have no valid trial, with the reason of each; if there are many, only the first reasons.
fn silent(outcome: &Outcome) -> Vec<Line> {
    let unanswered = no_figures::unanswered(outcome);
    if outcome.imported.is_some() {
        // Of runs that failed an import says so in its own sentence.
        return without_figures(unanswered);
    }
    let mut silent = no_figures::silent(outcome);
    silent.extend(unanswered);
    if no_figures::is_blank(outcome) && silent.len() > 1 {
        // Why is said with the doubts about a race in which so many trials failed.
        let why = silent.first().filter(|_| outcome.trusted());
        let why =
            why.map_or_else(String::new, |one| format!(": of {}, {}", one.contender, one.why));
        let text = format!("No contender has a valid trial, so there are no figures{why}.");
        return vec![Line::new(text, Tone::Bad)];
    }
    without_figures(silent)
}

fn without_figures(silent: Vec<SilentContender>) -> Vec<Line> {
    let reasons = silent.into_iter().map(|one| (one.contender, one.why));
    with_reasons(reasons.collect(), |labels, why| {
        let have = if labels.len() == 1 { "has" } else { "have" };
        let why = why.map_or_else(|| format!(", too; {IN_FULL}"), |why| format!(": {why}"));
        format!("{} {have} no figures{why}.", words::list(labels))
    })
}

/// Shows what the trials of contenders without a valid one measured, as what it is.
fn untrusted(outcome: &Outcome) -> Option<Line> {
    let all = no_figures::untrusted(outcome);
    let first = all.first().filter(|_| outcome.imported.is_none())?;
    let each = all.iter().filter(|one| one.metric.name == first.metric.name).map(|one| {
        let median = words::figure(one.median, one.metric.unit);
        format!("{} {median} ({})", one.contender, words::count(one.trials as u64, "trial"))
    });
    let each: Vec<String> = each.collect();
    let text =
        format!("Measured, and not to be trusted: {}: {}.", first.metric.label, each.join(", "));
    Some(Line::new(text, Tone::Bad))
}

/// Names the contenders that dropped out, with the reason of each; if there are many, only the first reasons.
fn dropped(outcome: &Outcome) -> Vec<Line> {
    let of = |contender: &Entrant| Some((contender.label.clone(), contender.dropped()?));
    let reasons: Vec<(String, DropReason)> = outcome.contenders.iter().filter_map(of).collect();
    with_reasons(reasons, |labels, why| {
        let (list, is) = (words::list(labels), words::is_are(labels.len()));
        match why {
            Some(why) => format!("{}.", why.sentence(&list)),
            None => format!("{list} {is} out, too; {IN_FULL}."),
        }
    })
}

/// Returns a sentence on each of the first reasons with all contenders that have it, and one without a reason on the others.
fn with_reasons<R: PartialEq>(
    reasons: Vec<(String, R)>,
    sentence: impl Fn(&[String], Option<&R>) -> String,
) -> Vec<Line> {
    let mut groups: Vec<(R, Vec<String>)> = Vec::new();
    for (label, why) in reasons {
        match groups.iter_mut().find(|(other, _)| *other == why) {
            Some((_, labels)) => labels.push(label),
            None => groups.push((why, vec![label])),
        }
    }
    let others = groups.split_off(groups.len().min(MOST_REASONS));
    let mut lines: Vec<String> =
        groups.iter().map(|(why, labels)| sentence(labels, Some(why))).collect();
    let labels: Vec<String> = others.into_iter().flat_map(|(_, labels)| labels).collect();
    if !labels.is_empty() {
        lines.push(sentence(&labels, None));
    }
    lines.into_iter().map(|text| Line::new(text, Tone::Bad)).collect()
}

/// Names the contenders that cannot carry the work at all, with the reasons.
fn not_applicable(outcome: &Outcome) -> Vec<Line> {
    let of = |contender: &Entrant| {
        let why = contender.not_applicable.as_ref()?;
        Some(Line::new(format!("{} is not applicable: {why}.", contender.label), Tone::Aside))
    };
    outcome.contenders.iter().filter_map(of).collect()
}

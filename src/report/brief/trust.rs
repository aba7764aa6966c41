//! Trust in the answer, in a line; and warnings that a reader can act on.

use crate::measurements::Unit;
use crate::report::content::label;
use crate::report::document::{Line, Tone};
use crate::report::totals::Total;
use crate::report::{answer, words};
use crate::result::outcome::{Outcome, Verdict, Warning};

/// Codes of warnings that help a reader to improve the next race.
const TO_ACT_ON: &[&str] = &[
    "budget_too_small",
    "host_placement",
    "receive_buffer",
    "send_queue",
    "fragmented",
    "loss_on_loopback",
    "lost_outside_path",
    "path_overrun",
    "censored_percentile",
    "two_regimes",
    "save_failed",
    "resumed_elsewhere",
];

/// Codes of warnings whose content is elsewhere on the screen.
const SAID: &[&str] = &[
    "margin_widened",
    "single_contender",
    "blocked",
    "limited",
    "failed",
    "gate_failed",
    crate::result::outcome::UNTRUSTED_GATE,
    "trial_failed",
];

/// Maximum number of differences that are named.
const MOST_DIFFERENCES: usize = 4;

/// Maximum number of contenders whose losses are given, from the greatest on.
const MOST_LOSERS: usize = 3;

/// Returns lines such as `369 of 372 trials valid, nothing lost · not equal: delivery, framing`.
pub(in crate::report) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut parts = Vec::new();
    if outcome.imported.is_none() {
        parts.extend(trials(outcome));
    }
    parts.extend(differences(outcome));
    let mut lines = Vec::new();
    if !parts.is_empty() {
        lines.push(Line::new(parts.join(" · "), Tone::Plain));
    }
    lines.extend(unfiltered(outcome));
    lines
}

fn trials(outcome: &Outcome) -> Option<String> {
    let all = outcome.trials.len();
    let valid = outcome.trials.iter().filter(|trial| trial.record.valid).count();
    let trials = words::count(all as u64, "trial");
    let counted = match all {
        0 => return None,
        1 if valid == 1 => "the trial is valid".to_owned(),
        _ if valid == all => format!("all {trials} valid"),
        _ => format!("{valid} of {trials} valid"),
    };
    Some(format!("{counted}{}", lost(outcome).unwrap_or_default()))
}

/// Returns `, nothing lost` or `, lost: udp 0.55 %`; `None` if losses were not counted.
fn lost(outcome: &Outcome) -> Option<String> {
    let mut has_account = false;
    let mut losers = Vec::new();
    for contender in &outcome.contenders {
        let ways = ["up", "down", "round_trip"];
        let totals = ways.iter().filter_map(|way| Total::of(outcome, contender.id, way));
        let (mut sent, mut lost) = (0_u64, 0_u64);
        for total in totals {
            has_account = true;
            sent = sent.saturating_add(total.sent);
            lost =
                lost.saturating_add(total.lost_on_path).saturating_add(total.dropped_at_receiver);
        }
        if lost > 0 && sent > 0 {
            losers.push((lost as f64 / sent as f64, contender.id));
        }
    }
    losers.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = losers.len().saturating_sub(MOST_LOSERS);
    let mut names: Vec<String> = losers
        .iter()
        .take(MOST_LOSERS)
        .map(|(share, id)| {
            format!("{} {}", label(outcome, *id), words::figure(*share, Unit::Share))
        })
        .collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.as_slice() {
        [] => has_account.then(|| ", nothing lost".to_owned()),
        names => Some(format!(", lost: {}", words::list(names))),
    }
}

fn differences(outcome: &Outcome) -> Option<String> {
    let names: Vec<&str> = outcome.differences.iter().map(|one| one.what.as_str()).collect();
    let more = names.len().saturating_sub(MOST_DIFFERENCES);
    let mut shown: Vec<String> =
        names.iter().take(MOST_DIFFERENCES).map(ToString::to_string).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| format!("not equal: {}", words::list(&shown)))
}

/// Returns the effect on the claims of the trials that were left out, if one contender lost more of them.
fn unfiltered(outcome: &Outcome) -> Option<Line> {
    if outcome.unfiltered.is_empty() {
        return None;
    }
    let same = |all: &&Verdict| {
        let mut own = outcome.verdicts.iter();
        own.any(|v| {
            (&v.metric, v.a, v.b) == (&all.metric, all.a, all.b)
                && (v.outcome, v.ahead) == (all.outcome, all.ahead)
        })
    };
    let other: Vec<String> = outcome
        .unfiltered
        .iter()
        .filter(|verdict| !same(verdict))
        .map(|verdict| {
            let pair = [label(outcome, verdict.a), label(outcome, verdict.b)];
            format!("{}: {}", words::list(&pair), answer::result(outcome, verdict))
        })
        .collect();
    Some(if other.is_empty() {
        Line::new("The answer is the same with the trials that were excluded.", Tone::Plain)
    } else {
        let text = format!("With the trials that were excluded, {}.", other.join("; "));
        Line::new(text, Tone::Bad)
    })
}

/// Returns at most `most` warnings that a reader can act on, and the number of others.
pub(super) fn warnings(outcome: &Outcome, most: usize) -> (Vec<Line>, usize) {
    let untold = |warning: &&Warning| !SAID.contains(&warning.code.as_str());
    let all = outcome.warnings.iter().filter(untold);
    let (shown, others): (Vec<&Warning>, Vec<&Warning>) =
        all.partition(|warning| TO_ACT_ON.contains(&warning.code.as_str()));
    let others = others.len() + shown.len().saturating_sub(most);
    let line = |warning: &&Warning| {
        let sentence = |text: &str| format!("{}.", text.trim_end_matches('.'));
        let advice = words::capital(&warning.advice);
        let text = format!("Note: {} {}", sentence(&warning.message), sentence(&advice));
        Line::new(text, Tone::Open)
    };
    (shown.iter().take(most).map(line).collect(), others)
}

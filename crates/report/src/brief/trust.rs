//! Trust in the answer, in a line; and warnings that a reader can act on.

use crate::document::{Line, Tone};
use crate::names::label;
use crate::totals::TrialSet;
use crate::{outages, standing, words};
use deadheat_contract::measurements::Unit;
use deadheat_result::analysis::lost_shares::LedgerSums;
use deadheat_result::outcome::{Outcome, Verdict, Warning};

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
    "black_hole",
    "path_not_probed",
    "draws_repeat",
    "censored_percentile",
    "two_regimes",
    "save_failed",
    "resumed_elsewhere",
];

/// Codes of warnings with content that is elsewhere on the screen.
const ELSEWHERE: &[&str] = &[
    "margin_widened",
    "single_contender",
    "blocked",
    "limited",
    "failed",
    "gate_failed",
    deadheat_result::outcome::UNTRUSTED_GATE,
    "trial_failed",
];

/// Maximum number of differences that are named.
const MOST_DIFFERENCES: usize = 4;

/// Maximum number of contenders with their losses, the greatest first.
const MOST_LOSERS: usize = 3;

/// Returns lines such as `369 of 372 trials valid, nothing lost · not equal: delivery, framing`.
pub(crate) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut parts = Vec::new();
    parts.extend(trials(outcome));
    parts.extend(differences(outcome));
    let mut lines = Vec::new();
    if !parts.is_empty() {
        lines.push(Line::new(parts.join(" · "), Tone::Plain));
    }
    lines.extend(outages::lines(outcome));
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

/// Returns `, nothing lost` or `, lost: udp 0.55 % and the copy of udp 20 %`, and messages that came too late; `None`
/// if losses were not counted. Every trial counts: trials of the hidden copy and excluded trials are named.
fn lost(outcome: &Outcome) -> Option<String> {
    let lost = match shares(outcome, LedgerSums::lost)?.as_slice() {
        [] => ", nothing lost".to_owned(),
        names => format!(", lost: {}", words::list(names)),
    };
    let late = shares(outcome, LedgerSums::late).unwrap_or_default();
    let late = match late.as_slice() {
        [] => String::new(),
        names => format!(", late: {}", words::list(names)),
    };
    Some(lost + &late)
}

/// Returns `lost: udp 0.55 %`, for reports that do not show the line on trust; `None` if nothing is known to be lost.
pub(crate) fn losses(outcome: &Outcome) -> Option<String> {
    let names = shares(outcome, LedgerSums::lost).filter(|names| !names.is_empty())?;
    Some(format!("lost: {}", words::list(&names)))
}

/// Returns the shares above 0 by trials, the greatest first; `None` where there are no accounts.
fn shares(outcome: &Outcome, of: fn(&LedgerSums) -> f64) -> Option<Vec<String>> {
    let mut has_account = false;
    let mut shares = Vec::new();
    for contender in &outcome.contenders {
        for whose in TrialSet::ALL {
            let sums = LedgerSums::of(whose.trials(outcome, contender.id));
            has_account |= sums.is_some();
            let share = sums.as_ref().map_or(0.0, of);
            if share > 0.0 {
                shares.push((share, whose.describe(&contender.label)));
            }
        }
    }
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = shares.len().saturating_sub(MOST_LOSERS);
    let named = shares.iter().take(MOST_LOSERS);
    let mut names: Vec<String> =
        named.map(|(share, who)| format!("{who} {}", words::figure(*share, Unit::Share))).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    has_account.then_some(names)
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
            format!("{}: {}", words::list(&pair), standing::result(outcome, verdict))
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
    let is_new = |warning: &&Warning| !ELSEWHERE.contains(&warning.code.as_str());
    let all = outcome.warnings.iter().filter(is_new);
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

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{Account, Ledger, Metrics};
    use deadheat_race::race::testing;
    use deadheat_result::outcome::Trial;

    /// A trial of which so many of 3000 messages were lost, and so many late.
    fn trial(contender: usize, control: bool, [lost, late]: [u64; 2]) -> Trial {
        let mut record = deadheat_result::testing::record(Metrics::new());
        record.ledger.up = Some(Account {
            unit: "messages".into(),
            sent: 3_000,
            delivered: 3_000 - lost,
            lost_on_path: lost,
            late: Some(late),
            ..Account::default()
        });
        Trial { block: 0, order: 0, contender, control, record }
    }

    fn said(trials: Vec<Trial>) -> String {
        let mut outcome = testing::outcome(2);
        outcome.trials = trials;
        lines(&outcome)[0].text.clone()
    }

    #[test]
    fn losses_of_every_trial_are_told_with_whose_they_are() {
        assert_eq!(
            said(vec![trial(1, false, [0, 0]), trial(1, true, [601, 0])]),
            "all 2 trials valid, lost: the copy of udp 20.0 %"
        );
        let mut failed = trial(0, false, [30, 0]);
        failed.record.valid = false;
        assert_eq!(
            said(vec![failed, trial(1, false, [2_999, 0])]),
            "1 of 2 trials valid, lost: udp 99.97 % and excluded trials of tcp 1.00 %"
        );
    }

    #[test]
    fn what_was_not_answered_is_lost_on_either_way() {
        let mut echo = trial(1, false, [601, 0]);
        let up = echo.record.ledger.up.clone().unwrap();
        echo.record.ledger.down =
            Some(Account { sent: 2_399, delivered: 2_399, lost_on_path: 0, ..up });
        assert_eq!(said(vec![echo.clone()]), "the trial is valid, lost: udp 20.0 %");
        // A trial in which the far end's counts left it open.
        let mut unsplit = trial(1, false, [0, 0]);
        unsplit.record.ledger =
            Ledger { round_trip: unsplit.record.ledger.up.take(), ..Ledger::default() };
        assert_eq!(said(vec![echo, unsplit]), "all 2 trials valid, lost: udp 10.0 %");
        let mut both = trial(1, false, [30, 0]);
        let up = both.record.ledger.up.clone().unwrap();
        both.record.ledger.down = Some(Account { delivered: 2_700, lost_on_path: 300, ..up });
        assert_eq!(said(vec![both]), "the trial is valid, lost: udp 10.0 %");
    }

    #[test]
    fn nothing_lost_is_no_word_on_what_came_too_late() {
        assert_eq!(said(vec![trial(0, false, [0, 0])]), "the trial is valid, nothing lost");
        assert_eq!(
            said(vec![trial(0, false, [0, 300])]),
            "the trial is valid, nothing lost, late: tcp 10.0 %"
        );
    }
}

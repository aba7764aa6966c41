//! Integrity of received content: transfers of kept or checked content, and of files.

use super::document::{Block, Section};
use super::words;
use deadheat_base::units::Bytes;
use deadheat_contract::measurements::{ContentState, Verified};
use deadheat_result::outcome::{Outcome, Trial};

/// Returns a line for each contender, and a line on the file that the last trial left on disk.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let mut facts = Vec::new();
    for contender in &outcome.contenders {
        let own = |trial: &&Trial| trial.contender == contender.id && !trial.control;
        let all: Vec<&Verified> =
            outcome.trials.iter().filter(own).filter_map(|t| t.record.verified.as_ref()).collect();
        if !all.is_empty() {
            facts.push((contender.label.clone(), states(&all)));
        }
    }
    let last = outcome.trials.iter().rev().find_map(|trial| trial.record.verified.as_ref());
    if let Some((file, last)) = last.and_then(|last| Some((last.file.clone()?, last))) {
        facts.push(("the last trial left".to_owned(), left(&file, last)));
    }
    Section::new("Content", vec![Block::Facts(facts)])
}

/// Counts the trials in each state.
fn states(all: &[&Verified]) -> String {
    let of = |state| all.iter().filter(move |verified| verified.state == state);
    let missing = |state| of(state).map(|verified| verified.bytes_missing).max().unwrap_or(0);
    let mut parts = Vec::new();
    for (state, word) in [
        (ContentState::Verified, "verified"),
        (ContentState::Partial, "partial"),
        (ContentState::Differs, "not the file that was sent"),
        (ContentState::NotVerified, "not verified"),
    ] {
        let trials = of(state).count() as u64;
        if trials == 0 {
            continue;
        }
        let mut part = format!("{word} in {}", words::count(trials, "trial"));
        if missing(state) > 0 {
            part.push_str(&format!(", up to {} missing", Bytes(missing(state))));
        }
        if let Some(at) = of(state).filter_map(|verified| verified.differs_at).min() {
            part.push_str(&format!(", differing from byte {at} on"));
        }
        parts.push(part);
    }
    parts.join("; ")
}

fn left(file: &str, last: &Verified) -> String {
    match last.state {
        ContentState::Verified => {
            let hash = last.content.as_deref().map_or(String::new(), |hash| format!(", {hash}"));
            format!("{file}: {}, whole{hash}", Bytes(last.bytes))
        }
        ContentState::Differs => format!("{file}: not the file that was sent"),
        ContentState::Partial | ContentState::NotVerified => format!(
            "{file}: {} of {} bytes missing, which are holes or beyond its end",
            last.bytes_missing, last.bytes
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(state: ContentState, bytes_missing: u64) -> Verified {
        Verified { state, content: None, bytes: 1000, bytes_missing, differs_at: None, file: None }
    }

    #[test]
    fn trials_of_each_state_are_counted_with_the_worst() {
        let whole = verified(ContentState::Verified, 0);
        let (few, many) =
            (verified(ContentState::Partial, 10), verified(ContentState::Partial, 30));
        let mut wrong = verified(ContentState::Differs, 0);
        wrong.differs_at = Some(7);
        assert_eq!(
            states(&[&whole, &few, &many, &wrong]),
            "verified in 1 trial; partial in 2 trials, up to 30 B missing; not the file that was sent in 1 \
             trial, differing from byte 7 on"
        );
        assert_eq!(
            left("x.partial", &many),
            "x.partial: 30 of 1000 bytes missing, which are holes or beyond its end"
        );
    }
}

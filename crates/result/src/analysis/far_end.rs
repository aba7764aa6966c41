//! Notices about a far end that was away, was another one afterwards, or did not come back.

use crate::outcome::Outcome;
use deadheat_base::time::Nanos;
use deadheat_contract::recorded::{self, FarEndFacts, FarEndRemark, SeenTrial};

/// Notice about the far end of a race.
#[derive(Debug, Clone, PartialEq)]
pub enum FarEndNotice {
    /// The far end did not answer for a while; the race waited, and went on.
    Away {
        /// Name of the far end as typed.
        host: String,
        /// Number of absences.
        times: usize,
        /// Length of all absences together.
        lasted: Nanos,
        /// Start of the first.
        since: String,
        /// Evidence of the first loss.
        why: String,
        /// Blocks in which it was lost, from 0.
        blocks: Vec<u64>,
    },
    /// The far end was another one after an absence.
    Changed {
        /// Name of the far end as typed.
        host: String,
        /// The change, in words.
        what: String,
    },
    /// The far end did not come back, which ended the race.
    Lost {
        /// Error with the evidence.
        error: String,
    },
    /// Only one contender is left, so that nothing is compared, which ended the race.
    Alone {
        /// Label of the contender.
        label: String,
    },
    /// The far end is one of others, which counts less than one of ours.
    Others(FarEndFacts),
    /// Remark of the far end on what the trials found there.
    Remark(FarEndRemark),
}

/// Returns the notices of a race whose far end is one of others.
pub(super) fn notices(outcome: &Outcome) -> Vec<FarEndNotice> {
    let Some(facts) = outcome.path.far_end.as_deref() else { return Vec::new() };
    let mut all = vec![FarEndNotice::Others(facts.clone())];
    let label = |id: usize| outcome.contenders.iter().find(|one| one.id == id);
    // What it offered in a trial it offered, too, where this host was late; a trial that failed has no settings.
    let seen = outcome.trials.iter().filter_map(|trial| {
        let label = &label(trial.contender)?.label;
        Some(SeenTrial { label, effective: &trial.record.effective })
    });
    let seen: Vec<SeenTrial<'_>> = seen.collect();
    // A result may be of a program with other far ends.
    if let Some(remarks) = recorded::far_end(&facts.id).and_then(|end| end.remarks) {
        all.extend(remarks(&seen).into_iter().map(FarEndNotice::Remark));
    }
    all
}

impl FarEndNotice {
    /// Codes of all of them.
    pub(super) const CODES: [&str; 6] = [
        "far_end_away",
        "far_end_changed",
        "far_end_failed",
        "nothing_to_compare",
        "far_end_of_others",
        "far_end_remark",
    ];

    /// Returns the stable code of the notice.
    pub(super) fn code(&self) -> &'static str {
        let [away, changed, lost, alone, others, remark] = FarEndNotice::CODES;
        match self {
            FarEndNotice::Away { .. } => away,
            FarEndNotice::Changed { .. } => changed,
            FarEndNotice::Lost { .. } => lost,
            FarEndNotice::Alone { .. } => alone,
            FarEndNotice::Others(_) => others,
            FarEndNotice::Remark(_) => remark,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            FarEndNotice::Away { host, times, lasted, since, why, blocks } => {
                let place = place(blocks);
                match times {
                    1 => format!("{host} was away for {lasted} from {since} on,{place} ({why})"),
                    _ => format!(
                        "{host} was away {times} times, for {lasted} in all,{place}, first at {since}; the first: {why}"
                    ),
                }
            }
            FarEndNotice::Changed { host, what } => {
                format!("{host} is not as it was when the race began: {what}")
            }
            FarEndNotice::Lost { error } => format!("the far end did not come back: {error}"),
            FarEndNotice::Alone { label } => {
                format!("only {label} is left, so nothing is compared, and the race ended")
            }
            FarEndNotice::Others(facts) => {
                let counts = facts.counts.as_deref().unwrap_or("nothing");
                format!(
                    "the far end is {}, and counts {counts}; not known from it: {}",
                    facts.label,
                    facts.unknown.join("; ")
                )
            }
            FarEndNotice::Remark(remark) => remark.message.clone(),
        }
    }

    pub(super) fn advice(&self) -> &'static str {
        match self {
            FarEndNotice::Away { .. } => {
                "trials that were over before count, and the lost ones ran anew; look at the line, or at the server's log, if it \
                 happens again"
            }
            FarEndNotice::Changed { .. } => {
                "blocks before and after are of two far ends; run the race anew if that matters"
            }
            FarEndNotice::Remark(remark) => remark.advice,
            FarEndNotice::Others(_) => "`deadheat serve` at the far host reports all of this",
            FarEndNotice::Alone { .. } => {
                "race it alone for its figures, or with others that get through"
            }
            FarEndNotice::Lost { .. } => {
                "start `deadheat serve` there again, or mend the line; then `deadheat race --resume FILE` goes on"
            }
        }
    }
}

/// Returns the blocks of absences in words, as people count them.
fn place(blocks: &[u64]) -> String {
    let mut blocks: Vec<String> = blocks.iter().map(|block| (block + 1).to_string()).collect();
    blocks.dedup();
    match &blocks[..] {
        [] => " in no block".to_owned(),
        [one] => format!(" in block {one}"),
        many => format!(" in blocks {}", many.join(", ")),
    }
}

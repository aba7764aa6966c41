//! Notices about a far end that was away, was another one afterwards, or did not come back.

use crate::result::outcome::Outcome;
use crate::time::Nanos;
use crate::transport::far_end::{self, FarEndFacts, FarEndRemark, SeenTrial};

/// Notice about the far end of a race.
#[derive(Debug, Clone, PartialEq)]
pub enum FarEndNotice {
    /// The far end did not answer for a while; the race waited, and went on.
    Away {
        /// Name of the far end as typed.
        host: String,
        /// Number of absences.
        times: usize,
        /// Time of the waits, in all.
        waited: Nanos,
        /// Time of the first loss.
        since: String,
        /// Evidence of the first loss.
        why: String,
        /// Blocks that were lost and ran anew, from 0.
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
    let remarks = far_end::find(&facts.id).map_or_else(|_| Vec::new(), |end| end.remarks(&seen));
    all.extend(remarks.into_iter().map(FarEndNotice::Remark));
    all
}

impl FarEndNotice {
    /// Codes of all of them.
    pub(super) const CODES: [&str; 5] = [
        "far_end_away",
        "far_end_changed",
        "far_end_failed",
        "far_end_of_others",
        "far_end_remark",
    ];

    /// Returns the stable code of the notice.
    pub(super) fn code(&self) -> &'static str {
        let [away, changed, lost, others, remark] = FarEndNotice::CODES;
        match self {
            FarEndNotice::Away { .. } => away,
            FarEndNotice::Changed { .. } => changed,
            FarEndNotice::Lost { .. } => lost,
            FarEndNotice::Others(_) => others,
            FarEndNotice::Remark(_) => remark,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            FarEndNotice::Away { host, times, waited, since, why, blocks } => {
                let anew = anew(blocks);
                match times {
                    1 => {
                        format!("{host} was lost at {since} and back after {waited}{anew} ({why})")
                    }
                    _ => format!(
                        "{host} was lost {times} times, for {waited} in all, first at {since}{anew}; the first: {why}"
                    ),
                }
            }
            FarEndNotice::Changed { host, what } => {
                format!("{host} is not as it was when the race began: {what}")
            }
            FarEndNotice::Lost { error } => format!("the far end did not come back: {error}"),
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
                "nothing of the lost blocks counts; look at the line, or at the server's log, if it happens again"
            }
            FarEndNotice::Changed { .. } => {
                "blocks before and after are of two far ends; run the race anew if that matters"
            }
            FarEndNotice::Remark(remark) => remark.advice,
            FarEndNotice::Others(_) => "`deadheat serve` at the far host reports all of this",
            FarEndNotice::Lost { .. } => {
                "start `deadheat serve` there again, or mend the line; then `deadheat race --resume FILE` goes on"
            }
        }
    }
}

/// Returns the lost blocks in words, as people count them.
fn anew(blocks: &[u64]) -> String {
    let mut blocks: Vec<String> = blocks.iter().map(|block| (block + 1).to_string()).collect();
    blocks.dedup();
    match &blocks[..] {
        [] => String::new(),
        [one] => format!("; block {one} was lost and ran anew"),
        many => format!("; blocks {} were lost and ran anew", many.join(", ")),
    }
}

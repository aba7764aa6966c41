//! Contenders limited by their own library: it admits less data to the path than the path can carry.

use std::fmt;

use crate::analysis::spread::valid_trials;
use crate::outcome::{Entrant, Outcome};
use deadheat_base::figures::percent;
use deadheat_contract::measurements::series::Series;

/// Minimum share of the busy time for the library to count as the limit.
const MOST: f64 = 0.5;

/// Contender that its library limited for most of the time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LibraryLimit {
    /// The contender's label.
    label: String,
    /// Share of the time with data to send.
    share: f64,
    /// Window in force, if the library reports one.
    window: Option<String>,
}

impl fmt::Display for LibraryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.window.as_ref().map(|window| format!(" ({window})")).unwrap_or_default();
        write!(
            f,
            "{} was held back by its own library for {} of the time that it had something to send: the library admits no \
             more{most} to the path, which had room",
            self.label,
            percent(self.share)
        )
    }
}

pub(super) const LIBRARY_ADVICE: &str = "raise its window where it has a knob for it; otherwise the figures are of this \
                                         library, and say nothing of the path";

/// Returns a notice for each contender that its library limited for most of the time.
pub(crate) fn notices(outcome: &Outcome) -> Vec<LibraryLimit> {
    outcome.contenders.iter().filter_map(|entrant| notice(outcome, entrant)).collect()
}

fn notice(outcome: &Outcome, entrant: &Entrant) -> Option<LibraryLimit> {
    let flows = valid_trials(outcome, entrant.id)
        .flat_map(|trial| trial.record.intervals.iter().chain(&trial.record.far_intervals));
    let times: Vec<[u64; 2]> = flows.filter_map(times).collect();
    let sum = |at: usize| times.iter().map(|times| times[at] as f64).sum::<f64>();
    let share = sum(0) / sum(1);
    (share > MOST).then(|| LibraryLimit {
        label: entrant.label.clone(),
        share: share.min(1.0),
        window: entrant.effective.get("window").cloned(),
    })
}

/// Returns the time in which the library limited a flow, and the time in which the flow had data to send.
fn times(flow: &Series) -> Option<[u64; 2]> {
    let tcp = flow.tcp.as_ref()?;
    let last = |column: &[Option<u64>]| column.last().copied().flatten();
    Some([last(&tcp.library_limited_ns)?, last(&tcp.busy_ns)?])
}

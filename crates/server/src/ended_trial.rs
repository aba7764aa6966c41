//! Words of the log about a trial that has ended.

use super::grants::Grant;
use super::paid::Ways;
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_trial::control::GrantPlace;

/// Trial that has ended, for the log.
pub(super) struct EndedTrial<'a> {
    pub(super) title: &'a str,
    pub(super) took: Nanos,
    /// Bytes of all its far ends, in the line of the last.
    pub(super) carried: Option<Ways>,
    /// Number of its connections that were dropped.
    pub(super) dropped: u64,
}

impl EndedTrial<'_> {
    /// Returns the line: how it ended, and why.
    pub(super) fn line(&self, how: &str, why: &str) -> String {
        let EndedTrial { title, took, carried, dropped } = self;
        let dropped = match dropped {
            0 => String::new(),
            some => format!(", hellos dropped: {some}"),
        };
        let colon = if why.is_empty() { "" } else { ": " };
        let bytes = carried.map(|ways| ways.map(Bytes));
        let bytes = bytes.map(|[sent, received]| format!("; {sent} sent, {received} received"));
        // The reason is last: it may be long, and be truncated.
        let bytes = bytes.unwrap_or_default();
        format!("{title} {how} {took}{bytes}{dropped}{colon}{why}")
    }
}

/// Returns the title of a far end with the number of its trial, and its own if there are several.
pub(super) fn numbered(title: &str, grant: &Grant, place: Option<GrantPlace>) -> String {
    let number = grant.number;
    match place {
        Some(place) if grant.nodes() > 1 => {
            let (node, nodes) = (place.node + 1, grant.nodes());
            format!("trial {number}, far end {node} of {nodes}, {title}")
        }
        _ => format!("trial {number} {title}"),
    }
}

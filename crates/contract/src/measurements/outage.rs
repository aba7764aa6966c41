//! Outages: stretches of a trial without an arrival, though messages were on their way.
//!
//! RFC 3357 calls a run of lost packets a loss period. With a transport that repeats messages, no message is lost in
//! it, so this module counts the time without an arrival.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;
use serde_with::skip_serializing_none;

/// Shortest time without an arrival that is an outage.
pub const SHORTEST_OUTAGE: Nanos = Nanos::from_millis(500);

/// Minimum number of messages sent during an outage: fewer are single losses.
pub const FEWEST_IN_OUTAGE: u64 = 3;

/// Maximum number of outages stored per trial, the longest of them.
pub const MOST_OUTAGES: usize = 16;

/// Outage: a stretch of a trial without an arrival.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outage {
    /// Start, in nanoseconds after the trial's start: the send time of the first message that had to wait.
    pub from_ns: u64,
    /// Length, in nanoseconds: until the next arrival, less the time on the path without an outage; or until the flow's
    /// end.
    pub length_ns: u64,
    /// Number of messages sent during it, as far as this end knows.
    pub messages: u64,
    /// True if an arrival ended it: the connection carried messages again. False if the flow ended first. Absent in
    /// results from before it was recorded.
    pub ended: Option<bool>,
}

impl Outage {
    /// Returns its end, in nanoseconds after the trial's start.
    pub fn end_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.length_ns)
    }

    /// Merges the outages of all flows and ends of a trial, in order of time; overlapping outages become one.
    pub fn joined(mut all: Vec<Outage>) -> Vec<Outage> {
        all.sort_unstable_by_key(|outage| outage.from_ns);
        let mut joined: Vec<Outage> = Vec::new();
        for outage in all {
            match joined.last_mut().filter(|last| outage.from_ns <= last.end_ns()) {
                Some(last) => {
                    last.length_ns = last.end_ns().max(outage.end_ns()) - last.from_ns;
                    last.messages = last.messages.max(outage.messages);
                    // An outage without an end lasts to the end of the flow.
                    last.ended = last.ended.zip(outage.ended).map(|(one, other)| one && other);
                }
                None => joined.push(outage),
            }
        }
        joined.sort_by_key(|outage| std::cmp::Reverse(outage.length_ns));
        joined.truncate(MOST_OUTAGES);
        joined.sort_by_key(|outage| outage.from_ns);
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(from_ns: u64, length_ns: u64) -> Outage {
        Outage { from_ns, length_ns, messages: from_ns, ended: Some(true) }
    }

    #[test]
    fn outages_of_two_ends_at_one_time_are_one() {
        let joined = Outage::joined(vec![outage(50, 10), outage(10, 20), outage(25, 15)]);
        assert_eq!(joined, [Outage { messages: 25, ..outage(10, 30) }, outage(50, 10)]);
    }

    #[test]
    fn an_outage_has_ended_once_both_ends_had_an_arrival() {
        let of = |ended| Outage { ended, ..outage(10, 20) };
        for (one, other, both) in [
            (Some(true), Some(true), Some(true)),
            (Some(true), Some(false), Some(false)),
            (Some(false), Some(false), Some(false)),
            (Some(true), None, None),
        ] {
            assert_eq!(Outage::joined(vec![of(one), of(other)])[0].ended, both);
        }
    }

    #[test]
    fn numbers_of_a_stranger_overflow_nothing_and_the_longest_are_kept() {
        let joined = Outage::joined(vec![outage(u64::MAX, u64::MAX), outage(3, u64::MAX)]);
        assert_eq!(joined.len(), 1);
        let many: Vec<Outage> = (0..100).map(|at| outage(1_000 * at, 1 + at)).collect();
        let kept = Outage::joined(many);
        assert_eq!((kept.len(), kept[0].from_ns), (MOST_OUTAGES, 84_000));
    }
}

//! Waiting of messages for earlier ones, as the receiver observes it.
//!
//! A message that arrived together with an earlier one, or before it, is assumed to have reached the receiver's host in
//! the shortest time that any message took, and to have waited since. The wait for its own stream is part of the order
//! that the application wants. The rest is a wait for other streams: at the receiver, until missing data has arrived,
//! or at the sender, in a queue.

use deadheat_base::time::Nanos;

/// Threshold below which the wait is the receiver's own: it takes messages one after the other.
pub(crate) const LEAST_HELD: Nanos = Nanos::from_micros(50);

/// A message that arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrivalTimes {
    /// The stream to which it belongs, from 0.
    pub(crate) stream: usize,
    pub(crate) due: Nanos,
    pub(crate) came: Nanos,
}

/// Waiting for other messages, in nanoseconds, summed up over messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) by_own: u64,
    pub(crate) by_others: u64,
    /// Messages that other streams held back.
    pub(crate) messages: u64,
}

/// Returns the time that the messages of each of `streams` streams waited for those before them, if the
/// path takes `least`. `arrivals` are in the order in which they were sent.
pub(crate) fn waits(
    arrivals: impl Iterator<Item = ArrivalTimes>,
    streams: usize,
    least: Nanos,
) -> Vec<Waits> {
    let mut held = vec![Waits::default(); streams.max(1)];
    // The latest arrival so far, and for each stream the latest arrival without the other streams.
    let mut latest = Nanos::ZERO;
    let mut alone = vec![Nanos::ZERO; streams.max(1)];
    for ArrivalTimes { stream, due, came } in arrivals {
        let (Some(held), Some(before)) = (held.get_mut(stream), alone.get_mut(stream)) else {
            continue;
        };
        // A message that arrived together with an earlier one waited for it; a later message was late itself.
        let is_held = came <= latest + LEAST_HELD;
        let itself = if is_held { (due + least).min(came) } else { came };
        let without_others = itself.max(*before).min(came);
        held.by_own += (without_others - itself).0;
        held.by_others += (came - without_others).0;
        held.messages += u64::from(came - without_others >= LEAST_HELD);
        *before = (*before).max(without_others);
        latest = latest.max(came);
    }
    held
}

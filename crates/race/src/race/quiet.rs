//! The host between blocks: waits for it to settle, and stores the results of its probe.

use crate::race::context::{RaceContext, RaceEvent};
use deadheat_records::quiet::HostQuiet;
use deadheat_result::outcome::Outcome;
use deadheat_trial::OwnHost;

/// Waits until the host is calm, and takes the first probe point; `None` if the runner has no host.
pub(super) fn settle(context: &mut RaceContext<'_>) -> Option<HostQuiet> {
    let observer = &mut *context.observer;
    let host = context.runner.own_host()?;
    let settled = host.settle(&mut |why| observer.on(RaceEvent::Settling { why }))?;
    let mut quiet = HostQuiet::default();
    quiet.settled(settled);
    host.probe().into_iter().for_each(|point| quiet.add(point));
    Some(quiet)
}

/// Takes the first probe point at once; `None` if the runner has no host.
pub(super) fn begin(context: &mut RaceContext<'_>) -> Option<HostQuiet> {
    let mut quiet = HostQuiet::default();
    quiet.add(context.runner.own_host()?.probe()?);
    Some(quiet)
}

/// Waits for the host again, before a race is resumed.
pub(super) fn settle_again(context: &mut RaceContext<'_>, outcome: &mut Outcome) {
    let Some(now) = settle(context) else { return };
    let before = outcome.probe.get_or_insert_default();
    before.waited_ns = before.waited_ns.saturating_add(now.waited_ns);
    before.disturbed = now.disturbed;
    now.points.into_iter().for_each(|point| before.add(point));
}

/// Takes a probe point between two blocks.
pub(super) fn probe(context: &mut RaceContext<'_>, outcome: &mut Outcome) {
    if let Some(point) = context.runner.own_host().and_then(OwnHost::probe) {
        outcome.probe.get_or_insert_default().add(point);
    }
}

/// Judges the host by all probe points.
pub(super) fn conclude(outcome: &mut Outcome) {
    if let Some(quiet) = &mut outcome.probe {
        quiet.conclude();
    }
}

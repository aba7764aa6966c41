//! Silence of a far end that was lost, as the near node saw it.

use super::{NodeId, Nodes};
use crate::control::{FromAgent, ToAgent};
use crate::lead::link::LinkMessage;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;

/// Longest time that the near node may take to report once the far end is lost.
const LAST_REPORT: Nanos = Nanos::from_secs(2);

impl Nodes {
    /// Returns the time since which nothing came from the far end, which was lost, as far as the near node knows; `None`
    /// if that does not report in time.
    pub(in crate::lead) fn silent_since(&mut self) -> Option<Nanos> {
        let near = NodeId { side: Side::Near, number: 0 };
        if self.node(near).report.is_none() {
            self.node(near).link.send(&ToAgent::Stop).ok()?;
        }
        let deadline = Monotonic.now() + LAST_REPORT;
        while self.node(near).report.is_none() {
            let left = deadline - Monotonic.now();
            if left == Nanos::ZERO || !self.node(near).link.has_message(left).ok()? {
                return None;
            }
            match self.node(near).link.receive().ok()? {
                LinkMessage::Agent(FromAgent::Done(report)) => self.note_report(near, *report),
                LinkMessage::Agent(FromAgent::Fault(_)) | LinkMessage::Server(_) => return None,
                LinkMessage::Agent(_) => {}
            }
        }
        let (began, near) = (self.began, self.node(near));
        let report = near.report.as_ref()?;
        let outages = report.halves.iter().flat_map(|half| &half.outages);
        let last = outages.max_by_key(|outage| outage.end_ns());
        // Without an outage its flows were over before the far end was lost.
        Some(last.map_or(near.reported, |outage| began + Nanos(outage.from_ns)))
    }
}

//! Counts of the data that nodes have sent, passed on to the nodes at the other ends of their flows.

use std::collections::BTreeMap;

use super::{NodeId, Nodes};
use crate::control::ToAgent;
use crate::lead::credible::check_tallies;
use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Tally;

impl Nodes {
    /// Notes that a node has sent all it will, and reports that to each node on the other side once all other ends of its
    /// flows have.
    pub(super) fn pass_on(&mut self, from: NodeId, sent: Vec<Tally>) -> Result<()> {
        let node = self.node(from);
        if from.side == Side::Far {
            check_tallies(&sent).map_err(|what| Error::peer(node.link.who(), what))?;
        }
        node.sent = Some(sent);
        let by_flow = self.sent_by_flow(from.side);
        let others = match from.side {
            Side::Near => &mut self.far,
            Side::Far => &mut self.near,
        };
        for node in others.iter_mut().filter(|node| !node.knows_sent) {
            let own = node.flows.iter().map(|flow| by_flow.get(flow).copied());
            if let Some(sent) = own.collect() {
                node.send_unless_reported(&ToAgent::PeerFinished { sent })?;
                node.knows_sent = true;
            }
        }
        Ok(())
    }

    /// Returns what the nodes of a side have sent, by flow, as far as they have sent all.
    fn sent_by_flow(&self, side: Side) -> BTreeMap<u16, Tally> {
        let copies = if side == Side::Near { self.served_at_once } else { 1 };
        let known = self.of(side).iter().filter_map(|node| Some((node, node.sent.as_ref()?)));
        let each = known.flat_map(|(node, sent)| {
            let tally = |place: usize| sent.get(place).copied().unwrap_or_default();
            node.flows.iter().enumerate().map(move |(place, flow)| (*flow, tally(place)))
        });
        each.flat_map(|(flow, sent)| (0..copies).map(move |copy| (flow + copy, sent))).collect()
    }
}

//! Near nodes of a trial, which dial the far ones once these listen.

use std::sync::Arc;

use super::Agents;
use super::opening::{ListeningNodes, await_ready};
use crate::control::{RelayPlan, ToAgent};
use crate::lead::carriers::Carriers;
use crate::lead::cast::Group;
use crate::lead::link::Link;
use crate::lead::nodes::Nodes;
use deadheat_base::error::Result;
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::Address;

impl Agents {
    /// Starts the near nodes of a group, and the TURN clients beside them, and waits until all its nodes are connected.
    pub(super) fn dial(&mut self, group: &Group, mut listening: ListeningNodes) -> Result<Nodes> {
        for (plan, at) in listening.turn_clients.into_iter().zip(&mut listening.at) {
            let mut client = self.agent("TURN client", group.hosts.near)?;
            let plan = ToAgent::Relay(RelayPlan::Turn(plan));
            *at = await_ready(&mut client, &plan, &self.stop, &mut self.turn)?;
            listening.relays.push(client);
        }
        let near = match (&group.contender.commands, listening.at.first()) {
            (Some(_), Some(at)) => vec![self.command(group, Side::Near, at)?],
            _ => self.dialling(group, &listening.at)?,
        };
        let with_flows = |side: Side, links: Vec<Link>| {
            let flows = (0..).map(|node| group.flows(side, node));
            links.into_iter().zip(flows).collect()
        };
        let (near, far) = (with_flows(Side::Near, near), with_flows(Side::Far, listening.far));
        let mut nodes = Nodes::new(near, far, listening.relays, Arc::clone(&self.stop));
        nodes.served_at_once = group.served_at_once();
        nodes.carriers = Carriers(listening.carriers);
        nodes.stands_in = self.far.others().is_some();
        nodes.await_connected(group.longest_to_connect())?;
        Ok(nodes)
    }

    /// Starts the near nodes of a group, which dial these endpoints.
    fn dialling(&self, group: &Group, far: &[Address]) -> Result<Vec<Link>> {
        let start = |node| {
            let who = match group.near_nodes() {
                1 => "near agent".to_owned(),
                _ => format!("near agent {node}"),
            };
            let mut near = self.agent(&who, group.host(Side::Near, node))?;
            near.send(&ToAgent::Open(Box::new(group.near(node, far.to_vec()))))?;
            Ok(near)
        };
        (0..group.near_nodes()).map(start).collect()
    }
}

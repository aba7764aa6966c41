//! Work among several people: the nodes that it runs at, and the flows between them.
//!
//! ```text
//! among themselves     person 1 ──► person 2, 1 ──► 3, 2 ──► 3     the person with the lower number dials
//! over a server        person 1 ──► server ◄── person 2 ...        the server hands each message on to the others
//! ```

use crate::contract::Side;

/// Host of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeHost {
    /// Host of the person with this number, from 0.
    Person(u16),
    /// Far host, where the server is.
    Server,
}

/// Nodes of a work among people, and its flows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct People {
    /// Hosts of the nodes that dial, by their numbers.
    pub near: Vec<NodeHost>,
    /// Hosts of the nodes that listen, by their numbers.
    pub far: Vec<NodeHost>,
    /// Numbers of the near and the far node of each flow.
    pub flows: Vec<[u16; 2]>,
    /// Bytes of each queue of a flow at the server, by class; empty without a server.
    pub queues: Vec<usize>,
}

impl People {
    /// Returns the hosts of the nodes of one side, by their numbers.
    pub fn hosts(&self, side: Side) -> &[NodeHost] {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// Returns the host of the node with this number on one side.
    pub fn host(&self, side: Side, node: u16) -> Option<NodeHost> {
        self.hosts(side).get(usize::from(node)).copied()
    }

    /// Returns the number of people.
    pub fn count(&self) -> usize {
        let person = |host: &NodeHost| match host {
            NodeHost::Person(person) => usize::from(*person) + 1,
            NodeHost::Server => 0,
        };
        self.near.iter().chain(&self.far).map(person).max().unwrap_or_default()
    }

    /// Returns the number of a flow's node on one side; `None` if there is no such flow.
    pub fn node(&self, side: Side, flow: u16) -> Option<u16> {
        self.flows.get(usize::from(flow)).map(|nodes| nodes[side as usize])
    }

    /// Returns the flows of the node with this number on one side, in order.
    pub fn flows_of(&self, side: Side, node: u16) -> Vec<u16> {
        let own = (0..).zip(&self.flows).filter(|(_, nodes)| nodes[side as usize] == node);
        own.map(|(flow, _)| flow).collect()
    }

    /// Returns true if the endpoints of this node hand on to each other what they receive.
    pub fn hands_on(&self, side: Side, node: u16) -> bool {
        self.host(side, node) == Some(NodeHost::Server)
    }
}

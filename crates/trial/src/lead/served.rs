//! Nodes of one trial at servers, far ends and the relays in front of them: the control connection of each, its place in
//! the grant that the nodes at one server share, and the order in which they are opened.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::control::remote::{RemoteServer, ServerWait};
use crate::control::{GrantPlace, GrantTask};
use deadheat_base::error::{Error, Result};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::via::Via;

use super::cast::{Cast, Group};
use super::far::Far;
use super::link::Link;

/// Nodes of a trial at its servers that have a place already, and those to come.
pub(super) struct ServedCast {
    /// Places at the servers of far ends, in their order.
    servers: Vec<ServerPlaces>,
    /// Places at the servers of relays, by their hosts.
    relays: Vec<(String, ServerPlaces)>,
    /// True if the servers have to know that far ends belong together or that one is a load, or to start a relay.
    needs_grants: bool,
}

/// Nodes of a trial at one server.
#[derive(Debug, Clone, Copy)]
struct ServerPlaces {
    token: Token,
    /// Number of the trial's nodes there.
    nodes: u16,
    /// Number of the next one.
    next: u16,
}

impl ServerPlaces {
    fn fresh() -> Result<ServerPlaces> {
        Ok(ServerPlaces { token: Token::fresh()?, nodes: 0, next: 0 })
    }

    /// Takes the next place at `server`, for a node of `group`.
    fn take(
        &mut self,
        group: &Group,
        server: &mut RemoteServer,
        stop: &Arc<AtomicBool>,
    ) -> Result<ServedNode> {
        let ServerPlaces { token, nodes, next: node } = *self;
        self.next += 1;
        let mut waiting = ServerWait { stop, on_full: &mut |_| {} };
        let control = server.connection(node, &mut waiting)?;
        let who = match nodes {
            1 => format!("server {}", server.address),
            _ => format!("server {}, far end {}", server.address, node + 1),
        };
        let task = if group.is_load { GrantTask::Load } else { GrantTask::Work };
        let place = GrantPlace { token, nodes, node, task };
        Ok(ServedNode { link: Link::to_server(&who, &control, Arc::clone(stop)), place })
    }

    /// Opens all control connections to `server` that the trial needs.
    fn connect(&self, server: &mut RemoteServer, waiting: &mut ServerWait<'_>) -> Result<()> {
        (0..self.nodes).try_for_each(|node| server.connection(node, waiting).map(drop))
    }
}

/// Node at a server, before it is opened.
pub(super) struct ServedNode {
    pub(super) link: Link,
    /// Place in the grant.
    pub(super) place: GrantPlace,
}

/// Far node, or the relay in front of it, in the order in which they are opened: by the addresses of their servers, so
/// that two races to the same servers never wait for each other's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpeningStep {
    /// Address of its server; `None` without a server.
    at: Option<SocketAddr>,
    /// Position of its group.
    pub(super) group: usize,
    /// Number of the far node in its group.
    pub(super) node: u16,
    pub(super) role: NodeRole,
}

/// Role of a node that is opened before the near one dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeRole {
    /// Far end.
    FarEnd,
    /// Relay at a third host.
    Relay,
}

impl OpeningStep {
    /// Returns the steps for all far nodes of these groups, and for their relays at third hosts, in order.
    pub(super) fn all(groups: &[&Group], far: &Far) -> Vec<OpeningStep> {
        let of = |(group, one): (usize, &&Group)| {
            let relay = one.relay_host().map(|host| far.relay(host).map(|relay| relay.address));
            let step = move |node, at, role| OpeningStep { at, group, node, role };
            let both = move |node| {
                let relay = relay.map(|at| step(node, at, NodeRole::Relay));
                [Some(step(node, one.server_of(node, far), NodeRole::FarEnd)), relay]
            };
            (0..one.far_nodes).flat_map(both).flatten().collect::<Vec<_>>()
        };
        let mut steps: Vec<OpeningStep> = groups.iter().enumerate().flat_map(of).collect();
        steps.sort();
        steps
    }
}

impl ServedCast {
    /// Creates the places for the far ends of all groups, and for their relays.
    ///
    /// # Errors
    /// [`Error::Setup`] without a source of randomness.
    pub(super) fn of(cast: &Cast, far: &Far) -> Result<ServedCast> {
        let count = far.hosts().len();
        let places = (0..count).map(|_| ServerPlaces::fresh());
        let mut servers = places.collect::<Result<Vec<_>>>()?;
        let mut relays: Vec<(String, ServerPlaces)> = Vec::new();
        for group in [&cast.work].into_iter().chain(&cast.loads) {
            let hosts = (0..group.far_nodes).filter_map(|node| group.host_of(node, count));
            hosts.for_each(|host| servers[host].nodes += 1);
            let Some(host) = group.relay_host() else { continue };
            match relays.iter_mut().find(|(known, _)| known == host) {
                Some((_, places)) => places.nodes += group.far_nodes,
                None => {
                    let places = ServerPlaces { nodes: group.far_nodes, ..ServerPlaces::fresh()? };
                    relays.push((host.to_owned(), places));
                }
            }
        }
        let is_relayed = cast.work.contender.via == Via::Relay;
        let needs_grants = cast.work.far_nodes > 1 || !cast.loads.is_empty() || is_relayed;
        Ok(ServedCast { servers, relays, needs_grants })
    }

    /// Opens all control connections that the trial needs, so that no node waits for one later.
    ///
    /// # Errors
    /// As of [`RemoteServer::connection`], `check_cast` and `check_relays`.
    pub(super) fn connect(&self, far: &mut Far, waiting: &mut ServerWait<'_>) -> Result<()> {
        for (at, places) in self.servers.iter().enumerate() {
            let Some(server) = far.server_at(at).filter(|_| places.nodes > 0) else { continue };
            if self.needs_grants {
                server.check_cast()?;
            }
            if !self.relays.is_empty() {
                server.check_relays()?;
            }
            places.connect(server, waiting)?;
        }
        for (host, places) in &self.relays {
            let Some(server) = far.relay_mut(host) else { continue };
            server.check_relays()?;
            places.connect(server, waiting)?;
        }
        Ok(())
    }

    /// Returns the next far end at the server of a group's far node, and its place if the server has to know it.
    ///
    /// # Errors
    /// As of [`ServedCast::connect`].
    pub(super) fn next(
        &mut self,
        group: &Group,
        number: u16,
        far: &mut Far,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Link, Option<GrantPlace>)> {
        let at = group.host_of(number, self.servers.len()).unwrap_or_default();
        let (Some(server), Some(places)) = (far.server_at(at), self.servers.get_mut(at)) else {
            return Err(Error::usage("a far end without a server"));
        };
        let ServedNode { link, place } = places.take(group, server, stop)?;
        Ok((link, self.needs_grants.then_some(place)))
    }

    /// Returns the next relay at the third host that a group goes through, with the address where near ends dial it.
    ///
    /// # Errors
    /// As of [`ServedCast::connect`].
    pub(super) fn next_relay(
        &mut self,
        group: &Group,
        far: &mut Far,
        stop: &Arc<AtomicBool>,
    ) -> Result<(ServedNode, SocketAddr)> {
        let host = group.relay_host().unwrap_or_default();
        let places = self.relays.iter_mut().find(|(known, _)| known == host);
        let (Some(server), Some((_, places))) = (far.relay_mut(host), places) else {
            return Err(Error::usage("a relay without a server"));
        };
        let node = places.take(group, server, stop)?;
        Ok((node, server.address))
    }
}

//! Far ends of one trial at servers: the control connection of each, and its place in the grant that the far ends at
//! one server share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::transport::hello::Token;
use crate::transport::via::Via;
use crate::trial::control::remote::ServerWait;
use crate::trial::control::{GrantPlace, GrantTask};

use super::cast::{Cast, Group};
use super::far::Far;
use super::link::Link;

/// Far ends of a trial at its servers that have a place already, and those to come.
pub(super) struct ServedCast {
    servers: Vec<ServerPlaces>,
    /// True if the servers have to know that far ends belong together or that one is a load, or to start a relay.
    needs_grants: bool,
}

/// Far ends of a trial at one server.
#[derive(Debug, Clone, Copy)]
struct ServerPlaces {
    token: Token,
    /// Number of the trial's far ends there.
    nodes: u16,
    /// Number of the next one.
    next: u16,
}

/// Far end at a server, before it is opened.
pub(super) struct ServedNode {
    pub(super) link: Link,
    /// Place in the grant; `None` if it is the only far end of the trial and has its work.
    pub(super) place: Option<GrantPlace>,
}

impl ServedCast {
    /// Creates the places for the far ends of all groups.
    ///
    /// # Errors
    /// [`Error::Setup`] without a source of randomness.
    pub(super) fn of(cast: &Cast, far: &Far) -> Result<ServedCast> {
        let count = far.servers().len();
        let empty = || Ok(ServerPlaces { token: Token::fresh()?, nodes: 0, next: 0 });
        let mut servers = (0..count).map(|_| empty()).collect::<Result<Vec<_>>>()?;
        for group in [&cast.work].into_iter().chain(&cast.loads) {
            (0..group.far_nodes).for_each(|node| servers[usize::from(node) % count].nodes += 1);
        }
        let is_relayed = cast.work.contender.via == Via::Relay;
        let needs_grants = cast.work.far_nodes > 1 || !cast.loads.is_empty() || is_relayed;
        Ok(ServedCast { servers, needs_grants })
    }

    /// Opens all control connections that the trial needs, so that no far end waits for one later.
    ///
    /// # Errors
    /// As of [`RemoteServer::connection`](crate::trial::control::remote::RemoteServer::connection) and `check_cast`.
    pub(super) fn connect(&self, far: &mut Far, waiting: &mut ServerWait<'_>) -> Result<()> {
        for (at, places) in (0..).zip(&self.servers) {
            let Some(server) = far.server_of(at) else { continue };
            if self.needs_grants {
                server.check_cast()?;
            }
            (0..places.nodes).try_for_each(|node| server.connection(node, waiting).map(drop))?;
        }
        Ok(())
    }

    /// Returns the next far end at the server of a group's far node.
    ///
    /// # Errors
    /// As of [`ServedCast::connect`].
    pub(super) fn next(
        &mut self,
        group: &Group,
        number: u16,
        far: &mut Far,
        stop: &Arc<AtomicBool>,
    ) -> Result<ServedNode> {
        let at = usize::from(number) % self.servers.len();
        let (Some(server), Some(places)) = (far.server_of(number), self.servers.get_mut(at)) else {
            return Err(Error::usage("a far end without a server"));
        };
        let ServerPlaces { token, nodes, next: node } = *places;
        places.next += 1;
        let mut waiting = ServerWait { stop, on_full: &mut |_| {} };
        let control = server.connection(node, &mut waiting)?;
        let who = match nodes {
            1 => format!("server {}", server.address),
            _ => format!("server {}, far end {}", server.address, node + 1),
        };
        let task = if group.is_load { GrantTask::Load } else { GrantTask::Work };
        let place = GrantPlace { token, nodes, node, task };
        let link = Link::to_server(&who, &control, Arc::clone(stop));
        Ok(ServedNode { link, place: self.needs_grants.then_some(place) })
    }
}

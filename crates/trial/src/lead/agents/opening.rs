//! Opening of a trial's nodes before the near ones dial: far ends here or at servers, and the relays in front of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::between::commands::NodePlan;
use crate::between::turn::TurnPlan;
use crate::control::patient::sleep;
use crate::control::{FromAgent, FromServer, ToAgent};
use crate::lead::carriers::CarrierLinks;
use crate::lead::cast::Group;
use crate::lead::link::{Link, LinkMessage};
use crate::lead::nodes::{SLACK, refusal};
use crate::lead::served::{NodeRole, OpeningStep, ServedCast, ServedNode};
use crate::lead::served_pair::reached_at;
use crate::process::{self, AgentProcess};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::external::Pair;

use super::turn::TurnWait;
use super::{Agents, Far};

/// Longest time that a server may queue a trial.
const QUEUE_TIMEOUT: Nanos = Nanos::from_secs(3600);

/// Longest time until Ctrl-C is noticed.
const LOOK: Nanos = Nanos::from_millis(100);

/// Pause before the next request to a server that had no room for a trial.
const RETRY: Nanos = Nanos::from_secs(1);

/// Far nodes of a group that listen, and the relays in front of them.
#[derive(Default)]
pub(super) struct ListeningNodes {
    pub(super) far: Vec<Link>,
    pub(super) relays: Vec<Link>,
    /// TURN clients to start beside the near node, one for each far node, or none.
    pub(super) turn_clients: Vec<TurnPlan>,
    /// Commands that carry the contender, if it is an external one, with the sides of their hosts.
    pub(super) carriers: CarrierLinks,
    /// Endpoints that the near node dials.
    pub(super) at: Vec<Address>,
}

/// Nodes of a group that have been opened, by the numbers of their far nodes, with the endpoints that are dialled.
#[derive(Default)]
struct OpenedNodes {
    far: Vec<(u16, (Link, Address))>,
    /// Relays at a third host.
    relays: Vec<(u16, (Link, Address))>,
    carriers: CarrierLinks,
}

impl Agents {
    /// Starts the far nodes of all groups and the relays in front of them, if any, and waits until they listen.
    pub(super) fn listen(
        &mut self,
        groups: &[&Group],
        mut served: Option<&mut ServedCast>,
    ) -> Result<Vec<ListeningNodes>> {
        let mut opened: Vec<OpenedNodes> = groups.iter().map(|_| OpenedNodes::default()).collect();
        for step in OpeningStep::all(groups, &self.far) {
            let (group, opened) = (groups[step.group], &mut opened[step.group]);
            let served = served.as_deref_mut();
            match step.role {
                NodeRole::FarEnd => {
                    let (far, carriers) = self.open_far(group, step.node, served)?;
                    opened.carriers.extend(carriers);
                    opened.far.push((step.node, far));
                }
                NodeRole::Relay => {
                    opened.relays.push((step.node, self.open_relay(group, step.node, served)?));
                }
            }
        }
        groups.iter().zip(opened).map(|(group, opened)| self.listening(group, opened)).collect()
    }

    /// Starts a far node of a group, and the commands that carry its contender, and waits until it listens; returns it
    /// with the endpoint that is to be dialled.
    fn open_far(
        &mut self,
        group: &Group,
        node: u16,
        served: Option<&mut ServedCast>,
    ) -> Result<((Link, Address), CarrierLinks)> {
        if group.contender.commands.is_some() {
            return Ok((self.open_command(group, node, served)?, Vec::new()));
        }
        let host = group.host(Side::Far, node);
        let (mut link, place) = match served {
            Some(served) => served.next(group, node, &mut self.far, &self.stop)?,
            None => {
                let who = match (&self.far, group.far_nodes) {
                    (Far::Others { typed, .. }, _) => typed.clone(),
                    (_, 1) => "far agent".to_owned(),
                    _ => format!("far agent {node}"),
                };
                (self.agent(&who, host)?, None)
            }
        };
        let plan = group.far(node, self.far.endpoint(&group.contender, host)?, place);
        let open = ToAgent::Open(Box::new(plan));
        let at = await_ready(&mut link, &open, &self.stop, &mut self.turn)?;
        // The port that control reached is used; behind a NAT the server knows another one.
        let at = group.server_of(node, &self.far).map_or(at, Address::Ip);
        let (Some(pair), Address::Ip(target)) = (&group.contender.external, &at) else {
            return Ok(((link, at), Vec::new()));
        };
        let (carriers, near) = self.carry(group, node, pair, *target)?;
        Ok(((link, near.map_or(at, Address::Ip)), carriers))
    }

    /// Starts the commands that carry a contender to a far node at `target`, and waits until they listen; returns them with
    /// the endpoint that is to be dialled.
    fn carry(
        &mut self,
        group: &Group,
        node: u16,
        pair: &Pair,
        target: SocketAddr,
    ) -> Result<(CarrierLinks, Option<SocketAddr>)> {
        let (mut carriers, mut last) = (Vec::new(), None);
        for side in [Side::Far, Side::Near] {
            let plan = NodePlan::carrier(pair, last, target).first(group.goes_first);
            let keeper = self.keeper(group.host(side, node))?;
            let mut link = Link::to_command("external", keeper, &plan)?;
            let at = await_listening(&mut link, &self.stop, &mut self.turn, None)?;
            last = if let Address::Ip(at) = at { Some(at) } else { None };
            // The near one is ended first, so that it does not lose its peer before.
            carriers.insert(0, (side, link));
        }
        Ok((carriers, last))
    }

    /// Starts the server command of a group, here or at a server, and waits until it is ready; returns its keeper with the
    /// address at which it listens.
    fn open_command(
        &mut self,
        group: &Group,
        node: u16,
        served: Option<&mut ServedCast>,
    ) -> Result<(Link, Address)> {
        let Some(served) = served else {
            let at = self.far.endpoint(&group.contender, group.host(Side::Far, node))?;
            let mut link = self.command(group, Side::Far, &at)?;
            let at = await_listening(&mut link, &self.stop, &mut self.turn, None)?;
            return Ok((link, at));
        };
        let (mut link, open) = self.pairs.open(group, served, &mut self.far, &self.stop)?;
        let listens = await_ready(&mut link, &open, &self.stop, &mut self.turn)?;
        Ok((link, reached_at(group.server_of(node, &self.far), listens)))
    }

    /// Starts an agent on this machine, at the host with this index where a network is emulated.
    pub(super) fn agent(&self, who: &str, host: usize) -> Result<Link> {
        match &self.far {
            Far::Emulated(path) => path.agent(who, host),
            _ => Link::to_process(who),
        }
    }

    /// Starts the keeper of a command of one side, for a server at `at`.
    pub(super) fn command(&self, group: &Group, side: Side, at: &Address) -> Result<Link> {
        let plan = group.command(side, at)?;
        let keeper = self.keeper(group.host(side, 0))?;
        let who = match side {
            Side::Near => "near command",
            Side::Far => "far command",
        };
        Link::to_command(who, keeper, &plan)
    }

    /// Starts a keeper of a command on this machine, at the host with this index where a network is emulated.
    fn keeper(&self, host: usize) -> Result<AgentProcess> {
        match &self.far {
            Far::Emulated(path) => path.keeper(host),
            _ => process::keeper(None),
        }
    }

    /// Starts the relay at a third host for a far node of a group, and waits until it listens; returns it with the
    /// endpoint that is to be dialled.
    fn open_relay(
        &mut self,
        group: &Group,
        node: u16,
        served: Option<&mut ServedCast>,
    ) -> Result<(Link, Address)> {
        let (Some(served), Some(to)) = (served, group.server_of(node, &self.far)) else {
            return Err(Error::usage("a relay without a server"));
        };
        let (ServedNode { mut link, place }, at) =
            served.next_relay(group, &mut self.far, &self.stop)?;
        let open = ToAgent::Open(Box::new(group.onward(node, to, place)));
        await_ready(&mut link, &open, &self.stop, &mut self.turn)?;
        Ok((link, Address::Ip(at)))
    }

    /// Connects a group's relays at a third host to its far nodes, or starts those at their hosts.
    fn listening(&mut self, group: &Group, opened: OpenedNodes) -> Result<ListeningNodes> {
        let OpenedNodes { mut far, mut relays, carriers } = opened;
        let mut all = ListeningNodes { carriers, ..ListeningNodes::default() };
        far.sort_by_key(|(node, _)| *node);
        relays.sort_by_key(|(node, _)| *node);
        for (node, (link, at)) in far {
            all.far.push(link);
            if relays.is_empty() {
                self.relay(group, node, at, &mut all)?;
            }
        }
        for (_, (mut link, at)) in relays {
            await_onward(&mut link)?;
            all.relays.push(link);
            all.at.push(self.far.dialled(group.host(Side::Near, 0), at));
        }
        if all.at.is_empty() {
            // The kernel answers there.
            let at = self.far.endpoint(&group.contender, group.host(Side::Far, 0))?;
            all.at.push(self.far.dialled(group.host(Side::Near, 0), at));
        }
        Ok(all)
    }

    /// Starts the relay in front of a far node, if the contender uses one, and notes the endpoint that the near node
    /// dials.
    fn relay(
        &mut self,
        group: &Group,
        node: u16,
        far: Address,
        all: &mut ListeningNodes,
    ) -> Result<()> {
        let mut at = far.clone();
        let mut started = None;
        let third = group.hosts.relay.zip(self.far.emulated());
        let own = third.map(|(host, path)| path.address(host)).transpose()?;
        if let Some(plan) = group.relay(&far, own)? {
            let host = group.hosts.relay.unwrap_or(group.host(Side::Far, node));
            let mut relay = self.agent("relay", host)?;
            let plan = ToAgent::Relay(plan);
            at = await_ready(&mut relay, &plan, &self.stop, &mut self.turn)?;
            started = if let Address::Ip(at) = at { Some(at) } else { None };
            all.relays.push(relay);
        }
        all.turn_clients.extend(group.carrier(&far, started)?);
        all.at.push(self.far.dialled(group.host(Side::Near, 0), at));
        Ok(())
    }
}

/// Sends `open` to an agent or a relay, and waits until it listens. A server without room is asked again.
pub(super) fn await_ready(
    link: &mut Link,
    open: &ToAgent,
    stop: &AtomicBool,
    turn: &mut TurnWait,
) -> Result<Address> {
    link.send(open)?;
    await_listening(link, stop, turn, Some(open))
}

/// Waits until an agent, a relay or a command listens. A server without room is asked again with `open`.
fn await_listening(
    link: &mut Link,
    stop: &AtomicBool,
    turn: &mut TurnWait,
    open: Option<&ToAgent>,
) -> Result<Address> {
    let give_up = Monotonic.now() + QUEUE_TIMEOUT;
    let mut left = SLACK;
    loop {
        if !await_message(link, left, stop)? {
            link.lose();
            return Err(link.broken("it did not get ready in time"));
        }
        match link.receive()? {
            LinkMessage::Agent(FromAgent::Ready { endpoint }) => {
                turn.end();
                return Ok(endpoint);
            }
            LinkMessage::Agent(FromAgent::Busy) if Monotonic.now() >= give_up => {
                let what = format!("it has served other clients for {QUEUE_TIMEOUT}");
                return Err(Error::peer(link.who(), what));
            }
            // It asks again by itself, and says each time that it did in vain.
            LinkMessage::Agent(FromAgent::Busy) => turn.note(u32::MAX),
            LinkMessage::Server(FromServer::Queued { ahead }) => {
                turn.note(ahead);
                left = QUEUE_TIMEOUT;
            }
            LinkMessage::Server(FromServer::Full(fault)) if Monotonic.now() >= give_up => {
                return Err(Error::peer(link.who(), fault.message));
            }
            LinkMessage::Server(FromServer::Full(_)) => {
                turn.note(u32::MAX);
                sleep(RETRY, stop).map_err(|_| Error::Interrupted)?;
                open.map_or(Ok(()), |open| link.send(open))?;
            }
            word => return Err(refusal(link, word)),
        }
    }
}

/// Returns true if a message arrives within `longest`.
fn await_message(link: &Link, longest: Nanos, stop: &AtomicBool) -> Result<bool> {
    let deadline = Monotonic.now() + longest;
    loop {
        let left = deadline - Monotonic.now();
        if link.has_message(left.min(LOOK))? {
            return Ok(true);
        }
        if stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        if left == Nanos::ZERO {
            return Ok(false);
        }
    }
}

/// Has a relay at a third host connect to the far end's server, which listens now, and waits until both know each other.
fn await_onward(link: &mut Link) -> Result<()> {
    link.send(&ToAgent::Onward)?;
    if !link.has_message(SLACK)? {
        link.lose();
        return Err(link.broken("it did not reach the far end's server in time"));
    }
    match link.receive()? {
        LinkMessage::Agent(FromAgent::Connected) => Ok(()),
        word => Err(refusal(link, word)),
    }
}

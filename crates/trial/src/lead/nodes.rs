//! Nodes of a group in a running trial: their messages are received, passed on to other nodes where needed, and turned
//! into reports or one error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_base::descriptor::ready;

use crate::control::{AgentReport, FromAgent, FromServer, ToAgent};
use deadheat_base::error::{Error, Fault, FaultKind, Result};
use deadheat_base::figures::list;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::Point;
use deadheat_contract::workload::Clocks;

use super::both_reports::BothReports;
use super::carriers::Carriers;
use super::joined::{for_all, joined};
use super::link::{Link, LinkMessage, RacePhase, stopped};

mod sent;
mod silence;

/// Time that all nodes may take for everything but the work itself.
pub(crate) const SLACK: Nanos = Nanos::from_secs(20);
/// Returns the longest time of a trial whose work takes this long at most. A flow that others starve sends its rest after
/// a pause that doubles with each loss (RFC 6298, 5.5).
pub(crate) fn with_slack(work: Nanos) -> Nanos {
    work + SLACK.max(Nanos(work.0 / 2))
}

/// Longest time that relays may take to release the resources that they hold on other hosts.
const RELAYS_PART: Nanos = Nanos::from_secs(2);

/// Callback that runs the steps due at a time, and returns the time of the next due step, if any.
pub(super) type OnTime<'a> = &'a mut dyn FnMut(Nanos) -> Result<Option<Nanos>>;

/// Returns the error that an unexpected message stands for.
pub(super) fn refusal(link: &Link, word: LinkMessage) -> Error {
    match word {
        LinkMessage::Agent(FromAgent::Fault(fault)) => match fault.kind {
            FaultKind::Blocked => Error::blocked(fault.message),
            FaultKind::Limited => Error::limited(fault.message),
            FaultKind::Usage => Error::Usage(fault.message),
            FaultKind::Interrupted => Error::Interrupted,
            FaultKind::Broken => Error::broken(link.who(), fault.message),
            FaultKind::Disconnected => {
                Error::disconnected(format!("{}: {}", link.who(), fault.message))
            }
            _ => Error::peer(link.who(), fault.message),
        },
        LinkMessage::Server(FromServer::Refused(fault)) if fault.kind == FaultKind::Limited => {
            Error::limited(fault.message)
        }
        LinkMessage::Server(FromServer::Refused(fault)) => {
            Error::peer(link.who(), format!("it refused: {fault}"))
        }
        LinkMessage::Server(FromServer::Stopped(fault)) => stopped(link.who(), &fault),
        _ => Error::peer(link.who(), "it spoke out of turn; use the same version on both ends"),
    }
}

/// Node of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeId {
    side: Side,
    /// Number among the nodes of its side.
    number: u16,
}

/// Node that runs flows, and the messages that it has sent so far.
struct Node {
    link: Link,
    /// Numbers of its flows, in its order.
    flows: Vec<u16>,
    /// Counters of the data it sent, by flow, once it has sent all.
    sent: Option<Vec<Tally>>,
    /// True once it was sent what the other ends of its flows have sent.
    knows_sent: bool,
    report: Option<AgentReport>,
    /// Time at which the report came.
    reported: Nanos,
    /// True once it has sent its last message.
    ended: bool,
}

impl Node {
    fn new(link: Link, flows: Vec<u16>) -> Node {
        Node {
            link,
            flows,
            sent: None,
            knows_sent: false,
            report: None,
            reported: Nanos::ZERO,
            ended: false,
        }
    }

    /// Sends it a message, unless it has reported already.
    fn send_unless_reported(&mut self, word: &ToAgent) -> Result<()> {
        match self.link.send(word) {
            Err(_) if !self.link.is_through_server() => Ok(()),
            done => done,
        }
    }
}

/// All nodes of a group.
pub(super) struct Nodes {
    near: Vec<Node>,
    far: Vec<Node>,
    /// Number of far nodes that one connection of the near node serves.
    pub(super) served_at_once: u16,
    /// Commands that carry the contender, if it is an external one.
    pub(super) carriers: Carriers,
    /// True if the far node stands in for a far end of others, and is stopped once the near node has reported.
    pub(super) stands_in: bool,
    /// Links to the relays in between; each relays until its link closes, and sends no message but a fault.
    relays: Vec<Link>,
    stop: Arc<AtomicBool>,
    /// Time at which the nodes were started.
    began: Nanos,
}

impl Nodes {
    /// Creates the nodes of a group with the flows of each, which were sent `Open` and are not yet connected. `stop` calls
    /// the trial off.
    pub(super) fn new(
        near: Vec<(Link, Vec<u16>)>,
        far: Vec<(Link, Vec<u16>)>,
        relays: Vec<Link>,
        stop: Arc<AtomicBool>,
    ) -> Nodes {
        let nodes = |all: Vec<(Link, Vec<u16>)>| {
            all.into_iter().map(|(link, flows)| Node::new(link, flows)).collect()
        };
        Nodes {
            near: nodes(near),
            far: nodes(far),
            served_at_once: 1,
            carriers: Carriers::default(),
            stands_in: false,
            relays,
            stop,
            began: Monotonic.now(),
        }
    }

    fn of(&self, side: Side) -> &[Node] {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// Iterates over the nodes, the far ones first.
    fn all(&self) -> impl Iterator<Item = &Node> {
        self.far.iter().chain(&self.near)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.far.iter_mut().chain(&mut self.near)
    }

    /// Iterates over the nodes, the near ones first.
    fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let [near, far] = [Side::Near, Side::Far]
            .map(|side| (0..self.of(side).len() as u16).map(move |number| NodeId { side, number }));
        near.chain(far)
    }

    /// Waits until all nodes are connected, at most for `longest`.
    pub(super) fn await_connected(&mut self, longest: Nanos) -> Result<()> {
        let connected = self.all_connected(longest);
        connected.map_err(|error| self.carriers.blame(error))
    }

    fn all_connected(&mut self, longest: Nanos) -> Result<()> {
        let mut missing = self.all().count();
        let deadline = Monotonic.now() + longest;
        while missing > 0 {
            match self.receive(deadline, &mut |_| Ok(None))? {
                (_, FromAgent::Connected) => missing -= 1,
                (from, word) => return Err(self.refused(from, word)),
            }
        }
        Ok(())
    }

    /// Starts all nodes.
    pub(super) fn start(&mut self) -> Result<()> {
        self.carriers.begin()?;
        self.began = Monotonic.now();
        let mut served = self.relays.iter_mut().filter(|relay| relay.is_through_server());
        let relayed = served.try_for_each(|relay| relay.send(&ToAgent::Start));
        let started = relayed.and_then(|()| self.send_to_all(&ToAgent::Start));
        self.keep_heartbeats(RacePhase::Measured);
        started
    }

    fn keep_heartbeats(&self, phase: RacePhase) {
        let far = self.far.iter().map(|node| &node.link);
        far.chain(&self.relays).for_each(|link| link.keep_heartbeat(phase));
    }

    /// Stops all nodes at once, and waits for their reports.
    pub(super) fn stop(&mut self) -> Result<BothReports> {
        // An agent that has ended by itself has sent its reason.
        self.all_mut().try_for_each(|node| node.send_unless_reported(&ToAgent::Stop))?;
        self.finish(SLACK, &mut |_, _, _| {}, &mut |_| Ok(None))
    }

    fn note_report(&mut self, from: NodeId, report: AgentReport) {
        let node = self.node(from);
        (node.report, node.reported) = (Some(report), Monotonic.now());
    }

    /// Sends all nodes the same message; the far ends first.
    fn send_to_all(&mut self, word: &ToAgent) -> Result<()> {
        self.all_mut().try_for_each(|node| node.link.send(word))
    }

    /// Leads all nodes to their reports, at most for `longest` from now. `on_point` gets the points of their flows, if
    /// the plans ask for that; `on_time` runs whatever else is due.
    pub(super) fn finish(
        &mut self,
        longest: Nanos,
        on_point: &mut dyn FnMut(Side, u16, Point),
        on_time: OnTime<'_>,
    ) -> Result<BothReports> {
        let reports = self.reports(longest, on_point, on_time);
        self.keep_heartbeats(RacePhase::Between);
        let mut reports = reports.map_err(|error| self.carriers.blame(error))?;
        reports.carriers = self.carriers.end()?;
        Ok(reports)
    }

    fn reports(
        &mut self,
        longest: Nanos,
        on_point: &mut dyn FnMut(Side, u16, Point),
        on_time: OnTime<'_>,
    ) -> Result<BothReports> {
        let mut took = Nanos::ZERO;
        let deadline = Monotonic.now() + longest;
        loop {
            match self.receive(deadline, on_time)? {
                (from, FromAgent::Finished { sent }) => self.pass_on(from, sent)?,
                (from, FromAgent::Interval { flow, point }) => {
                    let flow = self.node(from).flows.get(usize::from(flow)).copied();
                    flow.into_iter().for_each(|flow| on_point(from.side, flow, *point));
                }
                (from, FromAgent::Done(report)) => {
                    if from.side == Side::Far {
                        took = Monotonic.now() - self.began;
                    }
                    self.note_report(from, *report);
                    if from.side == Side::Near && self.stands_in {
                        self.far
                            .iter_mut()
                            .try_for_each(|node| node.send_unless_reported(&ToAgent::Stop))?;
                    }
                }
                (from, word) => return Err(self.refused(from, word)),
            }
            // A node that has reported is gone, and its link with it; nothing more is read from it.
            if self.all().all(|node| node.report.is_some()) {
                let clocks = self.clocks();
                let [near, far] = [&mut self.near, &mut self.far].map(|nodes| {
                    let reports = nodes.iter_mut().filter_map(|node| {
                        let report = node.report.take()?;
                        Some((report, node.flows.as_slice()))
                    });
                    joined(reports.collect())
                });
                let near = for_all(near.unwrap_or_default(), self.served_at_once);
                let carriers = Default::default();
                return Ok(BothReports { near, far, took, clocks, doubt: None, carriers });
            }
        }
    }

    fn clocks(&self) -> Clocks {
        if self.far.iter().any(|node| node.link.is_through_server()) {
            Clocks::Apart
        } else {
            Clocks::Shared
        }
    }

    fn node(&mut self, from: NodeId) -> &mut Node {
        let nodes = match from.side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        };
        &mut nodes[usize::from(from.number)]
    }

    /// Waits for the next message of any node that has not reported, and runs meanwhile whatever else is due.
    fn receive(&mut self, deadline: Nanos, on_time: OnTime<'_>) -> Result<(NodeId, FromAgent)> {
        loop {
            let due = on_time(Monotonic.now())?;
            if self.stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            let now = Monotonic.now();
            let left = deadline - now;
            if left == Nanos::ZERO {
                return Err(self.overdue());
            }
            let left = due.map_or(left, |due| left.min(due - now));
            let Some(from) = self.first_readable(left)? else { continue };
            if let Some(word) = self.receive_from(from, deadline)? {
                return Ok((from, word));
            }
        }
    }

    /// Returns the error of a trial that did not end in time: the nodes that are late, and how busy they are.
    fn overdue(&self) -> Error {
        let behind = self.all().filter(|node| node.report.is_none()).map(|node| {
            match node.link.cpu_time() {
                Some(used) => format!("the {}, which has used {used} of CPU time", node.link.who()),
                None => format!("the {}", node.link.who()),
            }
        });
        let behind: Vec<String> = behind.collect();
        let what = format!("it did not end in time; no report came from {}", list(&behind));
        let is_elsewhere = self.far.iter().any(|node| node.link.is_through_server());
        if is_elsewhere { Error::peer("trial", what) } else { Error::broken("trial", what) }
    }

    /// Waits for the first node with a message; `None` after `timeout`.
    fn first_readable(&mut self, timeout: Nanos) -> Result<Option<NodeId>> {
        let nodes = self.near.iter().chain(&self.far);
        let awaited: Vec<(NodeId, &Link)> = self
            .ids()
            .zip(nodes)
            .filter(|(_, node)| node.report.is_none())
            .map(|(from, node)| (from, &node.link))
            .collect();
        if let Some((from, _)) = awaited.iter().find(|(_, link)| link.holds_more()) {
            return Ok(Some(*from));
        }
        let spoken = self.relays.iter_mut().find(|relay| relay.holds_more());
        if let Some(relay) = spoken {
            let word = relay.receive()?;
            return Err(refusal(relay, word));
        }
        let links = awaited.iter().map(|(_, link)| *link).chain(&self.relays);
        let ready = ready(links.map(|link| (link.fd(), libc::POLLIN)), Some(timeout))
            .map_err(|e| Error::setup("wait for the agents", e))?;
        let (nodes, relays) = ready.split_at(awaited.len());
        if let Some(relay) = relays.iter().position(|ready| *ready) {
            let relay = &mut self.relays[relay];
            let word = relay.receive()?;
            return Err(refusal(relay, word));
        }
        let speaks = nodes.iter().position(|ready| *ready);
        Ok(speaks.map(|at| awaited[at].0))
    }

    /// Returns the error that an unexpected message stands for. If one node fails, others often fail with it, and know
    /// more or less about the cause. The order of preference is: a limit of the server and blocked packets, then a file
    /// and an end that broke, which are never a consequence, then the near end, which dialled.
    fn refused(&mut self, from: NodeId, word: FromAgent) -> Error {
        let soon = Monotonic.now() + Nanos::from_millis(200);
        let mut words = vec![(from, word)];
        for other in self.ids().filter(|other| *other != from) {
            while self.node(other).report.is_none() && !self.node(other).ended {
                match self.receive_from(other, soon) {
                    Ok(Some(word @ (FromAgent::Fault(_) | FromAgent::Done(_)))) => {
                        words.push((other, word));
                        break;
                    }
                    Ok(Some(_)) => {}
                    // If one node's process died, or its server, the other errors follow from it; report that one.
                    Err(error @ (Error::Broken { .. } | Error::Stopped { .. })) => return error,
                    Err(error) if self.node(other).link.is_lost() => return error,
                    _ => break,
                }
            }
        }
        if let Some(limit) = self.limit_of_relay(soon) {
            return limit;
        }
        words.retain(|(_, word)| !matches!(word, FromAgent::Done(_)));
        words.sort_by_key(|(from, word)| {
            let is = |kind| matches!(word, FromAgent::Fault(fault) if fault.kind == kind);
            let first =
                [FaultKind::Limited, FaultKind::Blocked, FaultKind::Data, FaultKind::Broken];
            (first.map(|kind| !is(kind)), from.side != Side::Near)
        });
        let Some((from, word)) = words.into_iter().next() else {
            return Error::peer("trial", "it ended without a reason");
        };
        let is_its_own = matches!(
            &word,
            FromAgent::Fault(Fault { kind: FaultKind::Setup | FaultKind::Peer, .. })
        );
        match refusal(&self.node(from).link, LinkMessage::Agent(word)) {
            // After the start, a failure is the contender's own.
            Error::Peer { who, what } if is_its_own => Error::Broken { who, what },
            error => error,
        }
    }

    /// Returns the limit that ended a relay at a third host, if its server says so until `deadline`. The ends see no more of
    /// it than a connection that is reset.
    fn limit_of_relay(&mut self, deadline: Nanos) -> Option<Error> {
        let relays = self.relays.iter_mut().filter(|relay| relay.is_through_server());
        let errors = relays.filter_map(|relay| {
            let speaks = relay.has_message(deadline - Monotonic.now()).unwrap_or(false);
            speaks.then(|| relay.receive().map_or_else(|error| error, |word| refusal(relay, word)))
        });
        errors.into_iter().find(|error| matches!(error, Error::Limited { .. }))
    }

    /// Waits for the next message of one node until `deadline`; `None` if there is none.
    fn receive_from(&mut self, from: NodeId, deadline: Nanos) -> Result<Option<FromAgent>> {
        let node = self.node(from);
        if !node.link.has_message(deadline - Monotonic.now())? {
            return Ok(None);
        }
        let received = node.link.receive();
        // After a message that makes no sense, later ones are of no use.
        node.ended |= matches!(received, Err(Error::Nonsense { .. }));
        let received = received?;
        node.ended |= !matches!(
            received,
            LinkMessage::Agent(
                FromAgent::Ready { .. }
                    | FromAgent::Connected
                    | FromAgent::Interval { .. }
                    | FromAgent::Finished { .. }
            )
        );
        match received {
            LinkMessage::Agent(word) => Ok(Some(word)),
            word @ LinkMessage::Server(_) => Err(refusal(&node.link, word)),
        }
    }
}

impl Drop for Nodes {
    /// Calls off the trial at servers, which otherwise go on with it and accept no new one, and lets TURN clients
    /// release their allocations, and relays at servers report.
    fn drop(&mut self) {
        self.relays.iter().for_each(|relay| relay.keep_heartbeat(RacePhase::Between));
        self.relays.retain_mut(|relay| relay.send(&ToAgent::Stop).is_ok());
        let deadline = Monotonic.now() + RELAYS_PART;
        for relay in &mut self.relays {
            // A relay here sends no message: its link closes. One at a server sends its last.
            let speaks = relay.has_message(deadline - Monotonic.now()).unwrap_or(false);
            if speaks && relay.is_through_server() {
                let _ = relay.receive();
            }
        }
        for number in 0..self.far.len() as u16 {
            let id = NodeId { side: Side::Far, number };
            let node = self.node(id);
            if !node.link.is_through_server() || node.ended {
                continue;
            }
            node.link.keep_heartbeat(RacePhase::Between);
            if node.link.send(&ToAgent::CallOff).is_err() {
                continue;
            }
            let deadline = Monotonic.now() + SLACK;
            while !self.far[usize::from(number)].ended {
                let Ok(Some(_)) = self.receive_from(id, deadline) else {
                    self.far[usize::from(number)].link.lose();
                    break;
                };
            }
        }
    }
}

//! Nodes of a group in a running trial: their messages are received, passed on to other nodes where needed, and turned
//! into reports or one error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_base::descriptor::ready;

use crate::between::external::{self, RunningCommand};
use crate::control::{AgentReport, FromAgent, FromServer, Share, ToAgent};
use deadheat_base::error::{Error, Fault, FaultKind, Result};
use deadheat_base::figures::list;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::Point;
use deadheat_contract::workload::Clocks;

use super::both_reports::BothReports;
use super::credible::check_tallies;
use super::joined::{for_all, interleaved, joined, repeated};
use super::link::{Link, LinkMessage, RacePhase, stopped};

mod silence;

/// Time that all nodes may take for everything but the work itself.
pub(crate) const SLACK: Nanos = Nanos::from_secs(20);
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

/// Node that sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeId {
    Near,
    /// Far node with this number.
    Far(u16),
}

impl NodeId {
    fn side(self) -> Side {
        match self {
            NodeId::Near => Side::Near,
            NodeId::Far(_) => Side::Far,
        }
    }
}

/// Node that runs flows, and the messages that it has sent so far.
struct Node {
    link: Link,
    /// Counters of the data it sent, by flow, once it has sent all.
    sent: Option<Vec<Tally>>,
    report: Option<AgentReport>,
    /// Time at which the report came.
    reported: Nanos,
    /// True once it has sent its last message.
    ended: bool,
}

impl Node {
    fn new(link: Link) -> Node {
        Node { link, sent: None, report: None, reported: Nanos::ZERO, ended: false }
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
    near: Node,
    /// Flows of the near node.
    pub(super) near_share: Share,
    far: Vec<Node>,
    /// Commands that carry the contender, if it is an external one.
    pub(super) commands: Vec<RunningCommand>,
    /// True if the far node stands in for a far end of others, and is stopped once the near node has reported.
    pub(super) stands_in: bool,
    /// Links to the relays in between; each relays until its link closes, and sends no message but a fault.
    relays: Vec<Link>,
    stop: Arc<AtomicBool>,
    /// Time at which the nodes were started.
    began: Nanos,
}

impl Nodes {
    /// Creates the nodes of a group, which were sent `Open` and are not yet connected. `stop` calls the trial off.
    pub(super) fn new(
        near: Link,
        far: Vec<Link>,
        relays: Vec<Link>,
        stop: Arc<AtomicBool>,
    ) -> Nodes {
        Nodes {
            near: Node::new(near),
            near_share: Share::WHOLE,
            far: far.into_iter().map(Node::new).collect(),
            commands: Vec::new(),
            stands_in: false,
            relays,
            stop,
            began: Monotonic.now(),
        }
    }

    /// Waits until all nodes are connected, at most for `longest`.
    pub(super) fn await_connected(&mut self, longest: Nanos) -> Result<()> {
        let connected = self.all_connected(longest);
        connected.map_err(|error| external::blame(&mut self.commands, error))
    }

    fn all_connected(&mut self, longest: Nanos) -> Result<()> {
        let mut missing = 1 + self.far.len();
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
        self.commands.iter_mut().try_for_each(RunningCommand::begin)?;
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
        for node in self.far.iter_mut().chain([&mut self.near]) {
            node.send_unless_reported(&ToAgent::Stop)?;
        }
        self.finish(SLACK, &mut |_, _, _| {}, &mut |_| Ok(None))
    }

    fn note_report(&mut self, from: NodeId, report: AgentReport) {
        let node = self.node(from);
        (node.report, node.reported) = (Some(report), Monotonic.now());
    }

    /// Sends all nodes the same message; the far ends first.
    fn send_to_all(&mut self, word: &ToAgent) -> Result<()> {
        self.far.iter_mut().chain([&mut self.near]).try_for_each(|node| node.link.send(word))
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
        let mut reports = reports.map_err(|error| external::blame(&mut self.commands, error))?;
        reports.commands = external::end(&mut self.commands)?;
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
                    on_point(from.side(), self.share(from).flow(flow), *point);
                }
                (from, FromAgent::Done(report)) => {
                    if from != NodeId::Near {
                        took = Monotonic.now() - self.began;
                    }
                    self.note_report(from, *report);
                    if from == NodeId::Near && self.stands_in {
                        self.far
                            .iter_mut()
                            .try_for_each(|node| node.send_unless_reported(&ToAgent::Stop))?;
                    }
                }
                (from, word) => return Err(self.refused(from, word)),
            }
            // A node that has reported is gone, and its link with it; nothing more is read from it.
            if let (Some(near), true) = (&self.near.report, self.far_has_reported()) {
                let near = for_all(near.clone(), self.near_share);
                let far = self.far.iter_mut().filter_map(|node| node.report.take()).collect();
                let (far, commands) = (joined(far), Default::default());
                let clocks = self.clocks();
                return Ok(BothReports { near, far, took, clocks, doubt: None, commands });
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

    fn far_has_reported(&self) -> bool {
        self.far.iter().all(|node| node.report.is_some())
    }

    fn node(&mut self, from: NodeId) -> &mut Node {
        match from {
            NodeId::Near => &mut self.near,
            NodeId::Far(number) => &mut self.far[usize::from(number)],
        }
    }

    /// Returns the flows of a node.
    fn share(&self, from: NodeId) -> Share {
        match from {
            NodeId::Near => self.near_share,
            NodeId::Far(node) => Share { node, nodes: self.far.len() as u16 },
        }
    }

    /// Reports to the other nodes that this node has sent all it will: to each far node about that node's own flows,
    /// and to the near one once all far nodes have sent all.
    fn pass_on(&mut self, from: NodeId, sent: Vec<Tally>) -> Result<()> {
        if from == NodeId::Near {
            let sent = repeated(sent, self.near_share);
            let flows = sent.len();
            for number in 0..self.far.len() as u16 {
                let own = self.share(NodeId::Far(number)).flows(flows);
                let sent = own.map(|flow| sent[usize::from(flow)]).collect();
                self.far[usize::from(number)]
                    .send_unless_reported(&ToAgent::PeerFinished { sent })?;
            }
            return Ok(());
        }
        let node = self.node(from);
        check_tallies(&sent).map_err(|what| Error::peer(node.link.who(), what))?;
        node.sent = Some(sent);
        let all: Option<Vec<Vec<Tally>>> = self.far.iter().map(|node| node.sent.clone()).collect();
        let Some(all) = all else { return Ok(()) };
        self.near.send_unless_reported(&ToAgent::PeerFinished { sent: interleaved(all) })
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
        let all = [&self.near].into_iter().chain(&self.far);
        let behind =
            all.filter(|node| node.report.is_none()).map(|node| match node.link.cpu_time() {
                Some(used) => format!("the {}, which has used {used} of CPU time", node.link.who()),
                None => format!("the {}", node.link.who()),
            });
        let behind: Vec<String> = behind.collect();
        let what = format!("it did not end in time; no report came from {}", list(&behind));
        let is_elsewhere = self.far.iter().any(|node| node.link.is_through_server());
        if is_elsewhere { Error::peer("trial", what) } else { Error::broken("trial", what) }
    }

    /// Waits for the first node with a message; `None` after `timeout`.
    fn first_readable(&mut self, timeout: Nanos) -> Result<Option<NodeId>> {
        let all = (0..).map(NodeId::Far).zip(&self.far);
        let all = [(NodeId::Near, &self.near)].into_iter().chain(all);
        let awaited: Vec<(NodeId, &Link)> = all
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
        let others = [NodeId::Near].into_iter().chain((0..self.far.len() as u16).map(NodeId::Far));
        let mut words = vec![(from, word)];
        for other in others.filter(|other| *other != from) {
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
            (first.map(|kind| !is(kind)), *from != NodeId::Near)
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
            let node = &mut self.far[usize::from(number)];
            if !node.link.is_through_server() || node.ended {
                continue;
            }
            node.link.keep_heartbeat(RacePhase::Between);
            if node.link.send(&ToAgent::CallOff).is_err() {
                continue;
            }
            let deadline = Monotonic.now() + SLACK;
            while !self.far[usize::from(number)].ended {
                let Ok(Some(_)) = self.receive_from(NodeId::Far(number), deadline) else {
                    self.far[usize::from(number)].link.lose();
                    break;
                };
            }
        }
    }
}

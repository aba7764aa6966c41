//! The nodes of a group under way: what each says is heard, passed on to the others where it concerns them, and
//! turned into reports or one error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contract::Side;
use crate::error::{Error, Fault, FaultKind, Result};
use crate::figures::list;
use crate::measurements::Tally;
use crate::measurements::series::Point;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::Address;
use crate::trial::between::external::{self, Running};
use crate::trial::control::patient::sleep;
use crate::trial::control::{AgentReport, FromAgent, FromServer, Share, ToAgent};
use crate::workload::Clocks;

use super::both_reports::BothReports;
use super::credible::check_tallies;
use super::joined::{for_all, interleaved, joined, repeated};
use super::link::{Link, Word};

/// Time that all nodes may take for anything but the work itself.
pub(in crate::trial) const SLACK: Nanos = Nanos::from_secs(20);
/// Longest time that a server may keep a trial waiting for others.
const QUEUE_TIMEOUT: Nanos = Nanos::from_secs(3600);

/// Longest time that relays may take to give back what they hold elsewhere.
const RELAYS_PART: Nanos = Nanos::from_secs(2);

/// Pause before a server that has no room for a trial is asked again.
const RETRY: Nanos = Nanos::from_secs(1);

/// Does what is due at a time, and returns the time of what comes next, if anything does.
pub(super) type OnTime<'a> = &'a mut dyn FnMut(Nanos) -> Result<Option<Nanos>>;

/// Tells an agent to `open`, or to relay, and waits until it listens. A server without room is asked again.
pub(super) fn await_ready(
    link: &mut Link,
    open: &ToAgent,
    stop: &AtomicBool,
    on_queued: &mut dyn FnMut(u32),
) -> Result<Address> {
    let give_up = Monotonic.now() + QUEUE_TIMEOUT;
    let mut left = SLACK;
    link.tell(open)?;
    loop {
        if !link.has_word(left)? {
            return Err(link.broken("it did not get ready in time"));
        }
        match link.hear()? {
            Word::Agent(FromAgent::Ready { endpoint }) => return Ok(endpoint),
            Word::Server(FromServer::Queued { ahead }) => {
                on_queued(ahead);
                left = QUEUE_TIMEOUT;
            }
            Word::Server(FromServer::Full(fault)) if Monotonic.now() >= give_up => {
                return Err(Error::peer(link.who(), fault.message));
            }
            Word::Server(FromServer::Full(_)) => {
                on_queued(u32::MAX);
                sleep(RETRY, stop).map_err(|_| Error::Interrupted)?;
                link.tell(open)?;
            }
            word => return Err(refusal(link, word)),
        }
    }
}

/// Returns the error of a server whose operator stopped it.
pub(super) fn stopped(who: &str, fault: &Fault) -> Error {
    Error::stopped(who, format!("{fault}; no trial goes on there, and the blocks done are kept"))
}

/// Returns the error in a word that should have been another.
fn refusal(link: &Link, word: Word) -> Error {
    match word {
        Word::Agent(FromAgent::Fault(fault)) => match fault.kind {
            FaultKind::Blocked => Error::blocked(fault.message),
            FaultKind::Limited => Error::limited(fault.message),
            FaultKind::Usage => Error::Usage(fault.message),
            FaultKind::Interrupted => Error::Interrupted,
            FaultKind::Broken => Error::broken(link.who(), fault.message),
            _ => Error::peer(link.who(), fault.message),
        },
        Word::Server(FromServer::Refused(fault)) => {
            Error::peer(link.who(), format!("it refused: {fault}"))
        }
        Word::Server(FromServer::Stopped(fault)) => stopped(link.who(), &fault),
        _ => Error::peer(link.who(), "it spoke out of turn; use the same version on both ends"),
    }
}

/// Node that a word comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Near,
    /// The far node of this number.
    Far(u16),
}

impl From {
    fn side(self) -> Side {
        match self {
            From::Near => Side::Near,
            From::Far(_) => Side::Far,
        }
    }
}

/// A node that runs flows, and what it has said so far.
struct Node {
    link: Link,
    /// Counters of what it sent, by its flows, once it has sent all.
    sent: Option<Vec<Tally>>,
    report: Option<AgentReport>,
    /// True once it has said its last word.
    ended: bool,
}

impl Node {
    fn new(link: Link) -> Node {
        Node { link, sent: None, report: None, ended: false }
    }

    /// Tells it the same as others; one that has reported already needs no telling.
    fn tell_if_there(&mut self, word: &ToAgent) -> Result<()> {
        match self.link.tell(word) {
            Err(_) if !self.link.is_through_server() => Ok(()),
            told => told,
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
    pub(super) commands: Vec<Running>,
    /// Lines to the relays in between; each relays until its line ends, and says no word but a fault.
    relays: Vec<Link>,
    stop: Arc<AtomicBool>,
    /// Time at which they were told to start.
    began: Nanos,
}

impl Nodes {
    /// Creates the nodes of a group, told to open and not yet connected. `stop` calls the trial off.
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
            relays,
            stop,
            began: Monotonic.now(),
        }
    }

    /// Waits until all are connected, at most for `longest`.
    pub(super) fn await_connected(&mut self, longest: Nanos) -> Result<()> {
        let connected = self.all_connected(longest);
        connected.map_err(|error| external::blame(&mut self.commands, error))
    }

    fn all_connected(&mut self, longest: Nanos) -> Result<()> {
        let mut missing = 1 + self.far.len();
        let deadline = Monotonic.now() + longest;
        while missing > 0 {
            match self.hear(deadline, &mut |_| Ok(None))? {
                (_, FromAgent::Connected) => missing -= 1,
                (from, word) => return Err(self.refused(from, word)),
            }
        }
        Ok(())
    }

    /// Starts all.
    pub(super) fn start(&mut self) -> Result<()> {
        self.commands.iter_mut().try_for_each(Running::begin)?;
        self.began = Monotonic.now();
        self.tell_all(&ToAgent::Start)
    }

    /// Stops all where they are, and sees them through to their reports.
    pub(super) fn stop(&mut self) -> Result<BothReports> {
        self.tell_all(&ToAgent::Stop)?;
        self.finish(SLACK, &mut |_, _, _| {}, &mut |_| Ok(None))
    }

    /// Tells all the same; the far ends first.
    fn tell_all(&mut self, word: &ToAgent) -> Result<()> {
        self.far.iter_mut().chain([&mut self.near]).try_for_each(|node| node.link.tell(word))
    }

    /// Sees all through to their reports, at most for `longest` from here. `on_point` is told how their flows
    /// go, if the plans ask for that; `on_time` is asked what else is due.
    pub(super) fn finish(
        &mut self,
        longest: Nanos,
        on_point: &mut dyn FnMut(Side, u16, Point),
        on_time: OnTime<'_>,
    ) -> Result<BothReports> {
        let reports = self.reports(longest, on_point, on_time);
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
            match self.hear(deadline, on_time)? {
                (from, FromAgent::Finished { sent }) => self.pass_on(from, sent)?,
                (from, FromAgent::Interval { flow, point }) => {
                    on_point(from.side(), self.share(from).flow(flow), *point);
                }
                (from, FromAgent::Done(report)) => {
                    if from != From::Near {
                        took = Monotonic.now() - self.began;
                    }
                    self.node(from).report = Some(*report);
                }
                (from, word) => return Err(self.refused(from, word)),
            }
            // A node that has reported is gone, and its line with it; it is not listened to again.
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
        match self.far.iter().any(|node| node.link.is_through_server()) {
            true => Clocks::Apart,
            false => Clocks::Shared,
        }
    }

    fn far_has_reported(&self) -> bool {
        self.far.iter().all(|node| node.report.is_some())
    }

    fn node(&mut self, from: From) -> &mut Node {
        match from {
            From::Near => &mut self.near,
            From::Far(number) => &mut self.far[usize::from(number)],
        }
    }

    /// Returns the flows of a node.
    fn share(&self, from: From) -> Share {
        match from {
            From::Near => self.near_share,
            From::Far(node) => Share { node, nodes: self.far.len() as u16 },
        }
    }

    /// Tells the others that this node has sent all it will: each far node about its own flows, and the near one
    /// once all far nodes are that far.
    fn pass_on(&mut self, from: From, sent: Vec<Tally>) -> Result<()> {
        if from == From::Near {
            let sent = repeated(sent, self.near_share);
            let flows = sent.len();
            for number in 0..self.far.len() as u16 {
                let own = self.share(From::Far(number)).flows(flows);
                let sent = own.map(|flow| sent[usize::from(flow)]).collect();
                self.far[usize::from(number)].tell_if_there(&ToAgent::PeerFinished { sent })?;
            }
            return Ok(());
        }
        let node = self.node(from);
        check_tallies(&sent).map_err(|what| Error::peer(node.link.who(), what))?;
        node.sent = Some(sent);
        let all: Option<Vec<Vec<Tally>>> = self.far.iter().map(|node| node.sent.clone()).collect();
        let Some(all) = all else { return Ok(()) };
        self.near.tell_if_there(&ToAgent::PeerFinished { sent: interleaved(all) })
    }

    /// Waits for the next word of any node that has not reported, and has done meanwhile what else is due.
    fn hear(&mut self, deadline: Nanos, on_time: OnTime<'_>) -> Result<(From, FromAgent)> {
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
            let Some(from) = self.first_to_speak(left)? else { continue };
            if let Some(word) = self.hear_one(from, deadline)? {
                return Ok((from, word));
            }
        }
    }

    /// Returns the error of a trial that did not end in time: who is behind, and how busy it is.
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

    /// Waits for the first node to have a word; `None` after `timeout`.
    fn first_to_speak(&mut self, timeout: Nanos) -> Result<Option<From>> {
        use std::os::fd::AsRawFd;
        let all = (0..).map(From::Far).zip(&self.far);
        let all = [(From::Near, &self.near)].into_iter().chain(all);
        let awaited: Vec<(From, &Link)> = all
            .filter(|(_, node)| node.report.is_none())
            .map(|(from, node)| (from, &node.link))
            .collect();
        if let Some((from, _)) = awaited.iter().find(|(_, link)| link.holds_more()) {
            return Ok(Some(*from));
        }
        let mut fds: Vec<libc::pollfd> = awaited
            .iter()
            .map(|(_, link)| *link)
            .chain(&self.relays)
            .map(|link| libc::pollfd {
                fd: link.fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let ms = i32::try_from(timeout.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: `fds` is a vector of valid pollfds.
        if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) } < 0 {
            let error = std::io::Error::last_os_error();
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            return if interrupted {
                Ok(None)
            } else {
                Err(Error::setup("wait for the agents", error))
            };
        }
        let (nodes, relays) = fds.split_at(awaited.len());
        if let Some(relay) = relays.iter().position(|fd| fd.revents != 0) {
            let relay = &mut self.relays[relay];
            let word = relay.hear()?;
            return Err(refusal(relay, word));
        }
        let speaks = nodes.iter().position(|fd| fd.revents != 0);
        Ok(speaks.map(|at| awaited[at].0))
    }

    /// Returns the error in a word that should have been another. Where one node failed others
    /// often do, too, and know more or less about it: a limit of the server's and what was blocked come first, then a
    /// file and an end that broke, which are never the consequence, then the near end, which dialled.
    fn refused(&mut self, from: From, word: FromAgent) -> Error {
        let soon = Monotonic.now() + Nanos::from_millis(200);
        let others = [From::Near].into_iter().chain((0..self.far.len() as u16).map(From::Far));
        let mut words = vec![(from, word)];
        for other in others.filter(|other| *other != from) {
            while self.node(other).report.is_none() && !self.node(other).ended {
                match self.hear_one(other, soon) {
                    Ok(Some(word @ (FromAgent::Fault(_) | FromAgent::Done(_)))) => {
                        words.push((other, word));
                        break;
                    }
                    Ok(Some(_)) => {}
                    // One that vanished took the others with it.
                    Err(error @ (Error::Broken { .. } | Error::Stopped { .. })) => return error,
                    _ => break,
                }
            }
        }
        words.retain(|(_, word)| !matches!(word, FromAgent::Done(_)));
        words.sort_by_key(|(from, word)| {
            let is = |kind| matches!(word, FromAgent::Fault(fault) if fault.kind == kind);
            let first =
                [FaultKind::Limited, FaultKind::Blocked, FaultKind::Data, FaultKind::Broken];
            (first.map(|kind| !is(kind)), *from != From::Near)
        });
        let Some((from, word)) = words.into_iter().next() else {
            return Error::peer("trial", "it ended without a reason");
        };
        let is_its_own = matches!(
            &word,
            FromAgent::Fault(Fault { kind: FaultKind::Setup | FaultKind::Peer, .. })
        );
        match refusal(&self.node(from).link, Word::Agent(word)) {
            // Once its ends are under way, what fails is the contender's.
            Error::Peer { who, what } if is_its_own => Error::Broken { who, what },
            error => error,
        }
    }

    /// Waits for the next word of one node before `deadline`, if there is one.
    fn hear_one(&mut self, from: From, deadline: Nanos) -> Result<Option<FromAgent>> {
        let node = self.node(from);
        if !node.link.has_word(deadline - Monotonic.now())? {
            return Ok(None);
        }
        let heard = node.link.hear();
        // Nothing that it may say yet is worth waiting for.
        node.ended |= matches!(heard, Err(Error::Nonsense { .. }));
        let heard = heard?;
        node.ended |= !matches!(
            heard,
            Word::Agent(
                FromAgent::Ready { .. }
                    | FromAgent::Connected
                    | FromAgent::Interval { .. }
                    | FromAgent::Finished { .. }
            )
        );
        match heard {
            Word::Agent(word) => Ok(Some(word)),
            word @ Word::Server(_) => Err(refusal(&node.link, word)),
        }
    }
}

impl Drop for Nodes {
    /// A server goes on with a trial until it is told otherwise, and takes no new one before. A TURN server, too, is told that what
    /// was allocated there may go.
    fn drop(&mut self) {
        self.relays.retain_mut(|relay| relay.tell(&ToAgent::Stop).is_ok());
        let deadline = Monotonic.now() + RELAYS_PART;
        for relay in &mut self.relays {
            // It says nothing: its line ends.
            let _ = relay.has_word(deadline - Monotonic.now());
        }
        for number in 0..self.far.len() as u16 {
            let node = &mut self.far[usize::from(number)];
            if !node.link.is_through_server() || node.ended {
                continue;
            }
            if node.link.tell(&ToAgent::CallOff).is_err() {
                continue;
            }
            let deadline = Monotonic.now() + SLACK;
            while !self.far[usize::from(number)].ended {
                let Ok(Some(_)) = self.hear_one(From::Far(number), deadline) else { break };
            }
        }
    }
}

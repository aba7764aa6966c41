//! The real runner: starts two agents per trial, far and near, leads them through it, and brings
//! their reports together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::contract::{PeerKind, Reach, Side};
use crate::error::{Error, Result};
use crate::figures::{ConnStats, Cost, Tally};
use crate::path::Family;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::hello::Token;
use crate::transport::{Contender, Endpoint};
use crate::workload::{Reports, Task};

use super::control::{AgentPlan, AgentReport, FromAgent, FromServer, ToAgent};
use super::host::HostFacts;
use super::link::{Link, Word};
use super::placement::{Assigned, Ends, Load, Placement};
use super::remote::RemoteServer;
use super::topology::Topology;
use super::{End, Order, PathFacts, Record, Runner};

/// Where the far end is.
#[derive(Debug)]
pub enum Far {
    /// Another process on this machine.
    Loopback(Family),
    /// Behind a server.
    Server {
        /// As typed after `--to`.
        host: String,
        /// The connection.
        server: Box<RemoteServer>,
    },
}

/// Runs trials with real agents.
pub struct Agents {
    far: Far,
    facts: HostFacts,
    /// Told of the place in a server's queue.
    on_queued: Box<dyn FnMut(u32)>,
    /// Set to call off the trial under way.
    stop: Arc<AtomicBool>,
}

/// How long both ends may take over what is not the work itself.
const SLACK: Nanos = Nanos::from_secs(20);
/// How long a server may keep a trial waiting for others.
const QUEUE_TIMEOUT: Nanos = Nanos::from_secs(3600);

impl Agents {
    /// A runner for trials against `far`.
    pub fn new(far: Far) -> Agents {
        Agents {
            far,
            facts: HostFacts::gather(),
            on_queued: Box::new(|_| {}),
            stop: Arc::default(),
        }
    }

    /// Calls off the trial under way once `flag` is set (Ctrl-C).
    pub fn stop_on(mut self, flag: Arc<AtomicBool>) -> Agents {
        self.stop = flag;
        self
    }

    /// Calls `tell` with the number of trials before ours whenever a server lets us wait.
    pub fn on_queued(mut self, tell: impl FnMut(u32) + 'static) -> Agents {
        self.on_queued = Box::new(tell);
        self
    }

    fn ends(&self) -> Ends {
        match self.far {
            Far::Loopback(_) => Ends::OneMachine,
            Far::Server { .. } => Ends::TwoMachines,
        }
    }

    /// Where the far end binds, or where the kernel answers.
    fn endpoint(&self, contender: &Contender) -> Result<Endpoint> {
        match (contender.transport.info().reach, &self.far) {
            (Reach::Machine, Far::Loopback(_)) => Ok(Endpoint::Unix(String::new())),
            (Reach::Network, Far::Loopback(family)) => {
                Ok(Endpoint::Ip(SocketAddr::new(family.loopback(), 0)))
            }
            (Reach::Network, Far::Server { server, .. }) => Ok(Endpoint::Ip(server.address)),
            (Reach::Machine | Reach::Process, _) => Err(Error::usage(format!(
                "{} reaches one machine only; leave it out of a race to another host",
                contender.spec
            ))),
        }
    }

    fn trial(&mut self, order: &Order) -> Result<Record> {
        let started_ms = epoch_ms();
        let start = Monotonic.now();
        let contender = Contender::parse(&order.contender)?;
        let task = crate::workload::parse(&order.workload)?;
        let assigned = order.placement.assign(self.ends(), Topology::here())?;
        let plan = Plans {
            order,
            assigned: Assigned { wait: order.wait, ..assigned },
            token: Token::fresh()?,
            endpoint: self.endpoint(&contender)?,
        };
        let mut pair = self.open(&plan, &contender)?;
        let reports = pair.run(task.longest() + SLACK)?;
        let mut record = conclude(&contender, &*task, &reports);
        record.started_ms = started_ms;
        record.took_ns = (Monotonic.now() - start).0;
        record.implementation = self.implementation(&contender, &record);
        Ok(record)
    }

    /// Starts both agents and has them connect.
    fn open(&mut self, plan: &Plans<'_>, contender: &Contender) -> Result<Pair> {
        let mut endpoint = plan.endpoint.clone();
        let mut far = None;
        if contender.transport.info().peer == PeerKind::Process {
            let mut link = match &self.far {
                Far::Loopback(_) => Link::to_process("far agent")?,
                Far::Server { server, .. } => {
                    Link::to_server(&format!("server {}", server.address), &server.control)?
                }
            };
            link.tell(&ToAgent::Open(Box::new(plan.far())))?;
            endpoint = await_ready(&mut link, &mut self.on_queued)?;
            far = Some(link);
        }
        let mut near = Link::to_process("near agent")?;
        near.tell(&ToAgent::Open(Box::new(plan.near(endpoint))))?;
        let stop = Arc::clone(&self.stop);
        let mut pair = Pair { near, far, near_report: None, far_report: None, stop };
        pair.await_connected()?;
        Ok(pair)
    }

    /// Names who carried the bytes: `tcp/linux-6.18.44/cubic`.
    fn implementation(&self, contender: &Contender, record: &Record) -> String {
        let info = contender.transport.info();
        let by = if info.implementation == "linux" {
            let release = self.facts.kernel.split_whitespace().last().unwrap_or("?");
            format!("linux-{release}")
        } else {
            info.implementation.to_owned()
        };
        let control = record.effective.get("cc").map(|cc| format!("/{cc}")).unwrap_or_default();
        format!("{}/{by}{control}", info.id)
    }
}

impl Runner for Agents {
    fn run(&mut self, order: &Order) -> End {
        match self.trial(order) {
            Ok(record) => End::Ran(Box::new(record)),
            Err(Error::Blocked { evidence }) => End::Blocked(evidence),
            Err(error) => End::Failed(error),
        }
    }

    fn placement(&mut self, asked: Option<Placement>, load: Load) -> Result<(Placement, String)> {
        let Some(placement) = asked else {
            return Ok(super::probe::default_placement(self.ends(), load));
        };
        placement.assign(self.ends(), Topology::here())?;
        Ok((placement, "asked for".into()))
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        let far = match &self.far {
            Far::Loopback(_) => None,
            Far::Server { server, .. } => Some(server.facts.clone()),
        };
        Ok((self.facts.clone(), far))
    }

    fn path(&self) -> PathFacts {
        match &self.far {
            Far::Loopback(family) => PathFacts {
                spec: "loopback".into(),
                kind: "loopback".into(),
                address: family.loopback().to_string(),
            },
            Far::Server { host, server } => PathFacts {
                spec: host.clone(),
                kind: "remote".into(),
                address: server.address.to_string(),
            },
        }
    }
}

/// What both agents of a trial are told.
struct Plans<'a> {
    order: &'a Order,
    assigned: Assigned,
    token: Token,
    endpoint: Endpoint,
}

impl Plans<'_> {
    fn near(&self, endpoint: Endpoint) -> AgentPlan {
        let samples = self.order.samples.clone();
        AgentPlan { samples, cpu: self.assigned.near, ..self.plan(Side::Near, endpoint) }
    }

    fn far(&self) -> AgentPlan {
        AgentPlan { cpu: self.assigned.far, ..self.plan(Side::Far, self.endpoint.clone()) }
    }

    fn plan(&self, side: Side, endpoint: Endpoint) -> AgentPlan {
        AgentPlan {
            side,
            contender: self.order.contender.clone(),
            workload: self.order.workload.clone(),
            endpoint,
            token: self.token,
            seed: self.order.seed,
            cpu: None,
            wait: self.assigned.wait,
            samples: None,
            limits: None,
        }
    }
}

/// Waits until the far agent listens.
fn await_ready(link: &mut Link, on_queued: &mut dyn FnMut(u32)) -> Result<Endpoint> {
    let mut left = SLACK;
    loop {
        if !link.has_word(left)? {
            return Err(Error::peer(link.who(), "it did not get ready in time"));
        }
        match link.hear()? {
            Word::Agent(FromAgent::Ready { endpoint }) => return Ok(endpoint),
            Word::Server(FromServer::Queued { ahead }) => {
                on_queued(ahead);
                left = QUEUE_TIMEOUT;
            }
            word => return Err(refusal(link, word)),
        }
    }
}

/// The error in a word that should have been another.
fn refusal(link: &Link, word: Word) -> Error {
    match word {
        Word::Agent(FromAgent::Fault(fault)) => match super::End::from(fault) {
            End::Blocked(evidence) => Error::blocked(evidence),
            End::Failed(Error::Peer { what, .. }) => Error::peer(link.who(), what),
            End::Failed(error) => error,
            End::Ran(_) => Error::peer(link.who(), "a fault that is none"),
        },
        Word::Server(FromServer::Refused(fault)) => {
            Error::peer(link.who(), format!("it refused: {fault}"))
        }
        _ => Error::peer(link.who(), "it spoke out of turn; use the same version on both ends"),
    }
}

/// Both ends of a trial.
struct Pair {
    near: Link,
    far: Option<Link>,
    near_report: Option<AgentReport>,
    far_report: Option<AgentReport>,
    stop: Arc<AtomicBool>,
}

/// One end, for words that come from either.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Near,
    Far,
}

struct BothReports {
    near: AgentReport,
    far: Option<AgentReport>,
}

impl Pair {
    fn await_connected(&mut self) -> Result<()> {
        let mut missing = 1 + usize::from(self.far.is_some());
        let deadline = Monotonic.now() + SLACK;
        while missing > 0 {
            match self.hear(deadline)? {
                (_, FromAgent::Connected) => missing -= 1,
                (from, word) => return Err(self.refused(from, word)),
            }
        }
        Ok(())
    }

    /// Starts both and sees them through to their reports.
    fn run(&mut self, longest: Nanos) -> Result<BothReports> {
        if let Some(far) = &mut self.far {
            far.tell(&ToAgent::Start)?;
        }
        self.near.tell(&ToAgent::Start)?;
        let deadline = Monotonic.now() + longest;
        loop {
            match self.hear(deadline)? {
                (from, FromAgent::Finished { sent }) => self.pass_on(from, sent)?,
                (From::Near, FromAgent::Done(report)) => self.near_report = Some(*report),
                (From::Far, FromAgent::Done(report)) => self.far_report = Some(*report),
                (from, word) => return Err(self.refused(from, word)),
            }
            // An agent that has reported is gone, and its line with it; it is not listened to again.
            if let (Some(near), false) = (&self.near_report, self.far_is_awaited()) {
                return Ok(BothReports { near: near.clone(), far: self.far_report.take() });
            }
        }
    }

    fn far_is_awaited(&self) -> bool {
        self.far.is_some() && self.far_report.is_none()
    }

    /// Tells the other end that this one has sent all it will.
    fn pass_on(&mut self, from: From, sent: Vec<Tally>) -> Result<()> {
        let other = match from {
            From::Near => self.far.as_mut(),
            From::Far => Some(&mut self.near),
        };
        let Some(other) = other else { return Ok(()) };
        match other.tell(&ToAgent::PeerFinished { sent }) {
            // It has reported already and needs no telling.
            Err(_) if !other.is_through_server() => Ok(()),
            told => told,
        }
    }

    /// The next word of either end.
    fn hear(&mut self, deadline: Nanos) -> Result<(From, FromAgent)> {
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            let left = deadline - Monotonic.now();
            if left == Nanos::ZERO {
                return Err(Error::peer("trial", "it did not end in time; one end hangs"));
            }
            let near = self.near_report.is_none().then_some(&self.near);
            let far = self.far.as_ref().filter(|_| self.far_report.is_none());
            let from = first_of(near, far, left)?;
            let link = match (from, &mut self.far) {
                (None, _) => continue,
                (Some(From::Far), Some(far)) => far,
                (Some(_), _) => &mut self.near,
            };
            match link.hear()? {
                Word::Agent(word) => return Ok((from.unwrap_or(From::Near), word)),
                word @ Word::Server(_) => return Err(refusal(link, word)),
            }
        }
    }

    /// A fault of the far end may only echo the near end's, which knows more: it dialled.
    fn refused(&mut self, from: From, word: FromAgent) -> Error {
        let far_speaks = from == From::Far;
        if far_speaks && self.near.has_word(Nanos::from_millis(200)).unwrap_or(false) {
            if let Ok(word @ Word::Agent(FromAgent::Fault(_))) = self.near.hear() {
                return refusal(&self.near, word);
            }
        }
        match (&self.far, far_speaks) {
            (Some(far), true) => refusal(far, Word::Agent(word)),
            _ => refusal(&self.near, Word::Agent(word)),
        }
    }
}

/// Which of the links that are listened to has a word first; `None` after `timeout`.
fn first_of(near: Option<&Link>, far: Option<&Link>, timeout: Nanos) -> Result<Option<From>> {
    use std::os::fd::AsRawFd;
    // poll(2) ignores negative descriptors.
    let poll = |link: Option<&Link>| libc::pollfd {
        fd: link.map_or(-1, |link| link.fd().as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [poll(near), poll(far)];
    let ms = i32::try_from(timeout.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: `fds` is an array of two valid pollfds.
    if unsafe { libc::poll(fds.as_mut_ptr(), 2, ms) } < 0 {
        let error = std::io::Error::last_os_error();
        let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
        return if interrupted {
            Ok(None)
        } else {
            Err(Error::setup("wait for both agents", error))
        };
    }
    Ok(match fds.map(|fd| fd.revents != 0) {
        [true, _] => Some(From::Near),
        [_, true] => Some(From::Far),
        _ => None,
    })
}

fn conclude(contender: &Contender, task: &dyn Task, reports: &BothReports) -> Record {
    let (near, far) = (&reports.near, reports.far.as_ref());
    let info = contender.transport.info();
    let findings = task.conclude(&Reports {
        near: &near.halves,
        far: far.map_or(&[], |far| &far.halves),
        near_conns: &near.conns,
        far_conns: far.map_or(&[], |far| &far.conns),
        guarantees: &info.guarantees,
    });
    let open = findings.ledger.accounts().find(|(_, account)| !account.closes());
    let why_open = open.map(|(way, account)| {
        let why = account.open_because.clone().unwrap_or_else(|| "the sums differ".into());
        format!("the {way} ledger does not close: {why}")
    });
    let why_invalid = findings.why_invalid.or(why_open);
    let conns: Vec<&ConnStats> =
        near.conns.iter().chain(far.iter().flat_map(|far| &far.conns)).collect();
    let retransmits = conns.iter().filter_map(|conn| conn.retransmits).reduce(|a, b| a + b);
    Record {
        valid: why_invalid.is_none(),
        why_invalid,
        implementation: String::new(),
        metrics: findings.metrics,
        censored: findings.censored,
        rtt_ns: findings.rtt_ns,
        send_lateness_ns: findings.send_lateness_ns,
        clock: findings.clock,
        ledger: findings.ledger,
        cost: near.cost.clone(),
        far_cost: far.map(|far| far.cost.clone()).filter(|cost| *cost != Cost::default()),
        effective: near.effective.clone(),
        far_effective: far.map(|far| far.effective.clone()).unwrap_or_default(),
        connect_ns: near.conns.iter().map(|conn| conn.connect_ns).max().unwrap_or(0),
        retransmits,
        steal_share: near.steal_share,
        load: near.load,
        started_ms: 0,
        took_ns: 0,
    }
}

fn epoch_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

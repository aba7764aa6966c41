//! The real runner: starts two agents per trial, far and near, leads them through it, and brings
//! their reports together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::contract::{PeerKind, Reach, Side};
use crate::error::{Error, Result};
use crate::figures::path::PathFigures;
use crate::path::Family;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::hello::Token;
use crate::transport::{Contender, Endpoint, unserved};
use crate::workload::{NamedFile, Task};

use super::EmulatedPath;
use super::conclude::conclude;
use super::control::ToAgent;
use super::files::{Files, Overwrite};
use super::host::HostFacts;
use super::host_probe::HostProbe;
use super::idle::{Awake, Idle};
use super::link::Link;
use super::live::{Live, Row};
use super::load::LoadOrder;
use super::means::NO_FILES;
use super::pair::{BothReports, Pair, SLACK, await_ready};
use super::patient::sleep;
use super::placement::{Ends, Load, Placement, choose};
use super::plans::{LoadPlan, Plans};
use super::quiet::{self, Disturbance, ProbePoint, Settled};
use super::remote::RemoteServer;
use super::topology::Topology;
use super::{End, Noted, Order, PathFacts, Record, Runner};

/// Location of the far end.
#[derive(Debug)]
pub enum Far {
    /// Another process on this machine.
    Loopback(Family),
    /// A host behind a path that this program emulates on this machine.
    Emulated(Box<EmulatedPath>),
    /// Host behind a server.
    Server {
        /// Name of the host as typed after `--to`.
        host: String,
        /// The connection.
        server: Box<RemoteServer>,
    },
}

impl Far {
    /// Returns the time by which a trial may exceed the work and the usual slack before it counts
    /// as hung.
    fn extra_time(&self) -> Nanos {
        match self {
            Far::Emulated(path) => path.extra_time(),
            Far::Loopback(_) | Far::Server { .. } => Nanos::ZERO,
        }
    }
}

/// Runs trials with real agents.
pub struct Agents {
    far: Far,
    facts: HostFacts,
    /// Told of the place in a server's queue.
    on_queued: Box<dyn FnMut(u32)>,
    /// Told how a trial goes while it runs.
    on_interval: Option<OnInterval>,
    /// Set to call off the trial under way.
    stop: Arc<AtomicBool>,
    noted: Option<Noted>,
    files: Files,
    /// Measures this host where the race's placement puts the ends, once that is known.
    probe: Option<HostProbe>,
    /// Held where the CPUs are to stay awake.
    awake: Option<Awake>,
}

/// Callback for each interval of a trial under way.
type OnInterval = Box<dyn FnMut(&Row)>;

impl Agents {
    /// Creates a runner for trials against `far`.
    pub fn new(far: Far) -> Agents {
        Agents {
            far,
            facts: HostFacts::gather(),
            on_queued: Box::new(|_| {}),
            on_interval: None,
            stop: Arc::default(),
            noted: None,
            files: Files::default(),
            probe: None,
            awake: None,
        }
    }

    /// Sets whether files that exist before the first trial may be replaced by received ones.
    pub fn overwrite(mut self, overwrite: Overwrite) -> Agents {
        self.files = Files::new(overwrite);
        self
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

    /// Calls `tell` for each interval while a trial runs. Without this, no agent is asked for them, and
    /// none wakes up to tell.
    pub fn on_interval(mut self, tell: impl FnMut(&Row) + 'static) -> Agents {
        self.on_interval = Some(Box::new(tell));
        self
    }

    fn emulated(&self) -> Option<&EmulatedPath> {
        match &self.far {
            Far::Emulated(path) => Some(path),
            Far::Loopback(_) | Far::Server { .. } => None,
        }
    }

    fn ends(&self) -> Ends {
        match self.far {
            Far::Loopback(_) => Ends::OneMachine,
            Far::Emulated(_) => Ends::ThroughEmulator,
            Far::Server { .. } => Ends::TwoMachines,
        }
    }

    /// Returns the endpoint at which the far end binds, or the kernel answers.
    fn endpoint(&self, contender: &Contender) -> Result<Endpoint> {
        match (contender.transport.info().reach, &self.far) {
            (Reach::Machine, Far::Loopback(_)) => Ok(Endpoint::Unix(String::new())),
            (Reach::Network | Reach::Path, Far::Loopback(family)) => {
                Ok(Endpoint::Ip(SocketAddr::new(family.loopback(), 0)))
            }
            (Reach::Network | Reach::Path, Far::Emulated(path)) => {
                Ok(Endpoint::Ip(SocketAddr::new(path.far_address()?, 0)))
            }
            (Reach::Network, Far::Server { server, .. }) => Ok(Endpoint::Ip(server.address)),
            (Reach::Path, Far::Server { .. }) => {
                Err(Error::usage(unserved(contender.transport.info().id)))
            }
            (Reach::Machine | Reach::Process, _) => Err(Error::usage(format!(
                "{} reaches one host only; leave it out of a race to another, emulated or real",
                contender.spec
            ))),
        }
    }

    fn trial(&mut self, order: &Order) -> Result<Record> {
        let started_ms = epoch_ms();
        let start = Monotonic.now();
        let contender = Contender::parse(&order.contender)?;
        let asked = crate::workload::parse(&order.workload)?;
        if matches!(self.far, Far::Server { .. }) && asked.files().iter().any(is_far) {
            return Err(Error::usage(NO_FILES));
        }
        let ready = self.files.ready(&*asked)?;
        let [near, far] =
            [Side::Near, Side::Far].map(|side| ready.told(&*asked, side, &order.workload));
        let task = crate::workload::parse(&near)?;
        let assigned = order.placement.assign(self.ends(), Topology::here())?;
        let plan = Plans {
            order,
            assigned,
            token: Token::fresh()?,
            endpoint: self.endpoint(&contender)?,
            live: self.on_interval.is_some(),
            workloads: [near, far],
            emulated: self.emulated().map(|path| path.terms()),
            goes_first: self.awake.is_some(),
        };
        let load = self.load(&plan, &*asked)?;
        let ran = self.see_through(&plan, &contender, &*task, load.as_ref());
        let (reports, account, load_reports) = ran.inspect_err(|_| self.files.abandon(&ready))?;
        self.noted = reports.noted();
        let (mut record, content) = conclude(&contender, &*task, &reports);
        if let Some((load, reports)) = load.as_ref().zip(load_reports) {
            load.0.conclude(&reports, &mut record.metrics);
        }
        if let Some(content) = content {
            let settled = self.files.settle(&ready, &content)?;
            record.verified = Some(settled.verified);
            record.why_invalid = record.why_invalid.or(settled.why_invalid);
            record.valid = record.why_invalid.is_none();
        }
        if let (Some(path), Some(account)) = (self.emulated(), account) {
            path.judge(account, &mut record);
        }
        record.started_ms = started_ms;
        record.took_ns = (Monotonic.now() - start).0;
        record.implementation = self.implementation(&contender, &record);
        Ok(record)
    }

    /// Returns the load that a trial has, with its endpoint and CPUs.
    fn load(&self, plan: &Plans<'_>, task: &dyn Task) -> Result<Option<(LoadOrder, LoadPlan)>> {
        let Some(load) = LoadOrder::of(task, plan.order)? else { return Ok(None) };
        let place = LoadPlan {
            assigned: LoadOrder::placed(&plan.assigned, Topology::here()),
            endpoint: self.endpoint(&load.contender)?,
            token: Token::fresh()?,
        };
        Ok(Some((load, place)))
    }

    /// Starts all agents, and sees them through to their reports; with the account of the path, where it
    /// keeps one, of before the ends part, and what the load's ends report.
    fn see_through(
        &mut self,
        plan: &Plans<'_>,
        contender: &Contender,
        task: &dyn Task,
        load: Option<&(LoadOrder, LoadPlan)>,
    ) -> Result<(BothReports, Option<PathFigures>, Option<BothReports>)> {
        let (far, endpoint) = self.listen(plan, contender)?;
        let load = load.map(|(load, place)| (load, plan.of_load(load, place)));
        let load = load.map(|(load, plan)| Ok((self.listen(&plan, &load.contender)?, load, plan)));
        let load = load.transpose()?;
        // What the ends of the trial before said last has arrived by now, and is none of this one's.
        if let Far::Emulated(path) = &mut self.far {
            path.begin(plan.order.seed)?;
        }
        let load = load.map(|((far, endpoint), load, plan)| {
            Ok::<_, Error>((self.dial(&plan, far, endpoint)?, load.lead))
        });
        let mut load = load.transpose()?;
        let mut pair = self.dial(plan, far, endpoint)?;
        if let Some((load, lead)) = &mut load {
            load.start()?;
            sleep(*lead, &self.stop).map_err(|_| Error::Interrupted)?;
        }
        let ends = 1 + usize::from(contender.transport.info().peer == PeerKind::Process);
        let mut live = Live::new(&plan.order.contender, ends * task.flows().len());
        let on_interval = &mut self.on_interval;
        let extra = self.far.extra_time();
        pair.start()?;
        let reports = pair.finish(task.longest() + SLACK + extra, &mut |side, flow, point| {
            if let (Some(tell), Some(row)) = (on_interval.as_mut(), live.note(side, flow, point)) {
                tell(&row);
            }
        })?;
        let load = load.map(|(mut load, _)| load.stop()).transpose()?;
        if let (Some(tell), Some(row)) = (on_interval, live.rest()) {
            tell(&row);
        }
        let account = match &mut self.far {
            Far::Emulated(path) => Some(path.end()?),
            Far::Loopback(_) | Far::Server { .. } => None,
        };
        Ok((reports.checked(task), account, load))
    }

    /// Starts the far agent, where there is one, and has it listen: at this endpoint.
    fn listen(
        &mut self,
        plan: &Plans<'_>,
        contender: &Contender,
    ) -> Result<(Option<Link>, Endpoint)> {
        let mut endpoint = plan.endpoint.clone();
        let mut far = None;
        if contender.transport.info().peer == PeerKind::Process {
            let mut link = match &self.far {
                Far::Loopback(_) => Link::to_process("far agent")?,
                Far::Emulated(path) => path.agent("far agent", Side::Far)?,
                Far::Server { server, .. } => {
                    let who = format!("server {}", server.address);
                    Link::to_server(&who, &server.control, Arc::clone(&self.stop))
                }
            };
            let open = ToAgent::Open(Box::new(plan.far()));
            endpoint = await_ready(&mut link, &open, &self.stop, &mut self.on_queued)?;
            if let Far::Server { server, .. } = &self.far {
                // The one port that control reached; behind a NAT the server knows another.
                endpoint = Endpoint::Ip(server.address);
            }
            far = Some(link);
        }
        Ok((far, endpoint))
    }

    /// Starts the near agent, and has both connect.
    fn dial(&mut self, plan: &Plans<'_>, far: Option<Link>, endpoint: Endpoint) -> Result<Pair> {
        let mut near = match &self.far {
            Far::Emulated(path) => path.agent("near agent", Side::Near)?,
            Far::Loopback(_) | Far::Server { .. } => Link::to_process("near agent")?,
        };
        near.tell(&ToAgent::Open(Box::new(plan.near(endpoint))))?;
        let stop = Arc::clone(&self.stop);
        let mut pair = Pair::new(near, far, stop);
        pair.await_connected(SLACK.max(plan.longest_to_connect()))?;
        Ok(pair)
    }

    /// Names who carried the bytes: `tcp/linux-6.18.44/cubic`.
    fn implementation(&self, contender: &Contender, record: &Record) -> String {
        let release = self.facts.kernel.split_whitespace().last().unwrap_or("?");
        contender.implementation(Some(release), &record.effective)
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
        // Without it no trial can start, and the host need not settle for that.
        super::process::program()?;
        let (ends, topology) = (self.ends(), Topology::here());
        let (placement, why) = match asked {
            Some(placement) => (placement, "asked for".to_owned()),
            None => choose(topology, ends, load),
        };
        placement.assign(ends, topology)?;
        self.probe = Some(HostProbe::new(placement, ends, topology, Arc::clone(&self.stop)));
        Ok((placement, why))
    }

    fn idle(&mut self, asked: Option<Idle>) -> Result<Option<Idle>> {
        self.awake = match (asked, &self.far) {
            (Some(Idle::Host), _) | (None, Far::Server { .. }) => None,
            (Some(Idle::Awake), _) => Some(Awake::hold()?),
            (None, Far::Loopback(_) | Far::Emulated(_)) => Awake::hold().ok(),
        };
        Ok(Some(if self.awake.is_some() { Idle::Awake } else { Idle::Host }))
    }

    fn settle(&mut self, tell: &mut dyn FnMut(&Disturbance)) -> Option<Settled> {
        Some(quiet::settle(self.probe.as_mut()?, tell))
    }

    fn probe(&mut self) -> Option<ProbePoint> {
        self.probe.as_mut()?.measure()
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        let far = match &self.far {
            Far::Loopback(_) | Far::Emulated(_) => None,
            Far::Server { server, .. } => Some(server.facts.clone()),
        };
        Ok((self.facts.clone(), far))
    }

    fn noted(&mut self) -> Option<Noted> {
        self.noted.take()
    }

    fn path(&self) -> PathFacts {
        match &self.far {
            Far::Loopback(family) => PathFacts {
                spec: "loopback".into(),
                kind: "loopback".into(),
                address: family.loopback().to_string(),
                built: None,
            },
            Far::Emulated(path) => path.facts(),
            Far::Server { host, server } => PathFacts {
                spec: host.clone(),
                kind: "remote".into(),
                address: server.address.to_string(),
                built: None,
            },
        }
    }
}

impl BothReports {
    /// Returns the notes of both ends, if they were to take any.
    fn noted(&self) -> Option<Noted> {
        let far = self.far.as_ref();
        Some(Noted {
            near: *self.near.notes.clone()?,
            far: far.and_then(|far| far.notes.as_deref().cloned()),
            conns: [self.near.conns.clone(), far.map_or_else(Vec::new, |far| far.conns.clone())],
            halves: [self.near.halves.clone(), far.map_or_else(Vec::new, |far| far.halves.clone())],
        })
    }
}

fn is_far(file: &NamedFile) -> bool {
    file.side == Side::Far
}

fn epoch_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

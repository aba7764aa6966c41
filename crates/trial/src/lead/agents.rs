//! Real runner: starts two agents per trial, far and near, leads them through it, and combines their reports.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos, epoch_ms};
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::path::PathFigures;
use deadheat_contract::workload::{NamedFile, SharedTask};
use deadheat_datapath::transport::commands::CommandPair;
use deadheat_datapath::transport::via::Via;

use super::both_reports::BothReports;
use super::cast::{Cast, Group};
use super::conclude::conclude;
pub use super::far::Far;
use super::far_clock::FarClocks;
use super::files::{Overwrite, TrialFiles};
use super::live::{Live, LiveRow};
use super::load::TimeBeside;
use super::nodes::{Nodes, with_slack};
use super::path_probe::PathProbes;
use super::served::ServedCast;
use super::served_pair::ServedPairs;
use super::{load, others, stints::Stints};
use crate::agent::means::NO_FILES;
use crate::between::turn::way::RelayWay;
use crate::control::patient::sleep;
use crate::control::remote::ServerWait;
use crate::observers::Observers;
use crate::{
    EmulatedPath, FarLink, Observations, Order, OwnHost, Reconnection, Runner, TrialOutcome, floods,
};
use deadheat_host::block_probe::HostProbe;
use deadheat_host::idle::{self, Awake, ClaimKind};
use deadheat_host::placement::{Ends, Load, assign, choose};
use deadheat_host::settling;
use deadheat_host::topology::Topology;
use deadheat_records::commands::ProgramFile;
use deadheat_records::host::HostFacts;
use deadheat_records::idle::Idle;
use deadheat_records::placement::Placement;
use deadheat_records::quiet::{Disturbance, ProbePoint, SettlingOutcome};
use deadheat_records::trial::{PathFacts, Record};

mod dialling;
mod opening;
mod turn;

use turn::TurnWait;

/// Runs trials with real agents.
pub struct Agents {
    far: Far,
    facts: HostFacts,
    /// Wait for a turn at a server or a far end of others.
    turn: TurnWait,
    /// Callback for each interval of the running trial.
    on_interval: Option<OnInterval>,
    /// Flag that calls off the running trial.
    stop: Arc<AtomicBool>,
    /// Observations of the last trial, if it was an instrumented one.
    noted: Option<Observations>,
    /// Files that the work sends and receives.
    files: TrialFiles,
    /// Probes of the path to a server.
    path_probes: PathProbes,
    /// Probe of this host on the CPUs where the placement puts the ends, once the placement is known.
    probe: Option<HostProbe>,
    /// Guard that keeps the CPUs awake, if they must be.
    awake: Option<Awake>,
    /// True if both ends of a trial run at a higher priority than other programs.
    goes_first: bool,
    /// Most bytes of a blast towards another host, per direction and trial.
    blast: Option<u64>,
    /// Changes at the far end that the race does not know of yet.
    changes: Vec<String>,
    /// Clocks of the far hosts, if they have clocks of their own.
    far_clocks: FarClocks,
    /// Time since which nothing came from the far end in the last lost trial, if it is known.
    silent_since: Option<Nanos>,
    /// Pairs of commands that a server offers.
    pairs: ServedPairs,
    /// Observers of the packets of each trial.
    observers: Observers,
}

/// Reports of all groups of a trial.
struct GroupReports {
    work: BothReports,
    loads: Vec<BothReports>,
    /// Account of the path, if it keeps one, taken before the ends part.
    account: Option<PathFigures>,
    /// Time at which the trial was started.
    began: Nanos,
    /// Time of the work, counted from the start of the loads that began before it.
    beside: Option<TimeBeside>,
}

/// Callback for each interval of a trial under way.
type OnInterval = Box<dyn FnMut(&LiveRow)>;

impl Agents {
    /// Creates a runner for trials against `far`.
    pub fn new(far: Far) -> Agents {
        Agents {
            far,
            facts: deadheat_host::facts::gather(),
            turn: TurnWait::new(),
            on_interval: None,
            stop: Arc::default(),
            noted: None,
            files: TrialFiles::default(),
            path_probes: PathProbes::default(),
            probe: None,
            awake: None,
            goes_first: false,
            blast: None,
            changes: Vec::new(),
            far_clocks: FarClocks::default(),
            silent_since: None,
            pairs: ServedPairs::default(),
            observers: Observers::default(),
        }
    }

    /// Sets whether files that exist before the first trial may be replaced by received ones.
    pub fn overwrite(mut self, overwrite: Overwrite) -> Agents {
        self.files = TrialFiles::new(overwrite);
        self
    }

    /// Observes the packets of each trial on an emulated path.
    pub fn observe(mut self, observers: Observers) -> Agents {
        self.observers = observers;
        self
    }

    /// Ends trials that flood the path to another host after `bytes` per direction.
    pub fn blast(mut self, bytes: Option<u64>) -> Agents {
        self.blast = bytes;
        self
    }

    /// Calls off the running trial once `flag` is set (Ctrl-C).
    pub fn stop_on(mut self, flag: Arc<AtomicBool>) -> Agents {
        self.stop = flag;
        self
    }

    /// Calls `callback` with the number of trials ahead of ours whenever a server queues us.
    pub fn on_queued(mut self, callback: impl FnMut(u32) + 'static) -> Agents {
        self.turn.on_queued = Box::new(callback);
        self
    }

    /// Calls `callback` for each interval while a trial runs. Without this, agents are not asked for intervals and do
    /// not wake up to report any.
    pub fn on_interval(mut self, callback: impl FnMut(&LiveRow) + 'static) -> Agents {
        self.on_interval = Some(Box::new(callback));
        self
    }

    fn trial(&mut self, order: &Order) -> Result<Record> {
        let started_ms = epoch_ms(SystemTime::now());
        let start = Monotonic.now();
        self.turn.reset();
        let asked = &order.pairing.task;
        let is_far = |file: &NamedFile| file.side == Side::Far;
        if self.far.ends() == Ends::TwoMachines && asked.info().files.iter().any(is_far) {
            return Err(Error::usage(NO_FILES));
        }
        let ready = self.files.ready(&**asked)?;
        let work_by_side = [ready.work_for(asked, Side::Near)?, ready.work_for(asked, Side::Far)?];
        self.meet_relays(order)?;
        let mut cast = self.cast(order, work_by_side)?;
        let before = self.far_clocks.before(&self.far, &mut cast, &self.stop)?;
        let ran = self.see_through(&cast).inspect_err(|_| self.files.abandon(&ready))?;
        self.noted = ran.work.noted();
        let (mut record, content) = conclude(&cast.work.contender, &*cast.work.task, &ran.work);
        for (load, reports) in cast.loads.iter().zip(&ran.loads) {
            let tasks = (&*cast.work.task, &*load.task);
            load::conclude(&load.contender, tasks, reports, ran.beside, &mut record);
        }
        if let Some(content) = content {
            let settled = self.files.settle(&ready, &content)?;
            record.verified = Some(settled.verified);
            record.why_invalid = record.why_invalid.or(settled.why_invalid);
            record.valid = record.why_invalid.is_none();
        }
        self.far_clocks.after(before, (&self.far, &cast, &self.stop), &mut record)?;
        if let (Some(path), Some(account)) = (self.far.emulated(), ran.account) {
            path.judge(account, &mut record);
            if self.observers.captures() {
                record.captured = path.capture()?;
            }
        }
        record.start_at(started_ms, ran.began - start);
        record.took_ns = (Monotonic.now() - start).0;
        record.turn_wait_ns = self.turn.waited().0;
        // The transport that carried the bytes, with its implementation: `tcp/linux-6.18.44/cubic`.
        let release = self.facts.kernel.split_whitespace().last().unwrap_or("?");
        record.implementation =
            cast.work.contender.implementation(Some(release), &record.effective);
        self.path_probes.note(&self.far, &cast.work, &self.stop, &mut record);
        Ok(record)
    }

    /// Connects to the hosts of relays that the trial goes through, unless that has been done.
    fn meet_relays(&mut self, order: &Order) -> Result<()> {
        let load = order.pairing.load.as_deref().map(|load| &load.contender);
        let turn = &mut self.turn;
        let mut waiting = ServerWait { stop: &self.stop, on_full: &mut |_| turn.note(u32::MAX) };
        for contender in [&order.pairing.contender].into_iter().chain(load) {
            if let Via::RelayAt { host } = &contender.via {
                self.far.meet_relay(host, &mut waiting).map_err(|error| match error {
                    // The others race without it.
                    Error::Setup { .. } | Error::Peer { .. } => {
                        Error::blocked(format!("no relay at {host}: {error}"))
                    }
                    error => error,
                })?;
            }
        }
        self.turn.end();
        Ok(())
    }

    /// Returns the groups that take part in a trial.
    fn cast(&self, order: &Order, work_by_side: [SharedTask; 2]) -> Result<Cast> {
        let assigned = assign(order.placement, self.far.ends(), Topology::here())?;
        let mut work = Group::measured(order, work_by_side, assigned)?;
        work.live = self.on_interval.is_some();
        work.goes_first = self.goes_first;
        if let Some(path) = self.far.emulated() {
            (work.emulated, work.hosts) = (Some(path.terms()), path.hosts());
        }
        if let Some(server) = self.far.first_server() {
            work = work.served()?;
            work.blast = self.blast.filter(|_| floods(&work.contender, &*work.task));
            work.origin = server.origin().clone();
            work.at = self.far.places(&work.contender)?;
        }
        if let Far::Others { typed, origin, pin, .. } = &self.far {
            work = work.at_others(typed, origin, self.blast);
            work.far_pin.clone_from(pin);
        }
        work.way = RelayWay::of(&work.contender.via, &self.far)?;
        self.path_probes.fit(&mut work);
        let mut loads = Vec::new();
        if let Some(mut group) = Group::load(&work, Topology::here())? {
            group.hosts = self.far.emulated().map(EmulatedPath::load_hosts).unwrap_or_default();
            group.way = RelayWay::of(&group.contender.via, &self.far)?;
            let is_blast = group.is_served && floods(&group.contender, &*group.task);
            group.blast = self.blast.filter(|_| is_blast);
            self.path_probes.fit(&mut group);
            loads.push(group);
        }
        let asked = order.pairing.task.info().load.as_ref();
        let lead = asked.map_or(Nanos::ZERO, |load| load.lead);
        let stint = asked.and_then(|load| load.stint);
        Ok(Cast { loads, lead, stint, work })
    }

    /// Starts all nodes, and leads them to their reports.
    fn see_through(&mut self, cast: &Cast) -> Result<GroupReports> {
        let mut served = self.serve(cast)?;
        let groups: Vec<&Group> = [&cast.work].into_iter().chain(&cast.loads).collect();
        let mut listening = self.listen(&groups, served.as_mut())?;
        let (loads, work) = (listening.split_off(1), listening.pop().unwrap_or_default());
        // The last packets of the previous trial's ends have arrived by now, so that they do not count for this one.
        if let Far::Emulated(path) = &mut self.far {
            if let Some(observation) = self.observers.of(&cast.work.order) {
                path.observe(observation)?;
            }
            path.begin(cast.work.order.seed)?;
        }
        let loads = cast.loads.iter().zip(loads).map(|(load, at)| self.dial(load, at));
        let mut loads = loads.collect::<Result<Vec<_>>>()?;
        let mut work = self.dial(&cast.work, work)?;
        let loaded = Monotonic.now();
        if cast.stint.is_none() {
            loads.iter_mut().try_for_each(Nodes::start)?;
            sleep(cast.lead, &self.stop).map_err(|_| Error::Interrupted)?;
        }
        let mut stints = Stints::new(loads, cast.stint);
        let began = Monotonic.now();
        let reports = self.finish(&cast.work, &mut work, &mut stints)?;
        let beside = cast
            .stint
            .is_none()
            .then(|| TimeBeside { from: began - loaded, to: Some(Monotonic.now() - loaded) });
        let loads = stints.reports()?;
        let account = match &mut self.far {
            Far::Emulated(path) => Some(path.end()?),
            Far::Loopback(_) | Far::Servers(_) | Far::Others { .. } => None,
        };
        let work = others::complete_group(reports, &cast.work);
        let work = self.far_clocks.observe(&self.far, cast, work);
        Ok(GroupReports { work, loads, account, began, beside })
    }

    /// Starts the measured work, passes its intervals to the callback if there is one, and returns the reports.
    fn finish(
        &mut self,
        group: &Group,
        nodes: &mut Nodes,
        stints: &mut Stints,
    ) -> Result<BothReports> {
        let flows = group.task.info().flows.len();
        // A stand-in reports no points.
        let far = if group.far_nodes > 0 && group.far_end.is_none() { flows } else { 0 };
        let near = (0..group.near_nodes()).flat_map(|node| group.flows(Side::Near, node));
        let near = near.map(|flow| (Side::Near, flow));
        let all = near.chain((0..far as u16).map(|flow| (Side::Far, flow)));
        let label = group.task.info().delay_label();
        let mut live = Live::new(&group.order.contender(), label, group.order.interval, all);
        let longest = with_slack(group.task.info().longest) + self.far.extra_time();
        let on_interval = &mut self.on_interval;
        nodes.start()?;
        stints.count_from(Monotonic.now());
        let mut on_point = |side, flow, point| {
            if let Some(callback) = on_interval.as_mut() {
                live.note(side, flow, point).iter().for_each(callback);
            }
        };
        let reports = nodes.finish(longest, &mut on_point, &mut |now| stints.on_time(now));
        if reports.is_err() && self.far.is_lost() {
            self.silent_since = nodes.silent_since();
        }
        let reports = reports?;
        if let Some(callback) = on_interval {
            live.rest().iter().for_each(callback);
        }
        Ok(reports)
    }

    /// Opens the control connections to a server for all far nodes; `None` without a server.
    fn serve(&mut self, cast: &Cast) -> Result<Option<ServedCast>> {
        if self.far.hosts().is_empty() {
            return Ok(None);
        }
        let served = ServedCast::of(cast, &self.far)?;
        let turn = &mut self.turn;
        let mut waiting = ServerWait { stop: &self.stop, on_full: &mut |_| turn.note(u32::MAX) };
        served.connect(&mut self.far, &mut waiting)?;
        self.turn.end();
        Ok(Some(served))
    }
}

impl Runner for Agents {
    fn run(&mut self, order: &Order) -> TrialOutcome {
        // A server closes a connection on which nothing happened for minutes; that costs no trial.
        if self.far.is_gone() {
            match self.reconnect() {
                Ok(Reconnection::Back) => {}
                Ok(Reconnection::Away(why)) => return TrialOutcome::Lost(why),
                Err(error) => return error.into(),
            }
        }
        // Probes are outside of the trial and its time.
        let ready = self.path_probes.prepare(&self.far, &order.pairing, &self.stop);
        let ran = ready
            .and_then(|()| others::dialled(order, || self.trial(order)))
            .map(Box::new)
            .map_err(|error| {
                self.path_probes.explain(&self.far, &order.pairing, &self.stop, error)
            });
        ran.map_or_else(|error| self.far.outcome_of(error), TrialOutcome::Ran)
    }

    fn placement(&mut self, asked: Option<Placement>, load: Load) -> Result<(Placement, String)> {
        // Without the program's path no trial can start, so this fails before the host settles.
        crate::process::program()?;
        let (ends, topology) = (self.far.ends(), Topology::here());
        let (placement, why) = match asked {
            Some(placement) => (placement, "asked for".to_owned()),
            None => choose(topology, ends, load),
        };
        assign(placement, ends, topology)?;
        let probe = HostProbe::new(placement, ends, topology, Arc::clone(&self.stop));
        let is_elsewhere =
            || self.far.first_server().is_some_and(|far| far.facts.hostname != self.facts.hostname);
        let is_apart = ends != Ends::TwoMachines || is_elsewhere();
        self.probe = Some(if is_apart { probe.with_others() } else { probe });
        Ok((placement, why))
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        let far = self.far.first_server().map(|server| server.facts.clone());
        Ok((self.facts.clone(), far))
    }

    fn path(&self) -> PathFacts {
        self.far.facts()
    }

    fn noted(&mut self) -> Option<Observations> {
        self.noted.take()
    }

    fn own_host(&mut self) -> Option<&mut dyn OwnHost> {
        Some(self)
    }

    fn far_link(&mut self) -> Option<&mut dyn FarLink> {
        Some(self)
    }
}

impl OwnHost for Agents {
    fn idle(
        &mut self,
        asked: Option<(Idle, &'static str)>,
        claimed: ClaimKind,
    ) -> Result<(Idle, String)> {
        let (wanted, why) = asked.unwrap_or_else(|| idle::choose(claimed, self.far.ends()));
        let is_here = self.far.ends() != Ends::TwoMachines;
        self.goes_first = wanted == Idle::Awake || (asked.is_none() && is_here);
        self.awake = match (wanted == Idle::Awake).then(Awake::hold).transpose() {
            Ok(awake) => awake,
            Err(error) if asked.is_some() => return Err(error),
            Err(error) => return Ok((Idle::Host, error.to_string())),
        };
        Ok((wanted, why.to_owned()))
    }

    fn settle(&mut self, on_wait: &mut dyn FnMut(&Disturbance)) -> Option<SettlingOutcome> {
        Some(settling::settle(self.probe.as_mut()?, on_wait))
    }

    fn probe(&mut self) -> Option<ProbePoint> {
        self.probe.as_mut()?.measure()
    }
}

impl FarLink for Agents {
    fn knock(&mut self) -> std::result::Result<Nanos, String> {
        self.far.knock()
    }

    fn silent_ms(&mut self) -> Option<u64> {
        let since = self.silent_since.take()?;
        Some(epoch_ms(SystemTime::now()).saturating_sub((Monotonic.now() - since).0 / 1_000_000))
    }

    fn reconnect(&mut self) -> Result<Reconnection> {
        // The host may have started anew, and its clock with it.
        self.far_clocks = FarClocks::default();
        self.path_probes.doubt();
        let (reached, changes) = self.far.reconnect(&self.stop)?;
        self.changes.extend(changes);
        Ok(reached)
    }

    fn changes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.changes)
    }

    fn round_trip(&self) -> Option<Nanos> {
        self.far.servers().iter().filter_map(|server| server.round_trip()).max()
    }

    fn far_files(&mut self, pair: &Arc<CommandPair>) -> Result<Option<Vec<ProgramFile>>> {
        if self.far.first_server().is_none() {
            return Ok(None);
        }
        self.pairs.offer(&self.far, pair, &self.stop).map(|offer| Some(offer.files.clone()))
    }
}

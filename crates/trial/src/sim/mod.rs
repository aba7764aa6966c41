//! Simulation: trials in virtual time, with both hosts, both ends of the connection and the path in this process,
//! without a socket or a second thread. The same seed gives the same figures to the last bit, on any machine.
//!
//! Halves, driver loop and summing up are the same as in real trials, and so is the path's effect on a packet. A
//! simulated host takes no time for anything; its interface hands packets over at 10 Gbit/s, or at the path's rate if
//! that is higher, and never delays a single packet. Control takes no time, and loses nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deadheat_base::panics::contained;

use super::{Order, Pairing, Runner};
use crate::TrialOutcome;
use crate::lead::both_reports::BothReports;
use crate::lead::conclude::conclude;
use crate::lead::live::{Live, LiveRow};
use crate::lead::load::{self, TimeBeside};
use crate::lead::nodes::with_slack;
use crate::observers::Observers;
use crate::path::emulated::NodeHosts;
use crate::path::model_time;
use cast::{SimulatedCast, places, report};
use deadheat_base::error::{Error, Result};
use deadheat_base::rng::first;
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_contract::contract::{Ending, Framing, Lane, Reach, Service, Side};
use deadheat_contract::workload::{Clocks, Task};
use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::several::{self, Strand};
use deadheat_datapath::transport::userspace::{OverPath, UDP_HEADER, Userspace};
use deadheat_datapath::transport::via::Via;
use deadheat_host::placement::Load;
use deadheat_path::network::Network;
use deadheat_path::{Family, PathKind};
use deadheat_records::host::HostFacts;
use deadheat_records::placement::Placement;
use deadheat_records::trial::{PathFacts, Record};
use flight::{Cutter, MOST_PARTS};
use wires::Wires;
use world::{LoadSchedule, Role, World};

mod cast;
mod end;
pub mod fake;
mod flight;
mod header;
mod middlebox;
mod wires;
mod world;

/// Start time of each trial on its own clock. Not 0, which some messages use for an absent time.
const BEGIN: Nanos = Nanos::from_secs(1);

/// Runner of trials in virtual time.
pub struct Simulation {
    typed: String,
    network: Network,
    cutter: Cutter,
    /// Clock with the time that all trials have taken so far.
    clock: Manual,
    stop: Arc<AtomicBool>,
    on_interval: Option<OnInterval>,
    observers: Observers,
}

/// Callback for each interval of the running trial.
type OnInterval = Box<dyn FnMut(&LiveRow)>;

impl Simulation {
    /// Creates a runner for trials over `network`; `typed` is its text.
    ///
    /// # Errors
    /// [`Error::Usage`] if a host between others has a network card of a given rate, or if two hosts have several links.
    pub fn new(typed: &str, network: Network, family: Family) -> Result<Simulation> {
        let ip_header = if family == Family::V6 { 40 } else { 20 };
        wires::check(&network).map_err(|error| Error::usage(format!("path `{typed}`: {error}")))?;
        Ok(Simulation {
            typed: typed.to_owned(),
            cutter: Cutter { mtu: u64::from(network.mtu()), ip_header },
            network,
            clock: Manual::default(),
            stop: Arc::default(),
            on_interval: None,
            observers: Observers::default(),
        })
    }

    /// Calls off the running trial once `flag` is set (Ctrl-C).
    pub fn stop_on(mut self, flag: Arc<AtomicBool>) -> Simulation {
        self.stop = flag;
        self
    }

    /// Calls `callback` for each interval of each trial.
    pub fn on_interval(mut self, callback: impl FnMut(&LiveRow) + 'static) -> Simulation {
        self.on_interval = Some(Box::new(callback));
        self
    }

    /// Observes the packets of each trial.
    pub fn observe(mut self, observers: Observers) -> Simulation {
        self.observers = observers;
        self
    }

    /// Returns the clock of the race: virtual time, which advances in trials only.
    pub fn clock(&self) -> Manual {
        self.clock.clone()
    }

    fn trial(&mut self, order: &Order) -> Result<Record> {
        let Pairing { contender, task, load } = &order.pairing;
        self.fits(contender, &**task)?;
        let clock = Manual::default();
        clock.advance_to(BEGIN);
        let seed = self.network.seed.unwrap_or(order.seed);
        let observation = self.observers.of(order);
        let mut wires = Wires::new(&self.network, seed, self.cutter.ip_header);
        wires.observe(observation.as_ref())?;
        let outage = model_time::outage(&self.network);
        let mut world =
            World::new(clock.clone(), wires, self.cutter, outage).stop_on(Arc::clone(&self.stop));
        let beside = self.connect(&mut world, order, &clock)?;
        let flows = 0..task.info().flows.len() as u16;
        let flows = flows.flat_map(|flow| [(Side::Near, flow), (Side::Far, flow)]);
        let label = task.info().delay_label();
        let mut live = Live::new(&order.contender(), label, order.interval, flows);
        let on_interval = &mut self.on_interval;
        let drain = model_time::drain(&self.network);
        let longest = with_slack(task.info().longest) + drain + outage;
        let ran = world.run(beside, longest, &mut |side, flow, point| {
            if let Some(callback) = on_interval.as_mut() {
                live.note(side, flow, point).iter().for_each(callback);
            }
        });
        ran.map_err(|error| of_contender(&order.contender(), error))?;
        if let Some(callback) = on_interval {
            live.rest().iter().for_each(callback);
        }
        let figures = world.figures();
        let captured = world.capture(&self.network, observation);
        let (ends, beside, took) = world.stops();
        let both = |ends: [Vec<end::Stops>; 2]| {
            let [near, far] = ends.map(report);
            let (far, carriers) = (Some(far), Default::default());
            BothReports { near, far, took, clocks: Clocks::Shared, doubt: None, carriers }
        };
        let (mut record, _) = conclude(contender, &**task, &both(ends).checked(&**task));
        if let Some(load) = load {
            let tasks = (&**task, &*load.task);
            let asked = task.info().load.as_ref().filter(|asked| asked.stint.is_none());
            let time = asked.map(|asked| TimeBeside { from: asked.lead, to: None });
            load::conclude(&load.contender, tasks, &both(beside), time, &mut record);
        }
        let began = self.clock.now();
        self.clock.advance_to(began + took);
        record.took_ns = took.0;
        record.path = Some(figures);
        record.captured = captured;
        record.implementation = contender.implementation(None, &record.effective);
        Ok(record)
    }

    /// Connects the flows of the work and of the load beside it, and returns the times of the load.
    fn connect(&self, world: &mut World, order: &Order, clock: &Manual) -> Result<LoadSchedule> {
        let Pairing { contender, task, .. } = &order.pairing;
        let [hosts, load_hosts] =
            [NodeHosts::of_work(&self.network), NodeHosts::of_load(&self.network)];
        let cast = SimulatedCast {
            hosts: &hosts,
            transit: model_time::transit(&self.network),
            order,
            contender,
            task: &**task,
            cutter: self.cutter,
            clock,
            is_viewed: self.on_interval.is_some(),
        };
        let mut casts = vec![(Role::Measured, cast)];
        let load_order = load::order(order);
        if let Some(order) = &load_order {
            let Pairing { contender, task, .. } = &order.pairing;
            self.fits(contender, &**task)?;
            let (hosts, task) = (&load_hosts, &**task);
            casts.push((Role::Load, SimulatedCast { hosts, order, contender, task, ..cast }));
        }
        // One of both has to be first; seeds decide, so that neither role gains by it.
        if first(order.seed) & 1 == 0 {
            casts.reverse();
        }
        for (role, cast) in casts {
            let connected = world.connect(role, cast.group()?);
            connected.map_err(|error| of_contender(&cast.order.contender(), error))?;
        }
        let load = task.info().load.as_ref();
        Ok(load.map_or_else(LoadSchedule::default, |load| LoadSchedule {
            lead: load.lead,
            stint: load.stint,
        }))
    }

    /// Checks that the contender can do the work here.
    ///
    /// # Errors
    /// [`Error::Usage`] with an alternative if the contender is a kernel's, if the work uses files, if two of its nodes
    /// that send to each other are at one host, or if its messages are too large for the path.
    pub fn fits(&self, contender: &Contender, task: &dyn Task) -> Result<()> {
        if contender.external.is_some() || contender.commands.is_some() {
            return Err(Error::usage(format!(
                "`{}`: no command runs in virtual time; leave out `sim:`, and the path is emulated",
                contender.spec
            )));
        }
        for one in carriers(contender)? {
            self.takes(one.contender, task)?;
        }
        if contender.via != Via::Direct {
            return Err(Error::usage(format!(
                "`{}`: no relay stands on a simulated path; leave out `sim:`, and it is emulated",
                contender.spec
            )));
        }
        let hosts = NodeHosts::of_work(&self.network);
        let is_within = |flow| {
            let [near, far] = places(task.info(), &hosts, flow).hosts;
            near == far
        };
        if (0..task.info().flows.len() as u16).any(is_within) {
            return Err(Error::usage(format!(
                "`{}`: on a simulated path two ends that send to each other are at two \
                 hosts; name a host for each \
                 person, and another for the server where there is one, as in \
                 sim:a--r:delay=5ms+b--r+c--r+r--s,people=a/b/c,far=s",
                task.info().spec.name
            )));
        }
        if let Some(file) = task.info().files.first() {
            return Err(Error::usage(format!(
                "no file is read or written in virtual time; leave out `{}`, or race over a real path",
                file.path
            )));
        }
        Ok(())
    }

    /// Checks that messages of the work are not too large for the path, over this contender.
    fn takes(&self, contender: &Contender, task: &dyn Task) -> Result<()> {
        if contender.promised().framing == Framing::ByteStream {
            return Ok(());
        }
        let parts = self.cutter.parts(task.info().largest_message as u64 + u64::from(UDP_HEADER));
        if parts <= MOST_PARTS {
            return Ok(());
        }
        Err(Error::usage(format!(
            "path `{}`: a message of {} bytes is cut into {parts} packets, and {MOST_PARTS} can be \
             kept apart; raise mtu or lower size",
            self.typed,
            task.info().largest_message
        )))
    }
}

impl Runner for Simulation {
    fn run(&mut self, order: &Order) -> TrialOutcome {
        match contained(&order.contender(), || self.trial(order)) {
            Ok(record) => TrialOutcome::Ran(Box::new(record)),
            Err(error) => error.into(),
        }
    }

    fn placement(&mut self, asked: Option<Placement>, _load: Load) -> Result<(Placement, String)> {
        match asked {
            None | Some(Placement::Virtual) => Ok((
                Placement::Virtual,
                "in virtual time no CPU has anything to do with the figures".to_owned(),
            )),
            Some(asked) => Err(Error::usage(format!(
                "placement {asked}: on a simulated path the ends run in virtual time and on no CPU; \
                 leave it out"
            ))),
        }
    }

    fn hosts(&mut self) -> Result<(HostFacts, Option<HostFacts>)> {
        let host = HostFacts {
            hostname: PathKind::Simulated.to_string(),
            deadheat: env!("CARGO_PKG_VERSION").to_owned(),
            ..HostFacts::default()
        };
        Ok((host, None))
    }

    fn path(&self) -> PathFacts {
        PathFacts {
            spec: self.typed.clone(),
            kind: PathKind::Simulated,
            address: String::new(),
            built: None,
            reached: None,
            far_end: None,
        }
    }
}

/// Protocol in user space that carries a connection, or some lanes of one.
struct Sole<'a> {
    contender: &'a Contender,
    protocol: &'a dyn Userspace,
    /// Its part of the whole, if it is one of several.
    part: Option<&'a several::Part>,
}

impl Sole<'_> {
    fn strand(&self, conn: OverPath, lanes: &[Service]) -> Strand<OverPath> {
        let all = || (0..lanes.len() as u16).map(Lane).collect();
        Strand {
            name: self.part.map_or_else(String::new, |part| part.name.clone()),
            conn: Box::new(conn),
            lanes: self.part.map_or_else(all, |part| part.numbers.clone()),
            tells_end: self.contender.transport.info().guarantees.ending == Ending::Told,
        }
    }
}

/// Returns the protocols that carry a contender's connections: its own protocol, or the protocols of its parts.
///
/// # Errors
/// [`Error::Usage`] if one is a kernel's.
fn carriers(contender: &Contender) -> Result<Vec<Sole<'_>>> {
    runs_in_virtual_time(contender)?;
    let parts = contender.transport.parts();
    let alone = parts.is_empty().then_some((contender, None));
    let shared = parts.iter().map(|part| (&part.contender, Some(part)));
    alone
        .into_iter()
        .chain(shared)
        .map(|(contender, part)| {
            runs_in_virtual_time(contender)?;
            let protocol = contender.transport.userspace();
            let protocol = protocol.ok_or_else(|| Error::usage(misfit(contender)))?;
            Ok(Sole { contender, protocol, part })
        })
        .collect()
}

/// Checks that a contender requires neither real time nor IP.
fn runs_in_virtual_time(contender: &Contender) -> Result<()> {
    if let Some(key) = HeaderTerms::typed(&contender.knobs) {
        return Err(Error::usage(format!(
            "`{}`: packets of a simulated path have no IP header and no pace of the kernel's; leave out {key}, or emulate \
             the path without `sim:`",
            contender.spec
        )));
    }
    match contender.transport.info().real_time {
        Some(why) => Err(Error::usage(format!("`{}`: {why}", contender.spec))),
        None => Ok(()),
    }
}

/// Returns the reason why a contender cannot run in virtual time, with alternatives.
fn misfit(contender: &Contender) -> String {
    let own: Vec<&str> = deadheat_datapath::transport::ALL
        .iter()
        .filter(|transport| transport.userspace().is_some() && transport.info().real_time.is_none())
        .map(|transport| transport.info().id)
        .collect();
    format!(
        "`{}` is carried by the kernel, whose time cannot be simulated; a simulated path takes {}, and \
         without `sim:` the path is emulated for any contender",
        contender.spec,
        own.join(", ")
    )
}

/// Returns the reason why a contender cannot run on a real path; `None` if it can.
pub fn needs_simulation(contender: &Contender) -> Option<String> {
    let info = contender.transport.info();
    (info.reach == Reach::Process && carriers(contender).is_ok()).then(|| {
        format!(
            "`{}` is a model that exists in virtual time only; race it with --path sim:delay=25ms or \
             the like",
            contender.spec
        )
    })
}

/// Puts the contender's name to an error of a trial that runs, which only its endpoints can make.
fn of_contender(contender: &str, error: Error) -> Error {
    match error {
        Error::Setup { .. } | Error::Peer { .. } => Error::broken(contender, error.to_string()),
        Error::Disconnected { what } => Error::disconnected(format!("{contender}: {what}")),
        other => other,
    }
}

//! Load beside the work: bulk flows of a contender, or flows at a rate, that share the path with the measured work, from
//! before it begins until it is over. Every workload has it.
//!
//! ```text
//! load      connects ─► sends ──── lead ────────────────────────────────────────► is stopped
//! the work  connects ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄► begins ──────────────────────────► is over
//!
//! load      connects ┄┄┄┄┄┄┄┄┄► load-from ─► sends ─── load-for ─────► is stopped
//! the work  connects ─► begins ── before ──|──────── during ──────────|── after ──► is over
//! ```

use crate::contract::{Guarantees, PeerFacts, Service};
use crate::measurements::{Better, ClockNeed, Metric, Phase, Role, Unit};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset, Text};
use deadheat_base::spec::{self, Key, Kind, Reference, Settings, Spec, plain};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

use super::setting::typed;
use super::theory::{Conditions, Prediction};
use super::{ALL, EndMemory, Part, Reports, Setting, Task, TaskInfo};
use crate::workload::{Endpoint, Measurements};

mod log;
mod marks;
mod phased;
mod phases;
mod shares;

use phased::{asked, in_phases};
use phases::Phases;
pub use phases::{Item, Items, Observed, Stint};
use shares::share_metrics;
pub use shares::{JAIN, PARTS, SHARE, STAY, add_flows, add_shares, stay_after};

/// Keys that every workload has beside its own.
pub const KEYS: &[Key] = deadheat_base::keys![LOAD, RATE, FLOWS, DIRECTION, LEAD, FROM, FOR, PHASE];

const LOAD: Text =
    Text::form("load", Kind::Own { form: "CONTENDER|none", check: check_contender, refers }).doc(
        "bulk data of this contender shares the path; its knobs are joined with +: \
         load=tcp:cc=bbr+nodelay=off",
    );

const RATE: Optional<BitRate> = Optional::rate("load-rate", (1_000, 1_000_000_000_000)).doc(
    "rate of the load in each direction, all its connections together, in messages of \
     1400 bytes (as much as it can send)",
);

const FLOWS: Preset<u64> =
    Optional::count("load-flows", (1, 64)).or("1").doc("connections of the load in each direction");

const DIRECTION: Preset<&'static str> =
    Optional::choice("load-direction", &["up", "down", "both"], &["up", "down", "both"])
        .or("up")
        .doc("near to far, far to near, or both");

const LEAD: Optional<Nanos> = Optional::span("load-lead", (0, 60 * 1_000_000_000))
    .doc("time of the load before the work begins; with load-from: time behind its start and its end that belongs to no \
     phase (20 round trips of the path, from 50ms to 1.3s)");

const FROM: Optional<Nanos> = Optional::span("load-from", (10_000_000, 600 * 1_000_000_000)).doc(
    "when the load begins, after the work: the trial then has phases before, during and after it",
);

const FOR: Optional<Nanos> = Optional::span("load-for", (10_000_000, 600 * 1_000_000_000))
    .doc("time that the load then runs (as long as load-from)");

const PHASE: Preset<Option<Phase>> = Optional::choice(
    "load-phase",
    &["before", "during", "after", "all"],
    &[Some(Phase::Before), Some(Phase::During), Some(Phase::After), None],
)
.or("during")
.doc("with load-from, the phase whose figure verdicts are for; all: of the whole work");

const NONE: &str = "none";

/// Figure of the load: its goodput in bits per second, from the end of its lead on.
pub const GOODPUT: &str = "load_goodput_bps";

/// Time to send of a load, a day: the load is stopped when the work is over.
const ENDLESS: Nanos = Nanos::from_secs(86_400);

/// Load beside a work, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The contender as it would be typed on its own: `tcp:cc=bbr`.
    pub contender: String,
    /// Workload of the load, as typed: bulk data for longer than any work.
    pub workload: String,
    /// Time for which it runs before the work begins, unless it has a stint.
    pub lead: Nanos,
    /// Part of the work's time for which it runs; `None` for all of it.
    pub stint: Option<Stint>,
}

fn check_contender(value: &str) -> Result<()> {
    Spec::parse(&contender(value)).map(drop)
}

fn refers(value: &str) -> Reference<'_> {
    if value == NONE { plain(value) } else { spec::contender(value) }
}

/// Returns the contender in the value of the key.
fn contender(value: &str) -> String {
    value.replace('+', ",")
}

/// Returns true for the name of the key that says which contender the load is, as a race over conditions has it.
pub fn is_key(name: &str) -> bool {
    name == LOAD.name()
}

/// Returns the contender in a value of that key as it would be typed on its own, `tcp:cc=bbr`; `None` for no load.
pub fn beside(value: &str) -> Option<String> {
    (value != NONE).then(|| contender(value))
}

/// Returns the part of the work's time for which the load runs, from the settings in a result; `None` without phases,
/// or if they cannot be read. A work with `load=none` may also have phases.
pub fn stint_of(typed: &str) -> Option<Stint> {
    let ours = Spec::parse(typed).ok()?.split_off(KEYS);
    let settings = Settings::check(&ours, KEYS).ok()?;
    stint(&settings)
}

/// Returns the part of the work's time for which a load with these settings runs; `None` for the whole time.
fn stint(settings: &Settings) -> Option<Stint> {
    let from = settings.find(&FROM)?;
    Some(Stint { from, lasts: settings.find(&FOR).unwrap_or(from) })
}

/// Bulk flows beside other work.
#[derive(Debug, Clone, Copy)]
pub struct Flows {
    /// Rate of each direction; `None` for as much as the transport takes.
    pub rate: Option<BitRate>,
    /// Time to send.
    pub time: Nanos,
    /// Time before the goodput counts.
    pub warmup: Nanos,
    /// Number of flows.
    pub flows: u64,
    /// Direction as typed: `up`, `down` or `both`.
    pub direction: &'static str,
}

fn no_load() -> Error {
    Error::usage(
        "this program has no workload that can be a load beside others; race without load=",
    )
}

/// Takes the keys of the load out of `spec`, and returns their terms; `None` if `spec` has none of them.
pub fn take(spec: &mut Spec, setting: &Setting) -> Result<Option<Terms>> {
    let ours = spec.split_off(KEYS);
    let Some((first, _)) = ours.options.first() else { return Ok(None) };
    let settings = Settings::check(&ours, KEYS)?;
    let Some(value) = settings.text_of(&LOAD) else {
        return Err(Error::usage(format!(
            "{}: `{first}` says how a load is to be and there is none; add load=CONTENDER, as load=tcp",
            spec.name
        )));
    };
    let lead = settings.find(&LEAD).unwrap_or_else(|| setting.start_up());
    let direction = settings.get(&DIRECTION);
    let flows = settings.get(&FLOWS);
    let phases = asked(&spec.name, &ours, &settings, lead)?;
    let rate = settings.find(&RATE);
    let bulk = Flows { rate, time: ENDLESS, warmup: lead, flows, direction };
    let load = match value {
        NONE => None,
        value => Some(Load {
            contender: contender(value),
            workload: ALL.iter().find_map(|one| one.as_load(&bulk)).ok_or_else(no_load)?,
            lead,
            stint: phases.as_ref().map(|phases| phases.stint),
        }),
    };
    let times = [LEAD.name(), FROM.name(), FOR.name(), PHASE.name()];
    let mut options: Vec<(String, String)> = settings
        .iter()
        .filter(|_| load.is_some())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .filter(|(name, _)| !times.contains(&name.as_str()))
        .collect();
    if load.is_none() {
        options.push((LOAD.name().to_owned(), NONE.to_owned()));
    }
    if load.is_some() || phases.is_some() {
        options.push((LEAD.name().to_owned(), typed(lead)));
    }
    options.extend(phases.iter().flat_map(Phases::options));
    Ok(Some(Terms { load, options, value: value.to_owned(), rate, flows, phases }))
}

/// Settings of the load, from its keys.
pub struct Terms {
    load: Option<Load>,
    /// The settings as options, defaults included.
    options: Vec<(String, String)>,
    value: String,
    rate: Option<BitRate>,
    flows: u64,
    phases: Option<Phases>,
}

impl Terms {
    /// Returns the work that `parse` creates from `spec`, with the load beside it. If the load has phases and the
    /// work's length is open, the work is as long as its phases.
    ///
    /// # Errors
    /// As `parse`; [`Error::Usage`] if the phases do not fit the work.
    pub fn beside(
        self,
        spec: &Spec,
        parse: impl Fn(&Spec) -> Result<Box<dyn Task>>,
    ) -> Result<Box<dyn Task>> {
        let (task, phases) = match &self.phases {
            None => (parse(spec)?, None),
            Some(phases) => {
                let (task, observed) = in_phases(phases, spec, parse)?;
                (task, Some((phases.clone(), observed)))
            }
        };
        let info = self.edit(task.info(), phases.as_ref());
        Ok(Box::new(TaskBesideLoad { info, task, phases }))
    }

    /// Returns the facts of a work beside this load.
    fn edit(self, work: &TaskInfo, phases: Option<&(Phases, Observed)>) -> TaskInfo {
        let mut info = work.clone();
        if self.load.is_some() {
            let flows = match (self.flows, self.rate) {
                (1, None) => "a bulk flow".to_owned(),
                (n, None) => format!("{n} bulk flows"),
                (1, Some(rate)) => format!("a flow at {rate}"),
                (n, Some(rate)) => format!("{n} flows at {rate}"),
            };
            info.headline.push_str(&format!(" beside {flows} of {}", self.value));
            if let Some((phases, _)) = phases {
                info.headline.push_str(&format!(" {}", phases.spoken()));
            }
        }
        if let Some((phases, observed)) = phases {
            info.lengths = None;
            info.metrics = phases.add_metrics(*observed, work);
            info.memory = info.memory.plus(EndMemory::both(log::memory(work)));
        }
        info.metrics.push(Metric {
            name: GOODPUT.to_owned(),
            label: "goodput of the load".to_owned(),
            unit: Unit::BitRate,
            better: Better::Higher,
            role: Role::Descriptive,
            clock: ClockNeed::None,
        });
        let by_flow = phases.is_none() && matches!(work.observed, Some(Observed::Bytes(_)));
        if by_flow || phases.is_some() {
            info.metrics.extend(share_metrics(by_flow));
        }
        let leads = self.load.as_ref().filter(|load| load.stint.is_none());
        let lead = leads.map_or(Nanos::ZERO, |load| load.lead);
        info.planned = info.planned.map(|planned| planned + lead);
        info.spec.options.extend(self.options);
        info.spec.options.sort();
        TaskInfo { load: self.load, ..info }
    }
}

/// Work beside a load.
struct TaskBesideLoad {
    info: TaskInfo,
    task: Box<dyn Task>,
    /// Phases, and the way to observe the work in them.
    phases: Option<(Phases, Observed)>,
}

impl Task for TaskBesideLoad {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.task.lanes(promised)
    }

    fn misfit(&self, promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        self.task.misfit(promised, peer)
    }

    /// Returns the predictions of the work without a load; none with a load, which the forms do not cover.
    fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        if self.info.load.is_some() { Vec::new() } else { self.task.theory(on) }
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        match &self.phases {
            Some((phases, observed)) => log::logged(&*self.task, phases, *observed, part),
            None => self.task.half(part),
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = self.task.conclude(reports);
        if let Some((phases, observed)) = &self.phases {
            phases.conclude(*observed, self.task.info(), reports, &mut findings);
        }
        findings
    }
}

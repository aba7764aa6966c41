//! Load beside the work: bulk flows of a contender that share the path with what is measured, from before it
//! begins until it is over. Every workload takes it.
//!
//! ```text
//! load      connects ─► sends ──── lead ────────────────────────────────────────► is stopped
//! the work  connects ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄► begins ──────────────────────────► is over
//! ```

use crate::contract::{Direction, Guarantees, PeerKind, Service, Side};
use crate::error::{Error, Result};
use crate::measurements::{Better, Metric, Role, Unit};
use crate::spec::{Key, Kind, Settings, Spec};
use crate::time::Nanos;

use super::setting::typed;
use super::{Lengths, NamedFile, Numbering, Part, Reports, Setting, Task, bulk};
use crate::workload::{Endpoint, Measurements};

/// The keys that every workload has beside its own.
pub const KEYS: &[Key] = &[
    Key {
        name: LOAD,
        kind: Kind::Own { form: "CONTENDER|none", check: check_contender },
        default: "",
        doc: "bulk data of this contender shares the path meanwhile; its knobs are joined with + as in load=tcp:cc=bbr+nodelay=off",
    },
    Key {
        name: "load-flows",
        kind: Kind::Count(1, 64),
        default: "1",
        doc: "connections of the load in each direction",
    },
    Key {
        name: "load-direction",
        kind: Kind::Choice(&["up", "down", "both"]),
        default: "up",
        doc: "near to far, far to near, or both at once",
    },
    Key {
        name: LEAD,
        kind: Kind::Span(0, 60 * 1_000_000_000),
        default: "",
        doc: "how long the load runs before the work begins (20 round trips of the path, from 50ms to 1.3s)",
    },
];

const LOAD: &str = "load";
const LEAD: &str = "load-lead";
const NONE: &str = "none";

/// Figure of the load: its goodput in bits per second, from the end of its lead on.
pub const GOODPUT: &str = "load_goodput_bps";

/// A day: the load is stopped when the work is over.
const ENDLESS: Nanos = Nanos::from_secs(86_400);

/// Load, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The contender as it would be typed on its own: `tcp:cc=bbr`.
    pub contender: String,
    /// Workload of the load, as typed: bulk data for longer than any work.
    pub workload: String,
    /// Time that it runs before the work begins.
    pub lead: Nanos,
}

fn check_contender(value: &str) -> Result<()> {
    Spec::parse(&contender(value)).map(drop)
}

/// Returns the contender in the value of the key.
fn contender(value: &str) -> String {
    value.replace('+', ",")
}

/// Takes the keys of load out of `spec`; its work with them, if there were any.
pub(super) fn take(spec: &mut Spec, setting: &Setting) -> Result<Option<Terms>> {
    let ours = spec.split_off(KEYS);
    let Some((first, _)) = ours.options.first() else { return Ok(None) };
    let settings = Settings::check(&ours, KEYS)?;
    let Some(value) = settings.text(LOAD) else {
        return Err(Error::usage(format!(
            "{}: `{first}` says how a load is to be and there is none; add load=CONTENDER, as load=tcp",
            spec.name
        )));
    };
    let lead = settings.span(LEAD).unwrap_or_else(|| setting.start_up());
    let direction = settings.text("load-direction").unwrap_or_default();
    let flows = settings.count("load-flows").unwrap_or(1);
    let load = (value != NONE).then(|| Load {
        contender: contender(value),
        workload: bulk::of(ENDLESS, lead, flows, direction),
        lead,
    });
    let mut options: Vec<(String, String)> = settings
        .iter()
        .filter(|_| load.is_some())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .filter(|(name, _)| name != LEAD)
        .collect();
    match &load {
        Some(load) => options.push((LEAD.to_owned(), typed(load.lead))),
        None => options.push((LOAD.to_owned(), NONE.to_owned())),
    }
    Ok(Some(Terms { load, options, value: value.to_owned(), flows }))
}

/// Settings of the load, from its keys.
pub(super) struct Terms {
    load: Option<Load>,
    /// The settings as options, defaults included.
    options: Vec<(String, String)>,
    value: String,
    flows: u64,
}

impl Terms {
    /// Puts `task` beside the load.
    pub(super) fn beside(self, task: Box<dyn Task>) -> Box<dyn Task> {
        Box::new(Loaded { task, terms: self })
    }
}

/// Work beside a load.
struct Loaded {
    task: Box<dyn Task>,
    terms: Terms,
}

impl Loaded {
    fn lead(&self) -> Nanos {
        self.terms.load.as_ref().map_or(Nanos::ZERO, |load| load.lead)
    }
}

impl Task for Loaded {
    fn headline(&self) -> String {
        let Terms { load, value, flows, .. } = &self.terms;
        match (load, flows) {
            (None, _) => self.task.headline(),
            (Some(_), 1) => format!("{} beside a bulk flow of {value}", self.task.headline()),
            (Some(_), n) => format!("{} beside {n} bulk flows of {value}", self.task.headline()),
        }
    }

    fn lengths(&self) -> Option<Lengths> {
        self.task.lengths()
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.task.metrics();
        metrics.push(Metric {
            name: GOODPUT.to_owned(),
            label: "goodput of the load".to_owned(),
            unit: Unit::BitRate,
            better: Better::Higher,
            role: Role::Descriptive,
        });
        metrics
    }

    fn load(&self) -> Option<&Load> {
        self.terms.load.as_ref()
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        self.task.lanes(promised)
    }

    fn lane_names(&self) -> Vec<String> {
        self.task.lane_names()
    }

    fn misfit(&self, promised: &Guarantees, peer: PeerKind) -> Option<String> {
        self.task.misfit(promised, peer)
    }

    fn flows(&self) -> Vec<Option<Direction>> {
        self.task.flows()
    }

    fn receivers(&self) -> u16 {
        self.task.receivers()
    }

    fn sends_all_the_same(&self) -> bool {
        self.task.sends_all_the_same()
    }

    fn largest_message(&self) -> usize {
        self.task.largest_message()
    }

    fn longest(&self) -> Nanos {
        self.task.longest()
    }

    fn planned(&self) -> Option<Nanos> {
        self.task.planned().map(|planned| planned + self.lead())
    }

    fn timeout(&self) -> Nanos {
        self.task.timeout()
    }

    fn reconnects(&self) -> bool {
        self.task.reconnects()
    }

    fn most_bytes(&self) -> Option<u64> {
        self.task.most_bytes()
    }

    fn files(&self) -> Vec<NamedFile> {
        self.task.files()
    }

    /// Returns the settings of the work alone, as an end is told no more.
    fn told(&self, side: Side, source_bytes: Option<u64>) -> Spec {
        self.task.told(side, source_bytes)
    }

    fn memory(&self, side: Side) -> u64 {
        self.task.memory(side)
    }

    fn is_paced(&self) -> bool {
        self.task.is_paced()
    }

    fn numbering(&self) -> Option<Numbering> {
        self.task.numbering()
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        self.task.half(part)
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        self.task.conclude(reports)
    }

    fn spec(&self) -> Spec {
        let mut spec = self.task.spec();
        spec.options.extend(self.terms.options.iter().cloned());
        spec.options.sort();
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::super::{self as workload, PathKind};
    use super::*;

    fn parse(typed: &str) -> Box<dyn Task> {
        workload::parse(typed).unwrap()
    }

    #[test]
    fn any_workload_may_have_a_load_and_is_the_same_work_beside_it() {
        for plain in workload::ALL.iter().map(|workload| workload.info().id) {
            let task = parse(&format!("{plain}:load=kcp:mode=fast+mtu=1400B,load-flows=2"));
            let load = task.load().unwrap();
            assert_eq!(load.contender, "kcp:mode=fast,mtu=1400B");
            assert!(parse(&load.workload).headline().contains("2"), "{}", load.workload);
            assert_eq!(task.told(Side::Near, None), parse(plain).told(Side::Near, None));
            assert_eq!(task.flows(), parse(plain).flows());
            let again = parse(&task.spec().to_string());
            assert_eq!((again.spec(), again.load()), (task.spec(), task.load()));
        }
    }

    #[test]
    fn the_lead_follows_from_the_path() {
        let rtt = Some(Nanos::from_millis(20));
        let setting = Setting { kind: PathKind::Emulated, rtt, ..Setting::REMOTE };
        let task = workload::parse_on("ping:load=tcp", &setting).unwrap();
        assert_eq!(task.load().unwrap().lead, Nanos::from_millis(400));
        assert!(task.load().unwrap().workload.contains("warmup=400ms"));
        assert!(task.spec().to_string().contains("load-lead=400ms"));
    }

    #[test]
    fn without_one_only_the_figure_is_there_so_that_both_can_be_compared() {
        let (none, some) = (parse("ping:load=none"), parse("ping:load=tcp"));
        assert_eq!(none.load(), None);
        assert_eq!(none.metrics(), some.metrics());
        assert_eq!(parse(&none.spec().to_string()).spec(), none.spec());
        assert!(parse("ping").metrics().iter().all(|metric| metric.name != GOODPUT));
    }

    #[test]
    fn half_a_load_is_refused() {
        let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
        assert!(say("ping:load-flows=2").contains("add load=CONTENDER"));
        assert!(say("ping:load=tcp,load-flows=0").contains("outside"));
        assert!(say("ping:load=,").contains("load"));
    }
}

//! Request for a race.

use std::collections::BTreeMap;

use deadheat_base::spec::outside::Outside;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Metric;
use deadheat_contract::workload;
use deadheat_datapath::transport::Contender;
use deadheat_host::placement::Load;
use deadheat_path::{Network, PathKind};
use deadheat_records::idle::Idle;
use deadheat_records::placement::Placement;
use deadheat_result::far_hosts::FarHosts;
use deadheat_result::outcome::{Entrant, Factor, RecordedPlan, RecordedRequest};
use deadheat_trial::Pairing;
use deadheat_trial::lead::files::Overwrite;

/// Default time limit of a race, if neither blocks nor a budget are asked for.
pub const DEFAULT_BUDGET: Nanos = Nanos::from_secs(50);

/// Maximum default duration of a race that needs more time for verdicts, because its trials are long or its
/// resolution is fine. A longer race needs a budget.
pub const LONGEST_UNASKED: Nanos = Nanos::from_secs(3_600);

/// Default maximum number of blocks. More would resolve differences that have no practical effect.
pub const DEFAULT_BLOCKS: u64 = 1_000;

/// Default maximum number of blocks if they have start times; then time is the limit.
pub const MOST_BLOCKS: u64 = 10_000;

/// Default of the most bytes of a blast towards another host, per direction and trial: a second at 8 Gbit/s.
pub const DEFAULT_BLAST: u64 = 1_000_000_000;

/// Maximum number of blocks of a screening.
pub const SCREENING_BLOCKS: u64 = 20;

/// Default confidence.
pub const DEFAULT_CONFIDENCE: f64 = 0.95;

/// Request for a race, built by chaining. It is checked when it runs, or with [`Request::check`].
///
/// ```no_run
/// # use deadheat_race::race::Race;
/// let request = Race::new(["tcp", "udp"])
///     .workload("ping:count=200")
///     .blocks(8)
///     .seed(7);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Request as results record it, before defaults are filled in: see [`Request::asked`].
    pub(super) asked: RecordedRequest,
    /// Requested state of idle CPUs.
    pub(super) idle: Option<Idle>,
    /// Round trip to the far end, once that was reached; `None` on a path whose delays are typed.
    pub(super) round_trip: Option<Nanos>,
    /// True for a screening.
    pub(super) is_screening: bool,
    /// Minimum number of blocks, even if all claims are decided, for questions beside its claims.
    pub(super) least_blocks: Option<u64>,
    pub(super) seed: Option<u64>,
    pub(super) title: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) overwrite: Overwrite,
    /// Most bytes of a blast towards another host, per direction and trial; `None` if none is allowed.
    pub(super) blast: Option<u64>,
    /// Plan of an earlier race, to be run again unchanged.
    pub(super) plan: Option<RecordedPlan>,
    /// Origin of its text, which decides which files and commands it may name.
    pub(super) origin: RequestOrigin,
}

impl Request {
    /// Creates a request for a race of `contenders`, each as typed (`tcp:cc=bbr`), with the default workload on
    /// loopback. A single contender is described and tested against its own copy, without verdicts.
    pub fn new<S: Into<String>>(contenders: impl IntoIterator<Item = S>) -> Request {
        let usual = workload::ALL.first();
        let asked = RecordedRequest {
            contenders: contenders.into_iter().map(Into::into).collect(),
            workload: usual.map_or_else(String::new, |first| first.info().id.to_owned()),
            path: "loopback".to_owned(),
            confidence: DEFAULT_CONFIDENCE,
            ..RecordedRequest::default()
        };
        Request {
            asked,
            idle: None,
            round_trip: None,
            is_screening: false,
            least_blocks: None,
            seed: None,
            title: None,
            labels: BTreeMap::new(),
            overwrite: Overwrite::Refused,
            blast: None,
            plan: None,
            origin: RequestOrigin::Typed,
        }
    }

    /// Applies `set` to the value, if there is one.
    pub fn with<T>(self, value: Option<T>, set: impl FnOnce(Request, T) -> Request) -> Request {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }

    /// Applies `set` where that is asked for.
    pub fn when(self, is_asked: bool, set: impl FnOnce(Request) -> Request) -> Request {
        if is_asked { set(self) } else { self }
    }

    /// Sets the workload of each trial, as typed: `ping:size=64,interval=1ms`.
    pub fn workload(mut self, typed: impl Into<String>) -> Request {
        self.asked.workload = typed.into();
        self
    }

    /// Sets the path between the ends, as typed: `loopback`.
    pub fn path(mut self, typed: impl Into<String>) -> Request {
        self.asked.path = typed.into();
        self
    }

    /// Sets the far end to a `deadheat serve` at `HOST[:PORT]`, instead of a path on this machine. Called again, it
    /// adds another host: the far ends of work with several are dealt over the hosts in order.
    pub fn to(mut self, host: impl Into<String>) -> Request {
        match &mut self.asked.to {
            Some(hosts) => hosts.push(host),
            None => self.asked.to = Some(FarHosts::from(host.into())),
        }
        self
    }

    /// Restricts addresses to IPv4 (`4`) or IPv6 (`6`).
    pub fn family(mut self, family: u8) -> Request {
        self.asked.family = Some(family);
        self
    }

    /// Sets the maximum number of blocks, 1 to 10,000. Without a budget, time is then no limit.
    pub fn blocks(mut self, blocks: u64) -> Request {
        self.asked.blocks = Some(blocks);
        self
    }

    /// Runs all blocks, whatever they decide: for trials that also answer other questions than the race's claims. Their
    /// number is then fixed before the first block, and the only look is after the last. A budget still ends the race,
    /// because time does not depend on results.
    pub fn all_blocks(mut self) -> Request {
        self.asked.all_blocks = true;
        self
    }

    /// Ends the race as soon as every claim is decided, and not only once it is also known with the resolution.
    pub fn first(mut self) -> Request {
        self.asked.first = true;
        self
    }

    /// Makes the race a screening: at most [`SCREENING_BLOCKS`], and
    /// [`SCREENING_TIME`](super::enough::SCREENING_TIME) unless the fewest blocks for a verdict take longer.
    pub fn screening(mut self) -> Request {
        (self.asked.blocks, self.is_screening) = (Some(SCREENING_BLOCKS), true);
        self
    }

    /// Sets the minimum number of blocks, even if all claims are decided: for trials that also answer other
    /// questions. It replaces the minimum that the claims need.
    pub fn at_least(mut self, blocks: u64) -> Request {
        self.least_blocks = Some(blocks);
        self
    }

    /// Sets the maximum duration, including the trials before the first block.
    pub fn budget(mut self, budget: Nanos) -> Request {
        self.asked.budget_ns = Some(budget.0);
        self
    }

    /// Sets the minimum time from the start of one block to the start of the next. No verdict then ends the race
    /// early, because its purpose is to show changes. Blocks or a budget must be given with it.
    pub fn every(mut self, every: Nanos) -> Request {
        self.asked.every_ns = Some(every.0);
        self
    }

    /// Sets the target resolution, as a fraction: a larger difference is found with 80 % power. It extends the
    /// time, and never the margin.
    pub fn resolve(mut self, fraction: f64) -> Request {
        self.asked.resolve = Some(fraction);
        self
    }

    /// Makes claims about all contenders, also about floors, which the far kernel answers and which are for comparison
    /// otherwise.
    pub fn claims_all(mut self) -> Request {
        self.asked.claims_all = true;
        self
    }

    /// Leaves options that are not typed at the implementation's own defaults, instead of equal for all contenders.
    pub fn as_deployed(mut self) -> Request {
        self.asked.as_deployed = true;
        self
    }

    /// Sets the confidence of the whole race, as a fraction: 0.95.
    pub fn confidence(mut self, fraction: f64) -> Request {
        self.asked.confidence = fraction;
        self
    }

    /// Notes that it is one of so many races of a gate ([`super::gate::first`]), so that a judgement of fewer says so.
    pub fn gate_races(mut self, races: u64) -> Request {
        self.asked.gate_races = Some(races);
        self
    }

    /// Sets the seed of order and impairments; random if not given.
    pub fn seed(mut self, seed: u64) -> Request {
        self.seed = Some(seed);
        self
    }

    /// Sets the placement of the two ends, as typed: `cross-core`.
    pub fn placement(mut self, typed: impl Into<String>) -> Request {
        self.asked.placement = Some(typed.into());
        self
    }

    /// Sets the state of idle CPUs while trials run. By default they are kept awake if both ends are on this
    /// machine, its kernel permits it, and blocks have no start times; except for bulk data over loopback.
    pub fn idle(mut self, idle: Idle) -> Request {
        self.idle = Some(idle);
        self
    }

    /// Returns the requested state of idle CPUs, before the runner decides, and the reason.
    pub(super) fn asked_idle(&self) -> Option<(Idle, &'static str)> {
        let waits =
            self.asked.every_ns.map(|_| (Idle::Host, "CPUs may sleep from one block to the next"));
        self.idle.map(|idle| (idle, "asked for")).or(waits)
    }

    /// Sets the time between two points of each trial's series, 1 ms to 1 h; 100 ms if not given. Below 10 ms the series is
    /// dense, and costs the ends time.
    pub fn interval(mut self, interval: Nanos) -> Request {
        self.asked.interval_ns = Some(interval.0);
        self
    }

    /// Adds a second, instrumented pass after the last block, which shows where the time goes.
    pub fn explain(mut self) -> Request {
        self.asked.explain = true;
        self
    }

    /// Sets the title.
    pub fn title(mut self, title: impl Into<String>) -> Request {
        self.title = Some(title.into());
        self
    }

    /// Adds a label to the result.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Request {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Runs every contender under each of `levels` of a condition: `placement`, a key of the workload, or a knob.
    /// Several conditions give every combination. Levels are added to earlier levels of the same name.
    pub fn vary<S: Into<String>>(
        mut self,
        name: impl Into<String>,
        levels: impl IntoIterator<Item = S>,
    ) -> Request {
        let name = name.into();
        let levels = levels.into_iter().map(Into::into);
        match self.asked.vary.iter_mut().find(|factor| factor.name == name) {
            Some(factor) => factor.levels.extend(levels),
            None => self.asked.vary.push(Factor { name, levels: levels.collect() }),
        }
        self
    }

    /// Permits replacing an existing file that the workload writes to. Without it such a race is refused.
    pub fn force(mut self) -> Request {
        self.overwrite = Overwrite::Allowed;
        self
    }

    /// Lets contenders without a congestion control fill a path to another host, with at most `bytes` per direction in
    /// each trial. Without it they take no part in such work.
    pub fn blast(mut self, bytes: u64) -> Request {
        self.blast = Some(bytes);
        self
    }

    /// Returns the most bytes of a blast towards another host, per direction and trial, if one is allowed.
    pub fn allowed_blast(&self) -> Option<u64> {
        self.blast
    }

    /// Returns whether existing files may be replaced.
    pub fn overwrite(&self) -> Overwrite {
        self.overwrite
    }

    /// Returns true if the path is simulated.
    pub fn is_simulated(&self) -> bool {
        self.path_kind() == PathKind::Simulated
    }

    /// Returns true if the plan decides the number of blocks.
    pub(super) fn leaves_blocks_open(&self) -> bool {
        let asked = &self.asked;
        asked.blocks.is_none() && asked.every_ns.is_none() && !asked.all_blocks
    }
}

/// Request that passed its checks.
#[derive(Debug)]
pub struct CheckedRequest {
    /// Contenders with their knobs.
    pub contenders: Vec<Contender>,
    /// Contender and work of each entrant, by its id; `None` if the entrant cannot run.
    pub pairings: Vec<Option<Pairing>>,
    /// Contenders as results show them; nothing has run yet.
    pub entrants: Vec<Entrant>,
    /// Conditions that are varied.
    pub factors: Vec<Factor>,
    /// Metrics that are compared, claims first.
    pub metrics: Vec<Metric>,
    /// Requested placement of the ends, if any.
    pub placement: Option<Placement>,
    /// Load of the workload on the CPUs.
    pub load: Load,
    /// Network between the ends, if it is emulated or simulated.
    pub(super) network: Option<Network>,
}

/// Origin of the text of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum RequestOrigin {
    /// A person typed them.
    #[default]
    Typed,
    /// From a file.
    Written(RequestFile),
}

/// File from which a request was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestFile {
    /// Name of the file.
    pub(super) file: String,
    /// Kinds of files and commands that its text may name.
    pub(super) allowed: Vec<Outside>,
    /// Contenders beside the requested ones: as an earlier race ran them.
    pub(super) contenders: Vec<String>,
    /// Workloads beside the requested one.
    pub(super) workloads: Vec<String>,
}

//! Request for a race, and its checks. Everything that can be refused without running anything is refused
//! here.

use std::collections::BTreeMap;

use super::enough::SCREENING_BLOCKS;
use super::outside::RequestOrigin;
use super::race_path::RacePath;
use super::{cells, every};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Metric;
use deadheat_contract::workload;
use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::equal::Terms;
use deadheat_host::placement::Load;
use deadheat_path::{Network, PathKind};
use deadheat_records::idle::Idle;
use deadheat_records::placement::Placement;
use deadheat_result::far_hosts::FarHosts;
use deadheat_result::outcome::{Entrant, Factor, RecordedPlan};
use deadheat_trial::Pairing;
use deadheat_trial::agent::intervals;
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

/// Default confidence.
pub const DEFAULT_CONFIDENCE: f64 = 0.95;

const MOST_CONTENDERS: usize = 32;
const CONFIDENCES: std::ops::RangeInclusive<f64> = 0.5..=0.99999;
const LONGEST_TEXT: usize = 1_000;

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
    pub(super) contenders: Vec<String>,
    pub(super) workload: String,
    pub(super) path: String,
    pub(super) to: Option<FarHosts>,
    pub(super) family: Option<u8>,
    /// Local address and interface of the near end, as typed.
    pub(super) source: Option<String>,
    pub(super) device: Option<String>,
    /// Round trip to the far end, once that was reached; `None` on a path whose delays are typed.
    pub(super) round_trip: Option<Nanos>,
    pub(super) blocks: Option<u64>,
    pub(super) length: RaceLength,
    pub(super) end: RaceEnd,
    /// Minimum number of blocks, even if all claims are decided, for questions beside its claims.
    pub(super) least_blocks: Option<u64>,
    pub(super) budget: Option<Nanos>,
    pub(super) every: Option<Nanos>,
    pub(super) margin: Option<f64>,
    pub(super) margin_time: Option<Nanos>,
    pub(super) resolve: Option<f64>,
    pub(super) claims: Claims,
    pub(super) terms: Terms,
    pub(super) confidence: f64,
    pub(super) gate_races: Option<u64>,
    pub(super) seed: Option<u64>,
    pub(super) placement: Option<String>,
    pub(super) idle: Option<Idle>,
    pub(super) interval: Option<Nanos>,
    pub(super) title: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) vary: Vec<Factor>,
    /// Step after the last block.
    pub(super) after: FinalStep,
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
        Request {
            contenders: contenders.into_iter().map(Into::into).collect(),
            workload: workload::ALL
                .first()
                .map_or_else(String::new, |first| first.info().id.to_owned()),
            path: "loopback".to_owned(),
            to: None,
            family: None,
            source: None,
            device: None,
            round_trip: None,
            blocks: None,
            length: RaceLength::Whole,
            end: RaceEnd::Settled,
            least_blocks: None,
            budget: None,
            every: None,
            margin: None,
            margin_time: None,
            resolve: None,
            claims: Claims::Competitors,
            terms: Terms::Equal,
            confidence: DEFAULT_CONFIDENCE,
            gate_races: None,
            seed: None,
            placement: None,
            idle: None,
            interval: None,
            title: None,
            labels: BTreeMap::new(),
            vary: Vec::new(),
            after: FinalStep::Nothing,
            overwrite: Overwrite::Refused,
            blast: None,
            plan: None,
            origin: RequestOrigin::Typed,
        }
    }

    /// Sets the workload of each trial, as typed: `ping:size=64,interval=1ms`.
    pub fn workload(mut self, typed: impl Into<String>) -> Request {
        self.workload = typed.into();
        self
    }

    /// Sets the path between the ends, as typed: `loopback`.
    pub fn path(mut self, typed: impl Into<String>) -> Request {
        self.path = typed.into();
        self
    }

    /// Sets the far end to a `deadheat serve` at `HOST[:PORT]`, instead of a path on this machine. Called again, it
    /// adds another host: the far ends of work with several are dealt over the hosts in order.
    pub fn to(mut self, host: impl Into<String>) -> Request {
        match &mut self.to {
            Some(hosts) => hosts.push(host),
            None => self.to = Some(FarHosts::from(host.into())),
        }
        self
    }

    /// Restricts addresses to IPv4 (`4`) or IPv6 (`6`).
    pub fn family(mut self, family: u8) -> Request {
        self.family = Some(family);
        self
    }

    /// Sets the maximum number of blocks, 1 to 10,000. Without a budget, time is then no limit.
    pub fn blocks(mut self, blocks: u64) -> Request {
        self.blocks = Some(blocks);
        self
    }

    /// Runs all blocks, whatever they decide: for trials that also answer other questions than the race's claims. Their
    /// number is then fixed before the first block, and the only look is after the last. A budget still ends the race,
    /// because time does not depend on results.
    pub fn all_blocks(mut self) -> Request {
        self.length = RaceLength::AllBlocks;
        self
    }

    /// Ends the race as soon as every claim is decided, and not only once it is also known with the resolution.
    pub fn first(mut self) -> Request {
        self.end = RaceEnd::First;
        self
    }

    /// Makes the race a screening: at most [`SCREENING_BLOCKS`], and
    /// [`SCREENING_TIME`](super::enough::SCREENING_TIME) unless the fewest blocks for a verdict take longer.
    pub fn screening(mut self) -> Request {
        (self.blocks, self.length) = (Some(SCREENING_BLOCKS), RaceLength::Screening);
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
        self.budget = Some(budget);
        self
    }

    /// Sets the minimum time from the start of one block to the start of the next. No verdict then ends the race
    /// early, because its purpose is to show changes. Blocks or a budget must be given with it.
    pub fn every(mut self, every: Nanos) -> Request {
        self.every = Some(every);
        self
    }

    /// Sets the target resolution, as a fraction: a larger difference is found with 80 % power. It extends the
    /// time, and never the margin.
    pub fn resolve(mut self, fraction: f64) -> Request {
        self.resolve = Some(fraction);
        self
    }

    /// Selects the contenders that claims are made about.
    pub fn claims(mut self, claims: Claims) -> Request {
        self.claims = claims;
        self
    }

    /// Leaves options that are not typed at the implementation's own defaults, instead of equal for all contenders.
    pub fn as_deployed(mut self) -> Request {
        self.terms = Terms::Deployed;
        self
    }

    /// Sets the confidence of the whole race, as a fraction: 0.95.
    pub fn confidence(mut self, fraction: f64) -> Request {
        self.confidence = fraction;
        self
    }

    /// Notes that it is one of so many races of a gate ([`super::gate::first`]), so that a judgement of fewer says so.
    pub fn gate_races(mut self, races: u64) -> Request {
        self.gate_races = Some(races);
        self
    }

    /// Sets the seed of order and impairments; random if not given.
    pub fn seed(mut self, seed: u64) -> Request {
        self.seed = Some(seed);
        self
    }

    /// Sets the placement of the two ends, as typed: `cross-core`.
    pub fn placement(mut self, typed: impl Into<String>) -> Request {
        self.placement = Some(typed.into());
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
        let waits = self.every.map(|_| (Idle::Host, "CPUs may sleep from one block to the next"));
        self.idle.map(|idle| (idle, "asked for")).or(waits)
    }

    /// Sets the time between two points of each trial's series, 10 ms to 1 h; 100 ms if not given.
    pub fn interval(mut self, interval: Nanos) -> Request {
        self.interval = Some(interval);
        self
    }

    /// Adds a second, instrumented pass after the last block, which shows where the time goes.
    pub fn explain(mut self) -> Request {
        self.after = FinalStep::Explain;
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
        match self.vary.iter_mut().find(|factor| factor.name == name) {
            Some(factor) => factor.levels.extend(levels),
            None => self.vary.push(Factor { name, levels: levels.collect() }),
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

    /// Checks the request. Runs no trial.
    ///
    /// # Errors
    /// [`Error::Usage`] with the problem and a remedy; with the files and commands in the file of the request, if
    /// they are not allowed.
    pub fn check(&self) -> Result<CheckedRequest> {
        self.check_outside()?;
        self.check_numbers()?;
        let race_path = self.check_target()?;
        cells::check(self, &race_path)
    }

    /// Returns true if the path is simulated.
    pub fn is_simulated(&self) -> bool {
        self.path_kind() == PathKind::Simulated
    }

    /// Returns true if the plan decides the number of blocks.
    pub(super) fn leaves_blocks_open(&self) -> bool {
        self.blocks.is_none() && self.every.is_none() && self.length != RaceLength::AllBlocks
    }

    fn check_numbers(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::usage(message));
        match self.contenders.len() {
            0 => return refuse("a race needs a contender, such as tcp or udp".into()),
            1..=MOST_CONTENDERS => {}
            n => return refuse(format!("{n} contenders; at most {MOST_CONTENDERS}")),
        }
        if let Some(blocks) = self.blocks
            && !(1..=MOST_BLOCKS).contains(&blocks)
        {
            return refuse(format!("{blocks} blocks; 1 to {MOST_BLOCKS} make sense"));
        }
        if self.budget == Some(Nanos::ZERO) {
            return refuse("a budget of no time; write --budget 60s, say".into());
        }
        every::check(self)?;
        self.check_all_blocks()?;
        if let Some(interval) = self.interval
            && !(intervals::SHORTEST..=intervals::LONGEST).contains(&interval)
        {
            return refuse(format!(
                "an interval of {interval}; {} to {} make sense, such as 500ms",
                intervals::SHORTEST,
                intervals::LONGEST
            ));
        }
        check_share("margin", self.margin, "5%")?;
        check_share("resolution", self.resolve, "2%")?;
        if !CONFIDENCES.contains(&self.confidence) {
            return refuse(format!(
                "a confidence of {} %; 50 % to 99.999 % make sense, such as 95%",
                100.0 * self.confidence
            ));
        }
        Ok(())
    }

    /// Parses the path to the far end, and checks the options that depend on it.
    fn check_target(&self) -> Result<RacePath> {
        if let Some(family) = self.family
            && ![4, 6].contains(&family)
        {
            return Err(Error::usage(format!("IPv{family}; 4 or 6")));
        }
        self.check_origin()?;
        match &self.to {
            Some(hosts) if hosts.names().iter().any(|host| host.trim().is_empty()) => {
                Err(Error::usage("the far end has no name; write --to HOST or --to HOST:PORT"))
            }
            Some(hosts) if has_twice(hosts.names()) => Err(Error::usage(format!(
                "--to names a host twice: {hosts}; each further --to is another host"
            ))),
            Some(_) if PathKind::of_typed(&self.path) != PathKind::Loopback => Err(Error::usage(
                format!("both a remote host and the path `{}`; give one of them", self.path),
            )),
            _ => {
                let race_path = self.race_path()?;
                if race_path.simulation.is_some() {
                    self.check_simulated()?;
                }
                self.check_texts()?;
                Ok(race_path)
            }
        }
    }

    /// Refuses options that have no meaning in virtual time.
    fn check_simulated(&self) -> Result<()> {
        if self.every.is_some() {
            return Err(Error::usage(format!(
                "path `{}`: nothing changes between two blocks in virtual time, so there is nothing to \
                 wait for; leave --every out (--all-blocks runs all blocks, whatever they decide)",
                self.path
            )));
        }
        if self.after == FinalStep::Explain {
            return Err(Error::usage(format!(
                "path `{}`: --explain asks the kernel for its timestamps, and no kernel carries \
                 anything on a simulated path; leave it out",
                self.path
            )));
        }
        match self.placement.as_deref().map(Placement::parse).transpose()? {
            None | Some(Placement::Virtual) => Ok(()),
            Some(asked) => Err(Error::usage(format!(
                "placement {asked}: on a simulated path the ends run in virtual time and on no CPU; \
                 leave it out"
            ))),
        }
    }

    fn check_texts(&self) -> Result<()> {
        let texts = self.title.iter().chain(self.labels.keys());
        match texts.chain(self.labels.values()).find(|text| text.len() > LONGEST_TEXT) {
            Some(text) => Err(Error::usage(format!(
                "a title or label of {} bytes; at most {LONGEST_TEXT}",
                text.len()
            ))),
            None => Ok(()),
        }
    }
}

fn has_twice(names: &[String]) -> bool {
    names.iter().enumerate().any(|(at, name)| names[..at].contains(name))
}

/// Refuses a share that is not strictly between 0 and 1.
fn check_share(what: &str, share: Option<f64>, example: &str) -> Result<()> {
    match share {
        // Written so that NaN is refused too.
        Some(share) if !(share > 0.0 && share < 1.0) => Err(Error::usage(format!(
            "a {what} of {} %: it must lie above 0 % and below 100 %, such as {example}",
            100.0 * share
        ))),
        _ => Ok(()),
    }
}

/// Contenders that claims are made about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claims {
    /// Competitors only. A contender that the far kernel answers is a floor for comparison.
    #[default]
    Competitors,
    /// All contenders, including the floor.
    All,
}

/// Basis of a race's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RaceLength {
    /// As long as verdicts need.
    Whole,
    /// All blocks, whatever they decide.
    AllBlocks,
    /// A screening.
    Screening,
}

/// Verdicts that end a race before its last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RaceEnd {
    /// Settled ones: firm, and with the requested resolution.
    Settled,
    /// The first ones.
    First,
}

/// Step after the last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalStep {
    Nothing,
    /// Instrumented pass.
    Explain,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(request: Request) -> String {
        let error = request.check().expect_err("must be refused");
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    }

    #[test]
    fn absurd_numbers_are_refused_by_name() {
        let ask = || Request::new(["tcp", "udp"]);
        assert!(refusal(Request::new(Vec::<String>::new())).contains("needs a contender"));
        assert!(refusal(Request::new(vec!["tcp"; 33])).contains("at most 32"));
        assert!(refusal(ask().blocks(0)).contains("0 blocks"));
        assert!(refusal(ask().blocks(10_001)).contains("10001 blocks"));
        assert!(refusal(ask().budget(Nanos::ZERO)).contains("budget"));
        for margin in [0.0, -0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(ask().margin(margin)).contains("margin"), "{margin}");
            assert!(refusal(ask().resolve(margin)).contains("resolution"), "{margin}");
        }
        for confidence in [0.4, 1.0, f64::NAN] {
            assert!(refusal(ask().confidence(confidence)).contains("confidence"));
        }
        assert!(refusal(ask().family(5)).contains("4 or 6"));
        assert!(refusal(ask().title("x".repeat(1_001))).contains("1001 bytes"));
    }

    #[test]
    fn unknown_words_are_refused_by_name() {
        let say = |contender: &str| refusal(Request::new(["tcp", contender]));
        assert!(say("upd").contains("did you mean `udp`?"));
        assert!(refusal(Request::new(["tcp"]).workload("pong")).contains("`ping`"));
        assert!(refusal(Request::new(["tcp"]).path("moon")).contains("valid: loopback"));
        assert!(refusal(Request::new(["tcp"]).path("moon").to("h")).contains("one of them"));
        assert!(refusal(Request::new(["tcp"]).to(" ")).contains("no name"));
        assert!(refusal(Request::new(["tcp"]).to("h").to("i").to("h")).contains("a host twice"));
        let several = |work: &str| Request::new(["tcp"]).workload(work).to("h").to("i");
        let said = refusal(several("ping"));
        assert!(said.contains("has 1 far end, and --to names 2 hosts"), "{said}");
        several("fanout:receivers=3,bytes=1MB").check().unwrap();
        several("fanout:receivers=32,bytes=1MB").check().unwrap();
        several("state:direction=up,receivers=3").check().unwrap();
        let said = refusal(several("fanout:receivers=33,bytes=1MB"));
        assert!(said.contains("a server runs 16 in a trial"), "{said}");
        let mixed = |contenders: &[&str]| {
            Request::new(contenders.iter().copied()).workload("events").to("h").to("i")
        };
        let (one, two) = ("mix:events=tcp,state=udp", "mix:events=tcp,state=udp:to=i");
        mixed(&[one, two]).check().unwrap();
        let said = refusal(mixed(&["tcp", one]));
        assert!(said.contains("or a mix with a part there (mix:state=CONTENDER:to=i,"), "{said}");
        let said = refusal(mixed(&[two, "mix:events=tcp,state=udp:to=j"]));
        assert!(said.contains("j, which is no far host of the race (h, i)"), "{said}");
        assert!(refusal(Request::new([two]).workload("events")).contains("add --to i"));
        let said = refusal(mixed(&[two]).workload("events:receivers=2,direction=up"));
        assert!(said.contains("at several far hosts, and each receiver gets all"), "{said}");
        let relayed = || Request::new(["udp:via=relay@h"]);
        relayed().to("i").check().unwrap();
        assert!(refusal(relayed()).contains("name the far host with --to"));
        assert!(refusal(relayed().to("h")).contains("h is the far host itself; via=relay"));
        assert!(refusal(Request::new(["tcp"]).placement("samecore")).contains("same-core"));
    }

    #[test]
    fn a_contender_that_cannot_do_the_work_is_named_with_the_reason() {
        let said = refusal(Request::new(["icmp"]).workload("bulk"));
        assert!(said.starts_with("`icmp` cannot carry `bulk`: "), "{said}");
        // Beside others it does not run.
        let checked = Request::new(["icmp", "tcp", "udp"]).workload("bulk").check().unwrap();
        let [icmp, tcp, udp] = &checked.entrants[..] else { panic!("three") };
        assert_eq!(icmp.out().unwrap().0, "not applicable");
        assert!(!icmp.is_racing() && tcp.is_racing() && udp.is_racing());
        // If no contender can, or conditions vary, it is a mistake.
        let said = refusal(Request::new(["tcp", "udp"]).workload("streams:order=none"));
        assert!(said.contains("no lane that is reliable, unordered"), "{said}");
    }

    /// Guarantees decide, and no name.
    #[test]
    fn nothing_floods_the_line_to_another_host_unless_a_person_allows_it() {
        let to = |host: &str| Request::new(["tcp", "udp"]).workload("bulk:time=1s").to(host);
        let sits_out = |request: Request| {
            let checked = request.check().unwrap();
            assert!(checked.entrants[0].is_racing());
            checked.entrants[1].not_applicable.clone()
        };
        let why = sits_out(to("far.example")).unwrap();
        assert!(why.contains("no congestion control") && why.contains("cbr:rate="), "{why}");
        assert!(why.contains("--blast allows the flood, up to 1.00 GB a trial"), "{why}");
        assert_eq!(sits_out(to("far.example").blast(1)), None);
        for here in ["127.0.0.1", "localhost:5210", "[::1]:7", "::1"] {
            assert_eq!(sits_out(to(here)), None, "{here} is no line");
        }
        let alone = |work: &str| Request::new(["udp"]).workload(work).to("far.example");
        assert!(refusal(alone("bulk")).contains("--blast"));
        assert!(alone("cbr:rate=1mbit").check().is_ok(), "it has a rate");
        assert!(alone("ping").check().is_ok());
        assert!(Request::new(["udp"]).workload("bulk").path("delay=5ms").check().is_ok());
    }

    #[test]
    fn what_stays_on_this_machine_is_refused_for_a_remote_host() {
        let said = refusal(Request::new(["tcp", "unix"]).to("far.example"));
        assert!(said.contains("`unix` does not leave its host"), "{said}");
        assert!(Request::new(["tcp", "unix"]).check().is_ok());
    }

    #[test]
    fn what_stays_on_one_host_is_refused_for_an_emulated_path() {
        for contender in ["unix", "unixgram", "pipe"] {
            let said = refusal(Request::new(["tcp", contender]).path("delay=5ms"));
            assert!(said.contains("cannot reach the far host of an emulated path"), "{said}");
        }
        assert!(Request::new(["tcp", "udp", "icmp"]).path("delay=5ms,rate=20mbit").check().is_ok());
    }

    #[test]
    fn a_timeout_below_the_round_trip_is_refused() {
        let ask = |workload: &str| {
            Request::new(["udp"]).path("up.delay=2s,down.delay=1s").workload(workload)
        };
        let said = refusal(ask("ping:timeout=3s"));
        assert!(
            said.contains("at least 3.00 s on this path and counts as lost after 3.00 s"),
            "{said}"
        );
        assert!(ask("ping:timeout=4s").check().is_ok());
        assert!(ask("ping").check().is_ok(), "the default fits the path");
        assert!(ask("bulk").check().is_ok());
    }

    #[test]
    fn a_path_is_not_varied() {
        let said = refusal(Request::new(["tcp"]).vary("path", ["delay=1ms", "delay=2ms"]));
        assert!(said.contains("run one race for each path"), "{said}");
    }

    #[test]
    fn labels_are_unique() {
        let checked = Request::new(["udp", "tcp", "udp", "udp"]).check().unwrap();
        let labels: Vec<&str> = checked.entrants.iter().map(|e| e.label.as_str()).collect();
        assert_eq!(labels, ["udp", "tcp", "udp #2", "udp #3"]);
    }

    #[test]
    fn defaults_are_written_down() {
        let budget = |request: Request| request.asked().budget_ns;
        assert_eq!(budget(Request::new(["tcp"])), Some(DEFAULT_BUDGET.0));
        assert_eq!(budget(Request::new(["tcp"]).blocks(8)), None);
        let asked = Request::new(["tcp"]).to("far.example").asked();
        assert_eq!((asked.path.as_str(), asked.confidence), ("", 0.95));
    }
}

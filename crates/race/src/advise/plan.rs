//! From an application and a path to races: traffic as workloads, candidates that carry it, length of trials, and
//! duration of each race. Runs no race.

use std::collections::BTreeMap;

use super::candidate::{self, Candidate, CheckedTraffic};
use super::length;
use crate::race::plan::SPARE;
use crate::race::request::DEFAULT_CONFIDENCE;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Spec;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Reach;
use deadheat_contract::measurements::Metric;
use deadheat_contract::workload::traffic::{Rare, Work};
use deadheat_contract::workload::{self, Lengths, Setting, Task, Traffic};
use deadheat_datapath::transport::Contender;
use deadheat_path::PathSpec;
use deadheat_result::advise::app::App;
use deadheat_result::advise::axis::Bounds;
use deadheat_result::advise::outcome::{ExcludedContender, RacedTraffic};
use deadheat_result::analysis::claims::fewest_for;
use deadheat_trial::path::model_time;

/// Application on a path, ready to be raced.
#[derive(Debug)]
pub struct Plan {
    /// Path.
    pub path: PathSpec,
    /// The same path in virtual time, if it is emulated and can be simulated.
    pub simulated: Option<PathSpec>,
    /// Traffic, the most important first.
    pub entries: Vec<PlanEntry>,
    /// Contenders that do not fit, with the reasons.
    pub excluded: Vec<ExcludedContender>,
    /// Candidates that can carry at least a part of the traffic, candidates with one connection first.
    pub candidates: Vec<Candidate>,
}

/// Traffic with its work and the contenders that carry it.
#[derive(Debug)]
pub struct PlanEntry {
    /// Traffic in its saved form.
    pub considered: RacedTraffic,
    /// Bounds of a search.
    pub bounds: Bounds,
    /// Contender that represents each in virtual time.
    pub simulated: BTreeMap<String, String>,
    /// Work without its length.
    spec: Spec,
    rare: Option<Rare>,
    /// Figure of a short trial.
    mean: Metric,
    lengths: Option<Lengths>,
    /// Duration of a trial, if the traffic fixes it.
    fixed: Nanos,
    /// Packets per second of one direction.
    packets_per_s: f64,
    setting: Setting,
}

/// Work of a race, including its length.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceWork {
    /// The workload.
    pub workload: String,
    /// Figure that verdicts are about.
    pub metric: Metric,
    /// Approximate duration of a trial in real time.
    pub trial: Nanos,
    /// Approximate number of packets of a trial.
    pub packets: f64,
}

/// Duration of a trial beyond its work: two processes start, and both ends close.
const OVERHEAD: Nanos = Nanos::from_millis(150);

/// Round trips of a trial beyond its work: connection, token and the last acknowledgement.
const OVERHEAD_TRIPS: u64 = 2;

/// Assumed duration of work without a known duration.
const UNKNOWN: Nanos = Nanos::from_secs(3);

/// Trials before the first block.
const PILOT: u64 = 2;

/// Application bytes of a packet.
const PACKET: f64 = 1_200.0;

/// Real time per packet in virtual time, with both ends and its acknowledgement: 1 to 6 µs by protocol, measured
/// with the release build on a virtual machine. [`AdviceCourse`](super::course::AdviceCourse) measures its own.
pub(super) const VIRTUAL_PACKET: Nanos = Nanos(4_000);

/// Steps of a typical search: five ends, one of them with a crossover.
const STEPS: u64 = 10;

/// Maximum number of contenders in one race.
const MOST: usize = 32;

impl Plan {
    /// Plans an application on a path, with the `usual` contenders unless it names its own.
    ///
    /// # Errors
    /// [`Error::Usage`] if path or traffic cannot be parsed or contradict each other, or if no contender fits.
    pub fn make(app: &App, path: &str, usual: &[&str]) -> Result<Plan> {
        let path = PathSpec::parse(path)?;
        let setting = model_time::setting(&path);
        let typed: Vec<String> = match &app.contenders[..] {
            [] => usual.iter().map(|typed| (*typed).to_owned()).collect(),
            named => named.to_vec(),
        };
        let works: Vec<Work> = (app.traffic.iter())
            .map(|traffic| traffic.work(&app.traffic, &setting))
            .collect::<Result<_>>()?;
        let asked: Vec<CheckedTraffic<'_>> = (app.traffic.iter().zip(&works))
            .map(|(traffic, work)| {
                Ok(CheckedTraffic {
                    traffic,
                    task: task(traffic, &work.spec, &setting)?,
                    limit: work.limit,
                })
            })
            .collect::<Result<_>>()?;
        let mut excluded = Vec::new();
        let mut candidates: Vec<Candidate> = Vec::new();
        for typed in typed {
            let contender = Contender::parse(&typed)?;
            if let Some(why) = unfit(app, &contender, &path) {
                excluded.push(ExcludedContender { contender: typed, traffic: None, why });
                continue;
            }
            let (made, lacking) = candidate::of(&typed, &asked)?;
            candidates.extend(made);
            excluded.extend(lacking);
        }
        candidates.extend(candidate::pairs(&candidates, &asked));
        if candidates.len() < 2 {
            return Err(too_few(&candidates, &excluded));
        }
        let mut entries: Vec<PlanEntry> = (works.into_iter().zip(&asked).enumerate())
            .map(|(at, (work, asked))| PlanEntry::of(at, work, asked, &candidates, &setting))
            .collect::<Result<_>>()?;
        for entry in &mut entries {
            entry.considered.workload = entry.whole(&path).workload;
        }
        let simulated = match &path {
            PathSpec::Emulated(network) if network.links.len() == 1 => {
                let simulated = PathSpec::Simulated(network.clone());
                // Some keys have no meaning in virtual time.
                PathSpec::parse(&simulated.to_string()).ok().map(|_| simulated)
            }
            _ => None,
        };
        Ok(Plan { path, simulated, entries, excluded, candidates })
    }

    /// Returns true if the path is in virtual time.
    pub fn is_virtual(&self) -> bool {
        matches!(self.path, PathSpec::Simulated(_))
    }

    /// Returns the path in virtual time, if any.
    pub fn in_virtual_time(&self) -> Option<&PathSpec> {
        if self.is_virtual() { Some(&self.path) } else { self.simulated.as_ref() }
    }

    /// Returns the candidates that carry all traffic.
    pub fn eligible(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|one| one.carries_all())
    }

    /// Returns the approximate real time of the races in virtual time with `blocks` blocks.
    pub fn virtual_time(&self, blocks: u64) -> Nanos {
        let Some(path) = self.in_virtual_time() else { return Nanos::ZERO };
        let of = |entry: &PlanEntry| {
            let trials = (entry.screened().len() as u64 + 1) * blocks;
            (trials as f64 * entry.whole(path).packets * VIRTUAL_PACKET.0 as f64) as u64
        };
        Nanos(self.entries.iter().map(of).sum())
    }

    /// Returns the approximate real time of the search steps in virtual time.
    pub fn search_time(&self, blocks: u64) -> Nanos {
        let (Some(path), Some(first)) = (self.in_virtual_time(), self.entries.first()) else {
            return Nanos::ZERO;
        };
        let trials = (STEPS * 3 * blocks.div_ceil(2)) as f64;
        Nanos((trials * first.whole(path).packets * VIRTUAL_PACKET.0 as f64) as u64)
    }
}

fn too_few(candidates: &[Candidate], excluded: &[ExcludedContender]) -> Error {
    let why: Vec<String> =
        excluded.iter().map(|one| format!("{}: {}", one.contender, one.why)).collect();
    let left = if candidates.is_empty() { "no contender is" } else { "one contender alone is" };
    let why = why.join("; ");
    Error::usage(format!("{left} left, and two are the fewest to compare; {why}"))
}

/// Returns the reason why a contender does not fit the application or the path; `None` if it does.
fn unfit(app: &App, contender: &Contender, path: &PathSpec) -> Option<String> {
    let info = contender.transport.info();
    if let Some(why) = app.needs.iter().find_map(|need| need.unmet(&info.guarantees)) {
        return Some(why.to_owned());
    }
    if matches!(path, PathSpec::Simulated(_)) {
        let lacks = candidate::simulated(&contender.spec.to_string()).is_none();
        let lacks = lacks.then(|| "a kernel carries it, and none has virtual time".to_owned());
        return contender.transport.info().real_time.map(str::to_owned).or(lacks);
    }
    match info.reach {
        Reach::Process => return Some("it is a model for simulated paths only".to_owned()),
        Reach::Machine if *path != PathSpec::Loopback => {
            return Some("it does not leave its host".to_owned());
        }
        _ => {}
    }
    contender.check().err().map(|error| error.to_string())
}

fn task(traffic: &Traffic, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
    workload::parse_on(&spec.to_string(), setting)
        .map_err(|error| Error::usage(format!("traffic `{}`: {error}", traffic.name)))
}

/// Returns the claimed figure of a task.
fn claimed(task: &dyn Task, spec: &Spec) -> Result<Metric> {
    let metric = task.info().claim().cloned();
    metric.ok_or_else(|| Error::usage(format!("`{spec}` has no figure to compare by")))
}

impl PlanEntry {
    fn of(
        at: usize,
        work: Work,
        asked: &CheckedTraffic<'_>,
        candidates: &[Candidate],
        setting: &Setting,
    ) -> Result<PlanEntry> {
        let Work { spec, limit, offered_bps, rare, .. } = work;
        let mut contenders: Vec<String> = Vec::new();
        for typed in candidates.iter().filter_map(|one| one.carries[at].as_ref()) {
            if !contenders.contains(typed) {
                contenders.push(typed.clone());
            }
        }
        if contenders.len() > MOST {
            return Err(Error::usage(format!(
                "traffic `{}`: {} contenders and services of their lanes, and {MOST} are the most of a race; name fewer \
                 `contenders`",
                asked.traffic.name,
                contenders.len()
            )));
        }
        let simulated = contenders.iter().filter_map(|typed| {
            candidate::simulated(typed).map(|simulated| (typed.clone(), simulated))
        });
        let simulated = simulated.collect();
        let lengths = asked.task.info().lengths;
        let per_item = lengths.filter(Lengths::counts_items).map(|lengths| lengths.unit_ns.max(1));
        let items_per_s = per_item.map_or(0.0, |unit| 1e9 / unit as f64);
        let packets_per_s = offered_bps.map_or(0.0, |bps| bps / 8.0 / PACKET).max(items_per_s);
        let mean = match rare.and_then(|rare| rare.otherwise) {
            Some(_) => {
                let spec = short_claim(&spec, rare);
                claimed(&*task(asked.traffic, &spec, setting)?, &spec)?
            }
            None => claimed(&*asked.task, &spec)?,
        };
        Ok(PlanEntry {
            considered: RacedTraffic {
                name: asked.traffic.name.clone(),
                metric: claimed(&*asked.task, &spec)?,
                limit_ns: limit.map(|limit| limit.0),
                workload: String::new(),
                contenders,
            },
            bounds: Bounds { limit, offered_bps },
            simulated,
            spec,
            rare,
            mean,
            lengths,
            fixed: asked.task.info().planned.unwrap_or(UNKNOWN),
            packets_per_s,
            setting: *setting,
        })
    }

    /// Returns the contenders that run in virtual time, as typed there.
    pub fn screened(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for typed in self.considered.contenders.iter().filter_map(|typed| self.simulated.get(typed))
        {
            if !all.contains(typed) {
                all.push(typed.clone());
            }
        }
        all
    }

    /// Returns the work that gives the claimed figure on a path, by the rule of [`length`].
    pub fn whole(&self, path: &PathSpec) -> RaceWork {
        let of = |lengths| length::whole(&lengths, self.rare, path, self.packets_per_s);
        self.raced(&self.spec, &self.considered.metric, self.lengths.map(of))
    }

    /// Returns the work of a trial as short as its mean allows; its figure is the claimed one unless that is a
    /// quantile. `None` if only the quantile can be claimed.
    pub fn short(&self) -> Option<RaceWork> {
        match self.rare {
            None => {
                Some(self.raced(&self.spec, &self.mean, self.lengths.map(|lengths| lengths.fewest)))
            }
            Some(Rare { otherwise: None, .. }) => None,
            Some(_) => {
                let spec = short_claim(&self.spec, self.rare);
                Some(self.raced(&spec, &self.mean, self.lengths.map(|l| length::short(&l))))
            }
        }
    }

    fn raced(&self, spec: &Spec, metric: &Metric, units: Option<u64>) -> RaceWork {
        let (spec, lasts) = match (self.lengths, units) {
            (Some(lengths), Some(units)) => {
                let lasts = Nanos(units.saturating_mul(lengths.unit_ns));
                (lengths.apply(spec.clone(), units), lasts)
            }
            _ => (spec.clone(), self.fixed),
        };
        let trips = Nanos(OVERHEAD_TRIPS * self.setting.rtt.unwrap_or_default().0);
        RaceWork {
            workload: spec.to_string(),
            metric: metric.clone(),
            trial: lasts + OVERHEAD + trips,
            packets: lasts.0 as f64 / 1e9 * self.packets_per_s.max(1.0),
        }
    }
}

/// Returns the work that claims the mean instead of a quantile.
fn short_claim(spec: &Spec, rare: Option<Rare>) -> Spec {
    let mut spec = spec.clone();
    if let Some((key, value)) = rare.and_then(|rare| rare.otherwise) {
        spec.options.retain(|(name, _)| name != key);
        spec.options.push((key.to_owned(), value.to_owned()));
    }
    spec
}

impl RaceWork {
    /// Returns a time in which a race of `n` contenders surely reaches its first possible verdict.
    pub fn costs(&self, n: usize) -> Nanos {
        let claims = n * n.saturating_sub(1) / 2;
        let fewest = fewest_for(claims, DEFAULT_CONFIDENCE);
        let fewest = fewest.saturating_add(fewest.div_ceil(SPARE));
        // Each block also has the control's trial.
        let trials = fewest.saturating_mul(n as u64 + 1).saturating_add(PILOT);
        Nanos(self.trial.0.saturating_mul(trials))
    }
}

#[cfg(test)]
mod tests {
    use super::super::app;
    use super::*;

    const GAME: &str = r#"
format = 1
title = "A game"
[[traffic]]
name = "world"
kind = "state"
per-second = 60
stale-after = "100ms"
[[traffic]]
name = "shots"
kind = "events"
per-second = 10
"#;

    const USUAL: &[&str] = &["quic", "quic-datagram", "kcp", "sim-datagram"];

    fn plan(text: &str, path: &str) -> Result<Plan> {
        Plan::make(&app::parse(text, "game.toml").unwrap(), path, USUAL)
    }

    fn why<'a>(plan: &'a Plan, contender: &str, traffic: Option<&str>) -> &'a str {
        let is_it = |one: &&ExcludedContender| {
            one.contender == contender && one.traffic.as_deref() == traffic
        };
        &plan.excluded.iter().find(is_it).expect("excluded").why
    }

    #[test]
    fn those_that_do_not_fit_are_named_with_the_reason() {
        let found = plan(GAME, "delay=25ms").unwrap();
        let names: Vec<&str> = found.eligible().map(|one| one.name.as_str()).collect();
        let wanted = ["quic", "quic:lane=unordered", "quic:lane=best-effort", "kcp"];
        assert_eq!(names, [&wanted[..], &["quic-datagram + kcp for shots"]].concat());
        let world =
            ["quic", "quic:lane=unordered", "quic:lane=best-effort", "quic-datagram", "kcp"];
        assert_eq!(found.entries[0].considered.contenders, world);
        assert_eq!(found.entries[1].considered.contenders, ["quic", "kcp"]);
        assert!(why(&found, "sim-datagram", None).contains("simulated paths only"));
        assert!(why(&found, "quic-datagram", Some("shots")).contains("no lane that is reliable"));
        assert!(found.simulated.is_some() && !found.is_virtual());
        let encrypted =
            GAME.replace("[[traffic]]\nname = \"world\"", "needs = [\"encrypted\"]\n$0");
        let encrypted = encrypted.replace("$0", "[[traffic]]\nname = \"world\"");
        let found = plan(&encrypted, "sim:delay=25ms").unwrap();
        assert_eq!(why(&found, "kcp", None), "it is not encrypted");
        assert!(found.simulated.is_none() && found.is_virtual());
    }

    #[test]
    fn contradictions_are_refused_before_anything_runs() {
        let say = |text: &str, path: &str| plan(text, path).expect_err(path).to_string();
        assert!(say(GAME, "delay=100ms").contains("nothing is ever there in time"));
        let rate = say(GAME, "delay=5ms,rate=50kbit");
        assert!(rate.starts_with("traffic `world`: state: it offers 96.0 kbit/s"), "{rate}");
        assert!(say(GAME, "dely=5ms").contains("did you mean `delay`?"));
        let alone = GAME.replacen("[[", "contenders = [\"kcp\", \"pipe\"]\n[[", 1);
        let said = say(&alone, "delay=5ms");
        assert!(said.contains("one contender alone is left") && said.contains("pipe: "), "{said}");
        let unknown = GAME.replacen("[[", "contenders = [\"quic\", \"kpc\"]\n[[", 1);
        assert!(say(&unknown, "delay=5ms").contains("did you mean `kcp`?"));
    }

    #[test]
    fn a_race_costs_its_fewest_blocks() {
        let found = plan(GAME, "delay=25ms").unwrap();
        // Two seconds of state, 150 ms and two round trips; three trials in each of six blocks and two spare
        // blocks, and two before.
        let short = found.entries[0].short().unwrap();
        assert_eq!(short.costs(2).0 / 1_000_000, 2_250 * 26 - 1);
        assert!(short.costs(3) > short.costs(2));
    }

    #[test]
    fn trials_are_as_long_as_the_figure_needs_and_the_path_loses() {
        let found = plan(GAME, "delay=25ms,loss=0.5%").unwrap();
        let world = &found.entries[0];
        let count = |raced: &RaceWork| Spec::parse(&raced.workload).unwrap().options;
        let has = |raced: &RaceWork, key: &str, value: &str| {
            count(raced).contains(&(key.to_owned(), value.to_owned()))
        };
        let simulated = found.simulated.as_ref().unwrap();
        let whole = world.whole(simulated);
        assert!(has(&whole, "count", "4000") && has(&whole, "claim", "p99"), "{whole:?}");
        assert!(has(&world.whole(&found.path), "count", "1000"));
        let short = world.short().unwrap();
        assert!(has(&short, "count", "120") && has(&short, "claim", "mean"), "{short:?}");
        assert_ne!(short.metric.name, whole.metric.name);
        // Ten events a second are hit as often in more time.
        assert!(has(&found.entries[1].whole(simulated), "count", "4000"));
        let shots = found.entries[1].short().unwrap();
        assert_eq!(shots.metric.name, found.entries[1].considered.metric.name);
    }
}

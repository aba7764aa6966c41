//! Course of advice: one race after another within the time, the most important traffic first. In virtual time all
//! contenders that run there are compared with whole trials; then the leaders, and contenders that do not run in
//! virtual time, race on the path itself.

use std::path::{Path as File, PathBuf};
use std::time::SystemTime;

use super::plan::{Plan, PlanEntry, RaceWork, VIRTUAL_PACKET};
use super::rank;
use crate::race::Request;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Nanos};
use deadheat_path::PathSpec;
use deadheat_result::advise::app::App;
use deadheat_result::advise::outcome::{AdviceRace, Purpose, VerdictEvidence};
use deadheat_result::advise::search::Lead;
use deadheat_result::causes::race::of_difference;
use deadheat_result::outcome::{Outcome, Status};

/// Task: an application that needs advice.
#[derive(Debug)]
pub struct AdviceTask<'a> {
    /// The application's name.
    pub name: &'a str,
    /// The application.
    pub app: &'a App,
    /// The path, as typed.
    pub path: &'a str,
    /// Contenders if the application names none.
    pub usual: &'a [&'a str],
    /// Time limit for all races, including races in virtual time.
    pub budget: Nanos,
    /// Number of blocks of a race in virtual time.
    pub virtual_blocks: u64,
    /// Seed of each race; random if absent.
    pub seed: Option<u64>,
    /// Directory for results, to be created.
    pub dir: &'a File,
    /// Time of day.
    pub started: SystemTime,
}

/// Job: a race to run.
#[derive(Debug)]
pub struct AdviceJob {
    /// Name of the race and of its file.
    pub name: String,
    /// Checked request for the race.
    pub request: Request,
    /// File for its result.
    pub file: PathBuf,
}

/// Races so far, with their results.
pub(super) struct AdviceCourse<'a> {
    pub(super) task: &'a AdviceTask<'a>,
    pub(super) plan: &'a Plan,
    clock: &'a dyn Clock,
    began: Nanos,
    race: &'a mut dyn FnMut(AdviceJob) -> Result<Outcome>,
    /// Races in the order run, and the result of each.
    pub(super) races: Vec<AdviceRace>,
    pub(super) results: Vec<Option<Outcome>>,
    pub(super) notes: Vec<String>,
    pub(super) not_searched: Vec<String>,
    /// Error of the first race without a result.
    pub(super) failure: Option<Error>,
    pub(super) is_stopped: bool,
    /// Nanoseconds of real time per packet in virtual time on this machine.
    packet_ns: f64,
}

/// Race to run.
pub(super) struct PlannedRace<'a> {
    pub(super) name: String,
    pub(super) entry: &'a PlanEntry,
    pub(super) raced: &'a RaceWork,
    pub(super) purpose: Purpose,
    pub(super) path: &'a PathSpec,
    pub(super) contenders: &'a [String],
    /// Time limit; `None` in virtual time.
    pub(super) budget: Option<Nanos>,
    pub(super) blocks: u64,
}

impl<'a> AdviceCourse<'a> {
    pub(super) fn new(
        task: &'a AdviceTask<'a>,
        plan: &'a Plan,
        clock: &'a dyn Clock,
        race: &'a mut dyn FnMut(AdviceJob) -> Result<Outcome>,
    ) -> AdviceCourse<'a> {
        AdviceCourse {
            task,
            plan,
            clock,
            began: clock.now(),
            race,
            races: Vec::new(),
            results: Vec::new(),
            notes: Vec::new(),
            not_searched: Vec::new(),
            failure: None,
            is_stopped: false,
            packet_ns: VIRTUAL_PACKET.0 as f64,
        }
    }

    /// Returns the expected real time of a race in virtual time, from the races before it.
    pub(super) fn virtual_time(&self, raced: &RaceWork, contenders: usize, blocks: u64) -> Nanos {
        let trials = (contenders as u64 + 1).saturating_mul(blocks);
        Nanos((trials as f64 * raced.packets * self.packet_ns) as u64)
    }

    /// Returns the races of some traffic for a purpose, with their results.
    pub(super) fn of(
        &self,
        traffic: &str,
        purpose: Purpose,
    ) -> impl Iterator<Item = (&AdviceRace, &Outcome)> {
        let pairs = self.races.iter().zip(&self.results);
        let pairs = pairs.filter_map(|(ran, outcome)| Some((ran, outcome.as_ref()?)));
        pairs.filter(move |(ran, _)| ran.traffic == traffic && ran.purpose == purpose)
    }

    /// Returns the verdict on two contenders about the claimed figure of some traffic: preferably a decision, from
    /// the path rather than from virtual time; otherwise an open verdict.
    pub(super) fn verdict(&self, entry: &PlanEntry, a: &str, b: &str) -> Option<VerdictEvidence> {
        let of = |purpose| self.verdict_for(entry, purpose, a, b);
        let found: Vec<VerdictEvidence> =
            [Purpose::Comparison, Purpose::Screening].into_iter().filter_map(of).collect();
        let decided = found.iter().position(|evidence| evidence.lead != Lead::Open);
        found.into_iter().nth(decided.unwrap_or(0))
    }

    /// Returns the verdict on two contenders in some traffic, from a race for this purpose.
    pub(super) fn verdict_for(
        &self,
        entry: &PlanEntry,
        purpose: Purpose,
        a: &str,
        b: &str,
    ) -> Option<VerdictEvidence> {
        self.of(&entry.considered.name, purpose).find_map(|(ran, outcome)| {
            let typed = |typed| label(ran, entry, typed);
            let (x, y) = (typed(a)?, typed(b)?);
            let (lead, verdict) = rank::verdict(outcome, &x, &y)?;
            // A model is shown by the name of the contender that it represents.
            let note = verdict.note.replace(&x, a).replace(&y, b);
            Some(VerdictEvidence {
                traffic: entry.considered.name.clone(),
                first: a.to_owned(),
                second: b.to_owned(),
                lead,
                note,
                cause: of_difference(outcome, verdict).map(|(_, finding)| finding.clone()),
                file: ran.file.clone()?,
                is_virtual: ran.is_virtual,
            })
        })
    }

    /// Runs a race and records its result.
    pub(super) fn run(&mut self, wanted: PlannedRace<'_>) -> Option<&Outcome> {
        let file = format!("{}.json", wanted.name);
        let mut ran = AdviceRace {
            traffic: wanted.entry.considered.name.clone(),
            workload: wanted.raced.workload.clone(),
            purpose: wanted.purpose,
            path: self.typed(wanted.path),
            contenders: wanted.contenders.to_vec(),
            is_virtual: matches!(wanted.path, PathSpec::Simulated(_)),
            file: None,
            trusted: false,
            why_not: None,
        };
        let request = self.request(&wanted, &ran.path);
        let began = self.clock.now();
        let result = request.check().and_then(|_| {
            let file = self.task.dir.join(&file);
            (self.race)(AdviceJob { name: wanted.name.clone(), request, file })
        });
        let outcome = match result {
            Ok(outcome) => {
                let took = (self.clock.now() - began).0 as f64;
                let blocks = outcome.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(1);
                let expected = self.virtual_time(wanted.raced, wanted.contenders.len(), blocks);
                if ran.is_virtual && took > 0.0 && expected > Nanos::ZERO {
                    self.packet_ns *= took / expected.0 as f64;
                }
                ran.file = Some(file);
                ran.trusted = outcome.trusted();
                ran.why_not = outcome.why_failed().map(str::to_owned);
                self.is_stopped |= matches!(outcome.status, Status::Interrupted | Status::Running);
                Some(outcome)
            }
            Err(error) => {
                self.is_stopped |= matches!(error, Error::Interrupted);
                ran.why_not = Some(error.to_string());
                self.failure.get_or_insert(error);
                None
            }
        };
        if self.is_stopped {
            self.notes.push(format!("stopped by hand during `{}`", wanted.name));
        } else if let Some(why) = &ran.why_not {
            self.notes.push(format!("`{}` has no whole result: {why}", wanted.name));
        } else if let Some(why) = outcome.as_ref().and_then(Outcome::why_not_trusted) {
            let name = &wanted.name;
            let note = format!("`{name}` is not trusted, and none of its verdicts counts: {why}");
            self.notes.push(note);
        }
        self.races.push(ran);
        self.results.push(outcome);
        self.results.last().and_then(Option::as_ref)
    }

    fn request(&self, wanted: &PlannedRace<'_>, path: &str) -> Request {
        let title: String = self.task.app.title.chars().take(200).collect();
        Request::new(wanted.contenders.iter().cloned())
            .workload(&wanted.raced.workload)
            .path(path)
            .blocks(wanted.blocks)
            .title(format!("{title}: {}", wanted.name))
            .label("advise", self.task.name)
            .with(self.task.seed, Request::seed)
            .with(wanted.budget.map(|budget| budget.max(Nanos(1))), Request::budget)
    }

    /// Returns a path as text; the given path is returned as it was typed.
    fn typed(&self, path: &PathSpec) -> String {
        if *path == self.plan.path { self.task.path.to_owned() } else { path.to_string() }
    }

    /// Returns the remaining time.
    pub(super) fn left(&self) -> Nanos {
        self.task.budget - (self.clock.now() - self.began)
    }
}

/// Returns the label of a contender in this race; `None` if it took no part.
pub(super) fn label(ran: &AdviceRace, entry: &PlanEntry, typed: &str) -> Option<String> {
    let label = if ran.is_virtual { entry.simulated.get(typed)? } else { typed };
    ran.contenders.iter().find(|one| *one == label).cloned()
}

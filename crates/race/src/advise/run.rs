//! Runs the races of an application into a directory, and draws conclusions from their verdicts.

use std::fs;
use std::path::{Path as File, PathBuf};
use std::time::SystemTime;

use super::candidate::Candidate;
use super::course::{self, AdviceCourse};
use super::plan::{Plan, PlanEntry};
use super::rank;
use crate::race::Request;
use deadheat_base::error::{Error, Result};
use deadheat_base::figures::wait;
use deadheat_base::time::{Clock, Nanos};
use deadheat_contract::measurements::Better;
use deadheat_datapath::transport::Contender;
use deadheat_records::trial::Record;
use deadheat_result::advise::app::App;
use deadheat_result::advise::outcome::{
    Advice, ContenderFigure, FILE, FORMAT, Purpose, RankedContender, VerdictEvidence,
};
use deadheat_result::advise::search::Lead;
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::{Outcome, Program, Summary};
use deadheat_result::{date, save};
use deadheat_stats::quantile;

/// Default time for all races.
pub const DEFAULT_BUDGET: Nanos = Nanos::from_secs(120);

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

/// Default number of blocks of a race in virtual time; it detects a difference of 5 % if trials scatter by 8 %.
pub const VIRTUAL_BLOCKS: u64 = 40;

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

/// Runs the races of an application, and saves the advice beside them. `race` creates the context of each race and
/// runs it.
///
/// # Errors
/// [`Error::Usage`] if application and path contradict each other, or the directory is not empty; the error of the
/// first race if none has a result.
pub fn run(
    task: &AdviceTask<'_>,
    clock: &dyn Clock,
    race: &mut dyn FnMut(AdviceJob) -> Result<Outcome>,
) -> Result<Advice> {
    let plan = Plan::make(task.app, task.path, task.usual)?;
    prepare(task.dir)?;
    let began = clock.now();
    let mut course = AdviceCourse::new(task, &plan, clock, race);
    course.compare();
    let mut places = places(&plan, &course);
    let crossovers = course.search(&places);
    // The notes list races that were stopped or failed; without any result there is no advice.
    if course.results.iter().all(Option::is_none) {
        return Err(course.failure.take().unwrap_or(Error::Interrupted));
    }
    let alone = alone(&plan, &course, &places);
    let is_unplaced = |name: &str| places.iter().all(|placed| placed.contender != name);
    let unplaced: Vec<&str> =
        plan.eligible().map(|one| one.name.as_str()).filter(|name| is_unplaced(name)).collect();
    if !unplaced.is_empty() {
        course.notes.push(format!("without a place: {}", unplaced.join(", ")));
    }
    if plan.eligible().next().is_none() {
        let first = &plan.entries[0].considered.name;
        course.notes.push(format!(
            "no contender carries all traffic; the places are those in `{first}` alone"
        ));
    }
    places.sort_by_key(|placed| placed.place);
    let advice = Advice {
        advice_format: FORMAT,
        deadheat: Program { version: env!("CARGO_PKG_VERSION").to_owned() },
        name: task.name.to_owned(),
        app: task.app.clone(),
        path: task.path.to_owned(),
        started: date::rfc3339(task.started),
        budget_ns: (!plan.is_virtual()).then_some(task.budget.0),
        excluded: plan.excluded.clone(),
        took_ns: (clock.now() - began).0,
        traffic: plan.entries.iter().map(|entry| entry.considered.clone()).collect(),
        confirmed: confirmed(&plan, &course),
        places,
        alone,
        crossovers,
        not_searched: course.not_searched,
        notes: course.notes,
        races: course.races,
    };
    save::save(&advice, &task.dir.join(FILE))?;
    Ok(advice)
}

/// Creates the directory for results, unless it exists and is not empty.
fn prepare(dir: &File) -> Result<()> {
    let name = dir.display();
    if dir.exists() && !dir.is_dir() {
        return Err(Error::usage(format!("{name} is not a directory; -o takes one for advice")));
    }
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::usage(format!("{name} is not empty; give another directory with -o")));
    }
    fs::create_dir_all(dir).map_err(|error| {
        Error::setup_advice(format!("make the directory {name}"), error, "choose another with -o")
    })
}

/// Returns the expected duration of the advice, before any race runs.
///
/// # Errors
/// As [`Plan::make`].
pub fn beforehand(task: &AdviceTask<'_>) -> Result<String> {
    let plan = Plan::make(task.app, task.path, task.usual)?;
    let simulated = plan.virtual_time(task.virtual_blocks);
    Ok(match (plan.is_virtual(), plan.in_virtual_time()) {
        (true, _) => format!(
            "everything in virtual time: about {} for the races, and as long for crossovers",
            wait(simulated)
        ),
        (false, Some(_)) => format!(
            "at most {}: about {} in virtual time, the rest on the path",
            wait(task.budget),
            wait(simulated.min(task.budget))
        ),
        (false, None) => format!("at most {}, all of it on the path", wait(task.budget)),
    })
}

/// Returns the relevant verdict on two candidates: of the most important traffic in which they differ.
fn between(course: &AdviceCourse<'_>, a: &Candidate, b: &Candidate) -> Option<VerdictEvidence> {
    let of = |(at, entry): (usize, &PlanEntry)| {
        let (x, y) = (a.carries[at].as_ref()?, b.carries[at].as_ref()?);
        let named = |evidence: VerdictEvidence| VerdictEvidence {
            first: a.name.clone(),
            second: b.name.clone(),
            ..evidence
        };
        course.verdict(entry, x, y).map(named).map(|evidence| (evidence.lead, evidence))
    };
    let found = course.plan.entries.iter().enumerate().filter_map(of);
    rank::first(found).map(|(_, evidence)| evidence)
}

/// Returns the places of candidates that carry all traffic, the best first, each with its figure and the verdict on
/// it and the first. A place needs a verdict about the claimed figure of the most important traffic.
pub(super) fn places(plan: &Plan, course: &AdviceCourse<'_>) -> Vec<RankedContender> {
    let eligible: Vec<&Candidate> = plan.eligible().collect();
    let first = &plan.entries[0];
    let ranked: Vec<&Candidate> = match eligible.is_empty() {
        true => plan.candidates.iter().filter(|one| one.carries[0].is_some()).collect(),
        false => eligible,
    };
    let all = &first.considered.contenders;
    let is_compared = |one: &&Candidate| {
        let Some(typed) = &one.carries[0] else { return false };
        all.len() == 1 || all.iter().any(|other| course.verdict(first, typed, other).is_some())
    };
    let ranked: Vec<&Candidate> = ranked.into_iter().filter(is_compared).collect();
    let ahead = |a: usize, b: usize| {
        let found = between(course, ranked[a], ranked[b]);
        found.is_some_and(|evidence| evidence.lead == Lead::First)
    };
    let placed = rank::places(ranked.len(), ahead);
    let mut all: Vec<(&Candidate, RankedContender)> = ranked
        .iter()
        .zip(placed)
        .map(|(one, place)| {
            let placed = RankedContender {
                contender: one.name.clone(),
                carries: one.carries.iter().flatten().cloned().collect(),
                place,
                needs_udp: needs_udp(one),
                figure: figure(course, one),
                against: None,
            };
            (*one, placed)
        })
        .collect();
    // Within a place, one connection precedes two, then the better figure precedes.
    all.sort_by(|(one, a), (other, b)| {
        let key = |placed: &RankedContender| {
            placed.figure.as_ref().map_or(f64::INFINITY, |figure| match figure.metric.better {
                Better::Lower => figure.estimate,
                Better::Higher => -figure.estimate,
            })
        };
        let order = (a.place, one.connections).cmp(&(b.place, other.connections));
        order.then(key(a).total_cmp(&key(b)))
    });
    let listed: Vec<&Candidate> = all.iter().map(|(one, _)| *one).collect();
    for (at, (one, placed)) in all.iter_mut().enumerate().skip(1) {
        let on = |other: &Candidate| between(course, other, one);
        let ahead =
            || listed[1..at].iter().filter_map(|one| on(one)).find(|by| by.lead == Lead::First);
        placed.against = on(listed[0]).or_else(ahead);
    }
    all.into_iter().map(|(_, placed)| placed).collect()
}

/// Returns true if a part of a candidate goes over UDP; `None` if a part cannot be parsed.
fn needs_udp(candidate: &Candidate) -> Option<bool> {
    let parts = candidate.carries.iter().flatten().map(|typed| Contender::parse(typed).ok());
    let parts: Option<Vec<Contender>> = parts.collect();
    Some(parts?.iter().any(|part| part.transport.info().is_over_udp))
}

/// Returns the median of a figure over a contender's valid trials.
fn over_trials(outcome: &Outcome, id: usize, of: fn(&Record) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> =
        valid_trials(outcome, id).filter_map(|trial| of(&trial.record)).collect();
    quantile::median(&values)
}

fn wire_ratio(record: &Record) -> Option<f64> {
    let delivered = record.delivered_bytes.filter(|bytes| *bytes > 0)?;
    Some(record.wire?.bytes as f64 / delivered as f64)
}

fn cpu_ns(record: &Record) -> Option<f64> {
    let messages = record.ledger.accounts().filter(|(_, account)| account.unit == "messages");
    let delivered: u64 = messages.map(|(_, account)| account.delivered).sum();
    let used = record.cost.working_ns() + record.far_cost.as_ref()?.working_ns();
    (delivered > 0).then(|| used as f64 / delivered as f64)
}

/// Returns the figure of a candidate in the most important traffic in which it has one.
fn figure(course: &AdviceCourse<'_>, candidate: &Candidate) -> Option<ContenderFigure> {
    let entries = course.plan.entries.iter().zip(&candidate.carries);
    let mut entries = entries.filter_map(|(entry, typed)| Some((entry, typed.as_ref()?)));
    entries.find_map(|(entry, typed)| {
        let considered = &entry.considered;
        let of = |purpose| course.of(&considered.name, purpose);
        let races = of(Purpose::Comparison).chain(of(Purpose::Screening));
        races.filter(|(_, outcome)| outcome.trusted()).find_map(|(ran, outcome)| {
            let label = course::label(ran, entry, typed)?;
            let id = outcome.contenders.iter().find(|one| one.label == label)?.id;
            let is_it =
                |one: &&Summary| one.contender == id && one.metric == considered.metric.name;
            let summary = outcome.summary.iter().find(is_it)?;
            Some(ContenderFigure {
                traffic: considered.name.clone(),
                metric: considered.metric.clone(),
                estimate: summary.estimate,
                low: summary.low,
                high: summary.high,
                limit_ns: considered.limit_ns,
                wire_ratio: over_trials(outcome, id, wire_ratio),
                cpu_ns: over_trials(outcome, id, cpu_ns).filter(|_| !ran.is_virtual),
                file: ran.file.clone()?,
                is_virtual: ran.is_virtual,
            })
        })
    })
}

/// Returns the verdicts about means on the path, on the first contender of each race and each other one.
fn confirmed(plan: &Plan, course: &AdviceCourse<'_>) -> Vec<VerdictEvidence> {
    let of = |entry: &PlanEntry| -> Vec<VerdictEvidence> {
        let purpose = Purpose::Confirmation;
        let ran = course.of(&entry.considered.name, purpose).next();
        let met = ran.map_or(&[][..], |(ran, _)| &ran.contenders);
        let on = |pair: (&String, &String)| course.verdict_for(entry, purpose, pair.0, pair.1);
        met.iter().skip(1).filter_map(|other| on((&met[0], other))).collect()
    };
    plan.entries.iter().flat_map(of).collect()
}

/// Returns the verdicts by which a contender that belongs to no complete candidate is ahead of the first place in
/// one traffic.
fn alone(
    plan: &Plan,
    course: &AdviceCourse<'_>,
    places: &[RankedContender],
) -> Vec<VerdictEvidence> {
    let first = places.first();
    let is_first = |one: &&Candidate| Some(&one.name) == first.map(|placed| &placed.contender);
    let Some(first) = plan.candidates.iter().find(is_first) else { return Vec::new() };
    let mut found = Vec::new();
    for (at, entry) in plan.entries.iter().enumerate() {
        let Some(own) = &first.carries[at] else { continue };
        let is_carrier =
            |typed: &&String| plan.eligible().all(|one| one.carries[at].as_ref() != Some(*typed));
        let others = entry.considered.contenders.iter().filter(is_carrier);
        found.extend(
            others
                .filter_map(|other| course.verdict(entry, other, own))
                .filter(|evidence| evidence.lead == Lead::First),
        );
    }
    found
}

#[cfg(test)]
mod tests;

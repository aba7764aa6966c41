//! Runs the races of an application into a directory, and draws conclusions from their verdicts.

use std::fs;
use std::path::Path as File;

use super::candidate::Candidate;
use super::course::{AdviceCourse, AdviceJob, AdviceTask};
use super::plan::{Plan, PlanEntry};
use super::standings::places;
use deadheat_base::error::{Error, Result};
use deadheat_base::figures::wait;
use deadheat_base::time::{Clock, Nanos};
use deadheat_result::advise::outcome::{
    Advice, FILE, FORMAT, Purpose, RankedContender, VerdictEvidence,
};
use deadheat_result::advise::search::Lead;
use deadheat_result::outcome::{Outcome, Program};
use deadheat_result::{date, save};

/// Default time for all races.
pub const DEFAULT_BUDGET: Nanos = Nanos::from_secs(120);

/// Default number of blocks of a race in virtual time; it detects a difference of 5 % if trials scatter by 8 %.
pub const VIRTUAL_BLOCKS: u64 = 40;

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

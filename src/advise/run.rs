//! Runs the races of an application into a directory, and concludes from their verdicts.

use std::fs;
use std::path::{Path as File, PathBuf};
use std::time::SystemTime;

use super::app::App;
use super::course::Course;
use super::outcome::{Advice, Evidence, FILE, FORMAT, Figure, Placed};
use super::plan::Plan;
use super::rank;
use super::search::Lead;
use crate::error::{Error, Result};
use crate::measurements::Better;
use crate::race::Request;
use crate::result::outcome::{Outcome, Program};
use crate::result::{date, save};
use crate::time::{Clock, Nanos};

/// Default time for all races.
pub const DEFAULT_BUDGET: Nanos = Nanos::from_secs(90);

/// Task: an application on which advice is asked.
#[derive(Debug)]
pub struct Task<'a> {
    /// The application's name.
    pub name: &'a str,
    /// The application.
    pub app: &'a App,
    /// The path, as typed.
    pub path: &'a str,
    /// Contenders where the application names none.
    pub usual: &'a [&'a str],
    /// Time for all races; virtual time is not counted.
    pub budget: Nanos,
    /// Number of blocks of a race in virtual time.
    pub virtual_blocks: u64,
    /// Seed of each race; random where none is given.
    pub seed: Option<u64>,
    /// Directory for results; created.
    pub dir: &'a File,
    /// The time of day.
    pub started: SystemTime,
}

/// Default number of blocks of a race in virtual time: a difference of 5 % is found where trials scatter by 8 %.
pub const VIRTUAL_BLOCKS: u64 = 40;

/// Job: a race to be run.
#[derive(Debug)]
pub struct Job {
    /// Its name, which is that of its file.
    pub name: String,
    /// Request for the race, which passed its checks.
    pub request: Request,
    /// File for its result.
    pub file: PathBuf,
}

/// Runs the races of an application, and saves the advice beside them. `race` sets the stage for each and runs it.
///
/// # Errors
/// [`Error::Usage`] where application and path contradict each other, or the directory holds something; the error
/// of the first race if none has a result.
pub fn run(
    task: &Task<'_>,
    clock: &dyn Clock,
    race: &mut dyn FnMut(Job) -> Result<Outcome>,
) -> Result<Advice> {
    let plan = Plan::make(task.app, task.path, task.usual)?;
    prepare(task.dir)?;
    let mut course = Course::new(task, &plan, clock, race);
    course.compare();
    let mut places = places(&plan, &course);
    let crossovers = course.search(&places);
    // A race that was called off or failed is told in the notes; with none there is nothing to tell.
    if course.results.iter().all(Option::is_none) {
        return Err(course.failure.take().unwrap_or(Error::Interrupted));
    }
    let alone = alone(&plan, &course, &places);
    let is_unplaced = |typed: &&String| places.iter().all(|placed| placed.contender != **typed);
    let unplaced: Vec<&str> =
        plan.eligible.iter().filter(is_unplaced).map(String::as_str).collect();
    if !unplaced.is_empty() {
        course.notes.push(format!("without a verdict that counts: {}", unplaced.join(", ")));
    }
    if plan.eligible.is_empty() {
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
        traffic: plan.entries.iter().map(|entry| entry.considered.clone()).collect(),
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

/// Makes the directory for results, unless it holds something.
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

/// Returns the verdict on two contenders that counts: of the most important traffic that tells them apart.
fn between(plan: &Plan, course: &Course<'_>, a: &str, b: &str) -> Option<Evidence> {
    let leads = plan.entries.iter().filter_map(|entry| {
        course.verdict(&entry.considered.name, a, b).map(|evidence| (evidence.lead, evidence))
    });
    rank::first(leads).map(|(_, evidence)| evidence)
}

/// Returns the places of contenders that carry everything, the best first, each with its figure and the verdict on it
/// and the first.
fn places(plan: &Plan, course: &Course<'_>) -> Vec<Placed> {
    let ranked = match &plan.eligible[..] {
        [] => &plan.entries[0].considered.contenders,
        eligible => eligible,
    };
    let is_compared = |typed: &&String| {
        ranked.len() == 1
            || ranked.iter().any(|other| between(plan, course, typed, other).is_some())
    };
    let names: Vec<&String> = ranked.iter().filter(is_compared).collect();
    let ahead = |a: usize, b: usize| {
        let found = between(plan, course, names[a], names[b]);
        found.is_some_and(|evidence| evidence.lead == Lead::First)
    };
    let placed = rank::places(names.len(), ahead);
    let mut all: Vec<Placed> = names
        .iter()
        .zip(placed)
        .map(|(contender, place)| Placed {
            contender: (*contender).clone(),
            place,
            figure: figure(plan, course, contender),
            against: None,
        })
        .collect();
    // Within a place: measured before simulated, then the better figure.
    all.sort_by(|a, b| {
        let key = |placed: &Placed| {
            let figure = placed.figure.as_ref();
            let value = figure.map_or(f64::INFINITY, |figure| match figure.metric.better {
                Better::Lower => figure.estimate,
                Better::Higher => -figure.estimate,
            });
            (placed.place, figure.is_none_or(|figure| figure.is_virtual), value)
        };
        let (a, b) = (key(a), key(b));
        (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
    });
    let listed: Vec<String> = all.iter().map(|placed| placed.contender.clone()).collect();
    for (at, placed) in all.iter_mut().enumerate().skip(1) {
        let on = |other: &String| between(plan, course, other, &placed.contender);
        let ahead = || listed[1..at].iter().filter_map(on).find(|one| one.lead == Lead::First);
        placed.against = on(&listed[0]).or_else(ahead);
    }
    all
}

/// Returns the figure of a contender in the most important traffic in which it has one.
fn figure(plan: &Plan, course: &Course<'_>, contender: &str) -> Option<Figure> {
    plan.entries.iter().find_map(|entry| {
        let considered = &entry.considered;
        let mut trusted = course.of(&considered.name).filter(|(_, outcome)| outcome.trusted());
        trusted.find_map(|(ran, outcome)| {
            let id = outcome.contenders.iter().find(|one| one.label == contender)?.id;
            let is_it = |one: &&crate::result::outcome::Summary| {
                one.contender == id && one.metric == considered.metric.name
            };
            let summary = outcome.summary.iter().find(is_it)?;
            Some(Figure {
                traffic: considered.name.clone(),
                metric: considered.metric.clone(),
                estimate: summary.estimate,
                low: summary.low,
                high: summary.high,
                limit_ns: considered.limit_ns,
                file: ran.file.clone()?,
                is_virtual: ran.is_virtual,
            })
        })
    })
}

/// Returns the verdicts by which a contender that cannot carry everything is ahead of the first in one traffic.
fn alone(plan: &Plan, course: &Course<'_>, places: &[Placed]) -> Vec<Evidence> {
    let Some(first) = places.first() else { return Vec::new() };
    let mut found = Vec::new();
    for entry in &plan.entries {
        let considered = &entry.considered;
        let others = considered.contenders.iter().filter(|typed| !plan.eligible.contains(typed));
        found.extend(
            others
                .filter_map(|other| course.verdict(&considered.name, other, &first.contender))
                .filter(|evidence| evidence.lead == Lead::First),
        );
    }
    found
}

#[cfg(test)]
mod tests;

//! Resuming of a race that was broken off, and running one again as it was.

use super::enough::TimeLimit;
use super::request::{Claims, Request};
use super::run::claimed;
use super::{cells, quiet, schedule};
use crate::analysis::claims;
use crate::analysis::notice::Notice;
use crate::error::{Error, Result};
use crate::host::idle::Idle;
use crate::host::placement::Placement;
use crate::race::block_loop::BlockLoop;
use crate::race::context::{RaceContext, RaceEvent};
use crate::result::outcome::{Outcome, Status, blocks_done};
use crate::stats::Look;
use crate::time::Nanos;
use crate::transport::Contender;
use crate::trial::{Pairing, TrialOutcome, suited};
use crate::workload::{self, SharedTask};

/// Checks that a result was measured by deadheat, so that it can be resumed or repeated.
///
/// # Errors
/// [`Error::Usage`] for one that was imported.
pub fn check_measured(outcome: &Outcome) -> Result<()> {
    match outcome.imported {
        None => Ok(()),
        Some(_) => Err(Error::usage(
            "this result was imported: others measured it, and it can be neither resumed nor run again; \
             `deadheat report` and `compare` work on it",
        )),
    }
}

/// Resumes a race from its next whole block, under the plan and seed it began with, for `budget` more, or
/// for what is left of its own.
///
/// A race that ended because its time ran out has had its last look. Rulings after any block go on to be valid, and decide it
/// alone. Where its plan has none of them, going on after that look adds to the chance of a false verdict, which a warning
/// then states.
///
/// `asked` is what [`replay`] makes of the result, with what a person allowed: a file that its trials have written is in
/// the way like any other, and files and commands that the result names are those of a stranger.
///
/// # Errors
/// [`Error::Usage`] where nothing is left to do, saying what works instead; otherwise as
/// [`Request::run_with`].
pub fn resume(
    mut before: Outcome,
    budget: Option<Nanos>,
    asked: &Request,
    mut stage: RaceContext<'_>,
) -> Result<Outcome> {
    check_measured(&before)?;
    let done = blocks_done(&before);
    check_unfinished(&before, done)?;
    let (overwrite, origin) = (asked.overwrite, asked.origin.clone());
    let request = Request { overwrite, origin, ..request(&before)? };
    let limit = match budget {
        Some(more) => TimeLimit::Asked(more),
        None => match (budget_left(&before)?, request.limit()) {
            (None, _) => TimeLimit::None,
            (Some(left), TimeLimit::Unasked(_)) => TimeLimit::Unasked(left),
            (Some(left), _) => TimeLimit::Asked(left),
        },
    };
    let checked = request.check()?;
    for (contender, entrant) in checked.contenders.iter().zip(&before.contenders) {
        if contender.external.is_some() && contender.asked() != entrant.asked {
            return Err(Error::usage(format!(
                "`{}` names other commands by now than those of the blocks that are done; restore its file, or race anew",
                contender.spec
            )));
        }
        contender.check_at(request.place())?;
    }
    let placement = Placement::parse(&before.plan.placement)?;
    let common = request.common(saved_pairings(&before, checked.pairings)?, placement);
    let (host, _) = stage.runner.hosts()?;
    stage.runner.placement(Some(placement), checked.load)?;
    // What CPUs did in the blocks before, they do in those that follow.
    let recorded = before.plan.idle.as_deref().map(Idle::parse).transpose()?;
    let idle = recorded.map(|idle| (idle, "as before")).or(request.asked_idle());
    stage.runner.idle(idle, claimed(&before.metrics))?;
    quiet::settle_again(&mut stage, &mut before);
    let began = stage.clock.now();
    let mut notices = Vec::new();
    if (&host.hostname, &host.cpu_model) != (&before.host.hostname, &before.host.cpu_model) {
        notices.push(Notice::ResumedElsewhere {
            from: before.host.hostname.clone(),
            to: host.hostname,
        });
    }
    if before.status == Status::Budget && before.plan.any_time > 0.0 {
        spend_looks(&mut before, done);
    } else if before.status == Status::Budget {
        notices
            .push(Notice::ResumedAfterLastLook { blocks: done, error: error_after(&before, done) });
    }
    // The environment is cold again; what this trial finds is not looked at.
    if let Some(first) = before.contenders.iter().find(|e| e.is_racing()) {
        let order = common.order(first, schedule::pilot_seed(before.seed, 0))?;
        stage.observer.on(RaceEvent::Pilot { trial: 1, of: 1 });
        let _: TrialOutcome = stage.runner.run(&order);
    }
    let mut course = BlockLoop::new(stage, checked.contenders, common, checked.network, before)
        .within(limit, began)
        .at_least(request.least_blocks);
    if request.leaves_blocks_open() {
        course = course.replanning();
    }
    for notice in &notices {
        course.add(notice);
    }
    course.drive()
}

/// Returns contenders and work as the blocks that are done had them: a default may have changed since.
///
/// # Errors
/// [`Error::Usage`] for a contender or a workload that is none here.
fn saved_pairings(
    before: &Outcome,
    mut pairings: Vec<Option<Pairing>>,
) -> Result<Vec<Option<Pairing>>> {
    let planned = before.plan.workload.as_deref().map(SharedTask::parse).transpose()?;
    for (pairing, entrant) in pairings.iter_mut().zip(&before.contenders) {
        let Some(now) = pairing else { continue };
        let task = match (&entrant.cell, &planned) {
            (Some(cell), _) => SharedTask::parse(&cell.workload)?,
            (None, Some(planned)) => planned.clone(),
            (None, None) => now.task.clone(),
        };
        let contender = Contender::recorded(&entrant.spec, &entrant.asked)?;
        now.contender = suited(contender, &*task)?;
        now.task = task;
    }
    Ok(pairings)
}

/// Marks all error of the looks as spent by the last look, which was after `done` blocks.
fn spend_looks(before: &mut Outcome, done: u64) {
    let blocks = usize::try_from(done).unwrap_or(usize::MAX);
    let left = claims::looks(&before.plan, before.asked.confidence).last(blocks);
    before.plan.looks.retain(|look| look.blocks < blocks);
    before.plan.looks.push(Look { blocks, alpha: left });
}

/// Returns the request that runs a race again with the same contenders, plan and seed. Files and commands that the
/// result names are refused unless [`Request::written_in`] allows them.
///
/// The pilot's findings are taken from the earlier race: margin, looks and number of blocks are
/// the same. Verdicts may differ as trials do.
///
/// # Errors
/// [`Error::Usage`] for a word of the result that means nothing here.
pub fn replay(earlier: &Outcome) -> Result<Request> {
    Ok(Request {
        plan: Some(earlier.plan.clone()),
        // A placement that varies is part of what is asked, and none is fixed for all.
        placement: (!varies_placement(earlier)).then(|| earlier.plan.placement.clone()),
        ..request(earlier)?
    })
}

fn varies_placement(outcome: &Outcome) -> bool {
    let cells = outcome.contenders.iter().filter_map(|entrant| entrant.cell.as_ref());
    cells.into_iter().any(|cell| cell.placement.is_some())
}

/// Returns the request that a race came from.
fn request(outcome: &Outcome) -> Result<Request> {
    let asked = &outcome.asked;
    // Results of earlier versions name a default of what varies.
    let saved = workload::saved(&asked.workload);
    let workload = cells::without_varied(&saved, &asked.vary);
    let mut request = Request::new(asked.contenders.clone()).workload(workload);
    request.to.clone_from(&asked.to);
    if !asked.path.is_empty() {
        request.path.clone_from(&asked.path);
    }
    request.family = asked.family;
    request.blocks = asked.blocks;
    request.every = asked.every_ns.map(Nanos);
    request.margin = asked.margin;
    request.resolve = asked.resolve;
    if asked.claims_all {
        request = request.claims(Claims::All);
    }
    if asked.as_deployed {
        request = request.as_deployed();
    }
    request.confidence = asked.confidence;
    request.seed = Some(outcome.seed);
    request.placement.clone_from(&asked.placement);
    request.idle = asked.idle.as_deref().map(Idle::parse).transpose()?;
    request.interval = asked.interval_ns.map(Nanos);
    if asked.explain {
        request = request.explain();
    }
    request.title.clone_from(&outcome.title);
    request.labels.clone_from(&outcome.labels);
    request.vary.clone_from(&asked.vary);
    // Results name the limit that holds where none was asked for, too.
    let unasked = request.limit();
    let asked = asked.budget_ns.map(Nanos);
    request.budget = asked.filter(|budget| unasked != TimeLimit::Unasked(*budget));
    Ok(request.written_by(outcome))
}

/// Returns true if [`resume`] can go on with a race under what is left of its own budget.
pub fn is_unfinished(before: &Outcome) -> bool {
    let is_over = matches!(before.status, Status::Decided | Status::Budget);
    !is_over && check_unfinished(before, blocks_done(before)).is_ok() && budget_left(before).is_ok()
}

fn check_unfinished(before: &Outcome, done: u64) -> Result<()> {
    if before.status == Status::Decided {
        return Err(Error::usage(
            "this race is decided; nothing is left to do (replay runs it again)",
        ));
    }
    if done >= before.plan.blocks_max {
        return Err(Error::usage(format!(
            "all {done} blocks of this race's plan are done, and a plan is not changed once its \
             results are known; run a new race with more --blocks"
        )));
    }
    Ok(())
}

/// Returns the budget left after the trials of the race so far.
fn budget_left(before: &Outcome) -> Result<Option<Nanos>> {
    let Some(budget) = before.asked.budget_ns else {
        return Ok(None);
    };
    let took = before.trials.iter().map(|trial| trial.record.took_ns);
    let used = took.fold(0u64, u64::saturating_add);
    // The time between blocks was spent, too; that in which the race was broken off was not.
    let waited = before.asked.every_ns.unwrap_or(0).saturating_mul(blocks_done(before));
    let used = used.max(waited);
    match budget.checked_sub(used).filter(|left| *left > 0) {
        Some(left) => Ok(Some(Nanos(left))),
        None => Err(Error::usage(
            "the budget of this race is spent; give --budget for the time it may take from here",
        )),
    }
}

/// Returns the probability of a false verdict once the race goes on: what was spent each time its time
/// ran out, which was all of it, and what the looks to come will spend.
fn error_after(before: &Outcome, done: u64) -> f64 {
    let whole = claims::alpha(before.asked.confidence);
    let again = before.warnings.iter();
    let times = 1 + again.filter(|w| w.code == "resumed_after_last_look").count();
    let looks = before.plan.looks.iter();
    let to_come: f64 = looks.filter(|look| look.blocks as u64 > done).map(|look| look.alpha).sum();
    (whole * times as f64 + to_come).min(1.0)
}

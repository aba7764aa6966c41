//! Resumes an interrupted race, and runs a race again unchanged.

use super::block::TrialSettings;
use super::enough::TimeLimit;
use super::request::Request;
use super::run::claimed;
use super::{cells, commands, pilot, quiet};
use crate::race::block_loop::BlockLoop;
use crate::race::context::{RaceContext, RaceEvent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::workload::{self, SharedTask};
use deadheat_datapath::transport::Contender;
use deadheat_records::idle::Idle;
use deadheat_records::placement::Placement;
use deadheat_result::analysis::{claims, notice};
use deadheat_result::outcome::{Outcome, RecordedRequest, Status, blocks_done};
use deadheat_result::schedule;
use deadheat_stats::Look;
use deadheat_trial::{Pairing, TrialOutcome, suited};

/// Checks that a result was measured by deadheat, so that it can be resumed or repeated.
///
/// # Errors
/// [`Error::Usage`] for an imported result.
pub fn check_measured(outcome: &Outcome) -> Result<()> {
    match outcome.imported {
        None => Ok(()),
        Some(_) => Err(Error::usage(
            "this result was imported: others measured it, and it can be neither resumed nor run again; \
             `deadheat report` and `compare` work on it",
        )),
    }
}

/// Resumes a race from its next whole block, under its plan and seed, for `budget` more, or for the rest of its own
/// budget.
///
/// A race that ended because its time was over has had its last look. If its plan allows rulings after any block,
/// they stay valid, and they alone decide it. Otherwise, continuing after that look adds to the probability of a
/// false verdict, which a warning then states.
///
/// `asked` is the result of [`replay`], with a person's permissions: an existing file that its trials wrote is
/// refused like any other, and files and commands in the result are untrusted.
///
/// # Errors
/// [`Error::Usage`] if the race is complete, with an alternative; otherwise as [`Request::run_with`].
pub fn resume(
    mut before: Outcome,
    budget: Option<Nanos>,
    asked: &Request,
    mut context: RaceContext<'_>,
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
    let copies = commands::copies(&context, &checked.contenders, &before.contenders)?;
    for (contender, entrant) in checked.contenders.iter().zip(&before.contenders) {
        commands::check_unchanged(&mut context, contender, entrant, &copies)?;
        let names_commands = contender.external.is_some() || contender.commands.is_some();
        if names_commands && contender.asked() != entrant.asked {
            return Err(Error::usage(format!(
                "`{}` has other commands now than in the blocks that are done; restore its file, or race anew",
                contender.spec
            )));
        }
        contender.check_at(request.place())?;
    }
    let placement = Placement::parse(&before.plan.placement)?;
    let common = request.common(saved_pairings(&before, checked.pairings)?, placement);
    let common = TrialSettings { copies, ..common };
    let (host, _) = context.runner.hosts()?;
    context.runner.placement(Some(placement), checked.load)?;
    // Idle CPUs have the same state as in the earlier blocks.
    let recorded = before.plan.idle.as_deref().map(Idle::parse).transpose()?;
    let idle = recorded.map(|idle| (idle, "as before")).or(request.asked_idle());
    if let Some(own) = context.runner.own_host() {
        own.idle(idle, claimed(&before.metrics))?;
    }
    quiet::settle_again(&mut context, &mut before);
    let began = context.clock.now();
    if (&host.hostname, &host.cpu_model) != (&before.host.hostname, &before.host.cpu_model) {
        let warning = notice::resumed_elsewhere(&before.host.hostname, &host.hostname);
        before.warnings.push(warning);
    }
    if before.status == Status::Budget && before.plan.any_time > 0.0 {
        spend_looks(&mut before, done);
    } else if before.status == Status::Budget {
        let error = error_after(&before, done);
        before.warnings.push(notice::resumed_after_last_look(done, error));
    }
    // The environment is cold again; the figures of this trial are not used.
    if let Some(first) = before.contenders.iter().find(|e| e.is_racing()) {
        let order = common.order(first, schedule::pilot_seed(before.seed, 0))?;
        context.observer.on(RaceEvent::Pilot { trial: 1, of: 1 });
        let _: (TrialOutcome, Nanos) = pilot::attempt(&mut context, &order)?;
    }
    let mut course = BlockLoop::new(context, checked.contenders, common, checked.network, before)
        .within(limit, began)
        .at_least(request.least_blocks);
    if request.leaves_blocks_open() {
        course = course.replanning();
    }
    course.drive()
}

/// Returns contenders and work as in the completed blocks, because a default may have changed since.
///
/// # Errors
/// [`Error::Usage`] for a contender or a workload that this program does not have.
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

/// Marks the whole error of the looks as spent by the last look, after `done` blocks.
fn spend_looks(before: &mut Outcome, done: u64) {
    let blocks = usize::try_from(done).unwrap_or(usize::MAX);
    let left = claims::looks(&before.plan, before.asked.confidence).last(blocks);
    before.plan.looks.retain(|look| look.blocks < blocks);
    before.plan.looks.push(Look { blocks, alpha: left });
}

/// Returns the request that runs a race again with the same contenders, plan and seed. Files and commands in the
/// result are refused unless [`Request::written_in`] allows them.
///
/// The plan is the earlier race's: margin, looks and number of blocks are the same. Verdicts may differ as trials
/// do.
///
/// # Errors
/// [`Error::Usage`] for text in the result that this program cannot parse.
pub fn replay(earlier: &Outcome) -> Result<Request> {
    let mut request = Request { plan: Some(earlier.plan.clone()), ..request(earlier)? };
    // A placement that varies is part of the request, so none is fixed for all.
    request.asked.placement = (!varies_placement(earlier)).then(|| earlier.plan.placement.clone());
    Ok(request)
}

fn varies_placement(outcome: &Outcome) -> bool {
    let cells = outcome.contenders.iter().filter_map(|entrant| entrant.cell.as_ref());
    cells.into_iter().any(|cell| cell.placement.is_some())
}

/// Returns the request from which a race was run.
fn request(outcome: &Outcome) -> Result<Request> {
    let asked = &outcome.asked;
    // Results of earlier versions contain defaults of the keys that vary.
    let saved = workload::saved(&asked.workload);
    let workload = cells::without_varied(&saved, &asked.vary);
    let mut request = Request {
        asked: RecordedRequest { workload, budget_ns: None, ..asked.clone() },
        idle: asked.idle.as_deref().map(Idle::parse).transpose()?,
        seed: Some(outcome.seed),
        title: outcome.title.clone(),
        labels: outcome.labels.clone(),
        ..Request::new(asked.contenders.clone())
    };
    if asked.path.is_empty() {
        request = request.path("loopback");
    }
    // Results also record the default limit.
    let unasked = request.limit();
    let limit = asked.budget_ns.map(Nanos);
    request.asked.budget_ns =
        limit.filter(|limit| unasked != TimeLimit::Unasked(*limit)).map(|limit| limit.0);
    Ok(request.written_by(outcome))
}

/// Returns true if [`resume`] can continue a race within the rest of its own budget.
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

/// Returns the rest of the budget after the trials of the race so far.
fn budget_left(before: &Outcome) -> Result<Option<Nanos>> {
    let Some(budget) = before.asked.budget_ns else {
        return Ok(None);
    };
    let took = before.trials.iter().map(|trial| trial.record.took_ns);
    let used = took.fold(0u64, u64::saturating_add);
    // The time between blocks counts; the time in which the race was interrupted does not.
    let waited = before.asked.every_ns.unwrap_or(0).saturating_mul(blocks_done(before));
    let used = used.max(waited);
    match budget.checked_sub(used).filter(|left| *left > 0) {
        Some(left) => Ok(Some(Nanos(left))),
        None => Err(Error::usage(
            "the budget of this race is spent; give --budget for the time it may take from here",
        )),
    }
}

/// Returns the probability of a false verdict if the race continues: the error spent each time its time was over,
/// which was all of it, and the error of the looks to come.
fn error_after(before: &Outcome, done: u64) -> f64 {
    let whole = claims::alpha(before.asked.confidence);
    let again = before.warnings.iter();
    let times = 1 + again.filter(|w| w.code == "resumed_after_last_look").count();
    let looks = before.plan.looks.iter();
    let to_come: f64 = looks.filter(|look| look.blocks as u64 > done).map(|look| look.alpha).sum();
    (whole * times as f64 + to_come).min(1.0)
}

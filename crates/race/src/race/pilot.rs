//! Pilot: the trials before block 0, one contender against itself. They warm up the environment, and measure the
//! duration of a trial, the scatter between trials, and the best length of a trial.

use super::absence::{self, Loss};
use super::block::{self, TrialSettings};
use super::request::Request;
use crate::race::context::{RaceContext, RaceEvent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Metric, Metrics};
use deadheat_contract::workload::{Lengths, SharedTask};
use deadheat_result::dropped::DropReason;
use deadheat_result::outcome::Entrant;
use deadheat_result::schedule;
use deadheat_stats as stats;
use deadheat_trial::{Order, TrialOutcome};

/// Maximum duration of the shortest trial for which a better length is searched. Longer trials leave no time for
/// the search, and are as short as their claim allows.
const SHORT: Nanos = Nanos::from_millis(500);

/// Maximum duration of a trial that is cheap enough for a full pilot.
const DEAR: Nanos = Nanos::from_millis(1_000);

/// Time without a valid trial after which fewer failures show that no more will come. The wait for a turn at the
/// far end does not count.
const PATIENCE: Nanos = Nanos::from_secs(8);

/// Number of trials that fail their gate, without a valid one, at which the race has one block only.
const MOST_FAILED: usize = 3;

/// The same number once [`PATIENCE`] is over.
const MOST_LONG_FAILED: usize = 2;

/// Number of pilot trials if each is long: the first also warms up, and both give the duration.
const FEW_TRIALS: u64 = 2;

/// Maximum length of a trial, as a multiple of the shortest. Six trials give only a rough estimate of the best
/// length, and hosts drift within a second, against which many short trials in turn help.
const LONGEST: u64 = 4;

/// Number of known parts of the figure in the pilot's shortest trial.
const PARTS_OF_FEWEST: u64 = 2;

/// Runs the trials before block 0 with the first competitor that reaches the far end and does not break; the
/// contenders before it drop out.
///
/// # Errors
/// If no contender is left.
pub(super) fn run(
    request: &Request,
    context: &mut RaceContext<'_>,
    common: &TrialSettings,
    entrants: &mut [Entrant],
    seed: u64,
) -> Result<Pilot> {
    let length = PilotLength::open(request, common);
    // If there is nothing to estimate, one trial warms up.
    let is_open = request.plan.is_none() && (length.is_some() || request.leaves_blocks_open());
    let trials = PilotTrials { seed, of: if is_open { PILOT_TRIALS } else { 1 } };
    let mut common = common.clone();
    if let Some(length) = &length {
        common.run_as(&length.task(2 * length.lengths.fewest)?);
    }
    let common = &common;
    for entrant in entrants.iter_mut().filter(|entrant| entrant.is_racing() && !entrant.floor) {
        match pilot_with(request, context, common, entrant, trials)? {
            PilotOutcome::Through(mut pilot) => {
                if let Some(length) = &length {
                    length.choose(&mut pilot)?;
                }
                return Ok(pilot);
            }
            PilotOutcome::Out(dropped) => entrant.drop_out(dropped),
        }
    }
    Err(absence::none_left(entrants))
}

/// The search for the length of a trial, if the plan decides it.
struct PilotLength {
    spec: deadheat_base::spec::Spec,
    lengths: Lengths,
}

impl PilotLength {
    /// Returns the search for the length of trials; `None` if the user or an earlier race has set the length, if
    /// conditions vary, or if trials are so long that the shortest suffices.
    fn open(request: &Request, common: &TrialSettings) -> Option<PilotLength> {
        if request.plan.is_some() || !request.asked.vary.is_empty() {
            return None;
        }
        let task = &common.pairings.iter().flatten().next()?.task;
        let lengths = task.info().lengths?;
        let shortest = Nanos(lengths.fewest.saturating_mul(lengths.unit_ns));
        (shortest <= SHORT).then(|| PilotLength { spec: task.info().spec.clone(), lengths })
    }

    fn task(&self, units: u64) -> Result<SharedTask> {
        SharedTask::of(self.lengths.apply(self.spec.clone(), units))
    }

    /// Chooses the length with the least variance of the mean per second (Kalibera & Jones 2013), from trials of
    /// twice the minimum length.
    fn choose(&self, pilot: &mut Pilot) -> Result<()> {
        let fewest = self.lengths.fewest;
        let part = fewest / PARTS_OF_FEWEST;
        let part_ns = part.saturating_mul(self.lengths.unit_ns);
        let took: Vec<f64> = pilot.took.iter().map(|took| took.0 as f64).collect();
        let took = stats::quantile::median(&took).unwrap_or(0.0);
        let overhead = (took - (2 * PARTS_OF_FEWEST * part_ns) as f64).max(0.0) as u64;
        // The first trial has cold caches.
        let warm = pilot.segments.get(1..).unwrap_or_default();
        let parts = stats::components(warm).map_or(PARTS_OF_FEWEST, |components| {
            let allowed = PARTS_OF_FEWEST..=LONGEST * PARTS_OF_FEWEST;
            stats::best_length(&components, part_ns, overhead, allowed)
        });
        let units = parts * part;
        let reason = match parts {
            PARTS_OF_FEWEST => {
                "the fewest that the claim takes; longer trials would scatter as much"
            }
            _ => "the least scatter per second, by the trials before the first block",
        };
        pilot.took.iter_mut().for_each(|one| {
            let shorter =
                one.0 as f64 + (parts as f64 - 2.0 * PARTS_OF_FEWEST as f64) * part_ns as f64;
            *one = Nanos(shorter.max(1.0) as u64);
        });
        pilot.work = Some((self.task(units)?, reason.to_owned()));
        Ok(())
    }
}

enum PilotOutcome {
    Through(Pilot),
    Out(DropReason),
}

/// Seed of a race, and number of the trials before its block 0.
#[derive(Clone, Copy)]
struct PilotTrials {
    seed: u64,
    of: u64,
}

fn pilot_with(
    request: &Request,
    context: &mut RaceContext<'_>,
    common: &TrialSettings,
    entrant: &Entrant,
    PilotTrials { seed, mut of }: PilotTrials,
) -> Result<PilotOutcome> {
    let mut pilot = Pilot { label: entrant.label.clone(), ..Pilot::default() };
    let mut failed: Vec<String> = Vec::new();
    let began = context.clock.now();
    let mut waited = Nanos(0);
    let mut trial = 0;
    while trial < of {
        let order = common.order(entrant, schedule::pilot_seed(seed, trial))?;
        trial += 1;
        context.observer.on(RaceEvent::Pilot { trial, of });
        let (mut end, mut took) = attempt(context, &order)?;
        let again = match &end {
            TrialOutcome::Ran(_) => false,
            TrialOutcome::Blocked(_)
            | TrialOutcome::Limited(_)
            | TrialOutcome::Broke(_)
            | TrialOutcome::Disconnected(_) => true,
            TrialOutcome::Failed(error) => block::worth_repeating(error),
            TrialOutcome::Lost(_) => false,
        };
        if again {
            (end, took) = attempt(context, &order)?;
        }
        match end {
            TrialOutcome::Ran(record) => {
                waited += Nanos(record.turn_wait_ns);
                took = took - Nanos(record.turn_wait_ns);
                pilot.took.push(took);
                if record.valid {
                    pilot.figures.push(record.metrics);
                    pilot.segments.push(record.segments);
                } else {
                    failed.push(record.why_invalid.unwrap_or_default());
                }
            }
            TrialOutcome::Blocked(evidence) => {
                return Ok(PilotOutcome::Out(DropReason::Blocked(evidence)));
            }
            TrialOutcome::Limited(what) => return Ok(PilotOutcome::Out(DropReason::Limited(what))),
            TrialOutcome::Broke(evidence) | TrialOutcome::Disconnected(evidence) => {
                return Ok(PilotOutcome::Out(DropReason::Failed(evidence)));
            }
            TrialOutcome::Failed(error) => return Err(error),
            TrialOutcome::Lost(why) => return Err(Error::peer("far end", why)),
        }
        let elapsed = context.clock.now() - began - waited;
        if pilot.figures.is_empty() && !failed.is_empty() && request.plan.is_none() {
            let is_long = elapsed > PATIENCE;
            if failed.len() >= if is_long { MOST_LONG_FAILED } else { MOST_FAILED } {
                pilot.is_refused = true;
                break;
            }
            // One trial may fail by chance, and a race of such trials would take too long to show it.
            if is_long {
                of = of.max(MOST_LONG_FAILED as u64);
            }
        }
        if took > DEAR && !request.is_simulated() {
            of = of.min(FEW_TRIALS);
        }
    }
    Ok(PilotOutcome::Through(pilot))
}

/// Runs one trial, and returns its outcome and duration. If the far end is lost, it waits for it, and runs the trial
/// anew.
pub(super) fn attempt(
    context: &mut RaceContext<'_>,
    order: &Order,
) -> Result<(TrialOutcome, Nanos)> {
    loop {
        let (from_ms, began) = (context.epoch_ms(), context.clock.now());
        let end = context.runner.run(order);
        let took = context.clock.now() - began;
        if context.stopped() {
            return Err(Error::Interrupted);
        }
        let TrialOutcome::Lost(why) = end else { return Ok((end, took)) };
        let from_ms = context.silent_ms().unwrap_or(from_ms);
        context.recover(Loss { from_ms, why, block: None }, absence::PATIENCE)?;
    }
}

/// Number of trials of a full pilot.
const PILOT_TRIALS: u64 = 6;

/// Results of the trials before block 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pilot {
    /// Duration of each trial, including the start and end of its processes.
    pub took: Vec<Nanos>,
    /// Figures of each valid trial, in order.
    pub figures: Vec<Metrics>,
    /// Claimed figure of equal parts of each valid trial, in order.
    pub segments: Vec<Vec<f64>>,
    /// True if no trial passed its gate. The first blocks still show what the contenders measure here.
    pub is_refused: bool,
    /// Label of the contender that ran.
    pub label: String,
    /// Work of each trial of the race, with the reason; absent unless the pilot chose the length.
    pub work: Option<(SharedTask, String)>,
}

impl Pilot {
    /// Returns the standard deviation of the log-ratio of a block, from trials of one contender; `None`
    /// with too few of them.
    pub(super) fn scatter(&self, metric: &Metric) -> Option<f64> {
        let logs: Vec<f64> = self
            .figures
            .iter()
            // The first trial has cold caches and an idle CPU, so it is not used.
            .skip(1)
            .filter_map(|figures| figures.get(&metric.name))
            .map(|figure| figure.ln())
            .filter(|log| log.is_finite())
            .collect();
        // A log-ratio has the scatter of two trials.
        Some(deviation(&logs)? * std::f64::consts::SQRT_2)
    }
}

/// Returns the sample standard deviation; `None` with fewer than three values.
fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if n < 3.0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (n - 1.0)).sqrt())
}

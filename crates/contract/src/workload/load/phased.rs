//! Work in phases: its conditions, and the figures of a trial that follow.

use crate::contract::Side;
use crate::measurements::{Metric, MetricName, Percentile, Phase, Role, Unit};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Settings, Spec};
use deadheat_base::time::Nanos;

use super::super::{Lengths, Reports, Task, TaskInfo};
use super::log::{MOST, most};
use super::phases::{
    GOODPUT_RATIO, INDUCED, Observed, PERCENTILES, Phases, Stint, clock_of, counts_gaps,
    goodput_name, loss_name, metrics, missed_name, percentile_name, ratio_name,
};
use super::{FOR, FROM, PHASE};
use crate::workload::Measurements;

/// Returns the phases that `settings` ask for, beside work of this name; `typed` has the keys that were given.
///
/// # Errors
/// [`Error::Usage`] if a key of phases is given without `load-from`.
pub(super) fn asked(
    work: &str,
    typed: &Spec,
    settings: &Settings,
    guard: Nanos,
) -> Result<Option<Phases>> {
    let Some(stint) = super::stint(settings) else {
        let of_phases = [FOR.name(), PHASE.name()];
        return match typed.options.iter().find(|(key, _)| of_phases.contains(&key.as_str())) {
            Some((key, _)) => Err(Error::usage(format!(
                "{work}: `{key}` belongs to a load that begins in the middle of the work; say when, as {FROM}=5s, \
                 or leave it out"
            ))),
            None => Ok(None),
        };
    };
    Ok(Some(Phases { stint, guard, judged: settings.get(&PHASE) }))
}

/// Returns the work that `parse` creates from `spec`, as long as its phases if its length is open, and the way to
/// observe it.
///
/// # Errors
/// [`Error::Usage`] if the work cannot have phases, is over too soon, or has too few messages in a phase.
pub(super) fn in_phases(
    phases: &Phases,
    spec: &Spec,
    parse: impl Fn(&Spec) -> Result<Box<dyn Task>>,
) -> Result<(Box<dyn Task>, Observed)> {
    let work = &spec.name;
    let unit = unit(spec, &parse);
    let mut task = parse(spec);
    if let Some(lengths) = task.as_ref().ok().and_then(|task| task.info().lengths) {
        // As long after the load as before it, and the time to drain the queue.
        let whole = phases.stint.end() + phases.guard + phases.stint.from;
        task = parse(&lengths.apply(spec.clone(), whole.0.div_ceil(lengths.unit_ns.max(1))));
    }
    let task = task?;
    let info = task.info();
    let Some(observed) = info.observed else {
        return Err(Error::usage(format!(
            "{work}: with these settings its figures are of the trial as a whole, or of several connections together, and \
             nothing in it is told apart by the time at which it was due, so it has no phases; leave out {FROM}"
        )));
    };
    let Some(whole) = info.planned else {
        return Err(Error::usage(format!(
            "{work}: its length is not known beforehand, and a load that begins at {} needs it; give it a time instead of a count",
            phases.stint.from
        )));
    };
    let enough = claimed(phases, info)?.fewest();
    for phase in Phase::ALL {
        let (from, to) = phases.span(phase, whole);
        let fewest = if phases.judged == Some(phase) { enough } else { Percentile::P50.fewest() };
        let needs = Nanos(unit.map_or(1, |unit| unit.unit_ns).saturating_mul(fewest));
        if to < from + needs {
            return Err(Error::usage(too_short(work, phases, phase, whole, needs)));
        }
    }
    match most(info) {
        Some(messages) if messages > MOST => Err(Error::usage(format!(
            "{work}: {messages} messages are to be told apart by phase, and {MOST} can be; send fewer a second, or \
             shorten {FROM} and {FOR}"
        ))),
        _ => Ok((task, observed)),
    }
}

/// Returns the percentile of a phase that corresponds to the claim of the work.
///
/// # Errors
/// [`Error::Usage`] if phases do not have it.
fn claimed(phases: &Phases, info: &TaskInfo) -> Result<Percentile> {
    let claim = info.claim();
    let percentile = claim.and_then(|metric| MetricName::parse(&metric.name).percentile);
    if percentile == Some(Percentile::P999) && phases.judged.is_some() {
        return Err(Error::usage(format!(
            "{}: a phase has percentiles up to p99; claim that, or give {PHASE}=all",
            info.spec.name
        )));
    }
    Ok(percentile.filter(|one| PERCENTILES.contains(one)).unwrap_or(Percentile::P50))
}

/// Returns the lengths that the work would have if its settings did not give one.
fn unit(spec: &Spec, parse: impl Fn(&Spec) -> Result<Box<dyn Task>>) -> Option<Lengths> {
    let mut open = spec.clone();
    open.options.retain(|(key, _)| key != "count" && key != "time");
    parse(&open).ok()?.info().lengths
}

fn too_short(work: &str, phases: &Phases, phase: Phase, whole: Nanos, needs: Nanos) -> String {
    let Stint { from, lasts } = phases.stint;
    let Phases { guard, .. } = phases;
    let what = match phase {
        Phase::Before => format!("raise {FROM}"),
        Phase::During => format!("raise {FOR}"),
        Phase::After => "have the work last longer, or leave its length out".to_owned(),
    };
    format!(
        "{work}: the load begins at {from} and lasts {lasts}, and the work {whole}, which leaves too little {} the \
         load: {needs} of messages are the least there, besides {} before each edge and {guard} after it; {what}, \
         or lower load-lead",
        phase.name(),
        phases.ahead(),
    )
}

impl Phases {
    /// Returns the metrics of the work with the metrics of each phase; the claim moves to the phase for verdicts.
    pub(super) fn add_metrics(&self, observed: Observed, work: &TaskInfo) -> Vec<Metric> {
        let mut all = work.metrics.clone();
        all.extend(metrics(observed).into_iter().map(|metric| {
            let clock = clock_of(&metric, observed, work);
            Metric { clock, ..metric }
        }));
        if let Some(claim) = self.claim(observed, work) {
            for metric in &mut all {
                let is_claim = metric.name == claim;
                metric.role = if is_claim { Role::Claim } else { Role::Descriptive };
            }
            all.sort_by_key(|metric| metric.role != Role::Claim);
        }
        all
    }

    /// Returns the name of the metric for verdicts, if it is a phase's.
    fn claim(&self, observed: Observed, work: &TaskInfo) -> Option<String> {
        let judged = self.judged?;
        if observed.deadline().is_some() && work.claim().is_some_and(|one| one.unit == Unit::Share)
        {
            return Some(missed_name(judged));
        }
        let percentile = claimed(self, work).unwrap_or(Percentile::P50);
        let name = percentile_name(observed, percentile, judged);
        Some(name.unwrap_or_else(|| goodput_name(judged)))
    }

    /// Adds the figures of the phases that the observing end reports, and the comparisons of phases.
    pub(super) fn conclude(
        &self,
        observed: Observed,
        work: &TaskInfo,
        reports: &Reports<'_>,
        findings: &mut Measurements,
    ) {
        let (senders, observers) = match observed {
            Observed::RoundTrips => (reports.near, reports.near),
            Observed::OneWay(direction) => {
                let (senders, receivers, _) = reports.of(direction);
                (senders, receivers)
            }
            // Items that were never sent count as missing, too.
            Observed::Items(_) | Observed::Bytes(_) => match observed.side() {
                Side::Near => (&[][..], reports.near),
                Side::Far => (&[][..], reports.far),
            },
        };
        let pacing = senders.first().and_then(|sender| sender.pacing.as_ref());
        let was_silent = pacing.is_some_and(|p| p.missed_no_room > 0 || p.missed_no_time > 0);
        let reported = |name: &str| {
            let all = observers.iter().map(|half| half.figures.get(name).copied());
            match observed {
                // With several flows the sum, if all report it.
                Observed::Bytes(_) => all.sum::<Option<f64>>().filter(|_| !observers.is_empty()),
                _ => observers.first().and_then(|half| half.figures.get(name).copied()),
            }
        };
        for metric in metrics(observed) {
            // Unsent messages use no numbers, so gaps in the numbers and the due times of lost messages are unknown.
            let is_unknown = was_silent && counts_gaps(&metric.name);
            let figure = reported(&metric.name).filter(|_| !is_unknown);
            let Some(figure) = figure else { continue };
            let is_time = observed == Observed::RoundTrips && metric.unit == Unit::Nanos;
            if is_time && figure >= work.timeout.0 as f64 {
                findings.censored.push(metric.name.clone());
            }
            findings.metrics.insert(metric.name, figure);
        }
        compare(observed, findings);
        let Some(claim) = self.claim(observed, work) else { return };
        // Segments of a trial with phases differ by design, so they do not show drift.
        findings.segments = Vec::new();
        if findings.why_invalid.is_none() && !findings.metrics.contains_key(&claim) {
            findings.why_invalid = Some(format!(
                "too few messages came through in the phase that is judged to have its figure, {claim}"
            ));
        }
    }
}

/// Adds the figures that compare the phase during the load with the phase before it.
fn compare(observed: Observed, findings: &mut Measurements) {
    let of = |name: String| findings.metrics.get(&name).copied();
    let both =
        |name: &dyn Fn(Phase) -> String| Some((of(name(Phase::Before))?, of(name(Phase::During))?));
    let times =
        both(&|phase| percentile_name(observed, Percentile::P50, phase).unwrap_or_default());
    let losses = both(&loss_name);
    let ratio = times.filter(|(before, _)| *before > 0.0).map(|(before, during)| during / before);
    let induced = losses.map(|(before, during)| during - before);
    if observed.names().is_none() {
        let rates = both(&goodput_name).filter(|(before, _)| *before > 0.0);
        let ratio = rates.map(|(before, during)| (GOODPUT_RATIO.to_owned(), during / before));
        findings.metrics.extend(ratio);
        return;
    }
    findings.metrics.extend(ratio_name(observed).zip(ratio));
    findings.metrics.extend(induced.map(|induced| (INDUCED.to_owned(), induced)));
}

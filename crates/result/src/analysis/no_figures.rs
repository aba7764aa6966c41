//! Contenders that ran and have no figures, since no trial of theirs is valid, with the reason; and the claimed figures that
//! races lack in a comparison.

use serde::Serialize;

use super::claims::claimed;
use super::exclusions::by_reason;
use super::independent::Figures;
use super::lost_shares::LedgerSums;
use crate::outcome::{Entrant, Outcome, Trial};
use deadheat_contract::measurements::Metric;
use deadheat_stats::quantile::median;

/// Contender without a valid trial in a race.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SilentContender {
    /// The contender's label.
    pub contender: String,
    /// Reason, as the end of a sentence.
    pub why: String,
}

/// Claimed figures that a contender lacks in one of the races of a comparison, so that this race does not count for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbsentFigures {
    /// The contender's label.
    pub contender: String,
    /// Metrics of the figures.
    pub metrics: Vec<Metric>,
    /// Side of the race.
    pub side: ComparedSide,
    /// Start time of the race.
    pub started: String,
    /// Number of the contender's trials in the race.
    pub trials: u64,
    /// Number of them that are valid.
    pub valid: u64,
    /// Reason, as the end of a sentence.
    pub why: String,
}

/// Side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedSide {
    /// Earlier races.
    Old,
    /// Later races.
    New,
}

/// Returns true if contenders ran to the end of a race, and no contender has a valid trial.
pub fn is_blank(race: &Outcome) -> bool {
    let counts = |trial: &Trial| trial.record.valid && !trial.control;
    !race.trials.iter().any(counts) && !silent(race).is_empty()
}

/// Claimed figure of trials that do not count.
#[derive(Debug, Clone, PartialEq)]
pub struct UntrustedFigure<'a> {
    /// The contender's label.
    pub contender: &'a str,
    /// Metric of the figure.
    pub metric: &'a Metric,
    /// Median over the trials that have it, valid or not, in the metric's unit.
    pub median: f64,
    /// Number of these trials.
    pub trials: usize,
}

/// Returns the first claimed figure of each contender without a valid trial, as far as its trials have it.
pub fn untrusted(race: &Outcome) -> Vec<UntrustedFigure<'_>> {
    let has_valid = |entrant: &Entrant| own_trials(race, entrant).any(|trial| trial.record.valid);
    let without = race.contenders.iter().filter(|entrant| !has_valid(entrant));
    let figure = |entrant: &'_ Entrant| {
        claimed(&race.metrics).find_map(|metric| {
            let of = |trial: &Trial| trial.record.metrics.get(&metric.name).copied();
            let values: Vec<f64> = own_trials(race, entrant).filter_map(of).collect();
            Some((metric, median(&values)?, values.len()))
        })
    };
    let found = without.filter_map(|entrant| {
        let (metric, median, trials) = figure(entrant)?;
        Some(UntrustedFigure { contender: &entrant.label, metric, median, trials })
    });
    found.collect()
}

/// Returns the contenders that ran to the end of a race and have no valid trial.
pub fn silent(race: &Outcome) -> Vec<SilentContender> {
    let ran = race.contenders.iter().filter(|entrant| entrant.is_racing());
    let ran = ran.filter(|entrant| own_trials(race, entrant).next().is_some());
    let silent = ran.filter_map(|entrant| {
        let why = why_silent(race, entrant)?;
        Some(SilentContender { contender: entrant.label.clone(), why })
    });
    silent.collect()
}

/// Returns the reason why a contender has no valid trial, as the end of a sentence; `None` if it has one.
pub fn why_silent(race: &Outcome, entrant: &Entrant) -> Option<String> {
    let own = || own_trials(race, entrant);
    if own().any(|trial| trial.record.valid) {
        return None;
    }
    if let Some((word, why)) = entrant.out() {
        return Some(format!("it is out ({word}): {why}"));
    }
    if let Some(why) = entrant.infeasible() {
        return Some(format!("it cannot run under its conditions: {why}"));
    }
    let reasons = by_reason(own());
    let all = own().count();
    let first = reasons.first().and_then(|trials| Some((trials.len(), trials.first()?.1)));
    Some(match first {
        None => "it has no trial".to_owned(),
        Some((_, why)) if all == 1 => format!("its only trial is not valid: {why}"),
        Some((most, why)) if most == all => format!("none of its {all} trials is valid: {why}"),
        Some((most, why)) => format!("none of its {all} trials is valid; in {most} of them {why}"),
    })
}

/// Returns the contenders of which nothing arrived in any valid trial, so that none has a claimed figure of a time.
pub fn unanswered(race: &Outcome) -> Vec<SilentContender> {
    let lacks = |entrant: &&Entrant| {
        let mut claims = claimed(&race.metrics);
        claims.all(|metric| Figures::of(race, entrant, metric).trials == 0)
    };
    let unanswered = race.contenders.iter().filter(lacks).filter_map(|entrant| {
        let why = why_unanswered(race, entrant)?;
        Some(SilentContender { contender: entrant.label.clone(), why })
    });
    unanswered.collect()
}

/// Returns the words on a contender of which nothing arrived in any valid trial, as the end of a sentence.
pub fn why_unanswered(race: &Outcome, entrant: &Entrant) -> Option<String> {
    let valid = own_trials(race, entrant).filter(|trial| trial.record.valid);
    let sent = LedgerSums::of(valid)?.nothing_arrived()?;
    Some(format!("nothing arrived of the {sent} that it sent"))
}

/// Returns a contender's own trials, and none of its hidden copy.
fn own_trials<'a>(race: &'a Outcome, entrant: &Entrant) -> impl Iterator<Item = &'a Trial> {
    let id = entrant.id;
    race.trials.iter().filter(move |trial| trial.contender == id && !trial.control)
}

/// Returns the claimed figures that races of a comparison lack, of contenders and metrics that both sides have.
pub(super) fn absent(old: &[&Outcome], new: &[&Outcome]) -> Vec<AbsentFigures> {
    let mut all = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for contender in new.iter().flat_map(|race| &race.contenders) {
        let identity = contender.identity();
        if seen.contains(&identity) || !old.iter().any(|race| named(race, identity).is_some()) {
            continue;
        }
        seen.push(identity);
        let sides = [(ComparedSide::Old, old, new), (ComparedSide::New, new, old)];
        for (side, races, others) in sides {
            all.extend(races.iter().filter_map(|race| lacking(race, contender, side, others)));
        }
    }
    all
}

/// Returns the claimed figures that a contender lacks in one race, of metrics that any of the `others` has, too.
fn lacking(
    race: &Outcome,
    contender: &Entrant,
    side: ComparedSide,
    others: &[&Outcome],
) -> Option<AbsentFigures> {
    let own = named(race, contender.identity())?;
    let is_known = |metric: &&Metric| {
        let mut metrics = others.iter().flat_map(|race| &race.metrics);
        metrics.any(|other| (&other.name, other.unit) == (&metric.name, metric.unit))
    };
    let lacks = |metric: &&Metric| Figures::of(race, own, metric).trials == 0;
    let metrics: Vec<Metric> =
        claimed(&race.metrics).filter(is_known).filter(lacks).cloned().collect();
    let labels: Vec<String> = metrics.iter().map(|metric| metric.label.clone()).collect();
    let trials = || own_trials(race, own);
    (!metrics.is_empty()).then(|| AbsentFigures {
        contender: contender.label.clone(),
        metrics,
        side,
        started: race.started.clone(),
        trials: trials().count() as u64,
        valid: trials().filter(|trial| trial.record.valid).count() as u64,
        why: why_silent(race, own).or_else(|| why_unanswered(race, own)).unwrap_or_else(|| {
            format!("no valid trial of it has {}", deadheat_base::figures::list(&labels))
        }),
    })
}

fn named<'a>(race: &'a Outcome, identity: &str) -> Option<&'a Entrant> {
    race.contenders.iter().find(|contender| contender.identity() == identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use deadheat_contract::measurements::Metrics;

    /// A race of three with these trials of its second contender: valid, or the reason why not.
    fn race(trials: &[Option<&str>]) -> Outcome {
        let mut outcome = testing::outcome(3);
        let name = outcome.metrics[0].name.clone();
        let trial = |contender: usize, block: usize, why: Option<&str>| {
            let mut record = testing::record(Metrics::from([(name.clone(), 100.0)]));
            record.valid = why.is_none();
            record.why_invalid = why.map(str::to_owned);
            Trial { block: block as u64, order: 0, contender, control: false, record }
        };
        for (block, why) in trials.iter().enumerate() {
            outcome.trials.extend([trial(0, block, None), trial(1, block, *why)]);
            // A valid trial of the copy is none of the contender's.
            outcome.trials.push(Trial { control: true, ..trial(1, block, None) });
        }
        outcome
    }

    #[test]
    fn why_there_is_no_figure_is_said_with_how_many_trials_and_the_reason_of_most() {
        let late = ["late by 3 ms", "late by 7 ms"].map(Some);
        let of = |trials: &[Option<&str>]| {
            let race = race(trials);
            let silent = silent(&race);
            assert!(silent.iter().all(|one| one.contender == race.contenders[1].label));
            silent.into_iter().map(|one| one.why).next()
        };
        assert_eq!(of(&[late[0], None]), None);
        assert_eq!(of(&late[..1]).unwrap(), "its only trial is not valid: late by 3 ms");
        assert_eq!(of(&late).unwrap(), "none of its 2 trials is valid: late by 3 ms");
        assert_eq!(
            of(&[Some("no answer"), late[0], late[1]]).unwrap(),
            "none of its 3 trials is valid; in 2 of them late by 3 ms"
        );
        // The third contender has not run.
        assert_eq!(
            why_silent(&race(&late), &race(&late).contenders[2]).unwrap(),
            "it has no trial"
        );
        let mut out = race(&late);
        out.contenders[1].blocked = Some("nobody answers".into());
        assert!(silent(&out).is_empty(), "it has a sentence of its own");
        let why = why_silent(&out, &out.contenders[1]).unwrap();
        assert_eq!(why, "it is out (blocked): nobody answers");
    }

    #[test]
    fn a_race_is_blank_only_where_no_contender_has_a_valid_trial() {
        let mut one = race(&[Some("late")]);
        assert!(!is_blank(&one) && !is_blank(&testing::outcome(2)));
        one.trials[0].record.valid = false;
        assert!(is_blank(&one), "a valid trial of the copy is no figure");
    }
}

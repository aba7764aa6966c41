//! Claims on a contender against another one of the same race, seen from the other one: a build against the build
//! before it.

use crate::analysis::compare::Change;
use crate::outcome::{Entrant, Outcome, Ratio, TimeDifference, Verdict};
use deadheat_contract::measurements::{Better, Metric};
use deadheat_stats::Outcome as Ruled;

/// Claim on a contender against a base.
#[derive(Debug, Clone, PartialEq)]
pub struct AgainstClaim<'a> {
    /// The base.
    pub base: &'a Entrant,
    /// The contender.
    pub contender: &'a Entrant,
    /// The metric.
    pub metric: &'a Metric,
    /// Change from the base to the contender.
    pub change: Change,
    /// Ratio of the contender to the base; absent for a verdict on differences whose clock bound reaches the margin.
    pub ratio: Option<Ratio>,
    /// Difference in time, contender less base, if the verdict is about that.
    pub difference: Option<TimeDifference>,
    /// The verdict.
    pub verdict: &'a Verdict,
}

impl AgainstClaim<'_> {
    /// Returns the ratio by which the contender may be worse at most, if its interval has a worse side: more than 1 where
    /// lower is better, less than 1 where higher is better.
    pub fn worst(&self) -> Option<f64> {
        let ratio = self.ratio?;
        let (end, is_worse) = match self.metric.better {
            Better::Lower => (ratio.high, ratio.high > 1.0),
            Better::Higher => (ratio.low, ratio.low < 1.0),
        };
        is_worse.then_some(end)
    }
}

/// Returns the place of a contender among those asked for: under several conditions, that of its cells.
pub fn place(entrant: &Entrant) -> usize {
    entrant.cell.as_ref().map_or(entrant.id, |cell| cell.contender)
}

/// Returns the claims of a race on the contender at place `contender` against the one at place `base`: one for each claimed
/// metric, and under several conditions for each combination of them.
pub fn against(race: &Outcome, base: usize, contender: usize) -> Vec<AgainstClaim<'_>> {
    race.verdicts.iter().filter_map(|verdict| claim(race, verdict, base, contender)).collect()
}

fn claim<'a>(
    race: &'a Outcome,
    verdict: &'a Verdict,
    base: usize,
    contender: usize,
) -> Option<AgainstClaim<'a>> {
    let entrant = |id: usize| race.contenders.iter().find(|entrant| entrant.id == id);
    let (a, b) = (entrant(verdict.a)?, entrant(verdict.b)?);
    let is_base_first = match (place(a), place(b)) {
        places if places == (base, contender) => true,
        places if places == (contender, base) => false,
        _ => return None,
    };
    let (base, contender) = if is_base_first { (a, b) } else { (b, a) };
    let change = match (verdict.outcome, verdict.ahead) {
        _ if verdict.leaves_margin_open() && !verdict.is_estimate_beyond_margin() => {
            Change::Undecided
        }
        (Ruled::Ahead, Some(ahead)) if ahead == base.id => Change::ChangedWorse,
        (Ruled::Ahead, Some(_)) => Change::ChangedBetter,
        (Ruled::DeadHeat, _) => Change::Same,
        (Ruled::Ahead | Ruled::Undecided, _) => Change::Undecided,
    };
    let turned = |ratio: Ratio| if is_base_first { ratio.inverse() } else { ratio };
    let negated = |difference: TimeDifference| {
        if is_base_first {
            TimeDifference {
                point: -difference.point,
                low: -difference.high,
                high: -difference.low,
                ..difference
            }
        } else {
            difference
        }
    };
    Some(AgainstClaim {
        base,
        contender,
        metric: race.metrics.iter().find(|metric| metric.name == verdict.metric)?,
        change,
        ratio: verdict.ratio.map(turned),
        difference: verdict.difference.map(negated),
        verdict,
    })
}

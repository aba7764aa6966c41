//! Gate against a baseline: is any contender of a race worse than it was?
//!
//! The comparison is that of `compare`; what is added is what must be known before the race runs, so that
//! nobody waits for a race that cannot be judged.

use super::request::Request;
use crate::analysis::compare::{Change, Comparison, Row, compare};
use crate::error::{Error, Result};
use crate::measurements::Role;
use crate::result::outcome::Outcome;
use crate::trial::sim;

/// Judgement of a race's contenders against the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Comparison claim by claim; descriptive metrics are not judged.
    pub comparison: Comparison,
    /// Labels of contenders that had figures in the baseline, ran again, and have none now.
    pub silent: Vec<String>,
}

impl Judgement {
    /// Judges `new` against `baseline`.
    pub fn of(baseline: &Outcome, new: &Outcome) -> Judgement {
        let mut comparison = compare(baseline, new);
        comparison.rows.retain(|row| row.metric.role == Role::Claim);
        let labels = new.contenders.iter().filter(|contender| {
            has_figures(baseline, &contender.label) && !has_figures(new, &contender.label)
        });
        let silent = labels.map(|contender| contender.label.clone()).collect();
        Judgement { comparison, silent }
    }

    /// Returns true if any contender is worse: beyond the margin, or without any figure although it had
    /// some.
    pub fn is_worse(&self) -> bool {
        self.comparison.is_worse() || !self.silent.is_empty()
    }

    /// Returns the rows of claims with this `change`.
    pub fn rows(&self, change: Change) -> impl Iterator<Item = &Row> {
        self.comparison.rows.iter().filter(move |row| row.change == Some(change))
    }
}

/// Returns true if any trial of the contender with this label counts.
fn has_figures(race: &Outcome, label: &str) -> bool {
    let Some(contender) = race.contenders.iter().find(|contender| contender.label == label) else {
        return false;
    };
    let mut own = race.trials.iter().filter(|trial| trial.contender == contender.id);
    own.any(|trial| trial.record.valid && !trial.control)
}

/// Checks that the race about to run can be compared with `baseline`. Runs nothing.
///
/// # Errors
/// [`Error::Usage`] where one is simulated and the other is not, and where they have no contender or no
/// claimed metric in common, saying what the baseline has.
pub fn check(baseline: &Outcome, request: &Request) -> Result<()> {
    let checked = request.check()?;
    let word = |is_simulated| if is_simulated { "simulated" } else { "measured" };
    let [old, new] = [baseline.path.kind == sim::KIND, request.simulation()?.is_some()];
    if old != new {
        return Err(Error::usage(format!(
            "--gate: the baseline is {} and this race is {}; hold simulated races against simulated \
             ones only",
            word(old),
            word(new)
        )));
    }
    let known: Vec<&str> = baseline
        .contenders
        .iter()
        .map(|contender| contender.label.as_str())
        .filter(|label| has_figures(baseline, label))
        .collect();
    if !checked.entrants.iter().any(|entrant| known.contains(&entrant.label.as_str())) {
        return Err(none_in_common("contender", &known));
    }
    let claims = |metrics: &[crate::measurements::Metric]| -> Vec<String> {
        let claims = metrics.iter().filter(|metric| metric.role == Role::Claim);
        claims.map(|metric| metric.name.clone()).collect()
    };
    let known = claims(&baseline.metrics);
    if !claims(&checked.metrics).iter().any(|name| known.contains(name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(none_in_common("claimed metric", &known));
    }
    Ok(())
}

fn none_in_common(what: &str, known: &[&str]) -> Error {
    let has = if known.is_empty() { "no figures at all".into() } else { known.join(", ") };
    Error::usage(format!(
        "--gate: this race and the baseline have no {what} in common; the baseline has {has}"
    ))
}

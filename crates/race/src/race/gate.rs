//! Checks of a gate before its race runs, so that a race that cannot be judged is refused at once. The judgement is
//! [`deadheat_result::analysis::gate`]'s.

pub mod first;

use super::request::Request;
use deadheat_base::error::{Error, Result};
use deadheat_contract::measurements::{Metric, Role};
use deadheat_result::analysis::compare::{check as check_races, is_simulated};
use deadheat_result::analysis::gate::has_figures;
use deadheat_result::outcome::{Outcome, RecordedRequest};
use deadheat_stats::runs::FEWEST_RUNS;

/// Checks that a baseline is sufficient: its races are runs of the same thing, and there are enough of them to
/// estimate how much runs differ. Races in virtual time differ only by their seeds, so one is enough.
///
/// # Errors
/// [`Error::Usage`] with the missing part, and how to make it.
pub fn check_baseline(baseline: &[&Outcome]) -> Result<()> {
    check_races(baseline, baseline).map_err(|error| Error::usage(format!("--gate: {error}")))?;
    let runs = baseline.len();
    if runs >= FEWEST_RUNS || baseline.iter().all(|race| is_simulated(race)) {
        return Ok(());
    }
    let are = if runs == 1 { "one run does" } else { "two runs do" };
    Err(Error::usage(format!(
        "--gate: {are} not tell how much runs of the same thing differ, so any difference would be a guess; \
         a baseline takes {FEWEST_RUNS} runs or more (a folder of them, or --gate again for each file), and with 8 \
         it finds changes half as large"
    )))
}

/// Checks that the next race can be compared with `baseline`. Runs no trial.
///
/// # Errors
/// [`Error::Usage`] as [`check_baseline`]; if only one of the two is simulated; if they differ in workload, path or
/// IP version; if they share no contender or no claimed metric, with the list of the baseline's.
pub fn check(baseline: &[&Outcome], request: &Request) -> Result<()> {
    check_baseline(baseline)?;
    let checked = request.check()?;
    if let Some(why) = request.too_few_blocks(&checked) {
        return Err(Error::usage(format!("--gate: {why}")));
    }
    let word = |is_simulated| if is_simulated { "simulated" } else { "measured" };
    let old = baseline.iter().any(|race| is_simulated(race));
    let new = request.is_simulated();
    if old != new {
        return Err(Error::usage(format!(
            "--gate: the baseline is {} and this race is {}; compare simulated races with simulated races only",
            word(old),
            word(new)
        )));
    }
    if let Some(difference) =
        baseline.first().and_then(|first| other_question(&first.asked, &request.asked()))
    {
        return Err(Error::usage(format!(
            "--gate: {difference}; a gate takes runs of the same race"
        )));
    }
    let mut known: Vec<&str> = Vec::new();
    for contender in baseline.iter().flat_map(|race| &race.contenders) {
        let own = contender.identity();
        if !known.contains(&own) && baseline.iter().any(|race| has_figures(race, own)) {
            known.push(own);
        }
    }
    if !checked.entrants.iter().any(|entrant| known.contains(&entrant.identity())) {
        return Err(none_in_common("contender", &known));
    }
    let claims = |metrics: &[Metric]| -> Vec<String> {
        let claims = metrics.iter().filter(|metric| metric.role == Role::Claim);
        claims.map(|metric| metric.name.clone()).collect()
    };
    let known = claims(baseline.first().map_or(&[], |race| &race.metrics));
    if !claims(&checked.metrics).iter().any(|name| known.contains(name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(none_in_common("claimed metric", &known));
    }
    Ok(())
}

/// Returns the first difference that makes the two races answer different questions. The place of the far end may
/// change between runs; a warning covers that.
fn other_question(old: &RecordedRequest, new: &RecordedRequest) -> Option<String> {
    if old.workload != new.workload {
        return Some(format!("the baseline ran {}, and this race {}", old.workload, new.workload));
    }
    if old.path != new.path {
        let path = |asked: &RecordedRequest| match (&asked.to, asked.path.as_str()) {
            (Some(to), _) => format!("to {to}"),
            (None, path) => format!("over {path}"),
        };
        return Some(format!("the baseline ran {}, and this race runs {}", path(old), path(new)));
    }
    match (old.family, new.family) {
        (Some(old), Some(new)) if old != new => {
            Some(format!("the baseline ran over IPv{old}, and this race runs over IPv{new}"))
        }
        _ => None,
    }
}

fn none_in_common(what: &str, known: &[&str]) -> Error {
    let has = if known.is_empty() { "no figures at all".into() } else { known.join(", ") };
    Error::usage(format!(
        "--gate: this race and the baseline have no {what} in common; the baseline has {has}"
    ))
}

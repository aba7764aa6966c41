//! Judges an earlier run by the claims that the study has now, for tests of published runs.

use std::collections::BTreeMap;

use super::again::judge_again;
use deadheat_result::outcome::Outcome;
use deadheat_result::study::model::{Claim, RacePlan, Study, Test};
use deadheat_result::study::outcome::{RaceRun, StudyRun};

/// Reason why a race of the current study has no result in a run of an earlier version.
pub const ADDED_LATER: &str = "it was added to the study after this run";

/// Reason why a race has no result in a run of other races of the study.
pub const LEFT_OUT: &str = "it was left out of this run, which is of other races";

/// Replaces claims, published figures and texts of the study with those in `now`, and judges again. Races that were
/// added since are recorded as not run. Where races were left out of the run, only claims that ask none of these are judged.
pub fn restate(run: &mut StudyRun, now: &Study, results: &BTreeMap<String, Outcome>) {
    let ran = std::mem::replace(&mut run.study, now.clone()).races;
    let has = |races: &[RacePlan], id: &str| races.iter().any(|race| race.id == id);
    // Races that an earlier call recorded as added later are taken from `now` again.
    let is_later = |id: &str| {
        let noted = run.races.iter().find(|race| race.id == id);
        noted.is_some_and(|race| race.why_not.as_deref() == Some(ADDED_LATER))
    };
    let ran: Vec<RacePlan> = ran.into_iter().filter(|race| !is_later(&race.id)).collect();
    run.races.retain(|race| has(&ran, &race.id));
    let added: Vec<RacePlan> =
        now.races.iter().filter(|race| !has(&ran, &race.id)).cloned().collect();
    run.races.extend(added.iter().map(|race| RaceRun {
        id: race.id.clone(),
        file: None,
        why_not: Some(ADDED_LATER.into()),
        trusted: false,
    }));
    run.study.races = [ran, added].concat();
    let left_out = run.races.iter().filter(|race| race.why_not.as_deref() == Some(LEFT_OUT));
    let left_out: Vec<&str> = left_out.map(|race| race.id.as_str()).collect();
    let is_asked = |test: &Test| !left_out.contains(&test.race.as_str());
    let can_settle = |claim: &Claim| !claim.tests.is_empty() && claim.tests.iter().all(is_asked);
    run.study.claims.retain(|claim| left_out.is_empty() || can_settle(claim));
    judge_again(run, results);
}

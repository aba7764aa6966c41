//! Judges causes: a pure function over the signs of a trial, and over the findings of a contender's trials.

use std::collections::BTreeMap;

use super::signs::Signs;
use super::table::TABLE;
use super::{Cause, Finding, SignSource};
use deadheat_contract::contract::Direction;

/// Share of the trials in which a cause has to be proved.
const MOST_TRIALS: f64 = 0.5;

/// Returns the causes that the signs of a trial prove, the largest first.
pub fn judge(signs: &Signs) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for row in TABLE.iter().filter(|row| row.work.contains(&signs.work)) {
        if found.iter().any(|one| row.excluded_by.contains(&one.cause) || one.cause == row.cause) {
            continue;
        }
        found.extend((row.proof)(signs).map(|proof| Finding {
            cause: row.cause,
            direction: signs.direction,
            source: signs.source,
            trials: 1,
            of: 1,
            share: proof.share,
            evidence: proof.evidence,
            test: None,
        }));
    }
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

/// Returns the causes that most of a contender's trials prove, the largest first.
pub fn judge_all(trials: &[Signs]) -> Vec<Finding> {
    let mut found: BTreeMap<(bool, Option<bool>, Cause), Vec<Finding>> = BTreeMap::new();
    let key = |source: SignSource, direction: Option<Direction>| {
        (source == SignSource::Pass, direction.map(|direction| direction == Direction::Up))
    };
    for signs in trials {
        for one in judge(signs) {
            let (source, way) = key(one.source, one.direction);
            found.entry((source, way, one.cause)).or_default().push(one);
        }
    }
    let mut all: Vec<Finding> = found
        .into_iter()
        .filter_map(|((source, way, _), mut same)| {
            let alike = |signs: &&Signs| key(signs.source, signs.direction) == (source, way);
            let of = trials.iter().filter(alike).count() as u64;
            let trials = same.len() as u64;
            same.sort_by(|a, b| a.share.total_cmp(&b.share));
            let middle = same.len() / 2;
            let median = same.into_iter().nth(middle)?;
            (trials as f64 >= MOST_TRIALS * of as f64).then_some(Finding { trials, of, ..median })
        })
        .collect();
    // What the usual trials prove, the instrumented ones need not prove again.
    let usual: Vec<Cause> =
        all.iter().filter(|one| one.source == SignSource::Trials).map(|one| one.cause).collect();
    all.retain(|one| one.source == SignSource::Trials || !usual.contains(&one.cause));
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

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

/// Trials of which findings are counted together.
type Alike = (bool, Option<bool>);

fn alike(source: SignSource, direction: Option<Direction>) -> Alike {
    (source == SignSource::Pass, direction.map(|direction| direction == Direction::Up))
}

/// Returns the causes that most of a contender's trials prove, the largest first.
pub fn judge_all(trials: &[Signs]) -> Vec<Finding> {
    let key = |signs: &Signs| alike(signs.source, signs.direction);
    let of = |wanted: Alike| trials.iter().filter(|signs| key(signs) == wanted).count();
    let mut all = of_most(trials.iter().flat_map(judge), of);
    // What the usual trials prove, the instrumented ones need not prove again.
    let usual: Vec<Cause> =
        all.iter().filter(|one| one.source == SignSource::Trials).map(|one| one.cause).collect();
    all.retain(|one| one.source == SignSource::Trials || !usual.contains(&one.cause));
    all
}

/// Returns the causes that most of these trials prove, of each of which the findings are known, the largest first.
pub fn of_trials(trials: &[&[Finding]]) -> Vec<Finding> {
    of_most(trials.iter().flat_map(|own| own.iter().cloned()), |_| trials.len())
}

/// Returns the findings of most trials, with their median share. `of` says how many trials of a kind there are.
fn of_most(findings: impl Iterator<Item = Finding>, of: impl Fn(Alike) -> usize) -> Vec<Finding> {
    let mut found: BTreeMap<(Alike, Cause), Vec<Finding>> = BTreeMap::new();
    for one in findings {
        found.entry((alike(one.source, one.direction), one.cause)).or_default().push(one);
    }
    let mut all: Vec<Finding> = found
        .into_iter()
        .filter_map(|((kind, _), mut same)| {
            let (trials, of) = (same.len() as u64, of(kind) as u64);
            same.sort_by(|a, b| a.share.total_cmp(&b.share));
            let middle = same.len() / 2;
            let median = same.into_iter().nth(middle)?;
            (trials as f64 >= MOST_TRIALS * of as f64).then_some(Finding { trials, of, ..median })
        })
        .collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

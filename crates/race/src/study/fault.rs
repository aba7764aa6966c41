//! The fault of a path that a test is about: packets that are lost or blocked. A fault that hit no packet of the cells
//! under test says nothing about them, so the test is then open.

use super::check::cell_id;
use deadheat_path::measurements::PathFigures;
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::Outcome;
use deadheat_result::study::model::Test;

/// Returns the reason why the fault that a test is about did not hit its cells; `None` if it did, if the path
/// names none, or if its account is unknown.
pub(super) fn missed(outcome: &Outcome, test: &Test) -> Option<String> {
    let least = test.if_lost.unwrap_or_else(|| u64::from(names_fault(&outcome.asked.path)));
    let cells = std::iter::once(&test.of).chain(&test.against);
    let ids = cells.filter_map(|cell| cell_id(outcome, cell));
    let trials = ids.flat_map(|id| valid_trials(outcome, id));
    let hits: Vec<bool> =
        trials.filter_map(|trial| Some(lost(trial.record.path.as_ref()?) >= least)).collect();
    let missed = hits.iter().filter(|hit| !**hit).count();
    let few = if least == 1 { "no packet".into() } else { format!("fewer than {least} packets") };
    (2 * missed > hits.len()).then(|| {
        format!("the path lost {few} in {missed} of {} trials: its fault hit too few", hits.len())
    })
}

/// Returns true if a path as typed names a loss, a block or a time at which it is down. The losses of a profile are no
/// question of a race.
fn names_fault(path: &str) -> bool {
    path.split([',', '+', ':']).any(|part| {
        let key = part.strip_prefix("up.").or(part.strip_prefix("down.")).unwrap_or(part);
        ["loss=", "block=", "down=", "host-down="].iter().any(|fault| key.starts_with(fault))
    })
}

fn lost(path: &PathFigures) -> u64 {
    let ways = path.links.iter().flat_map(|link| [&link.up.fates, &link.down.fates]);
    ways.map(|fates| fates.lost + fates.blocked + fates.down).sum()
}

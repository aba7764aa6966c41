//! Judges the results of an earlier run again, by the rules of this version. The results of races are unchanged.

use std::collections::BTreeMap;

use super::check;
use super::judge::{Extent, judge};
use deadheat_result::outcome::Outcome;
use deadheat_result::study::outcome::StudyRun;

/// Judges an earlier run by the rules of this version. A study that this version cannot check, because metrics had
/// other names, or because it names files, which are not opened to show a result, retains its saved rulings.
pub(super) fn judge_again(run: &mut StudyRun, results: &BTreeMap<String, Outcome>) {
    for race in &mut run.races {
        race.trusted = results.get(&race.id).is_some_and(Outcome::trusted);
    }
    if let Ok(checked) = check::check(run.study.clone(), &[]) {
        let extent = Extent { setting: run.setting, full: &run.full };
        let judged = judge(&checked, results, extent);
        (run.beside, run.rulings) = (judged.beside, judged.rulings);
    }
}

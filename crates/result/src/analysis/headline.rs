//! Work of a race in a few words.

use crate::outcome::Outcome;
use deadheat_base::spec::Spec;
use deadheat_contract::recorded;
use deadheat_contract::workload::{self, AnswerSource, Setting};

/// Returns the work of a race in the words of its task: `64-byte ping, 1000/s`. If they differ between conditions,
/// it is the workload's name. Text of a saved result that cannot be parsed is returned unchanged.
pub fn headline(outcome: &Outcome) -> String {
    let cells = outcome.contenders.iter().filter_map(|entrant| entrant.cell.as_ref());
    let varied: Vec<&String> = cells.map(|cell| &cell.workload).collect();
    let whole = outcome.plan.workload.as_ref().unwrap_or(&outcome.asked.workload);
    let (first, others) = varied.split_first().unwrap_or((&whole, &[]));
    let setting = setting(outcome);
    let of = |typed: &str| {
        let task = workload::parse_on(typed, &setting);
        task.map_or_else(|_| typed.to_owned(), |task| task.info().headline.clone())
    };
    let words = of(first);
    if others.iter().all(|other| other == first || of(other) == words) {
        words
    } else {
        Spec::parse(first).map_or(words, |spec| spec.name)
    }
}

/// Returns the setting of a race, as far as words depend on it.
fn setting(outcome: &Outcome) -> Setting {
    let far_end = outcome.path.far_end.as_deref().and_then(|facts| recorded::far_end(&facts.id));
    Setting { answers: far_end.map_or(AnswerSource::Ours, |end| end.answers), ..Setting::LOOPBACK }
}

//! Work of a race in a few words.

use crate::result::outcome::Outcome;
use crate::spec::Spec;
use crate::transport::far_end;
use crate::workload::{self, AnswerSource, Setting};

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
    match others.iter().all(|other| other == first || of(other) == words) {
        true => words,
        false => Spec::parse(first).map_or(words, |spec| spec.name),
    }
}

/// Returns the setting of a race, as far as words depend on it.
fn setting(outcome: &Outcome) -> Setting {
    let far_end = outcome.path.far_end.as_deref().and_then(|facts| far_end::find(&facts.id).ok());
    Setting { answers: far_end.map_or(AnswerSource::Ours, far_end::answers), ..Setting::LOOPBACK }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::result::outcome::Cell;

    #[test]
    fn the_work_is_named_as_its_task_names_it() {
        let mut outcome = crate::race::testing::loaded();
        assert!(headline(&outcome).starts_with("64-byte ping, 1000/s beside a bulk flow of tcp"));
        outcome.plan.workload = Some("cbr:rate=100mbit".to_owned());
        assert_eq!(headline(&outcome), "1400-byte messages, 100 Mbit/s up");
        outcome.plan.workload = Some("pong:size=3".to_owned());
        assert_eq!(headline(&outcome), "pong:size=3");
    }

    #[test]
    fn works_that_differ_by_condition_have_their_name_in_common() {
        let mut outcome = crate::race::testing::loaded();
        let works = |outcome: &mut Outcome, all: [&str; 2]| {
            for (contender, workload) in all.into_iter().enumerate() {
                outcome.contenders[contender].cell = Some(Cell {
                    contender,
                    levels: vec![contender],
                    workload: workload.to_owned(),
                    placement: None,
                    infeasible: None,
                });
            }
        };
        works(&mut outcome, ["ping:size=64", "ping:size=1400"]);
        assert_eq!(headline(&outcome), "ping");
        works(&mut outcome, ["ping:size=90,count=200", "ping:size=90,count=300"]);
        assert_eq!(headline(&outcome), "90-byte ping, 1000/s");
    }
}

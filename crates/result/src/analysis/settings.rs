//! Settings that changed from one trial of a contender to another, or between flows.

use std::collections::BTreeSet;

use crate::outcome::{Entrant, Outcome, Warning};
use deadheat_contract::measurements::Effective;
use deadheat_contract::recorded::{Meaning, in_force};
use deadheat_records::trial::Record;

/// Returns a warning for each option of each contender that changed at an end.
pub fn changed(outcome: &Outcome) -> Vec<Warning> {
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    racing.flat_map(|entrant| of_entrant(outcome, entrant)).collect()
}

/// Accessor for the options read back at one end: the options of its first flow, and the differences of the others.
type OptionReader = fn(&Record) -> (&Effective, &[Effective]);

const ENDS: [(&str, OptionReader); 2] = [
    ("near", |record| (&record.effective, &record.effective_by_flow)),
    ("far", |record| (&record.far_effective, &record.far_effective_by_flow)),
];

fn of_entrant(outcome: &Outcome, entrant: &Entrant) -> Vec<Warning> {
    let trials = || {
        let own = outcome.trials.iter().filter(|trial| trial.contender == entrant.id);
        own.map(|trial| &trial.record).filter(|record| record.valid)
    };
    // Imported results have contenders that this program does not know.
    let ours = entrant.recorded().ok();
    let mut all = Vec::new();
    for (end, read) in ENDS {
        let names: BTreeSet<&String> = trials().flat_map(|record| read(record).0.keys()).collect();
        for option in names {
            let meaning = ours.as_ref().and_then(|ours| ours.meaning(option));
            if !must_not_change(entrant, meaning, option) {
                continue;
            }
            let word = |value| in_force(meaning, value);
            let mut values = trials().flat_map(|record| {
                let (first, flows) = read(record);
                [first].into_iter().chain(flows).filter_map(|flow| flow.get(option))
            });
            let Some(from) = values.next() else { continue };
            if let Some(to) = values.find(|value| word(value) != word(from)) {
                all.push(Warning::new(
                    "setting_changed",
                    format!(
                        "{option} of {} changed during the race: at the {end} end it was {from} at first and {to} later",
                        entrant.label
                    ),
                    "find what changes it on that host (sysctl, a route, a tuning daemon), and race again",
                ));
            }
        }
    }
    all
}

/// Returns true if the option must not change, so that a change is reported. An option that the transport does not
/// describe may change.
fn must_not_change(entrant: &Entrant, meaning: Option<&Meaning>, option: &str) -> bool {
    let was_set = || entrant.asked.get(option).is_some_and(|asked| !asked.is_empty());
    meaning.is_some_and(|meaning| meaning.is_fixed || was_set())
}

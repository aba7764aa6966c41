//! Settings that changed from one trial of a contender to another, or between flows.

use std::collections::BTreeSet;

use super::notice::Notice;
use crate::result::outcome::{Entrant, Outcome};
use crate::transport::Effective;
use crate::transport::options::{Meaning, OptionScope, in_force};
use crate::trial::Record;

/// Returns a notice for each option of each contender that changed at an end.
pub(crate) fn changed(outcome: &Outcome) -> Vec<Notice> {
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    racing.flat_map(|entrant| of_entrant(outcome, entrant)).collect()
}

/// Accessor for the options read back at one end: the options of its first flow, and the differences of the others.
type OptionReader = fn(&Record) -> (&Effective, &[Effective]);

const ENDS: [(&str, OptionReader); 2] = [
    ("near", |record| (&record.effective, &record.effective_by_flow)),
    ("far", |record| (&record.far_effective, &record.far_effective_by_flow)),
];

fn of_entrant(outcome: &Outcome, entrant: &Entrant) -> Vec<Notice> {
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
                all.push(Notice::SettingChanged {
                    label: entrant.label.clone(),
                    option: option.clone(),
                    end,
                    from: from.clone(),
                    to: to.clone(),
                });
            }
        }
    }
    all
}

/// Returns true if the option must not change, so that a change is reported. An option that the transport does not
/// describe may change.
fn must_not_change(entrant: &Entrant, meaning: Option<&Meaning>, option: &str) -> bool {
    match meaning.map(|meaning| meaning.holds) {
        Some(OptionScope::Always) => true,
        Some(OptionScope::WhereAsked) => {
            entrant.asked.get(option).is_some_and(|asked| !asked.is_empty())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Metrics;
    use crate::race::{Request, testing};
    use crate::result::outcome::Trial;
    use crate::trial::sim::fake;

    /// Returns the notices of a race of TCP with these values of `option` read back by trials and their flows.
    fn found(spec: &str, option: &str, trials: &[&[&str]]) -> Vec<Notice> {
        let mut outcome = testing::outcome(2);
        outcome.contenders = Request::new([spec]).check().unwrap().entrants;
        for (block, flows) in trials.iter().enumerate() {
            let mut record = fake::record(Metrics::new());
            let read = |value: &str| Effective::from([(option.to_owned(), value.to_owned())]);
            record.far_effective = read(flows[0]);
            record.far_effective_by_flow = flows.iter().map(|value| read(value)).collect();
            let block = block as u64;
            outcome.trials.push(Trial { block, order: 0, contender: 0, control: false, record });
        }
        changed(&outcome)
    }

    #[test]
    fn a_setting_that_changes_is_told_with_what_it_was_and_is() {
        let between_trials = found("tcp", "cc", &[&["cubic"], &["cubic"], &["bbr"]]);
        let between_flows = found("tcp", "cc", &[&["cubic", "cubic", "bbr"]]);
        let expected = Notice::SettingChanged {
            label: "tcp".into(),
            option: "cc".into(),
            end: "far",
            from: "cubic".into(),
            to: "bbr".into(),
        };
        assert_eq!(between_trials, std::slice::from_ref(&expected));
        assert_eq!(between_flows, [expected]);
        assert_eq!(found("tcp", "cc", &[&["cubic"], &["cubic"]]), []);
    }

    #[test]
    fn what_the_host_tunes_may_move_unless_it_was_asked_for() {
        let moves: &[&[&str]] = &[&["131072"], &["262144"]];
        assert_eq!(found("tcp", "rcvbuf", moves), []);
        assert_eq!(found("tcp:rcvbuf=64kB", "rcvbuf", moves).len(), 1);
        assert_eq!(found("tcp", "unheard-of", moves), []);
        let validated: &[&[&str]] = &[&["on, validated"], &["on, not validated"]];
        assert_eq!(found("quic:ecn=on", "ecn", validated), [], "a short trial validates no marks");
        let cleared: &[&[&str]] = &[&["on, validated"], &["off: the path clears the marks"]];
        assert_eq!(found("quic:ecn=on", "ecn", cleared).len(), 1);
        let remarks: &[&[&str]] = &[&["zerocopy"], &["zerocopy (the kernel copied some calls)"]];
        assert_eq!(found("tcp:io=zerocopy", "io", remarks), []);
    }
}

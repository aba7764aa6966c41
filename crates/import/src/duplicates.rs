//! The same run twice: a file given twice, a document that a program printed twice, or the files of both ends of a run.
//! It counts once, and the file says so.

use std::collections::HashMap;

use super::ImportedTrial;
use super::collection::SourceFile;

/// Smallest content, in bytes, that two different runs do not have in common by chance: a file may hold one number.
const TELLING: u64 = 64;

/// Removes trials that are there twice, and adds a sentence to the doubts of the file that has it again.
pub(super) fn once(read: &mut [SourceFile]) {
    same_files(read);
    same_runs(read);
    for file in read {
        file.reading.arms.retain(|arm| !arm.trials.is_empty());
    }
}

/// Removes the trials of files with the content of an earlier one.
fn same_files(read: &mut [SourceFile]) {
    let mut first: HashMap<String, String> = HashMap::new();
    for file in read {
        // Two runs that failed in the same way may have the same words.
        let trials = || file.reading.arms.iter().flat_map(|arm| &arm.trials);
        let has_figures = trials().any(|trial| !trial.record.metrics.is_empty());
        if file.digests.size < TELLING || !has_figures {
            continue;
        }
        match first.get(&file.digests.content) {
            None => {
                first.insert(file.digests.content.clone(), file.name.clone());
            }
            Some(other) => {
                let doubt =
                    format!("It has the content of {other}, given before it: it counts once.");
                file.reading.doubts = vec![doubt];
                file.reading.unknown.clear();
                file.reading.arms.clear();
            }
        }
    }
}

/// Place of a trial: file, arm, trial.
type TrialPlace = (usize, usize, usize);

/// Removes all but one of the trials of the same run: the one with the most figures, or else the first.
fn same_runs(read: &mut [SourceFile]) {
    let mut best: HashMap<String, (TrialPlace, usize)> = HashMap::new();
    let mut again: Vec<(TrialPlace, usize)> = Vec::new();
    for (at, file) in read.iter().enumerate() {
        for (arm_at, arm) in file.reading.arms.iter().enumerate() {
            for (trial_at, trial) in arm.trials.iter().enumerate() {
                let Some(identity) = &trial.identity else { continue };
                let place = (at, arm_at, trial_at);
                let own = worth(trial);
                match best.get_mut(identity) {
                    None => {
                        best.insert(identity.clone(), (place, own));
                    }
                    Some((kept, figures)) if own > *figures => {
                        again.push((*kept, at));
                        (*kept, *figures) = (place, own);
                    }
                    Some((kept, _)) => again.push((place, kept.0)),
                }
            }
        }
    }
    report(read, &again);
    again.sort_unstable();
    // From the last, so that the places of the others hold.
    for ((at, arm, trial), _) in again.into_iter().rev() {
        read[at].reading.arms[arm].trials.remove(trial);
    }
}

/// Returns the number of figures of a trial; a valid trial is worth more than any invalid one.
fn worth(trial: &ImportedTrial) -> usize {
    trial.record.metrics.len() + if trial.record.valid { 1_000 } else { 0 }
}

/// Adds the sentences, one for each pair of files.
fn report(read: &mut [SourceFile], again: &[(TrialPlace, usize)]) {
    let mut pairs: Vec<((usize, usize), u64)> = Vec::new();
    for ((at, ..), other) in again {
        match pairs.iter_mut().find(|(pair, _)| *pair == (*at, *other)) {
            Some((_, count)) => *count += 1,
            None => pairs.push(((*at, *other), 1)),
        }
    }
    for ((at, other), count) in pairs {
        let runs = if count == 1 { "1 run is".to_owned() } else { format!("{count} runs are") };
        let doubt = if at == other {
            format!("{runs} in it more than once: each run counts once.")
        } else {
            format!("{runs} in {}, too: each run counts once.", read[other].name)
        };
        read[at].reading.doubts.push(doubt);
    }
}

//! Pairs of runs: blocks in which each contender ran once, from the order of files, from the order of rows, or from a
//! column. Runs that make no blocks are refused by name, as a wrong pairing gives intervals that look certain.

use std::collections::{BTreeMap, BTreeSet};

use deadheat_base::error::{Error, Result};
use deadheat_result::imported::{ImportPairing, PairedBy};
use deadheat_result::outcome::Trial;

/// Columns of a table that name the block and the contender of each row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowColumns {
    pub(super) block: Option<String>,
    pub(super) contender: Option<String>,
}

impl RowColumns {
    /// Returns true if a column was named.
    pub(super) fn any(&self) -> bool {
        self.block.is_some() || self.contender.is_some()
    }
}

/// Place of a run in the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RunPlace {
    /// Index of the file in the order given.
    pub file: usize,
    /// Name of the file.
    pub name: String,
    /// Position in the file.
    pub row: u64,
    /// Block, where a column names it.
    pub block: Option<String>,
}

/// Runs of an import, each with its place, and the names of its contenders.
pub(super) struct RunList<'a> {
    pub trials: &'a mut [Trial],
    pub places: &'a [RunPlace],
    pub labels: &'a [String],
}

/// Maximum number of names in a sentence.
const MOST_NAMED: usize = 5;

fn refuse<T>(why: String) -> Result<T> {
    Err(Error::usage(format!("--paired: {why}")))
}

impl RunList<'_> {
    /// Numbers the blocks of the runs, and returns the pairing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the runs make no blocks: with the file, or the block, where they contradict it.
    pub(super) fn pair(mut self) -> Result<ImportPairing> {
        if self.labels.len() < 2 {
            return refuse(format!(
                "there is one contender, {}; name the others' files, the files of one with the same --label, or the \
                 column that tells them apart with --contender",
                self.labels.first().map_or("none", String::as_str)
            ));
        }
        let named = self.places.iter().filter(|place| place.block.is_some()).count();
        let by = match named {
            0 => self.by_order()?,
            all if all == self.places.len() => {
                self.by_column()?;
                PairedBy::Column
            }
            _ => {
                let without = self.places.iter().find(|place| place.block.is_none());
                return refuse(format!(
                    "{} has no column of blocks, and others have; give it one, or leave --block out",
                    without.map_or("", |place| &place.name)
                ));
            }
        };
        self.check_times()?;
        let (blocks, incomplete) = self.counts();
        if blocks < 2 {
            return refuse(format!(
                "{blocks} block has runs of two contenders, and a comparison takes several; if each number of a file is \
                 a run, say --each trial"
            ));
        }
        Ok(ImportPairing { by, blocks, incomplete, first: self.always_first() })
    }

    /// Numbers blocks by order: the k-th run of each contender is in block k.
    fn by_order(&mut self) -> Result<PairedBy> {
        let counts = self.runs_of_each();
        if counts.iter().any(|count| *count != counts[0]) {
            let counts: Vec<String> = self
                .labels
                .iter()
                .zip(&counts)
                .map(|(own, count)| format!("{own} has {count}"))
                .collect();
            return refuse(format!(
                "the numbers of runs differ: {}; by their order alone it cannot be known which are pairs. Name the \
                 blocks in a column (--block), or leave the other runs out",
                counts.join(", ")
            ));
        }
        let order = self.sequence();
        let of = |at: &usize| self.trials[*at].contender;
        let sequence: Vec<usize> = order.iter().map(of).collect();
        if !is_grouped(&sequence)
            && let Some(block) = odd_block(&sequence, self.labels.len())
        {
            let members = &order[block * self.labels.len()..(block + 1) * self.labels.len()];
            let runs: Vec<String> = members
                .iter()
                .map(|at| format!("{} ({})", self.labels[of(at)], self.places[*at].name))
                .collect();
            return refuse(format!(
                "the order makes no blocks: block {} would be {}. Give the runs block after block, each contender once \
                 in each (a b a b, or a b b a), or all runs of one and then all of the other",
                block + 1,
                runs.join(", ")
            ));
        }
        let mut next = vec![0; self.labels.len()];
        for at in order {
            let trial = &mut self.trials[at];
            trial.block = next[trial.contender];
            next[trial.contender] += 1;
        }
        let files: BTreeSet<usize> = self.places.iter().map(|place| place.file).collect();
        Ok(if files.len() == 1 { PairedBy::OrderOfRows } else { PairedBy::OrderOfFiles })
    }

    /// Numbers blocks by the names in a column, in the order of their first runs.
    fn by_column(&mut self) -> Result<()> {
        let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
        let mut seen: BTreeSet<(u64, usize)> = BTreeSet::new();
        for at in self.sequence() {
            let name = self.places[at].block.clone().unwrap_or_default();
            let number = numbers.len() as u64;
            let block = *numbers.entry(name.clone()).or_insert(number);
            let trial = &mut self.trials[at];
            trial.block = block;
            if !seen.insert((block, trial.contender)) {
                return refuse(format!(
                    "block `{}` has two runs of {}, in {}; each contender runs once in a block",
                    deadheat_base::foreign::short(&name),
                    self.labels[trial.contender],
                    self.places[at].name
                ));
            }
        }
        Ok(())
    }

    /// Returns the indices of the runs in the order of the files and of the rows in them.
    fn sequence(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.trials.len()).collect();
        order.sort_by_key(|at| (self.places[*at].file, self.places[*at].row));
        order
    }

    fn runs_of_each(&self) -> Vec<u64> {
        let mut counts = vec![0; self.labels.len()];
        self.trials.iter().for_each(|trial| counts[trial.contender] += 1);
        counts
    }

    /// Returns the runs of each block.
    fn blocks(&self) -> BTreeMap<u64, Vec<usize>> {
        let mut blocks: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, trial) in self.trials.iter().enumerate() {
            blocks.entry(trial.block).or_default().push(at);
        }
        blocks
    }

    /// Returns the number of blocks with several contenders, and the number of blocks that lack one.
    fn counts(&self) -> (u64, u64) {
        let blocks = self.blocks();
        let several = blocks.values().filter(|runs| runs.len() > 1).count();
        let incomplete = blocks.values().filter(|runs| runs.len() < self.labels.len()).count();
        (several as u64, incomplete as u64)
    }

    /// Refuses blocks that overlap in time, where the files tell when each run began: the runs of a block were then no
    /// neighbours.
    fn check_times(&self) -> Result<()> {
        let began = |at: &usize| self.trials[*at].record.started_ms;
        if self.trials.iter().any(|trial| trial.record.started_ms == 0) {
            return Ok(());
        }
        let mut spans: Vec<(u64, u64, u64)> = Vec::new();
        for (block, runs) in self.blocks() {
            let (first, last) = (runs.iter().map(began).min(), runs.iter().map(began).max());
            if let (Some(first), Some(last)) = (first, last) {
                spans.push((first, last, block));
            }
        }
        spans.sort_unstable();
        let overlap = spans.windows(2).find(|two| two[1].0 < two[0].1);
        let Some([(_, last, earlier), (first, _, later)]) = overlap else { return Ok(()) };
        let name = |block: u64, time: u64| {
            let mut runs = self.trials.iter().zip(self.places);
            let run = runs.find(|(run, _)| run.block == block && run.record.started_ms == time);
            run.map_or_else(String::new, |(run, place)| {
                format!("{} of block {} ({})", self.labels[run.contender], block + 1, place.name)
            })
        };
        refuse(format!(
            "the times contradict these blocks: {} began before {}. Runs of a block follow each other; give the files in \
             the order in which they ran, or compare them without --paired",
            name(*later, *first),
            name(*earlier, *last)
        ))
    }

    /// Returns the contender that is first in every complete block, if the order within blocks is known and always the
    /// same.
    fn always_first(&self) -> Option<usize> {
        let position: BTreeMap<usize, usize> =
            self.sequence().into_iter().enumerate().map(|(place, at)| (at, place)).collect();
        let is_dated = self.trials.iter().all(|trial| trial.record.started_ms > 0);
        let sequence: Vec<usize> =
            self.sequence().iter().map(|at| self.trials[*at].contender).collect();
        if !is_dated && is_grouped(&sequence) {
            return None;
        }
        let key =
            |at: &usize| (self.trials[*at].record.started_ms * u64::from(is_dated), position[at]);
        let mut first = None;
        for runs in self.blocks().values().filter(|runs| runs.len() == self.labels.len()) {
            let own = runs.iter().min_by_key(|at| key(at)).map(|at| self.trials[*at].contender)?;
            if first.is_some_and(|first| first != own) {
                return None;
            }
            first = Some(own);
        }
        first
    }
}

/// Returns true if all runs of a contender follow each other.
fn is_grouped(sequence: &[usize]) -> bool {
    let groups = sequence.chunk_by(|a, b| a == b).count();
    groups == sequence.iter().collect::<BTreeSet<_>>().len()
}

/// Returns the first block of a sequence, cut into blocks of this size, in which a contender is twice.
fn odd_block(sequence: &[usize], size: usize) -> Option<usize> {
    sequence.chunks(size).position(|runs| runs.iter().collect::<BTreeSet<_>>().len() < size)
}

/// Refuses to pair by order where files of a folder were left out: the runs after a gap would be paired wrongly.
pub(super) fn check_gaps(pairing: &ImportPairing, left_out: &[String]) -> Result<()> {
    if left_out.is_empty() || pairing.by == PairedBy::Column {
        return Ok(());
    }
    let named: Vec<&str> = left_out.iter().take(MOST_NAMED).map(String::as_str).collect();
    refuse(format!(
        "the runs are paired by their order, and these files are no measurements that can be read, so there may be a gap: \
         {}. Name the files of the runs, by a pattern for example",
        named.join(", ")
    ))
}

/// Returns the basis of verdicts on pairs.
pub(super) fn basis(pairing: &ImportPairing, labels: &[&str]) -> String {
    let by = match pairing.by {
        PairedBy::OrderOfFiles => "the order of the files",
        PairedBy::OrderOfRows => "the order of the rows",
        PairedBy::Column => "the column of blocks",
        PairedBy::Plan => "the plan",
    };
    let mut text = format!(
        "The trials were compared in {} pairs, block by block, as those of a race are (Wilcoxon signed-rank, \
         Hodges–Lehmann): paired by {by}. What drifts from block to block is in neither side.",
        pairing.blocks
    );
    if pairing.incomplete > 0 {
        let (blocks, lack) = match pairing.incomplete {
            1 => ("1 block".to_owned(), "lacks"),
            n => (format!("{n} blocks"), "lack"),
        };
        text.push_str(&format!(" {blocks} {lack} a contender, and are in no pair of it."));
    }
    if let Some(first) = pairing.first.and_then(|first| labels.get(first)) {
        text.push_str(&format!(
            " {first} is first in every block: what the first run does to the next counts as difference."
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_records::trial::Record;

    /// Returns the pairing of runs by contender, each in a file of its own, with the blocks.
    fn paired(
        sequence: &[usize],
        started: &[u64],
        blocks: &[&str],
    ) -> Result<(ImportPairing, Vec<u64>)> {
        let labels: Vec<String> =
            (0..=*sequence.iter().max().unwrap()).map(|id| format!("c{id}")).collect();
        let run = |(at, contender): (usize, &usize)| Trial {
            block: 0,
            order: 0,
            contender: *contender,
            control: false,
            record: Record {
                valid: true,
                started_ms: started.get(at).copied().unwrap_or(0),
                ..Record::default()
            },
        };
        let mut trials: Vec<Trial> = sequence.iter().enumerate().map(run).collect();
        let place = |file: usize| RunPlace {
            file,
            name: format!("f{file}"),
            row: 0,
            block: blocks.get(file).map(|&name| name.to_owned()),
        };
        let places: Vec<RunPlace> = (0..trials.len()).map(place).collect();
        let list = RunList { trials: &mut trials, places: &places, labels: &labels };
        let pairing = list.pair()?;
        Ok((pairing, trials.iter().map(|trial| trial.block).collect()))
    }

    fn refusal(sequence: &[usize], started: &[u64], blocks: &[&str]) -> String {
        let error = paired(sequence, started, blocks).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn blocks_follow_from_the_order_of_files() {
        let (pairing, blocks) = paired(&[0, 1, 1, 0, 0, 1], &[], &[]).unwrap();
        assert_eq!(blocks, [0, 0, 1, 1, 2, 2]);
        assert_eq!((pairing.by, pairing.blocks, pairing.first), (PairedBy::OrderOfFiles, 3, None));
        let (alternating, _) = paired(&[0, 1, 0, 1], &[], &[]).unwrap();
        assert_eq!(alternating.first, Some(0));
        let (grouped, blocks) = paired(&[0, 0, 1, 1], &[], &[]).unwrap();
        assert_eq!((blocks, grouped.first), (vec![0, 1, 0, 1], None));
        let (_, blocks) = paired(&[0, 1, 2, 2, 0, 1], &[], &[]).unwrap();
        assert_eq!(blocks, [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn blocks_follow_from_names() {
        let (pairing, blocks) = paired(&[0, 1, 0, 1, 0], &[], &["x", "y", "y", "x", "z"]).unwrap();
        assert_eq!(blocks, [0, 1, 1, 0, 2]);
        assert_eq!((pairing.by, pairing.blocks, pairing.incomplete), (PairedBy::Column, 2, 1));
        assert!(basis(&pairing, &["c0", "c1"]).contains("1 block lacks a contender"));
        let said = refusal(&[0, 1, 0, 1], &[], &["x", "x", "x", "y"]);
        assert!(said.contains("block `x` has two runs of c0, in f2"), "{said}");
        let said = refusal(&[0, 1, 0, 1], &[], &["x", "x"]);
        assert!(said.contains("f2 has no column of blocks"), "{said}");
    }

    #[test]
    fn what_makes_no_pairs_is_refused_by_name() {
        let said = refusal(&[0, 1, 0], &[], &[]);
        assert!(said.contains("the numbers of runs differ: c0 has 2, c1 has 1"), "{said}");
        let said = refusal(&[0, 0, 1, 0, 1, 1], &[], &[]);
        assert!(said.contains("block 1 would be c0 (f0), c0 (f1)"), "{said}");
        assert!(refusal(&[0, 0], &[], &[]).contains("there is one contender, c0"));
        assert!(refusal(&[0, 1], &[], &[]).contains("say --each trial"));
        // All of one ran before the other.
        let said = refusal(&[0, 0, 1, 1], &[10, 20, 30, 40], &[]);
        assert!(
            said.contains("the times contradict these blocks: c0 of block 2 (f1) began before c1 of block 1 (f2)"),
            "{said}"
        );
        let (pairing, _) = paired(&[0, 0, 1, 1], &[10, 35, 15, 30], &[]).unwrap();
        assert_eq!(pairing.first, None, "c0 first in block 1, c1 in block 2");
    }

    #[test]
    fn a_gap_in_the_order_is_refused() {
        let (by_order, _) = paired(&[0, 1, 0, 1], &[], &[]).unwrap();
        let left_out = ["README".to_owned()];
        let said = check_gaps(&by_order, &left_out).unwrap_err().to_string();
        assert!(said.contains("README"), "{said}");
        let (named, _) = paired(&[0, 1, 0, 1], &[], &["x", "x", "y", "y"]).unwrap();
        assert!(check_gaps(&named, &left_out).is_ok() && check_gaps(&by_order, &[]).is_ok());
    }
}

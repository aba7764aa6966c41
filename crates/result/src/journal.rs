//! Journal of the blocks of a running race, in a file beside its result, so that each block is written once, and
//! not again with every later block.
//!
//! The whole result is saved now and then, and at the end. The blocks since the last whole save are in the journal,
//! `race.journal` for `race.json`, one JSON object a line. Readers of the result read both files.
//!
//! ```text
//! {"journal":1,"seed":7,"started":"2026-11-23T10:00:00Z"}
//! {"trial":{"block":4,"order":0,"contender":1,…}}
//! {"trial":{"block":4,"order":1,"contender":0,…}}
//! {"block":{"number":4}}
//! ```
//!
//! A block counts once its last line is there. Lines after it are from a block that was running when the process
//! was killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::dropped::DropReason;
use super::outcome::{Entrant, Outcome, RecordedPlan, Trial};
use super::save::{LARGEST, explained, parse};
use super::{layout, packed};
use crate::outcome::blocks_done;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_records::quiet::ProbePoint;

/// Version of the line format.
const VERSION: u32 = 1;

/// Minimum time between two whole saves.
const EVERY: Nanos = Nanos::from_secs(2);

/// Line of a journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", untagged, try_from = "JournalMembers")]
enum JournalLine {
    Head(JournalHead),
    Trial { trial: Box<Trial> },
    Block { block: Box<JournalBlock> },
}

/// Members of any line. They are read at once: serde would first read an untagged line whole, and then each type of it by
/// a second reader of its own.
#[derive(Debug, Deserialize)]
struct JournalMembers {
    journal: Option<u32>,
    seed: Option<u64>,
    started: Option<String>,
    trial: Option<Box<Trial>>,
    block: Option<Box<JournalBlock>>,
}

impl TryFrom<JournalMembers> for JournalLine {
    type Error = &'static str;

    fn try_from(line: JournalMembers) -> Result<JournalLine, &'static str> {
        match line {
            JournalMembers { trial: Some(trial), .. } => Ok(JournalLine::Trial { trial }),
            JournalMembers { block: Some(block), .. } => Ok(JournalLine::Block { block }),
            JournalMembers { journal: Some(journal), seed: Some(seed), started, .. } => {
                let started = started.ok_or("the head has no time at which the race started")?;
                Ok(JournalLine::Head(JournalHead { journal, seed, started }))
            }
            _ => Err("it is neither a head nor a trial nor a block"),
        }
    }
}

/// Head of a journal, which identifies its race.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JournalHead {
    journal: u32,
    seed: u64,
    started: String,
}

impl JournalHead {
    fn of(outcome: &Outcome) -> JournalHead {
        JournalHead { journal: VERSION, seed: outcome.seed, started: outcome.started.clone() }
    }
}

/// End of a block, with all its data except trials.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(default, skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Serialize, Deserialize)]
struct JournalBlock {
    number: u64,
    /// Contenders that were blocked, by id, with the evidence.
    blocked: Vec<(usize, String)>,
    /// Contenders that exceeded a limit of the far end's operator, by id, with the limit.
    limited: Vec<(usize, String)>,
    /// Contenders that offered more than the path carries, by id, with the evidence.
    overload: Vec<(usize, String)>,
    /// Contenders with failed endpoints, by id, with the evidence.
    failed: Vec<(usize, String)>,
    /// Point of the host's probe after the block.
    probe: Option<ProbePoint>,
    /// The plan, if it has changed since the last whole save.
    plan: Option<RecordedPlan>,
}

/// Journal of a running race.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    /// True if the journal has a head.
    is_begun: bool,
    /// Number of blocks at the last whole save; the next two fields are the plan and the time of that save.
    saved: u64,
    plan: Option<RecordedPlan>,
    at: Nanos,
}

impl Journal {
    /// Returns the journal beside the result file `result`.
    pub fn of(result: &Path) -> Journal {
        Journal { file: beside(result), is_begun: false, saved: 0, plan: None, at: Nanos::ZERO }
    }

    /// Returns true if the whole result is due to be saved after `done` blocks: the first time, and then whenever
    /// it has grown by a quarter, so that all saves together write a small multiple of the result's size, not its
    /// square.
    pub fn is_full(&self, done: u64, now: Nanos) -> bool {
        let is_more = done.saturating_sub(self.saved) >= self.saved.div_ceil(4);
        self.saved == 0 || (is_more && now - self.at >= EVERY)
    }

    /// Removes the journal after a whole save: the result contains all its blocks.
    ///
    /// # Errors
    /// [`Error::Setup`] if the old lines cannot be removed.
    pub fn close(&mut self, outcome: &Outcome, now: Nanos) -> Result<()> {
        (self.is_begun, self.saved, self.at) = (false, blocks_done(outcome), now);
        self.plan = Some(outcome.plan.clone());
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(explained(&self.file, error))
            }
            _ => Ok(()),
        }
    }

    /// Appends the last block of `outcome`, and forces it to disk.
    ///
    /// # Errors
    /// [`Error::Setup`] with the file and a remedy.
    pub fn append(&mut self, outcome: &Outcome) -> Result<()> {
        self.try_append(outcome).map_err(|error| explained(&self.file, error))
    }

    fn try_append(&mut self, outcome: &Outcome) -> io::Result<()> {
        // Trials of a running race are in the order of its blocks.
        let number = outcome.trials.last().map_or(0, |trial| trial.block);
        let mut lines = Vec::new();
        // Opened for each block, so that a removed directory is noticed.
        let mut out = if self.is_begun {
            File::options().append(true).open(&self.file)?
        } else {
            write_line(&mut lines, &JournalLine::Head(JournalHead::of(outcome)))?;
            File::create(&self.file)?
        };
        for trial in last_block(outcome, number) {
            write_line(&mut lines, &JournalLine::Trial { trial: Box::new(trial.clone()) })?;
        }
        let dropped = |of: fn(&Entrant) -> Option<String>| {
            let contenders = outcome.contenders.iter();
            contenders.filter_map(|entrant| Some((entrant.id, of(entrant)?))).collect()
        };
        let block = JournalBlock {
            number,
            blocked: dropped(|entrant| entrant.blocked.clone()),
            limited: dropped(|entrant| entrant.limited.clone()),
            overload: dropped(|entrant| entrant.overload.clone()),
            failed: dropped(|entrant| entrant.failed.clone()),
            probe: outcome.probe.as_ref().and_then(|probe| probe.points.last().cloned()),
            plan: (self.plan.as_ref() != Some(&outcome.plan)).then(|| outcome.plan.clone()),
        };
        write_line(&mut lines, &JournalLine::Block { block: Box::new(block) })?;
        out.write_all(&lines)?;
        out.sync_data()?;
        self.is_begun = true;
        Ok(())
    }
}

fn write_line(into: &mut Vec<u8>, line: &JournalLine) -> io::Result<()> {
    into.extend(layout::line(line)?);
    into.push(b'\n');
    Ok(())
}

fn last_block(outcome: &Outcome, number: u64) -> impl Iterator<Item = &Trial> {
    let first = outcome.trials.iter().rposition(|trial| trial.block < number);
    outcome.trials.iter().skip(first.map_or(0, |at| at + 1))
}

/// Returns `race.journal` for `race.json`.
pub fn beside(result: &Path) -> PathBuf {
    result.with_extension("journal")
}

/// Reads the journal beside `result`; empty if there is none. Read it before the result: a running race may save
/// the whole result in between, which then has all blocks of this journal.
///
/// # Errors
/// As [`packed::read`].
fn read(result: &Path) -> Result<Vec<u8>> {
    let file = beside(result);
    if fs::metadata(&file).is_ok_and(|there| there.is_file()) {
        match packed::read(&file, LARGEST) {
            // The race closed it just now.
            Err(Error::Setup { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
    }
    Ok(Vec::new())
}

/// Blocks and errors from reading a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JournalRecovery {
    /// Number of complete blocks that it added.
    pub blocks: u64,
    /// Skipped part of the journal, with the reason; absent if all of it was read.
    pub skipped: Option<String>,
}

/// Adds to `outcome`, saved in `result`, the complete blocks of its journal, up to the first line that cannot be
/// parsed: blocks count in order. `derive` updates the results that follow from the trials, and records the skipped
/// part. The whole result is saved at each look, so no decision was made in between.
///
/// # Errors
/// As `derive`.
fn recover(
    result: &Path,
    journal: Result<Vec<u8>>,
    saved: Outcome,
    derive: impl Fn(&mut Outcome, &JournalRecovery) -> Result<()>,
) -> Result<Outcome> {
    let name = beside(result).display().to_string();
    let (mut outcome, mut recovered) = (saved.clone(), JournalRecovery::default());
    match journal {
        Ok(text) => recovered.skipped = take_lines(&text, &mut outcome, &name),
        Err(error) => recovered.skipped = Some(error.to_string()),
    }
    recovered.blocks = blocks_done(&outcome).saturating_sub(blocks_done(&saved));
    if recovered == JournalRecovery::default() {
        return Ok(outcome);
    }
    let derived = derive(&mut outcome, &recovered);
    let Err(error) = derived else { return Ok(outcome) };
    // The result itself stays readable whatever is in its journal.
    let recovered = JournalRecovery { blocks: 0, skipped: Some(format!("{name}: {error}")) };
    let mut outcome = saved;
    derive(&mut outcome, &recovered)?;
    Ok(outcome)
}

/// Adds the lines of a journal to `outcome`; returns the skipped part with the reason.
fn take_lines(text: &[u8], outcome: &mut Outcome, name: &str) -> Option<String> {
    let mut reader = JournalReader { outcome, block: Vec::new() };
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
    // A line without an end was being written when the race was killed.
    while let Some((at, Some(line))) = lines.next().map(|(at, line)| (at, line.strip_suffix(b"\n")))
    {
        let parsed = layout::read(line).map_err(|error| error.to_string());
        match parsed.and_then(|line| reader.take(line)) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                let after = lines.count();
                return Some(format!(
                    "{name}: line {}: {why}; the blocks before it are read, and the {after} lines behind it are not",
                    at + 1
                ));
            }
        }
    }
    None
}

/// Reader that adds a journal's lines to an outcome.
struct JournalReader<'a> {
    outcome: &'a mut Outcome,
    /// Trials of the block without an end so far.
    block: Vec<Trial>,
}

impl JournalReader<'_> {
    /// Adds a line; returns false if the journal belongs to another race.
    fn take(&mut self, line: JournalLine) -> Result<bool, String> {
        match line {
            JournalLine::Head(head) => {
                let own = JournalHead::of(self.outcome);
                let (version, head) = (head.journal, JournalHead { journal: own.journal, ..head });
                if head == own && version != VERSION {
                    return Err(format!(
                        "it is of version {version}, and this program reads {VERSION}"
                    ));
                }
                return Ok(head == own);
            }
            JournalLine::Trial { trial } if trial.contender >= self.outcome.contenders.len() => {
                return Err(format!("no contender has the id {}", trial.contender));
            }
            JournalLine::Trial { trial } => self.block.push(*trial),
            JournalLine::Block { block } => self.end(*block)?,
        }
        Ok(true)
    }

    fn end(&mut self, block: JournalBlock) -> Result<(), String> {
        let trials = std::mem::take(&mut self.block);
        let done = blocks_done(self.outcome);
        if block.number < done {
            return Ok(());
        }
        if block.number > done || trials.iter().any(|trial| trial.block != block.number) {
            return Err(format!("block {} where block {done} follows", block.number));
        }
        let outcome = &mut *self.outcome;
        let dropped = block.blocked.iter().chain(&block.limited);
        let dropped = dropped.chain(&block.overload).chain(&block.failed);
        let mut ids = dropped.map(|(id, _)| *id);
        if let Some(id) = ids.find(|id| *id >= outcome.contenders.len()) {
            return Err(format!("no contender has the id {id}"));
        }
        outcome.trials.extend(trials);
        outcome.probe.iter_mut().zip(block.probe).for_each(|(probe, point)| probe.add(point));
        if let Some(plan) = block.plan {
            outcome.plan = plan;
        }
        let blocked = block.blocked.into_iter().map(|(id, why)| (id, DropReason::Blocked(why)));
        let failed = block.failed.into_iter().map(|(id, why)| (id, DropReason::Failed(why)));
        let limited = block.limited.into_iter().map(|(id, why)| (id, DropReason::Limited(why)));
        let overload = block.overload.into_iter().map(|(id, why)| (id, DropReason::Overload(why)));
        for (id, dropped) in blocked.chain(limited).chain(overload).chain(failed) {
            outcome.contenders[id].drop_out(dropped);
        }
        Ok(())
    }
}

/// Reads a race, as saved or compressed by gzip; if it is running or was killed, with the blocks in its journal. If
/// there are any, or if the journal cannot be read, `derive` updates the results that follow from the trials and
/// records the skipped part.
///
/// # Errors
/// [`Error::Setup`] if the file cannot be read, [`Error::Data`] if it is not a complete race in this format, with a
/// description of its content.
pub fn load_with(
    file: &Path,
    derive: impl Fn(&mut Outcome, &JournalRecovery) -> Result<()>,
) -> Result<Outcome> {
    let journal = read(file);
    let text = packed::read(file, LARGEST)?;
    let outcome = parse(&text).map_err(|what| Error::data(file.display().to_string(), what))?;
    recover(file, journal, outcome, derive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It matters for the longest races.
    #[test]
    fn ten_thousand_blocks_are_written_a_few_times_and_not_ten_thousand_times() {
        let mut journal = Journal::of(Path::new("race.json"));
        let mut written = 0;
        for done in 1..=10_000 {
            let now = Nanos::from_secs(done);
            if journal.is_full(done, now) {
                (journal.saved, journal.at) = (done, now);
                written += done;
            }
        }
        assert!((10_000..60_000).contains(&written), "{written}");
    }
}

//! Tests of `journal.rs` of deadheat-result, on results of whole races.

use crate::race::testing::{self, WORKLOAD, ran};
use crate::race::{Observer, RaceContext, RaceEvent, Request};
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_result::analysis::derived::load;
use deadheat_result::journal::*;
use deadheat_result::outcome::{Outcome, Status, blocks_done};
use deadheat_trial::Order;
use deadheat_trial::sim::fake::Fake;
use std::fs::{self};
use std::path::{Path, PathBuf};

/// Observer that reads the result at each save.
struct ReadBack {
    file: PathBuf,
    last: Option<Outcome>,
    /// Numbers of results read with and without a journal.
    read: [u32; 2],
    /// Last result with its journal.
    files: Option<[Vec<u8>; 2]>,
}

impl Observer for ReadBack {
    fn on(&mut self, event: RaceEvent<'_>) {
        match event {
            RaceEvent::BlockDone { outcome, .. } => self.last = Some(outcome.clone()),
            RaceEvent::Saved { file } => {
                let read = load(file).unwrap();
                if read.status != Status::Running {
                    return;
                }
                assert_eq!(Some(&read), self.last.as_ref());
                let journal = beside(&self.file);
                self.read[usize::from(!journal.exists())] += 1;
                if journal.exists() {
                    self.files = Some([file, &journal].map(|file| fs::read(file).unwrap()));
                }
            }
            _ => {}
        }
    }
}

/// Returns a race of 40 blocks with trials of one second each.
fn race(dir: &Path) -> (Outcome, ReadBack) {
    let file = dir.join("race.json");
    let mut observer = ReadBack { file: file.clone(), last: None, read: [0; 2], files: None };
    let clock = Manual::default();
    let mut trials = 0u32;
    let mut runner = Fake(|order: &Order| {
        trials += 1;
        clock.advance_to(clock.now() + Nanos::from_secs(1));
        // No contender has a certain lead.
        ran(order, 100.0 + f64::from(trials * 7919 % 31))
    });
    let context =
        RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day()).save(&file);
    let request = Request::new(["tcp", "udp"]).workload(WORKLOAD).blocks(40).seed(7);
    let outcome = request.margin(0.05).run_with(context).unwrap();
    (outcome, observer)
}

#[test]
fn every_block_is_on_disk_as_soon_as_it_is_done_and_few_of_them_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, observer) = race(dir.path());
    assert_eq!(load(&observer.file).unwrap(), outcome);
    let [with, without] = observer.read;
    // After a last block that decides it the race is no longer running.
    let unsaved = u64::from(outcome.status == Status::Decided);
    assert_eq!((with + without) as u64, 40 - unsaved);
    assert!(with > without && without > 5, "{with} and {without}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no journal is left");
}

#[test]
fn a_journal_that_is_cut_off_has_its_whole_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let (_, observer) = race(dir.path());
    let [result, journal] = observer.files.unwrap();
    let file = dir.path().join("race.json");
    fs::write(&file, &result).unwrap();
    fs::write(beside(&file), b"").unwrap();
    let saved = blocks_done(&load(&file).unwrap());
    let ends: Vec<usize> = (0..journal.len())
        .filter(|at| journal[*at..].starts_with(b"{\"block\":{\"number\""))
        .map(|at| at + journal[at..].iter().position(|byte| *byte == b'\n').unwrap())
        .collect();
    for length in (0..=journal.len()).step_by(97).chain(ends.iter().map(|at| at + 1)) {
        fs::write(beside(&file), &journal[..length]).unwrap();
        let whole = ends.iter().filter(|at| **at < length).count() as u64;
        assert_eq!(blocks_done(&load(&file).unwrap()), saved + whole, "{length}");
    }
}

#[test]
fn a_journal_of_another_race_or_of_nonsense_adds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (_, observer) = race(dir.path());
    let [result, journal] = observer.files.unwrap();
    let file = dir.path().join("race.json");
    fs::write(&file, &result).unwrap();
    let journal = String::from_utf8(journal).unwrap();
    let (head, rest) = journal.split_once('\n').unwrap();
    let with = |journal: String| {
        fs::write(beside(&file), journal).unwrap();
        let outcome = load(&file).unwrap();
        let skipped = outcome.warnings.iter().find(|w| w.code == "journal_skipped");
        (blocks_done(&outcome), skipped.map_or_else(String::new, |w| w.message.clone()))
    };
    let (saved, none) = with(String::new());
    assert_eq!(none, "");
    let (all, none) = with(journal.clone());
    assert!(all > saved + 1 && none.is_empty(), "{all} {none}");
    let other = head.replacen("\"seed\":", "\"seed\":1", 1);
    assert_eq!(with(format!("{other}\n{rest}")), (saved, String::new()));
    let skips = |journal: String, wanted: &str| {
        let (blocks, skipped) = with(journal);
        assert!(skipped.contains("race.journal: line") && skipped.contains(wanted), "{skipped}");
        blocks - saved
    };
    assert_eq!(skips(format!("{head}\n{{\"block\":7}}\n{rest}"), "line 2: "), 0);
    let newer = head.replacen("\"journal\":1", "\"journal\":2", 1);
    assert_eq!(skips(format!("{newer}\n{rest}"), "of version 2, and this program reads 1"), 0);
    let late = rest.replace(&format!("\"number\":{saved}"), "\"number\":39");
    assert_eq!(skips(format!("{head}\n{late}"), "block 39 where block"), 0);
    let nobody = rest.replacen("\"contender\":", "\"contender\":9", 1);
    assert_eq!(skips(format!("{head}\n{nobody}"), "no contender"), 0);
    // The complete blocks before an invalid line stay.
    let first = rest.find("{\"block\":{\"number\"").unwrap();
    let (block, others) = rest.split_at(first + rest[first..].find('\n').unwrap() + 1);
    let lines = others.lines().count();
    let torn = format!("{head}\n{block}\u{fffd}not JSON\n{others}");
    assert_eq!(skips(torn, &format!("and the {lines} lines behind it are not")), 1);
}

#[test]
fn a_journal_that_cannot_be_read_leaves_the_result_readable() {
    let dir = tempfile::tempdir().unwrap();
    let (_, observer) = race(dir.path());
    let [result, journal] = observer.files.unwrap();
    let file = dir.path().join("race.json");
    fs::write(&file, &result).unwrap();
    // No results are derived from trials of a contender that this build does not know.
    let unknown = String::from_utf8(result.clone()).unwrap().replace("\"udp\"", "\"pdu\"");
    for (result, journal, wanted) in [
        (&result[..], &[0x1f, 0x8b, 7][..], "compressed by gzip"),
        (unknown.as_bytes(), &journal[..], "unknown contender `pdu`"),
    ] {
        fs::write(&file, result).unwrap();
        fs::write(beside(&file), journal).unwrap();
        let outcome = load(&file).unwrap();
        let skipped = outcome.warnings.iter().find(|w| w.code == "journal_skipped").unwrap();
        assert!(skipped.message.contains(wanted), "{}", skipped.message);
    }
}

//! Everything a race touches outside itself: who runs trials, who watches, the clock, the stop
//! button, and where results go.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::outcome::Outcome;
use super::save;
use crate::error::Result;
use crate::time::{Clock, Monotonic, Nanos};
use crate::trial::Runner;
use crate::trial::quiet::Disturbance;

/// What happens in a race, as it happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A trial before block 0 begins: the `trial`-th (from 1) of `of`.
    Pilot {
        /// Which.
        trial: u64,
        /// Of how many.
        of: u64,
    },
    /// The race waits for the host to settle.
    Settling {
        /// Because of this.
        why: &'a Disturbance,
    },
    /// The plan is fixed; no block has run, or, on resuming, some have.
    Planned {
        /// The race so far, plan included.
        outcome: &'a Outcome,
        /// About how long all its blocks take; absent where nothing was measured.
        takes: Option<Nanos>,
    },
    /// The next block begins in so much time.
    Waiting {
        /// Until then.
        left: Nanos,
    },
    /// A trial begins.
    TrialStarted(Place<'a>),
    /// A trial ended.
    TrialEnded {
        /// Which.
        place: Place<'a>,
        /// Why it does not count; absent where it does.
        why_invalid: Option<&'a str>,
    },
    /// A block is done, and the estimates are up to date.
    BlockDone {
        /// The race so far.
        outcome: &'a Outcome,
        /// Blocks done.
        blocks: u64,
        /// Time left at most, if no verdict ends it early.
        remaining: Nanos,
    },
    /// An instrumented trial after the last block begins: the `trial`-th (from 1) of `of`.
    Explaining {
        /// Which.
        trial: u64,
        /// Of how many.
        of: u64,
        /// The contender's label.
        label: &'a str,
    },
    /// The race so far is on disk.
    Saved {
        /// Its file.
        file: &'a Path,
    },
    /// The race is over; the outcome says how.
    Ended {
        /// All of it.
        outcome: &'a Outcome,
    },
}

/// Watches a race. Only `cli` prints.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, event: Event<'_>);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn on(&mut self, _event: Event<'_>) {}
}

/// A trial's place in its race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Its block, from 0.
    pub block: u64,
    /// Its place in the block, from 0.
    pub order: u64,
    /// The contender's id.
    pub contender: usize,
    /// The contender's label.
    pub label: &'a str,
    /// Whether it is the hidden copy.
    pub control: bool,
}

/// Keeps raw samples: moves those of one trial into the race's file.
pub trait Keep {
    /// Appends what a trial left in `part` to `main`, under its place in the race, and removes
    /// `part`. A part that does not exist (the trial failed early) is no error.
    ///
    /// # Errors
    /// Where a file cannot be read or written.
    fn append(&mut self, main: &Path, part: &Path, place: &Place<'_>) -> Result<()>;

    /// Removes from `main` what belongs to block `first` and later ones: a block that was broken off
    /// is run again. A file that does not exist is no error.
    ///
    /// # Errors
    /// Where the file cannot be read or cut.
    fn cut(&mut self, main: &Path, first: u64) -> Result<()>;
}

/// Where a race takes place. Made with [`Stage::new`], the rest by chaining.
pub struct Stage<'a> {
    pub(super) runner: &'a mut dyn Runner,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) keep: Option<&'a mut dyn Keep>,
    pub(super) clock: &'a dyn Clock,
    pub(super) started: SystemTime,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) save: Option<PathBuf>,
}

impl<'a> Stage<'a> {
    /// Trials by `runner`, watched by `observer`, on the machine's clock, saved nowhere.
    pub fn new(runner: &'a mut dyn Runner, observer: &'a mut dyn Observer) -> Stage<'a> {
        Stage {
            runner,
            observer,
            keep: None,
            clock: &Monotonic,
            started: SystemTime::now(),
            stop: Arc::new(AtomicBool::new(false)),
            save: None,
        }
    }

    /// Ends the race cleanly once the flag is set (Ctrl-C). Whole blocks are kept.
    pub fn stop(mut self, flag: Arc<AtomicBool>) -> Stage<'a> {
        self.stop = flag;
        self
    }

    /// Saves the race to `file` after every block.
    pub fn save(mut self, file: impl Into<PathBuf>) -> Stage<'a> {
        self.save = Some(file.into());
        self
    }

    /// Keeps raw samples beside the saved race; without [`Stage::save`] there is no beside.
    pub fn keep(mut self, keep: &'a mut dyn Keep) -> Stage<'a> {
        self.keep = Some(keep);
        self
    }

    /// Another clock for the budget, and another time of day for the record.
    pub fn at(mut self, clock: &'a dyn Clock, started: SystemTime) -> Stage<'a> {
        self.clock = clock;
        self.started = started;
        self
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The file of raw samples: `race.json` has its samples in `race.samples`.
    pub(super) fn samples(&self) -> Option<PathBuf> {
        self.keep.as_ref()?;
        Some(save::samples_file(self.save.as_ref()?))
    }

    /// Removes what the last trial left, where there is no race to keep it with.
    pub(super) fn drop_samples_part(&self) {
        if let Some(part) = self.samples_part() {
            // Most trials leave nothing.
            let _ = std::fs::remove_file(part);
        }
    }

    /// Where one trial leaves its samples before they are kept.
    pub(super) fn samples_part(&self) -> Option<PathBuf> {
        Some(self.samples()?.with_extension("samples.part"))
    }
}

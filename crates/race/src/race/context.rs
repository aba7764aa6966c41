//! Surroundings of a race: the runner of trials, the observer, the clock, the stop flag, and the file for
//! results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::race::steering::Steering;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos, epoch_ms};
use deadheat_records::quiet::Disturbance;
use deadheat_records::trial::Record;
use deadheat_result::outcome::{Absence, Outcome};
use deadheat_result::save;
use deadheat_trial::Runner;

/// Longest time for which a wait goes on after the stop flag is set.
pub(crate) const STEP: Nanos = Nanos::from_millis(100);

/// Event in a race, reported as it happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum RaceEvent<'a> {
    /// A trial before block 0 begins: the `trial`-th (from 1) of `of`.
    Pilot {
        /// Number of the trial, from 1.
        trial: u64,
        /// Number of trials in all.
        of: u64,
    },
    /// Race is waiting for the host to settle.
    Settling {
        /// Disturbance that the race waits out.
        why: &'a Disturbance,
    },
    /// Nothing has run yet, and the round trip to the far end is known.
    Expected {
        /// Time that a verdict takes at least.
        takes: Nanos,
    },
    /// Plan is fixed. No block has run yet, unless the race is resumed.
    Planned {
        /// The race so far, plan included.
        outcome: &'a Outcome,
        /// Approximate duration of all its blocks; absent if no trial was measured.
        takes: Option<Nanos>,
    },
    /// Race is waiting for the start time of the next block.
    Waiting {
        /// Time left until then.
        left: Nanos,
    },
    /// The far end does not answer; the race waits for it, and tries to connect again.
    FarEndAway {
        /// Name of the far end as typed.
        host: &'a str,
        /// Time of the loss, as in results.
        since: &'a str,
        /// Evidence, by the last attempt.
        why: &'a str,
        /// Time left until the race gives it up.
        left: Nanos,
    },
    /// The far end answers again.
    FarEndBack {
        /// Name of the far end as typed.
        host: &'a str,
        /// Duration of the wait.
        waited: Nanos,
    },
    /// A trial begins.
    TrialStarted(TrialPlace<'a>),
    /// A trial ended.
    TrialEnded {
        /// Position of the trial.
        place: TrialPlace<'a>,
        /// Reason why it is not valid; absent if it is.
        why_invalid: Option<&'a str>,
        /// Figures of the trial.
        record: &'a Record,
    },
    /// First block took so long that the budget is too short for a verdict.
    TimeIsShort {
        /// Number of blocks that fit in the budget.
        room: u64,
        /// Minimum number of blocks for a verdict on every claim.
        fewest: u64,
        /// Approximate duration of a race of that many blocks.
        takes: Nanos,
    },
    /// A block is complete. The estimates are up to date, or lack the last few of many blocks.
    BlockDone {
        /// The race so far.
        outcome: &'a Outcome,
        /// Number of completed blocks.
        blocks: u64,
        /// Maximum time left, if no verdict ends the race early.
        remaining: Nanos,
    },
    /// An instrumented trial after the last block begins: the `trial`-th (from 1) of `of`.
    Explaining {
        /// Number of the trial, from 1.
        trial: u64,
        /// Number of trials in all.
        of: u64,
        /// The contender's label.
        label: &'a str,
    },
    /// The race so far is on disk.
    Saved {
        /// File of the saved race.
        file: &'a Path,
    },
    /// A pause that a person asked for begins; nothing runs until it ends.
    Paused,
    /// The pause is over.
    Continued {
        /// Duration of the pause.
        paused: Nanos,
    },
    /// Race is over; the outcome has its status.
    Ended {
        /// Complete result.
        outcome: &'a Outcome,
    },
}

/// Observer of a race. Only `cli` prints.
pub trait Observer {
    /// Receives an event.
    fn on(&mut self, event: RaceEvent<'_>);
}

/// Observer that ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentObserver;

impl Observer for SilentObserver {
    fn on(&mut self, _event: RaceEvent<'_>) {}
}

/// Position of a trial in its race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialPlace<'a> {
    /// Block of the trial, from 0.
    pub block: u64,
    /// Position in the block, from 0.
    pub order: u64,
    /// Id of the contender.
    pub contender: usize,
    /// Label of the contender.
    pub label: &'a str,
    /// True if it is the hidden copy.
    pub control: bool,
}

/// Store of raw samples: moves the samples of a trial into the race's file.
pub trait SampleStore {
    /// Appends the samples of a trial from `part` to `main`, under its position in the race, and removes `part`. A
    /// missing part (the trial failed early) is no error.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    fn append(&mut self, main: &Path, part: &Path, place: &TrialPlace<'_>) -> Result<()>;

    /// Removes the samples of block `first` and later blocks from `main`, because an interrupted block runs again.
    /// A missing file is no error.
    ///
    /// # Errors
    /// If the file cannot be read or cut.
    fn cut(&mut self, main: &Path, first: u64) -> Result<()>;
}

/// Surroundings of a race, made with [`RaceContext::new`] and chained setters.
pub struct RaceContext<'a> {
    pub(super) runner: &'a mut dyn Runner,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) keep: Option<&'a mut dyn SampleStore>,
    pub(super) clock: &'a dyn Clock,
    pub(super) started: SystemTime,
    /// Value of the clock at `started`.
    began: Nanos,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) steering: Arc<Steering>,
    pub(super) save: Option<PathBuf>,
    /// Longest wait for a far end that does not answer, if a person asked for one.
    pub(super) patience: Option<Nanos>,
    /// Absences of the far end that are not in the outcome yet.
    pub(super) absences: Vec<Absence>,
}

impl<'a> RaceContext<'a> {
    /// Creates a context: `runner` runs the trials, `observer` receives events, the clock is the machine's, and no
    /// file is saved.
    pub fn new(runner: &'a mut dyn Runner, observer: &'a mut dyn Observer) -> RaceContext<'a> {
        RaceContext {
            runner,
            observer,
            keep: None,
            clock: &Monotonic,
            started: SystemTime::now(),
            began: Monotonic.now(),
            stop: Arc::new(AtomicBool::new(false)),
            steering: Arc::default(),
            save: None,
            patience: None,
            absences: Vec::new(),
        }
    }

    /// Sets the stop flag. Once it is set (Ctrl-C), the race ends cleanly, with its complete blocks.
    pub fn stop(mut self, flag: Arc<AtomicBool>) -> RaceContext<'a> {
        self.stop = flag;
        self
    }

    /// Sets the wishes of a person, which are read between blocks.
    pub fn steering(mut self, steering: Arc<Steering>) -> RaceContext<'a> {
        self.steering = steering;
        self
    }

    /// Saves the race to `file` after every block.
    pub fn save(mut self, file: impl Into<PathBuf>) -> RaceContext<'a> {
        self.save = Some(file.into());
        self
    }

    /// Sets the longest wait for a far end that no longer answers; `None` for five minutes, or longer where the race
    /// has more time.
    pub fn patience(mut self, longest: Option<Nanos>) -> RaceContext<'a> {
        self.patience = longest;
        self
    }

    /// Stores raw samples beside the saved race; without [`RaceContext::save`] none are stored.
    pub fn keep(mut self, keep: &'a mut dyn SampleStore) -> RaceContext<'a> {
        self.keep = Some(keep);
        self
    }

    /// Replaces the clock, which measures the budget, and the recorded start time.
    pub fn at(mut self, clock: &'a dyn Clock, started: SystemTime) -> RaceContext<'a> {
        self.clock = clock;
        self.started = started;
        self.began = clock.now();
        self
    }

    /// Returns the time of day in milliseconds since the Unix epoch.
    pub(super) fn epoch_ms(&self) -> u64 {
        epoch_ms(self.started + Duration::from(self.clock.now() - self.began))
    }

    /// Returns the time since which nothing came from the far end in the lost trial, in milliseconds since the Unix epoch; `None`
    /// if it is not known.
    pub(super) fn silent_ms(&mut self) -> Option<u64> {
        self.runner.far_link()?.silent_ms()
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until `at`, and calls `on_step` with the time left before each step.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once the stop flag is set.
    pub(super) fn wait_until(
        &mut self,
        at: Nanos,
        mut on_step: impl FnMut(&mut dyn Observer, Nanos),
    ) -> Result<()> {
        loop {
            let left = at - self.clock.now();
            if left == Nanos::ZERO {
                return Ok(());
            }
            if self.stopped() {
                return Err(Error::Interrupted);
            }
            on_step(&mut *self.observer, left);
            self.clock.pass(left.min(STEP));
        }
    }

    /// Waits while a person wishes a pause; returns its duration, `None` if there was none.
    pub(super) fn hold(&mut self) -> Option<Nanos> {
        if !self.steering.is_paused() {
            return None;
        }
        self.observer.on(RaceEvent::Paused);
        let paused = self.steering.hold(&self.stop);
        self.observer.on(RaceEvent::Continued { paused });
        Some(paused)
    }

    /// Returns the file of raw samples: `race.json` has its samples in `race.samples`.
    pub(super) fn samples(&self) -> Option<PathBuf> {
        self.keep.as_ref()?;
        Some(save::samples_file(self.save.as_ref()?))
    }

    /// Removes the samples of the last trial if the race stores none.
    pub(super) fn drop_samples_part(&self) {
        if let Some(part) = self.samples_part() {
            // Most trials have no samples file.
            let _ = std::fs::remove_file(part);
        }
    }

    /// Returns the file in which one trial leaves its samples before they are appended.
    pub(super) fn samples_part(&self) -> Option<PathBuf> {
        Some(self.samples()?.with_extension("samples.part"))
    }
}

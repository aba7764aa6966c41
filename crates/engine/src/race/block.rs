//! Runs one block: every slot once, then the trials that failed their gate again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::schedule::{Block, BlockSlot, SlotRole};
use crate::error::{Error, Result};
use crate::host::placement::Placement;
use crate::race::context::{RaceContext, RaceEvent, TrialPlace};
use crate::result::dropped::DropReason;
use crate::result::outcome::{Entrant, Trial};
use crate::time::Nanos;
use crate::trial::explain::Pass;
use crate::trial::{Order, Pairing, Record, TrialOutcome};
use crate::workload::SharedTask;

/// Number of repeats of a trial that fails its gate.
const REPEATS: u32 = 2;

/// Settings that all trials of a race have in common.
#[derive(Debug, Clone)]
pub(super) struct TrialSettings {
    /// Contender and work of each entrant that can run, by its id.
    pub pairings: Vec<Option<Pairing>>,
    pub placement: Placement,
    pub interval: Nanos,
}

impl TrialSettings {
    /// Replaces the work of all entrants; only its length differs.
    pub(super) fn run_as(&mut self, task: &SharedTask) {
        for pairing in self.pairings.iter_mut().flatten() {
            pairing.task = task.clone();
        }
    }

    /// Returns contender and work of an entrant.
    ///
    /// # Errors
    /// [`Error::Usage`] if the entrant cannot run.
    pub(super) fn pairing(&self, entrant: &Entrant) -> Result<&Pairing> {
        let pairing = self.pairings.get(entrant.id).and_then(Option::as_ref);
        pairing.ok_or_else(|| Error::usage(format!("{} cannot run here", entrant.label)))
    }

    /// Returns the order for one trial without samples, under the entrant's own conditions, if any.
    ///
    /// # Errors
    /// As [`TrialSettings::pairing`].
    pub(super) fn order(&self, entrant: &Entrant, seed: u64) -> Result<Order> {
        let cell = entrant.cell.as_ref();
        Ok(Order {
            pairing: self.pairing(entrant)?.clone(),
            placement: cell.and_then(|cell| cell.placement).unwrap_or(self.placement),
            seed,
            samples: None,
            interval: self.interval,
            pass: Pass::Figures,
        })
    }
}

/// A completed block.
#[derive(Debug, Default)]
pub(super) struct FinishedBlock {
    /// Trials in the order run, invalid ones included.
    pub trials: Vec<Trial>,
    /// Contenders that dropped out, with the reason.
    pub dropped: BTreeMap<usize, DropReason>,
}

/// A slot that has yet to run.
struct PendingSlot {
    slot: BlockSlot,
    repeats_left: u32,
}

/// Runs a block.
///
/// A trial that fails its gate is repeated at the end of the block, at most twice; the failed trials stay listed. A
/// trial that is blocked, or that a limit of the far end stops, is repeated there too, and drops its contender if
/// that happens again. A trial that fails outright is tried again at once. If the endpoints of a trial broke, it is
/// tried again too, and drops its contender if they break again.
///
/// # Errors
/// [`Error::Interrupted`] if the stop flag is set; the error of a trial that failed twice.
/// The block's trials are then lost: a block counts whole or not at all.
pub(super) fn run(
    context: &mut RaceContext<'_>,
    block: &Block,
    common: &TrialSettings,
    entrants: &[Entrant],
) -> Result<FinishedBlock> {
    let mut runner = BlockRun {
        context,
        block,
        common,
        entrants,
        done: FinishedBlock::default(),
        excluded_once: BTreeSet::new(),
        last: (0, Nanos::ZERO),
    };
    let mut turns: VecDeque<PendingSlot> =
        block.slots.iter().map(|&slot| PendingSlot { slot, repeats_left: REPEATS }).collect();
    while let Some(turn) = turns.pop_front() {
        if runner.done.dropped.contains_key(&turn.slot.contender) {
            continue;
        }
        if runner.take(turn.slot)? == SlotState::Again && turn.repeats_left > 0 {
            turns.push_back(PendingSlot { repeats_left: turn.repeats_left - 1, ..turn });
        }
    }
    Ok(runner.done)
}

struct BlockRun<'a, 'b> {
    context: &'a mut RaceContext<'b>,
    block: &'a Block,
    common: &'a TrialSettings,
    entrants: &'a [Entrant],
    done: FinishedBlock,
    excluded_once: BTreeSet<usize>,
    /// Start of the last attempt in milliseconds since the Unix epoch, and its duration.
    last: (u64, Nanos),
}

/// State of a slot after a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Settled,
    Again,
}

impl<'a> BlockRun<'a, '_> {
    /// Runs the trial of a slot.
    fn take(&mut self, slot: BlockSlot) -> Result<SlotState> {
        match self.attempt(slot)? {
            TrialOutcome::Ran(record) => self.finish(slot, *record),
            TrialOutcome::Blocked(evidence) => self.exclude(slot, DropReason::Blocked(evidence)),
            TrialOutcome::Limited(what) => self.exclude(slot, DropReason::Limited(what)),
            TrialOutcome::Failed(error) if !worth_repeating(&error) => Err(error),
            TrialOutcome::Failed(first) => self.repeat(slot, &first.to_string()),
            TrialOutcome::Broke(first) => self.repeat(slot, &first),
        }
    }

    /// Runs the trial of a slot again, after the first attempt failed with `first`.
    fn repeat(&mut self, slot: BlockSlot, first: &str) -> Result<SlotState> {
        self.failed(slot, first)?;
        match self.attempt(slot)? {
            TrialOutcome::Ran(record) => self.finish(slot, *record),
            TrialOutcome::Blocked(evidence) => self.exclude(slot, DropReason::Blocked(evidence)),
            TrialOutcome::Limited(what) => self.exclude(slot, DropReason::Limited(what)),
            TrialOutcome::Failed(error) => Err(error),
            TrialOutcome::Broke(evidence) => {
                self.failed(slot, &evidence)?;
                self.done.dropped.insert(slot.contender, DropReason::Failed(evidence));
                Ok(SlotState::Settled)
            }
        }
    }

    fn failed(&mut self, slot: BlockSlot, why: &str) -> Result<()> {
        self.note(slot, self.without_figures(format!("failed: {why}")))
    }

    /// Returns the record of the last attempt without figures; its start and duration are known.
    fn without_figures(&self, why: String) -> Record {
        let (started_ms, took) = self.last;
        Record { started_ms, took_ns: took.0, ..Record::without_figures(why) }
    }

    fn finish(&mut self, slot: BlockSlot, record: Record) -> Result<SlotState> {
        let after = if record.valid { SlotState::Settled } else { SlotState::Again };
        self.note(slot, finite(record))?;
        Ok(after)
    }

    /// Records a trial that the path or a limit of the far end stopped; the second one drops its contender.
    fn exclude(&mut self, slot: BlockSlot, why: DropReason) -> Result<SlotState> {
        let reason = format!("{}: {}", why.word(), why.evidence());
        self.note(slot, self.without_figures(reason))?;
        if self.excluded_once.insert(slot.contender) {
            return Ok(SlotState::Again);
        }
        self.done.dropped.insert(slot.contender, why);
        Ok(SlotState::Settled)
    }

    /// Runs one trial. An error that the stop flag may have caused counts as an interruption.
    fn attempt(&mut self, slot: BlockSlot) -> Result<TrialOutcome> {
        if self.context.stopped() {
            return Err(Error::Interrupted);
        }
        let Some(entrant) = self.entrant(slot) else {
            return Err(Error::peer("schedule", "it names an entrant that is not there"));
        };
        let mut order = self.common.order(entrant, self.block.seed)?;
        order.samples = self.context.samples_part();
        let place = self.place(slot);
        self.context.observer.on(RaceEvent::TrialStarted(place));
        let (started_ms, start) = (self.context.epoch_ms(), self.context.clock.now());
        let end = self.context.runner.run(&order);
        self.last = (started_ms, self.context.clock.now() - start);
        if self.context.stopped() {
            return Err(Error::Interrupted);
        }
        Ok(end)
    }

    /// Lists a trial and stores its samples, valid or not.
    fn note(&mut self, slot: BlockSlot, record: Record) -> Result<()> {
        let place = self.place(slot);
        let files = self.context.samples().zip(self.context.samples_part());
        if let (Some(keep), Some((main, part))) = (self.context.keep.as_deref_mut(), files) {
            keep.append(&main, &part, &place)?;
        }
        self.context.observer.on(RaceEvent::TrialEnded {
            place,
            why_invalid: record.why_invalid.as_deref().filter(|_| !record.valid),
        });
        self.done.trials.push(Trial {
            block: self.block.number,
            order: place.order,
            contender: slot.contender,
            control: place.control,
            record,
        });
        Ok(())
    }

    fn place(&self, slot: BlockSlot) -> TrialPlace<'a> {
        TrialPlace {
            block: self.block.number,
            order: self.done.trials.len() as u64,
            contender: slot.contender,
            label: self.entrant(slot).map_or("", |entrant| &entrant.label),
            control: slot.role == SlotRole::Control,
        }
    }

    fn entrant(&self, slot: BlockSlot) -> Option<&'a Entrant> {
        self.entrants.get(slot.contender)
    }
}

/// Returns true if a second attempt could end differently.
pub(super) fn worth_repeating(error: &Error) -> bool {
    !matches!(
        error,
        Error::Interrupted
            | Error::Usage(_)
            | Error::Unsupported { .. }
            | Error::Nonsense { .. }
            | Error::Stopped { .. }
    )
}

/// Returns the record in a form that JSON can carry: figures that are not finite are removed.
fn finite(mut record: Record) -> Record {
    record.metrics.retain(|_, figure| figure.is_finite());
    for share in [&mut record.steal_share, &mut record.load] {
        if !share.is_finite() {
            *share = 0.0;
        }
    }
    record
}

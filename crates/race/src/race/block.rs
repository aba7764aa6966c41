//! Runs one block: every slot once, then the trials that failed their gate again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::absence::Loss;
use crate::race::context::{RaceContext, RaceEvent, TrialPlace};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::Congestion;
use deadheat_contract::workload::SharedTask;
use deadheat_datapath::transport::commands::CopySet;
use deadheat_path::PathKind;
use deadheat_records::placement::Placement;
use deadheat_records::trial::Record;
use deadheat_result::dropped::DropReason;
use deadheat_result::outcome::{Entrant, Trial};
use deadheat_result::schedule::{Block, BlockSlot, SlotRole};
use deadheat_trial::between::commands::ProgramCopies;
use deadheat_trial::explain::Pass;
use deadheat_trial::{Order, Pairing, TrialOutcome};

/// Number of repeats of a trial that fails its gate.
const REPEATS: u32 = 2;

/// Begin of the reason of a trial whose endpoints broke.
const FAILED: &str = "failed: ";

/// Least rate of data that can flood a line; work below it is spared, however much is lost.
const LEAST_FLOOD: BitRate = BitRate(1_000_000);

/// Settings that all trials of a race have in common.
#[derive(Debug, Clone)]
pub(super) struct TrialSettings {
    /// Contender and work of each entrant that can run, by its id.
    pub pairings: Vec<Option<Pairing>>,
    /// Copies of the programs that commands run.
    pub copies: Arc<ProgramCopies>,
    pub placement: Placement,
    pub interval: Nanos,
    /// Longest wait for a far end that does not answer.
    pub patience: Nanos,
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
        self.order_from(entrant, seed, CopySet::Contenders)
    }

    /// Returns such an order, whose commands run the programs of this set.
    fn order_from(&self, entrant: &Entrant, seed: u64, set: CopySet) -> Result<Order> {
        let cell = entrant.cell.as_ref();
        let mut pairing = self.pairing(entrant)?.clone();
        self.copies.lend(&mut pairing.contender, set);
        Ok(Order {
            pairing,
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
    /// Time until the far end answered again after it was lost; nothing of that time counts.
    pub lost: Nanos,
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
/// In virtual time the same draws give the same trial, so no trial is repeated there. A trial whose endpoints break is one
/// block without the contender, which drops out if it is among `broke_before`, whose endpoints broke in the block before.
///
/// If the far end is lost in a trial, that trial runs anew once the far end answers again, and the block goes on. Trials
/// that were over before stay.
///
/// # Errors
/// [`Error::Interrupted`] if the stop flag is set; the error of a trial that failed twice; the error of
/// [`RaceContext::recover`].
/// The block's trials are then lost: a block counts whole or not at all.
pub(super) fn run(
    context: &mut RaceContext<'_>,
    block: &Block,
    common: &TrialSettings,
    entrants: &[Entrant],
    broke_before: &BTreeSet<usize>,
) -> Result<FinishedBlock> {
    let repeats = match context.runner.path().kind {
        PathKind::Simulated => 0,
        _ => REPEATS,
    };
    let mut runner = BlockRun {
        context,
        repeats,
        broke_before,
        block,
        common,
        entrants,
        done: FinishedBlock::default(),
        excluded_once: BTreeSet::new(),
        last: (0, Nanos::ZERO),
        is_disconnected: false,
    };
    runner.all_slots()?;
    Ok(runner.done)
}

/// Returns the contenders whose endpoints broke in their last trial in this block.
pub(super) fn broken_in(trials: &[Trial], block: u64) -> BTreeSet<usize> {
    let own = trials.iter().rev().take_while(|trial| trial.block >= block);
    let last = own.filter(|trial| trial.block == block && !trial.control);
    let broke = |trial: &&Trial| {
        trial.record.why_invalid.as_deref().is_some_and(|why| why.starts_with(FAILED))
    };
    last.filter(broke).map(|trial| trial.contender).collect()
}

struct BlockRun<'a, 'b> {
    context: &'a mut RaceContext<'b>,
    /// Number of repeats of a trial that fails its gate.
    repeats: u32,
    broke_before: &'a BTreeSet<usize>,
    block: &'a Block,
    common: &'a TrialSettings,
    entrants: &'a [Entrant],
    done: FinishedBlock,
    excluded_once: BTreeSet<usize>,
    /// Start of the last attempt in milliseconds since the Unix epoch, and its duration.
    last: (u64, Nanos),
    /// True if the last attempt's contender lost its connection.
    is_disconnected: bool,
}

/// State of a slot after a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SlotState {
    Settled,
    Again,
    /// Lost with the far end; the evidence.
    Lost(String),
}

impl<'a> BlockRun<'a, '_> {
    /// Runs every slot.
    fn all_slots(&mut self) -> Result<()> {
        let repeats = self.repeats;
        let fresh = |slot: &BlockSlot| PendingSlot { slot: *slot, repeats_left: repeats };
        let slots = &self.block.slots;
        let mut turns: VecDeque<PendingSlot> = slots.iter().map(fresh).collect();
        while let Some(turn) = turns.pop_front() {
            if self.done.dropped.contains_key(&turn.slot.contender) {
                continue;
            }
            match self.take(turn.slot)? {
                SlotState::Lost(why) => {
                    // Contenders that dropped out just before may have done so because the link was failing.
                    let dropped = std::mem::take(&mut self.done.dropped);
                    self.excluded_once.clear();
                    let again = slots.iter().filter(|slot| dropped.contains_key(&slot.contender));
                    turns.extend(again.map(fresh));
                    turns.push_front(turn);
                    let slot = turns[0].slot;
                    self.lose(slot, why)?;
                }
                SlotState::Again if turn.repeats_left > 0 => {
                    turns.push_back(PendingSlot { repeats_left: turn.repeats_left - 1, ..turn });
                }
                SlotState::Again | SlotState::Settled => {}
            }
        }
        Ok(())
    }

    /// Lists the last trial as lost with the far end, and waits until that answers again.
    fn lose(&mut self, slot: BlockSlot, why: String) -> Result<()> {
        let (started_ms, took) = self.last;
        let from_ms = self.context.silent_ms().unwrap_or(started_ms);
        let loss = Loss { from_ms, why, block: Some(self.block.number) };
        let reason = format!("lost with the far end at {}: {}", loss.since(), loss.why);
        self.note(slot, Record { lost_ms: Some(from_ms), ..self.without_figures(reason) })?;
        let began = self.context.clock.now();
        self.context.recover(loss, self.common.patience)?;
        self.done.lost += took + (self.context.clock.now() - began);
        Ok(())
    }

    /// Runs the trial of a slot.
    fn take(&mut self, slot: BlockSlot) -> Result<SlotState> {
        match self.attempt(slot)? {
            TrialOutcome::Ran(record) => self.finish(slot, *record),
            TrialOutcome::Blocked(evidence) => self.exclude(slot, DropReason::Blocked(evidence)),
            TrialOutcome::Limited(what) => self.exclude(slot, DropReason::Limited(what)),
            TrialOutcome::Lost(why) => Ok(SlotState::Lost(why)),
            TrialOutcome::Failed(error) if !worth_repeating(&error) || self.repeats == 0 => {
                Err(error)
            }
            TrialOutcome::Failed(first) => self.repeat(slot, &first.to_string()),
            TrialOutcome::Broke(evidence) | TrialOutcome::Disconnected(evidence) => {
                match self.repeats {
                    0 => self.broke(slot, evidence),
                    _ => self.repeat(slot, &evidence),
                }
            }
        }
    }

    /// Lists a trial that broke and is not repeated.
    fn broke(&mut self, slot: BlockSlot, evidence: String) -> Result<SlotState> {
        self.failed(slot, &evidence)?;
        if slot.role == SlotRole::Contender && self.broke_before.contains(&slot.contender) {
            self.done.dropped.insert(slot.contender, DropReason::Failed(evidence));
        }
        Ok(SlotState::Settled)
    }

    /// Runs the trial of a slot again, after the first attempt failed with `first`.
    fn repeat(&mut self, slot: BlockSlot, first: &str) -> Result<SlotState> {
        self.failed(slot, first)?;
        match self.attempt(slot)? {
            TrialOutcome::Ran(record) => self.finish(slot, *record),
            TrialOutcome::Blocked(evidence) => self.exclude(slot, DropReason::Blocked(evidence)),
            TrialOutcome::Limited(what) => self.exclude(slot, DropReason::Limited(what)),
            TrialOutcome::Lost(why) => Ok(SlotState::Lost(why)),
            TrialOutcome::Failed(error) => Err(error),
            TrialOutcome::Broke(evidence) | TrialOutcome::Disconnected(evidence) => {
                self.failed(slot, &evidence)?;
                self.done.dropped.insert(slot.contender, DropReason::Failed(evidence));
                Ok(SlotState::Settled)
            }
        }
    }

    fn failed(&mut self, slot: BlockSlot, why: &str) -> Result<()> {
        self.note(slot, self.without_figures(format!("{FAILED}{why}")))
    }

    /// Returns the record of the last attempt without figures; its start and duration are known.
    fn without_figures(&self, why: String) -> Record {
        let (started_ms, took) = self.last;
        let disconnected = self.is_disconnected;
        Record { started_ms, took_ns: took.0, disconnected, ..Record::without_figures(why) }
    }

    fn finish(&mut self, slot: BlockSlot, record: Record) -> Result<SlotState> {
        if let Some(evidence) = self.overload(slot, &record) {
            self.note(slot, finite(record))?;
            if self.excluded_once.insert(slot.contender) {
                return Ok(SlotState::Again);
            }
            self.done.dropped.insert(slot.contender, DropReason::Overload(evidence));
            return Ok(SlotState::Settled);
        }
        let after = if record.valid { SlotState::Settled } else { SlotState::Again };
        self.note(slot, finite(record))?;
        Ok(after)
    }

    /// Returns the evidence that a trial of the first block offered more than the line to another host carries, if
    /// nothing slows the contender down: to go on would flood the line for the whole race.
    fn overload(&self, slot: BlockSlot, record: &Record) -> Option<String> {
        if self.block.number > 0 || self.context.runner.path().kind != PathKind::Remote {
            return None;
        }
        let Pairing { contender, task, .. } = self.common.pairing(self.entrant(slot)?).ok()?;
        let rate = task.info().offered()?;
        if rate < LEAST_FLOOD || contender.promised().congestion != Congestion::Uncontrolled {
            return None;
        }
        let mut ways = record.ledger.accounts();
        let (way, lost) =
            ways.find(|(_, way)| way.lost_on_path > way.sent / 2).map(|(way, account)| {
                (way, 100.0 * account.lost_on_path as f64 / account.sent.max(1) as f64)
            })?;
        Some(format!(
            "it offers {rate} and has no congestion control, and {lost:.0} % of that was lost on the way ({way}): more \
             than the line carries"
        ))
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
        let set = match slot.role {
            SlotRole::Contender => CopySet::Contenders,
            SlotRole::Control => CopySet::Control,
        };
        let mut order = self.common.order_from(entrant, self.block.seed, set)?;
        order.samples = self.context.samples_part();
        let place = self.place(slot);
        self.context.observer.on(RaceEvent::TrialStarted(place));
        let (started_ms, start) = (self.context.epoch_ms(), self.context.clock.now());
        let end = self.context.runner.run(&order);
        self.last = (started_ms, self.context.clock.now() - start);
        self.is_disconnected = matches!(end, TrialOutcome::Disconnected(_));
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
            record: &record,
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
        *share = share.filter(|share| share.is_finite());
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::{
        Request, SilentObserver,
        testing::{self, OnPath},
    };
    use deadheat_base::time::Manual;
    use deadheat_contract::measurements::Account;
    use deadheat_result::outcome::Outcome;
    use deadheat_trial::sim::fake::Fake;

    /// Runs a race over a line that loses this share of what udp and tcp send.
    fn race(work: &str, lost_percent: u64) -> Outcome {
        let clock = Manual::default();
        let fake = Fake(move |order: &Order| {
            let TrialOutcome::Ran(mut record) = testing::ran(order, 100.0) else { unreachable!() };
            let (sent, lost_on_path) = (1_000, 10 * lost_percent);
            let delivered = sent - lost_on_path;
            record.ledger.up =
                Some(Account { sent, delivered, lost_on_path, ..Account::default() });
            TrialOutcome::Ran(record)
        });
        let mut runner = OnPath(fake, PathKind::Remote);
        let mut observer = SilentObserver;
        let context = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
        let request = Request::new(["udp", "tcp"]).workload(work).blocks(6).seed(7);
        request.to("far.example").run_with(context).unwrap()
    }

    #[test]
    fn what_a_line_does_not_carry_is_stopped_in_the_first_block_and_the_others_go_on() {
        let outcome = race("cbr:rate=100mbit,time=1s", 62);
        let [udp, tcp] = &outcome.contenders[..] else { panic!("two") };
        let why = udp.overload.as_deref().unwrap();
        assert!(
            why.starts_with("it offers 100 Mbit/s and has no congestion control, and 62 %"),
            "{why}"
        );
        assert!(tcp.is_racing(), "its congestion control yields");
        assert!(outcome.warnings.iter().any(|warning| warning.code == "overload"));
        for (work, lost) in [("cbr:rate=100mbit,time=1s", 49), ("cbr:rate=200kbit,time=1s", 90)] {
            assert!(race(work, lost).contenders[0].is_racing(), "{work}, {lost} %");
        }
    }
}

//! Loop of a race with a fixed plan: it runs blocks until every claim is decided or the budget is spent. Every
//! block is saved, in the journal or with the whole result.
//!
//! Deriving results from trials takes time in proportion to their number. It is done at each look, whenever the
//! result is saved whole, and whenever the number of blocks has grown by a share; so the total time is in
//! proportion to the blocks, and not to their square.

use deadheat_result::analysis::{claims, contests, derived, far_end, notice, shares, sweep};
use std::{fs, io};

use super::absence::{self, active, none_left};
use super::block::{self, TrialSettings};
use super::cost::{BlockCost, SpentTime, has_floors};
use super::enough::TimeLimit;
use super::every::Pace;
use super::{explain, hope, plan, quiet};
use crate::race::context::{RaceContext, RaceEvent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::recorded::RecordedContender;
use deadheat_datapath::transport::Contender;
use deadheat_path::network::Network;
use deadheat_result::analysis::judgement::DecisionStage;
use deadheat_result::analysis::pauses::Pauses;
use deadheat_result::analysis::verdicts;
use deadheat_result::causes;
use deadheat_result::journal::Journal;
use deadheat_result::outcome::{Entrant, Outcome, Status, blocks_done};
use deadheat_result::save;
use deadheat_result::schedule::{self, BlockSlot, SlotRole};
use deadheat_stats::Plan;
use deadheat_trial::FarLink;

mod time;

/// Loop of a race with a fixed plan.
pub(super) struct BlockLoop<'a> {
    context: RaceContext<'a>,
    contenders: Vec<Contender>,
    common: TrialSettings,
    outcome: Outcome,
    /// The path, if it is emulated or simulated.
    network: Option<Network>,
    looks: Plan,
    /// Number of blocks after which the maximum is estimated anew.
    replan_at: Option<u64>,
    /// True if the number of blocks is open: more may be added before the last look.
    is_open: bool,
    began: Nanos,
    limit: TimeLimit,
    /// Minimum number of blocks, even if all claims are decided earlier.
    least_blocks: Option<u64>,
    journal: Option<Journal>,
    /// Number of completed blocks in the outcome.
    done: u64,
    /// True if there was a look after the last completed block.
    looked: bool,
    /// Number of blocks that the derived results cover.
    fresh: u64,
    spent: SpentTime,
    pace: Pace,
    /// Message of the warning of absences of the far end, if there is one.
    away: Option<String>,
    /// Pauses since the race began or went on.
    pauses: Pauses,
}

/// Reason why a race ended early.
enum Halt {
    Trial(Error),
    Save(Error),
    /// No verdict would come of more blocks.
    Hopeless,
}

impl<'a> BlockLoop<'a> {
    /// Creates the loop of a race that continues after the blocks in `outcome`, over `network` if its path is
    /// emulated.
    pub(super) fn new(
        context: RaceContext<'a>,
        contenders: Vec<Contender>,
        common: TrialSettings,
        network: Option<Network>,
        outcome: Outcome,
    ) -> BlockLoop<'a> {
        BlockLoop {
            looks: claims::looks(&outcome.plan, outcome.asked.confidence),
            replan_at: None,
            is_open: false,
            done: blocks_done(&outcome),
            began: context.clock.now(),
            limit: TimeLimit::None,
            least_blocks: None,
            fresh: 0,
            spent: SpentTime::default(),
            pace: Pace::of(&outcome.asked),
            journal: context.save.as_deref().map(Journal::of),
            looked: false,
            away: None,
            pauses: Pauses::default(),
            context,
            contenders,
            common,
            network,
            outcome,
        }
    }

    /// Leaves the number of blocks open: it is estimated again half-way and before the last look.
    pub(super) fn replanning(mut self) -> BlockLoop<'a> {
        self.is_open = true;
        if self.outcome.plan.replans.is_empty() {
            self.replan_at = self.looks.replan_at().map(|at| at as u64);
        }
        self
    }

    /// Sets the time limit, counted from `began`.
    pub(super) fn within(mut self, limit: TimeLimit, began: Nanos) -> BlockLoop<'a> {
        (self.limit, self.began) = (limit, began);
        self
    }

    /// Sets the minimum number of blocks, even if all claims are decided earlier.
    pub(super) fn at_least(mut self, blocks: Option<u64>) -> BlockLoop<'a> {
        self.least_blocks = blocks;
        self
    }

    /// Sets the expected durations, used until blocks have shown how long they take.
    pub(super) fn expecting(mut self, cost: BlockCost) -> BlockLoop<'a> {
        self.spent.expected = cost;
        self
    }

    /// Removes the samples of incomplete blocks.
    fn cut_samples(&mut self) -> Result<()> {
        let done = blocks_done(&self.outcome);
        if let Some(part) = self.context.samples_part() {
            remove(&part)?;
        }
        match (self.context.samples(), self.context.keep.as_deref_mut()) {
            (Some(main), _) if done == 0 => remove(&main),
            (Some(main), Some(keep)) => keep.cut(&main, done),
            _ => Ok(()),
        }
    }

    /// Runs the race to its end.
    pub(super) fn drive(mut self) -> Result<Outcome> {
        self.outcome.status = Status::Running;
        let next = match derived::decision_stage(&self.looks, self.done) {
            DecisionStage::Look { next, .. } | DecisionStage::Between { next } => next,
        };
        self.refresh(DecisionStage::Between { next });
        match &self.context.save {
            // Before the first block there is nothing to save, but an error in writing the file costs nothing yet.
            Some(file) if self.done == 0 => save::prepare(file)?,
            _ => self.save()?,
        }
        self.note_absences();
        let takes = self.expected_duration(self.blocks_left());
        self.context.observer.on(RaceEvent::Planned {
            outcome: &self.outcome,
            takes: Some(takes).filter(|takes| *takes > Nanos::ZERO),
        });
        let ended = self.cut_samples().map_err(Halt::Save).and_then(|()| self.blocks());
        // An interrupted block is not in the result, so its samples are removed.
        let cut = self.cut_samples().map_err(Halt::Save);
        let ended = ended.and_then(|status| cut.map(|()| status));
        if self.done == 0 {
            self.context.observer.on(RaceEvent::Ended { outcome: &self.outcome });
            return Err(match ended {
                Ok(_) => Error::Interrupted,
                Err(Halt::Trial(error) | Halt::Save(error)) => error,
                Err(Halt::Hopeless) => Error::Interrupted,
            });
        }
        self.update_derived();
        let ended = ended.and_then(|status| self.explain(status).map_err(Halt::Trial));
        self.outcome.shares = shares::shares(&self.outcome);
        self.outcome.sweeps = sweep::sweeps(&self.outcome);
        self.outcome.contests = contests::contests(&self.outcome);
        quiet::conclude(&mut self.outcome);
        self.outcome.status = match &ended {
            Ok(status) => *status,
            Err(_) => Status::Failed,
        };
        let saved = match ended {
            Ok(_) => self.save(),
            Err(Halt::Save(error)) => Err(error),
            Err(Halt::Hopeless) => {
                self.outcome.warnings.push(hope::end(&self.outcome));
                self.save()
            }
            Err(Halt::Trial(error @ Error::Stopped { .. })) => {
                self.outcome.warnings.push(far_end::lost(&error));
                self.save()
            }
            Err(Halt::Trial(error)) => {
                self.outcome.warnings.push(notice::trial_failed(&error));
                self.save()
            }
        };
        if let Err(error) = saved {
            self.outcome.status = Status::Failed;
            self.outcome.warnings.push(notice::save_failed(&error));
        }
        self.context.observer.on(RaceEvent::Ended { outcome: &self.outcome });
        Ok(self.outcome)
    }

    /// Runs blocks until the race ends.
    fn blocks(&mut self) -> Result<Status, Halt> {
        loop {
            if self.context.stopped() {
                return Ok(Status::Interrupted);
            }
            if self.blocks_left() == 0 {
                return Ok(self.ended());
            }
            if self.out_of_time() {
                return Ok(self.last_look());
            }
            self.hold();
            // A race without a block has nothing to show.
            if self.context.stopped() || (self.context.steering.is_last() && self.done > 0) {
                return Ok(Status::Interrupted);
            }
            match self.pace.wait(&mut self.context).and_then(|()| self.block()) {
                Ok(()) => {}
                Err(Error::Interrupted) => return Ok(Status::Interrupted),
                Err(error) => return Err(Halt::Trial(error)),
            }
            if !self.has_hope() {
                return Err(Halt::Hopeless);
            }
            if let Some(label) = self.left_alone() {
                self.outcome.warnings.push(far_end::alone(&label));
                return Ok(Status::Budget);
            }
            let may_end = !self.pace.is_given() && self.done >= self.least_blocks.unwrap_or(0);
            let is_enough = if self.outcome.asked.first {
                verdicts::all_decided(&self.outcome)
            } else {
                verdicts::all_settled(&self.outcome)
            };
            if may_end && is_enough {
                return Ok(Status::Decided);
            }
            self.save_block().map_err(Halt::Save)?;
        }
    }

    /// Returns true if the race can succeed: after the first blocks, enough contenders have trials that count.
    fn has_hope(&self) -> bool {
        self.done < hope::FIRST_BLOCKS || self.runs_all() || hope::is_left(&self.outcome)
    }

    /// Returns true if blocks are run that cannot decide anything: a number of them was asked for, or they have start times
    /// and show how things change.
    fn runs_all(&self) -> bool {
        self.pace.is_given() || self.outcome.asked.blocks.is_some()
    }

    /// Returns the label of the contender that is left of several, if the others dropped out and nothing else is to be run.
    fn left_alone(&self) -> Option<String> {
        if self.runs_all() {
            return None;
        }
        let competes = |entrant: &&Entrant| !entrant.floor;
        let mut left = active(&self.outcome.contenders).filter(competes);
        let own = left.next().filter(|_| left.next().is_none())?;
        let mut others = self.outcome.contenders.iter().filter(competes);
        others.any(|other| other.dropped().is_some()).then(|| own.label.clone())
    }

    /// Waits while a person wishes a pause, and records it. Its time counts to no limit.
    fn hold(&mut self) {
        let began = self.context.clock.now();
        let Some(paused) = self.context.hold() else { return };
        self.began += self.context.clock.now() - began;
        let earlier = notice::paused(&self.pauses);
        self.outcome.warnings.retain(|one| *one != earlier);
        self.pauses.add(self.done, paused);
        self.outcome.warnings.push(notice::paused(&self.pauses));
    }

    /// Runs the instrumented pass, if one was asked for and the race ran to its end.
    fn explain(&mut self, status: Status) -> Result<Status> {
        let is_asked = self.outcome.asked.explain && self.outcome.explain.is_none();
        if !is_asked || status == Status::Interrupted {
            return Ok(status);
        }
        // Save all results of the race before anything else runs.
        self.outcome.status = status;
        self.save()?;
        match explain::run(&mut self.context, &self.common, &self.outcome) {
            Ok(explained) => {
                self.outcome.explain = Some(explained);
                causes::race::refresh(&mut self.outcome);
            }
            // The race is complete; only its explanation is missing.
            Err(Error::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(status)
    }

    /// Runs one block, and updates the results that depend on it.
    fn block(&mut self) -> Result<()> {
        let (floors, active): (Vec<&Entrant>, Vec<&Entrant>) =
            active(&self.outcome.contenders).partition(|entrant| entrant.floor);
        let active: Vec<usize> = active.iter().map(|entrant| entrant.id).collect();
        let floors: Vec<BlockSlot> = floors
            .iter()
            .filter(|_| has_floors(self.done))
            .map(|entrant| BlockSlot { contender: entrant.id, role: SlotRole::Contender })
            .collect();
        if active.is_empty() {
            return Err(none_left(&self.outcome.contenders));
        }
        self.common.patience = self.patience();
        let began = self.context.clock.now();
        let block = schedule::block(self.outcome.seed, self.done, &active, &floors);
        let entrants = self.outcome.contenders.clone();
        let broke =
            self.done.checked_sub(1).map(|last| block::broken_in(&self.outcome.trials, last));
        let broke = broke.unwrap_or_default();
        let ran = block::run(&mut self.context, &block, &self.common, &entrants, &broke);
        self.note_absences();
        let ran = ran?;
        if !matches!(self.limit, TimeLimit::Asked(_)) {
            // No end by the clock was asked for, so the wait for the far end costs no block.
            self.began += ran.lost;
        }
        let is_floor = |id: usize| floors.iter().any(|floor| floor.contender == id);
        let floors = ran.trials.iter().filter(|trial| is_floor(trial.contender));
        let counted = floors.filter(|trial| trial.record.lost_ms.is_none());
        let of_floors = Nanos(counted.map(|trial| trial.record.took_ns).sum());
        self.outcome.trials.extend(ran.trials);
        for (contender, dropped) in ran.dropped {
            if let Some(entrant) = self.outcome.contenders.get_mut(contender) {
                entrant.drop_out(dropped);
            }
        }
        quiet::probe(&mut self.context, &mut self.outcome);
        self.spent.add(self.done, self.context.clock.now() - began - ran.lost, of_floors);
        self.done += 1;
        self.replan();
        let decisions = derived::decision_stage(&self.looks, self.done);
        self.looked = matches!(decisions, DecisionStage::Look { .. });
        if self.looked || derived::is_due(self.done, self.fresh) {
            let before = verdicts::decisions(&self.outcome);
            self.refresh(decisions);
            self.looked |= verdicts::decisions(&self.outcome) != before;
        }
        self.warn_of_short_time();
        self.context.observer.on(RaceEvent::BlockDone {
            outcome: &self.outcome,
            blocks: self.done,
            remaining: self.remaining(),
        });
        Ok(())
    }

    /// Adds warnings of absences of the far end, and of what changed there.
    fn note_absences(&mut self) {
        let host = self.context.runner.path().spec;
        let changes = self.context.runner.far_link().map(FarLink::changes).unwrap_or_default();
        for what in changes {
            self.outcome.warnings.push(far_end::changed(&host, &what));
        }
        self.outcome.absences.append(&mut self.context.absences);
        let Some(warning) = absence::warning(&host, &self.outcome.absences) else { return };
        let warnings = &mut self.outcome.warnings;
        warnings.retain(|one| self.away.as_ref() != Some(&one.message));
        self.away = Some(warning.message.clone());
        warnings.push(warning);
    }

    /// Estimates the number of blocks again if that is due; verdicts play no part in it.
    fn replan(&mut self) {
        let is_half_way = self.replan_at == Some(self.done);
        let is_at_the_end = self.is_open && self.blocks_left() == 0;
        if !is_half_way && !is_at_the_end {
            return;
        }
        let Some(scatter) = verdicts::scatter(&self.outcome) else { return };
        let room = self.time_left().map_or(u64::MAX, |left| self.blocks_within(left));
        let Outcome { plan: fixed, asked, .. } = &mut self.outcome;
        if is_half_way || room > 0 && !plan::is_resolved(fixed, asked, scatter, self.done) {
            plan::again(fixed, asked, scatter, self.done, room);
            self.looks = claims::looks(fixed, asked.confidence);
        }
    }

    /// Takes the last look. Time ended the race, and not its results, so the whole remaining error may be spent.
    fn last_look(&mut self) -> Status {
        let done = usize::try_from(self.done).unwrap_or(usize::MAX);
        match self.looks.last(done) {
            alpha if alpha > 0.0 => self.refresh(DecisionStage::Look { alpha, next: None }),
            // A race that continued after its last look is decided after any block, or not at all.
            _ => self.refresh(DecisionStage::Between { next: None }),
        }
        self.ended()
    }

    fn ended(&self) -> Status {
        if verdicts::all_decided(&self.outcome) { Status::Decided } else { Status::Budget }
    }

    fn refresh(&mut self, decisions: DecisionStage) {
        let contenders: Vec<_> = self.contenders.iter().map(RecordedContender::from).collect();
        derived::refresh(&mut self.outcome, &contenders, self.network.as_ref(), decisions);
        self.fresh = self.done;
    }

    /// Updates the derived results if blocks were added since the last update.
    fn update_derived(&mut self) {
        if self.fresh < self.done {
            // There was no look since the last update, or they would be up to date.
            let next = match derived::decision_stage(&self.looks, self.done) {
                DecisionStage::Look { next, .. } | DecisionStage::Between { next } => next,
            };
            self.refresh(DecisionStage::Between { next });
        }
    }

    /// Saves the completed block: in the journal, or with the whole result if that is due. A decision at a look is
    /// final, so the result is then saved whole. A race without a file updates its derived results only at its
    /// looks and at its end.
    fn save_block(&mut self) -> Result<()> {
        let now = self.context.clock.now();
        match &mut self.journal {
            None => Ok(()),
            Some(journal) if !self.looked && !journal.is_full(self.done, now) => {
                journal.append(&self.outcome)?;
                if let Some(file) = &self.context.save {
                    self.context.observer.on(RaceEvent::Saved { file });
                }
                Ok(())
            }
            Some(_) => self.save(),
        }
    }

    fn save(&mut self) -> Result<()> {
        self.update_derived();
        let (Some(file), Some(journal)) = (&self.context.save, &mut self.journal) else {
            return Ok(());
        };
        save::save(&self.outcome, file)?;
        journal.close(&self.outcome, self.context.clock.now())?;
        // Remove the samples of an earlier race whose file this one replaces.
        if self.context.keep.is_none() && self.done == 1 {
            remove(&save::samples_file(file))?;
        }
        self.context.observer.on(RaceEvent::Saved { file });
        Ok(())
    }
}

/// Removes raw samples that belong to no block of this race. Samples of an earlier race with the same file name
/// would be taken for samples of this one.
fn remove(samples: &std::path::Path) -> Result<()> {
    match fs::remove_file(samples) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::setup(format!("remove old samples, {}", samples.display()), error))
        }
        _ => Ok(()),
    }
}

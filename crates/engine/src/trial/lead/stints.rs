//! The loads of a trial under way, which begin and end when their stint says, or with the work.

use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::workload::load::Stint;

use super::both_reports::BothReports;
use super::load::OVER_TOO_SOON;
use super::nodes::Nodes;

/// Loads, connected.
pub(super) struct Stints {
    stint: Option<Stint>,
    /// Time at which the work was told to begin.
    began: Nanos,
    state: State,
}

enum State {
    Waits(Vec<Nodes>),
    Runs(Vec<Nodes>),
    Over(Vec<BothReports>),
}

impl Stints {
    /// Creates loads that run already, or those that are yet to begin their stint.
    pub(super) fn new(loads: Vec<Nodes>, stint: Option<Stint>) -> Stints {
        let state = if stint.is_some() { State::Waits(loads) } else { State::Runs(loads) };
        Stints { stint, began: Nanos::ZERO, state }
    }

    /// Counts stints from `now`, at which the work has been told to begin.
    pub(super) fn count_from(&mut self, now: Nanos) {
        self.began = now;
    }

    /// Starts or ends the loads if that is due at `now`; the time of the next such step.
    ///
    /// What ends is gone, with its connections, before the work is heard again: a kernel or a protocol would go on to
    /// send what it holds, into the phase after the load. The work's words wait as long.
    pub(super) fn on_time(&mut self, now: Nanos) -> Result<Option<Nanos>> {
        let Some(stint) = self.stint else { return Ok(None) };
        let (begin, end) = (self.began + stint.from, self.began + stint.end());
        if let State::Waits(loads) = &mut self.state {
            if now < begin {
                return Ok(Some(begin));
            }
            let mut loads = std::mem::take(loads);
            loads.iter_mut().try_for_each(Nodes::start)?;
            self.state = State::Runs(loads);
        }
        if let State::Runs(loads) = &mut self.state {
            if now < end {
                return Ok(Some(end));
            }
            let loads = std::mem::take(loads);
            let stopped = loads.into_iter().map(|mut load| load.stop());
            self.state = State::Over(stopped.collect::<Result<_>>()?);
        }
        Ok(None)
    }

    /// Ends what runs, whose connections stay as long as this, and returns the reports of all.
    ///
    /// # Errors
    /// Where the work was over before a stint.
    pub(super) fn reports(&mut self) -> Result<Vec<BothReports>> {
        match &mut self.state {
            State::Over(reports) => Ok(std::mem::take(reports)),
            State::Runs(loads) if self.stint.is_none() => {
                loads.iter_mut().map(Nodes::stop).collect()
            }
            State::Waits(_) | State::Runs(_) => Err(Error::peer("trial", OVER_TOO_SOON)),
        }
    }
}

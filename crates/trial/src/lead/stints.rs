//! Loads of a running trial, which begin and end with their stint, or with the work.

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::workload::load::Stint;

use super::both_reports::BothReports;
use super::load::OVER_TOO_SOON;
use super::nodes::Nodes;

/// Connected loads.
pub(super) struct Stints {
    stint: Option<Stint>,
    /// Time at which the work was started.
    began: Nanos,
    state: LoadState,
}

enum LoadState {
    Waits(Vec<Nodes>),
    Runs(Vec<Nodes>),
    Over(Vec<BothReports>),
}

impl Stints {
    /// Creates loads that run already, or that wait for their stint.
    pub(super) fn new(loads: Vec<Nodes>, stint: Option<Stint>) -> Stints {
        let state = if stint.is_some() { LoadState::Waits(loads) } else { LoadState::Runs(loads) };
        Stints { stint, began: Nanos::ZERO, state }
    }

    /// Counts stints from `now`, the time at which the work was started.
    pub(super) fn count_from(&mut self, now: Nanos) {
        self.began = now;
    }

    /// Starts or ends the loads if that is due at `now`; returns the time of the next such step.
    ///
    /// A load that ends is closed with its connections before the next message of the work is read: otherwise a kernel
    /// or a protocol would go on to send its queue, into the phase after the load. Messages of the work wait for as
    /// long.
    pub(super) fn on_time(&mut self, now: Nanos) -> Result<Option<Nanos>> {
        let Some(stint) = self.stint else { return Ok(None) };
        let (begin, end) = (self.began + stint.from, self.began + stint.end());
        if let LoadState::Waits(loads) = &mut self.state {
            if now < begin {
                return Ok(Some(begin));
            }
            let mut loads = std::mem::take(loads);
            loads.iter_mut().try_for_each(Nodes::start)?;
            self.state = LoadState::Runs(loads);
        }
        if let LoadState::Runs(loads) = &mut self.state {
            if now < end {
                return Ok(Some(end));
            }
            let loads = std::mem::take(loads);
            let stopped = loads.into_iter().map(|mut load| load.stop());
            self.state = LoadState::Over(stopped.collect::<Result<_>>()?);
        }
        Ok(None)
    }

    /// Ends the running loads, with connections open until then, and returns the reports of all loads.
    ///
    /// # Errors
    /// Fails if the work was over before a stint began.
    pub(super) fn reports(&mut self) -> Result<Vec<BothReports>> {
        match &mut self.state {
            LoadState::Over(reports) => Ok(std::mem::take(reports)),
            LoadState::Runs(loads) if self.stint.is_none() => {
                loads.iter_mut().map(Nodes::stop).collect()
            }
            LoadState::Waits(_) | LoadState::Runs(_) => Err(Error::peer("trial", OVER_TOO_SOON)),
        }
    }
}

//! Commands that carry an external contender, each behind its keeper.

use super::link::{Link, LinkMessage};
use super::nodes::{SLACK, refusal};
use crate::control::{AgentReport, FromAgent, ToAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Cost;

/// Time for the reason of a command that has ended to arrive.
const REASON: Nanos = Nanos::from_millis(100);

/// Links to keepers, with the sides of their hosts.
pub(super) type CarrierLinks = Vec<(Side, Link)>;

/// Commands that carry the contender of a group.
#[derive(Default)]
pub(super) struct Carriers(pub(super) CarrierLinks);

impl Carriers {
    /// Starts to count their CPU time.
    ///
    /// # Errors
    /// Fails with the reason if one of them has ended.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(|(_, link)| {
            let sent = link.send(&ToAgent::Start);
            sent.map_err(|error| fault(link).unwrap_or(error))
        })
    }

    /// Ends them; returns their CPU time by side.
    ///
    /// # Errors
    /// Fails if one of them ended before, with the reason.
    pub(super) fn end(&mut self) -> Result<[Cost; 2]> {
        let mut costs: [Cost; 2] = Default::default();
        for (side, mut link) in self.0.drain(..) {
            // A keeper that is gone has sent its reason.
            let _ = link.send(&ToAgent::Stop);
            let report = last(&mut link, SLACK)?;
            let Cost { cpu_ns, user_ns, system_ns, .. } = report.cost;
            let spent = Cost { cpu_ns, user_ns, system_ns, ..Cost::default() };
            let cost = &mut costs[usize::from(side == Side::Far)];
            *cost = cost.plus(&spent);
        }
        Ok(costs)
    }

    /// Returns the error of a command that has ended by itself, if one has, in place of an error that follows from it.
    pub(super) fn blame(&mut self, error: Error) -> Error {
        match error {
            Error::Interrupted => error,
            error => self.0.iter_mut().find_map(|(_, link)| fault(link)).unwrap_or(error),
        }
    }
}

fn fault(link: &mut Link) -> Option<Error> {
    match link.has_message(REASON) {
        Ok(true) => last(link, REASON).err(),
        _ => None,
    }
}

/// Returns the report in the last message of a keeper, and its fault as an error.
fn last(link: &mut Link, patience: Nanos) -> Result<AgentReport> {
    while link.has_message(patience)? {
        match link.receive()? {
            LinkMessage::Agent(FromAgent::Connected | FromAgent::Finished { .. }) => {}
            LinkMessage::Agent(FromAgent::Done(report)) => return Ok(*report),
            word => return Err(refusal(link, word)),
        }
    }
    Err(link.broken("its keeper does not answer"))
}

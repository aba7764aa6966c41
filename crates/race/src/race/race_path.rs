//! Path of a race: the path to the far end as a value, parsed once, with its consequences.

use super::request::Request;
use deadheat_base::error::Result;
use deadheat_contract::workload::{Ends, Setting};
use deadheat_datapath::transport::{Place, commands};
use deadheat_path::{Network, PathKind, PathSpec};
use deadheat_trial::path::model_time;
use deadheat_trial::sim::Simulation;

/// Path of a race as a value, with its consequences for the race.
pub(super) struct RacePath {
    /// Setting that decides the workload's defaults.
    pub(super) setting: Setting,
    /// Simulation that runs the trials, if the path is simulated.
    pub(super) simulation: Option<Simulation>,
    /// Network between the ends, if it is emulated or simulated.
    pub(super) network: Option<Network>,
}

impl Request {
    /// Returns the kind of the path to the far end.
    pub(super) fn path_kind(&self) -> PathKind {
        match self.asked.to {
            Some(_) => PathKind::Remote,
            None => PathKind::of_typed(&self.asked.path),
        }
    }

    /// Parses the path to the far end.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] if it cannot be parsed, or simulated.
    pub(super) fn race_path(&self) -> Result<RacePath> {
        if self.asked.to.is_some() {
            let (answers, ends) = (self.answers()?, self.ends());
            let setting = Setting { answers, ends, rtt: self.round_trip, ..Setting::REMOTE };
            return Ok(RacePath { setting, simulation: None, network: None });
        }
        let path = self.parsed_path()?;
        let setting = Setting { ends: self.ends(), ..model_time::setting(&path) };
        let simulation = match &path {
            PathSpec::Simulated(network) => Some(self.simulated(network.clone())?),
            PathSpec::Loopback | PathSpec::Emulated(_) => None,
        };
        let network = match path {
            PathSpec::Emulated(network) | PathSpec::Simulated(network) => Some(network),
            PathSpec::Loopback => None,
        };
        Ok(RacePath { setting, simulation, network })
    }

    /// Returns the kind of ends that the contenders have.
    fn ends(&self) -> Ends {
        let is_program = self.asked.contenders.iter().any(|typed| commands::is_one(typed));
        if is_program { Ends::Programs } else { Ends::Connected }
    }

    /// Returns the place of the two ends, which decides the settings that affect a contender.
    pub(super) fn place(&self) -> Place {
        match self.path_kind() {
            PathKind::Remote => Place::Remote,
            PathKind::Loopback => Place::Loopback,
            PathKind::Emulated | PathKind::Simulated | PathKind::Imported => Place::Emulated,
        }
    }

    /// Returns the far end's place in words, or `None` if it is this host.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match &self.asked.to {
            Some(hosts) => Some(hosts.to_string()),
            None if self.path_kind() == PathKind::Loopback => None,
            None => Some("the far host of an emulated path".into()),
        }
    }
}

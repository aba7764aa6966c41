//! Runners of a race's trials: agents on this machine or at a server, or a simulation.

use super::request::Request;
use crate::error::{Error, Result};
use crate::path::{Family, Network, PathSpec};
use crate::trial::EmulatedPath;
use crate::trial::control::remote::{Credentials, RemoteServer, ServerWait};
use crate::trial::lead::agents::Far;
use crate::trial::sim::Simulation;

impl Request {
    /// Returns the simulation that runs the race's trials in virtual time, if its path is simulated.
    ///
    /// Use its clock as the context's clock ([`crate::race::RaceContext::at`]): a budget then counts virtual time,
    /// and the race does not depend on the speed of the machine.
    ///
    /// # Errors
    /// [`Error::Usage`] if the path cannot be simulated.
    pub fn simulation(&self) -> Result<Option<Simulation>> {
        match self.is_simulated() {
            true => Ok(self.race_path()?.simulation),
            false => Ok(None),
        }
    }

    pub(super) fn simulated(&self, network: Network) -> Result<Simulation> {
        Simulation::new(&self.path, network, self.ip())
    }

    fn ip(&self) -> Family {
        match self.family {
            Some(4) => Family::V4,
            Some(6) => Family::V6,
            _ => Family::Any,
        }
    }

    /// Opens the far end of the request: connects to the server, or builds the emulated path. Waits for a server
    /// that is full.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses the connection; if this host cannot emulate the path; if the path
    /// is simulated, and has no far end.
    pub fn far(&self, credentials: &Credentials, waiting: &mut ServerWait<'_>) -> Result<Far> {
        let asked = self.asked();
        let family = self.ip();
        let Some(host) = asked.to else {
            return match self.parsed_path()? {
                PathSpec::Emulated(network) => {
                    let path = EmulatedPath::start(&asked.path, network, family)?;
                    Ok(Far::Emulated(Box::new(path)))
                }
                PathSpec::Loopback => Ok(Far::Loopback(family)),
                PathSpec::Simulated(_) => Err(Error::usage(
                    "a simulated path has no far end; `Request::simulation` runs its trials",
                )),
            };
        };
        let server = Box::new(RemoteServer::connect(&host, family, credentials, waiting)?);
        Ok(Far::Server { host, server })
    }
}

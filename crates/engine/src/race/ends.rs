//! Runners of the trials that a race asks for: agents here or at a server, or a simulation.

use super::request::Request;
use crate::error::{Error, Result};
use crate::path::{Family, Network, Path};
use crate::trial::EmulatedPath;
use crate::trial::agents::Far;
use crate::trial::remote::{Credentials, RemoteServer, Waiting};
use crate::trial::sim::Simulation;

impl Request {
    /// Returns the simulation that runs the race's trials in virtual time, if its path is simulated.
    ///
    /// Its clock is to be the stage's ([`crate::race::RaceContext::at`]): a budget then counts virtual time, and nothing of
    /// the race depends on the machine that runs it.
    ///
    /// # Errors
    /// [`Error::Usage`] where the path cannot be simulated.
    pub fn simulation(&self) -> Result<Option<Simulation>> {
        match self.is_simulated() {
            true => Ok(self.ground()?.simulation),
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

    /// Opens the far end that the request names: connects to it if it is a server, builds it if the path
    /// to it is emulated. Waits for a server without room.
    ///
    /// # Errors
    /// If the server cannot be reached or does not let us in; if this host cannot emulate the path; if
    /// the path is simulated, and has no far end.
    pub fn far(&self, credentials: &Credentials, waiting: &mut Waiting<'_>) -> Result<Far> {
        let asked = self.asked();
        let family = self.ip();
        let Some(host) = asked.to else {
            return match self.parsed_path()? {
                Path::Emulated(network) => {
                    let path = EmulatedPath::start(&asked.path, network, family)?;
                    Ok(Far::Emulated(Box::new(path)))
                }
                Path::Loopback => Ok(Far::Loopback(family)),
                Path::Simulated(_) => Err(Error::usage(
                    "a simulated path has no far end; `Request::simulation` runs its trials",
                )),
            };
        };
        let server = Box::new(RemoteServer::connect(&host, family, credentials, waiting)?);
        Ok(Far::Server { host, server })
    }
}

//! Runners of a race's trials: agents on this machine or at a server, or a simulation.

use std::net::SocketAddr;

use super::request::Request;
use crate::datapath::origin::Origin;
use crate::error::{Error, Result};
use crate::path::{Family, Network, PathSpec};
use crate::trial::EmulatedPath;
use crate::trial::control::MOST_FAR_ENDS;
use crate::trial::control::reach::Route;
use crate::trial::control::remote::{Credentials, RemoteServer, ServerWait};
use crate::trial::lead::far::{Far, FarHost};
use crate::trial::sim::Simulation;
use crate::workload::Task;

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

    /// Binds control and all data sockets of the near end to an address of this host: `192.0.2.7`, `fe80::1%eth0`.
    pub fn source(mut self, address: impl Into<String>) -> Request {
        self.source = Some(address.into());
        self
    }

    /// Binds control and all data sockets of the near end to an interface of this host: `eth0`.
    pub fn device(mut self, interface: impl Into<String>) -> Request {
        self.device = Some(interface.into());
        self
    }

    /// Checks the source address and the interface, which only a race to another host has.
    pub(super) fn check_origin(&self) -> Result<()> {
        let given = [("--source", &self.source), ("--device", &self.device)];
        let given = given.into_iter().find_map(|(name, value)| Some((name, value.as_ref()?)));
        match given {
            Some((name, value)) if self.to.is_none() => Err(Error::usage(format!(
                "{name} {value}: both ends are on this machine, which chooses their addresses; race another host with --to, \
                 or leave {name} out"
            ))),
            _ => self.route().map(drop),
        }
    }

    /// Returns the limits of the way to the far host.
    ///
    /// # Errors
    /// [`Error::Usage`] where the source address or the interface cannot be read.
    pub(super) fn route(&self) -> Result<Route> {
        let origin = Origin::parse(self.source.as_deref(), self.device.as_deref())?;
        let source = origin.source.map(|source| SocketAddr::new(source.ip(), 0));
        match source.filter(|source| !self.ip().has(source)) {
            Some(source) => Err(Error::usage(format!(
                "--source {} and -{} exclude each other; leave one of them out",
                source.ip(),
                self.family.unwrap_or_default()
            ))),
            None => Ok(Route { family: self.ip(), origin }),
        }
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
        let Some(hosts) = asked.to else {
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
        let route = self.route()?;
        let mut servers: Vec<FarHost> = Vec::new();
        for host in hosts.names() {
            let server = RemoteServer::connect(host, &route, credentials, waiting)?;
            if let Some(same) = servers.iter().find(|one| one.server.address == server.address) {
                return Err(Error::usage(format!(
                    "--to: {} and {host} are one server, {}; each further --to is another host",
                    same.host, server.address
                )));
            }
            servers.push(FarHost { host: host.clone(), server: Box::new(server) });
        }
        let FarHost { host, server } = servers.remove(0);
        Ok(Far::Server { host, server, further: servers })
    }

    /// Checks that every far host has a far end of the work.
    pub(super) fn check_hosts(&self, task: &dyn Task) -> Result<()> {
        let hosts = self.to.as_ref().map_or(1, |hosts| hosts.names().len());
        let ends = task.info().receivers;
        let most = usize::from(ends).div_ceil(hosts) + usize::from(task.info().load.is_some());
        if self.to.is_some() && most > usize::from(MOST_FAR_ENDS) {
            return Err(Error::usage(format!(
                "`{}` has {ends} far ends, and a server runs {MOST_FAR_ENDS} in a trial, a load among them; ask for fewer, or \
                 deal them over more hosts, --to A --to B",
                task.info().spec.name
            )));
        }
        if hosts <= usize::from(ends) {
            return Ok(());
        }
        let s = if ends == 1 { "" } else { "s" };
        Err(Error::usage(format!(
            "`{}` has {ends} far end{s}, and --to names {hosts} hosts; name fewer, or race work with more far ends, \
             such as fanout:receivers={hosts}",
            task.info().spec.name
        )))
    }
}

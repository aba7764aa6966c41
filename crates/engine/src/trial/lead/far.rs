//! Far end of a race: where its agents run, and whether it is still there.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use crate::contract::Reach;
use crate::datapath::origin::Origin;
use crate::error::{Error, Result};
use crate::foreign::visible;
use crate::host::placement::Ends;
use crate::path::{Family, PathKind};
use crate::time::Nanos;
use crate::transport::far_end::FarEnd;
use crate::transport::{Address, Contender, unserved};
use crate::trial::control::remote::{Redial, RemoteServer};
use crate::trial::{EmulatedPath, PathFacts, Reconnection, TrialOutcome};

/// Location of the far end.
#[derive(Debug)]
pub enum Far {
    /// Far end in another process on this machine.
    Loopback(Family),
    /// Far end on a host behind a path that this program emulates on this machine.
    Emulated(Box<EmulatedPath>),
    /// Far end on a host behind a server.
    Server {
        /// Name of the host as typed after `--to`.
        host: String,
        /// Control connection to the server.
        server: Box<RemoteServer>,
        /// Further far hosts: the far nodes of a trial are dealt over all of them in order.
        further: Vec<FarHost>,
    },
    /// Far end of others, without an agent of ours.
    Others {
        /// Far end and host as typed after `--to`.
        typed: String,
        /// Far end.
        end: &'static dyn FarEnd,
        /// Its address.
        address: SocketAddr,
        /// Local address and interface that connections to it leave from.
        origin: Origin,
    },
}

/// Far host with its server.
#[derive(Debug)]
pub struct FarHost {
    /// Name of the host as typed after `--to`.
    pub host: String,
    /// Control connection to the server.
    pub server: Box<RemoteServer>,
}

impl Far {
    /// Returns the time that a trial may take beyond the work and the usual slack before it counts as hung.
    pub(super) fn extra_time(&self) -> Nanos {
        match self {
            Far::Emulated(path) => path.extra_time(),
            Far::Loopback(_) | Far::Server { .. } | Far::Others { .. } => Nanos::ZERO,
        }
    }

    /// Returns the servers of another version that still speak our protocol, in words; `None` if there are none.
    pub fn other_version(&self) -> Option<String> {
        let here = env!("CARGO_PKG_VERSION");
        let others: Vec<String> = self
            .hosts()
            .into_iter()
            .filter(|(_, server)| server.facts.deadheat != here)
            .map(|(host, server)| {
                format!("{} runs deadheat {}", visible(host), visible(&server.facts.deadheat))
            })
            .collect();
        let is_any = !others.is_empty();
        is_any.then(|| format!("{}, and this is deadheat {here}", others.join(", ")))
    }

    /// Returns the emulated path to it, if it is behind one.
    pub(super) fn emulated(&self) -> Option<&EmulatedPath> {
        match self {
            Far::Emulated(path) => Some(path),
            Far::Loopback(_) | Far::Server { .. } | Far::Others { .. } => None,
        }
    }

    /// Returns the places of the two ends of a trial.
    pub(super) fn ends(&self) -> Ends {
        match self {
            Far::Loopback(_) => Ends::OneMachine,
            Far::Emulated(_) => Ends::ThroughEmulator,
            Far::Server { .. } | Far::Others { .. } => Ends::TwoMachines,
        }
    }

    /// Returns true if no trial can be opened there any more; to be asked while none is open.
    pub(super) fn is_gone(&self) -> bool {
        self.servers().into_iter().any(RemoteServer::is_gone)
    }

    /// Returns true if the connection to it was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.servers().into_iter().any(RemoteServer::is_lost)
    }

    /// Tries once to connect again to the servers to which no connection is left; also returns what changed there, in
    /// words.
    ///
    /// # Errors
    /// Fails if a server answers and no race can go on with it; [`Error::Interrupted`] on Ctrl-C.
    pub(super) fn reconnect(&mut self, stop: &AtomicBool) -> Result<(Reconnection, Vec<String>)> {
        let mut changes = Vec::new();
        for server in self.servers_mut().into_iter().filter(|server| server.is_gone()) {
            match server.again(stop)? {
                Redial::Back(new) => {
                    changes.extend(new.changes_since(server));
                    *server = new;
                }
                Redial::Away(why) => return Ok((Reconnection::Away(why), changes)),
            }
        }
        Ok((Reconnection::Back, changes))
    }

    /// Returns the far end of others, if it is one.
    pub(super) fn others(&self) -> Option<&'static dyn FarEnd> {
        match self {
            Far::Others { end, .. } => Some(*end),
            Far::Loopback(_) | Far::Emulated(_) | Far::Server { .. } => None,
        }
    }

    /// Returns the outcome of a trial that ended with `error`: if the connection to a server was lost, no contender is
    /// to blame.
    pub(super) fn outcome_of(&self, error: Error) -> TrialOutcome {
        match error {
            Error::Interrupted => Error::Interrupted.into(),
            error if self.is_lost() || matches!(error, Error::Stopped { .. }) => {
                TrialOutcome::Lost(error.to_string())
            }
            error => error.into(),
        }
    }

    /// Returns the endpoint where the far end listens, or where the kernel answers.
    pub(super) fn endpoint(&self, contender: &Contender) -> Result<Address> {
        match (contender.transport.info().reach, self) {
            (Reach::Machine, Far::Loopback(_)) => Ok(Address::Unix(String::new())),
            (Reach::Network | Reach::OwnPort | Reach::Path, Far::Loopback(family)) => {
                Ok(Address::Ip(SocketAddr::new(family.loopback(), 0)))
            }
            (Reach::Network | Reach::OwnPort | Reach::Path, Far::Emulated(path)) => {
                Ok(Address::Ip(SocketAddr::new(path.far_address()?, 0)))
            }
            (Reach::Network | Reach::OwnPort, Far::Server { server, .. }) => {
                Ok(Address::Ip(server.address))
            }
            (Reach::Network | Reach::OwnPort, Far::Others { address, .. }) => {
                Ok(Address::Ip(*address))
            }
            (Reach::Path, Far::Server { .. } | Far::Others { .. }) => {
                Err(Error::usage(unserved(contender.transport.info().id)))
            }
            (Reach::Machine | Reach::Process, _) => Err(Error::usage(format!(
                "{} reaches one host only; leave it out of a race to another, emulated or real",
                contender.spec
            ))),
        }
    }

    /// Returns the facts about the path to it.
    pub(super) fn facts(&self) -> PathFacts {
        match self {
            Far::Loopback(family) => PathFacts {
                spec: "loopback".into(),
                kind: PathKind::Loopback,
                address: family.loopback().to_string(),
                built: None,
                reached: None,
                far_end: None,
            },
            Far::Emulated(path) => path.facts(),
            Far::Others { typed, end, address, .. } => PathFacts {
                spec: typed.clone(),
                kind: PathKind::Remote,
                address: address.to_string(),
                built: None,
                reached: None,
                far_end: Some(Box::new(end.info().into())),
            },
            Far::Server { host, server, further } => {
                let hosts = [host].into_iter().chain(further.iter().map(|one| &one.host));
                PathFacts {
                    spec: hosts.cloned().collect::<Vec<_>>().join(", "),
                    kind: PathKind::Remote,
                    address: self.of_servers(|server| server.address.to_string()),
                    built: None,
                    reached: Some(Box::new(server.reached())),
                    far_end: None,
                }
            }
        }
    }

    /// Returns the servers, in the order of their hosts; none without a server.
    pub(super) fn servers(&self) -> Vec<&RemoteServer> {
        self.hosts().into_iter().map(|(_, server)| server).collect()
    }

    /// Returns the names of the hosts as typed, with their servers; none without a server.
    pub(super) fn hosts(&self) -> Vec<(&str, &RemoteServer)> {
        match self {
            Far::Server { host, server, further } => {
                let further = further.iter().map(|one| (one.host.as_str(), &*one.server));
                [(host.as_str(), &**server)].into_iter().chain(further).collect()
            }
            Far::Loopback(_) | Far::Emulated(_) | Far::Others { .. } => Vec::new(),
        }
    }

    fn servers_mut(&mut self) -> Vec<&mut Box<RemoteServer>> {
        match self {
            Far::Server { server, further, .. } => {
                [server].into_iter().chain(further.iter_mut().map(|one| &mut one.server)).collect()
            }
            Far::Loopback(_) | Far::Emulated(_) | Far::Others { .. } => Vec::new(),
        }
    }

    /// Returns the server of a far node; `None` without a server.
    pub(super) fn server_of(&mut self, node: u16) -> Option<&mut RemoteServer> {
        let Far::Server { server, further, .. } = self else { return None };
        match usize::from(node) % (1 + further.len()) {
            0 => Some(server),
            at => further.get_mut(at - 1).map(|one| &mut *one.server),
        }
    }

    /// Returns the numbers of far nodes in the order in which they are opened: by their servers' addresses, so that two
    /// races to the same servers never wait for each other's turn.
    pub(super) fn in_order(&mut self, far_nodes: u16) -> Vec<u16> {
        let mut order: Vec<u16> = (0..far_nodes).collect();
        order.sort_by_key(|node| (self.server_of(*node).map(|server| server.address), *node));
        order
    }

    /// Returns what one of the servers is called, of all of them.
    pub(super) fn of_servers(&self, of: impl Fn(&RemoteServer) -> String) -> String {
        self.servers().into_iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

//! Far end of a race: where its agents run, and whether it is still there.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use crate::control::remote::{Redial, RemoteServer, ServerWait};
use crate::{EmulatedPath, Reconnection, TrialOutcome};
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::visible;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Reach;
use deadheat_datapath::datapath::origin::Origin;
use deadheat_datapath::transport::far_end::FarEnd;
use deadheat_datapath::transport::{Address, Contender, several, unserved};
use deadheat_host::placement::Ends;
use deadheat_path::{Family, PathKind};
use deadheat_records::trial::PathFacts;

/// Location of the far end.
#[derive(Debug)]
pub enum Far {
    /// Far end in another process on this machine.
    Loopback(Family),
    /// Far end on a host behind a path that this program emulates on this machine.
    Emulated(Box<EmulatedPath>),
    /// Far ends on other hosts.
    Servers(FarServers),
    /// Far end of others, without an agent of ours.
    Others {
        /// Far end and host as typed after `--to`.
        typed: String,
        /// Far end.
        end: &'static FarEnd,
        /// Its address.
        address: SocketAddr,
        /// Local address and interface that connections to it leave from.
        origin: Origin,
        /// Public key that it has to prove, if one was given.
        pin: Option<String>,
    },
}

/// Hosts with a server each.
#[derive(Debug)]
pub struct FarServers {
    /// Hosts of the far ends, one or more: the far nodes of a trial are dealt over them in order.
    pub hosts: Vec<FarHost>,
    /// Hosts of relays, as contenders ask for them.
    relays: Vec<FarHost>,
}

impl FarServers {
    /// Creates the servers of far ends, without any relay.
    pub fn new(hosts: Vec<FarHost>) -> FarServers {
        FarServers { hosts, relays: Vec::new() }
    }

    fn all(&self) -> impl Iterator<Item = &FarHost> {
        self.hosts.iter().chain(&self.relays)
    }

    /// Connects to the server at the host of a relay, unless that has been done.
    fn meet_relay(&mut self, host: &str, waiting: &mut ServerWait<'_>) -> Result<()> {
        let (None, Some(first)) = (self.relay(host), self.hosts.first()) else { return Ok(()) };
        let server = Box::new(first.server.beside(host, waiting)?);
        if let Some(same) = self.hosts.iter().find(|far| far.server.address == server.address) {
            return Err(Error::usage(format!(
                "via=relay@{host}: {host} and --to {} are one server, {}; via=relay is a relay beside the far end",
                same.host, server.address
            )));
        }
        self.relays.push(FarHost { host: host.to_owned(), server });
        Ok(())
    }

    fn relay(&self, host: &str) -> Option<&FarHost> {
        self.relays.iter().find(|relay| relay.host == host)
    }
}

/// Host with its server.
#[derive(Debug)]
pub struct FarHost {
    /// Name of the host as typed after `--to`, or in `via=relay@`.
    pub host: String,
    /// Control connection to the server.
    pub server: Box<RemoteServer>,
}

impl Far {
    /// Returns the time that a trial may take beyond the work and the usual slack before it counts as hung.
    pub(super) fn extra_time(&self) -> Nanos {
        match self {
            Far::Emulated(path) => path.extra_time(),
            Far::Loopback(_) | Far::Servers(_) | Far::Others { .. } => Nanos::ZERO,
        }
    }

    /// Returns the servers of another version that still speak our protocol, in words; `None` if there are none.
    pub fn other_version(&self) -> Option<String> {
        let here = env!("CARGO_PKG_VERSION");
        let others: Vec<String> = self
            .hosts()
            .iter()
            .filter(|far| far.server.facts.deadheat != here)
            .map(|FarHost { host, server }| {
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
            Far::Loopback(_) | Far::Servers(_) | Far::Others { .. } => None,
        }
    }

    /// Returns the places of the two ends of a trial.
    pub(super) fn ends(&self) -> Ends {
        match self {
            Far::Loopback(_) => Ends::OneMachine,
            Far::Emulated(_) => Ends::ThroughEmulator,
            Far::Servers(_) | Far::Others { .. } => Ends::TwoMachines,
        }
    }

    /// Returns true if no trial can be opened there any more; to be asked while none is open.
    pub(super) fn is_gone(&self) -> bool {
        self.all_servers().any(RemoteServer::is_gone)
    }

    /// Returns true if the connection to it was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.all_servers().any(RemoteServer::is_lost)
    }

    /// Waits a moment for the servers to which no connection is left, one after the other. Returns the time since the
    /// packet that the last one answered, or else the evidence that one is still away.
    pub(super) fn knock(&self) -> std::result::Result<Nanos, String> {
        let gone = self.all_servers().filter(|server| server.is_gone());
        gone.map(RemoteServer::knock).try_fold(Nanos::ZERO, |_, knocked| knocked)
    }

    /// Tries once to connect again to the servers to which no connection is left; also returns what changed there, in
    /// words.
    ///
    /// # Errors
    /// Fails if a server answers and no race can go on with it; [`Error::Interrupted`] on Ctrl-C.
    pub(super) fn reconnect(&mut self, stop: &AtomicBool) -> Result<(Reconnection, Vec<String>)> {
        let mut changes = Vec::new();
        let Far::Servers(servers) = self else { return Ok((Reconnection::Back, changes)) };
        let all = servers.hosts.iter_mut().chain(&mut servers.relays);
        for far in all.filter(|far| far.server.is_gone()) {
            match far.server.again(stop)? {
                Redial::Back(new) => {
                    changes.extend(new.changes_since(&far.server));
                    far.server = new;
                }
                Redial::Away(why) => return Ok((Reconnection::Away(why), changes)),
            }
        }
        Ok((Reconnection::Back, changes))
    }

    /// Returns the far end of others, if it is one.
    pub(super) fn others(&self) -> Option<&'static FarEnd> {
        match self {
            Far::Others { end, .. } => Some(*end),
            Far::Loopback(_) | Far::Emulated(_) | Far::Servers(_) => None,
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

    /// Returns the endpoint where the far end listens, or where the kernel answers; `host` is that of the far end in an
    /// emulated network.
    pub(super) fn endpoint(&self, contender: &Contender, host: usize) -> Result<Address> {
        match (contender.transport.info().reach, self) {
            (Reach::Machine, Far::Loopback(_)) => Ok(Address::Unix(String::new())),
            (Reach::Network | Reach::OwnPort | Reach::Path, Far::Loopback(family)) => {
                Ok(Address::Ip(SocketAddr::new(family.loopback(), 0)))
            }
            (Reach::Network | Reach::OwnPort | Reach::Path, Far::Emulated(path)) => {
                Ok(Address::Ip(SocketAddr::new(path.address(host)?, 0)))
            }
            (Reach::Network | Reach::OwnPort, Far::Servers(_)) => match self.first_server() {
                Some(server) => Ok(Address::Ip(server.address)),
                None => Err(Error::usage("a far end without a server")),
            },
            (Reach::Network | Reach::OwnPort, Far::Others { address, .. }) => {
                Ok(Address::Ip(*address))
            }
            (Reach::Path, Far::Servers(_) | Far::Others { .. }) => {
                Err(Error::usage(unserved(contender.transport.info().id)))
            }
            (Reach::Machine | Reach::Process, _) => Err(Error::usage(format!(
                "{} reaches one host only; leave it out of a race to another, emulated or real",
                contender.spec
            ))),
        }
    }

    /// Returns the endpoint that a host of an emulated network dials to reach one where another host listens.
    pub(super) fn dialled(&self, from: usize, at: Address) -> Address {
        match (self, at) {
            (Far::Emulated(path), Address::Ip(at)) => Address::Ip(path.dialled(from, at)),
            (_, at) => at,
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
                far_end: Some(Box::new((&end.info).into())),
            },
            Far::Servers(FarServers { hosts, .. }) => PathFacts {
                spec: of_each(hosts, |far| far.host.clone()),
                kind: PathKind::Remote,
                address: of_each(hosts, |far| far.server.address.to_string()),
                built: None,
                reached: hosts.first().map(|far| Box::new(far.server.reached())),
                far_end: None,
            },
        }
    }

    /// Returns the servers of far hosts, in their order; none without a server.
    pub(super) fn servers(&self) -> Vec<&RemoteServer> {
        self.hosts().iter().map(|far| &*far.server).collect()
    }

    /// Returns the far hosts with a server, in the order in which they were typed; none without a server.
    pub(crate) fn hosts(&self) -> &[FarHost] {
        match self {
            Far::Servers(servers) => &servers.hosts,
            Far::Loopback(_) | Far::Emulated(_) | Far::Others { .. } => &[],
        }
    }

    /// Returns the servers of far ends, and then of relays.
    fn all_servers(&self) -> impl Iterator<Item = &RemoteServer> {
        let all = match self {
            Far::Servers(servers) => Some(servers.all()),
            Far::Loopback(_) | Far::Emulated(_) | Far::Others { .. } => None,
        };
        all.into_iter().flatten().map(|far| &*far.server)
    }

    /// Connects to the server at the host of a relay, unless that has been done.
    ///
    /// # Errors
    /// As of [`RemoteServer::connect`]; [`Error::Usage`] if it is a far end's.
    pub(super) fn meet_relay(&mut self, host: &str, waiting: &mut ServerWait<'_>) -> Result<()> {
        match self {
            Far::Servers(servers) => servers.meet_relay(host, waiting),
            Far::Loopback(_) | Far::Emulated(_) | Far::Others { .. } => Ok(()),
        }
    }

    /// Returns the server at the host of a relay.
    pub(crate) fn relay(&self, host: &str) -> Option<&RemoteServer> {
        let Far::Servers(servers) = self else { return None };
        servers.relay(host).map(|relay| &*relay.server)
    }

    /// Returns the server at the host of a relay, to open connections.
    pub(super) fn relay_mut(&mut self, host: &str) -> Option<&mut RemoteServer> {
        let Far::Servers(servers) = self else { return None };
        let found = servers.relays.iter_mut().find(|relay| relay.host == host);
        found.map(|relay| &mut *relay.server)
    }

    /// Returns the server of the first far host; `None` without a server.
    pub(crate) fn first_server(&self) -> Option<&RemoteServer> {
        self.hosts().first().map(|far| &*far.server)
    }

    /// Returns the server of the far host with this position; `None` without a server.
    pub(super) fn server_at(&mut self, host: usize) -> Option<&mut RemoteServer> {
        let Far::Servers(FarServers { hosts, .. }) = self else { return None };
        hosts.get_mut(host).map(|far| &mut *far.server)
    }

    /// Returns the positions of the hosts of a contender's parts, by far node; none where they are dealt in order.
    ///
    /// # Errors
    /// [`Error::Usage`] if a part is at a host that is not among the far ones.
    pub(super) fn places(&self, contender: &Contender) -> Result<Vec<usize>> {
        let parts = several::hosts(contender.transport.parts());
        if parts.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let of = |host: &Option<&str>| {
            let Some(name) = *host else { return Ok(0) };
            let found = self.hosts().iter().position(|far| far.host == name);
            let names: Vec<&str> = self.hosts().iter().map(|far| far.host.as_str()).collect();
            found.ok_or_else(|| several::no_such_host(&contender.spec.to_string(), name, &names))
        };
        parts.iter().map(of).collect()
    }
}

/// Returns what each host is called, in one text.
fn of_each(hosts: &[FarHost], of: impl Fn(&FarHost) -> String) -> String {
    hosts.iter().map(of).collect::<Vec<_>>().join(", ")
}

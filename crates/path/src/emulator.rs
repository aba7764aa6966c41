//! Process that emulates a network: it builds the hosts and moves the packets between them. Everything disappears
//! when it ends, for whatever reason, since only descriptors of its parent refer to its devices and namespaces.
//!
//! It is this program again, in which a constructor takes control before `main`; control messages are framed JSON.
//!
//! ```text
//! parent                                    emulator
//!  | Build ---------------------------------->| namespaces, devices, threads
//!  |<------------------- Built, and the namespaces' descriptors
//!  | Observe -------------------------------->|
//!  |<----------------------------------- Begun
//!  | Begin ---------------------------------->| empty channels, counters at zero
//!  |<----------------------------------- Begun
//!  | End ------------------------------------>|
//!  |<----------------------------- Figures(…)
//! ```
//! `Fault` is an answer to each of them. The end of control ends the process.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadheat_base::process::Helper;
use deadheat_base::{descriptor, frame};
use serde::{Deserialize, Serialize};

use crate::Family;
use crate::emulated::entry::{Entry, Namespaces};
use crate::emulated::lag::SenderCpus;
use crate::emulated::namespace;
use crate::gate::IdlePing;
use crate::measurements::{Captured, PathFigures};
use crate::network::{self, Backend, Grouping};
use crate::observe::Observation;
use deadheat_base::ends::Side;
use deadheat_base::error::{Error, Fault, FaultKind, Result, unknown};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

mod before_main;
mod child;
mod host;

pub use host::Host;

/// Longest wait for an answer; the emulator makes a thousand devices in less.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// Request to the emulator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToEmulator {
    /// Request to build a network.
    Build {
        /// Path as typed.
        path: String,
        /// CPUs of the hosts' programs.
        senders: SenderCpus,
    },
    /// Request to observe packets from the next start on.
    Observe(Observation),
    /// Request to start anew: empty channels, time zero, this seed.
    Begin {
        /// Seed for a path that has none of its own.
        seed: u64,
    },
    /// Request for the figures since the beginning.
    End,
    /// Request to append the packets since the beginning to the capture.
    Capture,
}

/// Answer of the emulator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromEmulator {
    Built(Box<BuiltNetwork>),
    Begun,
    Figures(Box<PathFigures>),
    Captured(Option<Captured>),
    Fault(Fault),
}

/// Description of the network that was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltNetwork {
    /// Kind of devices.
    pub backend: Backend,
    /// Reason for this kind.
    pub why: String,
    /// Rights with which it was built.
    pub rights: Rights,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Indices of the near and the far host.
    pub roles: [usize; 2],
    /// Links in the order typed.
    pub links: Vec<LinkAddresses>,
    /// Grouping of close departures.
    pub grouping: Grouping,
    /// Largest IP packet of each link, in bytes.
    pub mtu: u16,
    /// Duration of a ping while nothing else is on its way, by link.
    pub pings: Vec<IdlePing>,
    /// Rates of the first and the second host's network cards, by link.
    pub nics: Vec<[Option<BitRate>; 2]>,
    /// Addresses for which the names of the hosts stand, as of [`crate::routes::known`].
    pub known: Vec<Vec<IpAddr>>,
    /// Seed of the path itself, where it has one.
    pub seed: Option<u64>,
    /// Notes about settings that could not be made as intended.
    pub notes: Vec<String>,
}

/// Hosts of a link that was built, and their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkAddresses {
    /// Names of both directions, as of [`crate::Network::way_name`].
    pub ways: [String; 2],
    /// Name, as of [`crate::Network::link_name`].
    pub name: String,
    /// Indices of its hosts, the first first.
    pub ends: [usize; 2],
    /// Addresses of the first and of the second host: IPv4 and, where there is IPv6, IPv6.
    pub addresses: [Vec<IpAddr>; 2],
}

/// Rights with which the hosts were built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Own rights: this user may make network namespaces.
    Own,
    /// Rights of root in a user namespace of its own.
    UserNamespace,
}

impl BuiltNetwork {
    /// Returns the address of this family of the host with this index on its first link; IPv4 if any family will do.
    pub fn address(&self, host: usize, family: Family) -> Option<IpAddr> {
        self.of_host(host).find(|address| match family {
            Family::V6 => address.is_ipv6(),
            Family::Any | Family::V4 => address.is_ipv4(),
        })
    }

    /// Returns the names of all hosts with their indices, `near` and `far` by their roles among them.
    pub fn names(&self) -> Vec<(&str, usize)> {
        let roles = [network::NEAR, network::FAR].into_iter().zip(self.roles);
        let own: Vec<(&str, usize)> = self.hosts.iter().map(String::as_str).zip(0..).collect();
        let new = roles.filter(|(role, _)| own.iter().all(|(name, _)| name != role));
        own.iter().copied().chain(new).collect()
    }

    /// Returns the index of the host of this name, or of this role.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that no host has, with the names of all.
    pub fn index(&self, name: &str) -> Result<usize> {
        let all = self.names();
        let found = all.iter().find(|(known, _)| *known == name).map(|(_, at)| *at);
        let names: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        found.ok_or_else(|| unknown("host", name, &names))
    }

    /// Returns the index of the host of one side.
    pub fn host(&self, side: Side) -> usize {
        match side {
            Side::Near => self.roles[0],
            Side::Far => self.roles[1],
        }
    }

    /// Returns the addresses of the host with this index, link by link: IPv4 and, where there is IPv6, IPv6.
    pub fn of_host(&self, host: usize) -> impl Iterator<Item = IpAddr> {
        let ends = self.links.iter().flat_map(|link| link.ends.iter().zip(&link.addresses));
        ends.filter(move |(end, _)| **end == host).flat_map(|(_, all)| all.iter().copied())
    }

    /// Returns the addresses of the host with this index on its first link, likewise.
    pub fn on_first_link(&self, host: usize) -> &[IpAddr] {
        let mut ends = self.links.iter().flat_map(|link| link.ends.iter().zip(&link.addresses));
        ends.find(|(end, _)| **end == host).map_or(&[], |(_, all)| all.as_slice())
    }
}

/// Emulated network, as seen by the process that requested it. Dropping it removes the network.
///
/// All threads may use it at once, and it may live for as long as it is useful.
#[derive(Debug)]
pub struct Emulator {
    process: Mutex<Helper>,
    built: BuiltNetwork,
    namespaces: Namespaces,
}

impl Emulator {
    /// Builds a network from its description as typed, `delay=25ms,loss=1%`, and begins with it. `seed` decides all
    /// random events, unless the description has a seed of its own.
    ///
    /// # Errors
    /// [`Error::Usage`] where the description is invalid; otherwise the right or device that this host lacks, and
    /// the way to get it ([`Emulator::possible`] reports this without building anything).
    pub fn with_seed(path: &str, seed: u64) -> Result<Emulator> {
        let emulator = Emulator::start(path)?;
        emulator.begin(seed)?;
        Ok(emulator)
    }

    /// Builds a network, which can be used after [`Emulator::begin`], for programs on any CPU.
    ///
    /// # Errors
    /// As for [`Emulator::with_seed`].
    pub fn start(path: &str) -> Result<Emulator> {
        Emulator::start_for(path, SenderCpus::Any)
    }

    /// Builds a network for programs on these CPUs, which can be used after [`Emulator::begin`].
    ///
    /// # Errors
    /// As for [`Emulator::with_seed`].
    pub fn start_for(path: &str, senders: SenderCpus) -> Result<Emulator> {
        let process = before_main::start()?;
        let timeout = process.control().set_read_timeout(Some(Duration::from_nanos(PATIENCE.0)));
        timeout.map_err(|e| Error::setup("set a timeout", e))?;
        let build = ToEmulator::Build { path: path.into(), senders };
        let FromEmulator::Built(built) = ask(&process, &build)? else { return Err(confused()) };
        let namespaces = take_namespaces(&process, &built)?;
        Ok(Emulator { process: Mutex::new(process), built: *built, namespaces })
    }

    /// Checks that this host lets this user make the namespaces of a network.
    ///
    /// # Errors
    /// [`Error::Setup`] naming the restriction and the way to lift it.
    pub fn possible() -> Result<()> {
        namespace::try_out()
    }

    /// Returns the near host, which opens connections.
    pub fn near(&self) -> Host<'_> {
        Host::new(self, self.built.host(Side::Near))
    }

    /// Returns the far host, where servers listen.
    pub fn far(&self) -> Host<'_> {
        Host::new(self, self.built.host(Side::Far))
    }

    /// Returns the host of this name, or of the role `near` or `far`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that no host has, with the names of all.
    pub fn host(&self, name: &str) -> Result<Host<'_>> {
        self.built.index(name).map(|at| Host::new(self, at))
    }

    /// Returns the description of the network that was built.
    pub fn built(&self) -> &BuiltNetwork {
        &self.built
    }

    /// Returns the namespaces of the hosts.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Returns the entry to the host with this index.
    ///
    /// # Errors
    /// [`Error::Peer`] if the emulator has handed over fewer hosts.
    pub fn entry(&self, host: usize) -> Result<Entry<'_>> {
        let entry = self.namespaces.entry(host);
        entry.ok_or_else(|| Error::peer("the path's emulator", "it has handed over fewer hosts"))
    }

    /// Empties the path, and starts its time, its counters and its randomness anew; `seed` counts where the path
    /// has none of its own.
    ///
    /// # Errors
    /// Fails if a device failed, or the emulator is gone.
    pub fn begin(&self, seed: u64) -> Result<()> {
        match ask(&self.process(), &ToEmulator::Begin { seed })? {
            FromEmulator::Begun => Ok(()),
            _ => Err(confused()),
        }
    }

    /// Observes the packets from the next [`Emulator::begin`] on.
    ///
    /// # Errors
    /// As for [`Emulator::begin`]; [`Error::Unsupported`] where the kernel moves the packets.
    pub fn observe(&self, observation: Observation) -> Result<()> {
        match ask(&self.process(), &ToEmulator::Observe(observation))? {
            FromEmulator::Begun => Ok(()),
            _ => Err(confused()),
        }
    }

    /// Returns the path's figures since [`Emulator::begin`].
    ///
    /// # Errors
    /// As for [`Emulator::begin`].
    pub fn end(&self) -> Result<PathFigures> {
        match ask(&self.process(), &ToEmulator::End)? {
            FromEmulator::Figures(figures) => Ok(*figures),
            _ => Err(confused()),
        }
    }

    /// Appends the packets since [`Emulator::begin`] to the capture, if they are captured. It may be called once.
    ///
    /// # Errors
    /// As for [`Emulator::begin`]; a failed write is in the figures.
    pub fn capture(&self) -> Result<Option<Captured>> {
        match ask(&self.process(), &ToEmulator::Capture)? {
            FromEmulator::Captured(captured) => Ok(captured),
            _ => Err(confused()),
        }
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.process().id()
    }

    /// Returns true if the process has ended, which it does not do by itself.
    pub fn is_gone(&self) -> bool {
        self.process().ended(Nanos::ZERO)
    }

    /// Locks the process. If a thread panicked in the middle of a request, an answer may be left over; the next
    /// request reports that.
    fn process(&self) -> MutexGuard<'_, Helper> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn confused() -> Error {
    Error::peer("the path's emulator", "it answered something else than it was asked")
}

/// Sends a request to the emulator, and waits for its answer.
fn ask(process: &Helper, word: &ToEmulator) -> Result<FromEmulator> {
    let gone = |e: io::Error| {
        let words = process.last_words().map(|words| format!("; its last words: {words}"));
        let what = format!("it is gone or stuck ({e}){}", words.unwrap_or_default());
        Error::peer("the path's emulator", what)
    };
    frame::write(&mut process.control(), word).map_err(gone)?;
    match frame::read(&mut process.control()).map_err(gone)? {
        FromEmulator::Fault(fault) => Err(blamed(fault)),
        answer => Ok(answer),
    }
}

/// Converts a fault of the emulator into an error here: a feature that this host lacks is no fault of a peer.
fn blamed(fault: Fault) -> Error {
    match fault.kind {
        FaultKind::Usage => Error::Usage(fault.message),
        FaultKind::Unsupported => Error::unsupported("the emulated path", fault.message),
        _ => Error::peer("the emulated path", fault.message),
    }
}

fn take_namespaces(process: &Helper, built: &BuiltNetwork) -> Result<Namespaces> {
    let failed = |e| Error::setup("take over the namespaces of a path", e);
    let control = process.control();
    let take = || -> Result<OwnedFd> {
        let (_, fd) = descriptor::receive(control.as_fd(), &mut [0]).map_err(failed)?;
        fd.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
    };
    let hosts = built.hosts.iter().map(|_| take()).collect::<Result<_>>()?;
    let user = match built.rights {
        Rights::Own => None,
        Rights::UserNamespace => Some(take()?),
    };
    Ok(Namespaces::new(user, hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_lacks_stays_apart_from_what_the_emulator_did() {
        let lacking = blamed(Error::unsupported("backend=netem", "no sch_netem").to_fault());
        assert!(matches!(lacking, Error::Unsupported { .. }), "{lacking:?}");
        assert_eq!(lacking.to_string(), "the emulated path: backend=netem: no sch_netem");
        let wrong = blamed(Error::peer("a thread", "ended").to_fault());
        assert!(matches!(wrong, Error::Peer { .. }), "{wrong:?}");
    }
}

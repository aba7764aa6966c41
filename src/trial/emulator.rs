//! The process that emulates a path: it builds the hosts, moves the packets between them, and takes
//! all of it along when it ends, however that happens, since nothing else holds what it made but
//! descriptors of its parent.
//!
//! It is this program again, as agents are, and control with it is the same framed JSON.
//!
//! ```text
//! parent                                    emulator
//!  | Build ---------------------------------->| namespaces, devices, threads
//!  |<------------------- Built, and the namespaces' descriptors
//!  | Begin ---------------------------------->| empty channels, counters at zero
//!  |<----------------------------------- Begun
//!  | End ------------------------------------>|
//!  |<----------------------------- Figures(…)
//! ```
//! `Fault` is an answer to each of them. The end of control ends the process.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::control;
use super::process::{AgentProcess, die_with_parent};
use crate::contract::Side;
use crate::error::{Error, Fault, FaultKind, Result};
use crate::figures::path::PathFigures;
use crate::path::emulated::card::Cards;
use crate::path::emulated::forward::{Forwarder, grouping_for};
use crate::path::emulated::hosts::{Hosts, Namespaces};
use crate::path::gate::IdlePing;
use crate::path::netem;
use crate::path::network::{Backend, Grouping, Network};
use crate::path::{Family, Path};
use crate::time::Nanos;
use crate::transport::door::HandOver;
use crate::units::BitRate;

/// How long an answer may take; a thousand devices are made in less.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// What the emulator is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToEmulator {
    /// Build this.
    Build {
        /// The path as typed.
        path: String,
    },
    /// Start anew: nothing under way, time zero, this seed.
    Begin {
        /// Where the path has none of its own.
        seed: u64,
    },
    /// What happened since?
    End,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromEmulator {
    Built(Box<Built>),
    Begun,
    Figures(Box<PathFigures>),
    Fault(Fault),
}

/// What was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// What the devices are.
    pub backend: Backend,
    /// Why these.
    pub why: String,
    /// With which rights.
    pub rights: Rights,
    /// The near host's addresses, link by link: IPv4 and, where there is IPv6, IPv6.
    pub near: Vec<IpAddr>,
    /// The far host's.
    pub far: Vec<IpAddr>,
    /// How close departures are joined.
    pub grouping: Grouping,
    /// The largest IP packet of each link, in bytes.
    pub mtu: u16,
    /// By link, the time of a ping while nothing else is on its way.
    pub pings: Vec<IdlePing>,
    /// By link, the rates of the near and the far host's network cards.
    pub nics: Vec<[Option<BitRate>; 2]>,
    /// The path's own seed, where it has one.
    pub seed: Option<u64>,
    /// What could not be set up as it should be, in words.
    pub notes: Vec<String>,
}

/// What the hosts were built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// This user may make network namespaces.
    Own,
    /// Those of root in a user namespace of its own.
    UserNamespace,
}

impl Built {
    /// A host's address of this family on its first link; IPv4 where any will do.
    pub fn address(&self, side: Side, family: Family) -> Option<IpAddr> {
        self.addresses(side, family).next()
    }

    /// A host's addresses on one link, from 0; none where there is no such link.
    pub fn of_link(&self, side: Side, link: usize) -> &[IpAddr] {
        let all = self.of_side(side);
        all.chunks((all.len() / self.pings.len().max(1)).max(1)).nth(link).unwrap_or_default()
    }

    fn of_side(&self, side: Side) -> &[IpAddr] {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// A host's addresses of this family, link by link.
    pub fn addresses(&self, side: Side, family: Family) -> impl Iterator<Item = IpAddr> {
        self.of_side(side).iter().copied().filter(move |address| match family {
            Family::V6 => address.is_ipv6(),
            Family::Any | Family::V4 => address.is_ipv4(),
        })
    }
}

/// An emulated network, seen from the process that asked for it. Dropping it takes the network down.
#[derive(Debug)]
pub struct Emulator {
    process: AgentProcess,
    built: Built,
    namespaces: Namespaces,
}

impl Emulator {
    /// Builds a network from its description as typed: `delay=25ms,loss=1%`. It ends with the thread
    /// that calls this (PR_SET_PDEATHSIG(2const)), so that must be one that stays.
    ///
    /// # Errors
    /// [`Error::Usage`] where the description makes no sense; otherwise what this host lacks, and how
    /// to get it.
    pub fn start(path: &str) -> Result<Emulator> {
        let process = AgentProcess::spawn_emulator()?;
        let timeout = process.control().set_read_timeout(Some(Duration::from_nanos(PATIENCE.0)));
        timeout.map_err(|e| Error::setup("set a timeout", e))?;
        let FromEmulator::Built(built) = ask(&process, &ToEmulator::Build { path: path.into() })?
        else {
            return Err(confused());
        };
        let namespaces = take_namespaces(&process, built.rights)?;
        Ok(Emulator { process, built: *built, namespaces })
    }

    /// What was built.
    pub fn built(&self) -> &Built {
        &self.built
    }

    /// The namespaces of the two hosts.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Empties the path, and starts its time, its counters and its randomness anew; `seed` counts
    /// where the path has none of its own.
    ///
    /// # Errors
    /// Where a device failed, or the emulator is gone.
    pub fn begin(&mut self, seed: u64) -> Result<()> {
        match ask(&self.process, &ToEmulator::Begin { seed })? {
            FromEmulator::Begun => Ok(()),
            _ => Err(confused()),
        }
    }

    /// What the path did since [`Emulator::begin`].
    ///
    /// # Errors
    /// As of [`Emulator::begin`].
    pub fn end(&mut self) -> Result<PathFigures> {
        match ask(&self.process, &ToEmulator::End)? {
            FromEmulator::Figures(figures) => Ok(*figures),
            _ => Err(confused()),
        }
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended, which it does not do by itself.
    pub fn is_gone(&mut self) -> bool {
        self.process.ended(Nanos::ZERO)
    }
}

fn confused() -> Error {
    Error::peer("the path's emulator", "it answered something else than it was asked")
}

/// Tells the emulator, and hears its answer.
fn ask(process: &AgentProcess, word: &ToEmulator) -> Result<FromEmulator> {
    let gone = |e: io::Error| {
        let words = process.last_words().map(|words| format!("; its last words: {words}"));
        let what = format!("it is gone or stuck ({e}){}", words.unwrap_or_default());
        Error::peer("the path's emulator", what)
    };
    control::write(&mut process.control(), word).map_err(gone)?;
    match control::read(&mut process.control()).map_err(gone)? {
        FromEmulator::Fault(fault) => Err(blamed(fault)),
        answer => Ok(answer),
    }
}

/// What went wrong in the emulator, as an error here: what this host lacks is no fault of a peer.
fn blamed(fault: Fault) -> Error {
    match fault.kind {
        FaultKind::Usage => Error::Usage(fault.message),
        FaultKind::Unsupported => Error::unsupported("the emulated path", fault.message),
        _ => Error::peer("the emulated path", fault.message),
    }
}

fn take_namespaces(process: &AgentProcess, rights: Rights) -> Result<Namespaces> {
    let failed = |e| Error::setup("take over the namespaces of a path", e);
    let door = HandOver::from_fd(process.control().try_clone().map_err(failed)?.into());
    let take = || -> Result<OwnedFd> {
        let fd = door.take_fd(PATIENCE).map_err(failed)?;
        fd.ok_or_else(|| failed(io::ErrorKind::TimedOut.into()))
    };
    let (near, far) = (take()?, take()?);
    let user = match rights {
        Rights::Own => None,
        Rights::UserNamespace => Some(take()?),
    };
    Ok(Namespaces::from_parts(user, near, far))
}

/// Runs an emulator on its control channel until that ends; answers the process's exit code.
pub(super) fn run(mut control: UnixStream) -> i32 {
    leave_the_terminal();
    let mut engine = None;
    while let Ok(word) = control::read::<ToEmulator>(&mut control) {
        let answered = match answer(word, &mut engine, &control) {
            Ok(Some(answer)) => control::write(&mut control, &answer),
            Ok(None) => Ok(()),
            Err(error) => control::write(&mut control, &FromEmulator::Fault(error.to_fault())),
        };
        if answered.is_err() {
            return 1;
        }
    }
    0
}

/// Does what was asked. `None` where the answer was given already.
fn answer(
    word: ToEmulator,
    engine: &mut Option<(Engine, Network)>,
    control: &UnixStream,
) -> Result<Option<FromEmulator>> {
    match (word, engine) {
        (ToEmulator::Build { path }, engine @ None) => {
            *engine = Some(build(&path, control)?);
            Ok(None)
        }
        (ToEmulator::Begin { seed }, Some((engine, network))) => {
            engine.begin(network.seed.unwrap_or(seed))?;
            Ok(Some(FromEmulator::Begun))
        }
        (ToEmulator::End, Some((engine, _))) => {
            Ok(Some(FromEmulator::Figures(Box::new(engine.end()?))))
        }
        _ => Err(Error::peer("control", "a path is built once, and first")),
    }
}

/// What carries the packets, from the hosts' cards on.
struct Engine {
    cards: Cards,
    mover: Mover,
}

/// What moves them.
enum Mover {
    /// This process.
    Forwarder(Forwarder),
    /// The kernel.
    Netem(netem::Middle),
}

impl Engine {
    fn begin(&mut self, seed: u64) -> Result<()> {
        self.cards.begin()?;
        match &mut self.mover {
            Mover::Forwarder(forwarder) => forwarder.begin(seed),
            Mover::Netem(middle) => middle.begin(seed),
        }
    }

    fn end(&mut self) -> Result<PathFigures> {
        let mut figures = match &mut self.mover {
            Mover::Forwarder(forwarder) => forwarder.end()?,
            Mover::Netem(middle) => middle.end()?,
        };
        self.cards.account(&mut figures)?;
        Ok(figures)
    }
}

fn build(path: &str, mut control: &UnixStream) -> Result<(Engine, Network)> {
    let network = emulated(path)?;
    let hosts = Hosts::build(&network)?;
    // A change of user namespace may have undone this.
    die_with_parent();
    let mover = match hosts.kernel {
        Some(middle) => Mover::Netem(middle),
        None => Mover::Forwarder(Forwarder::start(&network, hosts.ports)?),
    };
    let (user, near, far) = hosts.namespaces.parts();
    let built = Built {
        backend: hosts.backend,
        why: hosts.why,
        rights: if user.is_some() { Rights::UserNamespace } else { Rights::Own },
        near: hosts.near,
        far: hosts.far,
        grouping: grouping_for(&network),
        mtu: network.mtu,
        pings: network.links.iter().map(IdlePing::of).collect(),
        nics: hosts.cards.rates(),
        seed: network.seed,
        notes: hosts.notes,
    };
    let failed = |e| Error::setup("hand over the namespaces of a path", e);
    control::write(&mut control, &FromEmulator::Built(Box::new(built))).map_err(failed)?;
    let door = HandOver::from_fd(control.try_clone().map_err(failed)?.into());
    for fd in [Some(near), Some(far), user].into_iter().flatten() {
        door.give_fd(fd.as_fd()).map_err(failed)?;
    }
    Ok((Engine { cards: hosts.cards, mover }, network))
}

/// The network that was typed.
fn emulated(typed: &str) -> Result<Network> {
    let other = match Path::parse(typed)? {
        Path::Emulated(network) => return Ok(network),
        Path::Loopback => "the loopback interface is there already",
        Path::Simulated(_) => "a simulated network has no hosts; without `sim:` it is built",
    };
    Err(Error::usage(format!(
        "path `{typed}`: {other}, and what can be built is as in `delay=20ms`"
    )))
}

/// What is typed at the terminal is for the parent and the commands it runs: Ctrl-C and Ctrl-Z go to
/// the process group of the foreground, so the emulator makes one of its own. Signals that the parent
/// holds back are not held back here.
fn leave_the_terminal() {
    // SAFETY: the calls take integers and a set that is made just before.
    unsafe {
        libc::setpgid(0, 0);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
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

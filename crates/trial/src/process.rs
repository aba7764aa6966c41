//! Agents as processes: each end of a trial is a fresh process of this program.
//!
//! A program that runs races calls [`enter`] first thing in `main`; in a child that was started as an agent, that call
//! never returns.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use deadheat_base::process::{die_with_parent, ignore_interrupts, itself};

use crate::agent::AGENT;
use crate::control::SECRET_VARIABLE;
use deadheat_base::error::{Error, Result};
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::transport::handover::{ConnectionSource, HandOver};
use deadheat_path::emulated::entry::Entry;

pub use deadheat_base::process::Helper as AgentProcess;

/// Environment variable with the program to start as an agent, if it is not the running one (tests).
const PROGRAM: &str = "DEADHEAT_PROGRAM";
/// Value of [`AGENT`] in a process that keeps a command.
const KEEPER: &str = "keeper";
/// Value of [`AGENT`] in an agent of a server that is behind a relay, and listens by itself.
const BEHIND: &str = "behind";
/// Beginning of the names of this program's variables.
const OWN_VARIABLES: &[u8] = b"DEADHEAT_";
/// Descriptor of an agent's hand-over channel; the descriptor of its byte account follows below.
const DOOR_FD: RawFd = 3;
const ACCOUNT_FD: RawFd = 4;
/// Least number of a descriptor that cannot collide with those two.
const ASIDE: RawFd = 16;

/// Becomes an agent if this process was started as one; returns otherwise. The emulator of a path needs no such call.
pub fn enter() {
    let Some(door) = std::env::var_os(AGENT) else { return };
    // SAFETY: the parent put one end of a socket pair on descriptor 0 and nothing else owns it.
    let control = unsafe { UnixStream::from_raw_fd(0) };
    // A keeper ends its command first when the race is gone; it notices that at its control link.
    if door == KEEPER {
        ignore_interrupts();
        std::process::exit(crate::between::commands::run(control));
    }
    // SAFETY: with the values for which this is called the parent left one at the descriptor.
    let left = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
    let (door, account) = if door == "door" {
        let door = HandOver::from_fd(left(DOOR_FD));
        (ConnectionSource::Handed(door), Account::shared(left(ACCOUNT_FD)).ok())
    } else if door == BEHIND {
        (ConnectionSource::Own, Account::shared(left(ACCOUNT_FD)).ok())
    } else {
        (ConnectionSource::Own, None)
    };
    serve_parent();
    std::process::exit(crate::agent::run::run(control, door, account));
}

/// Starts an agent that opens its own sockets for connections.
///
/// # Errors
/// Fails if the process cannot be started.
pub fn agent() -> Result<AgentProcess> {
    AgentProcess::start("an agent", command("own")?)
}

/// Starts an agent for a remote client: its connections come from `door`, or without one through a relay on this host,
/// the bytes of its packets are added to `account`, and its environment holds only the variables that make it an agent.
///
/// # Errors
/// Fails if the process cannot be started.
pub fn served_agent(door: Option<HandOver>, account: &Account) -> Result<AgentProcess> {
    let kind = if door.is_some() { "door" } else { BEHIND };
    let mut command = command(kind)?;
    command.env_clear().env(AGENT, kind);
    let aside = |fd: BorrowedFd<'_>| {
        // SAFETY: the call takes integers, and a descriptor that is open.
        let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE) };
        if copy < 0 {
            return Err(Error::setup("copy a descriptor", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(copy) })
    };
    // Moves both away, so that neither is at the number of the other.
    let door = door.map(|door| aside(door.as_fd())).transpose()?;
    let account = aside(account.as_fd())?;
    let places = [
        door.as_ref().map(|door| (door.as_raw_fd(), DOOR_FD)),
        Some((account.as_raw_fd(), ACCOUNT_FD)),
    ];
    // SAFETY: the closure only makes async-signal-safe calls, on descriptors that are open until after the fork.
    unsafe {
        command.pre_exec(move || {
            places.iter().flatten().try_for_each(|(fd, place)| leave_at(*fd, *place))
        })
    };
    let agent = AgentProcess::start("an agent", command);
    drop((door, account));
    agent
}

/// Starts an agent on a host of an emulated network.
///
/// # Errors
/// Fails if the process cannot be started, or cannot enter the host.
pub fn agent_on(host: &Entry<'_>) -> Result<AgentProcess> {
    let mut command = command("own")?;
    host.prepare(&mut command);
    AgentProcess::start("an agent", command)
}

/// Starts a keeper of a command, on a host of an emulated network if one is given.
///
/// # Errors
/// Fails if the process cannot be started, or cannot enter the host.
pub(super) fn keeper(host: Option<&Entry<'_>>) -> Result<AgentProcess> {
    let mut command = command(KEEPER)?;
    if let Some(host) = host {
        host.prepare(&mut command);
    }
    AgentProcess::start("a keeper", command)
}

/// Starts the keeper of a server command for a remote client. Its environment is the server's, which its operator has set,
/// without the variables of this program: secrets are among them.
///
/// # Errors
/// Fails if the process cannot be started.
pub fn served_keeper() -> Result<AgentProcess> {
    let mut command = command(KEEPER)?;
    let own = std::env::vars_os().map(|(name, _)| name);
    let own = own.filter(|name| name.as_encoded_bytes().starts_with(OWN_VARIABLES));
    own.filter(|name| name != AGENT).for_each(|name| {
        command.env_remove(name);
    });
    AgentProcess::start("a keeper", command)
}

/// Returns the command that starts an agent, which gets its connections from `door`.
fn command(door: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.arg0("deadheat-agent").env(AGENT, door).env_remove(SECRET_VARIABLE);
    Ok(command)
}

/// Returns the path of the program that agents run: this one.
///
/// # Errors
/// [`Error::Setup`] if the kernel does not show it because `/proc` is missing.
pub fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    itself("an agent")
}

/// Duplicates `fd` to the number `place` in the child, where it survives exec.
fn leave_at(fd: RawFd, place: RawFd) -> io::Result<()> {
    // SAFETY: the call takes plain descriptors.
    let done = unsafe { libc::dup2(fd, place) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Prepares an agent's process, before anything else: it ignores Ctrl-C on the terminal, which the race handles and
/// then ends the agent, and it dies with the race.
fn serve_parent() {
    die_with_parent();
    ignore_interrupts();
}

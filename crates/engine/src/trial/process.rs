//! Agents as processes: each end of a trial is a fresh process of this program.
//!
//! A program that runs races calls [`enter`] first thing in `main`; a child that was started as an
//! agent then becomes one and never returns.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use deadheat_base::process::{die_with_parent, ignore_interrupts, itself};

use crate::datapath::account::Account;
use crate::error::{Error, Result};
use crate::path::emulated::hosts::Entry;
use crate::transport::handover::{ConnectionSource, HandOver};
use crate::trial::control::SECRET_VARIABLE;

pub use deadheat_base::process::Helper as AgentProcess;
pub(super) use deadheat_base::process::spawn;

/// Set in an agent's environment.
pub(super) const AGENT: &str = "DEADHEAT_AGENT";
/// Names the program to start as an agent, where that is not the running one (tests).
const PROGRAM: &str = "DEADHEAT_PROGRAM";
/// Value of [`AGENT`] in a keeper of a command.
const KEEPER: &str = "keeper";
/// Descriptor at which an agent finds its hand-over channel, and the one with the account of its bytes.
const DOOR_FD: RawFd = 3;
const ACCOUNT_FD: RawFd = 4;
/// Least number of a descriptor that is out of the way of those two.
const ASIDE: RawFd = 16;

/// Becomes an agent if this process was started as one; returns otherwise. The emulator of a path needs
/// no such call.
pub fn enter() {
    let Some(door) = std::env::var_os(AGENT) else { return };
    // SAFETY: the parent put one end of a socket pair on descriptor 0 and nothing else owns it.
    let control = unsafe { UnixStream::from_raw_fd(0) };
    if door == KEEPER {
        // It has something to end first when the race is gone, which it sees at its line.
        ignore_interrupts();
        std::process::exit(crate::trial::between::external::keep(control));
    }
    let (door, account) = if door == "door" {
        // SAFETY: with this value the parent left the two at these descriptors.
        let [door, account] = [DOOR_FD, ACCOUNT_FD].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        (ConnectionSource::Handed(HandOver::from_fd(door)), Account::shared(account).ok())
    } else {
        (ConnectionSource::Own, None)
    };
    serve_parent();
    std::process::exit(crate::trial::agent::run::run(control, door, account));
}

/// Starts an agent whose connections come from its own socket.
///
/// # Errors
/// Fails if the process cannot be started.
pub fn agent() -> Result<AgentProcess> {
    AgentProcess::start("an agent", command("own")?)
}

/// Starts an agent on behalf of a client elsewhere: its connections come from `door`, the bytes of its packets are
/// added to `account`, and of the environment it gets nothing but what says that it is an agent.
///
/// # Errors
/// Fails if the process cannot be started.
pub fn served_agent(door: HandOver, account: &Account) -> Result<AgentProcess> {
    let mut command = command("door")?;
    command.env_clear().env(AGENT, "door");
    let aside = |fd: BorrowedFd<'_>| {
        // SAFETY: the call takes integers, and a descriptor that is open.
        let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE) };
        if copy < 0 {
            return Err(Error::setup("copy a descriptor", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is fresh and owned by nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(copy) })
    };
    // Neither is at the place of the other.
    let (door, account) = (aside(door.as_fd())?, aside(account.as_fd())?);
    let places = [(door.as_raw_fd(), DOOR_FD), (account.as_raw_fd(), ACCOUNT_FD)];
    // SAFETY: the closure only makes async-signal-safe calls, on descriptors that are open until after the fork.
    unsafe {
        command.pre_exec(move || places.iter().try_for_each(|(fd, place)| leave_at(*fd, *place)))
    };
    let agent = AgentProcess::start("an agent", command);
    drop((door, account));
    agent
}

/// Starts an agent on a host of an emulated network.
///
/// # Errors
/// Fails if the process cannot be started, or not there.
pub fn agent_on(host: &Entry<'_>) -> Result<AgentProcess> {
    let mut command = command("own")?;
    host.prepare(&mut command);
    AgentProcess::start("an agent", command)
}

/// Starts a keeper of a command, on a host of an emulated network if one is given.
///
/// # Errors
/// Fails if the process cannot be started, or not there.
pub(super) fn keeper(host: Option<&Entry<'_>>) -> Result<AgentProcess> {
    let mut command = command(KEEPER)?;
    if let Some(host) = host {
        host.prepare(&mut command);
    }
    AgentProcess::start("a keeper", command)
}

/// Returns the command that starts an agent whose connections come from `door`.
fn command(door: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.arg0("deadheat-agent").env(AGENT, door).env_remove(SECRET_VARIABLE);
    Ok(command)
}

/// Returns the program that agents are: this one.
///
/// # Errors
/// [`Error::Setup`] where the kernel does not show it, for want of `/proc`.
pub fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    itself("an agent")
}

/// Puts `fd` at `place` in the child, there to survive exec.
fn leave_at(fd: RawFd, place: RawFd) -> io::Result<()> {
    // SAFETY: the call takes plain descriptors.
    let done = unsafe { libc::dup2(fd, place) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Prepares an agent's process, before anything else: Ctrl-C on the terminal is for the race to
/// handle, which then ends it, and it does not outlive the race.
pub(super) fn serve_parent() {
    die_with_parent();
    ignore_interrupts();
}

/// Lets `SIGUSR1` interrupt system calls and do nothing else.
pub(super) fn take_nudges() {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is valid, without SA_RESTART, so that calls are interrupted; the
    // handler does nothing, which is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}

//! Process between `path run` and the commands that it runs. It makes a process namespace (pid_namespaces(7)) in
//! which the commands and their children live, and from which nothing can escape: when its first process ends, the
//! kernel ends the others.
//!
//! ```text
//! path run ── keeper ┄┄ init (the first of the process namespace)
//!                         ├── commands beside it, each in a process group of its own
//!                         └── the command, in that of `path run`
//! ```
//! Each ends with the one to its left, so that `kill -9` at any place leaves nothing behind.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use deadheat_base::process::{die_with_parent, itself};

use super::init;
use super::signals::{self, TakenSignal};
use super::task::{Task, VARIABLE};
use crate::emulated::entry::Namespaces;
use crate::emulated::namespace::enter as enter_hosts;
use deadheat_base::error::{Error, Result};

/// Starts a keeper for these commands.
///
/// # Errors
/// Fails if the process cannot be started.
pub(super) fn start(
    mut task: Task,
    namespaces: &Namespaces,
    command: &[OsString],
    variables: &[(String, String)],
) -> Result<Child> {
    let failed = |e: io::Error| Error::setup("start a process to keep the commands", e);
    task.user = namespaces.user().map(|fd| fd.as_raw_fd());
    task.hosts = namespaces.hosts().map(|fd| fd.as_raw_fd()).collect();
    let inherited: Vec<RawFd> = task.descriptors().collect();
    let task = deadheat_base::json::line(&task).map_err(|e| failed(e.into()))?;
    let mut keeper = Command::new(itself("the keeper of the commands")?);
    keeper.arg0("deadheat-keeper").args(command).env(VARIABLE, OsStr::from_bytes(&task));
    keeper.envs(variables.iter().map(|(name, value)| (name, value)));
    let inherit = move || {
        for fd in &inherited {
            // SAFETY: the call takes integers; the descriptors stay open until after the fork.
            if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes async-signal-safe calls.
    unsafe { keeper.pre_exec(inherit) };
    keeper.spawn().map_err(failed)
}

/// Becomes the keeper of the commands if this process was started as one, and then returns its exit code.
pub fn enter() -> Option<ExitCode> {
    let task = std::env::var(VARIABLE).ok()?;
    let command: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = deadheat_base::json::read(task.as_bytes()).map_err(io::Error::from).and_then(
        |task: Task| {
            hold_until_exec(&task)?;
            keep(&task, &command)
        },
    );
    Some(ExitCode::from(code.unwrap_or_else(|e| {
        tell!("keep the commands together: {e}");
        1
    })))
}

/// Keeps the namespaces' descriptors until exec: the commands do not inherit them.
fn hold_until_exec(task: &Task) -> io::Result<()> {
    for fd in task.descriptors() {
        // SAFETY: the call takes integers.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Runs the commands until the main command ends; returns its exit code.
fn keep(task: &Task, command: &[OsString]) -> io::Result<u8> {
    signals::hold();
    let host = task.hosts.get(task.host).copied().ok_or(io::ErrorKind::InvalidInput)?;
    enter_hosts(task.user, host)?;
    // SAFETY: the call takes an integer.
    if unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Only now, since a change of user namespace resets it.
    die_with_parent();
    if std::os::unix::process::parent_id() != task.parent {
        return Ok(1);
    }
    let (parent_lives, held) = io::pipe()?;
    // SAFETY: this process has one thread, so the child may call anything.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            drop(held);
            die_with_parent();
            let code = if is_orphan(&parent_lives) { 1 } else { init::run(task, command) };
            std::process::exit(i32::from(code));
        }
        init => {
            drop(parent_lives);
            Ok(relay(init))
        }
    }
}

/// Returns true if the keeper ended before this process could be tied to it.
fn is_orphan(parent_lives: &PipeReader) -> bool {
    let mut poll = libc::pollfd { fd: parent_lives.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one pollfd, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

/// Passes signals on to a child until it ends; returns its exit code.
pub(super) fn relay(child: i32) -> u8 {
    loop {
        match signals::take(None) {
            TakenSignal::Child => {
                while let Some((ended, code)) = signals::reap() {
                    if ended == child {
                        return code;
                    }
                }
            }
            TakenSignal::Sent(signal) => signals::send(child, signal),
            TakenSignal::FromTerminal | TakenSignal::Nothing => {}
        }
    }
}

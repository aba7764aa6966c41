//! Command of others as a process group of its own, which is ended whole.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use deadheat_base::cpu::{allowed_cpus, hold, pin};
use deadheat_base::ports::SocketTable;
use deadheat_base::process::die_with_parent;

use crate::agent::AGENT;
use crate::between::relay::bind;
use crate::control::SECRET_VARIABLE;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::commands::Port;
use deadheat_host::process_tree::below;

/// Place of this thread on a CPU, for commands that it starts meanwhile: they stay there. Dropping it gives the thread its own
/// CPUs back, so that a keeper takes no time from its command.
pub(super) struct StartingCpu {
    own: Vec<usize>,
}

impl StartingCpu {
    /// Moves this thread to a CPU, if one is given.
    ///
    /// # Errors
    /// [`Error::Setup`] if the CPU is not allowed.
    pub(super) fn take(cpu: Option<usize>) -> Result<Option<StartingCpu>> {
        let own = allowed_cpus();
        cpu.map(|cpu| pin(cpu).map(|()| StartingCpu { own })).transpose()
    }
}

impl Drop for StartingCpu {
    fn drop(&mut self) {
        // 0 is the calling thread.
        let _ = hold(0, &self.own);
    }
}

/// Time that a command has to end after the first signal.
const GRACE: Nanos = Nanos::from_millis(500);
/// Time to end the remaining processes after that.
const LAST: Nanos = Nanos::from_secs(2);

/// Makes this process the parent of each process below it whose parent ends first, so that it can end it.
pub(super) fn adopt_all() {
    // SAFETY: the call takes integers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Command that runs. Dropping it ends it and all processes that it has started.
pub(super) struct LaunchedCommand {
    process: libc::pid_t,
    /// Descriptor that is readable once the command has ended (pidfd_open(2)).
    ended: OwnedFd,
}

/// End of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandEnd {
    /// It exited with this status.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its end is unknown.
    Unknown,
}

impl std::fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommandEnd::Exit(status) => write!(f, "exit status {status}"),
            // The library knows the names: `signal: 11 (SIGSEGV)`.
            CommandEnd::Signal(signal) => {
                let named = ExitStatus::from_raw(*signal).to_string();
                f.write_str(&named.replacen("signal: ", "signal ", 1))
            }
            CommandEnd::Unknown => f.write_str("in an unknown way"),
        }
    }
}

impl LaunchedCommand {
    /// Starts a command without input, in a process group of its own.
    ///
    /// # Errors
    /// [`Error::Setup`] with the program, and what to do.
    pub(super) fn start(mut command: Command) -> Result<LaunchedCommand> {
        command.env_remove(AGENT).env_remove(SECRET_VARIABLE);
        command.stdin(Stdio::null()).process_group(0);
        // SAFETY: the closure only makes async-signal-safe calls, on integers.
        unsafe { command.pre_exec(as_usual) };
        let child = command.spawn().map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => {
                    "there is no such program on this host; install it, or write its whole path"
                }
                _ => "the file has to be a program that this user may run",
            };
            let program = command.get_program().to_string_lossy().into_owned();
            Error::setup_advice(format!("start `{program}`"), error, advice)
        })?;
        let process = child.id().cast_signed();
        match pidfd(process) {
            Ok(ended) => Ok(LaunchedCommand { process, ended }),
            Err(error) => {
                end(process, libc::SIGTERM, GRACE);
                Err(Error::setup("watch a process", error))
            }
        }
        // The command's copies of the ends of pipes are closed with it here.
    }

    /// Returns a descriptor that is readable once the command has ended.
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Returns how the command ended; it is not reaped yet, so that its process id stays its own.
    pub(super) fn how_ended(&self) -> CommandEnd {
        // SAFETY: siginfo_t is plain integers, for which all-zero is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let id = self.process.cast_unsigned();
        // SAFETY: `info` is a live siginfo_t.
        let found = unsafe { libc::waitid(libc::P_PID, id, &raw mut info, how) };
        // SAFETY: waitid(2) fills in the fields of SIGCHLD.
        let status = unsafe { info.si_status() };
        match (found, info.si_code) {
            (0, libc::CLD_EXITED) => CommandEnd::Exit(status),
            (0, libc::CLD_KILLED | libc::CLD_DUMPED) => CommandEnd::Signal(status),
            _ => CommandEnd::Unknown,
        }
    }

    /// Returns the processes besides the command that it has started and that still run.
    pub(super) fn left_behind(&self) -> Vec<u32> {
        let mut left = below(std::process::id());
        left.retain(|process| process.cast_signed() != self.process && !has_ended(*process));
        left
    }

    /// Ends the command and all that it has started: with `signal` first, and after `grace` with SIGKILL. Returns true if
    /// SIGKILL was not needed.
    pub(super) fn stop(&mut self, signal: libc::c_int, grace: Nanos) -> bool {
        end(self.process, signal, grace)
    }
}

impl Drop for LaunchedCommand {
    fn drop(&mut self) {
        end(self.process, libc::SIGTERM, GRACE);
    }
}

/// Resets the command's signal handling to the default, and makes it end with its keeper.
fn as_usual() -> io::Result<()> {
    die_with_parent();
    // SAFETY: the call takes integers.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    Ok(())
}

/// Returns true if a process has ended and waits for its parent.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before the state may contain brackets.
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
}

fn pidfd(process: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: the call takes integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Ends the process group of a command, and all other processes below this one. Does nothing once all are gone, when the
/// number of the group may be another's.
fn end(group: libc::pid_t, signal: libc::c_int, grace: Nanos) -> bool {
    if below(std::process::id()).is_empty() {
        return true;
    }
    // SAFETY: the call takes integers; the group is that of a child of this process.
    unsafe { libc::kill(-group, signal) };
    let (ask, give_up) = (Monotonic.now() + grace, Monotonic.now() + grace + LAST);
    let mut is_willing = true;
    loop {
        // SAFETY: a null pointer asks for no status.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        let left = below(std::process::id());
        let now = Monotonic.now();
        if left.is_empty() || now >= give_up {
            return is_willing;
        }
        if now >= ask {
            is_willing = false;
            // SAFETY: the calls take integers; all processes below this one are its own to end.
            left.iter().for_each(|pid| unsafe {
                libc::kill(pid.cast_signed(), libc::SIGKILL);
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns an address of this host with a port that is free for TCP and UDP; `listen` has port 0 for any.
///
/// # Errors
/// The error of bind(2).
pub(super) fn free_address(listen: SocketAddr) -> io::Result<SocketAddr> {
    bind(listen).and_then(|(listener, _)| listener.local_addr())
}

/// Returns true if a socket of this network namespace is bound to a local port, of any protocol for `None`.
pub(super) fn is_there(port: u16, protocol: Option<Port>) -> bool {
    match protocol {
        Some(Port::Tcp) => SocketTable::Tcp.has(Some(port)),
        Some(Port::Udp) => SocketTable::Udp.has(Some(port)),
        None => is_there(port, Some(Port::Tcp)) || is_there(port, Some(Port::Udp)),
    }
}

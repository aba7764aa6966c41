//! Agents as processes: each end of a trial is a fresh process of this program.
//!
//! A program that runs races calls [`enter`] first thing in `main`; a child that was started as an
//! agent then becomes one and never returns.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::path::emulated::hosts::Entry;
use crate::time::Nanos;
use crate::transport::door::{Door, HandOver, readable};
use crate::trial::control::SECRET_VARIABLE;

/// Set in an agent's environment.
const AGENT: &str = "DEADHEAT_AGENT";
/// Set in the environment of the process that emulates a path.
const EMULATOR: &str = "DEADHEAT_PATH";
/// Names the program to start as an agent, where that is not the running one (tests).
const PROGRAM: &str = "DEADHEAT_PROGRAM";
/// The running program.
const ITSELF: &str = "/proc/self/exe";
/// Where an agent finds its hand-over channel.
const DOOR_FD: RawFd = 3;
/// How much of an agent's last words is kept, in bytes.
const LAST_WORDS: usize = 4096;

/// Becomes an agent, or the emulator of a path, if this process was started as one; returns otherwise.
pub fn enter() {
    if std::env::var_os(EMULATOR).is_some() {
        // SAFETY: the parent put one end of a socket pair on descriptor 0 and nothing else owns it.
        let control = unsafe { UnixStream::from_raw_fd(0) };
        serve_parent();
        std::process::exit(super::emulator::run(control));
    }
    let Some(door) = std::env::var_os(AGENT) else { return };
    // SAFETY: the parent put one end of a socket pair on descriptor 0 and nothing else owns it.
    let control = unsafe { UnixStream::from_raw_fd(0) };
    let door = if door == "door" {
        // SAFETY: with this value the parent left the hand-over channel at this descriptor.
        Door::Handed(HandOver::from_fd(unsafe { OwnedFd::from_raw_fd(DOOR_FD) }))
    } else {
        Door::Own
    };
    serve_parent();
    std::process::exit(super::agent::run(control, door));
}

/// An agent, seen from the process that started it. Dropping it kills it.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    control: UnixStream,
    last_words: Arc<Mutex<Vec<u8>>>,
}

impl AgentProcess {
    /// Starts an agent; `door` is where its connections will come from, if not its own socket.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn spawn(door: Option<HandOver>) -> Result<AgentProcess> {
        let value = if door.is_some() { "door" } else { "own" };
        AgentProcess::start("an agent", (AGENT, value), door, None)
    }

    /// Starts an agent on a host of an emulated network.
    ///
    /// # Errors
    /// Where the process cannot be started, or not there.
    pub fn spawn_on(host: &Entry<'_>) -> Result<AgentProcess> {
        AgentProcess::start("an agent", (AGENT, "own"), None, Some(host))
    }

    /// Starts the process that emulates a path.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub(super) fn spawn_emulator() -> Result<AgentProcess> {
        AgentProcess::start("an emulator", (EMULATOR, "emulator"), None, None)
    }

    fn start(
        what: &str,
        (variable, value): (&str, &str),
        door: Option<HandOver>,
        host: Option<&Entry<'_>>,
    ) -> Result<AgentProcess> {
        let failed = |e| Error::setup(format!("start {what} process"), e);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let program = program()?;
        let failed =
            |e| Error::setup(format!("start {what} process from {}", program.display()), e);
        let mut command = Command::new(&program);
        command
            .arg0("deadheat-agent")
            .env(variable, value)
            .env_remove(SECRET_VARIABLE)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(host) = host {
            host.prepare(&mut command);
        }
        if let Some(door) = &door {
            let fd = door.as_fd().as_raw_fd();
            // SAFETY: the closure only makes async-signal-safe calls, on a descriptor that `door`
            // keeps open until after the fork.
            unsafe { command.pre_exec(move || leave_at(fd, DOOR_FD)) };
        }
        let mut child = command.spawn().map_err(failed)?;
        drop(door);
        let stderr = child.stderr.take();
        // From here on a failure ends the child, too.
        let agent = AgentProcess { child, control: ours, last_words: Arc::default() };
        if let Some(stderr) = stderr {
            keep_last_words(stderr, Arc::clone(&agent.last_words))?;
        }
        Ok(agent)
    }

    /// The control channel.
    pub fn control(&self) -> &UnixStream {
        &self.control
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has ended by itself, at most `timeout`; whether it has.
    pub fn ended(&mut self, timeout: Nanos) -> bool {
        let ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        if ended(&mut self.child) {
            return true;
        }
        // A pidfd becomes readable when its process ends (pidfd_open(2)).
        // SAFETY: the call takes integers; the child has not been reaped, so the id is still its own.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.child.id(), 0) };
        if fd < 0 {
            return false;
        }
        // SAFETY: the descriptor is fresh and owned by nobody else.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        let _ = readable(pidfd.as_fd(), timeout);
        ended(&mut self.child)
    }

    /// What it wrote to stderr last, if anything: the message of a crash.
    pub fn last_words(&self) -> Option<String> {
        let words = self.last_words.lock().ok()?;
        let text = String::from_utf8_lossy(&words).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program that agents are: this one.
///
/// # Errors
/// [`Error::Setup`] where the kernel does not show it, for want of `/proc`.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    match std::fs::read_link(ITSELF) {
        Ok(_) => Ok(ITSELF.into()),
        Err(error) => Err(Error::setup_advice(
            format!("find this program at {ITSELF}, to start it as an agent"),
            error,
            "/proc is not mounted here, or not readable; `mount -t proc proc /proc` as root mounts it, and \
             containers have it unless told otherwise",
        )),
    }
}

/// Puts `fd` at `place` in the child, there to survive exec.
fn leave_at(fd: RawFd, place: RawFd) -> io::Result<()> {
    // SAFETY: both calls take plain descriptors; dup2 onto itself would keep close-on-exec, so
    // that case clears the flag by hand.
    let done = unsafe {
        if fd == place { libc::fcntl(fd, libc::F_SETFD, 0) } else { libc::dup2(fd, place) }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts a thread.
///
/// # Errors
/// [`Error::Setup`] where the host lets this user or service have no more of them.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(no_thread)
}

/// What to say where a thread or process cannot be started.
pub(super) fn no_thread(source: io::Error) -> Error {
    Error::setup_advice(
        "start a thread",
        source,
        "this user or service may have no more processes and threads: ulimit -u, the pids controller \
         of its cgroup (TasksMax=)",
    )
}

fn keep_last_words(mut from: impl Read + Send + 'static, words: Arc<Mutex<Vec<u8>>>) -> Result<()> {
    spawn("last words", move || {
        let mut chunk = [0; 1024];
        while let Ok(n @ 1..) = from.read(&mut chunk) {
            let Ok(mut words) = words.lock() else { return };
            words.extend_from_slice(&chunk[..n]);
            let excess = words.len().saturating_sub(LAST_WORDS);
            words.drain(..excess);
        }
    })?;
    Ok(())
}

/// What an agent and the emulator of a path do first: Ctrl-C on the terminal is for the race to handle,
/// which then ends them, and neither outlives it.
pub(super) fn serve_parent() {
    die_with_parent();
    // SAFETY: the call takes integers and touches no memory of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Has this process end when its parent does. A change of user namespace takes it back.
pub(crate) fn die_with_parent() {
    // SAFETY: the call takes integers and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) };
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

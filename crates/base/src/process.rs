//! Processes of this program that serve it, over a socket pair at their standard input, and threads.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::descriptor::readable;
use crate::error::{Error, Result};
use crate::time::Nanos;

/// Path of the running program.
const ITSELF: &str = "/proc/self/exe";
/// Number of bytes that are kept of a process's last words.
const LAST_WORDS: usize = 4096;

/// A process that serves this one. Dropping it kills it.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    control: UnixStream,
    last_words: Arc<Mutex<Vec<u8>>>,
}

impl Helper {
    /// Starts it: control on its standard input, no standard output, standard error kept as
    /// [`Helper::last_words`].
    ///
    /// # Errors
    /// [`Error::Setup`] where it cannot be started; `what` says what it is: `an agent`.
    pub fn start(what: &str, mut command: Command) -> Result<Helper> {
        let failed = |e| Error::setup(format!("start {what} process"), e);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |e| Error::setup(format!("start {what} process from {program}"), e);
        let mut child = command.spawn().map_err(failed)?;
        // With it goes this process's copy of the other end.
        drop(command);
        let stderr = child.stderr.take();
        // From here on a failure ends the child, too.
        let helper = Helper { child, control: ours, last_words: Arc::default() };
        if let Some(stderr) = stderr {
            keep_last_words(stderr, Arc::clone(&helper.last_words))?;
        }
        Ok(helper)
    }

    /// Returns the control channel.
    pub fn control(&self) -> &UnixStream {
        &self.control
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has ended by itself, at most `timeout`; returns true if it has.
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

    /// Returns its last output on stderr, if any: the message of a crash.
    pub fn last_words(&self) -> Option<String> {
        let words = self.last_words.lock().ok()?;
        let text = String::from_utf8_lossy(&words).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the running program, to be started once more as `what`.
///
/// # Errors
/// [`Error::Setup`] where the kernel does not show it, for want of `/proc`.
pub fn itself(what: &str) -> Result<PathBuf> {
    match std::fs::read_link(ITSELF) {
        Ok(_) => Ok(ITSELF.into()),
        Err(error) => Err(Error::setup_advice(
            format!("find this program at {ITSELF}, to start it as {what}"),
            error,
            "/proc is not mounted here, or not readable; `mount -t proc proc /proc` as root mounts it, and \
             containers have it unless told otherwise",
        )),
    }
}

/// Starts a thread.
///
/// # Errors
/// [`Error::Setup`] where the host lets this user or service have no more of them.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(no_thread)
}

/// Returns the error of a thread or process that cannot be started.
pub fn no_thread(source: io::Error) -> Error {
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

/// Makes this process leave Ctrl-C on the terminal to the one that it serves, which then ends it.
pub fn ignore_interrupts() {
    // SAFETY: the call takes integers and touches no memory of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Makes this process end when the thread does that started it (`PR_SET_PDEATHSIG`, prctl(2)). A change of user namespace
/// takes it back.
pub fn die_with_parent() {
    signal_at_parents_end(libc::SIGKILL);
}

/// Lets this process live on when the thread ends that started it.
pub fn live_without_parent() {
    signal_at_parents_end(0);
}

fn signal_at_parents_end(signal: libc::c_int) {
    // SAFETY: the call takes integers and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0) };
}

/// Returns true if the process at the other end of `control` has closed it, as it does by ending. What it wrote before
/// can still be read.
pub fn is_hung_up(control: &UnixStream) -> bool {
    let mut entry = libc::pollfd { fd: control.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: the pointer is to one live pollfd; with no time to wait the call returns at once.
    let found = unsafe { libc::poll(&raw mut entry, 1, 0) };
    found > 0 && entry.revents & (libc::POLLHUP | libc::POLLRDHUP) != 0
}

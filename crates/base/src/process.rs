//! Helper processes of this program, with a socket pair at their standard input, and threads.

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
/// Maximum number of stored bytes of a process's last output.
const LAST_WORDS: usize = 4096;

/// A process that serves this one. Drop kills it.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    control: UnixStream,
    last_words: Arc<Mutex<Vec<u8>>>,
}

impl Helper {
    /// Starts the process: control on its standard input, no standard output, standard error stored for
    /// [`Helper::last_words`].
    ///
    /// # Errors
    /// [`Error::Setup`] if it cannot be started; `what` is its name in the message: `an agent`.
    pub fn start(what: &str, mut command: Command) -> Result<Helper> {
        let failed = |e| Error::setup(format!("start {what} process"), e);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |e| Error::setup(format!("start {what} process from {program}"), e);
        let mut child = command.spawn().map_err(failed)?;
        // Also closes this process's copy of the other end.
        drop(command);
        let stderr = child.stderr.take();
        // From here on a failure also ends the child.
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

    /// Waits until it has exited, at most `timeout`; returns true if it has.
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
        // SAFETY: the descriptor is fresh and has no other owner.
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

/// Returns the path of the running program, to start it once more as `what`.
///
/// # Errors
/// [`Error::Setup`] if `/proc` is not mounted.
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
/// [`Error::Setup`] if the host's limit for this user or service is reached.
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

/// Makes this process ignore Ctrl-C on the terminal: its parent handles it, and then ends this process.
pub fn ignore_interrupts() {
    // SAFETY: the call takes integers and touches no memory of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Makes this process end when the thread that started it ends (`PR_SET_PDEATHSIG`, prctl(2)). A change of user
/// namespace reverts this.
pub fn die_with_parent() {
    signal_at_parents_end(libc::SIGKILL);
}

/// Lets this process continue when the thread that started it ends.
pub fn live_without_parent() {
    signal_at_parents_end(0);
}

fn signal_at_parents_end(signal: libc::c_int) {
    // SAFETY: the call takes integers and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0) };
}

/// Returns true if the process at the other end of `control` has closed it, for example by exiting. Its earlier output
/// can still be read.
pub fn is_hung_up(control: &UnixStream) -> bool {
    let mut entry = libc::pollfd { fd: control.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: the pointer is to one live pollfd; with no time to wait the call returns at once.
    let found = unsafe { libc::poll(&raw mut entry, 1, 0) };
    found > 0 && entry.revents & (libc::POLLHUP | libc::POLLRDHUP) != 0
}

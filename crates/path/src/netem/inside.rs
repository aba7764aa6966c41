//! Threads and programs inside a network namespace.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use crate::emulated::namespace::enter;
use deadheat_base::error::{Error, Result};

/// Number of the first descriptor that a program inherits.
pub(super) const FIRST: i32 = 10;

/// Runs `work` in a namespace, on a thread of its own, which ends with it.
///
/// # Errors
/// Fails if this process may not enter it.
pub(super) fn within<T: Send>(space: &OwnedFd, work: impl FnOnce() -> T + Send) -> Result<T> {
    let done = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(None, space.as_raw_fd())
                .map_err(|e| Error::setup("enter a network namespace", e))?;
            Ok(work())
        });
        thread.join()
    });
    done.unwrap_or_else(|_| {
        Err(Error::setup("work in a network namespace", io::Error::other("the thread died")))
    })
}

/// Runs the lines of a batch by `ip` or `tc` in a namespace.
///
/// # Errors
/// As for [`input`].
pub(super) fn batch(program: &str, space: &OwnedFd, lines: &str, fds: &[&OwnedFd]) -> Result<()> {
    input(program, space, &["-batch", "-"], lines, fds).map(drop)
}

/// Runs a program of iproute2 in a namespace with these arguments and this input; returns its output. The program
/// inherits the descriptors under the numbers from [`FIRST`] on.
///
/// # Errors
/// [`Error::Unsupported`] where the program is not installed; [`Error::Setup`] with the program's message, of the
/// kind `Other`, where it fails.
pub(super) fn input(
    program: &str,
    space: &OwnedFd,
    words: &[&str],
    input: &str,
    fds: &[&OwnedFd],
) -> Result<String> {
    let said = || format!("run `{program} {}`", words.join(" "));
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The directories of administration programs are not on every user's path.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let space = space.as_raw_fd();
    let fds: Vec<i32> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    // SAFETY: between fork and exec the closure makes three system calls and allocates nothing.
    unsafe { command.pre_exec(move || enter(None, space).and_then(|()| pass_on(&fds))) };
    let mut child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::unsupported(
            "backend=netem",
            format!(
                "`{program}` is not installed (package iproute2); backend=tun needs no program"
            ),
        ),
        _ => Error::setup(said(), e),
    })?;
    // Batches are short, so the program never waits for a reader of its output meanwhile.
    if let Some(mut stdin) = child.stdin.take()
        && let Err(error) = stdin.write_all(input.as_bytes())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(Error::setup(said(), error));
    }
    let output = child.wait_with_output().map_err(|e| Error::setup(said(), e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    Err(Error::setup(said(), io::Error::other(words.to_owned())))
}

/// Makes descriptors available to the program that follows, from [`FIRST`] on.
fn pass_on(fds: &[i32]) -> io::Result<()> {
    let mut free = FIRST + fds.len() as i32;
    // First moves them out of the range of the numbers that they will have.
    let mut moved = [0; 4];
    for (slot, fd) in moved.iter_mut().zip(fds) {
        // SAFETY: fcntl(2) with F_DUPFD_CLOEXEC takes integers.
        *slot = unsafe { libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, free) };
        if *slot < 0 {
            return Err(io::Error::last_os_error());
        }
        free = *slot + 1;
    }
    for ((slot, _), number) in moved.iter().zip(fds).zip(FIRST..) {
        // SAFETY: dup2(2) takes integers; the descriptor that had this number is closed in the child alone.
        if unsafe { libc::dup2(*slot, number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

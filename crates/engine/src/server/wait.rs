//! Waiting for one of several descriptors with poll(2), with a deadline on the monotonic clock.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::time::{Clock, Monotonic, Nanos};

/// Waits until one of `fds` is readable (or closed), or until `deadline`; `None` is no deadline. Returns for each
/// whether it is readable. May return early, with none readable.
///
/// # Errors
/// Fails if poll(2) fails.
pub(super) fn until(fds: &[BorrowedFd<'_>], deadline: Option<Nanos>) -> io::Result<Vec<bool>> {
    let entry =
        |fd: &BorrowedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    poll(&mut fds.iter().map(entry).collect::<Vec<_>>(), deadline)
}

/// Waits until `to` is writable, or until `deadline` or `stop`; returns true if it is writable.
///
/// # Errors
/// Fails if poll(2) fails.
pub(super) fn for_room(
    to: BorrowedFd<'_>,
    stop: BorrowedFd<'_>,
    deadline: Nanos,
) -> io::Result<bool> {
    let entry = |fd: BorrowedFd, events| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let mut polled = [entry(to, libc::POLLOUT), entry(stop, libc::POLLIN)];
    loop {
        let ready = poll(&mut polled, Some(deadline))?;
        if ready[1] || (!ready[0] && Monotonic.now() >= deadline) {
            return Ok(false);
        }
        if ready[0] {
            return Ok(true);
        }
    }
}

fn poll(polled: &mut [libc::pollfd], deadline: Option<Nanos>) -> io::Result<Vec<bool>> {
    let ms = match deadline {
        None => -1,
        Some(deadline) => {
            let span = deadline - Monotonic.now();
            i32::try_from(span.0.div_ceil(1_000_000)).unwrap_or(i32::MAX)
        }
    };
    // SAFETY: `polled` is an array of as many valid pollfds as its length.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; polled.len()]);
    }
    Ok(polled.iter().map(|poll| poll.revents != 0).collect())
}

/// Returns the earlier of two deadlines; `None` is never.
pub(super) fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

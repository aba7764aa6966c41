//! Waiting for one of several descriptors, poll(2), with a deadline on the monotonic clock.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::time::{Clock, Monotonic, Nanos};

/// Waits until one of `fds` is readable (or ended) or `deadline` has come; `None` waits for ever. Returns for each
/// whether it is readable. May return early, with nothing.
///
/// # Errors
/// Fails if poll(2) fails.
pub(super) fn until(fds: &[BorrowedFd<'_>], deadline: Option<Nanos>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let ms = match deadline {
        None => -1,
        Some(deadline) => {
            let span = deadline - Monotonic.now();
            i32::try_from(span.0.div_ceil(1_000_000)).unwrap_or(i32::MAX)
        }
    };
    // SAFETY: `polled` is an array of as many valid pollfds as is said.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; fds.len()]);
    }
    Ok(polled.iter().map(|poll| poll.revents != 0).collect())
}

/// Returns the earlier of two deadlines, where `None` never comes.
pub(super) fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

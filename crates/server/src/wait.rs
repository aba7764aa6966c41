//! Waiting for one of several descriptors with poll(2), with a deadline on the monotonic clock.

use std::io;
use std::os::fd::BorrowedFd;

use deadheat_base::descriptor::ready;

use deadheat_base::time::{Clock, Monotonic, Nanos};

pub(super) use deadheat_datapath::transport::own_port::wait_for as until;

/// Waits until `to` is writable, or until `deadline` or `stop`; returns true if it is writable.
///
/// # Errors
/// Fails if poll(2) fails.
pub(super) fn for_room(
    to: BorrowedFd<'_>,
    stop: BorrowedFd<'_>,
    deadline: Nanos,
) -> io::Result<bool> {
    loop {
        let left = deadline - Monotonic.now();
        let ready = ready([(to, libc::POLLOUT), (stop, libc::POLLIN)], Some(left))?;
        if ready[1] || (!ready[0] && Monotonic.now() >= deadline) {
            return Ok(false);
        }
        if ready[0] {
            return Ok(true);
        }
    }
}

/// Returns the earlier of two deadlines; `None` is never.
pub(super) fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

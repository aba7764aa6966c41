//! Bell that wakes a thread that sleeps in poll(2) or epoll_wait(2) (eventfd(2)).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Bell, whose descriptor is readable from its first ring until it is silenced.
#[derive(Debug)]
pub struct Bell(File);

impl Bell {
    /// Creates a silent bell.
    ///
    /// # Errors
    /// The error of eventfd(2).
    pub fn new() -> io::Result<Bell> {
        // SAFETY: takes two integers and touches no memory of ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and has no other owner.
        Ok(Bell(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Wakes the sleeper, now or as soon as it would sleep.
    pub fn ring(&self) {
        // It fails only where the bell has been rung 2^64 times, and rings then, too.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Makes the next sleep last until the next ring.
    pub fn silence(&self) {
        // It fails only where the bell is silent.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

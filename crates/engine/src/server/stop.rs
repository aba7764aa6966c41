//! Ends a server from another thread or from a signal handler.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::transport::handover::readable;

/// Stop signal: once pulled, everything that waits beside it wakes up, at once and for good.
///
/// It is a pipe that nobody drains, so that one write wakes any number of threads, and an idle
/// server has no timer that could disturb a measurement.
#[derive(Debug)]
pub struct Stop {
    reader: io::PipeReader,
    writer: io::PipeWriter,
}

impl Stop {
    /// Creates a signal that is not pulled.
    ///
    /// # Errors
    /// Fails if the kernel gives no pipe.
    pub fn new() -> Result<Stop> {
        let (reader, writer) = io::pipe().map_err(|e| Error::setup("make a pipe", e))?;
        Ok(Stop { reader, writer })
    }

    /// Pulls it. Pulling it again changes nothing.
    pub fn pull(&self) {
        if !self.is_pulled() {
            // A full pipe is a pulled one.
            let _ = (&self.writer).write(&[1]);
        }
    }

    /// Returns true if it has been pulled.
    pub fn is_pulled(&self) -> bool {
        readable(self.as_fd(), Nanos::ZERO).unwrap_or(true)
    }

    /// Returns a descriptor that a signal handler may write one byte to, which is all that pulling is.
    pub fn handler_fd(&self) -> RawFd {
        self.writer.as_raw_fd()
    }
}

impl AsFd for Stop {
    /// Returns the descriptor that is readable from the moment it is pulled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_pulled() {
        let stop = Stop::new().unwrap();
        assert!(!stop.is_pulled());
        stop.pull();
        stop.pull();
        assert!(stop.is_pulled());
        assert!(stop.is_pulled());
    }
}

//! Stop signal for a server, from another thread or from a signal handler.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::handover::readable;

/// Stop signal: once pulled, it wakes up every wait on it, at once and for good.
///
/// It is a pipe that is never drained, so that one write wakes any number of threads, and an idle server has no timer
/// that could disturb a measurement.
#[derive(Debug)]
pub struct Stop {
    reader: io::PipeReader,
    writer: io::PipeWriter,
}

impl Stop {
    /// Creates a signal that is not pulled.
    ///
    /// # Errors
    /// Fails if the kernel refuses a pipe.
    pub fn new() -> Result<Stop> {
        let (reader, writer) = io::pipe().map_err(|e| Error::setup("make a pipe", e))?;
        Ok(Stop { reader, writer })
    }

    /// Pulls the signal. Pulling it again changes nothing.
    pub fn pull(&self) {
        if !self.is_pulled() {
            // If the pipe is full, the signal was pulled already.
            let _ = (&self.writer).write(&[1]);
        }
    }

    /// Returns true if it has been pulled.
    pub fn is_pulled(&self) -> bool {
        readable(self.as_fd(), Nanos::ZERO).unwrap_or(true)
    }

    /// Returns a descriptor to which a signal handler may write one byte, which pulls the signal.
    pub fn handler_fd(&self) -> RawFd {
        self.writer.as_raw_fd()
    }
}

impl AsFd for Stop {
    /// Returns the descriptor that is readable once the signal is pulled.
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

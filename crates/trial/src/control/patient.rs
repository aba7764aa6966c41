//! Reading from a peer with a deadline for the whole message, which Ctrl-C interrupts.
//!
//! A read timeout is per call: a peer that sends a byte every few seconds would never exceed it.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::handover::readable;

use super::stream::Stream;

/// Longest time until Ctrl-C is noticed.
const GLANCE: Nanos = Nanos::from_millis(100);

/// Stream that is read until `deadline` at most, or until `stop` is set.
pub(crate) struct Patient<'a, S> {
    /// Stream to read from.
    pub(crate) stream: &'a S,
    /// Time by which the whole message must have been read, on the monotonic clock.
    pub(crate) deadline: Nanos,
    /// Flag that Ctrl-C sets.
    pub(crate) stop: &'a AtomicBool,
}

impl<S: Stream> Read for Patient<'_, S>
where
    for<'a> &'a S: Read,
{
    /// Reads; fails with [`io::ErrorKind::TimedOut`] after the deadline, with
    /// [`io::ErrorKind::Other`] once `stop` is set.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            check(self.stop)?;
            let left = self.deadline - Monotonic.now();
            if left == Nanos::ZERO {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.stream.holds_more() || readable(self.stream.as_fd(), left.min(GLANCE))? {
                let mut stream = self.stream;
                match stream.read(buffer) {
                    // Part of an encrypted record; the deadline applies to the whole.
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
        }
    }
}

/// Sleeps for `time`, or until `stop` is set.
///
/// # Errors
/// [`io::ErrorKind::Other`] once `stop` is set.
pub(crate) fn sleep(time: Nanos, stop: &AtomicBool) -> io::Result<()> {
    let until = Monotonic.now() + time;
    loop {
        check(stop)?;
        match until - Monotonic.now() {
            Nanos::ZERO => return Ok(()),
            left => std::thread::sleep(left.min(GLANCE).into()),
        }
    }
}

fn check(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Acquire) { Err(io::Error::other("interrupted")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_drip_does_not_buy_time() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let stop = AtomicBool::new(false);
        let dripping = std::thread::spawn(move || {
            while far.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let deadline = Monotonic.now() + Nanos::from_millis(60);
        let mut patient = Patient { stream: &near, deadline, stop: &stop };
        let error = patient.read_exact(&mut [0; 1_000_000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(near);
        dripping.join().unwrap();
    }

    #[test]
    fn stop_ends_reading_and_sleeping() {
        let (near, _far) = UnixStream::pair().unwrap();
        let stop = AtomicBool::new(true);
        let deadline = Monotonic.now() + Nanos::from_secs(1_000);
        let error = Patient { stream: &near, deadline, stop: &stop }.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other);
        assert!(sleep(Nanos::from_secs(1_000), &stop).is_err());
    }
}

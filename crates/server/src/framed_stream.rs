//! Frames over a stream from a peer that may stop in the middle, send nonsense, or send too much.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use serde::Serialize;

use super::config::Patience;
use super::stop::Stop;
use super::wait;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_trial::control;
use deadheat_trial::control::stream::Stream;

/// End of a control connection, which never blocks: all waits also wait for the server's stop.
pub(super) struct FramedStream<S> {
    stream: S,
    frames: Frames,
}

/// Bounds of a sent message: the time by which the peer must have accepted all of it, and the stop that ends the wait
/// at once.
#[derive(Clone, Copy)]
pub(super) struct SendBounds<'a> {
    pub(super) deadline: Nanos,
    pub(super) stop: &'a Stop,
}

/// Writer that waits until the peer accepts bytes, with one deadline for all of them: a timeout per call would begin
/// anew with each accepted byte.
struct PatientWriter<'a, S> {
    stream: &'a S,
    until: SendBounds<'a>,
}

impl<S: Stream> PatientWriter<'_, S> {
    fn when_there_is_room<T>(&self, mut call: impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
        let SendBounds { deadline, stop } = self.until;
        loop {
            match call(self.stream) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !wait::for_room(self.stream.as_fd(), stop.as_fd(), deadline)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl<S: Stream> Write for PatientWriter<'_, S>
where
    for<'a> &'a S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.when_there_is_room(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.when_there_is_room(|mut stream| stream.flush())
    }
}

/// Result of waiting for a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameEvent {
    /// Frame: its JSON.
    Frame(Vec<u8>),
    /// Other descriptor: it is ready, and no frame arrived.
    Other,
    /// Silence: nothing arrived until the deadline.
    Silence,
    /// Stuck: a message began and did not end in time.
    Stuck,
    /// Gone: the peer has left; with the reason, if it is known.
    Gone(String),
    /// Nonsense: the peer's bytes are no frame.
    Nonsense(String),
    /// Stopped: the server must stop.
    Stopped,
}

impl<S: Stream> FramedStream<S>
where
    for<'a> &'a S: Read + Write,
{
    /// Creates a framed stream over `stream`, which is nonblocking, for frames of at most `largest` bytes.
    pub(super) fn new(stream: S, largest: usize) -> FramedStream<S> {
        FramedStream { stream, frames: Frames::new(largest) }
    }

    /// Returns the stream below.
    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Fails with the error of the stream; a peer that does not read until the deadline is a timeout.
    pub(super) fn send<T: Serialize>(&self, message: &T, until: SendBounds<'_>) -> io::Result<()> {
        control::write(&mut PatientWriter { stream: &self.stream, until }, message)
    }

    /// Sends a message that is already JSON.
    ///
    /// # Errors
    /// Fails like [`FramedStream::send`].
    pub(super) fn forward(&self, frame: &[u8], until: SendBounds<'_>) -> io::Result<()> {
        control::write_frame(&mut PatientWriter { stream: &self.stream, until }, frame)
    }

    /// Waits for a frame until `deadline`, and beside it for `stop` and for `other`.
    pub(super) fn receive(
        &mut self,
        stop: &Stop,
        deadline: Option<Nanos>,
        patience: &Patience,
        other: Option<BorrowedFd<'_>>,
    ) -> FrameEvent {
        loop {
            if let Some(event) = self.pending(Monotonic.now(), patience) {
                return event;
            }
            let mut fds = vec![stop.as_fd(), self.stream.as_fd()];
            fds.extend(other);
            let until = wait::earlier(deadline, self.stuck_at(patience));
            let ready = match wait::until(&fds, until) {
                Ok(ready) => ready,
                Err(e) => return FrameEvent::Gone(format!("cannot be waited for: {e}")),
            };
            if ready[0] {
                return FrameEvent::Stopped;
            }
            if ready[1] {
                if let Err(event) = self.fill(Monotonic.now()) {
                    return event;
                }
                continue;
            }
            if ready.get(2).copied().unwrap_or(false) {
                return FrameEvent::Other;
            }
            if deadline.is_some_and(|deadline| Monotonic.now() >= deadline) {
                return FrameEvent::Silence;
            }
        }
    }

    /// Returns the result that is available without waiting: a complete frame, nonsense, or being stuck.
    pub(super) fn pending(&mut self, now: Nanos, patience: &Patience) -> Option<FrameEvent> {
        while self.stream.holds_more() {
            if let Err(event) = self.fill(now) {
                return Some(event);
            }
        }
        match self.frames.next(now) {
            Ok(Some(frame)) => Some(FrameEvent::Frame(frame)),
            Err(why) => Some(FrameEvent::Nonsense(why)),
            Ok(None) => self.stuck_at(patience).filter(|at| now >= *at).map(|_| FrameEvent::Stuck),
        }
    }

    /// Returns the time by which a message that has begun must be complete.
    pub(super) fn stuck_at(&self, patience: &Patience) -> Option<Nanos> {
        self.frames.began.map(|began| began + patience.partial)
    }

    /// Reads once; the stream must be readable.
    pub(super) fn fill(&mut self, now: Nanos) -> Result<(), FrameEvent> {
        let mut buffer = [0; 16_384];
        match (&self.stream).read(&mut buffer) {
            Ok(0) if self.frames.began.is_some() => {
                Err(FrameEvent::Gone("left in the middle of a message".into()))
            }
            Ok(0) => Err(FrameEvent::Gone("left".into())),
            Ok(n) => {
                self.frames.push(&buffer[..n], now);
                Ok(())
            }
            Err(e) if is_passing(&e) => Ok(()),
            Err(e) => Err(FrameEvent::Gone(format!("left: {e}"))),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Splitter of bytes into frames; without stream and clock.
struct Frames {
    largest: usize,
    bytes: Vec<u8>,
    /// Time at which the incomplete frame began.
    began: Option<Nanos>,
}

impl Frames {
    fn new(largest: usize) -> Frames {
        Frames { largest, bytes: Vec::new(), began: None }
    }

    fn push(&mut self, bytes: &[u8], now: Nanos) {
        self.began.get_or_insert(now);
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame's JSON, if it is complete; fails if these bytes cannot be a frame.
    fn next(&mut self, now: Nanos) -> Result<Option<Vec<u8>>, String> {
        let Some(prefix) = self.bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len == 0 || len > self.largest {
            return Err(format!(
                "a control message of {len} bytes (1 to {} expected)",
                self.largest
            ));
        }
        if self.bytes.len() < 4 + len {
            return Ok(None);
        }
        let rest = self.bytes.split_off(4 + len);
        let mut frame = std::mem::replace(&mut self.bytes, rest);
        self.began = (!self.bytes.is_empty()).then_some(now);
        Ok(Some(frame.split_off(4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        control::write_frame(&mut wire, body).unwrap();
        wire
    }

    #[test]
    fn frames_are_cut_wherever_the_stream_was() {
        let wire = [frame(b"one"), frame(b"two2")].concat();
        for cut in 0..wire.len() {
            let mut frames = Frames::new(4);
            let mut got = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                frames.push(part, Nanos(1));
                while let Some(frame) = frames.next(Nanos(2)).unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, [b"one".to_vec(), b"two2".to_vec()], "cut at {cut}");
            assert_eq!(frames.began, None);
        }
    }

    #[test]
    fn too_large_and_empty_frames_are_no_frames() {
        let mut frames = Frames::new(4);
        frames.push(&[0, 0, 0, 5], Nanos(1));
        assert!(frames.next(Nanos(1)).unwrap_err().contains("of 5 bytes (1 to 4 expected)"));
        let mut frames = Frames::new(4);
        frames.push(&[0; 4], Nanos(1));
        assert!(frames.next(Nanos(1)).is_err());
    }

    #[test]
    fn a_message_that_stops_is_stuck_from_its_first_byte_on() {
        let (stream, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut line = FramedStream::new(stream, 100);
        let patience = Patience::default();
        assert_eq!(line.stuck_at(&patience), None);
        line.frames.push(&[0, 0], Nanos::from_secs(1));
        line.frames.push(&[0, 9, b'{'], Nanos::from_secs(9));
        assert_eq!(line.stuck_at(&patience), Some(Nanos::from_secs(11)));
        assert_eq!(line.pending(Nanos::from_secs(10), &patience), None);
        assert_eq!(line.pending(Nanos::from_secs(11), &patience), Some(FrameEvent::Stuck));
    }

    /// A peer that accepts single bytes now and then does not extend its time, and the server's stop waits for no peer.
    #[test]
    fn a_slow_reader_holds_no_writer_beyond_its_time_nor_beyond_the_stop() {
        let (stream, far) = std::os::unix::net::UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let line = FramedStream::new(stream, 100);
        let stop = Stop::new().unwrap();
        std::thread::scope(|scope| {
            let sipping = scope.spawn(|| {
                while matches!((&far).read(&mut [0; 512]), Ok(1..)) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            let began = Monotonic.now();
            let until = SendBounds { deadline: began + Nanos::from_millis(50), stop: &stop };
            let large = vec![b'x'; 1 << 20];
            let error = loop {
                if let Err(error) = line.forward(&large, until) {
                    break error;
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(Monotonic.now() >= until.deadline);
            stop.pull();
            let until = SendBounds { deadline: Nanos(u64::MAX), stop: &stop };
            while line.forward(&large, until).is_ok() {}
            far.shutdown(std::net::Shutdown::Both).unwrap();
            sipping.join().unwrap();
        });
    }
}

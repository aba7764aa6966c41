//! Output of a command: the first part is stored, the rest is read and counted, so that the command never waits for room in a
//! pipe.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadheat_base::process::spawn;

use deadheat_base::error::{Error, Result};
use deadheat_datapath::transport::commands::LineSign;

/// Bytes of each stream that are stored.
pub(super) const STORED: usize = 1 << 20;
/// Bytes of the end of a stream that a message shows.
const SHOWN: usize = 400;
/// Longest line that is compared with an expression.
const LONGEST_LINE: usize = 1 << 16;

/// Stream that a command writes.
#[derive(Default)]
struct PrintedStream {
    first: Vec<u8>,
    last: Vec<u8>,
    bytes: u64,
}

impl PrintedStream {
    fn take(&mut self, chunk: &[u8]) {
        let room = STORED.saturating_sub(self.first.len()).min(chunk.len());
        self.first.extend_from_slice(&chunk[..room]);
        self.bytes += chunk.len() as u64;
        self.last.extend_from_slice(chunk);
        let excess = self.last.len().saturating_sub(SHOWN);
        self.last.drain(..excess);
    }
}

/// Both streams of a command, which threads read.
pub(super) struct CommandOutput {
    streams: [Arc<Mutex<PrintedStream>>; 2],
    ended: Receiver<()>,
    /// Receiver of a message once a line has matched.
    matched: Receiver<()>,
    open: usize,
}

impl CommandOutput {
    /// Starts to read; returns the ends for the command's standard output and error. A line that matches `sign` is noted.
    ///
    /// # Errors
    /// [`Error::Setup`] without pipes or threads.
    pub(super) fn new(sign: Option<&LineSign>) -> Result<(CommandOutput, [PipeWriter; 2])> {
        let pipe = || io::pipe().map_err(|e| Error::setup("make a pipe", e));
        let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
        let streams: [Arc<Mutex<PrintedStream>>; 2] = Default::default();
        let (sender, ended) = channel();
        let (found, matched) = channel();
        for (from, stream) in [out, err].into_iter().zip(&streams) {
            let reader = StreamReader {
                stream: Arc::clone(stream),
                ended: sender.clone(),
                found: found.clone(),
                sign: sign.cloned(),
                line: Vec::new(),
            };
            spawn("output", move || reader.run(from))?;
        }
        Ok((CommandOutput { streams, ended, matched, open: 2 }, [out_end, err_end]))
    }

    /// Returns true if a line has matched.
    pub(super) fn has_matched(&self) -> bool {
        self.matched.try_recv().is_ok()
    }

    /// Waits until both streams have ended, at most for `longest` each; returns true if they have.
    pub(super) fn await_end(&mut self, longest: Duration) -> bool {
        while self.open > 0 && self.ended.recv_timeout(longest).is_ok() {
            self.open -= 1;
        }
        self.open == 0
    }

    /// Returns the first part of standard output (0) or standard error (1), and its whole length.
    pub(super) fn first(&self, stream: usize) -> (Vec<u8>, u64) {
        let stream = self.streams[stream].lock().unwrap_or_else(PoisonError::into_inner);
        (stream.first.clone(), stream.bytes)
    }

    /// Returns the bytes printed so far.
    pub(super) fn bytes(&self) -> u64 {
        (0..2).map(|stream| self.first_bytes(stream)).sum()
    }

    fn first_bytes(&self, stream: usize) -> u64 {
        self.streams[stream].lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Returns its last output in words, standard error first, as it has the reason of a failure.
    pub(super) fn last_words(&self) -> String {
        let of = |stream: usize| {
            let stream = self.streams[stream].lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&stream.last).trim().to_owned()
        };
        let all: Vec<String> = [of(1), of(0)].into_iter().filter(|text| !text.is_empty()).collect();
        if all.is_empty() {
            " and printed nothing".to_owned()
        } else {
            format!("; its last words: {}", all.join(" … "))
        }
    }
}

/// Reader of one stream.
struct StreamReader {
    stream: Arc<Mutex<PrintedStream>>,
    ended: Sender<()>,
    found: Sender<()>,
    sign: Option<LineSign>,
    line: Vec<u8>,
}

impl StreamReader {
    fn run(mut self, mut from: PipeReader) {
        let mut chunk = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            self.stream.lock().unwrap_or_else(PoisonError::into_inner).take(&chunk[..count]);
            self.look(&chunk[..count]);
        }
        self.look(b"\n");
        let _ = self.ended.send(());
    }

    /// Compares each line that is whole by now with the expression, until one matches. The rest of a long line is left out.
    fn look(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let Some(sign) = &self.sign else { return };
            let (text, is_whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LONGEST_LINE.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            if is_whole && sign.is_match(&self.line) {
                let _ = self.found.send(());
                self.sign = None;
            }
            if is_whole {
                self.line.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_first_part_is_stored_the_rest_is_counted_and_the_last_is_shown() {
        let (mut output, [mut out, err]) = CommandOutput::new(None).unwrap();
        let part = vec![b'x'; 1 << 20];
        out.write_all(b"first ").unwrap();
        (0..8).for_each(|_| out.write_all(&part).unwrap());
        out.write_all(b" last").unwrap();
        drop((out, err));
        assert!(output.await_end(Duration::from_secs(10)));
        let (first, bytes) = output.first(0);
        assert_eq!((first.len(), bytes), (STORED, 11 + (8 << 20)));
        assert!(first.starts_with(b"first x"));
        assert!(output.last_words().ends_with("x last"), "{}", output.last_words());
        assert_eq!((output.first(1).1, output.bytes()), (0, bytes));
    }

    #[test]
    fn a_line_is_found_once_it_is_whole_wherever_reads_cut_it() {
        let sign = LineSign::new("^ready on [0-9]+$").unwrap();
        let (output, [mut out, mut err]) = CommandOutput::new(Some(&sign)).unwrap();
        out.write_all(b"rea").unwrap();
        err.write_all(b"not ready on 5\n").unwrap();
        out.write_all(b"dy on 51\nmore").unwrap();
        assert!(output.matched.recv_timeout(Duration::from_secs(10)).is_ok());
        assert!(!output.has_matched(), "one match is enough");
    }

    #[test]
    fn a_stream_that_somebody_holds_open_has_not_ended() {
        let (mut output, [out, err]) = CommandOutput::new(None).unwrap();
        drop(out);
        assert!(!output.await_end(Duration::from_millis(20)));
        assert_eq!(output.last_words(), " and printed nothing");
        drop(err);
        assert!(output.await_end(Duration::from_secs(10)));
    }
}

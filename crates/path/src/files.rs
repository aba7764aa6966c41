//! Files that a path names: recordings, lists of packets, tables of offsets.

use std::path::Path;
use std::sync::Arc;

use super::trace::{Format, Mode, Trace, content};
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign;

/// Size of the largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// Function that reads the bytes of a named file.
pub type ReadFile<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>>;

/// Reads a regular file of at most 64 MiB.
///
/// # Errors
/// [`Error::Setup`] where it cannot be read; [`Error::Data`] where it is not a regular file, or larger.
pub fn read(file: &str) -> Result<Vec<u8>> {
    foreign::file::read(Path::new(file), LARGEST)
}

/// Files of one path, with each trace read once.
pub(super) struct Files<'r> {
    read: ReadFile<'r>,
    traces: Vec<(Option<Mode>, Format, Arc<Trace>)>,
}

impl<'r> Files<'r> {
    pub(super) fn new(read: ReadFile<'r>) -> Files<'r> {
        Files { read, traces: Vec::new() }
    }

    /// Reads a file as text.
    pub(super) fn text(&mut self, file: &str) -> Result<String> {
        String::from_utf8((self.read)(file)?)
            .map_err(|_| Error::data(file, "is not text (UTF-8); give one with numbers in lines"))
    }

    /// Reads a file as a trace, and returns its format, too.
    pub(super) fn trace(&mut self, file: &str, mode: Option<Mode>) -> Result<(Arc<Trace>, Format)> {
        let known = self.traces.iter().find(|(how, _, trace)| trace.file == file && *how == mode);
        if let Some((_, format, trace)) = known {
            return Ok((Arc::clone(trace), *format));
        }
        let bytes = (self.read)(file)?;
        let trace = Arc::new(Trace::from_bytes(file, &bytes, mode)?);
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let format = Format::of(content(text).next().map_or("", |(_, line)| line));
        self.traces.push((mode, format, Arc::clone(&trace)));
        Ok((trace, format))
    }
}

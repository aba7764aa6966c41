//! Memory that engines send from, filled with [`super::buffer::pattern`] again and again: as
//! anonymous memory or as a file in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use super::buffer::{PERIOD, pattern};

pub(crate) use deadheat_base::memory::Region;

/// Maps `len` bytes of the pattern, repeated.
///
/// # Errors
/// The error of mmap(2).
pub(super) fn patterned(len: usize) -> io::Result<Region> {
    let mut region = Region::zeroed(len)?;
    let pattern = pattern();
    for part in region.chunks_mut(PERIOD) {
        part.copy_from_slice(&pattern[..part.len()]);
    }
    Ok(region)
}

/// A file in memory (memfd_create(2)) that holds the pattern, repeated.
#[derive(Debug)]
pub(super) struct PatternFile {
    file: File,
    len: usize,
}

impl PatternFile {
    /// Creates a file of at least `len` bytes.
    ///
    /// # Errors
    /// The error of memfd_create(2) or write(2).
    pub(super) fn new(len: usize) -> io::Result<PatternFile> {
        // SAFETY: the name is a NUL-terminated string.
        let fd = unsafe { libc::memfd_create(c"deadheat-pattern".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and owned by nobody else.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let (pattern, periods) = (pattern(), len.div_ceil(PERIOD));
        for _ in 0..periods {
            file.write_all(&pattern)?;
        }
        Ok(PatternFile { file, len: periods * PERIOD })
    }

    /// Returns its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl AsFd for PatternFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn both_hold_the_pattern_again_and_again() {
        let wanted: Vec<u8> = pattern().iter().copied().cycle().take(2 * PERIOD + 4097).collect();
        assert!(*patterned(wanted.len()).unwrap() == *wanted);
        let mut file = PatternFile::new(wanted.len()).unwrap();
        assert_eq!(file.len(), 3 * PERIOD);
        let mut held = Vec::new();
        file.file.rewind().unwrap();
        file.file.read_to_end(&mut held).unwrap();
        assert!(held[..wanted.len()] == wanted);
        assert_eq!(held.len(), file.len());
    }
}

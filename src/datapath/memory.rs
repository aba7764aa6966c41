//! Memory that engines send from: pages of their own, filled with [`super::buffer::pattern`] again
//! and again, as anonymous memory or as a file in memory.

use std::fs::File;
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use super::buffer::{PERIOD, pattern};

/// The least that a page is, in bytes.
const PAGE: usize = 4_096;

/// Anonymous memory (mmap(2)).
///
/// Not from the allocator: what zero-copy calls still refer to when this is dropped stays as it was
/// until the kernel is done with it, because nobody else gets these pages before.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the region alone, as that of a Box does.
unsafe impl Send for Region {}
// SAFETY: a shared region is only read.
unsafe impl Sync for Region {}

impl Region {
    /// `len` bytes of zero, at least one, all of them in place (`MAP_POPULATE`).
    ///
    /// # Errors
    /// What mmap(2) says.
    pub(super) fn zeroed(len: usize) -> io::Result<Region> {
        Region::mapped(len, libc::MAP_POPULATE)
    }

    /// `len` bytes of zero, at least one, of which each page takes memory from when it is first
    /// touched (`MAP_NORESERVE`).
    ///
    /// # Errors
    /// What mmap(2) says.
    pub(crate) fn reserved(len: usize) -> io::Result<Region> {
        Region::mapped(len, libc::MAP_NORESERVE)
    }

    /// Puts the first `len` bytes in place, which are zero afterwards on each page's first byte.
    pub(crate) fn populate(&mut self, len: usize) {
        let len = len.min(self.len);
        self[..len].iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
    }

    fn mapped(len: usize, flags: libc::c_int) -> io::Result<Region> {
        let len = len.max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { start, len })
    }

    /// `len` bytes of the pattern, repeated.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub(super) fn patterned(len: usize) -> io::Result<Region> {
        let mut region = Region::zeroed(len)?;
        let pattern = pattern();
        for part in region.chunks_mut(PERIOD) {
            part.copy_from_slice(&pattern[..part.len()]);
        }
        Ok(region)
    }
}

impl Deref for Region {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable bytes for as long as the region lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` writable bytes, and the region is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this start and length, and no slice of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A file in memory (memfd_create(2)) that holds the pattern, repeated.
#[derive(Debug)]
pub(super) struct PatternFile {
    file: File,
    len: usize,
}

impl PatternFile {
    /// At least `len` bytes.
    ///
    /// # Errors
    /// What memfd_create(2) or write(2) says.
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

    /// Its length in bytes.
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
        assert!(*Region::patterned(wanted.len()).unwrap() == *wanted);
        let mut file = PatternFile::new(wanted.len()).unwrap();
        assert_eq!(file.len(), 3 * PERIOD);
        let mut held = Vec::new();
        file.file.rewind().unwrap();
        file.file.read_to_end(&mut held).unwrap();
        assert!(held[..wanted.len()] == wanted);
        assert_eq!(held.len(), file.len());
    }

    #[test]
    fn a_reserved_region_is_zero_wherever_it_is_touched() {
        let mut region = Region::reserved(1 << 33).unwrap();
        region.populate(3 * PAGE);
        region[(1 << 33) - 1] = 1;
        assert_eq!((region[0], region[1 << 30], region[(1 << 33) - 1]), (0, 0, 1));
        Region::reserved(10).unwrap().populate(1 << 30);
    }

    #[test]
    fn a_region_starts_on_a_page_and_is_its_own() {
        let mut region = Region::zeroed(5000).unwrap();
        assert_eq!(region.as_ptr() as usize % 4096, 0);
        region[4999] = 7;
        assert_eq!(region.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 7);
    }
}

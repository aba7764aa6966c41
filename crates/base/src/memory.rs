//! Memory in separate pages, directly from the kernel.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Least size of a page, in bytes.
const PAGE: usize = 4_096;

/// Anonymous memory (mmap(2)).
///
/// It does not come from the allocator: pages that zero-copy calls still refer to when this is dropped remain unchanged
/// until the kernel is done with them, because they are not reused before.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the region alone, as that of a Box does.
unsafe impl Send for Region {}
// SAFETY: a shared region is only read.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes of zero, at least one, all of them in memory (`MAP_POPULATE`).
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn zeroed(len: usize) -> io::Result<Region> {
        Region::mapped(len, libc::MAP_POPULATE)
    }

    /// Maps `len` bytes of zero, at least one; each page takes memory once it is first touched (`MAP_NORESERVE`).
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn reserved(len: usize) -> io::Result<Region> {
        Region::mapped(len, libc::MAP_NORESERVE)
    }

    /// Brings the first `len` bytes into memory; afterwards the first byte of each page is zero.
    pub fn populate(&mut self, len: usize) {
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
        // SAFETY: the mapping was made with this start and length, and no slice of it exists any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Memory that engines send from, filled with [`super::buffer::pattern`] again and again: as anonymous memory or as
//! a file in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::buffer::{PERIOD, pattern};

pub use deadheat_base::memory::Region;

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

/// File in memory (memfd_create(2)) that holds the pattern, repeated.
///
/// It is in large pages where the kernel makes them: a segment of a socket has room for 17 pieces, which are 64 KiB
/// of one large page, and a large page is counted once.
#[derive(Debug)]
pub(super) struct PatternFile {
    file: File,
    len: usize,
    /// Description of the size of its pages, and why they are no larger.
    pages: String,
    /// True once an engine sent from it.
    is_used: bool,
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
        // SAFETY: the descriptor is fresh and has no other owner.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let large = large_page();
        let unit = large.as_ref().map_or(PERIOD, |size| size.next_multiple_of(PERIOD));
        let (pattern, len) = (pattern(), len.next_multiple_of(unit));
        for _ in 0..len / PERIOD {
            file.write_all(&pattern)?;
        }
        let pages = match large.and_then(|size| collapse(&file, len, size).map(|()| size)) {
            Ok(size) => format!("pages of {} KiB", size >> 10),
            Err(why) => format!("pages of 4 KiB: the kernel makes no larger ones, {why}"),
        };
        Ok(PatternFile { file, len, pages, is_used: false })
    }

    /// Returns the file, to send from.
    pub(super) fn lend(&mut self) -> BorrowedFd<'_> {
        self.is_used = true;
        self.file.as_fd()
    }

    /// Describes its pages; `None` if no engine sent from it.
    pub(super) fn pages(&self) -> Option<&str> {
        self.is_used.then_some(&self.pages)
    }

    /// Returns its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// Returns the size in bytes of a large page, which the kernel may put in place of small ones
/// (Documentation/admin-guide/mm/transhuge.rst).
fn large_page() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")?;
    let size = text.trim().parse::<usize>().ok().filter(|size| size.is_power_of_two());
    size.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Makes the kernel move a file in memory into pages of `large` bytes, of which `len` is a multiple: madvise(2)
/// with `MADV_COLLAPSE` (Linux 6.1), which needs no setting of the host. The pages stay when the mapping is gone.
fn collapse(file: &File, len: usize, large: usize) -> io::Result<()> {
    const MADV_COLLAPSE: libc::c_int = 25;
    let (shared, anonymous) = (libc::MAP_SHARED, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let room = len + large;
    // SAFETY: a fresh mapping at an address of the kernel's choice, which nothing may touch: it reserves addresses
    // for the next.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, anonymous, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let aligned = start.wrapping_byte_add(start.addr().next_multiple_of(large) - start.addr());
    // SAFETY: `aligned` and the `len` bytes from it on lie in the reserved addresses, which are ours and hold
    // nothing. No reference to the mapping is ever made; the advice changes no content.
    let done = unsafe {
        let flags = shared | libc::MAP_FIXED;
        let mapped = libc::mmap(aligned, len, libc::PROT_READ, flags, file.as_raw_fd(), 0);
        if mapped == libc::MAP_FAILED { -1 } else { libc::madvise(mapped, len, MADV_COLLAPSE) }
    };
    let result = if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the addresses were mapped with this start and length, and no slice of them exists.
    unsafe { libc::munmap(start, room) };
    result
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
        assert!(file.len() >= 3 * PERIOD && file.len().is_multiple_of(PERIOD));
        let mut held = Vec::new();
        file.file.rewind().unwrap();
        file.file.read_to_end(&mut held).unwrap();
        assert!(held[..wanted.len()] == wanted);
        assert_eq!(held.len(), file.len());
    }

    #[test]
    fn a_file_says_what_pages_it_is_of_once_something_was_sent_from_it() {
        let mut file = PatternFile::new(PERIOD).unwrap();
        assert_eq!(file.pages(), None);
        file.lend();
        let said = file.pages().unwrap();
        match large_page() {
            Ok(size) if said.contains(&format!("{} KiB", size >> 10)) => {
                assert_eq!(file.len(), size.next_multiple_of(PERIOD));
            }
            _ => assert!(said.starts_with("pages of 4 KiB: the kernel"), "{said}"),
        }
    }
}

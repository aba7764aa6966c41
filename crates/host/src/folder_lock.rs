//! Locks on folders, which the kernel releases when their process ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Lock on a folder (flock(2)).
#[derive(Debug)]
pub struct FolderLock {
    _folder: File,
}

impl FolderLock {
    /// Locks an existing folder; `None` if another lock is on it. On a file system without flock(2) there is no lock, and no
    /// error.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn take(folder: &Path) -> io::Result<Option<FolderLock>> {
        let open = File::open(folder)?;
        // SAFETY: flock(2) on a live descriptor, without pointers.
        let refused = unsafe { libc::flock(open.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0;
        if refused && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
            Ok(None)
        } else {
            Ok(Some(FolderLock { _folder: open }))
        }
    }
}

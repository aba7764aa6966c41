//! A directory that one study at a time is run into.

use std::fs::File;
use std::io::{Error as IoError, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::{Error, Result};

/// Lock held while a study is run into a directory. It is a lock of flock(2), which ends with the
/// process, however that ends.
#[derive(Debug)]
pub(super) struct StudyLock {
    _dir: File,
}

impl StudyLock {
    /// Holds a directory that is there. A file system without such locks has none, and is not
    /// refused.
    ///
    /// # Errors
    /// [`Error::Usage`] where another study is being run into it; [`Error::Setup`] where it cannot be
    /// opened.
    pub(super) fn take(dir: &Path) -> Result<StudyLock> {
        let name = dir.display();
        let open = File::open(dir)
            .map_err(|error| Error::setup(format!("open the directory {name}"), error))?;
        // SAFETY: flock(2) on a live descriptor, without pointers.
        let refused = unsafe { libc::flock(open.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0;
        if refused && IoError::last_os_error().kind() == ErrorKind::WouldBlock {
            return Err(Error::usage(format!(
                "a study is being run into {name} already; wait for its end, or give another \
                 directory with -o"
            )));
        }
        Ok(StudyLock { _dir: open })
    }
}

//! Lock on the directory of a study's run, for one run at a time.

use std::fs::File;
use std::io::{Error as IoError, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::{Error, Result};

/// Lock held while a study runs into a directory. It is a flock(2) lock, which the kernel releases when the process
/// ends.
#[derive(Debug)]
pub(super) struct StudyLock {
    _dir: File,
}

impl StudyLock {
    /// Locks an existing directory. On a file system without flock(2) there is no lock, and no error.
    ///
    /// # Errors
    /// [`Error::Usage`] if another study is running into it; [`Error::Setup`] if it cannot be opened.
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

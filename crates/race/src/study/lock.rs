//! Lock on the directory of a study's run, for one run at a time.

use std::path::Path;

use deadheat_base::error::{Error, Result};
use deadheat_host::folder_lock::FolderLock;

/// Locks an existing directory while a study runs into it.
///
/// # Errors
/// [`Error::Usage`] if another study is running into it; [`Error::Setup`] if it cannot be opened.
pub(super) fn lock(dir: &Path) -> Result<FolderLock> {
    let name = dir.display();
    let lock = FolderLock::take(dir)
        .map_err(|error| Error::setup(format!("open the directory {name}"), error))?;
    lock.ok_or_else(|| {
        Error::usage(format!(
            "a study is being run into {name} already; wait for its end, or give another \
             directory with -o"
        ))
    })
}

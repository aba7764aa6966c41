//! Folders of temporary files: of a command in one trial, and of the programs of a race.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use deadheat_base::error::{Error, Result};
use deadheat_base::rng::fresh_seed;
use deadheat_base::units::hex::hex;
use deadheat_host::folder_lock::FolderLock;
use deadheat_records::commands::ReceivedContent;

/// Beginning of the name of a folder for a command.
const COMMAND: &str = "deadheat-command-";
/// Beginning of the name of a folder for programs.
const PROGRAMS: &str = "deadheat-programs-";
/// Least age of a folder for programs that is removed for want of an owner: a new one is locked by then.
const UNLOCKED: Duration = Duration::from_secs(60);

/// Fresh folder, which is removed with all that is in it.
#[derive(Debug)]
pub(super) struct OwnFolder(PathBuf);

impl OwnFolder {
    /// Creates one, for this user alone.
    ///
    /// # Errors
    /// [`Error::Setup`] with its name.
    pub(super) fn fresh() -> Result<OwnFolder> {
        OwnFolder::named(COMMAND)
    }

    fn named(beginning: &str) -> Result<OwnFolder> {
        let name = format!("{beginning}{:016x}", fresh_seed()?);
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Error::setup(format!("create {}", path.display()), e))?;
        Ok(OwnFolder(path))
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns length and digest of a file in it, unless `goes_on` becomes false meanwhile.
    ///
    /// # Errors
    /// The failed operation.
    pub(super) fn content(
        &self,
        name: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<ReceivedContent> {
        digest(&self.0.join(name), goes_on)
    }

    /// Returns the first `most` bytes of a file in it.
    ///
    /// # Errors
    /// The failed operation.
    pub(super) fn text(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        regular(&self.0.join(name))?.take(most).read_to_end(&mut text)?;
        Ok(text)
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Fresh folder for programs, which is locked while it is in use. A process that is killed leaves it behind, and the next one
/// removes it.
#[derive(Debug)]
pub(super) struct CopyFolder {
    folder: OwnFolder,
    _lock: Option<FolderLock>,
}

impl CopyFolder {
    /// Creates one, for this user alone, and removes folders that were left behind.
    ///
    /// # Errors
    /// As of [`OwnFolder::fresh`].
    pub(super) fn fresh() -> Result<CopyFolder> {
        remove_left_behind(&std::env::temp_dir(), UNLOCKED);
        let folder = OwnFolder::named(PROGRAMS)?;
        let lock = FolderLock::take(folder.path());
        let lock =
            lock.map_err(|e| Error::setup(format!("open {}", folder.path().display()), e))?;
        Ok(CopyFolder { folder, _lock: lock })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders for programs of this user that no process has locked, and that are older than `age`.
fn remove_left_behind(temporary: &Path, age: Duration) {
    // SAFETY: the call has no arguments.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_bytes().starts_with(PROGRAMS.as_bytes());
        let Some(facts) = is_one.then(|| entry.metadata().ok()).flatten() else { continue };
        let is_old = || facts.modified().ok()?.elapsed().ok().map(|elapsed| elapsed >= age);
        if facts.is_dir()
            && facts.uid() == user
            && is_old() == Some(true)
            && let Ok(Some(_lock)) = FolderLock::take(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns true unless the file system of a folder runs no programs (the mount option noexec).
pub(super) fn runs_programs(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return true };
    // SAFETY: statvfs is plain integers, for which all-zero is a valid value.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a live C string, and `facts` is a live statvfs.
    let found = unsafe { libc::statvfs(name.as_ptr(), &raw mut facts) };
    found != 0 || facts.f_flag & libc::ST_NOEXEC == 0
}

/// Opens a file that is neither a pipe nor a device, whose reader would wait.
fn regular(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// Returns length and digest of a file, unless `goes_on` becomes false meanwhile: a long file takes a while.
///
/// # Errors
/// The failed operation.
pub(super) fn digest(path: &Path, goes_on: &dyn Fn() -> bool) -> io::Result<ReceivedContent> {
    let mut file = regular(path)?;
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; 1 << 18]);
    loop {
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut chunk)? {
            0 => break,
            count => {
                hash.update(&chunk[..count]);
                bytes += count as u64;
            }
        }
    }
    Ok(ReceivedContent { bytes, sha256: hex(&hash.finalize()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_for_programs_that_was_left_behind_is_removed_and_one_in_use_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let [used, left, other] =
            ["deadheat-programs-1", "deadheat-programs-2", "other"].map(|name| {
                let folder = temporary.path().join(name);
                fs::create_dir_all(folder.join("0000")).unwrap();
                folder
            });
        let lock = FolderLock::take(&used).unwrap().unwrap();
        remove_left_behind(temporary.path(), Duration::from_secs(60));
        assert!(left.exists(), "it may be about to be locked");
        remove_left_behind(temporary.path(), Duration::ZERO);
        assert!(used.exists() && !left.exists() && other.exists());
        drop(lock);
        remove_left_behind(temporary.path(), Duration::ZERO);
        assert!(!used.exists());
    }

    #[test]
    fn a_folder_is_fresh_and_is_removed_with_all_in_it() {
        let folder = OwnFolder::fresh().unwrap();
        let path = folder.path().to_owned();
        assert_ne!(path, OwnFolder::fresh().unwrap().path());
        fs::write(path.join("a"), "abc").unwrap();
        let content = folder.content("a", &|| true).unwrap();
        assert_eq!(content.bytes, 3);
        assert!(content.sha256.starts_with("ba7816bf8f01cfea"), "FIPS 180-4, abc");
        assert_eq!(folder.text("a", 2).unwrap(), b"ab");
        assert!(folder.content("b", &|| true).is_err() && folder.text(".", 2).is_err());
        assert!(folder.content("a", &|| false).is_err(), "it is not wanted any more");
        drop(folder);
        assert!(!path.exists());
    }
}

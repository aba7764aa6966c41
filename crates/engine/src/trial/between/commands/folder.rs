//! Folder of a command's own, for one trial.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::ReceivedContent;
use crate::error::{Error, Result};
use crate::rng::fresh_seed;
use crate::units::hex::hex;

/// Fresh folder, which is removed with all that is in it.
pub(super) struct OwnFolder(PathBuf);

impl OwnFolder {
    /// Creates one, for this user alone.
    ///
    /// # Errors
    /// [`Error::Setup`] with its name.
    pub(super) fn fresh() -> Result<OwnFolder> {
        let name = format!("deadheat-command-{:016x}", fresh_seed()?);
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

/// Opens a file that is neither a pipe nor a device, whose reader would wait.
fn regular(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no regular file")),
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

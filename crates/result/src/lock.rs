//! Lock that allows one race, or survey of a line, per file, from its start to its end.
//!
//! A lock on the file itself would stay on the inode that a save replaces (rename(2)). The lock is on the name
//! instead: a socket in the abstract Unix namespace, which ends with the process and leaves no file (unix(7)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::{fs, io};

use sha2::{Digest, Sha256};

use deadheat_base::error::{Error, Result};
use deadheat_base::units::hex::hex;

/// Lock on a file, so that no other race saves to it.
#[derive(Debug)]
pub struct FileLock {
    _name: UnixListener,
}

/// Locks the file to which a race is saved.
///
/// # Errors
/// [`Error::Usage`] if another race on this host has the lock; [`Error::Setup`] if its directory cannot be read.
pub fn lock(file: &Path) -> Result<FileLock> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |e| Error::setup(format!("hold {}", file.display()), e);
    let place = fs::metadata(directory).map_err(failed)?;
    let mut name = Sha256::new();
    name.update(place.dev().to_be_bytes());
    name.update(place.ino().to_be_bytes());
    name.update(file.file_name().unwrap_or_default().as_encoded_bytes());
    let digest = hex(&name.finalize());
    let address = SocketAddr::from_abstract_name(format!("deadheat-file-{digest}"));
    match UnixListener::bind_addr(&address.map_err(failed)?) {
        Ok(name) => Ok(FileLock { _name: name }),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(Error::usage(format!(
            "another race or survey that runs now saves to {}; give this one another file with -o",
            file.display()
        ))),
        Err(e) => Err(failed(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_held_by_one_and_free_again_after() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("race.json");
        let first = lock(&file).unwrap();
        let why = lock(&dir.path().join(".").join("race.json")).unwrap_err().to_string();
        assert!(
            why.contains("race.json") && why.contains("another race or survey that runs now"),
            "{why}"
        );
        lock(&dir.path().join("other.json")).unwrap();
        drop(first);
        lock(&file).unwrap();
        assert!(lock(Path::new("/nowhere/race.json")).is_err());
    }
}

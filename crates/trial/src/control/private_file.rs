//! Files with secrets, that is keys and passwords: they are short, and others should not read them.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Largest size of such a file in bytes: any key in PEM is smaller.
const LARGEST: u64 = 64 << 10;

/// Reads a file with a secret.
///
/// # Errors
/// The error of open(2) or read(2); `InvalidData` if it is a device, or longer than any secret.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    let opened = File::open(file)?;
    let kind = opened.metadata()?.file_type();
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if kind.is_char_device() || kind.is_block_device() {
        return wrong("it is a device, and not a file".into());
    }
    let mut content = Vec::new();
    // One byte more than allowed reveals a file that is too long, even if its length is unknown.
    opened.take(LARGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return wrong(format!("it is longer than {} KiB; no secret or key is", LARGEST >> 10));
    }
    Ok(content)
}

/// Returns a warning if every user of this host may read a file with a secret.
pub fn exposed(file: &Path) -> Option<String> {
    let mode = std::fs::metadata(file).ok().filter(Metadata::is_file)?.mode() & 0o7777;
    (mode & 0o004 != 0).then(|| {
        let file = file.display();
        format!("every user of this host may read {file} (mode {mode:04o}); chmod 600 {file}")
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_never_ends_is_not_read() {
        let why = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(why.contains("a device, and not a file"), "{why}");
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("long");
        fs::write(&long, vec![b'x'; LARGEST as usize]).unwrap();
        assert_eq!(read(&long).unwrap().len() as u64, LARGEST);
        fs::write(&long, vec![b'x'; LARGEST as usize + 1]).unwrap();
        let why = read(&long).unwrap_err().to_string();
        assert!(why.contains("longer than 64 KiB"), "{why}");
    }

    #[test]
    fn a_secret_that_everyone_may_read_is_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        fs::write(&file, "x").unwrap();
        for (mode, is_exposed) in [(0o600, false), (0o640, false), (0o644, true), (0o444, true)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(exposed(&file).is_some(), is_exposed, "{mode:o}");
        }
        let said = exposed(&file).unwrap();
        assert!(said.contains("mode 0444") && said.contains("chmod 600"), "{said}");
        assert_eq!(exposed(&dir.path().join("none")), None);
    }
}

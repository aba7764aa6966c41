//! Foreign files: only regular ones are opened, and their size is checked before they are read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Byte order mark of UTF-8, which some editors write before a text (Unicode 23.8); it is not part of the text.
pub const MARK: char = '\u{feff}';

/// File systems with files that the kernel generates on each read: a read may block for ever, and change the host.
/// Numbers of linux/magic.h: procfs, sysfs, debugfs, tracefs.
const MADE_UP: [u64; 4] = [0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163];

/// Opens a regular file, without blocking: a pipe is refused.
///
/// # Errors
/// [`Error::Setup`] if it cannot be opened; [`Error::Data`] for a directory, a device, a pipe, or a file that the
/// kernel generates.
pub fn open(file: &Path) -> Result<File> {
    let name = || file.display().to_string();
    let failed = |source: io::Error| {
        let advice = match source.kind() {
            io::ErrorKind::NotFound => "no such file, from the directory that this program runs in",
            _ => "",
        };
        Error::setup_advice(format!("read {}", name()), source, advice)
    };
    let not_regular =
        || Error::data(name(), "is not a regular file; give one that can be read again");
    // The type is checked before the open, because opening a device may have effects, and again after it, because the
    // file may have been replaced.
    if !std::fs::metadata(file).map_err(failed)?.is_file() {
        return Err(not_regular());
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
    let is_file = opened.metadata().map_err(failed)?.is_file();
    if !is_file || is_made_up(&opened).map_err(failed)? {
        return Err(not_regular());
    }
    Ok(opened)
}

/// Reads a regular file of at most `largest` bytes. A larger one is refused before any of it is read.
///
/// # Errors
/// As [`open`]; [`Error::Data`] for a larger file.
pub fn read(file: &Path, largest: u64) -> Result<Vec<u8>> {
    let failed = |source| Error::setup(format!("read {}", file.display()), source);
    let too_large = || {
        let size = if largest >= 1 << 20 {
            format!("{} MiB", largest >> 20)
        } else {
            format!("{} KiB", largest >> 10)
        };
        Error::data(file.display().to_string(), format!("is larger than {size}"))
    };
    let opened = open(file)?;
    let length = opened.metadata().map_err(failed)?.len();
    if length > largest {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow meanwhile.
    opened.take(largest + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > largest { Err(too_large()) } else { Ok(bytes) }
}

/// Removes a byte order mark in front of a text.
pub fn unmarked(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Returns true if the kernel generates the file on each read.
fn is_made_up(file: &File) -> io::Result<bool> {
    // SAFETY: an all-zero statfs is valid, and the call fills in this one for a live descriptor.
    let (done, about) = unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &raw mut about), about)
    };
    match done {
        0 => Ok(MADE_UP.contains(&(about.f_type as u64))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = format!("deadheat-foreign-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(folder);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_regular_files_are_read_and_none_is_waited_for() {
        let folder = Folder::new("regular");
        let pipe = folder.0.join("pipe");
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for file in [&pipe, &folder.0, Path::new("/dev/zero"), Path::new("/proc/self/status")] {
            let said = read(file, 1 << 10).unwrap_err().to_string();
            assert!(said.contains("not a regular file"), "{said}");
        }
        let said = read(&folder.0.join("none"), 1 << 10).unwrap_err().to_string();
        assert!(said.contains("no such file"), "{said}");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let folder = Folder::new("sparse");
        let file = folder.0.join("sparse");
        let sparse = File::create(&file).unwrap();
        // No memory and no time would do to read it.
        sparse.set_len(1 << 40).unwrap();
        let said = read(&file, 1 << 20).unwrap_err().to_string();
        assert!(said.contains("larger than 1 MiB"), "{said}");
        sparse.set_len(5).unwrap();
        assert_eq!(read(&file, 5).unwrap(), [0; 5]);
        assert_eq!(unmarked("\u{feff}a"), "a");
    }
}

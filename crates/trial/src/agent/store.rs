//! File that one flow of a trial reads or writes, opened by an agent. The agent neither creates nor truncates it: a
//! file to be written was created by the process that started the trial.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::{FileAt, Store};
use deadheat_contract::workload::{NamedFile, Purpose};
use deadheat_datapath::datapath::file::{read_at, write_at};

/// Returns the name of a file until it is complete and known to be correct.
pub fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Open file and its name.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    path: PathBuf,
}

impl OpenFile {
    /// Opens the file that a workload names for reading, or its partial file for writing.
    ///
    /// # Errors
    /// [`Error::Data`] with the file's name and the system's reason.
    pub fn open(named: &NamedFile) -> Result<OpenFile> {
        let mut options = OpenOptions::new();
        let (path, options) = match named.purpose {
            Purpose::Read => (PathBuf::from(&named.path), options.read(true)),
            // Some engines map the file that they write, or read it back.
            Purpose::Write => (partial(Path::new(&named.path)), options.read(true).write(true)),
        };
        match options.open(&path) {
            Ok(file) => Ok(OpenFile { file, path }),
            Err(error) => Err(failed(&path, &format!("it cannot be opened: {error}"))),
        }
    }
}

impl Store for OpenFile {
    fn at(&self, offset: u64) -> FileAt<'_> {
        FileAt { file: self.file.as_fd(), offset }
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        match read_at(self.at(offset), into) {
            Ok(got) if got == into.len() => Ok(()),
            Ok(got) => Err(failed(
                &self.path,
                &format!(
                    "it ends at byte {}, and was longer when the trial began",
                    offset + got as u64
                ),
            )),
            Err(error) => Err(failed(&self.path, &format!("byte {offset} is unreadable: {error}"))),
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_at(self.at(offset), bytes).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; free space, or give another sink"
                }
                _ => "",
            };
            failed(&self.path, &format!("byte {offset} cannot be written: {error}{advice}"))
        })
    }
}

fn failed(path: &Path, what: &str) -> Error {
    Error::data(path.display().to_string(), what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::contract::Side;

    fn named(purpose: Purpose, path: &Path) -> NamedFile {
        NamedFile { side: Side::Near, purpose, key: "file", path: path.display().to_string() }
    }

    #[test]
    fn a_partial_file_is_named_so_whatever_its_name() {
        assert_eq!(partial(Path::new("/x/a.tar.gz")), Path::new("/x/a.tar.gz.partial"));
    }

    #[test]
    fn it_writes_beside_the_name_and_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let missing = OpenFile::open(&named(Purpose::Write, &path)).unwrap_err().to_string();
        assert!(missing.contains("out.partial"), "{missing}");
        std::fs::write(partial(&path), "").unwrap();
        let mut store = OpenFile::open(&named(Purpose::Write, &path)).unwrap();
        store.write(3, b"def").unwrap();
        store.write(0, b"abc").unwrap();
        assert_eq!(std::fs::read(partial(&path)).unwrap(), b"abcdef");
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_shrank_is_named_with_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        std::fs::write(&path, "0123456789").unwrap();
        let mut store = OpenFile::open(&named(Purpose::Read, &path)).unwrap();
        let mut room = [0; 4];
        store.read(6, &mut room).unwrap();
        assert_eq!(&room, b"6789");
        let error = store.read(8, &mut room).unwrap_err().to_string();
        assert!(error.contains("/in: it ends at byte 10"), "{error}");
    }
}

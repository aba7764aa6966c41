//! File of unknown content, read with checks: plain or gzip, by lines or as a whole, within limits, and no further
//! than needed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::foreign;
use crate::result::{packed, save};
use crate::units::hex::hex;

/// Number of bytes that are read to detect the format of a file.
const HEAD: u64 = 64 << 10;
/// Maximum size of a file that is read as a whole, unpacked, in bytes.
const LARGEST_WHOLE: u64 = 256 << 20;
/// Maximum size of a file that is read by lines, unpacked, in bytes. A gzip file may be a thousandth of it.
const LARGEST_LINES: u64 = 16 << 30;
/// Maximum length of a line, in bytes: some tools write a dot for each packet and no end of line.
const LONGEST_LINE: u64 = 64 << 20;

/// File that another program wrote.
pub struct ForeignFile {
    path: PathBuf,
    head: String,
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    passed: u64,
}

impl ForeignFile {
    /// Opens a file and reads its beginning.
    ///
    /// # Errors
    /// [`Error::Setup`] if it cannot be read, [`Error::Data`] if it is empty, not a file, or not text.
    pub(super) fn open(path: &Path) -> Result<ForeignFile> {
        let failed = |e| Error::setup(format!("read {}", path.display()), e);
        let wrong = |what: &str| Error::data(path.display().to_string(), what);
        if path.is_dir() {
            return Err(wrong("this is a folder; name the files in it"));
        }
        let opened = foreign::file::open(path)?;
        let content = packed::UnpackedFile::new(opened).map_err(failed)?;
        let mut reader = BufReader::with_capacity(HEAD as usize, content);
        let mut head = Vec::new();
        let got = (&mut reader).take(HEAD).read_to_end(&mut head);
        got.map_err(|e| wrong(&unreadable(&e)))?;
        let text = text_of(&head).map_err(|what| wrong(&what))?;
        let reader = Box::new(Cursor::new(head).chain(reader));
        Ok(ForeignFile {
            path: path.to_owned(),
            head: text,
            reader,
            line: Vec::new(),
            number: 0,
            passed: 0,
        })
    }

    /// Returns its beginning as text, without a byte order mark.
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    /// Returns its name without its folder.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the number of the last line read, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line without its end; `None` after the last.
    ///
    /// # Errors
    /// If it is too long, not text, or cannot be read.
    pub(super) fn next_line(&mut self) -> Result<Option<&str>, String> {
        self.line.clear();
        let mut limited = (&mut self.reader).take(LONGEST_LINE + 1);
        let got = limited.read_until(b'\n', &mut self.line).map_err(|e| unreadable(&e))?;
        if got == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.passed += got as u64;
        if got as u64 > LONGEST_LINE {
            let mib = LONGEST_LINE >> 20;
            return Err(format!("line {} is longer than {mib} MiB", self.number));
        }
        if self.passed > LARGEST_LINES {
            return Err(format!("larger than {} GiB; thin it out", LARGEST_LINES >> 30));
        }
        let line = std::str::from_utf8(&self.line)
            .map_err(|_| format!("line {} is not text (UTF-8)", self.number))?;
        let line =
            if self.number == 1 { line.trim_start_matches(foreign::file::MARK) } else { line };
        Ok(Some(line.trim_end_matches(['\n', '\r'])))
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// If it is too large, not text, or cannot be read.
    pub(super) fn whole(&mut self) -> Result<String, String> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.reader).take(LARGEST_WHOLE + 1);
        limited.read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
        if bytes.len() as u64 > LARGEST_WHOLE {
            return Err(format!("larger than {} MiB, unpacked", LARGEST_WHOLE >> 20));
        }
        let text = String::from_utf8(bytes).map_err(|_| "this is not text (UTF-8)".to_owned())?;
        Ok(text.trim_start_matches(foreign::file::MARK).to_owned())
    }

    /// Reads the consecutive JSON values in it.
    ///
    /// # Errors
    /// If it is not JSON, has another form, or is truncated.
    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, String> {
        let text = self.whole()?;
        let values = serde_json::Deserializer::from_str(&text).into_iter::<T>();
        values.collect::<Result<Vec<T>, _>>().map_err(|error| {
            if save::is_at_end(&error, text.trim_ascii_end().as_bytes()) {
                format!("the file ends in the middle, after {} bytes", text.len())
            } else {
                format!("not as expected: {error}")
            }
        })
    }

    /// Returns the SHA-256 of its bytes as stored, in hexadecimal.
    ///
    /// # Errors
    /// [`Error::Setup`] if it cannot be read.
    pub(super) fn sha256(&self) -> Result<String> {
        let failed = |e| Error::setup(format!("read {}", self.path.display()), e);
        let mut file = File::open(&self.path).map_err(failed)?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; HEAD as usize];
        loop {
            match file.read(&mut piece).map_err(failed)? {
                0 => break,
                got => hash.update(&piece[..got]),
            }
        }
        Ok(hex(&hash.finalize()))
    }
}

/// Returns the beginning of a file as text; its last character may be incomplete.
fn text_of(head: &[u8]) -> Result<String, String> {
    if head.iter().all(u8::is_ascii_whitespace) {
        return Err("the file is empty".to_owned());
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err("this is text in UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)".into());
    }
    let binary = || "this is not text, but binary data; no format that is read looks like it";
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(&head[..e.valid_up_to()]).map_err(|_| binary())?
        }
        Err(_) => return Err(binary().to_owned()),
    };
    if text.contains('\0') {
        return Err(binary().to_owned());
    }
    Ok(text.trim_start_matches(foreign::file::MARK).to_owned())
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            packed::damage(error)
        }
        _ => format!("cannot be read: {error}"),
    }
}

//! Files that may be compressed by gzip, and are not larger than they should be.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};

/// Magic number at the start of a file compressed by gzip (RFC 1952, 2.3.1).
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads the content of a file, unpacked if it is compressed by gzip, whatever its name. Unpacked data
/// beyond `largest` bytes is never held.
///
/// # Errors
/// [`Error::Setup`] where the file cannot be read, [`Error::Data`] where it is too large, or begins
/// as a compressed file and is not whole.
pub fn read(file: &Path, largest: u64) -> Result<Vec<u8>> {
    let name = || file.display().to_string();
    let cannot = |error| Error::setup(format!("read {}", name()), error);
    let opened = File::open(file).map_err(cannot)?;
    let kind = opened.metadata().map_err(cannot)?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(Error::data(name(), "a device, and not a file"));
    }
    let mut opened = BufReader::new(opened);
    let is_packed = opened.fill_buf().map_err(cannot)?.starts_with(&MAGIC);
    let content = if is_packed {
        at_most(MultiGzDecoder::new(opened), largest)
            .map_err(|error| Error::data(name(), damage(&error)))?
    } else {
        at_most(opened, largest).map_err(cannot)?
    };
    content.ok_or_else(|| {
        let unpacked = if is_packed { " once unpacked" } else { "" };
        let what = format!("larger than {}{unpacked}; no such file is that large", size(largest));
        Error::data(name(), what)
    })
}

/// Reads all of `from`, or returns `None` if that is more than `largest` bytes.
fn at_most(from: impl Read, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    // One byte more than allowed tells what is too large, also where its size is not known.
    from.take(largest + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= largest).then_some(content))
}

fn damage(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "compressed by gzip, and the file ends in the middle; it was cut off when copied".into()
        }
        _ => format!("begins as a file compressed by gzip, and cannot be unpacked: {error}"),
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read_back(bytes: &[u8], largest: u64) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        std::fs::write(&file, bytes).unwrap();
        read(&file, largest)
    }

    #[test]
    fn what_is_packed_is_unpacked_and_what_is_not_is_read() {
        let text = b"a text that repeats itself, repeats itself";
        assert_eq!(read_back(text, 1 << 10).unwrap(), text);
        assert_eq!(read_back(&packed(text), 1 << 10).unwrap(), text);
        // Files put one behind the other unpack to one (RFC 1952, 2.2).
        let twice = [packed(b"one, "), packed(b"two")].concat();
        assert_eq!(read_back(&twice, 1 << 10).unwrap(), b"one, two");
        assert_eq!(read_back(b"", 1 << 10).unwrap(), b"");
    }

    #[test]
    fn what_unpacks_to_more_than_allowed_is_refused() {
        let bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let said = read_back(&bomb, 1 << 20).unwrap_err().to_string();
        assert!(said.contains("larger than 1 MiB once unpacked"), "{said}");
        let said = read_back(&[b' '; 1_025], 1 << 10).unwrap_err().to_string();
        assert!(said.contains("larger than 1 KiB;"), "{said}");
        assert_eq!(read_back(&[b' '; 1_024], 1 << 10).unwrap().len(), 1_024);
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_named() {
        let whole = packed(b"a text that repeats itself, repeats itself");
        let said = read_back(&whole[..whole.len() - 9], 1 << 10).unwrap_err().to_string();
        assert!(said.contains("ends in the middle"), "{said}");
        let mut wrong = whole;
        let last = wrong.len() - 6;
        wrong[last] ^= 0xff;
        let said = read_back(&wrong, 1 << 10).unwrap_err().to_string();
        assert!(said.contains("cannot be unpacked"), "{said}");
    }

    #[test]
    fn a_device_is_not_read() {
        let why = read(Path::new("/dev/zero"), 1 << 40).unwrap_err().to_string();
        assert!(why.contains("a device, and not a file"), "{why}");
    }
}

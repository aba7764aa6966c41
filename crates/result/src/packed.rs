//! Files that may be compressed by gzip, with limits on their size.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use flate2::bufread::GzDecoder;

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::file::MARK;

/// Magic number at the start of a file compressed by gzip (RFC 1952, 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Maximum ratio of unpacked to compressed size. Results compress to between 1/6 and 1/18. gzip reaches 1,032 with
/// zeros (zlib's technical details), and the unpacked data has to fit in memory.
const MOST_TIMES: u64 = 64;

/// Unpacked size allowed for a file of any size, in bytes.
const ANY_SIZE: u64 = 4 << 20;

/// Reads the content of a file: unpacked if gzip compressed it, regardless of its name, and without a byte order
/// mark. Unpacked data beyond `largest` bytes is never stored, and a larger file is not read.
///
/// # Errors
/// [`Error::Setup`] if the file cannot be read, [`Error::Data`] if it is too large, or is a compressed file that is
/// not complete.
pub fn read(file: &Path, largest: u64) -> Result<Vec<u8>> {
    let name = || file.display().to_string();
    let cannot = |error| Error::setup(format!("read {}", name()), error);
    let opened = File::open(file).map_err(cannot)?;
    let about = opened.metadata().map_err(cannot)?;
    let kind = about.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(Error::data(name(), "a device, and not a file"));
    }
    let mut from = UnpackedFile::new(opened).map_err(cannot)?;
    let is_packed = from.is_packed();
    let most = match (is_packed, kind.is_file()) {
        (true, true) => largest.min(ANY_SIZE.max(about.len().saturating_mul(MOST_TIMES))),
        _ => largest,
    };
    let content = if !is_packed && kind.is_file() && about.len() > largest {
        None
    } else {
        at_most(&mut from, most).map_err(|error| {
            if is_packed { Error::data(name(), damage(&error)) } else { cannot(error) }
        })?
    };
    content.ok_or_else(|| {
        let unpacked = if is_packed { " once unpacked" } else { "" };
        let what = if most < largest {
            format!(
                "more than {MOST_TIMES} times as large once unpacked; no such file packs that well"
            )
        } else {
            format!("larger than {}{unpacked}; no such file is that large", size(largest))
        };
        Error::data(name(), what)
    })
}

/// Reads all of `from` without a byte order mark, or returns `None` if it has more than `largest` bytes.
fn at_most(from: impl Read, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    // One byte beyond the limit shows that the file is too large, even if its size is not known.
    from.take(largest + 1).read_to_end(&mut content)?;
    let mut mark = [0; 3];
    if content.starts_with(MARK.encode_utf8(&mut mark).as_bytes()) {
        content.drain(..mark.len());
    }
    Ok((content.len() as u64 <= largest).then_some(content))
}

/// Content of a file, unpacked while it is read if gzip compressed it.
#[derive(Debug)]
pub enum UnpackedFile<R: BufRead> {
    /// Content as it is.
    Plain(R),
    /// Members of a compressed file, one after another (RFC 1952, 2.2); `None` after the last.
    Packed(Option<GzDecoder<R>>),
}

impl UnpackedFile<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// As a read.
    pub fn new(file: File) -> io::Result<UnpackedFile<BufReader<File>>> {
        let mut from = BufReader::with_capacity(64 << 10, file);
        Ok(if from.fill_buf()?.starts_with(&MAGIC) {
            UnpackedFile::Packed(Some(GzDecoder::new(from)))
        } else {
            UnpackedFile::Plain(from)
        })
    }
}

impl<R: BufRead> UnpackedFile<R> {
    /// Returns true if it is compressed.
    pub fn is_packed(&self) -> bool {
        matches!(self, UnpackedFile::Packed(_))
    }
}

impl<R: BufRead> Read for UnpackedFile<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let members = match self {
            UnpackedFile::Plain(from) => return from.read(into),
            UnpackedFile::Packed(members) => members,
        };
        while let Some(mut member) = members.take() {
            let got = member.read(into);
            if !matches!(got, Ok(0)) || into.is_empty() {
                *members = Some(member);
                return got;
            }
            let mut rest = member.into_inner();
            *members = begins_member(&mut rest)?.then(|| GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Returns true if another member follows, and false at the end. Zeros after the last member are padding, as in
/// gzip(1).
fn begins_member(rest: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let ahead = rest.fill_buf()?;
        let zeros = ahead.iter().take_while(|byte| **byte == 0).count();
        match ahead {
            [] => return Ok(false),
            [0, ..] => rest.consume(zeros),
            // A member of only a few bytes gives an error when it is read.
            [first] if *first == MAGIC[0] => return Ok(true),
            _ if ahead.starts_with(&MAGIC) => return Ok(true),
            _ => {
                let what = "other bytes follow the compressed ones; remove them";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
}

/// Returns the reason why a compressed file cannot be unpacked.
pub fn damage(error: &io::Error) -> String {
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
        // Concatenated gzip files unpack to one (RFC 1952, 2.2).
        let twice = [packed(b"one, "), packed(b"two")].concat();
        assert_eq!(read_back(&twice, 1 << 10).unwrap(), b"one, two");
        assert_eq!(read_back(b"", 1 << 10).unwrap(), b"");
    }

    #[test]
    fn what_unpacks_to_more_than_allowed_is_refused() {
        let bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let said = read_back(&bomb, 128 << 20).unwrap_err().to_string();
        assert!(said.contains("more than 64 times as large once unpacked"), "{said}");
        let said = read_back(&bomb, 1 << 20).unwrap_err().to_string();
        assert!(said.contains("larger than 1 MiB once unpacked"), "{said}");
        let said = read_back(&[b' '; 1_025], 1 << 10).unwrap_err().to_string();
        assert!(said.contains("larger than 1 KiB;"), "{said}");
        assert_eq!(read_back(&[b' '; 1_024], 1 << 10).unwrap().len(), 1_024);
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sparse");
        // It is too large to read.
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let said = read(&file, 1 << 38).unwrap_err().to_string();
        assert!(said.contains("no such file is that large"), "{said}");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let marked = "\u{feff}{}".as_bytes();
        assert_eq!(read_back(marked, 1 << 10).unwrap(), b"{}");
        assert_eq!(read_back(&packed(marked), 1 << 10).unwrap(), b"{}");
    }

    #[test]
    fn what_follows_a_compressed_text_is_named_and_padding_is_passed_over() {
        let whole = packed(b"text");
        let with = |more: &[u8]| read_back(&[&whole[..], more].concat(), 1 << 10);
        assert_eq!(with(&[0; 9_000]).unwrap(), b"text");
        assert_eq!(with(&[&[0; 3], &whole[..]].concat()).unwrap(), b"texttext");
        for more in [&b"x"[..], b"trailing", &[0, 0, 7], &[0x1f, 0x8c]] {
            let said = with(more).unwrap_err().to_string();
            assert!(said.contains("other bytes follow"), "{said}");
        }
        for more in [&whole[..1], &whole[..5], &whole[..12]] {
            let said = with(more).unwrap_err().to_string();
            assert!(said.contains("ends in the middle"), "{said}");
        }
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

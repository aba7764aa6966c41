//! File of unknown content, read with checks: packed or not, in several encodings, by lines or as a whole, within
//! limits, and no further than needed.

use std::io::{self, BufRead, BufReader, Read};

use serde::de::DeserializeOwned;

use super::capture;
pub(super) use super::packings::RawBytes;
use super::packings::{HashedBytes, Unpacked, peeked, unpack};
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign;
use deadheat_result::save;

/// Number of bytes that are read to detect the format of a file.
const HEAD: u64 = 64 << 10;
/// Maximum size of a file that is read as a whole, unpacked, in bytes.
const LARGEST_WHOLE: u64 = 256 << 20;
/// Maximum size of a file that is read by lines, unpacked, in bytes.
const LARGEST_LINES: u64 = 16 << 30;
/// Maximum size of an archive, unpacked, in bytes: its files are stored in memory.
const LARGEST_ARCHIVE: u64 = 512 << 20;
/// Maximum length of a line, in bytes: some tools write a dot for each packet and no end of line.
const LONGEST_LINE: u64 = 64 << 20;

/// File that another program wrote.
pub(super) struct ForeignFile {
    name: String,
    head: String,
    is_capture: bool,
    reader: Box<dyn BufRead>,
    raw: HashedBytes,
    content: HashedBytes,
    line: Vec<u8>,
    number: u64,
    passed: u64,
}

/// Digests of a file that was read to its end.
pub(super) struct FileDigests {
    /// SHA-256 of its bytes as stored, in hexadecimal.
    pub stored: String,
    /// SHA-256 of its content, unpacked.
    pub content: String,
    /// Size of its content, in bytes.
    pub size: u64,
}

impl ForeignFile {
    /// Opens a file, and reads its beginning.
    ///
    /// # Errors
    /// [`Error::Setup`] if it cannot be read, [`Error::Data`] if it is empty, packed in an unknown way, or not text.
    pub(super) fn of(name: &str, raw: RawBytes) -> Result<ForeignFile> {
        let wrong = |what: String| Error::data(name, what);
        let failed = |e: io::Error| failed(name, e);
        let raw = HashedBytes::new(raw);
        let Unpacked { reader, is_packed } = unpack(&raw).map_err(failed)?;
        let (content, reader): (_, Box<dyn BufRead>) = if is_packed {
            let content = HashedBytes::new(Box::new(reader));
            (content.clone(), Box::new(BufReader::with_capacity(HEAD as usize, content)))
        } else {
            (raw.clone(), reader)
        };
        let (mut head, mut reader) = peeked(reader, HEAD).map_err(failed)?;
        let is_capture = capture::MAGICS.iter().any(|magic| head.starts_with(magic));
        if let Some(order) = ByteOrder::of(&head).filter(|_| !is_capture) {
            let mut bytes = Vec::new();
            reader.take(LARGEST_WHOLE + 1).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.len() as u64 > LARGEST_WHOLE {
                let mib = LARGEST_WHOLE >> 20;
                return Err(wrong(format!("larger than {mib} MiB of UTF-16; write it as UTF-8")));
            }
            let utf8 = io::Cursor::new(order.text(&bytes).into_bytes());
            (head, reader) = peeked(Box::new(utf8), HEAD).map_err(failed)?;
        }
        let text = if is_capture { String::new() } else { text_of(&head).map_err(wrong)? };
        let (line, number, passed) = (Vec::new(), 0, 0);
        Ok(ForeignFile {
            name: name.to_owned(),
            head: text,
            is_capture,
            reader,
            raw,
            content,
            line,
            number,
            passed,
        })
    }

    /// Returns a file with this content, for tests of readers.
    #[cfg(test)]
    pub(super) fn of_text(name: &str, content: &str) -> ForeignFile {
        let raw = Box::new(io::Cursor::new(content.as_bytes().to_vec()));
        ForeignFile::of(name, raw).expect("a text")
    }

    /// Returns its beginning as text, without a byte order mark.
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    /// Returns true for a capture of packets, which is not text: its beginning as text is empty.
    pub(super) fn is_capture(&self) -> bool {
        self.is_capture
    }

    /// Returns a reader of its bytes from here on.
    pub(super) fn bytes(&mut self) -> &mut dyn BufRead {
        &mut self.reader
    }

    /// Returns its name without its folder.
    pub(super) fn name(&self) -> String {
        self.name.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// Returns the number of the last line read, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line without its end; `None` after the last.
    ///
    /// # Errors
    /// If it is too long, or cannot be read.
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
        if std::str::from_utf8(&self.line).is_err() {
            self.line = decoded(&self.line).into_bytes();
        }
        let line = std::str::from_utf8(&self.line).unwrap_or_default();
        let line =
            if self.number == 1 { line.trim_start_matches(foreign::file::MARK) } else { line };
        Ok(Some(line.trim_end_matches(['\n', '\r'])))
    }

    /// Reads all lines, and hands each to a function.
    ///
    /// # Errors
    /// As [`ForeignFile::next_line`].
    pub(super) fn each_line(&mut self, mut take: impl FnMut(&str)) -> Result<(), String> {
        while let Some(line) = self.next_line()? {
            take(line);
        }
        Ok(())
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// If it is too large, or cannot be read.
    pub(super) fn whole(&mut self) -> Result<String, String> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.reader).take(LARGEST_WHOLE + 1);
        limited.read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
        if bytes.len() as u64 > LARGEST_WHOLE {
            return Err(format!("larger than {} MiB, unpacked", LARGEST_WHOLE >> 20));
        }
        let text = String::from_utf8(bytes).unwrap_or_else(|e| decoded(e.as_bytes()));
        Ok(text.trim_start_matches(foreign::file::MARK).to_owned())
    }

    /// Reads the consecutive JSON values in it.
    ///
    /// # Errors
    /// If it is not JSON, has another form, or is truncated.
    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, String> {
        let text = self.whole()?;
        let values = serde_json::Deserializer::from_slice(text.as_bytes()).into_iter::<T>();
        values.collect::<Result<Vec<T>, _>>().map_err(|error| {
            if save::is_at_end(&error, text.trim_ascii_end().as_bytes()) {
                format!("the file ends in the middle, after {} bytes", text.len())
            } else {
                format!("not as expected: {error}")
            }
        })
    }

    /// Reads the rest, and returns the digests of all.
    ///
    /// # Errors
    /// [`Error::Setup`] or [`Error::Data`] if it cannot be read.
    pub(super) fn digests(mut self) -> Result<FileDigests> {
        let name = self.name.clone();
        let failed = |e: io::Error| failed(&name, e);
        let content = self.content.digest().map_err(failed)?;
        let size = self.content.count();
        Ok(FileDigests { stored: self.raw.digest().map_err(failed)?, content, size })
    }
}

/// Returns the content of a tar archive; `None` for any other file.
///
/// # Errors
/// [`Error::Setup`] if it cannot be read.
pub(super) fn archive(name: &str, raw: RawBytes) -> Result<Option<Box<dyn Read>>> {
    // A file that cannot be unpacked is refused with a reason when it is read.
    let raw = HashedBytes::new(raw);
    let Ok(Unpacked { reader, .. }) = unpack(&raw) else { return Ok(None) };
    let (head, whole) = match peeked(reader, 512) {
        Ok(found) => found,
        Err(e) if e.raw_os_error().is_some() => return Err(failed(name, e)),
        Err(_) => return Ok(None),
    };
    // The magic of POSIX and of GNU headers (tar(5)).
    let is_tar = head.get(257..262) == Some(b"ustar");
    Ok(is_tar.then(|| Box::new(ArchiveContent { inner: whole, passed: 0 }) as Box<dyn Read>))
}

/// Content of an archive, up to a limit.
struct ArchiveContent {
    inner: Box<dyn BufRead>,
    passed: u64,
}

impl Read for ArchiveContent {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(into)?;
        self.passed += got as u64;
        if self.passed > LARGEST_ARCHIVE {
            let what = format!(
                "larger than {} MiB, unpacked; unpack it and give its folder",
                LARGEST_ARCHIVE >> 20
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        Ok(got)
    }
}

/// Returns the beginning of a file as text; its last character may be incomplete.
fn text_of(head: &[u8]) -> Result<String, String> {
    if head.iter().all(u8::is_ascii_whitespace) {
        return Err("the file is empty".to_owned());
    }
    // A terminal's recording has escapes, backspaces and form feeds; a binary file has all control characters.
    let is_control =
        |byte: &&u8| **byte < 0x20 && !b"\t\n\x0b\x0c\r\x1b\x08\x07\x1a".contains(byte);
    let controls = head.iter().filter(is_control).count();
    if head.contains(&0) || controls * 50 > head.len() {
        return Err(
            "this is not text, but binary data; no format that is read looks like it".into()
        );
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => text.to_owned(),
        Err(e) if e.error_len().is_none() => {
            String::from_utf8_lossy(&head[..e.valid_up_to()]).into_owned()
        }
        Err(_) => decoded(head),
    };
    Ok(text.trim_start_matches(foreign::file::MARK).to_owned())
}

/// Code page 850, "Latin 1" of DOS and of Windows' console in Western Europe, from 0x80 (IBM's CPGID 00850).
const CODE_PAGE_850: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐\
    └┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

/// Returns text in an encoding of one byte a character. A line that is not UTF-8 is in code page 850 if it has a byte
/// that is a letter there and a control character in Latin 1, and in Latin 1 otherwise. Structure and numbers are ASCII
/// in both.
fn decoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Ok(line) = std::str::from_utf8(line) {
            text.push_str(line);
            continue;
        }
        let is_850 = line.iter().any(|byte| (0x80..=0x9f).contains(byte));
        let is_866 = is_cyrillic(line);
        let place = |byte: u8| match byte {
            0x80.. if is_866 && cyrillic(byte).is_some() => cyrillic(byte),
            0x80.. if is_850 => CODE_PAGE_850.chars().nth(usize::from(byte) - 0x80),
            _ => Some(char::from(byte)),
        };
        text.extend(line.iter().filter_map(|byte| place(*byte)));
    }
    text
}

/// Returns the letter of a byte in code page 866, that of Windows' console in Russian (IBM's CPGID 00866).
fn cyrillic(byte: u8) -> Option<char> {
    match byte {
        0x80..=0xaf => char::from_u32(0x410 + u32::from(byte - 0x80)),
        0xe0..=0xef => char::from_u32(0x440 + u32::from(byte - 0xe0)),
        _ => None,
    }
}

/// Returns true for a line with a word of four letters of code page 866: no word of code page 850 has four letters with
/// accents in a row.
fn is_cyrillic(line: &[u8]) -> bool {
    line.windows(4).any(|word| word.iter().all(|byte| cyrillic(*byte).is_some()))
}

/// Byte order of UTF-16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the byte order of text in UTF-16: by its mark, or by the zeros of ASCII text without one.
    fn of(head: &[u8]) -> Option<ByteOrder> {
        match head {
            [0xff, 0xfe, ..] => return Some(ByteOrder::Little),
            [0xfe, 0xff, ..] => return Some(ByteOrder::Big),
            _ => {}
        }
        let pairs = || head[..head.len().min(1_024)].chunks_exact(2);
        let zeros = |at: usize| pairs().filter(|pair| pair[at] == 0).count() * 2;
        let n = pairs().len();
        match (zeros(0), zeros(1)) {
            (0, little) if little > n => Some(ByteOrder::Little),
            (big, 0) if big > n => Some(ByteOrder::Big),
            _ => None,
        }
    }

    /// Returns the text of bytes in UTF-16 (RFC 2781), with a mark for half a character at its end.
    fn text(self, bytes: &[u8]) -> String {
        let units = bytes.chunks(2).map(|pair| match (pair, self) {
            ([first, second], ByteOrder::Little) => u16::from_le_bytes([*first, *second]),
            ([first, second], ByteOrder::Big) => u16::from_be_bytes([*first, *second]),
            _ => 0xfffd,
        });
        let decoded = char::decode_utf16(units);
        decoded.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// Returns the error of a file that cannot be read, or not to its end.
fn failed(name: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(_) => Error::setup(format!("read {name}"), error),
        None => Error::data(name, unreadable(&error)),
    }
}

/// Describes an error of reading.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends in the middle".to_owned(),
        io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge => error.to_string(),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut file = ForeignFile::of("x", Box::new(io::Cursor::new(bytes.to_vec()))).unwrap();
        let mut lines = Vec::new();
        while let Some(line) = file.next_line().unwrap() {
            lines.push(line.to_owned());
        }
        lines
    }

    #[test]
    fn code_page_850_is_whole() {
        assert_eq!(CODE_PAGE_850.chars().count(), 128);
        let at = |byte: usize| CODE_PAGE_850.chars().nth(byte - 0x80);
        assert_eq!([at(0x84), at(0x94), at(0xe1), at(0xff)], ['ä', 'ö', 'ß', '\u{a0}'].map(Some));
    }

    #[test]
    fn each_encoding_is_read() {
        let want = ["Zeit=1ms für ÄÖ", "2"];
        let text = "Zeit=1ms für ÄÖ\r\n2\n";
        let utf16 = |to: fn(u16) -> [u8; 2], mark: bool| -> Vec<u8> {
            let mark = mark.then_some(0xfeff);
            mark.into_iter().chain(text.encode_utf16()).flat_map(to).collect()
        };
        assert_eq!(lines(text.as_bytes()), want);
        assert_eq!(lines(format!("\u{feff}{text}").as_bytes()), want);
        assert_eq!(lines(b"Zeit=1ms f\x81r \x8e\x99\r\n2\n"), want, "code page 850");
        assert_eq!(lines(b"Zeit=1ms f\xfcr \xc4\xd6\r\n2\n"), want, "Latin 1");
        assert_eq!(lines(b"\xa2\xe0\xa5\xac\xef=9\xac\xe1"), ["время=9мс"], "code page 866");
        for to in [u16::to_le_bytes, u16::to_be_bytes] {
            assert_eq!(lines(&utf16(to, true)), want);
            assert_eq!(lines(&utf16(to, false)), want, "without a mark");
        }
        // A pair of surrogates across the end of a piece, and half a character at the end.
        let long: String = "x".repeat(4_095) + "🏁\n";
        let bytes: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(lines(&bytes), [long.trim_end()]);
        assert_eq!(lines(&bytes[..bytes.len() - 1])[0].chars().last(), Some('\u{fffd}'));
    }

    #[test]
    fn digests_are_of_all_bytes_even_if_few_were_read() {
        let text = "1\n".repeat(200_000);
        let file = ForeignFile::of_text("x", &text);
        let digests = file.digests().unwrap();
        assert_eq!(digests.size, 400_000);
        assert_eq!(digests.stored, digests.content);
    }
}

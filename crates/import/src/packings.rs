//! Unpacking of foreign bytes: gzip, bzip2 and Zstandard, also in one another, within limits.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use bzip2::bufread::MultiBzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use sha2::{Digest, Sha256};

use deadheat_base::units::hex::hex;
use deadheat_result::packed::UnpackedFile;
use flate2::bufread::GzDecoder;

/// Maximum number of packings in one another.
const MOST_LAYERS: usize = 3;
/// Maximum ratio of unpacked to packed size: logs of a quiet line, the best-packed files that are measurements, reach
/// about 40.
const MOST_TIMES: u64 = 250;
/// Unpacked size allowed for a file of any size, in bytes.
const ANY_SIZE: u64 = 64 << 20;
/// Size of the buffers, in bytes.
const BUFFER: usize = 64 << 10;

/// Bytes as stored: of a file, of standard input, or of a file in an archive.
pub(super) type RawBytes = Box<dyn Read>;

/// Bytes that are hashed and counted while they are read. Its clones read on from the same place.
#[derive(Clone)]
pub(super) struct HashedBytes(Rc<RefCell<HashState>>);

struct HashState {
    inner: RawBytes,
    hash: Sha256,
    count: u64,
}

impl HashedBytes {
    pub(super) fn new(inner: RawBytes) -> HashedBytes {
        HashedBytes(Rc::new(RefCell::new(HashState { inner, hash: Sha256::new(), count: 0 })))
    }

    /// Returns the number of bytes read so far.
    pub(super) fn count(&self) -> u64 {
        self.0.borrow().count
    }

    /// Reads the rest, and returns the SHA-256 of all, in hexadecimal.
    ///
    /// # Errors
    /// As a read.
    pub(super) fn digest(&mut self) -> io::Result<String> {
        io::copy(self, &mut io::sink())?;
        Ok(hex(&self.0.borrow().hash.clone().finalize()))
    }
}

impl Read for HashedBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let state = &mut *self.0.borrow_mut();
        let got = state.inner.read(into)?;
        state.hash.update(&into[..got]);
        state.count += got as u64;
        Ok(got)
    }
}

/// Content of a file, unpacked while it is read.
pub(super) struct Unpacked {
    pub reader: Box<dyn BufRead>,
    /// True if it is packed.
    pub is_packed: bool,
}

/// Returns the content of stored bytes.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] with a sentence, for packings that are not read and for damaged ones.
pub(super) fn unpack(raw: &HashedBytes) -> io::Result<Unpacked> {
    let mut reader: Box<dyn BufRead> = Box::new(BufReader::with_capacity(BUFFER, raw.clone()));
    for layer in 0..=MOST_LAYERS {
        let (head, whole) = peeked(reader, 16)?;
        let Some(packing) = Packing::of(&head)? else {
            return Ok(Unpacked { reader: whole, is_packed: layer > 0 });
        };
        if layer == MOST_LAYERS {
            return Err(invalid(format!("packed more than {MOST_LAYERS} times over")));
        }
        let inner = packing.decoder(whole);
        let limited = LimitedBytes { inner, packing, raw: raw.clone(), passed: 0 };
        reader = Box::new(BufReader::with_capacity(BUFFER, limited));
    }
    Err(invalid("packed too often".to_owned()))
}

/// Reads up to `most` bytes ahead, and returns them beside the whole content.
///
/// # Errors
/// As a read.
pub(super) fn peeked(
    mut reader: Box<dyn BufRead>,
    most: u64,
) -> io::Result<(Vec<u8>, Box<dyn BufRead>)> {
    let mut head = Vec::new();
    (&mut reader).take(most).read_to_end(&mut head)?;
    let whole = Box::new(Cursor::new(head.clone()).chain(reader));
    Ok((head, whole))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Format of packed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Bzip2,
    Zstandard,
}

/// Packings that are not read: first bytes, name, remedy.
const OTHERS: [(&[u8], &str, &str); 6] = [
    (b"\xfd7zXZ\0", "xz", "xz -d"),
    (b"PK\x03\x04", "zip", "unzip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
    (b"\x04\x22\x4d\x18", "LZ4", "lz4 -d"),
    (b"\x1f\x9d", "compress", "uncompress"),
    (b"Rar!\x1a\x07", "RAR", "unrar x"),
];

impl Packing {
    /// Returns the packing of bytes with this beginning (RFC 1952, 2.3.1; bzip2's file format; RFC 8878, 3.1).
    fn of(head: &[u8]) -> io::Result<Option<Packing>> {
        if let Some((_, name, remedy)) = OTHERS.iter().find(|(magic, ..)| head.starts_with(magic)) {
            return Err(invalid(format!(
                "packed by {name}, which is not read; unpack it (`{remedy}`)"
            )));
        }
        let is_bzip2 = head.starts_with(b"BZh")
            && head.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
            && head.get(4..10).is_none_or(|block| {
                block == [0x31, 0x41, 0x59, 0x26, 0x53, 0x59]
                    || block == [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]
            });
        Ok(match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(Packing::Zstandard)
            }
            _ if is_bzip2 => Some(Packing::Bzip2),
            _ => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Bzip2 => "bzip2",
            Packing::Zstandard => "zstd",
        }
    }

    fn decoder(self, packed: Box<dyn BufRead>) -> Box<dyn Read> {
        match self {
            Packing::Gzip => Box::new(UnpackedFile::Packed(Some(GzDecoder::new(packed)))),
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
            Packing::Zstandard => Box::new(ZstdFrames::Between(packed)),
        }
    }

    /// Describes an error of the decoder; errors of the file below it are passed on.
    fn described(self, error: io::Error) -> io::Error {
        let name = self.name();
        match error.kind() {
            io::ErrorKind::FileTooLarge => error,
            io::ErrorKind::UnexpectedEof => invalid(format!(
                "compressed by {name}, and the file ends in the middle; it was cut off when copied"
            )),
            _ if error.raw_os_error().is_some() => error,
            _ => invalid(format!(
                "begins as a file compressed by {name}, and cannot be unpacked: {error}"
            )),
        }
    }
}

/// Unpacked bytes, which must not be too many for the packed ones.
struct LimitedBytes {
    inner: Box<dyn Read>,
    packing: Packing,
    raw: HashedBytes,
    passed: u64,
}

impl Read for LimitedBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(into).map_err(|error| self.packing.described(error))?;
        self.passed += got as u64;
        if self.passed > ANY_SIZE.max(self.raw.count().saturating_mul(MOST_TIMES)) {
            let what = format!(
                "more than {MOST_TIMES} times as large once unpacked; no measurement packs that well"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        Ok(got)
    }
}

/// Frames of a Zstandard file, one after another, some of which are skippable (RFC 8878, 3.1).
enum ZstdFrames {
    Between(Box<dyn BufRead>),
    Within(Box<StreamingDecoder<Box<dyn BufRead>, FrameDecoder>>),
    Ended,
}

impl Read for ZstdFrames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(self, ZstdFrames::Ended) {
                ZstdFrames::Ended => return Ok(0),
                ZstdFrames::Between(mut packed) => {
                    if !packed.fill_buf()?.is_empty() {
                        *self = next_frame(packed)?;
                    }
                }
                ZstdFrames::Within(mut frame) => {
                    let got = frame.read(into).map_err(root)?;
                    if got > 0 {
                        *self = ZstdFrames::Within(frame);
                        return Ok(got);
                    }
                    let decoder = &frame.decoder;
                    let sums =
                        [decoder.get_checksum_from_data(), decoder.get_calculated_checksum()];
                    if let [Some(stored), Some(own)] = sums
                        && stored != own
                    {
                        return Err(io::Error::other("its checksum is another one"));
                    }
                    *self = ZstdFrames::Between(frame.into_inner());
                }
            }
        }
    }
}

/// Opens the next frame, or skips a skippable one.
fn next_frame(packed: Box<dyn BufRead>) -> io::Result<ZstdFrames> {
    let (head, mut whole) = peeked(packed, 8)?;
    if let [0x50..=0x5f, 0x2a, 0x4d, 0x18, size @ ..] = &head[..] {
        let size = <[u8; 4]>::try_from(size).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let size = 8 + u64::from(u32::from_le_bytes(size));
        if io::copy(&mut (&mut whole).take(size), &mut io::sink())? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Ok(ZstdFrames::Between(whole));
    }
    let frame = StreamingDecoder::new(whole).map_err(|e| root(io::Error::other(e)))?;
    Ok(ZstdFrames::Within(Box::new(frame)))
}

/// Returns the error of the file below a decoder's error, or the end of it, if that is the cause.
fn root(error: io::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|e| e as _);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::UnexpectedEof
        {
            return io::ErrorKind::UnexpectedEof.into();
        }
        cause = inner.source();
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unpacked(stored: &[u8]) -> Result<Vec<u8>, String> {
        let raw = HashedBytes::new(Box::new(Cursor::new(stored.to_vec())));
        let mut content = Vec::new();
        unpack(&raw)
            .and_then(|mut found| found.reader.read_to_end(&mut content))
            .map_err(|e| e.to_string())?;
        Ok(content)
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(content).unwrap();
        to.finish().unwrap()
    }

    fn bzip2(content: &[u8]) -> Vec<u8> {
        let mut to = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        to.write_all(content).unwrap();
        to.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn each_packing_is_found_by_its_content_and_in_parts() {
        let text = "rtt 1.5 ms\n".repeat(20_000).into_bytes();
        for pack in [gzip, bzip2, zstd] {
            let packed = pack(&text);
            assert_eq!(unpacked(&packed).as_deref(), Ok(&text[..]));
            assert_eq!(unpacked(&[packed.clone(), packed].concat()).unwrap().len(), 2 * text.len());
        }
        assert_eq!(unpacked(&gzip(&zstd(&bzip2(&text)))).as_deref(), Ok(&text[..]));
        let skipped = [b"\x50\x2a\x4d\x18\x03\0\0\0abc", &zstd(b"1\n")[..]].concat();
        assert_eq!(unpacked(&skipped).as_deref(), Ok(&b"1\n"[..]));
        assert_eq!(unpacked(b"BZhello").as_deref(), Ok(&b"BZhello"[..]), "a text that begins so");
    }

    #[test]
    fn damage_is_named_with_its_packing() {
        let text = "rtt 1.5 ms\n".repeat(20_000).into_bytes();
        for (pack, name) in
            [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (bzip2, "bzip2"), (zstd, "zstd")]
        {
            let packed = pack(&text);
            let said = unpacked(&packed[..packed.len() / 2]).unwrap_err();
            let want = format!("compressed by {name}, and the file ends in the middle");
            assert!(said.contains(&want), "{said}");
        }
        let said = unpacked(b"\xfd7zXZ\0\0\0\0").unwrap_err();
        assert!(said.contains("packed by xz, which is not read; unpack it (`xz -d`)"), "{said}");
        let fourfold = (0..4).fold(b"1\n".to_vec(), |packed, _| gzip(&packed));
        assert!(unpacked(&fourfold).unwrap_err().contains("packed more than 3 times over"));
    }

    #[test]
    fn a_bomb_is_given_up_long_before_its_end() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![b'0'; 1 << 20];
        for _ in 0..300 {
            bomb.write_all(&zeros).unwrap();
        }
        let said = unpacked(&bomb.finish().unwrap()).unwrap_err();
        assert!(said.contains("more than 250 times as large once unpacked"), "{said}");
    }
}

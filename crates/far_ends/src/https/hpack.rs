//! Headers of HTTP/2 in HPACK (RFC 7541), as both ends of a connection read and write them. What leaves uses the static table
//! alone.

use std::collections::VecDeque;
use std::sync::LazyLock;

use super::fields::{number, put_number, put_string, string};
use super::head::Head;
use super::request::Request;

/// Bytes of a peer's dynamic table before it has this end's SETTINGS (RFC 9113, 6.5.2).
pub const FIRST_TABLE: usize = 4_096;

/// Bytes of an entry beside its text (RFC 7541, 4.1).
const OF_ENTRY: usize = 32;

/// Most bytes of the fields of one header: a byte of it can stand for an entry of thousands.
const MOST_FIELDS: usize = 256 << 10;

/// The static table (RFC 7541, appendix A).
static STATIC: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let entries = include_str!("hpack_static.txt").lines();
    entries.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect()
});

/// Field of a header: name and value.
pub type HeaderField = (Vec<u8>, Vec<u8>);

/// Reader of the headers of a connection, in their order.
#[derive(Debug)]
pub struct HeaderReader {
    /// Dynamic table, the newest entry first.
    entries: VecDeque<HeaderField>,
    size: usize,
    most: usize,
    /// Bytes that its table may have, as this end has announced.
    allowed: usize,
}

impl HeaderReader {
    /// Creates a reader whose dynamic table has `allowed` bytes at most.
    pub fn new(allowed: usize) -> HeaderReader {
        HeaderReader { entries: VecDeque::new(), size: 0, most: allowed, allowed }
    }

    /// Returns the fields of a header.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub fn read(&mut self, block: &[u8]) -> Result<Vec<HeaderField>, String> {
        let (mut rest, mut fields) = (block, Vec::<HeaderField>::new());
        let mut size = 0;
        while let Some(first) = rest.first().copied() {
            size += fields.last().map_or(0, |(name, value)| name.len() + value.len() + OF_ENTRY);
            if size > MOST_FIELDS {
                return Err(format!(
                    "the fields of its header are longer than {MOST_FIELDS} bytes"
                ));
            }
            if first & 0b1000_0000 != 0 {
                let place = number(&mut rest, 7)?;
                fields.push(self.entry(place)?);
                continue;
            }
            if first & 0b1110_0000 == 0b0010_0000 {
                self.resize(number(&mut rest, 5)?)?;
                continue;
            }
            let is_kept = first & 0b0100_0000 != 0;
            let place = number(&mut rest, if is_kept { 6 } else { 4 })?;
            let name = match place {
                0 => string(&mut rest, 7)?.into_owned(),
                place => self.entry(place)?.0,
            };
            let field = (name, string(&mut rest, 7)?.into_owned());
            if is_kept {
                self.add(field.clone());
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn entry(&self, place: u64) -> Result<HeaderField, String> {
        let wrong = || match place {
            0 => "its header names the entry 0, which no table has".to_owned(),
            _ => format!(
                "its header names the entry {place}, and its dynamic table has {}",
                self.entries.len()
            ),
        };
        let at = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        let at = at.ok_or_else(wrong)?;
        match STATIC.get(at) {
            Some((name, value)) => Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec())),
            None => self.entries.get(at - STATIC.len()).cloned().ok_or_else(wrong),
        }
    }

    fn resize(&mut self, most: u64) -> Result<(), String> {
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.most > self.allowed {
            return Err(format!(
                "its header wants a dynamic table of {most} bytes, and {} are the most",
                self.allowed
            ));
        }
        self.shrink(0);
        Ok(())
    }

    fn add(&mut self, field: HeaderField) {
        let len = field.0.len() + field.1.len() + OF_ENTRY;
        self.shrink(len);
        // A field that is larger than the table leaves it empty (RFC 7541, 4.4).
        if len <= self.most {
            self.size += len;
            self.entries.push_front(field);
        }
    }

    /// Drops the oldest entries until there is room for so many bytes.
    fn shrink(&mut self, room: usize) {
        while self.size + room > self.most
            && let Some((name, value)) = self.entries.pop_back()
        {
            self.size -= name.len() + value.len() + OF_ENTRY;
        }
    }
}

/// Returns a header with these fields.
pub fn header(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        if let Some(at) = STATIC.iter().position(|entry| entry == &(*name, *value)) {
            put_number(&mut out, 0b1000_0000, 7, at as u64 + 1);
            continue;
        }
        let named = STATIC.iter().position(|(own, _)| own == name);
        put_number(&mut out, 0, 4, named.map_or(0, |at| at as u64 + 1));
        if named.is_none() {
            put_string(&mut out, name);
        }
        put_string(&mut out, value);
    }
    out
}

/// Returns the header of a request.
pub(super) fn encode(request: &Request) -> Vec<u8> {
    header(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &request.authority),
        (":path", &request.path),
        ("user-agent", &request.agent),
        ("accept", "*/*"),
        ("accept-encoding", "identity"),
    ])
}

/// Reads the header of an answer. This end announces that it has no dynamic table, so that every header stands by itself.
///
/// # Errors
/// The violation, as a sentence.
pub(super) fn decode(block: &[u8]) -> Result<Head, String> {
    let mut head = Head::default();
    for (name, value) in HeaderReader::new(0).read(block)? {
        head.field(&name, &value)?;
    }
    head.check()?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_rfc_is_read() {
        // RFC 7541, C.6.1, whose server has a dynamic table of 256 bytes: what it adds there is a literal here.
        let hex = "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3";
        let block: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let head = decode(&block).unwrap();
        assert_eq!(head.status, 302);
        assert_eq!(head.location.as_deref(), Some("https://www.example.com"));
        let plain =
            [&[0x20, 0x88, 0x0f, 0x0d, 4][..], b"5120", &[0, 7], b"alt-svc", &[5], b"clear"]
                .concat();
        let head = decode(&plain).unwrap();
        assert_eq!(
            (head.status, head.length, head.alt_svc.as_deref()),
            (200, Some(5_120), Some("clear"))
        );
    }

    #[test]
    fn headers_that_are_cut_or_need_a_dynamic_table_are_refused() {
        for (block, why) in [
            (&[][..], "no status"),
            (&[0x80], "the entry 0"),
            (&[0xbe], "dynamic table"),
            (&[0x3f, 0x01], "dynamic table"),
            (&[0x7f], "within a number"),
            (&[0x7e, 1, b'a'], "dynamic table"),
            (&[0x08, 3, b'2'], "within a field"),
            (&[0x08, 3, b'2', b'x', b'0'], "its status is"),
            (&[0x88, 0x89], "two statuses"),
            (&[0x08, 0x81, 0], "Huffman"),
        ] {
            let said = decode(block).unwrap_err();
            assert!(said.contains(why), "{block:x?}: {said}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let block = (0..state % 40).map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            });
            let _ = decode(&block.collect::<Vec<u8>>());
            state = state.wrapping_add(1);
        }
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    fn text(fields: &[HeaderField]) -> Vec<String> {
        let of = |(name, value): &HeaderField| {
            format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        fields.iter().map(of).collect()
    }

    #[test]
    fn requests_of_the_rfc_are_read_with_their_dynamic_table() {
        // RFC 7541, C.4: three requests on one connection.
        let mut reader = HeaderReader::new(FIRST_TABLE);
        let first = reader.read(&bytes("828684418cf1e3c2e5f23a6ba0ab90f4ff")).unwrap();
        let own = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
        assert_eq!(text(&first), own);
        let second = reader.read(&bytes("828684be5886a8eb10649cbf")).unwrap();
        assert_eq!(text(&second)[3..], [":authority: www.example.com", "cache-control: no-cache"]);
        let third = bytes("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf");
        let third = reader.read(&third).unwrap();
        let own = [":path: /index.html", ":authority: www.example.com", "custom-key: custom-value"];
        assert_eq!(text(&third)[2..], own);
        assert_eq!((reader.entries.len(), reader.size), (3, 164));
        // A table without room has no entries any more.
        assert!(reader.read(&[0x20]).unwrap().is_empty());
        assert!(reader.read(&[0xbe]).unwrap_err().contains("the entry 62"));
    }

    #[test]
    fn a_short_header_does_not_stand_for_fields_without_end() {
        let mut reader = HeaderReader::new(FIRST_TABLE);
        // A field of 3,000 bytes, and then bytes each of which stands for it.
        let field = [&[0x40, 1, b'a', 0x7f, 0xb9, 0x16][..], &[b'b'; 3_000]].concat();
        assert_eq!(reader.read(&field).unwrap()[0].1.len(), 3_000);
        assert_eq!(reader.read(&[0xbe; 80]).unwrap().len(), 80);
        let said = reader.read(&[0xbe; 200]).unwrap_err();
        assert!(said.contains("are longer than"), "{said}");
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_the_table_has_its_size() {
        let mut reader = HeaderReader::new(FIRST_TABLE);
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        for _ in 0..20_000 {
            let len = usize::from(next() % 60);
            let block: Vec<u8> = (0..len).map(|_| next()).collect();
            let _ = reader.read(&block);
            let size: usize = reader
                .entries
                .iter()
                .map(|(name, value)| name.len() + value.len() + OF_ENTRY)
                .sum();
            assert!(size == reader.size && size <= FIRST_TABLE);
        }
        assert!(reader.read(&[0x3f, 0xff, 0x7f]).unwrap_err().contains("a dynamic table of"));
        assert!(reader.read(&[0x80]).unwrap_err().contains("the entry 0"));
    }
}

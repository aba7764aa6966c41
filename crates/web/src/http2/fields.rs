//! Headers of requests and answers in HPACK (RFC 7541). A browser may use a dynamic table until it has this end's SETTINGS, which
//! leave no room for one; answers use none.

use std::collections::VecDeque;

use deadheat_far_ends::http3::{number, put_number, put_string, string};

/// Bytes of the dynamic table before SETTINGS (RFC 9113, 6.5.2), and of an entry beside its text (RFC 7541, 4.1).
const FIRST_SIZE: usize = 4_096;
const OF_ENTRY: usize = 32;

/// Entry of an answer's status 200, and the one whose name is `:status`.
const STATUS_200: u64 = 8;
const STATUS: u64 = 8;

/// The static table (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Field of a header: name and value.
type Field = (Vec<u8>, Vec<u8>);

/// Reader of the headers of a connection, in their order.
pub(super) struct HeaderReader {
    /// Dynamic table, the newest entry first.
    entries: VecDeque<Field>,
    size: usize,
    most: usize,
}

impl HeaderReader {
    pub(super) fn new() -> HeaderReader {
        HeaderReader { entries: VecDeque::new(), size: 0, most: FIRST_SIZE }
    }

    /// Returns the fields of a header.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Vec<Field>, String> {
        let (mut rest, mut fields) = (block, Vec::new());
        while let Some(first) = rest.first().copied() {
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

    fn entry(&self, place: u64) -> Result<Field, String> {
        let wrong = || format!("its header names the entry {place}, which no table has");
        let at = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        let at = at.ok_or_else(wrong)?;
        match STATIC.get(at) {
            Some((name, value)) => Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec())),
            None => self.entries.get(at - STATIC.len()).cloned().ok_or_else(wrong),
        }
    }

    fn resize(&mut self, most: u64) -> Result<(), String> {
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.most > FIRST_SIZE {
            return Err(format!(
                "its header wants a table of {most} bytes, and {FIRST_SIZE} are the most"
            ));
        }
        self.shrink(0);
        Ok(())
    }

    fn add(&mut self, field: Field) {
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

/// Returns the header of an answer.
pub(super) fn answer(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    match status {
        200 => put_number(&mut out, 0b1000_0000, 7, STATUS_200),
        status => {
            put_number(&mut out, 0, 4, STATUS);
            put_string(&mut out, &status.to_string());
        }
    }
    for (name, value) in fields {
        out.push(0);
        put_string(&mut out, name);
        put_string(&mut out, value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    fn text(fields: &[Field]) -> Vec<String> {
        let of = |(name, value): &Field| {
            format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        fields.iter().map(of).collect()
    }

    #[test]
    fn requests_of_the_rfc_are_read_with_their_dynamic_table() {
        // RFC 7541, C.4: three requests on one connection.
        let mut reader = HeaderReader::new();
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
    fn any_bytes_are_read_or_refused_and_the_table_has_its_size() {
        let mut reader = HeaderReader::new();
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
            assert!(size == reader.size && size <= FIRST_SIZE);
        }
        assert!(reader.read(&[0x3f, 0xff, 0x7f]).unwrap_err().contains("a table of"));
        assert!(reader.read(&[0x80]).unwrap_err().contains("the entry 0"));
    }
}

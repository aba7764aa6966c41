//! Field sections of HTTP/3 in QPACK (RFC 9204), without a dynamic table: this end announces a capacity of 0, so that
//! every section stands by itself.

use super::fields::{number, put_number, put_string, string};
use super::head::Head;
use super::request::Request;

/// Places in the static table (RFC 9204, appendix A) of the fields of a request.
const AUTHORITY: u64 = 0;
const PATH: u64 = 1;
const METHOD_GET: u64 = 17;
const SCHEME_HTTPS: u64 = 23;
const ACCEPT_ANY: u64 = 29;
const ACCEPT_ENCODING: u64 = 31;
const USER_AGENT: u64 = 95;
const LAST: u64 = 98;

/// Entries of the static table that are of use here: places, names and values.
const ENTRIES: [(u64, &str, &str); 28] = [
    (AUTHORITY, ":authority", ""),
    (PATH, ":path", "/"),
    (4, "content-length", "0"),
    (12, "location", ""),
    (15, ":method", "CONNECT"),
    (16, ":method", "DELETE"),
    (METHOD_GET, ":method", "GET"),
    (18, ":method", "HEAD"),
    (19, ":method", "OPTIONS"),
    (20, ":method", "POST"),
    (21, ":method", "PUT"),
    (22, ":scheme", "http"),
    (SCHEME_HTTPS, ":scheme", "https"),
    (24, ":status", "103"),
    (25, ":status", "200"),
    (26, ":status", "304"),
    (27, ":status", "404"),
    (28, ":status", "503"),
    (63, ":status", "100"),
    (64, ":status", "204"),
    (65, ":status", "206"),
    (66, ":status", "302"),
    (67, ":status", "400"),
    (68, ":status", "403"),
    (69, ":status", "421"),
    (70, ":status", "425"),
    (71, ":status", "500"),
    (83, "alt-svc", "clear"),
];

/// Returns the field section of a request.
pub(super) fn encode(request: &Request) -> Vec<u8> {
    // No entry of a dynamic table is needed, and the base is 0.
    let mut out = vec![0, 0];
    let entry = |out: &mut Vec<u8>, place| put_number(out, 0b1100_0000, 6, place);
    let literal = |out: &mut Vec<u8>, place, value: &str| {
        put_number(out, 0b0101_0000, 4, place);
        put_string(out, value);
    };
    // Fields of the protocol come first (RFC 9114, 4.3).
    entry(&mut out, METHOD_GET);
    entry(&mut out, SCHEME_HTTPS);
    literal(&mut out, AUTHORITY, &request.authority);
    literal(&mut out, PATH, &request.path);
    literal(&mut out, USER_AGENT, &request.agent);
    entry(&mut out, ACCEPT_ANY);
    literal(&mut out, ACCEPT_ENCODING, "identity");
    out
}

/// Reads the field section of an answer.
///
/// # Errors
/// The violation, as a sentence.
pub(super) fn decode(section: &[u8]) -> Result<Head, String> {
    let mut head = Head::default();
    read_section(section, &mut |name, value| head.field(name, value))?;
    head.check()?;
    Ok(head)
}

/// Receiver of fields: name and value of each.
pub type OnField<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), String>;

/// Reads a field section: passes name and value of each field to `on_field`. Fields of names that are of no use here may be
/// left out, or have an empty name.
///
/// # Errors
/// The violation, as a sentence, or the error of `on_field`.
pub fn read_section(section: &[u8], on_field: OnField<'_>) -> Result<(), String> {
    let mut rest = section;
    let needed = number(&mut rest, 8)?;
    number(&mut rest, 7)?;
    if needed > 0 {
        return Err(dynamic());
    }
    while let Some(first) = rest.first().copied() {
        if first & 0b1000_0000 != 0 {
            // An indexed field.
            let place = number(&mut rest, 6)?;
            if first & 0b0100_0000 == 0 {
                return Err(dynamic());
            }
            let (name, value) = entry(place)?;
            on_field(name.as_bytes(), value.as_bytes())?;
        } else if first & 0b0100_0000 != 0 {
            // A literal with the name of an entry.
            let place = number(&mut rest, 4)?;
            if first & 0b0001_0000 == 0 {
                return Err(dynamic());
            }
            let value = string(&mut rest, 7)?;
            on_field(entry(place)?.0.as_bytes(), &value)?;
        } else if first & 0b0010_0000 != 0 {
            let name = string(&mut rest, 3)?;
            let value = string(&mut rest, 7)?;
            on_field(&name, &value)?;
        } else {
            return Err(dynamic());
        }
    }
    Ok(())
}

fn dynamic() -> String {
    "its header refers to a dynamic table, for which this end has left no room".to_owned()
}

/// Returns name and value of an entry of the static table; both are empty if it is of no use here.
fn entry(place: u64) -> Result<(&'static str, &'static str), String> {
    match ENTRIES.iter().find(|(own, ..)| *own == place) {
        Some((_, name, value)) => Ok((name, value)),
        None if place <= LAST => Ok(("", "")),
        None => Err(format!("its header names entry {place} of a static table with {LAST}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field section of an answer, with literals in each form.
    fn answer() -> Vec<u8> {
        let mut out = vec![0, 0];
        put_number(&mut out, 0b1100_0000, 6, 25);
        put_number(&mut out, 0b0101_0000, 4, 4);
        put_number(&mut out, 0, 7, 4);
        out.extend_from_slice(b"5120");
        put_number(&mut out, 0b0101_0000, 4, 83);
        put_number(&mut out, 0, 7, 8);
        out.extend_from_slice(b"h3=\":1\";");
        put_number(&mut out, 0b0010_0000, 3, 11);
        out.extend_from_slice(b"x-own-field");
        put_number(&mut out, 0, 7, 300);
        out.extend_from_slice(&[b'a'; 300]);
        out
    }

    #[test]
    fn an_answer_is_read_with_its_status_its_length_and_its_services() {
        let head = decode(&answer()).unwrap();
        assert_eq!((head.status, head.length), (200, Some(5_120)));
        assert_eq!(head.alt_svc.as_deref(), Some("h3=\":1\";"));
        // A status that the static table has not, in Huffman's code (RFC 7541, C.6.2).
        let coded = [0, 0, 0b0101_1111, 9, 0b1000_0011, 0x64, 0x0e, 0xff];
        assert_eq!(decode(&coded).unwrap().status, 307);
    }

    #[test]
    fn sections_that_are_cut_or_need_a_dynamic_table_are_refused() {
        let whole = answer();
        for len in 0..whole.len() {
            // Where a field ends, the section may.
            if let Ok(head) = decode(&whole[..len]) {
                assert_eq!(head.status, 200, "{len} bytes");
            }
        }
        for (section, why) in [
            (&[][..], "within a number"),
            (&[1, 0], "dynamic table"),
            (&[0, 0, 0x80], "dynamic table"),
            (&[0, 0, 0x40, 1, b'a'], "dynamic table"),
            (&[0, 0, 0x10], "dynamic table"),
            (&[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "without an end"),
            (&[0, 0, 0xff, 60], "static table"),
            (&[0, 0, 0x5f, 0x7f, 1, b'a'], "static table"),
            (&[0, 0, 0x23, b'a'], "within a field"),
            (&[0, 0, 0x51, 0x81, 0x00], "Huffman"),
            (&[0, 0], "no status"),
            (&[0, 0, 0xd9, 0xd9], "two statuses"),
        ] {
            let said = decode(section).unwrap_err();
            assert!(said.contains(why), "{section:x?}: {said}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut section = vec![0, 0];
            for _ in 0..state % 40 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                section.push((state >> 56) as u8);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = decode(&section);
        }
    }
}

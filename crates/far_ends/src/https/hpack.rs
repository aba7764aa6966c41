//! Headers of HTTP/2 in HPACK (RFC 7541), without a dynamic table: this end announces a size of 0, so that every header
//! stands by itself.

use super::fields::{number, put_number, put_string, string};
use super::head::Head;
use super::request::Request;

/// Places in the static table (RFC 7541, appendix A) that are of use here.
const AUTHORITY: u64 = 1;
const METHOD_GET: u64 = 2;
const PATH: u64 = 4;
const SCHEME_HTTPS: u64 = 7;
const ACCEPT_ENCODING: u64 = 16;
const ACCEPT: u64 = 19;
const CONTENT_LENGTH: u64 = 28;
const LOCATION: u64 = 46;
const USER_AGENT: u64 = 58;
const LAST: u64 = 61;

/// Statuses in the static table, from this place on.
const FIRST_STATUS: u64 = 8;
const STATUSES: [&str; 7] = ["200", "204", "206", "304", "400", "404", "500"];

/// Returns the header of a request.
pub(super) fn encode(request: &Request) -> Vec<u8> {
    let mut out = Vec::new();
    for place in [METHOD_GET, SCHEME_HTTPS] {
        put_number(&mut out, 0b1000_0000, 7, place);
    }
    for (place, value) in [
        (AUTHORITY, request.authority.as_str()),
        (PATH, &request.path),
        (USER_AGENT, &request.agent),
        (ACCEPT, "*/*"),
        (ACCEPT_ENCODING, "identity"),
    ] {
        put_number(&mut out, 0, 4, place);
        put_string(&mut out, value);
    }
    out
}

/// Reads the header of an answer.
///
/// # Errors
/// The violation, as a sentence.
pub(super) fn decode(block: &[u8]) -> Result<Head, String> {
    let (mut rest, mut head) = (block, Head::default());
    while let Some(first) = rest.first().copied() {
        if first & 0b1000_0000 != 0 {
            let place = number(&mut rest, 7)?;
            let status = place.checked_sub(FIRST_STATUS).and_then(|at| STATUSES.get(at as usize));
            match status {
                Some(status) => head.field(b":status", status.as_bytes())?,
                None => drop(name_of(place)?),
            }
            continue;
        }
        if first & 0b1110_0000 == 0b0010_0000 {
            // A new size of the dynamic table, which is 0 at most.
            match number(&mut rest, 5)? {
                0 => continue,
                _ => return Err(dynamic()),
            }
        }
        // A literal, with or without a place in the dynamic table, where there is no room for it.
        let place = number(&mut rest, if first & 0b0100_0000 != 0 { 6 } else { 4 })?;
        if place == 0 {
            let name = string(&mut rest, 7)?;
            head.field(&name, &string(&mut rest, 7)?)?;
        } else {
            let name = name_of(place)?;
            head.field(name, &string(&mut rest, 7)?)?;
        }
    }
    head.check()?;
    Ok(head)
}

fn dynamic() -> String {
    "its header refers to a dynamic table, for which this end has left no room".to_owned()
}

/// Returns the name of an entry of the static table, as far as it is of use here.
fn name_of(place: u64) -> Result<&'static [u8], String> {
    match place {
        CONTENT_LENGTH => Ok(b"content-length"),
        LOCATION => Ok(b"location"),
        place if place.checked_sub(FIRST_STATUS).is_some_and(|at| at < 7) => Ok(b":status"),
        1..=LAST => Ok(b""),
        0 => Err("its header has a field without a place".to_owned()),
        _ => Err(dynamic()),
    }
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
            (&[0x80], "without a place"),
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
}

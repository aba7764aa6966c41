//! Numbers and strings in the headers of HTTP/2 and HTTP/3 (RFC 7541, 5; RFC 9204, 4.1).

use std::borrow::Cow;

use super::huffman;

/// Writes a number behind the bits `first` of its first byte, of which it has the last `prefix` (RFC 7541, 5.1).
pub fn put_number(out: &mut Vec<u8>, first: u8, prefix: u32, number: u64) {
    let most = (1_u64 << prefix) - 1;
    if number < most {
        out.push(first | number as u8);
        return;
    }
    out.push(first | most as u8);
    let mut left = number - most;
    while left >= 128 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Reads a number that has the last `prefix` bits of its first byte.
///
/// # Errors
/// The violation, as a sentence.
pub fn number(rest: &mut &[u8], prefix: u32) -> Result<u64, String> {
    let cut = || "its header ends within a number".to_owned();
    let (first, mut tail) = rest.split_first().ok_or_else(cut)?;
    let most = (1_u64 << prefix) - 1;
    let mut number = u64::from(*first) & most;
    if number == most {
        let mut shift = 0;
        loop {
            let (byte, after) = tail.split_first().ok_or_else(cut)?;
            tail = after;
            // Nothing in a header is longer than 4 GiB.
            if shift > 28 {
                return Err("its header has a number without an end".to_owned());
            }
            number += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Ok(number)
}

/// Reads a string whose length has the last `prefix` bits of its first byte; the bit before says whether it is in
/// Huffman's code.
///
/// # Errors
/// The violation, as a sentence.
pub fn string<'a>(rest: &mut &'a [u8], prefix: u32) -> Result<Cow<'a, [u8]>, String> {
    let is_coded = rest.first().is_some_and(|first| first & (1 << prefix) != 0);
    let length = number(rest, prefix)?;
    let whole: &'a [u8] = rest;
    let Some((own, tail)) =
        usize::try_from(length).ok().and_then(|len| whole.split_at_checked(len))
    else {
        return Err("its header ends within a field".to_owned());
    };
    *rest = tail;
    if !is_coded {
        Ok(Cow::Borrowed(own))
    } else {
        let decoded = huffman::decode(own);
        decoded.map(Cow::Owned).ok_or_else(|| "its header is wrong Huffman code".to_owned())
    }
}

/// Writes a string as it is.
pub fn put_string(out: &mut Vec<u8>, value: &str) {
    put_number(out, 0, 7, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

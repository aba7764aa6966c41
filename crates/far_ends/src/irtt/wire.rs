//! Frame of irtt's packets at both ends: magic, flags, and the code of a whole packet, if there is a key; and the varints of
//! parameters. All other numbers are little-endian.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;

pub(super) const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];

/// Flags.
pub(crate) const OPEN: u8 = 1;
pub(crate) const REPLY: u8 = 2;
pub(crate) const CLOSE: u8 = 4;
const HAS_CODE: u8 = 8;

/// Length of an HMAC-MD5 (RFC 2104).
const CODE_LEN: usize = 16;
/// Bytes before the code.
const HEAD: usize = 4;

/// Key of packets, if the server wants one.
pub(crate) struct IrttSeal(Option<Vec<u8>>);

impl IrttSeal {
    pub(crate) fn new(key: Option<&[u8]>) -> IrttSeal {
        IrttSeal(key.map(<[u8]>::to_vec))
    }

    /// Returns the bytes before the token.
    pub(crate) fn header_len(&self) -> usize {
        HEAD + if self.0.is_some() { CODE_LEN } else { 0 }
    }

    /// Writes magic and flags.
    pub(crate) fn begin(&self, flags: u8, packet: &mut [u8]) {
        packet[..3].copy_from_slice(&MAGIC);
        packet[3] = flags | if self.0.is_some() { HAS_CODE } else { 0 };
    }

    /// Writes the code of a whole packet.
    pub(crate) fn close(&self, packet: &mut [u8]) {
        let Some(key) = &self.0 else { return };
        if let Some(mac) = code(key, packet) {
            packet[HEAD..HEAD + CODE_LEN].copy_from_slice(&mac.finalize().into_bytes());
        }
    }

    /// Returns the flags of a packet, and the rest; `None` if it is none of irtt's, or its code is wrong.
    pub(crate) fn read<'a>(&self, packet: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (flags, rest) = packet.strip_prefix(&MAGIC)?.split_first()?;
        let Some(key) = &self.0 else {
            return (flags & HAS_CODE == 0).then_some((*flags, rest));
        };
        let (given, rest) = rest.split_first_chunk::<CODE_LEN>()?;
        code(key, packet)?.verify_slice(given).ok()?;
        (flags & HAS_CODE != 0).then_some((flags & !HAS_CODE, rest))
    }
}

/// Returns the code of a packet, with zeros in its place.
fn code(key: &[u8], packet: &[u8]) -> Option<Hmac<Md5>> {
    let mut mac = Hmac::<Md5>::new_from_slice(key).ok()?;
    mac.update(packet.get(..HEAD)?);
    mac.update(&[0; CODE_LEN]);
    mac.update(packet.get(HEAD + CODE_LEN..)?);
    Some(mac)
}

/// Appends a varint of protocol buffers.
pub(crate) fn put(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Takes a varint from the front; `None` if it is cut off or too long.
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends a parameter; the sign is the lowest bit of its varint (zigzag).
pub(crate) fn put_signed(into: &mut Vec<u8>, key: u64, value: i64) {
    put(into, key);
    put(into, ((value << 1) ^ (value >> 63)) as u64);
}

/// Parameters of a packet: the numbers with the keys 1 to 8, and the text of the fill, whose key is 9. Missing ones are 0 and
/// empty.
pub(crate) type WireParameters<'a> = ([i64; 8], &'a [u8]);

/// Reads all parameters of a packet; unknown ones are skipped. `None` if they are cut off.
pub(crate) fn read_parameters(mut rest: &[u8]) -> Option<WireParameters<'_>> {
    let (mut numbers, mut fill) = ([0; 8], &rest[..0]);
    while !rest.is_empty() {
        let key = take(&mut rest)?;
        let raw = take(&mut rest)?;
        match key {
            1..=8 => numbers[key as usize - 1] = signed(raw),
            // A text has its length in front.
            9 => (fill, rest) = rest.split_at_checked(usize::try_from(raw).ok()?)?,
            _ => {}
        }
    }
    Some((numbers, fill))
}

fn signed(raw: u64) -> i64 {
    ((raw >> 1) as i64) ^ -((raw & 1) as i64)
}

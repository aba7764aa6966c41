//! Frame of irtt's packets: magic, flags, and the code of a whole packet, if there is a key. All numbers are little-endian.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;

const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];

/// Flags.
pub(super) const OPEN: u8 = 1;
pub(super) const REPLY: u8 = 2;
pub(super) const CLOSE: u8 = 4;
const HAS_CODE: u8 = 8;

/// Length of an HMAC-MD5 (RFC 2104).
const CODE_LEN: usize = 16;
/// Bytes before the code.
const HEAD: usize = 4;

/// Key of the packets of a server, if it has one.
pub(super) struct IrttSeal(Option<Vec<u8>>);

impl IrttSeal {
    pub(super) fn new(key: Option<&[u8]>) -> IrttSeal {
        IrttSeal(key.map(<[u8]>::to_vec))
    }

    /// Returns the bytes before the token.
    pub(super) fn header_len(&self) -> usize {
        HEAD + if self.0.is_some() { CODE_LEN } else { 0 }
    }

    /// Writes magic and flags.
    pub(super) fn begin(&self, flags: u8, packet: &mut [u8]) {
        packet[..3].copy_from_slice(&MAGIC);
        packet[3] = flags | if self.0.is_some() { HAS_CODE } else { 0 };
    }

    /// Writes the code of a whole packet.
    pub(super) fn close(&self, packet: &mut [u8]) {
        let Some(key) = &self.0 else { return };
        if let Some(mac) = code(key, packet) {
            packet[HEAD..HEAD + CODE_LEN].copy_from_slice(&mac.finalize().into_bytes());
        }
    }

    /// Returns the flags of a packet, and the rest; `None` if it is none of irtt's, or its code is wrong.
    pub(super) fn read<'a>(&self, packet: &'a [u8]) -> Option<(u8, &'a [u8])> {
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

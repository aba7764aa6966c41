//! Layout of STAMP's packets at both ends: in the open (RFC 8762, sections 4.2.1 and 4.3.1) and authenticated (4.2.2 and
//! 4.3.2), with the session number of RFC 8972; the code of authenticated packets, and times. Numbers are big-endian.
//!
//! ```text
//! open           sender     0 number | 4 time | 12 error | 14 session | 16 zero to 44, or padding of TWAMP
//!                reflector  0 number | 4 time of sending | 12 error | 14 session | 16 time of arrival |
//!                           24 number of the sender | 28 its time | 36 its error | 38 zero | 40 its TTL | 41 zero to 44
//! authenticated  sender     0 number | 4 zero | 16 time | 24 error | 26 session | 28 zero | 96 code to 112
//!                reflector  0 number | 4 zero | 16 time of sending | 24 error | 26 session | 28 zero |
//!                           32 time of arrival | 40 zero | 48 number of the sender | 52 zero | 64 its time |
//!                           72 its error | 74 zero | 80 its TTL | 81 zero | 96 code to 112
//! ```
//! Extensions (RFC 8972, section 4) stand behind. A time is of NTP (RFC 5905: seconds since 1900, and their fraction) or of
//! PTP (seconds since 1970 and nanoseconds), as the error beside it says.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Places of the fields of a packet.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) time: usize,
    pub(crate) error: usize,
    pub(crate) session: usize,
    pub(crate) arrival: usize,
    pub(crate) number: usize,
    pub(crate) its_time: usize,
    pub(crate) its_error: usize,
    pub(crate) ttl: usize,
    /// Least length of a reply, and so of a packet that has room for one: in the open, that of TWAMP.
    pub(crate) least: usize,
    /// Length without extensions.
    pub(crate) len: usize,
}

/// Packets in the open.
pub(crate) static OPEN: Layout = Layout {
    time: 4,
    error: 12,
    session: 14,
    arrival: 16,
    number: 24,
    its_time: 28,
    its_error: 36,
    ttl: 40,
    least: 41,
    len: 44,
};

/// Authenticated packets.
pub(crate) static AUTHENTICATED: Layout = Layout {
    time: 16,
    error: 24,
    session: 26,
    arrival: 32,
    number: 48,
    its_time: 64,
    its_error: 72,
    ttl: 80,
    least: COVERED + CODE_LEN,
    len: COVERED + CODE_LEN,
};

/// Bytes in front of the value of an extension: flags, type and length.
pub(crate) const EXTENSION_HEAD: usize = 4;
/// Type of an extension that is padding (RFC 8972, section 5.1).
pub(crate) const EXTRA_PADDING: u8 = 1;

/// Bits of an error: synchronised, and times as PTP has them (RFC 8762, section 4.2.1).
pub(crate) const IS_SYNCHRONISED: u16 = 0x8000;
pub(crate) const IS_PTP: u16 = 0x4000;

/// Seconds from 1900 to 1970.
pub(crate) const NTP_AHEAD: u32 = 2_208_988_800;
const SECOND: u64 = 1_000_000_000;

impl Layout {
    /// Returns the layout of packets with this key, or without one.
    pub(crate) fn of(key: Option<&StampKey>) -> &'static Layout {
        if key.is_some() { &AUTHENTICATED } else { &OPEN }
    }
}

/// Reads bytes of a packet; zeros where it has none.
pub(crate) fn read_bytes<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    packet.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Returns the field of a time of day, which is given in nanoseconds since 1970.
pub(crate) fn written(ns: u64, is_ptp: bool) -> u64 {
    let (secs, rest) = (ns / SECOND, ns % SECOND);
    if is_ptp {
        (secs << 32) | rest
    } else {
        ((secs + u64::from(NTP_AHEAD)) << 32) | ((rest << 32) / SECOND)
    }
}

/// Returns the time of day in a field, in nanoseconds since 1970; `None` if it has more than a second of nanoseconds.
pub(crate) fn nanos(field: u64, is_ptp: bool) -> Option<u64> {
    let (secs, rest) = ((field >> 32) as u32, field & u64::from(u32::MAX));
    // The era of NTP changes in 2036, and the difference to 1970 stays.
    let (secs, rest) =
        if is_ptp { (secs, rest) } else { (secs.wrapping_sub(NTP_AHEAD), (rest * SECOND) >> 32) };
    (rest < SECOND).then_some(u64::from(secs) * SECOND + rest)
}

/// Bytes of a packet that its code covers, and of the code (RFC 8762, section 4.4).
const COVERED: usize = 96;
pub(crate) const CODE_LEN: usize = 16;

/// Key of authenticated packets.
#[derive(Debug, Clone)]
pub(crate) struct StampKey(Hmac<Sha256>);

impl StampKey {
    /// Creates a key of any length (RFC 2104), so that there is always one.
    pub(crate) fn new(key: &[u8]) -> Option<StampKey> {
        Hmac::new_from_slice(key).ok().map(StampKey)
    }

    /// Returns true if the code of a packet is right; comparing takes the same time whatever is wrong.
    pub(crate) fn is_right(&self, packet: &[u8]) -> bool {
        let Some(code) = packet.get(COVERED..COVERED + CODE_LEN) else { return false };
        self.is_code(&[&packet[..COVERED]], code)
    }

    /// Writes the code of a packet into its place.
    pub(crate) fn seal(&self, packet: &mut [u8]) {
        if packet.len() >= COVERED + CODE_LEN {
            let code = self.code(&[&packet[..COVERED]]);
            packet[COVERED..COVERED + CODE_LEN].copy_from_slice(&code);
        }
    }

    /// Returns true if `code` is that of these texts.
    pub(crate) fn is_code(&self, texts: &[&[u8]], code: &[u8]) -> bool {
        self.mac(texts).verify_truncated_left(code).is_ok()
    }

    /// Returns the code of these texts: the first 16 bytes of their HMAC-SHA-256 (RFC 8762, section 4.4).
    pub(crate) fn code(&self, texts: &[&[u8]]) -> [u8; CODE_LEN] {
        let mut code = [0; CODE_LEN];
        code.copy_from_slice(&self.mac(texts).finalize().into_bytes()[..CODE_LEN]);
        code
    }

    fn mac(&self, texts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        texts.iter().for_each(|text| mac.update(text));
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2, truncated.
    #[test]
    fn a_code_is_the_first_half_of_an_hmac() {
        let key = StampKey::new(b"Jefe").unwrap();
        let code = key.code(&[b"what do ya want ", b"for nothing?"]);
        let wanted = [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7,
        ];
        assert_eq!(code, wanted);
        let mut packet = [0; 112];
        StampKey::new(b"secret").unwrap().seal(&mut packet);
        // By `openssl dgst -sha256 -mac HMAC -macopt key:secret`, of 96 zeros.
        let hex: String = packet[96..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "957225eeacac6e0662947ba0a2be35ae");
    }

    #[test]
    fn times_of_ntp_and_of_ptp_are_read_as_they_are_written() {
        let (ahead, half) = (u64::from(NTP_AHEAD), 1 << 31);
        assert_eq!(nanos((ahead + 3) << 32 | half, false), Some(3_500_000_000));
        assert_eq!(nanos(3 << 32 | 500, true), Some(3_000_000_500));
        assert_eq!(nanos(3 << 32 | 1_000_000_000, true), None, "more than a second");
        // The era of NTP that begins in 2036.
        assert_eq!(nanos(5 << 32, false), Some(((1 << 32) - ahead + 5) * SECOND));
        for ns in [0, 1_700_000_000 * SECOND + 1, 2_100_000_000 * SECOND + 999_999_999] {
            assert_eq!(nanos(written(ns, true), true), Some(ns));
            // A part of 2^-32 s is a quarter of a nanosecond, cut twice.
            assert!(nanos(written(ns, false), false).unwrap().abs_diff(ns) <= 1, "{ns}");
        }
    }
}

//! Packets of STAMP, without a code (RFC 8762, sections 4.2.1 and 4.3.1) and with one (4.2.2 and 4.3.2). Numbers are
//! big-endian.
//!
//! ```text
//! without    sender     0 number | 4 time | 12 error | 14 session | 16 zero to 44
//!            reflector  0 number | 4 time | 12 error | 14 session | 16 time of arrival | 24 number of the sender |
//!                       28 its time | 36 its error | 38 zero | 40 its TTL | 41 zero to 44
//! with       sender     0 number | 4 zero | 16 time | 24 error | 26 session | 28 zero | 96 code to 112
//!            reflector  0 number | 4 zero | 16 time | 24 error | 26 session | 28 zero | 32 time of arrival | 40 zero |
//!                       48 number of the sender | 52 zero | 64 its time | 72 its error | 74 zero | 80 its TTL |
//!                       81 zero | 96 code to 112
//! ```

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Places of the fields of a packet.
#[derive(Debug)]
pub(super) struct Layout {
    time: usize,
    error: usize,
    session: usize,
    arrival: usize,
    number: usize,
    its_time: usize,
    its_error: usize,
    ttl: usize,
    /// Least length of a packet that has room for a reply: of TWAMP, without a code.
    pub(super) least: usize,
    /// Length without extensions.
    pub(super) len: usize,
}

/// Packets without a code.
pub(super) static UNSEALED: Layout = Layout {
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

/// Packets with a code.
pub(super) static SEALED: Layout = Layout {
    time: 16,
    error: 24,
    session: 26,
    arrival: 32,
    number: 48,
    its_time: 64,
    its_error: 72,
    ttl: 80,
    least: 112,
    len: 112,
};

/// Bytes of a packet that its code covers, and of the code (RFC 8762, section 4.4).
const COVERED: usize = 96;
pub(super) const CODE_LEN: usize = 16;

/// Bits of an error: synchronised, and times as PTP has them (RFC 8762, section 4.2.1).
const IS_SYNCHRONISED: u16 = 0x8000;
const IS_PTP: u16 = 0x4000;

/// Largest error that the field can say: for a clock that nobody compared.
const LARGEST_ERROR: u16 = 0x3fff;

/// Seconds from 1900 to 1970.
const NTP_AHEAD: u64 = 2_208_988_800;
const SECOND: u64 = 1_000_000_000;

/// Largest error of this host's time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockError {
    /// Not known: no daemon disciplines the clock.
    Unknown,
    /// At most this many nanoseconds, by the kernel.
    AtMost(u64),
}

impl ClockError {
    /// Returns the field of RFC 4656, section 4.1.2: `multiplier × 2^(scale − 32)` seconds.
    fn field(self) -> u16 {
        let ClockError::AtMost(ns) = self else { return LARGEST_ERROR };
        let parts = ((u128::from(ns) << 32) / u128::from(SECOND)).max(1);
        let bits = 128 - parts.leading_zeros();
        let scale = bits.saturating_sub(8);
        let multiplier = parts.div_ceil(1 << scale);
        // Rounding up may need one bit more.
        let (scale, multiplier) =
            if multiplier > 0xff { (scale + 1, 0x80) } else { (scale, multiplier as u16) };
        IS_SYNCHRONISED | (scale.min(63) as u16) << 8 | multiplier
    }
}

impl Layout {
    /// Returns the time in a packet that would be one of this host's, were the packet the reply of another reflector.
    pub(super) fn returned_time(&self, packet: &[u8]) -> u64 {
        read(packet, self.its_time)
    }

    /// Returns the number of a packet.
    pub(super) fn number(&self, packet: &[u8]) -> [u8; 4] {
        read_bytes(packet, 0)
    }

    /// Returns the number of the session.
    pub(super) fn session(&self, packet: &[u8]) -> u16 {
        u16::from_be_bytes(read_bytes(packet, self.session))
    }

    /// Returns true if the packet has zeros behind the session number, as a sender of STAMP writes them.
    pub(super) fn has_zeros(&self, packet: &[u8]) -> bool {
        packet.get(self.arrival..self.len).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    }

    /// Makes a packet its reply, up to the times; `own` is the reply's number, the sender's where it is `None`.
    pub(super) fn turn(&self, packet: &mut [u8], own: Option<u32>, ttl: u8, is_stamp: bool) {
        let number: [u8; 4] = read_bytes(packet, 0);
        let time: [u8; 8] = read_bytes(packet, self.time);
        let error: [u8; 2] = read_bytes(packet, self.error);
        let session: [u8; 2] = if is_stamp { read_bytes(packet, self.session) } else { [0; 2] };
        let end = self.len.min(packet.len());
        packet[..end].fill(0);
        let own = own.map_or(number, u32::to_be_bytes);
        for (at, field) in [
            (0, &own[..]),
            (self.error, &error),
            (self.session, &session),
            (self.number, &number),
            (self.its_time, &time),
            (self.its_error, &error),
            (self.ttl, &[ttl]),
        ] {
            packet[at..at + field.len()].copy_from_slice(field);
        }
    }

    /// Writes the times into a reply, in the format of its packet, and the error of the clock; returns the time of sending
    /// as written.
    pub(super) fn stamp(
        &self,
        packet: &mut [u8],
        arrived: u64,
        now: u64,
        error: ClockError,
    ) -> u64 {
        let is_ptp = u16::from_be_bytes(read_bytes(packet, self.its_error)) & IS_PTP != 0;
        let field = error.field() & !IS_PTP | if is_ptp { IS_PTP } else { 0 };
        packet[self.error..self.error + 2].copy_from_slice(&field.to_be_bytes());
        let time = written(now, is_ptp);
        for (at, time) in [(self.arrival, written(arrived, is_ptp)), (self.time, time)] {
            packet[at..at + 8].copy_from_slice(&time.to_be_bytes());
        }
        time
    }
}

/// Returns a time of day in nanoseconds since 1970 as NTP has it (RFC 5905), or PTP (IEEE 1588, truncated).
fn written(ns: u64, is_ptp: bool) -> u64 {
    let (secs, rest) = (ns / SECOND, ns % SECOND);
    match is_ptp {
        true => (secs << 32) | rest,
        false => ((secs + NTP_AHEAD) << 32) | ((rest << 32) / SECOND),
    }
}

fn read(packet: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(read_bytes(packet, at))
}

/// Reads bytes of a packet; zeros where it has none.
fn read_bytes<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    packet.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Key of authenticated packets.
pub(super) struct StampKey(Vec<u8>);

impl StampKey {
    pub(super) fn new(key: &[u8]) -> StampKey {
        StampKey(key.to_vec())
    }

    /// Returns true if the code of a packet is right; comparing takes the same time whatever is wrong.
    pub(super) fn is_right(&self, packet: &[u8]) -> bool {
        let Some(code) = packet.get(COVERED..COVERED + CODE_LEN) else { return false };
        self.is_code(&[&packet[..COVERED]], code)
    }

    /// Writes the code of a packet into its place.
    pub(super) fn seal(&self, packet: &mut [u8]) {
        if packet.len() >= COVERED + CODE_LEN {
            let code = self.code(&[&packet[..COVERED]]);
            packet[COVERED..COVERED + CODE_LEN].copy_from_slice(&code);
        }
    }

    /// Returns true if `code` is that of these texts.
    pub(super) fn is_code(&self, texts: &[&[u8]], code: &[u8]) -> bool {
        self.mac(texts).is_some_and(|mac| mac.verify_truncated_left(code).is_ok())
    }

    /// Returns the code of these texts: the first 16 bytes of their HMAC-SHA-256 (RFC 8762, section 4.4).
    pub(super) fn code(&self, texts: &[&[u8]]) -> [u8; CODE_LEN] {
        let mut code = [0; CODE_LEN];
        if let Some(mac) = self.mac(texts) {
            code.copy_from_slice(&mac.finalize().into_bytes()[..CODE_LEN]);
        }
        code
    }

    /// Returns the HMAC of these texts; `None` never comes, as keys of any length are fine (RFC 2104).
    fn mac(&self, texts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        texts.iter().for_each(|text| mac.update(text));
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_by_the_least_that_is_not_below_it() {
        let said = |ns| {
            let field = ClockError::AtMost(ns).field();
            assert_eq!(field & IS_SYNCHRONISED, IS_SYNCHRONISED);
            let (scale, multiplier) = (i32::from(field >> 8 & 0x3f), f64::from(field & 0xff));
            multiplier * 2_f64.powi(scale - 32) * 1e9
        };
        for ns in [1, 255, 1_000, 59_000, 1_000_000, 16_000_000, 4_000_000_000, u64::MAX / 3] {
            let (said, ns) = (said(ns), ns as f64);
            assert!(said >= ns - 0.5 && said <= ns * 1.01 + 0.5, "{ns}: {said}");
        }
        assert_eq!(ClockError::AtMost(0).field(), IS_SYNCHRONISED | 1, "never a multiplier of 0");
        assert_eq!(ClockError::Unknown.field() & IS_SYNCHRONISED, 0);
    }

    #[test]
    fn times_of_ptp_are_answered_with_times_of_ptp() {
        let mut packet = vec![0; 44];
        packet[12..14].copy_from_slice(&(IS_PTP | 1).to_be_bytes());
        UNSEALED.turn(&mut packet, Some(1), 64, true);
        UNSEALED.stamp(&mut packet, 3 * SECOND + 5, 4 * SECOND + 6, ClockError::AtMost(1));
        assert_eq!(packet[4..13], [0, 0, 0, 4, 0, 0, 0, 6, 0xc0]);
        assert_eq!(packet[16..24], [0, 0, 0, 3, 0, 0, 0, 5]);
    }

    /// RFC 4231, test case 2, truncated.
    #[test]
    fn a_code_is_the_first_half_of_an_hmac() {
        let code = StampKey::new(b"Jefe").code(&[b"what do ya want ", b"for nothing?"]);
        let wanted = [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7,
        ];
        assert_eq!(code, wanted);
    }
}

//! Packets of STAMP, in the open and authenticated (RFC 8762, 4.2 and 4.3; session number of RFC 8972).
//!
//! ```text
//! open           sender     0 number | 4 time | 12 error | 14 session | 16 zero … | 44 padding (RFC 8972, 4.1)
//!                reflector  0 number | 4 time of sending | 12 error | 14 session | 16 time of receiving |
//!                           24 number of the sender | 28 time of the sender | 36 its error | 40 its TTL | 44 padding
//! authenticated  sender     0 number | 16 time | 24 error | 26 session | 28 zero … | 96 HMAC | 112 padding
//!                reflector  0 number | 16 time of sending | 24 error | 26 session | 32 time of receiving |
//!                           48 number of the sender | 64 time of the sender | 72 its error | 80 its TTL | 96 HMAC
//! ```
//! Numbers are big-endian; a time is of NTP (RFC 5905: seconds since 1900, and their fraction) or of PTP (seconds and
//! nanoseconds), as the error says. The HMAC is of SHA-256 over the first 96 bytes, cut to 16.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::workload::header::{FarStamps, Reflected, ReflectorClock};

/// Bytes that an HMAC covers, and its length.
const COVERED: usize = 96;
const MAC_LEN: usize = 16;
/// Bytes in front of padding: flags, type and length.
const PADDING_HEAD: usize = 4;
const EXTRA_PADDING: u8 = 1;

/// Error of a clock that nobody compared: multiplier 1, which must not be 0.
const ERROR: u16 = 1;
/// Bits of the error: the clock is synchronised, and its times are of PTP.
pub(super) const IS_SYNCHRONISED: u16 = 0x8000;
pub(super) const IS_PTP: u16 = 0x4000;

/// Seconds from 1900 to 1970.
const NTP_AHEAD: u32 = 2_208_988_800;

/// Form of the packets of a session.
#[derive(Debug, Clone)]
pub(super) struct StampForm {
    /// Key of authenticated packets; `None` in the open.
    key: Option<Hmac<Sha256>>,
}

/// Places of the fields of a reflector's packet.
struct ReplyPlaces {
    sent: usize,
    error: usize,
    session: usize,
    received: usize,
    number: usize,
    /// Least bytes.
    least: usize,
}

/// Least bytes of an open reply: those of TWAMP.
const OPEN: ReplyPlaces =
    ReplyPlaces { sent: 4, error: 12, session: 14, received: 16, number: 24, least: 41 };
const AUTHENTICATED: ReplyPlaces = ReplyPlaces {
    sent: 16,
    error: 24,
    session: 26,
    received: 32,
    number: 48,
    least: COVERED + MAC_LEN,
};

/// Reply of a reflector.
#[derive(Debug, PartialEq)]
pub(super) struct StampReply {
    /// Number of the packet that it answers.
    pub(super) number: u32,
    /// Number of the reply itself: a copy, or the count of a reflector that has state.
    pub(super) own_number: u32,
    pub(super) received_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) clock: ReflectorClock,
}

impl StampReply {
    /// Returns the reflector's statements on the message, with its count if it has one.
    pub(super) fn stamps(&self, count: Option<u32>) -> FarStamps {
        let reflected = Some(Reflected { count, clock: self.clock });
        FarStamps { received_ns: self.received_ns, sent_ns: self.sent_ns, reflected }
    }
}

impl StampForm {
    /// Creates the form with this key, which may have any length (RFC 2104), or without one.
    pub(super) fn new(key: Option<&str>) -> StampForm {
        StampForm { key: key.and_then(|key| Hmac::new_from_slice(key.as_bytes()).ok()) }
    }

    /// Returns the bytes of a packet without padding.
    pub(super) fn base_len(&self) -> usize {
        if self.key.is_some() { COVERED + MAC_LEN } else { 44 }
    }

    fn places(&self) -> &'static ReplyPlaces {
        if self.key.is_some() { &AUTHENTICATED } else { &OPEN }
    }

    /// Writes a packet into the start of `packet`, of `len` bytes in all or the least that it needs; returns its length.
    pub(super) fn write(&self, number: u32, session: u16, len: usize, packet: &mut [u8]) -> usize {
        let base = self.base_len();
        let len = len.max(base);
        let packet = &mut packet[..len];
        let at = self.places();
        packet.fill(0);
        packet[..4].copy_from_slice(&number.to_be_bytes());
        packet[at.sent..at.sent + 8].copy_from_slice(&ntp_now().to_be_bytes());
        packet[at.error..at.error + 2].copy_from_slice(&ERROR.to_be_bytes());
        packet[at.session..at.session + 2].copy_from_slice(&session.to_be_bytes());
        if let Some(padding) = len.checked_sub(base + PADDING_HEAD) {
            packet[base + 1] = EXTRA_PADDING;
            packet[base + 2..base + 4].copy_from_slice(&(padding as u16).to_be_bytes());
        }
        if let Some(key) = &self.key {
            let mut mac = key.clone();
            mac.update(&packet[..COVERED]);
            let code = mac.finalize().into_bytes();
            packet[COVERED..COVERED + MAC_LEN].copy_from_slice(&code[..MAC_LEN]);
        }
        len
    }

    /// Reads a reply of this session; `None` if the packet is none, or has a wrong code.
    pub(super) fn read(&self, session: u16, packet: &[u8]) -> Option<StampReply> {
        let at = self.places();
        if packet.len() < at.least {
            return None;
        }
        if let Some(key) = &self.key {
            let mut mac = key.clone();
            mac.update(&packet[..COVERED]);
            mac.verify_truncated_left(&packet[COVERED..COVERED + MAC_LEN]).ok()?;
        }
        let short = |from: usize| Some(u16::from_be_bytes(*packet.get(from..)?.first_chunk()?));
        let word = |from: usize| Some(u32::from_be_bytes(*packet.get(from..)?.first_chunk()?));
        // A reflector of RFC 8762 alone, or of TWAMP, has zeros in its place.
        if ![0, session].contains(&short(at.session)?) {
            return None;
        }
        let error = short(at.error)?;
        let time = |from: usize| nanos(word(from)?, word(from + 4)?, error);
        let times = time(at.received).zip(time(at.sent));
        let (received_ns, sent_ns) = times.unwrap_or_default();
        let clock = times.map_or(ReflectorClock::Unsaid, |_| clock(error));
        let (number, own_number) = (word(at.number)?, word(0)?);
        Some(StampReply { number, own_number, received_ns, sent_ns, clock })
    }
}

/// Returns the time of day as NTP has it.
fn ntp_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    ((now.as_secs() + u64::from(NTP_AHEAD)) << 32) | fraction
}

/// Returns a reflector's time in nanoseconds since 1970; `None` if it is none.
fn nanos(secs: u32, rest: u32, error: u16) -> Option<u64> {
    // A multiplier of 0 is of no clock (RFC 4656, 4.1.2).
    if error & 0xff == 0 || (secs, rest) == (0, 0) {
        return None;
    }
    let (secs, rest) = match error & IS_PTP {
        // The era of NTP changes in 2036, and the difference to 1970 stays.
        0 => (secs.wrapping_sub(NTP_AHEAD), (u64::from(rest) * 1_000_000_000) >> 32),
        _ => (secs, u64::from(rest)),
    };
    (rest < 1_000_000_000).then_some(u64::from(secs) * 1_000_000_000 + rest)
}

/// Returns the state of a clock by its error: a multiplier, times a power of two, in units of NTP's fraction (RFC 4656,
/// 4.1.2).
fn clock(error: u16) -> ReflectorClock {
    if error & IS_SYNCHRONISED == 0 {
        return ReflectorClock::Unsynchronised;
    }
    let (scale, multiplier) = (u32::from(error >> 8) & 0x3f, u128::from(error & 0xff));
    let micros = (multiplier << scale).saturating_mul(1_000_000).div_ceil(1 << 32);
    ReflectorClock::Synchronised { error_us: u32::try_from(micros).unwrap_or(u32::MAX) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns what a reflector answers: with this number, times in nanoseconds as PTP has them, and this error.
    pub(in crate::stamp) fn reflect(
        form: &StampForm,
        packet: &[u8],
        (number, error): (u32, u16),
        times: [u64; 2],
    ) -> Vec<u8> {
        let (at, mut reply) = (form.places(), packet.to_vec());
        let own = &packet[..4];
        let ptp = |ns: u64| ((ns / 1_000_000_000) << 32) | (ns % 1_000_000_000);
        reply[at.number..at.number + 4].copy_from_slice(own);
        reply[..4].copy_from_slice(&number.to_be_bytes());
        reply[at.error..at.error + 2].copy_from_slice(&error.to_be_bytes());
        for (place, ns) in [at.received, at.sent].into_iter().zip(times) {
            reply[place..place + 8].copy_from_slice(&ptp(ns).to_be_bytes());
        }
        if let Some(key) = &form.key {
            let mut mac = key.clone();
            mac.update(&reply[..COVERED]);
            let code = mac.finalize().into_bytes();
            reply[COVERED..COVERED + MAC_LEN].copy_from_slice(&code[..MAC_LEN]);
        }
        reply
    }

    const SYNCHRONISED: u16 = IS_SYNCHRONISED | IS_PTP | 1;

    #[test]
    fn a_reply_is_read_whole_or_not_at_all_in_both_forms() {
        for key in [None, Some("secret")] {
            let form = StampForm::new(key);
            let mut packet = [0xff; 200];
            let len = form.write(5, 9, 150, &mut packet);
            let base = form.base_len();
            assert_eq!((len, packet[base], packet[base + 1]), (150, 0, EXTRA_PADDING));
            assert_eq!(usize::from(packet[base + 3]), 150 - base - 4);
            let reply = reflect(&form, &packet[..len], (33, SYNCHRONISED), [7_000_000_005, 6]);
            let want = StampReply {
                number: 5,
                own_number: 33,
                received_ns: 7_000_000_005,
                sent_ns: 6,
                clock: ReflectorClock::Synchronised { error_us: 1 },
            };
            assert_eq!(form.read(9, &reply), Some(want), "{key:?}");
            assert_eq!(form.read(8, &reply), None, "of another session");
            for cut in 0..form.places().least {
                assert_eq!(form.read(9, &reply[..cut]), None, "{cut}");
            }
            // A reflector that does not know sessions.
            let mut without = reflect(&form, &packet[..len], (5, SYNCHRONISED), [1, 2]);
            if key.is_none() {
                without[14..16].fill(0);
            }
            assert!(form.read(9, &without).is_some());
        }
    }

    #[test]
    fn packets_with_a_wrong_code_are_of_others() {
        let (own, other) = (StampForm::new(Some("a")), StampForm::new(Some("b")));
        let mut packet = [0; 112];
        own.write(1, 9, 0, &mut packet);
        let reply = reflect(&own, &packet, (1, SYNCHRONISED), [1, 2]);
        assert!(own.read(9, &reply).is_some());
        assert_eq!(other.read(9, &reply), None);
        for at in [0, 20, 95, 96, 111] {
            let mut damaged = reply.clone();
            damaged[at] ^= 1;
            assert_eq!(own.read(9, &damaged), None, "{at}");
        }
    }

    /// The code of a packet of zeros, by `openssl dgst -sha256 -mac HMAC -macopt key:secret`.
    #[test]
    fn a_code_is_the_first_half_of_hmac_sha_256() {
        let mut mac = StampForm::new(Some("secret")).key.unwrap();
        mac.update(&[0; COVERED]);
        let code = mac.finalize().into_bytes();
        let hex: String = code[..MAC_LEN].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "957225eeacac6e0662947ba0a2be35ae");
    }

    #[test]
    fn times_of_ntp_and_of_ptp_are_read_to_the_nanosecond() {
        let half = 1 << 31;
        assert_eq!(nanos(NTP_AHEAD + 3, half, 1), Some(3_500_000_000));
        assert_eq!(nanos(3, 500, IS_PTP | 1), Some(3_000_000_500));
        // After the era that ends in 2036.
        assert_eq!(nanos(5, 0, 1), Some(((1 << 32) - 2_208_988_800 + 5) * 1_000_000_000));
        let now = nanos((ntp_now() >> 32) as u32, 0, ERROR).unwrap() / 1_000_000_000;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(unix) <= 1);
        assert_eq!(nanos(3, 1_000_000_000, IS_PTP | 1), None, "more than a second");
        assert_eq!([nanos(0, 0, 1), nanos(3, 3, IS_PTP)], [None; 2], "no clock");
    }

    #[test]
    fn an_error_is_a_multiplier_times_a_power_of_two() {
        let of = |scale: u16, multiplier: u16| clock(IS_SYNCHRONISED | scale << 8 | multiplier);
        let within = |error_us| ReflectorClock::Synchronised { error_us };
        assert_eq!(of(0, 1), within(1), "rounded up");
        assert_eq!(of(32, 2), within(2_000_000));
        assert_eq!(of(63, 255), within(u32::MAX));
        assert_eq!(clock(IS_PTP | 1), ReflectorClock::Unsynchronised);
    }
}

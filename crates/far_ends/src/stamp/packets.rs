//! Packets of a session, as a sender of STAMP has them.

use deadheat_base::time::{Clock, Realtime};
use deadheat_contract::workload::header::{FarStamps, Reflected, ReflectorClock};

use super::layout::{
    EXTENSION_HEAD, EXTRA_PADDING, IS_PTP, IS_SYNCHRONISED, Layout, StampKey, nanos, read_bytes,
    written,
};

/// Error of a clock that nobody compared: multiplier 1, which must not be 0.
const ERROR: u16 = 1;

/// Form of the packets of a session.
#[derive(Debug, Clone)]
pub(super) struct StampForm {
    /// Key of authenticated packets; `None` in the open.
    key: Option<StampKey>,
}

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
    /// Creates the form with this key, or without one.
    pub(super) fn new(key: Option<&str>) -> StampForm {
        StampForm { key: key.and_then(|key| StampKey::new(key.as_bytes())) }
    }

    /// Returns the bytes of a packet without padding.
    pub(super) fn base_len(&self) -> usize {
        self.layout().len
    }

    fn layout(&self) -> &'static Layout {
        Layout::of(self.key.as_ref())
    }

    /// Writes a packet into the start of `packet`, of `len` bytes in all or the least that it needs; returns its length.
    pub(super) fn write(&self, number: u32, session: u16, len: usize, packet: &mut [u8]) -> usize {
        let at = self.layout();
        let len = len.max(at.len);
        let packet = &mut packet[..len];
        packet.fill(0);
        packet[..4].copy_from_slice(&number.to_be_bytes());
        let now = written(Realtime.now().0, false);
        packet[at.time..at.time + 8].copy_from_slice(&now.to_be_bytes());
        packet[at.error..at.error + 2].copy_from_slice(&ERROR.to_be_bytes());
        packet[at.session..at.session + 2].copy_from_slice(&session.to_be_bytes());
        if let Some(padding) = len.checked_sub(at.len + EXTENSION_HEAD) {
            packet[at.len + 1] = EXTRA_PADDING;
            packet[at.len + 2..at.len + 4].copy_from_slice(&(padding as u16).to_be_bytes());
        }
        if let Some(key) = &self.key {
            key.seal(packet);
        }
        len
    }

    /// Reads a reply of this session; `None` if the packet is none, or has a wrong code.
    pub(super) fn read(&self, session: u16, packet: &[u8]) -> Option<StampReply> {
        let at = self.layout();
        let is_sealed = self.key.as_ref().is_none_or(|key| key.is_right(packet));
        if packet.len() < at.least || !is_sealed {
            return None;
        }
        // A reflector of RFC 8762 alone, or of TWAMP, has zeros in its place.
        if ![0, session].contains(&u16::from_be_bytes(read_bytes(packet, at.session))) {
            return None;
        }
        let error = u16::from_be_bytes(read_bytes(packet, at.error));
        let times = time(packet, at.arrival, error).zip(time(packet, at.time, error));
        let (received_ns, sent_ns) = times.unwrap_or_default();
        let clock = times.map_or(ReflectorClock::Unsaid, |_| clock(error));
        let [number, own_number] =
            [at.number, 0].map(|at| u32::from_be_bytes(read_bytes(packet, at)));
        Some(StampReply { number, own_number, received_ns, sent_ns, clock })
    }
}

/// Returns a reflector's time in nanoseconds since 1970; `None` if it is none.
fn time(packet: &[u8], at: usize, error: u16) -> Option<u64> {
    let field = u64::from_be_bytes(read_bytes(packet, at));
    // A multiplier of 0 is of no clock (RFC 4656, 4.1.2).
    let is_none = error & 0xff == 0 || field == 0;
    nanos(field, error & IS_PTP != 0).filter(|_| !is_none)
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
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// Returns what a reflector answers: with this number, times in nanoseconds as PTP has them, and this error.
    pub(in crate::stamp) fn reflect(
        form: &StampForm,
        packet: &[u8],
        (number, error): (u32, u16),
        times: [u64; 2],
    ) -> Vec<u8> {
        let (at, mut reply) = (form.layout(), packet.to_vec());
        let own = &packet[..4];
        reply[at.number..at.number + 4].copy_from_slice(own);
        reply[..4].copy_from_slice(&number.to_be_bytes());
        reply[at.error..at.error + 2].copy_from_slice(&error.to_be_bytes());
        for (place, ns) in [at.arrival, at.time].into_iter().zip(times) {
            reply[place..place + 8].copy_from_slice(&written(ns, true).to_be_bytes());
        }
        if let Some(key) = &form.key {
            key.seal(&mut reply);
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
            for cut in 0..form.layout().least {
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

    #[test]
    fn times_of_no_clock_are_none() {
        let of = |field: u64, error| time(&field.to_be_bytes(), 0, error);
        assert_eq!(of(3 << 32 | 500, IS_PTP | 1), Some(3_000_000_500));
        assert_eq!([of(0, 1), of(3 << 32 | 3, IS_PTP)], [None; 2]);
        let now = of(written(Realtime.now().0, false), ERROR).unwrap() / 1_000_000_000;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(unix) <= 1);
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

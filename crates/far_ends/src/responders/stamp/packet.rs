//! Packets of STAMP, as a reflector turns them into replies.

use crate::stamp::layout::{IS_PTP, IS_SYNCHRONISED, Layout, read_bytes, written};

/// Largest error that the field can say: for a clock that nobody compared.
const LARGEST_ERROR: u16 = 0x3fff;

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

/// Returns the time in a packet that would be one of this host's, were the packet the reply of another reflector.
pub(super) fn returned_time(at: &Layout, packet: &[u8]) -> u64 {
    u64::from_be_bytes(read_bytes(packet, at.its_time))
}

/// Returns the number of the session.
pub(super) fn session(at: &Layout, packet: &[u8]) -> u16 {
    u16::from_be_bytes(read_bytes(packet, at.session))
}

/// Returns true if the packet has zeros behind the session number, as a sender of STAMP writes them.
pub(super) fn has_zeros(at: &Layout, packet: &[u8]) -> bool {
    packet.get(at.arrival..at.len).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

/// Makes a packet its reply, up to the times; `own` is the reply's number, the sender's where it is `None`. The TTL is the
/// packet's, and the session number stays if it has one.
pub(super) fn turn(
    at: &Layout,
    packet: &mut [u8],
    own: Option<u32>,
    (ttl, has_session): (u8, bool),
) {
    let number: [u8; 4] = read_bytes(packet, 0);
    let time: [u8; 8] = read_bytes(packet, at.time);
    let error: [u8; 2] = read_bytes(packet, at.error);
    let session: [u8; 2] = if has_session { read_bytes(packet, at.session) } else { [0; 2] };
    let end = at.len.min(packet.len());
    packet[..end].fill(0);
    let own = own.map_or(number, u32::to_be_bytes);
    for (place, field) in [
        (0, &own[..]),
        (at.error, &error),
        (at.session, &session),
        (at.number, &number),
        (at.its_time, &time),
        (at.its_error, &error),
        (at.ttl, &[ttl]),
    ] {
        packet[place..place + field.len()].copy_from_slice(field);
    }
}

/// Writes the times of arrival and of sending into a reply, in the format of its packet, and the error of the clock; returns
/// the time of sending as written.
pub(super) fn stamp(
    at: &Layout,
    packet: &mut [u8],
    [arrived, now]: [u64; 2],
    error: ClockError,
) -> u64 {
    let is_ptp = u16::from_be_bytes(read_bytes(packet, at.its_error)) & IS_PTP != 0;
    let field = error.field() & !IS_PTP | if is_ptp { IS_PTP } else { 0 };
    packet[at.error..at.error + 2].copy_from_slice(&field.to_be_bytes());
    let time = written(now, is_ptp);
    for (place, time) in [(at.arrival, written(arrived, is_ptp)), (at.time, time)] {
        packet[place..place + 8].copy_from_slice(&time.to_be_bytes());
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::layout::OPEN;

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
        turn(&OPEN, &mut packet, Some(1), (64, true));
        stamp(&OPEN, &mut packet, [3 * SECOND + 5, 4 * SECOND + 6], ClockError::AtMost(1));
        assert_eq!(packet[4..13], [0, 0, 0, 4, 0, 0, 0, 6, 0xc0]);
        assert_eq!(packet[16..24], [0, 0, 0, 3, 0, 0, 0, 5]);
    }
}

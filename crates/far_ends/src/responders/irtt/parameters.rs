//! Parameters that the server allows, and the fields of its replies that they ask for. A client of irtt without `--loose` goes on
//! only if they are all that it asked for.

use super::request::{IrttStamps, RequestVerdict};
use crate::irtt::parameters::{IrttParameters, ServerFill, VERSION};
use deadheat_base::time::Nanos;

/// Shortest interval, longest interval and longest packet.
pub(super) const INTERVAL: i64 = 10_000_000;
const LONGEST_INTERVAL: i64 = 15_000_000_000;
const LONGEST_PACKET: i64 = 1_472;

/// Bits of the counts: of all requests, and the window of the last 64.
const COUNT: i64 = 1;
const WINDOW: i64 = 2;

/// Times: of sending, of arrival, and one between both.
const AT_SEND: i64 = 1;
const AT_ARRIVAL: i64 = 2;
const AT_MIDPOINT: i64 = 4;

/// Clocks: of the day, and monotonic.
const CLOCK_WALL: i64 = 1;
const CLOCK_MONOTONIC: i64 = 2;

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct IrttLimits {
    pub(super) duration: Nanos,
}

impl IrttParameters {
    /// Reads the parameters of a client. `None` if they are cut off, or make no sense.
    pub(super) fn sound(packet: &[u8]) -> Option<IrttParameters> {
        IrttParameters::read(packet).filter(IrttParameters::is_sound)
    }

    fn is_sound(&self) -> bool {
        self.duration_ns > 0
            && self.interval_ns > 0
            && self.len >= 0
            && (0..=COUNT | WINDOW).contains(&self.counts)
            && (0..=AT_MIDPOINT).contains(&self.stamp_at)
            && (0..=CLOCK_WALL | CLOCK_MONOTONIC).contains(&self.clock)
            && (0..=255).contains(&self.dscp)
    }

    /// Returns true if this is the version of the protocol that the server speaks.
    pub(super) fn is_understood(&self) -> bool {
        self.version == VERSION
    }

    /// Returns the parameters as a server allows them.
    pub(super) fn within(self, limits: &IrttLimits) -> IrttParameters {
        let longest = i64::try_from(limits.duration.0).unwrap_or(i64::MAX);
        IrttParameters {
            version: VERSION,
            duration_ns: self.duration_ns.min(longest),
            interval_ns: self.interval_ns.clamp(INTERVAL, LONGEST_INTERVAL),
            len: self.len.min(LONGEST_PACKET),
            fill: match self.fill {
                ServerFill::Other => ServerFill::None,
                fill => fill,
            },
            ..self
        }
    }

    /// Returns the bytes of a packet, at most those that were agreed on.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(0)
    }

    /// Returns the TOS byte or traffic class of replies, if the client asks for one.
    pub(super) fn field(&self) -> Option<u8> {
        u8::try_from(self.dscp).ok().filter(|field| *field != 0)
    }

    /// Returns the bytes of the fields behind the number of a reply.
    pub(super) fn fields_len(&self) -> usize {
        self.counts_len() + self.times().len() * 8
    }

    fn counts_len(&self) -> usize {
        let has = |bit| usize::from(self.counts & bit != 0);
        4 * has(COUNT) + 8 * has(WINDOW)
    }

    /// Writes the counts behind the number of a reply.
    pub(super) fn write_counts(&self, verdict: &RequestVerdict, fields: &mut [u8]) {
        let mut at = 0;
        if self.counts & COUNT != 0 {
            fields[..4].copy_from_slice(&verdict.count.to_le_bytes());
            at = 4;
        }
        if self.counts & WINDOW != 0 {
            fields[at..at + 8].copy_from_slice(&verdict.window.to_le_bytes());
        }
    }

    /// Writes the times behind the counts of a reply.
    pub(super) fn write_times(&self, stamps: &IrttStamps, fields: &mut [u8]) {
        let places = fields[self.counts_len()..].chunks_exact_mut(8);
        for (place, time) in places.zip(self.times()) {
            place.copy_from_slice(&time(stamps).to_le_bytes());
        }
    }

    /// Returns the times of a reply, in their order.
    fn times(&self) -> Vec<fn(&IrttStamps) -> i64> {
        let clocks = |wall: fn(&IrttStamps) -> i64, steady: fn(&IrttStamps) -> i64| {
            let both = [(CLOCK_WALL, wall), (CLOCK_MONOTONIC, steady)];
            both.into_iter().filter(|(bit, _)| self.clock & bit != 0).map(|(_, time)| time)
        };
        let mut times: Vec<fn(&IrttStamps) -> i64> = Vec::new();
        if self.stamp_at == AT_MIDPOINT {
            times.extend(clocks(|s| middle(s, 0), |s| middle(s, 1)));
            return times;
        }
        if self.stamp_at & AT_ARRIVAL != 0 {
            times.extend(clocks(|s| s.arrived[0], |s| s.arrived[1]));
        }
        if self.stamp_at & AT_SEND != 0 {
            times.extend(clocks(|s| s.left[0], |s| s.left[1]));
        }
        times
    }
}

fn middle(stamps: &IrttStamps, clock: usize) -> i64 {
    let (arrived, left) = (stamps.arrived[clock], stamps.left[clock]);
    arrived + (left - arrived) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_an_unsound_client_are_refused() {
        let sound = [1, 2, 2, 2, 3, 2];
        assert!(IrttParameters::sound(&sound).is_some());
        for wrong in [
            &[4, 1][..],
            &[5, 8],
            &[6, 10],
            &[7, 8],
            &[8, 1],
            &[2, 1],
            &[9, 40],
            &[9, 4, b'n'],
            &[0x80],
            &[1],
            &[0xff; 12],
        ] {
            assert_eq!(IrttParameters::sound(&[&sound[..], wrong].concat()), None, "{wrong:?}");
        }
        assert_eq!(IrttParameters::sound(&[]), None, "no duration");
    }

    #[test]
    fn fields_are_those_that_were_asked_for_in_order() {
        let stamps = IrttStamps { arrived: [1, 2], left: [5, 6] };
        let of = |counts, stamp_at, clock| {
            let sound = IrttParameters::sound(&[1, 2, 2, 2, 3, 2]).unwrap();
            let all = IrttParameters { counts, stamp_at, clock, ..sound };
            let times: Vec<i64> = all.times().iter().map(|time| time(&stamps)).collect();
            (all.fields_len(), times)
        };
        assert_eq!(of(0, 0, 3), (0, vec![]));
        assert_eq!(of(3, 3, 3), (12 + 32, vec![1, 2, 5, 6]));
        assert_eq!(of(1, 1, 2), (4 + 8, vec![6]));
        assert_eq!(of(2, 2, 1), (8 + 8, vec![1]));
        assert_eq!(of(0, 4, 3), (16, vec![3, 4]));
    }
}

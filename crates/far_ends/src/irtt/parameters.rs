//! Parameters of a test: numbers with a key in front, each as a varint of protocol buffers. The client asks for them, and the
//! reply to its open request says which of them the server allows.

use super::wire::{put, put_signed, read_parameters};
use deadheat_base::time::Nanos;
use deadheat_contract::workload::TaskInfo;

/// Version of the protocol.
pub(crate) const VERSION: i64 = 1;

/// Largest text of a fill.
const LARGEST_FILL: usize = 32;

/// Bit for the number of messages that the server received, in each reply.
pub(super) const RECEIVED_COUNT: i64 = 1;

/// Values of the keys for times: of receiving and of sending, on the monotonic clock.
const STAMP_BOTH: i64 = 3;
const STAMP_MIDPOINT: i64 = 4;
const CLOCK_MONOTONIC: i64 = 2;

/// Time that a connection lasts at the server beyond the work: its warm-up and the last answers.
const SPARE: Nanos = Nanos::from_secs(5);

/// Fill of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ServerFill {
    /// Not asked for: the payload of the request comes back.
    #[default]
    Unasked,
    /// The same, by its name.
    None,
    Random,
    /// A fill that our server does not have.
    Other,
}

/// Parameters that both ends agree on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct IrttParameters {
    pub(crate) version: i64,
    pub(crate) duration_ns: i64,
    pub(crate) interval_ns: i64,
    /// Bytes of a packet; 0 for no more than its fields take.
    pub(crate) len: i64,
    pub(crate) counts: i64,
    pub(crate) stamp_at: i64,
    pub(crate) clock: i64,
    /// TOS byte or traffic class, whatever irtt calls it.
    pub(crate) dscp: i64,
    pub(crate) fill: ServerFill,
}

impl IrttParameters {
    /// Returns the parameters for messages in packets of `len` bytes.
    pub(super) fn asked(task: &TaskInfo, len: usize) -> IrttParameters {
        let messages = task.most_bytes.unwrap_or(0) / task.largest_message.max(1) as u64;
        let planned = task.planned.unwrap_or(task.longest);
        let ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        IrttParameters {
            version: VERSION,
            duration_ns: ns((planned + SPARE).0),
            interval_ns: ns(planned.0 / messages.max(1)),
            len: len as i64,
            counts: RECEIVED_COUNT,
            stamp_at: STAMP_BOTH,
            clock: CLOCK_MONOTONIC,
            ..IrttParameters::default()
        }
    }

    /// Checks that what the server allows is enough.
    ///
    /// # Errors
    /// Returns the limit that is too narrow, with a remedy.
    pub(super) fn check(&self, allowed: &IrttParameters) -> Result<(), String> {
        let span = |ns: i64| Nanos(ns.max(0) as u64);
        if allowed.version != self.version {
            let (own, its) = (self.version, allowed.version);
            return Err(format!(
                "it speaks version {its} of its protocol, and this is version {own}"
            ));
        }
        if allowed.interval_ns > self.interval_ns {
            return Err(format!(
                "its operator allows a message every {}, and this work has one every {}; give interval={}ms, or more",
                span(allowed.interval_ns),
                span(self.interval_ns),
                allowed.interval_ns.unsigned_abs().div_ceil(1_000_000)
            ));
        }
        if allowed.len < self.len {
            return Err(format!(
                "its operator allows packets of {} bytes, and this work has {}; give a smaller size",
                allowed.len, self.len
            ));
        }
        if allowed.duration_ns < self.duration_ns {
            return Err(format!(
                "its operator allows tests of {}, and a trial takes {}; give fewer messages",
                span(allowed.duration_ns),
                span(self.duration_ns)
            ));
        }
        // Times and counts may be missing, as its operator likes, and none may come that was not asked for.
        let asks = |own: i64, its: i64| its & !own == 0;
        let midpoint = allowed.stamp_at == STAMP_MIDPOINT;
        let known = asks(self.counts, allowed.counts)
            && (midpoint || asks(self.stamp_at, allowed.stamp_at))
            && (allowed.clock == self.clock || allowed.stamp_at == 0);
        if known {
            Ok(())
        } else {
            Err("its replies would have fields that were not asked for".to_owned())
        }
    }

    /// Appends the parameters to a packet. A parameter that is 0 is left out, as irtt leaves it out.
    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        let all = [
            self.version,
            self.duration_ns,
            self.interval_ns,
            self.len,
            self.counts,
            self.stamp_at,
            self.clock,
            self.dscp,
        ];
        for (key, value) in (1..).zip(all).filter(|(_, value)| *value != 0) {
            put_signed(into, key, value);
        }
        let fill: &[u8] = match self.fill {
            ServerFill::Unasked => return,
            ServerFill::None => b"none",
            ServerFill::Random => b"rand",
            ServerFill::Other => b"pattern:00",
        };
        put(into, 9);
        put(into, fill.len() as u64);
        into.extend(fill);
    }

    /// Reads the parameters of a peer; unknown ones are skipped. `None` if they are cut off.
    pub(crate) fn read(packet: &[u8]) -> Option<IrttParameters> {
        let (numbers, fill) = read_parameters(packet)?;
        let [version, duration_ns, interval_ns, len, counts, stamp_at, clock, dscp] = numbers;
        let fill = match fill {
            b"" => ServerFill::Unasked,
            b"none" => ServerFill::None,
            b"rand" => ServerFill::Random,
            _ if fill.len() > LARGEST_FILL => return None,
            _ => ServerFill::Other,
        };
        Some(IrttParameters {
            version,
            duration_ns,
            interval_ns,
            len,
            counts,
            stamp_at,
            clock,
            dscp,
            fill,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> IrttParameters {
        let task = TaskInfo {
            planned: Some(Nanos::from_secs(2)),
            largest_message: 64,
            most_bytes: Some(6_400),
            ..TaskInfo::default()
        };
        IrttParameters::asked(&task, 96)
    }

    #[test]
    fn parameters_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        asked().write(&mut bytes);
        assert_eq!(IrttParameters::read(&bytes), Some(asked()));
        assert_eq!(asked().interval_ns, 20_000_000);
        assert_eq!(IrttParameters::read(&bytes[..bytes.len() - 1]), None);
        // DSCP, and a fill of three bytes.
        bytes.extend_from_slice(&[8, 2, 9, 3, 1, 2, 3]);
        let more = IrttParameters { dscp: 1, fill: ServerFill::Other, ..asked() };
        assert_eq!(IrttParameters::read(&bytes), Some(more));
        assert_eq!(IrttParameters::read(&[1; 1]), None);
        assert_eq!(IrttParameters::read(&[0xff; 20]), None);
        assert_eq!(IrttParameters::read(&[9, 100, 1]), None);
    }

    #[test]
    fn limits_that_are_too_narrow_are_named_with_a_remedy() {
        let refused = |change: fn(&mut IrttParameters)| {
            let mut allowed = asked();
            change(&mut allowed);
            asked().check(&allowed).unwrap_err()
        };
        assert_eq!(asked().check(&asked()), Ok(()));
        assert!(refused(|p| p.interval_ns = 100_000_000).contains("give interval=100ms"));
        assert!(refused(|p| p.len = 10).contains("a smaller size"));
        assert!(refused(|p| p.duration_ns = 1).contains("fewer messages"));
        assert!(refused(|p| p.clock = 3).contains("not asked for"));
        assert!(refused(|p| p.counts = 3).contains("not asked for"));
        for (stamp_at, counts) in [(0, 1), (4, 1), (1, 0), (3, 0)] {
            let allowed = IrttParameters { stamp_at, counts, ..asked() };
            assert_eq!(asked().check(&allowed), Ok(()), "{stamp_at} {counts}");
        }
        assert!(refused(|p| p.version = 2).contains("version 2"));
    }
}

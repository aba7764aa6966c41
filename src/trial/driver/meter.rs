//! Holds a trial to what a server allows: a token bucket for each direction, a sum of bytes, a time.
//!
//! The bucket is looked at after each call that moves data, so what goes beyond a limit is at most one
//! burst ([`BURST`]) and one call. It is kept as in the generic cell rate algorithm (ITU-T I.371): not the
//! tokens are counted but the time at which all bytes so far would have passed at the allowed rate.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::units::{BitRate, Bytes};
use crate::workload::Endpoint;

use super::super::control::Limits;

/// Time by which a direction may be ahead of its rate: so much time at the rate may pass at once.
pub const BURST: Nanos = Nanos::from_millis(100);

/// Time that setting up and ending may take on top of the allowed duration.
const GRACE: Nanos = Nanos::from_secs(10);

/// Holds all flows of a trial together to a server's limits.
#[derive(Debug)]
pub struct Meter {
    limits: Limits,
    began: Nanos,
    ways: Mutex<[DirectionMeter; 2]>,
}

/// Direction under a limit: sent, or received.
#[derive(Debug, Clone, Copy, Default)]
struct DirectionMeter {
    bytes: u64,
    /// Time at which all of it would have passed at the allowed rate.
    due: Nanos,
}

/// Share of one flow in a [`Meter`].
pub(in super::super) struct Metering {
    meter: Arc<Meter>,
    last: Nanos,
    seen: [u64; 2],
}

/// Returns the time that `bytes` take at `rate`.
pub fn time_at(rate: BitRate, bytes: u64) -> Nanos {
    Nanos((bytes as f64 * 8e9 / rate.0.max(1) as f64) as u64)
}

/// Returns the number of bytes that pass in `span` at `rate`.
pub fn bytes_in(rate: BitRate, span: Nanos) -> u64 {
    (rate.0 as f64 * span.0 as f64 / 8e9) as u64
}

impl Meter {
    /// Creates a meter for a trial that begins at `now`.
    pub fn new(limits: Limits, now: Nanos) -> Meter {
        let way = DirectionMeter { bytes: 0, due: now };
        Meter { limits, began: now, ways: Mutex::new([way; 2]) }
    }

    /// Adds `more` bytes, sent and received between `last` and `now`.
    fn add(&self, last: Nanos, now: Nanos, more: [u64; 2]) -> Result<()> {
        let limits = &self.limits;
        if now - self.began > limits.duration_ns + GRACE {
            return Err(over(&format!("a trial may last {}", limits.duration_ns)));
        }
        if more == [0; 2] {
            return Ok(());
        }
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        for (way, more) in ways.iter_mut().zip(more) {
            way.bytes += more;
            // A call that took long carried its bytes all the while, and not at its end.
            way.due = way.due.max(last) + time_at(limits.rate_bps, more);
            if way.bytes > limits.bytes {
                return Err(over(&format!(
                    "a trial may carry {} per direction; its operator can raise --max-bytes",
                    Bytes(limits.bytes)
                )));
            }
            if way.due > now + BURST {
                return Err(over(&format!(
                    "a trial may run at {} per direction, and this one went beyond it; its operator can \
                     raise --max-rate",
                    limits.rate_bps
                )));
            }
        }
        Ok(())
    }
}

impl Metering {
    /// Creates a flow that begins at `now`.
    pub(super) fn new(meter: Arc<Meter>, now: Nanos) -> Metering {
        Metering { meter, last: now, seen: [0; 2] }
    }

    /// Adds what the flow carried since the last look.
    ///
    /// # Errors
    /// The limit that was passed.
    #[inline]
    pub(super) fn check(&mut self, now: Nanos, half: &mut dyn Endpoint) -> Result<()> {
        let standing = half.standing(now);
        let carried = [standing.sent.bytes, standing.received.bytes];
        let more = [carried[0] - self.seen[0], carried[1] - self.seen[1]];
        self.seen = carried;
        let last = std::mem::replace(&mut self.last, now);
        self.meter.add(last, now, more)
    }
}

/// Returns the error of a limit that was passed, which concerns this contender only; the race can
/// go on with the others.
fn over(what: &str) -> Error {
    Error::blocked(format!("the server's limits end it: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Mbit/s: 125 kB are a burst, 1.25 MB a second.
    fn meter(bytes: u64) -> Meter {
        let limits = Limits {
            duration_ns: Nanos::from_secs(5),
            bytes,
            rate_bps: BitRate(10_000_000),
            concurrent: 1,
        };
        Meter::new(limits, Nanos::ZERO)
    }

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn time_and_bytes_are_each_others_inverse() {
        assert_eq!(time_at(BitRate(10_000_000), 125_000), BURST);
        assert_eq!(bytes_in(BitRate(10_000_000), BURST), 125_000);
        assert_eq!(time_at(BitRate(0), 1), Nanos::from_secs(8));
    }

    #[test]
    fn a_burst_passes_and_not_a_byte_more() {
        let meter = meter(1 << 40);
        meter.add(ms(0), ms(0), [125_000, 0]).unwrap();
        let why = meter.add(ms(0), ms(0), [1_000, 0]).unwrap_err().to_string();
        assert!(why.contains("10.0 Mbit/s") && why.contains("--max-rate"), "{why}");
    }

    #[test]
    fn directions_have_a_bucket_each() {
        let meter = meter(1 << 40);
        meter.add(ms(0), ms(0), [125_000, 125_000]).unwrap();
        assert!(meter.add(ms(0), ms(50), [0, 125_000]).is_err());
    }

    #[test]
    fn the_allowed_rate_runs_for_ever_in_calls_of_any_length() {
        for call in [1, 40, 400] {
            let meter = meter(1 << 40);
            for at in (0..4_000).step_by(call) {
                let (from, to) = (ms(at as u64), ms((at + call) as u64));
                meter.add(from, to, [call as u64 * 1_250, 0]).unwrap();
            }
        }
    }

    /// Idle time saves no more than a burst.
    #[test]
    fn who_waits_gets_no_credit() {
        let meter = meter(1 << 40);
        for at in 0..100 {
            meter.add(ms(10 * at), ms(10 * at + 10), [0; 2]).unwrap();
        }
        assert!(meter.add(ms(1_000), ms(1_000), [126_000, 0]).is_err());
    }

    #[test]
    fn bytes_and_time_end_it_too() {
        let sum = meter(20_000);
        sum.add(ms(0), ms(1), [20_000, 0]).unwrap();
        let why = sum.add(ms(1), ms(2), [1, 0]).unwrap_err().to_string();
        assert!(why.contains("20.0 kB") && why.contains("--max-bytes"), "{why}");
        let why = meter(1).add(ms(0), ms(15_001), [0; 2]).unwrap_err().to_string();
        assert!(why.contains("may last 5"), "{why}");
    }
}

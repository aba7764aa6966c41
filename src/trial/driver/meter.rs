//! Holds a trial to what a server allows.

use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::workload::Half;

use super::super::control::Limits;

/// Holds all flows of a trial together to a server's limits.
#[derive(Debug)]
pub struct Meter {
    limits: Limits,
    state: Mutex<Metered>,
}

#[derive(Debug)]
struct Metered {
    start: Nanos,
    window: Nanos,
    /// Sent and received, all flows, so far and when the window began.
    bytes: [u64; 2],
    before: [u64; 2],
}

/// One flow's part in a [`Meter`].
pub(in super::super) struct Metering {
    meter: Arc<Meter>,
    next_look: Nanos,
    seen: [u64; 2],
}

/// How often a flow adds what it carried.
const LOOK_EVERY: Nanos = Nanos::from_millis(250);
/// Over how long a rate is taken.
const WINDOW: Nanos = Nanos::from_secs(1);
/// What setting up and ending may take on top of the allowed duration.
const GRACE: Nanos = Nanos::from_secs(10);

impl Meter {
    /// A meter for a trial that begins at `now`.
    pub fn new(limits: Limits, now: Nanos) -> Meter {
        let state = Metered { start: now, window: now, bytes: [0; 2], before: [0; 2] };
        Meter { limits, state: Mutex::new(state) }
    }

    fn add(&self, now: Nanos, more: [u64; 2]) -> Result<()> {
        let Ok(mut state) = self.state.lock() else { return Ok(()) };
        for (sum, more) in state.bytes.iter_mut().zip(more) {
            *sum += more;
        }
        let limits = &self.limits;
        if now - state.start > limits.duration_ns + GRACE {
            return Err(over(&format!("a trial may last {}", limits.duration_ns)));
        }
        if state.bytes.iter().any(|bytes| *bytes > limits.bytes) {
            return Err(over(&format!(
                "a trial may carry {} per direction; its operator can raise --max-bytes",
                crate::units::Bytes(limits.bytes)
            )));
        }
        let span = now - state.window;
        if span < WINDOW {
            return Ok(());
        }
        let moved = (0..2).map(|way| state.bytes[way] - state.before[way]).max().unwrap_or(0);
        let rate = crate::units::BitRate((moved as f64 * 8.0 / span.as_secs_f64()) as u64);
        (state.window, state.before) = (now, state.bytes);
        if rate > limits.rate_bps {
            return Err(over(&format!(
                "a trial may run at {} per direction, and this one ran at {rate}; its operator can \
                 raise --max-rate",
                limits.rate_bps
            )));
        }
        Ok(())
    }
}

impl Metering {
    /// A flow that begins at `now`.
    pub(super) fn new(meter: Arc<Meter>, now: Nanos) -> Metering {
        Metering { meter, next_look: now + LOOK_EVERY, seen: [0; 2] }
    }

    #[inline]
    pub(super) fn check(&mut self, now: Nanos, half: &mut dyn Half) -> Result<()> {
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK_EVERY;
        let standing = half.standing(now);
        let carried = [standing.sent.bytes, standing.received.bytes];
        let more = [carried[0] - self.seen[0], carried[1] - self.seen[1]];
        self.seen = carried;
        self.meter.add(now, more)
    }
}

/// A limit concerns this contender only; the race can go on with the others.
fn over(what: &str) -> Error {
    Error::blocked(format!("the server's limits end it: {what}"))
}

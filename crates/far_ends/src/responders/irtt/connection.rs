//! Connection of an irtt client, as the server sees it: its pace, its time, and what arrived.

use std::net::SocketAddr;

use super::parameters::{INTERVAL, IrttLimits};
use super::request::{RequestVerdict, waited};
use crate::irtt::parameters::IrttParameters;
use deadheat_base::time::Nanos;

/// Number of requests that may come at once.
const BURST: f64 = 5.0;

/// Time beyond the longest duration after which a connection is ended.
const GRACE: Nanos = Nanos::from_secs(2);

/// Connection.
#[derive(Debug)]
pub(super) struct IrttConnection {
    pub(super) peer: SocketAddr,
    pub(super) parameters: IrttParameters,
    longest: Nanos,
    /// Time of the first request, and of the last.
    used: Option<(Nanos, Nanos)>,
    /// Number of requests that it may send now.
    allowance: f64,
    count: u32,
    last: Option<u32>,
    /// Requests before the last one that arrived, by bit: the lowest is the last one itself.
    window: u64,
}

impl IrttConnection {
    pub(super) fn new(
        peer: SocketAddr,
        parameters: IrttParameters,
        limits: &IrttLimits,
    ) -> IrttConnection {
        IrttConnection {
            peer,
            parameters,
            longest: limits.duration,
            used: None,
            allowance: BURST,
            count: 0,
            last: None,
            window: 0,
        }
    }

    /// Notes the request `number`, which arrived at the host at `arrival`; `None` if it came too soon.
    pub(super) fn request(&mut self, number: u32, arrival: Nanos) -> Option<RequestVerdict> {
        let (first, last) = self.used.unwrap_or((arrival, arrival));
        let now = arrival.max(last);
        self.used = Some((first, now));
        let earned = (now - last).0 as f64 / INTERVAL as f64;
        self.allowance = (self.allowance + earned).min(BURST);
        if self.allowance < 1.0 {
            return None;
        }
        self.allowance -= 1.0;
        self.count = self.count.wrapping_add(1);
        let ahead = number.wrapping_sub(self.last.unwrap_or(number.wrapping_sub(1))) as i32;
        if ahead >= 0 {
            self.window = self.window.checked_shl(ahead.unsigned_abs()).unwrap_or(0) | 1;
            self.last = Some(number);
        } else {
            self.window |= 1_u64.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
        }
        let window = if ahead >= 0 { self.window } else { 0 };
        Some(RequestVerdict {
            count: self.count,
            window,
            is_last: now - first > self.longest + GRACE,
        })
    }
}

/// Returns the time of a request that arrived at the kernel at `at_ns` by the clock of the day, on the steady clock. A pace
/// is judged by it: a busy host may let many requests wait, and then has them all at once.
pub(super) fn arrival(at_ns: Option<u64>, steady: Nanos, wall: Nanos) -> Nanos {
    steady - waited(at_ns, wall)
}

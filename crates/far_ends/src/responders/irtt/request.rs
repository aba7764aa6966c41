//! Request as the server saw it: its place among the others, and its times.

use deadheat_base::time::Nanos;

/// Verdict on a request that is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestVerdict {
    pub(super) count: u32,
    /// Requests that arrived, by bit from this one on; 0 if this one came late.
    pub(super) window: u64,
    /// True if the time of the connection is up.
    pub(super) is_last: bool,
}

/// Times of a reply, each by the clock of the day and by the monotonic one, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct IrttStamps {
    pub(super) arrived: [i64; 2],
    pub(super) left: [i64; 2],
}

impl IrttStamps {
    /// Returns the times of a request that arrived at the kernel at `at_ns`, and is answered now.
    pub(super) fn now(at_ns: Option<u64>, steady: Nanos, wall: Nanos) -> IrttStamps {
        let signed = |time: Nanos| i64::try_from(time.0).unwrap_or(i64::MAX);
        // The kernel's time is of the day; the same while ago on the other clock.
        let ago = waited(at_ns, wall);
        IrttStamps {
            arrived: [signed(wall - ago), signed(steady - ago)],
            left: [signed(wall), signed(steady)],
        }
    }
}

/// Returns the time since a request arrived at the kernel at `at_ns`, by the clock of the day.
pub(super) fn waited(at_ns: Option<u64>, wall: Nanos) -> Nanos {
    at_ns.map_or(Nanos::ZERO, |at| wall - Nanos(at))
}

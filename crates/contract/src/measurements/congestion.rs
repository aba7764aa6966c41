//! Phases of congestion control, and their changes over time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Phase of a sender's congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CongestionPhase {
    /// Slow start (RFC 5681): the window is below its threshold.
    SlowStart,
    /// Congestion avoidance.
    Avoidance,
    /// Reduction of the window after a mark or a local drop (`TCP_CA_CWR` of linux/tcp.h).
    Reduction,
    /// Fast recovery after a loss (RFC 6675; `TCP_CA_Recovery`).
    Recovery,
    /// Recovery after a retransmission timeout (`TCP_CA_Loss`).
    Timeout,
    /// BBR: the rate doubles in each round trip.
    Startup,
    /// BBR: the queue that start-up has built drains.
    Drain,
    /// BBR: the rate cycles around the estimated bandwidth.
    ProbeBandwidth,
    /// BBR: few packets are in flight, for a new minimum of the round trip.
    ProbeRoundTrip,
}

impl CongestionPhase {
    /// Returns its name in files: `slow_start`.
    pub fn name(self) -> &'static str {
        match self {
            CongestionPhase::SlowStart => "slow_start",
            CongestionPhase::Avoidance => "avoidance",
            CongestionPhase::Reduction => "reduction",
            CongestionPhase::Recovery => "recovery",
            CongestionPhase::Timeout => "timeout",
            CongestionPhase::Startup => "startup",
            CongestionPhase::Drain => "drain",
            CongestionPhase::ProbeBandwidth => "probe_bandwidth",
            CongestionPhase::ProbeRoundTrip => "probe_round_trip",
        }
    }

    /// Returns slow start or congestion avoidance, for a window and the threshold between the two.
    pub fn by_threshold(window: u64, threshold: u64) -> CongestionPhase {
        if window < threshold { CongestionPhase::SlowStart } else { CongestionPhase::Avoidance }
    }
}

impl fmt::Display for CongestionPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().replace('_', " "))
    }
}

/// Change of phase, as sampled: a phase that begins and ends between two points is not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseChange {
    /// Time of the first point in this phase, in nanoseconds after the flow's start.
    pub at_ns: u64,
    /// Phase from then on.
    pub phase: CongestionPhase,
}

/// Returns the changes in sampled phases, the first one included.
pub fn changes(samples: impl Iterator<Item = (u64, Option<CongestionPhase>)>) -> Vec<PhaseChange> {
    let mut all: Vec<PhaseChange> = Vec::new();
    for (at_ns, phase) in samples {
        let Some(phase) = phase else { continue };
        if all.last().is_none_or(|last| last.phase != phase) {
            all.push(PhaseChange { at_ns, phase });
        }
    }
    all
}

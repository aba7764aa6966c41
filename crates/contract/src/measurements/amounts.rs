//! Counts of a connection or a process: packets, marks, allocations.

use serde::{Deserialize, Serialize};

/// Returns the sum of counts without overflow: a peer may report any number.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Packets that were sent, with repeated ones, acknowledgements and handshakes, and with headers from IP's on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wire {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths in bytes, IP header included.
    pub bytes: u64,
}

impl Wire {
    /// Returns the sums of both.
    #[must_use]
    pub fn plus(self, other: Wire) -> Wire {
        Wire {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns the packets with `bytes` of payload in total, and headers of `headers` bytes each.
    #[must_use]
    pub fn behind(headers: u64, packets: u64, bytes: u64) -> Wire {
        Wire { packets, bytes: bytes.saturating_add(packets.saturating_mul(headers)) }
    }
}

/// Datagrams that arrived at one end, by their ECN codepoint (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Marks {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Datagrams with an ECN-capable codepoint, or marked.
    pub capable: u64,
    /// Datagrams that a queue had marked (CE).
    pub ce: u64,
}

impl Marks {
    /// Returns the sums of both.
    #[must_use]
    pub fn plus(self, other: Marks) -> Marks {
        Marks {
            datagrams: self.datagrams.saturating_add(other.datagrams),
            capable: self.capable.saturating_add(other.capable),
            ce: self.ce.saturating_add(other.ce),
        }
    }
}

/// Calls of an allocator, including reallocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Allocations {
    /// Number of calls.
    pub calls: u64,
    /// Sum of the sizes asked for, in bytes.
    pub bytes: u64,
}

impl Allocations {
    /// Returns the sums of both.
    #[must_use]
    pub fn plus(self, other: Allocations) -> Allocations {
        Allocations {
            calls: self.calls.saturating_add(other.calls),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}
